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
_WAVE = 300.0
_UNSTEADINESS = np.array([6.5, 6.0])

# Loops that are shorter than this are drawn more steadily, or they would close up.
_STEADY_LOOP = 500.0

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
_LOOSE_PART = np.array([9.0, 7.0])
_TAIL = 9.0
_TAIL_LENGTH = 110.0
_ANCHOR_LENGTH = 140.0


@dataclass(frozen=True, slots=True)
class Habits:
    """What a hand's letters have in common: how much it strays, and whether they hold on to each other."""

    amplitude: float
    joined: bool
    x_height: float


class Chance:
    """The random numbers of a letter's takes: each take has its own, and some are dealt out between them."""

    def __init__(self, seed: int, letter: int, takes: int) -> None:
        self.takes = takes
        self._letter = np.random.Generator(np.random.PCG64([seed, letter]))
        self._takes = [np.random.Generator(np.random.PCG64([seed, letter, take])) for take in range(takes)]

    def normal(self, *shape: int) -> Floats:
        return np.stack([source.standard_normal(shape) for source in self._takes])

    def uniform(self, *shape: int) -> Floats:
        return np.stack([source.random(shape) for source in self._takes])

    def spread(self, kinds: int) -> Floats:
        """Values from -1 to 1 that the takes share out among themselves, so that no two come close."""
        steps = np.linspace(-1, 1, self.takes) if self.takes > 1 else np.zeros(1)
        return np.stack([self._letter.permutation(steps) for _ in range(kinds)], axis=1)

    def along(self, stroke: Stroke, wave: float) -> Floats:
        """Smooth noise of about unit size along a stroke, with a turn for every `wave` units."""
        samples = np.arange(len(stroke.path))
        if stroke.lap:
            knots = max(3, round(stroke.around * STEP / wave))
            place = samples % stroke.around * (knots / stroke.around)
        else:
            knots = int(len(stroke.path) * STEP / wave) + 4
            place = 1 + samples * (STEP / wave)
        values = self.normal(knots)
        before = place.astype(np.int64)
        t = place - before
        a, b, c, d = (values[:, (before + offset) % knots] for offset in (-1, 0, 1, 2))
        rest = 1 - t
        inner = b * (4 - 3 * t * t * (1 + rest)) + c * (4 - 3 * rest * rest * (1 + t))
        return _SPLINE_LOSS * (a * rest**3 + inner + d * t**3) / 6


def paths_of(
    strokes: Sequence[Stroke], advance: float, habits: Habits, chance: Chance, reach: float
) -> list[Floats]:
    """The strokes as written in each take, no point further than `reach` from its place, across or up."""
    meant = np.concatenate([stroke.path for stroke in strokes])
    limits = np.cumsum([0, *(len(stroke.path) for stroke in strokes)]).tolist()
    own = np.concatenate([_stroke_wander(stroke, chance) for stroke in strokes], axis=1)
    own += _loose_parts(strokes, chance)
    strayed = own + _bends(meant, chance) + _limbs(meant, habits, chance)
    strayed += _posture(meant, advance, habits, chance)
    strayed *= habits.amplitude
    parts = [strayed[:, first:last] for first, last in pairwise(limits)]
    strayed = np.concatenate(_held_together(strokes, parts), axis=1)
    if habits.joined:
        strayed *= _hold_at_edges(meant, advance, habits.x_height)[:, None]
    written = meant + reach * np.tanh(strayed / reach)
    return [written[:, first:last] for first, last in pairwise(limits)]


def _stroke_wander(stroke: Stroke, chance: Chance) -> Floats:
    wander = np.stack([chance.along(stroke, _WAVE) for _ in range(2)], axis=2) * _UNSTEADINESS
    tails = chance.normal(2) * _TAIL
    if stroke.lap:
        return wander * min(1.0, stroke.around * STEP / _STEADY_LOOP)
    if stroke.is_dot:
        return np.zeros_like(wander)
    wander *= 1 - _STRAIGHT_STEADINESS * _straightness(stroke.path)
    for end, anchor, tail in ((0, stroke.start, tails[:, 0]), (-1, stroke.stop, tails[:, 1])):
        if anchor is None:
            wander += tail[:, None, None] * _tail(stroke.path, end)
    return wander


def _straightness(path: Floats) -> float:
    """From nothing for a stroke with any real bend to one for a ruled line."""
    length = float(np.hypot(*np.diff(path, axis=0).T).sum())
    return float(np.clip((np.hypot(*(path[-1] - path[0])) / length - 0.9) / 0.08, 0, 1))


