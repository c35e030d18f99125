"""When an order is mailed and how many items a day, and that nobody who moves pieces waits in a circle."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from functools import partial
from threading import Barrier
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import sqlalchemy as sa

from quillpost.accounts.models import Caller
from quillpost.app.container import Container
from quillpost.core.database import Tenant, Tx
from quillpost.core.database.tables.base import facts, orders
from quillpost.core.database.tables.orders import hourly_counts
from quillpost.core.errors import Conflict, Invalid
from quillpost.fulfillment.batches.rules import batch_reference
from quillpost.fulfillment.print_room import reports
from quillpost.fulfillment.print_room import service as print_room_service
from quillpost.fulfillment.print_room.reports import SpoiledItem
from quillpost.fulfillment.tracking import tasks as tracking_tasks
from quillpost.orders.items.service import StatusChange, change_item_statuses
from quillpost.orders.models import Order
from quillpost.orders.queries import DailyActivity, DayActivity, read_daily_activity
from quillpost.orders.rules import ItemStatus
from support import production
from support.factories import Clock, make_sub_account, people, person
from support.orders import create_order, fact_rows, item_ids, item_rows, open_account, order_row
from support.production import hand_over, hear_printer, ingest, mailed_order, scan, statuses, tracking_codes
from support.rows import execute, scalar, scalars
from support.waiting import is_lock_awaited, wait_until

pytestmark = pytest.mark.usefixtures("clean_database")

AUCKLAND, LOS_ANGELES, HOME = ZoneInfo("Pacific/Auckland"), ZoneInfo("America/Los_Angeles"), ZoneInfo("UTC")
COUNTED = {"scans": "item.scan", "sent": "Printed", "delivered": "Delivered"}


def tell(container: Container, order_id: int, what: str, *moments: str) -> None:
    """Facts of an order, in one statement."""
    order = order_row(container, order_id)
    fact = {
        "account_id": order.account_id, "sub_account_id": order.sub_account_id, "mode": order.mode,
        "kind": "item.scan" if what == "item.scan" else "item.status", "order_id": order.id,
        "order_status": "printing", "current": what, "event_id": sa.func.gen_random_uuid(),
        "inferred": False, "scans": 0,
    }  # fmt: skip
    told = [fact | {"at": datetime.fromisoformat(moment)} for moment in moments]
    execute(container, sa.insert(facts).values(told))


def seen(container: Container, tenant: Tenant, zone: ZoneInfo, days: int = 7) -> DailyActivity:
    with container.db.transaction(tenant) as tx:
        return read_daily_activity(tx, tenant, days=days, zone=zone, now=container.clock())


def busy(happened: DailyActivity) -> list[DayActivity]:
    return [day for day in happened.days if day != DayActivity(day.day)]


def test_a_day_is_the_readers_own(container: Container, caller: Caller) -> None:
    order = create_order(container, caller).id  # it is the 4th of May, 12:00 in Greenwich: in Auckland the 5th begins
    tell(container, order, "Printed", "2026-05-03T06:30Z", "2026-05-03T12:30Z", "2026-05-03T12:59:59Z")
    tell(container, order, "Delivered", "2026-05-04T06:30Z", "2026-05-04T07:00Z")
    tell(container, order, "item.scan", "2026-05-04T11:59:59Z")
    tell(container, order, "In Transit", "2026-05-04T07:00Z")  # is neither
    tenant, (second, third, fourth) = Tenant(caller.account_id, mode="test"), (date(2026, 5, day) for day in (2, 3, 4))
    expected = {
        HOME: [DayActivity(third, sent=3), DayActivity(fourth, delivered=2, scans=1)],
        AUCKLAND: [DayActivity(third, sent=1), DayActivity(fourth, sent=2, delivered=2, scans=1)],
        LOS_ANGELES: [
            DayActivity(second, sent=1), DayActivity(third, sent=2, delivered=1),
            DayActivity(fourth, delivered=1, scans=1),
        ],
    }  # fmt: skip
    found = {zone: seen(container, tenant, zone) for zone in expected}
    assert {zone: busy(happened) for zone, happened in found.items()} == expected
    away = found[LOS_ANGELES]
    assert (away.sent, away.delivered, away.scans, away.scan_rate) == (3, 2, 1, 0.5)
    ends = [(found[zone].days[0].day, found[zone].days[-1].day) for zone in (HOME, AUCKLAND)]
    assert ends == [(date(2026, 4, 28), fourth), (date(2026, 4, 29), date(2026, 5, 5))]
    assert seen(container, tenant, AUCKLAND, days=1).is_empty
    # On both sides of a change of clocks: in California they went forward on the 8th of March.
    tell(container, order, "Printed", "2026-03-08T07:30Z", "2026-03-08T08:00Z", "2026-03-09T06:30Z", "2026-03-09T07Z")
    spring = busy(seen(container, tenant, LOS_ANGELES, days=90))[:3]
    assert spring == [DayActivity(date(2026, 3, day), sent) for day, sent in ((7, 1), (8, 2), (9, 1))]


def test_everyone_has_their_own_mode_and_place(container: Container, caller: Caller) -> None:
    branch, other = make_sub_account(container, caller), open_account(container, "other@example.com")
    real = replace(caller, mode="live")
    at = "2026-05-04T09:10Z"
    for sender, home, how_many in ((caller, None, 1), (real, None, 2), (caller, branch, 4), (other, None, 8)):
        order = create_order(container, sender, sub_account_id=home)
        for what in COUNTED.values():
            tell(container, order.id, what, *[at] * how_many)
    everyone = {
        Tenant(caller.account_id, mode="test"): 5, Tenant(caller.account_id, mode="live"): 2,
        Tenant(caller.account_id, branch, "test"): 4, Tenant(caller.account_id, branch, "live"): 0,
        Tenant(other.account_id, mode="test"): 8,
    }  # fmt: skip
    for tenant, n in everyone.items():
        found = seen(container, tenant, HOME)
        assert (found.sent, found.delivered, found.scans) == (n, n, n), tenant
    kept = sa.select(hourly_counts.c.mode, hourly_counts.c.what, sa.func.sum(hourly_counts.c.n))
    rows = execute(container, kept.group_by(hourly_counts.c.mode, hourly_counts.c.what))
    expected = {(mode, what): n for mode, n in (("test", 13), ("live", 2)) for what in COUNTED}
    assert {(mode, what): n for mode, what, n in rows} == expected
    assert set(scalars(container, sa.select(hourly_counts.c.hour))) == {datetime(2026, 5, 4, 9, tzinfo=UTC)}


# Mailed

ABROAD = person(address="3 Rue Haute", city="Paris", province=None, postal_code="75001", country="FR")


def with_the_printer(container: Container, clock: Clock, caller: Caller, *whom: dict[str, Any]) -> tuple[int, int]:
    """An order of these people, and its batch, which a printer has."""
    batch_id = hand_over(container, production.compose_batch(container, clock, caller, whom))
    return scalar(container, sa.select(orders.c.id)), batch_id


def stands(container: Container, order_id: int) -> tuple[str, int]:
    row = order_row(container, order_id)
    return row.status, row.n_mailed


def steps(container: Container, order_id: int) -> list[str]:
    return [fact.current for fact in fact_rows(container, order_id) if fact.item_id is None]


def codes(container: Container, order_id: int) -> list[str]:
    return [row.tracking for row in production.print_rows(container, order_id) if not row.superseded]


def spoil(container: Container, batch_id: int, position: int) -> None:
    torn = [SpoiledItem(position=position, reason="Torn")]
    reports.mark_batch(container.db, batch_id, "spoiled", spoiled=torn, now=container.clock())


@pytest.mark.parametrize("by", ["a person", "the partner"])
def test_an_order_is_mailed_when_its_batch_is_so(container: Container, clock: Clock, caller: Caller, by: str) -> None:
    order, batch_id = with_the_printer(container, clock, caller, *people(2))
    hear_printer(container, batch_id, printed_at=clock.now())
    assert stands(container, order) == ("printing", 0)
    for _ in range(2):
        if by == "a person":
            reports.mark_batch(container.db, batch_id, "mailed", now=clock.now())
        else:
            hear_printer(container, batch_id, mailed_at=clock.now())
    assert stands(container, order) == ("mailed", 2)
    assert steps(container, order) == ["reviewing", "processing", "printing", "mailed"]
    spoil(container, batch_id, 1)
    assert stands(container, order) == ("mailed", 1), "what is spoiled was not mailed"


def test_a_scan_before_the_mark_moves_the_order_first(container: Container, clock: Clock, caller: Caller) -> None:
    """Whoever hears that a piece is out for delivery never hears that its order is printing."""
    order, batch_id = with_the_printer(container, clock, caller, person())
    [code] = codes(container, order)
    ingest(container, scan(code, "3a", clock.now()))
    assert stands(container, order) == ("mailed", 1)
    events = [(fact.current, fact.order_status) for fact in fact_rows(container, order)]
    assert events[-3:] == [("Printed", "printing"), ("mailed", "mailed"), ("Processed for Delivery", "mailed")]
    hear_printer(container, batch_id, mailed_at=clock.now())
    assert steps(container, order).count("mailed") == 1


def test_an_order_waits_for_its_last_piece(container: Container, clock: Clock, caller: Caller) -> None:
    order, _ = with_the_printer(container, clock, caller, *people(3))
    first, second, third = codes(container, order)
    ingest(container, scan(first, "4c", clock.now()), scan(second, "1", clock.now()))
    assert stands(container, order) == ("printing", 2)
    ingest(container, scan(third, "1", clock.now()))
    assert stands(container, order) == ("mailed", 3)


def test_an_order_whose_only_piece_ends_at_once_has_ended(container: Container, clock: Clock, caller: Caller) -> None:
    """Of which nothing is mailed never says so."""
    order, _ = with_the_printer(container, clock, caller, person())
    ingest(container, scan(codes(container, order)[0], "4c", clock.now()))
    assert steps(container, order)[-3:] == ["printing", "mailed", "fulfilled"]
    spoiled = create_order(container, caller, [person(address="77 Pine St")])
    production.sweep_due_orders(container, clock)
    spoil(container, hand_over(container, production.compose(container, production.batch_rows(container)[-1].id)), 1)
    assert steps(container, spoiled.id)[-2:] == ["printing", "fulfilled"]


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_spoiled_piece_holds_no_order_back(container: Container, clock: Clock, caller: Caller, when: str) -> None:
    order, batch_id = with_the_printer(container, clock, caller, *people(2))
    if when == "before":
        spoil(container, batch_id, 2)
        hear_printer(container, batch_id, mailed_at=clock.now())
    else:
        ingest(container, scan(codes(container, order)[0], "1", clock.now()))
        assert stands(container, order) == ("printing", 1)
        spoil(container, batch_id, 2)
    assert stands(container, order) == ("mailed", 1)


def test_a_reprinted_piece_holds_its_order_back(container: Container, clock: Clock, caller: Caller) -> None:
    """And one that was mailed is printing again while a piece of it is."""
    order, batch_id = with_the_printer(container, clock, caller, person(), ABROAD)
    hear_printer(container, batch_id, printed_at=clock.now())
    again = hand_over(container, production.compose(container, production.reprint(container, batch_id, 2).batch_id))
    hear_printer(container, batch_id, mailed_at=clock.now())
    assert stands(container, order) == ("printing", 1)
    hear_printer(container, again, mailed_at=clock.now())
    assert stands(container, order) == ("mailed", 2)
    third = hand_over(container, production.compose(container, production.reprint(container, batch_id, 1).batch_id))
    fourth = hand_over(container, production.compose(container, production.reprint(container, again, 1).batch_id))
    row = order_row(container, order)
    assert (row.status, row.n_mailed, row.n_over) == ("printing", 0, 0)
    assert [piece.is_mailed for piece in item_rows(container, order)] == [False, False]
    for batch in (third, fourth):
        hear_printer(container, batch, mailed_at=clock.now())
    assert stands(container, order) == ("mailed", 2)
    assert steps(container, order)[-4:] == ["printing", "mailed", "printing", "mailed"]


def test_what_is_heard_twice_at_once_moves_the_order_once(container: Container, clock: Clock, caller: Caller) -> None:
    order, batch_id = with_the_printer(container, clock, caller, person())
    other = create_order(container, caller, [person(address="77 Pine St")], message="Another")
    [code], start = codes(container, order), Barrier(2)

    def scanned() -> None:
        start.wait()
        ingest(container, scan(code, "1", clock.now()))

    def marked() -> None:
        start.wait()
        hear_printer(container, batch_id, mailed_at=clock.now())

    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(scanned), pool.submit(marked)]:
            done.result()
    assert (stands(container, order), stands(container, other.id)) == (("mailed", 1), ("reviewing", 0))
    assert steps(container, order).count("mailed") == 1


HOLD = sa.text("select id from orders where id = :order for no key update nowait")
# What was changed last lies behind in its table, and is come upon last where no index is followed.
NO_INDEX = "set local enable_indexscan = off; set local enable_bitmapscan = off"
MOVE_BEHIND = "update orders set updated_at = updated_at where id = :order"


@pytest.fixture
def pair(container: Container, clock: Clock, caller: Caller, clean_database: None) -> list[Order]:
    """Two orders of one piece each, in one batch that is with the printer."""
    placed = [create_order(container, caller, size="4x6", message=f"Hello {n}!") for n in range(2)]
    production.sweep_due_orders(container, clock)
    production.hand_over(container, production.compose(container, production.only_batch(container).id))
    return placed


@pytest.fixture
def batch_id(container: Container, pair: list[Order]) -> int:
    return int(production.only_batch(container).id)


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


def mark_spoiled(container: Container, batch_id: int, *spoiled: SpoiledItem) -> int:
    return reports.mark_batch(container.db, batch_id, "spoiled", spoiled=spoiled, now=container.clock()).spoiled


def test_progress_with_spoiled_pieces_holds_no_order_while_it_waits_for_a_lower_one(
    container: Container, batch_id: int, pair: list[Order]
) -> None:
    lower, higher = pair
    report: dict[str, Any] = {"printed_at": container.clock(), "spoiled": {item_ids(container, higher)[0]: "Torn"}}
    with meanwhile(container, lower, lambda: production.hear_printer(container, batch_id, **report)) as tx:
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
    production.hear_printer(container, batch_id, printed_at=container.clock())
    first, second = (item_ids(container, order)[0] for order in pair)

    def again() -> None:
        with pytest.raises(Conflict, match="None of these pieces"):
            production.reprint(container, batch_id, item_ids=[first])

    def spoil() -> None:
        with pytest.raises(Invalid, match="is in the mail already"):
            mark_spoiled(container, batch_id, SpoiledItem(item_id=second))

    for order, seen, deed in ((pair[0], first, again), (pair[1], second, spoil)):
        with meanwhile(container, order, deed) as tx:
            change_item_statuses(tx, [StatusChange(seen, ItemStatus.IN_TRANSIT)], now=container.clock())
    assert len(production.batch_rows(container)) == 1


def test_of_a_reprint_and_a_spoiling_at_once_one_wins(container: Container, batch_id: int, pair: list[Order]) -> None:
    def again() -> None:
        production.reprint(container, batch_id, 1)

    def spoil() -> None:
        assert mark_spoiled(container, batch_id, SpoiledItem(position=1)) == 1

    with pytest.raises(Invalid, match=f"Piece 1 was reprinted in {batch_reference(batch_id + 1)}: mark it there"):
        both_meanwhile(container, pair[0], again, spoil)
    batch_id += 1
    production.hand_over(container, production.compose(container, batch_id))
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
    environments = {"test": production.with_environment(container, **waits).environments["test"]}
    close = partial(tracking_tasks.close_items, container.db, environments, now=clock.now())
    with meanwhile(container, rerouted, close) as tx:
        tx.execute(HOLD, {"order": sorted_out.id})
    assert statuses(container, sorted_out) == ["Delivered"]
