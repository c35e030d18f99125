"""Every piece by every name: estimated, sent, previewed as it will be printed, and delivered."""

import io
from contextlib import ExitStack
from io import BytesIO
from typing import Any
from urllib.parse import urlsplit

import pikepdf
import pypdfium2 as pdfium
import pytest
import sqlalchemy as sa
import zxingcpp
from PIL import Image, ImageOps

from quillpost.app.container import Container
from quillpost.core.database.tables.base import items
from quillpost.core.database.tables.fulfillment import prints
from quillpost.core.files import delete_expired_files
from quillpost.core.requests import ClientConnection, client_context
from quillpost.orders.giftcards.rules import SPECIMEN_CLAIM, format_claim
from quillpost.orders.templates.images import MAX_HEAVY_WORK, MAX_HEAVY_WORK_PER_ACCOUNT, limit_heavy_work
from quillpost.rendering.decoder.tasks import rasterize_pages
from quillpost.rendering.handwriting.models import STYLES
from quillpost.rendering.service import PREVIEW_DPI
from quillpost.web.api.responses import IGNORED_HEADER
from support.factories import GIFT, Account, Clock, people, person, postcard, read_warnings, run_jobs_for, snapshot_rows
from support.giftcard_orders import claims_on_paper, compose_all, end_reviews, print_file
from support.images import ImageServer
from support.rows import scalar
from support.test_client import TestClient

PRODUCTS: list[tuple[str, str, str | None, str, int]] = [
    ("postcard", "postcard", "4x6", "Postcard-4x6", 109),
    *((path, "letter", None, "Windowed Letter", 179)
      for path in ("windowed-letter", "windowedletter", "letter", "letter/windowed")),
    *((path, "windowlessletter", None, "Windowless Letter", 199)
      for path in ("windowless-letter", "windowlessletter", "letter/windowless")),
    ("notecard", "notecard", None, "Notecard", 299),
    ("giftcard", "giftcard", None, "Gift Card", 349),
    ("magnacard", "magnacard", None, "Magnacard", 219),
]  # fmt: skip


def test_each_name_estimates_and_sends_its_piece(subtests: pytest.Subtests, owner: Account) -> None:
    audience = [*people(2), person(address="1 main st."), {"email": "e@example.com"}]
    for path, type_, size, display, cents in PRODUCTS:
        with subtests.test(path):
            gift = GIFT if path == "giftcard" else {}
            body, value = postcard(recipients=audience, **gift), 2 * int(gift.get("giftcard_amount", 0))
            answer = owner.post(f"/estimate/{path}", body)
            data, sent = answer.json()["data"], owner.post(f"/send/{path}", body).json()
            read = owner.get(f"/orders/{sent['id']}").json()
            assert (answer.status_code, answer.json()["message"]) == (200, "OK")
            assert data == {
                "type": type_, "total_recipients": 2, "suppressed": 0, "duplicates": 1, "undeliverable": 1,
                "unit_price": cents, "leads_fee": 0, "giftcard_total": value, "test_mode": True,
                "authorization_total": 2 * cents + value, "warnings": read["warnings"],
            }  # fmt: skip
            assert sent["authorization_total"] == 2 * cents + value
            for shown in (sent, read):
                assert (shown["type"], shown["size"], shown["display_type"]) == (type_, size, display)


CANADIAN = person(country="CA", province="ON", postal_code="K1A 0B1")
POSTCARDS: list[tuple[dict[str, Any], str, str, int]] = [
    ({"send_standard_mail": True}, "postcard", "Postcard-4x6", 94),
    ({"size": "6x9"}, "postcard", "Postcard-6x9", 134),
    ({"size": "6x11"}, "postcard6x11", "Postcard-6x11", 149),
    ({"size": "6x11", "send_standard_mail": True}, "postcard6x11", "Postcard-6x11", 121),
    ({"recipients": [CANADIAN]}, "postcard", "Postcard-4x6", 219),
    ({"recipients": [*people(2), person(country="DE", province=None, postal_code="10115")]},
     "postcard", "Postcard-4x6", 2 * 109 + 219),
]  # fmt: skip


def test_the_total_follows_size_class_and_country(owner: Account) -> None:
    for changes, type_, display, cents in POSTCARDS:
        answer = owner.send(**changes).json()
        found = answer["type"], answer["display_type"], answer["authorization_total"]
        assert found == (type_, display, cents), changes


def pixels(owner: Account, url: str) -> tuple[int, int]:
    answer = owner.http.get(url)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "image/png")
    return Image.open(BytesIO(answer.content)).size


