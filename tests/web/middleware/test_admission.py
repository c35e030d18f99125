"""Who is let in, who waits and who is sent away: one caller's crowd is nobody else's wait."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from quillpost.core.errors import Overloaded
from quillpost.web.middleware.admission import LONG_QUEUE_LENGTH, Admission, AdmissionTicket, ProcessorLoad

LONG = 3_600.0
Story = Callable[[], Awaitable[None]]


def tell(story: Story) -> None:
    async def within_time() -> None:
        async with asyncio.timeout(30):
            await story()

    asyncio.run(within_time())


async def entered(admission: Admission, whose: str) -> AdmissionTicket:
    place = admission.create_ticket(whose)
    await place.enter()
    return place


async def lined_up(admission: Admission, whose: str) -> asyncio.Task[AdmissionTicket]:
    """One who has to wait, and does."""
    before = admission.count_waiting(whose)
    task = asyncio.create_task(entered(admission, whose))
    while admission.count_waiting(whose) == before:
        await asyncio.sleep(0)
    return task


def test_one_caller_has_a_share_of_the_places_and_others_come_in_past_the_line() -> None:
    async def story() -> None:
        admission = Admission(max_per_caller=2, max_wait_seconds=LONG, max_concurrent=4)
        inside = [await entered(admission, "A") for _ in range(2)]
        waiting = [await lined_up(admission, "A") for _ in range(100)]
        await entered(admission, "B")
        await entered(admission, "B")
        assert (admission.count_admitted("A"), admission.count_admitted("B"), admission.count_waiting("A")) == (
            2,
            2,
            100,
        )
        inside[0].leave()
        await waiting[0]
        assert not any(task.done() for task in waiting[1:])
        for task in waiting[1:]:
            task.cancel()

    tell(story)


class Machine:
    """Used as much as it is said to be. Long after it was looked at, whenever it is looked at."""

    def __init__(self) -> None:
        self.is_busy = False
        self.now = self.spent = 0.0
        self.load = ProcessorLoad(self._tick, lambda: self.spent, lambda: (0, 0))

    def _tick(self) -> float:
        self.now += 10
        self.spent += 10 * self.is_busy
        return self.now


async def flooded(machine: Machine) -> tuple[Admission, list[AdmissionTicket], list[asyncio.Task[AdmissionTicket]]]:
    """All that A may have inside, and a long line, while the processor is what they wait for."""
    admission = Admission(max_per_caller=4, max_wait_seconds=LONG, max_concurrent=16, load=machine.load)
    machine.is_busy = True
    inside = [await entered(admission, "A") for _ in range(4)]
    return admission, inside, [await lined_up(admission, "A") for _ in range(LONG_QUEUE_LENGTH + 6)]


def test_while_the_processor_is_short_a_flood_comes_in_when_nobody_is_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quillpost.web.middleware.admission.LONG_QUEUE_INTERVAL_SECONDS", LONG)

    async def story() -> None:
        machine = Machine()
        admission, a, crowd = await flooded(machine)
        a.pop().leave()
        await crowd[0]  # for the first time, whoever is inside
        b = [await entered(admission, "B") for _ in range(4)]  # who calls a few at once has them all
        for place in [*a, crowd[0].result(), *b[1:]]:
            place.leave()
        assert (admission.count_admitted("A"), admission.count_admitted("B")) == (0, 1)
        b[0].leave()
        assert admission.count_admitted("A") == 1
        machine.is_busy = False
        (await crowd[1]).leave()
        await asyncio.gather(*crowd[2:6])
        assert admission.count_admitted("A") == 4
        for task in crowd[6:]:
            task.cancel()

    tell(story)


def test_while_others_stay_inside_a_flood_still_comes_in_now_and_then() -> None:
    async def story() -> None:
        admission, a, crowd = await flooded(Machine())
        await entered(admission, "B")
        for place in a:
            place.leave()
        for task in crowd[:5]:
            (await task).leave()
        for task in crowd[5:]:
            task.cancel()

    tell(story)


def test_where_all_places_are_taken_whoever_has_the_fewest_is_next() -> None:
    async def story() -> None:
        admission = Admission(max_per_caller=2, max_wait_seconds=LONG, max_concurrent=4)
        a = [await entered(admission, "A") for _ in range(2)]
        c = [await entered(admission, "C") for _ in range(2)]
        waiting = [await lined_up(admission, whose) for whose in ("A", "A", "C", "C")]
        newcomer = await lined_up(admission, "B")
        c[0].leave()
        await newcomer
        assert not any(task.done() for task in waiting)
        a[0].leave()  # A and C have one each and both wait: who has gone longer without is next
        await waiting[2]
        assert [task.done() for task in waiting] == [False, False, True, False]
        for task in waiting:
            task.cancel()

    tell(story)


def test_requests_that_wait_too_long_are_rejected_and_the_others_stay() -> None:
    async def story() -> None:
        admission = Admission(max_per_caller=1, max_wait_seconds=0, max_concurrent=4)
        inside = await entered(admission, "A")
        crowd = await asyncio.gather(*(entered(admission, "A") for _ in range(50)), return_exceptions=True)
        assert {type(each) for each in crowd} == {Overloaded}
        assert (admission.count_admitted("A"), admission.count_waiting("A")) == (1, 0)
        inside.leave()
        await entered(admission, "A")

    tell(story)


def test_giving_up_or_cancellation_leaves_no_trace() -> None:
    async def story() -> None:
        admission = Admission(max_per_caller=1, max_wait_seconds=LONG, max_concurrent=1)
        inside = await entered(admission, "A")
        gone = admission.create_ticket("A")
        leaving = asyncio.create_task(gone.enter())
        cancelled = await lined_up(admission, "A")
        gone.give_up(ConnectionResetError)
        with pytest.raises(ConnectionResetError):
            await leaving
        cancelled.cancel()
        # Not forgotten yet when the place becomes free: nobody else is let in through it.
        inside.leave()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        assert (admission.count_admitted("A"), admission.count_waiting("A")) == (0, 0)
        gone.give_up(ConnectionResetError)
        await entered(admission, "B")

    tell(story)


def test_a_request_canceled_right_after_rejection_frees_no_slot() -> None:
    async def story() -> None:
        admission = Admission(max_per_caller=1, max_wait_seconds=LONG, max_concurrent=1)
        inside = await entered(admission, "A")
        place = admission.create_ticket("A")
        turn = asyncio.create_task(place.enter())
        await asyncio.sleep(0)
        place.give_up(ConnectionResetError)
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn
        assert admission.count_admitted("A") == 1, "the one who is still inside"
        inside.leave()
        assert admission.total_admitted == 0

    tell(story)


def test_a_request_canceled_right_after_admission_passes_its_slot_on() -> None:
    async def story() -> None:
        admission = Admission(max_per_caller=1, max_wait_seconds=LONG, max_concurrent=1)
        inside = await entered(admission, "A")
        cancelled, next_one = await lined_up(admission, "A"), await lined_up(admission, "B")
        inside.leave()
        assert admission.count_admitted("B") == 1, "A had one, B none"
        (await next_one).leave()
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        assert admission.count_admitted("A") == 0

    tell(story)


def test_a_returning_request_goes_before_newcomers() -> None:
    async def story() -> None:
        admission = Admission(max_per_caller=1, max_wait_seconds=LONG, max_concurrent=4)
        first = await entered(admission, "A")
        first.leave()
        other = await entered(admission, "A")
        newcomer = await lined_up(admission, "A")
        back = asyncio.create_task(first.enter())
        await asyncio.sleep(0)
        other.leave()
        await back
        assert not newcomer.done()
        first.leave()
        first.leave()
        await newcomer
        assert admission.count_admitted("A") == 1

    tell(story)


def test_a_request_reassigned_to_another_caller_waits_in_their_queue() -> None:
    async def story() -> None:
        admission = Admission(max_per_caller=1, max_wait_seconds=LONG, max_concurrent=4)
        inside = await entered(admission, "A")
        place = await entered(admission, "some address")
        waiting = await lined_up(admission, "some address")
        place.change_caller("A")
        await waiting
        back = asyncio.create_task(place.enter())
        await asyncio.sleep(0)
        assert (admission.count_admitted("A"), admission.count_waiting("A"), back.done()) == (1, 1, False)
        inside.leave()
        await back
        assert (admission.count_admitted("A"), admission.count_admitted("some address")) == (1, 1)

    tell(story)
