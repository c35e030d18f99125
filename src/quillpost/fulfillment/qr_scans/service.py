"""Records QR scans: those of one moment are looked up and stored together."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
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
from quillpost.core.tokens import PREVIEW_CODE
from quillpost.fulfillment.qr_scans import queries
from quillpost.fulfillment.qr_scans.queries import NewScan, ScanConnection
from quillpost.fulfillment.qr_scans.rules import CODE_PATTERN, VisitorKind

log = structlog.get_logger(__name__)

WINDOW_SECONDS = 60.0
MAX_COUNTERS = 20_000


class ScanRateLimit:
    """For one thread. People and machines are counted apart: what machines do keeps nobody from counting."""

    def __init__(self, max_per_minute: int, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._max_per_minute = max_per_minute
        self._monotonic = monotonic
        self._counts: dict[tuple[int, VisitorKind], int] = {}
        self._window_ends = 0.0
        self._is_logged = False

    def admit(self, scans: Iterable[NewScan]) -> list[NewScan]:
        """Those that are to be kept."""
        if (now := self._monotonic()) >= self._window_ends:
            self.reset()
            self._window_ends, self._is_logged = now + WINDOW_SECONDS, False
        admitted = []
        for scan in scans:
            key = scan.item_id, scan.kind
            count = self._counts.get(key, 0)
            if count < self._max_per_minute:
                self._counts[key] = count + 1
                admitted.append(scan)
            elif not self._is_logged:
                log.warning("qr_scans.rate_limited", item=scan.item_id, kind=scan.kind)
                self._is_logged = True
        while len(self._counts) > MAX_COUNTERS:
            del self._counts[next(iter(self._counts))]
        return admitted

    def reset(self) -> None:
        """Begin anew, as where those that were admitted could not be kept after all."""
        self._counts.clear()


MAX_BATCH_SIZE = 500
MAX_QUEUE_LENGTH = 10_000
TIMEOUT_SECONDS = 2.0
"""How long somebody who holds a card waits for us, at most."""

BUSY_BATCH_SIZE = 4
BATCH_WAIT_SECONDS = 0.003
"""Where so many came together, the next are waited for that long: each errand to the database serves more of
them. Whoever comes alone is seen to at once."""

MAX_CACHED_CODES = 20_000
TARGET_CACHE_SECONDS = 60.0
INVALID_CACHE_SECONDS = 10.0
"""A code that was asked for too early, or in vain, is asked for again soon."""

MAX_PER_MINUTE = 30
"""Scans of one piece that are kept in a minute, of people and of each kind of machine."""

URL_SAFE_CHARS = ":/%#?=@[]!$&'()*+,;"
UNAVAILABLE_MESSAGE = "Your scan could not be noted just now. Scan the code again in a few seconds."


class InvalidCode(Enum):
    """Why a code leads nowhere."""

    UNKNOWN = "unknown"
    EXPIRED = "expired"
    SPECIMEN = "specimen"
    """It is no piece's: a preview carries it."""


class ScanTarget(NamedTuple):
    """The piece that carries the code, and where it leads, as a header has it."""

    item_id: int
    location: bytes


CodeLookup = ScanTarget | InvalidCode


class ScanRequest(NamedTuple):
    """A request that waits. `is_counted` is false for one that only asks where a code leads."""

    response: "asyncio.Future[CodeLookup]"
    code: str
    lookup: CodeLookup | None
    at: datetime
    kind: VisitorKind
    agent: str
    is_counted: bool


