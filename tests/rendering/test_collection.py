"""Hands as an installation has them: one shipped, the others made once and kept."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from quillpost.integrations.storage.objects import FaceFolder
from quillpost.rendering.handwriting import service as handwriting_service
from quillpost.rendering.handwriting.models import DEFAULT_STYLE, STYLES, FaceRecipe, PreparedFace
from quillpost.rendering.handwriting.service import FontSources, Hands, ProgressCallback, prepare_face, recipe_key

DELIUS = next(style for style in STYLES if style.face == "Delius")


def hands_in(folder: Path) -> Hands:
    return Hands(FontSources(None), FaceFolder(folder))


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


def test_a_hand_is_made_once_and_kept(tmp_path: Path, makings: list[str]) -> None:
    assert DELIUS in hands_in(tmp_path).unprepared_faces()
    first = hands_in(tmp_path).prepare_face(DELIUS)
    hands = hands_in(tmp_path)
    assert DELIUS not in hands.unprepared_faces()
    assert hands.prepare_face(DELIUS).program == first.program
    assert makings == ["Delius"]


def test_a_kept_file_that_was_cut_short_is_made_again(tmp_path: Path, makings: list[str]) -> None:
    whole = hands_in(tmp_path).prepare_face(DELIUS)
    (kept,) = [file for file in tmp_path.iterdir() if file.is_file()]
    kept.write_bytes(kept.read_bytes()[:1000])
    assert hands_in(tmp_path).prepare_face(DELIUS).program == whole.program
    assert makings == ["Delius", "Delius"]


def test_simultaneous_requests_wait_for_one_preparation(tmp_path: Path, makings: list[str]) -> None:
    hands = hands_in(tmp_path)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: hands.prepare_face(DELIUS), range(4)))
    assert all(face is found[0] for face in found)
    assert makings == ["Delius"]


def test_a_folder_that_cannot_be_used_costs_time_only(tmp_path: Path, makings: list[str]) -> None:
    (tmp_path / "taken").write_text("a file, not a folder")
    hands = hands_in(tmp_path / "taken")
    assert hands.hand(DELIUS.number).spell("Hello").advance > 1
    assert makings == ["Delius"]


def test_a_changed_recipe_has_another_key() -> None:
    raw = FontSources(None).read_font(DELIUS)
    assert raw is not None
    assert recipe_key(DELIUS, raw) != recipe_key(DEFAULT_STYLE, raw)
    assert recipe_key(DELIUS, raw) != recipe_key(DELIUS, raw + b"\0")
