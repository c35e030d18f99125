"""The latest moment at which a process that was asked to stop is gone, whatever it does."""

import os
import time
from collections.abc import Callable
from threading import Thread

import structlog

log = structlog.get_logger(__name__)

ANSWER_SECONDS = 4
"""From the signal on. Whoever is not answered by then is told to come again (see `kit/shutdown.py`)."""

WORK_SECONDS = 5.0
"""Jobs, webhooks and notices are given up then. They are taken up again, by others or at the next start."""

PROCESS_SECONDS = 6.5
"""Threads that still compute are cut off then."""

PARENT_SECONDS = 8.0
"""The same for whoever waits for server processes of their own."""

LAST_SECONDS = 0.7
"""For stopping our database."""


class Deadline:
    """Started by the signal. Its thread is there before: none can be started safely in a signal's handler."""

    def __init__(self, seconds: float, last: Callable[[], object] | None = None) -> None:
        """`last` is what is to be tried before the end."""
        self._seconds, self._last = seconds, last
        self._reads, self._writes = os.pipe()
        Thread(target=self._watch, name="deadline", daemon=True).start()

    def start(self) -> None:
        """Safe in a signal's handler, and to call twice."""
        os.write(self._writes, b"!")

    def _watch(self) -> None:
        os.read(self._reads, 1)
        time.sleep(self._seconds)
        log.warning("process.cut_off", seconds=self._seconds, advice="What was under way is taken up again.")
        if self._last is not None:
            trying = Thread(target=self._last, daemon=True)
            trying.start()
            trying.join(LAST_SECONDS)
        os._exit(0)  # as asked: nothing that was accepted is lost by it
