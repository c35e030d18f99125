"""Where the rows begin in an object around them: `{"meta": {...}, "events": [...]}`, or one level deeper."""

import json
import re
from collections.abc import Iterator
from typing import NamedTuple

from quillpost.tracking.fields import Columns

MOST_PAIRS = 31
EVENTS = "events"
PAIR = re.compile(r'[ \t\r\n,]*"((?:[^"\\]|\\.){0,200})"\s*:\s*')
ROWS = re.compile(r"\[(?=\s*\{)")
NO_ROWS = re.compile(r"\[(?=\s*\])")

# What is passed over is not used: numbers of any length stay text.
SKIPPING = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=str)


class Opened(NamedTuple):
    """The first place inside the array, and how many objects are open around it."""

    at: int
    depth: int


def find_array(text: str, at: int) -> Opened | None:
    """The rows' array in the object that begins here; None if the object is a row itself, or holds none.

    It looks no further than the text that is there. Rows are preferred to an empty array, and what lies in
    the object itself to what lies in one of its values.
    """
    names: list[str] = []
    values: list[int] = []
    for name, value in _pairs(text, at):
        names.append(name)
        values.append(value)
        if ROWS.match(text, value):
            break
    if Columns(names).can_be_scans:
        return None
    inner = [pair for value in values if text.startswith("{", value) for pair in _pairs(text, value)]
    tries = (
        *((ROWS, 1, value) for value in values),
        *((ROWS, 2, value) for _, value in inner),
        *((NO_ROWS, 1, value) for value in values),
        # An empty array of another name may be anything: such a file is better refused.
        *((NO_ROWS, 2, value) for name, value in inner if name == EVENTS),
    )
    for wanted, depth, value in tries:
        if found := wanted.match(text, value):
            return Opened(found.end(), depth)
    return None


def _pairs(text: str, at: int) -> Iterator[tuple[str, int]]:
    """The names in an object, and where their values begin, as far as values can be passed over."""
    at += 1
    for _ in range(MOST_PAIRS):
        name = PAIR.match(text, at)
        if name is None:
            return
        yield name[1], name.end()
        try:
            _, at = SKIPPING.raw_decode(text, name.end())
        except (ValueError, RecursionError):
            return
