"""Records QR scans: requests of one moment are looked up and stored together, by one thread. A scan is answered after
its commit."""

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

from quillpost.core.database import Database
from quillpost.core.errors import Unavailable
from quillpost.core.text import Clock
from quillpost.core.tokens import PREVIEW_CODE
from quillpost.fulfillment.qr_scans import queries
from quillpost.fulfillment.qr_scans.queries import NewScan, ScanConnection
from quillpost.fulfillment.qr_scans.rules import CODE_PATTERN, VisitorKind

log = structlog.get_logger(__name__)
WINDOW_SECONDS = 60.0
MAX_COUNTERS = 20_000


class ScanRateLimit:
    """Not thread-safe. People and machines are counted separately."""

    def __init__(self, max_per_minute: int, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._max_per_minute = max_per_minute
        self._monotonic = monotonic
        self._counts: dict[tuple[int, VisitorKind], int] = {}
        self._window_ends = 0.0
        self._is_logged = False

    def admit(self, scans: Iterable[NewScan]) -> list[NewScan]:
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
        """For when admitted scans could not be stored."""
        self._counts.clear()


MAX_BATCH_SIZE = 500
MAX_QUEUE_LENGTH = 10_000
TIMEOUT_SECONDS = 2.0
BUSY_BATCH_SIZE = 4
BATCH_WAIT_SECONDS = 0.003
"""Under load, wait that long for more scans, so that each statement serves more of them; a single scan goes at once."""

MAX_CACHED_CODES = 20_000
TARGET_CACHE_SECONDS = 60.0
INVALID_CACHE_SECONDS = 10.0
MAX_PER_MINUTE = 30  # of one item, by kind of visitor
URL_SAFE_CHARS = ":/%#?=@[]!$&'()*+,;"
UNAVAILABLE_MESSAGE = "Your scan could not be noted just now. Scan the code again in a few seconds."


class InvalidCode(Enum):
    UNKNOWN = "unknown"
    EXPIRED = "expired"
    SPECIMEN = "specimen"  # that of previews


class ScanTarget(NamedTuple):
    """`location` is a header value."""

    item_id: int
    location: bytes


CodeLookup = ScanTarget | InvalidCode


class ScanRequest(NamedTuple):
    """`is_counted` is false for a request that only looks up where a code leads."""

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
        """Codes expire `code_lifetime` after their item was created. Scans beyond `max_per_minute` of an item are
        redirected, but not stored."""
        self._connection = ScanConnection(db)
        self._clock, self._code_lifetime, self._monotonic = clock, code_lifetime, monotonic
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
        """Call the listener, in the recorder's thread, whenever scans were stored."""
        self._listeners.append(listener)
        try:
            yield
        finally:
            self._listeners.remove(listener)

    def find_cached(self, code: str) -> CodeLookup | None:
        """The cached lookup, or one that needs no database."""
        cached = self._cache.get(code)
        if cached is not None and cached[0] > self._monotonic():
            return cached[1]
        if code == PREVIEW_CODE:
            return InvalidCode.SPECIMEN
        return None if CODE_PATTERN.fullmatch(code) else InvalidCode.UNKNOWN

    async def record_scan(
        self, code: str, lookup: CodeLookup | None, kind: VisitorKind, agent: str, *, is_counted: bool
    ) -> CodeLookup:
        """Store the scan; where the code leads. `Unavailable` after a timeout."""
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
        """Requests that wait are answered first. A later scan starts the thread again."""
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
        """Whatever ends this thread, the next scan starts another."""
        try:
            while (requests := self._next_batch()) is not None:
                self._process_batch([request for request in requests if not request.response.done()])
        finally:
            self._connection.close()
            with self._start_lock:
                self._thread = None
            if not self._queue.empty():
                self._start()

    def _next_batch(self) -> list[ScanRequest] | None:
        """All requests that wait, blocking for the first; None when the recorder closes."""
        if (first := self._queue.get()) is None:
            return None
        requests = [first]
        if self._is_busy:
            self._sleep(BATCH_WAIT_SECONDS)
        with suppress(Empty):
            while len(requests) < MAX_BATCH_SIZE:
                if (request := self._queue.get_nowait()) is None:
                    self._queue.put(None)  # for the next time: these come first
                    break
                requests.append(request)
        self._is_busy = len(requests) >= BUSY_BATCH_SIZE
        return requests

    def _process_batch(self, requests: Sequence[ScanRequest]) -> None:
        try:
            scan_count = self._record_batch(requests)
        except Unavailable as unavailable:
            self._rate_limit.reset()
            _respond(requests, {}, unavailable)
        except Exception as error:
            self._rate_limit.reset()
            log.exception("qr_scans.recording_failed", scans=len(requests))
            _respond(requests, {}, error)
        else:
            if scan_count:
                log.info("qr_scans.recorded", scans=scan_count)
                for listener in list(self._listeners):
                    listener()

    def _record_batch(self, requests: Sequence[ScanRequest]) -> int:
        """How many scans were stored. Requests are answered after the commit."""
        lookups = {request.code: request.lookup for request in requests if request.lookup is not None}
        missing_codes = {request.code for request in requests} - lookups.keys()
        with self._connection.open() as connection:
            if missing_codes:
                targets = {
                    destination.code: self._build_target(destination)
                    for destination in queries.find_destinations(connection, missing_codes)
                }
                lookups |= {code: targets.get(code, InvalidCode.UNKNOWN) for code in missing_codes}
            new_scans = self._rate_limit.admit(
                NewScan(target.item_id, request.at, request.kind, request.agent)
                for request in requests
                if request.is_counted and isinstance(target := lookups[request.code], ScanTarget)
            )
            if new_scans:
                queries.insert_scans(connection, new_scans)
        self._cache_lookups({code: lookups[code] for code in missing_codes})
        _respond(requests, lookups, None)
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


def _respond(requests: Sequence[ScanRequest], lookups: dict[str, CodeLookup], error: Exception | None) -> None:
    """Each in its own event loop; one process may serve several."""
    by_loop: dict[asyncio.AbstractEventLoop, list[ScanRequest]] = defaultdict(list)
    for request in requests:
        by_loop[request.response.get_loop()].append(request)

    def respond_in_loop(loop_requests: list[ScanRequest]) -> None:
        for request in loop_requests:
            if request.response.done():
                continue
            if error is None:
                request.response.set_result(lookups[request.code])
            else:
                request.response.set_exception(Unavailable(UNAVAILABLE_MESSAGE))

    for loop, loop_requests in by_loop.items():
        with suppress(RuntimeError):  # no request waits in a loop that has ended
            loop.call_soon_threadsafe(respond_in_loop, loop_requests)
