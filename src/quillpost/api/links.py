"""Which call a call leads to: what was made at a collection's path is read, changed and removed below it."""

import re
from collections.abc import Iterator
from typing import Any

ITEM = re.compile(r"(?P<collection>.*)/\{(?P<parameter>[^/{}]+)\}(?:/[^{}]*)?")
SENDS = re.compile(r"/api/v2/send/[^/{}]+")
ORDERS = "/api/v2/orders"


def add_links(drawn: dict[str, Any]) -> None:
    """Write OpenAPI links from every call that makes something to those that take its id in their path."""
    followers: dict[str, list[tuple[str, str]]] = {}
    for path, operation in _operations(drawn, "get", "put", "post", "delete"):
        if found := ITEM.fullmatch(path):
            step = (found["parameter"], operation["operationId"])
            followers.setdefault(found["collection"], []).append(step)
    for path, operation in _operations(drawn, "post"):
        steps = followers.get(ORDERS if SENDS.fullmatch(path) else path, [])
        made = next((operation["responses"][s] for s in ("201", "200") if s in operation["responses"]), None)
        if made is not None and steps and _has_id(drawn, _schema_of(made)):
            made["links"] = {
                name: {"operationId": name, "parameters": {parameter: "$response.body#/id"}}
                for parameter, name in steps
            }


def _schema_of(answer: dict[str, Any]) -> dict[str, Any]:
    schema: dict[str, Any] = answer.get("content", {}).get("application/json", {}).get("schema", {})
    return schema


def _has_id(drawn: dict[str, Any], schema: dict[str, Any]) -> bool:
    """Not every answer to a POST names what was made by its id."""
    if "$ref" in schema:
        return _has_id(drawn, drawn["components"]["schemas"][schema["$ref"].rpartition("/")[2]])
    choices = schema.get("anyOf", ())
    return "id" in schema.get("properties", ()) or any(_has_id(drawn, choice) for choice in choices)


def _operations(drawn: dict[str, Any], *methods: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, item in drawn["paths"].items():
        for method in methods:
            if method in item:
                yield path, item[method]
