"""Split addresses on one line: from the end country, ZIP code and state; then the city, by the table of ZIP codes.
What is uncertain is not split: the caller must give the parts. `usaddress` is far slower than the tables, and loaded
when first needed."""

import re
import threading
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from types import ModuleType

from quillpost.recipients.addresses.cities import STATE_NAME_ENDINGS, find_standard_city, find_state_code, find_zip_area
from quillpost.recipients.addresses.streets import DeliveryPoint, read_delivery_point, to_ordinal
from quillpost.recipients.addresses.text import DIRECTIONS, STREET_SUFFIXES, UNITS, split_segments
from quillpost.recipients.addresses.units import AddressUnit, has_digit, read_units, read_unlabeled_unit

NUMBER_LABELS = ("AddressNumberPrefix", "AddressNumber", "AddressNumberSuffix")
NAME_PREFIX_LABELS = ("StreetNamePreModifier", "StreetNamePreType")
UNIT_LABELS = ("OccupancyType", "OccupancyIdentifier", "SubaddressType", "SubaddressIdentifier")
SECOND_LINE_LABELS = ("BuildingName", "LandmarkName", "Recipient", "PlaceName")

_MODEL_LOCK = threading.Lock()
"""The model is not thread-safe."""


@cache
def _load_library() -> ModuleType:
    return import_module("usaddress")


def label_parts(line: str) -> Mapping[str, str] | None:
    """None if it is read as two addresses, or as none."""
    library = _load_library()
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
        _abbreviate_direction(labels.get(f"StreetName{end}Directional", "")) for end in ("Pre", "Post")
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


def _abbreviate_direction(text: str) -> str:
    return "".join([DIRECTIONS.get(word, word) for word in text.split()])


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
        if "," not in city and find_standard_city(zip5, city) and _is_street(street):
            return street, city
    return None


def _is_street(text: str) -> bool:
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
    return (street, city) if is_street_end and _is_street(street) else None
