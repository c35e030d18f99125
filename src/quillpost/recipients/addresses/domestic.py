"""A US delivery address in the form of Publication 28, from the two lines that people write."""

from typing import NamedTuple

from quillpost.recipients.addresses.keys import build_second_line_key, build_street_key, normalize_for_key
from quillpost.recipients.addresses.parser import parse_with_library
from quillpost.recipients.addresses.streets import (
    GENERAL_DELIVERY,
    DeliveryPoint,
    may_begin_box,
    read_box,
    read_delivery_point,
)
from quillpost.recipients.addresses.text import (
    DIRECTIONS,
    MEANINGLESS_PHRASES,
    PUERTO_RICO_NEIGHBORHOODS,
    PUERTO_RICO_STREETS,
    PUERTO_RICO_WORDS,
    STREET_SUFFIXES,
    UNITS,
    UNNUMBERED_UNITS,
    split_segments,
)
from quillpost.recipients.addresses.units import (
    UNKNOWN_DESIGNATOR,
    AddressUnit,
    build_unit_keys,
    format_units,
    has_digit,
    is_ordinal,
    read_units,
    read_unlabeled_unit,
    split_units,
)

MAX_PASSES = 4
"""The result is parsed again until it is stable: what is left of a line may be a line itself."""
GENERAL_DELIVERY_WORDS = GENERAL_DELIVERY.split()


class ParsedAddress(NamedTuple):
    line: str
    second_line: str | None
    """A building, an urbanization, in whose care."""
    street: str
    units: list[AddressUnit]
    has_number: bool
    is_military: bool
    has_unlabeled_number: bool
    is_missing_box: bool = False

    @property
    def is_delivery_point(self) -> bool:
        """False where many people share it: a street without a number, a route without its box."""
        return self.has_number and not self.is_missing_box and self.street != GENERAL_DELIVERY

    @property
    def key(self) -> tuple[str, str]:
        """The street and the unit as in a key."""
        unit_keys = [normalize_for_key(text) for text in build_unit_keys(self.units)]
        if self.second_line and (second_line_key := build_second_line_key(self.second_line)):
            unit_keys.append(second_line_key)
        return build_street_key(self.street), ",".join(unit_keys)


def parse_address(address: str, address2: str | None, state: str | None) -> ParsedAddress:
    """The first line is not empty."""
    first_segments = _split_segments(address, state)
    second_segments = _split_segments(address2, state) if address2 else []
    simple_address = _parse_simple(first_segments, second_segments)
    if simple_address is not None:
        return simple_address
    parsed = _parse_any(first_segments, second_segments)
    for _ in range(MAX_PASSES):
        reparsed = _parse_any(_split_segments(parsed.line, state), _split_segments(parsed.second_line or "", state))
        reparsed = reparsed._replace(has_unlabeled_number=parsed.has_unlabeled_number)
        if reparsed == parsed:
            break
        parsed = reparsed
    return parsed


def _split_segments(text: str, state: str | None) -> list[list[str]]:
    split = split_segments(text)
    if len(split) > 1:
        split = [words for words in split if " ".join(words) not in MEANINGLESS_PHRASES] or split[:1]
    if state == "PR":
        return [segment for words in split for segment in _split_puerto_rico(words)]
    return split


def _split_puerto_rico(words: list[str]) -> list[list[str]]:
    """An urbanization has a line of its own."""
    segments: list[list[str]] = [[]]
    words = " ".join([PUERTO_RICO_WORDS.get(word, word) for word in words]).split()
    for index, word in enumerate(words):
        if segments[-1] and (word == "URB" or _begins_street(words, index, segments[-1])):
            segments.append([])
        segments[-1].append(word)
    return segments


def _begins_street(words: list[str], index: int, preceding_words: list[str]) -> bool:
    """`URB LAS GLADIOLAS 150 CALLE A`: the house number follows the neighborhood."""
    if len(preceding_words) < 2 or preceding_words[0] not in PUERTO_RICO_NEIGHBORHOODS or not has_digit(words[index]):
        return False
    following_words = words[index + 1 :]
    return bool(following_words) and (
        following_words[0] in PUERTO_RICO_STREETS
        or (len(following_words) > 1 and following_words[-1] in STREET_SUFFIXES)
    )


def _parse_simple(first_segments: list[list[str]], second_segments: list[list[str]]) -> ParsedAddress | None:
    """Most addresses: a street that the tables know, and units."""
    if len(first_segments) == 2 and not second_segments:
        # The comma stands where a second line would begin.
        first_segments, second_segments = first_segments[:1], first_segments[1:]
    if len(first_segments) != 1 or len(second_segments) > 1 or not _is_street(first_segments[0]):
        return None
    delivery_point = read_delivery_point(first_segments[0])
    if delivery_point is None or delivery_point.has_unlabeled_number:
        return None
    if not second_segments:
        return _build_parsed_address(delivery_point, delivery_point.units, "")
    units = read_units(second_segments[0], previous_word=first_segments[0][-1])
    return None if units is None or delivery_point.units else _build_parsed_address(delivery_point, units, "")


def _is_street(words: list[str]) -> bool:
    """Whether the line begins with a house number or a box."""
    first_word = words[0]
    if may_begin_box(first_word) and read_box(words):
        return True
    return (has_digit(first_word) and not is_ordinal(first_word) and len(words) > 1) or words == GENERAL_DELIVERY_WORDS


