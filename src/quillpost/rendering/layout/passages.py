"""Writes passages as a person would, more or less freely. Tables of rounded values give any machine the same page."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate, pairwise
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from quillpost.rendering.handwriting.text import HAND_FONT, PALE_FONT
from quillpost.rendering.handwriting.vocabulary import Vocabulary
from quillpost.rendering.layout.line_breaks import LEAN_ROOM, box_edges, fill_lines
from quillpost.rendering.layout.models import WANDER_ROOM, Flags, Floats, Integers, PassageLayout
from quillpost.rendering.layout.signatures import MAX_GROWTH, MAX_RISE, PlacedSignatures, SignatureNoise
from quillpost.rendering.layout.word_gaps import space_words
from quillpost.rendering.models import Ink

Bytes = npt.NDArray[np.uint8]

MAX_SLANT_STEPS = 3  # of a hundredth of a word's height, either way
MAX_TILT_STEPS = 9  # a word leans by up to so many steps of 2 milliradians, either way
MAX_SHRINK_PERCENT = 6
"""A word is smaller than its size by up to so many per cent, so it keeps to its place."""
_MAX_GROWTH_PERCENT = 4  # of a note's first word and of its closing
_MAX_CLOSING_WORDS = 4  # on the last line of its own: a longer one is part of the note
_MAX_FITTED_SHRINK = 60  # where one word fills a line and came out wider than it was measured

_ALL_BITS = 2**64 - 1

# Up to so many passages, as a preview has, walk in plain Python: that is quicker than calls of numpy.
_MAX_SLOW_ROWS = 4

_QUANTILES = [NormalDist().inv_cdf((index + 0.5) / 256) for index in range(256)]
_NORMAL_TABLE = np.array([round(value, 3) for value in _QUANTILES])
_GAP_TABLE = np.array([round(min(max(math.exp(0.16 * value), 0.82), 1.6) - 1, 3) for value in _QUANTILES])
_TILT_TABLE = np.array([round(min(max(3 * value, -MAX_TILT_STEPS), MAX_TILT_STEPS)) for value in _QUANTILES])
_OVERRUN_TABLE = np.array([round(min(max(0.02 + 0.02 * value, -0.02), 0.06), 4) for value in _QUANTILES])
_JITTER_TABLE = 0.010 * _NORMAL_TABLE
_SINE_TABLE = np.array([round(math.sin(math.tau * index / 256), 4) for index in range(256)])


@dataclass(frozen=True, slots=True)
class HandwritingNoise:
    """Rows are passages, columns words or lines. In font sizes unless noted."""

    gaps: Floats  # by which share a word's gap before it is wider or narrower
    overruns: Floats  # by which share of a line a word may pass its edge, or keeps away from it
    shrinks: Integers  # per cent
    tilts: Integers  # steps
    slants: Integers  # steps, more or less upright
    shades: Integers  # -1, 0, 1
    jitters: Floats  # of the baseline, word by word
    margins: Floats  # by line
    slopes: Floats  # by line, rise per run
    rises: Floats  # by line
    phases: Integers  # one a passage, in 256ths of a turn
    freedom: Floats  # one a passage
    signatures: SignatureNoise


FREEDOM = {"neat": 0.4, "natural": 1.0, "lively": 1.5}
"""How far words and lines stray in each manner."""


def make_noise(seeds: Sequence[int], manners: Sequence[str], *, words: int, lines: int) -> HandwritingNoise:
    """Noise for up to so many words and lines; a longer passage only adds to the end."""
    freedom = np.array([FREEDOM[manner] for manner in manners])[:, None]
    seed = np.array([seed & _ALL_BITS for seed in seeds], np.uint64)[:, None]
    passage_bytes, line_bytes, word_bytes = (
        _random_bytes(seed, stream, count) for stream, count in enumerate((1, lines, words))
    )
    slope = 0.002 + 0.0045 * _NORMAL_TABLE[passage_bytes[:, :, 0]] + 0.004 * _NORMAL_TABLE[line_bytes[:, :, 1]]
    half_shrink = MAX_SHRINK_PERCENT / 2
    shrink_walk = _random_walk(word_bytes[:, :, 1], decay=0.8, step=1.1) * freedom
    shade_walk = _random_walk(word_bytes[:, :, 4], decay=0.85, step=0.34) * freedom
    slant_walk = _random_walk(word_bytes[:, :, 6], decay=0.9, step=0.6) * freedom
    margin_walk = _random_walk(line_bytes[:, :, 0], decay=0.62, step=0.13)
    tilts = np.rint(np.clip(_TILT_TABLE[word_bytes[:, :, 2]] * freedom, -MAX_TILT_STEPS, MAX_TILT_STEPS))
    return HandwritingNoise(
        gaps=_GAP_TABLE[word_bytes[:, :, 0]] * freedom,
        overruns=_OVERRUN_TABLE[word_bytes[:, :, 3]],
        shrinks=np.rint(np.clip(shrink_walk, -half_shrink, half_shrink) + half_shrink).astype(np.int64),
        tilts=tilts.astype(np.int64),
        slants=np.rint(np.clip(slant_walk, -MAX_SLANT_STEPS, MAX_SLANT_STEPS)).astype(np.int64),
        shades=np.clip(np.rint(shade_walk), -1, 1).astype(np.int64),
        jitters=_JITTER_TABLE[word_bytes[:, :, 5]] * freedom,
        margins=np.clip((0.12 + margin_walk) * freedom, 0.0, 0.9),
        slopes=slope * freedom,
        rises=0.028 * _NORMAL_TABLE[line_bytes[:, :, 2]] * freedom,
        phases=passage_bytes[:, 0, 1].astype(np.int64),
        freedom=freedom,
        signatures=_signature_noise(passage_bytes[:, 0, 2:5], freedom),
    )


def _signature_noise(random_bytes: Bytes, freedom: Floats) -> SignatureNoise:
    """A person's own name rises a little more often than it falls."""
    growth, rise, indent = (_NORMAL_TABLE[random_bytes] * freedom).T
    return SignatureNoise(
        growths=np.clip(0.017 * growth, -MAX_GROWTH, MAX_GROWTH),
        rises=np.clip(0.006 + 0.013 * rise, -MAX_RISE, MAX_RISE),
        indents=np.clip(0.2 + 0.2 * indent, 0.0, 0.7),
    )


