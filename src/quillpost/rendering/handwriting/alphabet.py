"""The characters of a natural hand: its own, and those that are put together when they are first needed."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from threading import Lock

import numpy as np

from quillpost.rendering.handwriting.accents import compose_accented
from quillpost.rendering.handwriting.bent_letters import UsualSpaces
from quillpost.rendering.handwriting.letter_tables import LetterTables
from quillpost.rendering.handwriting.letterforms import HandForms, Letterform
from quillpost.rendering.handwriting.outlines import Floats

_MIN_WIDTH = 0.05  # in x-heights
_CHARS_PER_BLOCK = 64
_FIGURES = "0123456789"
_CAPITALS, _CAPITALS_OF_HELPER = "BDEHKLMNPR", "ВДЕНКМРЕЗПИ"
_ROUND, _ROUND_OF_HELPER = "aceo", "асео"
_MIN_RATIO, _MAX_RATIO = 0.7, 1.7


@dataclass(frozen=True, eq=False)
class Letters:
    """Characters by number, ready to write with; measures are in x-heights. More are added to the end only."""

    forms: HandForms
    spacing: float

    @cached_property
    def tables(self) -> LetterTables:
        return LetterTables(self.forms)

    @cached_property
    def numbers(self) -> dict[str, int]:
        return {char: number for number, char in enumerate(self.forms.forms)}

    @cached_property
    def tops(self) -> list[float]:
        return [max(float(line.knots[:, 1].max()) for form in forms for line in form.lines) for forms in self._forms]

    @cached_property
    def bottoms(self) -> list[float]:
        return [min(float(line.knots[:, 1].min()) for form in forms for line in form.lines) for forms in self._forms]

    @cached_property
    def usual_spaces(self) -> UsualSpaces:
        """Between forms of medium width."""
        usual_forms = [self.tables.first_form[char] + _medium_form(forms) for char, forms in self.forms.forms.items()]
        return UsualSpaces(self.tables, np.array(usual_forms, np.int64), self.spacing)

    @property
    def _forms(self) -> Iterable[tuple[Letterform, ...]]:
        return self.forms.forms.values()


def _medium_form(forms: Sequence[Letterform]) -> int:
    widths = [float(np.ptp(np.concatenate([line.knots[:, 0] for line in form.lines]))) for form in forms]
    return sorted(range(len(forms)), key=widths.__getitem__)[len(forms) // 2]


def _top(hand: HandForms, chars: str) -> float:
    """The median of how high these letters are."""
    return float(
        np.median([max(_knots(form)[:, 1].max() for form in hand.forms[char]) for char in chars if char in hand.forms])
    )


def _width(hand: HandForms, chars: str) -> float:
    return float(
        np.mean(
            [
                np.ptp(_knots(form)[:, 0] - hand.slant * _knots(form)[:, 1])
                for char in chars
                for form in hand.forms[char]
            ]
        )
    )


def _knots(form: Letterform) -> Floats:
    return np.concatenate([line.knots for line in form.lines])


def _ratio(one: float, other: float) -> float:
    return float(np.clip(one / max(other, 0.1), _MIN_RATIO, _MAX_RATIO))


def _bring(form: Letterform, slant: float, new_slant: float, widening: float, growth: float) -> Letterform:
    """The form in another hand's measures: what rises over the x-height grows."""

    def bring(knots: Floats) -> Floats:
        x, y = knots.T
        new_y = np.minimum(y, 1) + growth * np.maximum(y - 1, 0)
        return np.stack([widening * (x - slant * y) + new_slant * new_y, new_y], axis=1)

    lines = tuple(replace(line, knots=bring(line.knots)) for line in form.lines)
    return replace(form, lines=lines, advance=form.advance * widening)


