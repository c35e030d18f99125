"""The measures of handwriting, on pictures of which the right answer is known."""

import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from handwriting import characters
from handwriting.__main__ import NOTES, run_legibility
from handwriting.edges import edges_of_page
from handwriting.joins import find_gaps, find_knobs, measure_joins
from handwriting.legibility import SENTENCES, compare_texts, compose_note, edit_distance
from handwriting.pages import MANNERS, SHEET, Floats, Pages, crop_to_ink, split_lines
from handwriting.sameness import mean_distance

from quillpost.rendering.handwriting.word_paths import PenPaths

X_HEIGHT = 10


def blank(height: int, width: int) -> Floats:
    return np.zeros((height, width))


def word(seed: int, *, width: int = 80) -> Floats:
    """Strokes at random places of a word, as high as the word is."""
    random = np.random.default_rng(seed)
    picture = blank(40, width)
    for column in random.choice(np.arange(2, width - 2), 8, replace=False):
        top = random.integers(0, 25)
        picture[top : top + 15, column : column + 2] = 1.0
    picture[:, [0, -1]] = 1.0
    return picture


def level_lines(lefts: Sequence[int], *, rises: Sequence[float] = (0.0,), drops: Sequence[int] = (0,)) -> Floats:
    """Lines of letters that are as high as wide; in turn, a line rises and a letter hangs below its line that far."""
    picture = blank(60 * (len(lefts) + 1), 400)
    for number, left in enumerate(lefts):
        for letter in range(20):
            x = left + letter * X_HEIGHT
            bottom = (
                60 * (number + 1) - round(rises[number % len(rises)] * letter * X_HEIGHT) + drops[letter % len(drops)]
            )
            picture[bottom - X_HEIGHT : bottom, x : x + X_HEIGHT] = 1.0
    return picture


# Sameness


def test_words_that_differ_only_in_place_and_size_are_the_same() -> None:
    larger = word(1).repeat(2, axis=0).repeat(2, axis=1)
    assert mean_distance([word(1), word(1), larger]) == pytest.approx(0.0, abs=0.01)


def test_the_distance_grows_with_what_differs_and_stays_below_one() -> None:
    changed = word(1)
    changed[:, 60:] = word(2)[:, 60:]
    a_little, wholly = mean_distance([word(1), changed]), mean_distance([word(1), word(2)])
    assert 0.02 < a_little < wholly < 1.0
    assert mean_distance([word(1), word(1), word(2)]) == pytest.approx(2 / 3 * wholly)


# Lines


def test_lines_are_cut_where_there_is_no_ink_and_dots_stay_with_their_line() -> None:
    picture = level_lines([10, 20, 30])
    picture[60 - X_HEIGHT - 6 : 60 - X_HEIGHT - 3, 50:53] = 1.0  # a dot above the first line
    lines = split_lines(picture, 3)
    assert [crop_to_ink(line).shape for line in lines] == [(16, 200), (10, 200), (10, 200)]


def test_lines_that_a_long_stroke_joins_are_separated() -> None:
    picture = level_lines([10, 10])
    picture[60:115, 100:102] = 1.0
    picture[30:33, 50:53] = 1.0  # a dot, which is now the only ink that stands apart
    assert [line.shape for line in split_lines(picture, 2)] == [(30, 400), (10, 400)]


def test_a_page_with_fewer_lines_is_refused() -> None:
    with pytest.raises(ValueError, match="does not show 3 lines"):
        split_lines(level_lines([10, 20]), 3)
    with pytest.raises(ValueError, match="does not show 2 lines"):
        split_lines(blank(100, 100), 2)


# Edges


def test_straight_and_level_lines_have_no_spread() -> None:
    edges = edges_of_page(level_lines([10, 10, 10]), 3, X_HEIGHT)
    assert (edges.left, edges.baseline, edges.slope) == pytest.approx((0.0, 0.0, 0.0))


def test_the_spread_is_in_x_heights() -> None:
    edges = edges_of_page(level_lines([10, 20, 10, 20], drops=(0, 2)), 4, X_HEIGHT)
    assert edges.left == pytest.approx(0.5)
    assert edges.baseline == pytest.approx(0.1, rel=0.1)


def test_lines_that_all_rise_alike_have_a_baseline_spread_and_no_spread_of_slopes() -> None:
    edges = edges_of_page(level_lines([10, 10, 10], rises=(0.05,)), 3, X_HEIGHT)
    assert edges.baseline > 0.2
    assert edges.slope == pytest.approx(0.0, abs=0.01)


def test_the_spread_of_slopes_is_in_percent() -> None:
    edges = edges_of_page(level_lines([10, 10], rises=(0.01, 0.05)), 2, X_HEIGHT)
    assert edges.slope == pytest.approx(2.0, rel=0.05)


# Legibility


@pytest.mark.parametrize(
    ("written", "read", "edits"),
    [("", "", 0), ("abc", "", 3), ("", "ab", 2), ("kitten", "sitting", 3), ("ab", "ba", 2)],
)
def test_the_edit_distance_is_the_fewest_edits(written: str, read: str, edits: int) -> None:
    assert edit_distance(written, read) == edits


