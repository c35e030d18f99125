"""The tables of sending: its endpoints, its request body, its response and its limits, one row one test."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from quillpost.app.container import Container
from quillpost.core.database.embedded.server import EmbeddedPostgres
from support.factories import Account, Build, person, postcard
from support.image_server import ImageServer
from support.writable_service import Writer, writing_service

ENDPOINTS = [
    ("/send/postcard", "postcard"),
    ("/send/windowed-letter", "letter"),
    ("/send/windowless-letter", "windowlessletter"),
    ("/send/notecard", "notecard"),
    ("/send/giftcard", "giftcard"),
    ("/send/magnacard", "magnacard"),
]


@pytest.fixture
def container(build: Build) -> Container:
    return build(allow_private_urls=True)


@pytest.mark.parametrize(("path", "creates"), ENDPOINTS)
def test_each_endpoint_creates_its_piece(owner: Account, path: str, creates: str) -> None:
    sent = owner.send(path.rpartition("/")[2])
    assert (sent.status_code, sent.json()["type"], sent.json()["status"]) == (200, creates, "reviewing")


def sends(changes: Any, shows: Callable[[Any], bool], piece: str = "postcard") -> tuple[str, Any, Any]:
    return piece, changes, shows


REQUEST: dict[str, Any] = {
    "preview": sends({"preview": True}, lambda answer: len(answer["data"]["previews"]) == 2),
    "recipients": sends({"recipients": [person()] * 2}, lambda answer: len(answer["recipients"]) == 2),
    "mailing_list_ids": sends(
        lambda owner, art: {"recipients": None, "mailing_list_ids": [saved_list(owner)]},
        lambda answer: answer["mailing_list_ids_used"] == "1",
    ),
    "front_image_url": sends(
        lambda owner, art: {"front_image_url": art.picture()}, lambda answer: answer["front_image"].endswith("teal.png")
    ),
    "image_template": sends(
        lambda owner, art: {"image_template": saved_image(owner, art)}, lambda answer: answer["image_template_id"] == 1
    ),
    "message": sends({"message": "Hi %FIRST_NAME%"}, lambda answer: answer["message"] == "Hi %FIRST_NAME%"),
    "message_template": sends(
        lambda owner, art: {"message": None, "front_image_url": art.picture(), "message_template": saved(owner)},
        lambda answer: (answer["message_template_id"], answer["message"]) == (1, "Saved"),
    ),
    "custom_background_image": sends(
        lambda owner, art: {"custom_background_image": art.picture()},
        lambda answer: answer["custom_background_url"].endswith("teal.png"),
    ),
    "pdf_only_url": sends(
        lambda owner, art: {"message": None, "pdf_only_url": art.letter()},
        lambda answer: (answer["type"], answer["message"]) == ("letter", ""),
        piece="windowed-letter",
    ),
    "send_standard_mail": sends({"send_standard_mail": True}, lambda answer: answer["authorization_total"] == 94),
    "handwriting_style": sends({"handwriting_style": 2}, lambda answer: answer["style"] == 2),
    "handwriting_color": sends(
        {"handwriting_color": "#ff0000"}, lambda answer: answer["handwriting_color"] == "rgba(255,0,0,1)"
    ),
    "handwriting_realism": sends({"handwriting_realism": False}, lambda answer: answer["status"] == "reviewing"),
    "qrcode_url": sends(
        {"qrcode_url": "https://example.com"}, lambda answer: answer["qrcode_url"] == "https://example.com"
    ),
    "metadata": sends({"metadata": {"a": 1}}, lambda answer: "metadata" not in answer),
    "radius_search": sends(
        {
            "recipients": None,
            "radius_search": {
                "preview": False,
                "address": "1100 Congress Ave, Austin, TX 78701",
                "record_count": 3,
                "record_types": "all",
            },
        },
        lambda answer: (answer["leads_fee"], answer["total_estimated_recipients"]) == (15, 3),
    ),
}


def saved(owner: Account) -> int:
    body = {"type": "postcard", "name": "Saved", "content": "Saved"}
    return int(owner.post("/message-templates", body).json()["id"])


def saved_image(owner: Account, art: ImageServer) -> int:
    body = {"type": "postcard", "name": "Saved", "image": art.picture()}
    return int(owner.post("/image-templates", body).json()["id"])


def saved_list(owner: Account) -> int:
    number = owner.post("/mailing-lists", {"description": "Saved"}).json()["id"]
    owner.post("/recipients", person() | {"mailing_list_id": number})
    return int(number)


@pytest.mark.parametrize("field", REQUEST)
def test_each_field_of_the_request_is_taken(owner: Account, art: ImageServer, field: str) -> None:
    piece, changes, shows = REQUEST[field]
    body = postcard(**(changes(owner, art) if callable(changes) else changes))
    sent = owner.post(f"/send/{piece}", body)
    assert sent.status_code == 200, sent.text
    assert "X-Ignored-Fields" not in sent.headers
    assert shows(sent.json())


TEXT, NUMBER, TRUTH, NOTHING = str, int, bool, type(None)
RESPONSE: dict[str, tuple[type, ...]] = {
    "id": (NUMBER,),
    "total_estimated_recipients": (NUMBER,),
    "authorization_total": (NUMBER,),
    "leads_fee": (NUMBER,),
    "mailing_list_ids_used": (TEXT,),
    "handwriting_color": (TEXT,),
    "front_image": (TEXT,),
    "message": (TEXT,),
    "append_or_current_resident": (TRUTH,),
    "type": (TEXT,),
    "return_name": (TEXT, NOTHING),
    "return_address": (TEXT, NOTHING),
    "return_address2": (TEXT, NOTHING),
    "return_city": (TEXT, NOTHING),
    "return_province": (TEXT, NOTHING),
    "return_postal_code": (TEXT, NOTHING),
    "message_template_id": (NUMBER, NOTHING),
    "image_template_id": (NUMBER, NOTHING),
    "method": (TEXT,),
    "sub_account_id": (NUMBER, NOTHING),
    "sub_account": (dict, NOTHING),
    "font_size": (TEXT,),
    "qrcode_url": (TEXT, NOTHING),
    "custom_background_url": (TEXT, NOTHING),
    "giftcard_brand": (TEXT, NOTHING),
    "giftcard_image": (TEXT, NOTHING),
    "giftcard_amount": (NUMBER, NOTHING),
    "giftcard_brand_longname": (TEXT,),
    "status": (TEXT,),
    "display_status": (TEXT,),
    "display_trigger": (TEXT,),
    "display_type": (TEXT,),
    "style": (NUMBER,),
    "user_id": (NUMBER,),
    "created_at": (TEXT,),
    "updated_at": (TEXT,),
    "recipients": (list,),
}


@pytest.fixture(scope="module")
def answers(
    postgres: EmbeddedPostgres, template: str, tmp_path_factory: pytest.TempPathFactory, art: ImageServer
) -> Iterator[list[dict[str, Any]]]:
    """One with as little as possible, one with everything, one that brings a gift card."""
    home = tmp_path_factory.mktemp("send_tables")
    with writing_service(postgres, template, home, allow_private_urls=True) as writer:
        yield [writer.owner.send().json(), full_send(writer, art), writer.owner.send("giftcard").json()]


def full_send(writer: Writer, art: ImageServer) -> dict[str, Any]:
    owner = writer.owner
    full = owner.send(
        sub_account_id=writer.branch,
        return_name="Dana",
        return_address="1 Elm St",
        return_address2="Unit 2",
        return_city="Austin",
        return_state="TX",
        return_postal_code="78702",
        message_template=saved(owner),
        image_template=saved_image(owner, art),
        qrcode_url="https://example.com",
        custom_background_image=art.picture(),
    )
    assert full.status_code == 200, full.text
    answer: dict[str, Any] = full.json()
    return answer


@pytest.mark.parametrize("field", RESPONSE)
def test_each_field_of_the_response_has_its_type(answers: list[dict[str, Any]], field: str) -> None:
    """And each of its types is seen: a value where there is one, and null where there is none."""
    assert {type(answer[field]) for answer in answers} == set(RESPONSE[field])


def test_the_response_has_no_other_key_but_size(answers: list[dict[str, Any]]) -> None:
    for answer in answers:
        assert set(answer) == {*RESPONSE, "size"}


METADATA_BYTES = 8_192


@pytest.mark.parametrize(("extra", "status"), [(0, 200), (1, 422)])
def test_metadata_is_at_most_8192_bytes_as_json(owner: Account, extra: int, status: int) -> None:
    metadata = {"a": "x" * (METADATA_BYTES - len(json.dumps({"a": ""}, separators=(",", ":"))) + extra)}
    assert owner.send(metadata=metadata).status_code == status


@pytest.mark.parametrize("wrong", [[], [1], "a", 1, True])
def test_metadata_is_an_object(owner: Account, wrong: Any) -> None:
    refused = owner.send(metadata=wrong)
    assert (refused.status_code, list(refused.json()["errors"])) == (422, ["metadata"])


def test_metadata_may_be_nested(owner: Account) -> None:
    nested = {"a": {"b": [1, {"c": None}]}}
    order = owner.send(metadata=nested).json()["id"]
    assert owner.get(f"/orders/{order}").json()["metadata"] == nested


def test_pages_have_25_items_by_default(owner: Account) -> None:
    assert owner.get("/orders").json()["meta"]["per_page"] == 25
