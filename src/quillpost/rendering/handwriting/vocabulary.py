"""The words of one batch in one hand, measured, broken where too long, and shown."""

import re
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import count, islice
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from quillpost.rendering.handwriting.text import BorrowedText, HandGlyphs, LetteringHand, SpelledWord, is_wide_char
from quillpost.rendering.handwriting.words import NaturalHand

_MIN_CHAR_WIDTH = 0.02  # of a letter that takes up room, in ems
_INITIAL_CAPACITY = 512

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Tokens = npt.NDArray[Any]


class ShownWords(NamedTuple):
    """Operators that show each word with the hand set at size 1, and its measures as it is shown, in font sizes.

    `pale_operators` show its paler ink, with the font of that set; a vocabulary of one tint has none.
    """

    operators: Tokens
    pale_operators: Tokens | None
    measures: Floats


class Vocabulary(ABC):
    """Words by number. Measures are in font sizes."""

    def __init__(self, hand: LetteringHand | NaturalHand) -> None:
        self.style = hand.style
        self._hand = hand
        self.fallback_faces = hand.fallback_faces
        self.tint = 0.0  # how much paler the quick parts of a word are
        self.space = b""  # operators that show a space, where there is paler ink
        self.widest_extent = 0.0
        self.borrowed_chars: dict[bytes, set[str]] = {}  # letters that were shown in another face, by its font
        self._word_numbers = defaultdict[str, int](count().__next__)
        self._spellings: list[SpelledWord] = []
        self._extents: list[float] = []
        self._scale = hand.style.scale
        self._measures = GrowingTable(5)
        self.word_gap = hand.style.word_gap * hand.style.scale

    def split_line(self, line: str) -> list[str]:
        """Into words. Names of East Asia are made legible before: they may have a space, and are never half spelled."""
        is_plain = line.isascii() or not any(map(is_wide_char, line))
        return (line if is_plain else self._hand.make_legible(line)).split()

    @abstractmethod
    def show(self, words: Integers, seeds: Sequence[int], manners: Sequence[str]) -> ShownWords:
        """Passages in rows, words in columns, -1 for no word; a seed and a manner for each row."""

    @abstractmethod
    def show_line(self, text: str) -> tuple[bytes, float]:
        """The text on one line: operators that show it, and its width, both in ems."""

    @abstractmethod
    def count_forms(self, char: str) -> int:
        """In how many forms the hand writes a character; 0 if it has none."""

    @abstractmethod
    def show_form(self, char: str, form: int) -> tuple[bytes, float]:
        """Operators that show the character, and its width, both in ems."""

    def spell(self, text: str) -> SpelledWord:
        return self._hand.spell(text)

    def word_numbers(self, words: Sequence[str]) -> list[int]:
        """A new word is spelled when it is first met."""
        numbers = [*map(self._word_numbers.__getitem__, words)]
        new_count = len(self._word_numbers) - len(self._spellings)
        if new_count:
            for word in [*islice(reversed(self._word_numbers), new_count)][::-1]:
                spelling = self._hand.spell(word)
                extent = (spelling.left + spelling.advance + spelling.right) * self._scale
                self._spellings.append(spelling)
                self._extents.append(extent)
                self.widest_extent = max(self.widest_extent, extent)
        return numbers

    def word_measures(self, numbers: Integers) -> Floats:
        """Of each word its advance, its reach to the left and right of that, below and above the line."""
        known = self._measures.count
        self._measures.append([[measure * self._scale for measure in word[-5:]] for word in self._spellings[known:]])
        return self._measures.take(numbers)

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
        text = self._spellings[number].text
        parts, start = [], 0
        while start < len(text):
            stop = start + self._count_chars_within(text[start:], width / self._scale)
            part = self.word_numbers([text[start:stop]])[0]
            while stop > start + 1 and self.word_extent(part) > width:
                stop = start + self._count_without_last_char(text[start:stop])
                part = self.word_numbers([text[start:stop]])[0]
            parts.append(part)
            start = stop
        return parts

    def _count_chars_within(self, text: str, width: float) -> int:
        width_so_far = 0.0
        for index, char in enumerate(text):
            width_so_far += self._hand.char_width(char)
            if width_so_far > width:
                return max(index, 1)
        return len(text)

    def _count_without_last_char(self, text: str) -> int:
        """Drops accents with the letter that they stand on."""
        count = len(text) - 1
        while count > 1 and self._hand.char_width(text[count]) < _MIN_CHAR_WIDTH:
            count -= 1
        return count

    def _borrow(self, part: BorrowedText) -> bytes:
        self.borrowed_chars.setdefault(part.font, set()).update(part.text)
        return part.operators


