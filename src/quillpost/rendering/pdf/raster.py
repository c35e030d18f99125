"""Pictures of PDF pages. The preview is made from the very page that would print.

Pages hold what strangers have drawn: the service runs this in a limited process.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from threading import Lock
from typing import Any

import numpy as np
import pypdfium2 as pdfium

from quillpost.rendering.geometry import INCH, Box
from quillpost.rendering.images.limits import MOST_PIXELS_DRAWN, BadArt
from quillpost.rendering.pdf.png import Pixels, encode_png, grey_where_it_is, scratch

# pdfium keeps global state and is not thread-safe.
_PDFIUM = Lock()

# pdfium rounds a picture's size up: a hair less keeps 1100.0000000000002 from becoming 1101.
_HAIR = 1 - 1e-9

# Boxes are read back with the precision with which they are written.
_HAIR_WIDTH = 0.001

_CHANNELS = 3


def rasterise(
    pdf: bytes,
    *,
    dpi: float,
    pages: Sequence[int] | None = None,
    crops: Sequence[Box | None] | None = None,
) -> list[bytes]:
    """Pages as PNG at their finished size, cut at the trim box.

    `pages` picks them by their place in the file, from 0; without it all are drawn. `crops` has for each
    of them the part that is wanted, in points from the trim's lower left corner, or None for the whole.
    """
    with _PDFIUM, pdfium.PdfDocument(pdf) as document:
        indexes = range(len(document)) if pages is None else pages
        parts = [None] * len(indexes) if crops is None else crops
        return [_drawn(document, index, dpi, part) for index, part in zip(indexes, parts, strict=True)]


def _drawn(document: pdfium.PdfDocument, index: int, dpi: float, part: Box | None) -> bytes:
    """One page, as a PNG before the next is drawn: many of them together would fill the memory."""
    with ExitStack() as until_encoded:
        pixels = _draw(document, index, dpi, part, until_encoded)
        return encode_png(grey_where_it_is(pixels), dpi=dpi)


def _draw(
    document: pdfium.PdfDocument, index: int, dpi: float, part: Box | None, memory: ExitStack
) -> Pixels:
    page = document[index]
    left, bottom, right, top = page.get_trimbox()
    if part is not None:
        left, bottom = left + part.left, bottom + part.bottom
        right, top = left + part.width, bottom + part.height
    wanted = (left, bottom, right, top)
    if any(abs(a - b) > _HAIR_WIDTH for a, b in zip(page.get_cropbox(), wanted, strict=True)):
        page.set_cropbox(left, bottom, right, top)
        page.close()  # a page learns its size when it is loaded
        page = document[index]

    def bitmap_of(width: int, height: int, **kind: Any) -> pdfium.PdfBitmap:
        if width * height > MOST_PIXELS_DRAWN:
            raise BadArt(f"A picture of {width:,} x {height:,} pixels is too large to be drawn.")
        room = memory.enter_context(scratch(width * height * _CHANNELS))
        return pdfium.PdfBitmap.new_native(width, height, buffer=np.ctypeslib.as_ctypes(room), **kind)

    bitmap = page.render(scale=dpi / INCH * _HAIR, rev_byteorder=True, bitmap_maker=bitmap_of)
    pixels: Pixels = bitmap.to_numpy()
    bitmap.close()
    page.close()
    return pixels
