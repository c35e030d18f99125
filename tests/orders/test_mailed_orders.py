"""An order is mailed when the carrier has every piece that will be mailed, however that becomes known."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest

from quillpost.accounts.models import Caller
from quillpost.app.container import Container
from quillpost.fulfillment.batches import queries as fulfillment_queries
from quillpost.fulfillment.batches import tasks as batch_tasks
from quillpost.fulfillment.ports import PrintProgress
from quillpost.fulfillment.print_room import reports
from quillpost.fulfillment.print_room import service as print_room_service
from quillpost.fulfillment.print_room.reports import SpoiledItem
from quillpost.orders.models import Order
from support.carrier_scans import ingest, scan
from support.factories import Clock, people, person
from support.orders import create_order, fact_rows, item_rows, open_account, order_row
from support.production import compose_batch, print_rows

pytestmark = pytest.mark.usefixtures("clean_database")

ABROAD = person(address="3 Rue Haute", city="Paris", province=None, postal_code="75001", country="FR")


@pytest.fixture
def owner(container: Container) -> Caller:
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
    container: Container, clock: Clock, owner: Caller, by: str
) -> None:
    order, batch_id = with_the_printer(container, clock, owner, people(2))
    hear(container, batch_id, printed_at=clock.now())
    assert stands(container, order) == ("printing", 0)
    for _ in range(2):
        if by == "a person":
            reports.mark_batch(container.db, batch_id, "mailed", now=clock.now())
        else:
            hear(container, batch_id, mailed_at=clock.now())
    assert stands(container, order) == ("mailed", 2)
    assert steps(container, order) == ["reviewing", "processing", "printing", "mailed"]


def test_a_scan_before_the_mark_moves_the_order_first(container: Container, clock: Clock, owner: Caller) -> None:
    """Whoever hears that a piece is out for delivery never hears that its order is printing."""
    order, batch_id = with_the_printer(container, clock, owner, [person()])
    [code] = codes(container, order)
    ingest(container, scan(code, "3a", clock.now()))
    assert stands(container, order) == ("mailed", 1)
    with container.db.system_transaction() as tx:
        events = [(fact.current, fact.order_status) for fact in fact_rows(tx, order)]
    assert events[-3:] == [("Printed", "printing"), ("mailed", "mailed"), ("Processed for Delivery", "mailed")]
    hear(container, batch_id, mailed_at=clock.now())
    assert steps(container, order).count("mailed") == 1


def test_an_order_waits_for_its_last_piece(container: Container, clock: Clock, owner: Caller) -> None:
    order, _ = with_the_printer(container, clock, owner, people(3))
    first, second, third = codes(container, order)
    ingest(container, scan(first, "4c", clock.now()), scan(second, "1", clock.now()))
    assert stands(container, order) == ("printing", 2)
    ingest(container, scan(third, "1", clock.now()))
    assert stands(container, order) == ("mailed", 3)


def test_a_first_scan_that_is_the_delivery_marks_the_order_mailed_and_fulfilled(
    container: Container, clock: Clock, owner: Caller
) -> None:
    order, _ = with_the_printer(container, clock, owner, [person()])
    ingest(container, scan(codes(container, order)[0], "4c", clock.now()))
    assert steps(container, order)[-3:] == ["printing", "mailed", "fulfilled"]


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_spoiled_piece_does_not_hold_its_order_back(
    container: Container, clock: Clock, owner: Caller, when: str
) -> None:
    order, batch_id = with_the_printer(container, clock, owner, people(2))
    torn = [SpoiledItem(position=2, reason="Torn")]
    if when == "before":
        reports.mark_batch(container.db, batch_id, "spoiled", spoiled=torn, now=clock.now())
        hear(container, batch_id, mailed_at=clock.now())
    else:
        ingest(container, scan(codes(container, order)[0], "1", clock.now()))
        assert stands(container, order) == ("printing", 1)
        reports.mark_batch(container.db, batch_id, "spoiled", spoiled=torn, now=clock.now())
    assert stands(container, order) == ("mailed", 1)


def test_an_order_of_which_nothing_is_mailed_never_says_so(container: Container, clock: Clock, owner: Caller) -> None:
    order, batch_id = with_the_printer(container, clock, owner, [person()])
    reports.mark_batch(
        container.db, batch_id, "spoiled", spoiled=[SpoiledItem(position=1, reason="Torn")], now=clock.now()
    )
    assert steps(container, order)[-2:] == ["printing", "fulfilled"]


def test_a_piece_spoiled_after_it_was_marked_mailed_was_not_mailed(
    container: Container, clock: Clock, owner: Caller
) -> None:
    order, batch_id = with_the_printer(container, clock, owner, people(2))
    hear(container, batch_id, mailed_at=clock.now())
    reports.mark_batch(
        container.db, batch_id, "spoiled", spoiled=[SpoiledItem(position=1, reason="Torn")], now=clock.now()
    )
    assert stands(container, order) == ("mailed", 1)


def test_a_reprinted_piece_holds_its_order_back(container: Container, clock: Clock, owner: Caller) -> None:
    order, batch_id = with_the_printer(container, clock, owner, people(2))
    hear(container, batch_id, printed_at=clock.now())
    again = reprint(container, batch_id, 2)
    hear(container, batch_id, mailed_at=clock.now())
    assert stands(container, order) == ("printing", 1)
    hear(container, again, mailed_at=clock.now())
    assert stands(container, order) == ("mailed", 2)


def test_a_mailed_order_is_printing_again_while_a_piece_of_it_is(
    container: Container, clock: Clock, owner: Caller
) -> None:
    order, batch_id = with_the_printer(container, clock, owner, [person(), ABROAD])
    hear(container, batch_id, mailed_at=clock.now())
    again = reprint(container, batch_id, 1, 2)
    with container.db.system_transaction() as tx:
        row = order_row(tx, order)
        assert (row.status, row.n_mailed, row.n_over) == ("printing", 0, 0)
        assert [piece.is_mailed for piece in item_rows(tx, order)] == [False, False]
    hear(container, again, mailed_at=clock.now())
    assert stands(container, order) == ("mailed", 2)
    assert steps(container, order)[-4:] == ["printing", "mailed", "printing", "mailed"]


def test_an_order_abroad_is_mailed_and_then_fulfilled(container: Container, clock: Clock, owner: Caller) -> None:
    order, batch_id = with_the_printer(container, clock, owner, [ABROAD])
    hear(container, batch_id, printed_at=clock.now())
    assert stands(container, order) == ("printing", 0)
    hear(container, batch_id, mailed_at=clock.now())
    assert steps(container, order)[-2:] == ["mailed", "fulfilled"]


def test_what_is_heard_twice_at_once_moves_the_order_once(container: Container, clock: Clock, owner: Caller) -> None:
    order, batch_id = with_the_printer(container, clock, owner, [person()])
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


def test_one_batch_moves_every_order_that_it_completes(container: Container, clock: Clock, owner: Caller) -> None:
    order, batch_id = with_the_printer(container, clock, owner, people(2))
    other = create_order(container, owner, [person(address="77 Pine St")], message="Another")
    hear(container, batch_id, mailed_at=clock.now())
    assert (stands(container, order), stands(container, other)) == (("mailed", 2), ("reviewing", 0))
