"""The styles that people choose from, and the typefaces beside them made ready: all letters have their ink."""

import io
import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from importlib import resources
from pathlib import Path

import numpy as np
import pytest
import uharfbuzz
from fontTools.pens.boundsPen import BoundsPen
from fontTools.ttLib import TTFont

from quillpost.integrations.storage.objects import FaceFolder
from quillpost.rendering.handwriting import fonts as truetype
from quillpost.rendering.handwriting import service as handwriting_service
from quillpost.rendering.handwriting.bent_letters import MANNERS
from quillpost.rendering.handwriting.ink import PENS
from quillpost.rendering.handwriting.models import (
    DEFAULT_STYLE,
    FALLBACK_FACES,
    HELPER_FACE,
    MANNER_NAMES,
    PLAIN_FACE,
    STYLES,
    FaceRecipe,
    FontFile,
    InvalidPreparedFace,
    PreparedFace,
)
from quillpost.rendering.handwriting.outlines import Contour
from quillpost.rendering.handwriting.service import FontSources, Hands, prepare_face, recipe_key
from quillpost.web.assets import PACKAGE_FILES

ROOT = Path(__file__).parents[2]
NODE_MODULES = ROOT / "node_modules"
WITH_NPM, WITHOUT_NPM = FontSources(NODE_MODULES), FontSources(None)
LETTERING = {style.lettering.face: style.lettering for style in STYLES if style.lettering}
EVERY_FACE = (*LETTERING.values(), PLAIN_FACE, HELPER_FACE, *FALLBACK_FACES)
ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
DELIUS = LETTERING["Delius"]


def test_styles_are_numbered_from_one_without_gaps_and_keep_their_numbers() -> None:
    assert [style.number for style in STYLES] == list(range(1, len(STYLES) + 1))
    assert len({style.name for style in STYLES}) == len(STYLES)
    names = "Zeyada Rosie Daisy Marco Anil Celeste Ellen Hannah Theo Louise Rene June Grace Oliver Max Ravi"
    assert " ".join(style.name for style in STYLES).startswith(names)
    assert (DEFAULT_STYLE.number, DEFAULT_STYLE.name, DEFAULT_STYLE.kind) == (1, "Zeyada", "AI")


def test_ai_styles_are_written_by_movements_and_the_others_set_from_a_typeface() -> None:
    assert [style.name for style in STYLES if (style.movement is None) == (style.lettering is None)] == []
    assert [style.name for style in STYLES if (style.movement is not None) != (style.kind == "AI")] == []
    assert Counter(style.kind for style in STYLES) == {"AI": 24, "Realistic": 2, "Bold": 3, "International": 2}
    movements = [style.movement for style in STYLES if style.movement]
    assert len({movement.forms for movement in movements}) == len(movements)
    for movement in movements:
        assert movement.pen in PENS
        assert 0 <= movement.joining <= 1
    assert tuple(MANNERS) == MANNER_NAMES


def test_every_typeface_is_truetype_with_the_letters_of_its_trade_and_its_license(subtests: pytest.Subtests) -> None:
    for face in EVERY_FACE:
        raw = WITH_NPM.read_font(face)
        with subtests.test(face.face):
            if raw is None and face.source.is_from_npm:
                pytest.skip("the typefaces of npm are not installed")
            assert raw is not None
            font = TTFont(io.BytesIO(raw))
            assert "glyf" in font
            expected = "😀🎉" if face.face == "Noto Emoji" else ALPHABET
            assert [letter for letter in expected if ord(letter) not in font.getBestCmap()] == []
            if face.source.is_from_npm:
                license_file = NODE_MODULES / face.source.package / "LICENSE_FONT"
                text = license_file.read_text() if license_file.exists() else font["name"].getDebugName(13)
            else:
                text = (resources.files(face.source.package) / "LICENSE").read_text()
            assert "Open Font License" in text or "Apache License" in text


