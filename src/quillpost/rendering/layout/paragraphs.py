"""The handwritten passages of a design, broken into lines and fitted, many at once."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from quillpost.rendering.handwriting.models import Style
from quillpost.rendering.handwriting.sheet.models import Signature
from quillpost.rendering.handwriting.vocabulary import Vocabulary, break_long_words
from quillpost.rendering.layout.line_breaks import (
    FREE_OVERHANG,
    LEAN_ROOM,
    LINE_MARGIN,
    LineBreaker,
    box_edges,
    read_distinct,
)
from quillpost.rendering.layout.models import (
    FIXED_SIZES,
    MAX_FONT_SIZE,
    MIN_FONT_SIZE,
    WANDER_ROOM,
    DoesNotFit,
    Flags,
    Floats,
    Integers,
    Passage,
    PassageLayout,
    Side,
    SizeRange,
)
from quillpost.rendering.layout.signatures import SignatureRooms, fit_signature
from quillpost.rendering.layout.text import handwritten_address_lines, handwritten_return_lines
from quillpost.rendering.models import DEFAULT_MANNER, Addressee, Design

_MAX_SIZE_LOSS = 1.0
_STEPS_PER_POINT = 2
_MAX_GROUP_CELLS = 200_000

_PASSAGES_PER_ITEM = 3
# On an envelope a person writes neither tiny nor across all of it.
_ADDRESS_SIZES = SizeRange(10.0, 19.0)
_RETURN_SIZES = SizeRange(8.0, 12.0)


def handwriting_settings(design: Design, style: Style) -> tuple[SizeRange, str]:
    """The sizes of the message, and the manner of the hand; only AI hands give a choice."""
    fixed = FIXED_SIZES.get(design.font_size) if style.kind == "AI" else None
    sizes = SizeRange(fixed or MIN_FONT_SIZE, fixed or MAX_FONT_SIZE)
    return sizes, design.manner if style.kind == "AI" else DEFAULT_MANNER


class MessageSettings(NamedTuple):
    """How the messages of a design are written; `signature_width` is in heights."""

    sizes: SizeRange
    manner: str
    signature_width: float | None


def message_settings(design: Design, style: Style) -> MessageSettings:
    signature = Signature.from_bytes(design.signature) if design.signature else None
    return MessageSettings(*handwriting_settings(design, style), signature.width if signature else None)


def make_message_passage(
    side: Side, design: Design, text: str, seed: int, settings: MessageSettings, *, qr: bool
) -> Passage | None:
    box = side.message_above_qr if qr and side.qr else side.message
    sizes, manner, signature_width = settings
    if not box or not (text or signature_width):
        return None
    signature = fit_signature(signature_width, box) if signature_width else None
    seed, is_centered = _PASSAGES_PER_ITEM * seed, side.message_align == "center"
    return Passage("message", text, box, sizes, design.ink, seed, manner, is_centered=is_centered, signature=signature)


def make_address_passage(side: Side, design: Design, addressee: Addressee, seed: int, *, manner: str) -> Passage | None:
    if not side.handwritten or not side.address:
        return None
    lines = handwritten_address_lines(addressee)
    if not lines:
        return None
    passage_seed = _PASSAGES_PER_ITEM * seed + 1
    text = "\n".join(lines)
    return Passage("address", text, side.address, _ADDRESS_SIZES, design.ink, passage_seed, manner, keeps_words=True)


def make_return_passage(side: Side, design: Design, seed: int, *, manner: str) -> Passage | None:
    box = side.return_address
    if not side.handwritten or not box:
        return None
    lines = handwritten_return_lines(design.return_address)
    if not lines:
        return None
    passage_seed = _PASSAGES_PER_ITEM * seed + 2
    text = "\n".join(lines)
    return Passage("return address", text, box, _RETURN_SIZES, design.ink, passage_seed, manner, keeps_words=True)


def lay_out_passages(vocabulary: Vocabulary, passages: Sequence[Passage]) -> list[tuple[list[int], PassageLayout]]:
    """All passages, the long apart from the short; with each group the indexes of its passages."""
    # From that size on a word wider than a line is broken.
    breaking_sizes = [passage.sizes.smallest if passage.keeps_words else passage.sizes.largest for passage in passages]
    words = [_split_passage(vocabulary, passage, size) for passage, size in zip(passages, breaking_sizes, strict=True)]
    broken_indexes = [
        index
        for index, passage in enumerate(passages)
        if words[index].continuations and breaking_sizes[index] > passage.sizes.smallest
    ]
    if broken_indexes:
        for index, rejoined in _rejoin_broken_words(vocabulary, passages, words, broken_indexes):
            words[index] = rejoined
    return list(_lay_out_in_groups(vocabulary, passages, words, range(len(passages))))


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
        line_words = vocabulary.word_numbers(vocabulary.split_line(line))
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
    leading = vocabulary.style.leading * vocabulary.style.scale
    measures = vocabulary.word_measures(words)
    fitter = _SizeFitter(passages, measures, breaks, is_continuation, leading, vocabulary.word_gap)
    sizes, lines, fits = fitter.find_largest_sizes()
    if rejoin_parts and is_continuation.any():
        words, lines, lengths = _rejoin_parts(vocabulary, words, lines, lengths, is_continuation)
        measures = vocabulary.word_measures(words)
    return PassageLayout(
        passages,
        measures,
        words,
        lengths,
        lines,
        sizes,
        fits,
        leading,
        vocabulary.word_gap,
        fitter.signature_rooms(sizes),
        breaks[:, : words.shape[1]],
        np.asarray(is_continuation.any(axis=1)),
    )


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
        box_left, box_right, bottom, top = box_edges(passages)
        self._widths, self._heights = box_right - box_left, top - bottom
        self._ink_heights = measures[:, :, 3:].max(axis=1, initial=0.0).sum(axis=1) + 2 * WANDER_ROOM
        advance, left, right = (measures[:, :, k] for k in range(3))
        gaps = np.where(is_continuation, 0.0, gap + np.maximum(left - FREE_OVERHANG, 0.0))
        self._breaker = LineBreaker(advance, left, right, gaps, breaks)
        self._signatures = SignatureRooms.of(passages)

    def find_largest_sizes(self) -> tuple[Floats, Integers, Flags]:
        size_ranges = [passage.sizes for passage in self._passages]
        limits = read_distinct(size_ranges, lambda sizes: (sizes.smallest, sizes.largest)) * _STEPS_PER_POINT
        smallest, largest = np.broadcast_to(np.rint(limits).astype(np.int64), (2, len(size_ranges)))
        next_size = smallest
        fits = np.zeros(len(smallest), np.bool_)
        widest_words = self._breaker.widest_words
        # Whatever does not fit at one size does not fit at a larger one either.
        while (next_size <= largest).any():
            middle = (next_size + largest) // 2
            size, lines = middle / _STEPS_PER_POINT, self._break_lines(middle)
            last_lines = lines[-1] if len(lines) else np.zeros(len(size), np.int64)
            text_heights = (last_lines * self._leading + self._ink_heights) * size
            is_too_high = text_heights + self.signature_rooms(size) > self._heights
            is_too_wide = widest_words > self._widths / size - _LINE_MARGINS
            fits_now = ~is_too_high & ~is_too_wide & (next_size <= largest)
            fits |= fits_now
            next_size, largest = (np.where(fits_now, middle + 1, next_size), np.where(fits_now, largest, middle - 1))
        best_sizes = np.maximum(next_size - 1, smallest)
        return best_sizes / _STEPS_PER_POINT, np.ascontiguousarray(self._break_lines(best_sizes).T), fits

    def signature_rooms(self, sizes: Floats) -> Floats:
        return self._signatures.rooms(self._leading * sizes) if self._signatures else np.zeros_like(sizes)

    def _break_lines(self, half_points: Integers) -> Integers:
        """The line of every word at these sizes."""
        return self._breaker.break_lines(self._widths / (half_points / _STEPS_PER_POINT) - _LINE_MARGINS)
