"""What a radius search asks for, and the grid that it looks in."""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from quillpost.recipients.addresses.cities import ZIP, ZipPlace, zip_place
from quillpost.recipients.addresses.parser import taken_apart
from quillpost.recipients.addresses.service import HOME, judge
from quillpost.recipients.rules import HOME_NAMES

ALL = "all"
ONLY_BUSINESSES = "onlybusinesses"
NEW_BUSINESS = "newbusiness"

HOMES = (
    "likelytomove", "likelytorefi", "absenteeowner", "highnetworth", "majorityhomeequity", "homefreeclear",
    "underwater", "kidsinhousehold", "newhomeowner", "firsttimehomebuyer", "renters", "retiring", "retired",
    "pool",
)  # fmt: skip

RECORD_TYPES = (ALL, *HOMES, ONLY_BUSINESSES, NEW_BUSINESS)
"""In the order in which they are told. The number of a bit is for good: rows are kept by it."""

BUSINESS, CONDO, SAMPLE = 1 << 16, 1 << 17, 1 << 18

BITS = {name: 1 << number for number, name in enumerate(HOMES)} | {
    ONLY_BUSINESSES: BUSINESS,
    NEW_BUSINESS: 1 << 15,
}
"""Of every kind but all."""

OTHER_TAGS = {"business": BUSINESS, "condo": CONDO}
"""What a file may say beside the kinds."""


def mask(names: Iterable[str]) -> int:
    """The bits of these kinds together; 0 where all are meant."""
    found = 0
    for name in names:
        if name == ALL:
            return 0
        found |= BITS[name]
    return found


def implied(tags: int) -> int:
    """The same with what goes without saying: a new business is a business."""
    return tags | BUSINESS if tags & BITS[NEW_BUSINESS] else tags


FEWEST, MOST = 1, 10_000
UNLESS_SAID = 100
"""Records that are looked for where nobody says how many."""
FARTHEST_MILES = 100
METRES_A_MILE = 1_609.344

