"""Files of addresses in the formats of OpenAddresses, and their rows as COPY takes them."""

import csv
import gzip
import io
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from quillpost.core.errors import NotReady
from quillpost.recipients.addresses.cities import find_state_code, find_zip_area
from quillpost.recipients.addresses.rules import (
    ADDRESS_PARTS,
    HOME_COUNTRY,
    UNDELIVERABLE,
    StandardizedAddress,
    standardize,
)
from quillpost.recipients.imports.rules import escape_copy_value, format_array
from quillpost.recipients.leads import rules
from quillpost.recipients.leads.rules import OTHER_TAGS, RECORD_TYPES, find_cells, read_record_types

GZIP_SIGNATURE = b"\x1f\x8b"
MAX_LINE_LENGTH = 1_000_000
MAX_COLUMNS = 500
READ_SIZE = 1 << 16

FIELD_NAMES = {
    "lon": ("lon", "lng", "longitude", "x"),
    "lat": ("lat", "latitude", "y"),
    "number": ("number", "house_number"),
    "street": ("street", "address", "street_address"),
    "unit": ("unit", "address2"),
    "city": ("city",),
    "region": ("region", "state", "province"),
    "postcode": ("postcode", "postal_code", "zip", "zip_code"),
    "name": ("name", "resident_name"),
    "company": ("company", "business_name"),
    "owner_name": ("owner_name",),
    "owner_address": ("owner_address", "owner_street"),
    "owner_unit": ("owner_unit", "owner_address2"),
    "owner_city": ("owner_city",),
    "owner_region": ("owner_region", "owner_state", "owner_province"),
    "owner_postcode": ("owner_postcode", "owner_postal_code", "owner_zip"),
    "owner_country": ("owner_country",),
    "record_types": ("record_types",),
    **{tag: (tag,) for tag in (*RECORD_TYPES[1:], *OTHER_TAGS)},
}
"""Our name of a field, and the lowercase names that it may have in a file."""
FIELDS_BY_NAME = {theirs: ours for ours, names in FIELD_NAMES.items() for theirs in names}
REQUIRED_FIELDS = ("lon", "lat", "street", "postcode")


class NotLeadFile(NotReady):
    """Why a file holds no addresses, as a sentence."""


class LeadRow(NamedTuple):
    """A row's number in its file, from 1 without the header, and its fields by our names; or an error."""

    number: int
    fields: dict[str, str]
    error: str | None = None


@contextmanager
def open_file(file: Path) -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """The raw file, whose position is known, and its unpacked content."""
    try:
        raw = file.open("rb")
    except OSError as error:
        raise NotReady(f"{file} cannot be read: {error.strerror}.") from None
    with raw:
        is_compressed = raw.read(2) == GZIP_SIGNATURE
        raw.seek(0)
        yield raw, gzip.GzipFile(fileobj=raw) if is_compressed else raw  # type: ignore[misc]


def read_rows(source: BinaryIO, name: str) -> Iterator[LeadRow]:
    """`NotLeadFile` if it is something else."""
    text = io.TextIOWrapper(source, "utf-8-sig", errors="replace", newline="")
    try:
        start = text.read(READ_SIZE)
        if start.lstrip(" \t\r\n\x1e")[:1] == "{":
            yield from _read_features(start, text, name)
        else:
            yield from _read_csv_rows(start, text, name)
    except (OSError, EOFError) as failure:
        raise NotLeadFile(f"{name} breaks off, or is damaged: {failure}.") from None
    finally:
        text.detach()


