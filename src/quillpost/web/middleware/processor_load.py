"""Whether there is more to compute than this process, or its machine, can."""

import math
import time
from collections.abc import Callable
from pathlib import Path

HIGH = 0.8
"""Of one processor: Python computes on no more at a time."""

LEAST_IDLE = 0.1
"""Of all processors of the machine: the database and other processes of ours want them as well."""

LOOK_EVERY = 0.25
"""Seconds over which it is measured."""

LASTS = 1.0
"""Seconds for which it counts as high when it was: what is done about it makes it less."""

COUNTS = Path("/proc/stat")


class ProcessorLoad:
    def __init__(
        self,
        now: Callable[[], float] = time.monotonic,
        spent: Callable[[], float] = time.process_time,
        machine: Callable[[], tuple[int, int]] | None = None,
    ) -> None:
        self._now, self._spent, self._machine = now, spent, machine or machine_ticks
        self._high_until = -math.inf
        self._since, self._before, self._ticks = self._now(), self._spent(), self._machine()

    @property
    def is_high(self) -> bool:
        """Whether it was a moment ago."""
        now = self._now()
        if now - self._since >= LOOK_EVERY:
            spent, ticks = self._spent(), self._machine()
            passed, idle = (after - before for after, before in zip(ticks, self._ticks, strict=True))
            is_ours = spent - self._before >= HIGH * (now - self._since)
            if is_ours or (passed > 0 and idle <= LEAST_IDLE * passed):
                self._high_until = now + LASTS
            self._since, self._before, self._ticks = now, spent, ticks
        return now < self._high_until


def machine_ticks() -> tuple[int, int]:
    """Ticks of all processors since the start, and those in which they were idle; nothing where no one
    counts them."""
    try:
        with COUNTS.open("rb") as counts:
            ticks = [int(count) for count in counts.readline().split()[1:9]]
    except (OSError, ValueError):
        return 0, 0
    return sum(ticks), sum(ticks[3:5])
