"""Saved messages: created, read, changed by the rules of their type, and deleted."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from httpx2 import Response

from quillpost.app.container import Container
from quillpost.core.database import Tenant
from quillpost.core.database.embedded.server import EmbeddedPostgres
from quillpost.core.database.tables.base import message_templates, orders
from quillpost.core.errors import Refused
from quillpost.orders.templates.service import MESSAGE_TEMPLATES
from quillpost.web.application import create_app
from support.factories import Account, Clock, make_account, make_sub_account, make_teammate, read_warnings
from support.shared_service import shared_service
from support.test_client import TestClient

PDF = "https://example.com/letter.pdf"
URL = "https://example.com/a"
NEEDED: dict[str, dict[str, Any]] = {"giftcard": {"giftcard_brand_code": "brindlewick", "giftcard_amount": 2_500}}


@pytest.fixture(scope="module")
def service(postgres: EmbeddedPostgres, template: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Container]:
    home: Path = tmp_path_factory.mktemp("messages")
    with shared_service(postgres, template, home) as parts:
        yield parts


@pytest.fixture(scope="module")
def writer(service: Container) -> Iterator[Account]:
    """Whose calls are refused, or whose templates nobody counts."""
    with TestClient(create_app(service), raise_server_exceptions=False) as http:
        yield make_account(service, http, "writer@example.com")


def save(account: Account, **changes: Any) -> Response:
    """A good template of its type, but for the changes."""
    kind = changes.get("type", "postcard")
    good = {"type": kind, "name": "Thanks", "content": "Hi %FIRST_NAME%!"} | NEEDED.get(str(kind), {})
    return account.post("/message-templates", good | changes)


def change(account: Account, template: int, **changes: Any) -> Response:
    return account.call("PUT", f"/message-templates/{template}", json=changes)


def how_many(container: Container) -> int:
    with container.db.system_transaction() as tx:
        return int(tx.execute(sa.select(sa.func.count()).select_from(message_templates)).scalar_one())


def test_a_template_reads_as_it_was_saved(owner: Account, clock: Clock) -> None:
    made = save(
        owner,
        handwriting_style_id=1,
        font_size="large",
        font_color="RGBA( 1, 2, 3, 0.9 )",
        handwriting_realism=False,
        custom_background_url="https://example.com/~CUSTOM1|plain~.png",
        qrcode_url="https://example.com/?who=~FIRST_NAME~",
        cc_emails=["dana@example.com", "+15125550100@sms"],
    )
    assert made.status_code == 201, made.text
    body = made.json()
    assert body == {
        "id": body["id"],
        "user_id": owner.id,
        "sub_account_id": None,
        "type": "postcard",
        "name": "Thanks",
        "content": "Hi %FIRST_NAME%!",
        "handwriting_style_id": 1,
        "font_size": "large",
        "font_color": "RGBA( 1, 2, 3, 0.9 )",
        "handwriting_realism": False,
        "additional_pages": None,
        "skip_creative_generation": 0,
        "custom_background_url": "https://example.com/~CUSTOM1|plain~.png",
        "qrcode_url": "https://example.com/?who=~FIRST_NAME~",
        "cc_emails": ["dana@example.com", "+15125550100@sms"],
        "giftcard_brand_code": None,
        "giftcard_brand_image": None,
        "giftcard_amount": None,
        "landing_page_url": None,
        "share_uuid": body["share_uuid"],
        "created_at": "2026-05-04T12:00:00Z",
        "updated_at": "2026-05-04T12:00:00Z",
    }
    assert "X-Ignored-Fields" not in made.headers
    path = f"/message-templates/{body['id']}"
    assert owner.get(path).json() == body
    clock.advance(hours=1)
    changed = change(owner, body["id"], name="Thank you", handwriting_realism=None, cc_emails=None)
    assert changed.status_code == 200
    assert changed.json() == body | {
        "name": "Thank you",
        "handwriting_realism": True,
        "cc_emails": [],
        "updated_at": "2026-05-04T13:00:00Z",
    }
    assert save(owner).json()["share_uuid"] != body["share_uuid"]


def test_the_send_core_is_given_typed_settings(writer: Account, service: Container) -> None:
    saved = save(writer, type="letter", pdf_only_url=PDF, content=None, cc_emails=["d@example.com"]).json()
    with service.db.transaction(Tenant(writer.id)) as tx:
        found = MESSAGE_TEMPLATES.find(tx, saved["id"])
    assert (found.type, found.content, found.pdf_only_url) == ("letter", "", PDF)
    assert (found.skip_creative_generation, found.cc_emails) == (True, ("d@example.com",))
    assert (found.handwriting_style_id, found.handwriting_realism) == (None, None)


def test_a_pdf_makes_the_whole_letter_until_it_is_taken_away(writer: Account) -> None:
    made = save(writer, type="windowlessletter", pdf_only_url=PDF).json()
    assert (made["skip_creative_generation"], "pdf_only_url" in made) == (1, False)
    assert change(writer, made["id"], name="Same").json()["skip_creative_generation"] == 1
    assert change(writer, made["id"], pdf_only_url=None).json()["skip_creative_generation"] == 0
    assert change(writer, made["id"], pdf_only_url=PDF, content="").json()["content"] == ""
    refused = change(writer, made["id"], pdf_only_url=None)
    assert (refused.status_code, list(refused.json()["errors"])) == (422, ["content"])


@pytest.mark.parametrize(
    ("kind", "ignored"),
    [
        ("postcard", {"additional_pages", "pdf_only_url", "giftcard_amount", "landing_page_url"}),
        ("postcard6x11", {"additional_pages", "pdf_only_url", "giftcard_amount", "landing_page_url"}),
        ("letter", {"custom_background_url", "giftcard_amount", "landing_page_url"}),
        ("windowlessletter", {"custom_background_url", "giftcard_amount", "landing_page_url"}),
        ("notecard", {"additional_pages", "pdf_only_url", "giftcard_amount", "landing_page_url"}),
        ("giftcard", {"additional_pages", "pdf_only_url"}),
        ("magnacard", {"additional_pages", "pdf_only_url", "giftcard_amount", "landing_page_url"}),
    ],
)
def test_what_the_type_has_no_use_for_is_ignored_and_named(writer: Account, kind: str, ignored: set[str]) -> None:
    given = dict.fromkeys(("additional_pages", "pdf_only_url", "custom_background_url", "landing_page_url"), URL) | {
        "giftcard_amount": 500
    }
    made = save(writer, type=kind, **given, share_uuid="mine")
    assert made.status_code == 201, made.text
    assert set(made.headers["X-Ignored-Fields"].split(", ")) == ignored | {"share_uuid"}
    shown = made.json()
    assert {name for name in given if name != "pdf_only_url" and shown[name] is None} == ignored - {"pdf_only_url"}
    assert shown["skip_creative_generation"] == int("pdf_only_url" not in ignored)


@pytest.mark.parametrize(
    ("changes", "field", "sentence"),
    [
        ({"type": "poster"}, "type", "Input should be"),
        ({"name": ""}, "name", "blank"),
        ({"content": None}, "content", "Give the content, or a custom_background_url."),
        ({"content": " "}, "content", "Give the content, or a custom_background_url."),
        ({"type": "letter", "content": ""}, "content", "or a pdf_only_url."),
        ({"content": "x" * 5_001}, "content", "At most 5,000 characters"),
        ({"content": "Hi %FIRSTNAME%"}, "content", "Unknown variable %FIRSTNAME%. Known variables: %FIRST"),
        ({"handwriting_style_id": 999}, "handwriting_style_id", "There is no handwriting style 999. Known:"),
        ({"handwriting_style_id": 10**30}, "handwriting_style_id", "There is no handwriting style"),
        ({"font_size": "huge"}, "font_size", "Input should be"),
        ({"font_color": "mauve"}, "font_color", "is not a color that we know"),
        ({"handwriting_realism": "yes"}, "handwriting_realism", "true or false"),
        ({"type": "letter", "additional_pages": "a.pdf"}, "additional_pages", "http"),
        ({"type": "letter", "additional_pages": URL + "/~CITY~"}, "additional_pages", "same for everyone"),
        ({"type": "letter", "pdf_only_url": "http://10.0.0.1/a"}, "pdf_only_url", "not a public address"),
        ({"custom_background_url": "~CITY~/a.png"}, "custom_background_url", "http"),
        ({"qrcode_url": URL + "/~NOBODY_S~"}, "qrcode_url", "Unknown variable %NOBODY_S%"),
        ({"qrcode_url": "https://example.com/" + "a" * 2_048}, "qrcode_url", "2,048"),
        ({"cc_emails": ["dana"]}, "cc_emails.0", "neither an e-mail address nor of the form"),
        ({"cc_emails": ["<d@example.com>"]}, "cc_emails.0", "neither an e-mail address nor of the form"),
        ({"cc_emails": ["d@example.com", "+1@sms"]}, "cc_emails.1", "neither an e-mail address nor"),
        ({"cc_emails": ["d@example.com"] * 101}, "cc_emails", "At most 100 items"),
        ({"type": "giftcard", "giftcard_brand_code": None}, "giftcard_brand_code", "needs giftcard_brand"),
        ({"type": "giftcard", "giftcard_brand_code": " "}, "giftcard_brand_code", "needs giftcard_brand"),
        ({"type": "giftcard", "giftcard_amount": None}, "giftcard_amount", "needs giftcard_amount"),
        ({"type": "giftcard", "giftcard_amount": 0}, "giftcard_amount", "greater than or equal to 1"),
        ({"type": "giftcard", "giftcard_amount": 9.5}, "giftcard_amount", "integer"),
        ({"type": "giftcard", "giftcard_amount": 10**30}, "giftcard_amount", "less than or equal"),
        ({"type": "giftcard", "giftcard_amount_in_cents": 5}, "giftcard_amount_in_cents", "giftcard_amount"),
        ({"type": "giftcard", "landing_page_url": "mailto:a@b.c"}, "landing_page_url", "http"),
        ({"type": "giftcard", "landing_page_url": URL + "?c=~CUSTOM1~"}, "landing_page_url", "for everyone"),
        ({"type": "giftcard", "giftcard_brand_code": "nosuch"}, "giftcard_brand_code", "one of anywhere-and"),
        ({"type": "giftcard", "giftcard_amount": 2_501}, "giftcard_amount", "500, 1000, 1500, 2500, 5000"),
        ({"sub_account_id": 0}, "sub_account_id", "greater than or equal to 1"),
    ],
)
def test_a_wrong_value_is_named(
    writer: Account, service: Container, changes: dict[str, Any], field: str, sentence: str
) -> None:
    before = how_many(service)
    refused = save(writer, **changes)
    assert (refused.status_code, list(refused.json()["errors"])) == (422, [field]), refused.text
    assert sentence in refused.json()["errors"][field][0]
    assert how_many(service) == before


@pytest.mark.parametrize(
    ("changes", "field", "sentence"),
    [
        ({"name": ""}, "name", "This cannot be blank."),
        ({"name": 5}, "name", "This must be a string."),
        ({"name": "x" * 300}, "name", "At most 255 characters, please."),
        ({"name": None}, "name", "This cannot be null."),
        ({"type": None}, "type", "This cannot be null."),
    ],
)
def test_a_wrong_change_is_named_by_its_field_alone(
    writer: Account, changes: dict[str, Any], field: str, sentence: str
) -> None:
    refused = change(writer, save(writer).json()["id"], **changes)
    assert (refused.status_code, refused.json()["errors"]) == (422, {field: [sentence]})


def test_all_errors_are_named_at_once(writer: Account) -> None:
    refused = save(writer, type="giftcard", giftcard_amount=None, content="", qrcode_url="x", font_color="x").json()
    assert set(refused["errors"]) == {"giftcard_amount", "content", "qrcode_url", "font_color"}


@pytest.mark.parametrize(
    ("field", "value"),
    [("qrcode_url", URL + "/caf%C3%A9"), ("landing_page_url", URL + "/caf%C3%A9"), ("font_color", " #abc ")],
)
def test_a_rightful_oddity_is_kept_as_it_is_written(writer: Account, field: str, value: str) -> None:
    assert save(writer, type="giftcard", **{field: value}).json()[field] == value


def test_an_older_name_of_the_amount_changes_nothing_where_there_is_none(writer: Account) -> None:
    made = save(writer, giftcard_amount_in_cents=500)
    assert (made.status_code, made.headers["X-Ignored-Fields"]) == (201, "giftcard_amount_in_cents")


def test_a_gift_card_shows_its_brands_picture(writer: Account) -> None:
    made = save(writer, type="giftcard").json()
    picture = "http://testserver/giftcards/brindlewick.png"
    assert made["giftcard_brand_image"] == picture
    assert writer.get(f"/message-templates/{made['id']}").json()["giftcard_brand_image"] == picture
    changed = change(writer, made["id"], giftcard_brand_code="inkwell-otter").json()
    assert changed["giftcard_brand_image"] == "http://testserver/giftcards/inkwell-otter.png"
    assert save(writer).json()["giftcard_brand_image"] is None


def test_another_brand_must_have_the_amount_too(writer: Account) -> None:
    made = save(writer, type="giftcard", giftcard_amount=1_500).json()
    refused = change(writer, made["id"], giftcard_brand_code="inkwell-otter")
    assert list(refused.json()["errors"]) == ["giftcard_amount"]
    both = change(writer, made["id"], giftcard_brand_code="inkwell-otter", giftcard_amount=10_000).json()
    assert (both["giftcard_brand_code"], both["giftcard_amount"]) == ("inkwell-otter", 10_000)


def test_a_form_of_single_values_is_taken(writer: Account) -> None:
    fields = {
        "type": "giftcard",
        "name": "Thanks",
        "content": "Hi",
        "handwriting_style": "1",
        "handwriting_realism": "true",
        "cc_emails": "a@example.com, b@example.com",
        "giftcard_brand_code": "brindlewick",
        "giftcard_amount": "2500",
        "qrcode_url": "",
    }
    made = writer.call("POST", "/message-templates", data=fields)
    assert made.status_code == 201, made.text
    shown = made.json()
    assert shown["cc_emails"] == ["a@example.com", "b@example.com"]
    assert (shown["handwriting_style_id"], shown["handwriting_realism"]) == (1, True)
    assert (shown["giftcard_amount"], shown["qrcode_url"]) == (2_500, None)


def test_another_type_must_be_right_as_a_whole(writer: Account) -> None:
    card = save(writer, custom_background_url=URL + ".png").json()
    refused = change(writer, card["id"], type="giftcard")
    assert set(refused.json()["errors"]) == {"giftcard_brand_code", "giftcard_amount"}
    letter = change(writer, card["id"], type="letter", additional_pages=PDF)
    assert letter.json() == card | {"type": "letter", "additional_pages": PDF, "custom_background_url": None}
    assert read_warnings(letter) == ["A template of type letter has no custom_background_url: removed."]
    assert "X-Ignored-Fields" not in letter.headers
    for wrong in ({"type": None}, {"name": None}, {"content": None}):
        assert change(writer, card["id"], **wrong).status_code == 422, wrong
    assert writer.get(f"/message-templates/{card['id']}").json() == letter.json()


@pytest.mark.parametrize(("mode", "status"), [("test", "reviewing"), ("live", "paused")])
def test_a_template_that_an_order_waits_with_is_not_deleted(
    owner: Account, container: Container, mode: str, status: str
) -> None:
    template, order = save(owner).json()["id"], owner.send().json()["id"]
    with container.db.system_transaction() as tx:
        tx.execute(sa.update(orders).values(message_template_id=template, mode=mode, status=status))
    refused = owner.call("DELETE", f"/message-templates/{template}")
    assert refused.status_code == 400
    assert f"Order {order} " in refused.json()["message"]
    with container.db.system_transaction() as tx:
        tx.execute(sa.update(orders).values(status="cancelled"))
    deleted = owner.call("DELETE", f"/message-templates/{template}")
    assert (deleted.status_code, deleted.json()) == (200, {"message": "success"})
    assert owner.get(f"/message-templates/{template}").status_code == 404


def test_the_list_is_filtered_and_newest_first(owner: Account, container: Container) -> None:
    branch = make_sub_account(container, owner)
    ids = [
        save(owner, **how).json()["id"] for how in ({}, {"type": "letter"}, {"sub_account": branch}, {"type": "letter"})
    ]

    def listed(query: str = "") -> list[int]:
        return [row["id"] for row in owner.get(f"/message-templates{query}").json()["data"]]

    assert listed() == ids[::-1]
    assert listed("?type=letter") == [ids[3], ids[1]]
    assert listed(f"?sub_account_id={branch}") == listed(f"?sub_account={branch}") == [ids[2]]
    assert owner.get("/message-templates?type=poster").status_code == 422
    page = owner.get("/message-templates?items_per_page=3&page=2").json()
    assert ([row["id"] for row in page["data"]], page["meta"]["total"]) == ([ids[0]], 4)


def test_a_strangers_template_looks_like_none(owner: Account, stranger: Account, container: Container) -> None:
    template = save(owner).json()["id"]
    for method in ("GET", "PUT", "DELETE"):
        answers = [
            stranger.call(method, f"/message-templates/{n}", json={} if method == "PUT" else None)
            for n in (template, template + 99, "x", 2**63)
        ]
        assert {(answer.status_code, answer.text) for answer in answers} == {(404, '{"message":"Not Found"}')}
    assert stranger.get("/message-templates").json()["data"] == []
    branch = make_sub_account(container, owner)
    refused = save(stranger, sub_account_id=branch)
    assert (refused.status_code, refused.json()) == (400, {"message": "Sub Account ID does not exist"})
    assert stranger.get(f"/message-templates?sub_account_id={branch}").status_code == 400
    with (
        container.db.transaction(Tenant(stranger.id)) as tx,
        pytest.raises(Refused, match="Message Template does not exist"),
    ):
        MESSAGE_TEMPLATES.find(tx, template)


def test_a_limited_token_keeps_to_its_sub_account(owner: Account, container: Container) -> None:
    mine, other = make_sub_account(container, owner), make_sub_account(container, owner)
    teammate = make_teammate(container, owner, mine)
    outside = [save(owner).json()["id"], save(owner, sub_account_id=other).json()["id"]]
    made = save(teammate).json()
    assert made["sub_account_id"] == mine
    assert [row["id"] for row in teammate.get("/message-templates").json()["data"]] == [made["id"]]
    assert {teammate.get(f"/message-templates/{n}").status_code for n in outside} == {404}
    assert save(teammate, sub_account_id=other).status_code == 400
    assert change(teammate, made["id"], sub_account_id=other).status_code == 400
    assert change(teammate, made["id"], sub_account_id=None).json()["sub_account_id"] == mine
    assert change(owner, made["id"], sub_account_id=None).json()["sub_account_id"] is None


def test_reading_and_writing_need_their_scopes(service: Container, writer: Account) -> None:
    reader = make_account(service, writer.http, "r@example.com", scopes=["templates:read"])
    scribe = make_account(service, writer.http, "w@example.com", scopes=["templates:write"])
    assert reader.get("/message-templates").status_code == 200
    assert save(reader).status_code == 403
    assert save(scribe).status_code == 201
    assert scribe.get("/message-templates").status_code == 403