def _read_csv_rows(start: str, text: io.TextIOBase, name: str) -> Iterator[LeadRow]:
    reader = csv.reader(_split_lines(start, text, name))
    try:
        header = [FIELDS_BY_NAME.get(column.strip().lower(), "") for column in next(reader, [])]
    except csv.Error as failure:
        raise NotLeadFile(f"{name} is no CSV: {failure}.") from None
    missing_fields = [field for field in REQUIRED_FIELDS if field not in header]
    if missing_fields:
        columns = ", ".join(field.upper() for field in missing_fields)
        raise NotLeadFile(f"{name} has no column {columns}: it needs a header such as LON,LAT,NUMBER,STREET,POSTCODE.")
    if len(header) > MAX_COLUMNS:
        raise NotLeadFile(f"{name} has more than {MAX_COLUMNS} columns.")
    duplicate_fields = {column for column in header if column and header.count(column) > 1}
    if duplicate_fields:
        raise NotLeadFile(f"{name} has two columns for {', '.join(sorted(duplicate_fields))}: leave one out.")
    number = 0
    while True:
        number += 1
        try:
            values = next(reader)
        except StopIteration:
            return
        except csv.Error as failure:
            yield LeadRow(number, {}, f"This row cannot be read: {failure}.")
            continue
        if not values:
            number -= 1
            continue
        fields = {field_name: value for field_name, value in zip(header, values, strict=False) if field_name}
        error = None if len(values) == len(header) else f"It has {len(values)} columns, the header {len(header)}."
        yield LeadRow(number, fields, error)


def _split_lines(start: str, text: io.TextIOBase, name: str) -> Iterator[str]:
    """Lines with their ends, as csv requires: quoted values may contain such an end."""
    remaining = start
    while True:
        lines = io.StringIO(remaining, newline="").readlines()
        # The last may go on; and what ends with \r may go on with \n.
        remaining = lines.pop() if lines else ""
        yield from lines
        if len(remaining) > MAX_LINE_LENGTH:
            raise NotLeadFile(f"{name} has a line of more than {MAX_LINE_LENGTH:,} characters: it is no CSV.")
        new_text = text.read(READ_SIZE)
        if not new_text:
            yield from [remaining] if remaining else []
            return
        remaining += new_text


def _read_features(start: str, text: io.TextIOBase, name: str) -> Iterator[LeadRow]:
    """Features one after another, each on a line of its own or all in a collection."""
    for number, feature in enumerate(_read_objects(start, text, name), start=1):
        if isinstance(feature, str):
            yield LeadRow(number, {}, feature)
            continue
        geometry, properties = feature.get("geometry"), feature.get("properties")
        if not isinstance(geometry, dict) or geometry.get("type") != "Point":
            yield LeadRow(number, _read_properties(properties), "It is no point: its geometry must be of type Point.")
            continue
        coordinates = geometry.get("coordinates")
        lon, lat = coordinates[:2] if isinstance(coordinates, list) and len(coordinates) >= 2 else ("", "")
        yield LeadRow(number, _read_properties(properties) | {"lon": str(lon), "lat": str(lat)})


def _read_properties(properties: Any) -> dict[str, str]:
    """Known properties, as a CSV would have them; record types may be an array."""
    fields = {}
    for property_name, value in properties.items() if isinstance(properties, dict) else ():
        field_name = FIELDS_BY_NAME.get(str(property_name).lower())
        if field_name is None or value is None:
            continue
        is_list = isinstance(value, list)
        fields[field_name] = ",".join(map(str, value)) if is_list else "true" if value is True else str(value)
    return fields


BAD_LINE = "This line is no JSON: it is left out."


def _read_objects(start: str, text: io.TextIOBase, name: str) -> Iterator[dict[str, Any] | str]:
    """One feature at a time; the beginning of a collection is skipped."""
    decoder, remaining, in_collection, has_feature = json.JSONDecoder(), start, False, False
    while True:
        remaining = remaining.lstrip(" \t\r\n,\x1e")
        if in_collection and remaining[:1] == "]":
            return
        if not in_collection and (features_start := _find_features_start(remaining)) is not None:
            in_collection, remaining = True, remaining[features_start:]
            continue
        try:
            feature, end = decoder.raw_decode(remaining)
        except json.JSONDecodeError as failure:
            if not in_collection and _has_text_below(remaining, failure.pos):
                # It cannot be a feature that goes on: one line is wrong, and the next begins another.
                yield BAD_LINE
                remaining = remaining[remaining.index("\n") + 1 :]
                continue
            if len(remaining) > MAX_LINE_LENGTH:
                raise NotLeadFile(f"{name} is no GeoJSON that we can read: give a feature on each line.") from None
            new_text = text.read(READ_SIZE)
            if new_text:
                remaining += new_text
                continue
            if remaining.strip() and not in_collection and has_feature:
                yield BAD_LINE
                remaining = remaining.partition("\n")[2]
                continue
            if remaining.strip():
                raise NotLeadFile(f"{name} breaks off in the middle of a feature.") from None
            return
        remaining, has_feature = remaining[end:], True
        if isinstance(feature, dict) and feature.get("type") == "Feature":
            yield feature
        else:
            yield "It is no feature of GeoJSON."


