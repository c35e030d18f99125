"""The table "Requirements per piece", cell by cell, over the calls themselves.

A gift card needs a brand and an amount beside what its column says, which every call here gives.
"""

from typing import Any

import pytest

from quillpost.app.container import Container
from quillpost.orders.products import GIFTCARD, LETTER, MAGNACARD, NOTECARD, POSTCARD, PRODUCTS
from support.factories import GIFT, Account, Build, person, read_warnings
from support.image_server import ImageServer

COLUMNS = {
    "Postcard": ["postcard"],
    "Letter": ["windowed-letter", "windowless-letter"],
    "Notecard": ["notecard"],
    "Gift card": ["giftcard"],
    "Magnacard": ["magnacard"],
}
CARDS = [path for column in COLUMNS if column != "Letter" for path in COLUMNS[column]]
WITH_BACKGROUND = [path for path in CARDS if path != "giftcard"]
LETTERS = COLUMNS["Letter"]
EVERY_PIECE = CARDS + LETTERS
TYPES = {"windowed-letter": "letter", "windowless-letter": "windowlessletter"}

TABLE = """
| Requirement | Postcard | Letter | Notecard | Gift card | Magnacard |
|---|---|---|---|---|---|
| Audience | required | required | required | required | required |
| Front creative (front_image_url or image_template) | required unless message given | required unless message given or pdf_only_url set | required unless message given | required unless message given | required unless message given |
| message or message_template | required | required unless pdf_only_url | required | required | required |
| custom_background_image | optional | not used | optional | not used | optional |
| pdf_only_url | not used | optional alternative | not used | not used | not used |
"""  # noqa: E501
ROWS = [[cell.strip() for cell in line.strip("| ").split("|")] for line in TABLE.strip().splitlines()[2:]]


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_the_matrix_is_the_specifications(row: list[str]) -> None:
    part = ("audience", "front", "message", "background", "pdf_only")[ROWS.index(row)]
    columns = (POSTCARD, LETTER, NOTECARD, GIFTCARD, MAGNACARD)
    assert [getattr(piece, part).value for piece in columns] == row[1:]


def test_both_letters_are_one_column() -> None:
    letters = [piece for piece in PRODUCTS if piece.is_letter]
    assert len({(p.audience, p.front, p.message, p.background, p.pdf_only) for p in letters}) == 1


SAVED_GIFT = {"giftcard_brand_code": "brindlewick", "giftcard_amount": 2_500}


@pytest.fixture
def container(build: Build) -> Container:
    return build(allow_private_urls=True)


def call(owner: Account, piece: str, **body: Any) -> Any:
    return owner.post(f"/send/{piece}", (GIFT if piece == "giftcard" else {}) | body)


def error_fields(owner: Account, piece: str, **body: Any) -> list[str]:
    answer = call(owner, piece, **body)
    assert answer.status_code in (200, 422), answer.text
    return list(answer.json().get("errors", {}))


def template(owner: Account, piece: str, **more: Any) -> int:
    body = {"type": TYPES.get(piece, piece), "name": "Saved", "content": "Hello!"} | more
    body |= SAVED_GIFT if piece == "giftcard" else {}
    made = owner.post("/message-templates", body)
    assert made.status_code == 201, made.text
    return int(made.json()["id"])


AUDIENCE = {"recipients": [person()]}


@pytest.mark.parametrize("piece", EVERY_PIECE)
def test_an_audience_is_required(owner: Account, piece: str) -> None:
    nobodies: list[dict[str, list[Any]]] = [{}, {"recipients": []}, {"recipients": [], "mailing_list_ids": []}]
    for nobody in nobodies:
        assert error_fields(owner, piece, message="Hi!", **nobody) == ["recipients"]
    assert error_fields(owner, piece, message="Hi!", **AUDIENCE) == []


@pytest.mark.parametrize("piece", EVERY_PIECE)
def test_a_front_is_required_unless_there_is_a_message(owner: Account, art: ImageServer, piece: str) -> None:
    saved = template(owner, piece)
    assert error_fields(owner, piece, message="Hi!", **AUDIENCE) == []
    assert error_fields(owner, piece, message_template=saved, **AUDIENCE) == ["front_image_url"]
    assert error_fields(owner, piece, message_template=saved, front_image_url=art.picture(), **AUDIENCE) == []


@pytest.mark.parametrize("piece", EVERY_PIECE)
def test_an_image_template_is_a_front(owner: Account, art: ImageServer, piece: str) -> None:
    kind = "postcard" if piece == "magnacard" else TYPES.get(piece, piece)
    image = owner.post("/image-templates", {"type": kind, "name": "Saved", "image": art.picture()}).json()["id"]
    assert error_fields(owner, piece, message_template=template(owner, piece), image_template=image, **AUDIENCE) == []


@pytest.mark.parametrize("piece", EVERY_PIECE)
def test_a_message_is_required(owner: Account, art: ImageServer, piece: str) -> None:
    assert error_fields(owner, piece, front_image_url=art.picture(), **AUDIENCE) == ["message"]
    assert error_fields(owner, piece, **AUDIENCE) == ["message", "front_image_url"]


