"""Glyph outlines, and takes of letters by bending them.

Every take moves a letter by one smooth field: plane waves in three octaves, limbs that stretch and lean
on their own, and a little scale, slant, turn and shift of the whole. A point moves as the middle of its
stroke does, so that strokes keep their thickness.
"""

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from quillpost.rendering.handwriting.faces import REACH

Floats = npt.NDArray[np.float64]

Contour = Floats
"""A closed curve of shape (n, 3, 2): the start, the control and the end of each quadratic segment."""

Shape = list[Contour]


def sampled(contour: Contour, spacing: float) -> Floats:
    """Points along the curve, `spacing` apart at most; the last is not the first again."""
    start, control, end = contour[:, 0], contour[:, 1], contour[:, 2]
    lengths = np.hypot(*(control - start).T) + np.hypot(*(end - control).T)
    steps = np.maximum(np.ceil(lengths / spacing), 1).astype(np.int64)
    segment = np.repeat(np.arange(len(contour)), steps)
    step = np.arange(len(segment)) - np.repeat(np.cumsum(steps) - steps, steps)
    t = (step / steps[segment])[:, None]
    return (1 - t) ** 2 * start[segment] + 2 * (1 - t) * t * control[segment] + t * t * end[segment]


def signed_area(points: Floats) -> float:
    """Positive when the polygon runs anticlockwise."""
    following = np.roll(points, -1, axis=0)
    return float(np.sum(points[:, 0] * following[:, 1] - following[:, 0] * points[:, 1])) / 2


def perimeter(points: Floats) -> float:
    return float(np.hypot(*(np.roll(points, -1, axis=0) - points).T).sum())


def extents(shape: Shape) -> tuple[float, float, float, float]:
    """Left, bottom, right and top of the ink; the shape must have some."""
    points = np.concatenate([sampled(contour, 10.0) for contour in shape])
    (left, bottom), (right, top) = points.min(axis=0), points.max(axis=0)
    return float(left), float(bottom), float(right), float(top)


def through_controls(controls: Floats) -> Contour:
    """The closed curve whose segments meet half way between one control and the next.

    TrueType leaves such meeting points out, so that a control is all that a segment costs.
    """
    ends = (controls + np.roll(controls, -1, axis=0)) / 2
    return np.stack([np.roll(ends, 1, axis=0), controls, ends], axis=1)


def distances_to(edge: Floats, points: Floats) -> Floats:
    """From each point to the nearest one of the edge."""
    across = points[:, None, 0].astype(np.float32) - edge[None, :, 0].astype(np.float32)
    along = points[:, None, 1].astype(np.float32) - edge[None, :, 1].astype(np.float32)
    nearest: Floats = np.sqrt((across * across + along * along).min(axis=1)).astype(np.float64)
    return nearest


# Where the way through the ink is longer than this many usual ones, it runs along a stroke, not across.
_ACROSS_AT_MOST = 1.6
_EDGE_SPACING = 40.0
_UNIT = 1e-6


def middles(shape: Shape) -> list[Floats]:
    """For each contour the middles for its points, in the order start, control, start, control and so on."""
    points = [contour[:, :2].reshape(-1, 2) for contour in shape]
    inward = [_inward(contour, _turns_left(shape)) for contour in shape]
    depths = _depths(np.concatenate(points), np.concatenate(inward), shape)
    usual = float(np.median(depths[np.isfinite(depths)])) if np.isfinite(depths).any() else 0.0
    capped = np.minimum(depths, _ACROSS_AT_MOST * usual) / 2
    edges = np.cumsum([len(each) for each in points])[:-1]
    return [
        each + normal * _smooth(depth)[:, None]
        for each, normal, depth in zip(points, inward, np.split(capped, edges), strict=True)
    ]


def _turns_left(shape: Shape) -> bool:
    """Whether the ink lies to the left of its contours, holes and all."""
    return sum(signed_area(sampled(contour, _EDGE_SPACING)) for contour in shape) > 0


def _inward(contour: Contour, is_left: bool) -> Floats:
    """A unit vector into the ink for every point."""
    along = contour[:, 2] - contour[:, 0]
    along /= np.maximum(np.hypot(*along.T), _UNIT)[:, None]
    at_starts = along + np.roll(along, 1, axis=0)
    tangents = np.stack([at_starts, along], axis=1).reshape(-1, 2)
    tangents /= np.maximum(np.hypot(*tangents.T), _UNIT)[:, None]
    side = 1.0 if is_left else -1.0
    return side * np.stack([-tangents[:, 1], tangents[:, 0]], axis=1)


