"""How a hand strays from the letter that it means: smooth, small and never the same twice.

Everything here works on all the takes of a letter at once: arrays begin with the take.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from quillpost.rendering.handwriting.centerlines import STEP, Stroke
from quillpost.rendering.handwriting.outlines import Floats

# Units between the turning points of the pen's own unsteadiness, and how far it goes across and up.
_WAVELENGTH = 300.0
_UNSTEADINESS = np.array([6.5, 6.0])

# Loops that are shorter than this are drawn more steadily, or they would close up.
_MIN_UNSTEADY_LOOP = 500.0

# A line that is meant to be straight is drawn in one go.
_STRAIGHT_STEADINESS = 0.5

# A slow bending of the whole letter: wavelengths and sizes in units.
_BENDS = ((1100.0, 12.0), (620.0, 8.0), (340.0, 3.2))

# The letter as a whole: width, height, slant, turn, shift across and up; plus or minus that much at most.
_POSTURE = np.array([0.04, 0.045, 0.035, 0.022, 9.0, 9.0])
_JOINED_POSTURE = np.array([0.04, 0.035, 0.03, 0.008, 9.0, 3.0])

# A spline evens out the values that it runs by; this makes up for it.
_SPLINE_LOSS = 1.4

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
    return np.stack(
        [
            _LIMB_LEAN * (lean[:, :1] * limbs[0] + lean[:, 1:] * limbs[1]),
            _LIMB_STRETCH * (stretch[:, :1] * limbs[0] + stretch[:, 1:] * limbs[1]),
        ],
        axis=2,
    )


def _posture_moves(points: Floats, advance: float, habits: HandHabits, noise: TakeNoise) -> Floats:
    """Size, slant and turn about the middle of the letter on the line that it is written on, and a shift."""
    max_variation = _JOINED_POSTURE if habits.joined else _POSTURE
    width_change, height_change, slant, rotation, x_shift, y_shift = (noise.spread_evenly(6) * max_variation).T[
        :, :, None
    ]
    x, y = points[:, 0] - advance / 2, points[:, 1]
    return np.stack(
        [width_change * x + (slant - rotation) * y + x_shift, height_change * y + rotation * x + y_shift], axis=2
    )


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
