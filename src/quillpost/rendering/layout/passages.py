"""Writes passages as a person would, or perfectly even.

Everything is looked up in short tables of rounded values, so that a page comes out the same on
every machine.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, pairwise
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

from quillpost.rendering.handwriting.hand import HAND_FONT
from quillpost.rendering.handwriting.vocabulary import Vocabulary
from quillpost.rendering.layout.paragraphs import (
    LEAN,
    WANDER,
    Flags,
    Integers,
    Layout,
    Numbers,
    edges,
    overhang,
)
from quillpost.rendering.models import Ink

Bytes = npt.NDArray[np.uint8]

TILTS = 9
"""A word leans by up to so many steps of 2 milliradians, either way."""

SHRINKS = 4
"""A word is smaller than its size by up to so many per cent; never larger, so it keeps to its place."""


_ALL_BITS = 2**64 - 1

# Up to so many passages, as a preview has, walk in plain Python: that is quicker than calls of numpy.
_FEW = 4

_QUANTILES = [NormalDist().inv_cdf((place + 0.5) / 256) for place in range(256)]
_NORMAL = np.array([round(value, 3) for value in _QUANTILES])
_GAPS = np.array([round(min(max(math.exp(0.16 * value), 0.82), 1.6) - 1, 3) for value in _QUANTILES])
_TILTS = np.array([round(min(max(3 * value, -TILTS), TILTS)) for value in _QUANTILES])
_JITTERS = 0.010 * _NORMAL
_SINES = np.array([round(math.sin(math.tau * place / 256), 4) for place in range(256)])


@dataclass(frozen=True, slots=True)
class Unevenness:
    """For a group of passages: rows are passages; columns words, or lines. In font sizes where not said."""

    gaps: Numbers  # by which share a word's gap before it is wider or narrower
    shrinks: Integers  # per cent
    tilts: Integers  # steps
    starts: Integers  # where the search for a take begins
    shades: Integers  # -1, 0, 1
    jitters: Numbers  # of the baseline, word by word
    margins: Numbers  # by line
    slopes: Numbers  # by line, rise per run
    rises: Numbers  # by line
    phases: Integers  # one a passage, in 256ths of a turn


def unevenness(seeds: Sequence[int], is_even: Sequence[bool], *, words: int, lines: int) -> Unevenness:
    """The numbers for passages of up to so many words and lines. A longer passage only adds to the end."""
    humane = ~np.array(is_even, np.bool_)[:, None]
    seed = np.array([seed & _ALL_BITS for seed in seeds], np.uint64)[:, None]
    piece, line, word = (_bytes(seed, part, count) for part, count in enumerate((1, lines, words)))
    slope = 0.002 + 0.0045 * _NORMAL[piece[:, :, 0]] + 0.004 * _NORMAL[line[:, :, 1]]
    return Unevenness(
        gaps=_GAPS[word[:, :, 0]] * humane,
        shrinks=_shrinks(word[:, :, 1]) * humane,
        tilts=_TILTS[word[:, :, 2]] * humane,
        starts=word[:, :, 3] & 7,
        shades=_shades(word[:, :, 4]) * humane,
        jitters=_JITTERS[word[:, :, 5]] * humane,
        margins=_margins(line[:, :, 0]) * humane,
        slopes=slope * humane,
        rises=0.028 * _NORMAL[line[:, :, 2]] * humane,
        phases=piece[:, 0, 1].astype(np.int64),
    )


def waves(along: Numbers, lines: Integers, noise: Unevenness, is_even: Sequence[bool]) -> Numbers:
    """How the hand drifts up and down along a line; `along` is in points."""
    turn = 256 / math.tau
    phase = noise.phases[:, None]
    slow = _SINES[(np.rint(along * (turn / 31)).astype(np.int64) + phase + lines * 86) & 255]
    quick = _SINES[(np.rint(along * (turn / 13)).astype(np.int64) + lines * 41) & 255]
    humane = ~np.array(is_even, np.bool_)[:, None]
    return (0.018 * slow + 0.012 * quick) * humane


def _bytes(seed: npt.NDArray[np.uint64], part: int, count: int) -> Bytes:
    """Eight random bytes for each of so many things of every seed, by the mixing steps of SplitMix64."""
    steps = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(3) + np.uint64(part)
    with np.errstate(over="ignore"):
        mixed = (seed * np.uint64(0xD1342543DE82EF95) + steps) * np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed = mixed ^ (mixed >> np.uint64(31))
    return mixed.astype("<u8").view(np.uint8).reshape(len(seed), count, 8)


def _shrinks(drawn: Bytes) -> Integers:
    half = SHRINKS / 2
    drift = _walk(drawn, keeps=0.8, step=1.1)
    return np.rint(np.clip(drift, -half, half) + half).astype(np.int64)


def _shades(drawn: Bytes) -> Integers:
    return np.clip(np.rint(_walk(drawn, keeps=0.85, step=0.34)), -1, 1).astype(np.int64)


def _margins(drawn: Bytes) -> Numbers:
    return np.clip(0.1 + _walk(drawn, keeps=0.75, step=0.08), 0.0, 0.6)


def _walk(drawn: Bytes, *, keeps: float, step: float) -> Numbers:
    """Numbers of which each remembers the one before."""
    if len(drawn) <= _FEW:
        steps = (step * _NORMAL[drawn]).tolist()
        return np.array([list(accumulate(row, lambda before, n: n + keeps * before)) for row in steps])
    walked = step * _NORMAL[np.ascontiguousarray(drawn.T)]
    for before, number in pairwise(walked):
        number += keeps * before
    return walked.T


_GRID = 10  # places are written in tenths of a point, less than half the width of a hair
_FARTHEST = 16 * 72 * _GRID
_TILT = 0.002
_SHADE = 0.036

# Of the room that a short note leaves: how much is on its left, and how much above it.
_AMID, _EYE_LEVEL = 0.5, 0.45

Tokens = npt.NDArray[Any]


def write(vocabulary: Vocabulary, layout: Layout) -> Iterator[bytes]:
    """For each passage the operators that write it. What they draw stays inside its box."""
    is_even = [passage.is_even for passage in layout.passages]
    noise = unevenness(
        [passage.seed for passage in layout.passages],
        is_even,
        words=layout.words.shape[1],
        lines=int(layout.lines.max(initial=0)) + 1,
    )
    placed = _place(layout, noise, is_even)
    tokens = _tokens(vocabulary, layout, noise, placed)
    tokens[:, :, 4] = _shown(vocabulary, layout, noise, np.array(is_even, np.bool_))
    for row, length in enumerate(layout.lengths.tolist()):
        yield b"BT %b 1 Tf\n%bET\n" % (HAND_FONT, b"".join(tokens[row, :length].ravel().tolist()))


def _shown(vocabulary: Vocabulary, layout: Layout, noise: Unevenness, is_even: Flags) -> Tokens:
    words = layout.words
    shown = np.empty(words.shape, object)
    one_shape = is_even | (vocabulary.hand.prepared.takes == 0)
    shown[one_shape] = vocabulary.in_true_shapes(words[one_shape])
    shown[~one_shape] = vocabulary.in_takes(words[~one_shape], noise.starts[~one_shape])
    return shown


@dataclass(frozen=True, slots=True)
class _Placed:
    """Each word's place in grid steps."""

    across: Integers
    up: Integers


