"""The ink that a pen leaves on its paths: wide where it was slow, pooled where it stopped, thin where it flew off."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from quillpost.rendering.handwriting.noise import Integers, Seeds, mix, normals, random_bytes
from quillpost.rendering.handwriting.outlines import Floats
from quillpost.rendering.handwriting.word_paths import PenPaths

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Pen:
    """Widths are shares of the hand's own; `tint` is how much paler the quick parts are, 0 for an even ink."""

    radius: float
    slow: float
    fast: float
    pool: float
    flick: float
    skips: float = 0.0
    edge: float = 0.0
    tint: float = 0.12


PENS = {
    "ballpoint": Pen(radius=0.97, slow=1.07, fast=0.86, pool=0.09, flick=0.60, skips=0.03, tint=0.12),
    "gel": Pen(radius=1.06, slow=1.07, fast=0.95, pool=0.10, flick=0.75, tint=0.05),
    "fountain": Pen(radius=1.05, slow=1.12, fast=0.80, pool=0.14, flick=0.45, edge=0.20, tint=0.16),
    "felt": Pen(radius=1.45, slow=1.08, fast=0.93, pool=0.12, flick=0.85, tint=0.06),
}

_SPEED_OF_BENDS = 1.4
_RISE, _FALL = 0.11, 0.20
_POOL_REACH = 0.09
_FLICK_REACH, _FLICK_SPREAD = 0.25, 0.35
_FLICK_SHARE = 0.7
_CUSP_COSINE = 0.15
_DOT_SCALE = 1.35
_QUICK = 0.62  # from this speed on the ink is paler
_SHOULDER = 0.86  # so far out, in radii, are the controls beside a path's tip: the end comes out round
_TINY = 1e-9


@dataclass(frozen=True, slots=True)
class InkOutlines:
    """Closed curves, as controls half-way between which they run; `starts` ends with how many controls there are."""

    controls: Floats
    starts: Integers
    word: Integers
    is_pale: Flags


@dataclass(frozen=True, slots=True)
class _Parts:
    """Paths cut at cusps, where the pen turns on the spot: both parts have round ends."""

    knots: Floats
    radii: Floats
    speed: Floats
    starts: Integers
    word: Integers


def ink_paths(paths: PenPaths, pen: Pen, radius: float, seeds: Seeds) -> InkOutlines:
    """`radius` is the hand's own pen's; the seeds are those of the words."""
    path = np.repeat(np.arange(len(paths.word)), np.diff(paths.starts))
    bend, cusps = _bends(paths.knots, path)
    along, behind = _distances(paths, path)
    place = np.arange(len(paths.word)) - np.searchsorted(paths.word, paths.word)  # in its word: whatever the others
    noise = random_bytes(mix(seeds[paths.word]) + place.astype(np.uint64), 16)
    speed = _speed(paths, path, bend, along, behind)
    radii = radius * pen.radius * _widths(paths, path, pen, speed, along, behind, noise)
    parts = _cut_at_cusps(paths, path, cusps, radii, speed)
    return _outline(parts)


def _bends(knots: Floats, path: Integers) -> tuple[Floats, Flags]:
    """Radians by x-height at each knot, and where the path turns sharply."""
    steps = np.diff(knots, axis=0)
    lengths = np.maximum(np.hypot(steps[:, 0], steps[:, 1]), _TINY)
    inner = (path[1:-1] == path[:-2]) & (path[1:-1] == path[2:])
    cosine = np.ones(len(knots))
    dot = (steps[:-1] * steps[1:]).sum(axis=1) / (lengths[:-1] * lengths[1:])
    cosine[1:-1] = np.where(inner, np.clip(dot, -1, 1), 1.0)
    bend = np.zeros(len(knots))
    bend[1:-1] = np.arccos(cosine[1:-1]) / ((lengths[:-1] + lengths[1:]) / 2)
    return bend, cosine < _CUSP_COSINE


def _distances(paths: PenPaths, path: Integers) -> tuple[Floats, Floats]:
    """How far each knot is from its path's start and from its end."""
    steps = np.zeros(len(path))
    moves = np.diff(paths.knots, axis=0)
    steps[1:] = np.where(path[1:] == path[:-1], np.hypot(moves[:, 0], moves[:, 1]), 0.0)
    total = np.cumsum(steps)
    along = total - total[paths.starts[:-1]][path]
    return along, along[paths.starts[1:] - 1][path] - along


def _speed(paths: PenPaths, path: Integers, bend: Floats, along: Floats, behind: Floats) -> Floats:
    """From 0 to 1: slow in bends by the two-thirds power law, and rising from a stop and falling to one."""
    speed = (1 + _SPEED_OF_BENDS * bend) ** (-1 / 3)
    speed = np.clip((speed - 0.45) / 0.45, 0, 1)
    same = path[1:] == path[:-1]
    before, after = speed.copy(), speed.copy()
    before[1:] = np.where(same, speed[:-1], speed[1:])
    after[:-1] = np.where(same, speed[1:], speed[:-1])
    speed = (before + 2 * speed + after) / 4
    speed = np.where(paths.stops_at[path, 0], speed * _rise(along, _RISE), speed)
    return np.where(paths.stops_at[path, 1], speed * np.maximum(_rise(behind, _FALL), 0.35), speed)


