"""Line breaking and fitting, for many texts at once: which words share a line, and how large they can be."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from math import ceil
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from quillpost.composition.content import Ink
from quillpost.composition.geometry import Box
from quillpost.composition.hands.vocabulary import Vocabulary

Numbers = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Thing = TypeVar("Thing")

LARGEST, SMALLEST = 26.0, 11.0
FIXED_SIZES = {"large": 22.0, "medium": 17.0, "small": 13.0}

# In font sizes. A person's lines are not quite level nor quite flush: the fit leaves them this room.
LEAN = 0.03
WANDER = 0.05
MARGIN = 0.1

# So far may a word's first letter reach back towards the word before it.
_INTO_THE_GAP = 0.08

_HALVES_A_POINT = 2
_FEW = 8
_CELLS_AT_ONCE = 200_000


class DoesNotFit(Exception):
    """A text is too long for its place on the piece; `message` tells the sender what to do."""

    def __init__(self, overflow_lines: int, message: str) -> None:
        super().__init__(message)
        self.overflow_lines = overflow_lines
        self.message = message


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes at which a text may be written, in points, by halves."""

    smallest: float
    largest: float

    @classmethod
    def named(cls, font_size: str) -> "Sizes":
        fixed = FIXED_SIZES.get(font_size)
        return cls(SMALLEST, LARGEST) if fixed is None else cls(fixed, fixed)


class Passage(NamedTuple):
    """A text and its place. All its unevenness comes from `seed`; an even one has none.

    `what` is what the sender calls it.
    """

    what: str
    text: str
    box: Box
    sizes: Sizes
    ink: Ink
    seed: int
    is_even: bool = False


@dataclass(frozen=True, slots=True)
class Layout:
    """Passages in rows, words in columns: `words` are numbers, or -1 past a passage's end."""

    passages: Sequence[Passage]
    measures: Numbers  # of each word: advance, left, right, bottom, top
    words: Integers
    lengths: Integers
    lines: Integers
    sizes: Numbers
    fits: Flags
    leading: float
    gap: float

    def excess(self, row: int) -> tuple[int, int]:
        """By how many lines, and about how many letters, a passage that does not fit is too long."""
        line_height = self.leading * self.sizes[row]
        over = self._height(row) - self.passages[row].box.height
        lines = max(1, ceil(over / line_height - 1e-9))
        per_line = len(self.passages[row].text) / (self.lines[row].max(initial=0) + 1)
        return lines, max(10, round(lines * per_line / 10) * 10)

    def _height(self, row: int) -> float:
        reach = self.measures[row, :, 3:].max(axis=0, initial=0.0).sum() + 2 * WANDER
        height = (self.lines[row].max(initial=0) * self.leading + reach) * self.sizes[row]
        return float(height)


def chunks(vocabulary: Vocabulary, passages: Sequence[Passage]) -> list[tuple[list[int], Layout]]:
    """All passages laid out, the long apart from the short; with each group the places of its passages."""
    words = [_words_of(vocabulary, passage) for passage in passages]
    order = sorted(range(len(passages)), key=lambda place: len(words[place][0]))
    groups: list[list[int]] = []
    for place in order:
        width = max(1, len(words[place][0]))
        if not groups or (len(groups[-1]) + 1) * width > _CELLS_AT_ONCE:
            groups.append([])
        groups[-1].append(place)
    return [
        (group, _lay_out(vocabulary, [passages[p] for p in group], [words[p] for p in group]))
        for group in groups
    ]


def does_not_fit(layout: Layout, row: int, title: str) -> DoesNotFit:
    lines, letters = layout.excess(row)
    passage = layout.passages[row]
    names = {size: name for name, size in FIXED_SIZES.items()}
    is_fixed = passage.sizes.smallest == passage.sizes.largest
    at_size = f"at the {names[passage.sizes.largest]} size" if is_fixed else "even at the smallest size"
    plural = "line" if lines == 1 else "lines"
    return DoesNotFit(
        lines,
        f"The {passage.what} is {lines} {plural} too long for a {title} {at_size};"
        f" shorten it by about {letters} characters.",
    )


def _words_of(vocabulary: Vocabulary, passage: Passage) -> tuple[list[int], dict[int, int]]:
    """The passage's words, and before which of them how many lines end."""
    words: list[int] = []
    breaks: dict[int, int] = {}
    ended = 0
    width = passage.box.width / passage.sizes.smallest - _MARGINS
    for line in passage.text.strip().splitlines():
        found = vocabulary.numbers(line.split())
        if vocabulary.widest > width:
            found = _without_long_words(vocabulary, found, width)
        if found:
            if words:
                breaks[len(words)] = ended
            words += found
            ended = 0
        ended += 1
    return words, breaks


def _without_long_words(vocabulary: Vocabulary, words: list[int], width: float) -> list[int]:
    """A word that is wider than a line of the smallest letters is broken; others never are."""
    parts: list[int] = []
    for word in words:
        parts += vocabulary.parts_of(word, width) if vocabulary.extent(word) > width else [word]
    return parts


_MARGINS = 2 * LEAN + MARGIN