def _place(layout: Layout, noise: Unevenness, is_even: Sequence[bool]) -> _Placed:
    size = layout.sizes[:, None]
    scale = 1 - noise.shrinks / 100
    advance, left, right, bottom, top = (layout.measures[:, :, k] * scale for k in range(5))
    along = _along_the_line(layout, noise, advance, left, right) * size
    lefts, rights, bottoms, tops = edges(layout.passages)[:, :, None]
    aside, down = _off_the_corner(layout, along + (advance + right) * size)

    highest = layout.measures[:, :, 4].max(axis=1, initial=0.0)[:, None]
    baseline = tops - down - (highest + WANDER + layout.lines * layout.leading) * size
    slope = np.take_along_axis(noise.slopes, layout.lines, 1)
    restless = np.take_along_axis(noise.rises, layout.lines, 1) + noise.jitters
    restless += waves(along, layout.lines, noise, is_even)
    up = baseline + restless * size + slope * along
    # A word that leans up reaches higher at its end, and one that leans down, lower.
    lean = noise.tilts * _TILT * advance
    up = np.minimum(up, tops - (top + np.maximum(lean, 0)) * size)
    up = np.maximum(up, bottoms + (bottom + np.maximum(-lean, 0)) * size)
    across = np.minimum(lefts + aside + along, rights - (advance + right + LEAN) * size)
    across = np.maximum(across, lefts + (left + LEAN) * size)
    return _Placed(_on_grid(across), _on_grid(up))


