"""Drawings in a PDF are packed, and may be a thousand times as large when they are not."""

from typing import Any

import pikepdf

from quillpost.composition.art.limits import MOST_CONTENT_BYTES

_LIMITS: dict[str, Any] = {
    "flate_max_memory": MOST_CONTENT_BYTES,
    "png_max_memory": MOST_CONTENT_BYTES,
    "run_length_max_memory": MOST_CONTENT_BYTES,
}


def unpacked_drawing(stream: pikepdf.Stream) -> bytes:
    """What a content stream says. It is not unpacked further than a page's drawing may go: pikepdf's errors
    tell of one that is larger, or damaged."""
    before: dict[str, Any] = pikepdf.settings.set_qpdf_limits(**_LIMITS)
    try:
        drawing: bytes = stream.read_bytes()
        return drawing
    finally:
        pikepdf.settings.set_qpdf_limits(**before)
