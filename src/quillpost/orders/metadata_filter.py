"""Orders by what is in their metadata: `metadata[key]=value`, or inside an object `metadata[a][b]=value`."""

import re
from collections.abc import Iterable

from quillpost.kit import exact_json
from quillpost.kit.errors import Invalid

MOST = 10
DEEPEST = 20
NAME = re.compile(r"metadata((?:\[[^\[\]]+\])+)")
# No longer than what the index holds: a number beyond that is text to it.
NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,999})(?:\.[0-9]{1,999})?(?:[eE][+-]?[0-9]{1,4})?")
LITERALS = ("true", "false", "null")

Alternatives = tuple[str, ...]
"""JSON objects; an order is wanted whose metadata contains one of them."""


def read_filters(query: Iterable[tuple[str, str]]) -> tuple[Alternatives, ...]:
    """Every filter by metadata in a query string, or `Invalid` with all that is wrong about them."""
    given = [(name, value) for name, value in query if name.partition("[")[0] == "metadata"]
    faults = {name: [fault] for name, value in given if (fault := _fault(name, value))}
    if len(given) > MOST:
        faults["metadata"] = [f"At most {MOST} filters by metadata, please."]
    if faults:
        raise Invalid(faults)
    return tuple(_alternatives(name, value) for name, value in given)


def _fault(name: str, value: str) -> str | None:
    keys = NAME.fullmatch(name)
    if keys is None:
        return "Write metadata[key]=value, or metadata[outer][inner]=value."
    if keys[1].count("[") > DEEPEST:
        return f"At most {DEEPEST} keys in one another, please."
    if "\x00" in name + value:
        return "This text holds a NUL character, which no filter finds."
    return None


def _alternatives(name: str, value: str) -> Alternatives:
    """A query string is all text: `5` may have been written as the text or as the number."""
    readings = [exact_json.write(value)]
    if value in LITERALS or NUMBER.fullmatch(value):
        readings.append(value)
    keys = name.removeprefix("metadata[").removesuffix("]").split("][")
    opening = "".join(f"{{{exact_json.write(key)}:" for key in keys)
    return tuple(opening + reading + "}" * len(keys) for reading in readings)
