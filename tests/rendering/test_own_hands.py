"""A sender's own hand: a sheet is written in one of our styles, photographed, read back, and written with."""

import io
from dataclasses import replace
from functools import cache
from statistics import fmean
from typing import Any

import numpy as np
import pytest
from handwriting.pages import darkness, split_lines
from handwriting.sameness import mean_distance
from letterforms.hands import HAND_CHARS
from PIL import Image

from quillpost.rendering.decoder.service import read_sheet_in_sandbox
from quillpost.rendering.handwriting.letterforms import Letterform, read_forms
from quillpost.rendering.handwriting.models import FIRST_PRIVATE_STYLE
from quillpost.rendering.handwriting.outlines import Floats
from quillpost.rendering.handwriting.own_hands import OwnHand, TooFewLetters, make_own_hand
from quillpost.rendering.handwriting.own_letters import choose_instances, measure_scale
from quillpost.rendering.handwriting.sheet.models import SheetReading, WrittenChar
from quillpost.rendering.handwriting.words import NaturalHand
from quillpost.rendering.models import Design
from support import designs
from support.handwriting_sheets import fill_in, page_image, photograph, write_chars
from support.images import saved
from support.natural_writing import COMMON_WORDS, natural_hand, shape_paths
from support.page_reader import Pages

THEO, LOUISE, HAZEL, CELESTE = 9, 10, 31, 6
WRITTEN_SIZES = {LOUISE: 0.75}  # her tails are long
NOTE = "Hi Jenny, it was so good to see you at the fair! Call (512) 555-0147 & say hello to Zoë. Yours, Theo"
SAME_WORD_GOAL = 0.2


@cache
def read_photographs(number: int) -> SheetReading:
    pdf = fill_in(natural_hand(number), size=WRITTEN_SIZES.get(number, 0.85))
    pictures = [
        saved(photograph(page_image(pdf, page, 250), 3 + page, (2200, 2900), tilt=tilt, turn=3, curl=6), "JPEG")
        for page, tilt in ((1, 12), (2, 8))
    ]
    return read_sheet_in_sandbox(pictures)


@cache
def own_hand(number: int) -> OwnHand:
    """Of strokes that were read without a fault."""
    return make_own_hand(write_chars(natural_hand(number)), name="My hand")


def design_in(own: OwnHand, message: str = NOTE, number: int = FIRST_PRIVATE_STYLE, **changes: Any) -> Design:
    return designs.design(message=message, hand=number, own_hand=own.to_bytes(), **changes)


def center_lines(form: Letterform) -> Floats:
    return move_to_middle(np.concatenate([line.knots for line in form.lines]))


def move_to_middle(points: Floats) -> Floats:
    moved: Floats = points - np.array([(points[:, 0].min() + points[:, 0].max()) / 2, 0.0])
    return moved


@pytest.mark.costly
@pytest.mark.parametrize("number", [LOUISE, HAZEL, pytest.param(THEO, marks=pytest.mark.long)])
def test_a_photographed_sheet_becomes_a_hand_like_its_writer(number: int) -> None:
    reading, source = read_photographs(number), natural_hand(number)
    assert reading.problems == ()
    assert reading.missing == ()
    own = make_own_hand(reading.chars, name="My hand")
    _assert_forms_are_what_was_written(own, reading)
    assert own.forms.slant == pytest.approx(source.alphabet.letters.forms.slant, abs=0.1)
    assert own.forms.pen == pytest.approx(source.alphabet.pen, rel=0.25)
    assert own.scale == pytest.approx(source.style.scale, rel=0.12)
    assert own.word_gap == pytest.approx(source.style.word_gap, rel=0.25)
    assert OwnHand.from_bytes(own.to_bytes()).to_bytes() == own.to_bytes()
    sheet = Pages(designs.compose_item(design_in(own)).sheets)
    assert [glyph.text for glyph in sheet.written(1, designs.design().ink)] == NOTE.split()
    assert measure_same_word(own) >= SAME_WORD_GOAL