def test_a_style_whose_file_is_missing_is_not_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert WITHOUT_NPM.installed() == STYLES, "none needs npm"
    nowhere = replace(DELIUS, source=FontFile("fontpkg_nowhere", "files/Nowhere.ttf"))
    npm = replace(DELIUS, source=FontFile("@fonts/delius", "Delius.ttf"))
    styles = [replace(STYLES[13], number=number, lettering=face) for number, face in ((1, nowhere), (2, npm))]
    monkeypatch.setattr(handwriting_service, "STYLES", styles)
    sources = FontSources(tmp_path)
    assert sources.installed() == ()
    assert sources.read_font(nowhere) is sources.read_font(npm) is WITHOUT_NPM.read_font(npm) is None
    file = tmp_path / npm.source.package / npm.source.path
    file.parent.mkdir(parents=True)
    file.write_bytes(b"a font")
    assert sources.installed() == (styles[1],)
    assert sources.read_font(npm) == b"a font"


def test_npm_installs_faces_and_scripts_and_pins_each_without_an_address() -> None:
    dependencies = json.loads((ROOT / "package.json").read_text())["dependencies"]
    faces = {face.source.package for face in EVERY_FACE if face.source.is_from_npm}
    assert set(dependencies) == faces | {place.partition("/")[0] for place in PACKAGE_FILES.values()}
    locked = (ROOT / "package-lock.json").read_text()
    packages = json.loads(locked)["packages"]
    for name, version in dependencies.items():
        assert packages[f"node_modules/{name}"]["version"] == version
        assert packages[f"node_modules/{name}"]["integrity"].startswith("sha512-")
    assert "://" not in locked


def hands_in(folder: Path) -> Hands:
    return Hands(WITHOUT_NPM, FaceFolder(folder))


