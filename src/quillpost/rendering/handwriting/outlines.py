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

Floats = npt.NDArray[np.float64]

Contour = Floats  # a closed curve of shape (n, 3, 2): the start, the control and the end of each quadratic segment

Shape = list[Contour]

MAX_TAKE_REACH = 45  # no take's ink leaves the box of the source's ink by more than this, in thousandths of an em


def sample_contour(contour: Contour, spacing: float) -> Floats:
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
    next_points = np.roll(points, -1, axis=0)
    return float(np.sum(points[:, 0] * next_points[:, 1] - next_points[:, 0] * points[:, 1])) / 2


def perimeter(points: Floats) -> float:
    return float(np.hypot(*(np.roll(points, -1, axis=0) - points).T).sum())


def ink_extents(shape: Shape) -> tuple[float, float, float, float]:
    """Left, bottom, right and top of the ink; the shape must have some."""
    points = np.concatenate([sample_contour(contour, 10.0) for contour in shape])
    (left, bottom), (right, top) = points.min(axis=0), points.max(axis=0)
    return float(left), float(bottom), float(right), float(top)


def contour_through_controls(controls: Floats) -> Contour:
    """The closed curve whose segments meet half way between controls, where TrueType needs no point."""
    ends = (controls + np.roll(controls, -1, axis=0)) / 2
    return np.stack([np.roll(ends, 1, axis=0), controls, ends], axis=1)


def distances_to_outline(outline_points: Floats, points: Floats) -> Floats:
    x_distances = points[:, None, 0].astype(np.float32) - outline_points[None, :, 0].astype(np.float32)
    y_distances = points[:, None, 1].astype(np.float32) - outline_points[None, :, 1].astype(np.float32)
    nearest: Floats = np.sqrt((x_distances * x_distances + y_distances * y_distances).min(axis=1)).astype(np.float64)
    return nearest


# Where the way through the ink is longer than this many usual ones, it runs along a stroke, not across.
_MAX_DEPTH_RATIO = 1.6
_EDGE_SPACING = 40.0
_MIN_LENGTH = 1e-6


def stroke_middles(shape: Shape) -> list[Floats]:
    """For each contour the middles of the stroke at its points: start, control, start, control, ..."""
    points = [contour[:, :2].reshape(-1, 2) for contour in shape]
    ink_is_left = sum(signed_area(sample_contour(contour, _EDGE_SPACING)) for contour in shape) > 0
    inward = [_inward_normals(contour, ink_is_left) for contour in shape]
    depths = _ink_depths(np.concatenate(points), np.concatenate(inward), shape)
    median_depth = float(np.median(depths[np.isfinite(depths)])) if np.isfinite(depths).any() else 0.0
    half_depths = np.minimum(depths, _MAX_DEPTH_RATIO * median_depth) / 2
    split_indexes = np.cumsum([len(contour_points) for contour_points in points])[:-1]
    return [
        contour_points + normal * _smooth_depths(depth)[:, None]
        for contour_points, normal, depth in zip(points, inward, np.split(half_depths, split_indexes), strict=True)
    ]


def _inward_normals(contour: Contour, is_left: bool) -> Floats:
    """A unit vector into the ink for every point."""
    tangents_of_segments = contour[:, 2] - contour[:, 0]
    tangents_of_segments /= np.maximum(np.hypot(*tangents_of_segments.T), _MIN_LENGTH)[:, None]
    tangents_at_starts = tangents_of_segments + np.roll(tangents_of_segments, 1, axis=0)
    tangents = np.stack([tangents_at_starts, tangents_of_segments], axis=1).reshape(-1, 2)
    tangents /= np.maximum(np.hypot(*tangents.T), _MIN_LENGTH)[:, None]
    sign = 1.0 if is_left else -1.0
    return sign * np.stack([-tangents[:, 1], tangents[:, 0]], axis=1)


def _ink_depths(points: Floats, inward: Floats, shape: Shape) -> Floats:
    """How far it is through the ink from each point; infinite where no other side is found."""
    polygons = [sample_contour(contour, _EDGE_SPACING) for contour in shape]
    start = np.concatenate(polygons)
    edge = np.concatenate([np.roll(polygon, -1, axis=0) - polygon for polygon in polygons])
    gap_x = start[:, 0] - points[:, 0, None]
    gap_y = start[:, 1] - points[:, 1, None]
    normal_x, normal_y = inward[:, 0, None], inward[:, 1, None]
    crossing = normal_x * edge[:, 1] - normal_y * edge[:, 0]
    with np.errstate(divide="ignore", invalid="ignore"):
        depth = (gap_x * edge[:, 1] - gap_y * edge[:, 0]) / crossing
        share = (gap_x * normal_y - gap_y * normal_x) / crossing
    is_hit = (share >= 0) & (share <= 1) & (depth > 4.0)  # nearer is the point's own side
    nearest: Floats = np.where(is_hit, depth, np.inf).min(axis=1)
    return nearest


