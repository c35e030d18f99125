"""Letters that often meet are written together: shared bars, the second l, o from its top, ing and er."""

import numpy as np
import pytest

from quillpost.rendering.handwriting.bent_letters import BentLetters
from quillpost.rendering.handwriting.letter_pairs import (
    find_high_pairs,
    find_pairs,
    joining_shares,
    share_bars,
    vary_second_l,
)
from quillpost.rendering.handwriting.letterforms import LineKind
from quillpost.rendering.handwriting.models import Style
from quillpost.rendering.handwriting.outlines import Floats
from quillpost.rendering.handwriting.word_paths import PenPaths
from support import designs
from support.natural_writing import NATURAL_STYLES, bend_words, movement_of, natural_hand, shape_paths

EVERY_HAND = pytest.mark.parametrize("style", NATURAL_STYLES, ids=lambda style: style.name)
TIMES = 24
WITH_SHORT_BARS = 3


def bars_of(letters: BentLetters) -> dict[int, int]:
    """The line of each letter's bar."""
    return {int(letters.line_letter[line]): int(line) for line in np.flatnonzero(letters.kind == LineKind.BAR)}


def line_x(letters: BentLetters, line: int) -> Floats:
    return letters.x[slice(*letters.line_starts[line : line + 2])]


def test_pairs_are_found_within_words_only() -> None:
    letters = bend_words(natural_hand(designs.UNJOINED), ["letter", "at", "toot", "off"])
    found = find_pairs(letters.tables, letters.forms, letters.words, "tt", "ff")
    assert found.tolist() == [2, 13]
    assert find_high_pairs(letters.tables, letters.forms, letters.words).tolist() == [9, 12]


@EVERY_HAND
@pytest.mark.parametrize("word", ["letter", "offer"])
def test_two_letters_with_bars_in_a_row_share_one(style: Style, word: str) -> None:
    letters = bend_words(natural_hand(style.number), [word] * TIMES)
    before = bars_of(letters)
    ends = {letter: (line_x(letters, line).min(), line_x(letters, line).max()) for letter, line in before.items()}
    pairs = [letter for letter in before if letter + 1 in before]
    share_bars(letters)
    shared = bars_of(letters)
    assert [letter for letter in pairs if letter + 1 in shared] == []
    for letter in pairs:
        bar = line_x(letters, shared[letter])
        assert (bar.min(), bar.max()) == pytest.approx((ends[letter][0], ends[letter + 1][1]))


def test_of_three_t_the_third_keeps_its_bar() -> None:
    letters = bend_words(natural_hand(designs.HALF_JOINED), ["ttt"] * TIMES)
    before = bars_of(letters)
    share_bars(letters)
    whole = [word for word in range(TIMES) if all(3 * word + place in before for place in range(3))]
    left = [[place for place in range(3) if 3 * word + place in bars_of(letters)] for word in whole]
    assert whole
    assert left == [[0, 2]] * len(whole)


def test_the_bar_of_a_t_runs_on_over_some_h_and_over_no_other_letter() -> None:
    letters = bend_words(natural_hand(WITH_SHORT_BARS), ["ththth", "tatata"] * TIMES)
    before = {letter: line_x(letters, line).max() for letter, line in bars_of(letters).items()}
    share_bars(letters)
    after = {letter: line_x(letters, line).max() for letter, line in bars_of(letters).items()}
    grown = {letter for letter in before if after[letter] > before[letter]}
    before_h = {letter for letter in before if letters.words[letter] % 2 == 0}
    assert grown < before_h
    assert 0.2 < len(grown) / len(before_h) < 0.7
    for letter in grown:
        stem = letters.x[(letters.letter == letter + 1) & (letters.y > 1)]
        assert abs(after[letter] - np.median(stem)) < 0.5


@EVERY_HAND
def test_the_second_l_is_lower_than_it_would_be_and_stays_tall(style: Style) -> None:
    letters = bend_words(natural_hand(style.number), ["all"] * TIMES)
    tops = [letters.y[letters.letter == letter].max() for letter in range(3 * TIMES)]
    leaning = letters.x.copy()
    vary_second_l(letters)
    lowered = [letters.y[letters.letter == letter].max() for letter in range(3 * TIMES)]
    assert lowered[1::3] == tops[1::3]
    drops = np.subtract(tops[2::3], lowered[2::3])
    assert (drops >= 0).all()
    assert 0.02 < drops.mean() < 0.3
    assert (np.array(lowered[2::3]) > np.minimum(tops[2::3], 1.6) - 1e-9).all()
    moved = {int(letter) for letter in letters.letter[letters.x != leaning]}
    assert moved <= set(range(2, 3 * TIMES, 3))
    assert len(moved) > TIMES / 2


def test_ing_and_er_run_on_more_often_than_other_letters() -> None:
    hand = natural_hand(designs.HALF_JOINED)
    letters = bend_words(hand, ["ring", "inner"])
    joining = movement_of(hand.style).joining
    shares = joining_shares(letters.tables, letters.forms, letters.words, joining)
    assert [share > joining for share in shares] == [False, True, True, False, False, False, False, True, False]
    assert shares.max() < 1
    assert not joining_shares(letters.tables, letters.forms, letters.words, 0).any()


def first_ends(paths: PenPaths) -> Floats:
    """Of each word, where its first path ends."""
    return paths.knots[paths.starts[1:] - 1][np.searchsorted(paths.word, np.arange(TIMES))]


@EVERY_HAND
def test_an_o_leads_on_from_its_top_to_an_o_and_meets_it_high(style: Style) -> None:
    hand, led_on = natural_hand(style.number), 0
    tables, count = hand.alphabet.letters.tables, hand.count_forms("o")
    for first in range(count):
        joined, apart = (shape_paths(hand, ["oo"] * TIMES, joining=share, first_form=first) for share in (1.0, 0.0))
        ends, ends_apart = (first_ends(paths) for paths in (joined, apart))
        leads_on = ends[:, 0] != ends_apart[:, 0]
        led_on += leads_on.sum()
        # An open o has an exit of its own, which may be low.
        if tables.ring[tables.first_form["o"] + first] >= 0:
            assert ends[leads_on, 1].min(initial=1.0) > 0.6
    assert led_on > TIMES / 3


@EVERY_HAND
def test_the_pen_is_lifted_after_an_r_that_ends_with_its_arm(style: Style) -> None:
    """Or it would read as n."""
    tables = natural_hand(style.number).alphabet.letters.tables
    first = tables.first_form["r"]
    for number, form in enumerate(tables.hand.forms["r"]):
        runs_on = tables.exits[first + number] >= 0
        assert runs_on == (form.exit is not None and form.lines[form.exit].knots[-1, 1] < 0.61)


@pytest.mark.parametrize("number", [designs.UNJOINED, 5, 12, 29])
def test_a_bar_does_not_reach_the_i_before_it(number: int) -> None:
    """Or It would read as H."""
    letters = bend_words(natural_hand(number), ["It"] * TIMES)
    gaps = []
    for letter, line in bars_of(letters).items():
        stem = letters.x[letters.letter == letter - 1]
        gaps.append(line_x(letters, line).min() - np.median(stem))
    assert not gaps or np.mean(np.array(gaps) > 0) > 0.8
