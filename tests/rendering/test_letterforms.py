"""The hands that are shipped: all characters, sane strokes, accents over their letters, and sources named."""

import string
import unicodedata
from functools import cache
from importlib import resources
from pathlib import Path

import numpy as np
import pytest
from letterforms.hands import HAND_CHARS, HELPER_CHARS
from letterforms.recipes import read_recipes
from letterforms.signs import drawn_signs
from letterforms.trace import trace_face

from quillpost.rendering import handwriting
from quillpost.rendering.handwriting.accents import compose_accented
from quillpost.rendering.handwriting.letterforms import HandForms, Letterform, LineKind
from quillpost.rendering.handwriting.outlines import Floats

HANDS_FOLDER = Path(handwriting.__file__).parent / "hands"
RECIPES = read_recipes()
HANDS = sorted(RECIPES.hands)
CARRYING_LETTERS = "abdefghklmnorstuyI0123456789&"
ACCENTED_CHARS = [
    char
    for char in map(chr, (*range(0xC0, 0x180), *range(0x1EA0, 0x1EFA)))
    if " " in unicodedata.decomposition(char) and "<" not in unicodedata.decomposition(char)
]


@cache
def read_hand(name: str) -> HandForms:
    return HandForms.from_bytes((HANDS_FOLDER / f"{name}.hand").read_bytes())


def points_of(form: Letterform) -> Floats:
    return np.concatenate([line.knots for line in form.lines])


def test_every_recipe_has_its_hand() -> None:
    assert {file.stem for file in HANDS_FOLDER.glob("*.hand")} == {*HANDS, "helper"}


@pytest.mark.parametrize("name", [*HANDS, "helper"])
def test_a_hand_reads_back(name: str) -> None:
    data = (HANDS_FOLDER / f"{name}.hand").read_bytes()
    assert HandForms.from_bytes(data).to_bytes() == data


@pytest.mark.parametrize("name", HANDS)
def test_a_hand_has_all_characters_that_people_type(name: str) -> None:
    assert set(HAND_CHARS) <= read_hand(name).forms.keys()


def test_the_helper_has_other_alphabets_and_signs() -> None:
    helper = read_hand("helper").forms
    assert {*HELPER_CHARS, *drawn_signs()} - {"&"} <= helper.keys()
    assert set("АБВЯабвяЄєҐґΑΩαω") <= helper.keys()


@pytest.mark.parametrize("name", HANDS)
def test_letters_that_carry_a_hand_have_several_forms(name: str) -> None:
    forms = read_hand(name).forms
    assert [char for char in CARRYING_LETTERS if len(forms[char]) < 2] == []
    assert max(map(len, forms.values())) <= 4


@pytest.mark.parametrize("name", [*HANDS, "helper"])
def test_strokes_are_sane(name: str) -> None:
    hand = read_hand(name)
    assert 0.02 < hand.pen < 0.15
    assert abs(hand.slant) < 0.6
    for char, forms in hand.forms.items():
        for form in forms:
            points = points_of(form)
            assert np.isfinite(points).all(), char
            assert np.abs(points).max() < 6, char
            assert -1 < form.advance < 6, char
            assert all(2 <= len(line.knots) <= 90 for line in form.lines), char
            for role in (form.entry, form.exit):
                assert role is None or form.lines[role].kind is LineKind.BODY, char


@pytest.mark.parametrize("name", HANDS)
def test_i_and_j_are_dotted_well_above_their_stems(name: str) -> None:
    for char in "ij":
        for form in read_hand(name).forms[char]:
            dots = [line for line in form.lines if line.kind is LineKind.DOT]
            assert dots
            assert min(float(dot.knots[:, 1].mean()) for dot in dots) > 1.4


@pytest.mark.parametrize("name", HANDS)
def test_all_letters_of_latin_languages_can_be_accented(name: str) -> None:
    forms = read_hand(name).forms
    for char in ACCENTED_CHARS:
        if unicodedata.normalize("NFD", char)[0] in string.ascii_letters:
            composed = compose_accented(char, forms)
            assert composed is not None, char
            assert len(composed) == len(forms[unicodedata.normalize("NFD", char)[0]])


@pytest.mark.parametrize("name", HANDS)
@pytest.mark.parametrize("char", "éñüÅŠốẽ")
def test_accents_stand_over_their_letters(name: str, char: str) -> None:
    hand = read_hand(name)
    base = unicodedata.normalize("NFD", char)[0]
    for plain, accented in zip(
        hand.forms[base], compose_accented(char, hand.forms, slant=hand.slant) or (), strict=True
    ):
        letter = points_of(plain)
        marks = np.concatenate([line.knots for line in accented.lines[len(plain.lines) :]])
        assert marks[:, 1].min() > letter[:, 1].max()
        middle = float(np.mean(marks[:, 0] - hand.slant * marks[:, 1]))
        upright = letter[:, 0] - hand.slant * letter[:, 1]
        assert upright.min() < middle < upright.max()
        assert (accented.entry, accented.exit, accented.advance) == (plain.entry, plain.exit, plain.advance)


@pytest.mark.parametrize("name", HANDS)
def test_an_accent_takes_the_place_of_the_dot(name: str) -> None:
    forms = read_hand(name).forms
    for char, dots in {"í": 0, "ï": 2, "ĵ": 0, "į": 1}.items():
        for form in compose_accented(char, forms) or ():
            assert sum(line.kind is LineKind.DOT for line in form.lines) == dots


def test_what_is_no_accented_letter_is_not_composed() -> None:
    forms = read_hand("zeyada").forms
    assert compose_accented("a", forms) is None
    assert compose_accented("ø", forms) is None
    assert compose_accented("й", forms) is None


def test_licenses_name_every_source() -> None:
    text = (HANDS_FOLDER / "LICENSES.md").read_text("utf-8")
    assert "SIL OPEN FONT LICENSE Version 1.1" in text
    for recipe in RECIPES.hands.values():
        part = text[text.index(f"## {recipe.name}:") :].split("\n## ")[0]
        for face in recipe.faces:
            assert f"- {face} (" in part
            assert RECIPES.faces[face].license in part


def test_tracing_finds_round_letters_dots_and_bars() -> None:
    with resources.as_file(resources.files("fontpkg_caveat") / "files" / "Caveat[wght].ttf") as file:
        face = trace_face(file.read_bytes(), "oit", 400)
    o, i, t = (face.letters[char] for char in "oit")
    ring = o.lines[0].points
    assert np.hypot(*(ring[0] - ring[-1])) < 0.4
    assert np.ptp(ring, axis=0).min() > 0.5
    assert len(i.lines) == 2
    assert max(line.points[:, 1].min() for line in i.lines) > 1.1
    assert len(t.lines) >= 2
    assert 0.04 < face.pen < 0.12
