"""Whoever moves pieces takes their orders in the order of their ids: nobody waits in a circle."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta

import pytest
import sqlalchemy as sa
from placing import open_account, place
from pressing import batch_rows, sweep
from travelling import codes, ingest, mailed, scan, statuses
from waiting import wait_until

from makers import Clock
from quillpost.accounts.models import Caller
from quillpost.app.container import Parts
from quillpost.core.database import Tx
from quillpost.core.errors import Conflict, Invalid
from quillpost.fulfillment import production
from quillpost.fulfillment import queries as fulfillment_queries
from quillpost.fulfillment.ports import PrintProgress
from quillpost.fulfillment.print_room import marks
from quillpost.fulfillment.print_room import service as print_room_service
from quillpost.fulfillment.print_room.marks import Spoiled
from quillpost.fulfillment.tracking import tasks as tracking_tasks
from quillpost.orders.models import Order
from quillpost.orders.rules import ItemStatus
from quillpost.orders.status import Move, move_items

WAITING = sa.text("select count(*) from pg_locks where not granted")
HOLD = sa.text("select id from orders where id = :order for no key update nowait")
# What was changed last lies behind in its table, and is come upon last where no index is followed.
NO_INDEX = "set local enable_indexscan = off; set local enable_bitmapscan = off"
MOVE_BEHIND = sa.text("update orders set updated_at = updated_at where id = :order")


@pytest.fixture
def owner(parts: Parts) -> Caller:
    return open_account(parts)


@pytest.fixture
def pair(parts: Parts, clock: Clock, owner: Caller) -> list[Order]:
    """Two orders of one piece each, in one batch that is with the printer."""
    placed = [place(parts, owner, size="4x6", message=f"Hello {n}!") for n in range(2)]
    sweep(parts, clock)
    with parts.db.work() as tx:
        [batch] = batch_rows(tx)
    for step in (production.compose, production.hand_over):
        step(parts.press, batch.id, now=clock.now())
    return placed


@contextmanager
def meanwhile(parts: Parts, lower: Order, deed: Callable[[], object]) -> Iterator[Tx]:
    """The deed is begun while this transaction holds the lower order; it has ended when this has."""
    with ThreadPoolExecutor(1) as thread:
        with parts.db.work() as tx:
            tx.execute(HOLD, {"order": lower.id})
            done = thread.submit(deed)
            wait_until(lambda: _is_someone_waiting(parts) or done.done())
            assert not done.done(), done.exception()
            yield tx
        done.result()


def _is_someone_waiting(parts: Parts) -> bool:
    return _waiting(parts) > 0


def _waiting(parts: Parts) -> int:
    with parts.db.work() as tx:
        return int(tx.execute(WAITING).scalar_one())


def piece(parts: Parts, order: Order) -> int:
    with parts.db.work() as tx:
        found = tx.execute(sa.text("select id from items where order_id = :order"), {"order": order.id})
        return int(found.scalar_one())


def test_progress_with_spoiled_pieces_holds_no_order_while_it_waits_for_a_lower_one(
    parts: Parts, clock: Clock, pair: list[Order]
) -> None:
    lower, higher = pair
    now = clock.now()
    progress = PrintProgress(printed_at=now, spoiled={piece(parts, higher): "Torn"})
    with meanwhile(
        parts, lower, lambda: print_room_service.take_progress(parts.db, 1, progress, now=now)
    ) as tx:
        tx.execute(HOLD, {"order": higher.id})
    assert [statuses(parts, order) for order in pair] == [["Printed"], ["Failed"]]


@pytest.mark.parametrize("deed", ["rush", "pool_now"])
def test_those_that_go_before_others_are_taken_in_their_order(
    parts: Parts, clock: Clock, owner: Caller, deed: str
) -> None:
    lower, higher = (place(parts, owner, message=f"Hello {n}!") for n in range(2))
    now = clock.now()
    with parts.db.work() as tx:
        tx.execute(sa.text("update orders set pool_at = :at"), {"at": now + timedelta(hours=5)})
        tx.execute(MOVE_BEHIND, {"order": lower.id})
        engine = tx.engine

    def read_in_their_places(begun: sa.Connection) -> None:
        begun.exec_driver_sql(NO_INDEX)

    def act() -> None:
        if deed == "rush":
            print_room_service.rush(parts.db, "test", [higher.id, lower.id], operator_id=None, now=now)
        else:
            print_room_service.pool_now(parts.db, "test", now=now)

    sa.event.listen(engine, "begin", read_in_their_places)
    try:
        with meanwhile(parts, lower, act) as tx:
            tx.execute(HOLD, {"order": higher.id})
    finally:
        sa.event.remove(engine, "begin", read_in_their_places)


def test_a_piece_that_is_seen_meanwhile_is_not_printed_again(
    parts: Parts, clock: Clock, pair: list[Order]
) -> None:
    now, world = clock.now(), parts.worlds["test"]
    print_room_service.take_progress(parts.db, 1, PrintProgress(printed_at=now), now=now)
    seen = piece(parts, pair[0])

    def again() -> None:
        with pytest.raises(Conflict, match="None of these pieces"):
            print_room_service.reprint(parts.db, world, 1, item_ids=[seen], reason="Jam", now=now)

    with meanwhile(parts, pair[0], again) as tx:
        move_items(tx, [Move(seen, ItemStatus.IN_TRANSIT)], now=now)
    with parts.db.work() as tx:
        assert len(fulfillment_queries.unfinished_batches(tx)) == 1


def test_a_piece_that_is_reprinted_meanwhile_is_not_spoiled_in_vain(
    parts: Parts, clock: Clock, pair: list[Order]
) -> None:
    now, world, spoiled = clock.now(), parts.worlds["test"], [Spoiled(position=1)]

    def again() -> None:
        print_room_service.reprint(parts.db, world, 1, positions=[1], reason="Jam", now=now)

    with ThreadPoolExecutor(1) as thread:
        with meanwhile(parts, pair[0], again):
            marked = thread.submit(marks.mark, parts.db, 1, "spoiled", spoiled=spoiled, now=now)
            wait_until(lambda: _waiting(parts) == 2 or marked.done())
        with pytest.raises(Invalid, match="Piece 1 was reprinted in batch-000002: mark it there"):
            marked.result()


def test_a_piece_that_is_spoiled_meanwhile_is_not_reprinted(
    parts: Parts, clock: Clock, pair: list[Order]
) -> None:
    now, world, spoiled = clock.now(), parts.worlds["test"], [Spoiled(position=1)]

    def spoil() -> None:
        assert marks.mark(parts.db, 1, "spoiled", spoiled=spoiled, now=now).spoiled == 1

    with ThreadPoolExecutor(1) as thread:
        with meanwhile(parts, pair[0], spoil):
            made = thread.submit(
                print_room_service.reprint, parts.db, world, 1, positions=[1], reason="Jam", now=now
            )
            wait_until(lambda: _waiting(parts) == 2 or made.done())
        with pytest.raises(Conflict, match="None of these pieces"):
            made.result()


def test_a_piece_that_is_seen_meanwhile_is_not_spoiled_in_vain(
    parts: Parts, clock: Clock, pair: list[Order]
) -> None:
    now, seen = clock.now(), piece(parts, pair[0])
    print_room_service.take_progress(parts.db, 1, PrintProgress(printed_at=now), now=now)

    def spoil() -> None:
        with pytest.raises(Invalid, match="is in the mail already"):
            marks.mark(parts.db, 1, "spoiled", spoiled=[Spoiled(item_id=seen)], now=now)

    with meanwhile(parts, pair[0], spoil) as tx:
        move_items(tx, [Move(seen, ItemStatus.IN_TRANSIT)], now=now)


def test_closing_holds_no_order_while_it_waits_for_a_lower_one(
    parts: Parts, clock: Clock, owner: Caller
) -> None:
    rerouted, sorted_out = mailed(parts, owner), mailed(parts, owner)
    for order, phase in ((rerouted, "pars"), (sorted_out, "3a")):
        ingest(parts, *(scan(code, phase, clock.now()) for code in codes(parts, order)))
    assert statuses(parts, rerouted) == ["Re-routed"]
    clock.advance(days=100)
    days = timedelta(days=3)
    world = replace(parts.worlds["test"], infer_after=days, infer_unseen_after=None, reroute_ends=days)
    with meanwhile(
        parts, rerouted, lambda: tracking_tasks.close(parts.db, {"test": world}, now=clock.now())
    ) as tx:
        tx.execute(HOLD, {"order": sorted_out.id})
    assert statuses(parts, sorted_out) == ["Delivered"]