def test_a_preview_shows_every_side_and_the_envelope(subtests: pytest.Subtests, owner: Account) -> None:
    cases: list[tuple[str, dict[str, str], list[str], tuple[int, int], bool]] = [
        ("postcard", {}, ["front", "back"], (900, 600), False),
        ("postcard", {"size": "6x11"}, ["front", "back"], (1650, 900), False),
        ("magnacard", {}, ["front", "back"], (900, 600), False), ("notecard", {}, ["front", "back"], (638, 825), True),
        ("letter", {}, ["cover"], (1275, 1650), True), ("windowless-letter", {}, ["cover"], (1275, 1650), True),
        ("giftcard", {}, ["front", "back"], (638, 825), True),
    ]  # fmt: skip
    for path, changes, sides, size, has_envelope in cases:
        with subtests.test(f"{path} {changes}"):
            answer = owner.send(path, preview=True, **changes).json()
            data = answer["data"]
            assert (answer["success"], answer["code"], answer["message"]) == (True, 200, "OK")
            assert data["sides"] == sides
            assert [pixels(owner, url) for url in data["previews"]] == [size] * len(sides)
            assert ("envelope" in data) == has_envelope
            assert not has_envelope or pixels(owner, data["envelope"])[0] > 800
    assert owner.get("/orders").json()["meta"]["total"] == 0


def test_a_preview_without_an_audience_names_its_piece_anywhere(subtests: pytest.Subtests, owner: Account) -> None:
    cover, both = ["cover"], ["front", "back"]
    types = {"postcard": both, "6x11-postcard": both, "letter": cover, "letter/windowed": cover}
    types |= {"windowless-letter": cover, "notecard": both, "magnacard": both}
    paths = {"postcard": both, "letter/windowed": cover, "letter/windowless": cover, "windowedletter": cover}
    paths |= {"notecard": both, "giftcard": both}
    calls: list[tuple[str, dict[str, Any], list[str]]] = [
        *(("/preview", {"type": name}, sides) for name, sides in types.items()),
        *((f"/preview/{name}", GIFT if name == "giftcard" else {}, sides) for name, sides in paths.items()),
    ]
    for path, body, sides in calls:
        with subtests.test(f"{path} {body}"):
            shown = owner.post(path, {"message": "Hi %FIRST_NAME%!", **body})
            assert (shown.status_code, shown.headers.get(IGNORED_HEADER)) == (200, None), shown.text
            data = shown.json()["data"]
            assert (data["sides"], len(data["previews"])) == (sides, len(sides))
            assert owner.http.get(data["previews"][0]).headers["content-type"] == "image/png"
    assert owner.get("/orders").json()["meta"]["total"] == 0


def test_a_previews_size_comes_from_its_type_and_what_is_wrong_with_it_is_named(owner: Account) -> None:
    fronts = []
    for path, body in (
        ("/preview", {"type": "postcard6x9"}),
        ("/preview/postcard", {"size": "6x9"}),
        ("/preview", {"type": None, "piece": "postcard6x9", "size": None}),
    ):
        shown = owner.post(path, {**body, "message": "Hi!", "recipients": [person()]})
        assert (shown.headers.get(IGNORED_HEADER), shown.json()["data"]["sides"]) == (None, ["front", "back"])
        fronts.append(owner.http.get(shown.json()["data"]["previews"][0]).content)
    assert fronts[0] == fronts[1] == fronts[2]
    for wrong in ({"message": "Hi!"}, {"type": "poster", "message": "Hi!"}, {"type": None}):
        refused = owner.post("/preview", wrong)
        [error] = refused.json()["errors"]["type"]
        assert (refused.status_code, "postcard6x9" in error) == (422, True)
    assert "message" in owner.post("/preview", {"piece": "postcard"}).json()["errors"]
    unknown = owner.post("/preview", {"piece": "postcard", "message": "Hi!", "colour": 1, "pdf_only_url": "x"})
    assert unknown.headers[IGNORED_HEADER] == "colour, pdf_only_url"
    assert owner.post("/preview", [1]).status_code == 422


