"""Letters as pixels, thinned to the lines that the pen took."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from quillpost.rendering.handwriting.outlines import Floats

Integers = npt.NDArray[np.int64]

# Clear pixels around each letter: its neighbours are never taken for a part of it.
_MARGIN = 3


@dataclass(frozen=True)
class Sheet:
    """`ink` is one where there is ink; row numbers grow upward, as letters do."""

    ink: npt.NDArray[np.uint8]
    scale: float
    _origins: Floats
    _shelf_bottoms: Integers
    _places: Integers

    @property
    def width(self) -> int:
        return int(self.ink.shape[1])

    def letter_at(self, pixels: Integers) -> Integers:
        """The number of the letter in whose cell each pixel lies; a pixel is a place in the flat sheet."""
        shelf = np.searchsorted(self._shelf_bottoms, pixels // self.width, side="right") - 1
        return np.searchsorted(self._places, shelf * self.width + pixels % self.width, side="right") - 1

    def points(self, letter: int, pixels: Integers) -> Floats:
        """The middles of a letter's pixels in the letter's own coordinates."""
        middles = np.stack([pixels % self.width, pixels // self.width], axis=1) + 0.5
        return (middles - self._origins[letter]) / self.scale


def draw(letters: Sequence[Sequence[Floats]], scale: float) -> Sheet:
    """Fill the polygons of each letter, `scale` pixels a unit, by the non-zero winding rule."""
    lows = np.array([np.min([polygon.min(axis=0) for polygon in letter], axis=0) for letter in letters])
    highs = np.array([np.max([polygon.max(axis=0) for polygon in letter], axis=0) for letter in letters])
    sizes = np.ceil((highs - lows) * scale).astype(np.int64) + 2 * _MARGIN
    corners, shelf_bottoms, places, width, height = _shelve(sizes)
    origins = corners + _MARGIN - lows * scale
    winding = np.zeros((height, width), np.int8)
    starts, ends = [], []
    for letter, origin in zip(letters, origins, strict=True):
        for polygon in letter:
            pixels = polygon * scale + origin
            starts.append(pixels)
            ends.append(np.roll(pixels, -1, axis=0))
    _mark_crossings(winding, np.concatenate(starts), np.concatenate(ends))
    np.cumsum(winding, axis=1, dtype=np.int8, out=winding)
    return Sheet((winding != 0).astype(np.uint8), scale, origins, shelf_bottoms, places)


def _shelve(sizes: Integers) -> tuple[Floats, Integers, Integers, int, int]:
    """Cells in rows: their corners, each row's bottom, each cell's place in reading order, and the size."""
    width = int(max(sizes[:, 0].max(), np.sqrt(np.prod(sizes, axis=1).sum()) * 1.2)) + 1
    corners, bottoms, places = [], [0], []
    x = tallest = 0
    for wide, high in sizes.tolist():
        if x + wide > width:
            bottoms.append(bottoms[-1] + tallest)
            x = tallest = 0
        corners.append((x, bottoms[-1]))
        places.append((len(bottoms) - 1) * width + x)
        x += wide
        tallest = max(tallest, high)
    return np.array(corners, float), np.array(bottoms), np.array(places), width, bottoms[-1] + tallest


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


Table = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Trail:
    """Pixels (places in the flat sheet) from one node to the next.

    A node is an end or a place where trails meet; a closed trail has none, and repeats its first pixel.
    """

    pixels: list[int]
    closed: bool


def thin(ink: npt.NDArray[np.uint8]) -> Integers:
    """The pixels that Guo and Hall's thinning leaves, in order. Nothing comes apart, nothing vanishes."""
    flat = ink.reshape(-1).copy()
    steps = _neighbour_steps(ink.shape[1])
    left = np.flatnonzero(flat)
    before = -1
    while before != len(left):
        before = len(left)
        for table in _REMOVABLE:
            removed = table[_neighbours(flat, left, steps)]
            flat[left[removed]] = 0
            left = left[~removed]
    return left


