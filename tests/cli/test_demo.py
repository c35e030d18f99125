"""The demonstration, on a service of its own with everything else as a newcomer finds it."""

from pathlib import Path
from typing import NamedTuple

import pypdfium2
import pytest
from PIL import Image

from quillpost.cli import demo
from support.cli_results import Quillpost


class Looks(NamedTuple):
    width: float
    height: float
    sides: tuple[str, ...] = ("front", "back")
    has_envelope: bool = False
    is_secret: bool = False


LOOKS = {
    "postcard-4x6": Looks(6, 4), "postcard-6x11": Looks(11, 6),
    "letter": Looks(8.5, 11, ("cover",), has_envelope=True),
    "windowlessletter": Looks(8.5, 11, ("cover",), has_envelope=True), "notecard": Looks(4.25, 5.5, has_envelope=True),
    "giftcard": Looks(4.25, 5.5, has_envelope=True, is_secret=True), "magnacard": Looks(6, 4),
}  # fmt: skip


@pytest.mark.costly
def test_every_piece_ends_as_it_should(folder: Path, monkeypatch: pytest.MonkeyPatch, quillpost: Quillpost) -> None:
    monkeypatch.setattr(demo, "POLL_SECONDS", 0.3)
    # A demonstration keeps away from the operator's own database.
    elsewhere = "postgresql://nobody@127.0.0.1:1/none"
    outcome = quillpost("demo", "--out", folder, database_url=elsewhere, test_review_seconds=0, test_journey_seconds=2)
    assert (outcome.code, (folder / "home" / "faces").exists()) == (0, False), outcome.out + outcome.err
    assert outcome.out.count(" ✓ ") == len(demo.DEMO_PRODUCTS) * len(demo.DEMO_RECIPIENTS) + 1
    for piece in demo.DEMO_PRODUCTS:
        place, looks = folder / piece.name, LOOKS[piece.name]
        for side in looks.sides:
            with Image.open(place / f"{side}.png") as picture:
                assert picture.width / picture.height == pytest.approx(looks.width / looks.height, rel=0.02)
        mailed = len(demo.DEMO_RECIPIENTS) - 1  # all but the undeliverable one
        assert (place / "print.pdf").exists() == (not looks.is_secret)
        if not looks.is_secret:
            with pypdfium2.PdfDocument(place / "print.pdf") as printed:
                assert len(printed) == len(looks.sides) * mailed
        assert (place / "envelope.png").exists() == (place / "envelopes.pdf").exists() == looks.has_envelope
        assert (place / "proof.pdf").read_bytes().startswith(b"%PDF")
        assert "Jane Doe" in (place / "manifest.csv").read_text()


def test_a_piece_that_ends_elsewhere_is_a_failure(tmp_path: Path) -> None:
    sent = demo.DemoOrder(demo.DEMO_PRODUCTS[0], 1, tmp_path)
    sent.items = [
        # No more of an item than is looked at.
        {"status": "Delivered", "recipient": {"name": guest.name}, "failure": None}  # type: ignore[typeddict-item]
        for guest in demo.DEMO_RECIPIENTS
    ]
    found = " ".join(demo.find_unexpected_endings([sent]))
    for guest in demo.DEMO_RECIPIENTS:
        assert (guest.name in found) == (guest.expected_status != "Delivered")


def test_another_service_needs_a_token(tmp_path: Path, quillpost: Quillpost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quillpost.client.transport.backoff", lambda _: 0.0)
    for words, why in (((), "--token"), (("--token", "x", "--out", tmp_path), "cannot be reached")):
        assert quillpost("demo", "--url", "http://127.0.0.1:1", *words).is_one_sentence(why)