def _depths(points: Floats, inward: Floats, shape: Shape) -> Floats:
    """How far it is through the ink from each point; infinite where no other side is found."""
    rings = [sampled(contour, _EDGE_SPACING) for contour in shape]
    start = np.concatenate(rings)
    edge = np.concatenate([np.roll(ring, -1, axis=0) - ring for ring in rings])
    gap_x = start[:, 0] - points[:, 0, None]
    gap_y = start[:, 1] - points[:, 1, None]
    way_x, way_y = inward[:, 0, None], inward[:, 1, None]
    crossing = way_x * edge[:, 1] - way_y * edge[:, 0]
    with np.errstate(divide="ignore", invalid="ignore"):
        depth = (gap_x * edge[:, 1] - gap_y * edge[:, 0]) / crossing
        share = (gap_x * way_y - gap_y * way_x) / crossing
    is_hit = (share >= 0) & (share <= 1) & (depth > 4.0)  # nearer is the point's own side
    nearest: Floats = np.where(is_hit, depth, np.inf).min(axis=1)
    return nearest


def _smooth(depths: Floats) -> Floats:
    """Neighbours agree on the middle, or the outline would show the steps."""
    for _ in range(2):
        depths = (np.roll(depths, 1) + 2 * depths + np.roll(depths, -1)) / 4
    return depths


Whole = npt.NDArray[np.int64]

# What a piece of the outline may measure before it is divided, so that it can follow the field.
_LONGEST_PIECE = 170.0

_WAVE_LENGTHS = np.array([1100.0, 560.0, 310.0])
_WAVE_HEIGHTS = np.array([15.0, 13.0, 6.0])
_LONGEST_MOVE = REACH - 3.0  # rounding takes the rest

_USUAL_X_HEIGHT = 420.0
_TURNING_HEIGHT = 200.0
_JOIN_SHARE = 0.28  # of a joined letter's width, on either side, comes to rest towards the join
_JOIN_DEPTH = 25.0  # about half a stroke: the middle of an end lies that far inside
_JOIN_MARGIN = 70.0  # above and below where joins lie, the outline gets free again over this height
_FREEDOM_BEYOND_JOINS = 0.7


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
    """For each letter `count` shapes, as one person would write it at different times."""
    takes: dict[str, list[Shape]] = {name: [[] for _ in range(count)] for name in letters}
    inked = [name for name, shape in letters.items() if shape]
    if not inked:
        return takes
    sheet = _Sheet.of([letters[name] for name in inked])
    widths = np.array([advances[name] for name in inked])
    x_height = _x_height(letters)
    freedom = (
        _freedom(sheet.middles, widths[sheet.letter], x_height) if joined else np.ones(len(sheet.points))
    )
    for take in range(count):
        whims = _Whims.drawn(inked, seed, take, amplitude)
        moved = sheet.points + _moves(sheet, whims, widths, x_height, freedom)
        for name, contour in sheet.contours(np.rint(moved)):
            takes[inked[name]][take].append(contour)
        if tell:
            tell((take + 1) * len(inked), count * len(inked))
    return takes


@dataclass(frozen=True, eq=False)
class _Sheet:
    """The points of all letters in one row: start, control, start, control; each with its letter."""

    points: Floats
    middles: Floats
    letter: Whole
    sizes: Whole
    """How many points each contour has."""

    @classmethod
    def of(cls, shapes: Sequence[Shape]) -> "_Sheet":
        divided = [[_divided(contour) for contour in shape] for shape in shapes]
        contours = [contour[:, :2].reshape(-1, 2) for shape in divided for contour in shape]
        points_of_letters = [2 * sum(len(contour) for contour in shape) for shape in divided]
        return cls(
            points=np.concatenate(contours),
            middles=np.concatenate([middle for shape in divided for middle in middles(shape)]),
            letter=np.repeat(np.arange(len(shapes)), points_of_letters),
            sizes=np.array([len(contour) for contour in contours]),
        )

    def contours(self, points: Floats) -> list[tuple[int, Contour]]:
        """The letters' contours that these points make, each with its letter's place."""
        stops = np.cumsum(self.sizes)
        found = []
        for start, stop in zip((stops - self.sizes).tolist(), stops.tolist(), strict=True):
            curves = points[start:stop].reshape(-1, 2, 2)
            ends = np.roll(curves[:, :1], -1, axis=0)
            found.append((int(self.letter[start]), np.concatenate([curves, ends], axis=1)))
        return found


def _divided(contour: Contour) -> Contour:
    """The same curve in pieces short enough to bend."""
    start, control, end = contour[:, 0], contour[:, 1], contour[:, 2]
    lengths = np.hypot(*(control - start).T) + np.hypot(*(end - control).T)
    parts = np.maximum(np.ceil(lengths / _LONGEST_PIECE), 1).astype(np.int64)
    whole = np.repeat(np.arange(len(contour)), parts)
    part = np.arange(len(whole)) - np.repeat(np.cumsum(parts) - parts, parts)
    before, after = (part / parts[whole])[:, None], ((part + 1) / parts[whole])[:, None]

    def polar(one: Floats, other: Floats) -> Floats:
        """On the curve where both are the same; where not, the control of the piece between them."""
        middle = one + other - 2 * one * other
        return (1 - one) * (1 - other) * start[whole] + middle * control[whole] + one * other * end[whole]

    return np.stack([polar(before, before), polar(before, after), polar(after, after)], axis=1)


