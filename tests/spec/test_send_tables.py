"""The specification's tables of sending: what each piece requires, the request's fields, the response's fields."""

import json
from typing import Any

import pytest

from quillpost.app.container import Container
from quillpost.orders.products import GIFTCARD, LETTER, MAGNACARD, NOTECARD, POSTCARD, PRODUCTS
from support.factories import GIFT, Account, make_sub_account, person, read_warnings
from support.field_shapes import Json
from support.images import ImageServer

# fmt: off
REQUIREMENTS = """
| Requirement | Postcard | Letter | Notecard | Gift card | Magnacard |
|---|---|---|---|---|---|
| Audience | required | required | required | required | required |
| Front creative (front_image_url or image_template) | required unless message given | required unless message given or pdf_only_url set | required unless message given | required unless message given | required unless message given |
| message or message_template | required | required unless pdf_only_url | required | required | required |
| custom_background_image | optional | not used | optional | not used | optional |
| pdf_only_url | not used | optional alternative | not used | not used | not used |
"""  # noqa: E501
# Path, and the type that it creates. A gift card needs brand and amount beside what its column says.
PIECES = {"postcard": "postcard", "windowed-letter": "letter", "windowless-letter": "windowlessletter",
          "notecard": "notecard", "giftcard": "giftcard", "magnacard": "magnacard"}
# fmt: on
pytestmark = pytest.mark.usefixtures("loopback_urls")

LETTERS = ("windowed-letter", "windowless-letter")
CARDS = ("postcard", "notecard", "giftcard", "magnacard")
AUDIENCE: Json = {"recipients": [person()], "allow_duplicates": True}
COVER = "additional_pages, font_size, front_image_url, image_template, message, qrcode_url, use_custom_background"


def test_the_matrix_of_requirements_is_the_specifications() -> None:
    rows = [[cell.strip() for cell in line.strip("| ").split("|")] for line in REQUIREMENTS.strip().splitlines()[2:]]
    columns = (POSTCARD, LETTER, NOTECARD, GIFTCARD, MAGNACARD)
    parts = ("audience", "front", "message", "background", "pdf_only")
    assert [[getattr(piece, part).value for piece in columns] for part in parts] == [row[1:] for row in rows]
    letters = {tuple(getattr(piece, part) for part in parts) for piece in PRODUCTS if piece.is_letter}
    assert len(letters) == 1, "both letters are one column"


def call(owner: Account, piece: str, **body: Any) -> Any:
    return owner.post(f"/send/{piece}", (GIFT if piece == "giftcard" else {}) | body)


def error_fields(owner: Account, piece: str, **body: Any) -> list[str]:
    answer = call(owner, piece, **body)
    assert answer.status_code in (200, 422), answer.text
    return list(answer.json().get("errors", {}))


def save_message(owner: Account, piece: str = "postcard", **more: Any) -> int:
    gift = {"giftcard_brand_code": "brindlewick", "giftcard_amount": 2_500} if piece == "giftcard" else {}
    body = {"type": PIECES[piece], "name": "Saved", "content": "Saved"} | gift | more
    made = owner.post("/message-templates", body)
    assert made.status_code == 201, made.text
    return int(made.json()["id"])


def save_image(owner: Account, art: ImageServer, piece: str = "postcard") -> int:
    kind = "postcard" if piece == "magnacard" else PIECES[piece]
    made = owner.post("/image-templates", {"type": kind, "name": "Saved", "image": art.picture()})
    return int(made.json()["id"])


def test_each_piece_needs_an_audience_a_front_and_a_message(owner: Account, art: ImageServer) -> None:
    nobodies: list[Json] = [{}, {"recipients": []}, {"recipients": [], "mailing_list_ids": []}]
    front = {"front_image_url": art.picture()}
    for piece in PIECES:
        for nobody in nobodies:
            assert error_fields(owner, piece, message="Hi!", **nobody) == ["recipients"], piece
        assert error_fields(owner, piece, message="Hi!", **AUDIENCE) == [], piece
        saved = {"message_template": save_message(owner, piece)}
        assert error_fields(owner, piece, **saved, **AUDIENCE) == ["front_image_url"], piece
        for other in (front, {"image_template": save_image(owner, art, piece)}):
            assert error_fields(owner, piece, **saved, **other, **AUDIENCE) == [], piece
        assert error_fields(owner, piece, **front, **AUDIENCE) == ["message"], piece
        assert error_fields(owner, piece, **AUDIENCE) == ["message", "front_image_url"], piece


def test_a_letter_made_only_from_a_pdf_needs_just_the_audience_and_the_pdf(owner: Account, art: ImageServer) -> None:
    for piece in LETTERS:
        sent = call(owner, piece, pdf_only_url=art.letter(), **AUDIENCE)
        assert sent.status_code == 200, sent.text
        assert (sent.json()["message"], sent.headers.get("X-Ignored-Fields")) == ("", None)
        saved = save_message(owner, piece, content="", pdf_only_url=art.letter())
        assert error_fields(owner, piece, message_template=saved, **AUDIENCE) == []


def beside_a_pdf(art: ImageServer) -> Json:
    """All that a cover would show, none of it to be had."""
    return {
        "message": "Hi!", "front_image_url": art.url("/gone-front"), "image_template": 999_999,
        "additional_pages": art.url("/gone-pages"), "qrcode_url": "https://example.com", "font_size": "large",
        "use_custom_background": False,
    }  # fmt: skip


