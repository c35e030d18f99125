"""The zero-configuration database: a PostgreSQL of our own, below the data folder.

Whoever starts the server owns it and stops it; a second process finds it running and adopts it.
The server ends with its starter, even one that was killed. Where that fails, the next start
adopts the server that was left behind. `postgres_supervisor.py` starts a server again that ended.
"""

import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from psycopg.conninfo import make_conninfo

from quillpost.core.database.embedded.accounts import server_account, sheltered_binaries, sheltered_folder
from quillpost.core.database.embedded.binaries import find_binaries
from quillpost.core.database.embedded.cluster import PORT, SUPERUSER, Cluster, stop_server
from quillpost.core.errors import NotReady

DATABASE = "quillpost"
SHELTER = Path("/var/lib/quillpost")

SETTINGS: Mapping[str, str] = {
    "listen_addresses": "",
    "port": str(PORT),
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
    """One cluster below `home`, with the database `quillpost` in it.

    `start` belongs on the main thread: the kernel ends the server with the thread that forked it.
    From another thread the server is started without that tie. `restart` belongs on a thread that stays.
    """

    def __init__(
        self,
        home: Path,
        *,
        bin_folder: Path | None = None,
        settings: Mapping[str, str] | None = None,
        shelter: Path = SHELTER,
    ) -> None:
        self._home = home.absolute()
        self._wished_bin_folder = bin_folder
        self._settings = {**SETTINGS, **(settings or {})}
        self._shelter = shelter
        self._server: subprocess.Popen[bytes] | None = None
        self._cluster: Cluster | None = None

    @property
    def home(self) -> Path:
        return self._home

    @property
    def bin_folder(self) -> Path:
        """The folder of the running server's programs; `pg_dump` is there too."""
        return self._running().binaries.folder

    def conninfo(self, database: str = DATABASE, user: str = SUPERUSER) -> str:
        """How psycopg and libpq's programs reach the running server; any role may be named."""
        socket_folder = self._running().socket_folder
        return make_conninfo(host=str(socket_folder), port=PORT, user=user, dbname=database)

    def url(self, database: str = DATABASE, user: str = SUPERUSER) -> str:
        """The same as an address, for SQLAlchemy and for `QUILLPOST_DATABASE_URL`."""
        socket_folder = quote(str(self._running().socket_folder), safe="")
        return f"postgresql://{user}@/{database}?host={socket_folder}&port={PORT}"

    @property
    def is_adopted(self) -> bool:
        """Whether the server was there before us, and so is not ours to stop."""
        return self._cluster is not None and self._server is None

    def start(self) -> None:
        """Return when the server answers; raise `NotReady` with one sentence when it cannot."""
        if self._server is not None and self._running().answers():
            return
        self.stop()  # ours may have been killed: reap it, a zombie would look alive
        with _readable_refusals(self._home):
            self._home.mkdir(parents=True, exist_ok=True)
            account = server_account(self._home)
            folder = sheltered_folder(self._home / "postgres", account, self._shelter)
            binaries = find_binaries(self._wished_bin_folder)
            binaries = sheltered_binaries(binaries, account, self._shelter)
            self._cluster = Cluster(folder, account, binaries)
            try:
                with self._cluster.one_starter_at_a_time():
                    is_tied = threading.current_thread() is threading.main_thread()
                    self._server = self._cluster.adopt_or_launch(self._settings, is_tied=is_tied)
                    self._cluster.ensure_database(DATABASE)
            except BaseException:
                self.stop()
                raise

    def restart(self, *, is_wanted: Callable[[], bool]) -> None:
        """Return when a server answers again after the last one ended: a new one of ours, or one that another
        process was faster to start. Call it on a thread that stays until `stop`. When it is not wanted any
        more, or cannot start, it raises `NotReady`, and no server of ours is left."""
        cluster, ended = self._running(), self._server
        if ended is not None:
            stop_server(ended)
            self._server = None
        with _readable_refusals(self._home), cluster.one_starter_at_a_time(is_wanted):
            self._server = cluster.adopt_or_launch(self._settings, is_tied=True, is_wanted=is_wanted)

    @property
    def has_ended(self) -> bool:
        """Whether the server's process is gone; one of ours leaves no zombie then."""
        if self._server is not None:
            return self._server.poll() is not None
        return not self._running().is_served

    @property
    def exit_status(self) -> int | None:
        """Of a server of ours that has ended; negative: the signal that killed it."""
        return None if self._server is None else self._server.returncode

    @property
    def is_stopping(self) -> bool:
        """Whether somebody asked the server to stop: it takes no connection, and waits for those it has."""
        return self._running().is_stopping

    def hasten_stop(self) -> None:
        """Have a server that is stopping end without waiting for its connections."""
        self._running().signal(signal.SIGINT)

    def stop(self) -> None:
        """Stop the server if we started it; one that we adopted stays. Safe to call twice."""
        server, self._server, self._cluster = self._server, None, None
        if server is not None:
            stop_server(server)

    def _running(self) -> Cluster:
        if self._cluster is None:
            raise NotReady("The embedded database has not been started.")
        return self._cluster


@contextmanager
def _readable_refusals(home: Path) -> Iterator[None]:
    """What the file system refuses, as an operator wants to read it."""
    try:
        yield
    except PermissionError as fault:
        raise NotReady(
            f"The data folder {home} cannot be used: no permission for {fault.filename or home}."
        ) from fault
    except OSError as fault:
        raise NotReady(f"The data folder {home} cannot be used: {fault.strerror}.") from fault
