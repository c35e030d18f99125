"""Whether there is more to compute than this process, or its machine, can."""

import math
import time
from collections.abc import Callable
from pathlib import Path

HIGH_LOAD_SHARE = 0.8
"""Of one processor: Python computes on no more at a time."""

MIN_IDLE_SHARE = 0.1
"""Of all processors of the machine: the database and other processes of ours want them as well."""

MEASURE_SECONDS = 0.25
"""Seconds over which it is measured."""

HIGH_LOAD_SECONDS = 1.0
"""Seconds for which it counts as high when it was: what is done about it makes it less."""

PROC_STAT = Path("/proc/stat")


class ProcessorLoad:
    def __init__(
        self,
        now: Callable[[], float] = time.monotonic,
        process_seconds: Callable[[], float] = time.process_time,
        read_ticks: Callable[[], tuple[int, int]] | None = None,
    ) -> None:
        self._now, self._process_seconds, self._read_ticks = (now, process_seconds, read_ticks or read_machine_ticks)
        self._high_until = -math.inf
        self._measured_at, self._seconds_before, self._ticks = (
            self._now(),
            self._process_seconds(),
            self._read_ticks(),
        )

    @property
    def is_high(self) -> bool:
        """Whether it was a moment ago."""
        now = self._now()
        if now - self._measured_at >= MEASURE_SECONDS:
            seconds, ticks = self._process_seconds(), self._read_ticks()
            elapsed_ticks, idle_ticks = (after - before for after, before in zip(ticks, self._ticks, strict=True))
            is_process_busy = seconds - self._seconds_before >= HIGH_LOAD_SHARE * (now - self._measured_at)
            if is_process_busy or (elapsed_ticks > 0 and idle_ticks <= MIN_IDLE_SHARE * elapsed_ticks):
                self._high_until = now + HIGH_LOAD_SECONDS
            self._measured_at, self._seconds_before, self._ticks = now, seconds, ticks
        return now < self._high_until


def read_machine_ticks() -> tuple[int, int]:
    """Ticks of all processors since the start, and those in which they were idle; nothing where no one
    counts them."""
    try:
        with PROC_STAT.open("rb") as counts:
            ticks = [int(count) for count in counts.readline().split()[1:9]]
    except (OSError, ValueError):
        return 0, 0
    return sum(ticks), sum(ticks[3:5])
