"""What is in the other mode says so, to whoever it belongs to; to everybody else it is not there."""

import pytest
import sqlalchemy as sa

from quillpost.app.container import Container
from quillpost.core.database.tables.base import accounts
from support.account_pages import AccountPages
from support.factories import make_live
from support.giftcard_orders import item_ids_of
from support.operator_pages import page_text
from support.test_client import TestClient

HOME = {
    "return_name": "Dana", "return_address": "1 Elm St", "return_city": "Austin", "return_state": "TX",
    "return_postal_code": "78702",
}  # fmt: skip


@pytest.fixture
def house(container: Container, http: TestClient) -> AccountPages:
    return AccountPages(container, http)


def live_order(house: AccountPages) -> int:
    return int(make_live(house.parts, house.account).send(**HOME).json()["id"])


@pytest.mark.parametrize("page", ["", "/items", "/items/{item}", "/change", "/cancel"])
def test_a_live_order_opened_in_test_mode_says_so_and_offers_the_switch(house: AccountPages, page: str) -> None:
    order = live_order(house)
    path = f"/orders/{order}" + page.format(item=item_ids_of(house.parts, order)[0])
    shown = house.owner.get(path)
    assert shown.status_code == 200
    assert f"This order is in live mode You're in test mode. Switch to live mode to see order {order}." in (
        page_text(shown.text)
    )
    there = house.owner.post("/session/switch", mode="live", next=path)
    assert (there.status_code, there.url.path) == (200, path)
    assert "This order is in live mode" not in there.text


def test_a_test_order_opened_in_live_mode_says_so(house: AccountPages) -> None:
    order = int(house.account.send().json()["id"])
    house.owner.post("/session/switch", mode="live", next="/orders")
    shown = house.owner.get(f"/orders/{order}")
    assert (shown.status_code, "This order is in test mode" in shown.text) == (200, True)
    assert 'name="mode" value="test">Switch to test mode' in shown.text


def test_a_webhook_of_the_other_mode_says_so(house: AccountPages) -> None:
    live = make_live(house.parts, house.account)
    made = live.post("/webhooks", {"url": "https://example.com/hook", "type": "*"})
    assert made.status_code in (200, 201), made.text
    hook = made.json()["id"] if "id" in made.json() else made.json()["data"]["id"]
    shown = house.owner.get(f"/webhooks/{hook}")
    assert (shown.status_code, "This webhook is in live mode" in shown.text) == (200, True)


def test_others_and_nobody_learn_nothing_of_it(house: AccountPages) -> None:
    order = live_order(house)
    for reader in (house.stranger, house.limited):
        for path in (f"/orders/{order}", f"/orders/{order}/items"):
            shown = reader.get(path)
            assert (shown.status_code, "live mode" in page_text(shown.text)) == (404, False)
    assert house.nobody().get(f"/orders/{order}", follow=False).status_code == 303


def test_what_is_not_there_in_either_mode_is_missing(house: AccountPages) -> None:
    for path in ("/orders/987654321", "/orders/99999999999999999999", "/orders/0", "/odd/1", "/webhooks/77"):
        assert house.owner.get(path).status_code == 404
    order = live_order(house)
    part = house.owner.get(f"/orders/{order}/items", headers={"HX-Request": "true"})
    assert (part.status_code, "<html" in part.text) == (404, False)


def test_a_test_account_reads_why_its_live_orders_are_hidden(house: AccountPages) -> None:
    order = live_order(house)
    with house.parts.db.system_transaction() as tx:
        tx.execute(sa.update(accounts).where(accounts.c.id == house.account.id).values(test_mode=True))
    shown = house.owner.get(f"/orders/{order}")
    assert "This order is in live mode Your account is a test account now" in page_text(shown.text)
    assert "Switch to live mode" not in shown.text