class ScanRecorder:
    def __init__(
        self,
        db: Database,
        clock: Clock,
        *,
        code_lifetime: timedelta | None = None,
        max_per_minute: int = MAX_PER_MINUTE,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Codes lead somewhere as long after their piece was made as they are `code_lifetime`; else for ever. Of a
        piece `max_per_minute` are kept; who comes after them is led on."""
        self._connection = ScanConnection(db)
        self._clock = clock
        self._code_lifetime = code_lifetime
        self._monotonic = monotonic
        self._rate_limit = ScanRateLimit(max_per_minute, monotonic=monotonic)
        self._queue: SimpleQueue[ScanRequest | None] = SimpleQueue()
        self._cache: dict[str, tuple[float, CodeLookup]] = {}
        self._thread: Thread | None = None
        self._start_lock = Lock()
        self._sleep = sleep
        self._is_busy = False
        self._listeners: list[Callable[[], None]] = []

    @contextmanager
    def notify_on_scans(self, listener: Callable[[], None]) -> Iterator[None]:
        """Meanwhile it is called, in the desk's thread, whenever scans have been kept."""
        self._listeners.append(listener)
        try:
            yield
        finally:
            self._listeners.remove(listener)

    def find_cached(self, code: str) -> CodeLookup | None:
        """What was found of the code a moment ago, or what needs no looking up."""
        cached = self._cache.get(code)
        if cached is not None and cached[0] > self._monotonic():
            return cached[1]
        if code == PREVIEW_CODE:
            return InvalidCode.SPECIMEN
        return None if CODE_PATTERN.fullmatch(code) else InvalidCode.UNKNOWN

    async def record_scan(
        self, code: str, lookup: CodeLookup | None, kind: VisitorKind, agent: str, *, is_counted: bool
    ) -> CodeLookup:
        """Where the code leads, the scan kept; `Unavailable` where that cannot be said in time."""
        if self._queue.qsize() > MAX_QUEUE_LENGTH:
            raise Unavailable(UNAVAILABLE_MESSAGE)
        loop = asyncio.get_running_loop()
        response: asyncio.Future[CodeLookup] = loop.create_future()
        self._queue.put(ScanRequest(response, code, lookup, self._clock(), kind, agent, is_counted))
        if self._thread is None:
            self._start()
        timeout = loop.call_later(TIMEOUT_SECONDS, _time_out, response)
        try:
            return await response
        finally:
            timeout.cancel()

    def close(self) -> None:
        """Whoever waits is answered first. A scan that comes later opens the desk again."""
        with self._start_lock:
            thread = self._thread
        if thread is not None:
            self._queue.put(None)
            thread.join()

    def _start(self) -> None:
        with self._start_lock:
            if self._thread is None:
                self._thread = Thread(target=self._run, name="scans", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        """Whatever ends this thread, the next scan finds none and starts another."""
        try:
            while (scan_requests := self._next_batch()) is not None:
                self._process_batch(
                    [scan_request for scan_request in scan_requests if not scan_request.response.done()]
                )
        finally:
            self._connection.close()
            with self._start_lock:
                self._thread = None
            if not self._queue.empty():
                self._start()

    def _next_batch(self) -> list[ScanRequest] | None:
        """All who wait, once somebody does; nothing when the desk closes."""
        if (first := self._queue.get()) is None:
            return None
        scan_requests = [first]
        if self._is_busy:
            self._sleep(BATCH_WAIT_SECONDS)
        with suppress(Empty):
            while len(scan_requests) < MAX_BATCH_SIZE:
                if (scan_request := self._queue.get_nowait()) is None:
                    self._queue.put(None)  # for the next time: these come first
                    break
                scan_requests.append(scan_request)
        self._is_busy = len(scan_requests) >= BUSY_BATCH_SIZE
        return scan_requests

    def _process_batch(self, scan_requests: Sequence[ScanRequest]) -> None:
        try:
            scan_count = self._record_batch(scan_requests)
        except Unavailable as unavailable:
            self._rate_limit.reset()
            _respond(scan_requests, {}, unavailable)
        except Exception as error:
            self._rate_limit.reset()
            log.exception("qr_scans.recording_failed", scans=len(scan_requests))
            _respond(scan_requests, {}, error)
        else:
            if scan_count:
                log.info("qr_scans.recorded", scans=scan_count)
                for listener in list(self._listeners):
                    listener()

    def _record_batch(self, scan_requests: Sequence[ScanRequest]) -> int:
        """How many scans were kept. Whoever asked is answered when they are."""
        lookups = {
            scan_request.code: scan_request.lookup for scan_request in scan_requests if scan_request.lookup is not None
        }
        missing_codes = {scan_request.code for scan_request in scan_requests} - lookups.keys()
        with self._connection.open() as connection:
            if missing_codes:
                targets = {
                    destination.code: self._build_target(destination)
                    for destination in queries.find_destinations(connection, missing_codes)
                }
                lookups |= {code: targets.get(code, InvalidCode.UNKNOWN) for code in missing_codes}
            new_scans = self._rate_limit.admit(
                NewScan(target.item_id, scan_request.at, scan_request.kind, scan_request.agent)
                for scan_request in scan_requests
                if scan_request.is_counted and isinstance(target := lookups[scan_request.code], ScanTarget)
            )
            if new_scans:
                queries.insert_scans(connection, new_scans)
        self._cache_lookups({code: lookups[code] for code in missing_codes})
        _respond(scan_requests, lookups, None)
        return len(new_scans)

    def _build_target(self, destination: queries.CodeDestination) -> CodeLookup:
        if self._code_lifetime is not None and destination.created_at + self._code_lifetime <= self._clock():
            return InvalidCode.EXPIRED
        return ScanTarget(destination.item_id, quote(destination.url, safe=URL_SAFE_CHARS).encode())

    def _cache_lookups(self, lookups: dict[str, CodeLookup]) -> None:
        now = self._monotonic()
        for code, lookup in lookups.items():
            self._cache.pop(code, None)
            expires_at = now + (TARGET_CACHE_SECONDS if isinstance(lookup, ScanTarget) else INVALID_CACHE_SECONDS)
            self._cache[code] = expires_at, lookup
        while len(self._cache) > MAX_CACHED_CODES:
            del self._cache[next(iter(self._cache))]


def _time_out(response: "asyncio.Future[CodeLookup]") -> None:
    if not response.done():
        response.set_exception(Unavailable(UNAVAILABLE_MESSAGE))


def _respond(scan_requests: Sequence[ScanRequest], lookups: dict[str, CodeLookup], error: Exception | None) -> None:
    """Each in the loop that it waits in; there is more than one where several serve in one process."""
    by_loop: dict[asyncio.AbstractEventLoop, list[ScanRequest]] = defaultdict(list)
    for scan_request in scan_requests:
        by_loop[scan_request.response.get_loop()].append(scan_request)

    def respond_in_loop(loop_requests: list[ScanRequest]) -> None:
        for scan_request in loop_requests:
            if scan_request.response.done():
                continue
            if error is None:
                scan_request.response.set_result(lookups[scan_request.code])
            else:
                scan_request.response.set_exception(Unavailable(UNAVAILABLE_MESSAGE))

    for loop, loop_requests in by_loop.items():
        with suppress(RuntimeError):  # nobody waits in a loop that has ended
            loop.call_soon_threadsafe(respond_in_loop, loop_requests)
