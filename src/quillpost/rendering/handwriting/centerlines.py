"""Strokes: the even, smooth paths that the pen took, with the width that it left."""

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from quillpost.rendering.handwriting.junctions import PenPath
from quillpost.rendering.handwriting.outlines import Floats, distances_to_outline

STEP = 7.0  # units between one sample of a stroke and the next, about

# In samples.
_SMOOTHING_SAMPLES = 1.9
_STRAIGHT_SMOOTHING_SAMPLES = 6.0
_WIDTH_SMOOTHING_SAMPLES = 4.0

# In pen radii.
_TOUCH_RADII = 2.2
_SELF_TOUCH_RADII = 5.0
_CORNER_ARM_RADII = 1.1
_LAP_RADII = 2.5
_MAX_DOT_RADII = 1.6
_GRAIN_RADII = 0.2
_EYE_LINE_RADII = 0.9

_CORNER_COSINE = 0.1  # the cosine of the turn from which on a bend is a corner
_FULL_WIDTH_SHARE = 0.85  # an end is where the pen's full width still fits in


@dataclass(frozen=True, slots=True)
class Anchor:
    """The place on a stroke (maybe the same one) where the end of a stroke touches it."""

    stroke: int
    sample: int


@dataclass(frozen=True, slots=True)
class Stroke:
    """`radii` is the pen's width, `room` the ink around samples, `corners` sharp turns; a round one repeats `lap`."""

    path: Floats
    radii: Floats
    room: Floats
    corners: tuple[int, ...] = ()
    lap: int = 0
    start: Anchor | None = None
    stop: Anchor | None = None
    is_dot: bool = False

    @property
    def loop_length(self) -> int:
        return len(self.path) - self.lap


def trace_strokes(pen_paths: list[PenPath], edge: Floats, eyes: Floats, pen: float) -> list[Stroke]:
    """The strokes of one letter; `edge` are points along its outline, `eyes` those of small holes."""
    pen_paths = [_in_writing_direction(pen_path) for pen_path in pen_paths]
    strokes = [_open_eyes(_line_to_stroke(pen_path, edge, pen), eyes, pen) for pen_path in pen_paths]
    for index, pen_path in enumerate(pen_paths):
        if not pen_path.is_closed:
            start = _find_anchor(strokes, index, 0, pen) if pen_path.touches_others[0] else None
            stop = _find_anchor(strokes, index, -1, pen) if pen_path.touches_others[1] else None
            path = _attach_ends(strokes, strokes[index].path, start, stop, pen)
            strokes[index] = replace(strokes[index], path=path, start=start, stop=stop)
    return strokes


def smooth_values(values: Floats, sigma: float, *, is_closed: bool = False) -> Floats:
    """A Gaussian mean along the first axis; the ends of an open run stay where they are."""
    radius = min(int(np.ceil(2.5 * sigma)), len(values) - 1)
    if radius < 1:
        return values
    if is_closed:
        padded = np.concatenate([values[-radius:], values, values[:radius]])
    else:
        padding_before = 2 * values[0] - values[radius:0:-1]
        padding_after = 2 * values[-1] - values[-2 : -radius - 2 : -1]
        padded = np.concatenate([padding_before, values, padding_after])
    offsets = np.arange(-radius, radius + 1)
    weights = np.exp(-0.5 * (offsets / sigma) ** 2)
    weights /= weights.sum()
    total = np.zeros_like(values)
    for offset, weight in zip(offsets, weights, strict=True):
        total += weight * padded[radius + offset : radius + offset + len(values)]
    return total