def _smooth_depths(depths: Floats) -> Floats:
    """Neighbors agree on the middle, or the outline would show the steps."""
    for _ in range(2):
        depths = (np.roll(depths, 1) + 2 * depths + np.roll(depths, -1)) / 4
    return depths


Integers = npt.NDArray[np.int64]

# What a piece of the outline may measure before it is divided, so that it can follow the field.
_MAX_SEGMENT_LENGTH = 170.0

_WAVE_LENGTHS = np.array([1100.0, 560.0, 310.0])
_WAVE_AMPLITUDES = np.array([15.0, 13.0, 6.0])
_MAX_MOVE = MAX_TAKE_REACH - 3.0  # rounding takes the rest
_DEFAULT_X_HEIGHT = 420.0
_TURNING_HEIGHT = 200.0
_JOIN_WIDTH_SHARE = 0.28  # of a joined letter's width, on either side, comes to rest towards the join
_JOIN_DEPTH = 25.0  # about half a stroke: the middle of an end lies that far inside
_JOIN_MARGIN = 70.0  # above and below where joins lie, the outline gets free again over this height
_FREEDOM_BEYOND_JOINS = 0.7


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
    """For each letter `count` shapes, as one person would write it at different times."""
    takes: dict[str, list[Shape]] = {index: [[] for _ in range(count)] for index in glyphs}
    inked_names = [index for index, shape in glyphs.items() if shape]
    if not inked_names:
        return takes
    points = _GlyphPoints.from_shapes([glyphs[index] for index in inked_names])
    widths = np.array([advances[index] for index in inked_names])
    x_height = _x_height(glyphs)
    freedom = np.ones(len(points.points))
    if joined:
        freedom = _point_freedom(points.middles, widths[points.glyph_indexes], x_height)
    for take in range(count):
        variation = _TakeVariation.draw_random(inked_names, seed, take, amplitude)
        moved_points = points.points + _point_moves(points, variation, widths, x_height, freedom)
        for index, contour in points.build_contours(np.rint(moved_points)):
            takes[inked_names[index]][take].append(contour)
        if on_progress:
            on_progress((take + 1) * len(inked_names), count * len(inked_names))
    return takes


@dataclass(frozen=True, eq=False)
class _GlyphPoints:
    """The points of all letters in one row: start, control, start, control; each with its letter."""

    points: Floats
    middles: Floats
    glyph_indexes: Integers
    contour_sizes: Integers  # how many points each contour has

    @classmethod
    def from_shapes(cls, shapes: Sequence[Shape]) -> "_GlyphPoints":
        divided = [[_subdivide(contour) for contour in shape] for shape in shapes]
        contours = [contour[:, :2].reshape(-1, 2) for shape in divided for contour in shape]
        glyph_point_counts = [2 * sum(len(contour) for contour in shape) for shape in divided]
        return cls(
            points=np.concatenate(contours),
            middles=np.concatenate([middle for shape in divided for middle in stroke_middles(shape)]),
            glyph_indexes=np.repeat(np.arange(len(shapes)), glyph_point_counts),
            contour_sizes=np.array([len(contour) for contour in contours]),
        )

    def build_contours(self, points: Floats) -> list[tuple[int, Contour]]:
        stops = np.cumsum(self.contour_sizes)
        contours = []
        for start, stop in zip((stops - self.contour_sizes).tolist(), stops.tolist(), strict=True):
            curves = points[start:stop].reshape(-1, 2, 2)
            ends = np.roll(curves[:, :1], -1, axis=0)
            contours.append((int(self.glyph_indexes[start]), np.concatenate([curves, ends], axis=1)))
        return contours


def _subdivide(contour: Contour) -> Contour:
    """The same curve in pieces short enough to bend."""
    start, control, end = contour[:, 0], contour[:, 1], contour[:, 2]
    lengths = np.hypot(*(control - start).T) + np.hypot(*(end - control).T)
    parts = np.maximum(np.ceil(lengths / _MAX_SEGMENT_LENGTH), 1).astype(np.int64)
    segment = np.repeat(np.arange(len(contour)), parts)
    step = np.arange(len(segment)) - np.repeat(np.cumsum(parts) - parts, parts)
    t_start, t_end = (step / parts[segment])[:, None], ((step + 1) / parts[segment])[:, None]

    def polar(t_first: Floats, t_second: Floats) -> Floats:
        """On the curve where both are the same; where not, the control of the piece between them."""
        middle = t_first + t_second - 2 * t_first * t_second
        return (
            (1 - t_first) * (1 - t_second) * start[segment]
            + middle * control[segment]
            + t_first * t_second * end[segment]
        )

    return np.stack([polar(t_start, t_start), polar(t_start, t_end), polar(t_end, t_end)], axis=1)


def _x_height(glyphs: Mapping[str, Shape]) -> float:
    x = glyphs.get("x")
    return max(float(contour[:, 0, 1].max()) for contour in x) if x else _DEFAULT_X_HEIGHT


