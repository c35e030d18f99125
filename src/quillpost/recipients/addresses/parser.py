"""Addresses on one line, taken apart.

Slower by far than the tables, and loaded only when it is first asked.

From the end: country, ZIP code, state; then the city, which the table of ZIP codes knows best. What cannot be
told for certain is not told: the caller is asked for the parts instead.
"""

import re
import threading
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from types import ModuleType

from quillpost.recipients.addresses.cities import LAST_WORDS, state_code, town_of, zip_place
from quillpost.recipients.addresses.segments import segments
from quillpost.recipients.addresses.streets import Door, read_door, with_ordinal
from quillpost.recipients.addresses.tables import DIRECTIONS, SUFFIXES, UNITS
from quillpost.recipients.addresses.units import Unit, has_digit, read_units, unnamed_unit

NUMBER = ("AddressNumberPrefix", "AddressNumber", "AddressNumberSuffix")
BEFORE_THE_NAME = ("StreetNamePreModifier", "StreetNamePreType")
UNIT_LABELS = ("OccupancyType", "OccupancyIdentifier", "SubaddressType", "SubaddressIdentifier")
BESIDE = ("BuildingName", "LandmarkName", "Recipient", "PlaceName")
"""What may stand on the line beside the street."""

_ASKING = threading.Lock()
"""The model is one object with a state of its own."""


@cache
def _library() -> ModuleType:
    """A model of megabytes, which only those load who need it."""
    return import_module("usaddress")


def labelled(line: str) -> Mapping[str, str] | None:
    """The parts of a line by their labels; None where it is read as two addresses, or as none."""
    library = _library()
    with _ASKING:
        try:
            labels, kind = library.tag(line)
        except library.RepeatedLabelError:
            return None
    return None if kind == "Ambiguous" else {label: text.rstrip(",") for label, text in labels.items()}


def door_by_library(words: list[str]) -> Door | None:
    """The same words as for `read_door`, or None where the library does not tell either."""
    labels = labelled(" ".join(words))
    known = {*NUMBER, *BEFORE_THE_NAME, *UNIT_LABELS, *BESIDE}
    known |= {"StreetNamePreDirectional", "StreetName", "StreetNamePostType", "StreetNamePostDirectional"}
    if labels is None or "AddressNumber" not in labels or "StreetName" not in labels:
        return None
    if not known.issuperset(labels):
        return None
    units = _units([labels[label] for label in labels if label in UNIT_LABELS])
    if units is None:
        return None
    rest = " ".join([labels[label] for label in labels if label in BESIDE])
    return Door(_street(labels), units, True, rest=rest)


def _units(texts: list[str]) -> list[Unit] | None:
    words = " ".join(texts).split()
    unnamed = unnamed_unit(words)
    return [unnamed] if unnamed else read_units(words)


def _street(labels: Mapping[str, str]) -> str:
    before, after = (_direction(labels.get(f"StreetName{end}Directional", "")) for end in ("Pre", "Post"))
    name, kind = labels["StreetName"], labels.get("StreetNamePostType", "")
    if kind and name.isdigit():
        name = with_ordinal(name)
    *inner, last = kind.split() or [""]
    parts = [
        *(labels.get(label, "") for label in NUMBER), before,
        *(labels.get(label, "") for label in BEFORE_THE_NAME), name, *inner, SUFFIXES.get(last, last), after,
    ]  # fmt: skip
    return " ".join([part for part in parts if part])


def _direction(text: str) -> str:
    return "".join([DIRECTIONS.get(word, word) for word in text.split()])


WHOLE = re.compile(
    r"(?P<place>.+?),?\s+(?P<zip>[0-9]{5}(?:-?[0-9]{4})?)"
    r"(?:,?\s+(?:U\.?S\.?(?:A\.?)?|United States(?: of America)?))?[.,]?",
    re.IGNORECASE,
)
LONGEST_STATE = 4
"""Words in the name of a state."""
LONGEST_TOWN = 6
_LINE_ENDS = re.compile(r"\s*[\t\n\r\v\f\x85\u2028\u2029]\s*")


def taken_apart(line: str) -> dict[str, str] | None:
    """Street, city, state and ZIP code of an address at home that came on one line; None: it is no such."""
    whole = WHOLE.fullmatch(" ".join(_LINE_ENDS.sub(", ", line.strip()).split()))
    found = whole and _street_city_state(whole["place"], whole["zip"][:5])
    if whole is None or found is None:
        return None
    street, city, state = found
    return {"address": street, "city": city, "province": state, "postal_code": whole["zip"]}


def _street_city_state(text: str, zip5: str) -> tuple[str, str, str] | None:
    """Read from the end, the longest state first: a city may be named New York, a state West Virginia."""
    words = text.split()
    last = words[-1].rstrip(",").replace(".", "").upper()
    most = LONGEST_STATE if last in LAST_WORDS or not last else 1
    for count in range(min(most, len(words) - 1), 0, -1):
        if state := state_code(" ".join(words[-count:]).rstrip(",")):
            found = _street_city(" ".join(words[:-count]).rstrip(", "), zip5, state)
            return (*found, state) if found else _without_state(text, zip5)
    return _without_state(text, zip5)


def _without_state(text: str, zip5: str) -> tuple[str, str, str] | None:
    """`12 Main St, Austin 78701`: where the ZIP code serves that city, its state is certain."""
    place = zip_place(zip5)
    found = _before_a_known_town(text.rstrip(", "), zip5) if place else None
    return (*found, place.state) if place and found else None


def _street_city(text: str, zip5: str, state: str) -> tuple[str, str] | None:
    street, comma, city = (part.strip() for part in text.rpartition(","))
    if comma and not city:
        return None
    if comma and street and _may_be_a_town(city):
        return street, city
    return _before_a_known_town(text, zip5) or _by_library(text, zip5, state)


def _may_be_a_town(text: str) -> bool:
    """Neither a unit nor a street, nor the end of one."""
    [words, *_] = segments(text) or [[""]]
    return words[0] != "" and words[0] not in UNITS and not any(map(has_digit, words))


def _before_a_known_town(text: str, zip5: str) -> tuple[str, str] | None:
    """The longest name at the end that the ZIP code serves, where a street is left before it."""
    words = text.split()
    for count in range(min(LONGEST_TOWN, len(words) - 1), 0, -1):
        street, city = " ".join(words[:-count]).rstrip(", "), " ".join(words[-count:])
        if "," not in city and town_of(zip5, city) and _is_street(street):
            return street, city
    return None


def _is_street(text: str) -> bool:
    """Whether there is a house number, or a box."""
    return any(_has_a_number(words) for words in segments(text))


def _has_a_number(words: list[str]) -> bool:
    door = read_door(words)
    return (len(words) > 1 and has_digit(words[0])) if door is None else door.has_number


def _by_library(text: str, zip5: str, state: str) -> tuple[str, str] | None:
    """Where the table does not know the city: only if the street before it is certainly over."""
    labels = labelled(f"{text}, {state} {zip5}")
    city = labels and labels.get("PlaceName")
    if not city or has_digit(city) or not text.endswith(city):
        return None
    street = text.removesuffix(city).rstrip(", ")
    [words, *_] = segments(street)[-1:] or [[""]]
    is_over = words[-1] in SUFFIXES or words[-1] in DIRECTIONS or (len(words) > 2 and has_digit(words[-1]))
    return (street, city) if is_over and _is_street(street) else None
