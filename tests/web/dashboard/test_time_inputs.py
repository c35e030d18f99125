"""What is typed as a time is in the zone that the page names, whatever is known of its reader by then."""

import re
from datetime import UTC, datetime
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.app.container import Container
from quillpost.core.database.tables.base import orders
from quillpost.orders.rules import ItemStatus
from quillpost.web.security import ZONE_COOKIE
from support.account_pages import AccountPages
from support.factories import person
from support.giftcard_orders import item_ids_of, move_items
from support.test_client import TestClient

TEN = "2026-06-01T10:00"
IN_UTC, IN_CHICAGO = (datetime(2026, 6, 1, hour, tzinfo=UTC) for hour in (10, 15))
LATER: dict[str, Any] = {"when": "later", "send_on": TEN}
CARD: dict[str, Any] = {
    "piece": "postcard-4x6", "message": "Hi", "style": "1", "audience": "people",
    "people": "Jane Doe, 12 Main St, Austin TX 78701", "allow_duplicates": "on",
}  # fmt: skip


@pytest.fixture
def house(container: Container, http: TestClient) -> AccountPages:
    return AccountPages(container, http)


def due(house: AccountPages) -> datetime | None:
    """For when the newest order is scheduled."""
    with house.parts.db.system_transaction() as tx:
        found: datetime | None = tx.scalar(sa.select(orders.c.schedule_for).order_by(orders.c.id.desc()).limit(1))
    return found


def zone_on(page: str) -> tuple[str, str]:
    """The zone that goes along with the form, and the one that its words name."""
    [field] = re.findall(r'<input type="hidden" name="zone" value="([^"]*)"', page)
    return field, re.findall(r"<span data-zone-words>([^<]*)</span>", page)[0]


@pytest.fixture(params=["/compose", "/orders/{}/change", "/orders/{}/again"])
def form(request: pytest.FixtureRequest, house: AccountPages) -> tuple[str, str, dict[str, Any]]:
    """The page, where its form goes to, and what stands in it."""
    path = str(request.param)
    if path == "/compose":
        return path, "/compose/send", CARD
    order = int(house.account.send(recipients=[person()]).json()["id"])
    if path.endswith("again"):
        move_items(house.parts, item_ids_of(house.parts, order), ItemStatus.PRINTED)
    path = path.format(order)
    [agreed] = re.findall(r'name="agreed" value="([^"]*)"', house.owner.get(path).text) or [""]
    return path, path, {"message": "Hello again", "repeats": "on", "agreed": agreed}


def test_what_was_typed_beside_utc_stays_utc_though_the_zone_is_known_by_then(
    house: AccountPages, form: tuple[str, str, dict[str, Any]]
) -> None:
    path, leads_to, filled = form
    zone, words = zone_on(house.owner.get(path).text)
    assert (zone, words) == ("UTC", "UTC")
    house.owner.client.cookies.set(ZONE_COOKIE, "America/Chicago")
    wrong = house.owner.post(leads_to, **filled, **LATER | {"send_on": "soon"}, zone=zone)
    assert (wrong.status_code, zone_on(wrong.text)) == (422, ("UTC", "UTC"))
    sent = house.owner.post(leads_to, **filled, **LATER, zone=zone, follow=False)
    assert (sent.status_code, due(house)) == (303, IN_UTC), sent.text
    assert zone_on(house.owner.get("/compose").text) == ("America/Chicago", "Chicago time (CDT)")


def test_the_zone_that_a_script_has_put_into_the_form_counts_without_any_cookie(
    house: AccountPages, form: tuple[str, str, dict[str, Any]]
) -> None:
    _, leads_to, filled = form
    before = house.everything()
    odd = house.owner.post(leads_to, **filled, **LATER, zone="Mars/Olympus")
    assert re.search(r'id="send_on-fault"[^>]*>Your browser&#39;s time zone is not known here', odd.text)
    assert (zone_on(odd.text), house.everything() == before) == (("UTC", "UTC"), True)
    sent = house.owner.post(leads_to, **filled, **LATER, zone="America/Chicago", follow=False)
    assert (sent.status_code, due(house)) == (303, IN_CHICAGO), sent.text
