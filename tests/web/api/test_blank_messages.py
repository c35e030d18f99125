"""A blank message is accepted beside a custom background, and nowhere else."""

from typing import Any

import pytest
from httpx2 import Response

from quillpost.app.container import Container
from quillpost.core.database.tables.base import sub_accounts
from quillpost.orders.drafts.rules import BLANK_MESSAGE_WARNING
from quillpost.orders.requests.queries import BACKGROUND_SETTINGS
from support.factories import GIFT, Account, Clock, make_sub_account, run_jobs_for
from support.images import ImageServer

pytestmark = pytest.mark.usefixtures("loopback_urls")


def save(owner: Account, **fields: Any) -> int:
    made = owner.post("/message-templates", {"type": "postcard", "name": "Saved", "content": ""} | fields)
    assert made.status_code == 201, made.text
    return int(made.json()["id"])


def outcome(answer: Response) -> list[str] | str:
    """The message of what was sent, or the fields that are wrong."""
    assert answer.status_code in (200, 422), answer.text
    return answer.json()["message"] if answer.is_success else list(answer.json()["errors"])


@pytest.mark.usefixtures("clean_database")
def test_the_calls_own_background_may_stand_without_a_message(
    owner: Account, container: Container, clock: Clock, art: ImageServer
) -> None:
    background = {"front_image_url": art.picture(), "custom_background_image": art.picture()}
    orders = []
    for piece, blank in (("postcard", ""), ("notecard", " \n"), ("magnacard", " ")):
        shown = owner.send(piece, preview=True, message=blank, **background)
        assert (shown.status_code, len(shown.json()["data"]["previews"])) == (200, 2)
        sent = owner.send(piece, message=blank, **background)
        assert outcome(sent) == ""
        orders.append(sent.json()["id"])
        assert owner.get(f"/orders/{orders[-1]}").json()["warnings"][0] == BLANK_MESSAGE_WARNING
    run_jobs_for(container, clock, seconds=45)
    items = [owner.get(f"/orders/{order}/items").json()["data"] for order in orders]
    assert [[item["status"] for item in of_order] for of_order in items] == [["Delivered"]] * 3


def test_a_blank_message_needs_a_background_of_the_call_that_the_piece_has(owner: Account, art: ImageServer) -> None:
    front = {"front_image_url": art.picture()}
    both = front | {"custom_background_image": art.picture()}
    assert outcome(owner.send(message="", **front)) == ["message"]
    assert outcome(owner.send(message=None, **both)) == ["message"]
    for piece in ("windowed-letter", "windowless-letter", "giftcard"):
        assert outcome(owner.send(piece, message="", **both)) == ["message"]
    lost = owner.send(message="%CUSTOM1%", custom_background_image=art.picture())
    assert lost.json()["errors"] == {"message": ["The message is empty (for recipient 0)."]}


def test_a_templates_background_may_stand_without_words(owner: Account, art: ImageServer) -> None:
    common: dict[str, Any] = {"message": None, "front_image_url": art.picture()}
    saved = save(owner, custom_background_url=art.picture("gold"))
    assert outcome(owner.send(**common, message_template=saved)) == ""
    without = owner.send(**common, message_template=saved, use_custom_background=False)
    assert outcome(without) == ["message_template"]
    gift = {"giftcard_brand_code": GIFT["giftcard_brand"], "giftcard_amount": GIFT["giftcard_amount"]}
    of_a_gift = save(owner, type="giftcard", custom_background_url=art.picture("gold"), **gift)
    assert outcome(owner.send("giftcard", **common, message_template=of_a_gift)) == ""


def test_a_sub_accounts_background_counts_where_it_is_used(
    owner: Account, container: Container, art: ImageServer
) -> None:
    home = make_sub_account(container, owner)
    backgrounds = {BACKGROUND_SETTINGS["notecard"]: art.picture("gold")}
    with container.db.system_transaction() as tx:
        tx.execute(sub_accounts.update().where(sub_accounts.c.id == home).values(backgrounds=backgrounds))
    body = {"message": "", "front_image_url": art.picture(), "sub_account_id": home}
    assert outcome(owner.send("notecard", **body)) == ""
    assert outcome(owner.send("postcard", **body)) == ["message"]
    assert outcome(owner.send("notecard", **body, use_custom_background=False)) == ["message"]


def test_an_order_with_a_background_may_lose_its_message(owner: Account, art: ImageServer) -> None:
    with_art = owner.send(custom_background_image=art.picture("gold")).json()["id"]
    changed = owner.put(f"/orders/{with_art}", {"message": ""})
    assert outcome(changed) == ""
    assert BLANK_MESSAGE_WARNING in changed.json()["warnings"]
    assert owner.put(f"/orders/{owner.send().json()['id']}", {"message": ""}).status_code == 422
