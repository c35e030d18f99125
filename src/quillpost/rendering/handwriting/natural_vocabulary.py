"""Words in a natural hand: each is written several times, and is a glyph each time."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from quillpost.rendering.handwriting.choices import VARIANTS, Choice
from quillpost.rendering.handwriting.fonts import UNITS_PER_EM
from quillpost.rendering.handwriting.noise import mix
from quillpost.rendering.handwriting.numbers import Number, NumberWriter
from quillpost.rendering.handwriting.text import HAND_FONT, PALE_FONT, BorrowedText, NaturalRun, SpelledWord
from quillpost.rendering.handwriting.vocabulary import GrowingTable, Integers, ShownWords, Vocabulary
from quillpost.rendering.handwriting.word_fonts import SPACE_ADVANCE, SPACE_CODE, WordFont, WordFonts, in_font, move_on
from quillpost.rendering.handwriting.words import NaturalHand, WordKey, WrittenWord

_PART_GAP = 0.06  # between letters of the hand and borrowed ones, in ems
_LINE_MANNER = "neat"
_NAME_NUMBERS = 3
_GAP, _NO_WORD = -1, -2
_MOST_TIMES = 100_000  # no note has so many words
_ONLY = np.zeros(1, np.int64)


class _Request(NamedTuple):
    """A word as a note needs it: `number` tells apart words of the same forms."""

    word: int
    choice: Choice
    number: int
    manner: str


@dataclass(frozen=True, slots=True)
class _Plan:
    """How words that notes share are written, by their places.

    Between them are `gaps`, each for a word of a note's own, with how often each character came before.
    """

    shared: list[tuple[int, _Request]]
    gaps: list[tuple[int, dict[str, int]]]


class _Column(NamedTuple):
    """One place of several notes: the ways in which it is written, and which of them each note has."""

    place: int
    requests: list[_Request]
    choices: Integers


class NaturalVocabulary(Vocabulary):
    """The fonts are made when all words are known."""

    def __init__(self, hand: NaturalHand) -> None:
        super().__init__(hand)
        self.hand = hand
        self.tint = hand.pen.tint
        self.space = b"(%b)Tj\n" % SPACE_CODE
        self._fonts = WordFonts(has_pale_ink=self.tint > 0)
        self._numbers = NumberWriter(hand, self._fonts)
        self._chars: list[str] = []
        self._is_ordinary: list[bool] = []
        self._are_figures: list[bool] = []
        self._plans: dict[tuple[bytes, int, str], _Plan] = {}
        self._shown: dict[_Request, int] = {}
        self._operators = [b""]
        self._pale_operators = [b""]
        self._shown_measures = GrowingTable(5)
        self._shown_measures.append([[0.0] * 5])

    def show(self, words: Integers, seeds: Sequence[int], manners: Sequence[str]) -> ShownWords:
        self._read_new_words()
        is_ordinary = np.array([*self._is_ordinary, False])
        shared = np.where(is_ordinary[words], words, _GAP)
        shared[words < 0] = _NO_WORD
        lengths = (words >= 0).sum(axis=1).tolist()
        notes: dict[tuple[bytes, int, str], list[int]] = {}
        rows_of = zip(shared, lengths, _variants(seeds), manners, strict=True)
        for number, (row, length, variant, manner) in enumerate(rows_of):
            notes.setdefault((row[:length].tobytes(), variant, manner), []).append(number)
        filled = [(np.array(rows), self._fill_columns(words[rows], *key)) for key, rows in notes.items()]
        shown = self._shown
        requests = dict.fromkeys(
            [request for _, columns in filled for column in columns for request in column.requests]
        )
        self._write([request for request in requests if request not in shown])
        numbers = np.zeros(words.shape, np.int64)
        for rows, columns in filled:
            for place, ways, choices in columns:
                numbers[rows, place] = np.array([shown[request] for request in ways])[choices]
        pale = np.array(self._pale_operators, object)[numbers] if self.tint else None
        return ShownWords(np.array(self._operators, object)[numbers], pale, self._shown_measures.take(numbers))

    def show_line(self, text: str) -> tuple[bytes, float]:
        words = np.array([self.word_numbers(text.split())], np.int64)
        shown = self.show(words, [0], [_LINE_MANNER])
        gap = b"[%d]TJ" % round(SPACE_ADVANCE - UNITS_PER_EM * self.style.word_gap)
        advances = shown.measures[0, :, 0] / self.style.scale
        width = float(advances.sum()) + self.style.word_gap * (len(advances) - 1)
        pale = [b""] * len(advances) if shown.pale_operators is None else shown.pale_operators[0].tolist()
        return gap.join(map(_in_one_tint, pale, shown.operators[0].tolist(), advances.tolist())), width

    def count_forms(self, char: str) -> int:
        return self.hand.count_forms(char)

    def show_form(self, char: str, form: int) -> tuple[bytes, float]:
        [word] = self.hand.write([WordKey(char, bytes([form]), 0, _LINE_MANNER)])
        dark, pale = self._show_word(word, char)
        return _in_one_tint(pale, dark, word.advance), word.advance

    def fonts(self) -> list[WordFont]:
        """Words of borrowed letters only, too, are shown with a space of the hand's."""
        return self._fonts.make_fonts(at_least=len(self._operators) > 1)

    def _read_new_words(self) -> None:
        for spelling in self._spellings[len(self._chars) :]:
            runs = [part for part in spelling.parts if isinstance(part, NaturalRun)]
            self._chars.append("".join([run.text for run in runs]))
            self._is_ordinary.append(spelling.text[:1].islower() and len(runs) == len(spelling.parts))
            self._are_figures.append(any(run.are_figures for run in runs))

    def _fill_columns(self, words: Integers, shared: bytes, variant: int, manner: str) -> list[_Column]:
        """Of notes that share a plan, in rows: how each place is written, in the order of places."""
        key = (shared, variant, manner)
        if key not in self._plans:
            self._plans[key] = self._plan_note(np.frombuffer(shared, np.int64).tolist(), variant, manner)
        plan = self._plans[key]
        columns = [_Column(place, [request], _ONLY) for place, request in plan.shared]
        own = words[:, [place for place, _ in plan.gaps]]
        times = np.zeros_like(own)  # how often a note had the same word before
        for column in range(1, len(plan.gaps)):
            times[:, column] = (own[:, :column] == own[:, column, None]).sum(axis=1)
        per_column = len(self._chars) * _MOST_TIMES
        kinds, choices = np.unique(
            own * _MOST_TIMES + times + np.arange(len(plan.gaps)) * per_column, return_inverse=True
        )
        choices = choices.reshape(own.shape)
        bounds = np.searchsorted(kinds, np.arange(len(plan.gaps) + 1) * per_column).tolist()
        words_and_times = [divmod(kind, _MOST_TIMES) for kind in (kinds % per_column).tolist()]
        counts: list[dict[str, int]] = [{} for _ in words]  # of figures
        for column, (place, occurrences) in enumerate(plan.gaps):
            start, end = bounds[column : column + 2]
            fill = partial(self._fill_gap, variant=variant, manner=manner, occurrences=occurrences)
            if any(self._are_figures[word] for word, _ in words_and_times[start:end]):
                written = zip([words_and_times[kind] for kind in choices[:, column].tolist()], counts, strict=True)
                requests = [fill(word, time, figures) for (word, time), figures in written]
                columns.append(_Column(place, requests, np.arange(len(requests))))
            else:
                requests = [fill(word, time, {}) for word, time in words_and_times[start:end]]
                columns.append(_Column(place, requests, choices[:, column] - start))
        return sorted(columns, key=lambda column: column.place)

    def _fill_gap(
        self, word: int, time: int, figures: dict[str, int], *, variant: int, manner: str, occurrences: dict[str, int]
    ) -> _Request:
        """How a note writes a word of its own, after so many times before; `figures` counts those that it wrote."""
        chars, chooser = self._chars[word], self.hand.chooser
        if self._are_figures[word]:
            choice = chooser.choose_figures(chars, figures, variant)
            return _Request(word, choice, variant + _NAME_NUMBERS * time, manner)
        choice = chooser.choose_between(chars, tuple([occurrences.get(char, 0) for char in chars]), variant)
        return _Request(word, choice, variant % _NAME_NUMBERS + _NAME_NUMBERS * time, manner)

    def _plan_note(self, numbers: Sequence[int], variant: int, manner: str) -> _Plan:
        chars = tuple([self._chars[number] if number >= 0 else None for number in numbers])
        choices, occurrences = self.hand.chooser.choose_in_note(chars, variant)
        choice, counts = iter(choices), iter(occurrences)
        plan = _Plan([], [])
        times: dict[int, int] = {}
        for place, word in enumerate(numbers):
            if word < 0:
                plan.gaps.append((place, next(counts)))
            else:
                number = times.get(word, 0)
                times[word] = number + 1
                plan.shared.append((place, _Request(word, next(choice), variant + VARIANTS * number, manner)))
        return plan

    def _write(self, requests: Sequence[_Request]) -> None:
        numbers = [request for request in requests if self._are_figures[request.word]]
        words = [request for request in requests if not self._are_figures[request.word]]
        keys: list[WordKey] = []
        for request in words:
            at = 0
            for part in self._spellings[request.word].parts:
                if isinstance(part, NaturalRun):
                    choice = request.choice[at : at + len(part.text)]
                    at += len(part.text)
                    keys.append(WordKey(part.text, choice, request.number, request.manner))
        written = iter(self.hand.write(keys))
        shown = [self._show_parts(self._spellings[request.word], written) for request in words]
        shown += self._numbers.show([Number(self._chars[number[0]], *number[1:]) for number in numbers])
        measures = []
        for request, (operators, pale, measure) in zip([*words, *numbers], shown, strict=True):
            self._shown[request] = len(self._operators)
            self._operators.append(operators)
            self._pale_operators.append(pale)
            measures.append([value * self.style.scale for value in measure])
        self._shown_measures.append(measures)

    def _show_parts(
        self, spelling: SpelledWord, written: Iterator[WrittenWord]
    ) -> tuple[bytes, bytes, Sequence[float]]:
        """Operators of the word and of its paler ink, and its measures."""
        if len(spelling.parts) == 1 and isinstance(spelling.parts[0], NaturalRun):
            word = next(written)
            return *self._show_word(word, spelling.text), _measures_of(word)
        operators, pale, advance, left, right = b"", b"", 0.0, 0.0, 0.0
        bottom, top = spelling.bottom, spelling.top
        for part in spelling.parts:
            if isinstance(part, NaturalRun):
                word = next(written)
                shown, shown_pale = self._show_word(word, part.text, begins=not operators, ends=False)
                gap = move_on(_PART_GAP)
                operators, pale = operators + shown + gap, pale + shown_pale + move_on(word.advance + _PART_GAP)
                left = max(left, word.left - advance)
                advance, right = advance + word.advance + _PART_GAP, word.right
                bottom, top = max(bottom, word.bottom), max(top, word.top)
            elif isinstance(part, BorrowedText):
                operators, pale = operators + self._borrow(part), pale + move_on(part.advance)
                left = max(left, 0.0 if advance else spelling.left)
                advance, right = advance + part.advance, spelling.right
        # Drawn as nothing, a space keeps words apart where the page is read as text.
        return operators + self.space, pale or b"\n", (advance, left, right, bottom, top)

    def _show_word(
        self, word: WrittenWord, text: str, *, begins: bool = True, ends: bool = True
    ) -> tuple[bytes, bytes]:
        """The word and its paler ink have the same codes: so both say the same, which deflates well."""
        font, code = self._fonts.add(word, text)
        shown = b"(%b%b%b)Tj\n" % (SPACE_CODE * begins, code, SPACE_CODE * ends)
        return in_font(HAND_FONT, font, shown), in_font(PALE_FONT, font, shown)


def _measures_of(word: WrittenWord) -> Sequence[float]:
    return word.advance, word.left, word.right, word.bottom, word.top


def _in_one_tint(pale: bytes, dark: bytes, advance: float) -> bytes:
    """Where a word is shown in one color, its paler ink has that, too: over it, or readers would drop the word."""
    if not pale.strip():
        return dark
    return b"%b%b%b 1 Tf%b%b 1 Tf%b" % (dark, move_on(-advance), PALE_FONT, pale, HAND_FONT, move_on(advance))


def _variants(seeds: Sequence[int]) -> list[int]:
    """All variants are equally frequent, whatever the seeds have in common."""
    numbers = mix(np.array([seed % 2**64 for seed in seeds], np.uint64)) % np.uint64(VARIANTS)
    return [int(number) for number in numbers]
