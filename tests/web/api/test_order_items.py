"""Items: of an order, of all orders, and one with its history."""

from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.app.container import Container
from quillpost.core.database.tables.base import facts
from quillpost.core.database.tables.fulfillment import prints
from quillpost.core.text import format_iso
from quillpost.fulfillment.ports import PrintProgress
from quillpost.fulfillment.print_room.service import record_printer_progress
from quillpost.fulfillment.tracking.rules import Scan
from quillpost.fulfillment.tracking.service import ingest_scans
from support.bulk_orders import insert_orders
from support.factories import Account, Clock, make_sub_account, make_teammate, people, person, run_jobs_for

pytestmark = pytest.mark.usefixtures("conninfo")

BASE = "http://quillpost.test/api/v2"

UNSEEN = {"place": None, "reason": None, "inferred": False}
"""Of a step that no carrier told of."""


def names(answer: Any) -> list[str]:
    return [item["recipient"]["name"] for item in answer.json()["data"]]


def ids(answer: Any) -> list[int]:
    return [item["id"] for item in answer.json()["data"]]


def total(answer: Any) -> int:
    found: int = answer.json()["meta"]["total"]
    return found


def test_items_are_listed_in_the_order_given_with_what_was_given(owner: Account) -> None:
    audience = [person(company="Acme", email="j@example.com", phone="1", custom10="ten"), *people(3)]
    order_id = owner.send(recipients=audience).json()["id"]
    page = owner.get(f"/orders/{order_id}/items?items_per_page=3")
    assert names(page) == ["Jane Doe", "Person 1", "Person 2"]
    assert (total(page), page.json()["meta"]["last_page"]) == (4, 2)
    first = page.json()["data"][0]
    assert (first["recipient"]["company"], first["recipient"]["custom10"]) == ("Acme", "ten")
    assert (first["status"], first["delivery_date"], first["giftcard"]) == ("Processing", None, None)


def test_both_paths_list_the_items_of_an_order(owner: Account) -> None:
    order_id = owner.send(recipients=people(3)).json()["id"]
    owner.send()
    nested, flat = owner.get(f"/orders/{order_id}/items"), owner.get(f"/order-items?order_id={order_id}")
    assert flat.json()["data"] == nested.json()["data"]
    assert flat.json()["links"]["last"] == f"{BASE}/order-items?order_id={order_id}&page=1"


@pytest.mark.parametrize("name", ["items_per_page", "per_page", "limit"])
def test_the_size_of_a_page_has_three_names(owner: Account, name: str) -> None:
    order_id = owner.send(recipients=people(3)).json()["id"]
    for path in (f"/orders/{order_id}/items?", f"/order-items?order_id={order_id}&", "/order-items?"):
        page = owner.get(f"{path}{name}=2&page=2")
        assert (page.json()["meta"]["per_page"], len(page.json()["data"])) == (2, 1)
        assert owner.get(f"{path}{name}=1000000").json()["meta"]["per_page"] == 100
        refused = owner.get(f"{path}{name}=0")
        assert (refused.status_code, list(refused.json()["errors"])) == (422, [name])


@pytest.mark.parametrize("query", ["order_id={order}", "", "status=Delivered", "sub_account_id={branch}"])
def test_the_pages_hold_every_item_once_from_whichever_end_they_are_read(
    owner: Account, stranger: Account, container: Container, query: str
) -> None:
    branch = make_sub_account(container, owner)
    (order,) = insert_orders(container, owner.id, 1, pieces=35, sub_account_id=branch)
    insert_orders(container, stranger.id, 2, pieces=2)
    query = query.format(order=order, branch=branch)
    pages = [owner.get(f"/order-items?limit=10&page={page}&{query}") for page in range(1, 6)]
    found = [item for page in pages for item in ids(page)]
    assert len(found) == 35
    assert found == sorted(set(found), reverse="order_id" not in query)
    assert ids(pages[-1]) == []
    assert {total(page) for page in pages} == {35}


def test_without_an_order_all_items_are_listed_newest_first(owner: Account, container: Container) -> None:
    branch = make_sub_account(container, owner)
    owner.send(recipients=people(2), sub_account_id=branch)
    owner.send(recipients=[person(name="Last"), {"email": "e@example.com", "name": "Nobody"}])
    assert names(owner.get("/order-items")) == ["Nobody", "Last", "Person 2", "Person 1"]
    assert names(owner.get(f"/order-items?sub_account_id={branch}")) == ["Person 2", "Person 1"]
    failed = owner.get("/order-items?status=failed")
    assert (names(failed), total(failed)) == (["Nobody"], 1)
    assert total(owner.get(f"/order-items?sub_account_id={branch}&status=failed")) == 0


def test_items_can_be_filtered_by_status(owner: Account) -> None:
    order_id = owner.send(recipients=[person(), {"name": "E", "email": "e@example.com"}]).json()["id"]
    for path in (f"/orders/{order_id}/items?", f"/order-items?order_id={order_id}&"):
        failed = owner.get(f"{path}status=failed")
        assert (names(failed), total(failed)) == (["E"], 1)
        refused = owner.get(f"{path}status=lost")
        assert (refused.status_code, list(refused.json()["errors"])) == (422, ["status"])


