"""What the print room says of batches, and what it prints again."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.accounts.models import Caller
from quillpost.app.container import Container
from quillpost.core.database.tables.base import mailing_lists, orders
from quillpost.core.database.tables.fulfillment import batches, prints
from quillpost.core.errors import Conflict, Message, NotFound, Unavailable
from quillpost.fulfillment.batches import tasks as batch_tasks
from quillpost.fulfillment.models import COMPOSE, HAND_OVER, POLL_PRINTER
from quillpost.fulfillment.ports import PartnerDown, PrintJob, PrintProgress
from quillpost.fulfillment.print_room import service as print_room_service
from support import production as press
from support.factories import Build, Clock, people, person
from support.mailing_lists import make_list
from support.orders import balances, create_order, open_account, order_row
from support.production import batch_items, batch_statuses, hear_printer, read_batch, reprint
from support.rows import execute, scalar, scalars

pytestmark = pytest.mark.usefixtures("clean_database")

ABROAD = person(address="3 Rue Haute", city="Paris", province=None, postal_code="75001", country="FR")


def handed_batch(container: Container, clock: Clock, caller: Caller, whom: Sequence[dict[str, Any]]) -> int:
    return press.hand_over(container, press.compose_batch(container, clock, caller, whom))


# Progress


def test_a_batch_is_acknowledged_printed_and_mailed(container: Container, clock: Clock, caller: Caller) -> None:
    batch_id = handed_batch(container, clock, caller, people(2))
    heard, made, gone = (clock.now() + timedelta(minutes=n) for n in (1, 2, 3))
    clock.advance(hours=1)
    hear_printer(container, batch_id, acknowledged_at=heard)
    assert read_batch(container, batch_id).status == "handed"
    hear_printer(container, batch_id, printed_at=made)
    assert (read_batch(container, batch_id).status, batch_statuses(container, batch_id)) == ("printed", ["Printed"] * 2)
    for _ in range(2):
        hear_printer(container, batch_id, printed_at=made, mailed_at=gone)
    batch = read_batch(container, batch_id)
    assert (batch.status, batch.acknowledged_at, batch.printed_at, batch.mailed_at) == ("mailed", heard, made, gone)


def test_nobody_mails_in_the_future_or_before_there_is_one(container: Container, clock: Clock, caller: Caller) -> None:
    batch_id = press.compose_batch(container, clock, caller, [person()])
    with pytest.raises(Conflict, match="not been handed"):
        hear_printer(container, batch_id, printed_at=clock.now())
    with pytest.raises(Conflict, match="nothing to reprint"):
        reprint(container, batch_id, 1)
    with pytest.raises(NotFound):
        hear_printer(container, batch_id + 1, printed_at=clock.now())
    press.hand_over(container, batch_id)
    handed = clock.now()
    clock.advance(hours=1)
    hear_printer(container, batch_id, printed_at=handed - timedelta(days=400), mailed_at=handed + timedelta(days=400))
    batch = read_batch(container, batch_id)
    assert (batch.printed_at, batch.mailed_at) == (handed, clock.now())


@pytest.mark.parametrize(("printed_first", "kind"), [(False, "release"), (True, "refund")])
def test_a_spoiled_piece_fails_and_its_money_returns(
    container: Container, clock: Clock, caller: Caller, printed_first: bool, kind: str
) -> None:
    batch_id = handed_batch(container, clock, caller, people(3))
    order_id, torn = scalar(container, sa.select(orders.c.id)), batch_items(container, batch_id)[2].id
    if printed_first:
        hear_printer(container, batch_id, printed_at=clock.now())
    for _ in range(2):
        hear_printer(container, batch_id, spoiled={torn: "Torn", 999_999_999: "Nobody's"})
    hear_printer(container, batch_id, printed_at=clock.now())
    assert batch_statuses(container, batch_id) == ["Printed", "Failed", "Printed"]
    total = order_row(container, order_id).order_total
    assert balances(container, order_id) == {"credit": -total, "held": 0, "earned": total}
    assert scalars(container, "select kind from ledger_moves order by id").count(kind) == 1


def test_what_was_printed_for_abroad_can_still_spoil(container: Container, clock: Clock, caller: Caller) -> None:
    """Its way was over with the mailing; what never left the printer is given back all the same."""
    batch_id = handed_batch(container, clock, caller, [ABROAD])
    order_id, piece = scalar(container, sa.select(orders.c.id)), batch_items(container, batch_id)[1].id
    for moment, stands in (("printed_at", ("printing", 0)), ("mailed_at", ("fulfilled", 1))):
        hear_printer(container, batch_id, **{moment: clock.now()})
        row = order_row(container, order_id)
        assert (row.status, row.n_over) == stands
    for _ in range(2):
        hear_printer(container, batch_id, spoiled={piece: "Torn"})
    assert batch_statuses(container, batch_id) == ["Failed"]
    row = order_row(container, order_id)
    assert (row.status, row.n_over, row.n_failed, row.order_total) == ("fulfilled", 0, 1, 0)
    assert balances(container, order_id) == {"credit": 0, "held": 0, "earned": 0}


# Printing again


def test_a_reprint_is_a_batch_of_its_own_under_new_barcodes(container: Container, clock: Clock, caller: Caller) -> None:
    batch_id = handed_batch(container, clock, caller, people(4))
    made = reprint(container, batch_id, 2, 3)
    again = read_batch(container, made.batch_id)
    assert (again.reprint_of, again.rush, again.item_count, again.piece) == (batch_id, True, 2, "postcard-4x6")
    assert made.item_count == 2
    assert (COMPOSE, {"batch_id": made.batch_id}) in press.enqueued_steps(container)
    old, new = batch_items(container, batch_id), batch_items(container, made.batch_id)
    assert [item.id for item in new.values()] == [old[2].id, old[3].id]
    assert len({item.tracking for item in (*old.values(), *new.values())}) == 6
    press.hand_over(container, press.compose(container, made.batch_id))
    hear_printer(container, batch_id, printed_at=clock.now())
    assert batch_statuses(container, batch_id) == ["Printed", "Processing", "Processing", "Printed"]
    hear_printer(container, made.batch_id, printed_at=clock.now())
    assert batch_statuses(container, batch_id) == ["Printed"] * 4
    captured = scalar(container, "select sum(cents) from ledger_moves where kind = 'capture'")
    assert captured == scalar(container, "select sum(price_cents) from items")


def test_a_piece_is_reprinted_once_and_not_when_it_has_ended_or_was_seen_by_the_carrier(
    container: Container, clock: Clock, caller: Caller
) -> None:
    batch_id = handed_batch(container, clock, caller, people(4))
    inside = batch_items(container, batch_id)
    first = inside[1].id
    reprint(container, batch_id, item_ids=[first])
    with pytest.raises(Conflict, match="None of these pieces"):
        reprint(container, batch_id, item_ids=[first])
    editions = sa.select(prints.c.edition, prints.c.superseded).where(prints.c.item_id == first)
    assert execute(container, editions.order_by(prints.c.edition)) == [(0, True), (1, False)]
    execute(container, "update items set status = 'In Transit' where id = :seen", seen=inside[2].id)
    hear_printer(container, batch_id, spoiled={inside[3].id: ""})
    made = reprint(container, batch_id, 1, 2, 3, 4)
    assert [item.id for item in batch_items(container, made.batch_id).values()] == [inside[4].id]


def test_a_reprint_is_no_second_send_of_its_list(container: Container, clock: Clock, caller: Caller) -> None:
    batch_id = press.compose_batch(container, clock, caller, people(2))
    execute(container, "update items set mailing_list_id = :list", list=make_list(container, caller))
    press.hand_over(container, batch_id)
    press.hand_over(container, press.compose(container, reprint(container, batch_id, 1).batch_id))
    assert scalar(container, sa.select(mailing_lists.c.total_sends)) == 2


# Trouble

DOWN = "The print shop does not answer."


class Moody:
    """A printer that is down or is not, as the test says."""

    def __init__(self, *, is_down: bool) -> None:
        self.is_down = is_down
        self.jobs: list[str] = []

    def submit(self, job: PrintJob, *, now: Any) -> None:
        self._answer()
        self.jobs.append(job.reference)

    def progress(self, reference: str, *, now: Any) -> PrintProgress:
        self._answer()
        return PrintProgress(printed_at=now)

    def _answer(self) -> None:
        if self.is_down:
            raise PartnerDown(DOWN)


def test_a_printer_that_is_down_is_waited_for_and_shown(container: Container, clock: Clock, caller: Caller) -> None:
    printer = Moody(is_down=True)
    production = press.with_environment(container, printer=printer).production
    batch_id, since, waits = press.compose_batch(container, clock, caller, [person()]), clock.now(), []
    for _ in range(4):
        press.delete_jobs(container)
        batch_tasks.hand_over_batch(production, batch_id, now=clock.now())
        batch = read_batch(container, batch_id)
        assert (batch.status, batch.trouble, batch.trouble_at) == ("composed", DOWN, since)
        waits.append(scalar(container, "select scheduled_at from procrastinate_jobs") - clock.now())
        clock.advance(minutes=20)
    assert (waits, waits[-1]) == (sorted(waits), batch_tasks.MAX_RETRY_WAIT)
    printer.is_down = False
    batch_tasks.hand_over_batch(production, batch_id, now=clock.now())
    batch = read_batch(container, batch_id)
    assert (batch.status, batch.trouble, batch.trouble_at, len(printer.jobs)) == ("handed", None, None, 1)

    printer.is_down = True
    batch_tasks.poll_printer(production, batch_id, now=clock.now())
    assert read_batch(container, batch_id).trouble == DOWN
    assert (POLL_PRINTER, {"batch_id": batch_id}) in press.enqueued_steps(container)
    printer.is_down = False
    batch_tasks.poll_printer(production, batch_id, now=clock.now())
    batch = read_batch(container, batch_id)
    assert (batch.status, batch.trouble) == ("printed", None)


def test_a_new_partner_is_not_polled_for_earlier_ones(container: Container, clock: Clock, caller: Caller) -> None:
    batch_id = handed_batch(container, clock, caller, [person()])
    another = press.with_environment(container, printer=Moody(is_down=False), partner="https://print.example.com")
    batch_tasks.poll_printer(another.production, batch_id, now=clock.now())
    batch = read_batch(container, batch_id)
    assert (batch.status, batch.partner) == ("handed", "sandbox")
    assert batch.trouble == "It is with sandbox, who is no longer the print partner: mark it by hand."
    hear_printer(container, batch_id, printed_at=clock.now())
    assert batch_statuses(container, batch_id) == ["Printed"]


def test_nothing_is_composed_handed_over_or_reprinted_while_unready(build: Build, clock: Clock) -> None:
    container, lapsed = build(**press.LIVE_SETTINGS), "The permit has lapsed."
    create_order(container, open_account(container, mode="live"))
    press.sweep_due_orders(container, clock)
    batch_id = press.only_batch(container).id
    unready = press.with_environment(container, "live", gaps=(Message("permit", lapsed),))
    for status, step, name in (("new", press.compose, COMPOSE), ("composed", press.hand_over, HAND_OVER)):
        step(unready, batch_id)
        waiting = read_batch(container, batch_id)
        assert (waiting.status, waiting.trouble) == (status, lapsed)
        assert (name, {"batch_id": batch_id}) in press.enqueued_steps(container)
        assert list(container.storage.store.keys("print-jobs/")) == []
        step(container, batch_id)
    live = unready.environments["live"]
    with pytest.raises(Conflict, match="The permit has lapsed"):
        print_room_service.reprint_items(container.db, live, batch_id, positions=[1], reason="Jam", now=clock.now())


def test_a_step_that_was_given_up_is_taken_again(container: Container, clock: Clock, caller: Caller) -> None:
    batch_id = press.compose_batch(container, clock, caller, [person()])
    execute(container, "update procrastinate_jobs set status = 'failed' where args ? 'batch_id'")
    assert press.enqueued_steps(container) == []
    print_room_service.retry_batch(container.db, batch_id)
    assert press.enqueued_steps(container) == [(HAND_OVER, {"batch_id": batch_id})]
    given_up = "select count(*) from procrastinate_jobs where status = 'failed' and task_name = :task"
    assert scalar(container, given_up, task=HAND_OVER) == 0
    execute(container, sa.update(batches).values(status="mailed"))
    with pytest.raises(Conflict, match="in the mail"):
        print_room_service.retry_batch(container.db, batch_id)


# The same bytes again


def test_files_are_made_again_to_the_byte_whatever_happened(container: Container, clock: Clock, caller: Caller) -> None:
    batch_id = handed_batch(container, clock, caller, people(4))
    before, inside = press.files_of(container, batch_id), batch_items(container, batch_id)
    hear_printer(container, batch_id, spoiled={inside[1].id: "Torn"})
    reprint(container, batch_id, 2)
    hear_printer(container, batch_id, printed_at=clock.now(), mailed_at=clock.now())
    for key in before:
        container.storage.store.delete(key)
    clock.advance(days=30)
    # Another address for QR codes, another postage mark: what lies on paper stays as it was.
    elsewhere = press.with_environment(container, indicia={"first": ("OTHER",), "standard": ("OTHER",)}).production
    batch_tasks.remake_files(replace(elsewhere, qr_base="https://elsewhere.example.com"), batch_id)
    assert press.files_of(container, batch_id) == before
    execute(container, "update items set name = 'Someone Else'")
    with pytest.raises(Unavailable, match=r"print\.pdf: not the files that were composed"):
        batch_tasks.remake_files(container.production, batch_id)
    assert press.files_of(container, batch_id) == before


def test_a_batch_counts_what_is_printed_of_it(container: Container, clock: Clock, caller: Caller) -> None:
    order = create_order(container, caller, people(3))
    press.sweep_due_orders(container, clock)
    batch_id = press.only_batch(container).id
    with pytest.raises(Unavailable, match="not been composed"):
        batch_tasks.remake_files(container.production, batch_id)
    gone = batch_items(container, batch_id)[2].id
    execute(container, "update items set status = 'Failed' where id = :gone", gone=gone)
    press.compose(container, batch_id)
    assert read_batch(container, batch_id).item_count == 2
    assert gone not in [printed.item_id for printed in press.print_rows(container, order)]
