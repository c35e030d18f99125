"""The tally: counts what came in, soon after it came, in whatever process is free to."""

import asyncio
from contextlib import suppress

import structlog

from quillpost.database import Database
from quillpost.kit.errors import Unavailable
from quillpost.kit.sealing import Sealer
from quillpost.kit.times import Clock
from quillpost.scans import counting
from quillpost.scans.desk import Desk

log = structlog.get_logger(__name__)

AT_ONCE = 2_000
TOGETHER_SECONDS = 0.05
"""Scans that come so soon after one another are counted together."""

IDLE_SECONDS = 1.0
"""How long scans wait at most that another process took in."""

PAUSE_SECONDS = 2.0


class Tally:
    def __init__(self, db: Database, sealer: Sealer, desk: Desk, clock: Clock) -> None:
        self._db = db
        self._sealer = sealer
        self._desk = desk
        self._clock = clock
        self._news = asyncio.Event()

    async def run(self, stop: asyncio.Event) -> None:
        """Count until told to stop; what is left then another process counts, or this one when it starts."""
        loop = asyncio.get_running_loop()

        def wake() -> None:
            with suppress(RuntimeError):  # a loop that has ended counts nothing any more
                loop.call_soon_threadsafe(self._news.set)

        with self._desk.heard_by(wake):
            await self._count_until(stop)

    async def _count_until(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            self._news.clear()
            try:
                taken = await asyncio.to_thread(self._count)
            except Unavailable as away:
                log.warning("scans.waiting", error=away.message)
                await _wait(stop, PAUSE_SECONDS)
            except Exception:
                log.exception("scans.not_counted")
                await _wait(stop, PAUSE_SECONDS)
            else:
                if taken < AT_ONCE:
                    await _wait(stop, IDLE_SECONDS, self._news)
                    await _wait(stop, TOGETHER_SECONDS)

    def _count(self) -> int:
        with self._db.work() as tx:
            taken = counting.count(tx, self._sealer, self._clock, most=AT_ONCE)
        if taken:
            log.info("scans.counted", scans=taken)
        return taken


async def _wait(stop: asyncio.Event, seconds: float, *others: asyncio.Event) -> None:
    """Until one of them is set, or the time has passed."""
    waits = [asyncio.create_task(event.wait()) for event in (stop, *others)]
    await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    for wait in waits:
        wait.cancel()
