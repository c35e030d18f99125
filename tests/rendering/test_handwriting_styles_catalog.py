"""The styles that users choose from, and where their typefaces come from."""

import io
import json
from collections import Counter
from importlib import resources
from pathlib import Path

import pytest
from fontTools.ttLib import TTFont

from quillpost.rendering.handwriting.models import DEFAULT_STYLE, FALLBACK_FACES, PLAIN_FACE, STYLES, FaceRecipe, Style
from quillpost.rendering.handwriting.service import FontSources
from quillpost.web.assets import PACKAGE_FILES

ROOT = Path(__file__).parents[2]
NODE_MODULES = ROOT / "node_modules"
WITH_NPM = FontSources(NODE_MODULES)
WITHOUT_NPM = FontSources(None)
EVERY_FACE = (*STYLES, PLAIN_FACE, *FALLBACK_FACES)
ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"


def by_face(face: FaceRecipe) -> str:
    return face.face


def file_of(face: FaceRecipe) -> bytes:
    raw = WITH_NPM.read_font(face)
    if raw is None and face.source.is_from_npm:
        pytest.skip("the typefaces of npm are not installed")
    assert raw is not None
    return raw


def test_styles_are_numbered_from_one_without_gaps_and_named_once() -> None:
    assert [style.number for style in STYLES] == list(range(1, len(STYLES) + 1))
    assert len({style.name for style in STYLES}) == len(STYLES)
    assert len({style.face for style in STYLES}) == len(STYLES)


def test_numbers_given_once_keep_their_hands() -> None:
    names = "Zeyada Rosie Daisy Marco Anil Celeste Ellen Hannah Theo Louise Rene June Grace Oliver Max Ravi"
    assert " ".join(style.name for style in STYLES).startswith(names)


def test_the_default_is_zeyada_in_takes() -> None:
    assert (DEFAULT_STYLE.number, DEFAULT_STYLE.name, DEFAULT_STYLE.kind, DEFAULT_STYLE.engine) == (
        1,
        "Zeyada",
        "AI",
        "stroke",
    )


def test_there_are_twelve_hands_and_every_kind_even_without_npm() -> None:
    kinds = Counter(style.kind for style in WITHOUT_NPM.installed())
    assert kinds.total() >= 12
    assert kinds["AI"] >= 6
    assert set(kinds) == {"AI", "Realistic", "Bold", "International"}


@pytest.mark.parametrize("style", STYLES, ids=by_face)
def test_only_hands_of_kind_ai_have_an_engine(style: Style) -> None:
    assert (style.engine is not None) == (style.kind == "AI")


@pytest.mark.parametrize("face", EVERY_FACE, ids=by_face)
def test_the_typeface_is_truetype_and_has_the_letters_of_its_trade(face: FaceRecipe) -> None:
    font = TTFont(io.BytesIO(file_of(face)))
    assert "glyf" in font
    letters = font.getBestCmap()
    expected = "😀🎉" if face.face == "Noto Emoji" else ALPHABET
    assert [letter for letter in expected if ord(letter) not in letters] == []


@pytest.mark.parametrize("face", EVERY_FACE, ids=by_face)
def test_the_typeface_brings_its_licence(face: FaceRecipe) -> None:
    raw = file_of(face)
    if face.source.is_from_npm:
        licence = NODE_MODULES / face.source.package / "LICENSE_FONT"
        text = licence.read_text() if licence.exists() else TTFont(io.BytesIO(raw))["name"].getDebugName(13)
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


def test_a_python_package_that_is_not_installed_hides_its_style() -> None:
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
