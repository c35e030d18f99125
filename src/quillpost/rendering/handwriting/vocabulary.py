"""The words of one batch in one hand: measured for the layout, and shown so that no letter repeats itself."""

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from itertools import chain
from operator import or_
from typing import Any

import numpy as np
import numpy.typing as npt

from quillpost.rendering.handwriting.font_preparation import TAKES
from quillpost.rendering.handwriting.hand import TRUE_SHAPE, Glyphs, Hand, Spelling

_STEP = 3  # from a letter's take to its next within a word; it comes round to none too soon
_MOST_LETTERS = 16  # of a word; one with more goes letter by letter
_LEAST_WIDTH = 0.02  # of a letter that takes up room, in ems

# For each set of takes that are ruled out, as bits, and each start: the next one that is free.
_TURNS = tuple(tuple((start + step) % TAKES for step in range(TAKES)) for start in range(TAKES))
_NONE_FREE = 2**TAKES - 1
_FREE = np.array(
    [
        [next((take for take in turn if not taken >> take & 1), 0) for turn in _TURNS]
        for taken in range(_NONE_FREE + 1)
    ],
    np.uint8,
)
_LAST_TAKE = TAKES - 1
_BIT = np.array([1 << take for take in range(TAKES)], np.uint8)

_FEW = 8

Integers = npt.NDArray[np.int64]
Tokens = npt.NDArray[Any]
_Choice = tuple[Integers, dict[tuple[int, int], bytes]]


