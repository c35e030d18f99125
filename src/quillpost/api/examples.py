"""Examples, whole again: the framework leaves every null out of a description, those of examples too."""

from collections.abc import Iterator, Mapping
from typing import Any

Json = dict[str, Any]

REFERENCE = "#/components/schemas/"


def restore_nulls(drawn: Json) -> None:
    """Put null back where an example lacks a field that is always sent and may be null."""
    schemas: Json = drawn["components"]["schemas"]
    for schema in schemas.values():
        if "examples" in schema:
            schema["examples"] = [_whole(schemas, schema, example) for example in schema["examples"]]
    for media in _answers(drawn):
        if "example" in media:
            media["example"] = _whole(schemas, media["schema"], media["example"])
        for example in media.get("examples", {}).values():
            example["value"] = _whole(schemas, media["schema"], example["value"])


def _answers(drawn: Json) -> Iterator[Json]:
    for item in drawn["paths"].values():
        for operation in item.values():
            for response in operation["responses"].values():
                yield from response.get("content", {}).values()


def _whole(schemas: Json, schema: Json, value: Any) -> Any:
    if isinstance(value, list):
        items = _choice(schemas, schema, value).get("items", {})
        return [_whole(schemas, items, each) for each in value]
    if not isinstance(value, dict):
        return value
    chosen = _choice(schemas, schema, value)
    described = chosen.get("properties", {})
    nulls = {
        name: None
        for name in chosen.get("required", ())
        if name not in value and _may_be_null(described[name])
    }
    whole = nulls | {name: _whole(schemas, described.get(name, {}), each) for name, each in value.items()}
    return {name: whole[name] for name in (*described, *whole) if name in whole}


def _choice(schemas: Json, schema: Json, value: Any) -> Json:
    """The schema behind references and alternatives that describes this object or array."""
    if "$ref" in schema:
        return _choice(schemas, schemas[schema["$ref"].removeprefix(REFERENCE)], value)
    choices = [_choice(schemas, choice, value) for choice in schema.get("anyOf", ())]
    return next((choice for choice in choices if _suits(choice, value)), schema)


def _suits(schema: Mapping[str, Any], value: Any) -> bool:
    if isinstance(value, list):
        return schema.get("type") == "array"
    return schema.get("type") == "object" and value.keys() <= schema.get("properties", value).keys()


def _may_be_null(schema: Mapping[str, Any]) -> bool:
    return {"type": "null"} in schema.get("anyOf", ())
