"""The words of one batch in one hand, measured, broken where too long, and shown so that no glyph repeats itself."""

import re
from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import chain
from operator import or_
from typing import Any

import numpy as np
import numpy.typing as npt

from quillpost.rendering.handwriting.models import TAKES_PER_GLYPH
from quillpost.rendering.handwriting.text import TRUE_SHAPE_TAKE, Hand, HandGlyphs, SpelledWord

_TAKE_STEP = 3  # from a letter's take to its next within a word; it comes round to none too soon
_MAX_WORD_GLYPHS = 16  # of a word; one with more goes letter by letter
_MIN_CHAR_WIDTH = 0.02  # of a letter that takes up room, in ems

# For each set of takes that are ruled out, as bits, and each start: the next one that is free.
_TAKE_ORDERS = tuple(
    tuple((start + step) % TAKES_PER_GLYPH for step in range(TAKES_PER_GLYPH)) for start in range(TAKES_PER_GLYPH)
)
_ALL_TAKEN = 2**TAKES_PER_GLYPH - 1
_NEXT_FREE_TAKE = np.array(
    [
        [next((take for take in order if not taken >> take & 1), 0) for order in _TAKE_ORDERS]
        for taken in range(_ALL_TAKEN + 1)
    ],
    np.uint8,
)
_LAST_TAKE = TAKES_PER_GLYPH - 1
_TAKE_BITS = np.array([1 << take for take in range(TAKES_PER_GLYPH)], np.uint8)

_MAX_SLOW_ROWS = 8

Integers = npt.NDArray[np.int64]
Tokens = npt.NDArray[Any]
_TakeChoice = tuple[Integers, dict[tuple[int, int], bytes]]


