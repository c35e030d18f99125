"""White panels on art: boxes joined to few, and brought to the edges of the sheet."""

from collections.abc import Sequence
from itertools import combinations

from quillpost.rendering.models import Box

Edges = tuple[float, float, float, float]


def join_boxes(boxes: Sequence[Box], avoided: Box | None) -> list[Box]:
    """As few boxes as cover these, each the smallest around some of them, and none over the avoided one."""
    for first, second in combinations(boxes, 2):
        joined = bounding_box(first, second)
        if not _are_overlapping(joined, avoided):
            return join_boxes([joined, *(box for box in boxes if box not in (first, second))], avoided)
    return list(boxes)


def bounding_box(first: Box, second: Box) -> Box:
    return box_from_edges(
        (
            min(first.left, second.left),
            min(first.bottom, second.bottom),
            max(first.right, second.right),
            max(first.top, second.top),
        )
    )


def extend_to_edges(box: Box, sheet: Box, outer: Box, *, max_gap: float, avoided: Box | None = None) -> Box:
    """The box up to the `outer` edges wherever it is so near to those of the sheet, but not over the avoided one."""
    for index, (sheet_edge, outer_edge) in enumerate(zip(_edges(sheet), _edges(outer), strict=True)):
        edges = list(_edges(box))
        outward = 1 if index >= 2 else -1
        if (sheet_edge - edges[index]) * outward <= max_gap:
            edges[index] = outer_edge
            left, bottom, right, top = edges
            extended = box_from_edges((left, bottom, right, top))
            box = box if _are_overlapping(extended, avoided) else extended
    return box


def box_from_edges(edges: Edges) -> Box:
    left, bottom, right, top = edges
    return Box(left, bottom, right - left, top - bottom)


def _edges(box: Box) -> Edges:
    return box.left, box.bottom, box.right, box.top


def _are_overlapping(box: Box, avoided: Box | None) -> bool:
    return avoided is not None and box.overlaps(avoided)
