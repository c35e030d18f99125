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
    """Widths are shares of the hand's own. `skips` is the share of long paths where the ball stops rolling once, `edge`
    how much wider strokes down are than strokes up, and `tint` how much paler the quick parts: 0 is an even ink.
    """

    radius: float
    slow: float
    fast: float
    pool: float
    flick: float
    skips: float = 0.0
    edge: float = 0.0
    tint: float = 0.0
    presses: float = 0.04  # how far the hand's weight widens and narrows a line


PENS = {
    "ballpoint": Pen(radius=0.97, slow=1.07, fast=0.86, pool=0.09, flick=0.60, skips=0.03, tint=0.13),
    "gel": Pen(radius=1.04, slow=1.07, fast=0.95, pool=0.10, flick=0.75, tint=0.08),
    "fountain": Pen(radius=1.0, slow=1.12, fast=0.82, pool=0.12, flick=0.45, edge=0.28, tint=0.12),
    "felt": Pen(radius=1.4, slow=1.03, fast=0.97, pool=0.05, flick=0.9, presses=0.02),
}

_SPEED_OF_BENDS = 1.4
_RISE, _FALL = 0.11, 0.20
_POOL_REACH = 0.09
_FLICK_REACH, _FLICK_SPREAD = 0.25, 0.35
_FLICK_SHARE = 0.7
_CUSP_COSINE = 0.15
_DOT_SCALE = 1.35
_POOL_OF_CUSPS = 0.5  # of the one at a stop
_QUICK = 0.62  # from this speed on the ink is paler
_MIN_QUICK_WAY = 0.75  # x-heights: a shorter stretch is not told apart
_TAPER = 0.55  # of the width is left where slow ink thins out over quick ink
_LONG_WAY = 1.4  # x-heights
_SKIP_GAP = 0.03  # x-heights
_SKIP_WIDTH = 0.7
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
    """Paths in parts with round ends: cut where the pen turns on the spot, where it skips, and where its ink changes.

    Pale parts run on under dark ones.
    """

    knots: Floats
    radii: Floats
    starts: Integers
    word: Integers
    is_pale: Flags


def ink_paths(paths: PenPaths, pen: Pen, radius: float, seeds: Seeds) -> InkOutlines:
    """`radius` is the hand's own pen's; the seeds are those of the words."""
    path = np.repeat(np.arange(len(paths.word)), np.diff(paths.starts))
    bend, cusps = _bends(paths.knots, path)
    along, behind = _distances(paths, path)
    place = np.arange(len(paths.word)) - np.searchsorted(paths.word, paths.word)  # in its word: whatever the others
    noise = random_bytes(mix(seeds[paths.word]) + place.astype(np.uint64), 16)
    speed = _speed(paths, path, bend, along, behind)
    radii = radius * pen.radius * _widths(paths, path, pen, speed, along, behind, noise)
    radii[cusps] *= 1 + _POOL_OF_CUSPS * pen.pool * noise[path[cusps], 7] / 256
    is_quick = _find_quick_ink(paths, path, speed, along, cusps) if pen.tint else np.zeros(len(path), np.bool_)
    skips = _find_skips(paths, path, speed, along, behind, noise[:, 8] < 256 * pen.skips)
    return _outline(_cut(paths, path, cusps, skips, is_quick, radii))


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
    width *= 1 + pen.presses * np.sin(along * 2.6 + phase)
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


def _find_quick_ink(paths: PenPaths, path: Integers, speed: Floats, along: Floats, cusps: Flags) -> Flags:
    """Whether the ink from each knot to the next is pale: in stretches that are long enough to be seen."""
    is_quick = np.zeros(len(path), np.bool_)
    within = path[1:] == path[:-1]
    is_quick[:-1] = within & (speed[:-1] + speed[1:] > 2 * _QUICK) & ~paths.is_dot[path[:-1]]
    begins = is_quick.copy()
    begins[1:] &= ~(is_quick[:-1] & ~cusps[1:])
    stretch = np.cumsum(begins) - 1
    quick = np.flatnonzero(is_quick)
    way = np.bincount(stretch[quick], along[quick + 1] - along[quick], int(begins.sum()))
    is_quick[quick] = way[stretch[quick]] >= _MIN_QUICK_WAY
    return is_quick


def _find_skips(
    paths: PenPaths, path: Integers, speed: Floats, along: Floats, behind: Floats, skips: Flags
) -> Integers:
    """Of long paths that skip, the knot where the pen is quickest and far from both ends."""
    skips = skips & (along[paths.starts[1:] - 1] > _LONG_WAY) & ~paths.is_dot
    is_free = skips[path] & (along > _LONG_WAY / 3) & (behind > _LONG_WAY / 3)
    knots = np.flatnonzero(is_free)
    order = knots[np.lexsort((-speed[knots], path[knots]))]
    _, first = np.unique(path[order], return_index=True)
    quickest: Integers = order[first]
    return quickest


def _cut(paths: PenPaths, path: Integers, cusps: Flags, skips: Integers, is_quick: Flags, radii: Floats) -> _Parts:
    """A knot at a cut is in both parts. Where slow ink meets quick ink, it reaches one knot farther, and thins out."""
    is_skip = np.zeros(len(path), np.bool_)
    is_skip[skips] = True
    inner = np.zeros(len(path), np.bool_)
    inner[1:-1] = (path[1:-1] == path[:-2]) & (path[1:-1] == path[2:])
    breaks = (cusps | is_skip) & inner
    changes = np.zeros(len(path), np.bool_)
    changes[1:] = inner[1:] & ~breaks[1:] & (is_quick[1:] != is_quick[:-1])
    cuts = np.flatnonzero(breaks | changes)
    first = np.sort(np.concatenate([paths.starts[:-1], cuts]))
    last = np.sort(np.concatenate([paths.starts[1:] - 1, cuts]))
    is_pale = is_quick[first]
    grows = np.stack([changes[first], changes[last]], axis=1) & ~is_pale[:, None]
    skips_at = np.stack([is_skip[first], is_skip[last]], axis=1)
    first, last = first - grows[:, 0], last + grows[:, 1]
    starts = np.concatenate([[0], np.cumsum(last - first + 1)])
    index = np.repeat(first - starts[:-1], np.diff(starts)) + np.arange(starts[-1])
    knots, widths = paths.knots[index], radii[index]
    for end, beside in ((starts[:-1], 1), (starts[1:] - 1, -1)):
        at = int(beside < 0)
        widths[end[grows[:, at]]] *= _TAPER
        tip = end[skips_at[:, at]]
        way = knots[tip + beside] - knots[tip]
        widths[tip] *= _SKIP_WIDTH
        pull = (_SKIP_GAP + widths[tip]) / np.maximum(np.hypot(way[:, 0], way[:, 1]), _TINY)
        knots[tip] += way * np.minimum(pull, 0.5)[:, None]
    return _Parts(knots, widths, starts, paths.word[path[first]], is_pale)


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
    return InkOutlines(controls, offsets, parts.word, parts.is_pale)


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
        starts,
        parts.word,
        parts.is_pale,
    )
