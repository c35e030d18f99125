"""What comes early, late, twice or at the same moment: each piece ends once, and the books say the same. In testing
mode a recipient's name decides how."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.app.container import Container
from quillpost.core.database.engine import Tenant
from quillpost.core.errors import Refused
from quillpost.fulfillment.review import service as review_service
from quillpost.fulfillment.tracking.rules import Scan
from quillpost.fulfillment.tracking.service import ingest_scans
from quillpost.orders.changes import cancel_order
from quillpost.web.application import create_app
from support.factories import Account, Build, Clock, make_account, people, person, run_jobs_for
from support.sender_service import ITEM_WAY
from support.test_client import TestClient

ORDERS, SWEEPS, JOURNEY = 24, 4, 16
OUTCOME = """
    select o.id, o.status, o.order_total,
           array_agg(distinct i.status) as pieces,
           bool_and(exists (select 1 from prints p where p.item_id = i.id)) as is_batched,
           (select sum(case when m.target = 'held' then m.cents else 0 end
                       - case when m.source = 'held' then m.cents else 0 end)
              from ledger_moves m where m.order_id = o.id) as held,
           (select array_agg(f.current order by f.id) from facts f
             where f.order_id = o.id and f.item_id is null) as statuses
      from orders o join items i on i.order_id = o.id
     group by o.id order by o.id
"""
BOOKS = """
    select coalesce(sum(case book when 'earned' then cents end), 0) as earned,
           coalesce(sum(case book when 'held' then cents end), 0) as held
      from (select target as book, cents from ledger_moves union all select source, -cents from ledger_moves) moves
"""


def rows(container: Container, query: str) -> list[sa.Row[Any]]:
    with container.db.system_transaction() as tx:
        return list(tx.execute(sa.text(query)).all())


@pytest.mark.usefixtures("clean_database")
def test_an_order_is_cancelled_or_processed_and_never_both(owner: Account, container: Container, clock: Clock) -> None:
    sent = [owner.send(recipients=[person(address=f"{number} Main St")]) for number in range(1, ORDERS + 1)]
    assert {answer.status_code for answer in sent} == {200}
    clock.advance(minutes=1)
    gate = threading.Barrier(ORDERS + SWEEPS)

    def cancel(order_id: int) -> bool:
        gate.wait()
        try:
            with container.db.transaction(Tenant(owner.id, None, "test")) as tx:
                cancel_order(tx, order_id, now=clock.now())
        except Refused:
            return False
        return True

    def sweep() -> None:
        gate.wait()
        review_service.sweep_due_orders(container.production, now=clock.now())

    calls: list[Callable[[], bool | None]] = [partial(cancel, answer.json()["id"]) for answer in sent]
    for place in range(SWEEPS):
        calls.insert(place * ORDERS // SWEEPS, sweep)
    with ThreadPoolExecutor(len(calls)) as threads:
        cancels = [won for won in threads.map(lambda call: call(), calls) if won is not None]
    review_service.sweep_due_orders(container.production, now=clock.now())

    for order, was_cancelled in zip(rows(container, OUTCOME), cancels, strict=True):
        assert order.is_batched is not was_cancelled
        if was_cancelled:
            assert (order.status, order.pieces, order.held, order.order_total) == ("cancelled", ["Failed"], 0, 0)
            assert order.statuses == ["reviewing", "cancelled"]
        else:
            assert (order.status, order.pieces) == ("processing", ["Processing"])
            assert order.held == order.order_total > 0
            assert order.statuses == ["reviewing", "processing"]


@pytest.mark.usefixtures("clean_database")
def test_an_early_scan_counts_and_the_piece_is_paid_once(owner: Account, container: Container, clock: Clock) -> None:
    """The carrier may see a piece before the printer has said that it is printed."""

    def way() -> list[object]:
        return [row[0] for row in rows(container, "select current from facts where item_id is not null order by id")]

    assert owner.send().status_code == 200
    run_jobs_for(container, clock, seconds=12)
    assert way() == ITEM_WAY[:1]
    [(tracking,)] = rows(container, "select tracking from prints")
    ingest_scans(container.db, [Scan(str(tracking), "1", clock.now())], now=clock.now())
    assert way() == ITEM_WAY[:3]
    run_jobs_for(container, clock, seconds=40)
    assert way() == ITEM_WAY
    assert rows(container, "select kind from ledger_moves order by id") == [("authorise",), ("capture",)]


@pytest.mark.parametrize(("losses", "seed"), [(0.3, 1), (1.0, 2)])
def test_every_piece_ends_though_scans_are_missed(build: Build, clock: Clock, losses: float, seed: int) -> None:
    container = build(test_losses=losses, test_seed=seed, test_journey_seconds=JOURNEY)
    with TestClient(create_app(container), base_url="http://quillpost.test") as http:
        owner = make_account(container, http, "owner@example.com")
        sent = owner.send(recipients=people(60))
        assert sent.status_code == 200, sent.text
        run_jobs_for(container, clock, seconds=10 + 4 * JOURNEY)
        order = owner.get(f"/orders/{sent.json()['id']}").json()
    pieces = rows(container, "select status, delivery_inferred, is_over, price_cents from items")
    [books] = rows(container, BOOKS)
    assert {piece.status for piece in pieces} <= {"Delivered", "Returned to Sender", "Failed", "Re-routed"}
    assert all(piece.is_over for piece in pieces if piece.status == "Re-routed")
    assert any(piece.delivery_inferred for piece in pieces)
    assert order["status"] == "Fulfilled"
    paid = sum(piece.price_cents for piece in pieces if piece.status != "Failed")
    assert (books.earned, books.held, order["order_total"]) == (paid, 0, paid)
    assert rows(container, "select 1 from batches where settled_at is null") == []


def test_a_delivery_is_inferred_in_testing_mode_only_where_something_may_get_lost(build: Build) -> None:
    usual = build(test_losses=0.0).environments["test"]
    assert (usual.infer_delivery_after, usual.infer_unseen_delivery_after) == (None, None)
    lossy = build(test_losses=0.1, test_journey_seconds=JOURNEY).environments["test"]
    assert lossy.infer_delivery_after is not None
    assert lossy.infer_delivery_after.total_seconds() == JOURNEY


WAYS = {
    "Jane Doe": (ITEM_WAY, None),
    "Test Returned": ([*ITEM_WAY[:4], "Returned to Sender"], "Returned by the postal service"),
    "Test Rerouted": ([*ITEM_WAY[:3], "Re-routed", *ITEM_WAY[3:]], None),
    "Test Lost": ([*ITEM_WAY[:3], "Failed"], "Lost in the mail"),
    "Test Undeliverable": (["Processing", "Failed"], "Undeliverable address"),
    "Test Printer Failure": (["Processing", "Failed"], "Printer failure"),
}
BY_BOOK = """
    select book as what, sum(cents) as cents from (
        select target as book, cents from ledger_moves union all select source, -cents from ledger_moves) moves
     group by book
