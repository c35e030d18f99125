"""How many requests are at work at once, and which is next: fair by account.

A process works on fewer requests than it has connections and threads: inside, requests would hold connections while
they wait for threads, and threads for connections. One caller gets only a share of the places, so others wait behind
a few of its requests and not behind all of them. While the processor is fully used, a caller with a long queue gets a
place only when no request is inside, or a few times a second. The rest waits on the event loop, holding nothing, in a
queue for each caller. A free place goes to the caller with the fewest, and among those to the one that has gone longest
without. A request that waits too long is refused; one whose caller hangs up is dropped.
"""

import asyncio
import math
import time
from collections import Counter, deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from pathlib import Path

from starlette.types import Message, Receive, Send

from quillpost.core.errors import Overloaded, Unavailable
from quillpost.core.requests import STOPPING_MESSAGE
from quillpost.web.api.errors import RequestAborted

HIGH_LOAD_SHARE = 0.8  # of one processor: Python computes on no more at a time
MIN_IDLE_SHARE = 0.1  # of all processors of the machine: the database and our other processes need them as well
MEASURE_SECONDS = 0.25
HIGH_LOAD_SECONDS = 1.0  # how long the load counts as high: what is done about it lowers it
PROC_STAT = Path("/proc/stat")


class ProcessorLoad:
    """Whether there is more to compute than this process, or its machine, can."""

    def __init__(
        self,
        now: Callable[[], float] = time.monotonic,
        process_seconds: Callable[[], float] = time.process_time,
        read_ticks: Callable[[], tuple[int, int]] | None = None,
    ) -> None:
        self._now, self._process_seconds, self._read_ticks = now, process_seconds, read_ticks or read_machine_ticks
        self._high_until = -math.inf
        self._measured_at, self._seconds_before = self._now(), self._process_seconds()
        self._ticks = self._read_ticks()

    @property
    def is_high(self) -> bool:
        now = self._now()
        if now - self._measured_at >= MEASURE_SECONDS:
            seconds, ticks = self._process_seconds(), self._read_ticks()
            elapsed_ticks, idle_ticks = (after - before for after, before in zip(ticks, self._ticks, strict=True))
            is_process_busy = seconds - self._seconds_before >= HIGH_LOAD_SHARE * (now - self._measured_at)
            if is_process_busy or (elapsed_ticks > 0 and idle_ticks <= MIN_IDLE_SHARE * elapsed_ticks):
                self._high_until = now + HIGH_LOAD_SECONDS
            self._measured_at, self._seconds_before, self._ticks = now, seconds, ticks
        return now < self._high_until


def read_machine_ticks() -> tuple[int, int]:
    """Ticks of all processors since the start, and those in which they were idle; zeros where they are not counted."""
    try:
        with PROC_STAT.open("rb") as counts:
            ticks = [int(count) for count in counts.readline().split()[1:9]]
    except (OSError, ValueError):
        return 0, 0
    return sum(ticks), sum(ticks[3:5])


MAX_CONCURRENT_REQUESTS = 16  # in a process
LONG_QUEUE_LENGTH = 16  # more than a caller has waiting who makes a few at once, some held up by a picture's host
LONG_QUEUE_INTERVAL_SECONDS = 0.1  # between two requests of long queues, under high load with others inside

# Overdue requests are refused one by one: hundreds at once would hold up the event loop for those being served.
REFUSAL_INTERVAL_SECONDS = 0.005
MAX_REFUSAL_SPREAD_SECONDS = 1.0

CreateRefusal = Callable[[], Exception]


@dataclass(eq=False, slots=True)
class _Waiter:
    caller_key: Hashable
    outcome: asyncio.Future["CreateRefusal | None"]
    """Makes the exception to refuse it with. Holding the exception itself would be a reference cycle (future,
    exception, traceback, frame) for the garbage collector, hundreds of times a second."""
    is_returning: bool

    @property
    def is_waiting(self) -> bool:
        return not self.outcome.done()


@dataclass(slots=True)
class _CallerQueue:
    """Requests of one caller that wait: those that have been inside before, and newcomers."""

    returning: deque[_Waiter] = field(default_factory=deque)
    newcomers: deque[_Waiter] = field(default_factory=deque)

    def queue_for(self, waiter: _Waiter) -> deque[_Waiter]:
        return self.returning if waiter.is_returning else self.newcomers

    def pop_next(self) -> _Waiter:
        return (self.returning or self.newcomers).popleft()

    def __len__(self) -> int:
        return len(self.returning) + len(self.newcomers)


