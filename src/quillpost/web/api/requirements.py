"""What a body must hold beyond single required fields, in the words of JSON Schema."""

from collections.abc import Sequence
from typing import Any

from quillpost.web.api.bodies import NOT_BLANK

Json = dict[str, Any]

NON_BLANK_TEXT: Json = {"type": "string", "pattern": NOT_BLANK}
URL_TEXT: Json = {"type": "string", "pattern": r"^\s*[hH][tT][tT][pP][sS]?://[^\s\u0000]"}
NON_EMPTY_ARRAY: Json = {"type": "array", "minItems": 1}
INTEGER: Json = {"type": "integer"}
BLANK_OR_NULL: Json = {"anyOf": [{"type": "null"}, {"type": "string", "pattern": r"^\s*$"}]}
EMPTY_OR_NULL: Json = {"anyOf": [{"type": "null"}, {"type": "array", "maxItems": 0}]}
NULL: Json = {"type": "null"}


def requires_fields(**fields: Json) -> Json:
    """An object with all of these, each as it is described."""
    return {"type": "object", "required": list(fields), "properties": fields}


def allows_only(fields: Json) -> Json:
    """An object in which these, where they are there, say nothing."""
    return {"type": "object", "properties": fields}


def any_of(choices: Sequence[Json]) -> Json:
    return {"anyOf": list(choices)}


def merge_objects(left: Json, right: Json) -> Json:
    return {
        "type": "object",
        "required": [*left.get("required", ()), *right.get("required", ())],
        "properties": {**left["properties"], **right["properties"]},
    }


def all_of(*requirements: Json) -> Json:
    """What is added to the schema of a body: its own fields stay what it is described by."""
    return {"allOf": list(requirements)}


def require_one_text(*names: str) -> Json:
    """At least one of these texts must say something."""
    return all_of(any_of([requires_fields(**{name: NON_BLANK_TEXT}) for name in names]))
