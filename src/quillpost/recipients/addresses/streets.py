"""Delivery lines read by the tables of Publication 28: streets, boxes, routes."""

import re
from typing import NamedTuple

from quillpost.recipients.addresses.tables import (
    BEFORE_HIGHWAYS,
    BEFORE_NAMES,
    BOX_STARTS,
    BOXES,
    DIRECTIONS,
    DOUBLE_DIRECTIONS,
    HIGHWAY_STARTS,
    HIGHWAYS,
    MILITARY,
    ROUTES,
    SPELLED_NUMBERS,
    STRONG_SUFFIXES,
    SUFFIXES,
    UNITS,
)
from quillpost.recipients.addresses.units import UNNAMED, Unit, has_digit, is_ordinal, read_units, split_units

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


GENERAL_DELIVERY = "GENERAL DELIVERY"
LONGEST_HIGHWAY = 4
"""Words in the kind of a highway."""
_JOINED_HIGHWAY = re.compile(r"(I|IH|US|SR|CR|SH|FM|RM|HWY|HIGHWAY|RT|RTE|ROUTE)-?(\d+[A-Z]?)")


class Door(NamedTuple):
    street: str
    units: list[Unit]
    has_number: bool
    """Whether there is a house number, a box, or another place for the mail."""
    rest: str = ""
    """What was on the line and is no part of the street."""
    is_military: bool = False
    is_unnamed: bool = False
    """Whether a number came without a word that says what it numbers."""
    lacks_box: bool = False


def read_door(words: list[str]) -> Door | None:
    """The words of one line (at least one); None where the tables do not tell what is what."""
    first = words[0]
    if may_begin_a_box(first) and (box := read_box(words)):
        return Door(box.line, box.units, True, is_military=box.is_military, lacks_box=box.lacks_box)
    if first == "GENERAL" and words == ["GENERAL", "DELIVERY"]:
        return Door(GENERAL_DELIVERY, [], True)
    if not has_digit(first) or is_ordinal(first):
        return _without_number(words)
    if len(words) > 1 and words[1].isdigit() is False and "/" in words[1] and words[1][0].isdigit():
        return _numbered(f"{first} {words[1]}", words[2:])
    return _numbered(first, words[1:])


def _without_number(words: list[str]) -> Door | None:
    if _begins_with_a_spelled_number(words):
        return _numbered(SPELLED_NUMBERS[words[0]], words[1:])
    door = _numbered("", words)
    return door and door._replace(has_number=False)


def _begins_with_a_spelled_number(words: list[str]) -> bool:
    """`One Microsoft Way`, but not `Two Rivers Rd`."""
    if words[0] not in SPELLED_NUMBERS or len(words) < 3:
        return False
    if words[-1] not in SUFFIXES and (words[-1] not in DIRECTIONS or words[-2] not in SUFFIXES):
        return False
    return not any(map(has_digit, words)) and (words[0] == "ONE" or not _is_plural(words[1]))


def _is_plural(word: str) -> bool:
    return len(word) > 2 and word.endswith("S")


def _numbered(number: str, words: list[str]) -> Door | None:
    if not words:
        return Door(number, [], False)
    highway = _highway(number, words)
    if highway is not None:
        return highway
    start, units = split_units(words, 1)
    street, of_the_road = words[:start], ""
    if len(street) > 2 and _numbers_a_road(street[-1], street[-2]):
        of_the_road = street.pop()
        is_unnamed = False
    elif not units and len(street) > 2 and has_digit(street[-1]) and _may_be_over(street[-2]):
        units = [(UNNAMED, street.pop())]
        is_unnamed = True
    else:
        is_unnamed = False
    line = _street(street)
    if line and of_the_road:
        line = f"{line} {of_the_road}"
    return Door(_joined(number, line), units, True, is_unnamed=is_unnamed) if line else None


def _joined(number: str, line: str) -> str:
    return f"{number} {line}" if number else line


def _numbers_a_road(word: str, before: str) -> bool:
    """`PINE RD 7` and `SCENIC HWY 98`: a number after these is hardly ever a unit, so that we invent none."""
    kind = SUFFIXES.get(before)
    return (kind == "HWY" and has_digit(word) and not is_ordinal(word)) or (kind == "RD" and word.isdigit())


