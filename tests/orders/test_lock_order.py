"""Whoever moves pieces takes their orders in the order of their ids: nobody waits in a circle."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.accounts.models import Caller
from quillpost.app.container import Container
from quillpost.core.database import Tx
from quillpost.core.errors import Conflict, Invalid
from quillpost.fulfillment.batches.rules import batch_reference
from quillpost.fulfillment.print_room import reports
from quillpost.fulfillment.print_room import service as print_room_service
from quillpost.fulfillment.print_room.reports import SpoiledItem
from quillpost.fulfillment.tracking import tasks as tracking_tasks
from quillpost.orders.items.service import StatusChange, change_item_statuses
from quillpost.orders.models import Order
from quillpost.orders.rules import ItemStatus
from support.factories import Clock
from support.orders import create_order, item_ids
from support.production import (
    batch_rows,
    compose,
    hand_over,
    hear_printer,
    ingest,
    mailed_order,
    only_batch,
    reprint,
    scan,
    statuses,
    sweep_due_orders,
    tracking_codes,
    with_environment,
)
from support.rows import execute, scalar
from support.waiting import is_lock_awaited, wait_until

HOLD = sa.text("select id from orders where id = :order for no key update nowait")
# What was changed last lies behind in its table, and is come upon last where no index is followed.
NO_INDEX = "set local enable_indexscan = off; set local enable_bitmapscan = off"
MOVE_BEHIND = "update orders set updated_at = updated_at where id = :order"


@pytest.fixture
def pair(container: Container, clock: Clock, caller: Caller, clean_database: None) -> list[Order]:
    """Two orders of one piece each, in one batch that is with the printer."""
    placed = [create_order(container, caller, size="4x6", message=f"Hello {n}!") for n in range(2)]
    sweep_due_orders(container, clock)
    hand_over(container, compose(container, only_batch(container).id))
    return placed


@pytest.fixture
def batch_id(container: Container, pair: list[Order]) -> int:
    return int(only_batch(container).id)


@contextmanager
def meanwhile(container: Container, lower: Order, deed: Callable[[], object]) -> Iterator[Tx]:
    """The deed is begun while this transaction holds the lower order; it has ended when this has."""
    with ThreadPoolExecutor(1) as thread:
        with container.db.system_transaction() as tx:
            tx.execute(HOLD, {"order": lower.id})
            done = thread.submit(deed)
            wait_until(lambda: is_lock_awaited(container) or done.done())
            assert not done.done(), done.exception()
            yield tx
        done.result()


def both_meanwhile(container: Container, lower: Order, first: Callable[[], object], then: Callable[[], object]) -> None:
    """Both wait for the lower order, the one behind the other; an error of the second is raised."""
    waiting = "select count(*) from pg_locks where not granted"
    with ThreadPoolExecutor(1) as thread:
        with meanwhile(container, lower, first):
            second = thread.submit(then)
            wait_until(lambda: scalar(container, waiting) == 2 or second.done())
        second.result()


def move(tx: Tx, container: Container, item_id: int) -> None:
    change_item_statuses(tx, [StatusChange(item_id, ItemStatus.IN_TRANSIT)], now=container.clock())


def mark_spoiled(container: Container, batch_id: int, *spoiled: SpoiledItem) -> int:
    return reports.mark_batch(container.db, batch_id, "spoiled", spoiled=spoiled, now=container.clock()).spoiled


def test_progress_with_spoiled_pieces_holds_no_order_while_it_waits_for_a_lower_one(
    container: Container, batch_id: int, pair: list[Order]
) -> None:
    lower, higher = pair
    report: dict[str, Any] = {"printed_at": container.clock(), "spoiled": {item_ids(container, higher)[0]: "Torn"}}
    with meanwhile(container, lower, lambda: hear_printer(container, batch_id, **report)) as tx:
        tx.execute(HOLD, {"order": higher.id})
    assert [statuses(container, order) for order in pair] == [["Printed"], ["Failed"]]


@pytest.mark.parametrize("deed", ["rush", "pool_now"])
def test_those_that_go_before_others_are_taken_in_their_order(
    container: Container, clock: Clock, caller: Caller, deed: str, conninfo: str
) -> None:
    lower, higher = (create_order(container, caller, message=f"Hello {n}!") for n in range(2))
    now = clock.now()
    execute(container, "update orders set pool_at = :at", at=now + timedelta(hours=5))
    execute(container, MOVE_BEHIND, order=lower.id)
    with container.db.system_transaction() as tx:
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


def test_a_piece_that_is_seen_meanwhile_is_neither_printed_again_nor_spoiled_in_vain(
    container: Container, batch_id: int, pair: list[Order]
) -> None:
    hear_printer(container, batch_id, printed_at=container.clock())
    first, second = (item_ids(container, order)[0] for order in pair)

    def again() -> None:
        with pytest.raises(Conflict, match="None of these pieces"):
            reprint(container, batch_id, item_ids=[first])

    def spoil() -> None:
        with pytest.raises(Invalid, match="is in the mail already"):
            mark_spoiled(container, batch_id, SpoiledItem(item_id=second))

    for order, seen, deed in ((pair[0], first, again), (pair[1], second, spoil)):
        with meanwhile(container, order, deed) as tx:
            move(tx, container, seen)
    assert len(batch_rows(container)) == 1


def test_of_a_reprint_and_a_spoiling_at_once_one_wins(container: Container, batch_id: int, pair: list[Order]) -> None:
    def again() -> None:
        reprint(container, batch_id, 1)

    def spoil() -> None:
        assert mark_spoiled(container, batch_id, SpoiledItem(position=1)) == 1

    with pytest.raises(Invalid, match=f"Piece 1 was reprinted in {batch_reference(batch_id + 1)}: mark it there"):
        both_meanwhile(container, pair[0], again, spoil)
    batch_id += 1
    hand_over(container, compose(container, batch_id))
    with pytest.raises(Conflict, match="None of these pieces"):
        both_meanwhile(container, pair[0], spoil, again)


@pytest.mark.usefixtures("clean_database")
def test_closing_holds_no_order_while_it_waits_for_another(container: Container, clock: Clock, caller: Caller) -> None:
    rerouted, sorted_out = mailed_order(container, caller), mailed_order(container, caller)
    for order, phase in ((rerouted, "pars"), (sorted_out, "3a")):
        ingest(container, *(scan(code, phase, clock.now()) for code in tracking_codes(container, order)))
    assert statuses(container, rerouted) == ["Re-routed"]
    clock.advance(days=100)
    days = timedelta(days=3)
    waits: dict[str, Any] = {"infer_delivery_after": days, "infer_unseen_delivery_after": None, "reroute_timeout": days}
    environments = {"test": with_environment(container, **waits).environments["test"]}
    with meanwhile(
        container, rerouted, lambda: tracking_tasks.close_items(container.db, environments, now=clock.now())
    ) as tx:
        tx.execute(HOLD, {"order": sorted_out.id})
    assert statuses(container, sorted_out) == ["Delivered"]