class Vocabulary:
    """Words by number. Measures are in font sizes, at which every hand looks equally large."""

    def __init__(self, hand: Hand) -> None:
        self.hand = hand
        self.widest = 0.0
        self.used: set[int] = set()
        """Glyphs that were shown."""
        self.borrowed: dict[bytes, set[str]] = {}
        """Letters that were shown in another face, by its font."""
        self._numbers = _Numbers(self._learn)
        self._spellings: list[Spelling] = []
        self._extents: list[float] = []
        self._scale = hand.style.scale
        self._tables = _Tables(self._scale)
        space = hand.prepared.number(hand.prepared.letters[" "], hand.prepared.takes)
        self.used.add(space)
        # Drawn as nothing, it keeps words apart for whoever reads the page as text.
        self._space = hand.codes[space] + b")Tj\n"
        self._shapes = hand.shapes

    @property
    def gap(self) -> float:
        """Between two words."""
        return self.hand.gap * self.hand.style.scale

    def numbers(self, words: Iterable[str]) -> list[int]:
        """The numbers of the words, of which some may be new."""
        return list(map(self._numbers.__getitem__, words))

    def measures(self, numbers: Integers) -> npt.NDArray[np.float64]:
        """Of each word its advance, its reach to the left and right of that, below and above the line."""
        return self._table().measures[numbers]

    def text(self, number: int) -> str:
        """The word in letters that can be drawn."""
        return self._spellings[number].text

    def extent(self, number: int) -> float:
        """How much of a line the word's ink and advance take up."""
        return self._extents[number]

    def wider(self, numbers: Sequence[int], width: float) -> list[int]:
        """The places of those words that take up more of a line than that."""
        extents = self._extents
        return [place for place, number in enumerate(numbers) if extents[number] > width]

    def parts_of(self, number: int, width: float) -> list[int]:
        """The word in parts no wider than that, each as long as can be; a single letter always is one."""
        text, scale = self._spellings[number].text, self.hand.style.scale
        parts, start = [], 0
        while start < len(text):
            stop = start + self._letters_within(text[start:], width / scale)
            part = self._numbers[text[start:stop]]
            while stop > start + 1 and self.extent(part) > width:
                stop = start + self._letters_but_the_last(text[start:stop])
                part = self._numbers[text[start:stop]]
            parts.append(part)
            start = stop
        return parts

    def in_takes(self, words: Integers, starts: Integers) -> Tokens:
        """Operators for passages in rows, words in columns (-1 is none); no letter has its last shape.

        For each letter of each passage one byte remembers the take that it last had, as a bit. What
        the letters of the next word had, together, rules out takes of that word; `starts` says where
        its search among the others begins.
        """
        takes, single = (self._choose_slowly if len(words) <= _FEW else self._choose)(words, starts)
        shown = self._show(words, takes)
        for cell, operators in single.items():
            shown[cell] = operators
        return shown

    def _choose(self, words: Integers, starts: Integers) -> _Choice:
        """The takes of all words; and the operators of those words whose letters go one by one."""
        table = self._table()
        rows = len(words)
        last = np.zeros((rows, len(self._shapes) + 1), np.uint8)
        memory = last.ravel()
        row = np.arange(rows) * last.shape[1]
        takes = np.zeros(words.shape, np.int64)
        single: dict[tuple[int, int], bytes] = {}
        lengths = table.counts[words].max(axis=0, initial=0).tolist()
        for column, most in enumerate(lengths):
            word = words[:, column]
            places = table.places[:most].take(word, axis=1) + row
            taken = np.bitwise_or.reduce(memory.take(places), axis=0, initial=0)
            taken |= table.ruled_out.take(word)
            take = _FREE[taken, starts[:, column]]
            takes[:, column] = take
            stuck = np.flatnonzero(taken == _NONE_FREE).tolist()
            kept = last[stuck]
            steps = table.steps[:most].take(word, axis=1)
            memory[places] = _BIT.take((take + steps) & _LAST_TAKE)
            for place, before in zip(stuck, kept, strict=True):
                last[place] = before
                start = int(starts[place, column])
                single[place, column] = self._letter_by_letter(int(word[place]), last[place], start)
        return takes, single

    def _choose_slowly(self, words: Integers, starts: Integers) -> _Choice:
        """The same choice for few passages, as a preview has: plain Python costs less than calls of numpy."""
        takes = np.zeros(words.shape, np.int64)
        single: dict[tuple[int, int], bytes] = {}
        for row, numbers in enumerate(words.tolist()):
            last = bytearray(len(self._shapes) + 1)
            for column, (word, start) in enumerate(zip(numbers, starts[row].tolist(), strict=True)):
                if word < 0:
                    break
                spelling = self._spellings[word]
                is_long = len(spelling.bases) > _MOST_LETTERS
                taken = _NONE_FREE if is_long else reduce(or_, [last[base + 1] for base in spelling.bases], 0)
                if taken == _NONE_FREE:
                    single[row, column] = self._letter_by_letter(word, last, start)
                    continue
                take = takes[row, column] = int(_FREE[taken, start])
                for base, nth in zip(spelling.bases, spelling.nths, strict=True):
                    last[base + 1] = 1 << (take + nth * _STEP) % TAKES
        return takes, single

    def in_true_shapes(self, words: Integers) -> Tokens:
        """The same in the hand's own shapes."""
        return self._show(words, np.full(words.shape, TRUE_SHAPE))

    def line(self, text: str) -> tuple[bytes, float]:
        """The text on one line in true shapes: operators that show it, and its width, both in ems."""
        words = np.array(self.numbers(text.split()), np.int64)
        face = self.hand.prepared
        # Each word ends with a space of its own.
        gap = b"[%d]TJ" % round(face.advances[face.letters[" "]] - 1000 * self.hand.gap)
        width = sum(self._spellings[word].advance for word in words) + self.hand.gap * (len(words) - 1)
        return gap.join(self.in_true_shapes(words).tolist()), width

    def _learn(self, text: str) -> int:
        spelling = self.hand.spell(text)
        self._spellings.append(spelling)
        extent = spelling.extent * self._scale
        self._extents.append(extent)
        if extent > self.widest:
            self.widest = extent
        return len(self._spellings) - 1

    def _table(self) -> "_Tables":
        self._tables.catch_up(self._spellings)
        return self._tables

    def _letters_within(self, text: str, width: float) -> int:
        reach = 0.0
        for place, letter in enumerate(text):
            reach += self.hand.width_of(letter)
            if reach > width:
                return max(place, 1)
        return len(text)

    def _letters_but_the_last(self, text: str) -> int:
        """Accents count as part of the letter that they stand on: to drop them alone makes little room."""
        count = len(text) - 1
        while count > 1 and self.hand.width_of(text[count]) < _LEAST_WIDTH:
            count -= 1
        return count

    def _show(self, words: Integers, takes: Integers) -> Tokens:
        table = self._table()
        wanted = np.zeros_like(table.is_shown)
        wanted[words, takes] = True
        for word, take in np.argwhere(wanted & ~table.is_shown).tolist():
            table.shown[word, take] = self._in_take(word, take)
        table.is_shown |= wanted
        shown: Tokens = table.shown[words, takes]
        return shown

    def _in_take(self, word: int, take: int) -> bytes:
        spelling, shapes = self._spellings[word], self._shapes
        if take == TRUE_SHAPE:
            return self._operators(word, [shapes[base][TRUE_SHAPE] for base in spelling.bases])
        return self._operators(
            word,
            [
                shapes[base][(take + nth * _STEP) % TAKES]
                for base, nth in zip(spelling.bases, spelling.nths, strict=True)
            ],
        )

    def _operators(self, word: int, shapes: list[int]) -> bytes:
        """Operators that show the word with the hand at size 1 set, and leave it set."""
        self.used.update(shapes)
        codes = self.hand.codes
        if self._spellings[word].is_plain:
            return b"".join([b"(", *[codes[shape] for shape in shapes], self._space])
        written, at = [], 0
        for part in self._spellings[word].parts:
            if isinstance(part, Glyphs):
                its = shapes[at : at + len(part.bases)]
                written.append(_shown(part, [codes[shape] for shape in its]))
                at += len(its)
            else:
                self.borrowed.setdefault(part.font, set()).update(part.letters)
                written.append(part.operators)
        return b"".join([*written, b"(", self._space])

    def _letter_by_letter(self, word: int, last: npt.NDArray[np.uint8] | bytearray, start: int) -> bytes:
        """A word whose letters leave none of its takes free: each letter takes its own."""
        shapes = []
        for base in self._spellings[word].bases:
            place = base + 1
            take = int(_FREE[last[place], start])
            last[place] = 1 << take
            shapes.append(self._shapes[base][take])
        return self._operators(word, shapes)