def _assert_forms_are_what_was_written(own: OwnHand, reading: SheetReading) -> None:
    scale = measure_scale([char for char in reading.chars if len(char.char) == 1 and char.strokes])
    for char in "abdghknouy":
        written = [
            np.concatenate([scale.apply(stroke) for stroke in one.strokes])
            for one in reading.chars
            if one.char == char and one.strokes
        ]
        centered = [*map(move_to_middle, written)]
        for form in own.forms.forms[char]:
            knots = center_lines(form)
            assert min(_farthest(knots, points) for points in centered) < 0.12, char


def _farthest(knots: Floats, points: Floats) -> float:
    return float(np.hypot(*(knots[:, None] - points[None]).transpose(2, 0, 1)).min(axis=1).max())


def measure_same_word(own: OwnHand) -> float:
    """As `make measure` does: one word on eight lines."""
    distances = []
    for word, item in (("yours", 1), ("morning", 2)):
        look = design_in(own, "\n\n".join([word] * 8), font_size="medium", product="notecard")
        png = designs.make_renderer().preview(look, designs.copy(item), only_preview="back").sides["back"]
        page = Image.open(io.BytesIO(png)).convert("L")
        lines = split_lines(darkness(page), 8)
        distances.append(mean_distance(lines))
    return fmean(distances)


def test_a_joined_hand_joins_letters_and_a_print_hand_does_not() -> None:
    joined, half_joined, unjoined = own_hand(CELESTE), own_hand(THEO), own_hand(HAZEL)
    assert joined.joining > 0.9
    assert 0.3 < half_joined.joining < 0.8
    assert unjoined.joining < 0.2
    words = [word for word in COMMON_WORDS if len(word) > 4][:40]

    def count_paths(own: OwnHand, joining: float | None = None) -> int:
        return len(shape_paths(write_with(own), words, joining=joining).word)

    assert count_paths(joined) < count_paths(joined, joining=0.0) - 0.1 * sum(map(len, words))
    assert count_paths(unjoined) == count_paths(unjoined, joining=0.0)


def write_with(own: OwnHand) -> NaturalHand:
    hand = designs.make_renderer().hands.hand_for(design_in(own).hand_choice)
    assert isinstance(hand, NaturalHand)
    return hand


# What the sheet does not have


def test_a_letter_that_is_missing_is_lent_in_the_measure_of_the_hand_and_so_are_signs() -> None:
    chars = [char for char in write_chars(natural_hand(HAZEL)) if char.char not in 'kqK7&?"%']
    own = make_own_hand(chars, name="My hand")
    forms = own.forms.forms
    assert set(HAND_CHARS) <= forms.keys()
    lean = own.forms.slant - read_forms("ben").slant
    tall = max(float(line.knots[:, 1].max()) for line in forms["k"][0].lines)
    heights = [max(float(line.knots[:, 1].max()) for line in forms[char][0].lines) for char in "bdhl"]
    assert min(heights) - 0.3 < tall < max(heights) + 0.3
    lent = read_forms("ben").forms["k"][0].lines[0].knots
    brought = forms["k"][0].lines[0].knots
    assert np.ptp(brought[:, 0]) != pytest.approx(np.ptp(lent[:, 0]), abs=0.3 * abs(lean))
    message = "Quick look: 7 “Kinds” — Zoë & Łukasz’s €20? Жук, ναι, Nguyễn 50%"
    hand = write_with(own)
    assert hand.find_lacking_chars(message) == ([], [])
    sheet = Pages(designs.compose_item(design_in(own, message)).sheets)
    assert [glyph.text for glyph in sheet.written(1, designs.design().ink)] == message.split()


