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
from quillpost.rendering.handwriting.letterforms import HandForms, Letterform, lean_form

_MIN_WIDTH = 0.05  # in x-heights
_CHARS_PER_BLOCK = 64
_CAPITALS = "BDEHKLMNPR"
_FIGURES = "0123456789"


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
        tops = [self.letters.tops[self.letters.numbers[char]] for char in _CAPITALS if char in self._own.forms]
        return float(np.median(tops))

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
        pairs = [*pairwise(chars)]
        spaces = self.letters.usual_spaces
        missing = [pair for pair in dict.fromkeys(pairs) if pair not in self._steps]
        if missing:
            self._steps |= zip(missing, spaces.steps(np.array(missing)).tolist(), strict=True)
        left, right = float(spaces.edges[chars[0], 0]), float(spaces.edges[chars[-1], 1])
        return max(sum(map(self._steps.__getitem__, pairs)) + right - left, _MIN_WIDTH)

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
        return steps.reshape(len(forms), len(forms)).tolist()

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
        lean = self._own.slant - self._helper.slant
        if char in self._helper.forms:
            return tuple(lean_form(form, lean) for form in self._helper.forms[char])
        composed = compose_accented(char, self._own.forms, slant=self._own.slant)
        if composed is None:
            helped = compose_accented(char, self._helper.forms, slant=self._helper.slant)
            composed = helped and tuple(lean_form(form, lean) for form in helped)
        return composed
