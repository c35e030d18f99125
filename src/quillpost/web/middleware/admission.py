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
from quillpost.core.shutdown import STOPPING
from quillpost.web.api.errors import HungUp
from quillpost.web.middleware.processor_load import ProcessorLoad

PLACES = 16
"""Requests at work at once in a process."""

LONG_LINE = 16
"""More waiting requests than a caller has who makes a few at once, some held up by a picture's host."""
LONG_LINES_EVERY = 0.1
"""Seconds between two requests of long lines, while the processor is fully used and others are inside."""

BETWEEN_REFUSALS = 0.005
WITHIN = 1.0
"""Seconds between two who are sent away, and in which all are whose time is over: of hundreds at once each
takes a moment of the event loop, and whoever is served meanwhile is not to wait for all of them."""


Refusal = Callable[[], Exception]


@dataclass(eq=False, slots=True)
class _Waiter:
    whose: Hashable
    admitted: asyncio.Future["Refusal | None"]
    """Makes the exception to refuse it with. Holding the exception itself would be a reference cycle (future,
    exception, traceback, frame) for the garbage collector, hundreds of times a second."""
    is_back: bool

    @property
    def waits(self) -> bool:
        return not self.admitted.done()


@dataclass(slots=True)
class _Line:
    """Who waits of one caller: those who have been inside before, and newcomers."""

    back: deque[_Waiter] = field(default_factory=deque)
    new: deque[_Waiter] = field(default_factory=deque)

    def of(self, waiter: _Waiter) -> deque[_Waiter]:
        return self.back if waiter.is_back else self.new

    def take(self) -> _Waiter:
        return (self.back or self.new).popleft()

    def __len__(self) -> int:
        return len(self.back) + len(self.new)


class Place:
    """One request's: inside, or outside for a while, and in the end gone."""

    def __init__(self, admission: "Admission", whose: Hashable, patience: float) -> None:
        self._admission = admission
        self._whose = whose
        self._patience = patience
        """Seconds that it will still wait."""
        self._is_inside = False
        self._was_inside = False
        self._waiter: _Waiter | None = None

    def enter_at_once(self) -> bool:
        """Whether there was room. Whoever was never inside finds a house closed that is about to end."""
        if self._admission.is_closed and not self._was_inside:
            raise Unavailable(STOPPING)
        if not self._is_inside and self._admission._take_free(self._whose):
            self._is_inside = self._was_inside = True
        return self._is_inside

    async def enter(self) -> None:
        """Wait for a turn; `Overloaded` where that takes too long. Who comes back is before newcomers."""
        if self.enter_at_once():
            return
        loop = asyncio.get_running_loop()
        since = loop.time()
        self._waiter = self._admission._line_up(self._whose, is_back=self._was_inside)
        await self._admission._wait(self._waiter, self._patience)
        self._patience = max(0.0, self._patience - (loop.time() - since))
        self._is_inside = self._was_inside = True

    def give_up(self, why: Refusal) -> None:
        """If it waits, it waits no longer: `enter` raises this."""
        if self._waiter is not None and self._waiter.waits:
            self._admission._send_away(self._waiter, why)

    def leave(self) -> None:
        """Let somebody else in. Safe to call twice."""
        if self._is_inside:
            self._is_inside = False
            self._admission._leave(self._whose)

    def become(self, whose: Hashable) -> None:
        """It has turned out whose it is; it is outside until it enters as that."""
        if whose != self._whose:
            self.leave()
            self._whose = whose


