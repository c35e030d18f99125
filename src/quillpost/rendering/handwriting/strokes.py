"""The stroke engine: finds the pen's way through each letter of a face, and writes it again and again."""

import zlib
from collections import defaultdict
from collections.abc import Callable, Mapping

import numpy as np

from quillpost.rendering.handwriting.centerlines import Stroke, trace_strokes
from quillpost.rendering.handwriting.junctions import Branch, trace_pen_paths
from quillpost.rendering.handwriting.outlines import Floats, Shape, ink_extents, perimeter, sample_contour, signed_area
from quillpost.rendering.handwriting.pen import ink_outlines, ink_radii
from quillpost.rendering.handwriting.skeleton import draw_glyphs, thin_ink, trace_paths
from quillpost.rendering.handwriting.variation import HandHabits, TakeNoise, vary_paths

# The pen's radius on the sheet: enough for a straight middle line, few enough pixels to be quick.
_PEN_RADIUS_PIXELS = 5.5
_EDGE_SPACING = 5.0

# This much of a hand's ink, in hundredths of its length, is drawn no wider than its pen.
_PEN_PERCENTILE = 62.0

# Holes whose outline is not longer than so many pen radii may have been larger before the ink ran.
_MAX_EYE_PERIMETER = 12.0

# No ink leaves the box of the source's ink by more; the controls of its curves reach a little further.
_MAX_REACH = 40.0


def make_takes(
    glyphs: Mapping[str, Shape],
    advances: Mapping[str, float],
    *,
    count: int,
    amplitude: float,
    joined: bool,
    seed: int,
    on_progress: Callable[[int, int], None] | None = None,
) -> dict[str, list[Shape]]:
    """`count` takes of every letter as a ballpoint would write it.

    A letter without ink stays empty, and one too faint to find a stroke in stays as it is.
    `amplitude` says how much the takes differ (1 is a relaxed hand). In a `joined` hand entries and exits
    keep their places. `tell` hears how many letters are done, of how many.
    """
    outlines = {name: [sample_contour(contour, _EDGE_SPACING) for contour in shape] for name, shape in glyphs.items()}
    outlines = {
        name: polygons for name, polygons in outlines.items() if polygons and _estimate_pen_radius(polygons) > 0
    }
    strokes, pen_radius = strokes_by_glyph(outlines)
    habits = HandHabits(amplitude, joined, _x_height(glyphs))
    takes: dict[str, list[Shape]] = {}
    for done_count, name in enumerate(glyphs, start=1):
        noise = TakeNoise(seed, zlib.crc32(name.encode()), count)
        takes[name] = (
            _write_takes(strokes[name], advances[name], pen_radius, habits, noise)
            if strokes.get(name)
            else [glyphs[name]] * count
        )
        if on_progress:
            on_progress(done_count, len(glyphs))
    return takes


def strokes_by_glyph(outlines: Mapping[str, list[Floats]]) -> tuple[dict[str, list[Stroke]], float]:
    """The strokes of each letter from the polygons of its outline, and the radius of the hand's pen."""
    if not outlines:
        return {}, 1.0
    pen_radius = float(np.median([_estimate_pen_radius(polygons) for polygons in outlines.values()]))
    names = list(outlines)
    bitmap = draw_glyphs(list(outlines.values()), _PEN_RADIUS_PIXELS / pen_radius)
    branches = defaultdict(list)
    pixel_paths = trace_paths(thin_ink(bitmap.ink), bitmap.width, bitmap.ink.size)
    glyph_indexes = bitmap.glyph_at(np.array([pixel_path.pixels[0] for pixel_path in pixel_paths]))
    for glyph_index, pixel_path in zip(glyph_indexes.tolist(), pixel_paths, strict=True):
        path = bitmap.pixel_centers(glyph_index, np.array(pixel_path.pixels))
        branches[names[glyph_index]].append(
            Branch(path, pixel_path.pixels[0], pixel_path.pixels[-1], pixel_path.is_closed)
        )
    strokes = {}
    for name, polygons in outlines.items():
        outline_points = np.concatenate(polygons)
        strokes[name] = trace_strokes(
            trace_pen_paths(branches[name], outline_points, pen_radius),
            outline_points,
            _eye_points(polygons, pen_radius),
            pen_radius,
        )
    radii = [stroke.room for glyph_strokes in strokes.values() for stroke in glyph_strokes]
    return strokes, float(np.percentile(np.concatenate([*radii, [pen_radius]]), _PEN_PERCENTILE))


def _write_takes(
    strokes: list[Stroke], advance: float, pen_radius: float, habits: HandHabits, noise: TakeNoise
) -> list[Shape]:
    radii = [ink_radii(stroke, pen_radius, habits.amplitude, noise) for stroke in strokes]
    max_widening = max(
        float((stroke_radii - stroke.room).max()) for stroke, stroke_radii in zip(strokes, radii, strict=True)
    )
    paths = vary_paths(strokes, advance, habits, noise, max(_MAX_REACH - max(max_widening, 0.0), 5.0))
    outlines = [ink_outlines(*parts) for parts in zip(strokes, paths, radii, strict=True)]
    return [[contour for stroke in outlines for contour in stroke[take]] for take in range(noise.takes)]


def _estimate_pen_radius(polygons: list[Floats]) -> float:
    """Half the width that a stroke of this area has, if the outline runs along both of its sides."""
    length = sum(map(perimeter, polygons))
    return abs(sum(map(signed_area, polygons))) / length if length else 0.0


def _eye_points(polygons: list[Floats], pen_radius: float) -> Floats:
    """Points round the small holes: contours that run against the rest."""
    total_area = sum(map(signed_area, polygons))
    holes = [polygon for polygon in polygons if signed_area(polygon) * total_area < 0]
    return np.concatenate(
        [np.empty((0, 2)), *(hole for hole in holes if perimeter(hole) < _MAX_EYE_PERIMETER * pen_radius)]
    )


def _x_height(glyphs: Mapping[str, Shape]) -> float:
    for name in ("x", "n", "a"):
        if glyphs.get(name):
            return ink_extents(glyphs[name])[3]
    return 400.0
