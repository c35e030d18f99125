"""How many requests are at work at once, and who is next: fair by account.

A process works on so many requests at a time, fewer than there are connections and threads: inside, requests
would hold connections while they wait for threads, and threads for connections. Of one caller no more than a
share of them are inside, so that whatever they wait for there (a processor, the database, a picture), others
wait behind a few of that caller's and not behind all of them. While the processor is fully used, a caller
with a long line gets a place only when no request is inside, or a few times a second: others wait for one of
theirs at most. The rest waits on the event loop, holding nothing, in a line for each caller. A place that
becomes free goes to the caller who has the fewest, and among those to the one who has gone longest without.
Who waits too long is sent away; who hangs up is forgotten.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from starlette.types import Message, Receive, Send

from quillpost.core.errors import Overloaded, Unavailable
from quillpost.core.shutdown import STOPPING_MESSAGE
from quillpost.web.api.errors import RequestAborted
from quillpost.web.middleware.processor_load import ProcessorLoad

MAX_CONCURRENT_REQUESTS = 16
"""Requests at work at once in a process."""

LONG_QUEUE_LENGTH = 16
"""More waiting requests than a caller has who makes a few at once, some held up by a picture's host."""
LONG_QUEUE_INTERVAL_SECONDS = 0.1
"""Seconds between two requests of long lines, while the processor is fully used and others are inside."""

REFUSAL_INTERVAL_SECONDS = 0.005
MAX_REFUSAL_SPREAD_SECONDS = 1.0
"""Seconds between two who are sent away, and in which all are whose time is over: of hundreds at once each
takes a moment of the event loop, and whoever is served meanwhile is not to wait for all of them."""


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
    """Who waits of one caller: those who have been inside before, and newcomers."""

    returning: deque[_Waiter] = field(default_factory=deque)
    newcomers: deque[_Waiter] = field(default_factory=deque)

    def queue_for(self, waiter: _Waiter) -> deque[_Waiter]:
        return self.returning if waiter.is_returning else self.newcomers

    def pop_next(self) -> _Waiter:
        return (self.returning or self.newcomers).popleft()

    def __len__(self) -> int:
        return len(self.returning) + len(self.newcomers)


class AdmissionTicket:
    """One request's: inside, or outside for a while, and in the end gone."""

    def __init__(self, admission: "Admission", caller_key: Hashable, max_wait_seconds: float) -> None:
        self._admission = admission
        self._caller_key = caller_key
        self._seconds_left = max_wait_seconds
        """Seconds that it will still wait."""
        self._is_admitted = False
        self._was_admitted = False
        self._waiter: _Waiter | None = None

    def try_enter(self) -> bool:
        """Whether there was room. Whoever was never inside finds a house closed that is about to end."""
        if self._admission.is_closed and not self._was_admitted:
            raise Unavailable(STOPPING_MESSAGE)
        if not self._is_admitted and self._admission._try_admit(self._caller_key):
            self._is_admitted = self._was_admitted = True
        return self._is_admitted

    async def enter(self) -> None:
        """Wait for a turn; `Overloaded` where that takes too long. Who comes back is before newcomers."""
        if self.try_enter():
            return
        loop = asyncio.get_running_loop()
        started_at = loop.time()
        self._waiter = self._admission._enqueue(self._caller_key, is_returning=self._was_admitted)
        await self._admission._wait(self._waiter, self._seconds_left)
        self._seconds_left = max(0.0, self._seconds_left - (loop.time() - started_at))
        self._is_admitted = self._was_admitted = True

    def give_up(self, create_refusal: CreateRefusal) -> None:
        """If it waits, it waits no longer: `enter` raises this."""
        if self._waiter is not None and self._waiter.is_waiting:
            self._admission._refuse(self._waiter, create_refusal)

    def leave(self) -> None:
        """Let somebody else in. Safe to call twice."""
        if self._is_admitted:
            self._is_admitted = False
            self._admission._release(self._caller_key)

    def change_caller(self, caller_key: Hashable) -> None:
        """It has turned out whose it is; it is outside until it enters as that."""
        if caller_key != self._caller_key:
            self.leave()
            self._caller_key = caller_key


class Admission:
    """All places of a process, and the lines before them."""

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
        """For a request that is to enter; some wait so many times as long as others."""
        return AdmissionTicket(self, caller_key, self._max_wait_seconds * wait_factor)

    def close(self) -> None:
        """Nobody new comes in, and whoever waits to is sent away. Who was inside before may finish."""
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
        """One place more or less; a caller who waits moves to the end of another level."""
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
        """The first whose time is over and whom nobody has let in meanwhile, and the next in a moment."""
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
        self._buffered: deque[Message] = deque()
        """What came while we listened whether the caller is still there."""
        self._is_body_pending = True

    async def enter(self) -> None:
        """Raises `Overloaded` where it takes too long, and `HungUp` when the caller has."""
        if self._ticket.try_enter():
            return
        listening = asyncio.ensure_future(self._wait_for_disconnect())
        listening.add_done_callback(self._on_disconnect)
        try:
            await self._ticket.enter()
        finally:
            listening.cancel()

    async def change_caller(self, caller_key: Hashable) -> None:
        """It has turned out whose it is: it goes on among those of that caller."""
        self._ticket.change_caller(caller_key)
        await self.enter()

    def leave(self) -> None:
        self._ticket.leave()

    async def receive(self) -> Message:
        """The next piece of the body. What is not there yet is awaited outside."""
        if not self._is_body_pending:
            return await self._next_message()
        message = await self._receive_outside()
        if not message.get("more_body"):
            self._is_body_pending = False
            if message["type"] != "http.disconnect":
                await self.enter()
        return message

    def wrap_send(self, send: Send) -> Send:
        """All is done when the answer begins: whoever reads slowly keeps nobody else out."""

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
        """Returns when the caller hangs up. Who still sends a body is not read any further, and so it cannot
        be told: that is found out when its turn has come."""
        if not self._buffered:
            self._buffered.append(await self._receive())
        last = self._buffered[-1]
        if last["type"] == "http.request" and not last.get("more_body"):
            last = await self._receive()
            self._buffered.append(last)
        if last["type"] != "http.disconnect":
            await asyncio.Event().wait()
