"""Where scans are taken in: those of one moment are looked up and kept together, by one statement each.

Whoever waits for an answer has it when that statement has been committed, so a scan that was answered is
stored, whatever becomes of this process. A thread does all the asking; the requests only wait for it.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from enum import Enum
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import NamedTuple
from urllib.parse import quote

import structlog

from quillpost.core.clock import Clock
from quillpost.core.database import Database
from quillpost.core.errors import Unavailable
from quillpost.core.tokens import SPECIMEN_CODE
from quillpost.fulfillment.qr_scans import queries
from quillpost.fulfillment.qr_scans.queries import Coming, Line
from quillpost.fulfillment.qr_scans.rate_limits import Crowds
from quillpost.fulfillment.qr_scans.rules import CODE, Kind

log = structlog.get_logger(__name__)

MOST_AT_ONCE = 500
MOST_WAITING = 10_000
PATIENCE_SECONDS = 2.0
"""How long somebody who holds a card waits for us, at most."""

A_CROWD = 4
GATHERING_SECONDS = 0.003
"""Where so many came together, the next are waited for that long: each errand to the database serves more of
them. Whoever comes alone is seen to at once."""

REMEMBERED = 20_000
KNOWN_SECONDS = 60.0
LOST_SECONDS = 10.0
"""A code that was asked for too early, or in vain, is asked for again soon."""

MOST_A_MINUTE = 30
"""Scans of one piece that are kept in a minute, of people and of each kind of machine."""

URL_SIGNS = ":/%#?=@[]!$&'()*+,;"
AWAY = "Your scan could not be noted just now. Scan the code again in a few seconds."


class Lost(Enum):
    """Why a code leads nowhere."""

    UNKNOWN = "unknown"
    EXPIRED = "expired"
    SPECIMEN = "specimen"
    """It is no piece's: a preview carries it."""


class Known(NamedTuple):
    """The piece that carries the code, and where it leads, as a header has it."""

    item_id: int
    location: bytes


Found = Known | Lost


class Asked(NamedTuple):
    """A request that waits. `counts` is false for one that only asks where a code leads."""

    answer: "asyncio.Future[Found]"
    code: str
    found: Found | None
    at: datetime
    kind: Kind
    agent: str
    counts: bool


