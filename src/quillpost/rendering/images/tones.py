"""The colors of a picture in a coarse grid: enough to tell whether ink can be read on it."""

from dataclasses import dataclass

from quillpost.rendering.models import Ink

GRID_CELLS = 32
CELL_BYTES = 3


@dataclass(frozen=True, slots=True)
class PictureTones:
    """Of an upright picture of that size the average color of each cell, row by row from the top left."""

    width: int
    height: int
    cells: bytes

    def color_at(self, across: float, down: float) -> Ink:
        """The color there; from 0, the left or top edge, to 1."""
        column, row = (min(GRID_CELLS - 1, max(0, int(share * GRID_CELLS))) for share in (across, down))
        start = (row * GRID_CELLS + column) * CELL_BYTES
        red, green, blue = (channel / 255 for channel in self.cells[start : start + CELL_BYTES])
        return red, green, blue
