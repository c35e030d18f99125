"""Line breaking and fitting, for many texts at once: which words share a line, and how large they can be."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from math import ceil
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from quillpost.rendering.geometry import Box
from quillpost.rendering.handwriting.vocabulary import Vocabulary
from quillpost.rendering.layout.long_words import break_long_words
from quillpost.rendering.models import Ink

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

_POINT = 1.0
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

    `what` is what the sender calls it. One that `keeps_words` is rather written smaller than that a long word
    is broken. One that `is_centered` lies in the middle of a box that it does not fill.
    """

    what: str
    text: str
    box: Box
    sizes: Sizes
    ink: Ink
    seed: int
    is_even: bool = False
    keeps_words: bool = False
    is_centered: bool = False


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

    @property
    def heights(self) -> Numbers:
        """How much of its box's height each passage takes up."""
        reach = self.measures[:, :, 3:].max(axis=1, initial=0.0).sum(axis=1) + 2 * WANDER
        last: Integers = self.lines.max(axis=1, initial=0)
        heights: Numbers = (last * self.leading + reach) * self.sizes
        return heights

    def excess(self, row: int) -> tuple[int, int]:
        """By how many lines, and about how many letters, a passage that does not fit is too long."""
        line_height = self.leading * self.sizes[row]
        over = self.heights[row] - self.passages[row].box.height
        lines = max(1, ceil(over / line_height - 1e-9))
        per_line = len(self.passages[row].text) / (self.lines[row].max(initial=0) + 1)
        return lines, max(10, round(lines * per_line / 10) * 10)


def chunks(vocabulary: Vocabulary, passages: Sequence[Passage]) -> list[tuple[list[int], Layout]]:
    """All passages laid out, the long apart from the short; with each group the places of its passages."""
    words = [_words_of(vocabulary, passage, _breaking_size(passage)) for passage in passages]
    broken = [
        place
        for place, passage in enumerate(passages)
        if words[place].joined and _breaking_size(passage) > passage.sizes.smallest
    ]
    for place, whole in _with_fewer_breaks(vocabulary, passages, words, broken):
        words[place] = whole
    return list(_in_groups(vocabulary, passages, words, range(len(passages))))


def _breaking_size(passage: Passage) -> float:
    """The size from which on a word that is wider than a line is broken."""
    return passage.sizes.smallest if passage.keeps_words else passage.sizes.largest


def _with_fewer_breaks(
    vocabulary: Vocabulary, passages: Sequence[Passage], words: Sequence["_Words"], places: Sequence[int]
) -> Iterator[tuple[int, "_Words"]]:
    """Passages in which long words, broken wherever a large letter needs it, are whole again where the size
    that all words have come to allows it; unless that costs more than a point of it."""
    sizes = _sizes_of(vocabulary, passages, words, places)
    whole = dict(enumerate(words)) | {
        place: _words_of(vocabulary, passages[place], size) for place, (size, _) in sizes.items()
    }
    changed = [place for place in places if whole[place] != words[place]]
    for place, (size, fits) in _sizes_of(vocabulary, passages, whole, changed).items():
        if fits and size >= sizes[place][0] - _POINT:
            yield place, whole[place]


def _sizes_of(
    vocabulary: Vocabulary,
    passages: Sequence[Passage],
    words: "Sequence[_Words] | Mapping[int, _Words]",
    places: Sequence[int],
) -> dict[int, tuple[float, bool]]:
    """At which size each of those passages is written, and whether it fits at all."""
    return {
        place: (float(layout.sizes[row]), bool(layout.fits[row]))
        for group, layout in _in_groups(vocabulary, passages, words, places, rejoins=False)
        for row, place in enumerate(group)
    }


def _in_groups(
    vocabulary: Vocabulary,
    passages: Sequence[Passage],
    words: "Sequence[_Words] | Mapping[int, _Words]",
    places: Sequence[int],
    *,
    rejoins: bool = True,
) -> Iterator[tuple[list[int], Layout]]:
    """The passages laid out together that are about as long; parts of words stay apart unless it rejoins."""
    groups: list[list[int]] = []
    for place in sorted(places, key=lambda place: len(words[place].numbers)):
        width = max(1, len(words[place].numbers))
        if not groups or (len(groups[-1]) + 1) * width > _CELLS_AT_ONCE:
            groups.append([])
        groups[-1].append(place)
    for group in groups:
        some = [passages[p] for p in group]
        yield group, _lay_out(vocabulary, some, [words[p] for p in group], rejoins=rejoins)


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


