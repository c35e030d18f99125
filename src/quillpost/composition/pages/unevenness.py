"""What makes writing look human, as numbers from a seed: nothing quite level, nothing quite even.

Everything is looked up in short tables of rounded values, so that a page comes out the same on
every machine.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

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
