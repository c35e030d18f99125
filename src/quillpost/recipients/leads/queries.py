"""The nearest addresses of the table: exact, from an index of grid cells. How far to look is estimated from the
density. All addresses within that distance lie in the cells that are read, so once there are enough, none is nearer.
Density is counted in coarse cells as a summed-area table: the count of any box follows from its four corners."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quillpost.core.database import Tx, driver_connection
from quillpost.recipients.leads.rules import (
    EARTH_RADIUS_METERS,
    GRID_COLUMNS,
    GRID_ROWS,
    GRID_STEP_DEGREES,
    HALF_EARTH_METERS,
    Floats,
    Integers,
    compute_distances,
    find_cells_within,
    subtract_runs,
)

CELLS_PER_DENSITY_CELL = 10
"""Grid cells along the edge of a density cell."""
DENSITY_ROWS, DENSITY_COLUMNS = GRID_ROWS // CELLS_PER_DENSITY_CELL, GRID_COLUMNS // CELLS_PER_DENSITY_CELL
FIRST_BOX_CELLS, BOX_GROWTH = 0.5, 1.6
"""The first box reaches so many density cells each way; each next one grows by the factor."""

_SELECT_DENSITY = "select array_agg(cell), array_agg(records) from lead_density"


class LeadDensity:
    """For estimates: it may be outdated."""

    def __init__(self, cells: Integers, records: Integers) -> None:
        sums = np.zeros((DENSITY_ROWS + 1, DENSITY_COLUMNS + 1), np.int32)
        sums[cells // DENSITY_COLUMNS + 1, cells % DENSITY_COLUMNS + 1] = records
        np.cumsum(sums, axis=0, out=sums)
        np.cumsum(sums, axis=1, out=sums)
        self._sums = sums.reshape(-1).data  # single numbers are read from it faster than from numpy

    def estimate_radius(self, latitude: float, longitude: float, count: float) -> float:
        """Meters within which there should be so many."""
        row = (latitude + 90) / GRID_STEP_DEGREES / CELLS_PER_DENSITY_CELL
        column = (longitude + 180) / GRID_STEP_DEGREES / CELLS_PER_DENSITY_CELL
        longitude_stretch = 1 / max(math.cos(math.radians(latitude)), GRID_STEP_DEGREES)
        inner_radius, inner_count, outer_radius = 0.0, 0.0, FIRST_BOX_CELLS
        while outer_radius < DENSITY_ROWS:
            width = min(outer_radius * longitude_stretch, DENSITY_COLUMNS / 2 - 1)
            south, north = max(int(row - outer_radius), 0), min(int(row + outer_radius) + 1, DENSITY_ROWS)
            west, east = math.floor(column - width), math.floor(column + width) + 1
            records_per_cell = self._count_in_box(south, north, west, east) / ((north - south) * (east - west))
            outer_count = records_per_cell * math.pi * outer_radius * width
            if outer_count >= count:
                share = (count - inner_count) / (outer_count - inner_count)
                radius = math.sqrt(inner_radius**2 + (outer_radius**2 - inner_radius**2) * share)
                return math.radians(radius * CELLS_PER_DENSITY_CELL * GRID_STEP_DEGREES) * EARTH_RADIUS_METERS
            inner_radius, inner_count = outer_radius, max(outer_count, inner_count)
            outer_radius *= BOX_GROWTH
        return HALF_EARTH_METERS

    def _count_in_box(self, south: int, north: int, west: int, east: int) -> int:
        upper = self._count_before(north, east) - self._count_before(north, west)
        return upper - self._count_before(south, east) + self._count_before(south, west)

    def _count_before(self, row: int, column: int) -> int:
        """How many lie farther south and west; columns wrap around the globe."""
        full_turns, column = divmod(column, DENSITY_COLUMNS)
        row_offset = row * (DENSITY_COLUMNS + 1)
        return self._sums[row_offset + column] + full_turns * self._sums[row_offset + DENSITY_COLUMNS]


def read_density(tx: Tx) -> LeadDensity:
    cells, records = driver_connection(tx).execute(_SELECT_DENSITY).fetchone() or (None, None)
    return LeadDensity(np.array(cells or [], np.int64), np.array(records or [], np.int64))


SEARCH_MARGIN = 1.6
"""Addresses to find for each one requested: a second query costs more than these."""
RUNS_PER_QUERY = 256
"""Limits memory, however far the search reaches."""

# Each run by itself, so that the index is asked for just those cells. As three arrays the rows come in one
# piece, and numpy reads the bytes as they are.
_SELECT_IN_CELLS = """
    select array_agg(l.latitude), array_agg(l.longitude), array_agg(l.id)
      from unnest(%s::integer[], %s::integer[]) as run (first, last)
     cross join lateral (
           select latitude, longitude, id from leads
            where grid between run.first and run.last
              and tags & %s::integer = %s::integer and (%s::integer = 0 or tags & %s::integer <> 0)
           offset 0) l
