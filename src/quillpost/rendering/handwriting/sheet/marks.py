"""Corner marks of the sheet in a photograph or scan."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

from quillpost.rendering.handwriting.outlines import Floats
from quillpost.rendering.handwriting.sheet import layout
from quillpost.rendering.handwriting.sheet.models import ProblemCode, UnreadableSheet

Gray = npt.NDArray[np.uint8]
Flags = npt.NDArray[np.bool_]

# Marks are looked for in a small picture first, which is quick, and which noise has left.
_SEARCH_SIDES = (1500, 2900)
_DARK_SHARE = 0.72  # of the brightness round about
_NEIGHBORHOOD_SHARE = 1 / 22  # of the longer side

_RUN_MODULES = np.array([1, 1, 3, 1, 1])  # dark, light, dark, light, dark through the middle of a mark
_RUN_TOLERANCE = np.array([0.62, 0.62, 0.95, 0.62, 0.62])
_MIN_MODULE = 1.8  # pixels
_MIN_HITS = 3  # rows, and columns, that look like a mark
_MIN_HIT_MODULES = 1.1  # of the three that the inner square is wide: noise is never so regular
_MAX_CANDIDATES = 9
_MAX_SIZE_RATIO = 2.2  # between the nearest and the farthest mark
_MIN_SIDE_MODULES = 40  # from mark to mark; on paper there are over a hundred
_MAX_BLOCK_GAP = 3.2  # modules of paper between a mark and the block beside it: 1.5, or there is none


@dataclass(frozen=True, slots=True)
class CornerMark:
    """Pixels of the picture: columns and rows from the upper left."""

    x: float
    y: float
    module: float


@dataclass(frozen=True, eq=False)
class FoundMarks:
    """The middles of the marks clockwise from one of them, and the candidates for which of them is the upper left."""

    centers: Floats
    first_candidates: tuple[int, ...]
    module: float


def find_marks(gray: Gray) -> FoundMarks:
    """Raises UnreadableSheet, which says which mark is missing."""
    best: list[CornerMark] = []
    best_dark: Flags = np.zeros((1, 1), bool)
    for longest_side in _SEARCH_SIDES:
        factor = max(1, round(max(gray.shape) / longest_side))
        small = shrink(gray, factor)
        dark = _find_dark(small)
        marks = _find_candidates(dark)
        quadrangle = _choose_quadrangle(marks, dark)
        if quadrangle is not None:
            centers = np.array([(mark.x, mark.y) for mark in quadrangle]) * factor
            module = float(np.mean([mark.module for mark in quadrangle])) * factor
            return FoundMarks(centers, _rank_first_marks(dark, quadrangle), module)
        if len(marks) > len(best):
            best, best_dark = marks, dark
        if factor == 1:
            break
    raise UnreadableSheet(*_explain_missing(best, best_dark))


def shrink(gray: Gray, factor: int) -> Gray:
    """The mean of each square of so many pixels a side."""
    if factor == 1:
        return gray
    height, width = (side // factor * factor for side in gray.shape)
    blocks = gray[:height, :width].reshape(height // factor, factor, width // factor, factor)
    means: Gray = (blocks.sum(axis=(1, 3), dtype=np.uint32) // factor**2).astype(np.uint8)
    return means


def box_mean(values: Floats, radius: int) -> Floats:
    """The mean of the square round each pixel; at the edges, of what there is."""
    for axis in (0, 1):
        size = values.shape[axis]
        sums = np.concatenate([np.zeros_like(values.take([0], axis)), values.cumsum(axis)], axis)
        first = np.maximum(np.arange(size) - radius, 0)
        last = np.minimum(np.arange(size) + radius + 1, size)
        counts = (last - first).astype(float)
        values = (sums.take(last, axis) - sums.take(first, axis)) / np.expand_dims(counts, 1 - axis)
    return values


def _find_dark(gray: Gray) -> Flags:
    means = box_mean(gray.astype(float), max(4, round(max(gray.shape) * _NEIGHBORHOOD_SHARE)))
    dark: Flags = gray < _DARK_SHARE * means
    return dark


def _find_candidates(dark: Flags) -> list[CornerMark]:
    """Places where both a row and a column run through the rings of a mark, the surest first."""
    across = _find_runs(dark)
    down = _find_runs(dark.T)[:, [1, 0, 2]]
    marks = []
    for row_hits in _cluster(across):
        x, y, module = np.median(row_hits, axis=0)
        column_hits = down[(np.hypot(down[:, 0] - x, down[:, 1] - y) < 1.6 * module)]
        if min(len(row_hits), len(column_hits)) < max(_MIN_HITS, _MIN_HIT_MODULES * module):
            continue
        # Rows are right about where the middle is across, columns about where it is up and down.
        center_x, center_y = float(row_hits[:, 0].mean()), float(column_hits[:, 1].mean())
        size = float(np.sqrt(module * np.median(column_hits[:, 2])))
        marks.append((min(len(row_hits), len(column_hits)) / size, CornerMark(center_x, center_y, size)))
    marks.sort(key=lambda found: -found[0])
    return [mark for _, mark in marks[:_MAX_CANDIDATES]]


def _find_runs(dark: Flags) -> Floats:
    """The middle (column, row) and the module of every stretch of a row that looks like one through a mark."""
    width = dark.shape[1]
    flat = np.ascontiguousarray(dark).reshape(-1)
    is_start = np.concatenate([[True], flat[1:] != flat[:-1]])
    is_start[::width] = True
    starts = np.flatnonzero(is_start)
    lengths = np.diff(starts, append=len(flat))
    first = np.flatnonzero(flat[starts[:-4]]) if len(starts) > 4 else np.empty(0, np.int64)
    first = first[starts[first] // width == starts[first + 4] // width]
    runs = lengths[first[:, None] + np.arange(5)]
    modules = runs.sum(axis=1) / 7
    is_mark = (np.abs(runs / modules[:, None] - _RUN_MODULES) < _RUN_TOLERANCE).all(axis=1) & (modules > _MIN_MODULE)
    first, runs, modules = first[is_mark], runs[is_mark], modules[is_mark]
    x = starts[first] % width + runs[:, :2].sum(axis=1) + runs[:, 2] / 2
    return np.stack([x, starts[first] // width + 0.5, modules], axis=1)


def _cluster(hits: Floats) -> Iterator[Floats]:
    """Hits that lie together, each within a mark of the first of them."""
    remaining = hits
    while len(remaining):
        x, y, module = remaining[0]
        is_near = (np.abs(remaining[:, 0] - x) < 2 * module) & (np.abs(remaining[:, 1] - y) < 4 * module)
        yield remaining[is_near]
        remaining = remaining[~is_near]


def _choose_quadrangle(marks: list[CornerMark], dark: Flags) -> list[CornerMark] | None:
    """The four marks clockwise that look most like those of a sheet."""
    best, best_score = None, 0.0
    for four in combinations(marks, 4):
        ordered = _clockwise(four)
        if _is_sheet_like(ordered):
            points = np.array([(mark.x, mark.y) for mark in ordered])
            matches = max(_count_block_matches(_read_blocks(dark, ordered), first) for first in range(4))
            score = matches * float(np.sqrt(abs(_polygon_area(points))))
            if score > best_score:
                best, best_score = ordered, score
    return best


def _clockwise(marks: tuple[CornerMark, ...]) -> list[CornerMark]:
    x, y = np.mean([(mark.x, mark.y) for mark in marks], axis=0)
    return sorted(marks, key=lambda mark: float(np.arctan2(mark.y - y, mark.x - x)))


def _is_sheet_like(marks: list[CornerMark]) -> bool:
    modules = [mark.module for mark in marks]
    if max(modules) > _MAX_SIZE_RATIO * min(modules):
        return False
    points = np.array([(mark.x, mark.y) for mark in marks])
    edges = np.roll(points, -1, axis=0) - points
    lengths = np.hypot(*edges.T)
    if lengths.min() < _MIN_SIDE_MODULES * min(modules) or lengths.max() > 3 * lengths.min():
        return False
    next_edges = np.roll(edges, -1, axis=0)
    turns = edges[:, 0] * next_edges[:, 1] - edges[:, 1] * next_edges[:, 0]
    return bool((turns > 0.35 * lengths * np.roll(lengths, -1)).all())


def _polygon_area(points: Floats) -> float:
    next_points = np.roll(points, -1, axis=0)
    return float((points[:, 0] * next_points[:, 1] - next_points[:, 0] * points[:, 1]).sum()) / 2


def _rank_first_marks(dark: Flags, marks: list[CornerMark]) -> tuple[int, ...]:
    """Which mark may be the upper left, the likeliest first."""
    blocks = _read_blocks(dark, marks)
    return tuple(sorted(range(4), key=lambda first: -_count_block_matches(blocks, first)))


def _count_block_matches(blocks: list[tuple[bool, bool]], first: int) -> int:
    expected = [layout.EDGE_BLOCKS[(index - first) % 4] for index in range(4)]
    return sum(
        found == is_expected
        for pair, expected_pair in zip(blocks, expected, strict=True)
        for found, is_expected in zip(pair, expected_pair, strict=True)
    )


def _read_blocks(dark: Flags, marks: list[CornerMark]) -> list[tuple[bool, bool]]:
    """For each edge from one mark to the next: is there a block beside either?"""
    edges = zip(marks, [*marks[1:], marks[0]], strict=True)
    return [(_has_block(dark, start, end), _has_block(dark, end, start)) for start, end in edges]


def _has_block(dark: Flags, mark: CornerMark, toward: CornerMark) -> bool:
    """Walk out of the mark: dark, light and dark of its rings, then paper, and a block soon or not at all."""
    length = float(np.hypot(toward.x - mark.x, toward.y - mark.y))
    steps = np.arange(0, min(14 * mark.module, length), 0.5)
    x = np.clip((mark.x + steps * (toward.x - mark.x) / length).astype(int), 0, dark.shape[1] - 1)
    y = np.clip((mark.y + steps * (toward.y - mark.y) / length).astype(int), 0, dark.shape[0] - 1)
    changes = np.flatnonzero(np.diff(dark[y, x].astype(np.int8)))
    if len(changes) < 4:
        return False
    radius, block_start = changes[2], changes[3]  # 3.5 modules to the edge of the mark
    return bool(block_start - radius < _MAX_BLOCK_GAP * radius / 3.5)


def _explain_missing(marks: list[CornerMark], dark: Flags) -> tuple[ProblemCode, str]:
    for three in combinations(marks, 3):
        ordered = _clockwise(three)
        found = _find_fourth(ordered, dark)
        if found is not None:
            index, x, y = found
            name = layout.MARK_NAMES[index]
            if 0 <= x < dark.shape[1] and 0 <= y < dark.shape[0]:
                return (
                    ProblemCode.MARKS_MISSING,
                    f"The {name} corner mark can't be seen. Check for glare, blur, a shadow or a finger,"
                    " and take the picture again.",
                )
            return (
                ProblemCode.MARKS_MISSING,
                f"The {name} corner mark is not in the picture. Take it again with all four marks visible.",
            )
    if marks:
        count = {1: "one", 2: "two", 3: "three"}.get(len(marks), "some")
        return (
            ProblemCode.MARKS_MISSING,
            f"We found only {count} of the four corner marks. Take the picture again with the whole page visible.",
        )
    return (
        ProblemCode.NO_SHEET,
        "We couldn't find a handwriting sheet in this picture. Take it from above, with all four corner marks visible.",
    )


def _find_fourth(marks: list[CornerMark], dark: Flags) -> tuple[int, float, float] | None:
    """Which mark completes these three, and about where it would be."""
    for index in range(3):
        # Clockwise: the mark before the right angle, the one in it, and the one after.
        before, corner, after = marks[index - 1], marks[index], marks[(index + 1) % 3]
        to_before = np.array([before.x - corner.x, before.y - corner.y])
        to_after = np.array([after.x - corner.x, after.y - corner.y])
        lengths = float(np.hypot(*to_before)), float(np.hypot(*to_after))
        if abs(to_before @ to_after) > 0.45 * lengths[0] * lengths[1] or max(lengths) > 2.2 * min(lengths):
            continue
        blocks = [
            (_has_block(dark, before, corner), _has_block(dark, corner, before)),
            (_has_block(dark, corner, after), _has_block(dark, after, corner)),
        ]
        for first in range(4):
            if blocks == [layout.EDGE_BLOCKS[first], layout.EDGE_BLOCKS[(first + 1) % 4]]:
                return (first + 3) % 4, before.x + after.x - corner.x, before.y + after.y - corner.y
    return None