def trace(pixels: Integers, width: int, size: int) -> list[Trail]:
    """Trails over all of the thinned pixels, in an order that depends on the pixels alone."""
    flat = np.zeros(size, np.uint8)
    flat[pixels] = 1
    steps = _neighbour_steps(width)
    links = _LINKS[_neighbours(flat, pixels, steps)]
    degrees = links.sum(axis=1)
    reached = np.searchsorted(pixels, (pixels[:, None] + steps)[links])
    walker = _Walker(reached.tolist(), np.concatenate([[0], np.cumsum(degrees)]).tolist())
    trails = [Trail([node], False) for node in np.flatnonzero(degrees == 0).tolist()]
    for node in np.flatnonzero((degrees != 0) & (degrees != 2)).tolist():
        trails.extend(Trail(path, False) for path in walker.paths_from(node))
    for start in np.flatnonzero(degrees == 2).tolist():
        if not walker.walked[start]:
            trails.append(Trail(walker.around(start), True))
    places = pixels.tolist()
    return [Trail([places[pixel] for pixel in trail.pixels], trail.closed) for trail in trails]


class _Walker:
    """Follows links between pixels, each stretch once.

    The neighbours of a pixel are those between its own and the next one's place in `begins`.
    """

    def __init__(self, neighbours: list[int], begins: list[int]) -> None:
        self.neighbours = neighbours
        self.begins = begins
        self.walked = [False] * len(begins)

    def paths_from(self, node: int) -> list[list[int]]:
        paths = []
        for following in self.neighbours[self.begins[node] : self.begins[node + 1]]:
            is_node = self._degree(following) != 2
            if self.walked[following] or (is_node and following < node):
                continue
            paths.append([node, following] if is_node else self._follow(node, following))
        return paths

    def around(self, start: int) -> list[int]:
        self.walked[start] = True
        return self._follow(start, self.neighbours[self.begins[start]])

    def _follow(self, start: int, following: int) -> list[int]:
        """On from `following` to the next node, or back to the start."""
        path, before, here = [start], start, following
        while here != start and self._degree(here) == 2:
            self.walked[here] = True
            path.append(here)
            one, other = self.neighbours[self.begins[here] : self.begins[here + 1]]
            before, here = here, other if one == before else one
        path.append(here)
        return path

    def _degree(self, pixel: int) -> int:
        return self.begins[pixel + 1] - self.begins[pixel]


def _neighbour_steps(width: int) -> Integers:
    """Clockwise from the pixel above."""
    return np.array([-width, -width + 1, 1, width + 1, width, width - 1, -1, -width - 1])


def _neighbours(flat: npt.NDArray[np.uint8], pixels: Integers, steps: Integers) -> npt.NDArray[np.uint8]:
    """One bit for each inked neighbour."""
    code = np.zeros(len(pixels), np.uint8)
    for bit, step in enumerate(steps):
        code |= flat[pixels + step] << np.uint8(bit)
    return code


def _removable(second: bool) -> Table:
    """For every neighbourhood: may the pixel go in this half of a round?"""
    n, ne, e, se, s, sw, w, nw = ((np.arange(256) >> bit & 1).astype(bool) for bit in range(8))
    crossings = (~n & (ne | e)).astype(int) + (~e & (se | s)) + (~s & (sw | w)) + (~w & (nw | n))
    one_way = (nw | n).astype(int) + (ne | e) + (se | s) + (sw | w)
    other_way = (n | ne).astype(int) + (e | se) + (s | sw) + (w | nw)
    fewest = np.minimum(one_way, other_way)
    spared = ((n | ne | ~se) & e) if second else ((s | sw | ~nw) & w)
    return (crossings == 1) & (fewest >= 2) & (fewest <= 3) & ~spared


def _links() -> Table:
    """For every neighbourhood: which neighbours the line goes on to.

    Round a corner it takes the straight steps, not the diagonal one besides.
    """
    inked = np.stack([(np.arange(256) >> bit & 1).astype(bool) for bit in range(8)], axis=1)
    beside = np.roll(inked, 1, axis=1) | np.roll(inked, -1, axis=1)
    diagonal = np.arange(8) % 2 == 1
    return inked & ~(diagonal & beside)


_REMOVABLE = (_removable(second=False), _removable(second=True))
_LINKS = _links()
