"""The stroke engine: finds the pen's way through each letter of a face, and writes it again and again."""

import zlib
from collections import defaultdict
from collections.abc import Callable, Mapping

import numpy as np

from quillpost.rendering.handwriting.centerlines import Stroke, strokes_of
from quillpost.rendering.handwriting.junctions import Branch, lines_of
from quillpost.rendering.handwriting.outlines import Floats, Shape, extents, perimeter, sampled, signed_area
from quillpost.rendering.handwriting.pen import ink, widths
from quillpost.rendering.handwriting.skeleton import draw, thin, trace
from quillpost.rendering.handwriting.variation import Chance, Habits, paths_of

# The pen's radius on the sheet: enough for a straight middle line, few enough pixels to be quick.
_PEN_PIXELS = 5.5
_EDGE_SPACING = 5.0

# This much of a hand's ink, in hundredths of its length, is drawn no wider than its pen.
_PEN_SHARE = 62.0

# Holes whose outline is not longer than so many pen radii may have been larger before the ink ran.
_EYE = 12.0

# No ink leaves the box of the source's ink by more; the controls of its curves reach a little further.
_REACH = 40.0


def rewrite(
    letters: Mapping[str, Shape],
    advances: Mapping[str, float],
    *,
    count: int,
    amplitude: float,
    joined: bool,
    seed: int,
    tell: Callable[[int, int], None] | None = None,
) -> dict[str, list[Shape]]:
    """`count` takes of every letter as a ballpoint would write it.

    A letter without ink stays empty, and one too faint to find a stroke in stays as it is.
    `amplitude` says how much the takes differ (1 is a relaxed hand). In a `joined` hand entries and exits
    keep their places. `tell` hears how many letters are done, of how many.
    """
    edges = {name: [sampled(contour, _EDGE_SPACING) for contour in shape] for name, shape in letters.items()}
    edges = {name: polygons for name, polygons in edges.items() if polygons and _pen_of(polygons) > 0}
    strokes, pen = strokes_by_letter(edges)
    habits = Habits(amplitude, joined, _x_height(letters))
    takes: dict[str, list[Shape]] = {}
    for done, name in enumerate(letters, start=1):
        chance = Chance(seed, zlib.crc32(name.encode()), count)
        takes[name] = (
            _written(strokes[name], advances[name], pen, habits, chance)
            if strokes.get(name)
            else [letters[name]] * count
        )
        if tell:
            tell(done, len(letters))
    return takes


def strokes_by_letter(edges: Mapping[str, list[Floats]]) -> tuple[dict[str, list[Stroke]], float]:
    """The strokes of each letter from the polygons of its outline, and the radius of the hand's pen."""
    if not edges:
        return {}, 1.0
    pen = float(np.median([_pen_of(polygons) for polygons in edges.values()]))
    names = list(edges)
    sheet = draw(list(edges.values()), _PEN_PIXELS / pen)
    branches = defaultdict(list)
    trails = trace(thin(sheet.ink), sheet.width, sheet.ink.size)
    owners = sheet.letter_at(np.array([trail.pixels[0] for trail in trails]))
    for owner, trail in zip(owners.tolist(), trails, strict=True):
        path = sheet.points(owner, np.array(trail.pixels))
        branches[names[owner]].append(Branch(path, trail.pixels[0], trail.pixels[-1], trail.closed))
    strokes = {}
    for name, polygons in edges.items():
        edge = np.concatenate(polygons)
        strokes[name] = strokes_of(lines_of(branches[name], edge, pen), edge, _eyes(polygons, pen), pen)
    rooms = [stroke.room for of_letter in strokes.values() for stroke in of_letter]
    return strokes, float(np.percentile(np.concatenate([*rooms, [pen]]), _PEN_SHARE))


def _written(
    strokes: list[Stroke], advance: float, pen: float, habits: Habits, chance: Chance
) -> list[Shape]:
    radii = [widths(stroke, pen, habits.amplitude, chance) for stroke in strokes]
    widened = max(float((drawn - stroke.room).max()) for stroke, drawn in zip(strokes, radii, strict=True))
    paths = paths_of(strokes, advance, habits, chance, max(_REACH - max(widened, 0.0), 5.0))
    inked = [ink(*parts) for parts in zip(strokes, paths, radii, strict=True)]
    return [[contour for stroke in inked for contour in stroke[take]] for take in range(chance.takes)]


def _pen_of(polygons: list[Floats]) -> float:
    """Half the width that a stroke of this area has, if the outline runs along both of its sides."""
    length = sum(map(perimeter, polygons))
    return abs(sum(map(signed_area, polygons))) / length if length else 0.0


def _eyes(polygons: list[Floats], pen: float) -> Floats:
    """Points round the small holes: contours that run against the rest."""
    way = sum(map(signed_area, polygons))
    holes = [polygon for polygon in polygons if signed_area(polygon) * way < 0]
    return np.concatenate([np.empty((0, 2)), *(hole for hole in holes if perimeter(hole) < _EYE * pen)])


def _x_height(letters: Mapping[str, Shape]) -> float:
    for name in ("x", "n", "a"):
        if letters.get(name):
            return extents(letters[name])[3]
    return 400.0
