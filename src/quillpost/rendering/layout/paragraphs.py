"""Line breaking and fitting of many texts at once."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from math import ceil
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from quillpost.rendering.handwriting.vocabulary import Vocabulary, break_long_words
from quillpost.rendering.models import Box, Ink

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Thing = TypeVar("Thing")

MAX_FONT_SIZE, MIN_FONT_SIZE = 26.0, 11.0
FIXED_SIZES = {"large": 22.0, "medium": 17.0, "small": 13.0}

# In font sizes. A person's lines are not quite level nor quite flush: the fit leaves them this room.
LEAN_ROOM = 0.03
WANDER_ROOM = 0.05
LINE_MARGIN = 0.1

_FREE_OVERHANG = 0.08  # so far may a word's first letter reach back towards the word before it
_MAX_SIZE_LOSS = 1.0
_STEPS_PER_POINT = 2
_MAX_SLOW_ROWS = 8
_MAX_GROUP_CELLS = 200_000


class DoesNotFit(Exception):
    """A text is too long for its box; `message` tells the sender what to do."""

    def __init__(self, overflow_lines: int, message: str) -> None:
        super().__init__(message)
        self.overflow_lines = overflow_lines
        self.message = message


@dataclass(frozen=True, slots=True)
class SizeRange:
    """The sizes at which a text may be written, in points, by halves."""

    smallest: float
    largest: float

    @classmethod
    def from_name(cls, font_size: str) -> "SizeRange":
        fixed = FIXED_SIZES.get(font_size)
        return cls(MIN_FONT_SIZE, MAX_FONT_SIZE) if fixed is None else cls(fixed, fixed)


class Passage(NamedTuple):
    """A text and its box. All its unevenness comes from `seed`; `text_name` is what the sender calls it.

    One that `keeps_words` is written smaller before a long word is broken.
    """

    text_name: str
    text: str
    box: Box
    sizes: SizeRange
    ink: Ink
    seed: int
    is_even: bool = False
    keeps_words: bool = False
    is_centered: bool = False


@dataclass(frozen=True, slots=True)
class PassageLayout:
    """Passages in rows, words in columns; `word_numbers` has -1 past a passage's end."""

    passages: Sequence[Passage]
    measures: Floats  # of each word: advance, left, right, bottom, top
    word_numbers: Integers
    word_counts: Integers
    line_numbers: Integers
    sizes: Floats
    fits: Flags
    leading: float
    word_gap: float

    @property
    def heights(self) -> Floats:
        """How much of its box's height each passage takes."""
        ink_heights = self.measures[:, :, 3:].max(axis=1, initial=0.0).sum(axis=1) + 2 * WANDER_ROOM
        last_lines: Integers = self.line_numbers.max(axis=1, initial=0)
        heights: Floats = (last_lines * self.leading + ink_heights) * self.sizes
        return heights

    def excess(self, row: int) -> tuple[int, int]:
        """By how many lines, and about how many letters, a passage is too long."""
        line_height = self.leading * self.sizes[row]
        excess_height = self.heights[row] - self.passages[row].box.height
        lines = max(1, ceil(excess_height / line_height - 1e-9))
        chars_per_line = len(self.passages[row].text) / (self.line_numbers[row].max(initial=0) + 1)
        return lines, max(10, round(lines * chars_per_line / 10) * 10)


def lay_out_passages(vocabulary: Vocabulary, passages: Sequence[Passage]) -> list[tuple[list[int], PassageLayout]]:
    """All passages, the long apart from the short; with each group the indexes of its passages."""
    words = [_split_passage(vocabulary, passage, _breaking_size(passage)) for passage in passages]
    broken_indexes = [
        index
        for index, passage in enumerate(passages)
        if words[index].continuations and _breaking_size(passage) > passage.sizes.smallest
    ]
    for index, rejoined in _rejoin_broken_words(vocabulary, passages, words, broken_indexes):
        words[index] = rejoined
    return list(_lay_out_in_groups(vocabulary, passages, words, range(len(passages))))


def _breaking_size(passage: Passage) -> float:
    """From this size on a word wider than a line is broken."""
    return passage.sizes.smallest if passage.keeps_words else passage.sizes.largest