class Alphabet:
    """Accents are composed, and letters that only the helper has are leaned, a block of the code at a time."""

    def __init__(self, own: HandForms, helper: HandForms, spacing: float) -> None:
        self._own, self._helper = own, helper
        self.letters = Letters(own, spacing)
        self._can_write: dict[str, bool] = {}
        self._steps: dict[tuple[int, int], float] = {}
        self._lock = Lock()

    @property
    def pen(self) -> float:
        return self._own.pen

    @property
    def cap_height(self) -> float:
        return _top(self._own, _CAPITALS)

    def __contains__(self, char: object) -> bool:
        """The space is written by leaving it out."""
        if char in self.letters.numbers or char == " ":
            return True
        assert isinstance(char, str)
        if char not in self._can_write:
            self._can_write[char] = self._make_forms(char) is not None
        return self._can_write[char]

    def count_forms(self, char: str) -> int:
        return len(self.letters.forms.forms.get(char, ()))

    def read(self, text: str) -> tuple[int, ...]:
        """The numbers of its characters, all of which must be in the alphabet."""
        try:
            return tuple(map(self.letters.numbers.__getitem__, text))
        except KeyError:
            self._add_blocks({ord(char) // _CHARS_PER_BLOCK for char in text})
            return tuple(map(self.letters.numbers.__getitem__, text))

    def width(self, chars: Sequence[int]) -> float:
        """From where to where a word of usual forms goes."""
        spaces = self.letters.usual_spaces
        try:
            reach = sum(map(self._steps.__getitem__, pairwise(chars)))
        except KeyError:
            missing = [pair for pair in dict.fromkeys(pairwise(chars)) if pair not in self._steps]
            self._steps |= zip(missing, spaces.steps(np.array(missing)).tolist(), strict=True)
            reach = sum(map(self._steps.__getitem__, pairwise(chars)))
        left, right = float(spaces.edges[chars[0], 0]), float(spaces.edges[chars[-1], 1])
        return max(reach + right - left, _MIN_WIDTH)

    @cached_property
    def figure_places(self) -> dict[tuple[str, int], int]:
        """All forms of figures: their places in `figure_steps`."""
        own = self._own.forms
        pairs = [(char, form) for char in _FIGURES for form in range(len(own.get(char, ())))]
        return {pair: place for place, pair in enumerate(pairs)}

    @cached_property
    def figure_steps(self) -> list[list[float]]:
        """From where each figure in each form begins to where any other does that follows it."""
        places, tables = self.figure_places, self.letters.tables
        forms = np.array([tables.first_form[char] + form for char, form in places], np.int64)
        pairs = np.stack(np.meshgrid(np.arange(len(forms)), np.arange(len(forms)), indexing="ij"), axis=-1)
        steps = UsualSpaces(tables, forms, self.letters.spacing).steps(pairs.reshape(-1, 2))
        rows: list[list[float]] = steps.reshape(len(forms), len(forms)).tolist()
        return rows

    def is_number(self, text: str) -> bool:
        """Whether it is made of figures of the hand's own, and of several."""
        return len(text) > 1 and self._own_figures.issuperset(text)

    @cached_property
    def _own_figures(self) -> frozenset[str]:
        return frozenset(_FIGURES) & self._own.forms.keys()

    def _add_blocks(self, blocks: Iterable[int]) -> None:
        with self._lock:
            forms = dict(self.letters.forms.forms)
            for block in sorted(blocks):
                for char in map(chr, range(block * _CHARS_PER_BLOCK, (block + 1) * _CHARS_PER_BLOCK)):
                    if char not in forms and (made := self._make_forms(char)):
                        forms[char] = made
            self.letters = Letters(replace(self._own, forms=forms), self.letters.spacing)

    def _make_forms(self, char: str) -> tuple[Letterform, ...] | None:
        if char in self._helped.forms:
            return self._helped.forms[char]
        composed = compose_accented(char, self._own.forms, slant=self._own.slant)
        return composed or compose_accented(char, self._helped.forms, slant=self._own.slant)

    @cached_property
    def _helped(self) -> HandForms:
        """The helper's letters as wide and as tall as this hand's, and with its lean."""
        widening = _ratio(_width(self._own, _ROUND), _width(self._helper, _ROUND_OF_HELPER))
        growth = _ratio(_top(self._own, _CAPITALS) - 1, _top(self._helper, _CAPITALS_OF_HELPER) - 1)
        forms = {
            char: tuple(_bring(form, self._helper.slant, self._own.slant, widening, growth) for form in forms)
            for char, forms in self._helper.forms.items()
        }
        return HandForms(forms, self._own.pen, self._own.slant)
