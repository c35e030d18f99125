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
    if style.engine:
        return prepare_face(style, raw(style), only_chars=COMMON + DIFFICULT)
    return prepare_face(style, raw(style))


@cache
def program(name: str) -> TTFont:
    return program_of(prepared(name))


def program_of(face: PreparedFace) -> TTFont:
    return TTFont(io.BytesIO(face.program), checkChecksums=2)


def shaping_font(face: PreparedFace) -> uharfbuzz.Font:
    font = uharfbuzz.Font(uharfbuzz.Face(face.source))
    font.scale = (1000, 1000)
    return font


def ink(font: TTFont, number: int) -> tuple[int, int, int, int]:
    glyphs = font.getGlyphSet()
    pen = BoundsPen(glyphs)
    glyphs[font.getGlyphName(number)].draw(pen)
    bounds: tuple[int, int, int, int] = pen.bounds
    return bounds


def area(font: TTFont, number: int) -> float:
    glyphs = font.getGlyphSet()
    pen = AreaPen(glyphs)
    glyphs[font.getGlyphName(number)].draw(pen)
    return float(abs(pen.value))


def inked(face: PreparedFace) -> list[int]:
    return [base for base, box in enumerate(face.boxes) if box != (0, 0, 0, 0)]


def empty_takes(face: PreparedFace, font: TTFont) -> list[tuple[int, int]]:
    outlines = font["glyf"]
    every = [(base, take) for base in inked(face) for take in range(face.takes + 1)]
    assert every
    return [each for each in every if not outlines[font.getGlyphName(face.glyph_number(*each))].numberOfContours]


def stray_takes(face: PreparedFace, font: TTFont) -> list[tuple[int, int]]:
    every = [(base, take) for base in inked(face) for take in range(face.takes)]
    return [(base, take) for base, take in every if not is_within_reach(face, font, base, take)]


def is_within_reach(face: PreparedFace, font: TTFont, base: int, take: int) -> bool:
    edges, box = ink(font, face.glyph_number(base, take)), face.boxes[base]
    starts = all(edge >= limit - MAX_TAKE_REACH for edge, limit in zip(edges[:2], box[:2], strict=True))
    return starts and all(edge <= limit + MAX_TAKE_REACH for edge, limit in zip(edges[2:], box[2:], strict=True))


@pytest.mark.parametrize("name", IN_TAKES + IN_ONE_SHAPE)
def test_common_letters_are_covered(name: str) -> None:
    assert [letter for letter in COMMON if letter not in prepared(name).letters] == []


@pytest.mark.parametrize("name", IN_TAKES)
def test_no_inked_letter_is_empty_in_any_take(name: str) -> None:
    assert empty_takes(prepared(name), program(name)) == []


@pytest.mark.parametrize("name", IN_TAKES)
def test_all_takes_of_a_letter_differ(name: str) -> None:
    face, font = prepared(name), program(name)
    outlines = font["glyf"]
    for base in inked(face):
        shapes = {
            outlines[font.getGlyphName(face.glyph_number(base, take))].compile(outlines)
            for take in range(TAKES_PER_GLYPH + 1)
        }
        assert len(shapes) == TAKES_PER_GLYPH + 1


@pytest.mark.parametrize("name", IN_TAKES)
def test_takes_stay_within_reach_of_the_source(name: str) -> None:
    assert stray_takes(prepared(name), program(name)) == []


@pytest.mark.parametrize("name", IN_TAKES)
def test_the_true_shape_fills_its_box(name: str) -> None:
    face, font = prepared(name), program(name)
    for letter in COMMON.replace(" ", ""):
        base = face.letters[letter]
        edges = ink(font, face.glyph_number(base, face.takes))
        assert np.allclose(edges, face.boxes[base], atol=1.5)


