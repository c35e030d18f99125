"""Who is let in, who waits and who is sent away: one caller's crowd is nobody else's wait, and the places that accounts
share are filled by none of them."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from threading import Event

import pytest

from quillpost.core.errors import Overloaded, Unavailable
from quillpost.core.requests import ClientConnection, ClientDisconnected, FairQueue, client_context
from quillpost.web.middleware import admission as load_admission
from quillpost.web.middleware.admission import MEASURE_SECONDS, Admission, AdmissionTicket, ProcessorLoad
from support.waiting import in_time

LONG = 3_600.0


def admit(per_caller: int, in_all: int, *, wait: float = LONG, load: ProcessorLoad | None = None) -> Admission:
    return Admission(max_per_caller=per_caller, max_wait_seconds=wait, max_concurrent=in_all, load=load)


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


@in_time
async def test_one_caller_has_a_share_of_the_places_and_others_come_in_past_the_line() -> None:
    admission = admit(2, 4)
    inside = [await entered(admission, "A") for _ in range(2)]
    waiting = [await lined_up(admission, "A") for _ in range(100)]
    for _ in range(2):
        await entered(admission, "B")
    assert [admission.count_admitted(whose) for whose in "AB"] == [2, 2]
    assert admission.count_waiting("A") == 100
    inside[0].leave()
    await waiting[0]
    assert not any(task.done() for task in waiting[1:])
    for task in waiting[1:]:
        task.cancel()


class BusyMachine:
    """Used as much as it is said to be. Long after it was looked at, whenever it is looked at."""

    def __init__(self) -> None:
        self.is_busy = True
        self.now = self.spent = 0.0
        self.load = ProcessorLoad(self._tick, lambda: self.spent, lambda: (0, 0))

    def _tick(self) -> float:
        self.now += 10
        self.spent += 10 * self.is_busy
        return self.now


async def flooded(machine: BusyMachine) -> tuple[Admission, list[AdmissionTicket], list[asyncio.Task[AdmissionTicket]]]:
    """All that A may have inside, and a long line, while the processor is what they wait for."""
    admission = admit(4, 16, load=machine.load)
    inside = [await entered(admission, "A") for _ in range(4)]
    return admission, inside, [await lined_up(admission, "A") for _ in range(load_admission.LONG_QUEUE_LENGTH + 6)]


@in_time
async def test_while_the_processor_is_short_a_flood_comes_in_when_nobody_is_inside() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("quillpost.web.middleware.admission.LONG_QUEUE_INTERVAL_SECONDS", LONG)
        machine = BusyMachine()
        admission, a, crowd = await flooded(machine)
        a.pop().leave()
        await crowd[0]  # for the first time, whoever is inside
        b = [await entered(admission, "B") for _ in range(4)]  # who calls a few at once has them all
        for place in [*a, crowd[0].result(), *b[1:]]:
            place.leave()
        assert [admission.count_admitted(whose) for whose in "AB"] == [0, 1]
        b[0].leave()
        assert admission.count_admitted("A") == 1
        machine.is_busy = False
        (await crowd[1]).leave()
        await asyncio.gather(*crowd[2:6])
        assert admission.count_admitted("A") == 4
        for task in crowd[6:]:
            task.cancel()


@in_time
async def test_while_others_stay_inside_a_flood_still_comes_in_now_and_then() -> None:
    admission, a, crowd = await flooded(BusyMachine())
    await entered(admission, "B")
    for place in a:
        place.leave()
    for task in crowd[:5]:
        (await task).leave()
    for task in crowd[5:]:
        task.cancel()


@in_time
async def test_where_all_places_are_taken_whoever_has_the_fewest_is_next() -> None:
    admission = admit(2, 4)
    a = [await entered(admission, "A") for _ in range(2)]
    c = [await entered(admission, "C") for _ in range(2)]
    waiting = [await lined_up(admission, whose) for whose in "AACC"]
    newcomer = await lined_up(admission, "B")
    c[0].leave()
    await newcomer
    assert not any(task.done() for task in waiting)
    a[0].leave()  # A and C have one each and both wait: who has gone longer without is next
    await waiting[2]
    assert [task.done() for task in waiting] == [False, False, True, False]
    for task in waiting:
        task.cancel()


@in_time
async def test_requests_that_wait_too_long_are_rejected_and_the_others_stay() -> None:
    admission = admit(1, 4, wait=0)
    inside = await entered(admission, "A")
    crowd = await asyncio.gather(*(entered(admission, "A") for _ in range(50)), return_exceptions=True)
    assert {type(each) for each in crowd} == {Overloaded}
    assert (admission.count_admitted("A"), admission.count_waiting("A")) == (1, 0)
    inside.leave()
    await entered(admission, "A")


@in_time
async def test_giving_up_or_cancellation_leaves_no_trace() -> None:
    admission = admit(1, 1)
    inside, gone = await entered(admission, "A"), admission.create_ticket("A")
    leaving = asyncio.create_task(gone.enter())
    canceled = await lined_up(admission, "A")
    gone.give_up(ConnectionResetError)
    with pytest.raises(ConnectionResetError):
        await leaving
    canceled.cancel()
    # Not forgotten yet when the place becomes free: nobody else is let in through it.
    inside.leave()
    with pytest.raises(asyncio.CancelledError):
        await canceled
    assert (admission.count_admitted("A"), admission.count_waiting("A")) == (0, 0)
    gone.give_up(ConnectionResetError)
    await entered(admission, "B")


@in_time
async def test_a_request_canceled_right_after_rejection_frees_no_slot() -> None:
    admission = admit(1, 1)
    inside, place = await entered(admission, "A"), admission.create_ticket("A")
    turn = asyncio.create_task(place.enter())
    await asyncio.sleep(0)
    place.give_up(ConnectionResetError)
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn
    assert admission.count_admitted("A") == 1, "the one who is still inside"
    inside.leave()
    assert admission.total_admitted == 0


@in_time
async def test_a_request_canceled_right_after_admission_passes_its_slot_on() -> None:
    admission = admit(1, 1)
    inside = await entered(admission, "A")
    canceled, next_one = await lined_up(admission, "A"), await lined_up(admission, "B")
    inside.leave()
    assert admission.count_admitted("B") == 1, "A had one, B none"
    (await next_one).leave()
    canceled.cancel()
    with pytest.raises(asyncio.CancelledError):
        await canceled
    assert admission.count_admitted("A") == 0


@in_time
async def test_a_returning_request_goes_before_newcomers() -> None:
    admission = admit(1, 4)
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


@in_time
async def test_a_request_reassigned_to_another_caller_waits_in_their_queue() -> None:
    admission = admit(1, 4)
    inside, place = await entered(admission, "A"), await entered(admission, "some address")
    waiting = await lined_up(admission, "some address")
    place.change_caller("A")
    await waiting
    back = asyncio.create_task(place.enter())
    await asyncio.sleep(0)
    assert (admission.count_admitted("A"), admission.count_waiting("A"), back.done()) == (1, 1, False)
    inside.leave()
    await back
    assert (admission.count_admitted("A"), admission.count_admitted("some address")) == (1, 1)


@dataclass
class Machine:
    """Two processors, as somebody else would count them."""

    now: float = 100.0
    spent: float = 5.0
    ticks: tuple[int, int] = (1_000, 500)

    def load(self) -> ProcessorLoad:
        return ProcessorLoad(lambda: self.now, lambda: self.spent, lambda: self.ticks)

    def go_on(self, seconds: float, *, spent: float, idle: float) -> None:
        self.now += seconds
        self.spent += spent
        self.ticks = self.ticks[0] + round(200 * seconds), self.ticks[1] + round(200 * seconds * idle)


def test_the_process_or_the_machine_is_fully_used() -> None:
    for spent, idle, is_high in (
        (0.9, 0.5, True),  # the process computes all the time
        (0.3, 0.05, True),  # others take what it would need
        (0.3, 0.5, False),
        (0.0, 1.0, False),
    ):
        machine = Machine()
        load = machine.load()
        assert not load.is_high
        machine.go_on(1, spent=spent, idle=idle)
        assert load.is_high == is_high, (spent, idle)


def test_it_is_looked_at_now_and_then_and_without_ticks_the_process_is_what_counts() -> None:
    machine = Machine()
    load, seen = machine.load(), []
    for seconds, is_busy in (
        (MEASURE_SECONDS / 2, True), (MEASURE_SECONDS / 2, True), (load_admission.HIGH_LOAD_SECONDS / 2, False),
        (load_admission.HIGH_LOAD_SECONDS, False),
    ):  # fmt: skip
        machine.go_on(seconds, spent=seconds * is_busy, idle=not is_busy)
        seen.append(load.is_high)
    assert seen == [False, True, True, False]
    machine = Machine(ticks=(0, 0))
    load = ProcessorLoad(lambda: machine.now, lambda: machine.spent, lambda: (0, 0))
    machine.go_on(1, spent=0.1, idle=0)
    assert not load.is_high
    total, idle = load_admission.read_machine_ticks()
    assert 0 <= idle <= total


PLENTY = 30.0
BUSY = "All places are taken."


class Crowd:
    """Threads that take turns, and stay until they are let go."""

    def __init__(self, turns: FairQueue) -> None:
        self._turns = turns
        self._threads = ThreadPoolExecutor(8)
        self._leave = Event()
        self.order: list[str] = []

    def enter(self, account: str) -> Future[None]:
        """One who has a place when this returns."""
        inside = Event()
        entered = self._threads.submit(self._stay, ClientConnection(lambda: account), inside)
        assert inside.wait(PLENTY)
        return entered

    def wait(self, account: str) -> Future[None]:
        """One who has to wait, and does when this returns."""
        requested = Event()

        def whose() -> str:
            requested.set()
            return account

        waiting = self._threads.submit(self._stay, ClientConnection(whose), Event())
        assert requested.wait(PLENTY)
        return waiting

    def _stay(self, client: ClientConnection, inside: Event) -> None:
        with client_context(client), self._turns.slot(BUSY):
            self.order.append(str(client.account))
            inside.set()
            assert self._leave.wait(PLENTY)

    def end(self) -> None:
        self._leave.set()
        self._threads.shutdown()


@pytest.fixture
def crowd() -> Iterator[Crowd]:
    made = Crowd(FairQueue(3, 2, PLENTY))
    yield made
    made.end()


def test_an_account_never_has_all_places(crowd: Crowd) -> None:
    crowd.enter("a")
    crowd.enter("a")
    third = crowd.wait("a")
    crowd.enter("b")
    assert not third.done()
    assert crowd.order == ["a", "a", "b"]
    crowd.end()
    third.result()
    assert crowd.order == ["a", "a", "b", "a"]


def test_waiting_too_long_raises_unavailable() -> None:
    turns = FairQueue(1, 1, 0.01)
    with turns.slot(BUSY), pytest.raises(Unavailable, match=BUSY), turns.slot(BUSY):
        pass
    with turns.slot(BUSY):
        pass


def test_a_client_that_goes_waits_no_longer(crowd: Crowd) -> None:
    crowd.enter("a")
    crowd.enter("a")
    turns, client = crowd._turns, ClientConnection(lambda: "a")

    def wait() -> None:
        with client_context(client), turns.slot(BUSY):
            raise AssertionError

    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(wait)
        client.disconnect()
        with pytest.raises(ClientDisconnected):
            waiting.result(PLENTY)


def test_what_is_done_for_a_client_is_stopped_when_it_goes() -> None:
    stopped: list[str] = []
    client = ClientConnection()
    with client.on_disconnect(lambda: stopped.append("one")):
        with client.on_disconnect(lambda: stopped.append("over")):
            pass
        client.disconnect()
    assert stopped == ["one"]
    with pytest.raises(ClientDisconnected), client.on_disconnect(lambda: stopped.append("late")):
        pass
    assert stopped == ["one"]
