"""Keeps the embedded PostgreSQL running: a server that ended is started again."""

import threading
import time
from dataclasses import dataclass

import structlog

from quillpost.core.database.embedded.server import EmbeddedPostgres
from quillpost.core.errors import NotReady

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds. The first restart is immediate; each that follows within `settled` waits twice as long."""

    between_looks: float = 0.25
    first_pause: float = 1.0
    longest_pause: float = 30.0
    settled: float = 60.0
    stopping_patience: float = 5.0
    """A server that was asked to stop waits for its connections, and ours stay open. After so long it is told
    to end them."""

    def pause_before(self, restart: int) -> float:
        """Before the so-many-eth restart in a row, counted from 0."""
        return 0.0 if restart == 0 else min(self.longest_pause, self.first_pause * 2.0 ** (restart - 1))


class PostgresSupervisor:
    """Watches the server from a thread of its own. Each process that stays may have one, also where another
    process owns the server: whoever is first to start it again owns the next one."""

    def __init__(self, server: EmbeddedPostgres, pace: Pace | None = None) -> None:
        self._server = server
        self._pace = pace or Pace()
        self._retired = threading.Event()
        self._stopped = threading.Event()
        self._restarting = threading.Lock()
        self._restarts_in_a_row = 0
        self._answers_since = time.monotonic()
        self._stopping_since: float | None = None
        # The server ends with the thread that started it, so this thread stays until `stop`.
        self._thread = threading.Thread(target=self._run, name="postgres-supervisor", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def retire(self) -> None:
        """The service stops: whatever happens to the server from now on, it is not started again."""
        self._retired.set()

    def stop(self) -> None:
        """Stop the server, if it is ours, and the watch over it."""
        self.retire()
        with self._restarting:
            self._server.stop()
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(self._pace.between_looks):
            if self._retired.is_set():
                continue
            try:
                self._look()
            except Exception:
                # A supervisor that died of a surprise would leave the service without one.
                log.exception("postgres.supervisor_failed")
                self._retired.wait(self._pace.longest_pause)

    def _look(self) -> None:
        with self._restarting:
            if self._retired.is_set():
                return
            has_ended, status = self._server.has_ended, self._server.exit_status
            if not has_ended:
                self._hasten_stop()
                return
        log.error("postgres.ended", status=status, home=str(self._server.home))
        self._stopping_since = None
        if time.monotonic() - self._answers_since > self._pace.settled:
            self._restarts_in_a_row = 0
        while not self._has_restarted():
            pass

    def _hasten_stop(self) -> None:
        if not self._server.is_stopping:
            self._stopping_since = None
            return
        now = time.monotonic()
        if self._stopping_since is None:
            self._stopping_since = now
        elif now - self._stopping_since > self._pace.stopping_patience:
            log.warning("postgres.stop_hastened", home=str(self._server.home))
            self._stopping_since = None
            self._server.hasten_stop()

    def _has_restarted(self) -> bool:
        """One attempt, after its pause; True as well when none is wanted any more."""
        if self._retired.wait(self._pace.pause_before(self._restarts_in_a_row)):
            return True
        self._restarts_in_a_row += 1
        begun = time.monotonic()
        try:
            with self._restarting:
                self._server.restart(is_wanted=lambda: not self._retired.is_set())
                is_ours = not self._server.is_adopted
        except NotReady as refused:
            if self._retired.is_set():
                return True
            pause = self._pace.pause_before(self._restarts_in_a_row)
            log.error("postgres.restart_failed", reason=refused.message, next_try_in_seconds=pause)
            return False
        self._answers_since = time.monotonic()
        log.warning(
            "postgres.restarted",
            seconds=round(self._answers_since - begun, 2),
            attempt=self._restarts_in_a_row,
            by="this process" if is_ours else "another process",
        )
        return True
