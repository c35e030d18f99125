"""US addresses in the form of Publication 28, where the tables of streets are not enough; and addresses on one line
split: from the end country, ZIP code and state, then the city, by the table of ZIP codes. What is uncertain is not
split: the caller must give the parts. `usaddress` is far slower than the tables, and loaded when first needed."""

import re
import threading
from collections.abc import Mapping
from importlib import import_module

from quillpost.recipients.addresses.cities import STATE_NAME_ENDINGS, find_standard_city, find_state_code, find_zip_area
from quillpost.recipients.addresses.streets import (
    UNKNOWN_DESIGNATOR,
    AddressUnit,
    DeliveryPoint,
    is_street,
    read_box,
    read_delivery_point,
    read_units,
    read_unlabeled_unit,
    split_units,
    to_ordinal,
)
from quillpost.recipients.addresses.text import (
    DIRECTIONS,
    STREET_SUFFIXES,
    UNITS,
    UNNUMBERED_UNITS,
    has_digit,
    is_ordinal,
    split_delivery_line,
    split_segments,
)

MAX_PASSES = 4
"""The result is parsed again until it is stable: what is left of a line may be a line itself."""


def parse_address(
    first_segments: list[list[str]], second_segments: list[list[str]], state: str | None
) -> DeliveryPoint:
    """What `read_simple_address` cannot tell."""
    parsed = _parse_any(first_segments, second_segments)
    for _ in range(MAX_PASSES):
        reparsed = _parse_any(split_delivery_line(parsed.line, state), split_delivery_line(parsed.second_line, state))
        reparsed = reparsed._replace(has_unlabeled_number=parsed.has_unlabeled_number)
        if reparsed == parsed:
            break
        parsed = reparsed
    return parsed


