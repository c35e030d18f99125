"""How a gift card is shown to its sender: as it is printed, but for a specimen of its code."""

import io
from typing import Any
from urllib.parse import urlsplit

import pypdfium2 as pdfium
import pytest
import zxingcpp
from PIL import Image, ImageChops

from quillpost.app.container import Container
from quillpost.orders.giftcards.rules import SPECIMEN_CLAIM, format_claim
from quillpost.rendering.decoder.tasks import rasterize_pages
from quillpost.rendering.service import PREVIEW_DPI
from support.factories import Account, Clock, people
from support.giftcard_production import claims_on_paper, compose_all, end_reviews, print_file
from support.test_client import TestClient

pytestmark = pytest.mark.usefixtures("clean_database")

# Where on the card the code is to be read, in points from its lower left corner: left, bottom, right, top.
TYPED = 16, 15, 150, 50


def picture(png: bytes) -> Image.Image:
    return Image.open(io.BytesIO(png)).convert("RGB")


def address(container: Container, code: str) -> str:
    """Where a scan of that code leads."""
    return f"{container.production.qr_base}/gift/{code}"


def codes_on(image: Image.Image) -> list[str]:
    return [str(code.text) for code in zxingcpp.read_barcodes(image)]


def previews(http: TestClient, data: dict[str, Any]) -> dict[str, Image.Image]:
    links = dict(zip(data["sides"], data["previews"], strict=True))
    return {side: picture(http.get(urlsplit(link).path).content) for side, link in links.items()}


def in_print(container: Container, clock: Clock) -> tuple[bytes, dict[int, str]]:
    """What was sent is composed: the print file, and the claims on it."""
    [batch] = end_reviews(container.production, container, clock)
    compose_all(container.production, container)
    return print_file(container, batch), claims_on_paper(container, batch)


def test_a_preview_has_two_sides_and_an_envelope_and_a_specimen_of_the_code(
    owner: Account, http: TestClient, container: Container
) -> None:
    data = owner.send("giftcard", preview=True).json()["data"]
    assert data["sides"] == ["front", "back"]
    assert "envelope" in data
    shown = previews(http, data)
    assert codes_on(shown["back"]) == [address(container, SPECIMEN_CLAIM)]
    assert codes_on(shown["front"]) == []


def test_the_print_is_the_preview_but_for_the_code(
    owner: Account, http: TestClient, container: Container, clock: Clock
) -> None:
    shown = previews(http, owner.send("giftcard", preview=True).json()["data"])
    owner.send("giftcard")
    pdf, claims = in_print(container, clock)
    sides = [container.renderer.products["giftcard"].find_side(name) for name in ("outside", "inside")]
    pages = rasterize_pages(pdf, dpi=PREVIEW_DPI, pages=[0, 1], crops=[side.preview_area for side in sides])
    front, back = map(picture, pages)
    assert front.tobytes() == shown["front"].tobytes()
    [claim] = claims.values()
    assert codes_on(back) == [address(container, claim)]
    assert ImageChops.difference(back, shown["back"]).getbbox() is not None
    for side in (back, shown["back"]):
        cover_code(side, container)
    assert back.tobytes() == shown["back"].tobytes()


def cover_code(back: Image.Image, container: Container) -> None:
    """Blank out the code to scan, wherever it is found, and the place of the one to type."""
    [code] = zxingcpp.read_barcodes(back)
    first, last = code.position.top_left, code.position.bottom_right
    back.paste("white", (first.x - 2, first.y - 2, last.x + 3, last.y + 3))
    inside = container.renderer.products["giftcard"].find_side("inside")
    assert inside.card
    scale, across, up = PREVIEW_DPI / 72, inside.card.left - inside.preview_area.left, inside.card.bottom
    left, bottom, right, top = TYPED
    columns = round((across + left) * scale), round((across + right) * scale)
    rows = round(back.height - (up + top) * scale), round(back.height - (up + bottom) * scale)
    back.paste("white", (columns[0], rows[0], columns[1], rows[1]))


@pytest.mark.parametrize("is_issued", [False, True], ids=["before", "after"])
def test_the_proof_never_has_a_real_code(
    owner: Account, container: Container, clock: Clock, *, is_issued: bool
) -> None:
    order_id = owner.send("giftcard", recipients=people(2)).json()["id"]
    claims = in_print(container, clock)[1].values() if is_issued else []
    assert len(claims) == 2 * is_issued
    codes, text = [], ""
    with pdfium.PdfDocument(owner.get(f"/orders/{order_id}/proof").content) as document:
        for page in document:
            codes += codes_on(page.render(scale=2).to_pil())
            text += page.get_textpage().get_text_bounded()
    assert codes == [address(container, SPECIMEN_CLAIM)] * 2
    assert text.count("SPEC-1MEN-00000") == 2
    for claim in claims:
        assert format_claim(claim)[:15] not in text
