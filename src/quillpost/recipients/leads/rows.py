"""From rows of files to rows of the table: judged, placed on the grid, and written as COPY wants them.

This runs in processes of its own, a few thousand rows at a time.
"""

import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from quillpost.recipients.addresses.cities import state_code, zip_place
from quillpost.recipients.addresses.service import HOME, PARTS, UNDELIVERABLE, Judged, judge
from quillpost.recipients.leads import rules
from quillpost.recipients.leads.files import Row
from quillpost.recipients.leads.rules import cells_of, read_record_types

COLUMNS = (
    "number", "grid", "latitude", "longitude", "tags", "address_key", "name", "company", "address",
    "address2", "city", "province", "postal_code", "country", "standard", "deliverability", "reasons",
    "owner",
)  # fmt: skip
"""Of the rows as they come out; the first is the place in the file."""

YES = frozenset({"1", "true", "yes", "y", "t", "x"})
LONGEST = 300
_QUOTED, _BACKSLASH = re.compile(r'(["\\])'), r"\\\1"
_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})

NO_PLACE = "It has no latitude and longitude that are numbers."
NOWHERE = "Its latitude and longitude are 0, or lie beyond the globe."
NO_NUMBER = "It has no house number, so that no mail can reach it."
NO_STREET = "It has no street."
NO_ZIP = "It has no ZIP or postal code."
NOT_TEXT = "It holds characters that are not UTF-8, or that nobody can print."
TOO_LONG = f"One of its values has more than {LONGEST} characters."


class Bad(NamedTuple):
    number: int
    reason: str
    fields: Mapping[str, str]


@dataclass(slots=True)
class Prepared:
    """Rows for COPY, how many they are, and those that cannot be used."""

    data: bytes = b""
    count: int = 0
    bad: list[Bad] = field(default_factory=list)


class _Wrong(Exception):
    """What is wrong with a row, as a sentence."""


def prepare(rows: Iterable[Row], country: str, more_tags: int = 0) -> Prepared:
    done, lines = Prepared(), []
    for row in rows:
        try:
            if row.fault is not None:
                raise _Wrong(row.fault)
            lines.append(_line(row, country, more_tags))
        except _Wrong as wrong:
            done.bad.append(Bad(row.number, str(wrong), row.fields))
    done.data, done.count = "".join(lines).encode(), len(lines)
    return done


def _line(row: Row, country: str, more_tags: int) -> str:
    given = {name: " ".join(value.split()) for name, value in row.fields.items()}
    _check_texts(given)
    latitude, longitude = _place(given)
    address = _address(given, country)
    judged = judge(address, country)
    key = judged.key
    if key is None or judged.deliverability == UNDELIVERABLE:
        raise _Wrong(judged.reasons[0] if judged.reasons else NO_STREET)
    owner = _owner(given, key)
    kinds = rules.implied(_tags(given) | more_tags) | (rules.BITS["absenteeowner"] if owner else 0)
    name, company = given.get("name") or None, given.get("company") or None
    if owner is None:
        name = name or given.get("owner_name") or None
    grid = int(cells_of(np.array([latitude]), np.array([longitude]))[0])
    given_parts = (address[part] for part in PARTS)
    values = (
        row.number, grid, repr(latitude), repr(longitude), kinds, key, name, company, *given_parts, country,
        _array(judged.standard) if judged.standard else None,
        judged.deliverability, _array(judged.reasons), json.dumps(owner) if owner else None,
    )  # fmt: skip
    return "\t".join("\\N" if value is None else str(value).translate(_ESCAPES) for value in values) + "\n"


def _check_texts(given: Mapping[str, str]) -> None:
    for value in given.values():
        if len(value) > LONGEST:
            raise _Wrong(TOO_LONG)
        if not value.isprintable() or "\ufffd" in value:
            raise _Wrong(NOT_TEXT)


def _place(given: Mapping[str, str]) -> tuple[float, float]:
    try:
        latitude, longitude = float(given.get("lat", "")), float(given.get("lon", ""))
    except ValueError:
        raise _Wrong(NO_PLACE) from None
    if not (math.isfinite(latitude) and math.isfinite(longitude)):
        raise _Wrong(NO_PLACE)
    if abs(latitude) > 90 or abs(longitude) > 180 or latitude == longitude == 0:
        raise _Wrong(NOWHERE)
    return latitude, longitude


def _address(given: Mapping[str, str], country: str) -> dict[str, str | None]:
    """The parts of the address; a city or state that the file leaves out is its ZIP code's."""
    street, number, code = given.get("street"), given.get("number"), given.get("postcode")
    if not street:
        raise _Wrong(NO_STREET)
    if not number and not street[0].isdigit() and not street.upper().startswith("PO BOX"):
        raise _Wrong(NO_NUMBER)
    if not code:
        raise _Wrong(NO_ZIP)
    place = zip_place(code[:5]) if country == HOME else None
    return {
        "address": f"{number} {street}" if number else street,
        "address2": given.get("unit") or None,
        "city": given.get("city") or (place.city if place else None),
        "province": _state(given.get("region"), country) or (place.state if place else None),
        "postal_code": code,
    }


def _state(text: str | None, country: str) -> str | None:
    """Two letters at home, as everywhere."""
    return (state_code(text or "") if country == HOME else None) or text or None


def _owner(given: Mapping[str, str], key: str) -> dict[str, object] | None:
    """Whoever owns the place, and the address of theirs; None where it is here, or no mail reaches it."""
    if not given.get("owner_address"):
        return None
    country = given.get("owner_country", "").upper() or HOME
    code = given.get("owner_postcode") or None
    place = zip_place(code[:5]) if code and country == HOME else None
    address: dict[str, str | None] = {
        "address": given["owner_address"],
        "address2": given.get("owner_unit") or None,
        "city": given.get("owner_city") or (place.city if place else None),
        "province": _state(given.get("owner_region"), country) or (place.state if place else None),
        "postal_code": code,
    }
    judged: Judged = judge(address, country)
    if judged.key in (None, key) or judged.deliverability == UNDELIVERABLE or len(country) != 2:
        return None
    return {
        "name": given.get("owner_name") or None,
        **address,
        "standard": judged.standard,
        "country": country,
        "address_key": judged.key,
        "deliverability": judged.deliverability,
        "reasons": list(judged.reasons),
    }


def _tags(given: Mapping[str, str]) -> int:
    found = 0
    for name, bit in (*rules.BITS.items(), *rules.OTHER_TAGS.items()):
        if given.get(name, "").lower() in YES:
            found |= bit
    try:
        named = read_record_types(given.get("record_types", "").replace(";", ",").replace("|", ","))
    except ValueError as unknown:
        raise _Wrong(str(unknown)) from None
    return found | rules.mask(name for name in named if name != rules.ALL)


def _array(texts: Iterable[str | None]) -> str:
    """An array in PostgreSQL's own words."""
    quoted = ("NULL" if text is None else f'"{_QUOTED.sub(_BACKSLASH, text)}"' for text in texts)
    return "{" + ",".join(quoted) + "}"
