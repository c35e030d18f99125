"""What a body must hold beyond single required fields, in the words of JSON Schema."""

from collections.abc import Sequence
from typing import Any

from quillpost.web.api.bodies import NOT_BLANK

Json = dict[str, Any]

SAYS_SOMETHING: Json = {"type": "string", "pattern": NOT_BLANK}
URL: Json = {"type": "string", "pattern": r"^\s*[hH][tT][tT][pP][sS]?://[^\s\u0000]"}
SOME: Json = {"type": "array", "minItems": 1}
ID: Json = {"type": "integer"}
SAYS_NOTHING: Json = {"anyOf": [{"type": "null"}, {"type": "string", "pattern": r"^\s*$"}]}
NONE: Json = {"anyOf": [{"type": "null"}, {"type": "array", "maxItems": 0}]}
NULL: Json = {"type": "null"}


def has(**fields: Json) -> Json:
    """An object with all of these, each as it is described."""
    return {"type": "object", "required": list(fields), "properties": fields}


def is_without(fields: Json) -> Json:
    """An object in which these, where they are there, say nothing."""
    return {"type": "object", "properties": fields}


def any_of(choices: Sequence[Json]) -> Json:
    return {"anyOf": list(choices)}


def both(one: Json, other: Json) -> Json:
    return {
        "type": "object",
        "required": [*one.get("required", ()), *other.get("required", ())],
        "properties": {**one["properties"], **other["properties"]},
    }


def all_of(*requirements: Json) -> Json:
    """What is added to the schema of a body: its own fields stay what it is described by."""
    return {"allOf": list(requirements)}


def one_of_texts(*names: str) -> Json:
    """At least one of these texts must say something."""
    return all_of(any_of([has(**{name: SAYS_SOMETHING}) for name in names]))