@pytest.mark.usefixtures("loopback_urls")
def test_a_letters_pages_follow_its_cover_or_are_all_and_a_bad_pdf_is_named(owner: Account, art: ImageServer) -> None:
    for path in ("letter", "windowless-letter"):
        for name in ("additional_pages_url", "additional_pages"):
            shown = owner.send(path, preview=True, **{name: art.letter(2)}).json()["data"]
            assert shown["sides"] == ["cover", "page 2", "page 3"], (path, name)
    # A window shows an address: where the envelope has one, a sheet with the address is added.
    body = {"recipients": [person()], "pdf_only_url": art.letter(2), "preview": True}
    assert [
        len(owner.post(f"/send/{path}", body).json()["data"]["sides"]) for path in ("letter", "windowless-letter")
    ] == [3, 2]
    sent = owner.send("letter", pdf_only_url=art.letter())
    assert read_warnings(sent) == ["The PDF is the whole letter: the message is not printed."]
    assert sent.json()["message"] == ""
    for field in ("additional_pages_url", "pdf_only_url"):
        for url, words in (
            (art.url("/gone"), "status 404"),
            (art.picture(), "cannot be printed"),
            (art.url("/~FIRST_NAME~.pdf"), "takes no variables"),
        ):
            refused = owner.send("letter", **{field: url})
            assert (refused.status_code, list(refused.json()["errors"])) == (422, [field])
            assert words in refused.json()["errors"][field][0]


@pytest.mark.usefixtures("clean_database", "loopback_urls")
def test_each_piece_is_printed_and_delivered(
    subtests: pytest.Subtests, owner: Account, container: Container, clock: Clock, art: ImageServer
) -> None:
    pieces: list[tuple[str, dict[str, str], int, int]] = [
        ("letter", {"additional_pages_url": art.letter(2)}, 3, 1),
        ("windowless-letter", {"pdf_only_url": art.letter(2)}, 2, 1), ("notecard", {}, 2, 1), ("magnacard", {}, 2, 0),
    ]  # fmt: skip
    orders = [owner.send(path, **changes).json()["id"] for path, changes, *_ in pieces]
    run_jobs_for(container, clock, seconds=45)
    for (path, _, pages, envelopes), order in zip(pieces, orders, strict=True):
        with subtests.test(path):
            proof = owner.get(f"/orders/{order}/proof")
            with pikepdf.open(BytesIO(proof.content)) as pdf:
                assert len(pdf.pages) == pages + envelopes
            own = sa.select(prints.c.batch_id).join(items, items.c.id == prints.c.item_id)
            batch = scalar(container, own.where(items.c.order_id == order))
            storage = container.storage.store
            files = {key.rsplit("/")[-1]: storage.get(key) for key in storage.keys(f"batches/{batch}/")}
            with pikepdf.open(BytesIO(files["print.pdf"])) as pdf:
                assert len(pdf.pages) == pages
            assert ("envelopes.pdf" in files) == bool(envelopes)
            [item] = owner.get(f"/orders/{order}/items").json()["data"]
            assert (item["status"], item["delivery_date"]) == ("Delivered", "2026-05-04")
            assert owner.get(f"/orders/{order}").json()["status"] == "Fulfilled"


def test_the_picture_of_a_front_without_art_is_the_pieces_own(owner: Account) -> None:
    sizes = "4x6", "6x9", "6x11"
    fronts = [(name, owner.send(name)) for name in ("notecard", "letter", "magnacard")]
    fronts += [(f"postcard-{size}", owner.send(size=size)) for size in sizes]
    for drawn_as, sent in fronts:
        url = sent.json()["front_image"]
        assert url.endswith(f"/art/{drawn_as}.png")
        assert pixels(owner, url)[0] > 100


LETTERING = 14


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
def test_a_preview_opens_for_seven_days(owner: Account, container: Container, http: TestClient, clock: Clock) -> None:
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
    assert (after, after["files"][0]) == (before | {"files": after["files"]}, before["files"][0] + 2)
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
    assert ink(handwriting_style=LETTERING).tobytes() != plain.tobytes()
    assert ink(handwriting_realism=False).tobytes() != plain.tobytes()
    small, medium, large = (height(ink(font_size=size)) for size in ("small", "medium", "large"))
    assert small < medium < large
    red = ink(handwriting_color="red").getcolors(350 * 500)
    assert red
    assert all(r >= max(g, b) for _, (r, g, b) in red)  # type: ignore[misc]


def test_preview_and_print_have_the_very_strokes_of_the_chosen_hand(owner: Account, http: TestClient) -> None:
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
    proof = proof_of(owner, owner.send(handwriting_style=LETTERING).json()["id"])
    with pikepdf.open(io.BytesIO(proof)) as document:
        fonts = [str(font.BaseFont) for font in document.pages[1].obj.Resources.Font.values()]
    [lettering] = [style.lettering for style in STYLES if style.number == LETTERING]
    assert lettering
    assert any(font.endswith(f"+{lettering.face}") for font in fonts)


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