def _line_to_stroke(pen_path: PenPath, edge: Floats, pen: float) -> Stroke:
    length = float(np.hypot(*np.diff(pen_path.path, axis=0).T).sum())
    if not any(pen_path.touches_others) and length < _MAX_DOT_RADII * max(
        pen, float(distances_to_outline(edge, pen_path.path).max())
    ):
        return _make_dot(pen_path.path, edge, pen)
    path = _resample(pen_path.path, length)
    if pen_path.is_closed:
        return _make_round_stroke(path[:-1], edge, pen)
    corners = find_corners(path, pen)
    bounds = [0, *corners, len(path) - 1]
    for first, last in pairwise(bounds):
        path[first : last + 1] = _smooth_path(path[first : last + 1], pen)
    radii = distances_to_outline(edge, path)
    first, last = _full_width_range(pen_path, radii, pen)
    path, radii = path[first:last], radii[first:last]
    corners = [corner - first for corner in corners if first + 1 < corner < last - 2]
    return Stroke(path, _smooth_radii(radii, pen), radii, tuple(corners))


def _open_eyes(stroke: Stroke, eyes: Floats, pen: float) -> Stroke:
    """Lead the stroke round small holes: where ink ran into an eye, its middle is not where the pen went."""
    if not len(eyes) or stroke.is_dot:
        return stroke
    offsets = stroke.path[:, None] - eyes
    distances = np.hypot(offsets[..., 0], offsets[..., 1])
    nearest = distances.argmin(axis=1)
    samples = np.arange(len(nearest))
    distance = np.maximum(distances[samples, nearest], 1e-9)
    closeness = np.clip((1.6 - distance / np.maximum(stroke.room, 1e-9)) / 0.5, 0, 1)
    shift = closeness * np.clip(stroke.room - _EYE_LINE_RADII * pen, 0, pen) / distance
    shifts = smooth_values(shift[:, None] * offsets[samples, nearest], _SMOOTHING_SAMPLES)
    return replace(stroke, path=stroke.path + shifts, room=stroke.room - np.hypot(*shifts.T))


def _attach_ends(strokes: list[Stroke], path: Floats, start: Anchor | None, stop: Anchor | None, pen: float) -> Floats:
    """The path with its touching ends led onto what they touch."""
    path = path.copy()
    samples = np.arange(len(path))
    for end, anchor, distance in ((0, start, samples), (-1, stop, samples[::-1])):
        if anchor:
            gap = strokes[anchor.stroke].path[anchor.sample] - path[end]
            path += np.clip(1 - distance * STEP / (3 * pen), 0, 1)[:, None] * gap
    return path


def _make_dot(path: Floats, edge: Floats, pen: float) -> Stroke:
    ends = path[[0, -1]]
    if len(path) < 3 or np.hypot(*(ends[1] - ends[0])) < 4:
        ends = path.mean(axis=0) + np.array([[-2.0, 0.0], [2.0, 0.0]])
    path = ends[0] + np.linspace(0, 1, 4)[:, None] * (ends[1] - ends[0])
    room = distances_to_outline(edge, path)
    radius = np.clip(room.max(), 0.8 * pen, 2.5 * pen)
    return Stroke(path, np.full(len(path), radius), room, is_dot=True)


def _make_round_stroke(path: Floats, edge: Floats, pen: float) -> Stroke:
    """A stroke that comes back to where it began and goes on a little over its own beginning."""
    start = int(np.argmax(path[:, 1] + 0.35 * path[:, 0]))
    path = np.roll(path, -start, axis=0)
    path = _smooth_path(path, pen, is_closed=True)
    room = distances_to_outline(edge, path)
    lap = min(int(np.ceil(_LAP_RADII * pen / STEP)), len(path) // 3) + 1
    indexes = np.arange(len(path) + lap) % len(path)
    return Stroke(path[indexes], _smooth_radii(room, pen, is_closed=True)[indexes], room[indexes], lap=lap)


def _in_writing_direction(pen_path: PenPath) -> PenPath:
    """From the left and the top, as a hand goes."""
    order = pen_path.path[:, 0] - 0.6 * pen_path.path[:, 1]
    if order[-1] >= order[0]:
        return pen_path
    return PenPath(pen_path.path[::-1], pen_path.is_closed, pen_path.touches_others[::-1])


def _resample(path: Floats, length: float) -> Floats:
    distances = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(path, axis=0).T))])
    positions = np.linspace(0, distances[-1], max(5, round(length / STEP) + 1))
    return np.stack([np.interp(positions, distances, path[:, 0]), np.interp(positions, distances, path[:, 1])], axis=1)