def test_neither_case_nor_punctuation_counts_as_an_error() -> None:
    errors = compare_texts("It's $1,250, or 15% off!", "its 1250\nor 15 0ff")
    assert (errors.words, errors.word_errors, errors.word_rate) == (5, 1, 0.2)
    assert (errors.chars, errors.char_errors) == (18, 1)
    assert (errors + errors).word_rate == errors.word_rate


def test_a_note_of_which_a_line_is_missing_is_counted() -> None:
    errors = compare_texts("one two three four five", "one two three"), compare_texts("one two three", "One. Tu thee")
    assert [found.cut_notes for found in errors] == [1, 0]


def test_notes_are_the_same_in_every_run_and_differ_from_each_other() -> None:
    assert len(set(SENTENCES)) == len(SENTENCES) >= 250
    notes = [compose_note(style, number) for style in range(1, 13) for number in range(NOTES // 12)]
    assert len(set(notes)) == NOTES
    assert zlib.crc32("\n".join(notes).encode()) == 3_645_661_144, "rates of other notes cannot be compared"


def test_without_the_reader_the_measure_is_left_out_with_a_plain_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert run_legibility(ToyPages(), {}, [], NOTES) is None
    assert "tesseract is not installed" in capsys.readouterr().out


# Characters


class ToyPages(Pages):
    """Writes each letter as a block of its own, never twice alike.

    `é` is dropped, `ö` is a gap, `ж` is spelled, and `ê` is an `e` with a bar.
    """

    def __init__(self) -> None:
        self._random = np.random.default_rng(7)

    def draw_lines(
        self, lines: Sequence[str], style: int, manner: str, *, draw: int = 0, side: tuple[str, str] = SHEET
    ) -> list[Floats]:
        return [crop_to_ink(self._write(line.replace("é", "").replace("ж", "zh"))) for line in lines]

    def _write(self, line: str) -> Floats:
        letters = [blank(60, 14) if char == "ö" else self._letter(char) for char in line]
        return np.concatenate([part for letter in letters for part in (letter, blank(60, 2))], axis=1)

    def _letter(self, char: str) -> Floats:
        if char == "ê":
            accented = self._letter("e")
            accented[self._random.integers(0, 3) : 4, 3:7] = 1.0
            return accented
        random = np.random.default_rng(ord(char))
        width, top = (14, 30) if char == "n" else (random.integers(8, 20), random.integers(5, 30))
        letter = blank(60, int(width) + int(self._random.integers(0, 2)))
        letter[int(top) : 45] = 1.0
        letter[int(top) + 3 : 42, 2:-2] = random.random() / 4
        return letter


def test_characters_that_are_drawn_spelled_and_dropped_are_distinguished(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(characters, "all_chars", lambda: list("aé%öжЖê李."))
    found = characters.measure_characters(ToyPages(), 1, next(iter(MANNERS)))
    assert found == characters.Characters(drawn="a%Жê李.", spelled="ж", dropped="éö")


def test_each_character_is_measured_once_and_can_be_seen() -> None:
    chars = characters.all_chars()
    assert len(set(chars)) == len(chars)
    assert {"a", "%", "é", "ő", "’", "€", "Ж", "Ω", "李"} <= set(chars)
    assert {" ", "\xad", "\xa0"}.isdisjoint(chars)


def paths_of(*lines: Sequence[tuple[float, float]], hidden: bool) -> PenPaths:
    """One word; all ends are loose, but the start of the last line may be hidden."""
    stops_at = np.ones((len(lines), 2), np.bool_)
    stops_at[-1, 0] = not hidden
    starts = np.cumsum([0, *map(len, lines)])
    knots = np.array([knot for line in lines for knot in line])
    return PenPaths(knots, starts, np.zeros(len(lines), np.int64), stops_at, np.zeros(len(lines), np.bool_))


def test_gaps_and_ends_that_stick_out_are_found() -> None:
    stem, far, near = [(0.0, 0.0), (0.0, 1.0)], [(0.4, 0.5), (1.0, 0.5)], [(0.05, 0.5), (1.0, 0.5)]
    assert find_knobs(paths_of(stem, far, hidden=True)) == {0}
    assert find_knobs(paths_of(stem, near, hidden=True)) == set()
    assert find_knobs(paths_of(stem, far, hidden=False)) == set(), "a loose end may stand free"
    assert find_gaps(paths_of(stem, far, hidden=False)) == set(), "the pen is lifted between paths"
    assert find_gaps(paths_of(stem, [(0.0, 0.0), (3.0, 0.0)], hidden=False)) == {0}


def test_words_of_a_hand_hold_together(subtests: pytest.Subtests) -> None:
    for style in (1, 8, 21):
        for manner in MANNERS:
            with subtests.test(manner, style=style):
                joins = measure_joins(style, manner, words=300)
                assert (joins.words, joins.gaps, joins.knobs) == (300, 0, 0)
