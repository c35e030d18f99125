"""All the letters of a hand drawn side by side in black pixels, so that they are worked on at once."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from quillpost.composition.hands.outline import Floats

Integers = npt.NDArray[np.int64]

# Clear pixels around each letter: its neighbours are never taken for a part of it.
_MARGIN = 3


@dataclass(frozen=True)
class Sheet:
    """`ink` is one where there is ink; row numbers grow upward, as letters do."""

    ink: npt.NDArray[np.uint8]
    scale: float
    _origins: Floats
    _shelf_bottoms: Integers
    _places: Integers

    @property
    def width(self) -> int:
        return int(self.ink.shape[1])

    def letter_at(self, pixels: Integers) -> Integers:
        """The number of the letter in whose cell each pixel lies; a pixel is a place in the flat sheet."""
        shelf = np.searchsorted(self._shelf_bottoms, pixels // self.width, side="right") - 1
        return np.searchsorted(self._places, shelf * self.width + pixels % self.width, side="right") - 1

    def points(self, letter: int, pixels: Integers) -> Floats:
        """The middles of a letter's pixels in the letter's own coordinates."""
        middles = np.stack([pixels % self.width, pixels // self.width], axis=1) + 0.5
        return (middles - self._origins[letter]) / self.scale


def draw(letters: Sequence[Sequence[Floats]], scale: float) -> Sheet:
    """Fill the polygons of each letter, `scale` pixels a unit, by the non-zero winding rule."""
    lows = np.array([np.min([polygon.min(axis=0) for polygon in letter], axis=0) for letter in letters])
    highs = np.array([np.max([polygon.max(axis=0) for polygon in letter], axis=0) for letter in letters])
    sizes = np.ceil((highs - lows) * scale).astype(np.int64) + 2 * _MARGIN
    corners, shelf_bottoms, places, width, height = _shelve(sizes)
    origins = corners + _MARGIN - lows * scale
    winding = np.zeros((height, width), np.int8)
    starts, ends = [], []
    for letter, origin in zip(letters, origins, strict=True):
        for polygon in letter:
            pixels = polygon * scale + origin
            starts.append(pixels)
            ends.append(np.roll(pixels, -1, axis=0))
    _mark_crossings(winding, np.concatenate(starts), np.concatenate(ends))
    np.cumsum(winding, axis=1, dtype=np.int8, out=winding)
    return Sheet((winding != 0).astype(np.uint8), scale, origins, shelf_bottoms, places)


def _shelve(sizes: Integers) -> tuple[Floats, Integers, Integers, int, int]:
    """Cells in rows: their corners, each row's bottom, each cell's place in reading order, and the size."""
    width = int(max(sizes[:, 0].max(), np.sqrt(np.prod(sizes, axis=1).sum()) * 1.2)) + 1
    corners, bottoms, places = [], [0], []
    x = tallest = 0
    for wide, high in sizes.tolist():
        if x + wide > width:
            bottoms.append(bottoms[-1] + tallest)
            x = tallest = 0
        corners.append((x, bottoms[-1]))
        places.append((len(bottoms) - 1) * width + x)
        x += wide
        tallest = max(tallest, high)
    return np.array(corners, float), np.array(bottoms), np.array(places), width, bottoms[-1] + tallest


def _mark_crossings(winding: npt.NDArray[np.int8], starts: Floats, ends: Floats) -> None:
    """Where an edge crosses a row of pixels, the winding number changes for all pixels to its right."""
    first = np.ceil(np.minimum(starts[:, 1], ends[:, 1]) - 0.5).astype(np.int64)
    last = np.ceil(np.maximum(starts[:, 1], ends[:, 1]) - 0.5).astype(np.int64)
    counts = last - first
    edge = np.repeat(np.arange(len(starts)), counts)
    row = np.arange(len(edge)) - np.repeat(np.cumsum(counts) - counts, counts) + first[edge]
    (x0, y0), (x1, y1) = starts[edge].T, ends[edge].T
    column = np.ceil(x0 + (row + 0.5 - y0) * (x1 - x0) / (y1 - y0) - 0.5).astype(np.int64)
    np.add.at(winding, (row, column), np.where(y1 > y0, 1, -1).astype(np.int8))
