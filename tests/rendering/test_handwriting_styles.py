"""The styles that users choose from, where their typefaces come from, and hands made once and kept."""

import io
import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from importlib import resources
from pathlib import Path

import pytest
from fontTools.ttLib import TTFont

from quillpost.integrations.storage.objects import FaceFolder
from quillpost.rendering.handwriting import service as handwriting_service
from quillpost.rendering.handwriting.models import (
    DEFAULT_STYLE,
    FALLBACK_FACES,
    PLAIN_FACE,
    STYLES,
    FaceRecipe,
    PreparedFace,
)
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


def test_the_default_hand_writes_at_once_on_a_fresh_installation(tmp_path: Path, makings: list[str]) -> None:
    hands = hands_in(tmp_path)
    assert DEFAULT_STYLE not in hands.unprepared_faces()
    assert hands.hand(DEFAULT_STYLE.number).spell("Hello").advance > 1
    assert makings == [], "its recipe has changed: run tools/ship_faces.py"


def test_a_hand_is_made_once_and_kept_unless_its_file_is_cut_short(tmp_path: Path, makings: list[str]) -> None:
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


def test_simultaneous_requests_wait_for_one_preparation(tmp_path: Path, makings: list[str]) -> None:
    hands = hands_in(tmp_path)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: hands.prepare_face(DELIUS), range(4)))
    assert all(face is found[0] for face in found)
    assert makings == ["Delius"]


def test_a_folder_that_cannot_be_used_costs_time_only(tmp_path: Path, makings: list[str]) -> None:
    (tmp_path / "taken").write_text("a file, not a folder")
    assert hands_in(tmp_path / "taken").hand(DELIUS.number).spell("Hello").advance > 1
    assert makings == ["Delius"]


def test_a_changed_recipe_has_another_key() -> None:
    raw = WITHOUT_NPM.read_font(DELIUS)
    assert raw is not None
    assert len({recipe_key(DELIUS, raw), recipe_key(DEFAULT_STYLE, raw), recipe_key(DELIUS, raw + b"\0")}) == 3
