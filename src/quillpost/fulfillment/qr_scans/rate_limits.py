"""How many scans of one piece are kept in a minute. Whoever knows one code could else write without end."""

import time
from collections.abc import Callable, Iterable

import structlog

from quillpost.fulfillment.qr_scans.queries import NewScan
from quillpost.fulfillment.qr_scans.rules import VisitorKind

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
