"""How densely addresses lie around a point: how far a search looks at first is guessed from it.

They are counted in coarse cells, and the counts summed from the south pole and the antimeridian on. So how
many lie in any box is known from the sums at its four corners, however large it is.
"""

import math

import numpy as np

from quillpost.database import Tx, driver
from quillpost.leads.grid import COLUMNS, EARTH, HALF_WAY_ROUND, ROWS, STEP, Whole

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
