"""Numbers in a natural hand: no two recipients share one, so they are made of figures that are written a few times."""

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

from quillpost.rendering.handwriting.choices import Choice
from quillpost.rendering.handwriting.fonts import UNITS_PER_EM
from quillpost.rendering.handwriting.text import HAND_FONT, PALE_FONT
from quillpost.rendering.handwriting.word_fonts import SPACE_CODE, WordFonts, in_font
from quillpost.rendering.handwriting.words import X_HEIGHT, NaturalHand, WordKey, WrittenWord

_TIMES = 8  # each form of a figure is written so often
_STRIDE = 5
_ROOM = 0.2  # ems: a reader of the page sees a space behind a narrow figure that takes up only its ink
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
    font: int
    code: bytes
    form: int  # among all forms of figures
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
            self._figures[key] = _Figure(*self._fonts.add(word, key[0], _ROOM), place, word)
        return [self._show_figures([*map(self._figures.__getitem__, row)]) for row in rows]

    def _show_figures(self, figures: Sequence[_Figure]) -> ShownNumber:
        """Side by side as letters are."""
        steps, scale = self._hand.alphabet.figure_steps, X_HEIGHT
        begin, end, start = 0.0, 0.0, 0.0
        left = right = bottom = top = 0.0
        before: _Figure | None = None
        moves, pale_moves = [], []
        for figure in figures:
            word = figure.word
            if before:
                begin += steps[before.form][figure.form] * scale
                moves.append(begin - word.origin - end - _ROOM)
                pale_moves.append(begin - word.origin - start)
            else:
                begin = word.origin
            start = begin - word.origin
            end = start + word.advance
            left, right = max(left, word.left - start), max(right, end + word.right)
            bottom, top = max(bottom, word.bottom), max(top, word.top)
            before = figure
        dark, pale = _show_spread(HAND_FONT, figures, moves), _show_spread(PALE_FONT, figures, pale_moves)
        return ShownNumber(_SPACE + dark + _SPACE, pale, (end, left, right - end, bottom, top))


def _show_spread(name: bytes, figures: Sequence[_Figure], moves: Sequence[float]) -> bytes:
    """After each figure but the last the way to the next."""
    steps = [*(-round(move * UNITS_PER_EM) for move in moves), 0]
    operators = []
    for font, group in groupby(zip(figures, steps, strict=True), key=lambda placed: placed[0].font):
        shown = b"".join([b"(%b)%d" % (figure.code, step) for figure, step in group])
        operators.append(in_font(name, font, b"[%b]TJ\n" % shown))
    return b"".join(operators)
