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

from quillpost.recipients.addresses.cities import find_state_code, find_zip_area
from quillpost.recipients.addresses.service import (
    ADDRESS_PARTS,
    HOME_COUNTRY,
    UNDELIVERABLE,
    StandardizedAddress,
    standardize,
)
from quillpost.recipients.leads import rules
from quillpost.recipients.leads.files import LeadRow
from quillpost.recipients.leads.rules import find_cells, read_record_types

LEAD_COLUMNS = (
    "number", "grid", "latitude", "longitude", "tags", "address_key", "name", "company", "address",
    "address2", "city", "province", "postal_code", "country", "standard", "deliverability", "reasons",
    "owner",
)  # fmt: skip
"""Of the rows as they come out; the first is the place in the file."""

TRUE_VALUES = frozenset({"1", "true", "yes", "y", "t", "x"})
MAX_VALUE_LENGTH = 300
_ARRAY_SPECIAL, _ARRAY_ESCAPED = re.compile(r'(["\\])'), r"\\\1"
_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})

NO_COORDINATES = "It has no latitude and longitude that are numbers."
INVALID_COORDINATES = "Its latitude and longitude are 0, or lie beyond the globe."
NO_NUMBER = "It has no house number, so that no mail can reach it."
NO_STREET = "It has no street."
NO_ZIP = "It has no ZIP or postal code."
NOT_TEXT = "It holds characters that are not UTF-8, or that nobody can print."
TOO_LONG = f"One of its values has more than {MAX_VALUE_LENGTH} characters."


class BadLeadRow(NamedTuple):
    number: int
    reason: str
    fields: Mapping[str, str]


@dataclass(slots=True)
class PreparedLeads:
    """Rows for COPY, how many they are, and those that cannot be used."""

    data: bytes = b""
    count: int = 0
    bad_rows: list[BadLeadRow] = field(default_factory=list)


class _LeadRowError(Exception):
    """What is wrong with a row, as a sentence."""


def prepare_rows(rows: Iterable[LeadRow], country: str, extra_tags: int = 0) -> PreparedLeads:
    prepared, lines = PreparedLeads(), []
    for row in rows:
        try:
            if row.error is not None:
                raise _LeadRowError(row.error)
            lines.append(_format_copy_line(row, country, extra_tags))
        except _LeadRowError as failure:
            prepared.bad_rows.append(BadLeadRow(row.number, str(failure), row.fields))
    prepared.data, prepared.count = "".join(lines).encode(), len(lines)
    return prepared


def _format_copy_line(row: LeadRow, country: str, extra_tags: int) -> str:
    fields = {name: " ".join(value.split()) for name, value in row.fields.items()}
    _check_texts(fields)
    latitude, longitude = _read_coordinates(fields)
    address = _read_address(fields, country)
    standardized = standardize(address, country)
    key = standardized.key
    if key is None or standardized.deliverability == UNDELIVERABLE:
        raise _LeadRowError(standardized.reasons[0] if standardized.reasons else NO_STREET)
    owner = _read_owner(fields, key)
    tags = rules.add_implied_tags(_read_tags(fields) | extra_tags) | (
        rules.RECORD_TYPE_TAGS["absenteeowner"] if owner else 0
    )
    name, company = fields.get("name") or None, fields.get("company") or None
    if owner is None:
        name = name or fields.get("owner_name") or None
    grid = int(find_cells(np.array([latitude]), np.array([longitude]))[0])
    address_values = (address[part] for part in ADDRESS_PARTS)
    values = (
        row.number, grid, repr(latitude), repr(longitude), tags, key, name, company, *address_values, country,
        _format_array(standardized.standard) if standardized.standard else None,
        standardized.deliverability, _format_array(standardized.reasons), json.dumps(owner) if owner else None,
    )  # fmt: skip
    return "\t".join("\\N" if value is None else str(value).translate(_ESCAPES) for value in values) + "\n"


