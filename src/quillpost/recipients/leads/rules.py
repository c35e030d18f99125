"""What a radius search requests, and the grid that it reads."""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from quillpost.recipients.addresses.cities import ZIP_PATTERN, ZipArea, find_zip_area
from quillpost.recipients.addresses.parser import split_address_line
from quillpost.recipients.addresses.rules import HOME_COUNTRY, standardize
from quillpost.recipients.rules import HOME_COUNTRY_NAMES

ALL_RECORDS = "all"
ONLY_BUSINESSES = "onlybusinesses"
NEW_BUSINESS = "newbusiness"

HOME_RECORD_TYPES = (
    "likelytomove", "likelytorefi", "absenteeowner", "highnetworth", "majorityhomeequity", "homefreeclear",
    "underwater", "kidsinhousehold", "newhomeowner", "firsttimehomebuyer", "renters", "retiring", "retired",
    "pool",
)  # fmt: skip

RECORD_TYPES = (ALL_RECORDS, *HOME_RECORD_TYPES, ONLY_BUSINESSES, NEW_BUSINESS)
"""In the order in which they are listed. The number of a bit is stored, and never changes."""

BUSINESS_TAG, CONDO_TAG, SAMPLE_TAG = 1 << 16, 1 << 17, 1 << 18

RECORD_TYPE_TAGS = {name: 1 << number for number, name in enumerate(HOME_RECORD_TYPES)} | {
    ONLY_BUSINESSES: BUSINESS_TAG,
    NEW_BUSINESS: 1 << 15,
}
"""Of every type but all."""

OTHER_TAGS = {"business": BUSINESS_TAG, "condo": CONDO_TAG}
"""What a file may say beside the types."""


def build_tag_mask(names: Iterable[str]) -> int:
    """0 means all."""
    tag_mask = 0
    for name in names:
        if name == ALL_RECORDS:
            return 0
        tag_mask |= RECORD_TYPE_TAGS[name]
    return tag_mask


def add_implied_tags(tags: int) -> int:
    """A new business is a business."""
    return tags | BUSINESS_TAG if tags & RECORD_TYPE_TAGS[NEW_BUSINESS] else tags


MIN_RECORDS, MAX_RECORDS = 1, 10_000
DEFAULT_RECORDS = 100
MAX_MILES = 100
METERS_PER_MILE = 1_609.344

UNKNOWN_RESIDENT = "Current Resident"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadSearch:
    """The nearest records to an address. `mailed_within_days` limits `exclude_already_mailed`. Errors are reported for
    `field`."""

    address: str
    record_count: int = DEFAULT_RECORDS
    within_miles: float | None = None
    field: str = "radius_search"
    postal_code: str | None = None
    record_types: Sequence[str] = (ALL_RECORDS,)
    include_condos: bool = True
    include_businesses: bool = True
    use_property_owner: bool = False
    include_search_address: bool = False
    exclude_already_mailed: bool = False
    mailed_within_days: int | None = None


@dataclass(frozen=True, slots=True)
class SearchCenter:
    """The address that a search is around, as far as it is known."""

    key: str | None
    zip5: str | None
    zip_area: ZipArea | None


def read_record_types(text: str) -> tuple[str, ...]:
    """Types separated by commas; `ValueError` if one is unknown."""
    record_types = tuple(dict.fromkeys(filter(None, (part.strip().lower() for part in text.split(",")))))
    unknown = [name for name in record_types if name not in RECORD_TYPES]
    if unknown:
        raise ValueError(f"There is no record type {', '.join(unknown)[:100]}. Known: {', '.join(RECORD_TYPES)}.")
    return record_types or (ALL_RECORDS,)


def find_search_center(address: str, postal_code: str | None) -> SearchCenter:
    """The address on one line, or its street with the ZIP code beside it."""
    line = " ".join(address.split())
    separate_zip = (postal_code or "").strip() or None
    parts = (
        split_address_line(line) or (separate_zip and split_address_line(f"{line} {separate_zip}")) or {"address": line}
    )
    code = ZIP_PATTERN.fullmatch(separate_zip or parts.get("postal_code") or "") or _find_last_zip(line)
    zip5 = code[1] if code else None
    zip_area = find_zip_area(zip5) if zip5 else None
    if zip5 is None or zip_area is None:
        return SearchCenter(None, zip5, None)
    full_address = {"address2": None, "city": zip_area.city, "province": zip_area.state, **parts, "postal_code": zip5}
    return SearchCenter(standardize(full_address, HOME_COUNTRY).key, zip5, zip_area)


def _find_last_zip(line: str) -> re.Match[str] | None:
    words = [word for word in line.replace(",", " ").split() if word.upper() not in HOME_COUNTRY_NAMES]
    return ZIP_PATTERN.fullmatch(words[-1]) if words else None


Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

EARTH_RADIUS_METERS = 6_371_008.8
HALF_EARTH_METERS = math.pi * EARTH_RADIUS_METERS

GRID_ROWS, GRID_COLUMNS = 18_000, 36_000
GRID_STEP_DEGREES = 0.01

