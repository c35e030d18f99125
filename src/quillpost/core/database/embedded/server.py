"""The embedded PostgreSQL, below the data folder.

The process that starts the server owns and stops it; a second process adopts it. The server ends with its owner, even
a killed one; where that fails, the next start adopts it.
"""

import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import structlog
from psycopg.conninfo import make_conninfo

from quillpost.core.database.embedded.binaries import (
    choose_server_account,
    find_binaries,
    make_binaries_reachable,
    make_folder_reachable,
)
from quillpost.core.database.embedded.cluster import SOCKET_PORT, SUPERUSER, PostgresCluster, stop_server
from quillpost.core.errors import NotReady

DATABASE_NAME = "quillpost"
FALLBACK_FOLDER = Path("/var/lib/quillpost")

DEFAULT_POSTGRES_SETTINGS: Mapping[str, str] = {
    "listen_addresses": "",
    "port": str(SOCKET_PORT),
    "unix_socket_permissions": "0700",
    "max_connections": "200",
    "shared_buffers": "128MB",
    "jit": "off",
    "random_page_cost": "1.1",  # no disk's heads move: indexes are worth following
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_checkpoints": "off",
}


class EmbeddedPostgres:
    """Call `start` on the main thread: the kernel ends the server with the thread that forked it. From another thread
    the server starts without that tie. Call `restart` on a thread that stays."""

    def __init__(
        self,
        home: Path,
        *,
        bin_folder: Path | None = None,
        settings: Mapping[str, str] | None = None,
        fallback_folder: Path = FALLBACK_FOLDER,
    ) -> None:
        self._home = home.absolute()
        self._preferred_bin_folder = bin_folder
        self._settings = {**DEFAULT_POSTGRES_SETTINGS, **(settings or {})}
        self._fallback_folder = fallback_folder
        self._server: subprocess.Popen[bytes] | None = None
        self._cluster: PostgresCluster | None = None

    @property
    def home(self) -> Path:
        return self._home

    @property
    def bin_folder(self) -> Path:
        return self._running_cluster().binaries.folder

    def conninfo(self, database: str = DATABASE_NAME, user: str = SUPERUSER) -> str:
        socket_folder = self._running_cluster().socket_folder
        return make_conninfo(host=str(socket_folder), port=SOCKET_PORT, user=user, dbname=database)

    def url(self, database: str = DATABASE_NAME, user: str = SUPERUSER) -> str:
        """For SQLAlchemy and `QUILLPOST_DATABASE_URL`."""
        socket_folder = quote(str(self._running_cluster().socket_folder), safe="")
        return f"postgresql://{user}@/{database}?host={socket_folder}&port={SOCKET_PORT}"

    @property
    def is_adopted(self) -> bool:
        """Whether the server was running before, and so is not ours to stop."""
        return self._cluster is not None and self._server is None

    def start(self) -> None:
        """Returns when the server answers, or raises `NotReady`."""
        if self._server is not None and self._running_cluster().accepts_connections():
            return
        self.stop()  # ours may have been killed: reap it, a zombie would look alive
        with _explain_os_errors(self._home):
            self._home.mkdir(parents=True, exist_ok=True)
            account = choose_server_account(self._home)
            folder = make_folder_reachable(self._home / "postgres", account, self._fallback_folder)
            binaries = find_binaries(self._preferred_bin_folder)
            binaries = make_binaries_reachable(binaries, account, self._fallback_folder)
            self._cluster = PostgresCluster(folder, account, binaries)
            try:
                with self._cluster.start_lock():
                    ends_with_thread = threading.current_thread() is threading.main_thread()
                    self._server = self._cluster.adopt_or_launch(self._settings, ends_with_thread=ends_with_thread)
                    self._cluster.ensure_database(DATABASE_NAME)
            except BaseException:
                self.stop()
                raise

    def restart(self, *, is_still_needed: Callable[[], bool]) -> None:
        """Returns when a server answers again: a new one of ours, or one that another process started first. Call it on
        a thread that stays until `stop`. Raises `NotReady` when it is no longer needed, or cannot start; then no server
        of ours is left."""
        cluster, ended_server = self._running_cluster(), self._server
        if ended_server is not None:
            stop_server(ended_server)
            self._server = None
        with _explain_os_errors(self._home), cluster.start_lock(is_still_needed):
            self._server = cluster.adopt_or_launch(
                self._settings, ends_with_thread=True, is_still_needed=is_still_needed
            )

    @property
    def has_ended(self) -> bool:
        if self._server is not None:
            return self._server.poll() is not None
        return not self._running_cluster().is_server_running

    @property
    def exit_status(self) -> int | None:
        """Of our own server; negative: the signal that killed it."""
        return None if self._server is None else self._server.returncode

    @property
    def is_stopping(self) -> bool:
        """Whether the server was asked to stop, and waits for its connections."""
        return self._running_cluster().is_stopping

    def stop_fast(self) -> None:
        """End a stopping server without waiting for its connections."""
        self._running_cluster().send_signal(signal.SIGINT)

    def stop(self) -> None:
        """An adopted server stays. Safe to call twice."""
        server, self._server, self._cluster = self._server, None, None
        if server is not None:
            stop_server(server)

    def _running_cluster(self) -> PostgresCluster:
        if self._cluster is None:
            raise NotReady("The embedded database has not been started.")
        return self._cluster


@contextmanager
def _explain_os_errors(home: Path) -> Iterator[None]:
    try:
        yield
    except PermissionError as error:
        raise NotReady(f"The data folder {home} cannot be used: no permission for {error.filename or home}.") from error
    except OSError as error:
        raise NotReady(f"The data folder {home} cannot be used: {error.strerror}.") from error


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
