"""A ballpoint: how wide it draws along a stroke, and the outline of the ink that it leaves."""

from itertools import pairwise

import numpy as np

from quillpost.rendering.handwriting.centerlines import STEP, Stroke, smoothed
from quillpost.rendering.handwriting.outlines import Contour, Floats, through_controls
from quillpost.rendering.handwriting.variation import Chance

# A slow pen leaves more ink than a quick one.
_AT_REST = 1.16
_AT_SPEED = 0.92
_PRESSURE = 0.045
_PRESSURE_WAVE = 420.0
_RUN_UP = 55.0

# At a loose end the pen often leaves the paper while it still moves.
_FLICK_LENGTH = 70.0
_FLICK_WIDTHS = (0.55, 1.05)

# A dot is pressed; and the curve round it lies inside the controls by a tenth.
_DOT = 1.15

# How much of the source's own width is kept; the rest is the hand's.
_OWN_WIDTH = 0.45

# So far out, in radii, are the controls beside a stroke's tip: the end comes out round.
_SHOULDER = 0.86

# A curve is drawn with one control for so much turning (radians) and for so many units.
_TURN = 0.52
_RUN = 95.0


def widths(stroke: Stroke, pen: float, amplitude: float, chance: Chance) -> Floats:
    """The radius of the ink at each sample in each take."""
    flicks = chance.uniform(1)
    pressure = chance.along(stroke, _PRESSURE_WAVE)
    radii = _OWN_WIDTH * stroke.radii + (1 - _OWN_WIDTH) * pen
    if stroke.is_dot:
        return np.broadcast_to(stroke.radii * _DOT, pressure.shape)
    speed = _speed(stroke)
    drawn = radii * (_AT_REST - (_AT_REST - _AT_SPEED) * speed) * (1 + _PRESSURE * amplitude * pressure)
    length = min(int(_FLICK_LENGTH / STEP), len(stroke.path) // 5)
    if stroke.stop is None and not stroke.lap and length > 2:
        left = _FLICK_WIDTHS[0] + flicks * (_FLICK_WIDTHS[1] - _FLICK_WIDTHS[0])
        drawn[:, -length:] *= 1 + (left - 1) * np.linspace(0, 1, length)
    return drawn


def ink(stroke: Stroke, paths: Floats, radii: Floats) -> list[list[Contour]]:
    """The outlines of the ink in each take; a stroke with sharp corners is inked in parts with round ends."""
    takes: list[list[Contour]] = [[] for _ in paths]
    bounds = [0, *stroke.corners, len(stroke.path) - 1]
    for first, last in pairwise(bounds):
        part = slice(first, last + 1)
        controls = np.rint(_controls(stroke.path[part], paths[:, part], radii[:, part]))
        for take, around in zip(takes, controls, strict=True):
            take.append(through_controls(around))
    return takes


def _speed(stroke: Stroke) -> Floats:
    """From zero to one: slow in bends (the two-thirds power law), at rest at loose ends."""
    turns = np.abs(_turning(stroke.path)) / STEP
    speed = (smoothed(turns, 2.0) * 400 + 1) ** (-1 / 3)
    speed = np.clip((smoothed(speed, 3.0) - 0.4) / 0.6, 0, 1)
    if stroke.lap:
        return speed
    along = np.arange(len(speed)) * STEP
    run_up = np.ones(len(speed))
    if stroke.start is None:
        run_up = np.minimum(run_up, along / _RUN_UP)
    if stroke.stop is None:
        run_up = np.minimum(run_up, along[::-1] / _RUN_UP)
    return speed * np.sqrt(run_up)


def _turning(path: Floats) -> Floats:
    """How far the direction turns at each sample, in radians; nothing at the ends."""
    steps = np.diff(path, axis=0)
    before, after = steps[:-1], steps[1:]
    cross = before[:, 0] * after[:, 1] - before[:, 1] * after[:, 0]
    dot = (before * after).sum(axis=1)
    return np.concatenate([[0.0], np.arctan2(cross, dot), [0.0]])


def _controls(meant: Floats, paths: Floats, radii: Floats) -> Floats:
    """Controls of the closed curve round a stroke, the same number for every take."""
    knots = _knots(meant, float(radii[:, [0, -1]].max()))
    directions = _directions(paths)
    around = _tip_controls if knots else _button_controls
    start, stop = (
        around(paths[:, end], sign * directions[:, end], radii[:, end, None])
        for end, sign in ((0, -1.0), (-1, 1.0))
    )
    if not knots:
        return np.concatenate([stop, start], axis=1)
    ahead = directions[:, knots]
    sideways = np.stack([-ahead[..., 1], ahead[..., 0]], axis=2) * radii[:, knots, None]
    left = _bulged(paths[:, knots] + sideways, ahead)
    right = _bulged(paths[:, knots] - sideways, ahead)
    return np.concatenate([left, stop, right[:, ::-1], start], axis=1)


def _knots(meant: Floats, radius: float) -> list[int]:
    """Samples at which the sides of the ink get controls: dense in bends, one radius clear of both ends."""
    clear = radius / STEP
    last = len(meant) - 1
    if last < 2 * clear + 1:
        return []
    cost = np.cumsum(np.abs(smoothed(_turning(meant), 1.5)) / _TURN + STEP / _RUN)
    low, high = np.interp([clear, last - clear], np.arange(last + 1), cost)
    count = max(2, int(np.ceil(high - low)) + 1)
    places = np.interp(np.linspace(low, high, count), cost, np.arange(last + 1))
    return np.unique(np.rint(places).astype(np.int64)).tolist()


def _directions(paths: Floats) -> Floats:
    ahead = np.gradient(paths, axis=1)
    return ahead / np.maximum(np.hypot(ahead[..., 0], ahead[..., 1])[..., None], 1e-9)


def _tip_controls(tip: Floats, outward: Floats, radius: Floats) -> Floats:
    """Two controls, left then right, that round off the end of a stroke."""
    outward = outward * radius
    left = np.stack([-outward[:, 1], outward[:, 0]], axis=1) * _SHOULDER
    return np.stack([tip + outward + left, tip + outward - left], axis=1)


def _button_controls(tip: Floats, outward: Floats, radius: Floats) -> Floats:
    """Three controls, half a hexagon, that round off the end of a stroke too short to have sides."""
    outward = outward * (radius / np.cos(np.pi / 6))
    left = np.stack([-outward[:, 1], outward[:, 0]], axis=1) * np.sin(np.pi / 3)
    return np.stack([tip + outward / 2 + left, tip + outward, tip + outward / 2 - left], axis=1)


def _bulged(side: Floats, ahead: Floats) -> Floats:
    """Points on a side moved outward, so that the curve which they control touches where they were."""
    moved = side.copy()
    bend = (2 * side[:, 1:-1] - side[:, :-2] - side[:, 2:]) / 8
    normal = np.stack([-ahead[:, 1:-1, 1], ahead[:, 1:-1, 0]], axis=2)
    moved[:, 1:-1] += (bend * normal).sum(axis=2)[..., None] * normal
    return moved