def _rejoin_broken_words(
    vocabulary: Vocabulary, passages: Sequence[Passage], words: Sequence["_PassageWords"], indexes: Sequence[int]
) -> Iterator[tuple[int, "_PassageWords"]]:
    """Passages whose broken words are whole again at the size found, unless that costs more than a point."""
    sizes = _fitted_sizes(vocabulary, passages, words, indexes)
    rejoined = dict(enumerate(words)) | {
        index: _split_passage(vocabulary, passages[index], size) for index, (size, _) in sizes.items()
    }
    changed_indexes = [index for index in indexes if rejoined[index] != words[index]]
    for index, (size, fits) in _fitted_sizes(vocabulary, passages, rejoined, changed_indexes).items():
        if fits and size >= sizes[index][0] - _MAX_SIZE_LOSS:
            yield index, rejoined[index]


def _fitted_sizes(
    vocabulary: Vocabulary,
    passages: Sequence[Passage],
    words: "Sequence[_PassageWords] | Mapping[int, _PassageWords]",
    indexes: Sequence[int],
) -> dict[int, tuple[float, bool]]:
    """The size of each of those passages, and whether it fits."""
    return {
        index: (float(layout.sizes[row]), bool(layout.fits[row]))
        for group, layout in _lay_out_in_groups(vocabulary, passages, words, indexes, rejoin_parts=False)
        for row, index in enumerate(group)
    }


def _lay_out_in_groups(
    vocabulary: Vocabulary,
    passages: Sequence[Passage],
    words: "Sequence[_PassageWords] | Mapping[int, _PassageWords]",
    indexes: Sequence[int],
    *,
    rejoin_parts: bool = True,
) -> Iterator[tuple[list[int], PassageLayout]]:
    """Passages of about the same length are laid out together."""
    groups: list[list[int]] = []
    for index in sorted(indexes, key=lambda i: len(words[i].word_numbers)):
        width = max(1, len(words[index].word_numbers))
        if not groups or (len(groups[-1]) + 1) * width > _MAX_GROUP_CELLS:
            groups.append([])
        groups[-1].append(index)
    for group in groups:
        group_passages = [passages[p] for p in group]
        yield (group, _lay_out(vocabulary, group_passages, [words[p] for p in group], rejoin_parts=rejoin_parts))


def misfit_error(layout: PassageLayout, row: int, title: str) -> DoesNotFit:
    lines, char_count = layout.excess(row)
    passage = layout.passages[row]
    size_names = {size: name for name, size in FIXED_SIZES.items()}
    is_fixed = passage.sizes.smallest == passage.sizes.largest
    at_size = f"at the {size_names[passage.sizes.largest]} size" if is_fixed else "even at the smallest size"
    line_word = "line" if lines == 1 else "lines"
    return DoesNotFit(
        lines,
        f"The {passage.text_name} is {lines} {line_word} too long for a {title} {at_size};"
        f" shorten it by about {char_count} characters.",
    )


class _PassageWords(NamedTuple):
    """A passage's words, the number of line ends before each, and which continue the word before."""

    word_numbers: list[int]
    breaks: dict[int, int]
    continuations: list[int]


def _split_passage(vocabulary: Vocabulary, passage: Passage, size: float) -> _PassageWords:
    """The passage's words, split where they are too long for a line at that size."""
    numbers, breaks, continuations = list[int](), dict[int, int](), list[int]()
    line_breaks = 0
    width = passage.box.width / size - _LINE_MARGINS
    for line in passage.text.strip().splitlines():
        line_words = vocabulary.word_numbers(line.split())
        if vocabulary.widest_extent > width:
            smallest_width = passage.box.width / passage.sizes.smallest - _LINE_MARGINS
            line_words, line_continuations = break_long_words(vocabulary, line_words, width, smallest_width)
            continuations.extend(len(numbers) + index for index in line_continuations)
        if line_words:
            if numbers:
                breaks[len(numbers)] = line_breaks
            numbers += line_words
            line_breaks = 0
        line_breaks += 1
    return _PassageWords(numbers, breaks, continuations)


_LINE_MARGINS = 2 * LEAN_ROOM + LINE_MARGIN


