"""How the pen varies from one take to the next, and the outline of its ink."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from quillpost.rendering.handwriting.centerlines import STEP, Stroke, smooth_values
from quillpost.rendering.handwriting.outlines import Contour, Floats, contour_through_controls

# Units between the turning points of the pen's own unsteadiness, and how far it goes across and up.
_WAVELENGTH = 300.0
_UNSTEADINESS = np.array([6.5, 6.0])

_MIN_UNSTEADY_LOOP = 500.0  # loops that are shorter than this are drawn more steadily, or they would close up
_STRAIGHT_STEADINESS = 0.5  # a line that is meant to be straight is drawn in one go

# A slow bending of the whole letter: wavelengths and sizes in units.
_BENDS = ((1100.0, 12.0), (620.0, 8.0), (340.0, 3.2))

# The letter as a whole: width, height, slant, turn, shift across and up; plus or minus that much at most.
_POSTURE = np.array([0.04, 0.045, 0.035, 0.022, 9.0, 9.0])
_JOINED_POSTURE = np.array([0.04, 0.035, 0.03, 0.008, 9.0, 3.0])

_SPLINE_LOSS = 1.4  # a spline evens out the values that it runs by; this makes up for it
_LIMB_STRETCH = 0.045
_LIMB_LEAN = 0.04
_LOOSE_PART_SHIFT = np.array([9.0, 7.0])
_TAIL_VARIATION = 9.0
_TAIL_LENGTH = 110.0
_ANCHOR_LENGTH = 140.0


@dataclass(frozen=True, slots=True)
class HandHabits:
    """What a hand's letters have in common: how much it strays, and whether they hold on to each other."""

    amplitude: float
    joined: bool
    x_height: float


class TakeNoise:
    """The random numbers of a letter's takes: each take has its own, and some are dealt out between them."""

    def __init__(self, seed: int, glyph_seed: int, takes: int) -> None:
        self.takes = takes
        self._glyph_generator = np.random.Generator(np.random.PCG64([seed, glyph_seed]))
        self._take_generators = [
            np.random.Generator(np.random.PCG64([seed, glyph_seed, take])) for take in range(takes)
        ]

    def normal(self, *shape: int) -> Floats:
        return np.stack([generator.standard_normal(shape) for generator in self._take_generators])

    def uniform(self, *shape: int) -> Floats:
        return np.stack([generator.random(shape) for generator in self._take_generators])

    def spread_evenly(self, kinds: int) -> Floats:
        """Values from -1 to 1 that the takes share out among themselves, so that no two come close."""
        steps = np.linspace(-1, 1, self.takes) if self.takes > 1 else np.zeros(1)
        return np.stack([self._glyph_generator.permutation(steps) for _ in range(kinds)], axis=1)

    def noise_along(self, stroke: Stroke, wavelength: float) -> Floats:
        """Smooth noise of about unit size along a stroke, with a turn for every `wavelength` units."""
        samples = np.arange(len(stroke.path))
        if stroke.lap:
            knots = max(3, round(stroke.loop_length * STEP / wavelength))
            knot_position = samples % stroke.loop_length * (knots / stroke.loop_length)
        else:
            knots = int(len(stroke.path) * STEP / wavelength) + 4
            knot_position = 1 + samples * (STEP / wavelength)
        values = self.normal(knots)
        knot_index = knot_position.astype(np.int64)
        t = knot_position - knot_index
        a, b, c, d = (values[:, (knot_index + offset) % knots] for offset in (-1, 0, 1, 2))
        inverse_t = 1 - t
        inner = b * (4 - 3 * t * t * (1 + inverse_t)) + c * (4 - 3 * inverse_t * inverse_t * (1 + t))
        return _SPLINE_LOSS * (a * inverse_t**3 + inner + d * t**3) / 6


def vary_paths(
    strokes: Sequence[Stroke], advance: float, habits: HandHabits, noise: TakeNoise, reach: float
) -> list[Floats]:
    """The strokes as written in each take, no point further than `reach` from its place, across or up."""
    source_points = np.concatenate([stroke.path for stroke in strokes])
    stroke_bounds = np.cumsum([0, *(len(stroke.path) for stroke in strokes)]).tolist()
    stroke_shifts = np.concatenate([_stroke_drift(stroke, noise) for stroke in strokes], axis=1)
    stroke_shifts += _loose_part_shifts(strokes, noise)
    shifts = stroke_shifts + _bend_moves(source_points, noise) + _limb_moves(source_points, habits, noise)
    shifts += _posture_moves(source_points, advance, habits, noise)
    shifts *= habits.amplitude
    parts = [shifts[:, first:last] for first, last in pairwise(stroke_bounds)]
    shifts = np.concatenate(_hold_together(strokes, parts), axis=1)
    if habits.joined:
        shifts *= _freedom_at_edges(source_points, advance, habits.x_height)[:, None]
    written_points = source_points + reach * np.tanh(shifts / reach)
    return [written_points[:, first:last] for first, last in pairwise(stroke_bounds)]