_FIRST_ROOM = 512


class _Tables:
    """What is known of each word, a row a word. The last row is empty, for the words that are none.

    `places` are those of a word's letters in the memory of takes, `steps` how many steps past the
    word's take each letter is; in these two a word is a column, as they are worked through row by row.
    A letter that a word has twice is there twice, and the last one until the column is full: the later
    one is what is remembered.
    """

    def __init__(self, scale: float) -> None:
        self._scale = scale
        self._count = 0
        self._grow(_FIRST_ROOM)

    def catch_up(self, spellings: Sequence[Spelling]) -> None:
        """Enter the words that are new, all together."""
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
        self.ruled_out[rows] = np.where(counts > _MOST_LETTERS, _NONE_FREE, 0)
        counts = np.minimum(counts, _MOST_LETTERS)
        self.counts[rows] = counts
        total = int(counts.sum())
        word = np.repeat(np.arange(rows.start, rows.stop), counts)
        place = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
        bases = chain.from_iterable([word.bases[:_MOST_LETTERS] for word in new])
        nths = chain.from_iterable([word.nths[:_MOST_LETTERS] for word in new])
        self.places[place, word] = np.fromiter(bases, np.int64, total) + 1
        self.steps[place, word] = np.fromiter(nths, np.int64, total) * _STEP % TAKES
        for row in range(1, _MOST_LETTERS):
            is_past = counts <= row
            self.places[row, rows][is_past] = self.places[row - 1, rows][is_past]
            self.steps[row, rows][is_past] = self.steps[row - 1, rows][is_past]

    def _grow(self, room: int) -> None:
        def grown(name: str, columns: tuple[int, ...], kind: Any) -> npt.NDArray[Any]:
            table = np.zeros((room, *columns), kind)
            before = getattr(self, name, table[:1])[:-1]
            table[: len(before)] = before
            return table

        def widened(name: str, kind: Any) -> npt.NDArray[Any]:
            table = np.zeros((_MOST_LETTERS, room), kind)
            before = getattr(self, name, table[:, :0])
            table[:, : before.shape[1]] = before
            return table

        self.measures = grown("measures", (5,), np.float64)
        self.places = widened("places", np.int64)
        self.steps = widened("steps", np.uint8)
        self.counts = grown("counts", (), np.uint8)
        self.ruled_out = grown("ruled_out", (), np.uint8)
        self.is_shown = grown("is_shown", (TAKES + 1,), np.bool_)
        self.shown = grown("shown", (TAKES + 1,), object)
        self.is_shown[-1] = True
        self.shown[-1] = b""


class _Numbers(dict[str, int]):
    """Numbers of words; a new word is learnt when it is asked for."""

    def __init__(self, learn: Callable[[str], int]) -> None:
        super().__init__()
        self._learn = learn

    def __missing__(self, text: str) -> int:
        number = self[text] = self._learn(text)
        return number


def _shown(glyphs: Glyphs, codes: list[bytes]) -> bytes:
    if glyphs.rises:
        return b"".join(map(_risen, codes, glyphs.moves, glyphs.rises))
    if not any(glyphs.moves):
        return b"(" + b"".join(codes) + b")Tj"
    moved = [b")%d(" % -move + code if move else code for code, move in zip(codes, glyphs.moves, strict=True)]
    return b"[(" + b"".join(moved) + b")]TJ"


def _risen(code: bytes, move: int, rise: int) -> bytes:
    """One glyph that stands off the line."""
    return b" %.3f Ts[%d(%b)]TJ 0 Ts\n" % (rise / 1000, -move, code)
