"""Signatures as smooth closed outlines, from a picture, from the sheet, or from strokes drawn on a screen."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from quillpost.rendering.handwriting.centerlines import smooth_values
from quillpost.rendering.handwriting.outlines import Floats, signed_area
from quillpost.rendering.handwriting.sheet.ink import (
    Darkness,
    find_threshold,
    keep_sure_parts,
    label_parts,
    measure_darkness,
)
from quillpost.rendering.handwriting.sheet.marks import Flags, Gray, shrink
from quillpost.rendering.handwriting.sheet.models import (
    MAX_SIGNATURE_OUTLINES,
    MAX_SIGNATURE_POINTS,
    MAX_SIGNATURE_WIDTH,
    ProblemCode,
    Signature,
    UnreadableSheet,
)

_PICTURE_SIDE = 1800  # pixels; larger pictures show the grain of the paper
_SURE_INK = 1.4  # times the threshold: somewhere a part must be as dark
_MIN_PART_SHARE = 0.002  # of the ink: smaller parts are dust
_MAX_INK_SHARE = 0.3  # of the picture
_MIN_SIDE = 12  # pixels

_SPACING = 0.5  # pixels, before smoothing
_SMOOTHING = 3.2  # samples
_TOLERANCE = 0.12  # pixels by which points that are left out are missed
_COARSER = 1.5  # times that, again and again, for a signature with too many points
_MIN_AREA = 6.0
_DECIMALS = 5

_DRAWN_HEIGHT = 260.0  # pixels for strokes drawn on a screen
_MAX_DRAWN_WIDTH = 2_600.0
_MAX_DRAWN_POINTS = 20_000


def read_signature(gray: Gray) -> Signature:
    """From a photograph, scan or drawing, dark on light; raises UnreadableSheet."""
    small = shrink(gray, max(1, round(max(gray.shape) / _PICTURE_SIDE)))
    darkness = measure_darkness(small)[::-1]
    threshold = find_threshold([darkness])
    if (darkness >= threshold).mean() > _MAX_INK_SHARE:
        raise UnreadableSheet(
            ProblemCode.TOO_MUCH_INK,
            "We can't tell the signature from what is around it. Sign on plain white paper and take the picture again.",
        )
    signature = trace_signature(darkness, threshold)
    if signature is None:
        raise UnreadableSheet(
            ProblemCode.NO_INK, "We couldn't find a signature in this picture. Sign with a dark pen on white paper."
        )
    return signature


def trace_signature(darkness: Darkness, threshold: float) -> Signature | None:
    """The outlines of what is written; rows grow upward. None without any ink, or with no more than a dot."""
    written = _sure_parts(darkness, threshold)
    rows, columns = np.flatnonzero(written.any(axis=1)), np.flatnonzero(written.any(axis=0))
    if len(rows) < _MIN_SIDE or len(columns) < _MIN_SIDE:
        return None
    bottom, top, left, right = (int(edge) for edge in (rows[0], rows[-1] + 1, columns[0], columns[-1] + 1))
    written = np.pad(written[bottom:top, left:right], 2)
    darkness = np.pad(darkness[bottom:top, left:right], 2)
    below = np.where(_near(written), np.minimum(darkness, 0.999 * threshold), 0.0)
    values = np.where(written, np.maximum(darkness, threshold), below)
    outlines = _choose_points([_smooth_outline(outline) for outline in trace_outlines(values, threshold)])
    if not outlines:
        return None
    points = np.concatenate(outlines)
    low, high = points.min(axis=0), points.max(axis=0)
    height = float(high[1] - low[1])
    scaled = tuple(np.round((outline - low) / height, _DECIMALS) for outline in outlines)
    width = round(float(high[0] - low[0]) / height, _DECIMALS)
    return Signature(scaled, width) if 0 < width <= MAX_SIGNATURE_WIDTH else None


def outline_drawn_signature(strokes: Sequence[Floats], radius: float) -> Signature | None:
    """From strokes drawn on a screen, y upward, in the unit of `radius`; None when nothing is drawn."""
    strokes = [stroke for stroke in strokes if len(stroke)]
    if not strokes or sum(map(len, strokes)) > _MAX_DRAWN_POINTS:
        return None
    points = np.concatenate(strokes)
    low, high = points.min(axis=0) - 2 * radius, points.max(axis=0) + 2 * radius
    scale = min(_DRAWN_HEIGHT / (high[1] - low[1]), _MAX_DRAWN_WIDTH / (high[0] - low[0]))
    width, height = (int(np.ceil(side * scale)) + 1 for side in high - low)
    darkness = np.zeros((height, width), np.float32)
    for stroke in strokes:
        _draw_stroke(darkness, (stroke - low) * scale, radius * scale)
    return trace_signature(darkness, 0.5)


def trace_outlines(values: Floats, threshold: float) -> list[Floats]:
    """Closed polygons along the threshold, what is above it on the left; the edge of `values` must be below it."""
    is_above = values >= threshold
    height, width = values.shape
    # A crossing lies between a pixel and the next to the right (even numbers) or the next upward (odd numbers).
    crossings = np.full((2 * height * width, 2), np.nan)
    for axis, (up, across) in enumerate(((0, 1), (1, 0))):
        rows, columns = np.nonzero(is_above[: height - up, : width - across] != is_above[up:, across:])
        one, other = values[rows, columns], values[rows + up, columns + across]
        point = np.stack([columns, rows], axis=1).astype(float)
        point[:, axis] += (one - threshold) / (one - other)
        crossings[2 * (rows * width + columns) + axis] = point
    successors = _link_crossings(is_above)
    outlines = []
    while successors:
        start, crossing = successors.popitem()
        chain = [start]
        while crossing != start:
            chain.append(crossing)
            crossing = successors.pop(crossing)
        outlines.append(crossings[chain])
    return outlines


def _link_crossings(is_above: Flags) -> dict[int, int]:
    """From each crossing to the next along the outline, square by square between four pixels."""
    width = is_above.shape[1]
    corners = is_above.astype(np.int64)
    kinds = corners[:-1, :-1] | corners[:-1, 1:] << 1 | corners[1:, 1:] << 2 | corners[1:, :-1] << 3
    rows, columns = np.nonzero((kinds > 0) & (kinds < 15))
    place = rows * width + columns
    sides = np.stack([2 * place, 2 * (place + 1) + 1, 2 * (place + width), 2 * place + 1], axis=1)
    links: dict[int, int] = {}
    kind_of_square = kinds[rows, columns]
    for kind in range(1, 15):
        squares = sides[kind_of_square == kind]
        for start, end in _SQUARE_LINKS[kind]:
            links.update(zip(squares[:, start].tolist(), squares[:, end].tolist(), strict=True))
    return links


def _make_square_links(kind: int) -> tuple[tuple[int, int], ...]:
    """Through a square whose corners (anticlockwise from the lower left) are above where `kind` has a bit.

    Sides are numbered anticlockwise from the lowest; what is above stays on the left.
    """
    is_above = [bool(kind >> corner & 1) for corner in range(4)]
    # Along side i from corner i to i + 1: where it falls, the outline enters the square; where it rises, it leaves.
    entries = [side for side in range(4) if is_above[side] and not is_above[(side + 1) % 4]]
    exits = [side for side in range(4) if not is_above[side] and is_above[(side + 1) % 4]]
    # Two corners across from each other are not joined: from an entry, the next exit back is round the same corner.
    return tuple(
        (entry, next(side for step in range(1, 4) if (side := (entry - step) % 4) in exits)) for entry in entries
    )


_SQUARE_LINKS = tuple(_make_square_links(kind) for kind in range(16))


def _near(written: Flags) -> Flags:
    """The ink and the pixels that touch it."""
    padded = np.pad(written, 1)
    height, width = written.shape
    near = np.zeros_like(written)
    for top in range(3):
        for left in range(3):
            near |= padded[top : top + height, left : left + width]
    return near


def _sure_parts(darkness: Darkness, threshold: float) -> Flags:
    labels = keep_sure_parts(label_parts(darkness >= threshold), darkness, _SURE_INK * threshold)
    counts = np.bincount(labels.reshape(-1))
    counts[0] = 0
    return (counts > _MIN_PART_SHARE * counts.sum())[labels]


def _smooth_outline(outline: Floats) -> Floats:
    closed = np.concatenate([outline, outline[:1]])
    distances = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(closed, axis=0).T))])
    count = max(8, round(distances[-1] / _SPACING))
    positions = np.linspace(0, distances[-1], count, endpoint=False)
    even = np.stack([np.interp(positions, distances, closed[:, axis]) for axis in (0, 1)], axis=1)
    return smooth_values(even, _SMOOTHING, is_closed=True)


def _choose_points(outlines: Sequence[Floats]) -> list[Floats]:
    """The largest outlines, with as few points as draw them well and never too many."""
    areas = {index: abs(signed_area(outline)) for index, outline in enumerate(outlines)}
    largest = sorted(sorted(areas, key=lambda index: -areas[index])[:MAX_SIGNATURE_OUTLINES])
    kept = [outlines[index] for index in largest if areas[index] > _MIN_AREA]
    tolerance = _TOLERANCE
    while True:
        simple = [outline for outline in (_simplify(each, tolerance) for each in kept) if len(outline) > 2]
        if sum(map(len, simple)) <= MAX_SIGNATURE_POINTS:
            return simple
        tolerance *= _COARSER


def _simplify(points: Floats, tolerance: float) -> Floats:
    """Douglas and Peucker's choice of points, from two that are far apart."""
    far = int(np.hypot(*(points - points[0]).T).argmax())
    closed = np.concatenate([points, points[:1]])
    is_kept = np.zeros(len(closed), bool)
    is_kept[[0, far, -1]] = True
    stack = [(0, far), (far, len(closed) - 1)]
    while stack:
        first, last = stack.pop()
        if last - first < 2:
            continue
        chord = closed[last] - closed[first]
        offsets = closed[first + 1 : last] - closed[first]
        length = float(np.hypot(*chord))
        misses = np.abs(offsets @ [-chord[1], chord[0]]) / length if length else np.hypot(*offsets.T)
        index = int(misses.argmax())
        if misses[index] > tolerance:
            middle = first + 1 + index
            is_kept[middle] = True
            stack += [(first, middle), (middle, last)]
    return closed[:-1][is_kept[:-1]]


def _draw_stroke(darkness: Darkness, points: Floats, radius: float) -> None:
    """Round caps and joins; the edge is one pixel soft."""
    for start, end in pairwise(points if len(points) > 1 else points[[0, 0]]):
        low = np.maximum(np.floor(np.minimum(start, end) - radius - 1).astype(int), 0)
        high = np.ceil(np.maximum(start, end) + radius + 2).astype(int)
        window = darkness[low[1] : high[1], low[0] : high[0]]
        rows, columns = np.mgrid[: window.shape[0], : window.shape[1]] + low[::-1, None, None]
        x, y = columns - start[0], rows - start[1]
        step = end - start
        share = np.clip((x * step[0] + y * step[1]) / max(float(step @ step), 1e-9), 0, 1)
        distances = np.hypot(x - share * step[0], y - share * step[1])
        np.maximum(window, np.clip(radius + 0.5 - distances, 0, 1), out=window)
