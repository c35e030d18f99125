"""Pages say that live mail is not ready, before an order is sent, when it is, and while it waits."""

import re
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.app.container import Container
from quillpost.core.database.tables.accounts import sessions
from quillpost.core.database.tables.base import accounts, orders
from support.factories import Clock, run_jobs_for
from support.operator_pages import PrintRoomPages, page_text
from support.production import sweep_due_orders
from support.test_client import TestClient

pytestmark = pytest.mark.usefixtures("clean_database")

LOOK: dict[str, Any] = {
    "piece": "postcard-4x6",
    "message": "Hello there!",
    "style": "1",
    "realism": "on",
    "audience": "people",
    "people": "Jane Doe, 12 Main St, Austin, TX 78701",
}
HOME = {
    "return_address": "PO Box 1180", "return_city": "Austin", "return_state": "TX",
    "return_postal_code": "78701",
}  # fmt: skip
PAUSES = "Live mail isn't ready yet, so this order will be paused when its review ends."
NO_PARTNER = "No print partner is connected."


@pytest.fixture
def house(container: Container, http: TestClient) -> PrintRoomPages:
    house = PrintRoomPages(container, http)
    with container.db.system_transaction() as tx:
        tx.execute(sa.update(sessions).values(mode="live"))
        tx.execute(sa.update(accounts).values(**HOME))
    house.owner._csrf = house.ops._csrf = None
    return house


def test_home_says_in_live_mode_what_is_missing(house: PrintRoomPages) -> None:
    shown = page_text(house.owner.get("/").text)
    assert "Live mail isn't ready yet You can send orders. They're paused after their review" in shown
    assert (NO_PARTNER in shown, "QUILLPOST_" in shown) == (True, False)
    assert "QUILLPOST_PRINT_PARTNER is not set" in page_text(house.ops.get("/").text)
    house.owner.post("/session/switch", mode="test")
    assert "Live mail isn't ready yet" not in page_text(house.owner.get("/").text)


def test_senders_are_warned_before_and_after_sending_and_while_the_order_waits(
    house: PrintRoomPages, clock: Clock
) -> None:
    response = house.owner.post("/compose/send", **LOOK)
    assert "Send this for real?" in response.text
    assert f"{PAUSES} There is no public web address" in page_text(response.text)
    price = page_text(house.owner.post("/compose/price", **LOOK).text)
    assert (PAUSES in price, NO_PARTNER in price) == (True, True)
    [agreed] = re.findall(r'name="agreed" value="([^"]+)"', response.text)
    sent = house.owner.post("/compose/send", **LOOK, agreed=agreed)
    assert sent.url.path.startswith("/orders/"), page_text(sent.text)
    assert f"{PAUSES} There is no public web address" in page_text(sent.text)

    with house.parts.db.system_transaction() as tx:
        tx.execute(sa.update(orders).values(due_at=clock.now()))
    sweep_due_orders(house.parts, clock)
    held = page_text(house.owner.get(sent.url.path).text)
    assert ("Paused" in held, PAUSES in held) == (True, False)
    assert (NO_PARTNER in held, "QUILLPOST_" in held) == (True, False)
    assert "QUILLPOST_" not in page_text(house.owner.get("/").text)


def test_a_test_order_says_nothing_of_it(house: PrintRoomPages, clock: Clock) -> None:
    order = house.account.send().json()["id"]
    house.owner.post("/session/switch", mode="test")
    assert "Live mail isn't ready" not in house.owner.get(f"/orders/{order}").text
    run_jobs_for(house.parts, clock, seconds=60)
    assert "Mailed" in house.owner.get(f"/orders/{order}").text