def _check_texts(fields: Mapping[str, str]) -> None:
    for value in fields.values():
        if len(value) > MAX_VALUE_LENGTH:
            raise _LeadRowError(TOO_LONG)
        if not value.isprintable() or "\ufffd" in value:
            raise _LeadRowError(NOT_TEXT)


def _read_coordinates(fields: Mapping[str, str]) -> tuple[float, float]:
    try:
        latitude, longitude = float(fields.get("lat", "")), float(fields.get("lon", ""))
    except ValueError:
        raise _LeadRowError(NO_COORDINATES) from None
    if not (math.isfinite(latitude) and math.isfinite(longitude)):
        raise _LeadRowError(NO_COORDINATES)
    if abs(latitude) > 90 or abs(longitude) > 180 or latitude == longitude == 0:
        raise _LeadRowError(INVALID_COORDINATES)
    return latitude, longitude


def _read_address(fields: Mapping[str, str], country: str) -> dict[str, str | None]:
    """The parts of the address; a city or state that the file leaves out is its ZIP code's."""
    street, number, code = fields.get("street"), fields.get("number"), fields.get("postcode")
    if not street:
        raise _LeadRowError(NO_STREET)
    if not number and not street[0].isdigit() and not street.upper().startswith("PO BOX"):
        raise _LeadRowError(NO_NUMBER)
    if not code:
        raise _LeadRowError(NO_ZIP)
    zip_area = find_zip_area(code[:5]) if country == HOME_COUNTRY else None
    return {
        "address": f"{number} {street}" if number else street,
        "address2": fields.get("unit") or None,
        "city": fields.get("city") or (zip_area.city if zip_area else None),
        "province": _read_state(fields.get("region"), country) or (zip_area.state if zip_area else None),
        "postal_code": code,
    }


def _read_state(text: str | None, country: str) -> str | None:
    """Two letters at home, as everywhere."""
    return (find_state_code(text or "") if country == HOME_COUNTRY else None) or text or None


def _read_owner(fields: Mapping[str, str], property_key: str) -> dict[str, object] | None:
    """Whoever owns the place, and the address of theirs; None where it is here, or no mail reaches it."""
    if not fields.get("owner_address"):
        return None
    country = fields.get("owner_country", "").upper() or HOME_COUNTRY
    code = fields.get("owner_postcode") or None
    zip_area = find_zip_area(code[:5]) if code and country == HOME_COUNTRY else None
    address: dict[str, str | None] = {
        "address": fields["owner_address"],
        "address2": fields.get("owner_unit") or None,
        "city": fields.get("owner_city") or (zip_area.city if zip_area else None),
        "province": _read_state(fields.get("owner_region"), country) or (zip_area.state if zip_area else None),
        "postal_code": code,
    }
    standardized: StandardizedAddress = standardize(address, country)
    if standardized.key in (None, property_key) or standardized.deliverability == UNDELIVERABLE or len(country) != 2:
        return None
    return {
        "name": fields.get("owner_name") or None,
        **address,
        "standard": standardized.standard,
        "country": country,
        "address_key": standardized.key,
        "deliverability": standardized.deliverability,
        "reasons": list(standardized.reasons),
    }


def _read_tags(fields: Mapping[str, str]) -> int:
    tags = 0
    for name, bit in (*rules.RECORD_TYPE_TAGS.items(), *rules.OTHER_TAGS.items()):
        if fields.get(name, "").lower() in TRUE_VALUES:
            tags |= bit
    try:
        record_types = read_record_types(fields.get("record_types", "").replace(";", ",").replace("|", ","))
    except ValueError as failure:
        raise _LeadRowError(str(failure)) from None
    return tags | rules.build_tag_mask(name for name in record_types if name != rules.ALL_RECORDS)


def _format_array(texts: Iterable[str | None]) -> str:
    """An array in PostgreSQL's own words."""
    quoted = ("NULL" if text is None else f'"{_ARRAY_SPECIAL.sub(_ARRAY_ESCAPED, text)}"' for text in texts)
    return "{" + ",".join(quoted) + "}"
