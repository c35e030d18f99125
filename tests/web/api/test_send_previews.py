"""A send with preview = true: pictures of what is printed, and nothing else happens."""

import io
from contextlib import ExitStack
from typing import Any
from urllib.parse import urlsplit

import pikepdf
import pypdfium2 as pdfium
import pytest
import zxingcpp
from PIL import Image, ImageOps

from quillpost.app.container import Container
from quillpost.core.files import delete_expired_files
from quillpost.core.requests import ClientConnection, client_context
from quillpost.orders.giftcards.rules import SPECIMEN_CLAIM, format_claim
from quillpost.orders.templates.images import MAX_HEAVY_WORK, MAX_HEAVY_WORK_PER_ACCOUNT, limit_heavy_work
from quillpost.rendering.decoder.tasks import rasterize_pages
from quillpost.rendering.handwriting.models import STYLES
from quillpost.rendering.service import PREVIEW_DPI
from support.factories import Account, Clock, people, person, snapshot_rows
from support.giftcard_orders import claims_on_paper, compose_all, end_reviews, print_file
from support.test_client import TestClient

SINGLE_TAKE = 14


def path_of(url: str) -> str:
    parts = urlsplit(url)
    assert (parts.scheme, parts.netloc) == ("http", "quillpost.test")
    return parts.path


def previews(sender: Account, piece: str = "postcard", /, **changes: Any) -> list[str]:
    """Where each side is shown."""
    shown = sender.send(piece, preview=True, **changes)
    assert shown.status_code == 200, shown.text
    return [path_of(url) for url in shown.json()["data"]["previews"]]


def picture(http: TestClient, path: str) -> Image.Image:
    return opened(http.get(path).content)


def opened(png: bytes) -> Image.Image:
    return Image.open(io.BytesIO(png)).convert("RGB")


def proof_of(sender: Account, order_id: int) -> bytes:
    """Without a token."""
    answer = sender.http.get(path_of(sender.get(f"/orders/{order_id}").json()["high_quality_preview"]))
    assert answer.headers["Content-Type"] == "application/pdf"
    return answer.content


@pytest.mark.usefixtures("clean_database")
def test_a_preview_is_two_pictures_that_open_without_a_token_for_seven_days(
    owner: Account, container: Container, http: TestClient, clock: Clock
) -> None:
    before = snapshot_rows(container)
    body = owner.send(preview=True).json()
    data = body.pop("data")
    assert body == {"success": True, "code": 200, "message": "OK"}
    assert (set(data), data["sides"]) == ({"previews", "sides", "warnings"}, ["front", "back"])
    front, back = (path_of(url) for url in data["previews"])
    pictures = [http.get(link) for link in (front, back)]
    assert [each.headers["Content-Type"] for each in pictures] == ["image/png"] * 2
    assert all(each.content.startswith(b"\x89PNG\r\n\x1a\n") for each in pictures)
    assert pictures[0].content != pictures[1].content
    after = snapshot_rows(container)
    assert after == before | {"files": after["files"]}
    assert after["files"][0] == before["files"][0] + 2
    other = front[:-1] + ("A" if front[-1] != "A" else "B")
    assert (http.get(other).status_code, http.get(other).json()) == (404, {"message": "Not Found"})
    clock.advance(days=7, seconds=-1)
    assert http.get(front).status_code == 200
    clock.advance(seconds=1)
    assert http.get(front).status_code == 404
    clock.advance(seconds=1)
    assert delete_expired_files(container.db, container.storage, now=clock.now()) == 2
    assert list(container.storage.store.keys("preview/")) == []


def test_the_first_mailable_recipient_is_drawn_unless_another_is_chosen(owner: Account, http: TestClient) -> None:
    ada, bob = person(name="Ada"), person(name="Bob", address="9 Oak Ave")
    audience = [{"name": "No Address", "email": "only@example.com"}, ada, bob]
    usual, first, second = (
        http.get(previews(owner, recipients=audience, **how)[1]).content
        for how in ({}, {"preview_recipient": 1}, {"preview_recipient": 2})
    )
    assert usual == first != second


