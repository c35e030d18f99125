"""The styles that people choose from, and their faces made ready: all letters in all takes have their ink."""

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
from fontTools.pens.areaPen import AreaPen
from fontTools.pens.boundsPen import BoundsPen
from fontTools.ttLib import TTFont

from quillpost.integrations.storage.objects import FaceFolder
from quillpost.rendering.handwriting import fonts as truetype
from quillpost.rendering.handwriting import service as handwriting_service
from quillpost.rendering.handwriting.models import (
    DEFAULT_STYLE,
    FALLBACK_FACES,
    PLAIN_FACE,
    STYLES,
    TAKES_PER_GLYPH,
    FaceRecipe,
    InvalidPreparedFace,
    PreparedFace,
    Style,
)
from quillpost.rendering.handwriting.outlines import MAX_TAKE_REACH, Contour, make_takes, sample_contour, signed_area
from quillpost.rendering.handwriting.service import FontSources, Hands, ProgressCallback, prepare_face, recipe_key
from quillpost.web.assets import PACKAGE_FILES

ROOT = Path(__file__).parents[2]
NODE_MODULES = ROOT / "node_modules"
WITH_NPM, WITHOUT_NPM = FontSources(NODE_MODULES), FontSources(None)
EVERY_FACE = (*STYLES, PLAIN_FACE, *FALLBACK_FACES)
ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
DELIUS = next(style for style in STYLES if style.face == "Delius")


def test_styles_are_numbered_from_one_without_gaps_and_keep_their_numbers() -> None:
    assert [style.number for style in STYLES] == list(range(1, len(STYLES) + 1))
    assert len({style.name for style in STYLES}) == len({style.face for style in STYLES}) == len(STYLES)
    names = "Zeyada Rosie Daisy Marco Anil Celeste Ellen Hannah Theo Louise Rene June Grace Oliver Max Ravi"
    assert " ".join(style.name for style in STYLES).startswith(names)
    default = (DEFAULT_STYLE.number, DEFAULT_STYLE.name, DEFAULT_STYLE.kind, DEFAULT_STYLE.engine)
    assert default == (1, "Zeyada", "AI", "stroke")
    assert [style.name for style in STYLES if (style.engine is not None) != (style.kind == "AI")] == []
    kinds = Counter(style.kind for style in WITHOUT_NPM.installed())
    assert kinds.total() >= 12
    assert kinds["AI"] >= 6
    assert set(kinds) == {"AI", "Realistic", "Bold", "International"}


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


def test_a_style_whose_file_is_missing_is_not_listed(tmp_path: Path) -> None:
    sources = FontSources(tmp_path)
    assert {style.source.is_from_npm for style in sources.installed()} == {False}
    ellen = next(style for style in STYLES if style.name == "Ellen")
    assert sources.read_font(ellen) is None
    file = tmp_path / ellen.source.package / ellen.source.path
    file.parent.mkdir(parents=True)
    file.write_bytes(b"a font")
    assert ellen in sources.installed()
    assert sources.read_font(ellen) == b"a font"
    nowhere = FaceRecipe(face="Nowhere", source=type(PLAIN_FACE.source)("fontpkg_nowhere", "files/Nowhere.ttf"))
    assert WITHOUT_NPM.read_font(nowhere) is None


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

    def noted(face: FaceRecipe, raw: bytes, tell: ProgressCallback | None = None) -> PreparedFace:
        made.append(face.face)
        return prepare_face(face, raw, tell)

    monkeypatch.setattr(handwriting_service, "prepare_face", noted)
    return made


def test_the_default_hand_writes_at_once_and_others_are_made_once_and_kept(tmp_path: Path, makings: list[str]) -> None:
    hands = hands_in(tmp_path)
    assert DEFAULT_STYLE not in hands.unprepared_faces()
    assert hands.hand(DEFAULT_STYLE.number).spell("Hello").advance > 1
    assert makings == [], "its recipe has changed: run tools/ship_faces.py"
    assert DELIUS in hands_in(tmp_path).unprepared_faces()
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
    assert hands_in(tmp_path / "taken").hand(DELIUS.number).spell("Hello").advance > 1
    assert makings == ["Delius"] * 2


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


def test_kerning_and_composed_syllables_survive_and_a_letter_mapped_to_nothing_is_not_covered() -> None:
    for name in ("Satisfy", "Dancing Script", "Caveat Bold"):  # the first keeps it in the table of older fonts
        face = prepared(name)
        text = shaped(face, "ToWaAVTyLT")
        bases = [face.source_numbers.index(info.codepoint) for info in text.glyph_infos]
        moves = [at.x_advance - face.advances[base] for at, base in zip(text.glyph_positions, bases, strict=True)]
        assert any(moves), name
    assert len(shaped(prepared("Kalam"), "क्ष").glyph_infos) == 1
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
