"""What a drawing's instructions name, where that is found, and how much of it one page may hold."""

from collections.abc import Sequence
from typing import Any

import pikepdf

from quillpost.rendering.images.complexity import Node
from quillpost.rendering.images.limits import MAX_CONTENT_BYTES, UnprintablePdf
from quillpost.rendering.images.pdf_objects import PdfObject

RESOURCE_CATEGORIES = {
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

_MAX_OBJECTS = 20_000
_MAX_DEPTH = 24

# A packed drawing may be a thousand times as large when it is unpacked.
_QPDF_LIMITS: dict[str, Any] = {
    "flate_max_memory": MAX_CONTENT_BYTES,
    "png_max_memory": MAX_CONTENT_BYTES,
    "run_length_max_memory": MAX_CONTENT_BYTES,
}


def resource_name(operands: Sequence[PdfObject], operator: str) -> str | None:
    """The resource that an instruction names: a font comes first, a pattern or a property list last."""
    if not len(operands):
        return None
    operand = operands[0] if operator == "Tf" else operands[-1]
    return str(operand) if isinstance(operand, pikepdf.Name) else None


def find_resource(resources: PdfObject, category: str, name: str | None) -> PdfObject:
    if name is None or not isinstance(resources, pikepdf.Dictionary):
        return None
    category_resources = resources.get(category)
    return category_resources.get(name) if isinstance(category_resources, pikepdf.Dictionary) else None


def soft_mask_node(state: pikepdf.Dictionary) -> Node | None:
    mask = state.get("/SMask")
    group: PdfObject = mask.get("/G") if isinstance(mask, pikepdf.Dictionary) else None
    return group.objgen if isinstance(group, pikepdf.Stream) else None


def int_or_zero(number: PdfObject) -> int:
    return number if isinstance(number, int) else 0


def stream_filters(stream: pikepdf.Stream) -> list[str]:
    filters = stream.get("/Filter")
    if isinstance(filters, pikepdf.Array):
        return [str(name) for name in filters]
    return [] if filters is None else [str(filters)]


def unpack_content(stream: pikepdf.Stream) -> bytes:
    """What a content stream says. It is not unpacked further than a page's drawing may go: pikepdf's errors
    tell of one that is larger, or damaged."""
    previous_limits: dict[str, Any] = pikepdf.settings.set_qpdf_limits(**_QPDF_LIMITS)
    try:
        content: bytes = stream.read_bytes()
        return content
    finally:
        pikepdf.settings.set_qpdf_limits(**previous_limits)


class SeenObjects:
    """The objects that a page was found to use, each counted towards what one page may hold."""

    def __init__(self, page_number: int) -> None:
        self._page_number = page_number
        self._seen: set[tuple[int, int]] = set()
        self._count = self._direct_count = 0

    def node_of(self, pdf_object: PdfObject) -> Node:
        """What the drawing cost knows it by. One that is written where it is used is met once."""
        if pdf_object.is_indirect:
            return pdf_object.objgen
        self._direct_count += 1
        return ("direct", self._direct_count)

    def is_already_seen(self, pdf_object: PdfObject, depth: int) -> bool:
        self.check_depth(depth)
        self._count += 1
        if self._count > _MAX_OBJECTS:
            raise UnprintablePdf(f"Page {self._page_number} of the PDF is too complex to be printed.")
        if not pdf_object.is_indirect:
            return False
        is_seen = pdf_object.objgen in self._seen
        self._seen.add(pdf_object.objgen)
        return is_seen

    def check_depth(self, depth: int) -> None:
        if depth > _MAX_DEPTH:
            raise UnprintablePdf(f"Page {self._page_number} of the PDF is nested too deeply.")