def baseline_waves(distances: Floats, lines: Integers, noise: HandwritingNoise) -> Floats:
    """How the hand drifts up and down along a line; `distances` is in points."""
    steps_per_radian = 256 / math.tau
    phase = noise.phases[:, None]
    slow_wave = _SINE_TABLE[(np.rint(distances * (steps_per_radian / 31)).astype(np.int64) + phase + lines * 86) & 255]
    quick_wave = _SINE_TABLE[(np.rint(distances * (steps_per_radian / 13)).astype(np.int64) + lines * 41) & 255]
    return (0.022 * slow_wave + 0.012 * quick_wave) * noise.freedom


def _random_bytes(seed: npt.NDArray[np.uint64], stream: int, count: int) -> Bytes:
    """Eight random bytes for each of `count` things of every seed (SplitMix64)."""
    steps = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(3) + np.uint64(stream)
    with np.errstate(over="ignore"):
        mixed = (seed * np.uint64(0xD1342543DE82EF95) + steps) * np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed = mixed ^ (mixed >> np.uint64(31))
    return mixed.astype("<u8").view(np.uint8).reshape(len(seed), count, 8)


def _random_walk(random_bytes: Bytes, *, decay: float, step: float) -> Floats:
    """Each number remembers the one before."""
    if len(random_bytes) <= _MAX_SLOW_ROWS:
        steps = (step * _NORMAL_TABLE[random_bytes]).tolist()
        return np.array([list(accumulate(row, lambda before, n: n + decay * before)) for row in steps])
    values = step * _NORMAL_TABLE[np.ascontiguousarray(random_bytes.T)]
    for previous, number in pairwise(values):
        number += decay * previous
    return values.T


_GRID_STEPS_PER_POINT = 10  # places are written in tenths of a point, less than half the width of a hair
_MAX_GRID_STEPS = 16 * 72 * _GRID_STEPS_PER_POINT
_TILT_STEP_RADIANS = 0.002
_SLANT_STEP = 0.01
_SHADE_STEP = 0.036
_CONDENSED_PERCENT_PER_TILT = 3  # a word squeezed in at the edge falls a little