def _stroke_drift(stroke: Stroke, noise: TakeNoise) -> Floats:
    drift = np.stack([noise.noise_along(stroke, _WAVELENGTH) for _ in range(2)], axis=2) * _UNSTEADINESS
    tails = noise.normal(2) * _TAIL_VARIATION
    if stroke.lap:
        return drift * min(1.0, stroke.loop_length * STEP / _MIN_UNSTEADY_LOOP)
    if stroke.is_dot:
        return np.zeros_like(drift)
    drift *= 1 - _STRAIGHT_STEADINESS * _straightness(stroke.path)
    for end, anchor, tail in ((0, stroke.start, tails[:, 0]), (-1, stroke.stop, tails[:, 1])):
        if anchor is None:
            drift += tail[:, None, None] * _tail_shape(stroke.path, end)
    return drift


def _straightness(path: Floats) -> float:
    """From nothing for a stroke with any real bend to one for a ruled line."""
    length = float(np.hypot(*np.diff(path, axis=0).T).sum())
    return float(np.clip((np.hypot(*(path[-1] - path[0])) / length - 0.9) / 0.08, 0, 1))


def _tail_shape(path: Floats, end: int) -> Floats:
    """Longer or shorter at this end: a unit's step outward, that fades along the stroke."""
    inner = path[min(4, len(path) - 1)] if end == 0 else path[-min(5, len(path))]
    outward = path[end] - inner
    return _fade_from_end(len(path), end, _TAIL_LENGTH)[:, None] * outward / max(float(np.hypot(*outward)), 1e-9)


def _fade_from_end(samples: int, end: int, length: float) -> Floats:
    """One at an end of a stroke, and from there smoothly to nothing."""
    distance = np.arange(samples) * STEP
    share = np.clip(1 - distance / min(length, max(samples * STEP * 0.9, STEP)), 0, 1)
    faded = share * share * (3 - 2 * share)
    return faded if end == 0 else faded[::-1]


def _loose_part_shifts(strokes: Sequence[Stroke], noise: TakeNoise) -> Floats:
    """Dots and accents land a little beside their place; the longest stroke is the letter itself."""
    longest = max(range(len(strokes)), key=lambda number: len(strokes[number].path))
    anchored = {anchor.stroke for stroke in strokes for anchor in (stroke.start, stroke.stop) if anchor}
    offsets = []
    for number, stroke in enumerate(strokes):
        shift = noise.normal(2)[:, None] * _LOOSE_PART_SHIFT
        is_loose = number != longest and number not in anchored and not (stroke.start or stroke.stop)
        offsets.append(np.repeat(shift if is_loose else np.zeros_like(shift), len(stroke.path), axis=1))
    return np.concatenate(offsets, axis=1)


def _bend_moves(points: Floats, noise: TakeNoise) -> Floats:
    shifts = np.zeros((noise.takes, *points.shape))
    for wavelength, size in _BENDS:
        for axis in (0, 1):
            angle, phase, stretch = np.moveaxis(noise.uniform(3), 1, 0)[..., None]
            height = noise.normal(1) * size
            projected = points[:, 0] * np.cos(2 * np.pi * angle) + points[:, 1] * np.sin(2 * np.pi * angle)
            phases_at_points = projected / (wavelength * (0.8 + 0.45 * stretch)) + phase
            shifts[:, :, axis] += height * np.sin(2 * np.pi * phases_at_points)
    return shifts


def _limb_moves(points: Floats, habits: HandHabits, noise: TakeNoise) -> Floats:
    """What rises above small letters or hangs below them stretches and leans by itself."""
    limbs = np.stack([np.maximum(points[:, 1] - habits.x_height, 0), np.minimum(points[:, 1], 0)])
    lean, stretch = noise.normal(2, 2).transpose(1, 0, 2)
    x_moves = _LIMB_LEAN * (lean[:, :1] * limbs[0] + lean[:, 1:] * limbs[1])
    y_moves = _LIMB_STRETCH * (stretch[:, :1] * limbs[0] + stretch[:, 1:] * limbs[1])
    return np.stack([x_moves, y_moves], axis=2)


