"""Strokes: the even, smooth paths that the pen took, with the width that it left."""

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from quillpost.rendering.handwriting.junctions import Line
from quillpost.rendering.handwriting.outlines import Floats, distances_to

STEP = 7.0
"""Units between one sample of a stroke and the next, about."""

# In samples.
_SMOOTHING = 1.9
_STRAIGHT_SMOOTHING = 6.0
_WIDTH_SMOOTHING = 4.0

# In pen radii.
_TOUCH = 2.2
_SELF_TOUCH = 5.0
_CORNER_ARM = 1.1
_OVERLAP = 2.5
_DOT = 1.6
_GRAIN = 0.2
_EYE_LINE = 0.9

# The cosine of the turn from which on a bend is a corner.
_CORNER_COSINE = 0.1

# An end is where the pen's full width still fits in.
_FULL = 0.85


@dataclass(frozen=True, slots=True)
class Anchor:
    """The place on a stroke (maybe the same one) where the end of a stroke touches it."""

    stroke: int
    sample: int


@dataclass(frozen=True, slots=True)
class Stroke:
    """`radii` is how wide the pen was, `room` how much ink there is around each sample.

    `corners` are samples at which the pen turns sharply. A round stroke ends with its first `lap` samples.
    """

    path: Floats
    radii: Floats
    room: Floats
    corners: tuple[int, ...] = ()
    lap: int = 0
    start: Anchor | None = None
    stop: Anchor | None = None
    is_dot: bool = False

    @property
    def around(self) -> int:
        """How many samples there are before they repeat."""
        return len(self.path) - self.lap


def strokes_of(lines: list[Line], edge: Floats, eyes: Floats, pen: float) -> list[Stroke]:
    """The lines of one letter as strokes.

    `edge` are points close together all along its outline, `eyes` those of them round small holes.
    """
    lines = [_written_way(line) for line in lines]
    strokes = [_opened(_stroke(line, edge, pen), eyes, pen) for line in lines]
    for number, line in enumerate(lines):
        if not line.closed:
            start = _anchor(strokes, number, 0, pen) if line.meets[0] else None
            stop = _anchor(strokes, number, -1, pen) if line.meets[1] else None
            path = _attached(strokes, strokes[number].path, start, stop, pen)
            strokes[number] = replace(strokes[number], path=path, start=start, stop=stop)
    return strokes


def smoothed(values: Floats, spread: float, *, closed: bool = False) -> Floats:
    """A Gaussian mean along the first axis; the ends of an open run stay where they are."""
    reach = min(int(np.ceil(2.5 * spread)), len(values) - 1)
    if reach < 1:
        return values
    if closed:
        padded = np.concatenate([values[-reach:], values, values[:reach]])
    else:
        before = 2 * values[0] - values[reach:0:-1]
        after = 2 * values[-1] - values[-2 : -reach - 2 : -1]
        padded = np.concatenate([before, values, after])
    offsets = np.arange(-reach, reach + 1)
    weights = np.exp(-0.5 * (offsets / spread) ** 2)
    weights /= weights.sum()
    total = np.zeros_like(values)
    for offset, weight in zip(offsets, weights, strict=True):
        total += weight * padded[reach + offset : reach + offset + len(values)]
    return total


def _stroke(line: Line, edge: Floats, pen: float) -> Stroke:
    length = float(np.hypot(*np.diff(line.path, axis=0).T).sum())
    if not any(line.meets) and length < _DOT * max(pen, float(distances_to(edge, line.path).max())):
        return _dot(line.path, edge, pen)
    path = _resampled(line.path, length)
    if line.closed:
        return _round(path[:-1], edge, pen)
    corners = _corners(path, pen)
    bounds = [0, *corners, len(path) - 1]
    for first, last in pairwise(bounds):
        path[first : last + 1] = _ironed(path[first : last + 1], pen)
    radii = distances_to(edge, path)
    first, last = _full_ends(line, radii, pen)
    path, radii = path[first:last], radii[first:last]
    corners = [corner - first for corner in corners if first + 1 < corner < last - 2]
    return Stroke(path, _even_radii(radii, pen), radii, tuple(corners))


def _opened(stroke: Stroke, eyes: Floats, pen: float) -> Stroke:
    """The stroke led further round the small holes that it encloses, as far as the ink around it reaches.

    Where ink has run into the eye of an e, the middle of the ink is not where the pen went.
    """
    if not len(eyes) or stroke.is_dot:
        return stroke
    away = stroke.path[:, None] - eyes
    distances = np.hypot(away[..., 0], away[..., 1])
    nearest = distances.argmin(axis=1)
    samples = np.arange(len(nearest))
    distance = np.maximum(distances[samples, nearest], 1e-9)
    closeness = np.clip((1.6 - distance / np.maximum(stroke.room, 1e-9)) / 0.5, 0, 1)
    shift = closeness * np.clip(stroke.room - _EYE_LINE * pen, 0, pen) / distance
    moved = smoothed(shift[:, None] * away[samples, nearest], _SMOOTHING)
    return replace(stroke, path=stroke.path + moved, room=stroke.room - np.hypot(*moved.T))


