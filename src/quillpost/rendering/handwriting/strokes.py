"""The strokes of letters, traced from their ink."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from quillpost.rendering.handwriting.centerlines import Stroke, trace_strokes
from quillpost.rendering.handwriting.junctions import Branch, trace_pen_paths
from quillpost.rendering.handwriting.outlines import Floats, perimeter, signed_area

Integers = npt.NDArray[np.int64]

_CELL_MARGIN = 3  # clear pixels around each letter: its neighbors are never taken for a part of it


@dataclass(frozen=True)
class GlyphBitmap:
    """`ink` is one where there is ink; row numbers grow upward, as letters do."""

    ink: npt.NDArray[np.uint8]
    scale: float
    _origins: Floats
    _row_bottoms: Integers
    _cell_positions: Integers

    @property
    def width(self) -> int:
        return int(self.ink.shape[1])

    def glyph_at(self, pixels: Integers) -> Integers:
        """The number of the letter in whose cell each pixel (an index into the flat sheet) lies."""
        cell_row = np.searchsorted(self._row_bottoms, pixels // self.width, side="right") - 1
        return np.searchsorted(self._cell_positions, cell_row * self.width + pixels % self.width, side="right") - 1

    def pixel_centers(self, glyph: int, pixels: Integers) -> Floats:
        """The middles of a letter's pixels in the letter's own coordinates."""
        centers = np.stack([pixels % self.width, pixels // self.width], axis=1) + 0.5
        return (centers - self._origins[glyph]) / self.scale


def draw_glyphs(glyphs: Sequence[Sequence[Floats]], scale: float) -> GlyphBitmap:
    """Fill the polygons of each letter, `scale` pixels a unit, by the non-zero winding rule."""
    lows = np.array([np.min([polygon.min(axis=0) for polygon in glyph], axis=0) for glyph in glyphs])
    highs = np.array([np.max([polygon.max(axis=0) for polygon in glyph], axis=0) for glyph in glyphs])
    sizes = np.ceil((highs - lows) * scale).astype(np.int64) + 2 * _CELL_MARGIN
    corners, row_bottoms, cell_positions, width, height = _pack_cells(sizes)
    origins = corners + _CELL_MARGIN - lows * scale
    winding = np.zeros((height, width), np.int8)
    starts, ends = [], []
    for glyph, origin in zip(glyphs, origins, strict=True):
        for polygon in glyph:
            pixels = polygon * scale + origin
            starts.append(pixels)
            ends.append(np.roll(pixels, -1, axis=0))
    _mark_crossings(winding, np.concatenate(starts), np.concatenate(ends))
    np.cumsum(winding, axis=1, dtype=np.int8, out=winding)
    return GlyphBitmap((winding != 0).astype(np.uint8), scale, origins, row_bottoms, cell_positions)


def _pack_cells(sizes: Integers) -> tuple[Floats, Integers, Integers, int, int]:
    """Cells in rows: their corners, each row's bottom, each cell's place in reading order, and the size."""
    width = int(max(sizes[:, 0].max(), np.sqrt(np.prod(sizes, axis=1).sum()) * 1.2)) + 1
    corners, bottoms, cell_positions = [], [0], []
    x = row_height = 0
    for cell_width, cell_height in sizes.tolist():
        if x + cell_width > width:
            bottoms.append(bottoms[-1] + row_height)
            x = row_height = 0
        corners.append((x, bottoms[-1]))
        cell_positions.append((len(bottoms) - 1) * width + x)
        x += cell_width
        row_height = max(row_height, cell_height)
    return (np.array(corners, float), np.array(bottoms), np.array(cell_positions), width, bottoms[-1] + row_height)


def _mark_crossings(winding: npt.NDArray[np.int8], starts: Floats, ends: Floats) -> None:
    """Where an edge crosses a row of pixels, the winding number changes for all pixels to its right."""
    first = np.ceil(np.minimum(starts[:, 1], ends[:, 1]) - 0.5).astype(np.int64)
    last = np.ceil(np.maximum(starts[:, 1], ends[:, 1]) - 0.5).astype(np.int64)
    counts = last - first
    edge = np.repeat(np.arange(len(starts)), counts)
    row = np.arange(len(edge)) - np.repeat(np.cumsum(counts) - counts, counts) + first[edge]
    (x0, y0), (x1, y1) = starts[edge].T, ends[edge].T
    column = np.ceil(x0 + (row + 0.5 - y0) * (x1 - x0) / (y1 - y0) - 0.5).astype(np.int64)
    np.add.at(winding, (row, column), np.where(y1 > y0, 1, -1).astype(np.int8))


LookupTable = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class PixelPath:
    """Pixels from one node (an end or a junction) to the next; a closed path repeats its first pixel."""

    pixels: list[int]
    is_closed: bool


def thin_ink(ink: npt.NDArray[np.uint8]) -> Integers:
    """The pixels that Guo and Hall's thinning leaves, in order. Nothing comes apart, nothing vanishes."""
    flat = ink.reshape(-1).copy()
    neighbor_steps = _neighbor_steps(ink.shape[1])
    remaining = np.flatnonzero(flat)
    previous_count = -1
    while previous_count != len(remaining):
        previous_count = len(remaining)
        for table in _REMOVABLE:
            is_removed = table[_neighbor_codes(flat, remaining, neighbor_steps)]
            flat[remaining[is_removed]] = 0
            remaining = remaining[~is_removed]
    return remaining


