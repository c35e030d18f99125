"""Whoever moves pieces takes their orders in the order of their ids: nobody waits in a circle."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta

import pytest
import sqlalchemy as sa

from quillpost.accounts.models import Caller
from quillpost.app.container import Container
from quillpost.core.database import Tx
from quillpost.core.errors import Conflict, Invalid
from quillpost.fulfillment.batches import queries as fulfillment_queries
from quillpost.fulfillment.batches import tasks as batch_tasks
from quillpost.fulfillment.ports import PrintProgress
from quillpost.fulfillment.print_room import reports
from quillpost.fulfillment.print_room import service as print_room_service
from quillpost.fulfillment.print_room.reports import SpoiledItem
from quillpost.fulfillment.tracking import tasks as tracking_tasks
from quillpost.orders.items.service import StatusChange, change_item_statuses
from quillpost.orders.models import Order
from quillpost.orders.rules import ItemStatus
from support.carrier_scans import ingest, mailed_order, scan, statuses, tracking_codes
from support.factories import Clock
from support.orders import create_order, open_account
from support.production import batch_rows, sweep_due_orders
from support.waiting import wait_until

pytestmark = pytest.mark.usefixtures("conninfo")

WAITING = sa.text("select count(*) from pg_locks where not granted")
HOLD = sa.text("select id from orders where id = :order for no key update nowait")
# What was changed last lies behind in its table, and is come upon last where no index is followed.
NO_INDEX = "set local enable_indexscan = off; set local enable_bitmapscan = off"
MOVE_BEHIND = sa.text("update orders set updated_at = updated_at where id = :order")


@pytest.fixture
def owner(container: Container) -> Caller:
    return open_account(container)


@pytest.fixture
def pair(container: Container, clock: Clock, owner: Caller) -> list[Order]:
    """Two orders of one piece each, in one batch that is with the printer."""
    placed = [create_order(container, owner, size="4x6", message=f"Hello {n}!") for n in range(2)]
    sweep_due_orders(container, clock)
    with container.db.system_transaction() as tx:
        [batch] = batch_rows(tx)
    for step in (batch_tasks.compose_batch, batch_tasks.hand_over_batch):
        step(container.production, batch.id, now=clock.now())
    return placed


@contextmanager
def meanwhile(container: Container, lower: Order, deed: Callable[[], object]) -> Iterator[Tx]:
    """The deed is begun while this transaction holds the lower order; it has ended when this has."""
    with ThreadPoolExecutor(1) as thread:
        with container.db.system_transaction() as tx:
            tx.execute(HOLD, {"order": lower.id})
            done = thread.submit(deed)
            wait_until(lambda: _is_someone_waiting(container) or done.done())
            assert not done.done(), done.exception()
            yield tx
        done.result()


def _is_someone_waiting(container: Container) -> bool:
    return _waiting(container) > 0


def _waiting(container: Container) -> int:
    with container.db.system_transaction() as tx:
        return int(tx.execute(WAITING).scalar_one())


def piece(container: Container, order: Order) -> int:
    with container.db.system_transaction() as tx:
        found = tx.execute(sa.text("select id from items where order_id = :order"), {"order": order.id})
        return int(found.scalar_one())


def test_progress_with_spoiled_pieces_holds_no_order_while_it_waits_for_a_lower_one(
    container: Container, clock: Clock, pair: list[Order]
) -> None:
    lower, higher = pair
    now = clock.now()
    progress = PrintProgress(printed_at=now, spoiled={piece(container, higher): "Torn"})
    with meanwhile(
        container, lower, lambda: print_room_service.record_printer_progress(container.db, 1, progress, now=now)
    ) as tx:
        tx.execute(HOLD, {"order": higher.id})
    assert [statuses(container, order) for order in pair] == [["Printed"], ["Failed"]]


@pytest.mark.parametrize("deed", ["rush", "pool_now"])
def test_those_that_go_before_others_are_taken_in_their_order(
    container: Container, clock: Clock, owner: Caller, deed: str
) -> None:
    lower, higher = (create_order(container, owner, message=f"Hello {n}!") for n in range(2))
    now = clock.now()
    with container.db.system_transaction() as tx:
        tx.execute(sa.text("update orders set pool_at = :at"), {"at": now + timedelta(hours=5)})
        tx.execute(MOVE_BEHIND, {"order": lower.id})
        engine = tx.engine

    def read_in_their_places(begun: sa.Connection) -> None:
        begun.exec_driver_sql(NO_INDEX)

    def act() -> None:
        if deed == "rush":
            print_room_service.rush_orders(container.db, "test", [higher.id, lower.id], operator_id=None, now=now)
        else:
            print_room_service.pool_orders_now(container.db, "test", now=now)

    sa.event.listen(engine, "begin", read_in_their_places)
    try:
        with meanwhile(container, lower, act) as tx:
            tx.execute(HOLD, {"order": higher.id})
    finally:
        sa.event.remove(engine, "begin", read_in_their_places)


def test_a_piece_that_is_seen_meanwhile_is_not_printed_again(
    container: Container, clock: Clock, pair: list[Order]
) -> None:
    now, environment = clock.now(), container.environments["test"]
    print_room_service.record_printer_progress(container.db, 1, PrintProgress(printed_at=now), now=now)
    seen = piece(container, pair[0])

    def again() -> None:
        with pytest.raises(Conflict, match="None of these pieces"):
            print_room_service.reprint_items(container.db, environment, 1, item_ids=[seen], reason="Jam", now=now)

    with meanwhile(container, pair[0], again) as tx:
        change_item_statuses(tx, [StatusChange(seen, ItemStatus.IN_TRANSIT)], now=now)
    with container.db.system_transaction() as tx:
        assert len(fulfillment_queries.list_unfinished_batches(tx)) == 1


def test_a_piece_that_is_reprinted_meanwhile_is_not_spoiled_in_vain(
    container: Container, clock: Clock, pair: list[Order]
) -> None:
    now, environment, spoiled = clock.now(), container.environments["test"], [SpoiledItem(position=1)]

    def again() -> None:
        print_room_service.reprint_items(container.db, environment, 1, positions=[1], reason="Jam", now=now)

    with ThreadPoolExecutor(1) as thread:
        with meanwhile(container, pair[0], again):
            marked = thread.submit(reports.mark_batch, container.db, 1, "spoiled", spoiled=spoiled, now=now)
            wait_until(lambda: _waiting(container) == 2 or marked.done())
        with pytest.raises(Invalid, match="Piece 1 was reprinted in batch-000002: mark it there"):
            marked.result()


def test_a_piece_that_is_spoiled_meanwhile_is_not_reprinted(
    container: Container, clock: Clock, pair: list[Order]
) -> None:
    now, environment, spoiled = clock.now(), container.environments["test"], [SpoiledItem(position=1)]

    def spoil() -> None:
        assert reports.mark_batch(container.db, 1, "spoiled", spoiled=spoiled, now=now).spoiled == 1

    with ThreadPoolExecutor(1) as thread:
        with meanwhile(container, pair[0], spoil):
            made = thread.submit(
                print_room_service.reprint_items, container.db, environment, 1, positions=[1], reason="Jam", now=now
            )
            wait_until(lambda: _waiting(container) == 2 or made.done())
        with pytest.raises(Conflict, match="None of these pieces"):
            made.result()


def test_a_piece_that_is_seen_meanwhile_is_not_spoiled_in_vain(
    container: Container, clock: Clock, pair: list[Order]
) -> None:
    now, seen = clock.now(), piece(container, pair[0])
    print_room_service.record_printer_progress(container.db, 1, PrintProgress(printed_at=now), now=now)

    def spoil() -> None:
        with pytest.raises(Invalid, match="is in the mail already"):
            reports.mark_batch(container.db, 1, "spoiled", spoiled=[SpoiledItem(item_id=seen)], now=now)

    with meanwhile(container, pair[0], spoil) as tx:
        change_item_statuses(tx, [StatusChange(seen, ItemStatus.IN_TRANSIT)], now=now)


def test_closing_holds_no_order_while_it_waits_for_a_lower_one(
    container: Container, clock: Clock, owner: Caller
) -> None:
    rerouted, sorted_out = mailed_order(container, owner), mailed_order(container, owner)
    for order, phase in ((rerouted, "pars"), (sorted_out, "3a")):
        ingest(container, *(scan(code, phase, clock.now()) for code in tracking_codes(container, order)))
    assert statuses(container, rerouted) == ["Re-routed"]
    clock.advance(days=100)
    days = timedelta(days=3)
    environment = replace(
        container.environments["test"],
        infer_delivery_after=days,
        infer_unseen_delivery_after=None,
        reroute_timeout=days,
    )
    with meanwhile(
        container, rerouted, lambda: tracking_tasks.close_items(container.db, {"test": environment}, now=clock.now())
    ) as tx:
        tx.execute(HOLD, {"order": sorted_out.id})
    assert statuses(container, sorted_out) == ["Delivered"]