@pytest.mark.parametrize("name", ["Kalam Light", "Dancing Script"])
def test_takes_have_as_much_ink_as_the_true_shape(name: str) -> None:
    """Weight that jumps from letter to letter gives a machine away."""
    face, font = prepared(name), program(name)
    for letter in "abcdeghlmnopstuvwxyzABDEHLOST":
        base = face.letters[letter]
        true = area(font, face.glyph_number(base, face.takes))
        for take in range(TAKES_PER_GLYPH):
            assert area(font, face.glyph_number(base, take)) == pytest.approx(true, rel=0.12)


@pytest.mark.parametrize("name", IN_TAKES + IN_ONE_SHAPE)
def test_every_take_has_the_advance_that_shaping_expects(name: str) -> None:
    face, widths, font = prepared(name), program(name)["hmtx"].metrics, shaping_font(prepared(name))
    order = program(name).getGlyphOrder()
    for base, advance in enumerate(face.advances):
        assert font.get_glyph_h_advance(face.source_numbers[base]) == advance
        assert {widths[order[face.glyph_number(base, take)]][0] for take in range(face.takes + 1)} == {advance}


@pytest.mark.parametrize("name", IN_TAKES + IN_ONE_SHAPE)
def test_whatever_shaping_makes_of_the_letters_is_a_base_glyph(name: str) -> None:
    face = prepared(name)
    text = uharfbuzz.Buffer()
    text.add_str("".join(face.letters) + "office Waffle first AV To 1/2")
    text.guess_segment_properties()
    uharfbuzz.shape(shaping_font(face), text)
    assert {info.codepoint for info in text.glyph_infos} <= set(face.source_numbers)


@pytest.mark.parametrize("name", ["Satisfy", "Dancing Script", "Caveat Bold"])
def test_kerning_survives(name: str) -> None:
    """The first keeps it in the table of older fonts, the others among their layout features."""
    face = prepared(name)
    text = uharfbuzz.Buffer()
    text.add_str("ToWaAVTyLT")
    text.guess_segment_properties()
    uharfbuzz.shape(shaping_font(face), text)
    bases = [face.source_numbers.index(info.codepoint) for info in text.glyph_infos]
    assert any(at.x_advance != face.advances[base] for at, base in zip(text.glyph_positions, bases, strict=True))


def test_syllables_of_indian_scripts_are_composed() -> None:
    face = prepared("Kalam")
    text = uharfbuzz.Buffer()
    text.add_str("क्ष")
    text.guess_segment_properties()
    uharfbuzz.shape(shaping_font(face), text)
    assert len(text.glyph_infos) == 1


@pytest.mark.parametrize("name", ["Kalam Light", "Zeyada"])
def test_a_letter_mapped_to_nothing_is_not_covered(name: str) -> None:
    face = prepared(name)
    assert " " in face.letters
    assert "\u00a0" not in face.letters
    assert all(face.boxes[base] != (0, 0, 0, 0) for letter, base in face.letters.items() if letter != " ")


def test_the_plain_face_has_the_weight_of_text_and_greek_and_cyrillic() -> None:
    face = prepare_face(PLAIN_FACE, raw(PLAIN_FACE))
    assert face.takes == 0
    assert set("ΑλφαЖукŁódź") <= face.letters.keys()
    font = TTFont(io.BytesIO(face.program))
    left, _, right, _ = ink(font, face.glyph_number(face.letters["I"], 0))
    assert 70 < right - left < 110


def test_a_face_that_is_too_big_is_prepared_for_some_letters_only() -> None:
    face = prepare_face(PLAIN_FACE, raw(PLAIN_FACE), only_chars="añ☃")
    assert set(face.letters) == {" ", "a", "ñ"}
    assert len(face.program) < 4000
    assert face.cap_height == prepare_face(PLAIN_FACE, raw(PLAIN_FACE)).cap_height


def test_the_licence_travels_with_the_source() -> None:
    names = TTFont(io.BytesIO(prepared("Kalam Light").source))["name"]
    assert "Open Font License" in names.getDebugName(13)


