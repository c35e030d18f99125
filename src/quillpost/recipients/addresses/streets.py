"""Delivery lines parsed by the tables of Publication 28: streets, boxes, routes, and the units that follow them."""

import re
from typing import NamedTuple

from quillpost.recipients.addresses.text import (
    AMBIGUOUS_UNITS,
    BOX_KINDS,
    BOX_STARTS,
    DIRECTIONS,
    DOUBLE_DIRECTIONS,
    HIGHWAY_KINDS,
    HIGHWAY_PREFIXES,
    HIGHWAY_STARTS,
    INTERCHANGEABLE_UNITS,
    MILITARY_KINDS,
    NAME_PREFIXES,
    NUMBERED_UNITS,
    ROUTE_KINDS,
    SPELLED_NUMBERS,
    SPELLED_ORDINALS,
    STREET_SUFFIXES,
    UNAMBIGUOUS_STREET_SUFFIXES,
    UNITS,
    UNNUMBERED_UNITS,
    has_digit,
    is_ordinal,
)

AddressUnit = tuple[str, str]
"""A designator and its number; either may be empty."""
UNKNOWN_DESIGNATOR = "#"
"""As the USPS writes an unknown designator."""
MAX_UNIT_NUMBER_LENGTH = 6


GENERAL_DELIVERY = "GENERAL DELIVERY"


class DeliveryPoint(NamedTuple):
    street: str
    """Or a box."""
    units: list[AddressUnit]
    has_number: bool
    """Whether there is a house number, a box, or another place for the mail."""
    second_line: str = ""
    """A building, an urbanization, in whose care."""
    is_military: bool = False
    has_unlabeled_number: bool = False
    is_missing_box: bool = False
    """Whether it is only the route, of everyone along it."""

    @property
    def line(self) -> str:
        """The street and its units, as they are printed."""
        return " ".join([self.street, *(f"{designator} {number}".strip() for designator, number in self.units)])


def read_simple_address(first_segments: list[list[str]], second_segments: list[list[str]]) -> DeliveryPoint | None:
    """Most addresses: a street that the tables know, and units."""
    if len(first_segments) == 2 and not second_segments:
        # The comma stands where a second line would begin.
        first_segments, second_segments = first_segments[:1], first_segments[1:]
    if len(first_segments) != 1 or len(second_segments) > 1 or not is_street(first_segments[0]):
        return None
    delivery_point = read_delivery_point(first_segments[0])
    if delivery_point is None or delivery_point.has_unlabeled_number:
        return None
    if not second_segments:
        return delivery_point
    units = read_units(second_segments[0], previous_word=first_segments[0][-1])
    return None if units is None or delivery_point.units else delivery_point._replace(units=units)


def is_street(words: list[str]) -> bool:
    """Whether the line begins with a house number or a box."""
    if has_digit(words[0]) and not is_ordinal(words[0]) and len(words) > 1:
        return True
    return words == ["GENERAL", "DELIVERY"] or read_box(words) is not None


def split_units(words: list[str], first_index: int) -> tuple[int, list[AddressUnit]]:
    """The index where the units at the end of a line begin, at `first_index` or later, and the units."""
    for start in range(first_index, len(words)):
        word = words[start]
        if word in UNITS or (start + 1 < len(words) and is_floor(word, words[start + 1])):
            units = read_units(words[start:], previous_word=words[start - 1] if start else None)
            if units is not None:
                return start, units
    return len(words), []


def is_floor(word: str, next_word: str) -> bool:
    """`2ND FLOOR` and `SECOND FLOOR`"""
    return NUMBERED_UNITS.get(next_word) == "FL" and (is_ordinal(word) or word in SPELLED_ORDINALS)


