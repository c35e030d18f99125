"""A batch that one partner was offered, and another partner since: people are mailed once."""

import threading
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa
from placing import open_account
from pressing import booked, composed_batch, forget_jobs
from waiting import wait_until

from makers import Clock, person
from quillpost.app.container import Parts
from quillpost.core.database.tables.print_room import batches
from quillpost.core.errors import Conflict
from quillpost.fulfillment import production
from quillpost.fulfillment import queries as fulfillment_queries
from quillpost.fulfillment.models import HAND_OVER, Press
from quillpost.fulfillment.partners import Word, take_word
from quillpost.fulfillment.ports import PartnerDown, PrintJob, PrintProgress
from quillpost.fulfillment.print_room import service as print_room_service

FORMER, PRESENT = "https://old.example.com/press", "https://new.example.com/press"


class Killed(BaseException):
    """What a process that is killed leaves of a call."""


class PrintShop:
    """A printer who may take a whole job and lose its answer."""

    def __init__(self, *, fault: BaseException | None = None) -> None:
        self.fault = fault
        self.jobs: list[str] = []

    def submit(self, job: PrintJob, *, now: Any) -> None:
        self.jobs.append(job.reference)
        if self.fault is not None:
            raise self.fault

    def progress(self, reference: str, *, now: Any) -> PrintProgress:
        return PrintProgress()


@pytest.fixture
def batch_id(parts: Parts, clock: Clock) -> int:
    return composed_batch(parts, clock, open_account(parts), [person()])


def press_of(parts: Parts, printer: PrintShop, partner: str) -> Press:
    world = replace(parts.worlds["test"], printer=printer, partner=partner)
    return replace(parts.press, worlds={"test": world})


def read(parts: Parts, batch_id: int) -> fulfillment_queries.Batch:
    with parts.db.work() as tx:
        return fulfillment_queries.read_batch(tx, batch_id)


def offer(parts: Parts, clock: Clock, batch_id: int, *, fault: BaseException | None = None) -> PrintShop:
    """Offered to the former partner, whose answer is lost."""
    former = PrintShop(fault=fault or PartnerDown("It answered with status 504."))
    production.hand_over(press_of(parts, former, FORMER), batch_id, now=clock.now())
    return former


def refused_anew(parts: Parts, batch_id: int) -> str:
    before = read(parts, batch_id)
    with pytest.raises(Conflict) as refused:
        print_room_service.retry(parts.db, batch_id, anew=True)
    assert read(parts, batch_id) == before
    return refused.value.message


def test_whom_a_batch_is_offered_to_is_written_down_before_the_first_file_goes(
    parts: Parts, clock: Clock, batch_id: int
) -> None:
    known: list[str | None] = []

    class Looking(PrintShop):
        def submit(self, job: PrintJob, *, now: Any) -> None:
            known.append(read(parts, batch_id).partner)

    production.hand_over(press_of(parts, Looking(), FORMER), batch_id, now=clock.now())
    assert known == [FORMER]
    assert (read(parts, batch_id).status, read(parts, batch_id).partner) == ("handed", FORMER)


def test_a_batch_whose_answer_was_lost_goes_to_no_other_partner(
    parts: Parts, clock: Clock, batch_id: int
) -> None:
    former, present = offer(parts, clock, batch_id), PrintShop()
    forget_jobs(parts)
    for _ in range(2):
        production.hand_over(press_of(parts, present, PRESENT), batch_id, now=clock.now())
    batch = read(parts, batch_id)
    assert (batch.status, batch.partner) == ("composed", FORMER)
    assert batch.trouble == (
        f"It was offered to {FORMER}, who may have it. If so, set QUILLPOST_PRINT_PARTNER back until it is"
        f" handed over; if not, `quillpost print retry batch-000001 --anew` offers it to {PRESENT}."
    )
    with parts.db.work() as tx:
        assert booked(tx) == [(HAND_OVER, {"batch_id": batch_id})]
    assert (former.jobs, present.jobs) == (["batch-000001"], [])


def test_a_process_that_is_killed_before_it_writes_down_the_answer_leaves_the_name(
    parts: Parts, clock: Clock, batch_id: int
) -> None:
    with pytest.raises(Killed):
        offer(parts, clock, batch_id, fault=Killed())
    present = PrintShop()
    production.hand_over(press_of(parts, present, PRESENT), batch_id, now=clock.now())
    assert (read(parts, batch_id).partner, present.jobs) == (FORMER, [])


def test_a_partner_who_is_set_back_takes_the_batch(parts: Parts, clock: Clock, batch_id: int) -> None:
    former = offer(parts, clock, batch_id)
    production.hand_over(press_of(parts, PrintShop(), PRESENT), batch_id, now=clock.now())
    former.fault = None
    production.hand_over(press_of(parts, former, FORMER + "/"), batch_id, now=clock.now())
    batch = read(parts, batch_id)
    assert (batch.status, batch.trouble) == ("handed", None)
    assert former.jobs == ["batch-000001"] * 2