def test_a_prepared_face_comes_back_from_its_bytes() -> None:
    face = prepared("Kalam Light")
    back = PreparedFace.from_bytes(face.to_bytes())
    assert vars(back) == vars(face)
    assert back.to_bytes() == face.to_bytes()


def test_damaged_bytes_are_refused() -> None:
    data = prepared("Kalam Light").to_bytes()
    middle = len(data) // 2
    flipped = data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]
    for damaged in (b"", b"nothing", data[:middle], flipped):
        with pytest.raises(InvalidPreparedFace):
            PreparedFace.from_bytes(damaged)


@pytest.mark.parametrize("name", IN_TAKES)
def test_the_same_recipe_gives_the_same_bytes(name: str) -> None:
    once, again = (prepare_face(HANDS[name], raw(HANDS[name]), only_chars="Quil post") for _ in range(2))
    assert once.to_bytes() == again.to_bytes()


def test_a_letter_s_takes_do_not_depend_on_the_others() -> None:
    style = HANDS["Kalam Light"]
    alone, together = (prepare_face(style, raw(style), only_chars=letters) for letters in ("xa", "xabcdefg"))
    fonts = [TTFont(io.BytesIO(face.program)) for face in (alone, together)]
    for take in range(TAKES_PER_GLYPH):
        shapes = [
            ink(font, face.glyph_number(face.letters["a"], take))
            for font, face in zip(fonts, (alone, together), strict=True)
        ]
        assert shapes[0] == shapes[1]


def test_every_part_of_the_recipe_is_in_its_key() -> None:
    style = HANDS["Caveat"]
    changes = [
        replace(style, amplitude=1.01),
        replace(style, joined=True),
        replace(style, engine=None),
        replace(style, all_letters=True),
        replace(style, source=replace(style.source, weight=500)),
    ]
    keys = [recipe_key(face, b"font") for face in (style, *changes)] + [recipe_key(style, b"other font")]
    assert len(set(keys)) == len(keys)


def test_what_is_only_for_the_page_does_not_rebuild_a_hand() -> None:
    style = HANDS["Caveat"]
    other = replace(style, name="Someone", leading=2.0, scale=0.5)
    assert recipe_key(other, b"font") == recipe_key(style, b"font")


def test_progress_is_reported_up_to_the_end() -> None:
    progress: list[tuple[int, int]] = []
    style = HANDS["Kalam Light"]
    prepare_face(style, raw(style), lambda done, total: progress.append((done, total)))
    assert progress == sorted(progress)
    assert progress[-1][0] == progress[-1][1]


def bar(left: float, bottom: float, right: float, top: float) -> Contour:
    """A filled rectangle as TrueType draws it, clockwise."""
    corners = np.array([(left, bottom), (left, top), (right, top), (right, bottom)])
    following = np.roll(corners, -1, axis=0)
    return np.stack([corners, (corners + following) / 2, following], axis=1)


def test_a_joined_letter_keeps_its_entry_and_exit() -> None:
    stroke = bar(0.0, 40.0, 500.0, 80.0)
    takes = make_takes({"n": [stroke]}, {"n": 500.0}, count=8, amplitude=1.5, joined=True, seed=1)
    for shape in takes["n"]:
        points = {(x, y) for x, y in np.concatenate(shape)[:, 0].tolist()}
        assert {(0.0, 40.0), (0.0, 80.0), (500.0, 40.0), (500.0, 80.0)} <= points


def test_a_stem_keeps_its_thickness() -> None:
    takes = make_takes(
        {"l": [bar(80.0, 0.0, 120.0, 700.0)]}, {"l": 200.0}, count=8, amplitude=1.5, joined=False, seed=3
    )
    for contour in (contour for shape in takes["l"] for contour in shape):
        points = sample_contour(contour, 10.0)
        height = points[:, 1].max() - points[:, 1].min()
        assert abs(signed_area(points)) / height == pytest.approx(40, abs=3)


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
    font = program_of(face)
    assert set(COMMON) <= face.letters.keys()
    assert empty_takes(face, font) == []
    assert stray_takes(face, font) == []