class Vocabulary:
    """Words by number. Measures are in font sizes."""

    def __init__(self, hand: Hand) -> None:
        self.hand = hand
        self.widest_extent = 0.0
        self.used_glyphs: set[int] = set()  # glyphs that were shown
        self.borrowed_chars: dict[bytes, set[str]] = {}  # letters that were shown in another face, by its font
        self._word_numbers: dict[str, int] = {}
        self._spellings: list[SpelledWord] = []
        self._extents: list[float] = []
        self._scale = hand.style.scale
        self._tables = _WordTables(self._scale)
        self._take_glyphs = hand.take_glyphs
        self.word_gap = hand.style.word_gap * hand.style.scale
        space = hand.take_glyphs[hand.prepared.letters[" "]][TRUE_SHAPE_TAKE]
        self.used_glyphs.add(space)
        # Drawn as nothing, it keeps words apart where the page is read as text.
        self._space_operators = hand.codes[space] + b")Tj\n"

    def word_numbers(self, words: Sequence[str]) -> list[int]:
        """A new word is spelled when it is first met."""
        numbers = self._word_numbers
        try:
            return [*map(numbers.__getitem__, words)]
        except KeyError:
            for word in words:
                if word in numbers:
                    continue
                spelling = self.hand.spell(word)
                extent = (spelling.left + spelling.advance + spelling.right) * self._scale
                numbers[word] = len(self._spellings)
                self._spellings.append(spelling)
                self._extents.append(extent)
                self.widest_extent = max(self.widest_extent, extent)
            return [*map(numbers.__getitem__, words)]

    def word_measures(self, numbers: Integers) -> npt.NDArray[np.float64]:
        """Of each word its advance, its reach to the left and right of that, below and above the line."""
        self._tables.add_new_words(self._spellings)
        return self._tables.measures[numbers]

    def word_text(self, number: int) -> str:
        return self._spellings[number].text

    def word_extent(self, number: int) -> float:
        return self._extents[number]

    def find_wider(self, numbers: Sequence[int], width: float) -> list[int]:
        """The indexes of words wider than that."""
        extents = self._extents
        return [index for index, number in enumerate(numbers) if extents[number] > width]

    def split_word(self, number: int, width: float) -> list[int]:
        """The word in parts no wider than that; a single letter is always one."""
        text, scale = self._spellings[number].text, self.hand.style.scale
        parts, start = [], 0
        while start < len(text):
            stop = start + self._count_chars_within(text[start:], width / scale)
            part = self.word_numbers([text[start:stop]])[0]
            while stop > start + 1 and self.word_extent(part) > width:
                stop = start + self._count_without_last_char(text[start:stop])
                part = self.word_numbers([text[start:stop]])[0]
            parts.append(part)
            start = stop
        return parts

    def show_in_takes(self, words: Integers, starts: Integers) -> Tokens:
        """Operators for passages in rows, words in columns (-1 for no word); no letter has its last shape.

        One byte for each letter of a passage remembers its last take as a bit. Together those of a word's letters
        rule out takes of that word; `starts` says where the search among the others begins.
        """
        takes, glyph_by_glyph = (self._choose_takes_in_python if len(words) <= _MAX_SLOW_ROWS else self._choose_takes)(
            words, starts
        )
        operators_table = self._show_words(words, takes)
        for cell, operators in glyph_by_glyph.items():
            operators_table[cell] = operators
        return operators_table

    def _choose_takes(self, words: Integers, starts: Integers) -> _TakeChoice:
        """The takes of all words, and operators of those shown glyph by glyph."""
        table = self._tables
        table.add_new_words(self._spellings)
        rows = len(words)
        last_takes = np.zeros((rows, len(self._take_glyphs) + 1), np.uint8)
        flat_takes = last_takes.ravel()
        row_offsets = np.arange(rows) * last_takes.shape[1]
        takes = np.zeros(words.shape, np.int64)
        glyph_by_glyph: dict[tuple[int, int], bytes] = {}
        lengths = table.counts[words].max(axis=0, initial=0).tolist()
        for column, max_length in enumerate(lengths):
            word = words[:, column]
            positions = table.positions[:max_length].take(word, axis=1) + row_offsets
            taken = np.bitwise_or.reduce(flat_takes.take(positions), axis=0, initial=0)
            taken |= table.ruled_out.take(word)
            take = _NEXT_FREE_TAKE[taken, starts[:, column]]
            takes[:, column] = take
            stuck_rows = np.flatnonzero(taken == _ALL_TAKEN).tolist()
            saved_takes = last_takes[stuck_rows]
            steps = table.steps[:max_length].take(word, axis=1)
            flat_takes[positions] = _TAKE_BITS.take((take + steps) & _LAST_TAKE)
            for row_index, saved in zip(stuck_rows, saved_takes, strict=True):
                last_takes[row_index] = saved
                start = int(starts[row_index, column])
                glyph_by_glyph[row_index, column] = self._show_glyph_by_glyph(
                    int(word[row_index]), last_takes[row_index], start
                )
        return takes, glyph_by_glyph

    def _choose_takes_in_python(self, words: Integers, starts: Integers) -> _TakeChoice:
        """The same for few passages, as in a preview: plain Python costs less than calls of numpy."""
        takes = np.zeros(words.shape, np.int64)
        glyph_by_glyph: dict[tuple[int, int], bytes] = {}
        for row, numbers in enumerate(words.tolist()):
            last_takes = bytearray(len(self._take_glyphs) + 1)
            for column, (word, start) in enumerate(zip(numbers, starts[row].tolist(), strict=True)):
                if word < 0:
                    break
                spelling = self._spellings[word]
                is_long = len(spelling.bases) > _MAX_WORD_GLYPHS
                taken = _ALL_TAKEN if is_long else reduce(or_, [last_takes[base + 1] for base in spelling.bases], 0)
                if taken == _ALL_TAKEN:
                    glyph_by_glyph[row, column] = self._show_glyph_by_glyph(word, last_takes, start)
                    continue
                take = takes[row, column] = int(_NEXT_FREE_TAKE[taken, start])
                for base, occurrence in zip(spelling.bases, spelling.occurrences, strict=True):
                    last_takes[base + 1] = 1 << (take + occurrence * _TAKE_STEP) % TAKES_PER_GLYPH
        return takes, glyph_by_glyph

    def show_in_true_shapes(self, words: Integers) -> Tokens:
        return self._show_words(words, np.full(words.shape, TRUE_SHAPE_TAKE))

    def show_line(self, text: str) -> tuple[bytes, float]:
        """The text on one line in true shapes: operators that show it, and its width, both in ems."""
        words = np.array(self.word_numbers(text.split()), np.int64)
        face = self.hand.prepared
        # Each word ends with a space of its own.
        gap = b"[%d]TJ" % round(face.advances[face.letters[" "]] - 1000 * self.hand.style.word_gap)
        width = sum(self._spellings[word].advance for word in words) + self.hand.style.word_gap * (len(words) - 1)
        return gap.join(self.show_in_true_shapes(words).tolist()), width

    def _count_chars_within(self, text: str, width: float) -> int:
        width_so_far = 0.0
        for index, char in enumerate(text):
            width_so_far += self.hand.char_width(char)
            if width_so_far > width:
                return max(index, 1)
        return len(text)

    def _count_without_last_char(self, text: str) -> int:
        """Drops accents with the letter that they stand on."""
        count = len(text) - 1
        while count > 1 and self.hand.char_width(text[count]) < _MIN_CHAR_WIDTH:
            count -= 1
        return count

    def _show_words(self, words: Integers, takes: Integers) -> Tokens:
        table = self._tables
        table.add_new_words(self._spellings)
        is_requested = np.zeros_like(table.is_shown)
        is_requested[words, takes] = True
        for word, take in np.argwhere(is_requested & ~table.is_shown).tolist():
            table.take_operators[word, take] = self._show_in_take(word, take)
        table.is_shown |= is_requested
        operators: Tokens = table.take_operators[words, takes]
        return operators

    def _show_in_take(self, word: int, take: int) -> bytes:
        spelling, take_glyphs = self._spellings[word], self._take_glyphs
        if take == TRUE_SHAPE_TAKE:
            return self._word_operators(word, [take_glyphs[base][TRUE_SHAPE_TAKE] for base in spelling.bases])
        occurrences = zip(spelling.bases, spelling.occurrences, strict=True)
        glyphs = [take_glyphs[base][(take + count * _TAKE_STEP) % TAKES_PER_GLYPH] for base, count in occurrences]
        return self._word_operators(word, glyphs)

    def _word_operators(self, word: int, glyphs: list[int]) -> bytes:
        """Operators that show the word with the hand set at size 1, and leave it set."""
        self.used_glyphs.update(glyphs)
        codes = self.hand.codes
        if self._spellings[word].is_simple:
            return b"".join([b"(", *[codes[glyph] for glyph in glyphs], self._space_operators])
        operators, start = [], 0
        for part in self._spellings[word].parts:
            if isinstance(part, HandGlyphs):
                part_glyphs = glyphs[start : start + len(part.bases)]
                operators.append(_glyph_operators(part, [codes[glyph] for glyph in part_glyphs]))
                start += len(part_glyphs)
            else:
                self.borrowed_chars.setdefault(part.font, set()).update(part.text)
                operators.append(part.operators)
        return b"".join([*operators, b"(", self._space_operators])

    def _show_glyph_by_glyph(self, word: int, last_takes: npt.NDArray[np.uint8] | bytearray, start: int) -> bytes:
        """For a word whose letters leave no take free: each letter takes its own."""
        glyphs = []
        for base in self._spellings[word].bases:
            position = base + 1
            take = int(_NEXT_FREE_TAKE[last_takes[position], start])
            last_takes[position] = 1 << take
            glyphs.append(self._take_glyphs[base][take])
        return self._word_operators(word, glyphs)