def _off_the_corner(layout: Layout, ends: Numbers) -> tuple[Numbers, Numbers]:
    """How far right and down each centered passage lies of the upper left corner; `ends` are its words'.

    Its lines stay flush left: as a whole they lie in the middle between left and right, and a little above
    the middle between top and bottom, where the eye looks for it. What nearly fills its box stays there.
    """
    size = layout.sizes[:, None]
    if not any(passage.is_centered for passage in layout.passages) or not ends.shape[1]:
        return np.zeros_like(size), np.zeros_like(size)
    is_centered = np.array([[passage.is_centered] for passage in layout.passages])
    left, right, bottom, top = edges(layout.passages)[:, :, None]
    widest = np.where(layout.words >= 0, ends, 0.0).max(axis=1, keepdims=True)
    beside = right - left - widest
    below = top - bottom - layout.heights[:, None]
    share = _share_of(below, layout.leading * size) * is_centered
    return _AMID * beside * share * _share_of(beside, size), _EYE_LEVEL * below * share


def _share_of(spare: Numbers, little: Numbers) -> Numbers:
    """How much of the spare room counts: none where it is little, all where it is twice that."""
    return np.clip(spare / little - 1, 0.0, 1.0)


def _along_the_line(
    layout: Layout, noise: Unevenness, advance: Numbers, left: Numbers, right: Numbers
) -> Numbers:
    """How far from the box's left each word begins, in font sizes.

    Margins and wide gaps take only what room a line has left; narrow gaps always stay.
    """
    rows, columns = layout.words.shape
    if not columns:
        return advance
    is_first = np.ones((rows, columns), np.bool_)
    is_first[:, 1:] = layout.lines[:, 1:] != layout.lines[:, :-1]
    count = int(layout.lines.max()) + 1
    line = (np.arange(rows)[:, None] * count + layout.lines).ravel()

    def by_line(values: Numbers) -> Numbers:
        return np.bincount(line, values.ravel(), rows * count).astype(np.float64)

    is_there = layout.words >= 0
    gap = np.where(is_first | ~is_there, 0.0, layout.gap + overhang(left))
    wider = gap * np.maximum(noise.gaps, 0)
    narrower = gap * np.minimum(noise.gaps, 0)
    natural = by_line(advance + gap + narrower + np.where(is_first, left, 0.0))
    last_right = np.zeros(rows * count)
    last_right[line] = np.where(is_there, right, 0.0).ravel()
    box_left, box_right, _, _ = edges(layout.passages)
    widths = (box_right - box_left) / layout.sizes
    spare = np.maximum(np.repeat(widths, count) - natural - last_right - 2 * LEAN, 0.0)
    margin = np.minimum(noise.margins.ravel(), spare)
    wanted = by_line(wider)
    granted = np.minimum((spare - margin) / np.where(wanted > 0, wanted, 1.0), 1.0)

    gap = gap + narrower + wider * granted[line].reshape(rows, columns)
    indent = np.where(is_first, left + LEAN + margin[line].reshape(rows, columns), 0.0)
    reach = np.cumsum(gap + advance, axis=1) - advance
    start = np.maximum.accumulate(np.where(is_first, np.arange(columns), 0), axis=1)
    indent = np.take_along_axis(indent, start, 1)
    return reach - np.take_along_axis(reach, start, 1) + indent


