"""A ballpoint: how wide it draws along a stroke, and the outline of the ink that it leaves."""

from itertools import pairwise

import numpy as np

from quillpost.rendering.handwriting.centerlines import STEP, Stroke, smooth_values
from quillpost.rendering.handwriting.outlines import Contour, Floats, contour_through_controls
from quillpost.rendering.handwriting.variation import TakeNoise

# A slow pen leaves more ink than a quick one.
_WIDTH_AT_REST = 1.16
_WIDTH_AT_SPEED = 0.92
_PRESSURE_VARIATION = 0.045
_PRESSURE_WAVELENGTH = 420.0
_RUN_UP_LENGTH = 55.0

# At a loose end the pen often leaves the paper while it still moves.
_FLICK_LENGTH = 70.0
_FLICK_WIDTHS = (0.55, 1.05)

# A dot is pressed; and the curve round it lies inside the controls by a tenth.
_DOT_SCALE = 1.15

# How much of the source's own width is kept; the rest is the hand's.
_SOURCE_WIDTH_SHARE = 0.45

# So far out, in radii, are the controls beside a stroke's tip: the end comes out round.
_SHOULDER_RADII = 0.86

# A curve is drawn with one control for so much turning (radians) and for so many units.
_TURN_PER_CONTROL = 0.52
_LENGTH_PER_CONTROL = 95.0


def ink_radii(stroke: Stroke, pen_radius: float, amplitude: float, noise: TakeNoise) -> Floats:
    """The radius of the ink at each sample in each take."""
    flicks = noise.uniform(1)
    pressure = noise.noise_along(stroke, _PRESSURE_WAVELENGTH)
    radii = _SOURCE_WIDTH_SHARE * stroke.radii + (1 - _SOURCE_WIDTH_SHARE) * pen_radius
    if stroke.is_dot:
        return np.broadcast_to(stroke.radii * _DOT_SCALE, pressure.shape)
    speed = _pen_speed(stroke)
    ink_radii = (
        radii
        * (_WIDTH_AT_REST - (_WIDTH_AT_REST - _WIDTH_AT_SPEED) * speed)
        * (1 + _PRESSURE_VARIATION * amplitude * pressure)
    )
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
    directions = _directions(paths)
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
    cost = np.cumsum(
        np.abs(smooth_values(_turning_angles(source_path), 1.5)) / _TURN_PER_CONTROL + STEP / _LENGTH_PER_CONTROL
    )
    low, high = np.interp([clear_samples, last - clear_samples], np.arange(last + 1), cost)
    count = max(2, int(np.ceil(high - low)) + 1)
    positions = np.interp(np.linspace(low, high, count), cost, np.arange(last + 1))
    return np.unique(np.rint(positions).astype(np.int64)).tolist()


def _directions(paths: Floats) -> Floats:
    gradients = np.gradient(paths, axis=1)
    return gradients / np.maximum(np.hypot(gradients[..., 0], gradients[..., 1])[..., None], 1e-9)


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