@pytest.mark.parametrize("piece", LETTERS)
def test_a_letter_made_only_from_a_pdf_needs_just_the_audience_and_the_pdf(
    owner: Account, art: ImageServer, piece: str
) -> None:
    sent = call(owner, piece, pdf_only_url=art.letter(), **AUDIENCE)
    assert sent.status_code == 200, sent.text
    assert (sent.json()["message"], sent.headers.get("X-Ignored-Fields")) == ("", None)
    saved = template(owner, piece, content="", pdf_only_url=art.letter())
    assert error_fields(owner, piece, message_template=saved, **AUDIENCE) == []


def beside_a_pdf(art: ImageServer) -> dict[str, Any]:
    """All that a cover would show, none of it to be had."""
    return {
        "message": "Hi!",
        "front_image_url": art.url("/gone-front"),
        "image_template": 999,
        "additional_pages": art.url("/gone-pages"),
        "qrcode_url": "https://example.com",
        "font_size": "large",
        "use_custom_background": False,
    }


COVER = "additional_pages, font_size, front_image_url, image_template, message, qrcode_url, use_custom_background"


@pytest.mark.parametrize("piece", LETTERS)
@pytest.mark.parametrize("verb", ["send", "estimate"])
def test_a_letter_made_only_from_a_pdf_uses_no_cover(owner: Account, art: ImageServer, piece: str, verb: str) -> None:
    body = {"pdf_only_url": art.letter(), **AUDIENCE, **beside_a_pdf(art)}
    plain = owner.post(f"/{verb}/{piece}", {"pdf_only_url": art.letter(), "allow_duplicates": True, **AUDIENCE})
    sent = owner.post(f"/{verb}/{piece}", body | {"allow_duplicates": True})
    assert (sent.status_code, sent.headers["X-Ignored-Fields"]) == (200, COVER)
    assert not any(b"/gone-" in request for request in art.requests)
    if verb == "send":
        assert read_warnings(sent) == ["The PDF is the whole letter: the message is not printed."]
        shown = ("front_image", "image_template_id", "qrcode_url", "font_size", "authorization_total")
        assert [sent.json()[name] for name in shown] == [plain.json()[name] for name in shown]
        assert sent.json()["qrcode_url"] is None


@pytest.mark.parametrize("piece", LETTERS)
def test_a_templates_pdf_is_the_whole_letter_too(owner: Account, art: ImageServer, piece: str) -> None:
    saved = template(owner, piece, content="", pdf_only_url=art.letter(), qrcode_url="https://example.com/saved")
    body = beside_a_pdf(art) | {"message": " "}
    sent = call(owner, piece, message_template=saved, **AUDIENCE, **body)
    assert sent.status_code == 200, sent.text
    assert sent.headers["X-Ignored-Fields"] == COVER.replace(" message,", "")
    assert sent.json()["qrcode_url"] is None
    assert "X-Warnings" not in sent.headers


def test_a_hand_beside_a_pdf_writes_an_envelope_that_has_no_window(owner: Account, art: ImageServer) -> None:
    hand = {"handwriting_style": 2, "handwriting_color": "red", "handwriting_realism": False}
    windowed, closed = (call(owner, p, pdf_only_url=art.letter(), **AUDIENCE, **hand) for p in LETTERS)
    assert windowed.headers["X-Ignored-Fields"] == ", ".join(sorted(hand))
    assert (windowed.json()["style"], closed.json()["style"]) == (1, 2)
    assert "X-Ignored-Fields" not in closed.headers


@pytest.mark.parametrize("piece", CARDS)
def test_a_card_does_not_use_a_pdf(owner: Account, art: ImageServer, piece: str) -> None:
    sent = call(owner, piece, message="Hi!", pdf_only_url=art.url("/gone"), **AUDIENCE)
    assert (sent.status_code, sent.headers["X-Ignored-Fields"]) == (200, "pdf_only_url")
    assert error_fields(owner, piece, pdf_only_url=art.letter(), **AUDIENCE) == ["message", "front_image_url"]


@pytest.mark.parametrize("piece", WITH_BACKGROUND)
def test_a_card_may_have_a_background(owner: Account, art: ImageServer, piece: str) -> None:
    without = call(owner, piece, message="Hi!", **AUDIENCE).json()
    sent = call(owner, piece, message="Hi there!", custom_background_image=art.picture(), **AUDIENCE)
    assert without["custom_background_url"] is None
    assert sent.json()["custom_background_url"] == art.picture()
    assert "X-Ignored-Fields" not in sent.headers


@pytest.mark.parametrize("piece", [*LETTERS, "giftcard"])
def test_a_letter_and_a_gift_card_do_not_use_a_background(owner: Account, art: ImageServer, piece: str) -> None:
    sent = call(owner, piece, message="Hi!", custom_background_image=art.url("/gone"), **AUDIENCE)
    assert (sent.status_code, sent.headers["X-Ignored-Fields"]) == (200, "custom_background_image")
    assert sent.json()["custom_background_url"] is None


@pytest.mark.parametrize("piece", [piece for piece in EVERY_PIECE if piece != "postcard"])
def test_only_a_postcard_has_a_size(owner: Account, piece: str) -> None:
    sent = call(owner, piece, message="Hi!", size="6x9", **AUDIENCE)
    assert (sent.headers["X-Ignored-Fields"], sent.json()["size"]) == ("size", None)