def _smooth_path(path: Floats, pen: float, *, is_closed: bool = False) -> Floats:
    """Smooth, and very smooth where that moves the path by no more than the grain of its pixels."""
    smooth = smooth_values(path, _SMOOTHING_SAMPLES, is_closed=is_closed)
    very_smooth = smooth_values(path, _STRAIGHT_SMOOTHING_SAMPLES, is_closed=is_closed)
    displacement = np.hypot(*(very_smooth - smooth).T) / (_GRAIN_RADII * pen)
    very_smooth_share = smooth_values(1 / (1 + displacement**4), _SMOOTHING_SAMPLES, is_closed=is_closed)[:, None]
    return very_smooth_share * very_smooth + (1 - very_smooth_share) * smooth


def find_corners(path: Floats, pen: float) -> list[int]:
    """Samples where the path turns sharply, the sharpest first of any that are close together."""
    arm = max(2, round(_CORNER_ARM_RADII * pen / STEP))
    if len(path) < 2 * arm + 2:
        return []
    before = path[arm:-arm] - path[: -2 * arm]
    after = path[2 * arm :] - path[arm:-arm]
    size = np.hypot(*before.T) * np.hypot(*after.T)
    cosines = (before * after).sum(axis=1) / np.maximum(size, 1e-9)
    corners: list[int] = []
    for index in np.argsort(cosines, kind="stable").tolist():
        if cosines[index] > _CORNER_COSINE:
            break
        if all(abs(index + arm - corner) > arm for corner in corners):
            corners.append(index + arm)
    return sorted(corners)


def _full_width_range(pen_path: PenPath, radii: Floats, pen: float) -> tuple[int, int]:
    """Thinned lines run on into the tip of the ink; a round pen turns back before it."""
    max_trim = min(int(1.4 * pen / STEP), (len(radii) - 4) // 2)
    full_width_samples = np.flatnonzero(radii >= _FULL_WIDTH_SHARE * min(pen, float(np.median(radii))))
    if max_trim < 1 or not len(full_width_samples):
        return 0, len(radii)
    first = 0 if pen_path.touches_others[0] else min(int(full_width_samples[0]), max_trim)
    last = 0 if pen_path.touches_others[1] else min(len(radii) - 1 - int(full_width_samples[-1]), max_trim)
    return first, len(radii) - last


def _smooth_radii(radii: Floats, pen: float, *, is_closed: bool = False) -> Floats:
    """Where strokes meet the ink is wider than the pen was."""
    return smooth_values(np.clip(radii, 0.6 * pen, 1.35 * pen), _WIDTH_SMOOTHING_SAMPLES, is_closed=is_closed)


def _find_anchor(strokes: list[Stroke], number: int, end: int, pen: float) -> Anchor | None:
    """The closest sample of another stroke, or of this one a good way off."""
    end_point = strokes[number].path[end]
    best, anchor = _TOUCH_RADII * pen, None
    for other_number, stroke in enumerate(strokes):
        distances = np.hypot(*(stroke.path - end_point).T)
        if other_number == number:
            excluded_count = int(_SELF_TOUCH_RADII * pen / STEP)
            excluded = (
                slice(0, excluded_count)
                if end == 0
                else slice(len(distances) - excluded_count if excluded_count else None, None)
            )
            distances[excluded] = np.inf
        sample = int(np.argmin(distances))
        if distances[sample] < best:
            best, anchor = float(distances[sample]), Anchor(other_number, sample)
    return anchor