# Of the room that a short note leaves: how much is on its left, and how much above it.
_USUAL_MARGIN = 0.2  # left of a line, in font sizes
_LEFT_SHARE, _TOP_SHARE = 0.5, 0.45

# Readers drop a word that one of the five before it seems to repeat at the same place: spaces keep dark ink from pale.
_APART = 12

Tokens = npt.NDArray[Any]


def write_passages(vocabulary: Vocabulary, layout: PassageLayout) -> Iterator[bytes]:
    """The operators of each passage; what they draw stays inside its box."""
    seeds = [passage.seed for passage in layout.passages]
    manners = [passage.manner for passage in layout.passages]
    line_count = int(layout.line_numbers.max(initial=0)) + 1
    noise = make_noise(seeds, manners, words=layout.word_numbers.shape[1], lines=line_count)
    shown = vocabulary.show(layout.word_numbers, seeds, manners)
    layout = replace(layout, measures=shown.measures)
    shrinks = _shrinks(layout, noise)
    extents = (layout.measures[:, :, k] * (1 - shrinks / 100) for k in range(3))
    usual_margins = _USUAL_MARGIN * noise.freedom[:, 0]
    lines = fill_lines(layout, *extents, gap_noise=noise.gaps, overruns=noise.overruns, margins=usual_margins)
    layout = replace(layout, line_numbers=lines)
    signatures = PlacedSignatures.of(layout, noise.signatures)
    words, corners = _place_words(layout, noise, shrinks, signatures)
    tokens = _word_tokens(vocabulary.style.scale, layout, noise, words)
    tokens[:, :, 4] = shown.operators
    closings = signatures.draw(*corners) if signatures else [b""] * len(seeds)
    lengths = layout.word_counts.tolist()
    dark = [b"".join(tokens[row, :length].ravel().tolist()) for row, length in enumerate(lengths)]
    if shown.pale_operators is None:
        texts = [b"BT %b 1 Tf\n%bET\n" % (HAND_FONT, operators) for operators in dark]
    else:
        tokens[:, :, 0] = _ink_tokens(layout, noise, vocabulary.tint)
        tokens[:, :, 4] = shown.pale_operators
        texts = [
            b"BT %b 1 Tf\n%b%b 1 Tf\n%bET\n"
            % (
                PALE_FONT,
                b"".join(tokens[row, :length].ravel().tolist()) + vocabulary.space * max(_APART - length, 0),
                HAND_FONT,
                dark[row],
            )
            for row, length in enumerate(lengths)
        ]
    for text, length, closing in zip(texts, lengths, closings, strict=True):
        yield (text if length else b"") + closing


class _PlacedWords(NamedTuple):
    """Where each word stands, in steps of the grid, and how: per cent smaller, steps of tilt, per cent narrower."""

    x: Integers
    y: Integers
    shrinks: Integers
    tilts: Integers
    condensed: Integers


class _Corners(NamedTuple):
    """Of each passage where its text begins, and where its box ends; in points."""

    left: Floats
    top: Floats
    right: Floats
    bottom: Floats