def _x_height(letters: Mapping[str, Shape]) -> float:
    x = letters.get("x")
    return max(float(contour[:, 0, 1].max()) for contour in x) if x else _USUAL_X_HEIGHT


@dataclass(frozen=True, eq=False)
class _Whims:
    """What chance does to each letter in one take; the first axis is the letter."""

    directions: Floats  # letter, axis, octave
    phases: Floats
    lengths: Floats
    heights: Floats
    limbs: Floats  # letter, (lean, stretch), (above, below)
    scales: Floats
    slant: Floats
    turn: Floats
    shift: Floats

    @classmethod
    def drawn(cls, names: list[str], seed: int, take: int, amplitude: float) -> "_Whims":
        """A letter's chances are its own, whatever other letters there are."""
        even = np.empty((len(names), 3, 2, 3))
        normal = np.empty((len(names), 16))
        for place, name in enumerate(names):
            chance = np.random.Generator(np.random.PCG64([seed, zlib.crc32(name.encode()), take]))
            even[place] = chance.random((3, 2, 3))
            normal[place] = chance.standard_normal(16)
        normal = np.clip(normal, -2.2, 2.2) * amplitude
        return cls(
            directions=2 * np.pi * even[:, 0],
            phases=2 * np.pi * even[:, 1],
            lengths=_WAVE_LENGTHS * (0.8 + 0.45 * even[:, 2]),
            heights=_WAVE_HEIGHTS * normal[:, :6].reshape(-1, 2, 3),
            limbs=normal[:, 6:10].reshape(-1, 2, 2) * np.array([[0.05, 0.06], [0.06, 0.08]]),
            scales=normal[:, 10:12] * 0.028,
            slant=normal[:, 12] * 0.028,
            turn=normal[:, 13] * np.radians(0.8),
            shift=normal[:, 14:16] * np.array([4.5, 7.0]),
        )


def _moves(sheet: _Sheet, whims: _Whims, widths: Floats, x_height: float, freedom: Floats) -> Floats:
    move = _waves(sheet, whims) + _limbs(sheet, whims, x_height) + _stance(sheet, whims, widths)
    move *= freedom[:, None]
    distance = np.maximum(np.hypot(*move.T), 1e-9)
    # However long, it ends short of the limit; short ones are hardly touched.
    shorter: Floats = _LONGEST_MOVE * np.tanh(distance / _LONGEST_MOVE) / distance
    return move * shorter[:, None]


def _waves(sheet: _Sheet, whims: _Whims) -> Floats:
    """Each axis is displaced by the sum of its three plane waves."""
    across_x = np.cos(whims.directions) / whims.lengths * 2 * np.pi
    across_y = np.sin(whims.directions) / whims.lengths * 2 * np.pi
    x, y = sheet.middles[:, 0, None, None], sheet.middles[:, 1, None, None]
    angle = across_x[sheet.letter] * x + across_y[sheet.letter] * y + whims.phases[sheet.letter]
    total: Floats = (whims.heights[sheet.letter] * np.sin(angle)).sum(axis=2)
    return total


def _limbs(sheet: _Sheet, whims: _Whims, x_height: float) -> Floats:
    """What rises above the small letters, or hangs below the line, leans and stretches on its own."""
    y = sheet.middles[:, 1]
    above_and_below = np.stack([np.maximum(y - x_height, 0), np.minimum(y, 0)], axis=1)
    total: Floats = (whims.limbs[sheet.letter] * above_and_below[:, None]).sum(axis=2)
    return total


def _stance(sheet: _Sheet, whims: _Whims, widths: Floats) -> Floats:
    """Scale, slant, turn and shift of the whole letter, about its middle."""
    x, y = sheet.middles[:, 0] - widths[sheet.letter] / 2, sheet.middles[:, 1]
    scale, slant, turn = whims.scales[sheet.letter], whims.slant[sheet.letter], whims.turn[sheet.letter]
    right = scale[:, 0] * x + slant * y - turn * (y - _TURNING_HEIGHT)
    up = scale[:, 1] * y + turn * x
    return np.stack([right, up], axis=1) + whims.shift[sheet.letter]


def _freedom(places: Floats, widths: Floats, x_height: float) -> Floats:
    """How free each point is: not at all where a neighbour is joined, fully inside the letter."""
    x, y = places[:, 0], places[:, 1]
    way_in = np.minimum(x, widths - x) - _JOIN_DEPTH
    inside = _eased(way_in / (_JOIN_SHARE * np.maximum(widths, 120.0)))
    beyond = _eased(np.maximum(y - x_height, -_JOIN_MARGIN - y) / _JOIN_MARGIN)
    return np.maximum(inside, _FREEDOM_BEYOND_JOINS * beyond)


def _eased(share: Floats) -> Floats:
    clipped = np.clip(share, 0.0, 1.0)
    return clipped * clipped * (3 - 2 * clipped)
