"""Faces made ready: every letter in every take has its ink, its width and its place."""

import io
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import uharfbuzz
from fontTools.pens.areaPen import AreaPen
from fontTools.pens.boundsPen import BoundsPen
from fontTools.ttLib import TTFont

from quillpost.rendering.handwriting import fonts as truetype
from quillpost.rendering.handwriting.models import (
    PLAIN_FACE,
    STYLES,
    TAKES_PER_GLYPH,
    FaceRecipe,
    InvalidPreparedFace,
    PreparedFace,
    Style,
)
from quillpost.rendering.handwriting.outlines import MAX_TAKE_REACH, Contour, make_takes, sample_contour, signed_area
from quillpost.rendering.handwriting.service import FontSources, prepare_face, recipe_key

COMMON = (
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789 .,:;!?'\"()-/&@#$%+=*"
    "‘’“”–—…€£éèêëáàâäãåçñóòôöõøúùûüýßÉÑÖÜ"
)
HANDS = {style.face: style for style in STYLES}
IN_TAKES = ["Zeyada", "Kalam Light", "Dancing Script"]  # the stroke engine, the outline engine, and joined
IN_ONE_SHAPE = ["Satisfy", "Permanent Marker", "Kalam"]
DIFFICULT = "ŁąčşœÞ½¿¡ªº·¨¸÷§¶×"


def raw(face: FaceRecipe) -> bytes:
    found = FontSources(None).read_font(face)
    assert found is not None
    return found


@cache
def prepared(name: str) -> PreparedFace:
    """A whole hand takes seconds where there are takes to make; the letters that matter do not."""
    style = HANDS[name]
    return prepare_face(style, raw(style), only_chars=COMMON + DIFFICULT if style.engine else None)


@cache
def plain(only_chars: str | None = None) -> PreparedFace:
    return prepare_face(PLAIN_FACE, raw(PLAIN_FACE), only_chars=only_chars)


@cache
def program(face: PreparedFace) -> TTFont:
    return TTFont(io.BytesIO(face.program), checkChecksums=2)


def shaping_font(face: PreparedFace) -> uharfbuzz.Font:
    font = uharfbuzz.Font(uharfbuzz.Face(face.source))
    font.scale = (1000, 1000)
    return font


def shaped(face: PreparedFace, text: str) -> uharfbuzz.Buffer:
    buffer = uharfbuzz.Buffer()
    buffer.add_str(text)
    buffer.guess_segment_properties()
    uharfbuzz.shape(shaping_font(face), buffer)
    return buffer


def ink(face: PreparedFace, base: int, take: int) -> tuple[int, int, int, int]:
    glyphs = program(face).getGlyphSet()
    pen = BoundsPen(glyphs)
    glyphs[program(face).getGlyphName(face.glyph_number(base, take))].draw(pen)
    bounds: tuple[int, int, int, int] = pen.bounds
    return bounds


def area(face: PreparedFace, base: int, take: int) -> float:
    glyphs = program(face).getGlyphSet()
    pen = AreaPen(glyphs)
    glyphs[program(face).getGlyphName(face.glyph_number(base, take))].draw(pen)
    return float(abs(pen.value))


def inked(face: PreparedFace) -> list[int]:
    return [base for base, box in enumerate(face.boxes) if box != (0, 0, 0, 0)]


def empty_takes(face: PreparedFace) -> list[tuple[int, int]]:
    font = program(face)
    every = [(base, take) for base in inked(face) for take in range(face.takes + 1)]
    assert every
    return [each for each in every if not font["glyf"][font.getGlyphName(face.glyph_number(*each))].numberOfContours]


def stray_takes(face: PreparedFace) -> list[tuple[int, int]]:
    every = [(base, take) for base in inked(face) for take in range(face.takes)]
    return [(base, take) for base, take in every if not is_within_reach(ink(face, base, take), face.boxes[base])]


def is_within_reach(edges: tuple[float, ...], box: tuple[float, ...]) -> bool:
    starts = all(edge >= limit - MAX_TAKE_REACH for edge, limit in zip(edges[:2], box[:2], strict=True))
    return starts and all(edge <= limit + MAX_TAKE_REACH for edge, limit in zip(edges[2:], box[2:], strict=True))


