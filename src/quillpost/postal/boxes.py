"""Boxes and routes: addresses that name no street."""

import re
from typing import NamedTuple

from quillpost.postal.tables import BOX_STARTS, BOXES, MILITARY, ROUTES
from quillpost.postal.units import Unit, has_digit, read_units

LONGEST_KIND = 4
"""Words before the number."""
ALSO_ROADS = frozenset({"RD", "R D", "RT", "RTE", "ROUTE"})
"""Words for a rural route that name a road as well: a route only with its box."""
_JOINED = re.compile(r"(RR|HC|PSC|CMR|RFD|RT|RTE|UNIT|BOX|HCR|POB|POBOX)-?(\d+[A-Z]?)")
_LEADING_ZEROS = re.compile(r"^0+(?=\d)")


class Box(NamedTuple):
    line: str
    units: list[Unit]
    is_military: bool = False
    lacks_box: bool = False
    """Whether it is the route alone, of all who live along it."""


def may_begin_a_box(word: str) -> bool:
    if word in BOX_STARTS:
        return True
    return word[0].isalpha() and not word.isalpha() and _JOINED.fullmatch(word) is not None


def read_box(words: list[str]) -> Box | None:
    """The line where it is a box or a route and nothing else, else None."""
    words = _apart(words)
    for count in range(min(LONGEST_KIND, len(words) - 1), 0, -1):
        kind = " ".join(words[:count])
        rest = words[count:]
        if rest[0] in ("#", "NO") and len(rest) > 1:
            rest = rest[1:]
        found = _post_office_box(kind, rest) or _route(kind, rest)
        if found is not None:
            return found
    return None


def _apart(words: list[str]) -> list[str]:
    """`RR2` is RR 2."""
    found: list[str] = []
    for word in words:
        joined = None if word.isalpha() else _JOINED.fullmatch(word)
        found += [joined[1], joined[2]] if joined else [word]
    return found


def _post_office_box(kind: str, rest: list[str]) -> Box | None:
    standard = BOXES.get(kind)
    if standard is None or not (has_digit(rest[0]) or (len(rest[0]) == 1 and rest[0].isalpha())):
        return None
    units = read_units(rest[1:])
    return None if units is None else Box(f"{standard} {rest[0]}", units)


def _route(kind: str, rest: list[str]) -> Box | None:
    standard = ROUTES.get(kind) or MILITARY.get(kind)
    if standard is None or not has_digit(rest[0]):
        return None
    is_military = kind in MILITARY
    number = rest[0] if is_military else _LEADING_ZEROS.sub("", rest[0])
    if len(rest) > 2 and rest[1] == "BOX":
        box, units = rest[2:], None
        if box[0] == "#" and len(box) > 1:
            box = box[1:]
        units = read_units(box[1:])
        return None if units is None else Box(f"{standard} {number} BOX {box[0]}", units, is_military)
    if len(rest) == 3 and rest[1] == "#" and not is_military:
        return Box(f"{standard} {number} BOX {rest[2]}", [])
    if len(rest) == 1 and kind not in ALSO_ROADS and standard != "UNIT":
        return Box(f"{standard} {number}", [], is_military, lacks_box=True)
    return None
