"""Words as movements of the pen and as the ink that it leaves."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from quillpost.rendering.handwriting.bent_letters import MANNERS
from quillpost.rendering.handwriting.ink import PENS, InkOutlines, ink_paths
from quillpost.rendering.handwriting.letterforms import LineKind
from quillpost.rendering.handwriting.models import Style
from quillpost.rendering.handwriting.noise import Seeds
from quillpost.rendering.handwriting.outlines import (
    Floats,
    contour_through_controls,
    distances_to_outline,
    sample_contour,
    signed_area,
)
from quillpost.rendering.handwriting.word_paths import PenPaths, go_over_some
from support import designs
from support.natural_writing import COMMON_WORDS, NATURAL_STYLES, bend_words, movement_of, natural_hand, shape_paths

EVERY_HAND = pytest.mark.parametrize("style", NATURAL_STYLES, ids=lambda style: style.name)
WORDS = [*COMMON_WORDS[::3], "Hello", "Warmly,", "O'Brien", "Mississippi", "5-1000", "quiz?", "jiffy", "WAVE", "78701"]
INKED_WORDS = WORDS[:10] + WORDS[-9:]
LONGEST_STEP = 1.6  # x-heights


def knots_of(paths: PenPaths, word: int) -> Floats:
    return np.concatenate([paths.knots[slice(*paths.starts[at : at + 2])] for at in np.flatnonzero(paths.word == word)])


@EVERY_HAND
def test_a_pen_moves_in_small_steps_and_writes_every_word(style: Style) -> None:
    hand = natural_hand(style.number)
    for seed, manner in enumerate(MANNERS):
        paths = shape_paths(hand, WORDS, seed, manner)
        assert np.isfinite(paths.knots).all()
        assert np.unique(paths.word).tolist() == list(range(len(WORDS)))
        steps = np.hypot(*np.diff(paths.knots, axis=0).T)
        within = np.ones(len(steps), np.bool_)
        within[paths.starts[1:-1] - 1] = False
        assert steps[within].max() < LONGEST_STEP


@EVERY_HAND
def test_letters_stand_in_order_from_left_to_right(style: Style) -> None:
    hand = natural_hand(style.number)
    letters = bend_words(hand, COMMON_WORDS, manner="lively")
    knots = np.maximum(np.bincount(letters.letter), 1)
    middles = np.bincount(letters.letter, letters.x) / knots
    follows = np.flatnonzero(letters.words[1:] == letters.words[:-1])
    assert (middles[follows + 1] > middles[follows]).all()
    widths = (middles[follows + 1] - middles[follows]).mean()
    assert 0.3 < widths < 1.8, "in x-heights"


@EVERY_HAND
def test_every_i_and_j_has_its_dot_over_it(style: Style) -> None:
    words = ["minimum", "jiffy", "illicit", "banjo", "hijinks"]
    text = "".join(words)
    for seed in range(4):
        letters = bend_words(natural_hand(style.number), words, seed, "lively")
        dots = np.flatnonzero(letters.kind == LineKind.DOT)
        dotted = [letter for letter in letters.line_letter[dots].tolist() if text[letter] in "ij"]
        assert dotted == [place for place, char in enumerate(text) if char in "ij"]
        for dot, letter in zip(dots.tolist(), letters.line_letter[dots].tolist(), strict=True):
            if text[letter] in "ij":
                assert letters.y[slice(*letters.line_starts[dot : dot + 2])].min() > 0.9


def count_pieces(paths: PenPaths, word: int, radius: float) -> int:
    """How many parts of a word's ink do not touch each other, without the dots."""
    lines = [spread(paths, at) for at in np.flatnonzero((paths.word == word) & ~paths.is_dot).tolist()]
    pieces: list[Floats] = []
    for line in lines:
        near = [piece for piece in pieces if distances_to_outline(piece, line).min() < 2 * radius]
        pieces = [piece for piece in pieces if not any(piece is other for other in near)]
        pieces.append(np.concatenate([line, *near]))
    return len(pieces)


def mean_pieces(style: Style, word: str, joining: float | None = None) -> float:
    hand, times = natural_hand(style.number), 12
    paths = shape_paths(hand, [word] * times, 0, "natural", joining)
    return sum(count_pieces(paths, number, hand.alphabet.pen) for number in range(times)) / times


