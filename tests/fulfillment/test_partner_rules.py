"""Which print partner gets a batch, under which name, once, and what it is told."""

import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import sqlalchemy as sa

from quillpost.app.container import Container
from quillpost.cli.orders import format_waiting
from quillpost.core.database.tables.fulfillment import batches
from quillpost.core.errors import Conflict
from quillpost.fulfillment.batches import queries as fulfillment_queries
from quillpost.fulfillment.batches import tasks as batch_tasks
from quillpost.fulfillment.batches.rules import batch_reference
from quillpost.fulfillment.batches.service import WaitingOrders
from quillpost.fulfillment.models import HAND_OVER, ProductionContext
from quillpost.fulfillment.ports import PartnerDown, PrintJob, PrintProgress
from quillpost.fulfillment.print_room import service as print_room_service
from quillpost.fulfillment.print_room.reports import (
    PartnerReport,
    is_other_partner,
    partner_name,
    record_partner_report,
)
from support.factories import Clock, person
from support.orders import open_account
from support.production import compose_batch, delete_jobs, enqueued_steps
from support.waiting import wait_until

pytestmark = pytest.mark.usefixtures("clean_database")

SAME = [
    ("file:///press/in", "file:///press/in/"),
    ("file:/press/in", "FILE:///press/in"),
    ("sftp://press@print.example.com/in", "sftp://press@Print.Example.COM:22/in//"),
    ("https://print.example.com", "https://print.example.com:443/"),
    ("https://print.example.com/base", "HTTPS://PRINT.example.com/base/"),
    ("http://10.0.0.7/press", "http://10.0.0.7:80/press"),
    ("https://[2001:DB8::1]:443/in", "https://[2001:db8::1]/in"),
    ("folder", "folder"),
    ("sandbox", "sandbox"),
]
DIFFERENT = [
    ("folder", "sandbox"),
    ("folder", "file:///folder"),
    ("file:///press/in", "file:///press/In"),
    ("file:///press/in", "file:///press"),
    ("sftp://press@print.example.com/in", "sftp://other@print.example.com/in"),
    ("sftp://press@print.example.com/in", "sftp://Press@print.example.com/in"),
    ("sftp://press@print.example.com/in", "sftp://press@print.example.com:443/in"),
    ("sftp://press@print.example.com/in", "sftp://press@print.example.com/~/in"),
    ("https://print.example.com", "http://print.example.com"),
    ("https://print.example.com", "https://print.example.com:80"),
    ("https://print.example.com", "https://print.example.org"),
    ("https://[2001:db8::1]:8443/in", "https://[2001:db8::1]/in"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_the_same_address_in_other_words_is_the_same_partner(one: str, other: str) -> None:
    assert not is_other_partner(one, other)
    assert not is_other_partner(other, one)


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_another_place_is_another_partner(one: str, other: str) -> None:
    assert is_other_partner(one, other)
    assert is_other_partner(other, one)


@pytest.mark.parametrize("address", [address for pair in SAME + DIFFERENT for address in pair])
def test_a_name_is_its_own_name(address: str) -> None:
    assert partner_name(partner_name(address)) == partner_name(address)


def test_a_batch_that_knows_no_partner_may_be_anybodys() -> None:
    assert not is_other_partner(None, "folder")


NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)
NEW_YORK = ZoneInfo("America/New_York")
AT_FOUR = NOW + timedelta(hours=8)


def test_the_cutoff_is_shown_in_its_own_zone() -> None:
    line = format_waiting([WaitingOrders(AT_FOUR, 18, 1_204)], "live", zone=NEW_YORK, now=NOW)
    assert line == "1,204 pieces of 18 orders wait until 16:00 (America/New_York)."


def test_what_waits_longer_is_summed_up() -> None:
    later = [WaitingOrders(AT_FOUR + timedelta(days=n), 1, 40) for n in (1, 2)]
    line = format_waiting([WaitingOrders(AT_FOUR, 1, 1), *later], "test", zone=UTC, now=NOW)
    assert line == "1 piece of 1 test order waits until 20:00 (UTC), 80 pieces of 2 test orders longer."


def test_a_time_that_is_not_within_a_day_has_its_date() -> None:
    line = format_waiting([WaitingOrders(NOW + timedelta(days=1), 2, 3)], "live", zone=NEW_YORK, now=NOW)
    assert line == "3 pieces of 2 orders wait until 2026-05-05 08:00 (America/New_York)."


FORMER, PRESENT = "https://old.example.com/press", "https://new.example.com/press"


class Killed(BaseException):
    """What a process that is killed leaves of a call."""


class PrintShop:
    """A printer who may take a whole job and lose its answer."""

    def __init__(self, *, error: BaseException | None = None) -> None:
        self.error = error
        self.jobs: list[str] = []

    def submit(self, job: PrintJob, *, now: Any) -> None:
        self.jobs.append(job.reference)
        if self.error is not None:
            raise self.error

    def progress(self, reference: str, *, now: Any) -> PrintProgress:
        return PrintProgress()


@pytest.fixture
def batch_id(container: Container, clock: Clock) -> int:
    return compose_batch(container, clock, open_account(container), [person()])


def production_for(container: Container, printer: PrintShop, partner: str) -> ProductionContext:
    environment = replace(container.environments["test"], printer=printer, partner=partner)
    return replace(container.production, environments={"test": environment})


def read(container: Container, batch_id: int) -> fulfillment_queries.ProductionBatch:
    with container.db.system_transaction() as tx:
        return fulfillment_queries.read_batch(tx, batch_id)


def offer(container: Container, clock: Clock, batch_id: int, *, error: BaseException | None = None) -> PrintShop:
    """Offered to the former partner, whose answer is lost."""
    former = PrintShop(error=error or PartnerDown("It answered with status 504."))
    batch_tasks.hand_over_batch(production_for(container, former, FORMER), batch_id, now=clock.now())
    return former


def refuse_reoffer(container: Container, batch_id: int) -> str:
    before = read(container, batch_id)
    with pytest.raises(Conflict) as refused:
        print_room_service.retry_batch(container.db, batch_id, reoffer=True)
    assert read(container, batch_id) == before
    return refused.value.message


def test_whom_a_batch_is_offered_to_is_written_down_before_the_first_file_goes(
    container: Container, clock: Clock, batch_id: int
) -> None:
    known: list[str | None] = []

    class Looking(PrintShop):
        def submit(self, job: PrintJob, *, now: Any) -> None:
            known.append(read(container, batch_id).partner)

    batch_tasks.hand_over_batch(production_for(container, Looking(), FORMER), batch_id, now=clock.now())
    assert known == [FORMER]
    assert (read(container, batch_id).status, read(container, batch_id).partner) == ("handed", FORMER)


def test_a_batch_whose_answer_was_lost_goes_to_no_other_partner(
    container: Container, clock: Clock, batch_id: int
) -> None:
    former, present = offer(container, clock, batch_id), PrintShop()
    delete_jobs(container)
    for _ in range(2):
        batch_tasks.hand_over_batch(production_for(container, present, PRESENT), batch_id, now=clock.now())
    batch = read(container, batch_id)
    assert (batch.status, batch.partner) == ("composed", FORMER)
    assert batch.trouble == (
        f"It was offered to {FORMER}, who may have it. If so, set QUILLPOST_PRINT_PARTNER back until it is"
        f" handed over; if not, `quillpost print retry {batch_reference(batch_id)} --anew` offers it to {PRESENT}."
    )
    with container.db.system_transaction() as tx:
        assert enqueued_steps(tx) == [(HAND_OVER, {"batch_id": batch_id})]
    assert (former.jobs, present.jobs) == ([batch_reference(batch_id)], [])


def test_a_process_that_is_killed_before_it_writes_down_the_answer_leaves_the_name(
    container: Container, clock: Clock, batch_id: int
) -> None:
    with pytest.raises(Killed):
        offer(container, clock, batch_id, error=Killed())
    present = PrintShop()
    batch_tasks.hand_over_batch(production_for(container, present, PRESENT), batch_id, now=clock.now())
    assert (read(container, batch_id).partner, present.jobs) == (FORMER, [])


def test_a_former_partner_configured_again_takes_the_batch(container: Container, clock: Clock, batch_id: int) -> None:
    former = offer(container, clock, batch_id)
    batch_tasks.hand_over_batch(production_for(container, PrintShop(), PRESENT), batch_id, now=clock.now())
    former.error = None
    batch_tasks.hand_over_batch(production_for(container, former, FORMER + "/"), batch_id, now=clock.now())
    batch = read(container, batch_id)
    assert (batch.status, batch.trouble) == ("handed", None)
    assert former.jobs == [batch_reference(batch_id)] * 2


def test_a_retry_alone_changes_nothing_about_the_partner(container: Container, clock: Clock, batch_id: int) -> None:
    offer(container, clock, batch_id)
    print_room_service.retry_batch(container.db, batch_id)
    present = PrintShop()
    batch_tasks.hand_over_batch(production_for(container, present, PRESENT), batch_id, now=clock.now())
    assert (read(container, batch_id).partner, present.jobs) == (FORMER, [])


def test_a_batch_unknown_to_the_former_partner_is_offered_again(
    container: Container, clock: Clock, batch_id: int
) -> None:
    offer(container, clock, batch_id)
    present = PrintShop()
    production = production_for(container, present, PRESENT)
    batch_tasks.hand_over_batch(production, batch_id, now=clock.now())
    delete_jobs(container)
    print_room_service.retry_batch(container.db, batch_id, reoffer=True)
    batch = read(container, batch_id)
    assert (batch.status, batch.partner, batch.trouble, batch.trouble_at) == ("composed", None, None, None)
    with container.db.system_transaction() as tx:
        assert enqueued_steps(tx) == [(HAND_OVER, {"batch_id": batch_id})]
    batch_tasks.hand_over_batch(production, batch_id, now=clock.now())
    batch = read(container, batch_id)
    assert (batch.status, batch.partner, present.jobs) == ("handed", PRESENT, [batch_reference(batch_id)])


@pytest.mark.parametrize("status", ["new", "handed", "printed"])
def test_only_a_composed_batch_is_offered_again(container: Container, clock: Clock, batch_id: int, status: str) -> None:
    offer(container, clock, batch_id)
    with container.db.system_transaction() as tx:
        tx.execute(sa.update(batches).values(status=status))
    assert refuse_reoffer(container, batch_id) == (
        f"The batch is {status}: only one that is composed, and not handed over yet, can be offered anew."
    )


def test_a_mailed_batch_is_not_offered_again(container: Container, batch_id: int) -> None:
    with container.db.system_transaction() as tx:
        tx.execute(sa.update(batches).values(status="mailed"))
    assert refuse_reoffer(container, batch_id) == "The batch is in the mail: there is nothing left to do."


def test_a_batch_being_handed_over_is_not_offered_again(container: Container, clock: Clock, batch_id: int) -> None:
    offer(container, clock, batch_id)
    with container.db.system_transaction() as tx:
        running = "update procrastinate_jobs set status = 'doing' where task_name = :task"
        tx.execute(sa.text(running), {"task": HAND_OVER})
    assert "being handed over at this moment" in refuse_reoffer(container, batch_id)


def test_of_two_machines_with_other_settings_one_offers_the_batch(
    container: Container, clock: Clock, batch_id: int
) -> None:
    with container.db.system_transaction() as tx:
        assert fulfillment_queries.offer_batch(tx, batch_id, partner=FORMER).partner == FORMER
    with container.db.system_transaction() as tx:
        assert fulfillment_queries.offer_batch(tx, batch_id, partner=PRESENT).partner == FORMER
        tx.execute(sa.update(batches).values(status="handed", partner=None))
    with container.db.system_transaction() as tx:
        assert fulfillment_queries.offer_batch(tx, batch_id, partner=PRESENT).partner is None
    assert read(container, batch_id).partner is None


def test_a_step_that_begins_while_the_batch_is_taken_back_writes_its_partner_down_again(
    container: Container, clock: Clock, batch_id: int
) -> None:
    former = offer(container, clock, batch_id)
    production = production_for(container, former, FORMER)
    step = threading.Thread(
        target=batch_tasks.hand_over_batch, args=(production, batch_id), kwargs={"now": clock.now()}
    )

    def is_waiting() -> bool:
        with container.db.system_transaction() as other:
            return bool(other.execute(sa.text("select 1 from pg_locks where not granted")).first())

    with container.db.system_transaction() as tx:
        fulfillment_queries.read_batch(tx, batch_id, locked=True)
        fulfillment_queries.withdraw_offer(tx, batch_id)
        step.start()
        wait_until(is_waiting)
    step.join(timeout=30)
    assert (read(container, batch_id).partner, len(former.jobs)) == (FORMER, 2)


def test_a_partner_with_a_differently_written_address_is_the_same_partner(
    container: Container, clock: Clock, batch_id: int
) -> None:
    with container.db.system_transaction() as tx:
        written = "https://OLD.example.com:443/press/"
        handed = {"status": "handed", "handed_at": clock.now(), "partner": written}
        tx.execute(sa.update(batches).values(**handed))
    production = production_for(container, PrintShop(), FORMER)
    batch_tasks.poll_printer(production, batch_id, now=clock.now())
    assert read(container, batch_id).trouble is None
    record_partner_report(
        container.db,
        production.environments["test"],
        PartnerReport(batch_reference(batch_id), "printed", clock.now()),
        now=clock.now(),
    )
    assert read(container, batch_id).status == "printed"
