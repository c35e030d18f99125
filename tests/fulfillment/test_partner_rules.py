"""Which print partner gets a batch, under which name, once, and what it is told."""

import threading
from datetime import UTC, datetime, timedelta, tzinfo
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
from quillpost.fulfillment.models import HAND_OVER
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
from support.production import compose_batch, delete_jobs, enqueued_steps, read_batch, with_environment
from support.rows import execute
from support.waiting import is_lock_awaited, wait_until

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


def test_the_same_address_in_other_words_is_the_same_partner() -> None:
    for one, other in SAME:
        assert not is_other_partner(one, other), (one, other)
        assert not is_other_partner(other, one), (other, one)
    for one, other in DIFFERENT:
        assert is_other_partner(one, other), (one, other)
        assert is_other_partner(other, one), (other, one)
    for address in {address for pair in SAME + DIFFERENT for address in pair}:
        assert partner_name(partner_name(address)) == partner_name(address)
    assert not is_other_partner(None, "folder"), "a batch that knows no partner may be anybody's"


def test_the_cutoff_is_shown_in_its_own_zone_and_with_its_date_when_it_is_not_within_a_day() -> None:
    now, new_york = datetime(2026, 5, 4, 12, tzinfo=UTC), ZoneInfo("America/New_York")
    at_four, one_day = now + timedelta(hours=8), timedelta(days=1)
    several = [WaitingOrders(at_four, 1, 1), *(WaitingOrders(at_four + n * one_day, 1, 40) for n in (1, 2))]
    cases: list[tuple[list[WaitingOrders], str, tzinfo, str]] = [
        ([WaitingOrders(at_four, 18, 1_204)], "live", new_york,
         "1,204 pieces of 18 orders wait until 16:00 (America/New_York)."),
        ([WaitingOrders(now + one_day, 2, 3)], "live", new_york,
         "3 pieces of 2 orders wait until 2026-05-05 08:00 (America/New_York)."),
        (several, "test", UTC,
         "1 piece of 1 test order waits until 20:00 (UTC), 80 pieces of 2 test orders longer."),
    ]  # fmt: skip
    for waiting, mode, zone, line in cases:
        assert format_waiting(waiting, mode, zone=zone, now=now) == line


FORMER, PRESENT = "https://old.example.com/press", "https://new.example.com/press"


class Killed(BaseException):
    """What a process that is killed leaves of a call."""


class PrintShop:
    """A printer who may take a whole job and lose its answer."""

    def __init__(self, container: Container, partner: str, *, error: BaseException | None = None) -> None:
        self.production = with_environment(container, printer=self, partner=partner).production
        self.error = error
        self.jobs: list[str] = []

    def submit(self, job: PrintJob, *, now: Any) -> None:
        self.jobs.append(job.reference)
        if self.error is not None:
            raise self.error

    def progress(self, reference: str, *, now: Any) -> PrintProgress:
        return PrintProgress()

    def take(self, batch_id: int, clock: Clock) -> None:
        batch_tasks.hand_over_batch(self.production, batch_id, now=clock.now())


@pytest.fixture
def batch_id(container: Container, clock: Clock, clean_database: None) -> int:
    return compose_batch(container, clock, open_account(container), [person()])


def offer(container: Container, clock: Clock, batch_id: int, *, error: BaseException | None = None) -> PrintShop:
    """Offered to the former partner, whose answer is lost."""
    former = PrintShop(container, FORMER, error=error or PartnerDown("It answered with status 504."))
    former.take(batch_id, clock)
    return former


def test_a_batch_whose_answer_was_lost_goes_to_no_other_partner_before_a_person_says_so(
    container: Container, clock: Clock, batch_id: int
) -> None:
    former, present = offer(container, clock, batch_id), PrintShop(container, PRESENT)
    step = [(HAND_OVER, {"batch_id": batch_id})]
    delete_jobs(container)
    for _ in range(2):
        present.take(batch_id, clock)
    batch = read_batch(container, batch_id)
    assert (batch.status, batch.partner) == ("composed", FORMER)
    assert batch.trouble == (
        f"It was offered to {FORMER}, who may have it. If so, set QUILLPOST_PRINT_PARTNER back until it is"
        f" handed over; if not, `quillpost print retry {batch_reference(batch_id)} --anew` offers it to {PRESENT}."
    )
    assert enqueued_steps(container) == step
    print_room_service.retry_batch(container.db, batch_id)
    present.take(batch_id, clock)
    assert (read_batch(container, batch_id).partner, present.jobs) == (FORMER, []), "a retry alone changes nothing"

    delete_jobs(container)
    print_room_service.retry_batch(container.db, batch_id, reoffer=True)
    batch = read_batch(container, batch_id)
    assert (batch.status, batch.partner, batch.trouble, batch.trouble_at) == ("composed", None, None, None)
    assert enqueued_steps(container) == step
    present.take(batch_id, clock)
    batch = read_batch(container, batch_id)
    assert (batch.status, batch.partner) == ("handed", PRESENT)
    assert former.jobs == present.jobs == [batch_reference(batch_id)]