_ROUNDING_MARGIN = 1e-9
"""Radians, a few millimeters: the margin for rounding errors."""


def find_cells(latitudes: Floats, longitudes: Floats) -> Integers:
    """The cell of each point: rows from the south pole, columns from the antimeridian."""
    rows = np.clip(np.floor((latitudes + 90) / GRID_STEP_DEGREES), 0, GRID_ROWS - 1)
    columns = np.floor((longitudes + 180) / GRID_STEP_DEGREES) % GRID_COLUMNS
    cells: Integers = (rows * GRID_COLUMNS + columns).astype(np.int64)
    return cells


def compute_distances(latitude: float, longitude: float, latitudes: Floats, longitudes: Floats) -> Floats:
    """Meters from the point to each of the others, by the haversine formula."""
    center_latitude, latitudes_radians = math.radians(latitude), np.radians(latitudes)
    longitude_differences = np.radians(longitudes - longitude)
    chord = (
        np.sin((latitudes_radians - center_latitude) / 2) ** 2
        + math.cos(center_latitude) * np.cos(latitudes_radians) * np.sin(longitude_differences / 2) ** 2
    )
    meters: Floats = 2 * EARTH_RADIUS_METERS * np.arcsin(np.sqrt(np.minimum(chord, 1)))
    return meters


def find_cells_within(latitude: float, longitude: float, meters: float) -> tuple[Integers, Integers]:
    """The first and last cell of each run of cells that together cover the circle, none twice. A circle that reaches a
    pole covers whole rows there; one that crosses the antimeridian has two runs in a row."""
    angle = meters / EARTH_RADIUS_METERS + _ROUNDING_MARGIN
    if angle >= math.pi / 2:
        return np.array([0]), np.array([GRID_ROWS * GRID_COLUMNS - 1])
    reach = math.degrees(angle)
    south = max(0, math.floor((latitude - reach + 90) / GRID_STEP_DEGREES))
    north = min(GRID_ROWS - 1, math.floor((latitude + reach + 90) / GRID_STEP_DEGREES))
    rows = np.arange(south, north + 1)
    width = np.degrees(_compute_row_widths(math.radians(latitude), angle, rows))
    west = np.floor((longitude - width + 180) / GRID_STEP_DEGREES).astype(np.int64)
    east = np.floor((longitude + width + 180) / GRID_STEP_DEGREES).astype(np.int64)
    if west.min() >= 0 and east.max() < GRID_COLUMNS:
        return rows * GRID_COLUMNS + west, rows * GRID_COLUMNS + east
    is_full_row = east - west >= GRID_COLUMNS - 1
    west = np.where(is_full_row, 0, west % GRID_COLUMNS)
    east = np.where(is_full_row, GRID_COLUMNS - 1, east % GRID_COLUMNS)
    crosses = west > east
    first = np.concatenate([rows * GRID_COLUMNS + west, rows[crosses] * GRID_COLUMNS])
    last = np.concatenate(
        [rows * GRID_COLUMNS + np.where(crosses, GRID_COLUMNS - 1, east), (rows * GRID_COLUMNS + east)[crosses]]
    )
    return first, last


def subtract_runs(runs: tuple[Integers, Integers], read_runs: tuple[Integers, Integers]) -> tuple[Integers, Integers]:
    """What is left of these runs without others that all lie within them."""
    first = np.sort(np.concatenate([runs[0], read_runs[1] + 1]))
    last = np.sort(np.concatenate([runs[1], read_runs[0] - 1]))
    is_remaining = first <= last
    return first[is_remaining], last[is_remaining]


def _compute_row_widths(latitude: float, angle: float, rows: Integers) -> Floats:
    """Half of the longitudes, in radians, that the circle spans at most within each row. It is widest at one parallel,
    a little nearer to the pole than its center; in other rows at one of the row's edges."""
    edges = np.radians(np.arange(rows[0], rows[-1] + 2) * GRID_STEP_DEGREES - 90)
    at_edges = _compute_half_widths(latitude, angle, edges)
    widest = np.maximum(at_edges[:-1], at_edges[1:])
    widest_sine = math.sin(latitude) / math.cos(angle)
    if abs(widest_sine) < 1 and math.cos(latitude) > math.sin(angle):
        parallel = math.asin(widest_sine)
        contains_parallel = (edges[:-1] <= parallel) & (parallel <= edges[1:])
        widest = np.where(contains_parallel, math.asin(math.sin(angle) / math.cos(latitude)), widest)
    return widest + _ROUNDING_MARGIN


def _compute_half_widths(latitude: float, angle: float, parallels: Floats) -> Floats:
    """Half of the longitudes within the circle on each parallel."""
    denominator = math.cos(latitude) * np.cos(parallels)
    numerator = math.cos(angle) - math.sin(latitude) * np.sin(parallels)
    cosine = numerator / np.maximum(denominator, 1e-300)  # at the poles it is nothing: all of the parallel, or none
    widths: Floats = np.arccos(np.clip(cosine, -1, 1))
    return widths