def read_units(words: list[str], *, previous_word: str | None = None) -> list[AddressUnit] | None:
    """These words if they are only units, else None. `previous_word` is before them on their line."""
    units: list[AddressUnit] = []
    index, count = 0, len(words)
    while index < count:
        word = words[index]
        next_word = words[index + 1] if index + 1 < count else None
        if next_word is not None and is_floor(word, next_word):
            units.append(("FL", SPELLED_ORDINALS.get(word, word)[:-2]))
            index += 2
            continue
        designator = UNITS.get(word)
        if designator is None:
            return None
        if next_word is not None and _is_unit_number(
            next_word, word, is_after_street=bool(units) or _ends_street(previous_word)
        ):
            end = index + 2
            while end < count and _continues_number(words[end], words[end + 1] if end + 1 < count else None):
                end += 1
            first_part = next_word[:-2] if designator == "FL" and is_ordinal(next_word) else next_word
            units.append((designator, " ".join([first_part, *words[index + 2 : end]])))
            index = end
        elif (
            next_word is not None
            and NUMBERED_UNITS.get(next_word) == UNKNOWN_DESIGNATOR
            and word in NUMBERED_UNITS
            and designator != UNKNOWN_DESIGNATOR
            and index + 2 < count
        ):
            words = [*words[:index], word, *words[index + 2 :]]  # APT #4 and APT NO 4 are APT 4
            count -= 1
        elif designator in INTERCHANGEABLE_UNITS and next_word in UNNUMBERED_UNITS:
            index += 1  # APT UPPER is UPPER
        elif word == UNKNOWN_DESIGNATOR and (next_word is None or next_word in UNITS):
            index += 1  # the sign by itself says nothing
        elif word in UNNUMBERED_UNITS or next_word is None or next_word in UNITS:
            if word in AMBIGUOUS_UNITS and not units and not _ends_street(previous_word):
                return None
            units.append((designator, ""))
            index += 1
        else:
            return None
    return units


def _is_unit_number(word: str, designator: str, *, is_after_street: bool) -> bool:
    if has_digit(word):
        return True
    if word in UNITS or not word.isalpha():
        return False
    if len(word) == 1:
        return is_after_street or designator not in STREET_SUFFIXES or word not in DIRECTIONS  # 12 LOCUST KEY E
    is_weak = designator in AMBIGUOUS_UNITS or designator in UNNUMBERED_UNITS
    return not is_weak and word not in STREET_SUFFIXES and word not in DIRECTIONS


def _continues_number(word: str, next_word: str | None) -> bool:
    """`APT 4 B`: a further letter or number belongs to the number before it."""
    if next_word is not None and is_floor(word, next_word):
        return False
    return word not in UNITS and len(word) <= MAX_UNIT_NUMBER_LENGTH and (has_digit(word) or len(word) == 1)


def _ends_street(word: str | None) -> bool:
    """Whether a street may end with this word; None: the line is the unit's own."""
    return word is None or word in STREET_SUFFIXES or word in DIRECTIONS


def read_unlabeled_unit(words: list[str]) -> AddressUnit | None:
    """A lone number, as people write it into the second line."""
    if len(words) != 1:
        return None
    [word] = words
    is_number = has_digit(word) or (len(word) == 1 and word.isalpha())
    return (
        (UNKNOWN_DESIGNATOR, word)
        if is_number and len(word) <= MAX_UNIT_NUMBER_LENGTH and not is_ordinal(word)
        else None
    )


MAX_BOX_KIND_WORDS = 4
AMBIGUOUS_ROUTE_WORDS = frozenset({"RD", "R D", "RT", "RTE", "ROUTE"})
"""Words for a rural route that name a road as well: a route only with its box."""
_JOINED_BOX = re.compile(r"(RR|HC|PSC|CMR|RFD|RT|RTE|UNIT|BOX|HCR|POB|POBOX)-?(\d+[A-Z]?)")
_LEADING_ZEROS = re.compile(r"^0+(?=\d)")


def read_box(words: list[str]) -> DeliveryPoint | None:
    """None unless the line is only a box or a route."""
    if words[0] not in BOX_STARTS and (words[0].isalpha() or not _JOINED_BOX.fullmatch(words[0])):
        return None
    words = _split_joined_boxes(words)
    for count in range(min(MAX_BOX_KIND_WORDS, len(words) - 1), 0, -1):
        kind = " ".join(words[:count])
        remaining_words = words[count:]
        if remaining_words[0] in ("#", "NO") and len(remaining_words) > 1:
            remaining_words = remaining_words[1:]
        post_box = _read_post_office_box(kind, remaining_words) or _read_route(kind, remaining_words)
        if post_box is not None:
            return post_box
    return None


def _split_joined_boxes(words: list[str]) -> list[str]:
    """`RR2` is RR 2."""
    split_words: list[str] = []
    for word in words:
        match = None if word.isalpha() else _JOINED_BOX.fullmatch(word)
        split_words += [match[1], match[2]] if match else [word]
    return split_words


def _read_post_office_box(kind: str, remaining_words: list[str]) -> DeliveryPoint | None:
    standard = BOX_KINDS.get(kind)
    if standard is None or not (
        has_digit(remaining_words[0]) or (len(remaining_words[0]) == 1 and remaining_words[0].isalpha())
    ):
        return None
    units = read_units(remaining_words[1:])
    return None if units is None else DeliveryPoint(f"{standard} {remaining_words[0]}", units, True)


