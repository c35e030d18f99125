"""Letters as they come out this time: bent, stretched, leaning, and set side by side by the ink between them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from quillpost.rendering.handwriting.letter_tables import LetterTables, expand
from quillpost.rendering.handwriting.letterforms import LineKind
from quillpost.rendering.handwriting.noise import Bytes, Integers, Seeds, normals, random_bytes
from quillpost.rendering.handwriting.outlines import Floats

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Manner:
    """How freely a person writes; 1 is a lively hand."""

    warp: float  # letters bend, stretch and lean
    pace: float  # corners are cut, letters are spaced unevenly
    drift: float  # words differ in size and lean
    lifts: float  # share of the joins that are left out
    tremor: float = 0.0


MANNERS = {
    "neat": Manner(warp=0.45, pace=0.5, drift=0.5, lifts=0.03),
    "natural": Manner(warp=0.78, pace=1.0, drift=1.0, lifts=0.08),
    "lively": Manner(warp=1.1, pace=1.4, drift=1.4, lifts=0.14),
}


# A letter's bands across its height, where it and its neighbor come close.
_BAND_BOTTOM, _BAND_HEIGHT, _BANDS = -0.3, 0.2, 11
_FAR = 9.0

_ROOM_FOR_BAR = 0.24  # after an I, whose stem the bar would reach: It would read as H

_MIN_TALL = 1.65  # tall letters stay tall, or an l reads as an e

_WAVES = ((2.6, 0.075), (1.7, 0.05), (1.1, 0.022))
"""Lengths and heights of the field that bends a letter, in x-heights."""


class BentLetters:
    """The letters of many words, bent; x is from each letter's own origin until they are set side by side."""

    def __init__(self, tables: LetterTables, forms: Integers, words: Integers, seeds: Seeds, manner: Manner) -> None:
        self.tables, self.forms, self.words, self.manner = tables, forms, words, manner
        place = np.arange(len(forms)) - np.searchsorted(words, words)
        with np.errstate(over="ignore"):
            self.noise: Bytes = random_bytes(seeds[words] + place.astype(np.uint64) * np.uint64(0x632BE59BD9B4E019), 64)
        self.normal = normals(self.noise)
        self.line, self.line_letter = expand(tables.line_starts, forms)
        self.knot, self.knot_line = expand(tables.knot_starts, self.line)
        self.line_starts = np.concatenate([[0], np.cumsum(np.bincount(self.knot_line, minlength=len(self.line)))])
        self.letter = self.line_letter[self.knot_line]
        self.kind = tables.kinds[self.line]
        line_in_form = self.line - tables.line_starts[forms][self.line_letter]
        self.is_entry = line_in_form == tables.entries[forms][self.line_letter]
        self.is_exit = line_in_form == tables.exits[forms][self.line_letter]
        self.first_knot = self.line_starts[np.searchsorted(self.line_letter, np.arange(len(forms)))]
        self.x, self.y = self._warp()
        self._displace_late_lines()

    def _warp(self) -> tuple[Floats, Floats]:
        """One smooth field for all lines of a letter, so that what touches keeps touching."""
        tables, letter, n, m = self.tables, self.letter, self.normal, self.manner.warp
        x, y = tables.knots[self.knot].T
        form = self.forms

        def of(values: npt.NDArray[Any]) -> Floats:
            return values[letter]

        body, above, below = np.clip(y, 0, 1), np.maximum(y - 1, 0), np.minimum(y, 0)
        new_y = body * of(1 + 0.055 * m * n[:, 0]) + above * of(np.exp(0.12 * m * n[:, 1]))
        new_y += below * of(np.exp(0.15 * m * n[:, 2]))
        tops = np.full(len(form), -_FAR)
        np.maximum.at(tops, letter, new_y)
        is_low = tables.is_tall[form] & (tops < _MIN_TALL)
        lift = np.where(is_low, (_MIN_TALL - 1) / np.maximum(tops - 1, 0.3), 1.0)
        new_y += np.maximum(new_y - 1, 0) * of(lift - 1)
        middle = tables.advances[form] / 2
        width = np.exp(0.1 * m * n[:, 6])
        new_x = of(middle) + (x - of(middle)) * of(width)
        for axis, limb, column in ((tables.axis_above, above, 7), (tables.axis_below, -below, 8)):
            fatter: Floats = np.clip(0.22 * m * n[:, column], -0.35, 0.5)
            new_x += (x - of(axis[form])) * np.clip(limb / 0.5, 0, 1) * of(fatter)
        new_x += y * of(0.045 * m * n[:, 3]) + above * of(0.06 * m * n[:, 4]) + below * of(0.09 * m * n[:, 5])
        for number, (length, height) in enumerate(_WAVES):
            turns = self.noise[:, 40 + 2 * number : 42 + 2 * number] * (2 * np.pi / 256)
            across = x * of(np.cos(turns[:, 0])) + y * of(np.sin(turns[:, 0]))
            wave = np.sin(2 * np.pi / length * across + of(turns[:, 1])) * (height * m)
            new_x += wave * of(n[:, 12 + 2 * number])
            new_y += wave * of(n[:, 13 + 2 * number])
        turn = 0.028 * m * n[:, 9]
        new_x, new_y = new_x - of(turn) * (y - 0.4), new_y + of(turn) * (x - of(middle)) + of(0.03 * m * n[:, 10])
        self.width = width
        return new_x, new_y

    def _displace_late_lines(self) -> None:
        """Bars and dots come too far right, too high, at another angle, longer or shorter."""
        late = np.flatnonzero(self.kind[self.knot_line] != LineKind.BODY)
        if not len(late):
            return
        line, letter, m = self.knot_line[late], self.letter[late], self.manner.warp
        n = self.normal
        count = np.maximum(np.bincount(self.knot_line, minlength=len(self.line)), 1)
        middle_x = (np.bincount(self.knot_line, self.x, len(self.line)) / count)[line]
        middle_y = (np.bincount(self.knot_line, self.y, len(self.line)) / count)[line]
        is_dot = self.kind[line] == LineKind.DOT
        is_i_dot = is_dot & self.tables.is_letter[self.forms[letter]]
        angle, stretch = 0.09 * m * n[letter, 18], np.exp(0.16 * m * n[letter, 19])
        across = np.where(is_dot, 0.10 + 0.12 * n[letter, 20], 0.03 + 0.08 * n[letter, 20]) * m
        rise = np.where(is_dot, 0.10 * n[letter, 21], 0.02 + 0.08 * n[letter, 21]) * m
        is_mark = is_dot & ~is_i_dot
        across, rise = np.where(is_mark, 0.0, across), np.where(is_mark, 0.0, rise)
        x, y = self.x[late] - middle_x, self.y[late] - middle_y
        self.x[late] = middle_x + across + (x - angle * y) * stretch
        self.y[late] = middle_y + rise + (y + angle * x) * stretch

    def set_side_by_side(self, spacing: float) -> Floats:
        """Where each letter begins: by the ink between neighbors, not by what a typeface would advance."""
        left, right = self.profiles()
        tables, form, pace = self.tables, self.forms, self.manner.pace
        follows = np.flatnonzero(self.words[1:] == self.words[:-1])
        nearest = _nearest(left[follows + 1], right[follows], ~tables.is_alnum[form[follows]])
        extra = 0.06 * pace * np.abs(self.normal[follows + 1, 22])
        usual = tables.advances[form[follows]] * self.width[follows] + spacing + 0.04 * pace * self.normal[follows, 11]
        step = _steps(tables, form[follows], form[follows + 1], nearest, usual, extra)
        starts = np.zeros(len(form))
        starts[follows + 1] = step
        total = np.cumsum(starts)
        first = np.searchsorted(self.words, self.words)
        offset: Floats = total - total[first]
        self.x = self.x + offset[self.letter]
        return offset

    def profiles(self) -> tuple[Floats, Floats]:
        """How far each letter's ink reaches left and right in each band; the tail of an exit does not count."""
        is_letter = self.tables.is_letter[self.forms][self.letter]
        body = (self.kind[self.knot_line] == LineKind.BODY) | ~is_letter
        last = np.zeros(len(body), np.bool_)
        last[self.line_starts[1:] - 1] = True
        long_exit = (self.is_exit & (np.diff(self.line_starts) > 4))[self.knot_line]
        counts = body & ~(last & long_exit)
        knots = np.flatnonzero(counts)
        pairs = np.flatnonzero(counts[:-1] & counts[1:] & (self.knot_line[1:] == self.knot_line[:-1]))
        x = np.concatenate([self.x[knots], (self.x[pairs] + self.x[pairs + 1]) / 2])
        y = np.concatenate([self.y[knots], (self.y[pairs] + self.y[pairs + 1]) / 2])
        x = x - self.tables.hand.slant * y
        letter = np.concatenate([self.letter[knots], self.letter[pairs]])
        band = np.clip(np.floor((y - _BAND_BOTTOM) / _BAND_HEIGHT).astype(np.int64) + 1, 0, _BANDS - 1)
        left = np.full((len(self.forms), _BANDS), 2 * _FAR)
        right = np.full((len(self.forms), _BANDS), -2 * _FAR)
        np.minimum.at(left, (letter, band), x)
        np.maximum.at(right, (letter, band), x)
        # Neighbors in height come close as well.
        left[:, 1:] = np.minimum(left[:, 1:], left[:, :-1])
        left[:, :-1] = np.minimum(left[:, :-1], left[:, 1:])
        right[:, 1:] = np.maximum(right[:, 1:], right[:, :-1])
        right[:, :-1] = np.maximum(right[:, :-1], right[:, 1:])
        return left, right