def _rise(distance: Floats, scale: float) -> Floats:
    """A lognormal's distribution function, cheaply: quick at first, long in settling."""
    shares: Floats = 1 / (1 + (np.maximum(distance, 1e-6) / scale) ** -1.7)
    return shares


def _widths(
    paths: PenPaths,
    path: Integers,
    pen: Pen,
    speed: Floats,
    along: Floats,
    behind: Floats,
    noise: npt.NDArray[np.uint8],
) -> Floats:
    uniform = noise / 256
    width = pen.slow - (pen.slow - pen.fast) * speed
    phase = (2 * np.pi * uniform[:, 0])[path]
    width *= 1 + 0.04 * np.sin(along * 2.6 + phase)
    if pen.edge:
        down = np.zeros(len(path))
        moves = np.diff(paths.knots, axis=0)
        down[1:] = -moves[:, 1] / np.maximum(np.hypot(moves[:, 0], moves[:, 1]), _TINY)
        down[paths.starts[:-1]] = down[np.minimum(paths.starts[:-1] + 1, len(down) - 1)]
        width *= 1 + pen.edge * down
    pools = pen.pool * uniform[:, 1:3] * paths.stops_at
    flies = paths.stops_at[:, 1] & (uniform[:, 3] < _FLICK_SHARE) & ~paths.is_dot
    pools[:, 1] = np.where(flies, 0.0, pools[:, 1])
    width *= 1 + pools[path, 0] * np.exp(-((along / _POOL_REACH) ** 2))
    width *= 1 + pools[path, 1] * np.exp(-((behind / _POOL_REACH) ** 2))
    left = pen.flick + (1 - pen.flick) * uniform[:, 4] ** 1.5
    reach = _FLICK_REACH + _FLICK_SPREAD * uniform[:, 5]
    loss = np.where(flies, 1 - left, 0.0)[path] * np.clip(1 - behind / reach[path], 0, 1) ** 1.3
    width *= 1 - loss
    dots = _DOT_SCALE * (1 + 0.1 * normals(noise[:, 6]))
    return np.where(paths.is_dot[path], dots[path], width)


def _cut_at_cusps(paths: PenPaths, path: Integers, cusps: Flags, radii: Floats, speed: Floats) -> _Parts:
    copies = 1 + cusps
    index = np.repeat(np.arange(len(path)), copies)
    is_second = np.zeros(len(index), np.bool_)
    is_second[1:] = index[1:] == index[:-1]
    begins = is_second.copy()
    begins[np.searchsorted(index, paths.starts[:-1])] = True
    starts = np.concatenate([np.flatnonzero(begins), [len(index)]])
    return _Parts(paths.knots[index], radii[index], speed[index], starts, paths.word[path[index[starts[:-1]]]])


def _outline(parts: _Parts) -> InkOutlines:
    """The two sides of each part, and its two round ends."""
    parts = _with_a_middle(parts)
    knots, radii, starts = parts.knots, parts.radii, parts.starts
    count = np.diff(starts)
    part = np.repeat(np.arange(len(count)), count)
    first, last = starts[:-1], starts[1:] - 1
    before, after = np.arange(len(knots)) - 1, np.arange(len(knots)) + 1
    before[first], after[last] = first, last
    steps = knots[after] - knots[before]
    way = steps / np.maximum(np.hypot(steps[:, 0], steps[:, 1]), _TINY)[:, None]
    side = np.stack([-way[:, 1], way[:, 0]], axis=1) * radii[:, None]
    is_inner = np.ones(len(knots), np.bool_)
    is_inner[first] = is_inner[last] = False
    inner = np.flatnonzero(is_inner)

    def beside(sign: float) -> Floats:
        """One side: its controls lie a little farther out, so that the curve touches where the ink ends."""
        edge = knots + sign * side
        for end, outward in ((first, -1.0), (last, 1.0)):
            edge[end] = knots[end] + way[end] * outward * radii[end, None] + sign * side[end] * _SHOULDER
        bulge = (2 * edge[inner] - edge[inner - 1] - edge[inner + 1]) / 8
        normal = side[inner] / np.maximum(radii[inner], _TINY)[:, None]
        edge[inner] += (bulge * normal).sum(axis=1)[:, None] * normal
        return edge

    left, right = beside(1.0), beside(-1.0)
    totals = 2 * count
    offsets = np.concatenate([[0], np.cumsum(totals)])
    within = np.arange(len(knots)) - first[part]
    controls = np.empty((offsets[-1], 2))
    controls[offsets[part] + within] = left
    controls[offsets[part + 1] - 1 - within] = right
    return InkOutlines(controls, offsets, parts.word, np.zeros(len(count), np.bool_))


def _with_a_middle(parts: _Parts) -> _Parts:
    """A part of two knots gets a third between them: it must have sides."""
    count = np.diff(parts.starts)
    short = np.flatnonzero(count == 2)
    if not len(short):
        return parts
    at = parts.starts[short] + 1
    middle = (parts.knots[at - 1] + parts.knots[at]) / 2
    starts = parts.starts.copy()
    starts[1:] += np.cumsum(count == 2)
    return _Parts(
        np.insert(parts.knots, at, middle, axis=0),
        np.insert(parts.radii, at, (parts.radii[at - 1] + parts.radii[at]) / 2),
        np.insert(parts.speed, at, parts.speed[at]),
        starts,
        parts.word,
    )
