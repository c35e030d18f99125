"""The nearest addresses of the table: exact, from an index of grid cells.

How far to look is guessed from how many addresses lie around. Whoever is within that distance lies in the
cells that are read, so once there are enough of them nobody else can be nearer. Too few, and it is looked
farther.

They are counted in coarse cells, and the counts summed from the south pole and the antimeridian on. So how
many lie in any box is known from the sums at its four corners, however large it is.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quillpost.core.database import Tx, driver
from quillpost.recipients.leads.rules import (
    COLUMNS,
    EARTH,
    HALF_WAY_ROUND,
    ROWS,
    STEP,
    Floats,
    Whole,
    cells_within,
    distances,
    runs_without,
)

COARSE = 10
"""Cells of the grid along the edge of one of those in which addresses are counted."""
UP, ACROSS = ROWS // COARSE, COLUMNS // COARSE
SMALLEST, WIDER = 0.5, 1.6
"""The first box that is tried reaches so many coarse cells each way, and each other so much farther."""

_ARRAYS = "select array_agg(cell), array_agg(records) from lead_density"


class Density:
    """It is for guessing: it may be old, and wrong."""

    def __init__(self, cells: Whole, records: Whole) -> None:
        sums = np.zeros((UP + 1, ACROSS + 1), np.int32)
        sums[cells // ACROSS + 1, cells % ACROSS + 1] = records
        np.cumsum(sums, axis=0, out=sums)
        np.cumsum(sums, axis=1, out=sums)
        self._sums = sums.reshape(-1).data  # single numbers are read from it faster than from numpy

    def reach(self, latitude: float, longitude: float, count: float) -> float:
        """The metres within which there should be so many."""
        row, column = (latitude + 90) / STEP / COARSE, (longitude + 180) / STEP / COARSE
        aside = 1 / max(math.cos(math.radians(latitude)), STEP)
        inner, fewer, outer = 0.0, 0.0, SMALLEST
        while outer < UP:
            width = min(outer * aside, ACROSS / 2 - 1)
            south, north = max(int(row - outer), 0), min(int(row + outer) + 1, UP)
            west, east = math.floor(column - width), math.floor(column + width) + 1
            evenly = self._box(south, north, west, east) / ((north - south) * (east - west))
            here = evenly * math.pi * outer * width
            if here >= count:
                within = inner**2 + (outer**2 - inner**2) * (count - fewer) / (here - fewer)
                return math.radians(math.sqrt(within) * COARSE * STEP) * EARTH
            inner, fewer, outer = outer, max(here, fewer), outer * WIDER
        return HALF_WAY_ROUND

    def _box(self, south: int, north: int, west: int, east: int) -> int:
        upper = self._before(north, east) - self._before(north, west)
        return upper - self._before(south, east) + self._before(south, west)

    def _before(self, row: int, column: int) -> int:
        """How many lie farther south and west; columns go on around the globe."""
        turns, column = divmod(column, ACROSS)
        at = row * (ACROSS + 1)
        return self._sums[at + column] + turns * self._sums[at + ACROSS]


def density_of(tx: Tx) -> Density:
    """As the last import has counted."""
    cells, records = driver(tx).execute(_ARRAYS).fetchone() or (None, None)
    return Density(np.array(cells or [], np.int64), np.array(records or [], np.int64))


SPARE = 1.6
"""Addresses that a look should find for each one wanted: a second look costs more than these."""
RUNS_AT_ONCE = 256
"""Rows of cells that are read together: memory stays flat, however far it is looked."""

# Each run by itself, so that the index is asked for just those cells. As three arrays the rows come in one
# piece, and numpy reads the bytes as they are.
_IN_CELLS = """
    select array_agg(l.latitude), array_agg(l.longitude), array_agg(l.id)
      from unnest(%s::integer[], %s::integer[]) as run (first, last)
     cross join lateral (
           select latitude, longitude, id from leads
            where grid between run.first and run.last
              and tags & %s::integer = %s::integer and (%s::integer = 0 or tags & %s::integer <> 0)
           offset 0) l