@pytest.fixture
def makings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The faces that were made, one by one, while the test ran."""
    made: list[str] = []

    def noted(face: FaceRecipe, raw: bytes) -> PreparedFace:
        made.append(face.face)
        return prepare_face(face, raw)

    monkeypatch.setattr(handwriting_service, "prepare_face", noted)
    return made


def test_natural_hands_write_at_once_and_faces_are_made_once_and_kept(tmp_path: Path, makings: list[str]) -> None:
    hands = hands_in(tmp_path)
    for style in hands.styles.values():
        assert style.lettering or hands.hand(style.number).spell("Hello").advance > 1, style.name
    assert makings == []
    assert {face.face for face in hands.unprepared_faces()} == {face.face for face in hands.installed_faces()}
    with pytest.raises(LookupError, match="style 99"):
        hands.hand(99)
    first = hands_in(tmp_path).prepare_face(DELIUS)
    hands = hands_in(tmp_path)
    assert DELIUS not in hands.unprepared_faces()
    assert hands.prepare_face(DELIUS).program == first.program
    assert makings == ["Delius"]
    (kept,) = [file for file in tmp_path.iterdir() if file.is_file()]
    kept.write_bytes(kept.read_bytes()[:1000])
    assert hands_in(tmp_path).prepare_face(DELIUS).program == first.program
    assert makings == ["Delius", "Delius"]


def test_simultaneous_requests_wait_for_one_preparation_and_a_folder_that_cannot_be_used_costs_time_only(
    tmp_path: Path, makings: list[str]
) -> None:
    hands = hands_in(tmp_path)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: hands.prepare_face(DELIUS), range(4)))
    assert all(face is found[0] for face in found)
    assert makings == ["Delius"]
    (tmp_path / "taken").write_text("a file, not a folder")
    assert hands_in(tmp_path / "taken").hand(14).spell("Hello").advance > 1
    assert makings == ["Delius"] * 2


COMMON = (
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789 .,:;!?'\"()-/&@#$%+=*"
    "‘’“”–—…€£éèêëáàâäãåçñóòôöõøúùûüýßÉÑÖÜ"
)
IN_TYPE = ["Satisfy", "Permanent Marker", "Kalam Bold", "Caveat Medium"]


def raw(face: FaceRecipe) -> bytes:
    found = FontSources(None).read_font(face)
    assert found is not None
    return found


@cache
def prepared(name: str) -> PreparedFace:
    return prepare_face(LETTERING[name], raw(LETTERING[name]))


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


def ink(face: PreparedFace, base: int) -> tuple[int, int, int, int]:
    glyphs = program(face).getGlyphSet()
    pen = BoundsPen(glyphs)
    glyphs[program(face).getGlyphName(face.glyph_number(base))].draw(pen)
    bounds: tuple[int, int, int, int] = pen.bounds
    return bounds


@pytest.mark.parametrize("name", IN_TYPE)
def test_every_letter_has_its_ink_where_its_box_says(name: str) -> None:
    face, font = prepared(name), program(prepared(name))
    inked = [base for base, box in enumerate(face.boxes) if box != (0, 0, 0, 0)]
    outlines = [font["glyf"][font.getGlyphName(face.glyph_number(base))] for base in inked]
    assert [base for base, outline in zip(inked, outlines, strict=True) if not outline.numberOfContours] == []
    for letter in COMMON.replace(" ", ""):
        base = face.letters[letter]
        assert np.allclose(ink(face, base), face.boxes[base], atol=1.5), letter


@pytest.mark.parametrize("name", IN_TYPE)
def test_common_letters_have_the_advance_and_the_glyphs_that_shaping_expects(name: str) -> None:
    face, font = prepared(name), shaping_font(prepared(name))
    assert [letter for letter in COMMON if letter not in face.letters] == []
    widths, order = program(face)["hmtx"].metrics, program(face).getGlyphOrder()
    for base, advance in enumerate(face.advances):
        assert font.get_glyph_h_advance(face.source_numbers[base]) == advance
        assert widths[order[face.glyph_number(base)]][0] == advance
    text = shaped(face, "".join(face.letters) + "office Waffle first AV To 1/2")
    assert {info.codepoint for info in text.glyph_infos} <= set(face.source_numbers)


def test_kerning_and_composed_syllables_survive_and_a_letter_mapped_to_nothing_is_not_covered() -> None:
    for name in ("Satisfy", "Delius", "Caveat Bold"):  # the first keeps it in the table of older fonts
        face = prepared(name)
        text = shaped(face, "ToWaAVTyLT")
        bases = [face.source_numbers.index(info.codepoint) for info in text.glyph_infos]
        moves = [at.x_advance - face.advances[base] for at, base in zip(text.glyph_positions, bases, strict=True)]
        assert any(moves), name
    assert len(shaped(prepared("Kalam"), "क्ष").glyph_infos) == 1
    for name in ("Kalam Bold", "Delius"):
        face = prepared(name)
        assert " " in face.letters
        assert "\u00a0" not in face.letters
        assert all(face.boxes[base] != (0, 0, 0, 0) for letter, base in face.letters.items() if letter != " ")


def test_the_plain_face_has_the_weight_of_text_and_may_be_prepared_for_some_letters_only() -> None:
    face, small = plain(), plain("añ☃")
    assert set("ΑλφαЖукŁódź") <= face.letters.keys()
    left, _, right, _ = ink(face, face.letters["I"])
    assert 70 < right - left < 110
    assert set(small.letters) == {" ", "a", "ñ"}
    assert len(small.program) < 4000
    assert small.cap_height == face.cap_height


def test_a_prepared_face_comes_back_from_its_bytes_and_damaged_ones_are_refused() -> None:
    face = prepared("Kalam Bold")
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


def test_the_same_recipe_gives_the_same_bytes() -> None:
    for name in IN_TYPE:
        face = LETTERING[name]
        once, again = (prepare_face(face, raw(face), only_chars="Quil post") for _ in range(2))
        assert once.to_bytes() == again.to_bytes()


def test_every_part_of_the_recipe_is_in_its_key_and_what_is_only_for_the_page_is_not() -> None:
    face = LETTERING["Caveat Medium"]
    recipes = [face, replace(face, face="Caveat"), replace(face, all_letters=False)]
    recipes += [replace(face, source=replace(face.source, weight=400))]
    keys = [recipe_key(recipe, b"font") for recipe in recipes] + [recipe_key(face, b"other font")]
    assert len(set(keys)) == len(keys) == 5
    assert recipe_key(replace(face, figure_gap=40), b"font") == keys[0]


def bar(left: float, bottom: float, right: float, top: float) -> Contour:
    """A filled rectangle as TrueType draws it, clockwise."""
    corners = np.array([(left, bottom), (left, top), (right, top), (right, bottom)])
    following = np.roll(corners, -1, axis=0)
    return np.stack([corners, (corners + following) / 2, following], axis=1)


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