def _attached(
    strokes: list[Stroke], path: Floats, start: Anchor | None, stop: Anchor | None, pen: float
) -> Floats:
    """The path with its touching ends led right onto what they touch."""
    path = path.copy()
    samples = np.arange(len(path))
    for end, anchor, distance in ((0, start, samples), (-1, stop, samples[::-1])):
        if anchor:
            gap = strokes[anchor.stroke].path[anchor.sample] - path[end]
            path += np.clip(1 - distance * STEP / (3 * pen), 0, 1)[:, None] * gap
    return path


def _dot(path: Floats, edge: Floats, pen: float) -> Stroke:
    """A touch of the pen, as long and as wide as it is in the source."""
    ends = path[[0, -1]]
    if len(path) < 3 or np.hypot(*(ends[1] - ends[0])) < 4:
        ends = path.mean(axis=0) + np.array([[-2.0, 0.0], [2.0, 0.0]])
    path = ends[0] + np.linspace(0, 1, 4)[:, None] * (ends[1] - ends[0])
    room = distances_to(edge, path)
    radius = np.clip(room.max(), 0.8 * pen, 2.5 * pen)
    return Stroke(path, np.full(len(path), radius), room, is_dot=True)


def _round(path: Floats, edge: Floats, pen: float) -> Stroke:
    """A stroke that comes back to where it began and goes on a little over its own beginning."""
    start = int(np.argmax(path[:, 1] + 0.35 * path[:, 0]))
    path = np.roll(path, -start, axis=0)
    path = _ironed(path, pen, closed=True)
    room = distances_to(edge, path)
    lap = min(int(np.ceil(_OVERLAP * pen / STEP)), len(path) // 3) + 1
    again = np.arange(len(path) + lap) % len(path)
    return Stroke(path[again], _even_radii(room, pen, closed=True)[again], room[again], lap=lap)


def _written_way(line: Line) -> Line:
    """From the left and the top, as a hand goes."""
    leads = line.path[:, 0] - 0.6 * line.path[:, 1]
    if leads[-1] >= leads[0]:
        return line
    return Line(line.path[::-1], line.closed, line.meets[::-1])


def _resampled(path: Floats, length: float) -> Floats:
    along = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(path, axis=0).T))])
    places = np.linspace(0, along[-1], max(5, round(length / STEP) + 1))
    return np.stack([np.interp(places, along, path[:, 0]), np.interp(places, along, path[:, 1])], axis=1)


def _ironed(path: Floats, pen: float, *, closed: bool = False) -> Floats:
    """Smooth, and very smooth where that moves the path by no more than the grain of its pixels."""
    smooth = smoothed(path, _SMOOTHING, closed=closed)
    very_smooth = smoothed(path, _STRAIGHT_SMOOTHING, closed=closed)
    moved = np.hypot(*(very_smooth - smooth).T) / (_GRAIN * pen)
    share = smoothed(1 / (1 + moved**4), _SMOOTHING, closed=closed)[:, None]
    return share * very_smooth + (1 - share) * smooth


def _corners(path: Floats, pen: float) -> list[int]:
    """Samples where the path turns sharply, the sharpest first of any that are close together."""
    arm = max(2, round(_CORNER_ARM * pen / STEP))
    if len(path) < 2 * arm + 2:
        return []
    before = path[arm:-arm] - path[: -2 * arm]
    after = path[2 * arm :] - path[arm:-arm]
    size = np.hypot(*before.T) * np.hypot(*after.T)
    cosines = (before * after).sum(axis=1) / np.maximum(size, 1e-9)
    corners: list[int] = []
    for place in np.argsort(cosines, kind="stable").tolist():
        if cosines[place] > _CORNER_COSINE:
            break
        if all(abs(place + arm - corner) > arm for corner in corners):
            corners.append(place + arm)
    return sorted(corners)


def _full_ends(line: Line, radii: Floats, pen: float) -> tuple[int, int]:
    """Thinned lines run on into the tip of the ink; a round pen turns back before it."""
    most = min(int(1.4 * pen / STEP), (len(radii) - 4) // 2)
    full = np.flatnonzero(radii >= _FULL * min(pen, float(np.median(radii))))
    if most < 1 or not len(full):
        return 0, len(radii)
    first = 0 if line.meets[0] else min(int(full[0]), most)
    last = 0 if line.meets[1] else min(len(radii) - 1 - int(full[-1]), most)
    return first, len(radii) - last


def _even_radii(radii: Floats, pen: float, *, closed: bool = False) -> Floats:
    """Where strokes meet the ink is wider than the pen was."""
    return smoothed(np.clip(radii, 0.6 * pen, 1.35 * pen), _WIDTH_SMOOTHING, closed=closed)


def _anchor(strokes: list[Stroke], number: int, end: int, pen: float) -> Anchor | None:
    """The closest sample of another stroke, or of this one a good way off."""
    here = strokes[number].path[end]
    best, anchor = _TOUCH * pen, None
    for other, stroke in enumerate(strokes):
        distances = np.hypot(*(stroke.path - here).T)
        if other == number:
            near = int(_SELF_TOUCH * pen / STEP)
            own = slice(0, near) if end == 0 else slice(len(distances) - near if near else None, None)
            distances[own] = np.inf
        sample = int(np.argmin(distances))
        if distances[sample] < best:
            best, anchor = float(distances[sample]), Anchor(other, sample)
    return anchor