class LetteringVocabulary(Vocabulary):
    """Each word has one look."""

    def __init__(self, hand: LetteringHand) -> None:
        super().__init__(hand)
        self.hand = hand
        self._operators: list[bytes] = []
        space = hand.prepared.glyph_number(hand.prepared.letters[" "])
        self.used_glyphs = {space}
        # Drawn as nothing, it keeps words apart where the page is read as text.
        self._space_operators = b"(" + hand.codes[space] + b")Tj\n"

    def show(self, words: Integers, seeds: Sequence[int], manners: Sequence[str]) -> ShownWords:
        del seeds, manners
        shown = np.zeros(len(self._spellings) + 1, np.bool_)
        shown[words] = True
        self._operators += [b""] * (len(self._spellings) - len(self._operators))
        for number in np.flatnonzero(shown[:-1]).tolist():
            self._operators[number] = self._operators[number] or self._word_operators(self._spellings[number])
        table = np.array([*self._operators, b""], object)
        return ShownWords(table[words], None, self.word_measures(words))

    def show_line(self, text: str) -> tuple[bytes, float]:
        spellings = [self._spellings[number] for number in self.word_numbers(text.split())]
        face = self.hand.prepared
        # Each word ends with a space of its own.
        gap = b"[%d]TJ" % round(face.advances[face.letters[" "]] - 1000 * self.style.word_gap)
        width = sum(word.advance for word in spellings) + self.style.word_gap * (len(spellings) - 1)
        return gap.join(map(self._word_operators, spellings)), width

    def count_forms(self, char: str) -> int:
        return int(char in self.hand.prepared.letters)

    def show_form(self, char: str, form: int) -> tuple[bytes, float]:
        del form
        spelling = self._hand.spell(char)
        return self._word_operators(spelling), spelling.advance

    def _word_operators(self, spelling: SpelledWord) -> bytes:
        """They show the word and leave the hand set."""
        operators = []
        for part in spelling.parts:
            if isinstance(part, HandGlyphs):
                glyphs = [self.hand.prepared.glyph_number(base) for base in part.bases]
                self.used_glyphs.update(glyphs)
                operators.append(_glyph_operators(part, [self.hand.codes[glyph] for glyph in glyphs]))
            elif isinstance(part, BorrowedText):
                operators.append(self._borrow(part))
        return b"".join([*operators, self._space_operators])


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


class GrowingTable:
    """Rows that are added to the end; their last row, for index -1, is empty."""

    def __init__(self, columns: int) -> None:
        self.count = 0
        self.rows = np.zeros((_INITIAL_CAPACITY, columns))

    def append(self, rows: Sequence[Sequence[float]]) -> None:
        if not rows:
            return
        end = self.count + len(rows)
        if end >= len(self.rows):
            grown = np.zeros((2 * end, self.rows.shape[1]))
            grown[: self.count] = self.rows[: self.count]
            self.rows = grown
        self.rows[self.count : end] = rows
        self.count = end

    def take(self, numbers: Integers) -> Floats:
        """The rows of these numbers, whose columns are each in one piece of memory, as they are read one by one."""
        return np.moveaxis(np.take(np.ascontiguousarray(self.rows.T), numbers, axis=1), 0, -1)


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