def _lay_out(
    vocabulary: Vocabulary, passages: Sequence[Passage], passage_words: Sequence[_PassageWords], *, rejoin_parts: bool
) -> PassageLayout:
    words, lengths = _to_table([words_of_passage.word_numbers for words_of_passage in passage_words], -1)
    breaks = np.zeros(words.shape, np.int64)
    is_continuation = np.zeros(words.shape, np.bool_)
    for row, words_of_passage in enumerate(passage_words):
        for column, count in words_of_passage.breaks.items():
            breaks[row, column] = count
        if words_of_passage.continuations:
            is_continuation[row, words_of_passage.continuations] = True
    leading = vocabulary.hand.style.leading * vocabulary.hand.style.scale
    measures = vocabulary.word_measures(words)
    fitter = _SizeFitter(passages, measures, breaks, is_continuation, leading, vocabulary.word_gap)
    sizes, lines, fits = fitter.find_largest_sizes()
    if rejoin_parts and is_continuation.any():
        words, lines, lengths = _rejoin_parts(vocabulary, words, lines, lengths, is_continuation)
        measures = vocabulary.word_measures(words)
    return PassageLayout(passages, measures, words, lengths, lines, sizes, fits, leading, vocabulary.word_gap)


def _to_table(rows: Sequence[list[int]], fill_value: int) -> tuple[Integers, Integers]:
    """The rows as one array, filled up on their right, and their lengths."""
    lengths = np.array([len(row) for row in rows], np.int64)
    is_filled = np.arange(int(lengths.max(initial=0))) < lengths[:, None]
    table = np.full(is_filled.shape, fill_value, np.int64)
    table[is_filled] = np.fromiter(chain.from_iterable(rows), np.int64, lengths.sum())
    return table, lengths


def _rejoin_parts(
    vocabulary: Vocabulary, words: Integers, lines: Integers, lengths: Integers, is_continuation: Flags
) -> tuple[Integers, Integers, Integers]:
    """Parts of a word that share a line are written as one."""
    joins_previous = is_continuation.copy()
    joins_previous[:, 1:] &= lines[:, 1:] == lines[:, :-1]
    word_rows = [row[:length] for row, length in zip(words.tolist(), lengths.tolist(), strict=True)]
    line_rows = [row[:length] for row, length in zip(lines.tolist(), lengths.tolist(), strict=True)]
    rejoined_numbers: dict[tuple[int, int], int] = {}
    # From the end, as what is rejoined leaves its place.
    for row, column in np.argwhere(joins_previous)[::-1].tolist():
        word_row = word_rows[row]
        pair = word_row[column - 1], word_row[column]
        if pair not in rejoined_numbers:
            rejoined_numbers[pair] = vocabulary.word_numbers(["".join(map(vocabulary.word_text, pair))])[0]
        word_row[column - 1 : column + 1] = [rejoined_numbers[pair]]
        del line_rows[row][column]
    table, lengths = _to_table(word_rows, -1)
    # Past its end a passage stays on its last line, as the fitter leaves it.
    filled = [line_row + (line_row[-1:] or [0]) * (table.shape[1] - len(line_row)) for line_row in line_rows]
    return table, np.array(filled, np.int64).reshape(table.shape), lengths