def _read_route(kind: str, remaining_words: list[str]) -> DeliveryPoint | None:
    standard = ROUTE_KINDS.get(kind) or MILITARY_KINDS.get(kind)
    if standard is None or not has_digit(remaining_words[0]):
        return None
    is_military = kind in MILITARY_KINDS
    number = remaining_words[0] if is_military else _LEADING_ZEROS.sub("", remaining_words[0])
    if len(remaining_words) > 2 and remaining_words[1] == "BOX":
        box_words = remaining_words[2:]
        if box_words[0] == "#" and len(box_words) > 1:
            box_words = box_words[1:]
        units = read_units(box_words[1:])
        return (
            None
            if units is None
            else DeliveryPoint(f"{standard} {number} BOX {box_words[0]}", units, True, is_military=is_military)
        )
    if len(remaining_words) == 3 and remaining_words[1] == "#" and not is_military:
        return DeliveryPoint(f"{standard} {number} BOX {remaining_words[2]}", [], True)
    if len(remaining_words) == 1 and kind not in AMBIGUOUS_ROUTE_WORDS and standard != "UNIT":
        return DeliveryPoint(f"{standard} {number}", [], True, is_military=is_military, is_missing_box=True)
    return None


MAX_HIGHWAY_WORDS = 4
_JOINED_HIGHWAY = re.compile(r"(I|IH|US|SR|CR|SH|FM|RM|HWY|HIGHWAY|RT|RTE|ROUTE)-?(\d+[A-Z]?)")


def read_delivery_point(words: list[str]) -> DeliveryPoint | None:
    """The words of one line (at least one); None if the tables cannot tell."""
    first_word = words[0]
    if not first_word[0].isdigit() and (box := read_box(words)) is not None:
        return box
    if first_word == "GENERAL" and words == ["GENERAL", "DELIVERY"]:
        return DeliveryPoint(GENERAL_DELIVERY, [], True)
    if not has_digit(first_word) or is_ordinal(first_word):
        return _read_without_number(words)
    if len(words) > 1 and words[1].isdigit() is False and "/" in words[1] and words[1][0].isdigit():
        return _read_numbered(f"{first_word} {words[1]}", words[2:])
    return _read_numbered(first_word, words[1:])


def _read_without_number(words: list[str]) -> DeliveryPoint | None:
    if _begins_with_spelled_number(words):
        return _read_numbered(SPELLED_NUMBERS[words[0]], words[1:])
    delivery_point = _read_numbered("", words)
    return delivery_point and delivery_point._replace(has_number=False)


def _begins_with_spelled_number(words: list[str]) -> bool:
    """`One Microsoft Way`, but not `Two Rivers Rd`."""
    if words[0] not in SPELLED_NUMBERS or len(words) < 3:
        return False
    if words[-1] not in STREET_SUFFIXES and (words[-1] not in DIRECTIONS or words[-2] not in STREET_SUFFIXES):
        return False
    is_plural = len(words[1]) > 2 and words[1].endswith("S")
    return not any(map(has_digit, words)) and (words[0] == "ONE" or not is_plural)


def _read_numbered(number: str, words: list[str]) -> DeliveryPoint | None:
    if not words:
        return DeliveryPoint(number, [], False)
    highway = _read_highway(number, words)
    if highway is not None:
        return highway
    start, units = (len(words), []) if UNITS.keys().isdisjoint(words) else split_units(words, 1)
    street, road_number = words[:start], ""
    has_unlabeled_number = False
    if len(street) > 2 and _is_road_number(street[-1], street[-2]):
        road_number = street.pop()
    elif not units and len(street) > 2 and has_digit(street[-1]) and _may_end_street(street[-2]):
        units = [(UNKNOWN_DESIGNATOR, street.pop())]
        has_unlabeled_number = True
    line = _standardize_street(street)
    if not line:
        return None
    line = f"{number} {line} {road_number}".strip()
    return DeliveryPoint(line, units, True, has_unlabeled_number=has_unlabeled_number)


def _is_road_number(word: str, previous_word: str) -> bool:
    """`PINE RD 7` and `SCENIC HWY 98`: a number after these is hardly ever a unit."""
    kind = STREET_SUFFIXES.get(previous_word)
    return (kind == "HWY" and has_digit(word) and not is_ordinal(word)) or (kind == "RD" and word.isdigit())


def _may_end_street(word: str) -> bool:
    return word in UNAMBIGUOUS_STREET_SUFFIXES or (word in DIRECTIONS and len(word) < 3)