def _tokens(vocabulary: Vocabulary, layout: Layout, noise: Unevenness, placed: _Placed) -> Tokens:
    """All that is written for each word but the word: ink where it changes, and the text matrix."""
    tokens = np.empty((*layout.words.shape, 5), object)
    halves = np.rint(layout.sizes * 2).astype(np.int64)[:, None]
    matrices, smallest = _matrices(vocabulary.hand.style.scale)
    tokens[:, :, 0] = _inks(layout, noise)
    tokens[:, :, 1] = matrices[halves - smallest, noise.shrinks, noise.tilts + TILTS]
    tokens[:, :, 2] = _ACROSS[placed.across]
    tokens[:, :, 3] = _UP[placed.up]
    return tokens


def _inks(layout: Layout, noise: Unevenness) -> Tokens:
    inks = {ink: number for number, ink in enumerate(dict.fromkeys(p.ink for p in layout.passages))}
    table = np.array([b"", *(token for ink in inks for token in _shades_of(ink))], object)
    own = np.array([inks[passage.ink] for passage in layout.passages], np.int64)[:, None]
    number = 1 + own * 3 + noise.shades + 1
    if number.shape[1]:
        changes = np.ones(number.shape, np.bool_)
        changes[:, 1:] = number[:, 1:] != number[:, :-1]
        number = np.where(changes, number, 0)
    found: Tokens = table[number]
    return found


def _shades_of(ink: Ink) -> list[bytes]:
    """The ink as it comes out of a pen: a little darker here, a little lighter there."""
    return [
        b" ".join(_short(round(min(max(channel + shade * _SHADE, 0.0), 1.0), 2)) for channel in ink)
        + b" rg\n"
        for shade in (-1, 0, 1)
    ]


@lru_cache(maxsize=64)
def _matrices(scale: float) -> tuple[Tokens, int]:
    """The first four numbers of a text matrix for each size, shrink and tilt; and the first size."""
    smallest, largest = 12, 2 * 40
    table = np.empty((largest - smallest + 1, SHRINKS + 1, 2 * TILTS + 1), object)
    for halves in range(smallest, largest + 1):
        for shrink in range(SHRINKS + 1):
            em = halves / 2 * scale * (100 - shrink) / 100
            for tilt in range(-TILTS, TILTS + 1):
                lean = round(em * tilt * _TILT, 2)
                table[halves - smallest, shrink, tilt + TILTS] = b"%b %b %b %b " % (
                    _short(em),
                    _short(lean),
                    _short(-lean),
                    _short(em),
                )
    return table, smallest


def _on_grid(points: Numbers) -> Integers:
    return np.clip(np.rint(points * _GRID), 0, _FARTHEST - 1).astype(np.int64)


def _short(number: float) -> bytes:
    """As few digits as the place needs; a zero before the point is none of them."""
    text = (b"%.3f" % number).rstrip(b"0").rstrip(b".")
    if text in (b"0", b"-0"):
        return b"0"
    return text.replace(b"0.", b".", 1) if text.startswith((b"0.", b"-0.")) else text


_ACROSS = np.array([_short(step / _GRID) + b" " for step in range(_FARTHEST)], object)
_UP = np.array([_short(step / _GRID) + b" Tm" for step in range(_FARTHEST)], object)