def _posture_moves(points: Floats, advance: float, habits: HandHabits, noise: TakeNoise) -> Floats:
    """Size, slant and turn about the middle of the letter on the line that it is written on, and a shift."""
    max_variation = _JOINED_POSTURE if habits.joined else _POSTURE
    values = (noise.spread_evenly(6) * max_variation).T[:, :, None]
    width_change, height_change, slant, rotation, x_shift, y_shift = values
    x, y = points[:, 0] - advance / 2, points[:, 1]
    x_moves = width_change * x + (slant - rotation) * y + x_shift
    return np.stack([x_moves, height_change * y + rotation * x + y_shift], axis=2)


def _hold_together(strokes: Sequence[Stroke], parts: list[Floats]) -> list[Floats]:
    """An end that touches a stroke goes where that stroke goes."""
    for _ in range(3):
        attached = [part.copy() for part in parts]
        for stroke, part, attached_part in zip(strokes, parts, attached, strict=True):
            for end, anchor in ((0, stroke.start), (-1, stroke.stop)):
                if anchor:
                    gap = parts[anchor.stroke][:, anchor.sample] - part[:, end]
                    attached_part += gap[:, None] * _fade_from_end(part.shape[1], end, _ANCHOR_LENGTH)[:, None]
        parts = attached
    return parts


def _freedom_at_edges(points: Floats, advance: float, x_height: float) -> Floats:
    """Nothing at the letter's edges, where its neighbors join it, to one inside; limbs are freer."""
    x, y = points.T
    inside = np.clip(np.minimum(x, advance - x) / (0.26 * max(advance, 120.0)), 0, 1)
    inside = inside * inside * (3 - 2 * inside)
    outside_band = np.clip(np.maximum(y - 1.1 * x_height, -40 - y) / (0.3 * x_height), 0, 1)
    return np.maximum(inside, 0.5 * outside_band)


# A slow pen leaves more ink than a quick one.
_WIDTH_AT_REST = 1.16
_WIDTH_AT_SPEED = 0.92
_PRESSURE_VARIATION = 0.045
_PRESSURE_WAVELENGTH = 420.0
_RUN_UP_LENGTH = 55.0

# At a loose end the pen often leaves the paper while it still moves.
_FLICK_LENGTH = 70.0
_FLICK_WIDTHS = (0.55, 1.05)

_DOT_SCALE = 1.15  # a dot is pressed; and the curve round it lies inside the controls by a tenth
_SOURCE_WIDTH_SHARE = 0.45  # how much of the source's own width is kept; the rest is the hand's
_SHOULDER_RADII = 0.86  # so far out, in radii, are the controls beside a stroke's tip: the end comes out round

# A curve is drawn with one control for so much turning (radians) and for so many units.
_TURN_PER_CONTROL = 0.52
_LENGTH_PER_CONTROL = 95.0