class _SizeFitter:
    """Finds for every passage the largest size at which it fits its box."""

    def __init__(
        self,
        passages: Sequence[Passage],
        measures: Floats,
        breaks: Integers,
        is_continuation: Flags,
        leading: float,
        gap: float,
    ) -> None:
        self._passages = passages
        self._leading = leading
        left, right, bottom, top = box_edges(passages)
        self._widths, self._heights = right - left, top - bottom
        self._ink_heights = measures[:, :, 3:].max(axis=1, initial=0.0).sum(axis=1) + 2 * WANDER_ROOM
        # Columns one after the other in memory, as the walk along the lines reads them.
        advance, left_overhang, right_overhang = (np.ascontiguousarray(measures[:, :, k].T) for k in range(3))
        gaps = np.where(is_continuation.T, 0.0, gap + extra_gap(left_overhang))
        self._word_steps = np.where(advance > 0, advance + gaps, 0.0)
        self._first_word_widths = left_overhang + advance
        self._right_overhangs = right_overhang
        self._breaks = np.ascontiguousarray(breaks.T)
        self._has_breaks: list[bool] = np.asarray(self._breaks.any(axis=1)).tolist()

    def find_largest_sizes(self) -> tuple[Floats, Integers, Flags]:
        size_ranges = [passage.sizes for passage in self._passages]
        limits = read_distinct(size_ranges, lambda sizes: (sizes.smallest, sizes.largest)) * _STEPS_PER_POINT
        smallest, largest = np.broadcast_to(np.rint(limits).astype(np.int64), (2, len(size_ranges)))
        next_size = smallest
        fits = np.zeros(len(smallest), np.bool_)
        # Whatever does not fit at one size does not fit at a larger one either.
        while (next_size <= largest).any():
            middle = (next_size + largest) // 2
            fits_now = self._fits_at(middle, self._break_lines(middle)) & (next_size <= largest)
            fits |= fits_now
            next_size, largest = (np.where(fits_now, middle + 1, next_size), np.where(fits_now, largest, middle - 1))
        best_sizes = np.maximum(next_size - 1, smallest)
        return best_sizes / _STEPS_PER_POINT, np.ascontiguousarray(self._break_lines(best_sizes).T), fits

    def _fits_at(self, half_points: Integers, lines: Integers) -> Flags:
        size = half_points / _STEPS_PER_POINT
        last_lines = lines[-1] if len(lines) else np.zeros(len(size), np.int64)
        widest_words = (self._first_word_widths + self._right_overhangs).max(axis=0, initial=0.0)
        is_too_high = (last_lines * self._leading + self._ink_heights) * size > self._heights
        return ~is_too_high & (widest_words <= self._line_widths(size))

    def _line_widths(self, size: Floats) -> Floats:
        return self._widths / size - _LINE_MARGINS

    def _break_lines(self, half_points: Integers) -> Integers:
        """The line of every word at these sizes."""
        line_widths = self._line_widths(half_points / _STEPS_PER_POINT)
        if len(line_widths) <= _MAX_SLOW_ROWS:
            row_lines = [self._break_lines_of_row(row, width) for row, width in enumerate(line_widths.tolist())]
            return np.array(row_lines, np.int64).T
        lines = np.zeros(self._word_steps.shape, np.int64)
        if not len(lines):
            return lines
        line, reach = lines[0], self._first_word_widths[0]
        for column in range(1, len(lines)):
            next_reach = reach + self._word_steps[column]
            wraps = next_reach + self._right_overhangs[column] > line_widths
            if self._has_breaks[column]:
                breaks = self._breaks[column]
                line = line + np.maximum(wraps, breaks)
                wraps = wraps | (breaks > 0)
            else:
                line = line + wraps
            reach = np.where(wraps, self._first_word_widths[column], next_reach)
            lines[column] = line
        return lines

    def _break_lines_of_row(self, row: int, line_width: float) -> list[int]:
        """The same for one passage, as in a preview: plain Python costs less than calls of numpy."""
        columns = (self._word_steps, self._first_word_widths, self._right_overhangs, self._breaks)
        steps, firsts, rights, breaks = (column[:, row].tolist() for column in columns)
        lines, line, reach = [0] * len(steps), 0, firsts[0] if firsts else 0.0
        for index in range(1, len(steps)):
            next_reach = reach + steps[index]
            wraps = next_reach + rights[index] > line_width
            line += max(wraps, breaks[index])
            reach = firsts[index] if wraps or breaks[index] else next_reach
            lines[index] = line
        return lines


def extra_gap(left_overhang: Floats) -> Floats:
    """A word that reaches back into its gap needs a wider one."""
    return np.maximum(left_overhang - _FREE_OVERHANG, 0.0)


def box_edges(passages: Sequence[Passage]) -> Floats:
    """Left, right, bottom and top of the passages' boxes."""
    return read_distinct([passage.box for passage in passages], lambda box: (box.left, box.right, box.bottom, box.top))


def read_distinct(items: Sequence[Thing], read: Callable[[Thing], Sequence[float]]) -> Floats:
    """What is read of each item, in columns; one column where all items are the same object."""
    distinct = {id(item): item for item in items}
    table = np.array([read(item) for item in distinct.values()], np.float64)
    if len(distinct) != 1:
        column_by_id = {item_id: column for column, item_id in enumerate(distinct)}
        table = table[[column_by_id[id(item)] for item in items]]
    return table.T