@EVERY_HAND
def test_a_hand_joins_as_many_letters_as_its_style_says(style: Style) -> None:
    joining = movement_of(style).joining
    joined, unjoined = (sum(mean_pieces(style, word, share) for word in ("minimum", "human")) for share in (None, 0))
    if joining >= 0.9:
        assert joined - 2 < 0.5 * (unjoined - 2), "most gaps between letters are bridged"
    elif joining <= 0.12:
        assert joined > 0.85 * unjoined
    else:
        assert (1.02 - joining) * unjoined < joined < unjoined


def test_minimum_is_one_or_two_movements_in_a_joined_hand_and_one_a_letter_in_another() -> None:
    hannah, rosie = natural_hand(8).style, natural_hand(designs.UNJOINED).style
    assert movement_of(hannah).joining > 0.9
    assert mean_pieces(hannah, "minimum") < 2.5
    assert mean_pieces(rosie, "minimum") > 6


def unlikeness(style: Style, manner: str) -> float:
    """How far a word is from itself, written again in the same forms; in x-heights."""
    hand, distances = natural_hand(style.number), []
    for word in ("neighbor", "thank", "wonderful"):
        written = [knots_of(shape_paths(hand, [word], seed, manner, joining=0), 0) for seed in range(8)]
        centered = [knots - knots.mean(axis=0) for knots in written]
        distances += [np.hypot(*(one - other).T).mean() for one, other in combinations(centered, 2)]
    return float(np.mean(distances))


@EVERY_HAND
def test_a_word_differs_from_itself_the_more_the_livelier(style: Style) -> None:
    neat, natural, lively = (unlikeness(style, manner) for manner in MANNERS)
    assert 0.03 < neat < 0.8 * natural
    assert natural < 0.9 * lively
    assert lively < 0.5


def inked(hand_number: int, pen: str | None = None, seed: int = 0) -> tuple[PenPaths, InkOutlines, float]:
    """Words as paths and as ink, with the radius of the hand's own pen."""
    hand = natural_hand(hand_number)
    paths, seeds = shape_paths(hand, INKED_WORDS, seed), seeds_of(len(INKED_WORDS))
    pen = pen or movement_of(hand.style).pen
    return paths, ink_paths(paths, PENS[pen], hand.alphabet.pen, seeds), hand.alphabet.pen


def seeds_of(count: int) -> Seeds:
    return np.arange(count, dtype=np.uint64) * np.uint64(7)


def contours_of(ink: InkOutlines) -> list[Floats]:
    """Each closed curve as points along it."""
    controls = [ink.controls[start:stop] for start, stop in zip(ink.starts[:-1], ink.starts[1:], strict=True)]
    return [sample_contour(contour_through_controls(curve), 0.02) for curve in controls]


@EVERY_HAND
def test_ink_is_closed_winds_one_way_and_lies_along_the_path(style: Style) -> None:
    paths, ink, radius = inked(style.number)
    pen = PENS[movement_of(style).pen]
    contours = contours_of(ink)
    assert ink.starts[-1] == len(ink.controls)
    assert min(map(len, contours)) >= 4
    areas = np.array([*map(signed_area, contours)])
    assert (areas < 0).all() or (areas > 0).all()
    widest = radius * pen.radius * max(pen.slow * 1.04 * (1 + pen.edge) * (1 + pen.pool), 1.35 * 1.3)
    reached = 0
    for word in range(len(INKED_WORDS)):
        points = np.concatenate([contours[at] for at in np.flatnonzero(ink.word == word)])
        path = np.concatenate([spread(paths, at) for at in np.flatnonzero(paths.word == word).tolist()])
        assert distances_to_outline(path, points).max() < 1.25 * widest, INKED_WORDS[word]
        assert distances_to_outline(points, path).max() < 1.25 * widest, "all of the path has ink"
        reached += len(path)
    assert reached > 500


def spread(paths: PenPaths, path: int) -> Floats:
    """Points along a path."""
    knots = paths.knots[slice(*paths.starts[path : path + 2])]
    shares = np.linspace(0, 1, 6)[:, None, None]
    return (knots[None, :-1] * (1 - shares) + knots[None, 1:] * shares).reshape(-1, 2) if len(knots) > 1 else knots