def _has_text_below(text: str, position: int) -> bool:
    """Whether more than blanks follow the line of this position."""
    end = text.find("\n", position)
    return end >= 0 and not text[end:].isspace()


def _find_features_start(text: str) -> int | None:
    """The index of a collection's first feature; None if it is no collection."""
    head = text[:READ_SIZE]
    if '"FeatureCollection"' not in head:
        return None
    key_index = head.find('"features"')
    bracket_index = head.find("[", key_index) if key_index >= 0 else -1
    return bracket_index + 1 if bracket_index >= 0 else None


LEAD_COLUMNS = (
    "number", "grid", "latitude", "longitude", "tags", "address_key", "name", "company", "address",
    "address2", "city", "province", "postal_code", "country", "standard", "deliverability", "reasons",
    "owner",
)  # fmt: skip

TRUE_VALUES = frozenset({"1", "true", "yes", "y", "t", "x"})
MAX_VALUE_LENGTH = 300
NO_COORDINATES = "It has no latitude and longitude that are numbers."
NO_NUMBER = "It has no house number, so that no mail can reach it."
NO_STREET = "It has no street."
TOO_LONG = f"One of its values has more than {MAX_VALUE_LENGTH} characters."


class BadLeadRow(NamedTuple):
    number: int
    reason: str
    fields: Mapping[str, str]


@dataclass(slots=True)
class PreparedLeads:
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
        format_array(standardized.standard) if standardized.standard else None,
        standardized.deliverability, format_array(standardized.reasons), json.dumps(owner) if owner else None,
    )  # fmt: skip
    return "\t".join(escape_copy_value(None if value is None else str(value)) for value in values) + "\n"


def _check_texts(fields: Mapping[str, str]) -> None:
    for value in fields.values():
        if len(value) > MAX_VALUE_LENGTH:
            raise _LeadRowError(TOO_LONG)
        if not value.isprintable() or "\ufffd" in value:
            raise _LeadRowError("It holds characters that are not UTF-8, or that nobody can print.")


def _read_coordinates(fields: Mapping[str, str]) -> tuple[float, float]:
    try:
        latitude, longitude = float(fields.get("lat", "")), float(fields.get("lon", ""))
    except ValueError:
        raise _LeadRowError(NO_COORDINATES) from None
    if not (math.isfinite(latitude) and math.isfinite(longitude)):
        raise _LeadRowError(NO_COORDINATES)
    if abs(latitude) > 90 or abs(longitude) > 180 or latitude == longitude == 0:
        raise _LeadRowError("Its latitude and longitude are 0, or lie beyond the globe.")
    return latitude, longitude


def _read_address(fields: Mapping[str, str], country: str) -> dict[str, str | None]:
    """A city or state that the file leaves out is its ZIP code's."""
    street, number, code = fields.get("street"), fields.get("number"), fields.get("postcode")
    if not street:
        raise _LeadRowError(NO_STREET)
    if not number and not street[0].isdigit() and not street.upper().startswith("PO BOX"):
        raise _LeadRowError(NO_NUMBER)
    if not code:
        raise _LeadRowError("It has no ZIP or postal code.")
    zip_area = find_zip_area(code[:5]) if country == HOME_COUNTRY else None
    return {
        "address": f"{number} {street}" if number else street,
        "address2": fields.get("unit") or None,
        "city": fields.get("city") or (zip_area.city if zip_area else None),
        "province": _read_state(fields.get("region"), country) or (zip_area.state if zip_area else None),
        "postal_code": code,
    }


def _read_state(text: str | None, country: str) -> str | None:
    return (find_state_code(text or "") if country == HOME_COUNTRY else None) or text or None


def _read_owner(fields: Mapping[str, str], property_key: str) -> dict[str, object] | None:
    """The owner and their address; None if that is here, or no mail reaches it."""
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
