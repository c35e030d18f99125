"""The desk's own connection to the database, on which each statement is a transaction by itself.

A connection from the pool would ask whether it lives, begin and commit: four errands for what is one.
"""

import select
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psycopg
import structlog
from psycopg.conninfo import make_conninfo

from quillpost.database import Database
from quillpost.kit.errors import Unavailable

log = structlog.get_logger(__name__)

# Nobody waits so long for a scan. What would come through later is better not there.
LIMITS = {"connect_timeout": 3, "tcp_user_timeout": 5_000}
GIVE_UP = "set statement_timeout = '5s'"


class Line:
    def __init__(self, db: Database) -> None:
        self._db = db
        self._connection: psycopg.Connection | None = None

    @contextmanager
    def open(self) -> Iterator[psycopg.Connection]:
        """Any failure of the database's is `Unavailable`, and the next one starts with a new connection."""
        try:
            yield self._living()
        except psycopg.Error as broken:
            self.close()
            log.warning("scans.refused", state=broken.sqlstate, error=type(broken).__name__)
            raise Unavailable("The database does not answer. Try again shortly.") from broken

    def close(self) -> None:
        if self._connection is not None:
            with suppress(psycopg.Error):
                self._connection.close()
            self._connection = None

    def _living(self) -> psycopg.Connection:
        if self._connection is not None and _has_spoken(self._connection):
            self.close()
        if self._connection is None:
            self._connection = psycopg.connect(
                make_conninfo(self._db.worker_conninfo, **LIMITS), autocommit=True
            )
            self._connection.execute(GIVE_UP)
        return self._connection


def _has_spoken(connection: psycopg.Connection) -> bool:
    """A server that says something unasked says goodbye: no scan is sent to one that is gone."""
    return connection.closed or bool(select.select([connection.fileno()], [], [], 0)[0])