_INITIAL_CAPACITY = 512


class _WordTables:
    """What is known of each word, a row a word; the last row is empty, for index -1.

    `positions` index the last takes of a word's letters, `steps` count from the word's take; here a word is a column,
    filled up with its last letter, so that the last occurrence is what is remembered.
    """

    def __init__(self, scale: float) -> None:
        self._scale = scale
        self._count = 0
        self.measures = np.zeros((_INITIAL_CAPACITY, 5))
        self.positions = np.zeros((_MAX_WORD_GLYPHS, _INITIAL_CAPACITY), np.int64)
        self.steps = np.zeros((_MAX_WORD_GLYPHS, _INITIAL_CAPACITY), np.uint8)
        self.counts = np.zeros(_INITIAL_CAPACITY, np.uint8)
        self.ruled_out = np.zeros(_INITIAL_CAPACITY, np.uint8)
        self.is_shown = np.zeros((_INITIAL_CAPACITY, TAKES_PER_GLYPH + 1), np.bool_)
        self.take_operators = np.zeros((_INITIAL_CAPACITY, TAKES_PER_GLYPH + 1), object)
        self.is_shown[-1] = True
        self.take_operators[-1] = b""

    def add_new_words(self, spellings: Sequence[SpelledWord]) -> None:
        new = spellings[self._count :]
        if not new:
            return
        rows = slice(self._count, len(spellings))
        self._count = len(spellings)
        if self._count >= len(self.measures):
            self._grow(2 * self._count)
        self.measures[rows] = [word[-5:] for word in new]
        self.measures[rows] *= self._scale
        counts = np.array([len(word.bases) for word in new])
        self.ruled_out[rows] = np.where(counts > _MAX_WORD_GLYPHS, _ALL_TAKEN, 0)
        counts = np.minimum(counts, _MAX_WORD_GLYPHS)
        self.counts[rows] = counts
        total = int(counts.sum())
        word = np.repeat(np.arange(rows.start, rows.stop), counts)
        glyph_index = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
        bases = chain.from_iterable([word.bases[:_MAX_WORD_GLYPHS] for word in new])
        occurrences = chain.from_iterable([word.occurrences[:_MAX_WORD_GLYPHS] for word in new])
        self.positions[glyph_index, word] = np.fromiter(bases, np.int64, total) + 1
        self.steps[glyph_index, word] = np.fromiter(occurrences, np.int64, total) * _TAKE_STEP % TAKES_PER_GLYPH
        for row in range(1, _MAX_WORD_GLYPHS):
            is_past_end = counts <= row
            self.positions[row, rows][is_past_end] = self.positions[row - 1, rows][is_past_end]
            self.steps[row, rows][is_past_end] = self.steps[row - 1, rows][is_past_end]

    def _grow(self, capacity: int) -> None:
        for name in ("measures", "counts", "ruled_out", "is_shown", "take_operators"):
            rows = getattr(self, name)
            grown = np.zeros((capacity, *rows.shape[1:]), rows.dtype)
            grown[: len(rows) - 1], grown[-1] = rows[:-1], rows[-1]
            setattr(self, name, grown)
        for name in ("positions", "steps"):
            columns = getattr(self, name)
            grown = np.zeros((_MAX_WORD_GLYPHS, capacity), columns.dtype)
            grown[:, : columns.shape[1]] = columns
            setattr(self, name, grown)


