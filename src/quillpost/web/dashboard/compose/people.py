"""Pasted people, and the map of a radius search. Tables are read like files of an import."""

import io
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from quillpost.core.errors import Invalid
from quillpost.recipients.field_names import find_field_meaning, normalize_name
from quillpost.recipients.imports.files import read_records, sniff
from quillpost.recipients.imports.models import FileLayout, MappedColumn, RowPlan
from quillpost.recipients.imports.rules import RowReader, choose_columns
from quillpost.recipients.models import RecipientFields
from quillpost.recipients.rules import EMAIL_PATTERN

CONTACT_FIELDS = frozenset({"address", "full_address", "street_name", "email"})
COMPLETE_ADDRESS_FIELDS = frozenset({"address", "city", "province", "postal_code"})
MAX_ERRORS_LISTED = 8
NO_STREET = "no street and number was found: write Jane Doe, 12 Main St, Austin, TX 78701."
MAX_PERSON_LENGTH = 1_000

_POSTAL_CODE_AT_END = re.compile(r"(?:^|[\s,])(?:\d{5}(?:-\d{4})?|[A-Z]\d[A-Z]\s?\d[A-Z]\d)[.,]?$", re.IGNORECASE)
"""How the last line of an address ends: with a ZIP code, or a postal code of Canada."""
_BOX_AT_END = re.compile(r"\b(?:box|bin|drawer|unit|apt|suite|ste|#)\s*\d+$", re.IGNORECASE)
_CANADIAN_CODE_AT_END = re.compile(r"\b[A-Z]\d[A-Z]\s?\d[A-Z]\d[.,]?$", re.IGNORECASE)
_COUNTRY_NAMES = frozenset({"usa", "us", "u.s.a.", "u.s.", "united states", "united states of america", "canada"})
_STREET_START = re.compile(r"#?\d|(?:p\.?\s*o\.?\s*box|box|rr|hc|general delivery|one|two)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class PastedPeople:
    """The people in order, with the lines where each begins, and what could not be read, by line."""

    rows: Sequence[RecipientFields] = ()
    lines: Sequence[int] = ()
    errors: Sequence[tuple[int, str]] = field(default_factory=tuple)

    def line_number(self, index: int) -> int:
        return self.lines[index] if index < len(self.lines) else 0


def parse_people(text: str, *, limit: int | None = None) -> PastedPeople:
    """At most `limit` of them."""
    if not text.strip():
        return PastedPeople()
    table = _detect_table(text)
    entries = _read_table(*table, text) if table else _read_envelopes(text)
    rows: list[RecipientFields] = []
    lines: list[int] = []
    errors: list[tuple[int, str]] = []
    for line, entry in islice(entries, limit):
        if isinstance(entry, str):
            errors.append((line, entry))
        else:
            rows.append(entry)
            lines.append(line)
    return PastedPeople(rows, lines, errors)


def describe_errors(errors: Sequence[tuple[int, str]]) -> list[str]:
    """The first errors by line, and how many more there are."""
    sorted_errors = sorted(errors)
    messages = [f"Line {line}: {message}" for line, message in sorted_errors[:MAX_ERRORS_LISTED]]
    omitted_count = len(sorted_errors) - len(messages)
    return [*messages, f"And {omitted_count:,} more."] if omitted_count else messages


def _detect_table(text: str) -> tuple[FileLayout, Sequence[MappedColumn]] | None:
    """How to read it as a table, if its columns have names or can be nothing else."""
    try:
        sniffed = sniff(io.BytesIO(text.encode()))
    except Invalid:
        return None
    columns = choose_columns(sniffed.layout, sniffed.rows, None)
    fields = {column.field for column in columns}
    named_fields = {column.field for column in columns if find_field_meaning(normalize_name(column.name))}
    is_named = sniffed.layout.has_header and bool(named_fields & CONTACT_FIELDS)
    is_certain = sniffed.layout.delimiter == "\t" or fields >= COMPLETE_ADDRESS_FIELDS
    is_delimited = bool(sniffed.layout.delimiter) and is_certain and bool(fields & CONTACT_FIELDS)
    return (sniffed.layout, columns) if is_named or is_delimited else None


ParsedEntries = Iterator[tuple[int, RecipientFields | str]]


def _read_table(layout: FileLayout, columns: Sequence[MappedColumn], text: str) -> ParsedEntries:
    fields = [(index, column.field) for index, column in enumerate(columns) if column.field]
    reader = RowReader(RowPlan(fields, layout.width))
    for record in read_records(io.BytesIO(text.encode()), layout):
        yield record.line, record.error or reader.read_fields(record.cells)


def _read_envelopes(text: str) -> ParsedEntries:
    for line, address in _split_envelopes(text):
        yield line, _parse_envelope(address)


def _split_envelopes(text: str) -> Iterator[tuple[int, str]]:
    """Each address with its lines joined. It ends with its postal code, or at a blank line."""
    first_line, address_lines, is_complete = 0, list[str](), False
    for number, raw_line in enumerate(text.splitlines(), start=1):
        line = " ".join(raw_line.replace("\t", ", ").split()).strip(" ,;")
        if line and is_complete and line.lower() in _COUNTRY_NAMES:
            address_lines.append(line)
            continue
        ends_address = bool(_POSTAL_CODE_AT_END.search(line)) and not _BOX_AT_END.search(line)
        if address_lines and (is_complete or not line or (ends_address and _has_name_and_street(line))):
            yield from _split_lines(first_line, address_lines, is_complete=is_complete)
            address_lines = []
        if line:
            first_line = first_line if address_lines else number
            address_lines.append(line)
        is_complete = ends_address
    yield from _split_lines(first_line, address_lines, is_complete=is_complete)


def _split_lines(first_line: int, lines: Sequence[str], *, is_complete: bool) -> Iterator[tuple[int, str]]:
    """One address; or several, where no code ends it and the first line is an address by itself."""
    if is_complete or not _has_name_and_street(lines[0] if lines else ""):
        yield from [(first_line, ", ".join(lines))] if lines else []
    else:
        yield from enumerate(lines, start=first_line)


def _has_name_and_street(line: str) -> bool:
    """Whether a street follows something else: then the line needs none above it."""
    parts = _split_at_commas(line)
    return bool(parts) and not _STREET_START.match(parts[0]) and any(_STREET_START.match(part) for part in parts[1:-1])


def _split_at_commas(text: str) -> list[str]:
    return [part for part in (chunk.strip() for chunk in re.split(r"[,;]", text)) if part]


def _parse_envelope(text: str) -> RecipientFields | str:
    """The name is what is above the street; the rest is one line, which is split later."""
    if len(text) > MAX_PERSON_LENGTH:
        return f"this is longer than {MAX_PERSON_LENGTH:,} characters: begin a new line for each person."
    parts = _split_at_commas(text)
    email = next((part for part in parts if EMAIL_PATTERN.fullmatch(part)), None)
    parts = [part for part in parts if part != email]
    street_index = next((index for index, part in enumerate(parts) if _STREET_START.match(part)), None)
    if street_index is None:
        return NO_STREET
    person: dict[str, str | None] = {"address": ", ".join(parts[street_index:])}
    name_lines = parts[:street_index]
    person |= {"name": name_lines[0]} if name_lines else {}
    person |= {"company": ", ".join(name_lines[1:])} if name_lines[1:] else {}
    person |= {"email": email} if email else {}
    if _CANADIAN_CODE_AT_END.search(parts[-1]):
        person["country"] = "CA"
    return person


MAP_SIZE: Final = 600
MAP_MARGIN: Final = 40
MILES_PER_DEGREE: Final = 69.0
"""Of latitude; of longitude there are fewer towards the poles."""
SCALE_MILES: Final = (0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 25, 50, 100)
MIN_MILES: Final = 0.02

LatitudeLongitude = tuple[float, float]


@dataclass(frozen=True, slots=True)
class RadiusMap:
    """In the units of a drawing `MAP_SIZE` wide and high, north up."""

    dots: str
    """One path of strokes without length, each of which is a dot."""
    dot_count: int
    miles: float
    """To the farthest."""
    ring: float
    scale: float
    """Miles that the bar at the edge stands for."""
    bar: float

    @property
    def size(self) -> int:
        return MAP_SIZE

    @property
    def center(self) -> int:
        return MAP_SIZE // 2


def draw_radius_map(center: LatitudeLongitude, locations: Sequence[LatitudeLongitude | None]) -> RadiusMap | None:
    """None where the source has no coordinates."""
    offsets = [_miles_from_center(center, location) for location in locations if location is not None]
    if not offsets:
        return None
    miles = max(math.hypot(east, north) for east, north in offsets)
    pixels_per_mile = (MAP_SIZE / 2 - MAP_MARGIN) / max(miles, MIN_MILES)
    dots = {
        (round(MAP_SIZE / 2 + east * pixels_per_mile), round(MAP_SIZE / 2 - north * pixels_per_mile))
        for east, north in offsets
    }
    scale = max([each for each in SCALE_MILES if each * pixels_per_mile <= MAP_SIZE / 3], default=SCALE_MILES[0])
    return RadiusMap(
        dots="".join(f"M{x} {y}h0" for x, y in sorted(dots)),
        dot_count=len(offsets),
        miles=miles,
        ring=round(miles * pixels_per_mile, 1),
        scale=scale,
        bar=round(scale * pixels_per_mile, 1),
    )


def _miles_from_center(center: LatitudeLongitude, location: LatitudeLongitude) -> tuple[float, float]:
    """Miles east and north. Over so short a distance the earth is flat."""
    east = (location[1] - center[1]) * MILES_PER_DEGREE * math.cos(math.radians(center[0]))
    return east, (location[0] - center[0]) * MILES_PER_DEGREE
