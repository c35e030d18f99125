"""Draw the map of the States that order pages show: `src/quillpost/web/static/states.svg`.

The shapes are those of the npm package us-atlas (ISC License, copyright Mike Bostock), which are the Census
Bureau's cartographic boundaries, already in the Albers USA projection that
`quillpost.web.dashboard.orders.maps` computes. Run it again after a new release of that package:

    python tools/draw_states.py
"""

import json
from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import hypot
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "node_modules" / "us-atlas" / "states-albers-10m.json"
TARGET = ROOT / "src" / "quillpost" / "web" / "static" / "states.svg"

WIDTH, HEIGHT = 975, 610
TOLERANCE = 0.45
"""How far, in units of the picture, a border may be from where it is."""
SMALLEST = 2.0
"""Islands below this area are not seen."""

Point = tuple[float, float]

HEAD = f"""<!-- Made by tools/draw_states.py from us-atlas (ISC License, copyright Mike Bostock). -->
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}">
<g fill="#000" fill-opacity=".22" stroke="#000" stroke-opacity=".65" stroke-width=".8">
"""


def main() -> None:
    atlas = json.loads(SOURCE.read_text())
    arcs = [simplified(arc) for arc in decoded(atlas)]
    states = atlas["objects"]["states"]["geometries"]
    paths = [f'<path d="{outline(state, arcs)}"/>' for state in states if "arcs" in state]
    TARGET.write_text(HEAD + "\n".join(paths) + "\n</g>\n</svg>\n")
    print(f"{TARGET.relative_to(ROOT)}: {len(paths)} states, {TARGET.stat().st_size:,} bytes")


def decoded(atlas: Any) -> list[list[Point]]:
    """Arcs are steps from point to point, in whole numbers that are scaled."""
    (wide, high), (left, top) = atlas["transform"]["scale"], atlas["transform"]["translate"]
    found = []
    for arc in atlas["arcs"]:
        x = y = 0
        points = []
        for right, down in arc:
            x, y = x + right, y + down
            points.append((x * wide + left, y * high + top))
        found.append(points)
    return found


def simplified(points: Sequence[Point]) -> list[Point]:
    """By Douglas and Peucker: ends stay, so that neighbours share their border as before."""
    keep = {0, len(points) - 1}
    stretches = [(0, len(points) - 1)]
    while stretches:
        first, last = stretches.pop()
        aside = [(away(points[n], points[first], points[last]), n) for n in range(first + 1, last)]
        far, place = max(aside, default=(0.0, first))
        if far > TOLERANCE:
            keep.add(place)
            stretches += [(first, place), (place, last)]
    return [points[n] for n in sorted(keep)]


def away(point: Point, start: Point, end: Point) -> float:
    """How far a point is from the straight line between two."""
    (x, y), (x1, y1), (x2, y2) = point, start, end
    length = hypot(x2 - x1, y2 - y1)
    if length == 0:
        return hypot(x - x1, y - y1)
    return abs((x2 - x1) * (y1 - y) - (x1 - x) * (y2 - y1)) / length


def outline(state: Any, arcs: Sequence[Sequence[Point]]) -> str:
    polygons = [state["arcs"]] if state["type"] == "Polygon" else state["arcs"]
    rings = [ring(numbers, arcs) for polygon in polygons for numbers in polygon]
    seen = [points for points in rings if area(points) >= SMALLEST] or [max(rings, key=area)]
    return "".join(map(spelled, seen))


def ring(numbers: Iterable[int], arcs: Sequence[Sequence[Point]]) -> list[Point]:
    """The arcs one after the other; one that is counted below zero goes backwards."""
    points: list[Point] = []
    for number in numbers:
        arc = arcs[number] if number >= 0 else arcs[~number][::-1]
        points += arc if not points else arc[1:]
    return points[:-1]


def area(points: Sequence[Point]) -> float:
    pairs = zip(points, [*points[1:], points[0]], strict=True)
    return abs(sum(x1 * y2 - x2 * y1 for (x1, y1), (x2, y2) in pairs)) / 2


def spelled(points: Sequence[Point]) -> str:
    """In tenths, and from the second point on by how far it is from the one before: that is shorter."""
    tenths = [(round(x * 10), round(y * 10)) for x, y in points]
    steps = [f"{written(x2 - x1)},{written(y2 - y1)}" for (x1, y1), (x2, y2) in pairwise(tenths)]
    return f"M{written(tenths[0][0])},{written(tenths[0][1])}l{' '.join(steps)}z"


def written(tenths: int) -> str:
    """`-0.5` is `-.5`, and `2.0` is `2`."""
    sign, whole, tenth = "-" if tenths < 0 else "", abs(tenths) // 10, abs(tenths) % 10
    return sign + (f"{whole or ''}.{tenth}" if tenth else str(whole))


if __name__ == "__main__":
    main()