class Desk:
    def __init__(
        self,
        db: Database,
        clock: Clock,
        *,
        valid: timedelta | None = None,
        most_a_minute: int = MOST_A_MINUTE,
        ticks: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        """Codes lead somewhere as long after their piece was made as they are `valid`; else for ever. Of a
        piece `most_a_minute` are kept; who comes after them is led on."""
        self._line = Line(db)
        self._clock = clock
        self._valid = valid
        self._ticks = ticks
        self._crowds = Crowds(most_a_minute, ticks=ticks)
        self._waiting: SimpleQueue[Asked | None] = SimpleQueue()
        self._remembered: dict[str, tuple[float, Found]] = {}
        self._thread: Thread | None = None
        self._starting = Lock()
        self._pause = pause
        self._is_crowded = False
        self._listeners: list[Callable[[], None]] = []

    @contextmanager
    def heard_by(self, told: Callable[[], None]) -> Iterator[None]:
        """Meanwhile it is called, in the desk's thread, whenever scans have been kept."""
        self._listeners.append(told)
        try:
            yield
        finally:
            self._listeners.remove(told)

    def recall(self, code: str) -> Found | None:
        """What was found of the code a moment ago, or what needs no looking up."""
        remembered = self._remembered.get(code)
        if remembered is not None and remembered[0] > self._ticks():
            return remembered[1]
        if code == SPECIMEN_CODE:
            return Lost.SPECIMEN
        return None if CODE.fullmatch(code) else Lost.UNKNOWN

    async def follow(self, code: str, found: Found | None, kind: Kind, agent: str, *, counts: bool) -> Found:
        """Where the code leads, the scan kept; `Unavailable` where that cannot be said in time."""
        if self._waiting.qsize() > MOST_WAITING:
            raise Unavailable(AWAY)
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Found] = loop.create_future()
        self._waiting.put(Asked(answer, code, found, self._clock(), kind, agent, counts))
        if self._thread is None:
            self._start()
        patience = loop.call_later(PATIENCE_SECONDS, _give_up, answer)
        try:
            return await answer
        finally:
            patience.cancel()

    def close(self) -> None:
        """Whoever waits is answered first. A scan that comes later opens the desk again."""
        with self._starting:
            thread = self._thread
        if thread is not None:
            self._waiting.put(None)
            thread.join()

    def _start(self) -> None:
        with self._starting:
            if self._thread is None:
                self._thread = Thread(target=self._serve, name="scans", daemon=True)
                self._thread.start()

    def _serve(self) -> None:
        """Whatever ends this thread, the next scan finds none and starts another."""
        try:
            while (asked := self._next()) is not None:
                self._answer([one for one in asked if not one.answer.done()])
        finally:
            self._line.close()
            with self._starting:
                self._thread = None
            if not self._waiting.empty():
                self._start()

    def _next(self) -> list[Asked] | None:
        """All who wait, once somebody does; nothing when the desk closes."""
        if (first := self._waiting.get()) is None:
            return None
        asked = [first]
        if self._is_crowded:
            self._pause(GATHERING_SECONDS)
        with suppress(Empty):
            while len(asked) < MOST_AT_ONCE:
                if (one := self._waiting.get_nowait()) is None:
                    self._waiting.put(None)  # for the next time: these come first
                    break
                asked.append(one)
        self._is_crowded = len(asked) >= A_CROWD
        return asked

    def _answer(self, asked: Sequence[Asked]) -> None:
        try:
            kept = self._take_in(asked)
        except Unavailable as away:
            self._crowds.forget()
            _tell(asked, {}, away)
        except Exception as fault:
            self._crowds.forget()
            log.exception("scans.stumbled", scans=len(asked))
            _tell(asked, {}, fault)
        else:
            if kept:
                log.info("scans.kept", scans=kept)
                for told in list(self._listeners):
                    told()

    def _take_in(self, asked: Sequence[Asked]) -> int:
        """How many scans were kept. Whoever asked is answered when they are."""
        found = {one.code: one.found for one in asked if one.found is not None}
        missing = {one.code for one in asked} - found.keys()
        with self._line.open() as connection:
            if missing:
                fresh = {lead.code: self._judge(lead) for lead in queries.look_up(connection, missing)}
                found |= {code: fresh.get(code, Lost.UNKNOWN) for code in missing}
            coming = self._crowds.admit(
                Coming(known.item_id, one.at, one.kind, one.agent)
                for one in asked
                if one.counts and isinstance(known := found[one.code], Known)
            )
            if coming:
                queries.keep(connection, coming)
        self._remember({code: found[code] for code in missing})
        _tell(asked, found, None)
        return len(coming)

    def _judge(self, lead: queries.Lead) -> Found:
        if self._valid is not None and lead.made_at + self._valid <= self._clock():
            return Lost.EXPIRED
        return Known(lead.item_id, quote(lead.url, safe=URL_SIGNS).encode())

    def _remember(self, found: dict[str, Found]) -> None:
        now = self._ticks()
        for code, one in found.items():
            self._remembered.pop(code, None)
            until = now + (KNOWN_SECONDS if isinstance(one, Known) else LOST_SECONDS)
            self._remembered[code] = until, one
        while len(self._remembered) > REMEMBERED:
            del self._remembered[next(iter(self._remembered))]


def _give_up(answer: "asyncio.Future[Found]") -> None:
    if not answer.done():
        answer.set_exception(Unavailable(AWAY))


def _tell(asked: Sequence[Asked], found: dict[str, Found], fault: Exception | None) -> None:
    """Each in the loop that it waits in; there is more than one where several serve in one process."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Asked]] = defaultdict(list)
    for one in asked:
        by_loop[one.answer.get_loop()].append(one)

    def tell(those: list[Asked]) -> None:
        for one in those:
            if one.answer.done():
                continue
            if fault is None:
                one.answer.set_result(found[one.code])
            else:
                one.answer.set_exception(Unavailable(AWAY))

    for loop, those in by_loop.items():
        with suppress(RuntimeError):  # nobody waits in a loop that has ended
            loop.call_soon_threadsafe(tell, those)