"""
_ARRAY_HEADER_BYTES = 20
"""Before the first value of a one-dimensional array."""


@dataclass(frozen=True, slots=True)
class TagFilters:
    """Records with any of the bits of `any_of` (0: no filter), all of `all_of` and none of `none_of`."""

    any_of: int = 0
    all_of: int = 0
    none_of: int = 0


@dataclass(frozen=True, slots=True)
class NearestLeads:
    """Ids and distances, the nearest first; of two as near, the lower id."""

    ids: Integers
    meters: Floats
    searched_meters: float


def find_nearest(
    tx: Tx,
    latitude: float,
    longitude: float,
    count: int,
    *,
    filters: TagFilters,
    density: LeadDensity,
    max_meters: float = HALF_EARTH_METERS,
) -> NearestLeads:
    """The `count` nearest to the point, or all within `max_meters`."""
    collector = _NearestCollector(latitude, longitude, count)
    radius = min(density.estimate_radius(latitude, longitude, count * SEARCH_MARGIN), max_meters)
    read_cell_runs = None
    while True:
        first, last = cells = find_cells_within(latitude, longitude, radius)
        if read_cell_runs is not None:
            first, last = subtract_runs(cells, read_cell_runs)
        for start in range(0, len(first), RUNS_PER_QUERY):
            runs = slice(start, start + RUNS_PER_QUERY)
            collector.add(*read_cells(tx, first[runs], last[runs], filters))
        nearest_leads = collector.within(radius)
        if len(nearest_leads.ids) >= count or radius >= max_meters:
            return nearest_leads
        read_cell_runs = cells
        radius = min(radius * _radius_growth(len(nearest_leads.ids), count), max_meters)


def read_cells(tx: Tx, first: Integers, last: Integers, filters: TagFilters) -> tuple[Floats, Floats, Integers]:
    """Latitudes, longitudes and ids of all in these runs of cells."""
    tag_mask, any_of = filters.all_of | filters.none_of, filters.any_of
    bind_values = _format_array(first), _format_array(last), tag_mask, filters.all_of, any_of, any_of
    with driver_connection(tx).cursor(binary=True) as cursor:
        cursor.execute(_SELECT_IN_CELLS, bind_values, prepare=True)
        result = cursor.pgresult
        assert result is not None
        columns = [result.get_value(0, column) for column in range(3)]
    return _parse_array(columns[0], ">f8"), _parse_array(columns[1], ">f8"), _parse_array(columns[2], ">i8")


class _NearestCollector:
    def __init__(self, latitude: float, longitude: float, limit: int) -> None:
        self._latitude, self._longitude, self._limit = latitude, longitude, limit
        self._ids: Integers = np.empty(0, np.int64)
        self._distances: Floats = np.empty(0)

    def add(self, latitudes: Floats, longitudes: Floats, ids: Integers) -> None:
        all_distances = compute_distances(self._latitude, self._longitude, latitudes, longitudes)
        if len(self._ids):
            ids, all_distances = (np.concatenate([self._ids, ids]), np.concatenate([self._distances, all_distances]))
        if len(ids) > self._limit:
            # Several may be as near as the last one wanted: they all stay until their ids decide.
            is_near = all_distances <= np.partition(all_distances, self._limit - 1)[self._limit - 1]
            ids, all_distances = ids[is_near], all_distances[is_near]
        self._ids, self._distances = ids, all_distances

    def within(self, meters: float) -> NearestLeads:
        """The nearest within these meters."""
        order = np.lexsort((self._ids, self._distances))[: self._limit]
        sorted_distances = self._distances[order]
        near_count = int(np.searchsorted(sorted_distances, meters, side="right"))
        return NearestLeads(self._ids[order[:near_count]], sorted_distances[:near_count], meters)


def _format_array(values: Integers) -> str:
    """A PostgreSQL literal: the driver takes several times as long for a list."""
    return "{" + ",".join(map(str, values.tolist())) + "}"


def _parse_array(array: bytes | None, kind: str) -> NDArray[Any]:
    """The values of a binary PostgreSQL array, each of which is preceded by its length."""
    if array is None:
        return np.empty(0, np.dtype(kind).newbyteorder("="))
    values = np.frombuffer(array, np.dtype([("length", ">i4"), ("value", kind)]), offset=_ARRAY_HEADER_BYTES)["value"]
    return values.astype(np.dtype(kind).newbyteorder("="))


def _radius_growth(match_count: int, requested_count: int) -> float:
    """Far enough to find the rest, but not by leaps: towns are denser than fields."""
    return min(max(math.sqrt(requested_count * SEARCH_MARGIN / max(match_count, 1)), 1.3), 2.0)