def _parse_any(first_segments: list[list[str]], second_segments: list[list[str]]) -> ParsedAddress:
    lines = [
        _move_units_last(words)
        for words in _join_route_box(_join_segments(first_segments), _join_segments(second_segments))
    ]
    if not lines:
        return ParsedAddress("", None, "", [], has_number=False, is_military=False, has_unlabeled_number=False)
    street_index = next((street_index for street_index, words in enumerate(lines) if _is_street(words)), 0)
    street, box_lines = _split_off_box(lines[street_index])
    delivery_point = read_delivery_point(street) or parse_with_library(street) or _build_loose_delivery_point(street)
    units, second_line_parts = list(delivery_point.units), [*box_lines]
    has_unlabeled_number = delivery_point.has_unlabeled_number
    for index, words in enumerate(lines):
        if index == street_index:
            second_line_parts += [delivery_point.second_line] if delivery_point.second_line else []
            continue
        repeated_point = read_delivery_point(words) if _is_street(words) else None
        if repeated_point is not None and repeated_point.street == delivery_point.street:
            units += repeated_point.units  # the street, said twice
            continue
        unit = read_unlabeled_unit(words) if index > street_index else None
        if unit is not None:
            has_unlabeled_number = has_unlabeled_number or unit not in units
            units.append(unit)
        else:
            more_units, text = _split_second_line(words, delivery_point.street.split()[-1])
            units += more_units
            second_line_parts += [text] if text else []
    return _build_parsed_address(
        delivery_point._replace(has_unlabeled_number=has_unlabeled_number),
        _merge_units(units),
        " ".join(second_line_parts),
    )


def _join_route_box(first_segments: list[list[str]], second_segments: list[list[str]]) -> list[list[str]]:
    """`RR 2`, and on the next line `Box 18`."""
    if (
        first_segments
        and second_segments
        and second_segments[0][0] == "BOX"
        and read_box([*first_segments[-1], *second_segments[0]])
    ):
        return [*first_segments[:-1], [*first_segments[-1], *second_segments[0]], *second_segments[1:]]
    return [*first_segments, *second_segments]


def _join_segments(segments: list[list[str]]) -> list[list[str]]:
    """`12, 2nd St`, `12 Main St, NW` and `RR 2, Box 18`: a comma too many."""
    joined: list[list[str]] = []
    for words in segments:
        is_lone_number = joined and len(joined[-1]) == 1 and has_digit(joined[-1][0])
        is_direction = joined and len(words) == 1 and words[0] in DIRECTIONS and len(words[0]) > 1
        is_route_box = joined and words[0] == "BOX" and read_box([*joined[-1], *words])
        if is_lone_number or is_direction or is_route_box:
            joined[-1] = [*joined[-1], *words]
        else:
            joined.append(words)
    return joined


def _move_units_last(words: list[str]) -> list[str]:
    """`Apt 4 12 Main St`"""
    if len(words) < 4 or words[0] not in UNITS or not has_digit(words[2]) or is_ordinal(words[2]):
        return words
    is_unit = read_units(words[:2], previous_word=None) and not read_box(words)
    return [*words[2:], *words[:2]] if is_unit else words


def _split_off_box(words: list[str]) -> tuple[list[str], list[str]]:
    """`12 MAIN ST PO BOX 5` is two addresses: mail goes to the first."""
    if "BOX" not in words or not has_digit(words[0]):
        return words, []
    start = words.index("BOX")
    while start > 0 and words[start - 1] in ("PO", "P", "O", "POST", "OFFICE"):
        start -= 1
    box = read_box(words[start:]) if start > 1 else None
    return (words[:start], [box.line]) if box and not box.units else (words, [])


def _split_second_line(words: list[str], previous_word: str) -> tuple[list[AddressUnit], str]:
    """Units on their own or at the end of another line, and what is left of that."""
    units = read_units(words, previous_word=previous_word)
    if units is not None:
        return units, ""
    box = read_box(words) if may_begin_box(words[0]) else None
    if box is not None and not box.units:
        return [], box.line
    start, units = split_units(words, 1)
    if any(not number and designator not in UNNUMBERED_UNITS for designator, number in units):
        return [], " ".join(words)  # FOO BUILDING is its name
    return units, " ".join(words[:start])


def _build_loose_delivery_point(words: list[str]) -> DeliveryPoint:
    start, units = split_units(words, 2)
    return DeliveryPoint(" ".join(words[:start]), units, has_digit(words[0]) and not is_ordinal(words[0]))


def _merge_units(units: list[AddressUnit]) -> list[AddressUnit]:
    """Each once; a designator whose number came separately gets it."""
    merged: list[AddressUnit] = []
    for designator, number in units:
        completes_previous = merged and not merged[-1][1] and designator == UNKNOWN_DESIGNATOR and number
        if completes_previous and merged[-1][0] != UNKNOWN_DESIGNATOR:
            merged[-1] = (merged[-1][0], number)
        elif (designator, number) not in merged:
            merged.append((designator, number))
    return merged


def _build_parsed_address(delivery_point: DeliveryPoint, units: list[AddressUnit], second_line: str) -> ParsedAddress:
    line = f"{delivery_point.street} {format_units(units)}" if units else delivery_point.street
    return ParsedAddress(
        line,
        second_line or None,
        delivery_point.street,
        units,
        delivery_point.has_number,
        delivery_point.is_military,
        delivery_point.has_unlabeled_number,
        delivery_point.is_missing_box,
    )
