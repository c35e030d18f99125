"""People as somebody pastes them, and the map of a radius search.

Tables are read as files of an import are. Nothing is examined here: whoever sends examines everybody.
"""

import io
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from quillpost.core.errors import Invalid
from quillpost.recipients.field_names import meaning, plain
from quillpost.recipients.imports.columns import Column, Layout, chosen_columns
from quillpost.recipients.imports.rows import Plan, RowReader, records
from quillpost.recipients.imports.sniffer import sniff
from quillpost.recipients.rules import EMAIL, Row

REACHING = frozenset({"address", "full_address", "street_name", "email"})
WHOLE_ADDRESS = frozenset({"address", "city", "province", "postal_code"})
FAULTS_TOLD = 8
NO_STREET = "no street and number was found: write Jane Doe, 12 Main St, Austin, TX 78701."
LONGEST_PERSON = 1_000

_ENDS = re.compile(r"(?:^|[\s,])(?:\d{5}(?:-\d{4})?|[A-Z]\d[A-Z]\s?\d[A-Z]\d)[.,]?$", re.IGNORECASE)
"""How the last line of an address ends: with a ZIP code, or a postal code of Canada."""
_BOX = re.compile(r"\b(?:box|bin|drawer|unit|apt|suite|ste|#)\s*\d+$", re.IGNORECASE)
_CANADIAN = re.compile(r"\b[A-Z]\d[A-Z]\s?\d[A-Z]\d[.,]?$", re.IGNORECASE)
_COUNTRIES = frozenset({"usa", "us", "u.s.a.", "u.s.", "united states", "united states of america", "canada"})
_STREET = re.compile(r"#?\d|(?:p\.?\s*o\.?\s*box|box|rr|hc|general delivery|one|two)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Pasted:
    """Everybody in order, by the names of a send's recipients, with the lines where each begins; and what
    could not be read, by its line."""

    rows: Sequence[Row] = ()
    lines: Sequence[int] = ()
    faults: Sequence[tuple[int, str]] = field(default_factory=tuple)

    def line_of(self, place: int) -> int:
        return self.lines[place] if place < len(self.lines) else 0


def read_people(text: str, *, most: int | None = None) -> Pasted:
    """Whoever is in the text; `most`, only so many of them are read."""
    if not text.strip():
        return Pasted()
    table = _table(text)
    found = _of_table(*table, text) if table else _of_envelopes(text)
    rows: list[Row] = []
    lines: list[int] = []
    faults: list[tuple[int, str]] = []
    for line, given in islice(found, most):
        if isinstance(given, str):
            faults.append((line, given))
        else:
            rows.append(given)
            lines.append(line)
    return Pasted(rows, lines, faults)


def told(faults: Sequence[tuple[int, str]]) -> list[str]:
    """The first of what is wrong, by line, and how much more there is."""
    several = sorted(faults)
    shown = [f"Line {line}: {sentence}" for line, sentence in several[:FAULTS_TOLD]]
    more = len(several) - len(shown)
    return [*shown, f"And {more:,} more."] if more else shown


def _table(text: str) -> tuple[Layout, Sequence[Column]] | None:
    """How it is read as a table, if it is one: its columns are named, or cannot be anything else."""
    try:
        sniffed = sniff(io.BytesIO(text.encode()))
    except Invalid:
        return None
    columns = chosen_columns(sniffed.layout, sniffed.rows, None)
    fields = {column.field for column in columns}
    named = {column.field for column in columns if meaning(plain(column.name))}
    is_named = sniffed.layout.has_header and bool(named & REACHING)
    is_certain = sniffed.layout.delimiter == "\t" or fields >= WHOLE_ADDRESS
    is_apart = bool(sniffed.layout.delimiter) and is_certain and bool(fields & REACHING)
    return (sniffed.layout, columns) if is_named or is_apart else None


Found = Iterator[tuple[int, Row | str]]


def _of_table(layout: Layout, columns: Sequence[Column], text: str) -> Found:
    fields = [(place, column.field) for place, column in enumerate(columns) if column.field]
    reader = RowReader(Plan(fields, layout.width))
    for record in records(io.BytesIO(text.encode()), layout):
        yield record.line, record.fault or reader.given(record.cells)


def _of_envelopes(text: str) -> Found:
    for line, written in _envelopes(text):
        yield line, _on_an_envelope(written)


def _envelopes(text: str) -> Iterator[tuple[int, str]]:
    """Each address with its lines joined. It ends with its code, or where a line is left blank."""
    begun, gathered, is_whole = 0, list[str](), False
    for number, raw in enumerate(text.splitlines(), start=1):
        line = " ".join(raw.replace("\t", ", ").split()).strip(" ,;")
        if line and is_whole and line.lower() in _COUNTRIES:
            gathered.append(line)
            continue
        ends = bool(_ENDS.search(line)) and not _BOX.search(line)
        if gathered and (is_whole or not line or (ends and _names_somebody(line))):
            yield from _apart(begun, gathered, is_whole=is_whole)
            gathered = []
        if line:
            begun = begun if gathered else number
            gathered.append(line)
        is_whole = ends
    yield from _apart(begun, gathered, is_whole=is_whole)


def _apart(begun: int, lines: Sequence[str], *, is_whole: bool) -> Iterator[tuple[int, str]]:
    """Lines that follow each other are one address; but where no code ends it and the first is one by itself,
    so are the others, and each is told of."""
    if is_whole or not _names_somebody(lines[0] if lines else ""):
        yield from [(begun, ", ".join(lines))] if lines else []
    else:
        yield from enumerate(lines, start=begun)


def _names_somebody(line: str) -> bool:
    """Whether a street stands in it after something else: then it needs no line above it."""
    parts = _parts(line)
    return bool(parts) and not _STREET.match(parts[0]) and any(_STREET.match(part) for part in parts[1:-1])


def _parts(written: str) -> list[str]:
    return [part for part in (one.strip() for one in re.split(r"[,;]", written)) if part]


def _on_an_envelope(written: str) -> Row | str:
    """Whoever stands above the street, and all from there on as one line, which the examiner takes apart."""
    if len(written) > LONGEST_PERSON:
        return f"this is longer than {LONGEST_PERSON:,} characters: begin a new line for each person."
    parts = _parts(written)
    email = next((part for part in parts if EMAIL.fullmatch(part)), None)
    parts = [part for part in parts if part != email]
    street = next((place for place, part in enumerate(parts) if _STREET.match(part)), None)
    if street is None:
        return NO_STREET
    given: dict[str, str | None] = {"address": ", ".join(parts[street:])}
    above = parts[:street]
    given |= {"name": above[0]} if above else {}
    given |= {"company": ", ".join(above[1:])} if above[1:] else {}
    given |= {"email": email} if email else {}
    if _CANADIAN.search(parts[-1]):
        given["country"] = "CA"
    return given


SIZE: Final = 600
MARGIN: Final = 40
MILES_A_DEGREE: Final = 69.0
"""Of latitude; of longitude there are fewer towards the poles."""
SCALES: Final = (0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 25, 50, 100)
LEAST_MILES: Final = 0.02

Place = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Map:
    """In the units of a drawing `SIZE` wide and high, north up, with the middle in its middle."""

    dots: str
    """One path of strokes without length, each of which is a dot."""
    shown: int
    miles: float
    """To the farthest."""
    ring: float
    scale: float
    """Miles that the bar at the edge stands for."""
    bar: float

    @property
    def size(self) -> int:
        return SIZE

    @property
    def middle(self) -> int:
        return SIZE // 2


def map_of(middle: Place, places: Sequence[Place | None]) -> Map | None:
    """Nothing where the source tells no places."""
    known = [_miles(middle, place) for place in places if place is not None]
    if not known:
        return None
    miles = max(math.hypot(east, north) for east, north in known)
    a_mile = (SIZE / 2 - MARGIN) / max(miles, LEAST_MILES)
    dots = {(round(SIZE / 2 + east * a_mile), round(SIZE / 2 - north * a_mile)) for east, north in known}
    scale = max([each for each in SCALES if each * a_mile <= SIZE / 3], default=SCALES[0])
    return Map(
        dots="".join(f"M{x} {y}h0" for x, y in sorted(dots)),
        shown=len(known),
        miles=miles,
        ring=round(miles * a_mile, 1),
        scale=scale,
        bar=round(scale * a_mile, 1),
    )


def _miles(middle: Place, place: Place) -> tuple[float, float]:
    """How far east and north of the middle it is. Over so short a way the earth is flat."""
    east = (place[1] - middle[1]) * MILES_A_DEGREE * math.cos(math.radians(middle[0]))
    return east, (place[0] - middle[0]) * MILES_A_DEGREE
