"""When an order is mailed, and how many items a day."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime
from threading import Barrier
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import sqlalchemy as sa

from quillpost.accounts.models import Caller
from quillpost.app.container import Container
from quillpost.core.database import Tenant
from quillpost.core.database.tables.base import facts, orders
from quillpost.core.database.tables.orders import hourly_counts
from quillpost.fulfillment.batches import queries as fulfillment_queries
from quillpost.fulfillment.batches import tasks as batch_tasks
from quillpost.fulfillment.ports import PrintProgress
from quillpost.fulfillment.print_room import reports
from quillpost.fulfillment.print_room import service as print_room_service
from quillpost.fulfillment.print_room.reports import SpoiledItem
from quillpost.orders.models import Order
from quillpost.orders.queries import DailyActivity, DayActivity, read_daily_activity
from support.carrier_scans import ingest, scan
from support.factories import Account, Clock, make_account, make_live, make_sub_account, make_teammate, people, person
from support.orders import create_order, fact_rows, item_rows, open_account, order_row
from support.production import compose_batch, print_rows
from support.test_client import TestClient

pytestmark = pytest.mark.usefixtures("clean_database")

AUCKLAND, LOS_ANGELES, HOME = ZoneInfo("Pacific/Auckland"), ZoneInfo("America/Los_Angeles"), ZoneInfo("UTC")
COUNTED = {"scans": "item.scan", "sent": "Printed", "delivered": "Delivered"}


def sent_by(account: Account) -> int:
    sent = account.send(return_address="500 Congress Ave, Austin, TX 78701")
    assert sent.status_code == 200, sent.text
    return int(sent.json()["id"])


def tell(container: Container, order_id: int, what: str, *moments: str) -> None:
    """Facts of an order, in one statement."""
    kind = "item.scan" if what == "item.scan" else "item.status"
    with container.db.system_transaction() as tx:
        order = tx.execute(sa.select(orders).where(orders.c.id == order_id)).one()
        rows = [
            {
                "account_id": order.account_id, "sub_account_id": order.sub_account_id, "mode": order.mode,
                "kind": kind, "order_id": order.id, "order_status": "printing", "current": what,
                "event_id": sa.func.gen_random_uuid(), "at": datetime.fromisoformat(moment),
                "inferred": False, "scans": 0,
            }
            for moment in moments
        ]  # fmt: skip
        tx.execute(sa.insert(facts).values(rows))


def seen(container: Container, tenant: Tenant, zone: ZoneInfo, days: int = 7) -> DailyActivity:
    with container.db.transaction(tenant) as tx:
        return read_daily_activity(tx, tenant, days=days, zone=zone, now=container.clock())


def busy(happened: DailyActivity) -> list[DayActivity]:
    return [day for day in happened.days if day != DayActivity(day.day)]


def test_a_day_is_the_readers_own(container: Container, owner: Account) -> None:
    order = sent_by(owner)  # it is the 4th of May, 12:00 in Greenwich: in Auckland the 5th has just begun
    tell(container, order, "Printed", "2026-05-03T06:30Z", "2026-05-03T12:30Z", "2026-05-03T12:59:59Z")
    tell(container, order, "Delivered", "2026-05-04T06:30Z", "2026-05-04T07:00Z")
    tell(container, order, "item.scan", "2026-05-04T11:59:59Z")
    tell(container, order, "In Transit", "2026-05-04T07:00Z")  # is neither
    tenant = Tenant(owner.id, mode="test")
    third, fourth = date(2026, 5, 3), date(2026, 5, 4)
    assert busy(seen(container, tenant, HOME)) == [
        DayActivity(third, sent=3),
        DayActivity(fourth, delivered=2, scans=1),
    ]
    assert busy(seen(container, tenant, AUCKLAND)) == [
        DayActivity(third, sent=1),
        DayActivity(fourth, sent=2, delivered=2, scans=1),
    ]
    away = seen(container, tenant, LOS_ANGELES)
    assert busy(away) == [
        DayActivity(date(2026, 5, 2), sent=1), DayActivity(third, sent=2, delivered=1), DayActivity(fourth,
        delivered=1, scans=1),
    ]  # fmt: skip
    assert (away.sent, away.delivered, away.scans, away.scan_rate) == (3, 2, 1, 0.5)
    ends = [
        (seen(container, tenant, zone).days[0].day, seen(container, tenant, zone).days[-1].day)
        for zone in (HOME, AUCKLAND)
    ]
    assert ends == [(date(2026, 4, 28), fourth), (date(2026, 4, 29), date(2026, 5, 5))]
    assert seen(container, tenant, AUCKLAND, days=1).is_empty


def test_days_are_right_on_both_sides_of_a_change_of_clocks(container: Container, owner: Account) -> None:
    order = sent_by(owner)  # in California clocks went forward on the 8th of March
    tell(
        container, order, "Printed", "2026-03-08T07:30Z", "2026-03-08T08:00Z", "2026-03-09T06:30Z", "2026-03-09T07:00Z"
    )
    found = busy(seen(container, Tenant(owner.id, mode="test"), LOS_ANGELES, days=90))
    assert found == [
        DayActivity(date(2026, 3, 7), 1),
        DayActivity(date(2026, 3, 8), 2),
        DayActivity(date(2026, 3, 9), 1),
    ]


def test_everyone_has_their_own_mode_and_place(container: Container, http: TestClient, owner: Account) -> None:
    branch = make_sub_account(container, owner)
    real, teammate = make_live(container, owner), make_teammate(container, owner, branch)
    other = make_account(container, http, "other@example.com")
    at = "2026-05-04T09:10Z"
    for account, how_many in ((owner, 1), (real, 2), (teammate, 4), (other, 8)):
        order = sent_by(account)
        for what in COUNTED.values():
            tell(container, order, what, *[at] * how_many)
    all_of_it = {
        Tenant(owner.id, mode="test"): 5,
        Tenant(owner.id, mode="live"): 2,
        Tenant(owner.id, branch, "test"): 4,
        Tenant(owner.id, branch, "live"): 0,
        Tenant(other.id, mode="test"): 8,
    }
    for tenant, n in all_of_it.items():
        found = seen(container, tenant, HOME)
        assert (found.sent, found.delivered, found.scans) == (n, n, n), tenant
    with container.db.system_transaction() as tx:
        kept = sa.select(hourly_counts.c.mode, hourly_counts.c.what, sa.func.sum(hourly_counts.c.n))
        rows = tx.execute(kept.group_by(hourly_counts.c.mode, hourly_counts.c.what)).all()
        expected = {
            (mode, what): tx.execute(
                sa.select(sa.func.count())
                .select_from(facts)
                .where(facts.c.mode == mode, sa.or_(facts.c.kind == word, facts.c.current == word))
            ).scalar_one()
            for mode in ("test", "live")
            for what, word in COUNTED.items()
        }
        assert {(mode, what): n for mode, what, n in rows} == expected
        hours = set(tx.execute(sa.select(hourly_counts.c.hour)).scalars())
    assert hours == {datetime(2026, 5, 4, 9, tzinfo=UTC)}


ABROAD = person(address="3 Rue Haute", city="Paris", province=None, postal_code="75001", country="FR")


@pytest.fixture
def caller(container: Container) -> Caller:
    return open_account(container)


def with_the_printer(
    container: Container, clock: Clock, caller: Caller, whom: list[dict[str, Any]]
) -> tuple[Order, int]:
    """An order of these people, and its batch, which a printer has."""
    batch_id = compose_batch(container, clock, caller, whom)
    batch_tasks.hand_over_batch(container.production, batch_id, now=container.clock())
    with container.db.system_transaction() as tx:
        [order] = fulfillment_queries.read_batch_orders(tx, batch_id)
    return order, batch_id


def hear(container: Container, batch_id: int, **progress: Any) -> None:
    print_room_service.record_printer_progress(container.db, batch_id, PrintProgress(**progress), now=container.clock())


def reprint(container: Container, batch_id: int, *positions: int) -> int:
    made = print_room_service.reprint_items(
        container.db, container.environments["test"], batch_id, positions=positions, reason="Jam", now=container.clock()
    )
    for step in (batch_tasks.compose_batch, batch_tasks.hand_over_batch):
        step(container.production, made.batch_id, now=container.clock())
    return made.batch_id


def stands(container: Container, order: Order) -> tuple[str, int]:
    with container.db.system_transaction() as tx:
        row = order_row(tx, order)
    return row.status, row.n_mailed


def steps(container: Container, order: Order) -> list[str]:
    with container.db.system_transaction() as tx:
        return [fact.current for fact in fact_rows(tx, order) if fact.item_id is None]


def codes(container: Container, order: Order) -> list[str]:
    with container.db.system_transaction() as tx:
        return [row.tracking for row in print_rows(tx, order) if not row.superseded]


@pytest.mark.parametrize("by", ["a person", "the partner"])
def test_an_order_is_mailed_when_its_batch_is_marked_so(
    container: Container, clock: Clock, caller: Caller, by: str
) -> None:
    order, batch_id = with_the_printer(container, clock, caller, people(2))
    hear(container, batch_id, printed_at=clock.now())
    assert stands(container, order) == ("printing", 0)
    for _ in range(2):
        if by == "a person":
            reports.mark_batch(container.db, batch_id, "mailed", now=clock.now())
        else:
            hear(container, batch_id, mailed_at=clock.now())
    assert stands(container, order) == ("mailed", 2)
    assert steps(container, order) == ["reviewing", "processing", "printing", "mailed"]


def test_a_scan_before_the_mark_moves_the_order_first(container: Container, clock: Clock, caller: Caller) -> None:
    """Whoever hears that a piece is out for delivery never hears that its order is printing."""
    order, batch_id = with_the_printer(container, clock, caller, [person()])
    [code] = codes(container, order)
    ingest(container, scan(code, "3a", clock.now()))
    assert stands(container, order) == ("mailed", 1)
    with container.db.system_transaction() as tx:
        events = [(fact.current, fact.order_status) for fact in fact_rows(tx, order)]
    assert events[-3:] == [("Printed", "printing"), ("mailed", "mailed"), ("Processed for Delivery", "mailed")]
    hear(container, batch_id, mailed_at=clock.now())
    assert steps(container, order).count("mailed") == 1


def test_an_order_waits_for_its_last_piece(container: Container, clock: Clock, caller: Caller) -> None:
    order, _ = with_the_printer(container, clock, caller, people(3))
    first, second, third = codes(container, order)
    ingest(container, scan(first, "4c", clock.now()), scan(second, "1", clock.now()))
    assert stands(container, order) == ("printing", 2)
    ingest(container, scan(third, "1", clock.now()))
    assert stands(container, order) == ("mailed", 3)


def test_a_first_scan_that_is_the_delivery_marks_the_order_mailed_and_fulfilled(
    container: Container, clock: Clock, caller: Caller
) -> None:
    order, _ = with_the_printer(container, clock, caller, [person()])
    ingest(container, scan(codes(container, order)[0], "4c", clock.now()))
    assert steps(container, order)[-3:] == ["printing", "mailed", "fulfilled"]


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_spoiled_piece_does_not_hold_its_order_back(
    container: Container, clock: Clock, caller: Caller, when: str
) -> None:
    order, batch_id = with_the_printer(container, clock, caller, people(2))
    torn = [SpoiledItem(position=2, reason="Torn")]
    if when == "before":
        reports.mark_batch(container.db, batch_id, "spoiled", spoiled=torn, now=clock.now())
        hear(container, batch_id, mailed_at=clock.now())
    else:
        ingest(container, scan(codes(container, order)[0], "1", clock.now()))
        assert stands(container, order) == ("printing", 1)
        reports.mark_batch(container.db, batch_id, "spoiled", spoiled=torn, now=clock.now())
    assert stands(container, order) == ("mailed", 1)


def test_an_order_of_which_nothing_is_mailed_never_says_so(container: Container, clock: Clock, caller: Caller) -> None:
    order, batch_id = with_the_printer(container, clock, caller, [person()])
    reports.mark_batch(
        container.db, batch_id, "spoiled", spoiled=[SpoiledItem(position=1, reason="Torn")], now=clock.now()
    )
    assert steps(container, order)[-2:] == ["printing", "fulfilled"]


def test_a_piece_spoiled_after_it_was_marked_mailed_was_not_mailed(
    container: Container, clock: Clock, caller: Caller
) -> None:
    order, batch_id = with_the_printer(container, clock, caller, people(2))
    hear(container, batch_id, mailed_at=clock.now())
    reports.mark_batch(
        container.db, batch_id, "spoiled", spoiled=[SpoiledItem(position=1, reason="Torn")], now=clock.now()
    )
    assert stands(container, order) == ("mailed", 1)


def test_a_reprinted_piece_holds_its_order_back(container: Container, clock: Clock, caller: Caller) -> None:
    order, batch_id = with_the_printer(container, clock, caller, people(2))
    hear(container, batch_id, printed_at=clock.now())
    again = reprint(container, batch_id, 2)
    hear(container, batch_id, mailed_at=clock.now())
    assert stands(container, order) == ("printing", 1)
    hear(container, again, mailed_at=clock.now())
    assert stands(container, order) == ("mailed", 2)


def test_a_mailed_order_is_printing_again_while_a_piece_of_it_is(
    container: Container, clock: Clock, caller: Caller
) -> None:
    order, batch_id = with_the_printer(container, clock, caller, [person(), ABROAD])
    hear(container, batch_id, mailed_at=clock.now())
    again = reprint(container, batch_id, 1, 2)
    with container.db.system_transaction() as tx:
        row = order_row(tx, order)
        assert (row.status, row.n_mailed, row.n_over) == ("printing", 0, 0)
        assert [piece.is_mailed for piece in item_rows(tx, order)] == [False, False]
    hear(container, again, mailed_at=clock.now())
    assert stands(container, order) == ("mailed", 2)
    assert steps(container, order)[-4:] == ["printing", "mailed", "printing", "mailed"]


def test_an_order_abroad_is_mailed_and_then_fulfilled(container: Container, clock: Clock, caller: Caller) -> None:
    order, batch_id = with_the_printer(container, clock, caller, [ABROAD])
    hear(container, batch_id, printed_at=clock.now())
    assert stands(container, order) == ("printing", 0)
    hear(container, batch_id, mailed_at=clock.now())
    assert steps(container, order)[-2:] == ["mailed", "fulfilled"]


def test_what_is_heard_twice_at_once_moves_the_order_once(container: Container, clock: Clock, caller: Caller) -> None:
    order, batch_id = with_the_printer(container, clock, caller, [person()])
    [code] = codes(container, order)
    start = Barrier(2)

    def scanned() -> None:
        start.wait()
        ingest(container, scan(code, "1", clock.now()))

    def marked() -> None:
        start.wait()
        hear(container, batch_id, mailed_at=clock.now())

    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(scanned), pool.submit(marked)]:
            done.result()
    assert stands(container, order) == ("mailed", 1)
    assert steps(container, order).count("mailed") == 1


def test_one_batch_moves_every_order_that_it_completes(container: Container, clock: Clock, caller: Caller) -> None:
    order, batch_id = with_the_printer(container, clock, caller, people(2))
    other = create_order(container, caller, [person(address="77 Pine St")], message="Another")
    hear(container, batch_id, mailed_at=clock.now())
    assert (stands(container, order), stands(container, other)) == (("mailed", 2), ("reviewing", 0))
