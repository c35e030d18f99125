"""What no page of ours sends and somebody sends all the same: it is refused, or means nothing, and breaks
nothing."""

from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.app.container import Container
from quillpost.core.database.tables.base import accounts
from support.account_pages import AccountPages
from support.test_client import TestClient

BEYOND, SQUARED = "9" * 20, "²"
LATER = {"when": "later", "audience": "person", "to_address": "12 Main St, Austin, TX 78701", "message": "Hi"}
CALLS: list[tuple[str, dict[str, Any]]] = [
    *[(f"/lists/{page}", {"list": odd}) for page in ("radius", "paste") for odd in (BEYOND, SQUARED)],
    *[
        (f"/{page}/new", {"mailing_list_id": odd, "url": "https://example.com/"})
        for page in ("webhooks", "automations")
        for odd in (BEYOND, SQUARED)
    ],
    *[
        (f"/compose{part}", LATER | {"send_on": odd})
        for part in ("", "/preview", "/price", "/send")
        for odd in ("0001-01-01T00:00+14:00", "9999-12-31T23:59-12:00")
    ],
    ("/print-room/accounts/{account}/credit", {"amount": "9" + ",999" * 70, "way": "give", "note": "Invoice 12"}),
]


@pytest.fixture
def house(container: Container, http: TestClient) -> AccountPages:
    house = AccountPages(container, http)
    with container.db.system_transaction() as tx:
        tx.execute(sa.update(accounts).values(is_operator=True))
    house.owner.post("/session/switch", mode="live")
    house.owner.client.cookies.set("quillpost_zone", "Pacific/Kiritimati")
    return house


def test_no_number_or_day_is_too_large_or_too_odd_for_a_page(house: AccountPages) -> None:
    days = [f"{name}={day}" for name in ("since", "until") for day in ("9999-12-31", "0001-01-01")]
    pages = ("/money/ledger", "/money/ledger.csv", "/orders", "/print-room/batches")
    for address in (f"{page}?{query}" for page in pages for query in days):
        assert house.owner.get(address).status_code == 200, address
    before = house.everything()
    for path, fields in CALLS:
        response = house.owner.post(path.format(account=house.account.id), follow=False, **fields)
        assert 200 <= response.status_code < 500, (path, fields)
    assert house.everything() == before