@pytest.mark.parametrize("name", IN_TAKES)
def test_every_inked_letter_has_its_takes_within_reach_of_its_true_shape(name: str) -> None:
    face, font = prepared(name), program(prepared(name))
    assert empty_takes(face) == []
    assert stray_takes(face) == []
    outlines = font["glyf"]
    for base in inked(face):
        numbers = [face.glyph_number(base, take) for take in range(TAKES_PER_GLYPH + 1)]
        shapes = {outlines[font.getGlyphName(number)].compile(outlines) for number in numbers}
        assert len(shapes) == TAKES_PER_GLYPH + 1, "all takes of a letter differ"
    for letter in COMMON.replace(" ", ""):
        base = face.letters[letter]
        assert np.allclose(ink(face, base, face.takes), face.boxes[base], atol=1.5)


@pytest.mark.parametrize("name", ["Kalam Light", "Dancing Script"])
def test_takes_have_as_much_ink_as_the_true_shape(name: str) -> None:
    """Weight that jumps from letter to letter gives a machine away."""
    face = prepared(name)
    for letter in "abcdeghlmnopstuvwxyzABDEHLOST":
        base = face.letters[letter]
        areas = [area(face, base, take) for take in range(TAKES_PER_GLYPH)]
        assert areas == pytest.approx([area(face, base, face.takes)] * TAKES_PER_GLYPH, rel=0.12)


@pytest.mark.parametrize("name", IN_TAKES + IN_ONE_SHAPE)
def test_common_letters_have_the_advance_and_the_glyphs_that_shaping_expects(name: str) -> None:
    face, font = prepared(name), shaping_font(prepared(name))
    assert [letter for letter in COMMON if letter not in face.letters] == []
    widths, order = program(face)["hmtx"].metrics, program(face).getGlyphOrder()
    for base, advance in enumerate(face.advances):
        assert font.get_glyph_h_advance(face.source_numbers[base]) == advance
        assert {widths[order[face.glyph_number(base, take)]][0] for take in range(face.takes + 1)} == {advance}
    text = shaped(face, "".join(face.letters) + "office Waffle first AV To 1/2")
    assert {info.codepoint for info in text.glyph_infos} <= set(face.source_numbers)


def test_kerning_and_composed_syllables_survive() -> None:
    for name in ("Satisfy", "Dancing Script", "Caveat Bold"):  # the first keeps it in the table of older fonts
        face = prepared(name)
        text = shaped(face, "ToWaAVTyLT")
        bases = [face.source_numbers.index(info.codepoint) for info in text.glyph_infos]
        moves = [at.x_advance - face.advances[base] for at, base in zip(text.glyph_positions, bases, strict=True)]
        assert any(moves), name
    assert len(shaped(prepared("Kalam"), "क्ष").glyph_infos) == 1


def test_a_letter_mapped_to_nothing_is_not_covered() -> None:
    for name in ("Kalam Light", "Zeyada"):
        face = prepared(name)
        assert " " in face.letters
        assert "\u00a0" not in face.letters
        assert all(face.boxes[base] != (0, 0, 0, 0) for letter, base in face.letters.items() if letter != " ")


def test_the_plain_face_has_the_weight_of_text_and_may_be_prepared_for_some_letters_only() -> None:
    face, small = plain(), plain("añ☃")
    assert face.takes == 0
    assert set("ΑλφαЖукŁódź") <= face.letters.keys()
    left, _, right, _ = ink(face, face.letters["I"], 0)
    assert 70 < right - left < 110
    assert set(small.letters) == {" ", "a", "ñ"}
    assert len(small.program) < 4000
    assert small.cap_height == face.cap_height


def test_a_prepared_face_comes_back_from_its_bytes_and_damaged_ones_are_refused() -> None:
    face = prepared("Kalam Light")
    data = face.to_bytes()
    back = PreparedFace.from_bytes(data)
    assert vars(back) == vars(face)
    assert back.to_bytes() == data
    assert "Open Font License" in TTFont(io.BytesIO(face.source))["name"].getDebugName(13)
    middle = len(data) // 2
    flipped = data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]
    for damaged in (b"", b"nothing", data[:middle], flipped):
        with pytest.raises(InvalidPreparedFace):
            PreparedFace.from_bytes(damaged)