"""
_HEADER = 20
"""Bytes before the first value of an array of one dimension."""


@dataclass(frozen=True, slots=True)
class Filters:
    """Records with any of the bits of `any_of` (0: whichever), all of `all_of` and none of `none_of`."""

    any_of: int = 0
    all_of: int = 0
    none_of: int = 0


@dataclass(frozen=True, slots=True)
class Found:
    """Ids and their distances in metres, the nearest first; of two as near, the one with the lower id."""

    ids: Whole
    metres: Floats
    looked: float
    """How far away it was looked, in metres."""


def nearest(
    tx: Tx,
    latitude: float,
    longitude: float,
    count: int,
    *,
    filters: Filters,
    density: Density,
    farthest: float = HALF_WAY_ROUND,
) -> Found:
    """The `count` nearest to the point, or all that there are within `farthest` metres."""
    nearer = _Nearer(latitude, longitude, count)
    look = min(density.reach(latitude, longitude, count * SPARE), farthest)
    known = None
    while True:
        first, last = cells = cells_within(latitude, longitude, look)
        if known is not None:
            first, last = runs_without(cells, known)
        for start in range(0, len(first), RUNS_AT_ONCE):
            runs = slice(start, start + RUNS_AT_ONCE)
            nearer.take(*read_cells(tx, first[runs], last[runs], filters))
        found = nearer.within(look)
        if len(found.ids) >= count or look >= farthest:
            return found
        known = cells
        look = min(look * _wider(len(found.ids), count), farthest)


def read_cells(tx: Tx, first: Whole, last: Whole, filters: Filters) -> tuple[Floats, Floats, Whole]:
    """Latitudes, longitudes and ids of all in these runs of cells."""
    looked_at, any_of = filters.all_of | filters.none_of, filters.any_of
    asked = _written(first), _written(last), looked_at, filters.all_of, any_of, any_of
    with driver(tx).cursor(binary=True) as cursor:
        cursor.execute(_IN_CELLS, asked, prepare=True)
        result = cursor.pgresult
        assert result is not None
        columns = [result.get_value(0, column) for column in range(3)]
    return _read(columns[0], ">f8"), _read(columns[1], ">f8"), _read(columns[2], ">i8")


class _Nearer:
    """Keeps the nearest of all that it is shown, and few others."""

    def __init__(self, latitude: float, longitude: float, most: int) -> None:
        self._latitude, self._longitude, self._most = latitude, longitude, most
        self._ids: Whole = np.empty(0, np.int64)
        self._far: Floats = np.empty(0)

    def take(self, latitudes: Floats, longitudes: Floats, ids: Whole) -> None:
        far = distances(self._latitude, self._longitude, latitudes, longitudes)
        if len(self._ids):
            ids, far = np.concatenate([self._ids, ids]), np.concatenate([self._far, far])
        if len(ids) > self._most:
            # Several may be as near as the last one wanted: they all stay until their ids decide.
            near = far <= np.partition(far, self._most - 1)[self._most - 1]
            ids, far = ids[near], far[near]
        self._ids, self._far = ids, far

    def within(self, metres: float) -> Found:
        """The nearest, of those who are no farther than these metres."""
        order = np.lexsort((self._ids, self._far))[: self._most]
        far = self._far[order]
        near = int(np.searchsorted(far, metres, side="right"))
        return Found(self._ids[order[:near]], far[:near], metres)


def _written(numbers: Whole) -> str:
    """As PostgreSQL writes an array: the driver takes several times as long over a list."""
    return "{" + ",".join(map(str, numbers.tolist())) + "}"


def _read(array: bytes | None, kind: str) -> NDArray[Any]:
    """The values of an array in PostgreSQL's own form, each of which has its length before it."""
    if array is None:
        return np.empty(0, np.dtype(kind).newbyteorder("="))
    values = np.frombuffer(array, np.dtype([("length", ">i4"), ("value", kind)]), offset=_HEADER)["value"]
    return values.astype(np.dtype(kind).newbyteorder("="))


def _wider(has: int, wanted: int) -> float:
    """How much farther to look: as far as should do, but not by leaps, for towns are denser than fields."""
    return min(max(math.sqrt(wanted * SPARE / max(has, 1)), 1.3), 2.0)