def _tail(path: Floats, end: int) -> Floats:
    """Longer or shorter at this end: a unit's step outward, that fades along the stroke."""
    inner = path[min(4, len(path) - 1)] if end == 0 else path[-min(5, len(path))]
    outward = path[end] - inner
    return _fade(len(path), end, _TAIL_LENGTH)[:, None] * outward / max(float(np.hypot(*outward)), 1e-9)


def _fade(samples: int, end: int, length: float) -> Floats:
    """One at an end of a stroke, and from there smoothly to nothing."""
    distance = np.arange(samples) * STEP
    left = np.clip(1 - distance / min(length, max(samples * STEP * 0.9, STEP)), 0, 1)
    faded = left * left * (3 - 2 * left)
    return faded if end == 0 else faded[::-1]


def _loose_parts(strokes: Sequence[Stroke], chance: Chance) -> Floats:
    """Dots and accents land a little beside their place; the longest stroke is the letter itself."""
    body = max(range(len(strokes)), key=lambda number: len(strokes[number].path))
    held = {anchor.stroke for stroke in strokes for anchor in (stroke.start, stroke.stop) if anchor}
    offsets = []
    for number, stroke in enumerate(strokes):
        step = chance.normal(2)[:, None] * _LOOSE_PART
        is_loose = number != body and number not in held and not (stroke.start or stroke.stop)
        offsets.append(np.repeat(step if is_loose else np.zeros_like(step), len(stroke.path), axis=1))
    return np.concatenate(offsets, axis=1)


def _bends(points: Floats, chance: Chance) -> Floats:
    bent = np.zeros((chance.takes, *points.shape))
    for wave, size in _BENDS:
        for axis in (0, 1):
            angle, phase, stretch = np.moveaxis(chance.uniform(3), 1, 0)[..., None]
            height = chance.normal(1) * size
            across = points[:, 0] * np.cos(2 * np.pi * angle) + points[:, 1] * np.sin(2 * np.pi * angle)
            turns = across / (wave * (0.8 + 0.45 * stretch)) + phase
            bent[:, :, axis] += height * np.sin(2 * np.pi * turns)
    return bent


def _limbs(points: Floats, habits: Habits, chance: Chance) -> Floats:
    """What rises above small letters or hangs below them stretches and leans by itself."""
    limbs = np.stack([np.maximum(points[:, 1] - habits.x_height, 0), np.minimum(points[:, 1], 0)])
    lean, stretch = chance.normal(2, 2).transpose(1, 0, 2)
    return np.stack(
        [
            _LIMB_LEAN * (lean[:, :1] * limbs[0] + lean[:, 1:] * limbs[1]),
            _LIMB_STRETCH * (stretch[:, :1] * limbs[0] + stretch[:, 1:] * limbs[1]),
        ],
        axis=2,
    )


def _posture(points: Floats, advance: float, habits: Habits, chance: Chance) -> Floats:
    """Size, slant and turn about the middle of the letter on the line that it is written on, and a shift."""
    most = _JOINED_POSTURE if habits.joined else _POSTURE
    wide, high, slant, turn, across, up = (chance.spread(6) * most).T[:, :, None]
    x, y = points[:, 0] - advance / 2, points[:, 1]
    return np.stack([wide * x + (slant - turn) * y + across, high * y + turn * x + up], axis=2)


def _held_together(strokes: Sequence[Stroke], parts: list[Floats]) -> list[Floats]:
    """An end that touches a stroke goes where that stroke goes."""
    for _ in range(3):
        moved = [part.copy() for part in parts]
        for stroke, part, new in zip(strokes, parts, moved, strict=True):
            for end, anchor in ((0, stroke.start), (-1, stroke.stop)):
                if anchor:
                    gap = parts[anchor.stroke][:, anchor.sample] - part[:, end]
                    new += gap[:, None] * _fade(part.shape[1], end, _ANCHOR_LENGTH)[:, None]
        parts = moved
    return parts


def _hold_at_edges(points: Floats, advance: float, x_height: float) -> Floats:
    """Nothing at the letter's edges, where its neighbours join it, to one inside; limbs are freer."""
    x, y = points.T
    inside = np.clip(np.minimum(x, advance - x) / (0.26 * max(advance, 120.0)), 0, 1)
    inside = inside * inside * (3 - 2 * inside)
    outside_band = np.clip(np.maximum(y - 1.1 * x_height, -40 - y) / (0.3 * x_height), 0, 1)
    return np.maximum(inside, 0.5 * outside_band)