def test_the_same_recipe_gives_the_same_takes_whatever_the_other_letters() -> None:
    for name in IN_TAKES:
        once, again = (prepare_face(HANDS[name], raw(HANDS[name]), only_chars="Quil post") for _ in range(2))
        assert once.to_bytes() == again.to_bytes()
    style = HANDS["Kalam Light"]
    alone, together = (prepare_face(style, raw(style), only_chars=letters) for letters in ("xa", "xabcdefg"))
    for take in range(TAKES_PER_GLYPH):
        assert ink(alone, alone.letters["a"], take) == ink(together, together.letters["a"], take)


def test_every_part_of_the_recipe_is_in_its_key_and_what_is_only_for_the_page_is_not() -> None:
    style = HANDS["Caveat"]
    recipes = [style, replace(style, amplitude=1.01), replace(style, joined=True), replace(style, engine=None)]
    recipes += [replace(style, all_letters=True), replace(style, source=replace(style.source, weight=500))]
    keys = [recipe_key(face, b"font") for face in recipes] + [recipe_key(style, b"other font")]
    assert len(set(keys)) == len(keys) == 7
    assert recipe_key(replace(style, name="Someone", leading=2.0, scale=0.5), b"font") == keys[0]


def test_progress_is_reported_up_to_the_end() -> None:
    progress: list[tuple[int, int]] = []
    style = HANDS["Kalam Light"]
    prepare_face(style, raw(style), lambda done, total: progress.append((done, total)), only_chars="Quil post")
    assert len(progress) > 1
    assert progress == sorted(progress)
    assert progress[-1][0] == progress[-1][1]


def bar(left: float, bottom: float, right: float, top: float) -> Contour:
    """A filled rectangle as TrueType draws it, clockwise."""
    corners = np.array([(left, bottom), (left, top), (right, top), (right, bottom)])
    following = np.roll(corners, -1, axis=0)
    return np.stack([corners, (corners + following) / 2, following], axis=1)


def test_a_joined_letter_keeps_its_entry_and_exit_and_a_stem_its_thickness() -> None:
    joined = make_takes({"n": [bar(0, 40, 500, 80)]}, {"n": 500.0}, count=8, amplitude=1.5, joined=True, seed=1)
    for shape in joined["n"]:
        points = {(x, y) for x, y in np.concatenate(shape)[:, 0].tolist()}
        assert {(0.0, 40.0), (0.0, 80.0), (500.0, 40.0), (500.0, 80.0)} <= points
    stems = make_takes({"l": [bar(80, 0, 120, 700)]}, {"l": 200.0}, count=8, amplitude=1.5, joined=False, seed=3)
    for contour in (contour for shape in stems["l"] for contour in shape):
        sampled = sample_contour(contour, 10.0)
        height = sampled[:, 1].max() - sampled[:, 1].min()
        assert abs(signed_area(sampled)) / height == pytest.approx(40, abs=3)


def test_lines_curves_and_far_points_come_back_from_the_font_file() -> None:
    drop = np.array([[(0, 0), (-300, 400), (0, 800)], [(0, 800), (300, 400), (0, 0)]], dtype=np.float64)
    square = bar(0.0, 0.0, 600.0, 1200.0)
    data = truetype.write_font(1000, [500, 0, 700], [[], [square], [drop, square + 10]])
    font = TTFont(io.BytesIO(data), checkChecksums=2)
    order = font.getGlyphOrder()
    first, second = (font["glyf"][name] for name in order[1:])
    assert list(first.coordinates) == [(0, 0), (0, 1200), (600, 1200), (600, 0)]
    assert list(second.coordinates)[:4] == [(0, 0), (-300, 400), (0, 800), (300, 400)]
    assert list(second.flags)[:4] == [1, 0, 1, 0]
    assert second.endPtsOfContours == [3, 7]
    assert [font["hmtx"][name][0] for name in order] == [500, 0, 700]
    assert font["glyf"][order[0]].numberOfContours == 0


@pytest.mark.long
@pytest.mark.parametrize("style", [style for style in STYLES if style.engine], ids=lambda style: style.face)
def test_every_letter_of_every_hand_has_its_takes(style: Style) -> None:
    found = FontSources(Path(__file__).parents[2] / "node_modules").read_font(style)
    if found is None:
        pytest.skip("the typefaces of npm are not installed")
    face = prepare_face(style, found)
    assert set(COMMON) <= face.letters.keys()
    assert empty_takes(face) == []
    assert stray_takes(face) == []
