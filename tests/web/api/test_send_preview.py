"""A send with preview = true: two pictures, and nothing else happens."""

import io
from contextlib import ExitStack
from urllib.parse import urlsplit

import pikepdf
import pytest
from PIL import Image, ImageOps

from quillpost.app.container import Container
from quillpost.core.files import delete_expired_files
from quillpost.core.requests import ClientConnection, client_context
from quillpost.orders.templates.images import MAX_HEAVY_WORK, MAX_HEAVY_WORK_PER_ACCOUNT, limit_heavy_work
from quillpost.rendering.decoder.tasks import rasterize_pages
from quillpost.rendering.handwriting.models import STYLES
from support.factories import Account, Clock, person, snapshot_rows
from support.test_client import TestClient
from support.traces import traces

PNG = b"\x89PNG\r\n\x1a\n"
SINGLE_TAKE = 14


def path_of(url: str) -> str:
    parts = urlsplit(url)
    assert (parts.scheme, parts.netloc) == ("http", "quillpost.test")
    return parts.path


def test_a_preview_answers_with_two_pictures_that_open_without_a_token(
    owner: Account, container: Container, http: TestClient
) -> None:
    before = snapshot_rows(container)
    shown = owner.send(preview=True)
    assert shown.status_code == 200
    body = shown.json()
    assert {key: body[key] for key in body if key != "data"} == {
        "success": True, "code": 200, "message": "OK",
    }  # fmt: skip
    assert set(body["data"]) == {"previews", "sides", "warnings"}
    assert body["data"]["sides"] == ["front", "back"]
    pictures = [http.get(path_of(url)) for url in body["data"]["previews"]]
    assert len(pictures) == 2
    for picture in pictures:
        assert picture.headers["Content-Type"] == "image/png"
        assert picture.content.startswith(PNG)
    assert pictures[0].content != pictures[1].content
    after = snapshot_rows(container)
    assert after == before | {"files": after["files"]}
    assert after["files"][0] == before["files"][0] + 2


@pytest.mark.usefixtures("clean_database")
def test_the_links_end_after_seven_days_and_the_files_go(
    owner: Account, container: Container, http: TestClient, clock: Clock
) -> None:
    link = path_of(owner.send(preview=True).json()["data"]["previews"][0])
    clock.advance(days=7, seconds=-1)
    assert http.get(link).status_code == 200
    clock.advance(seconds=1)
    assert http.get(link).status_code == 404
    clock.advance(seconds=1)
    assert delete_expired_files(container.db, container.storage, now=clock.now()) == 2
    assert list(container.storage.store.keys("preview/")) == []


def test_a_changed_link_opens_nothing(owner: Account, http: TestClient) -> None:
    link = path_of(owner.send(preview=True).json()["data"]["previews"][0])
    other = link[:-1] + ("A" if link[-1] != "A" else "B")
    assert (http.get(other).status_code, http.get(other).json()) == (404, {"message": "Not Found"})


def test_the_first_mailable_recipient_is_drawn_unless_another_is_chosen(owner: Account, http: TestClient) -> None:
    audience = [
        {"name": "No Address", "email": "only@example.com"},
        person(name="Ada"),
        person(name="Bob", address="9 Oak Ave"),
    ]

    def back(**how: int) -> bytes:
        shown = owner.send(recipients=audience, preview=True, **how).json()
        return http.get(path_of(shown["data"]["previews"][1])).content

    assert back() == back(preview_recipient=1)
    assert back() != back(preview_recipient=2)


def test_the_chosen_hand_its_size_its_ink_and_its_realism_are_those_drawn(owner: Account, http: TestClient) -> None:
    def ink(**how: object) -> Image.Image:
        shown = owner.send(preview=True, message="Good day to you", **how).json()
        back = Image.open(io.BytesIO(http.get(path_of(shown["data"]["previews"][1])).content))
        return back.convert("RGB").crop((0, 0, 350, 500))  # above the barcode

    def height(picture: Image.Image) -> int:
        box = ImageOps.invert(picture.convert("L")).getbbox()
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


@pytest.mark.parametrize("url", [None, "https://example.com/hello"])
def test_a_preview_shows_the_very_strokes_that_are_printed(owner: Account, http: TestClient, url: str | None) -> None:
    owner.send()  # so that no number agrees by chance
    order_request = {"message": "Hi %FIRST_NAME%, see you at the fair on Saturday!", "qrcode_url": url}
    shown = owner.send(preview=True, **order_request).json()["data"]["previews"][1]
    order_id = owner.send(**order_request).json()["id"]
    proof = owner.get(f"/orders/{order_id}").json()["high_quality_preview"]
    printed = rasterize_pages(http.get(path_of(proof)).content, dpi=150, pages=[1])[0]
    preview, page = (
        Image.open(io.BytesIO(png)).convert("RGB").crop((0, 0, 900, 440))
        for png in (http.get(path_of(shown)).content, printed)
    )
    for picture in (preview, page):  # each piece has a code of its own on its opt-out line
        picture.paste((255, 255, 255), (380, 175, 860, 205))
    assert preview.tobytes() == page.tobytes()


def test_the_print_file_is_in_the_chosen_hand(owner: Account, http: TestClient) -> None:
    order_id = owner.send(handwriting_style=SINGLE_TAKE).json()["id"]
    proof = owner.get(f"/orders/{order_id}").json()["high_quality_preview"]
    with pikepdf.open(io.BytesIO(http.get(path_of(proof)).content)) as document:
        fonts = [str(font.BaseFont) for font in document.pages[1].obj.Resources.Font.values()]
    face = next(style.face for style in STYLES if style.number == SINGLE_TAKE)
    assert any(font.endswith(f"+{face}") for font in fonts)


def test_a_preview_for_a_recipient_that_is_not_there_is_refused(owner: Account, container: Container) -> None:
    before = traces(container)
    refused = owner.send(preview=True, preview_recipient=1)
    assert refused.status_code == 422
    assert list(refused.json()["errors"]) == ["preview_recipient"]
    assert traces(container) == before


@pytest.mark.parametrize("size", ["4x6", "6x9", "6x11"])
def test_the_plain_front_can_be_looked_at(owner: Account, http: TestClient, size: str) -> None:
    front = owner.send(size=size).json()["front_image"]
    assert http.get(path_of(front)).content.startswith(PNG)


def test_a_plain_front_that_was_drawn_waits_for_nobody(http: TestClient, container: Container) -> None:
    first = http.get("/art/postcard-4x6.png").content
    with ExitStack() as busy:
        for place in range(MAX_HEAVY_WORK):
            account = f"account {place // MAX_HEAVY_WORK_PER_ACCOUNT}"
            with client_context(ClientConnection(lambda account=account: account)):  # type: ignore[misc]
                busy.enter_context(limit_heavy_work())
        assert http.get("/art/postcard-4x6.png").content == first


def test_the_proof_of_an_order_opens_without_a_token(owner: Account, http: TestClient) -> None:
    order_id = owner.send().json()["id"]
    proof = owner.get(f"/orders/{order_id}").json()["high_quality_preview"]
    opened = http.get(path_of(proof))
    assert opened.headers["Content-Type"] == "application/pdf"
    assert opened.content.startswith(b"%PDF-")
