"""Numbers in a natural hand: no two recipients share one, so they are made of figures that are written a few times."""

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from quillpost.rendering.handwriting.choices import Choice
from quillpost.rendering.handwriting.fonts import UNITS_PER_EM
from quillpost.rendering.handwriting.text import HAND_FONT, PALE_FONT
from quillpost.rendering.handwriting.word_fonts import SPACE_CODE, WordFonts, in_font
from quillpost.rendering.handwriting.words import X_HEIGHT, NaturalHand, WordKey, WrittenWord

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
    """In the fonts, and among all forms of figures; lengths are in units of the fonts."""

    font: int
    code: bytes
    form: int
    origin: int
    advance: int
    word: WrittenWord


class NumberWriter:
    """Puts numbers together of figures, each of which is in the fonts once."""

    def __init__(self, hand: NaturalHand, fonts: WordFonts) -> None:
        self._hand, self._fonts = hand, fonts
        self._figures: dict[tuple[str, int, int, str], _Figure] = {}

    def show(self, numbers: Sequence[Number]) -> list[ShownNumber]:
        rows = [
            [
                (figure, form, (number + _STRIDE * place) % _TIMES, manner)
                for place, (figure, form) in enumerate(zip(figures, choice, strict=True))
            ]
            for figures, choice, number, manner in numbers
        ]
        missing = [*dict.fromkeys([key for row in rows for key in row if key not in self._figures])]
        keys = [WordKey(figure, bytes([form]), time, manner) for figure, form, time, manner in missing]
        for key, word in zip(missing, self._hand.write(keys), strict=True):
            place = self._hand.alphabet.figure_places[key[:2]]
            lengths = round(word.origin * UNITS_PER_EM), round(word.advance * UNITS_PER_EM)
            self._figures[key] = _Figure(*self._fonts.add(word, key[0], _ROOM / UNITS_PER_EM), place, *lengths, word)
        return [self._show_figures([*map(self._figures.__getitem__, row)]) for row in rows]

    def _show_figures(self, figures: Sequence[_Figure]) -> ShownNumber:
        """Side by side as letters are."""
        begin, form = figures[0].origin, figures[0].form
        starts: list[int] = []
        for figure in figures:
            begin += self._steps[form][figure.form] if starts else 0
            form = figure.form
            starts.append(begin - figure.origin)
        ends = [start + figure.advance for start, figure in zip(starts, figures, strict=True)]
        dark_moves = [end + _ROOM - start for start, end in zip(starts[1:], ends, strict=False)]
        pale_moves = [start - after for start, after in pairwise(starts)]
        dark, pale = _show_spread(HAND_FONT, figures, dark_moves), _show_spread(PALE_FONT, figures, pale_moves)
        words, width = [figure.word for figure in figures], ends[-1] / UNITS_PER_EM
        measures = (
            width,
            max([word.left - start / UNITS_PER_EM for word, start in zip(words, starts, strict=True)]),
            max([word.right + end / UNITS_PER_EM for word, end in zip(words, ends, strict=True)]) - width,
            max([word.bottom for word in words]),
            max([word.top for word in words]),
        )
        return ShownNumber(b"%b%b%b" % (_SPACE, dark, _SPACE), pale, measures)

    @cached_property
    def _steps(self) -> list[list[int]]:
        steps = np.array(self._hand.alphabet.figure_steps) + _LEAN_ROOM
        return np.rint(steps * X_HEIGHT * UNITS_PER_EM).astype(np.int64).tolist()


def _show_spread(name: bytes, figures: Sequence[_Figure], moves: Sequence[int]) -> bytes:
    """After each figure but the last the way back from it to the next."""
    codes = [figure.code for figure in figures]
    if any(figure.font for figure in figures):
        placed = zip(figures, [*moves, 0], strict=True)
        return b"".join([in_font(name, figure.font, b"[(%b)%d]TJ\n" % (figure.code, move)) for figure, move in placed])
    return b"[(%b)]TJ\n" % b"".join([codes[0], *[b")%d(%b" % pair for pair in zip(moves, codes[1:], strict=True)]])
