"""The globe in cells of 0.01 degrees, and which of them a circle on it touches."""

import math

import numpy as np
from numpy.typing import NDArray

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
