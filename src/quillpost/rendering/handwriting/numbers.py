"""Numbers in a natural hand: no two recipients share one, so they are made of figures that are written a few times."""

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from quillpost.rendering.handwriting.choices import Choice
from quillpost.rendering.handwriting.fonts import UNITS_PER_EM
from quillpost.rendering.handwriting.noise import Integers
from quillpost.rendering.handwriting.text import HAND_FONT, PALE_FONT
from quillpost.rendering.handwriting.word_fonts import SPACE_CODE, WordFonts, in_font
from quillpost.rendering.handwriting.words import X_HEIGHT, NaturalHand, WordKey

_TIMES = 8  # each form of a figure is written so often
_STRIDE = 5
_LEAN_ROOM = 0.12  # x-heights: each leans its own way, and knows nothing of its neighbors
_ROOM = 200  # units: a reader of the page sees a space behind a narrow figure that takes up only its ink
_SPACE = b"(%b)Tj\n" % SPACE_CODE


class Number(NamedTuple):
    figures: str
    choice: Choice
    number: int
    manner: str


class ShownNumber(NamedTuple):
    """Operators of its ink and of the paler ink, and its measures as those of a spelled word."""

    operators: bytes
    pale_operators: bytes
    measures: Sequence[float]


class _Figure(NamedTuple):
    """A written figure: its font and code, its form among all those of figures, lengths in units, and measures."""

    font: int
    code: bytes
    form: int
    origin: int
    advance: int
    left: float
    right: float
    bottom: float
    top: float


class _FigureRow(NamedTuple):
    """The figures of many numbers in one row: where each starts and ends in its number, in units of the fonts."""

    figures: Integers
    starts: Integers
    ends: Integers
    firsts: Integers  # where each number begins


class NumberWriter:
    """Puts numbers together of figures, each of which is in the fonts once."""

    def __init__(self, hand: NaturalHand, fonts: WordFonts) -> None:
        self._hand, self._fonts = hand, fonts
        self._places: dict[tuple[str, int, int, str], int] = {}
        self._figures: list[_Figure] = []

    def show(self, numbers: Sequence[Number]) -> list[ShownNumber]:
        if not numbers:
            return []
        keys = [
            (figure, form, (number + _STRIDE * place) % _TIMES, manner)
            for figures, choice, number, manner in numbers
            for place, (figure, form) in enumerate(zip(figures, choice, strict=True))
        ]
        self._write([*dict.fromkeys([key for key in keys if key not in self._places])])
        counts = np.array([len(number.figures) for number in numbers])
        row = self._put_side_by_side(np.array([*map(self._places.__getitem__, keys)]), np.cumsum(counts) - counts)
        before_starts, before_ends = np.roll(row.starts, 1), np.roll(row.ends, 1)
        dark = self._show_row(HAND_FONT, row, before_ends + _ROOM - row.starts)
        pale = self._show_row(PALE_FONT, row, before_starts - row.starts)
        measures = self._measure(row)
        return [
            ShownNumber(_SPACE + number + _SPACE, pale_number, measure)
            for number, pale_number, measure in zip(dark, pale, measures, strict=True)
        ]

    def _write(self, keys: Sequence[tuple[str, int, int, str]]) -> None:
        words = self._hand.write([WordKey(figure, bytes([form]), time, manner) for figure, form, time, manner in keys])
        for key, word in zip(keys, words, strict=True):
            place = self._hand.alphabet.figure_places[key[:2]]
            lengths = round(word.origin * UNITS_PER_EM), round(word.advance * UNITS_PER_EM)
            measures = word.left, word.right, word.bottom, word.top
            self._places[key] = len(self._figures)
            self._figures.append(
                _Figure(*self._fonts.add(word, key[0], _ROOM / UNITS_PER_EM), place, *lengths, *measures)
            )

    def _put_side_by_side(self, figures: Integers, firsts: Integers) -> _FigureRow:
        """As letters are."""
        table = np.array([(figure.form, figure.origin, figure.advance) for figure in self._figures])
        form, origin, advance = table[figures].T
        begins = np.cumsum(self._steps[np.roll(form, 1), form])
        counts = np.diff(firsts, append=len(figures))
        starts = begins - origin - np.repeat((begins - origin)[firsts], counts)
        return _FigureRow(figures, starts, starts + advance, firsts)

    def _show_row(self, name: bytes, row: _FigureRow, moves: Integers) -> list[bytes]:
        """Of each number its operators; `moves` go back to each figure but the first from the one before."""
        kinds, places = np.unique(moves, return_inverse=True)
        tokens = np.empty((len(moves), 2), object)
        tokens[:, 0] = np.array([b")%d(" % move for move in kinds.tolist()], object)[places]
        tokens[row.firsts, 0] = b"[("
        tokens[:, 1] = np.array([figure.code for figure in self._figures], object)[row.figures]
        flat, bounds = tokens.ravel().tolist(), [*row.firsts.tolist(), len(moves)]
        shown = [b"".join(flat[2 * first : 2 * end]) + b")]TJ\n" for first, end in pairwise(bounds)]
        fonts = np.array([figure.font for figure in self._figures])[row.figures]
        for number in np.flatnonzero(np.maximum.reduceat(fonts, row.firsts)).tolist():
            part = slice(bounds[number], bounds[number + 1])
            figures = [self._figures[figure] for figure in row.figures[part].tolist()]
            shown[number] = _show_in_fonts(name, figures, moves[part].tolist())
        return shown

    def _measure(self, row: _FigureRow) -> list[list[float]]:
        reaches = np.array([figure[-4:] for figure in self._figures])[row.figures]
        starts, ends = row.starts / UNITS_PER_EM, row.ends / UNITS_PER_EM
        lasts = np.append(row.firsts[1:], len(ends)) - 1
        reaches[:, 0] -= starts
        reaches[:, 1] += ends
        left, right, bottom, top = np.maximum.reduceat(reaches, row.firsts).T
        width = ends[lasts]
        measures: list[list[float]] = np.stack([width, left, right - width, bottom, top], axis=1).tolist()
        return measures

    @cached_property
    def _steps(self) -> Integers:
        steps = np.array(self._hand.alphabet.figure_steps) + _LEAN_ROOM
        return np.rint(steps * X_HEIGHT * UNITS_PER_EM).astype(np.int64)


def _show_in_fonts(name: bytes, figures: Sequence[_Figure], moves: Sequence[int]) -> bytes:
    """The same where a figure is in a further font: each by itself."""
    placed = zip(figures, [*moves[1:], 0], strict=True)
    return b"".join([in_font(name, figure.font, b"[(%b)%d]TJ\n" % (figure.code, move)) for figure, move in placed])