def _place_words(
    layout: PassageLayout, noise: HandwritingNoise, shrinks: Integers, signatures: PlacedSignatures | None
) -> tuple[_PlacedWords, _Corners]:
    size = layout.sizes[:, None]
    scale = 1 - shrinks / 100
    advance, left, right, bottom, top = (layout.measures[:, :, k] * scale for k in range(5))
    starts, condensed = space_words(layout, noise.gaps, noise.margins, advance, left, right)
    distances = starts * size
    advance, right = (extent * (1 - condensed / 100) for extent in (advance, right))
    lefts, rights, bottoms, tops = box_edges(layout.passages)[:, :, None]
    x_offsets, y_offsets = _centering_offsets(layout, distances + (advance + right) * size, signatures)

    max_tops = layout.measures[:, :, 4].max(axis=1, initial=0.0)[:, None]
    baseline = tops - y_offsets - (max_tops + WANDER_ROOM + layout.line_numbers * layout.leading) * size
    slope = np.take_along_axis(noise.slopes, layout.line_numbers, 1)
    baseline_noise = np.take_along_axis(noise.rises, layout.line_numbers, 1) + noise.jitters
    baseline_noise += baseline_waves(distances, layout.line_numbers, noise)
    y = baseline + baseline_noise * size + slope * distances
    # A word that leans up reaches higher at its end, and one that leans down, lower.
    tilts = np.maximum(noise.tilts - condensed // _CONDENSED_PERCENT_PER_TILT, -MAX_TILT_STEPS)
    lean = tilts * _TILT_STEP_RADIANS * advance
    y = np.minimum(y, tops - (top + np.maximum(lean, 0)) * size)
    y = np.maximum(y, bottoms + (bottom + np.maximum(-lean, 0)) * size)
    x = np.minimum(lefts + x_offsets + distances, rights - (advance + right + LEAN_ROOM) * size)
    x = np.maximum(x, lefts + (left + LEAN_ROOM) * size)
    corners = _Corners((lefts + x_offsets)[:, 0], (tops - y_offsets)[:, 0], rights[:, 0], bottoms[:, 0])
    return _PlacedWords(_to_grid(x), _to_grid(y), shrinks, tilts, condensed), corners


def _centering_offsets(
    layout: PassageLayout, ends: Floats, signatures: PlacedSignatures | None
) -> tuple[Floats, Floats]:
    """How far right and down of the upper left corner each centered passage lies; `ends` are its words' ends.

    Lines stay flush left, as a whole in the middle across and a little above the middle, where the eye looks. A passage
    that nearly fills its box stays there.
    """
    size = layout.sizes[:, None]
    if not any(passage.is_centered for passage in layout.passages):
        return np.zeros_like(size), np.zeros_like(size)
    is_centered = np.array([[passage.is_centered] for passage in layout.passages])
    left, right, bottom, top = box_edges(layout.passages)[:, :, None]
    widest = np.where(layout.word_numbers >= 0, ends, 0.0).max(axis=1, keepdims=True, initial=0.0)
    if signatures:
        widest = np.maximum(widest, signatures.ends[:, None])
    spare_width = right - left - widest
    spare_height = top - bottom - layout.heights[:, None]
    share = _spare_share(spare_height, layout.leading * size) * is_centered
    return _LEFT_SHARE * spare_width * share * _spare_share(spare_width, size), _TOP_SHARE * spare_height * share


def _spare_share(spare: Floats, minimum: Floats) -> Floats:
    """How much of the spare room counts: none where it is little, all where it is twice that."""
    return np.clip(spare / minimum - 1, 0.0, 1.0)


def _word_tokens(scale: float, layout: PassageLayout, noise: HandwritingNoise, words: _PlacedWords) -> Tokens:
    """All operators of a word but the word: ink where it changes, and the text matrix."""
    tokens = np.empty((*layout.word_numbers.shape, 5), object)
    half_points = np.rint(layout.sizes * 2).astype(np.int64)[:, None]
    tokens[:, :, 0] = _ink_tokens(layout, noise)
    tokens[:, :, 1] = _text_matrices(scale, half_points, words, noise.slants)
    tokens[:, :, 2] = _X_TOKENS[words.x]
    tokens[:, :, 3] = _Y_TOKENS[words.y]
    return tokens


def _ink_tokens(layout: PassageLayout, noise: HandwritingNoise, tint: float = 0.0) -> Tokens:
    inks = {ink: shade_numbers for shade_numbers, ink in enumerate(dict.fromkeys(p.ink for p in layout.passages))}
    table = np.array([b"", *(token for ink in inks for token in _ink_shades(ink, tint))], object)
    ink_numbers = np.array([inks[passage.ink] for passage in layout.passages], np.int64)[:, None]
    shade_numbers = 1 + ink_numbers * 3 + noise.shades + 1
    if shade_numbers.shape[1]:
        changes = np.ones(shade_numbers.shape, np.bool_)
        changes[:, 1:] = shade_numbers[:, 1:] != shade_numbers[:, :-1]
        shade_numbers = np.where(changes, shade_numbers, 0)
    tokens: Tokens = table[shade_numbers]
    return tokens


def _ink_shades(ink: Ink, tint: float) -> list[bytes]:
    """A little darker and a little lighter, as a pen writes; `tint` is how much paler all of them are."""
    shades = [[min(max(channel + shade * _SHADE_STEP, 0.0), 1.0) for channel in ink] for shade in (-1, 0, 1)]
    return [
        b" ".join(_format_number(round(channel + tint * (1 - channel), 2)) for channel in shade) + b" rg\n"
        for shade in shades
    ]


def _shrinks(layout: PassageLayout, noise: HandwritingNoise) -> Integers:
    """People begin a note large, and write the name that closes it larger; a word too wide for its line is smaller."""
    is_note = ~np.array([[passage.keeps_words] for passage in layout.passages])
    growth = np.rint(np.minimum(3 * noise.freedom, _MAX_GROWTH_PERCENT)).astype(np.int64) * is_note
    larger = np.maximum(noise.shrinks - MAX_SHRINK_PERCENT // 2 - growth, -growth)
    shrinks = np.where(_closing_words(layout) & is_note, larger, noise.shrinks)
    shrinks[:, :1] = -growth
    left, right, _, _ = box_edges(layout.passages)
    room = ((right - left) / layout.sizes)[:, None] - 2 * LEAN_ROOM
    widths = np.maximum(layout.measures[:, :, :3].sum(axis=2), 0.01)
    fitting = np.clip(np.ceil(100 - 100 * room / widths), -_MAX_GROWTH_PERCENT, _MAX_FITTED_SHRINK)
    return np.maximum(shrinks, fitting.astype(np.int64))


def _closing_words(layout: PassageLayout) -> Flags:
    """The few words on a last line of their own."""
    columns = np.arange(layout.word_numbers.shape[1])
    last_break = ((layout.breaks > 0) * columns).max(axis=1, keepdims=True, initial=0)
    words = layout.word_counts[:, None] - last_break
    is_closing = (last_break > 0) & (words <= _MAX_CLOSING_WORDS) & ~layout.is_broken[:, None]
    closing: Flags = is_closing & (columns >= last_break)
    return closing


def _text_matrices(scale: float, half_points: Integers, words: _PlacedWords, slants: Integers) -> Tokens:
    """The first four numbers of each word's text matrix; of the same ones there are many."""
    sizes = (half_points * 16 + words.condensed) * 128 + words.shrinks + _MAX_GROWTH_PERCENT
    postures = (sizes * 32 + words.tilts + MAX_TILT_STEPS) * 8 + slants + MAX_SLANT_STEPS
    kinds, places = np.unique(postures, return_inverse=True)
    matrices = np.array([_text_matrix(scale, posture) for posture in kinds.tolist()], object)
    return matrices[places.reshape(postures.shape)]


@lru_cache(maxsize=20_000)
def _text_matrix(scale: float, posture: int) -> bytes:
    rest, slant = divmod(posture, 8)
    rest, tilt = divmod(rest, 32)
    rest, shrink = divmod(rest, 128)
    half_points, condensed = divmod(rest, 16)
    em = half_points / 2 * scale * (100 + _MAX_GROWTH_PERCENT - shrink) / 100
    across = em * (100 - condensed) / 100
    lean = across * (tilt - MAX_TILT_STEPS) * _TILT_STEP_RADIANS
    upright = em * (slant - MAX_SLANT_STEPS) * _SLANT_STEP
    numbers = (across, round(lean, 2), round(upright - lean, 2), em)
    return b"%b %b %b %b " % tuple(map(_format_number, numbers))


def _to_grid(points: Floats) -> Integers:
    return np.clip(np.rint(points * _GRID_STEPS_PER_POINT), 0, _MAX_GRID_STEPS - 1).astype(np.int64)


def _format_number(number: float) -> bytes:
    """As few digits as possible, without a leading zero."""
    text = (b"%.3f" % number).rstrip(b"0").rstrip(b".")
    if text in (b"0", b"-0"):
        return b"0"
    return text.replace(b"0.", b".", 1) if text.startswith((b"0.", b"-0.")) else text


_X_TOKENS = np.array([_format_number(step / _GRID_STEPS_PER_POINT) + b" " for step in range(_MAX_GRID_STEPS)], object)
_Y_TOKENS = np.array([_format_number(step / _GRID_STEPS_PER_POINT) + b" Tm" for step in range(_MAX_GRID_STEPS)], object)