@dataclass(frozen=True, eq=False)
class _TakeVariation:
    """What chance does to each letter in one take; the first axis is the letter."""

    directions: Floats  # letter, axis, octave
    phases: Floats
    wavelengths: Floats
    amplitudes: Floats
    limb_scales: Floats  # letter, (lean, stretch), (above, below)
    scales: Floats
    slant: Floats
    rotation: Floats
    shift: Floats

    @classmethod
    def draw_random(cls, names: list[str], seed: int, take: int, amplitude: float) -> "_TakeVariation":
        """A letter's random values depend on its name only."""
        uniform = np.empty((len(names), 3, 2, 3))
        normal = np.empty((len(names), 16))
        for index, name in enumerate(names):
            generator = np.random.Generator(np.random.PCG64([seed, zlib.crc32(name.encode()), take]))
            uniform[index] = generator.random((3, 2, 3))
            normal[index] = generator.standard_normal(16)
        normal = np.clip(normal, -2.2, 2.2) * amplitude
        return cls(
            directions=2 * np.pi * uniform[:, 0],
            phases=2 * np.pi * uniform[:, 1],
            wavelengths=_WAVE_LENGTHS * (0.8 + 0.45 * uniform[:, 2]),
            amplitudes=_WAVE_AMPLITUDES * normal[:, :6].reshape(-1, 2, 3),
            limb_scales=normal[:, 6:10].reshape(-1, 2, 2) * np.array([[0.05, 0.06], [0.06, 0.08]]),
            scales=normal[:, 10:12] * 0.028,
            slant=normal[:, 12] * 0.028,
            rotation=normal[:, 13] * np.radians(0.8),
            shift=normal[:, 14:16] * np.array([4.5, 7.0]),
        )


def _point_moves(
    glyph_points: _GlyphPoints, variation: _TakeVariation, widths: Floats, x_height: float, freedom: Floats
) -> Floats:
    moves = _wave_moves(glyph_points, variation) + _limb_moves(glyph_points, variation, x_height)
    moves = (moves + _posture_moves(glyph_points, variation, widths)) * freedom[:, None]
    distance = np.maximum(np.hypot(*moves.T), 1e-9)
    # However long, it ends short of the limit; short ones are hardly touched.
    shortening: Floats = _MAX_MOVE * np.tanh(distance / _MAX_MOVE) / distance
    return moves * shortening[:, None]


def _wave_moves(glyph_points: _GlyphPoints, variation: _TakeVariation) -> Floats:
    """Each axis is displaced by the sum of its three plane waves."""
    wave_x = np.cos(variation.directions) / variation.wavelengths * 2 * np.pi
    wave_y = np.sin(variation.directions) / variation.wavelengths * 2 * np.pi
    x, y = glyph_points.middles[:, 0, None, None], glyph_points.middles[:, 1, None, None]
    indexes = glyph_points.glyph_indexes
    angle = wave_x[indexes] * x + wave_y[indexes] * y + variation.phases[indexes]
    total: Floats = (variation.amplitudes[indexes] * np.sin(angle)).sum(axis=2)
    return total


def _limb_moves(glyph_points: _GlyphPoints, variation: _TakeVariation, x_height: float) -> Floats:
    """What rises above the small letters, or hangs below the line, leans and stretches on its own."""
    y = glyph_points.middles[:, 1]
    above_and_below = np.stack([np.maximum(y - x_height, 0), np.minimum(y, 0)], axis=1)
    total: Floats = (variation.limb_scales[glyph_points.glyph_indexes] * above_and_below[:, None]).sum(axis=2)
    return total


def _posture_moves(glyph_points: _GlyphPoints, variation: _TakeVariation, widths: Floats) -> Floats:
    """Scale, slant, turn and shift of the whole letter, about its middle."""
    x, y = glyph_points.middles[:, 0] - widths[glyph_points.glyph_indexes] / 2, glyph_points.middles[:, 1]
    values = (variation.scales, variation.slant, variation.rotation)
    scale, slant, rotation = (value[glyph_points.glyph_indexes] for value in values)
    x_moves = scale[:, 0] * x + slant * y - rotation * (y - _TURNING_HEIGHT)
    y_moves = scale[:, 1] * y + rotation * x
    return np.stack([x_moves, y_moves], axis=1) + variation.shift[glyph_points.glyph_indexes]


def _point_freedom(points: Floats, widths: Floats, x_height: float) -> Floats:
    """How free each point is: not at all where a neighbor is joined, fully inside the letter."""
    x, y = points[:, 0], points[:, 1]
    distance_inside = np.minimum(x, widths - x) - _JOIN_DEPTH
    inside = _ease(distance_inside / (_JOIN_WIDTH_SHARE * np.maximum(widths, 120.0)))
    beyond_joins = _ease(np.maximum(y - x_height, -_JOIN_MARGIN - y) / _JOIN_MARGIN)
    return np.maximum(inside, _FREEDOM_BEYOND_JOINS * beyond_joins)


def _ease(share: Floats) -> Floats:
    clipped = np.clip(share, 0.0, 1.0)
    return clipped * clipped * (3 - 2 * clipped)