def test_too_few_letters_are_refused_with_a_sentence() -> None:
    all_chars = write_chars(natural_hand(HAZEL))
    without_four = [char for char in all_chars if char.char not in "qxzj"]
    assert make_own_hand(without_four, name="My hand").forms.forms["q"]
    with pytest.raises(TooFewLetters) as refusal:
        make_own_hand([char for char in without_four if char.char != "v"], name="My hand")
    assert refusal.value.missing == ("j", "q", "v", "x", "z")
    assert str(refusal.value) == (
        "A handwriting style needs at least 22 of the 26 small letters. These are missing: j, q, v, x and z."
        " Write them on the sheet and upload it again."
    )
    with pytest.raises(TooFewLetters):
        make_own_hand([], name="My hand")
    empty = [replace(char, strokes=()) for char in all_chars]
    with pytest.raises(TooFewLetters):
        make_own_hand(empty, name="My hand")


def test_without_words_a_hand_is_spaced_as_usual_and_joins_nothing() -> None:
    own = make_own_hand([char for char in write_chars(natural_hand(CELESTE)) if len(char.char) == 1], name="My hand")
    assert own.joining == 0.0
    assert 0.37 < own.word_gap < 0.5


# Which of several become forms


def test_the_most_different_of_many_become_forms_and_doubtful_ones_only_if_there_is_no_other() -> None:
    hook = np.array([[0.0, 1.0], [0.1, 0.1], [0.5, 0.0], [0.7, 0.3]])

    def written(number: int, width: float, **changes: Any) -> WrittenChar:
        return WrittenChar("u", number, (hook * [width, 1.0],), 0.06, **changes)

    widths = (1.0, 1.02, 1.9, 1.01, 0.5, 1.45, 0.99)
    chosen = choose_instances([written(number, width) for number, width in enumerate(widths)])["u"]
    assert len(chosen) == 4
    assert chosen[0].instance_number in (0, 1, 3, 6), "the usual one"
    assert {2, 4, 5} <= {char.instance_number for char in chosen}, "the most different ones"
    doubtful = [written(7, 1.3, is_doubtful=True), written(8, 0.8, is_doubtful=True)]
    assert [char.instance_number for char in choose_instances([written(0, 1.0), *doubtful])["u"]] == [0]
    assert len(choose_instances(doubtful)["u"]) == 2
    assert "u" not in choose_instances([WrittenChar("u", 1, (), 0.06)])


def test_letters_whose_ink_ran_together_are_left_out_if_there_are_others() -> None:
    chars = write_chars(natural_hand(LOUISE))
    good = [next(char for char in chars if char.char == letter) for letter in "er"]
    arc, rod = np.array([[0.5, 0.7], [0.1, 0.6], [0.1, 0.1], [0.6, 0.1]]), np.array([[0.0, 0.0], [0.4, 0.9]])
    poor = [WrittenChar("e", 2, (arc,), 0.06), WrittenChar("r", 2, (rod,), 0.06)]
    quotes = WrittenChar('"', 1, (rod + np.array([0.0, 1.0]),), 0.06)
    others = [char for char in chars if char.char not in 'er"']
    forms = make_own_hand([*others, *good, *poor, quotes], name="My hand").forms.forms
    assert [len(forms[letter]) for letter in "er"] == [1, 1]
    assert len(forms['"'][0].lines) == 2, "lent: a hand without quotes may have those of another"
    assert len(make_own_hand([*others, *poor], name="My hand").forms.forms["e"]) == 1, "better than somebody else's"


def test_scribbles_make_a_hand_that_writes() -> None:
    chance = np.random.default_rng(3)
    chars = [
        WrittenChar(
            text,
            number,
            tuple(np.cumsum(chance.normal(0, 0.2, (chance.integers(1, 30), 2)), axis=0) for _ in range(number)),
            float(chance.uniform(0, 0.4)),
        )
        for text in [*HAND_CHARS, "th", "oo", "a b c"]
        for number in (1, 2, 9)
    ]
    own = make_own_hand(chars, name="My hand")
    assert OwnHand.from_bytes(own.to_bytes()).to_bytes() == own.to_bytes()
    sheet = Pages(designs.compose_item(design_in(own)).sheets)
    assert [glyph.text for glyph in sheet.written(1, designs.design().ink)] == NOTE.split()