def test_the_chosen_hand_its_size_its_ink_and_its_realism_are_those_drawn(owner: Account, http: TestClient) -> None:
    def ink(**how: object) -> Image.Image:
        back = picture(http, previews(owner, message="Good day to you", **how)[1])
        return back.crop((0, 0, 350, 500))  # above the barcode

    def height(image: Image.Image) -> int:
        box = ImageOps.invert(image.convert("L")).getbbox()
        assert box
        return box[3] - box[1]

    plain = ink()
    assert ink().tobytes() == plain.tobytes()
    assert ink(handwriting_style=SINGLE_TAKE).tobytes() != plain.tobytes()
    assert ink(handwriting_realism=False).tobytes() != plain.tobytes()
    small, medium, large = (height(ink(font_size=size)) for size in ("small", "medium", "large"))
    assert small < medium < large
    red = ink(handwriting_color="red").getcolors(350 * 500)
    assert red
    assert all(r >= max(g, b) for _, (r, g, b) in red)  # type: ignore[misc]


def test_a_preview_shows_the_very_strokes_that_are_printed(owner: Account, http: TestClient) -> None:
    owner.send()  # so that no number agrees by chance
    for url in (None, "https://example.com/hello"):
        order_request = {"message": "Hi %FIRST_NAME%, see you at the fair on Saturday!", "qrcode_url": url}
        shown = picture(http, previews(owner, **order_request)[1])
        proof = proof_of(owner, owner.send(**order_request).json()["id"])
        printed = opened(rasterize_pages(proof, dpi=150, pages=[1])[0])
        preview, page = (each.crop((0, 0, 900, 440)) for each in (shown, printed))
        for each in (preview, page):  # each piece has a code of its own on its opt-out line
            each.paste((255, 255, 255), (380, 175, 860, 205))
        assert preview.tobytes() == page.tobytes(), url


def test_the_print_file_is_in_the_chosen_hand(owner: Account) -> None:
    proof = proof_of(owner, owner.send(handwriting_style=SINGLE_TAKE).json()["id"])
    with pikepdf.open(io.BytesIO(proof)) as document:
        fonts = [str(font.BaseFont) for font in document.pages[1].obj.Resources.Font.values()]
    face = next(style.face for style in STYLES if style.number == SINGLE_TAKE)
    assert any(font.endswith(f"+{face}") for font in fonts)


def test_a_plain_front_that_was_drawn_waits_for_nobody(http: TestClient) -> None:
    first = http.get("/art/postcard-4x6.png").content
    with ExitStack() as busy:
        for place in range(MAX_HEAVY_WORK):
            account = f"account {place // MAX_HEAVY_WORK_PER_ACCOUNT}"
            with client_context(ClientConnection(lambda account=account: account)):  # type: ignore[misc]
                busy.enter_context(limit_heavy_work())
        assert http.get("/art/postcard-4x6.png").content == first


# Gift cards: as they are printed, but for a specimen of the code


def codes_on(image: Image.Image) -> list[str]:
    return [str(code.text) for code in zxingcpp.read_barcodes(image)]


@pytest.mark.usefixtures("clean_database")
def test_the_print_of_a_gift_card_is_its_preview_but_for_the_code_and_no_proof_has_a_real_one(
    owner: Account, http: TestClient, container: Container, clock: Clock
) -> None:
    front, back = (picture(http, path) for path in previews(owner, "giftcard", recipients=people(2)))
    specimen = f"{container.production.qr_base}/gift/{SPECIMEN_CLAIM}"
    assert (codes_on(front), codes_on(back)) == ([], [specimen])
    order_id = owner.send("giftcard", recipients=people(2)).json()["id"]

    def assert_proof_has_specimens_only(*claims: str) -> None:
        codes, text = [], ""
        with pdfium.PdfDocument(owner.get(f"/orders/{order_id}/proof").content) as document:
            for page in document:
                codes += codes_on(page.render(scale=2).to_pil())
                text += page.get_textpage().get_text_bounded()
        assert (codes, text.count("SPEC-1MEN-00000")) == ([specimen] * 2, 2)
        assert [claim for claim in claims if format_claim(claim)[:15] in text] == []

    assert_proof_has_specimens_only()
    [batch] = end_reviews(container.production, container, clock)
    compose_all(container.production, container)
    claims = claims_on_paper(container, batch)
    assert len(claims) == 2
    assert_proof_has_specimens_only(*claims.values())
    sides = [container.renderer.products["giftcard"].find_side(name) for name in ("outside", "inside")]
    crops = [side.preview_area for side in sides]
    pages = rasterize_pages(print_file(container, batch), dpi=PREVIEW_DPI, pages=[0, 1], crops=crops)
    outside, inside = map(opened, pages)
    assert outside.tobytes() == front.tobytes()
    assert codes_on(inside) == [f"{container.production.qr_base}/gift/{claims[min(claims)]}"]
    assert inside.tobytes() != back.tobytes(), "but for the code nothing differs, as the panel's own tests prove"
