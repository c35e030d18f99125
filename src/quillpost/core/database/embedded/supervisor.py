"""Keeps the embedded PostgreSQL running: a server that ended is started again."""

import threading
import time
from dataclasses import dataclass

import structlog

from quillpost.core.database.embedded.server import EmbeddedPostgres
from quillpost.core.errors import NotReady

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class SupervisorTiming:
    """Seconds. The first restart is immediate; each that follows within `stable_seconds` waits twice as long."""

    poll_seconds: float = 0.25
    first_delay: float = 1.0
    max_delay: float = 30.0
    stable_seconds: float = 60.0
    stop_timeout: float = 5.0  # a stopping server waits for its connections, and ours stay open, until it must end them

    def delay_before(self, restart_number: int) -> float:
        """Counted from 0."""
        return 0.0 if restart_number == 0 else min(self.max_delay, self.first_delay * 2.0 ** (restart_number - 1))


class PostgresSupervisor:
    """Watches the server in a thread. Each long-running process may have one, even if another owns the server: the
    first to restart it owns the next one."""

    def __init__(self, server: EmbeddedPostgres, timing: SupervisorTiming | None = None) -> None:
        self._server = server
        self._timing = timing or SupervisorTiming()
        self._restarts_disabled = threading.Event()
        self._stopped = threading.Event()
        self._restart_lock = threading.Lock()
        self._restarts_in_a_row = 0
        self._running_since = time.monotonic()
        self._stopping_since: float | None = None
        # The server ends with the thread that started it, so this thread stays until `stop`.
        self._thread = threading.Thread(target=self._run, name="postgres-supervisor", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def disable_restarts(self) -> None:
        self._restarts_disabled.set()

    def stop(self) -> None:
        """Also stops the server, if it is ours."""
        self.disable_restarts()
        with self._restart_lock:
            self._server.stop()
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(self._timing.poll_seconds):
            if self._restarts_disabled.is_set():
                continue
            try:
                self._check_server()
            except Exception:
                # A supervisor that died of a surprise would leave the service without one.
                log.exception("postgres.supervisor_failed")
                self._restarts_disabled.wait(self._timing.max_delay)

    def _check_server(self) -> None:
        with self._restart_lock:
            if self._restarts_disabled.is_set():
                return
            has_ended, status = self._server.has_ended, self._server.exit_status
            if not has_ended:
                self._stop_fast_if_late()
                return
        log.error("postgres.exited", exit_code=status, home=str(self._server.home))
        self._stopping_since = None
        if time.monotonic() - self._running_since > self._timing.stable_seconds:
            self._restarts_in_a_row = 0
        while not self._try_restart():
            pass

    def _stop_fast_if_late(self) -> None:
        if not self._server.is_stopping:
            self._stopping_since = None
            return
        now = time.monotonic()
        if self._stopping_since is None:
            self._stopping_since = now
        elif now - self._stopping_since > self._timing.stop_timeout:
            log.warning("postgres.stop_forced", home=str(self._server.home))
            self._stopping_since = None
            self._server.stop_fast()

    def _try_restart(self) -> bool:
        """True also when no restart is needed any more."""
        if self._restarts_disabled.wait(self._timing.delay_before(self._restarts_in_a_row)):
            return True
        self._restarts_in_a_row += 1
        started_at = time.monotonic()
        try:
            with self._restart_lock:
                self._server.restart(is_still_needed=lambda: not self._restarts_disabled.is_set())
                is_ours = not self._server.is_adopted
        except NotReady as error:
            if self._restarts_disabled.is_set():
                return True
            delay = self._timing.delay_before(self._restarts_in_a_row)
            log.error("postgres.restart_failed", reason=error.message, retry_in_seconds=delay)
            return False
        self._running_since = time.monotonic()
        log.warning(
            "postgres.restarted",
            seconds=round(self._running_since - started_at, 2),
            attempt=self._restarts_in_a_row,
            by="this process" if is_ours else "another process",
        )
        return True
