"""What a drawing's instructions name, and where that is found."""

from collections.abc import Sequence
from typing import Any

import pikepdf

from quillpost.rendering.images.complexity import Node
from quillpost.rendering.images.limits import MOST_CONTENT_BYTES
from quillpost.rendering.images.pdf_objects import PdfObject

CATEGORIES = {
    "Tf": "/Font",
    "Do": "/XObject",
    "gs": "/ExtGState",
    "cs": "/ColorSpace",
    "CS": "/ColorSpace",
    "scn": "/Pattern",
    "SCN": "/Pattern",
    "sh": "/Shading",
    "BDC": "/Properties",
    "DP": "/Properties",
}
"""The kind of resource that an operator names."""
DEFAULT_SPACES = ("/DefaultGray", "/DefaultRGB", "/DefaultCMYK")
"""In force without being named."""

# A packed drawing may be a thousand times as large when it is unpacked.
_LIMITS: dict[str, Any] = {
    "flate_max_memory": MOST_CONTENT_BYTES,
    "png_max_memory": MOST_CONTENT_BYTES,
    "run_length_max_memory": MOST_CONTENT_BYTES,
}


def name_in(operands: Sequence[PdfObject], operator: str) -> str | None:
    """The resource that an instruction names: a font comes first, a pattern or a property list last."""
    if not len(operands):
        return None
    operand = operands[0] if operator == "Tf" else operands[-1]
    return str(operand) if isinstance(operand, pikepdf.Name) else None


def find_resource(resources: PdfObject, category: str, name: str | None) -> PdfObject:
    if name is None or not isinstance(resources, pikepdf.Dictionary):
        return None
    things = resources.get(category)
    return things.get(name) if isinstance(things, pikepdf.Dictionary) else None


def mask_of(state: pikepdf.Dictionary) -> Node | None:
    mask = state.get("/SMask")
    group: PdfObject = mask.get("/G") if isinstance(mask, pikepdf.Dictionary) else None
    return group.objgen if isinstance(group, pikepdf.Stream) else None


def whole(number: PdfObject) -> int:
    return number if isinstance(number, int) else 0


def filters_of(stream: pikepdf.Stream) -> list[str]:
    filters = stream.get("/Filter")
    if isinstance(filters, pikepdf.Array):
        return [str(name) for name in filters]
    return [] if filters is None else [str(filters)]


def unpacked_drawing(stream: pikepdf.Stream) -> bytes:
    """What a content stream says. It is not unpacked further than a page's drawing may go: pikepdf's errors
    tell of one that is larger, or damaged."""
    before: dict[str, Any] = pikepdf.settings.set_qpdf_limits(**_LIMITS)
    try:
        drawing: bytes = stream.read_bytes()
        return drawing
    finally:
        pikepdf.settings.set_qpdf_limits(**before)