def _may_be_over(word: str) -> bool:
    return word in STRONG_SUFFIXES or (word in DIRECTIONS and len(word) < 3)


def _street(words: list[str]) -> str | None:
    """Directions and the suffix abbreviated, the name as it is."""
    if words[0] in BEFORE_NAMES and len(words) < 3:
        return " ".join(words)
    start, end = 0, len(words)
    before = after = suffix = ""
    if end > 1 and words[-1] in DIRECTIONS:
        after, end = _last_direction(words)
    if end > 1 and words[end - 1] in SUFFIXES:
        suffix = SUFFIXES[words[end - 1]]
        end -= 1
    if end > 1 and words[0] in DIRECTIONS:
        before = DIRECTIONS[words[0]]
        start = 1
        if end > 2 and words[1] in DIRECTIONS and (before, DIRECTIONS[words[1]]) in DOUBLE_DIRECTIONS:
            before += DIRECTIONS[words[1]]
            start = 2
    name = words[start:end]
    if len(name) > 1 and not STRONG_SUFFIXES.isdisjoint(name[1:]) and _goes_past_its_end(name, suffix):
        return None
    if suffix and len(name) == 1 and name[0].isdigit():
        name[0] = with_ordinal(name[0])
    return " ".join([part for part in (before, *name, suffix, after) if part])


def _goes_past_its_end(name: list[str], suffix: str) -> bool:
    """Whether a suffix stands within the name, so that what follows may be a building or a town."""
    last = max(place for place, word in enumerate(name) if word in STRONG_SUFFIXES and place > 0)
    return last + 1 < len(name) or not suffix


def _last_direction(words: list[str]) -> tuple[str, int]:
    last = DIRECTIONS[words[-1]]
    if len(words) > 3 and words[-3] in SUFFIXES and words[-2] in DIRECTIONS:
        double = DOUBLE_DIRECTIONS.get((DIRECTIONS[words[-2]], last))
        if double:
            return double, len(words) - 2
    return last, len(words) - 1


def with_ordinal(number: str) -> str:
    """`5TH` of 5, `12TH` of 12, `22ND` of 22."""
    digits = str(int(number))
    if digits[-2:] in ("11", "12", "13"):
        return f"{digits}TH"
    return digits + {"1": "ST", "2": "ND", "3": "RD"}.get(digits[-1], "TH")


def _highway(number: str, words: list[str]) -> Door | None:
    """`COUNTY ROAD 5`: its kind is written out, and its number is no unit."""
    start = 1 if words[0] in DIRECTIONS and len(words) > 2 else 0
    before = DIRECTIONS[words[0]] if start else ""
    rest = words[start:]
    if rest[0] in BEFORE_HIGHWAYS and len(rest) > 2:
        before, rest = f"{before} {rest[0]}".strip(), rest[1:]
    if not rest[0].isalpha() and (joined := _JOINED_HIGHWAY.fullmatch(rest[0])):
        rest = [joined[1], joined[2], *rest[1:]]
    if rest[0] not in HIGHWAY_STARTS:
        return None
    for count in range(min(LONGEST_HIGHWAY, len(rest) - 1), 0, -1):
        kind = HIGHWAYS.get(" ".join(rest[:count]))
        if kind is not None:
            after = rest[count:]
            if after[0] in ("NO", "#") and len(after) > 1:
                after = after[1:]
            if _numbers_a_highway(after, kind):
                return _along(f"{number} {before}".strip(), kind, after)
    return None


def _numbers_a_highway(words: list[str], kind: str) -> bool:
    word = words[0]
    if has_digit(word):
        # `ROAD 5TH ST` and `AVE 5TH` are no highways.
        return not is_ordinal(word)
    is_letters = len(word) < 3 and word.isalpha() and kind in ("COUNTY ROAD", "COUNTY HIGHWAY", "AVENUE")
    return is_letters and word not in SUFFIXES and (len(words) == 1 or words[1] in UNITS)


def _along(number: str, kind: str, words: list[str]) -> Door:
    start, units = split_units(words, 1)
    tail = [DIRECTIONS.get(word) or SUFFIXES.get(word, word) for word in words[1:start]]
    street = " ".join([part for part in (number, kind, words[0], *tail) if part])
    return Door(street, units, bool(number))