def _glyph_operators(glyphs: HandGlyphs, codes: list[bytes]) -> bytes:
    if glyphs.y_offsets:
        placed = zip(codes, glyphs.x_offsets, glyphs.y_offsets, strict=True)
        return b"".join([b" %.3f Ts[%d(%b)]TJ 0 Ts\n" % (y / 1000, -x, code) for code, x, y in placed])
    if not any(glyphs.x_offsets):
        return b"(" + b"".join(codes) + b")Tj"
    shifted_codes = [
        b")%d(" % -x_offset + code if x_offset else code for code, x_offset in zip(codes, glyphs.x_offsets, strict=True)
    ]
    return b"[(" + b"".join(shifted_codes) + b")]TJ"


MAX_UNBROKEN_LENGTH = 20  # an ordinary word is never broken while there is a size at which it fits a line

# A dot begins a part and the other marks end one: `jane`, `.smith@`, `example`, `.com/`.
_WORD_PARTS = re.compile(r"[.]*[^.@/_?&=#-]+[@/_?&=#-]*|[.@/_?&=#-]+")


def break_long_words(
    vocabulary: Vocabulary, words: Sequence[int], width: float, smallest_width: float
) -> tuple[list[int], list[int]]:
    """The words with those broken that are wider than `width`, and the indexes of continued parts.

    An ordinary word is broken only if it is also wider than `smallest_width`, the line of the smallest letters.
    """
    result: list[int] = []
    continuations: list[int] = []
    start = 0
    for index in vocabulary.find_wider(words, width):
        result += words[start:index]
        parts = list(_split_long_word(vocabulary, words[index], width, smallest_width))
        continuations += range(len(result) + 1, len(result) + len(parts))
        result += parts
        start = index + 1
    return [*result, *words[start:]], continuations


def _split_long_word(vocabulary: Vocabulary, word: int, width: float, smallest_width: float) -> Iterator[int]:
    text = vocabulary.word_text(word)
    parts = [word] if len(text) == 1 else vocabulary.word_numbers(_split_at_marks(text))
    for part in parts:
        is_ordinary = (
            len(vocabulary.word_text(part)) <= MAX_UNBROKEN_LENGTH and vocabulary.word_extent(part) <= smallest_width
        )
        if is_ordinary or vocabulary.word_extent(part) <= width:
            yield part
        else:
            yield from vocabulary.split_word(part, width)


def _split_at_marks(text: str) -> list[str]:
    """The text split after and before its marks; a lone mark stays with what it follows."""
    parts: list[str] = []
    for part in _WORD_PARTS.findall(text):
        if parts and not any(map(str.isalnum, part)):
            parts[-1] += part
        else:
            parts.append(part)
    return parts
