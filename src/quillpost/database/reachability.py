"""Whether the database takes connections, and for how long it has not."""

import asyncio
import time
from collections.abc import Callable

import anyio
import anyio.to_thread
import psycopg

BETWEEN_LOOKS = 5.0
"""Seconds, while nobody asks."""
FRESH = 1.0
"""Seconds for which a look is good: however often somebody asks, the database is bothered no more often."""
PATIENCE = 3.0


class DatabaseWatch:
    """Looks by a connection of its own: that a pool of them is busy proves nothing, and neither does an old
    connection to a server that takes no new ones."""

    def __init__(self, conninfo: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._conninfo = conninfo
        self._clock = clock
        self._answered_at = clock()
        self._looked_at: float | None = None
        self._is_reachable = True

    async def look(self) -> float | None:
        """None while it answers, else the seconds since it did."""
        if self._looked_at is None or self._clock() - self._looked_at >= FRESH:
            self._looked_at = self._clock()
            self._is_reachable = await self._ask()
            if self._is_reachable:
                self._answered_at = self._clock()
        return None if self._is_reachable else self._clock() - self._answered_at

    async def run(self) -> None:
        """Look now and then, so that it is known since when."""
        while True:
            await asyncio.sleep(BETWEEN_LOOKS)
            await self.look()

    async def _ask(self) -> bool:
        # A limiter of its own: where all threads wait for the database, this is still found out.
        with anyio.move_on_after(PATIENCE):
            return await anyio.to_thread.run_sync(
                self._connects, abandon_on_cancel=True, limiter=anyio.CapacityLimiter(1)
            )
        return False

    def _connects(self) -> bool:
        try:
            psycopg.connect(self._conninfo, connect_timeout=int(PATIENCE)).close()
        except psycopg.OperationalError:
            return False
        return True