def _nearest(left: Floats, right: Floats, after_mark: Flags) -> Floats:
    """How near letters come, set at the same place. After a mark as a whole: a point must not slip under a 7."""
    nearest = (left - right).min(axis=1)
    is_whole = after_mark | (np.abs(nearest) > _FAR)
    return np.where(is_whole, left.min(axis=1) - right.max(axis=1), nearest)


def _steps(
    tables: LetterTables, here: Integers, there: Integers, nearest: Floats, usual: Floats, extra: Floats | float = 0.0
) -> Floats:
    """From the start of one letter to the start of the next: by the ink between, within what looks even."""
    has_exit = (tables.exits[here] >= 0) & tables.can_be_met[there]
    is_mark = ~tables.is_alnum[there]
    # A thick pen needs more room, or its stems run together.
    stroke = 2 * tables.hand.pen
    low = stroke + np.where(is_mark, 0.14, np.where(has_exit, 0.18, 0.12))
    low += np.where(tables.is_i[here] & tables.has_bar[there], _ROOM_FOR_BAR, 0.0)
    high = low + np.where(is_mark, 0.17, np.where(has_exit, 0.28, 0.18)) + extra
    steps: Floats = np.where(tables.is_tight[there], usual, np.clip(usual + nearest, low, high) - nearest)
    return steps


class UsualSpaces:
    """How letters in these forms stand when nothing is bent."""

    def __init__(self, tables: LetterTables, forms: Integers, spacing: float) -> None:
        count = len(forms)
        letters = BentLetters(tables, forms, np.arange(count), np.zeros(count, np.uint64), Manner(0, 0, 0, 0))
        self._tables, self._forms, self._spacing = tables, forms, spacing
        self._left, self._right = letters.profiles()
        self.edges = np.stack([self._left.min(axis=1), self._right.max(axis=1)], axis=1)

    def steps(self, pairs: Integers) -> Floats:
        """For rows of two letters, from the start of the first to the start of the second."""
        here, there = pairs.T
        is_mark = ~self._tables.is_alnum[self._forms[here]]
        nearest = _nearest(self._left[there], self._right[here], is_mark)
        usual = self._tables.advances[self._forms[here]] + self._spacing
        return _steps(self._tables, self._forms[here], self._forms[there], nearest, usual)
