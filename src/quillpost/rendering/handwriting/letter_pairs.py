"""Letters that often meet: one bar for two, an l that is not its neighbor's copy, an o that leads on from its top."""

import numpy as np

from quillpost.rendering.handwriting.bent_letters import BentLetters
from quillpost.rendering.handwriting.letter_tables import LetterTables, expand
from quillpost.rendering.handwriting.letterforms import LineKind
from quillpost.rendering.handwriting.noise import Bytes, Integers, normals
from quillpost.rendering.handwriting.outlines import Floats

_FAST_PAIRS = ("ng", "er")
_FAST_SHARE = 0.4  # of such pairs, what a hand joins beyond what it joins otherwise
_HIGH_PAIRS = ("oo", "of", "ou")
_HIGH_SHARE = 0.35
_CODES = 0x110000

# Where a letter's random bytes are free.
_BAR_CHANCE, _LOWERED, _LEANED = 61, 62, 63

_BAR_OVER_H_SHARE = 0.45
_OVERSHOOT = (0.04, 0.22)
_MAX_STRETCH = 1.1  # x-heights
_MAX_RISE = 0.15

_LOWERING = 0.11
_MIN_L_TOP = 1.6
_LEAN = 0.05


def find_pairs(tables: LetterTables, forms: Integers, words: Integers, *pairs: str) -> Integers:
    """Where the first letter of such a pair stands before the second, in one word."""
    codes = tables.codes[forms]
    pair_codes = [ord(pair[0]) * _CODES + ord(pair[1]) for pair in pairs]
    return np.flatnonzero(np.isin(codes[:-1] * _CODES + codes[1:], pair_codes) & (words[1:] == words[:-1]))


def find_high_pairs(tables: LetterTables, forms: Integers, words: Integers) -> Integers:
    return find_pairs(tables, forms, words, *_HIGH_PAIRS)


def joining_shares(tables: LetterTables, forms: Integers, words: Integers, joining: float) -> Floats:
    """For each letter how often it is joined to the next: `ing` and `er` run on where others do not."""
    shares = np.full(len(forms), float(joining))
    if not joining:
        return shares
    before_g = find_pairs(tables, forms, words, "ng")
    fast = np.concatenate([
        find_pairs(tables, forms, words, *_FAST_PAIRS),
        np.intersect1d(find_pairs(tables, forms, words, "in"), before_g - 1),
    ])  # fmt: skip
    shares[fast] += _FAST_SHARE * (1 - joining)
    shares[find_high_pairs(tables, forms, words)] += _HIGH_SHARE * (1 - joining)
    return shares


def vary_second_l(letters: BentLetters) -> None:
    """The second l of two is a little lower, and leans otherwise."""
    pairs = find_pairs(letters.tables, letters.forms, letters.words, "ll")
    if not len(pairs):
        return
    tops = np.full(len(letters.forms), 1.0)
    np.maximum.at(tops, letters.letter, letters.y)
    heights = np.ones(len(letters.forms))
    leans = np.zeros(len(letters.forms))
    noise, warp = letters.noise[pairs + 1], letters.manner.warp
    lowered = 1 - _LOWERING * warp * (0.5 + noise[:, _LOWERED] / 256)
    rises = np.maximum(tops[pairs + 1] - 1, 0.1)
    heights[pairs + 1] = np.maximum(lowered, np.minimum((_MIN_L_TOP - 1) / rises, 1.0))
    leans[pairs + 1] = _LEAN * warp * normals(noise[:, _LEANED])
    above = np.maximum(letters.y - 1, 0)
    letters.x += leans[letters.letter] * letters.y
    letters.y += above * (heights[letters.letter] - 1)


def share_bars(letters: BentLetters) -> None:
    """Two t or two f in a row have one bar: the first one's reaches to the end of the second's, which is dropped.

    The bar of a t before an h may run on over its stem.
    """
    bars = np.full(len(letters.forms), -1)
    is_bar = letters.kind == LineKind.BAR
    bars[letters.line_letter[is_bar]] = np.flatnonzero(is_bar)
    _share(letters, bars)
    _run_on(letters, bars)


def _share(letters: BentLetters, bars: Integers) -> None:
    pairs = find_pairs(letters.tables, letters.forms, letters.words, "tt", "ff")
    pairs = pairs[(bars[pairs] >= 0) & (bars[pairs + 1] >= 0)]
    pairs = pairs[~np.isin(pairs - 1, pairs)]  # of three letters the first two
    if len(pairs):
        right, rise = _right_ends(letters, bars[pairs + 1])
        _stretch(letters, bars[pairs], right, rise)
        letters.kind[bars[pairs + 1]] = -1


def _run_on(letters: BentLetters, bars: Integers) -> None:
    pairs = find_pairs(letters.tables, letters.forms, letters.words, "th")
    noise: Bytes = letters.noise[pairs, _BAR_CHANCE]
    pairs = pairs[(bars[pairs] >= 0) & (noise < 256 * _BAR_OVER_H_SHARE)]
    if not len(pairs):
        return
    right, height = _right_ends(letters, bars[pairs])
    count = len(letters.forms)
    above = np.maximum(letters.y - 1, 0)
    weight = np.maximum(np.bincount(letters.letter, above, count), 1e-9)
    stem_x = (np.bincount(letters.letter, above * letters.x, count) / weight)[pairs + 1]
    stem_y = (np.bincount(letters.letter, above * letters.y, count) / weight)[pairs + 1]
    low, high = _OVERSHOOT
    goal = stem_x + letters.tables.hand.slant * (height - stem_y)
    goal += low + (high - low) * letters.noise[pairs + 1, _BAR_CHANCE] / 256
    reaches = (goal > right) & (goal < right + _MAX_STRETCH)
    _stretch(letters, bars[pairs[reaches]], goal[reaches], height[reaches])


def _right_ends(letters: BentLetters, lines: Integers) -> tuple[Floats, Floats]:
    first, last = letters.line_starts[lines], letters.line_starts[lines + 1] - 1
    end = np.where(letters.x[first] > letters.x[last], first, last)
    return letters.x[end], letters.y[end]


def _stretch(letters: BentLetters, lines: Integers, right: Floats, height: Floats) -> None:
    """The lines reach from where they begin to a new right end, at about this height."""
    knots, owner = expand(letters.line_starts, lines)
    x = letters.x[knots]
    left, old_right = np.full(len(lines), np.inf), np.full(len(lines), -np.inf)
    np.minimum.at(left, owner, x)
    np.maximum.at(old_right, owner, x)
    share = (x - left[owner]) / np.maximum(old_right - left, 0.1)[owner]
    rise = np.clip(height - _right_ends(letters, lines)[1], -_MAX_RISE, _MAX_RISE)
    letters.x[knots] = left[owner] + share * (right - left)[owner]
    letters.y[knots] += share * rise[owner]
