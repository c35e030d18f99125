"""A typeface as the movements of a pen: center lines in units of its own x-height."""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from quillpost.rendering.handwriting.centerlines import Stroke
from quillpost.rendering.handwriting.fonts import UNITS_PER_EM, subset_font
from quillpost.rendering.handwriting.outlines import Floats, sample_contour, signed_area
from quillpost.rendering.handwriting.strokes import strokes_by_glyph

STEP = 0.035
"""X-heights between two samples of a line."""
_EDGE_SPACING = 5.0
_MAX_LOST_DOT_RADII = 8.0
_FLAT_LETTERS = "acemnorsuvwxz"
_LEANING_LETTERS = "bdhklpqtfjgy"


@dataclass(frozen=True)
class TracedLine:
    """One movement. An end is loose where the pen came down or went up, not where it meets another line."""

    points: Floats
    corners: tuple[int, ...] = ()
    loose: tuple[bool, bool] = (True, True)
    is_round: bool = False
    is_dot: bool = False


@dataclass(frozen=True)
class TracedLetter:
    lines: tuple[TracedLine, ...]
    advance: float

    @property
    def points(self) -> Floats:
        return np.concatenate([line.points for line in self.lines])


@dataclass(frozen=True)
class TracedFace:
    """`pen` is a radius, `slant` the tangent of the lean, `em` how many x-heights an em has."""

    letters: dict[str, TracedLetter]
    pen: float
    slant: float
    em: float


def trace_face(font_bytes: bytes, chars: Collection[str], weight: int | None = None) -> TracedFace:
    typeface = subset_font(font_bytes, {*chars, *_FLAT_LETTERS, *_LEANING_LETTERS, " "}, (), weight)
    glyphs = {char: typeface.glyphs[number] for char, number in typeface.glyphs_by_char.items()}
    outlines = {
        char: [sample_contour(contour, _EDGE_SPACING) for contour in glyph.shape]
        for char, glyph in glyphs.items()
        if glyph.shape
    }
    strokes, pen = strokes_by_glyph(outlines)
    for char, polygons in outlines.items():
        strokes[char] = [*strokes.get(char, []), *_lost_dots(polygons, strokes.get(char, []), pen)]
    tops = [max(stroke.path[:, 1].max() for stroke in strokes[char]) for char in _FLAT_LETTERS if strokes.get(char)]
    height = float(np.median(tops))
    letters = {
        char: TracedLetter(tuple(_trace_line(stroke, height) for stroke in found), glyphs[char].advance / height)
        for char, found in strokes.items()
        if found
    }
    return TracedFace(letters, pen / height, _slant(letters), UNITS_PER_EM / height)


def _lost_dots(polygons: list[Floats], strokes: list[Stroke], pen: float) -> list[Stroke]:
    """Small blots that the thinning left nothing of: most are the dots of i and j."""
    area = sum(map(signed_area, polygons))
    dots = []
    for polygon in polygons:
        low, high = polygon.min(axis=0), polygon.max(axis=0)
        is_hole = signed_area(polygon) * area < 0
        has_stroke = any(((stroke.path >= low) & (stroke.path <= high)).all(axis=1).any() for stroke in strokes)
        if not is_hole and not has_stroke and np.ptp(polygon, axis=0).max() < _MAX_LOST_DOT_RADII * pen:
            middle = (low + high) / 2
            path = middle + np.array([[-2.0, 0.0], [2.0, 0.0]])
            dots.append(Stroke(path, np.full(2, pen), np.full(2, pen), is_dot=True))
    return dots


def even_points(points: Floats, step: float = STEP) -> Floats:
    """The same line with samples about `step` apart."""
    along = distances_along(points)
    at = np.linspace(0, along[-1], max(3, round(along[-1] / step) + 1))
    return np.stack([np.interp(at, along, points[:, axis]) for axis in (0, 1)], axis=1)


def distances_along(points: Floats) -> Floats:
    return np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(points, axis=0).T))])


def _trace_line(stroke: Stroke, height: float) -> TracedLine:
    source = stroke.path / height
    points = even_points(source)
    along = distances_along(source)
    share = (len(points) - 1) / max(along[-1], 1e-9)
    corners = tuple(round(along[corner] * share) for corner in stroke.corners)
    loose = (stroke.start is None and not stroke.lap, stroke.stop is None and not stroke.lap)
    return TracedLine(points, corners, loose, bool(stroke.lap), stroke.is_dot)


def _slant(letters: dict[str, TracedLetter]) -> float:
    """The lean of the long downstrokes."""
    steps = [
        np.diff(line.points, axis=0) for char in _LEANING_LETTERS if char in letters for line in letters[char].lines
    ]
    step = np.concatenate([np.zeros((0, 2)), *steps])
    steep = np.abs(step[:, 1]) > 1.5 * np.abs(step[:, 0])
    return float(np.median(step[steep, 0] / step[steep, 1])) if steep.any() else 0.0
