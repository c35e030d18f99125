"""A typeface as the movements of a pen: center lines in units of its own x-height."""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from quillpost.rendering.handwriting.centerlines import Stroke
from quillpost.rendering.handwriting.fonts import UNITS_PER_EM, subset_font
from quillpost.rendering.handwriting.outlines import Floats, sample_contour, signed_area
from quillpost.rendering.handwriting.strokes import strokes_by_glyph
from quillpost.rendering.handwriting.traced_letters import (
    FLAT_LETTERS,
    LEANING_LETTERS,
    TracedLetter,
    TracedLine,
    distances_along,
    even_points,
    measure_slant,
)

_EDGE_SPACING = 5.0
_MAX_LOST_DOT_RADII = 8.0


@dataclass(frozen=True)
class TracedFace:
    """`pen` is a radius, `slant` the tangent of the lean, `em` how many x-heights an em has."""

    letters: dict[str, TracedLetter]
    pen: float
    slant: float
    em: float


def trace_face(font_bytes: bytes, chars: Collection[str], weight: int | None = None) -> TracedFace:
    typeface = subset_font(font_bytes, {*chars, *FLAT_LETTERS, *LEANING_LETTERS, " "}, (), weight)
    glyphs = {char: typeface.glyphs[number] for char, number in typeface.glyphs_by_char.items()}
    outlines = {
        char: [sample_contour(contour, _EDGE_SPACING) for contour in glyph.shape]
        for char, glyph in glyphs.items()
        if glyph.shape
    }
    strokes, pen = strokes_by_glyph(outlines)
    for char, polygons in outlines.items():
        strokes[char] = [*strokes.get(char, []), *_lost_dots(polygons, strokes.get(char, []), pen)]
    tops = [max(stroke.path[:, 1].max() for stroke in strokes[char]) for char in FLAT_LETTERS if strokes.get(char)]
    height = float(np.median(tops))
    letters = {
        char: TracedLetter(tuple(_trace_line(stroke, height) for stroke in found), glyphs[char].advance / height)
        for char, found in strokes.items()
        if found
    }
    return TracedFace(letters, pen / height, measure_slant(letters), UNITS_PER_EM / height)


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


def _trace_line(stroke: Stroke, height: float) -> TracedLine:
    source = stroke.path / height
    points = even_points(source)
    along = distances_along(source)
    share = (len(points) - 1) / max(along[-1], 1e-9)
    corners = tuple(round(along[corner] * share) for corner in stroke.corners)
    loose = (stroke.start is None and not stroke.lap, stroke.stop is None and not stroke.lap)
    return TracedLine(points, corners, loose, bool(stroke.lap), stroke.is_dot)
