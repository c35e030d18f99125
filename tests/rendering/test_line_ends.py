"""The edges of a message: lines are filled, a word squeezed in now and then, and the left margin drifts."""

import re
from collections.abc import Iterator
from itertools import groupby, pairwise
from statistics import mean, pstdev
from typing import NamedTuple

import numpy as np
import pytest

from quillpost.rendering.files import make_vocabulary
from quillpost.rendering.handwriting.vocabulary import Vocabulary
from quillpost.rendering.layout.models import Passage, PassageLayout, SizeRange
from quillpost.rendering.layout.paragraphs import lay_out_passages
from quillpost.rendering.layout.passages import write_passages
from quillpost.rendering.models import Box
from support import designs
from support.natural_writing import COMMON_WORDS

CLOSING = "\nWarm regards,\nDana Whitfield"
BOXES = {piece: designs.PIECES[piece].message_side.message for piece in ("postcard-4x6", "letter")}


class Word(NamedTuple):
    """Where a word is written, its ink and how large; in points."""

    line: int
    x: float
    left: float
    right: float
    across: float
    upright: float


def notes(piece: str, count: int = 40, closing: str = "", manner: str = "natural") -> list[Passage]:
    box = BOXES[piece]
    assert box
    sizes = SizeRange(17.0, 17.0) if piece == "letter" else SizeRange(11.0, 26.0)
    texts = np.random.default_rng(7).choice(COMMON_WORDS, (count, 90 if piece == "letter" else 40))
    return [
        Passage("message", " ".join(text) + closing, box, sizes, (0, 0, 0), seed, manner)
        for seed, text in enumerate(texts)
    ]


def vocabulary(hand: int) -> Vocabulary:
    return make_vocabulary(designs.make_renderer().hands.hand(hand))


def written(words: Vocabulary, passages: list[Passage]) -> Iterator[tuple[PassageLayout, int, list[Word]]]:
    """Each note as its operators place it; a new line begins where a word is left of the one before."""
    for _, layout in lay_out_passages(words, passages):
        seeds, manners = zip(*((passage.seed, passage.manner) for passage in layout.passages), strict=True)
        shown = words.show(layout.word_numbers, seeds, manners).measures
        for row, operators in enumerate(write_passages(words, layout)):
            line, found = 0, list[Word]()
            matrices = re.findall(rb"(-?[\d.]+) -?[\d.]+ -?[\d.]+ (-?[\d.]+) ([\d.]+) [\d.]+ Tm", operators)
            for matrix, measures in zip(matrices, shown[row].tolist(), strict=False):
                across, upright, x = map(float, matrix)
                line += bool(found) and x < found[-1].x
                scale = across / words.style.scale
                left, right = x - measures[1] * scale, x + (measures[0] + measures[2]) * scale
                found.append(Word(line, x, left, right, across, upright))
            yield layout, row, found


def lines_of(found: list[Word]) -> list[list[Word]]:
    return [list(line) for _, line in groupby(found, key=lambda word: word.line)]


@pytest.mark.parametrize("piece", BOXES)
@pytest.mark.parametrize("hand", [*designs.NATURAL_HANDS, designs.LETTERING])
def test_a_line_ends_where_the_next_word_has_no_room_and_never_outside(hand: int, piece: str) -> None:
    words, box = vocabulary(hand), BOXES[piece]
    assert box
    early, ends, squeezed = 0, 0, 0
    for layout, row, found in written(words, notes(piece)):
        size, lines = layout.sizes[row], lines_of(found)
        assert len(lines) <= layout.line_numbers[row].max() + 1
        for line, following in pairwise(lines):
            ends += 1
            needed = following[0].right - following[0].x + layout.word_gap * size
            early += line[-1].right + needed < box.right
            squeezed += line[-1].across < line[-1].upright
        for line in lines:
            assert all(word.across == pytest.approx(word.upright, abs=0.002) for word in line[:-1])
            assert line[-1].across >= 0.899 * line[-1].upright
            assert box.left - designs.HAIR <= line[0].left
            assert line[-1].right <= box.right + designs.HAIR
            for word, after in pairwise(line):
                assert after.x - word.x > 0.2 * layout.word_gap * size, "words stay apart"
    assert early < 0.08 * ends, "a fifth to nine tenths by the usual widths of the words"
    assert (piece == "postcard-4x6") <= squeezed < 0.1 * ends, "narrow lines are squeezed more often"


def test_the_left_edge_drifts_also_where_lines_are_full() -> None:
    words = vocabulary(designs.HALF_JOINED)
    spreads = {}
    for manner in ("neat", "natural", "lively"):
        edges = [
            pstdev(line[0].left / layout.sizes[row] for line in lines_of(found))
            for layout, row, found in written(words, notes("letter", manner=manner))
        ]
        spreads[manner] = mean(edges)
    assert 0.02 < spreads["neat"] < 0.7 * spreads["natural"]
    assert 0.08 < spreads["natural"] < spreads["lively"] < 0.3


@pytest.mark.parametrize("hand", designs.NATURAL_HANDS)
def test_a_note_begins_large_and_the_name_that_closes_it_is_larger_too(hand: int) -> None:
    words, first, closing, end = vocabulary(hand), [], [], []
    for layout, row, found in written(words, notes("letter", closing=CLOSING)):
        assert layout.fits[row]
        usual = mean(word.upright for word in found[1:-4])
        first.append(found[0].upright / usual)
        closing.append(mean(word.upright for word in found[-2:]) / usual)
    for _, _, found in written(words, notes("letter")):
        end.append(mean(word.upright for word in found[-2:]) / mean(word.upright for word in found[1:-2]))
    assert mean(first) == pytest.approx(1.06, abs=0.015)
    assert 1.035 < mean(closing) < 1.07
    assert mean(end) == pytest.approx(1.0, abs=0.015), "a note's last words are no closing"
    address = [passage._replace(keeps_words=True) for passage in notes("letter", closing=CLOSING)]
    for layout, row, found in written(words, address):
        assert max(word.upright for word in found) <= layout.sizes[row] * words.style.scale + 0.001


def test_a_note_is_the_same_in_any_batch_and_by_either_way_of_breaking_lines() -> None:
    """Few passages are broken into lines in plain Python, and many in numpy."""
    words, own = vocabulary(designs.JOINED), notes("postcard-4x6", 24, CLOSING)
    together: dict[int, bytes] = {}
    for places, layout in lay_out_passages(words, own):
        together |= dict(zip(places, write_passages(words, layout), strict=True))
    for place in (0, 5, 23):
        ((_, layout),) = lay_out_passages(words, [own[place]])
        assert [*write_passages(words, layout)] == [together[place]]


def test_words_on_a_narrow_box_stay_inside_it() -> None:
    words = vocabulary(designs.UNJOINED)
    for width in (60.0, 75.0, 90.0, 120.0):
        box = Box(20.0, 20.0, width, 400.0)
        passages = [passage._replace(box=box) for passage in notes("postcard-4x6", 12)]
        for _, _, found in written(words, passages):
            for word in found:
                assert box.left - designs.HAIR <= word.left
                assert word.right <= box.right + designs.HAIR
