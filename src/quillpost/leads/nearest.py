"""The nearest of the addresses in the table: exact, from an index of grid cells.

How far to look is guessed from how many addresses lie around. Whoever is within that distance lies in the
cells that are read, so once there are enough of them nobody else can be nearer. Too few, and it is looked
farther.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quillpost.database import Tx, driver
from quillpost.leads.density import Density
from quillpost.leads.grid import HALF_WAY_ROUND, Floats, Whole, cells_within, distances, runs_without

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
