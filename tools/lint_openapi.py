"""Check the API's description: every operation explained, every example true, nothing loose.

    python tools/lint_openapi.py

It needs no database: the description is drawn from the routes alone. One line for each fault; exits 1
when there is one.
"""

import re
import sys
from collections.abc import Iterator
from typing import Any

import jsonschema_rs

from quillpost.web import api
from quillpost.web.api.openapi import build_description

Json = dict[str, Any]

ALWAYS = {"401", "403", "429", "503"}
WITH_BODY = {"400", "408", "409", "413", "415", "422"}
COMPONENT = "#/components/schemas/"
SAYS_WHAT_IT_IS = {"type", "$ref", "anyOf", "oneOf", "allOf", "enum", "const"}
PROSE = ("operationId", "summary", "description", "tags")
OPERATION_ID = re.compile(r"[a-z]+(_[a-z]+)*")
LONGEST_ID = 40


def description() -> Json:
    """What /openapi.json shows."""
    return build_description(api.routes)


def find_errors(described: Json) -> Iterator[str]:
    """Everything that is wrong with a description, a sentence each."""
    seen: dict[str, str] = {}
    for name, operation in operations(described):
        for error in _operation_errors(described, name, operation):
            yield f"{name}: {error}"
        if (first := seen.setdefault(operation.get("operationId", name), name)) != name:
            yield f"{name}: has the operationId of {first}"
    yield from _component_errors(described)


def operations(described: Json) -> Iterator[tuple[str, Json]]:
    for path, item in described["paths"].items():
        for method, operation in item.items():
            yield f"{method.upper()} {path}", operation


def _operation_errors(described: Json, name: str, operation: Json) -> Iterator[str]:
    yield from (f"has no {field}" for field in PROSE if not operation.get(field))
    its_id = operation.get("operationId", "")
    if its_id and not (OPERATION_ID.fullmatch(its_id) and len(its_id) <= LONGEST_ID):
        yield f"operationId {its_id} is not a short name in snake_case"
    if not operation.get("security", described.get("security")):
        yield "has no security"
    yield from _parameter_errors(described, name, operation)
    yield from _body_errors(described, operation)
    yield from _success_errors(described, operation)
    yield from _failure_errors(name, operation)


def _parameter_errors(described: Json, name: str, operation: Json) -> Iterator[str]:
    declared = operation.get("parameters", [])
    for parameter in declared:
        if not parameter.get("description"):
            yield f"parameter {parameter['name']} has no description"
        yield from _untyped(parameter["schema"], f"parameter {parameter['name']}")
        for example in _examples(parameter, parameter["schema"]):
            yield from _mismatch(described, parameter["schema"], example, f"parameter {parameter['name']}")
    in_path = {parameter["name"] for parameter in declared if parameter["in"] == "path"}
    yield from (f"path parameter {p} is not declared" for p in set(re.findall(r"{(\w+)}", name)) - in_path)


def _body_errors(described: Json, operation: Json) -> Iterator[str]:
    for kind, media in operation.get("requestBody", {}).get("content", {}).items():
        yield from _media_errors(described, media, f"request body ({kind})")


def _success_errors(described: Json, operation: Json) -> Iterator[str]:
    good = {status: answer for status, answer in operation["responses"].items() if status.startswith("2")}
    if not good:
        yield "has no answer of success"
    for status, answer in good.items():
        if not answer.get("content") and status != "204":
            yield f"answer {status} has neither a schema nor a media type"
        for kind, media in answer.get("content", {}).items():
            if kind.endswith("json"):
                yield from _media_errors(described, media, f"answer {status}")


def _media_errors(described: Json, media: Json, where: str) -> Iterator[str]:
    schema = media.get("schema")
    if not schema:
        yield f"{where} has no schema"
        return
    yield from _untyped(schema, where)
    found = list(_examples(media, _resolved(described, schema)))
    if not found:
        yield f"{where} has no example"
    for example in found:
        yield from _mismatch(described, schema, example, where)