@EVERY_HAND
def test_every_letter_of_a_word_has_ink(style: Style) -> None:
    hand = natural_hand(style.number)
    letters = bend_words(hand, INKED_WORDS)
    assert np.bincount(letters.letter, minlength=len(letters.forms)).min() >= 1
    paths, ink, _ = inked(style.number)
    areas = np.abs([signed_area(contour) for contour in contours_of(ink)])
    by_word = np.bincount(ink.word, areas, len(INKED_WORDS)) / [len(word.replace("'", "")) for word in INKED_WORDS]
    assert by_word.min() > 0.2 * np.median(by_word)
    assert set(paths.word) == set(ink.word)


def test_pens_differ_in_width() -> None:
    areas = {
        pen: sum(abs(signed_area(contour)) for contour in contours_of(inked(designs.HALF_JOINED, pen)[1]))
        for pen in PENS
    }
    assert areas["ballpoint"] < 0.95 * areas["gel"] < 0.8 * areas["felt"]
    assert areas["ballpoint"] != areas["fountain"] != areas["gel"]


def lengths_of(contours: list[Floats]) -> float:
    return sum(float(np.ptp(contour, axis=0).max()) for contour in contours)


def test_quick_ink_is_paler_and_slow_ink_runs_out_over_it() -> None:
    for pen in PENS:
        _, ink, radius = inked(designs.JOINED, pen)
        contours = contours_of(ink)
        pale = [contour for contour, is_pale in zip(contours, ink.is_pale, strict=True) if is_pale]
        if PENS[pen].tint == 0:
            assert pale == [], "felt is even"
            continue
        dark = [contour for contour, is_pale in zip(contours, ink.is_pale, strict=True) if not is_pale]
        assert 0.05 < lengths_of(pale) / lengths_of(contours) < 0.6
        touching = [min(distances_to_outline(other, one).min() for other in dark) for one in pale]
        assert np.mean(np.array(touching) < radius) > 0.6, "but strokes that are quick from end to end"


def test_a_ballpoint_skips_now_and_then_and_other_pens_never(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [name for name, pen in PENS.items() if pen.skips] == ["ballpoint"]
    _, usual, _ = inked(designs.JOINED, "ballpoint")
    for skips in (0.0, 1.0):
        monkeypatch.setitem(PENS, "ballpoint", replace(PENS["ballpoint"], skips=skips))
        _, ink, _ = inked(designs.JOINED, "ballpoint")
        parts = len(ink.word) - len(usual.word)
        assert parts <= 0 if skips == 0 else parts > 10, "each skip makes two parts of one"


def test_a_stroke_is_rarely_gone_over_and_near_to_where_it_was() -> None:
    hand = natural_hand(designs.HALF_JOINED)
    words = COMMON_WORDS * 8
    paths, seeds = shape_paths(hand, words), seeds_of(len(words))
    natural, neat = (go_over_some(paths, seeds, pace) for pace in (1.0, 0.5))
    more = len(natural.word) - len(paths.word)
    assert 0.006 < more / len(paths.word) < 0.02
    assert 0 < len(neat.word) - len(paths.word) < more
    assert (np.diff(natural.word) >= 0).all()
    assert natural.starts[-1] == len(natural.knots)
    assert len(natural.stops_at) == len(natural.is_dot) == len(natural.word)
    for word in np.flatnonzero(np.bincount(natural.word) > np.bincount(paths.word))[:40].tolist():
        assert distances_to_outline(knots_of(paths, word), knots_of(natural, word)).max() < 0.2


def test_a_word_is_inked_the_same_whatever_the_other_words() -> None:
    hand = natural_hand(designs.HALF_JOINED)
    seeds, pen = seeds_of(2), PENS["ballpoint"]
    both = shape_paths(hand, ["minimum", "hello"])
    is_second = both.word == 1
    first = int(both.starts[np.flatnonzero(is_second)[0]])
    starts = both.starts[np.append(np.flatnonzero(is_second), len(both.word))] - first
    alone = replace(
        both,
        knots=both.knots[first:],
        starts=starts,
        word=both.word[is_second] - 1,
        stops_at=both.stops_at[is_second],
        is_dot=both.is_dot[is_second],
    )
    together, single = ink_paths(both, pen, 0.07, seeds), ink_paths(alone, pen, 0.07, seeds[1:])
    assert np.allclose(together.controls[-len(single.controls) :], single.controls)
    assert np.count_nonzero(together.word == 1) == len(single.word)