"""
MOVED = "select kind as what, sum(cents) as cents from ledger_moves group by kind"
WAY_OF = "select f.current from facts f join items i on i.id = f.item_id where i.name = '{}' order by f.id"


@pytest.mark.usefixtures("clean_database")
def test_each_name_goes_its_way_and_mailed_ones_are_paid(owner: Account, container: Container, clock: Clock) -> None:
    sent = owner.send(recipients=[person(name=name, address=f"{n} Main St") for n, name in enumerate(WAYS, start=1)])
    assert sent.status_code == 200, sent.text
    run_jobs_for(container, clock, seconds=40)
    order = owner.get(f"/orders/{sent.json()['id']}").json()
    items = owner.get(f"/orders/{order['id']}/items").json()["data"]
    ends = {item["recipient"]["name"]: (item["status"], item["failure"]) for item in items}
    assert ends == {name: (way[-1], failure) for name, (way, failure) in WAYS.items()}
    for name, (way, _) in WAYS.items():
        assert [row[0] for row in rows(container, WAY_OF.format(name))] == way
    books, moved = ({row.what: int(row.cents) for row in rows(container, query)} for query in (BY_BOOK, MOVED))
    batched = rows(container, "select name from items join prints on item_id = items.id")
    assert ("Test Undeliverable",) not in batched, "it failed the review"
    piece = moved["authorise"] // len(WAYS)
    assert moved == {"authorise": 6 * piece, "release": 2 * piece, "capture": 4 * piece, "refund": piece}
    assert books == {"credit": -3 * piece, "held": 0, "earned": 3 * piece}
    assert (order["status"], order["order_total"]) == ("Fulfilled", 3 * piece)