class AdmissionTicket:
    """One request's place: it may leave and enter again, for example while its body arrives."""

    def __init__(self, admission: "Admission", caller_key: Hashable, max_wait_seconds: float) -> None:
        self._admission = admission
        self._caller_key = caller_key
        self._seconds_left = max_wait_seconds
        self._is_admitted = False
        self._was_admitted = False
        self._waiter: _Waiter | None = None

    def try_enter(self) -> bool:
        """Whether there was room. `Unavailable` on shutdown, unless it was inside before."""
        if self._admission.is_closed and not self._was_admitted:
            raise Unavailable(STOPPING_MESSAGE)
        if not self._is_admitted and self._admission._try_admit(self._caller_key):
            self._is_admitted = self._was_admitted = True
        return self._is_admitted

    async def enter(self) -> None:
        """Wait for a place, before newcomers if it was inside before; `Overloaded` if that takes too long."""
        if self.try_enter():
            return
        loop = asyncio.get_running_loop()
        started_at = loop.time()
        self._waiter = self._admission._enqueue(self._caller_key, is_returning=self._was_admitted)
        await self._admission._wait(self._waiter, self._seconds_left)
        self._seconds_left = max(0.0, self._seconds_left - (loop.time() - started_at))
        self._is_admitted = self._was_admitted = True

    def give_up(self, create_refusal: CreateRefusal) -> None:
        """If it waits, `enter` raises this."""
        if self._waiter is not None and self._waiter.is_waiting:
            self._admission._refuse(self._waiter, create_refusal)

    def leave(self) -> None:
        """Safe to call twice."""
        if self._is_admitted:
            self._is_admitted = False
            self._admission._release(self._caller_key)

    def change_caller(self, caller_key: Hashable) -> None:
        """It is outside until it enters as that caller."""
        if caller_key != self._caller_key:
            self.leave()
            self._caller_key = caller_key


class Admission:
    """All places of a process, and the queues for them."""

    def __init__(
        self,
        *,
        max_per_caller: int,
        max_wait_seconds: float,
        max_concurrent: int = MAX_CONCURRENT_REQUESTS,
        load: ProcessorLoad | None = None,
    ) -> None:
        self._max_concurrent = max_concurrent
        self._load = load
        self._max_per_caller = max_per_caller
        self._max_wait_seconds = max_wait_seconds
        self._admitted: Counter[Hashable] = Counter()
        self._queues: dict[Hashable, _CallerQueue] = {}
        # Callers who wait, by how many places they have; each level in the order in which they came to it.
        self._levels: list[dict[Hashable, None]] = [{} for _ in range(max_concurrent + 1)]
        self._overdue: deque[_Waiter] = deque()
        self._next_refusal: asyncio.TimerHandle | None = None
        self._next_retry: asyncio.TimerHandle | None = None
        self._long_queues_at = 0.0
        self.is_closed = False

    def create_ticket(self, caller_key: Hashable, *, wait_factor: float = 1) -> AdmissionTicket:
        return AdmissionTicket(self, caller_key, self._max_wait_seconds * wait_factor)

    def close(self) -> None:
        """Refuse newcomers, waiting ones too. Requests that were inside before may finish."""
        self.is_closed = True
        waiters = [waiter for queue in self._queues.values() for waiter in queue.newcomers if waiter.is_waiting]
        for waiter in waiters:
            self._refuse(waiter, lambda: Unavailable(STOPPING_MESSAGE))

    def count_admitted(self, caller_key: Hashable) -> int:
        return self._admitted[caller_key]

    def count_waiting(self, caller_key: Hashable) -> int:
        return len(self._queues.get(caller_key, ()))

    @property
    def total_admitted(self) -> int:
        return self._admitted.total()

    @property
    def total_waiting(self) -> int:
        return sum(map(len, self._queues.values()))

    def _enqueue(self, caller_key: Hashable, *, is_returning: bool) -> _Waiter:
        waiter = _Waiter(caller_key, asyncio.get_running_loop().create_future(), is_returning)
        queue = self._queues.get(caller_key)
        if queue is None:
            queue = self._queues[caller_key] = _CallerQueue()
            self._levels[self._level(caller_key)][caller_key] = None
        queue.queue_for(waiter).append(waiter)
        return waiter

    async def _wait(self, waiter: _Waiter, max_wait_seconds: float) -> None:
        timer = asyncio.get_running_loop().call_later(max_wait_seconds, self._on_timeout, waiter)
        try:
            create_refusal = await waiter.outcome
        except asyncio.CancelledError:
            self._remove_waiter(waiter)
            outcome = waiter.outcome
            if not outcome.cancelled() and outcome.result() is None:  # let in as it was canceled
                self._release(waiter.caller_key)
            raise
        finally:
            timer.cancel()
        if create_refusal is not None:
            raise create_refusal()

    def _try_admit(self, caller_key: Hashable) -> bool:
        has_room = self._admitted.total() < self._max_concurrent and self._admitted[caller_key] < self._max_per_caller
        if caller_key in self._queues or not has_room:
            return False
        self._change_admitted(caller_key, 1)
        return True

    def _release(self, caller_key: Hashable) -> None:
        self._change_admitted(caller_key, -1)
        self._admit_waiting()

    def _change_admitted(self, caller_key: Hashable, delta: int) -> None:
        """A caller who waits moves to the end of another level."""
        if caller_key in self._queues:
            del self._levels[self._level(caller_key)][caller_key]
        self._admitted[caller_key] += delta
        if not self._admitted[caller_key]:
            del self._admitted[caller_key]
        if caller_key in self._queues:
            self._levels[self._level(caller_key)][caller_key] = None

    def _level(self, caller_key: Hashable) -> int:
        return min(self._admitted[caller_key], self._max_concurrent)

    def _admit_waiting(self) -> None:
        while self._admitted.total() < self._max_concurrent and (caller_key := self._next_caller()) is not None:
            waiter = self._queues[caller_key].pop_next()
            self._remove_empty_queue(caller_key)
            if waiter.is_waiting:
                self._change_admitted(caller_key, 1)
                waiter.outcome.set_result(None)

    def _next_caller(self) -> Hashable | None:
        is_overloaded = self._load is not None and self._load.is_high
        for level in self._levels[: self._max_per_caller]:
            for caller_key in level:
                if (
                    not is_overloaded
                    or len(self._queues[caller_key]) <= LONG_QUEUE_LENGTH
                    or self._may_admit_long_queue()
                ):
                    return caller_key
        return None

    def _may_admit_long_queue(self) -> bool:
        loop = asyncio.get_running_loop()
        if self._admitted and loop.time() < self._long_queues_at:
            if self._next_retry is None:
                self._next_retry = loop.call_at(self._long_queues_at, self._retry_admit)
            return False
        self._long_queues_at = loop.time() + LONG_QUEUE_INTERVAL_SECONDS
        return True

    def _retry_admit(self) -> None:
        self._next_retry = None
        self._admit_waiting()

    def _remove_waiter(self, waiter: _Waiter) -> None:
        queue = self._queues.get(waiter.caller_key)
        if queue is not None and waiter in queue.queue_for(waiter):
            queue.queue_for(waiter).remove(waiter)
            self._remove_empty_queue(waiter.caller_key)

    def _remove_empty_queue(self, caller_key: Hashable) -> None:
        if not len(self._queues[caller_key]):
            del self._levels[self._level(caller_key)][caller_key]
            del self._queues[caller_key]

    def _refuse(self, waiter: _Waiter, create_refusal: CreateRefusal) -> None:
        self._remove_waiter(waiter)
        waiter.outcome.set_result(create_refusal)

    def _on_timeout(self, waiter: _Waiter) -> None:
        self._overdue.append(waiter)
        if self._next_refusal is None:
            self._refuse_next()

    def _refuse_next(self) -> None:
        self._next_refusal = None
        while self._overdue:
            waiter = self._overdue.popleft()
            if waiter.is_waiting:
                self._refuse(waiter, Overloaded)
                pause = min(REFUSAL_INTERVAL_SECONDS, MAX_REFUSAL_SPREAD_SECONDS / (len(self._overdue) + 1))
                self._next_refusal = asyncio.get_running_loop().call_later(pause, self._refuse_next)
                return