def test_a_retry_alone_changes_nothing_about_the_partner(parts: Parts, clock: Clock, batch_id: int) -> None:
    offer(parts, clock, batch_id)
    print_room_service.retry(parts.db, batch_id)
    present = PrintShop()
    production.hand_over(press_of(parts, present, PRESENT), batch_id, now=clock.now())
    assert (read(parts, batch_id).partner, present.jobs) == (FORMER, [])


def test_a_batch_that_the_former_partner_does_not_have_is_offered_anew(
    parts: Parts, clock: Clock, batch_id: int
) -> None:
    offer(parts, clock, batch_id)
    present = PrintShop()
    press = press_of(parts, present, PRESENT)
    production.hand_over(press, batch_id, now=clock.now())
    forget_jobs(parts)
    print_room_service.retry(parts.db, batch_id, anew=True)
    batch = read(parts, batch_id)
    assert (batch.status, batch.partner, batch.trouble, batch.trouble_at) == ("composed", None, None, None)
    with parts.db.work() as tx:
        assert booked(tx) == [(HAND_OVER, {"batch_id": batch_id})]
    production.hand_over(press, batch_id, now=clock.now())
    batch = read(parts, batch_id)
    assert (batch.status, batch.partner, present.jobs) == ("handed", PRESENT, ["batch-000001"])


@pytest.mark.parametrize("status", ["new", "handed", "printed"])
def test_only_what_is_composed_and_not_handed_over_is_offered_anew(
    parts: Parts, clock: Clock, batch_id: int, status: str
) -> None:
    offer(parts, clock, batch_id)
    with parts.db.work() as tx:
        tx.execute(sa.update(batches).values(status=status))
    assert refused_anew(parts, batch_id) == (
        f"The batch is {status}: only one that is composed, and not handed over yet, can be offered anew."
    )


def test_what_is_in_the_mail_is_not_offered_anew(parts: Parts, batch_id: int) -> None:
    with parts.db.work() as tx:
        tx.execute(sa.update(batches).values(status="mailed"))
    assert refused_anew(parts, batch_id) == "The batch is in the mail: there is nothing left to do."


def test_what_is_being_handed_over_is_not_offered_anew(parts: Parts, clock: Clock, batch_id: int) -> None:
    offer(parts, clock, batch_id)
    with parts.db.work() as tx:
        running = "update procrastinate_jobs set status = 'doing' where task_name = :task"
        tx.execute(sa.text(running), {"task": HAND_OVER})
    assert "being handed over at this moment" in refused_anew(parts, batch_id)


def test_of_two_machines_with_other_settings_one_offers_the_batch(
    parts: Parts, clock: Clock, batch_id: int
) -> None:
    with parts.db.work() as tx:
        assert fulfillment_queries.offer_batch(tx, batch_id, to=FORMER).partner == FORMER
    with parts.db.work() as tx:
        assert fulfillment_queries.offer_batch(tx, batch_id, to=PRESENT).partner == FORMER
        tx.execute(sa.update(batches).values(status="handed", partner=None))
    with parts.db.work() as tx:
        assert fulfillment_queries.offer_batch(tx, batch_id, to=PRESENT).partner is None
    assert read(parts, batch_id).partner is None


def test_a_step_that_begins_while_the_batch_is_taken_back_writes_its_partner_down_again(
    parts: Parts, clock: Clock, batch_id: int
) -> None:
    former = offer(parts, clock, batch_id)
    press = press_of(parts, former, FORMER)
    step = threading.Thread(target=production.hand_over, args=(press, batch_id), kwargs={"now": clock.now()})

    def is_waiting() -> bool:
        with parts.db.work() as other:
            return bool(other.execute(sa.text("select 1 from pg_locks where not granted")).first())

    with parts.db.work() as tx:
        fulfillment_queries.read_batch(tx, batch_id, locked=True)
        fulfillment_queries.take_back(tx, batch_id)
        step.start()
        wait_until(is_waiting)
    step.join(timeout=30)
    assert (read(parts, batch_id).partner, len(former.jobs)) == (FORMER, 2)


def test_a_partner_whose_address_was_written_otherwise_is_asked_and_believed(
    parts: Parts, clock: Clock, batch_id: int
) -> None:
    with parts.db.work() as tx:
        written = "https://OLD.example.com:443/press/"
        handed = {"status": "handed", "handed_at": clock.now(), "partner": written}
        tx.execute(sa.update(batches).values(**handed))
    press = press_of(parts, PrintShop(), FORMER)
    production.follow(press, batch_id, now=clock.now())
    assert read(parts, batch_id).trouble is None
    take_word(parts.db, press.worlds["test"], Word("batch-000001", "printed", clock.now()), now=clock.now())
    assert read(parts, batch_id).status == "printed"