def _lay_out(
    vocabulary: Vocabulary, passages: Sequence[Passage], found: Sequence[tuple[list[int], dict[int, int]]]
) -> Layout:
    lengths = np.array([len(words) for words, _ in found], np.int64)
    columns = int(lengths.max(initial=0))
    is_there = np.arange(columns) < lengths[:, None]
    words = np.full(is_there.shape, -1, np.int64)
    words[is_there] = np.fromiter(chain.from_iterable(row for row, _ in found), np.int64, lengths.sum())
    breaks = np.zeros(is_there.shape, np.int64)
    for row, (_, ended) in enumerate(found):
        for column, count in ended.items():
            breaks[row, column] = count
    measures = vocabulary.measures(words)
    leading = vocabulary.hand.style.leading * vocabulary.hand.style.scale
    fitter = _Fitter(passages, measures, breaks, leading, vocabulary.gap)
    sizes, lines, fits = fitter.largest()
    return Layout(passages, measures, words, lengths, lines, sizes, fits, leading, vocabulary.gap)


class _Fitter:
    """Finds for every passage the largest size at which it fits its box."""

    def __init__(
        self,
        passages: Sequence[Passage],
        measures: Numbers,
        breaks: Integers,
        leading: float,
        gap: float,
    ) -> None:
        self._passages = passages
        self._leading = leading
        left, right, bottom, top = edges(passages)
        self._widths, self._heights = right - left, top - bottom
        self._reach = measures[:, :, 3:].max(axis=1, initial=0.0).sum(axis=1) + 2 * WANDER
        # Columns one after the other in memory, as the walk along the lines reads them.
        advance, before, behind = (np.ascontiguousarray(measures[:, :, k].T) for k in range(3))
        self._steps = np.where(advance > 0, advance + gap + overhang(before), 0.0)
        self._firsts = before + advance
        self._rights = behind
        self._breaks = np.ascontiguousarray(breaks.T)
        self._ends_somewhere: list[bool] = np.asarray(self._breaks.any(axis=1)).tolist()

    def largest(self) -> tuple[Numbers, Integers, Flags]:
        smallest, high = by_kind(
            [passage.sizes for passage in self._passages], lambda sizes: (sizes.smallest, sizes.largest)
        )
        count = len(self._passages)
        smallest, high = (np.broadcast_to(_halves(points), count) for points in (smallest, high))
        low = smallest
        fits = np.zeros(len(smallest), np.bool_)
        # Whatever does not fit at one size does not fit at a larger one either.
        while (low <= high).any():
            middle = (low + high) // 2
            does = self._fits(middle, self._lines(middle)) & (low <= high)
            fits |= does
            low, high = np.where(does, middle + 1, low), np.where(does, high, middle - 1)
        best = np.maximum(low - 1, smallest)
        return best / _HALVES_A_POINT, np.ascontiguousarray(self._lines(best).T), fits

    def _fits(self, halves: Integers, lines: Integers) -> Flags:
        size = halves / _HALVES_A_POINT
        last = lines[-1] if len(lines) else np.zeros(len(size), np.int64)
        too_wide = (self._firsts + self._rights).max(axis=0, initial=0.0) > self._room(size)
        return ((last * self._leading + self._reach) * size <= self._heights) & ~too_wide

    def _room(self, size: Numbers) -> Numbers:
        return self._widths / size - _MARGINS

    def _lines(self, halves: Integers) -> Integers:
        """The line of every word at these sizes, one row a column of words."""
        room = self._room(halves / _HALVES_A_POINT)
        if len(room) <= _FEW:
            each = [self._lines_of(row, width) for row, width in enumerate(room.tolist())]
            return np.array(each, np.int64).T
        lines = np.zeros(self._steps.shape, np.int64)
        if not len(lines):
            return lines
        line, reach = lines[0], self._firsts[0]
        for column in range(1, len(lines)):
            further = reach + self._steps[column]
            turns = further + self._rights[column] > room
            if self._ends_somewhere[column]:
                ended = self._breaks[column]
                line = line + np.maximum(turns, ended)
                turns = turns | (ended > 0)
            else:
                line = line + turns
            reach = np.where(turns, self._firsts[column], further)
            lines[column] = line
        return lines

    def _lines_of(self, row: int, room: float) -> list[int]:
        """The same for one passage, as a preview has: steps of plain Python cost less than calls of numpy."""
        columns = (self._steps, self._firsts, self._rights, self._breaks)
        steps, firsts, rights, breaks = (column[:, row].tolist() for column in columns)
        lines, line, reach = [0] * len(steps), 0, firsts[0] if firsts else 0.0
        for place in range(1, len(steps)):
            further = reach + steps[place]
            turns = further + rights[place] > room
            line += max(turns, breaks[place])
            reach = firsts[place] if turns or breaks[place] else further
            lines[place] = line
        return lines


def overhang(left: Numbers) -> Numbers:
    """How much wider the gap before a word is that reaches back into it: words must not run together."""
    return np.maximum(left - _INTO_THE_GAP, 0.0)


def edges(passages: Sequence[Passage]) -> Numbers:
    """Left, right, bottom and top of the passages' boxes."""
    return by_kind(
        [passage.box for passage in passages], lambda box: (box.left, box.right, box.bottom, box.top)
    )


def by_kind(things: Sequence[Thing], read: Callable[[Thing], Sequence[float]]) -> Numbers:
    """What is read of each thing, in columns; just one column where all of them are the same object.

    The passages of a batch have few boxes and sizes between them: each is read once.
    """
    kinds = {id(thing): thing for thing in things}
    table = np.array([read(thing) for thing in kinds.values()], np.float64)
    if len(kinds) != 1:
        place = {kind: number for number, kind in enumerate(kinds)}
        table = table[[place[id(thing)] for thing in things]]
    return table.T


def _halves(points: Numbers) -> Integers:
    return np.rint(points * _HALVES_A_POINT).astype(np.int64)