def trace_paths(pixels: Integers, width: int, size: int) -> list[PixelPath]:
    """Paths over all thinned pixels, in an order that depends only on the pixels."""
    flat = np.zeros(size, np.uint8)
    flat[pixels] = 1
    neighbor_steps = _neighbor_steps(width)
    links = _LINKS[_neighbor_codes(flat, pixels, neighbor_steps)]
    degrees = links.sum(axis=1)
    linked_pixels = np.searchsorted(pixels, (pixels[:, None] + neighbor_steps)[links])
    walker = _Walker(linked_pixels.tolist(), np.concatenate([[0], np.cumsum(degrees)]).tolist())
    paths = [PixelPath([node], False) for node in np.flatnonzero(degrees == 0).tolist()]
    for node in np.flatnonzero((degrees != 0) & (degrees != 2)).tolist():
        paths.extend(PixelPath(path, False) for path in walker.paths_from(node))
    for start in np.flatnonzero(degrees == 2).tolist():
        if not walker.visited[start]:
            paths.append(PixelPath(walker.loop_from(start), True))
    positions = pixels.tolist()
    return [PixelPath([positions[pixel] for pixel in pixel_path.pixels], pixel_path.is_closed) for pixel_path in paths]


class _Walker:
    """Follows each link between pixels once; `neighbor_starts` delimits the neighbors of a pixel."""

    def __init__(self, neighbors: list[int], neighbor_starts: list[int]) -> None:
        self.neighbors = neighbors
        self.neighbor_starts = neighbor_starts
        self.visited = [False] * len(neighbor_starts)

    def paths_from(self, node: int) -> list[list[int]]:
        paths = []
        for neighbor in self.neighbors[self.neighbor_starts[node] : self.neighbor_starts[node + 1]]:
            is_node = self._degree(neighbor) != 2
            if self.visited[neighbor] or (is_node and neighbor < node):
                continue
            paths.append([node, neighbor] if is_node else self._follow_path(node, neighbor))
        return paths

    def loop_from(self, start: int) -> list[int]:
        self.visited[start] = True
        return self._follow_path(start, self.neighbors[self.neighbor_starts[start]])

    def _follow_path(self, start: int, first_neighbor: int) -> list[int]:
        """On from `first_neighbor` to the next node, or back to the start."""
        path, previous, current = [start], start, first_neighbor
        while current != start and self._degree(current) == 2:
            self.visited[current] = True
            path.append(current)
            one, other = self.neighbors[self.neighbor_starts[current] : self.neighbor_starts[current + 1]]
            previous, current = current, other if one == previous else one
        path.append(current)
        return path

    def _degree(self, pixel: int) -> int:
        return self.neighbor_starts[pixel + 1] - self.neighbor_starts[pixel]


