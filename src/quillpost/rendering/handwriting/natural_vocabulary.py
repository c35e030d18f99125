"""Words in a natural hand: each is written several times, and is a glyph each time."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from quillpost.rendering.handwriting.choices import VARIANTS, Choice
from quillpost.rendering.handwriting.fonts import EMPTY_GLYPH, UNITS_PER_EM, GlyphRecord, assemble_glyphs
from quillpost.rendering.handwriting.noise import mix
from quillpost.rendering.handwriting.text import (
    HAND_FONT,
    PALE_FONT,
    BorrowedText,
    NaturalRun,
    SpelledWord,
    string_code,
)
from quillpost.rendering.handwriting.vocabulary import GrowingTable, Integers, ShownWords, Vocabulary
from quillpost.rendering.handwriting.words import NaturalHand, WordKey, WrittenWord

_SPACE_GLYPH = 1
_SPACE_ADVANCE = 0
"""Words are placed by themselves. A reader takes the first and the last glyph for letters, and what is up to half their
widths higher or lower for the same line: were they words, it would read lines as one."""
_FIRST_WORD_GLYPH = 2
_GLYPHS_PER_FONT = 60_000  # a glyph has two bytes
_PART_GAP = 0.06  # between letters of the hand and borrowed ones, in ems
_LINE_MANNER = "neat"
_NAME_NUMBERS = 3


class _Request(NamedTuple):
    """A word as a note needs it: `number` tells apart words of the same forms."""

    word: int
    choice: Choice
    number: int
    manner: str


@dataclass(frozen=True, slots=True)
class WordFont:
    """A font of written words, with each glyph's advance and text; `name` is that of its resource.

    A font of the same words' paler ink has nothing but spaces to be read, none of which takes up room.
    """

    name: bytes
    program: bytes
    advances: Mapping[int, int]
    texts: Mapping[int, str]
    box: tuple[int, int, int, int]


_Plan = tuple[list[_Request | None], list[tuple[int, dict[str, int]]]]


class NaturalVocabulary(Vocabulary):
    """The fonts are made when all words are known."""

    def __init__(self, hand: NaturalHand) -> None:
        super().__init__(hand)
        self.hand = hand
        self.tint = hand.pen.tint
        self.space = b"(%b)Tj\n" % _SPACE_CODE
        self._written: list[WrittenWord] = []
        self._texts: list[str] = []
        self._chars: list[str] = []
        self._is_ordinary: list[bool] = []
        self._plans: dict[tuple[tuple[int, ...], int, str], _Plan] = {}
        self._shown: dict[_Request, int] = {}
        self._operators = [b""]
        self._pale_operators = [b""]
        self._shown_measures = GrowingTable(5)
        self._shown_measures.append([[0.0] * 5])

    def show(self, words: Integers, seeds: Sequence[int], manners: Sequence[str]) -> ShownWords:
        self._read_new_words()
        rows = zip(words.tolist(), _variants(seeds), manners, strict=True)
        requests = [self._request_row(row, variant, manner) for row, variant, manner in rows]
        shown = self._shown
        self._write(dict.fromkeys([request for row in requests for request in row if request not in shown]))
        numbers = np.zeros(words.shape, np.int64)
        for row, row_requests in enumerate(requests):
            numbers[row, : len(row_requests)] = [*map(shown.__getitem__, row_requests)]
        pale = np.array(self._pale_operators, object)[numbers] if self.tint else None
        return ShownWords(np.array(self._operators, object)[numbers], pale, self._shown_measures.rows[numbers])

    def show_line(self, text: str) -> tuple[bytes, float]:
        words = np.array([self.word_numbers(text.split())], np.int64)
        shown = self.show(words, [0], [_LINE_MANNER])
        gap = b"[%d]TJ" % round(_SPACE_ADVANCE - UNITS_PER_EM * self.style.word_gap)
        advances = shown.measures[0, :, 0] / self.style.scale
        width = float(advances.sum()) + self.style.word_gap * (len(advances) - 1)
        pale = [b""] * len(advances) if shown.pale_operators is None else shown.pale_operators[0].tolist()
        return gap.join(map(_in_one_tint, pale, shown.operators[0].tolist())), width

    def count_forms(self, char: str) -> int:
        return self.hand.count_forms(char)

    def show_form(self, char: str, form: int) -> tuple[bytes, float]:
        [word] = self.hand.write([WordKey(char, bytes([form]), 0, _LINE_MANNER)])
        return _in_one_tint(*reversed(self._show_word(word, char))), word.advance

    def fonts(self) -> list[WordFont]:
        """Words of borrowed letters only, too, are shown with a space of the hand's."""
        has_shown_any = len(self._operators) > 1
        starts = range(0, max(len(self._written), has_shown_any), _GLYPHS_PER_FONT)
        layers = (False, True) if self.tint else (False,)
        return [
            self._make_font(number, start, is_pale=is_pale) for number, start in enumerate(starts) for is_pale in layers
        ]

    def _make_font(self, number: int, start: int, *, is_pale: bool) -> WordFont:
        words = self._written[start : start + _GLYPHS_PER_FONT]
        drawn = [word.pale_glyph if is_pale else word.glyph for word in words]
        glyphs: list[GlyphRecord] = [EMPTY_GLYPH, EMPTY_GLYPH, *drawn]
        boxes = np.array([glyph.box for glyph in glyphs])
        box = (*boxes[:, :2].min(axis=0).tolist(), *boxes[:, 2:].max(axis=0).tolist())
        if is_pale:
            # Were they as wide, readers would take each for its word written twice, and drop one.
            advances, texts = [0] * len(glyphs), [" "] * len(words)
        else:
            advances = [0, _SPACE_ADVANCE, *(round(word.advance * UNITS_PER_EM) for word in words)]
            texts = self._texts[start : start + _GLYPHS_PER_FONT]
        return WordFont(
            _font_name(PALE_FONT if is_pale else HAND_FONT, number),
            assemble_glyphs(UNITS_PER_EM, advances, glyphs),
            {glyph: advance for glyph, advance in enumerate(advances) if advance},
            dict(enumerate([" ", *texts], _SPACE_GLYPH)),
            box,
        )

    def _read_new_words(self) -> None:
        for spelling in self._spellings[len(self._chars) :]:
            runs = [part for part in spelling.parts if isinstance(part, NaturalRun)]
            self._chars.append("".join([run.text for run in runs]))
            self._is_ordinary.append(spelling.text[:1].islower() and len(runs) == len(spelling.parts))

    def _request_row(self, row: Sequence[int], variant: int, manner: str) -> list[_Request]:
        numbers = [number for number in row if number >= 0]
        is_ordinary = self._is_ordinary
        key = (tuple([number if is_ordinary[number] else -1 for number in numbers]), variant, manner)
        if key not in self._plans:
            self._plans[key] = self._plan_note(*key)
        requests, gaps = self._plans[key]
        filled = list(requests)
        times: dict[int, int] = {}
        for place, occurrences in gaps:
            word = numbers[place]
            chars = self._chars[word]
            counts = tuple([occurrences.get(char, 0) for char in chars])
            choice = self.hand.chooser.choose_between(chars, counts, variant)
            number = times.get(word, 0)
            times[word] = number + 1
            filled[place] = _Request(word, choice, variant % _NAME_NUMBERS + _NAME_NUMBERS * number, manner)
        return filled  # type: ignore[return-value]

    def _plan_note(self, numbers: tuple[int, ...], variant: int, manner: str) -> _Plan:
        chars = tuple([self._chars[number] if number >= 0 else None for number in numbers])
        choices, occurrences = self.hand.chooser.choose_in_note(chars, variant)
        choice, counts = iter(choices), iter(occurrences)
        requests: list[_Request | None] = []
        gaps: list[tuple[int, dict[str, int]]] = []
        times: dict[int, int] = {}
        for place, word in enumerate(numbers):
            if word < 0:
                requests.append(None)
                gaps.append((place, next(counts)))
            else:
                number = times.get(word, 0)
                times[word] = number + 1
                requests.append(_Request(word, next(choice), variant + VARIANTS * number, manner))
        return requests, gaps

    def _write(self, requests: Mapping[_Request, None]) -> None:
        keys: list[WordKey] = []
        for request in requests:
            at = 0
            for part in self._spellings[request.word].parts:
                if isinstance(part, NaturalRun):
                    choice = request.choice[at : at + len(part.text)]
                    at += len(part.text)
                    keys.append(WordKey(part.text, choice, request.number, request.manner))
        written = iter(self.hand.write(keys))
        measures = []
        for request in requests:
            operators, pale, measure = self._show_parts(self._spellings[request.word], written)
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
        for part in spelling.parts:
            if isinstance(part, NaturalRun):
                word = next(written)
                shown, shown_pale = self._show_word(word, part.text, begins=not operators, ends=False)
                gap = _move_on(_PART_GAP)
                operators, pale = operators + shown + gap, pale + shown_pale + _move_on(word.advance + _PART_GAP)
                left = max(left, word.left - advance)
                advance, right = advance + word.advance + _PART_GAP, word.right
            elif isinstance(part, BorrowedText):
                operators, pale = operators + self._borrow(part), pale + _move_on(part.advance)
                left = max(left, 0.0 if advance else spelling.left)
                advance, right = advance + part.advance, spelling.right
        # Drawn as nothing, a space keeps words apart where the page is read as text.
        return operators + self.space, pale, (advance, left, right, spelling.bottom, spelling.top)

    def _show_word(
        self, word: WrittenWord, text: str, *, begins: bool = True, ends: bool = True
    ) -> tuple[bytes, bytes]:
        """The word and its paler ink have the same codes: so both say the same, which deflates well."""
        font, glyph = divmod(len(self._written), _GLYPHS_PER_FONT)
        self._written.append(word)
        self._texts.append(text)
        code = string_code(_FIRST_WORD_GLYPH + glyph).encode("latin-1")
        shown = b"(%b%b%b)Tj\n" % (_SPACE_CODE * begins, code, _SPACE_CODE * ends)
        if not font:
            return shown, shown
        dark, pale = (b"%b 1 Tf%b%b 1 Tf\n" % (_font_name(name, font), shown, name) for name in (HAND_FONT, PALE_FONT))
        return dark, pale


def _measures_of(word: WrittenWord) -> Sequence[float]:
    return word.advance, word.left, word.right, word.bottom, word.top


def _in_one_tint(pale: bytes, dark: bytes) -> bytes:
    """Where a word is shown in one color, its paler ink is drawn in that, too."""
    return b"%b 1 Tf%b%b 1 Tf%b" % (PALE_FONT, pale, HAND_FONT, dark) if pale else dark


def _move_on(ems: float) -> bytes:
    return b"[%d]TJ\n" % -round(ems * UNITS_PER_EM)


def _variants(seeds: Sequence[int]) -> list[int]:
    """All variants are equally frequent, whatever the seeds have in common."""
    numbers = mix(np.array([seed % 2**64 for seed in seeds], np.uint64)) % np.uint64(VARIANTS)
    return [int(number) for number in numbers]


_SPACE_CODE = string_code(_SPACE_GLYPH).encode("latin-1")


def _font_name(name: bytes, number: int) -> bytes:
    return name + b"x%d" % number if number else name