RESIDENT = "Current Resident"
"""Who is written to where nobody's name is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """The nearest records to an address. `mailed_within_days` bounds `exclude_already_mailed`. Faults go by
    the `field` that the caller gave."""

    address: str
    record_count: int = UNLESS_SAID
    within_miles: float | None = None
    field: str = "radius_search"
    postal_code: str | None = None
    record_types: Sequence[str] = (ALL,)
    include_condos: bool = True
    include_businesses: bool = True
    use_property_owner: bool = False
    include_search_address: bool = False
    exclude_already_mailed: bool = False
    mailed_within_days: int | None = None


@dataclass(frozen=True, slots=True)
class Middle:
    """The address that a search is around: its key, its ZIP code, and where that is, as far as is known."""

    key: str | None
    zip5: str | None
    place: ZipPlace | None


def read_record_types(text: str) -> tuple[str, ...]:
    """The kinds that are named with commas between them; `ValueError` where there is no such."""
    named = tuple(dict.fromkeys(part for part in (p.strip().lower() for p in text.split(",")) if part))
    unknown = [name for name in named if name not in RECORD_TYPES]
    if unknown:
        raise ValueError(
            f"There is no record type {', '.join(unknown)[:100]}. Known: {', '.join(RECORD_TYPES)}."
        )
    return named or (ALL,)


def middle_of(address: str, postal_code: str | None) -> Middle:
    """The address, whole on one line, or its street with the ZIP code beside it."""
    line = " ".join(address.split())
    beside = (postal_code or "").strip() or None
    parts = taken_apart(line) or (beside and taken_apart(f"{line} {beside}")) or {"address": line}
    code = ZIP.fullmatch(beside or parts.get("postal_code") or "") or _last_zip(line)
    zip5 = code[1] if code else None
    place = zip_place(zip5) if zip5 else None
    if zip5 is None or place is None:
        return Middle(None, zip5, None)
    known = {"address2": None, "city": place.city, "province": place.state, **parts, "postal_code": zip5}
    return Middle(judge(known, HOME).key, zip5, place)


def _last_zip(line: str) -> re.Match[str] | None:
    words = [word for word in line.replace(",", " ").split() if word.upper() not in HOME_NAMES]
    return ZIP.fullmatch(words[-1]) if words else None


Floats = NDArray[np.float64]
Whole = NDArray[np.int64]

EARTH = 6_371_008.8
"""Metres: the mean radius."""
HALF_WAY_ROUND = math.pi * EARTH

ROWS, COLUMNS = 18_000, 36_000
STEP = 0.01

_ROUNDING = 1e-9
"""Radians, a few millimetres: as much wider is looked than arithmetic could err."""


def cells_of(latitudes: Floats, longitudes: Floats) -> Whole:
    """The cell of each point: rows from the south pole, in each of them columns from the antimeridian."""
    rows = np.clip(np.floor((latitudes + 90) / STEP), 0, ROWS - 1)
    columns = np.floor((longitudes + 180) / STEP) % COLUMNS
    cells: Whole = (rows * COLUMNS + columns).astype(np.int64)
    return cells


def distances(latitude: float, longitude: float, latitudes: Floats, longitudes: Floats) -> Floats:
    """Metres from the point to each of the others, by the haversine formula."""
    here, there = math.radians(latitude), np.radians(latitudes)
    across = np.radians(longitudes - longitude)
    chord = np.sin((there - here) / 2) ** 2 + math.cos(here) * np.cos(there) * np.sin(across / 2) ** 2
    metres: Floats = 2 * EARTH * np.arcsin(np.sqrt(np.minimum(chord, 1)))
    return metres


def cells_within(latitude: float, longitude: float, metres: float) -> tuple[Whole, Whole]:
    """The first and the last cell of each run of cells that together hold the circle, none of them twice.

    A circle that reaches a pole holds whole rows there, and one that crosses the antimeridian has two runs in
    a row.
    """
    angle = metres / EARTH + _ROUNDING
    if angle >= math.pi / 2:
        return np.array([0]), np.array([ROWS * COLUMNS - 1])
    reach = math.degrees(angle)
    south = max(0, math.floor((latitude - reach + 90) / STEP))
    north = min(ROWS - 1, math.floor((latitude + reach + 90) / STEP))
    rows = np.arange(south, north + 1)
    width = np.degrees(_widths(math.radians(latitude), angle, rows))
    west = np.floor((longitude - width + 180) / STEP).astype(np.int64)
    east = np.floor((longitude + width + 180) / STEP).astype(np.int64)
    if west.min() >= 0 and east.max() < COLUMNS:
        return rows * COLUMNS + west, rows * COLUMNS + east
    whole = east - west >= COLUMNS - 1
    west, east = np.where(whole, 0, west % COLUMNS), np.where(whole, COLUMNS - 1, east % COLUMNS)
    crosses = west > east
    first = np.concatenate([rows * COLUMNS + west, rows[crosses] * COLUMNS])
    last = np.concatenate(
        [rows * COLUMNS + np.where(crosses, COLUMNS - 1, east), (rows * COLUMNS + east)[crosses]]
    )
    return first, last


def runs_without(runs: tuple[Whole, Whole], known: tuple[Whole, Whole]) -> tuple[Whole, Whole]:
    """What is left of these runs of cells without others that all lie within them."""
    first = np.sort(np.concatenate([runs[0], known[1] + 1]))
    last = np.sort(np.concatenate([runs[1], known[0] - 1]))
    left = first <= last
    return first[left], last[left]


def _widths(latitude: float, angle: float, rows: Whole) -> Floats:
    """Half of the longitudes, in radians, that the circle spans at most within each row.

    From its ends the circle widens towards one parallel, a little nearer to the pole than its middle; so in a
    row without that parallel it is widest at one of the row's edges.
    """
    edges = np.radians(np.arange(rows[0], rows[-1] + 2) * STEP - 90)
    at_edges = _half_width(latitude, angle, edges)
    widest = np.maximum(at_edges[:-1], at_edges[1:])
    turning = math.sin(latitude) / math.cos(angle)
    if abs(turning) < 1 and math.cos(latitude) > math.sin(angle):
        parallel = math.asin(turning)
        inside = (edges[:-1] <= parallel) & (parallel <= edges[1:])
        widest = np.where(inside, math.asin(math.sin(angle) / math.cos(latitude)), widest)
    return widest + _ROUNDING


def _half_width(latitude: float, angle: float, parallels: Floats) -> Floats:
    """Half of the longitudes that lie within the circle on each parallel: none of them, or all, at most."""
    beside = math.cos(latitude) * np.cos(parallels)
    above = math.cos(angle) - math.sin(latitude) * np.sin(parallels)
    cosine = above / np.maximum(beside, 1e-300)  # at the poles it is nothing: all of the parallel, or none
    widths: Floats = np.arccos(np.clip(cosine, -1, 1))
    return widths
