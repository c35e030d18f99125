"""The nearest of the addresses in the table: exact, from an index of grid cells.

How far to look is guessed from how many addresses lie around. Whoever is within that distance lies in the
cells that are read, so once there are enough of them nobody else can be nearer. Too few, and it is looked
farther.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quillpost.database import Tx, driver
from quillpost.leads.grid import (
    COLUMNS,
    EARTH,
    HALF_WAY_ROUND,
    STEP,
    Floats,
    Whole,
    cells_of,
    cells_within,
    distances,
)

COARSE = 10
"""Cells along the edge of one of those in which addresses are counted."""
REACHES = (0, 1, 2, 4, 8)
"""How many coarse cells around the middle one a guess starts from."""
FIRST_LOOK = 5_000.0
"""Metres, where there are no addresses around that a guess could start from."""
SPARE = 1.25
"""Addresses that a look should find for each one wanted: a second look costs more than these."""
RUNS_AT_ONCE = 256
"""Rows of cells that are read together: memory stays flat, however far it is looked."""

# Each run by itself, so that the index is asked for just those cells. As three arrays the rows come in one
# piece, and numpy reads the bytes as they are.
_IN_CELLS = """
    select array_agg(l.latitude), array_agg(l.longitude), array_agg(l.id)
      from unnest(%(first)s::integer[], %(last)s::integer[]) as run (first, last)
     cross join lateral (
           select latitude, longitude, id from leads
            where grid between run.first and run.last
              and (%(any_of)s::integer = 0 or tags & %(any_of)s::integer <> 0)
              and tags & %(all_of)s::integer = %(all_of)s::integer and tags & %(none_of)s::integer = 0
           offset 0) l
"""
_HEADER = 20
"""Bytes before the first value of an array of one dimension."""

Density = Mapping[int, int]
"""How many addresses there are in each coarse cell that has any. It is for guessing: it may be old."""


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
    look = min(first_look(density, latitude, longitude, count), farthest)
    while True:
        found = within(tx, latitude, longitude, look, filters=filters, most=count)
        if len(found.ids) >= count or look >= farthest:
            return found
        look = min(look * _wider(len(found.ids), count), farthest)


def within(tx: Tx, latitude: float, longitude: float, metres: float, *, filters: Filters, most: int) -> Found:
    """The nearest, at most so many, of those who are no farther than these metres."""
    first, last = cells_within(latitude, longitude, metres)
    nearer = _Nearer(latitude, longitude, metres, most)
    for start in range(0, len(first), RUNS_AT_ONCE):
        runs = slice(start, start + RUNS_AT_ONCE)
        nearer.take(*read_cells(tx, first[runs], last[runs], filters))
    return nearer.found()


def read_cells(tx: Tx, first: Whole, last: Whole, filters: Filters) -> tuple[Floats, Floats, Whole]:
    """Latitudes, longitudes and ids of all in these runs of cells."""
    asked = {"first": first.tolist(), "last": last.tolist(), **asdict(filters)}
    with driver(tx).cursor(binary=True) as cursor:
        cursor.execute(_IN_CELLS, asked)
        result = cursor.pgresult
        assert result is not None
        columns = [result.get_value(0, column) for column in range(3)]
    return _read(columns[0], ">f8"), _read(columns[1], ">f8"), _read(columns[2], ">i8")


def density_of(tx: Tx) -> dict[int, int]:
    """As the last import has counted."""
    return dict(driver(tx).execute("select cell, records from lead_density").fetchall())


def first_look(density: Density, latitude: float, longitude: float, count: int) -> float:
    """The radius of a circle that holds enough, if they lie as densely as in the coarse cells around: as few
    of these as hold enough themselves, for a few streets are denser than the country around them."""
    row, column = divmod(int(cells_of(np.array([latitude]), np.array([longitude]))[0]), COLUMNS)
    here, cells = 0, 1
    for reach in REACHES:
        steps = range(-reach * COARSE, reach * COARSE + 1, COARSE)
        cells = len(steps) ** 2
        here = sum(
            density.get(coarse_cell(row + up, (column + aside) % COLUMNS), 0)
            for up in steps
            for aside in steps
        )
        if here >= 2 * count:
            break
    if here == 0:
        return FIRST_LOOK
    edge = math.radians(COARSE * STEP) * EARTH
    area = cells * edge**2 * max(math.cos(math.radians(latitude)), STEP)
    return math.sqrt(count * SPARE * area / (math.pi * here))


def coarse_cell(row: int, column: int) -> int:
    return row // COARSE * (COLUMNS // COARSE) + column // COARSE


class _Nearer:
    """Keeps the nearest of all that it is shown, and few others."""

    def __init__(self, latitude: float, longitude: float, metres: float, most: int) -> None:
        self._latitude, self._longitude = latitude, longitude
        self._metres, self._most = metres, most
        self._ids: Whole = np.empty(0, np.int64)
        self._far: Floats = np.empty(0)

    def take(self, latitudes: Floats, longitudes: Floats, ids: Whole) -> None:
        far = distances(self._latitude, self._longitude, latitudes, longitudes)
        near = far <= self._metres
        ids, far = np.concatenate([self._ids, ids[near]]), np.concatenate([self._far, far[near]])
        if len(ids) > self._most:
            # Several may be as near as the last one wanted: they all stay until their ids decide.
            bound = np.partition(far, self._most - 1)[self._most - 1]
            ids, far = ids[far <= bound], far[far <= bound]
        self._ids, self._far = ids, far

    def found(self) -> Found:
        order = np.lexsort((self._ids, self._far))[: self._most]
        return Found(self._ids[order], self._far[order], self._metres)


def _read(array: bytes | None, kind: str) -> NDArray[Any]:
    """The values of an array in PostgreSQL's own form, each of which has its length before it."""
    if array is None:
        return np.empty(0, np.dtype(kind).newbyteorder("="))
    values = np.frombuffer(array, np.dtype([("length", ">i4"), ("value", kind)]), offset=_HEADER)["value"]
    return values.astype(np.dtype(kind).newbyteorder("="))


def _wider(has: int, wanted: int) -> float:
    """How much farther to look: as far as should do, but not by leaps, for towns are denser than fields."""
    return min(max(math.sqrt(wanted * SPARE / max(has, 1)), 1.3), 2.0)
