"""Measuring the colors of a picture. This decodes it: the service runs it in a limited process."""

import io

from PIL import Image

from quillpost.rendering.images.limits import UnprintableImage
from quillpost.rendering.images.tones import GRID_CELLS

_ORIENTATION_TAG = 0x0112

# What stands a picture upright that is stored in another EXIF orientation.
_UPRIGHT_TRANSPOSES = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


def measure_tones(data: bytes) -> bytes:
    """The cells of a printable picture, or BadImage."""
    try:
        with Image.open(io.BytesIO(data), formats=("JPEG", "PNG")) as image:
            transpose = _UPRIGHT_TRANSPOSES.get(image.getexif().get(_ORIENTATION_TAG, 1))
            image.draft("RGB", (GRID_CELLS, GRID_CELLS))  # a JPEG is decoded no larger than it takes
            small = image.resize((GRID_CELLS, GRID_CELLS), Image.Resampling.BOX).convert("RGB")
            return (small if transpose is None else small.transpose(transpose)).tobytes()
    # Pillow's readers raise whatever the damaged bytes lead them into.
    except Exception as error:
        raise UnprintableImage("The image is damaged or incomplete.") from error
