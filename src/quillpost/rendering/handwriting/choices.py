"""Which form each letter of a note takes: by habit, and never the one that it had last where there are others."""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

import numpy as np

from quillpost.rendering.handwriting.noise import mix, random_bytes

VARIANTS = 12
"""So many ways in which a hand writes the same note."""

_CYCLE = 60
_NO_FORM = 255

Choice = bytes
"""The form of each letter of a word, counted from its first."""


class FormChooser:
    """Ordinary words follow each other in a rhythm of forms. Names and figures, which differ by recipient, fit
    in between and leave the rhythm alone: so the words that all notes of a batch share are written but a few times.
    """

    def __init__(self, count_forms: Callable[[str], int]) -> None:
        self._count_forms = count_forms
        self._rhythms: dict[str, list[bytes]] = {}
        self.choose_in_note = lru_cache(maxsize=4_000)(self._choose_in_note)
        self.choose_between = lru_cache(maxsize=50_000)(self._choose_between)

    def _choose_in_note(
        self, words: tuple[str | None, ...], variant: int
    ) -> tuple[tuple[Choice, ...], tuple[dict[str, int], ...]]:
        """For ordinary words their forms; for each None, where a name is, how often each character came before."""
        occurrences: dict[str, int] = {}
        choices: list[Choice] = []
        counts: list[dict[str, int]] = []
        for chars in words:
            if chars is None:
                counts.append(dict(occurrences))
                continue
            forms = bytearray()
            for char in chars:
                count = occurrences.get(char, 0)
                forms.append(self._rhythm(char)[variant][count % _CYCLE])
                occurrences[char] = count + 1
            choices.append(bytes(forms))
        return tuple(choices), tuple(counts)

    def _choose_between(self, chars: str, occurrences: tuple[int, ...], variant: int) -> Choice:
        """For a word between ordinary ones: neither the form before nor, if there is a third, the one after."""
        last: dict[str, int] = {}
        forms = bytearray()
        for place, (char, count) in enumerate(zip(chars, occurrences, strict=True)):
            rhythm = self._rhythm(char)[variant]
            before = last.get(char, rhythm[(count - 1) % _CYCLE] if count else _NO_FORM)
            after = rhythm[count % _CYCLE]
            others = [form for form in range(self._count_forms(char)) if form != before] or [0]
            free = [form for form in others if form != after] or others
            form = free[(variant + place) % len(free)]
            last[char] = form
            forms.append(form)
        return bytes(forms)

    def choose_figures(self, figures: str, counts: dict[str, int], variant: int) -> Choice:
        """For a number between words, by turns; `counts` has how often each figure was in the note, and is kept up."""
        forms = bytearray()
        for figure in figures:
            count = counts.get(figure, 0)
            counts[figure] = count + 1
            forms.append((variant + count) % self._count_forms(figure))
        return bytes(forms)

    def _rhythm(self, char: str) -> list[bytes]:
        if char not in self._rhythms:
            self._rhythms[char] = _make_rhythms(ord(char), self._count_forms(char))
        return self._rhythms[char]


def _make_rhythms(char: int, count: int) -> list[bytes]:
    """For each variant an endless round of forms: all come before one recurs, and no two of them the same in a row."""
    if count == 1:
        return [bytes(_CYCLE)] * VARIANTS
    seeds = mix(np.arange(VARIANTS, dtype=np.uint64) * np.uint64(1009) + np.uint64(char))
    rhythms = []
    for noise in random_bytes(seeds, _CYCLE).tolist():
        forms: list[int] = []
        while len(forms) < _CYCLE:
            forms += _shuffle(range(count), noise[len(forms) :], forms[-1:])
        forms = forms[:_CYCLE]
        if forms[-1] == forms[0]:  # the round closes
            forms[-1] = next((form for form in range(count) if form not in (forms[0], forms[-2])), 1 - forms[0])
        rhythms.append(bytes(forms))
    return rhythms


def _shuffle(forms: Iterable[int], noise: Sequence[int], last: Sequence[int]) -> list[int]:
    """In any order that does not begin with what came last."""
    left = list(forms)
    shuffled: list[int] = []
    for number in noise[: len(left)]:
        free = [form for form in left if shuffled or form not in last]
        form = free[number % len(free)]
        left.remove(form)
        shuffled.append(form)
    return shuffled
