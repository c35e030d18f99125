"""Words in a natural hand: each is written several times, and is a glyph each time."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from quillpost.rendering.handwriting.choices import VARIANTS, Choice
from quillpost.rendering.handwriting.fonts import EMPTY_GLYPH, UNITS_PER_EM, GlyphRecord, assemble_glyphs
from quillpost.rendering.handwriting.noise import mix
from quillpost.rendering.handwriting.text import HAND_FONT, BorrowedText, NaturalRun, SpelledWord, string_code
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
    """A font of written words, with each glyph's advance and text; `name` is that of its resource."""

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
        self._written: list[WrittenWord] = []
        self._texts: list[str] = []
        self._chars: list[str] = []
        self._is_ordinary: list[bool] = []
        self._plans: dict[tuple[tuple[int, ...], int, str], _Plan] = {}
        self._shown: dict[_Request, int] = {}
        self._operators = [b""]
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
        return ShownWords(np.array(self._operators, object)[numbers], self._shown_measures.rows[numbers])

    def show_line(self, text: str) -> tuple[bytes, float]:
        words = np.array([self.word_numbers(text.split())], np.int64)
        shown = self.show(words, [0], [_LINE_MANNER])
        gap = b"[%d]TJ" % round(_SPACE_ADVANCE - UNITS_PER_EM * self.style.word_gap)
        advances = shown.measures[0, :, 0] / self.style.scale
        width = float(advances.sum()) + self.style.word_gap * (len(advances) - 1)
        return gap.join(shown.operators[0].tolist()), width

    def count_forms(self, char: str) -> int:
        return self.hand.count_forms(char)

    def show_form(self, char: str, form: int) -> tuple[bytes, float]:
        [word] = self.hand.write([WordKey(char, bytes([form]), 0, _LINE_MANNER)])
        return self._show_word(word, char), word.advance

    def fonts(self) -> list[WordFont]:
        """Words of borrowed letters only, too, are shown with a space of the hand's."""
        has_shown_any = len(self._operators) > 1
        starts = range(0, max(len(self._written), has_shown_any), _GLYPHS_PER_FONT)
        return [self._make_font(number, start) for number, start in enumerate(starts)]

    def _make_font(self, number: int, start: int) -> WordFont:
        words = self._written[start : start + _GLYPHS_PER_FONT]
        glyphs: list[GlyphRecord] = [EMPTY_GLYPH, EMPTY_GLYPH, *(word.glyph for word in words)]
        advances = [0, _SPACE_ADVANCE, *(round(word.advance * UNITS_PER_EM) for word in words)]
        boxes = np.array([glyph.box for glyph in glyphs])
        box = (*boxes[:, :2].min(axis=0).tolist(), *boxes[:, 2:].max(axis=0).tolist())
        texts = dict(enumerate(self._texts[start : start + _GLYPHS_PER_FONT], _FIRST_WORD_GLYPH))
        program = assemble_glyphs(UNITS_PER_EM, advances, glyphs)
        name = _font_name(number)
        return WordFont(name, program, dict(enumerate(advances)), {_SPACE_GLYPH: " "} | texts, box)

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
            operators, measure = self._show_parts(self._spellings[request.word], written)
            self._shown[request] = len(self._operators)
            self._operators.append(operators)
            measures.append([value * self.style.scale for value in measure])
        self._shown_measures.append(measures)

    def _show_parts(self, spelling: SpelledWord, written: Iterator[WrittenWord]) -> tuple[bytes, Sequence[float]]:
        if len(spelling.parts) == 1 and isinstance(spelling.parts[0], NaturalRun):
            word = next(written)
            return self._show_word(word, spelling.text), word[1:]
        operators, advance, left, right, bottom, top = b"", 0.0, 0.0, 0.0, spelling.bottom, spelling.top
        for part in spelling.parts:
            if isinstance(part, NaturalRun):
                word = next(written)
                shown = self._show_word(word, part.text, begins=not operators, ends=False)
                operators += shown + b"[%d]TJ" % -round(_PART_GAP * UNITS_PER_EM)
                left = max(left, word.left - advance)
                advance, right = advance + word.advance + _PART_GAP, word.right
            elif isinstance(part, BorrowedText):
                operators += self._borrow(part)
                left = max(left, 0.0 if advance else spelling.left)
                advance, right = advance + part.advance, spelling.right
        return operators + self._show_space(), (advance, left, right, bottom, top)

    def _show_word(self, word: WrittenWord, text: str, *, begins: bool = True, ends: bool = True) -> bytes:
        font, glyph = divmod(len(self._written), _GLYPHS_PER_FONT)
        self._written.append(word)
        self._texts.append(text)
        code = string_code(_FIRST_WORD_GLYPH + glyph).encode("latin-1")
        shown = b"(%b%b%b)Tj\n" % (_SPACE_CODE * begins, code, _SPACE_CODE * ends)
        return shown if not font else b"%b 1 Tf%b%b 1 Tf\n" % (_font_name(font), shown, HAND_FONT)

    def _show_space(self) -> bytes:
        """Drawn as nothing, it keeps words apart where the page is read as text."""
        return b"(%b)Tj\n" % _SPACE_CODE


def _variants(seeds: Sequence[int]) -> list[int]:
    """All variants are equally frequent, whatever the seeds have in common."""
    numbers = mix(np.array([seed % 2**64 for seed in seeds], np.uint64)) % np.uint64(VARIANTS)
    return [int(number) for number in numbers]


_SPACE_CODE = string_code(_SPACE_GLYPH).encode("latin-1")


def _font_name(number: int) -> bytes:
    return HAND_FONT + b"x%d" % number if number else HAND_FONT
