"""A blank message is accepted beside a custom background, and nowhere else."""

from typing import Any

import pytest

from quillpost.app.container import Container
from quillpost.core.database.tables.base import sub_accounts
from quillpost.orders.drafts.rules import BLANK_MESSAGE_WARNING
from quillpost.orders.requests.queries import BACKGROUND_SETTINGS
from support.factories import GIFT, Account, Build, Clock, make_sub_account, run_jobs_for
from support.image_server import ImageServer

WITH_BACKGROUND = ("postcard", "notecard", "magnacard")
GIFT_SAVED = {"giftcard_brand_code": GIFT["giftcard_brand"], "giftcard_amount": GIFT["giftcard_amount"]}


@pytest.fixture
def container(build: Build) -> Container:
    return build(allow_private_urls=True)


def template(owner: Account, **fields: Any) -> int:
    made = owner.post("/message-templates", {"type": "postcard", "name": "Saved"} | fields)
    assert made.status_code == 201, made.text
    return int(made.json()["id"])


@pytest.mark.parametrize("blank", ["", " \n"])
@pytest.mark.parametrize("piece", WITH_BACKGROUND)
def test_the_calls_own_background_may_stand_without_a_message(
    owner: Account, container: Container, clock: Clock, art: ImageServer, piece: str, blank: str
) -> None:
    body = {"message": blank, "front_image_url": art.picture(), "custom_background_image": art.picture()}
    shown = owner.send(piece, preview=True, **body)
    assert (shown.status_code, len(shown.json()["data"]["previews"])) == (200, 2)
    sent = owner.send(piece, **body)
    assert (sent.status_code, sent.json()["message"]) == (200, ""), sent.text
    order = sent.json()["id"]
    assert owner.get(f"/orders/{order}").json()["warnings"][0] == BLANK_MESSAGE_WARNING
    run_jobs_for(container, clock, seconds=45)
    [item] = owner.get(f"/orders/{order}/items").json()["data"]
    assert item["status"] == "Delivered"


def test_a_blank_message_needs_a_background(owner: Account, art: ImageServer) -> None:
    refused = owner.send(message="", front_image_url=art.picture())
    assert (refused.status_code, list(refused.json()["errors"])) == (422, ["message"])
    left_out = owner.send(message=None, front_image_url=art.picture(), custom_background_image=art.picture())
    assert (left_out.status_code, list(left_out.json()["errors"])) == (422, ["message"])


@pytest.mark.parametrize("piece", ["windowed-letter", "windowless-letter", "giftcard"])
def test_a_piece_without_such_a_field_needs_its_message(owner: Account, art: ImageServer, piece: str) -> None:
    body = {"message": "", "front_image_url": art.picture(), "custom_background_image": art.picture()}
    assert list(owner.send(piece, **body).json()["errors"]) == ["message"]


def test_a_templates_background_may_stand_without_words(owner: Account, art: ImageServer) -> None:
    saved = template(owner, content="", custom_background_url=art.picture("gold"))
    common = {"message": None, "message_template": saved, "front_image_url": art.picture()}
    sent = owner.send(**common)
    assert (sent.status_code, sent.json()["message"]) == (200, ""), sent.text
    without = owner.send(**common, use_custom_background=False)
    assert (without.status_code, list(without.json()["errors"])) == (422, ["message_template"])


def test_a_gift_card_templates_background_counts_as_well(owner: Account, art: ImageServer) -> None:
    saved = template(owner, type="giftcard", custom_background_url=art.picture("gold"), **GIFT_SAVED)
    sent = owner.send("giftcard", message=None, message_template=saved, front_image_url=art.picture())
    assert (sent.status_code, sent.json()["message"]) == (200, ""), sent.text


def test_a_sub_accounts_background_counts_where_it_is_used(
    owner: Account, container: Container, art: ImageServer
) -> None:
    home = make_sub_account(container, owner)
    with container.db.system_transaction() as tx:
        tx.execute(sub_accounts.update().values(backgrounds={BACKGROUND_SETTINGS["notecard"]: art.picture("gold")}))
    body = {"message": "", "front_image_url": art.picture(), "sub_account_id": home}
    assert owner.send("notecard", **body).status_code == 200
    for refused in (owner.send("postcard", **body), owner.send("notecard", **body, use_custom_background=False)):
        assert (refused.status_code, list(refused.json()["errors"])) == (422, ["message"])


def test_words_that_are_missing_for_someone_are_no_blank_message(owner: Account, art: ImageServer) -> None:
    refused = owner.send(message="%CUSTOM1%", custom_background_image=art.picture())
    assert refused.json()["errors"] == {"message": ["The message is empty (for recipient 0)."]}


def test_an_order_with_a_background_may_lose_its_message(owner: Account, art: ImageServer) -> None:
    with_art, without = (
        owner.send(**background).json()["id"] for background in ({"custom_background_image": art.picture("gold")}, {})
    )
    changed = owner.put(f"/orders/{with_art}", {"message": ""})
    assert (changed.status_code, changed.json()["message"]) == (200, ""), changed.text
    assert BLANK_MESSAGE_WARNING in changed.json()["warnings"]
    assert owner.put(f"/orders/{without}", {"message": ""}).status_code == 422