def _parse_any(first_segments: list[list[str]], second_segments: list[list[str]]) -> DeliveryPoint:
    lines = [
        _move_units_last(words)
        for words in _join_route_box(_join_segments(first_segments), _join_segments(second_segments))
    ]
    if not lines:
        return DeliveryPoint("", [], False)
    street_index = next((street_index for street_index, words in enumerate(lines) if is_street(words)), 0)
    street, box_lines = _split_off_box(lines[street_index])
    delivery_point = read_delivery_point(street) or parse_with_library(street) or _build_loose_delivery_point(street)
    units, second_line_parts = list(delivery_point.units), [*box_lines]
    has_unlabeled_number = delivery_point.has_unlabeled_number
    for index, words in enumerate(lines):
        if index == street_index:
            second_line_parts += [delivery_point.second_line] if delivery_point.second_line else []
            continue
        repeated_point = read_delivery_point(words) if is_street(words) else None
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
    return delivery_point._replace(
        units=_merge_units(units), second_line=" ".join(second_line_parts), has_unlabeled_number=has_unlabeled_number
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
    return (words[:start], [box.street]) if box and not box.units else (words, [])


def _split_second_line(words: list[str], previous_word: str) -> tuple[list[AddressUnit], str]:
    """Units on their own or at the end of another line, and what is left of that."""
    units = read_units(words, previous_word=previous_word)
    if units is not None:
        return units, ""
    box = read_box(words)
    if box is not None and not box.units:
        return [], box.street
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


NUMBER_LABELS = ("AddressNumberPrefix", "AddressNumber", "AddressNumberSuffix")
NAME_PREFIX_LABELS = ("StreetNamePreModifier", "StreetNamePreType")
UNIT_LABELS = ("OccupancyType", "OccupancyIdentifier", "SubaddressType", "SubaddressIdentifier")
SECOND_LINE_LABELS = ("BuildingName", "LandmarkName", "Recipient", "PlaceName")
_MODEL_LOCK = threading.Lock()
"""The model is not thread-safe."""


def label_parts(line: str) -> Mapping[str, str] | None:
    """None if it is read as two addresses, or as none."""
    library = import_module("usaddress")
    with _MODEL_LOCK:
        try:
            labels, kind = library.tag(line)
        except library.RepeatedLabelError:
            return None
    return None if kind == "Ambiguous" else {label: text.rstrip(",") for label, text in labels.items()}


def parse_with_library(words: list[str]) -> DeliveryPoint | None:
    """The same words as for `read_delivery_point`, or None if the library does not know either."""
    labels = label_parts(" ".join(words))
    known_labels = {*NUMBER_LABELS, *NAME_PREFIX_LABELS, *UNIT_LABELS, *SECOND_LINE_LABELS}
    known_labels |= {"StreetNamePreDirectional", "StreetName", "StreetNamePostType", "StreetNamePostDirectional"}
    if labels is None or "AddressNumber" not in labels or "StreetName" not in labels:
        return None
    if not known_labels.issuperset(labels):
        return None
    units = _read_labeled_units([labels[label] for label in labels if label in UNIT_LABELS])
    if units is None:
        return None
    second_line = " ".join([labels[label] for label in labels if label in SECOND_LINE_LABELS])
    return DeliveryPoint(_build_street(labels), units, True, second_line=second_line)


def _read_labeled_units(texts: list[str]) -> list[AddressUnit] | None:
    words = " ".join(texts).split()
    unlabeled_unit = read_unlabeled_unit(words)
    return [unlabeled_unit] if unlabeled_unit else read_units(words)


def _build_street(labels: Mapping[str, str]) -> str:
    direction_before, direction_after = (
        "".join([DIRECTIONS.get(word, word) for word in labels.get(f"StreetName{end}Directional", "").split()])
        for end in ("Pre", "Post")
    )
    name, kind = labels["StreetName"], labels.get("StreetNamePostType", "")
    if kind and name.isdigit():
        name = to_ordinal(name)
    *inner_suffixes, last_suffix = kind.split() or [""]
    parts = [
        *(labels.get(label, "") for label in NUMBER_LABELS), direction_before,
        *(labels.get(label, "") for label in NAME_PREFIX_LABELS), name, *inner_suffixes,
        STREET_SUFFIXES.get(last_suffix, last_suffix), direction_after,
    ]  # fmt: skip
    return " ".join([part for part in parts if part])


ADDRESS_LINE_PATTERN = re.compile(
    r"(?P<place>.+?),?\s+(?P<zip>[0-9]{5}(?:-?[0-9]{4})?)"
    r"(?:,?\s+(?:U\.?S\.?(?:A\.?)?|United States(?: of America)?))?[.,]?",
    re.IGNORECASE,
)
MAX_STATE_WORDS = 4
MAX_CITY_WORDS = 6
_LINE_ENDS = re.compile(r"\s*[\t\n\r\v\f\x85\u2028\u2029]\s*")


def split_address_line(line: str) -> dict[str, str] | None:
    """Street, city, state and ZIP code of a US address on one line, or None."""
    match = ADDRESS_LINE_PATTERN.fullmatch(" ".join(_LINE_ENDS.sub(", ", line.strip()).split()))
    split_parts = match and _split_street_city_state(match["place"], match["zip"][:5])
    if match is None or split_parts is None:
        return None
    street, city, state = split_parts
    return {"address": street, "city": city, "province": state, "postal_code": match["zip"]}


def _split_street_city_state(text: str, zip5: str) -> tuple[str, str, str] | None:
    """From the end, the longest state first: New York may be a city, West Virginia a state."""
    words = text.split()
    last_word = words[-1].rstrip(",").replace(".", "").upper()
    max_words = MAX_STATE_WORDS if last_word in STATE_NAME_ENDINGS or not last_word else 1
    for count in range(min(max_words, len(words) - 1), 0, -1):
        if state := find_state_code(" ".join(words[-count:]).rstrip(",")):
            street_and_city = _split_street_city(" ".join(words[:-count]).rstrip(", "), zip5, state)
            return (*street_and_city, state) if street_and_city else _split_without_state(text, zip5)
    return _split_without_state(text, zip5)


def _split_without_state(text: str, zip5: str) -> tuple[str, str, str] | None:
    """`12 Main St, Austin 78701`: if the ZIP code serves that city, its state is certain."""
    zip_area = find_zip_area(zip5)
    street_and_city = _split_at_known_city(text.rstrip(", "), zip5) if zip_area else None
    return (*street_and_city, zip_area.state) if zip_area and street_and_city else None


def _split_street_city(text: str, zip5: str, state: str) -> tuple[str, str] | None:
    street, comma, city = (part.strip() for part in text.rpartition(","))
    if comma and not city:
        return None
    if comma and street and _may_be_city(city):
        return street, city
    return _split_at_known_city(text, zip5) or _split_with_library(text, zip5, state)


def _may_be_city(text: str) -> bool:
    """Neither a unit nor a street, nor the end of one."""
    [words, *_] = split_segments(text) or [[""]]
    return words[0] != "" and words[0] not in UNITS and not any(map(has_digit, words))


def _split_at_known_city(text: str, zip5: str) -> tuple[str, str] | None:
    """At the longest city that the ZIP code serves, if a street remains before it."""
    words = text.split()
    for count in range(min(MAX_CITY_WORDS, len(words) - 1), 0, -1):
        street, city = " ".join(words[:-count]).rstrip(", "), " ".join(words[-count:])
        if "," not in city and find_standard_city(zip5, city) and _has_street(street):
            return street, city
    return None


def _has_street(text: str) -> bool:
    """Whether there is a house number, or a box."""
    return any(_has_number(words) for words in split_segments(text))


def _has_number(words: list[str]) -> bool:
    delivery_point = read_delivery_point(words)
    return (len(words) > 1 and has_digit(words[0])) if delivery_point is None else delivery_point.has_number


def _split_with_library(text: str, zip5: str, state: str) -> tuple[str, str] | None:
    """For a city not in the table: only if the street before it has certainly ended."""
    labels = label_parts(f"{text}, {state} {zip5}")
    city = labels and labels.get("PlaceName")
    if not city or has_digit(city) or not text.endswith(city):
        return None
    street = text.removesuffix(city).rstrip(", ")
    [words, *_] = split_segments(street)[-1:] or [[""]]
    is_street_end = words[-1] in STREET_SUFFIXES or words[-1] in DIRECTIONS or (len(words) > 2 and has_digit(words[-1]))
    return (street, city) if is_street_end and _has_street(street) else None