def _failure_errors(name: str, operation: Json) -> Iterator[str]:
    expected = ALWAYS | (WITH_BODY if "requestBody" in operation else set()) | ({"404"} if "{" in name else set())
    yield from (f"does not declare {status}" for status in sorted(expected - set(operation["responses"])))
    for status, answer in operation["responses"].items():
        if status.startswith("2"):
            continue
        shape = "ValidationFailure" if status == "422" else "Failure"
        if answer.get("content") != {"application/json": {"schema": {"$ref": COMPONENT + shape}}}:
            yield f"answer {status} is not of the shape {shape}"


def _component_errors(described: Json) -> Iterator[str]:
    schemas = described["components"]["schemas"]
    used = {reference.removeprefix(COMPONENT) for reference in _references(described)}
    yield from (f"component {name}: nothing uses it" for name in sorted(schemas.keys() - used))
    yield from (f"component {name}: is used and does not exist" for name in sorted(used - schemas.keys()))
    for name, schema in schemas.items():
        yield from (f"component {name}: {error}" for error in _untyped(schema, "the schema"))
        for example in schema.get("examples", []):
            yield from _mismatch(described, schema, example, f"component {name}")


def _untyped(schema: Json, where: str) -> Iterator[str]:
    """Everything within that does not say what it is. An object's own free values may be anything."""
    if not SAYS_WHAT_IT_IS & schema.keys():
        yield f"{where} has no type"
    for name, inner in schema.get("properties", {}).items():
        yield from _untyped(inner, f"property {name}")
    if isinstance(schema.get("items"), dict) and schema["items"]:
        yield from _untyped(schema["items"], f"the items of {where}")
    for choice in (*schema.get("anyOf", ()), *schema.get("oneOf", ()), *schema.get("allOf", ())):
        yield from _untyped(choice, where)


def _examples(media: Json, schema: Json) -> Iterator[Any]:
    """Those beside the schema, those in it, and those of the alternatives that it names."""
    if "example" in media:
        yield media["example"]
    found = media.get("examples", {})
    yield from (each["value"] for each in found.values()) if isinstance(found, dict) else found
    yield from schema.get("examples", ())
    for choice in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
        yield from choice.get("examples", ())


def _resolved(described: Json, schema: Json) -> Json:
    """The schema with its own references, and those of its alternatives, followed one step."""
    if "$ref" in schema:
        found: Json = described["components"]["schemas"].get(schema["$ref"].removeprefix(COMPONENT), {})
        return _resolved(described, found)
    choices: Json = {
        word: [_resolved(described, choice) for choice in schema[word]] for word in ("anyOf", "oneOf") if word in schema
    }
    return {**schema, **choices}


def _mismatch(described: Json, schema: Json, example: Any, where: str) -> Iterator[str]:
    components = {"schemas": _behind(described["components"]["schemas"], schema)}
    whole = {"$ref": "#/wanted", "wanted": schema, "components": components}
    validator = jsonschema_rs.validator_for(whole)
    for error in validator.iter_errors(example):
        at = ".".join(map(str, error.instance_path))
        yield f"{where}: its example does not fit its schema at {at or 'the top'}: {error.message}"


def _behind(schemas: Json, schema: Json) -> Json:
    """The components that this schema is made of: handing over all of them for each example takes long."""
    found: Json = {}
    names = [reference.removeprefix(COMPONENT) for reference in _references(schema)]
    while names:
        name = names.pop()
        if name in schemas and name not in found:
            found[name] = schemas[name]
            names += [reference.removeprefix(COMPONENT) for reference in _references(schemas[name])]
    return found


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        value = list(value.values())
    if isinstance(value, list):
        for inner in value:
            yield from _references(inner)


def main() -> int:
    found = list(find_errors(description()))
    for error in found:
        print(error)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
