"""What an operator sets for the press reaches the print files."""

import io
from datetime import UTC, datetime
from pathlib import Path

import pikepdf
import pytest

from quillpost.app.container import Container
from quillpost.core.errors import NotReady
from quillpost.rendering.models import INCH, Addressee, Copy, Design
from quillpost.rendering.pdf.color import SRGB
from support.factories import Build

MADE_AT = datetime(2026, 5, 4, tzinfo=UTC)


def printed(container: Container) -> bytes:
    order_request = Design(product="postcard-4x6", message="Hello", ink=(0, 0, 0))
    copy = Copy(1, 0, Addressee(name="Jane Doe", address="12 Main St"))
    return container.renderer.compose({0: order_request}, [copy], title="A batch", made_at=MADE_AT).sheets


def test_templates_move_what_they_name(build: Build, tmp_path: Path) -> None:
    file = tmp_path / "press.toml"
    file.write_text("[postcard-4x6.back]\nindicia = [4.6, 3.1, 1.15, 0.65]\n")
    usual, moved = build(), build(templates=file)
    box = moved.renderer.products["postcard-4x6"].find_side("back").indicia
    assert box
    assert (box.left, box.bottom) == pytest.approx((4.6 * INCH, 3.1 * INCH))
    assert printed(moved) != printed(usual)


def test_the_output_profile_is_the_files_intent(build: Build, tmp_path: Path) -> None:
    profile = SRGB.profile[:16] + b"GRAY" + SRGB.profile[20:]
    (tmp_path / "press.icc").write_bytes(profile)
    with pikepdf.open(io.BytesIO(printed(build(output_profile=tmp_path / "press.icc")))) as document:
        (intent,) = document.Root.OutputIntents
        assert intent.DestOutputProfile.read_bytes() == profile


@pytest.mark.parametrize("setting", ["templates", "output_profile"])
@pytest.mark.parametrize("content", [None, b"\xff neither of them"])
def test_a_file_that_cannot_be_used_is_named(build: Build, tmp_path: Path, setting: str, content: bytes | None) -> None:
    file = tmp_path / "press"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(NotReady, match=f"QUILLPOST_{setting.upper()}"):
        build(**{setting: file})
