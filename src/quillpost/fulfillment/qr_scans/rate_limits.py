"""How many scans of one piece are kept in a minute. Whoever knows one code could else write without end."""

import time
from collections.abc import Callable, Iterable

import structlog

from quillpost.fulfillment.qr_scans.queries import Coming
from quillpost.fulfillment.qr_scans.rules import Kind

log = structlog.get_logger(__name__)

MINUTE = 60.0
REMEMBERED = 20_000


class Crowds:
    """For one thread. People and machines are counted apart: what machines do keeps nobody from counting."""

    def __init__(self, most: int, *, ticks: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._ticks = ticks
        self._kept: dict[tuple[int, Kind], int] = {}
        self._ends = 0.0
        self._is_told = False

    def admit(self, coming: Iterable[Coming]) -> list[Coming]:
        """Those that are to be kept."""
        if (now := self._ticks()) >= self._ends:
            self.forget()
            self._ends, self._is_told = now + MINUTE, False
        admitted = []
        for one in coming:
            whose = one.item_id, one.kind
            before = self._kept.get(whose, 0)
            if before < self._most:
                self._kept[whose] = before + 1
                admitted.append(one)
            elif not self._is_told:
                log.warning("scans.left_out", item=one.item_id, kind=one.kind)
                self._is_told = True
        while len(self._kept) > REMEMBERED:
            del self._kept[next(iter(self._kept))]
        return admitted

    def forget(self) -> None:
        """Begin anew, as where those that were admitted could not be kept after all."""
        self._kept.clear()