@pytest.mark.parametrize("piece", LETTERS)
def test_a_letter_made_only_from_a_pdf_uses_no_cover(owner: Account, art: ImageServer, piece: str) -> None:
    body = AUDIENCE | {"pdf_only_url": art.letter()}
    estimated = owner.post(f"/estimate/{piece}", body | beside_a_pdf(art))
    assert (estimated.status_code, estimated.headers["X-Ignored-Fields"]) == (200, COVER)
    plain, sent = call(owner, piece, **body), call(owner, piece, **body | beside_a_pdf(art))
    assert (sent.status_code, sent.headers["X-Ignored-Fields"]) == (200, COVER)
    assert read_warnings(sent) == ["The PDF is the whole letter: the message is not printed."]
    shown = ("front_image", "image_template_id", "qrcode_url", "font_size", "authorization_total")
    assert [sent.json()[name] for name in shown] == [plain.json()[name] for name in shown]
    assert sent.json()["qrcode_url"] is None

    saved = save_message(owner, piece, content="", pdf_only_url=art.letter(), qrcode_url="https://example.com/saved")
    of_template = call(owner, piece, message_template=saved, **AUDIENCE, **beside_a_pdf(art) | {"message": " "})
    assert of_template.status_code == 200, of_template.text
    assert of_template.headers["X-Ignored-Fields"] == COVER.replace(" message,", "")
    assert (of_template.json()["qrcode_url"], read_warnings(of_template)) == (None, [])
    assert not any(b"/gone-" in request for request in art.requests)


def test_a_hand_beside_a_pdf_writes_an_envelope_that_has_no_window(owner: Account, art: ImageServer) -> None:
    hand = {"handwriting_style": 2, "handwriting_color": "red", "handwriting_realism": False}
    windowed, closed = (call(owner, p, pdf_only_url=art.letter(), **AUDIENCE, **hand) for p in LETTERS)
    assert windowed.headers["X-Ignored-Fields"] == ", ".join(sorted(hand))
    assert (windowed.json()["style"], closed.json()["style"]) == (1, 2)
    assert "X-Ignored-Fields" not in closed.headers


def test_each_piece_uses_only_what_its_column_has(owner: Account, art: ImageServer) -> None:
    common: Json = AUDIENCE | {"message": "Hi!"}
    for piece in CARDS:
        sent = call(owner, piece, **common, pdf_only_url=art.url("/gone"))
        assert (sent.status_code, sent.headers["X-Ignored-Fields"]) == (200, "pdf_only_url")
        assert error_fields(owner, piece, pdf_only_url=art.letter(), **AUDIENCE) == ["message", "front_image_url"]
    for piece in ("postcard", "notecard", "magnacard"):
        assert call(owner, piece, **common).json()["custom_background_url"] is None
        sent = call(owner, piece, **common, custom_background_image=art.picture())
        assert sent.json()["custom_background_url"] == art.picture()
        assert "X-Ignored-Fields" not in sent.headers
    for piece in (*LETTERS, "giftcard"):
        sent = call(owner, piece, **common, custom_background_image=art.url("/gone"))
        assert (sent.status_code, sent.headers["X-Ignored-Fields"]) == (200, "custom_background_image")
        assert sent.json()["custom_background_url"] is None
    for piece in [*PIECES][1:]:
        sent = call(owner, piece, **common, size="6x9")
        assert (sent.headers["X-Ignored-Fields"], sent.json()["size"]) == ("size", None), piece


TEXT, NUMBER, NOTHING = str, int, type(None)
RESPONSE: dict[str, set[type]] = {
    name: {*kinds}
    for kinds, names in (
        ((NUMBER,), "id total_estimated_recipients authorization_total leads_fee style user_id"),
        ((NUMBER, NOTHING), "message_template_id image_template_id sub_account_id giftcard_amount"),
        (
            (TEXT,),
            "mailing_list_ids_used handwriting_color front_image message type method font_size status display_status"
            " giftcard_brand_longname display_trigger display_type created_at updated_at",
        ),
        (
            (TEXT, NOTHING),
            "return_name return_address return_address2 return_city return_province return_postal_code"
            " qrcode_url custom_background_url giftcard_brand giftcard_image",
        ),
        ((bool,), "append_or_current_resident"),
        ((dict, NOTHING), "sub_account"),
        ((list,), "recipients"),
    )
    for name in names.split()
}


def test_a_response_has_exactly_its_fields_and_types(container: Container, owner: Account, art: ImageServer) -> None:
    """And each of its types is seen: a value where there is one, and null where there is none."""
    full = owner.send(
        sub_account_id=make_sub_account(container, owner), return_name="Dana", return_address="1 Elm St",
        return_address2="Unit 2", return_city="Austin", return_state="TX", return_postal_code="78702",
        message_template=save_message(owner), image_template=save_image(owner, art), qrcode_url="https://example.com",
        custom_background_image=art.picture(),
    )  # fmt: skip
    assert full.status_code == 200, full.text
    answers = [owner.send().json(), full.json(), owner.send("giftcard").json()]
    assert {name: {type(answer[name]) for answer in answers} for name in RESPONSE} == RESPONSE
    assert [answer.keys() ^ {*RESPONSE, "size"} for answer in answers] == [set()] * 3


def test_metadata_is_a_nested_object_of_at_most_8192_bytes_as_json(owner: Account) -> None:
    for extra, status in ((0, 200), (1, 422)):
        metadata = {"a": "x" * (8_192 - len(json.dumps({"a": ""}, separators=(",", ":"))) + extra)}
        assert owner.send(metadata=metadata).status_code == status
    wrongs: list[Any] = [[], [1], "a", 1, True]
    for wrong in wrongs:
        refused = owner.send(metadata=wrong)
        assert (refused.status_code, list(refused.json()["errors"])) == (422, ["metadata"]), wrong
    nested = {"a": {"b": [1, {"c": None}]}}
    order = owner.send(metadata=nested).json()["id"]
    assert owner.get(f"/orders/{order}").json()["metadata"] == nested
