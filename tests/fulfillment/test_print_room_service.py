"""What the print room says of batches, and what it prints again."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.accounts.models import Caller
from quillpost.app.container import Container
from quillpost.core.database.tables.base import mailing_lists
from quillpost.core.database.tables.fulfillment import batches, prints
from quillpost.core.errors import Conflict, Message, NotFound, Unavailable
from quillpost.fulfillment.batches import queries as fulfillment_queries
from quillpost.fulfillment.batches import tasks as batch_tasks
from quillpost.fulfillment.ports import PartnerDown, PrintJob, PrintProgress
from quillpost.fulfillment.print_room import service as print_room_service
from support.factories import Clock, people, person
from support.orders import balances, create_order, item_rows, open_account, order_row
from support.production import (
    LIVE_SETTINGS,
    batch_rows,
    compose_batch,
    delete_jobs,
    enqueued_steps,
    files_of,
    print_rows,
    sweep_due_orders,
)


@pytest.fixture
def owner(container: Container) -> Caller:
    return open_account(container)


def handed_batch(container: Container, clock: Clock, caller: Caller, whom: Sequence[dict[str, Any]]) -> int:
    batch_id = compose_batch(container, clock, caller, whom)
    batch_tasks.hand_over_batch(container.production, batch_id, now=container.clock())
    return batch_id


def take(container: Container, batch_id: int, **progress: Any) -> None:
    print_room_service.record_printer_progress(container.db, batch_id, PrintProgress(**progress), now=container.clock())


def statuses(container: Container, batch_id: int) -> list[str]:
    with container.db.system_transaction() as tx:
        return [item.status.value for item in fulfillment_queries.read_batch_items(tx, batch_id).values()]


def status(container: Container, batch_id: int) -> str:
    with container.db.system_transaction() as tx:
        return fulfillment_queries.read_batch(tx, batch_id).status


# Progress


def test_a_batch_is_acknowledged_printed_and_mailed(container: Container, clock: Clock, owner: Caller) -> None:
    batch_id = handed_batch(container, clock, owner, people(2))
    heard, made, gone = (clock.now() + timedelta(minutes=n) for n in (1, 2, 3))
    clock.advance(hours=1)
    take(container, batch_id, acknowledged_at=heard)
    assert status(container, batch_id) == "handed"
    take(container, batch_id, printed_at=made)
    assert (status(container, batch_id), statuses(container, batch_id)) == ("printed", ["Printed"] * 2)
    for _ in range(2):
        take(container, batch_id, printed_at=made, mailed_at=gone)
    with container.db.system_transaction() as tx:
        batch = fulfillment_queries.read_batch(tx, batch_id)
    assert batch.status == "mailed"
    assert (batch.acknowledged_at, batch.printed_at, batch.mailed_at) == (heard, made, gone)


def test_nobody_mails_in_the_future_or_before_the_batch_was_there(
    container: Container, clock: Clock, owner: Caller
) -> None:
    batch_id = handed_batch(container, clock, owner, [person()])
    handed = clock.now()
    clock.advance(hours=1)
    take(container, batch_id, printed_at=handed - timedelta(days=400), mailed_at=handed + timedelta(days=400))
    with container.db.system_transaction() as tx:
        batch = fulfillment_queries.read_batch(tx, batch_id)
    assert (batch.printed_at, batch.mailed_at) == (handed, clock.now())


def test_a_batch_that_the_printer_does_not_have_is_not_printed(
    container: Container, clock: Clock, owner: Caller
) -> None:
    batch_id = compose_batch(container, clock, owner, [person()])
    with pytest.raises(Conflict, match="not been handed"):
        take(container, batch_id, printed_at=clock.now())
    with pytest.raises(NotFound):
        take(container, batch_id + 1, printed_at=clock.now())


@pytest.mark.parametrize(("printed_first", "kind"), [(False, "release"), (True, "refund")])
def test_a_spoiled_piece_fails_and_its_money_returns(
    container: Container, clock: Clock, owner: Caller, printed_first: bool, kind: str
) -> None:
    batch_id = handed_batch(container, clock, owner, people(3))
    with container.db.system_transaction() as tx:
        [order] = fulfillment_queries.read_batch_orders(tx, batch_id)
        torn = fulfillment_queries.read_batch_items(tx, batch_id)[2].id
    if printed_first:
        take(container, batch_id, printed_at=clock.now())
    for _ in range(2):
        take(container, batch_id, spoiled={torn: "Torn", 999_999: "Nobody's"})
    take(container, batch_id, printed_at=clock.now())
    assert statuses(container, batch_id) == ["Printed", "Failed", "Printed"]
    with container.db.system_transaction() as tx:
        row = order_row(tx, order)
        books = balances(tx, order)
        moved = tx.execute(sa.text("select kind from ledger_moves order by id")).scalars().all()
    assert books == {"credit": -row.order_total, "held": 0, "earned": row.order_total}
    assert moved.count(kind) == 1


def test_what_was_printed_for_abroad_can_still_spoil(container: Container, clock: Clock, owner: Caller) -> None:
    """Its way was over with the mailing; what never left the printer is given back all the same."""
    abroad = person(address="3 Rue Haute", city="Paris", province=None, postal_code="75001", country="FR")
    batch_id = handed_batch(container, clock, owner, [abroad])
    with container.db.system_transaction() as tx:
        [order] = fulfillment_queries.read_batch_orders(tx, batch_id)
        piece = fulfillment_queries.read_batch_items(tx, batch_id)[1].id
    for timestamp, stands in (("printed_at", ("printing", 0)), ("mailed_at", ("fulfilled", 1))):
        take(container, batch_id, **{timestamp: clock.now()})
        with container.db.system_transaction() as tx:
            assert (order_row(tx, order).status, order_row(tx, order).n_over) == stands
    for _ in range(2):
        take(container, batch_id, spoiled={piece: "Torn"})
    assert statuses(container, batch_id) == ["Failed"]
    with container.db.system_transaction() as tx:
        row = order_row(tx, order)
        assert (row.status, row.n_over, row.n_failed, row.order_total) == ("fulfilled", 0, 1, 0)
        assert balances(tx, order) == {"credit": 0, "held": 0, "earned": 0}


# Printing again


def test_a_reprint_is_a_batch_of_its_own_under_new_barcodes(container: Container, clock: Clock, owner: Caller) -> None:
    batch_id = handed_batch(container, clock, owner, people(4))
    environment = container.environments["test"]
    made = print_room_service.reprint_items(
        container.db, environment, batch_id, positions=[2, 3], reason="Smudged", now=clock.now()
    )
    assert made.item_count == 2
    with container.db.system_transaction() as tx:
        reprinted = fulfillment_queries.read_batch(tx, made.batch_id)
        old, new = (
            fulfillment_queries.read_batch_items(tx, batch_id),
            fulfillment_queries.read_batch_items(tx, made.batch_id),
        )
        assert ("fulfillment.compose_batch", {"batch_id": made.batch_id}) in enqueued_steps(tx)
    assert (reprinted.reprint_of, reprinted.rush, reprinted.item_count, reprinted.piece) == (
        batch_id,
        True,
        2,
        "postcard-4x6",
    )
    assert [item.id for item in new.values()] == [old[2].id, old[3].id]
    codes = [item.tracking for item in (*old.values(), *new.values())]
    assert len(set(codes)) == 6
    for step in (batch_tasks.compose_batch, batch_tasks.hand_over_batch):
        step(container.production, made.batch_id, now=clock.now())
    take(container, batch_id, printed_at=clock.now())
    assert statuses(container, batch_id) == ["Printed", "Processing", "Processing", "Printed"]
    take(container, made.batch_id, printed_at=clock.now())
    assert statuses(container, batch_id) == ["Printed"] * 4
    with container.db.system_transaction() as tx:
        captured = tx.execute(sa.text("select sum(cents) from ledger_moves where kind = 'capture'")).scalar_one()
        assert captured == sum(
            row.price_cents for row in item_rows(tx, fulfillment_queries.read_batch_orders(tx, batch_id)[0])
        )


def test_a_piece_is_reprinted_by_its_number_and_once(container: Container, clock: Clock, owner: Caller) -> None:
    batch_id = handed_batch(container, clock, owner, people(2))
    environment = container.environments["test"]
    with container.db.system_transaction() as tx:
        first = fulfillment_queries.read_batch_items(tx, batch_id)[1].id
    print_room_service.reprint_items(
        container.db, environment, batch_id, item_ids=[first], reason="Lost", now=clock.now()
    )
    with pytest.raises(Conflict, match="None of these pieces"):
        print_room_service.reprint_items(
            container.db, environment, batch_id, item_ids=[first], reason="Lost", now=clock.now()
        )
    with container.db.system_transaction() as tx:
        rows = tx.execute(sa.select(prints).where(prints.c.item_id == first).order_by(prints.c.edition)).all()
    assert [(row.edition, row.superseded) for row in rows] == [(0, True), (1, False)]


def test_what_has_ended_or_was_seen_by_the_carrier_is_not_printed_again(
    container: Container, clock: Clock, owner: Caller
) -> None:
    batch_id = handed_batch(container, clock, owner, people(3))
    with container.db.system_transaction() as tx:
        inside = fulfillment_queries.read_batch_items(tx, batch_id)
        tx.execute(sa.text("update items set status = 'In Transit' where id = :i"), {"i": inside[2].id})
    take(container, batch_id, spoiled={inside[1].id: ""})
    made = print_room_service.reprint_items(
        container.db, container.environments["test"], batch_id, positions=[1, 2, 3], reason="Jam", now=clock.now()
    )
    with container.db.system_transaction() as tx:
        assert [item.id for item in fulfillment_queries.read_batch_items(tx, made.batch_id).values()] == [inside[3].id]


def test_a_batch_that_is_not_printed_yet_has_nothing_to_print_again(
    container: Container, clock: Clock, owner: Caller
) -> None:
    batch_id = compose_batch(container, clock, owner, [person()])
    with pytest.raises(Conflict, match="nothing to reprint"):
        print_room_service.reprint_items(
            container.db, container.environments["test"], batch_id, positions=[1], reason="Early", now=clock.now()
        )


def test_a_reprint_is_no_second_send_of_its_list(container: Container, clock: Clock, owner: Caller) -> None:
    batch_id = compose_batch(container, clock, owner, people(2))
    with container.db.system_transaction() as tx:
        a_list = tx.execute(
            sa.insert(mailing_lists)
            .values(
                account_id=owner.account_id, type="manual", description="All", is_suppression_list=False,
                processed=True, total_recipients=2, total_sends=0, total_scans=0, unique_scans=0,
                created_at=clock.now(), updated_at=clock.now(),
            )
            .returning(mailing_lists.c.id)
        ).scalar_one()  # fmt: skip
        tx.execute(sa.text("update items set mailing_list_id = :l"), {"l": a_list})
    batch_tasks.hand_over_batch(container.production, batch_id, now=clock.now())
    made = print_room_service.reprint_items(
        container.db, container.environments["test"], batch_id, positions=[1], reason="Jam", now=clock.now()
    )
    for step in (batch_tasks.compose_batch, batch_tasks.hand_over_batch):
        step(container.production, made.batch_id, now=clock.now())
    with container.db.system_transaction() as tx:
        assert tx.execute(sa.select(mailing_lists.c.total_sends)).scalar_one() == 2


# Trouble


class Moody:
    """A printer that is down until it is told otherwise."""

    def __init__(self) -> None:
        self.is_down = True
        self.jobs: list[str] = []

    def submit(self, job: PrintJob, *, now: Any) -> None:
        self._answer()
        self.jobs.append(job.reference)

    def progress(self, reference: str, *, now: Any) -> PrintProgress:
        self._answer()
        return PrintProgress(printed_at=now)

    def _answer(self) -> None:
        if self.is_down:
            raise PartnerDown("The print shop does not answer.")


def test_a_printer_that_is_down_is_waited_for_and_shown(container: Container, clock: Clock, owner: Caller) -> None:
    printer = Moody()
    environments = {"test": replace(container.environments["test"], printer=printer)}
    production = replace(container.production, environments=environments)
    batch_id = compose_batch(container, clock, owner, [person()])
    since = clock.now()
    waits = []
    for _ in range(4):
        delete_jobs(container)
        batch_tasks.hand_over_batch(production, batch_id, now=clock.now())
        with container.db.system_transaction() as tx:
            batch = fulfillment_queries.read_batch(tx, batch_id)
            booked_at = tx.execute(sa.text("select scheduled_at from procrastinate_jobs")).scalar_one()
        assert (batch.status, batch.trouble) == ("composed", "The print shop does not answer.")
        assert batch.trouble_at == since
        waits.append(booked_at - clock.now())
        clock.advance(minutes=20)
    assert waits == sorted(waits)
    assert waits[-1] == batch_tasks.MAX_RETRY_WAIT
    printer.is_down = False
    batch_tasks.hand_over_batch(production, batch_id, now=clock.now())
    with container.db.system_transaction() as tx:
        batch = fulfillment_queries.read_batch(tx, batch_id)
    assert (batch.status, batch.trouble, batch.trouble_at) == ("handed", None, None)
    assert len(printer.jobs) == 1


def test_a_printer_that_goes_down_later_is_waited_for_too(container: Container, clock: Clock, owner: Caller) -> None:
    printer = Moody()
    printer.is_down = False
    production = replace(
        container.production, environments={"test": replace(container.environments["test"], printer=printer)}
    )
    batch_id = compose_batch(container, clock, owner, [person()])
    batch_tasks.hand_over_batch(production, batch_id, now=clock.now())
    printer.is_down = True
    batch_tasks.poll_printer(production, batch_id, now=clock.now())
    with container.db.system_transaction() as tx:
        assert fulfillment_queries.read_batch(tx, batch_id).trouble == "The print shop does not answer."
        assert ("fulfillment.poll_printer", {"batch_id": batch_id}) in enqueued_steps(tx)
    printer.is_down = False
    batch_tasks.poll_printer(production, batch_id, now=clock.now())
    with container.db.system_transaction() as tx:
        batch = fulfillment_queries.read_batch(tx, batch_id)
    assert (batch.status, batch.trouble) == ("printed", None)


def test_a_new_partner_is_not_polled_for_the_former_ones_batches(
    container: Container, clock: Clock, owner: Caller
) -> None:
    batch_id = handed_batch(container, clock, owner, [person()])
    printer = Moody()
    printer.is_down = False
    another = replace(container.environments["test"], printer=printer, partner="https://print.example.com")
    batch_tasks.poll_printer(replace(container.production, environments={"test": another}), batch_id, now=clock.now())
    with container.db.system_transaction() as tx:
        batch = fulfillment_queries.read_batch(tx, batch_id)
    assert (batch.status, batch.partner) == ("handed", "sandbox")
    assert batch.trouble == "It is with sandbox, who is no longer the print partner: mark it by hand."
    take(container, batch_id, printed_at=clock.now())
    assert (status(container, batch_id), statuses(container, batch_id)) == ("printed", ["Printed"])


def test_nothing_is_handed_over_once_the_service_is_no_longer_ready(build: Any, clock: Clock) -> None:
    container = build(**LIVE_SETTINGS)
    create_order(container, open_account(container, mode="live"))
    sweep_due_orders(container, clock)
    with container.db.system_transaction() as tx:
        [batch] = batch_rows(tx)
    batch_tasks.compose_batch(container.production, batch.id, now=clock.now())
    unready = replace(container.environments["live"], gaps=(Message("permit", "The permit has lapsed."),))
    production = replace(container.production, environments={"live": unready})
    batch_tasks.hand_over_batch(production, batch.id, now=clock.now())
    with container.db.system_transaction() as tx:
        waiting = fulfillment_queries.read_batch(tx, batch.id)
    assert (waiting.status, waiting.trouble) == ("composed", "The permit has lapsed.")
    assert list(container.storage.store.keys("print-jobs/")) == []


def test_nothing_is_composed_or_reprinted_where_the_service_is_not_ready(build: Any, clock: Clock) -> None:
    container = build(**LIVE_SETTINGS)
    create_order(container, open_account(container, mode="live"))
    sweep_due_orders(container, clock)
    with container.db.system_transaction() as tx:
        [batch] = batch_rows(tx)
    unready = replace(container.environments["live"], gaps=(Message("permit", "The permit has lapsed."),))
    production = replace(container.production, environments={"live": unready})
    batch_tasks.compose_batch(production, batch.id, now=clock.now())
    with container.db.system_transaction() as tx:
        waiting = fulfillment_queries.read_batch(tx, batch.id)
        assert ("fulfillment.compose_batch", {"batch_id": batch.id}) in enqueued_steps(tx)
    assert (waiting.status, waiting.trouble) == ("new", "The permit has lapsed.")
    for step in (batch_tasks.compose_batch, batch_tasks.hand_over_batch):
        step(container.production, batch.id, now=clock.now())
    with pytest.raises(Conflict, match="The permit has lapsed"):
        print_room_service.reprint_items(container.db, unready, batch.id, positions=[1], reason="Jam", now=clock.now())


def test_a_step_that_was_given_up_is_taken_again(container: Container, clock: Clock, owner: Caller) -> None:
    batch_id = compose_batch(container, clock, owner, [person()])
    with container.db.system_transaction() as tx:
        tx.execute(sa.text("update procrastinate_jobs set status = 'failed' where args ? 'batch_id'"))
        assert enqueued_steps(tx) == []
    print_room_service.retry_batch(container.db, batch_id)
    with container.db.system_transaction() as tx:
        assert enqueued_steps(tx) == [("fulfillment.hand_over_batch", {"batch_id": batch_id})]
        given_up = "select count(*) from procrastinate_jobs where status = 'failed' and task_name = :task"
        assert tx.execute(sa.text(given_up), {"task": "fulfillment.hand_over_batch"}).scalar_one() == 0
    with container.db.system_transaction() as tx:
        tx.execute(sa.update(batches).values(status="mailed"))
    with pytest.raises(Conflict, match="in the mail"):
        print_room_service.retry_batch(container.db, batch_id)


# The same bytes again


def test_files_are_made_again_to_the_byte_whatever_became_of_the_pieces(
    container: Container, clock: Clock, owner: Caller
) -> None:
    batch_id = handed_batch(container, clock, owner, people(4))
    before = files_of(container, batch_id)
    with container.db.system_transaction() as tx:
        inside = fulfillment_queries.read_batch_items(tx, batch_id)
    take(container, batch_id, spoiled={inside[1].id: "Torn"})
    environment = container.environments["test"]
    print_room_service.reprint_items(
        container.db, environment, batch_id, positions=[2], reason="Smudged", now=clock.now()
    )
    take(container, batch_id, printed_at=clock.now(), mailed_at=clock.now())
    for key in before:
        container.storage.store.delete(key)
    clock.advance(days=30)
    # Another address for QR codes, another postage mark: what lies on paper stays as it was.
    elsewhere = replace(
        container.production,
        qr_base="https://elsewhere.example.com",
        environments={"test": replace(environment, indicia={"first": ("OTHER",), "standard": ("OTHER",)})},
    )
    batch_tasks.remake_files(elsewhere, batch_id)
    assert files_of(container, batch_id) == before


def test_files_that_would_differ_are_not_put_in_the_place_of_the_true_ones(
    container: Container, clock: Clock, owner: Caller
) -> None:
    batch_id = compose_batch(container, clock, owner, people(2))
    before = files_of(container, batch_id)
    with container.db.system_transaction() as tx:
        tx.execute(sa.text("update items set name = 'Someone Else'"))
    with pytest.raises(Unavailable, match=r"print\.pdf: not the files that were composed"):
        batch_tasks.remake_files(container.production, batch_id)
    assert files_of(container, batch_id) == before


def test_what_was_never_composed_cannot_be_made_again(container: Container, clock: Clock, owner: Caller) -> None:
    create_order(container, owner)
    sweep_due_orders(container, clock)
    with container.db.system_transaction() as tx:
        [batch] = batch_rows(tx)
    with pytest.raises(Unavailable, match="not been composed"):
        batch_tasks.remake_files(container.production, batch.id)


def test_a_batch_counts_what_is_printed_of_it(container: Container, clock: Clock, owner: Caller) -> None:
    order = create_order(container, owner, people(3))
    sweep_due_orders(container, clock)
    with container.db.system_transaction() as tx:
        [batch] = batch_rows(tx)
        gone = fulfillment_queries.read_batch_items(tx, batch.id)[2].id
        tx.execute(sa.text("update items set status = 'Failed' where id = :i"), {"i": gone})
    batch_tasks.compose_batch(container.production, batch.id, now=clock.now())
    with container.db.system_transaction() as tx:
        assert fulfillment_queries.read_batch(tx, batch.id).item_count == 2
        assert gone not in [printed.item_id for printed in print_rows(tx, order)]
