"""Locks between processes of one machine, and between sessions of one database."""

import fcntl
import threading
from hashlib import blake2b
from pathlib import Path
from typing import TextIO

import psycopg
import structlog

from quillpost.core.errors import Unavailable


class FileLock:
    """A lock on a file: whoever takes it waits for whoever holds it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: TextIO | None = None

    def acquire(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self._path.open("a")
        fcntl.flock(self._file, fcntl.LOCK_EX)

    def release(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


log = structlog.get_logger(__name__)

# Another machine that vanished without a word is noticed after about ten seconds, not after two hours.
KEEPALIVE_OPTIONS = "-c tcp_keepalives_idle=4 -c tcp_keepalives_interval=2 -c tcp_keepalives_count=3"


class AdvisoryLocks:
    """All locks of one process, on one connection of its own. Safe to use from several threads.

    A lock keeps others from starting the same work meanwhile. It does not prove that nobody else has done it:
    with a broken connection all locks are gone, and are only taken again when one is asked for.
    """

    def __init__(self, conninfo: str) -> None:
        self._conninfo = conninfo
        self._connection: psycopg.Connection | None = None
        self._held_numbers: set[int] = set()
        self._mutex = threading.Lock()

    def acquire(self, name: str) -> bool:
        """Whether it is ours now; not if anybody has it, another thread of this process included."""
        number = lock_number(name)
        with self._mutex:
            if number in self._held_numbers:
                return False
            is_acquired = self._try_acquire(number)
            if is_acquired:
                self._held_numbers.add(number)
            return is_acquired

    def release(self, name: str) -> None:
        """Of one that we acquired. Where the connection is broken, it is free already."""
        number = lock_number(name)
        with self._mutex:
            self._held_numbers.discard(number)
            if self._connection is None:
                return
            try:
                self._connection.execute("select pg_advisory_unlock(%s)", [number])
            except psycopg.Error:
                self._disconnect()

    def close(self) -> None:
        with self._mutex:
            self._disconnect()

    def _try_acquire(self, number: int) -> bool:
        if self._connection is not None:
            try:
                return _try_advisory_lock(self._connection, number)
            except psycopg.Error as error:
                log.warning("database.connection_lost", error=type(error).__name__)
                self._disconnect()
        try:
            self._connection = self._connect()
            for held_number in self._held_numbers:
                _try_advisory_lock(self._connection, held_number)
            return _try_advisory_lock(self._connection, number)
        except psycopg.Error as error:
            self._disconnect()
            raise Unavailable("The database does not answer. Try again shortly.") from error

    def _connect(self) -> psycopg.Connection:
        return psycopg.connect(
            add_connection_options(self._conninfo, KEEPALIVE_OPTIONS),
            autocommit=True,
            connect_timeout=5,
            prepare_threshold=1,
        )

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def lock_number(name: str) -> int:
    """What the database knows it by."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), signed=True)


def add_connection_options(conninfo: str, extra_options: str) -> str:
    options = str(psycopg.conninfo.conninfo_to_dict(conninfo).get("options") or "")
    return psycopg.conninfo.make_conninfo(conninfo, options=f"{options} {extra_options}".strip())


def _try_advisory_lock(connection: psycopg.Connection, number: int) -> bool:
    row = connection.execute("select pg_try_advisory_lock(%s)", [number]).fetchone()
    return bool(row and row[0])