def _neighbor_steps(width: int) -> Integers:
    return np.array([-width, -width + 1, 1, width + 1, width, width - 1, -1, -width - 1])


def _neighbor_codes(flat: npt.NDArray[np.uint8], pixels: Integers, steps: Integers) -> npt.NDArray[np.uint8]:
    """One bit for each inked neighbor."""
    code = np.zeros(len(pixels), np.uint8)
    for bit, step in enumerate(steps):
        code |= flat[pixels + step] << np.uint8(bit)
    return code


def _removable_table(is_second_half: bool) -> LookupTable:
    """For every neighborhood: may the pixel go in this half of a round?"""
    n, ne, e, se, s, sw, w, nw = ((np.arange(256) >> bit & 1).astype(bool) for bit in range(8))
    crossings = (~n & (ne | e)).astype(int) + (~e & (se | s)) + (~s & (sw | w)) + (~w & (nw | n))
    clockwise_pairs = (nw | n).astype(int) + (ne | e) + (se | s) + (sw | w)
    counterclockwise_pairs = (n | ne).astype(int) + (e | se) + (s | sw) + (w | nw)
    min_pairs = np.minimum(clockwise_pairs, counterclockwise_pairs)
    is_spared = ((n | ne | ~se) & e) if is_second_half else ((s | sw | ~nw) & w)
    return (crossings == 1) & (min_pairs >= 2) & (min_pairs <= 3) & ~is_spared


def _link_table() -> LookupTable:
    """For every neighborhood the neighbors that the line goes on to: round a corner only the straight steps."""
    inked = np.stack([(np.arange(256) >> bit & 1).astype(bool) for bit in range(8)], axis=1)
    has_straight_neighbor = np.roll(inked, 1, axis=1) | np.roll(inked, -1, axis=1)
    diagonal = np.arange(8) % 2 == 1
    return inked & ~(diagonal & has_straight_neighbor)


_REMOVABLE = (_removable_table(is_second_half=False), _removable_table(is_second_half=True))
_LINKS = _link_table()


# The pen's radius on the sheet: enough for a straight middle line, few enough pixels to be quick.
_PEN_RADIUS_PIXELS = 5.5
_EDGE_SPACING = 5.0

_PEN_PERCENTILE = 62.0  # this much of a hand's ink, in hundredths of its length, is drawn no wider than its pen

# Holes whose outline is not longer than so many pen radii may have been larger before the ink ran.
_MAX_EYE_PERIMETER = 12.0


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
        branch = Branch(path, pixel_path.pixels[0], pixel_path.pixels[-1], pixel_path.is_closed)
        branches[names[glyph_index]].append(branch)
    strokes = {}
    for name, polygons in outlines.items():
        outline_points = np.concatenate(polygons)
        pen_paths = trace_pen_paths(branches[name], outline_points, pen_radius)
        strokes[name] = trace_strokes(pen_paths, outline_points, _eye_points(polygons, pen_radius), pen_radius)
    radii = [stroke.room for glyph_strokes in strokes.values() for stroke in glyph_strokes]
    return strokes, float(np.percentile(np.concatenate([*radii, [pen_radius]]), _PEN_PERCENTILE))


def _estimate_pen_radius(polygons: list[Floats]) -> float:
    """Half the width that a stroke of this area has, if the outline runs along both of its sides."""
    length = sum(map(perimeter, polygons))
    return abs(sum(map(signed_area, polygons))) / length if length else 0.0


def _eye_points(polygons: list[Floats], pen_radius: float) -> Floats:
    """Points round the small holes: contours that run against the rest."""
    total_area = sum(map(signed_area, polygons))
    holes = [polygon for polygon in polygons if signed_area(polygon) * total_area < 0]
    small_holes = [hole for hole in holes if perimeter(hole) < _MAX_EYE_PERIMETER * pen_radius]
    return np.concatenate([np.empty((0, 2)), *small_holes])