class RequestAdmission:
    def __init__(self, admission: Admission, caller_key: Hashable, receive: Receive, *, wait_factor: float = 1) -> None:
        self._ticket = admission.create_ticket(caller_key, wait_factor=wait_factor)
        self._receive = receive
        self._buffered: deque[Message] = deque()  # what came while we listened for a disconnect
        self._is_body_pending = True

    async def enter(self) -> None:
        """Raises `Overloaded` if it takes too long, and `RequestAborted` if the caller hangs up."""
        if self._ticket.try_enter():
            return
        listening = asyncio.ensure_future(self._wait_for_disconnect())
        listening.add_done_callback(self._on_disconnect)
        try:
            await self._ticket.enter()
        finally:
            listening.cancel()

    async def change_caller(self, caller_key: Hashable) -> None:
        self._ticket.change_caller(caller_key)
        await self.enter()

    def leave(self) -> None:
        self._ticket.leave()

    async def receive(self) -> Message:
        """The next chunk of the body. It waits outside for what is not there yet."""
        if not self._is_body_pending:
            return await self._next_message()
        message = await self._receive_outside()
        if not message.get("more_body"):
            self._is_body_pending = False
            if message["type"] != "http.disconnect":
                await self.enter()
        return message

    def wrap_send(self, send: Send) -> Send:
        """It leaves when the response begins: a slow reader keeps nobody out."""

        async def release_and_send(message: Message) -> None:
            self._is_body_pending = False
            self.leave()
            await send(message)

        return release_and_send

    async def _receive_outside(self) -> Message:
        next_message = asyncio.ensure_future(self._next_message())
        try:
            await asyncio.sleep(0)
            if not next_message.done():
                self.leave()
            return await next_message
        finally:
            next_message.cancel()

    def _on_disconnect(self, listening: asyncio.Future[None]) -> None:
        if not listening.cancelled() and listening.exception() is None:
            self._ticket.give_up(RequestAborted)

    async def _next_message(self) -> Message:
        return self._buffered.popleft() if self._buffered else await self._receive()

    async def _wait_for_disconnect(self) -> None:
        """Returns when the caller hangs up. While a body still arrives it is not read, so a disconnect goes unseen."""
        if not self._buffered:
            self._buffered.append(await self._receive())
        last = self._buffered[-1]
        if last["type"] == "http.request" and not last.get("more_body"):
            last = await self._receive()
            self._buffered.append(last)
        if last["type"] != "http.disconnect":
            await asyncio.Event().wait()
