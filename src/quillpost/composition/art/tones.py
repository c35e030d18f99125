"""The colors of a picture in a coarse grid: enough to tell whether ink can be read on it.

`measure_tones` decodes a picture: the service runs it in a limited process, and keeps what it answers.
"""

import io
from dataclasses import dataclass

from PIL import Image

from quillpost.composition.art.refusals import BadImage
from quillpost.composition.content import Ink

GRID = 32
CELL_BYTES = 3
_ORIENTATION = 0x0112

# What stands a picture upright that is stored in another EXIF orientation.
_UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


@dataclass(frozen=True, slots=True)
class Tones:
    """Of an upright picture of that size the average color of each cell, row by row from the top left."""

    width: int
    height: int
    cells: bytes

    def at(self, across: float, down: float) -> Ink:
        """The color there; from 0, the left or top edge, to 1."""
        column, row = (min(GRID - 1, max(0, int(share * GRID))) for share in (across, down))
        start = (row * GRID + column) * CELL_BYTES
        red, green, blue = (channel / 255 for channel in self.cells[start : start + CELL_BYTES])
        return red, green, blue


def measure_tones(data: bytes) -> bytes:
    """The cells of a printable picture, or BadImage."""
    try:
        with Image.open(io.BytesIO(data), formats=("JPEG", "PNG")) as image:
            turned = _UPRIGHT.get(image.getexif().get(_ORIENTATION, 1))
            image.draft("RGB", (GRID, GRID))  # a JPEG is decoded no larger than it takes
            small = image.resize((GRID, GRID), Image.Resampling.BOX).convert("RGB")
            return (small if turned is None else small.transpose(turned)).tobytes()
    # Pillow's readers raise whatever the damaged bytes lead them into.
    except Exception as error:
        raise BadImage("The image is damaged or incomplete.") from error