def ink_radii(stroke: Stroke, pen_radius: float, amplitude: float, noise: TakeNoise) -> Floats:
    flicks = noise.uniform(1)
    pressure = noise.noise_along(stroke, _PRESSURE_WAVELENGTH)
    radii = _SOURCE_WIDTH_SHARE * stroke.radii + (1 - _SOURCE_WIDTH_SHARE) * pen_radius
    if stroke.is_dot:
        return np.broadcast_to(stroke.radii * _DOT_SCALE, pressure.shape)
    speed = _pen_speed(stroke)
    width_at_speed = _WIDTH_AT_REST - (_WIDTH_AT_REST - _WIDTH_AT_SPEED) * speed
    ink_radii = radii * width_at_speed * (1 + _PRESSURE_VARIATION * amplitude * pressure)
    length = min(int(_FLICK_LENGTH / STEP), len(stroke.path) // 5)
    if stroke.stop is None and not stroke.lap and length > 2:
        end_width = _FLICK_WIDTHS[0] + flicks * (_FLICK_WIDTHS[1] - _FLICK_WIDTHS[0])
        ink_radii[:, -length:] *= 1 + (end_width - 1) * np.linspace(0, 1, length)
    return ink_radii


def ink_outlines(stroke: Stroke, paths: Floats, radii: Floats) -> list[list[Contour]]:
    """The outlines of the ink in each take; a stroke with sharp corners is inked in parts with round ends."""
    takes: list[list[Contour]] = [[] for _ in paths]
    bounds = [0, *stroke.corners, len(stroke.path) - 1]
    for first, last in pairwise(bounds):
        part = slice(first, last + 1)
        controls = np.rint(_outline_controls(stroke.path[part], paths[:, part], radii[:, part]))
        for take, contour_controls in zip(takes, controls, strict=True):
            take.append(contour_through_controls(contour_controls))
    return takes


def _pen_speed(stroke: Stroke) -> Floats:
    """From zero to one: slow in bends (the two-thirds power law), at rest at loose ends."""
    curvature = np.abs(_turning_angles(stroke.path)) / STEP
    speed = (smooth_values(curvature, 2.0) * 400 + 1) ** (-1 / 3)
    speed = np.clip((smooth_values(speed, 3.0) - 0.4) / 0.6, 0, 1)
    if stroke.lap:
        return speed
    distances = np.arange(len(speed)) * STEP
    run_up = np.ones(len(speed))
    if stroke.start is None:
        run_up = np.minimum(run_up, distances / _RUN_UP_LENGTH)
    if stroke.stop is None:
        run_up = np.minimum(run_up, distances[::-1] / _RUN_UP_LENGTH)
    return speed * np.sqrt(run_up)


def _turning_angles(path: Floats) -> Floats:
    """How far the direction turns at each sample, in radians; nothing at the ends."""
    steps = np.diff(path, axis=0)
    before, after = steps[:-1], steps[1:]
    cross = before[:, 0] * after[:, 1] - before[:, 1] * after[:, 0]
    dot = (before * after).sum(axis=1)
    return np.concatenate([[0.0], np.arctan2(cross, dot), [0.0]])


def _outline_controls(source_path: Floats, paths: Floats, radii: Floats) -> Floats:
    """Controls of the closed curve round a stroke, the same number for every take."""
    knots = _choose_knots(source_path, float(radii[:, [0, -1]].max()))
    gradients = np.gradient(paths, axis=1)
    directions = gradients / np.maximum(np.hypot(gradients[..., 0], gradients[..., 1])[..., None], 1e-9)
    end_controls = _tip_controls if knots else _button_controls
    start, stop = (
        end_controls(paths[:, end], sign * directions[:, end], radii[:, end, None])
        for end, sign in ((0, -1.0), (-1, 1.0))
    )
    if not knots:
        return np.concatenate([stop, start], axis=1)
    knot_directions = directions[:, knots]
    normals = np.stack([-knot_directions[..., 1], knot_directions[..., 0]], axis=2) * radii[:, knots, None]
    left = _bulge(paths[:, knots] + normals, knot_directions)
    right = _bulge(paths[:, knots] - normals, knot_directions)
    return np.concatenate([left, stop, right[:, ::-1], start], axis=1)


def _choose_knots(source_path: Floats, radius: float) -> list[int]:
    """Samples at which the sides of the ink get controls: dense in bends, one radius clear of both ends."""
    clear_samples = radius / STEP
    last = len(source_path) - 1
    if last < 2 * clear_samples + 1:
        return []
    turns = np.abs(smooth_values(_turning_angles(source_path), 1.5))
    cost = np.cumsum(turns / _TURN_PER_CONTROL + STEP / _LENGTH_PER_CONTROL)
    low, high = np.interp([clear_samples, last - clear_samples], np.arange(last + 1), cost)
    count = max(2, int(np.ceil(high - low)) + 1)
    positions = np.interp(np.linspace(low, high, count), cost, np.arange(last + 1))
    return np.unique(np.rint(positions).astype(np.int64)).tolist()


def _tip_controls(tip: Floats, outward: Floats, radius: Floats) -> Floats:
    """Two controls, left then right, that round off the end of a stroke."""
    outward = outward * radius
    left = np.stack([-outward[:, 1], outward[:, 0]], axis=1) * _SHOULDER_RADII
    return np.stack([tip + outward + left, tip + outward - left], axis=1)


def _button_controls(tip: Floats, outward: Floats, radius: Floats) -> Floats:
    """Three controls, half a hexagon, that round off the end of a stroke too short to have sides."""
    outward = outward * (radius / np.cos(np.pi / 6))
    left = np.stack([-outward[:, 1], outward[:, 0]], axis=1) * np.sin(np.pi / 3)
    return np.stack([tip + outward / 2 + left, tip + outward, tip + outward / 2 - left], axis=1)


def _bulge(side: Floats, directions: Floats) -> Floats:
    """Points on a side moved outward, so that the curve which they control touches where they were."""
    bulged = side.copy()
    bends = (2 * side[:, 1:-1] - side[:, :-2] - side[:, 2:]) / 8
    normals = np.stack([-directions[:, 1:-1, 1], directions[:, 1:-1, 0]], axis=2)
    bulged[:, 1:-1] += (bends * normals).sum(axis=2)[..., None] * normals
    return bulged
