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
from quillpost.rendering.images.limits import MAX_RASTER_PIXELS, UnprintableArt
from quillpost.rendering.pdf.png import Pixels, drop_color_if_gray, encode_png, scratch_memory

# pdfium keeps global state and is not thread-safe.
_PDFIUM_LOCK = Lock()

# pdfium rounds a picture's size up: a hair less keeps 1100.0000000000002 from becoming 1101.
_SIZE_FACTOR = 1 - 1e-9

# Boxes are read back with the precision with which they are written.
_BOX_TOLERANCE = 0.001

_CHANNELS = 3


def rasterize_pages(
    pdf: bytes, *, dpi: float, pages: Sequence[int] | None = None, crops: Sequence[Box | None] | None = None
) -> list[bytes]:
    """Pages as PNG at their finished size, cut at the trim box.

    `pages` picks them by their place in the file, from 0; without it all are drawn. `crops` has for each
    of them the part that is wanted, in points from the trim's lower left corner, or None for the whole.
    """
    with _PDFIUM_LOCK, pdfium.PdfDocument(pdf) as document:
        indexes = range(len(document)) if pages is None else pages
        page_crops = [None] * len(indexes) if crops is None else crops
        return [
            _page_png(document, index, dpi, page_crop) for index, page_crop in zip(indexes, page_crops, strict=True)
        ]


def _page_png(document: pdfium.PdfDocument, index: int, dpi: float, crop: Box | None) -> bytes:
    """One page, as a PNG before the next is drawn: many of them together would fill the memory."""
    with ExitStack() as buffers:
        pixels = _draw_page(document, index, dpi, crop, buffers)
        return encode_png(drop_color_if_gray(pixels), dpi=dpi)


def _draw_page(document: pdfium.PdfDocument, index: int, dpi: float, crop: Box | None, buffers: ExitStack) -> Pixels:
    page = document[index]
    left, bottom, right, top = page.get_trimbox()
    if crop is not None:
        left, bottom = left + crop.left, bottom + crop.bottom
        right, top = left + crop.width, bottom + crop.height
    crop_box = (left, bottom, right, top)
    if any(abs(a - b) > _BOX_TOLERANCE for a, b in zip(page.get_cropbox(), crop_box, strict=True)):
        page.set_cropbox(left, bottom, right, top)
        page.close()  # a page learns its size when it is loaded
        page = document[index]

    def make_bitmap(width: int, height: int, **options: Any) -> pdfium.PdfBitmap:
        if width * height > MAX_RASTER_PIXELS:
            raise UnprintableArt(f"A picture of {width:,} x {height:,} pixels is too large to be drawn.")
        buffer = buffers.enter_context(scratch_memory(width * height * _CHANNELS))
        return pdfium.PdfBitmap.new_native(width, height, buffer=np.ctypeslib.as_ctypes(buffer), **options)

    bitmap = page.render(scale=dpi / INCH * _SIZE_FACTOR, rev_byteorder=True, bitmap_maker=make_bitmap)
    pixels: Pixels = bitmap.to_numpy()
    bitmap.close()
    page.close()
    return pixels
