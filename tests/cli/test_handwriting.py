"""`quillpost hands`: which there are, making them ready, and a gallery of everything."""

import fcntl
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from quillpost.app import bootstrap
from quillpost.cli import handwriting
from quillpost.core.settings import Settings
from quillpost.integrations.storage.objects import FaceFolder
from quillpost.rendering.decoder.service import DecoderSandbox
from quillpost.rendering.handwriting.models import DEFAULT_STYLE, STYLES, Style
from quillpost.rendering.handwriting.service import FontSources, Hands
from quillpost.rendering.layout.templates import load_shipped_products
from quillpost.rendering.service import Renderer
from support.cli_results import Quillpost
from support.designs import NO_PACKAGES, file_of, hands_in, stock

GRACE = next(style for style in STYLES if style.name == "Grace")


@pytest.fixture
def faces(tmp_path: Path) -> Path:
    """A folder in which one hand is not ready."""
    folder = tmp_path / "faces"
    stock(folder, without=[GRACE])
    return folder


def test_the_hands_are_listed_with_whether_they_are_ready(faces: Path, quillpost: Quillpost) -> None:
    outcome = quillpost("hands", faces_folder=faces, font_packages=NO_PACKAGES)
    assert outcome.code == 0
    rows = {row.split("│")[2].strip(): row for row in outcome.out.splitlines() if row.startswith("│")}
    assert list(rows) == [style.name for style in hands_in(faces).styles.values()]
    assert "no" in rows["Grace"].split()
    assert "yes" in rows["Zeyada"].split()
    assert {"Realistic", "Satisfy"} <= set(rows["Grace"].split())


def test_preparing_makes_what_is_missing_and_nothing_else(faces: Path, quillpost: Quillpost) -> None:
    ages = {file.name: file.stat().st_mtime_ns for file in faces.iterdir()}
    command = [sys.executable, "-m", "quillpost", "hands", "--prepare"]
    chosen = {"QUILLPOST_FACES_FOLDER": str(faces), "QUILLPOST_FONT_PACKAGES": str(NO_PACKAGES)}
    # A process of its own: whoever prepares hands lowers its own priority for good.
    ended = subprocess.run(command, env=os.environ | chosen, capture_output=True, text=True, check=True)
    assert ended.stdout == "Making hands ready: 1 of 1, Satisfy\n"
    assert ended.stderr == ""
    made = file_of(GRACE, faces)
    assert stat.S_IMODE(made.stat().st_mode) == 0o644
    assert made.read_bytes() == bootstrap.build_hands(Settings()).prepare_face(GRACE).to_bytes()
    assert {name: (faces / name).stat().st_mtime_ns for name in ages} == ages

    again = quillpost("hands", "--prepare", faces_folder=faces, font_packages=NO_PACKAGES)
    assert (again.code, again.out) == (0, "All hands are ready.\n")


def test_hands_wait_for_another_process_and_need_a_folder(faces: Path, tmp_path: Path, quillpost: Quillpost) -> None:
    with (faces / ".preparing").open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        outcome = quillpost("hands", "--prepare", faces_folder=faces)
    assert (outcome.code, "another process" in outcome.out) == (0, True)
    assert not file_of(GRACE, faces).exists()
    file = tmp_path / "a file"
    file.touch()
    outcome = quillpost("hands", "--prepare", faces_folder=file / "faces")
    assert (outcome.is_one_sentence(), str(file) in outcome.err) == (True, True)
    assert quillpost("hands", file / "gallery").is_one_sentence()


def test_a_helper_whose_service_is_gone_ends_at_once() -> None:
    command = [sys.executable, "-m", "quillpost", "hands", "--prepare", "--beside", "1"]
    assert subprocess.run(command, capture_output=True, check=False).returncode == -9


class FewFonts(FontSources):
    """Two hands, one with takes and one without."""

    def installed(self) -> tuple[Style, ...]:
        return (DEFAULT_STYLE, GRACE)


def test_the_gallery_shows_every_hand_and_every_side_of_every_piece(
    tmp_path: Path, faces: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handwriting, "PRODUCT_DPI", 36)
    kept = bootstrap.build_hands(Settings())
    file_of(GRACE, faces).write_bytes(kept.prepare_face(GRACE).to_bytes())
    few = Hands(FewFonts(NO_PACKAGES), FaceFolder(faces))
    handwriting.draw_gallery(Renderer(few, load_shipped_products(), sandbox=DecoderSandbox()), tmp_path / "gallery")
    assert_complete(tmp_path / "gallery", [DEFAULT_STYLE, GRACE])
    assert (tmp_path / "gallery" / "index.html").as_uri() in capsys.readouterr().out


@pytest.mark.long
def test_the_gallery_of_an_installation_is_complete(tmp_path: Path, quillpost: Quillpost) -> None:
    outcome = quillpost("hands", tmp_path / "gallery")
    assert outcome.code == 0, outcome.err
    assert_complete(tmp_path / "gallery", [*bootstrap.build_hands(Settings()).styles.values()])


def assert_complete(gallery: Path, hands: list[Style]) -> None:
    page = (gallery / "index.html").read_text()
    pictures = sorted(file.name for file in gallery.glob("*.png"))
    assert [name for name in pictures if f'"{name}"' not in page] == []
    assert len([name for name in pictures if name.startswith("hand-")]) == 2 * len(hands)
    assert [style.name for style in hands if style.name not in page] == []
    for name, piece in load_shipped_products().items():
        drawn = " ".join(file for file in pictures if file.startswith(f"piece-{name}-"))
        sides = [*piece.previews, "envelope"] if piece.envelope else [*piece.previews]
        assert [side for side in sides if f"-{side}.png" not in drawn] == []
    for name in pictures:
        with Image.open(gallery / name) as picture:
            shades = picture.convert("L").tobytes()
        assert max(shades) - min(shades) > 100, f"{name} is empty"
    assert "://" not in page, "it needs nothing from elsewhere"