def _standardize_street(words: list[str]) -> str | None:
    """Directions and the suffix abbreviated, the name as it is."""
    if words[0] in NAME_PREFIXES and len(words) < 3:
        return " ".join(words)
    start, end = 0, len(words)
    direction_before = direction_after = suffix = ""
    if end > 1 and words[-1] in DIRECTIONS:
        direction_after, end = _read_last_direction(words)
    if end > 1 and words[end - 1] in STREET_SUFFIXES:
        suffix = STREET_SUFFIXES[words[end - 1]]
        end -= 1
    if end > 1 and words[0] in DIRECTIONS:
        direction_before = DIRECTIONS[words[0]]
        start = 1
        if end > 2 and words[1] in DIRECTIONS and (direction_before, DIRECTIONS[words[1]]) in DOUBLE_DIRECTIONS:
            direction_before += DIRECTIONS[words[1]]
            start = 2
    name = words[start:end]
    if len(name) > 1 and not UNAMBIGUOUS_STREET_SUFFIXES.isdisjoint(name[1:]) and _continues_after_suffix(name, suffix):
        return None
    if suffix and len(name) == 1 and name[0].isdigit():
        name[0] = to_ordinal(name[0])
    return " ".join([part for part in (direction_before, *name, suffix, direction_after) if part])


def _continues_after_suffix(name: list[str], suffix: str) -> bool:
    """Whether a suffix is within the name, so that what follows may be a building or a city."""
    last_suffix_index = max(
        index for index, word in enumerate(name) if word in UNAMBIGUOUS_STREET_SUFFIXES and index > 0
    )
    return last_suffix_index + 1 < len(name) or not suffix


def _read_last_direction(words: list[str]) -> tuple[str, int]:
    last = DIRECTIONS[words[-1]]
    if len(words) > 3 and words[-3] in STREET_SUFFIXES and words[-2] in DIRECTIONS:
        double = DOUBLE_DIRECTIONS.get((DIRECTIONS[words[-2]], last))
        if double:
            return double, len(words) - 2
    return last, len(words) - 1


def to_ordinal(number: str) -> str:
    """`5TH` of 5, `12TH` of 12, `22ND` of 22."""
    digits = str(int(number))
    if digits[-2:] in ("11", "12", "13"):
        return f"{digits}TH"
    return digits + {"1": "ST", "2": "ND", "3": "RD"}.get(digits[-1], "TH")


def _read_highway(number: str, words: list[str]) -> DeliveryPoint | None:
    """`COUNTY ROAD 5`: its kind is spelled out, and its number is no unit."""
    start = 1 if words[0] in DIRECTIONS and len(words) > 2 else 0
    direction_before = DIRECTIONS[words[0]] if start else ""
    remaining_words = words[start:]
    if remaining_words[0] in HIGHWAY_PREFIXES and len(remaining_words) > 2:
        direction_before, remaining_words = (f"{direction_before} {remaining_words[0]}".strip(), remaining_words[1:])
    if not remaining_words[0].isalpha() and (match := _JOINED_HIGHWAY.fullmatch(remaining_words[0])):
        remaining_words = [match[1], match[2], *remaining_words[1:]]
    if remaining_words[0] not in HIGHWAY_STARTS:
        return None
    for count in range(min(MAX_HIGHWAY_WORDS, len(remaining_words) - 1), 0, -1):
        kind = HIGHWAY_KINDS.get(" ".join(remaining_words[:count]))
        if kind is not None:
            following_words = remaining_words[count:]
            if following_words[0] in ("NO", "#") and len(following_words) > 1:
                following_words = following_words[1:]
            if _is_highway_number(following_words, kind):
                return _build_highway_point(f"{number} {direction_before}".strip(), kind, following_words)
    return None


def _is_highway_number(words: list[str], kind: str) -> bool:
    word = words[0]
    if has_digit(word):
        # `ROAD 5TH ST` and `AVE 5TH` are no highways.
        return not is_ordinal(word)
    is_letters = len(word) < 3 and word.isalpha() and kind in ("COUNTY ROAD", "COUNTY HIGHWAY", "AVENUE")
    return is_letters and word not in STREET_SUFFIXES and (len(words) == 1 or words[1] in UNITS)


def _build_highway_point(number: str, kind: str, words: list[str]) -> DeliveryPoint:
    start, units = split_units(words, 1)
    tail = [DIRECTIONS.get(word) or STREET_SUFFIXES.get(word, word) for word in words[1:start]]
    street = " ".join([part for part in (number, kind, words[0], *tail) if part])
    return DeliveryPoint(street, units, bool(number))