class Admission:
    """All places of a process, and the lines before them."""

    def __init__(
        self, *, share: int, patience: float, places: int = PLACES, load: ProcessorLoad | None = None
    ) -> None:
        self._places = places
        self._load = load
        self._share = share
        self._patience = patience
        self._inside: Counter[Hashable] = Counter()
        self._lines: dict[Hashable, _Line] = {}
        # Callers who wait, by how many places they have; each level in the order in which they came to it.
        self._levels: list[dict[Hashable, None]] = [{} for _ in range(places + 1)]
        self._overdue: deque[_Waiter] = deque()
        self._next_refusal: asyncio.TimerHandle | None = None
        self._next_look: asyncio.TimerHandle | None = None
        self._long_lines_at = 0.0
        self.is_closed = False

    def place(self, whose: Hashable, *, patience: float = 1) -> Place:
        """For a request that is to enter; some wait so many times as long as others."""
        return Place(self, whose, self._patience * patience)

    def close(self) -> None:
        """Nobody new comes in, and whoever waits to is sent away. Who was inside before may finish."""
        self.is_closed = True
        waiting = [waiter for line in self._lines.values() for waiter in line.new if waiter.waits]
        for waiter in waiting:
            self._send_away(waiter, lambda: Unavailable(STOPPING))

    def inside(self, whose: Hashable) -> int:
        return self._inside[whose]

    def waiting(self, whose: Hashable) -> int:
        return len(self._lines.get(whose, ()))

    @property
    def inside_in_all(self) -> int:
        return self._inside.total()

    @property
    def waiting_in_all(self) -> int:
        return sum(map(len, self._lines.values()))

    def _line_up(self, whose: Hashable, *, is_back: bool) -> _Waiter:
        waiter = _Waiter(whose, asyncio.get_running_loop().create_future(), is_back)
        line = self._lines.get(whose)
        if line is None:
            line = self._lines[whose] = _Line()
            self._levels[self._level(whose)][whose] = None
        line.of(waiter).append(waiter)
        return waiter

    async def _wait(self, waiter: _Waiter, patience: float) -> None:
        timer = asyncio.get_running_loop().call_later(patience, self._time_is_over, waiter)
        try:
            why = await waiter.admitted
        except asyncio.CancelledError:
            self._forget(waiter)
            admitted = waiter.admitted
            if not admitted.cancelled() and admitted.result() is None:  # let in as it was canceled
                self._leave(waiter.whose)
            raise
        finally:
            timer.cancel()
        if why is not None:
            raise why()

    def _take_free(self, whose: Hashable) -> bool:
        has_room = self._inside.total() < self._places and self._inside[whose] < self._share
        if whose in self._lines or not has_room:
            return False
        self._change(whose, 1)
        return True

    def _leave(self, whose: Hashable) -> None:
        self._change(whose, -1)
        self._let_in()

    def _change(self, whose: Hashable, by: int) -> None:
        """One place more or less; a caller who waits moves to the end of another level."""
        if whose in self._lines:
            del self._levels[self._level(whose)][whose]
        self._inside[whose] += by
        if not self._inside[whose]:
            del self._inside[whose]
        if whose in self._lines:
            self._levels[self._level(whose)][whose] = None

    def _level(self, whose: Hashable) -> int:
        return min(self._inside[whose], self._places)

    def _let_in(self) -> None:
        while self._inside.total() < self._places and (whose := self._next()) is not None:
            waiter = self._lines[whose].take()
            self._tidy(whose)
            if waiter.waits:
                self._change(whose, 1)
                waiter.admitted.set_result(None)

    def _next(self) -> Hashable | None:
        is_short = self._load is not None and self._load.is_high
        for level in self._levels[: self._share]:
            for whose in level:
                if not is_short or len(self._lines[whose]) <= LONG_LINE or self._is_time_for_long_lines():
                    return whose
        return None

    def _is_time_for_long_lines(self) -> bool:
        loop = asyncio.get_running_loop()
        if self._inside and loop.time() < self._long_lines_at:
            if self._next_look is None:
                self._next_look = loop.call_at(self._long_lines_at, self._look_again)
            return False
        self._long_lines_at = loop.time() + LONG_LINES_EVERY
        return True

    def _look_again(self) -> None:
        self._next_look = None
        self._let_in()

    def _forget(self, waiter: _Waiter) -> None:
        line = self._lines.get(waiter.whose)
        if line is not None and waiter in line.of(waiter):
            line.of(waiter).remove(waiter)
            self._tidy(waiter.whose)

    def _tidy(self, whose: Hashable) -> None:
        if not len(self._lines[whose]):
            del self._levels[self._level(whose)][whose]
            del self._lines[whose]

    def _send_away(self, waiter: _Waiter, why: Refusal) -> None:
        self._forget(waiter)
        waiter.admitted.set_result(why)

    def _time_is_over(self, waiter: _Waiter) -> None:
        self._overdue.append(waiter)
        if self._next_refusal is None:
            self._refuse_one()

    def _refuse_one(self) -> None:
        """The first whose time is over and whom nobody has let in meanwhile, and the next in a moment."""
        self._next_refusal = None
        while self._overdue:
            waiter = self._overdue.popleft()
            if waiter.waits:
                self._send_away(waiter, Overloaded)
                pause = min(BETWEEN_REFUSALS, WITHIN / (len(self._overdue) + 1))
                self._next_refusal = asyncio.get_running_loop().call_later(pause, self._refuse_one)
                return


class Passage:
    def __init__(
        self, admission: Admission, whose: Hashable, receive: Receive, *, patience: float = 1
    ) -> None:
        self._place = admission.place(whose, patience=patience)
        self._receive = receive
        self._come: deque[Message] = deque()
        """What came while we listened whether the caller is still there."""
        self._awaits_body = True

    async def enter(self) -> None:
        """Raises `Overloaded` where it takes too long, and `HungUp` when the caller has."""
        if self._place.enter_at_once():
            return
        listening = asyncio.ensure_future(self._until_gone())
        listening.add_done_callback(self._note_end)
        try:
            await self._place.enter()
        finally:
            listening.cancel()

    async def become(self, whose: Hashable) -> None:
        """It has turned out whose it is: it goes on among those of that caller."""
        self._place.become(whose)
        await self.enter()

    def leave(self) -> None:
        self._place.leave()

    async def receive(self) -> Message:
        """The next piece of the body. What is not there yet is awaited outside."""
        if not self._awaits_body:
            return await self._next()
        message = await self._awaited()
        if not message.get("more_body"):
            self._awaits_body = False
            if message["type"] != "http.disconnect":
                await self.enter()
        return message

    def sending(self, send: Send) -> Send:
        """All is done when the answer begins: whoever reads slowly keeps nobody else out."""

        async def send_outside(message: Message) -> None:
            self._awaits_body = False
            self.leave()
            await send(message)

        return send_outside

    async def _awaited(self) -> Message:
        piece = asyncio.ensure_future(self._next())
        try:
            await asyncio.sleep(0)
            if not piece.done():
                self.leave()
            return await piece
        finally:
            piece.cancel()

    def _note_end(self, listening: asyncio.Future[None]) -> None:
        if not listening.cancelled() and listening.exception() is None:
            self._place.give_up(HungUp)

    async def _next(self) -> Message:
        return self._come.popleft() if self._come else await self._receive()

    async def _until_gone(self) -> None:
        """Returns when the caller hangs up. Who still sends a body is not read any further, and so it cannot
        be told: that is found out when its turn has come."""
        if not self._come:
            self._come.append(await self._receive())
        last = self._come[-1]
        if last["type"] == "http.request" and not last.get("more_body"):
            last = await self._receive()
            self._come.append(last)
        if last["type"] != "http.disconnect":
            await asyncio.Event().wait()
