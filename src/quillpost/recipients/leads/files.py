"""Files of addresses as OpenAddresses has them: CSV with a header, or GeoJSON; packed with gzip or not.

They are read as a stream, row by row, and nothing is judged here but whether it is such a file at all.
"""

import csv
import gzip
import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from quillpost.core.errors import NotReady
from quillpost.recipients.leads.rules import OTHER_TAGS, RECORD_TYPES

GZIP = b"\x1f\x8b"
LONGEST_LINE = 1_000_000
"""Characters of a line or a feature: a row of addresses has a few hundred."""
MOST_COLUMNS = 500
AT_A_TIME = 1 << 16

NAMES = {
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
"""Our name of a field, and the names that it may have in a file, in small letters."""
OURS = {theirs: ours for ours, names in NAMES.items() for theirs in names}
NEEDED = ("lon", "lat", "street", "postcode")


class NotLeads(NotReady):
    """Why a file holds no addresses at all, as a sentence."""


class Row(NamedTuple):
    """A row's place in its file, from 1 without the header, and its fields by our names; or what is wrong."""

    number: int
    fields: dict[str, str]
    fault: str | None = None


@contextmanager
def opened(file: Path) -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """The file as it is, which knows how far it was read, and what is in it."""
    try:
        raw = file.open("rb")
    except OSError as fault:
        raise NotReady(f"{file} cannot be read: {fault.strerror}.") from None
    with raw:
        is_packed = raw.read(2) == GZIP
        raw.seek(0)
        yield raw, gzip.GzipFile(fileobj=raw) if is_packed else raw  # type: ignore[misc]


def rows(source: BinaryIO, name: str) -> Iterator[Row]:
    """Every row of the file; `NotLeads` where it is something else."""
    text = io.TextIOWrapper(source, "utf-8-sig", errors="replace", newline="")
    try:
        start = text.read(AT_A_TIME)
        if start.lstrip(" \t\r\n\x1e")[:1] == "{":
            yield from _features(start, text, name)
        else:
            yield from _lines(start, text, name)
    except (OSError, EOFError) as broken:
        raise NotLeads(f"{name} breaks off, or is damaged: {broken}.") from None
    finally:
        text.detach()


def _lines(start: str, text: io.TextIOBase, name: str) -> Iterator[Row]:
    reader = csv.reader(_split(start, text, name))
    try:
        header = [OURS.get(column.strip().lower(), "") for column in next(reader, [])]
    except csv.Error as wrong:
        raise NotLeads(f"{name} is no CSV: {wrong}.") from None
    missing = [needed for needed in NEEDED if needed not in header]
    if missing:
        columns = ", ".join(needed.upper() for needed in missing)
        raise NotLeads(
            f"{name} has no column {columns}: it needs a header such as LON,LAT,NUMBER,STREET,POSTCODE."
        )
    if len(header) > MOST_COLUMNS:
        raise NotLeads(f"{name} has more than {MOST_COLUMNS} columns.")
    doubled = {column for column in header if column and header.count(column) > 1}
    if doubled:
        raise NotLeads(f"{name} has two columns for {', '.join(sorted(doubled))}: leave one out.")
    number = 0
    while True:
        number += 1
        try:
            values = next(reader)
        except StopIteration:
            return
        except csv.Error as wrong:
            yield Row(number, {}, f"This row cannot be read: {wrong}.")
            continue
        if not values:
            number -= 1
            continue
        fields = {ours: value for ours, value in zip(header, values, strict=False) if ours}
        fault = (
            None if len(values) == len(header) else f"It has {len(values)} columns, the header {len(header)}."
        )
        yield Row(number, fields, fault)


def _split(start: str, text: io.TextIOBase, name: str) -> Iterator[str]:
    """Lines with their ends, as csv wants them; a quoted value may hold such an end, and any value other
    signs that divide lines elsewhere."""
    rest = start
    while True:
        lines = io.StringIO(rest, newline="").readlines()
        # The last may go on; and what ends with \r may go on with \n.
        rest = lines.pop() if lines else ""
        yield from lines
        if len(rest) > LONGEST_LINE:
            raise NotLeads(f"{name} has a line of more than {LONGEST_LINE:,} characters: it is no CSV.")
        more = text.read(AT_A_TIME)
        if not more:
            yield from [rest] if rest else []
            return
        rest += more


def _features(start: str, text: io.TextIOBase, name: str) -> Iterator[Row]:
    """Features one after another, whether each has a line of its own or all are in a collection."""
    for number, feature in enumerate(_objects(start, text, name), start=1):
        if isinstance(feature, str):
            yield Row(number, {}, feature)
            continue
        geometry, properties = feature.get("geometry"), feature.get("properties")
        if not isinstance(geometry, dict) or geometry.get("type") != "Point":
            yield Row(number, _texts(properties), "It is no point: its geometry must be of type Point.")
            continue
        place = geometry.get("coordinates")
        lon, lat = place[:2] if isinstance(place, list) and len(place) >= 2 else ("", "")
        yield Row(number, _texts(properties) | {"lon": str(lon), "lat": str(lat)})


def _texts(properties: Any) -> dict[str, str]:
    """The properties that we know, as a CSV would have them; kinds may be an array."""
    found = {}
    for theirs, value in properties.items() if isinstance(properties, dict) else ():
        ours = OURS.get(str(theirs).lower())
        if ours is None or value is None:
            continue
        is_list = isinstance(value, list)
        found[ours] = (
            ",".join(map(str, value)) if is_list else str(value).lower() if value is True else str(value)
        )
    return found


BAD_LINE = "This line is no JSON: it is left out."


def _objects(start: str, text: io.TextIOBase, name: str) -> Iterator[dict[str, Any] | str]:
    """Each feature as it comes. A collection's beginning is read past; one feature is held at a time."""
    decoder, rest, in_collection, is_begun = json.JSONDecoder(), start, False, False
    while True:
        rest = rest.lstrip(" \t\r\n,\x1e")
        if in_collection and rest[:1] == "]":
            return
        if not in_collection and (begin := _features_begin(rest)) is not None:
            in_collection, rest = True, rest[begin:]
            continue
        try:
            found, end = decoder.raw_decode(rest)
        except json.JSONDecodeError as wrong:
            if not in_collection and _goes_on_below(rest, wrong.pos):
                # It cannot be a feature that goes on: one line is wrong, and the next begins another.
                yield BAD_LINE
                rest = rest[rest.index("\n") + 1 :]
                continue
            if len(rest) > LONGEST_LINE:
                raise NotLeads(
                    f"{name} is no GeoJSON that we can read: give a feature on each line."
                ) from None
            more = text.read(AT_A_TIME)
            if more:
                rest += more
                continue
            if rest.strip() and not in_collection and is_begun:
                yield BAD_LINE
                rest = rest.partition("\n")[2]
                continue
            if rest.strip():
                raise NotLeads(f"{name} breaks off in the middle of a feature.") from None
            return
        rest, is_begun = rest[end:], True
        if isinstance(found, dict) and found.get("type") == "Feature":
            yield found
        else:
            yield "It is no feature of GeoJSON."


def _goes_on_below(text: str, place: int) -> bool:
    """Whether more than blanks come after the end of this place's line."""
    end = text.find("\n", place)
    return end >= 0 and not text[end:].isspace()


def _features_begin(text: str) -> int | None:
    """Where the first feature of a collection is; None: it is none, or cannot be seen yet."""
    head = text[:AT_A_TIME]
    if '"FeatureCollection"' not in head:
        return None
    at = head.find('"features"')
    begin = head.find("[", at) if at >= 0 else -1
    return begin + 1 if begin >= 0 else None
