"""Connections to PostgreSQL, each in the role it works in, and whether they can be had."""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import anyio
import anyio.to_thread
import psycopg
import sqlalchemy as sa
import structlog
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from quillpost.core.errors import NotReady, Unavailable
from quillpost.core.locks import SessionLocks
from quillpost.core.shutdown import may_commit

log = structlog.get_logger(__name__)

Tx = sa.Connection
"""An open transaction. Whoever opened it commits it."""


@dataclass(frozen=True, slots=True)
class Tenant:
    """Whose rows a transaction may see. No sub account: the whole account; no mode: test and live."""

    account_id: int
    sub_account_id: int | None = None
    mode: str | None = None


BECOME = sa.text(
    """select set_config('app.account_id', :account, true),
              set_config('app.sub_account_id', :sub_account, true),
              set_config('app.mode', :mode, true)"""
)


class Database:
    """Two doors into one database: as a tenant, whose rows the server filters, or as the worker."""

    def __init__(self, conninfo: str, *, own_logins: bool = False, connections: int = 20) -> None:
        """With `own_logins` each role logs in as itself, and cannot become another."""
        self.conninfo = conninfo
        self.worker_conninfo = as_role(conninfo, "quillpost_worker", own_login=own_logins)
        app_conninfo = as_role(conninfo, "quillpost_app", own_login=own_logins)
        self._app = _engine(app_conninfo, connections=connections)
        self._worker = _engine(self.worker_conninfo, connections=connections)
        self._at_once = self._app.execution_options(isolation_level="AUTOCOMMIT")
        self.locks = SessionLocks(app_conninfo)

    @contextmanager
    def transaction(self, who: Tenant) -> Iterator[Tx]:
        """A transaction for one account; row-level security hides everyone else's rows."""
        with _begun(self._app) as tx:
            tx.execute(
                BECOME,
                {
                    "account": str(who.account_id),
                    "sub_account": "" if who.sub_account_id is None else str(who.sub_account_id),
                    "mode": who.mode or "",
                },
            )
            yield tx

    @contextmanager
    def anonymous(self) -> Iterator[Tx]:
        """A transaction before anyone is known: it sees no tenant's row."""
        with _begun(self._app) as tx:
            yield tx

    def at_once(self, statement: sa.TextClause, values: Mapping[str, object]) -> sa.Row[Any] | None:
        """The same for one statement, which is a transaction by itself: begun and committed by no word of its
        own. Its first row."""
        with _begun(self._at_once) as tx:
            return tx.execute(statement, values).first()

    @contextmanager
    def work(self) -> Iterator[Tx]:
        """A transaction of the service itself, across all accounts."""
        with _begun(self._worker) as tx:
            yield tx

    def close(self) -> None:
        self.locks.close()
        self._app.dispose()
        self._worker.dispose()


BROKEN = sa.exc.OperationalError, sa.exc.InterfaceError, sa.exc.TimeoutError


@contextmanager
def _begun(engine: sa.Engine) -> Iterator[Tx]:
    try:
        with engine.begin() as tx:
            yield tx
            may_commit()
    except (*BROKEN, psycopg.OperationalError, psycopg.InterfaceError) as broken:
        # Not only a server that is gone: a deadlock, or a disk that is full, is told to callers alike.
        state = getattr(getattr(broken, "orig", broken), "sqlstate", None)
        log.warning("database.refused", state=state, error=type(broken).__name__)
        raise Unavailable("The database does not answer. Try again shortly.") from broken


def driver(tx: Tx) -> psycopg.Connection:
    """The psycopg connection beneath, for COPY and for deferring jobs."""
    raw = tx.connection.driver_connection
    assert isinstance(raw, psycopg.Connection)
    return raw


def administrator(conninfo: str) -> sa.Engine:
    """An engine in the login's own role, for migrations."""
    return sa.create_engine("postgresql+psycopg://", creator=_connector(conninfo), poolclass=sa.NullPool)


def as_role(conninfo: str, role: str, *, own_login: bool = False) -> str:
    """The same connection string for one role: as its own login, or as a session that starts, and RESETs,
    in the role."""
    if own_login:
        return make_conninfo(conninfo, user=role)
    options = str(conninfo_to_dict(conninfo).get("options") or "")
    return make_conninfo(conninfo, options=f"{options} -c role={role}".strip())


def require_reachable(conninfo: str) -> None:
    """Raise one clear sentence when nobody answers there."""
    try:
        psycopg.connect(conninfo, connect_timeout=5).close()
    except psycopg.Error as refused:
        reason = str(refused).strip().splitlines()[0]
        raise NotReady(f"The database of QUILLPOST_DATABASE_URL cannot be reached: {reason}") from None


def _connector(conninfo: str) -> Callable[[], psycopg.Connection]:
    return lambda: psycopg.connect(conninfo, connect_timeout=5)


def _engine(conninfo: str, *, connections: int) -> sa.Engine:
    return sa.create_engine(
        "postgresql+psycopg://",
        creator=_connector(conninfo),
        pool_size=connections,
        max_overflow=0,
        pool_timeout=10,
        pool_pre_ping=True,
        hide_parameters=True,  # an error's text must not carry anyone's name into a log
    )


_PAST = sa.text(
    """select current_setting('app.mode') as mode, current_setting('app.sub_account_id') as sub_account,
              set_config('app.mode', '', true), set_config('app.sub_account_id', '', true)"""
)
_BACK = sa.text(
    "select set_config('app.mode', :mode, true), set_config('app.sub_account_id', :sub_account, true)"
)


@contextmanager
def past_the_limits(tx: Tx) -> Iterator[None]:
    """Meanwhile the transaction sees all of the account. A failure ends it anyway."""
    was = tx.execute(_PAST).one()
    yield
    tx.execute(_BACK, {"mode": was.mode, "sub_account": was.sub_account})


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