def test_whom_a_batch_is_offered_to_is_written_down_before_the_first_file_goes(
    container: Container, clock: Clock, batch_id: int
) -> None:
    """So a process that is killed before it writes down the answer leaves the name."""
    with pytest.raises(Killed):
        offer(container, clock, batch_id, error=Killed())
    present = PrintShop(container, PRESENT)
    present.take(batch_id, clock)
    assert (read_batch(container, batch_id).partner, present.jobs) == (FORMER, [])
    # The former partner, configured again, takes the batch.
    former = PrintShop(container, FORMER + "/")
    former.take(batch_id, clock)
    batch = read_batch(container, batch_id)
    assert (batch.status, batch.partner, batch.trouble) == ("handed", FORMER + "/", None)
    assert former.jobs == [batch_reference(batch_id)]


def test_only_a_composed_batch_that_nobody_hands_over_is_offered_again(
    container: Container, clock: Clock, batch_id: int
) -> None:
    offer(container, clock, batch_id)
    only = "only one that is composed, and not handed over yet, can be offered anew."
    refusals = {status: f"The batch is {status}: {only}" for status in ("new", "handed", "printed")}
    refusals |= {"mailed": "The batch is in the mail: there is nothing left to do."}
    refusals |= {"composed": "being handed over at this moment"}
    execute(container, "update procrastinate_jobs set status = 'doing' where task_name = :task", task=HAND_OVER)
    for status, message in refusals.items():
        execute(container, sa.update(batches).values(status=status))
        before = read_batch(container, batch_id)
        with pytest.raises(Conflict) as refused:
            print_room_service.retry_batch(container.db, batch_id, reoffer=True)
        assert message in refused.value.message
        assert read_batch(container, batch_id) == before


def test_of_two_machines_with_other_settings_one_offers_the_batch(container: Container, batch_id: int) -> None:
    def partner_of_offer(partner: str) -> str | None:
        with container.db.system_transaction() as tx:
            return fulfillment_queries.offer_batch(tx, batch_id, partner=partner).partner

    assert partner_of_offer(FORMER) == partner_of_offer(PRESENT) == FORMER
    execute(container, sa.update(batches).values(status="handed", partner=None))
    assert partner_of_offer(PRESENT) is None
    assert read_batch(container, batch_id).partner is None


def test_a_step_that_begins_while_the_batch_is_taken_back_writes_its_partner_down_again(
    container: Container, clock: Clock, batch_id: int
) -> None:
    former = offer(container, clock, batch_id)
    step = threading.Thread(target=former.take, args=(batch_id, clock))
    with container.db.system_transaction() as tx:
        fulfillment_queries.read_batch(tx, batch_id, locked=True)
        fulfillment_queries.withdraw_offer(tx, batch_id)
        step.start()
        wait_until(lambda: is_lock_awaited(container))
    step.join(timeout=30)
    assert (read_batch(container, batch_id).partner, len(former.jobs)) == (FORMER, 2)


def test_a_partner_with_a_differently_written_address_is_the_same_partner(
    container: Container, clock: Clock, batch_id: int
) -> None:
    written = {"status": "handed", "handed_at": clock.now(), "partner": "https://OLD.example.com:443/press/"}
    execute(container, sa.update(batches).values(**written))
    production = PrintShop(container, FORMER).production
    batch_tasks.poll_printer(production, batch_id, now=clock.now())
    assert read_batch(container, batch_id).trouble is None
    report = PartnerReport(batch_reference(batch_id), "printed", clock.now())
    record_partner_report(container.db, production.environments["test"], report, now=clock.now())
    assert read_batch(container, batch_id).status == "printed"
