"""Names in other scripts: as wide and as tall as the hand, and whole or spelled, never half."""

import numpy as np
import pytest

from quillpost.rendering.files import make_vocabulary
from quillpost.rendering.handwriting.letterforms import Letterform
from quillpost.rendering.handwriting.models import Style
from quillpost.rendering.handwriting.outlines import Floats
from quillpost.rendering.handwriting.text import find_lacking_chars, make_legible
from quillpost.rendering.handwriting.words import NaturalHand
from support import designs
from support.natural_writing import NATURAL_STYLES, natural_hand

EVERY_HAND = pytest.mark.parametrize("style", NATURAL_STYLES, ids=lambda style: style.name)
LATIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789%½ .,'-?")
PICTURES = frozenset("🎉")
CHINESE_FACE = frozenset("王小明李山田さくら")
FACES = (LATIN, CHINESE_FACE, PICTURES)


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("王小明", "王小明"),
        ("王𠮷", "WangKiChi"),  # one is in no face
        ("李 Smith", "李 Smith"),
        ("李 小明", "李 小明"),
        ("李 𠮷", "Li KiChi"),
        ("李 Smith 𠮷", "李 Smith KiChi"),
        ("李Smith", "李Smith"),
        ("张Smith", "ZhangSmith"),
        ("さくら", "さくら"),
        ("さくらこ", "sakurako"),
        ("김민수", "GimMinSu"),
        ("王小明🎉", "王小明🎉"),
        ("王𠮷🎉", "WangKiChi🎉"),
    ],
)
def test_a_name_is_whole_or_spelled(name: str, written: str) -> None:
    assert make_legible(name, FACES).lower() == written.lower()


def test_what_cannot_be_drawn_is_named_once_in_a_warning() -> None:
    borrowed, missing = find_lacking_chars("50% ½ 王𠮷 🎉 ☃ ☃ e\u0301 \u200d\ufe0f", FACES)
    assert borrowed == ["王", "🎉"]
    assert missing == ["𠮷", "☃", "é"]


@EVERY_HAND
def test_signs_that_people_type_are_the_hand_s_own_or_warned_of(style: Style) -> None:
    hand = natural_hand(style.number)
    text = "50% ½ ¼ ¾ 21° № ™ © ® € £ “so” – … • é ñ Ł Ø ß → ✓ ♥ ☺"
    assert hand.make_legible(text) == text
    assert find_lacking_chars(text, (hand.alphabet,)) == ([], [])
    for char in text.replace(" ", ""):
        assert hand.spell(char).advance > 0, char


def knots_of(form: Letterform) -> Floats:
    return np.concatenate([line.knots for line in form.lines])


def median_top(hand: NaturalHand, chars: str) -> float:
    hand.alphabet.read(chars)
    forms = hand.alphabet.letters.forms.forms
    return float(np.median([max(knots_of(form)[:, 1].max() for form in forms[char]) for char in chars]))


def mean_width(hand: NaturalHand, chars: str) -> float:
    hand.alphabet.read(chars)
    letters = hand.alphabet.letters.forms
    points = [knots_of(form) for char in chars for form in letters.forms[char]]
    return float(np.mean([np.ptp(knots[:, 0] - letters.slant * knots[:, 1]) for knots in points]))


@EVERY_HAND
def test_cyrillic_and_greek_are_as_tall_and_as_wide_as_the_hand(style: Style) -> None:
    hand = natural_hand(style.number)
    capitals = median_top(hand, "BDEHKLMNPR")
    assert median_top(hand, "ВДЕНКМРЕЗПИ") == pytest.approx(capitals, rel=0.2)
    assert median_top(hand, "ΓΕΗΚΜΝΠΡ") == pytest.approx(capitals, rel=0.25)
    assert mean_width(hand, "асео") == pytest.approx(mean_width(hand, "aceo"), rel=0.3)


def test_a_name_with_a_space_is_split_into_words_that_are_whole_or_spelled() -> None:
    vocabulary = make_vocabulary(natural_hand(designs.UNJOINED))
    assert vocabulary.split_line("Dear Ann,") == ["Dear", "Ann,"]
    assert vocabulary.split_line("Dear 李 𠮷, hello") == ["Dear", "Li", "Kichi,", "hello"]