class _Words(NamedTuple):
    """A passage's words; before which of them how many lines end; which go on with the word before them."""

    numbers: list[int]
    breaks: dict[int, int]
    joined: list[int]


def _words_of(vocabulary: Vocabulary, passage: Passage, size: float) -> _Words:
    """The passage's words, those in parts that are too long for a line at that size."""
    numbers, breaks, joined = list[int](), dict[int, int](), list[int]()
    ended = 0
    width = passage.box.width / size - _MARGINS
    for line in passage.text.strip().splitlines():
        found = vocabulary.numbers(line.split())
        if vocabulary.widest > width:
            least = passage.box.width / passage.sizes.smallest - _MARGINS
            found, parts = break_long_words(vocabulary, found, width, least)
            joined.extend(len(numbers) + place for place in parts)
        if found:
            if numbers:
                breaks[len(numbers)] = ended
            numbers += found
            ended = 0
        ended += 1
    return _Words(numbers, breaks, joined)


_MARGINS = 2 * LEAN + MARGIN


def _lay_out(
    vocabulary: Vocabulary, passages: Sequence[Passage], found: Sequence[_Words], *, rejoins: bool
) -> Layout:
    words, lengths = _table([own.numbers for own in found], -1)
    breaks = np.zeros(words.shape, np.int64)
    joined = np.zeros(words.shape, np.bool_)
    for row, own in enumerate(found):
        for column, count in own.breaks.items():
            breaks[row, column] = count
        if own.joined:
            joined[row, own.joined] = True
    leading = vocabulary.hand.style.leading * vocabulary.hand.style.scale
    measures = vocabulary.measures(words)
    fitter = _Fitter(passages, measures, breaks, joined, leading, vocabulary.gap)
    sizes, lines, fits = fitter.largest()
    if rejoins and joined.any():
        words, lines, lengths = _rejoined(vocabulary, words, lines, lengths, joined)
        measures = vocabulary.measures(words)
    return Layout(passages, measures, words, lengths, lines, sizes, fits, leading, vocabulary.gap)


def _table(rows: Sequence[list[int]], empty: int) -> tuple[Integers, Integers]:
    """The rows as one array, filled up on their right; and their lengths."""
    lengths = np.array([len(row) for row in rows], np.int64)
    is_there = np.arange(int(lengths.max(initial=0))) < lengths[:, None]
    table = np.full(is_there.shape, empty, np.int64)
    table[is_there] = np.fromiter(chain.from_iterable(rows), np.int64, lengths.sum())
    return table, lengths


def _rejoined(
    vocabulary: Vocabulary, words: Integers, lines: Integers, lengths: Integers, joined: Flags
) -> tuple[Integers, Integers, Integers]:
    """Parts of a word that share a line are written in one go."""
    goes_on = joined.copy()
    goes_on[:, 1:] &= lines[:, 1:] == lines[:, :-1]
    own_words = [row[:length] for row, length in zip(words.tolist(), lengths.tolist(), strict=True)]
    own_lines = [row[:length] for row, length in zip(lines.tolist(), lengths.tolist(), strict=True)]
    known: dict[tuple[int, int], int] = {}
    # From the end, as what is rejoined leaves its place.
    for row, column in np.argwhere(goes_on)[::-1].tolist():
        numbers = own_words[row]
        pair = numbers[column - 1], numbers[column]
        if pair not in known:
            known[pair] = vocabulary.numbers(["".join(map(vocabulary.text, pair))])[0]
        numbers[column - 1 : column + 1] = [known[pair]]
        del own_lines[row][column]
    table, lengths = _table(own_words, -1)
    # Past its end a passage stays on its last line, as the fitter leaves it.
    filled = [own + (own[-1:] or [0]) * (table.shape[1] - len(own)) for own in own_lines]
    return table, np.array(filled, np.int64).reshape(table.shape), lengths


class _Fitter:
    """Finds for every passage the largest size at which it fits its box."""

    def __init__(
        self,
        passages: Sequence[Passage],
        measures: Numbers,
        breaks: Integers,
        joined: Flags,
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
        between = np.where(joined.T, 0.0, gap + overhang(before))
        self._steps = np.where(advance > 0, advance + between, 0.0)
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