def test_an_order_in_the_query_that_is_not_the_callers_is_refused(
    owner: Account, stranger: Account, container: Container
) -> None:
    mine, other = make_sub_account(container, owner), make_sub_account(container, owner)
    order_id = owner.send(sub_account_id=mine).json()["id"]
    unseen = [
        stranger.get(f"/order-items?order_id={order_id}"),
        make_teammate(container, owner, other).get(f"/order-items?order_id={order_id}"),
        owner.get(f"/order-items?order_id={order_id}&sub_account_id={other}"),
        owner.get("/order-items?order_id=999999"),
    ]
    assert {(answer.status_code, answer.json()["message"]) for answer in unseen} == {(400, "Order Does Not Exist")}
    for odd in ("x", "0", "-1", str(2**63)):
        refused = owner.get(f"/order-items?order_id={odd}")
        assert (refused.status_code, list(refused.json()["errors"])) == (422, ["order_id"])
    assert stranger.get(f"/order-items?sub_account_id={mine}").status_code == 400


def test_a_stranger_lists_nothing_and_a_teammate_their_sub_accounts_items(
    owner: Account, stranger: Account, container: Container
) -> None:
    mine = make_sub_account(container, owner)
    owner.send(recipients=[person(name="Outside")])
    owner.send(recipients=[person(name="Inside")], sub_account_id=mine)
    assert (names(stranger.get("/order-items")), total(stranger.get("/order-items"))) == ([], 0)
    seen = make_teammate(container, owner, mine).get("/order-items")
    assert (names(seen), total(seen)) == (["Inside"], 1)


def test_an_item_tells_its_history_oldest_first(owner: Account, container: Container, clock: Clock) -> None:
    order_id = owner.send().json()["id"]
    run_jobs_for(container, clock, seconds=45)
    listed = owner.get(f"/orders/{order_id}/items").json()["data"][0]
    item = owner.get(f"/order-items/{listed['id']}").json()
    events = item.pop("events")
    assert item == listed | {"order_id": order_id, "delivery_inferred": False}
    assert events[0] == UNSEEN | {"status": "Processing", "previous_status": None, "at": "2026-05-04T12:00:00Z"}
    assert [event["place"] for event in events[:2]] == [None, None]
    assert [event["place"] for event in events[3:]] == ["Simulated P&DC, Austin, TX 78701"] * 3
    assert not any(event["inferred"] for event in events)
    assert (events[-1]["previous_status"], events[-1]["status"]) == ("Processed for Delivery", "Delivered")
    assert events[-1]["at"] > events[0]["at"]


def dated(caller: Account, order_id: int) -> list[tuple[str, str]]:
    """Where the order's one piece was, and when."""
    [item] = ids(caller.get(f"/orders/{order_id}/items"))
    events = caller.get(f"/order-items/{item}").json()["events"]
    return [(event["status"], event["at"]) for event in events]


def printing(owner: Account, container: Container, clock: Clock) -> int:
    """An order of one piece that is with the printer, handed over twelve seconds after noon."""
    order_id = int(owner.send().json()["id"])
    run_jobs_for(container, clock, seconds=12)
    assert [status for status, _ in dated(owner, order_id)] == ["Processing"]
    return order_id


def test_a_piece_was_printed_when_the_printer_says_so(owner: Account, container: Container, clock: Clock) -> None:
    order_id = printing(owner, container, clock)
    printed_at = clock.now() + timedelta(minutes=20)
    clock.advance(hours=3)
    record_printer_progress(container.db, 1, PrintProgress(printed_at=printed_at), now=clock.now())
    assert dated(owner, order_id)[1:] == [("Printed", format_iso(printed_at))]
    with container.db.system_transaction() as tx:
        event_time = tx.execute(sa.select(facts.c.at).where(facts.c.current == "Printed")).scalar_one()
    assert event_time == clock.now()


def test_a_piece_that_was_seen_first_was_printed_when_it_was_seen(
    owner: Account, container: Container, clock: Clock
) -> None:
    order_id = printing(owner, container, clock)
    with container.db.system_transaction() as tx:
        tracking = tx.execute(sa.select(prints.c.tracking)).scalar_one()
    first, second = (clock.now() + timedelta(hours=hour) for hour in (1, 2))
    clock.advance(hours=5)
    ingest_scans(container.db, [Scan(tracking, "2", second), Scan(tracking, "1", first)], now=clock.now())
    record_printer_progress(container.db, 1, PrintProgress(printed_at=clock.now()), now=clock.now())
    assert dated(owner, order_id)[1:] == [
        ("Printed", format_iso(first)), ("In Transit", format_iso(first)), ("In Local Area", format_iso(second)),
    ]  # fmt: skip


def test_cancelling_is_the_end_of_every_items_history(owner: Account, clock: Clock) -> None:
    order_id = owner.send(recipients=[person(), {"email": "e@example.com"}]).json()["id"]
    clock.advance(seconds=5)
    owner.call("PUT", f"/orders/{order_id}/cancel")
    mailed, refused = (owner.get(f"/order-items/{item}").json() for item in ids(owner.get(f"/orders/{order_id}/items")))
    assert (mailed["status"], mailed["failure"]) == ("Failed", "Order cancelled")
    assert mailed["events"] == [
        UNSEEN | {"status": "Processing", "previous_status": None, "at": "2026-05-04T12:00:00Z"},
        UNSEEN | {"status": "Failed", "previous_status": "Processing", "at": "2026-05-04T12:00:05Z"},
    ]
    assert refused["events"] == [UNSEEN | {"status": "Failed", "previous_status": None, "at": "2026-05-04T12:00:00Z"}]
