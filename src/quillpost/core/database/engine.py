"""Connections to PostgreSQL, each in its role; locks between processes; bulk inserts."""

import asyncio
import select
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import anyio
import anyio.to_thread
import psycopg
import sqlalchemy as sa
import structlog
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from quillpost.core.errors import NotFound, NotReady, Unavailable
from quillpost.core.requests import STOPPING_MESSAGE, current_shutdown

log = structlog.get_logger(__name__)

# A machine that vanished is noticed after about ten seconds, not after two hours.
KEEPALIVE_OPTIONS = "-c tcp_keepalives_idle=4 -c tcp_keepalives_interval=2 -c tcp_keepalives_count=3"


class AdvisoryLocks:
    """All locks of one process, on one connection. Thread-safe.

    A lock keeps others from starting the same work meanwhile. It does not prove that no other process has done it: a
    broken connection loses all locks, and they are only taken again when one is acquired.
    """

    def __init__(self, conninfo: str) -> None:
        self._conninfo = conninfo
        self._connection: psycopg.Connection | None = None
        self._held_numbers: set[int] = set()
        self._mutex = threading.Lock()

    def acquire(self, name: str) -> bool:
        """False if anybody has it, even another thread of this process."""
        number = lock_number(name)
        with self._mutex:
            if number in self._held_numbers:
                return False
            is_acquired = self._try_acquire(number)
            if is_acquired:
                self._held_numbers.add(number)
            return is_acquired

    def release(self, name: str) -> None:
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
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), signed=True)


def add_connection_options(conninfo: str, extra_options: str) -> str:
    options = str(conninfo_to_dict(conninfo).get("options") or "")
    return make_conninfo(conninfo, options=f"{options} {extra_options}".strip())


def _try_advisory_lock(connection: psycopg.Connection, number: int) -> bool:
    row = connection.execute("select pg_try_advisory_lock(%s)", [number]).fetchone()
    return bool(row and row[0])


Tx = sa.Connection  # an open transaction; its opener commits it


@dataclass(frozen=True, slots=True)
class Tenant:
    """Whose rows a transaction may see. No sub account: the whole account; no mode: test and live."""

    account_id: int
    sub_account_id: int | None = None
    mode: str | None = None


SET_TENANT = sa.text(
    """select set_config('app.account_id', :account, true),
              set_config('app.sub_account_id', :sub_account, true),
              set_config('app.mode', :mode, true)"""
)


class Database:
    """Connections as a tenant, whose rows the server filters, and as the worker."""

    def __init__(self, conninfo: str, *, has_own_logins: bool = False, connections: int = 20) -> None:
        """With `has_own_logins` each role logs in as itself, and cannot become another role."""
        self.conninfo = conninfo
        self.worker_conninfo = conninfo_for_role(conninfo, "quillpost_worker", has_own_login=has_own_logins)
        app_conninfo = conninfo_for_role(conninfo, "quillpost_app", has_own_login=has_own_logins)
        self._app = _create_engine(app_conninfo, connections=connections)
        self._worker = _create_engine(self.worker_conninfo, connections=connections)
        self._autocommit = self._app.execution_options(isolation_level="AUTOCOMMIT")
        self.locks = AdvisoryLocks(app_conninfo)

    @contextmanager
    def transaction(self, tenant: Tenant) -> Iterator[Tx]:
        """A transaction for one account; row-level security hides everyone else's rows."""
        with _begin_transaction(self._app) as tx:
            tx.execute(
                SET_TENANT,
                {
                    "account": str(tenant.account_id),
                    "sub_account": "" if tenant.sub_account_id is None else str(tenant.sub_account_id),
                    "mode": tenant.mode or "",
                },
            )
            yield tx

    @contextmanager
    def anonymous_transaction(self) -> Iterator[Tx]:
        """A transaction before authentication: it sees no tenant's row."""
        with _begin_transaction(self._app) as tx:
            yield tx

    def execute_autocommit(self, statement: sa.TextClause, values: Mapping[str, object]) -> sa.Row[Any] | None:
        """The first row of an anonymous statement that is a transaction by itself, without BEGIN and COMMIT."""
        with _begin_transaction(self._autocommit) as tx:
            return tx.execute(statement, values).first()

    @contextmanager
    def system_transaction(self) -> Iterator[Tx]:
        """A transaction of the service itself, across all accounts."""
        with _begin_transaction(self._worker) as tx:
            yield tx

    def close(self) -> None:
        self.locks.close()
        self._app.dispose()
        self._worker.dispose()


CONNECTION_ERRORS = sa.exc.OperationalError, sa.exc.InterfaceError, sa.exc.TimeoutError


@contextmanager
def _begin_transaction(engine: sa.Engine) -> Iterator[Tx]:
    try:
        with engine.begin() as tx:
            yield tx
            if (shutdown := current_shutdown.get()) is not None and shutdown.commits_ended.is_set():
                raise Unavailable(STOPPING_MESSAGE)
    except (*CONNECTION_ERRORS, psycopg.OperationalError, psycopg.InterfaceError) as error:
        # A deadlock or a full disk is reported to callers like a server that is gone.
        state = getattr(getattr(error, "orig", error), "sqlstate", None)
        log.warning("database.unavailable", sqlstate=state, error=type(error).__name__)
        raise Unavailable("The database does not answer. Try again shortly.") from error


def driver_connection(tx: Tx) -> psycopg.Connection:
    connection = tx.connection.driver_connection
    assert isinstance(connection, psycopg.Connection)
    return connection


def create_admin_engine(conninfo: str) -> sa.Engine:
    """An engine in the login's own role, for migrations. It keeps no connection that one would have to dispose of."""
    return sa.create_engine("postgresql+psycopg://", creator=_connection_factory(conninfo), poolclass=sa.NullPool)


def conninfo_for_role(conninfo: str, role: str, *, has_own_login: bool = False) -> str:
    """The same for one role: as its own login, or as a session that starts, and RESETs, in the role."""
    if has_own_login:
        return make_conninfo(conninfo, user=role)
    options = str(conninfo_to_dict(conninfo).get("options") or "")
    return make_conninfo(conninfo, options=f"{options} -c role={role}".strip())


def require_reachable(conninfo: str) -> None:
    try:
        psycopg.connect(conninfo, connect_timeout=5).close()
    except psycopg.Error as error:
        reason = str(error).strip().splitlines()[0]
        raise NotReady(f"The database of QUILLPOST_DATABASE_URL cannot be reached: {reason}") from None


# No router on the way forgets a connection that is never silent for long, and a server that fell is noticed.
_KEEPALIVES = {"keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3}


# We have some hundreds of statements. Where fewer are remembered, here or by the server, each is compiled, parsed and
# planned again at every call.
_REMEMBERED_STATEMENTS = 2_000


def _connection_factory(conninfo: str) -> Callable[[], psycopg.Connection]:
    lasting_conninfo = make_conninfo("", **_KEEPALIVES | conninfo_to_dict(conninfo))

    def connect() -> psycopg.Connection:
        connection = psycopg.connect(lasting_conninfo, connect_timeout=5, prepare_threshold=2)
        connection.prepared_max = _REMEMBERED_STATEMENTS
        return connection

    return connect


def _create_engine(conninfo: str, *, connections: int) -> sa.Engine:
    engine = sa.create_engine(
        "postgresql+psycopg://",
        creator=_connection_factory(conninfo),
        pool_size=connections,
        max_overflow=0,
        pool_timeout=10,
        query_cache_size=_REMEMBERED_STATEMENTS,
        hide_parameters=True,  # an error's text must not carry anyone's name into a log
    )
    sa.event.listen(engine, "checkout", _require_open)
    return engine


def _require_open(connection: psycopg.Connection, _record: object, _fairy: object) -> None:
    """Nothing comes over an idle connection but its end, and to look for that costs no round trip, as a ping does."""
    if connection.closed or _has_input(connection.fileno()):
        raise sa.exc.InvalidatePoolError  # the others may have ended as well; the pool makes new ones


def _has_input(descriptor: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))


_CLEAR_LIMITS = sa.text(
    """select current_setting('app.mode') as mode, current_setting('app.sub_account_id') as sub_account,
              set_config('app.mode', '', true), set_config('app.sub_account_id', '', true)"""
)
_RESTORE_LIMITS = sa.text(
    "select set_config('app.mode', :mode, true), set_config('app.sub_account_id', :sub_account, true)"
)


@contextmanager
def account_wide_access(tx: Tx) -> Iterator[None]:
    """Within the block the transaction sees all of the account. A failure ends the transaction anyway."""
    previous = tx.execute(_CLEAR_LIMITS).one()
    yield
    tx.execute(_RESTORE_LIMITS, {"mode": previous.mode, "sub_account": previous.sub_account})


CHECK_INTERVAL_SECONDS = 5.0  # between requests
CHECK_VALID_SECONDS = 1.0  # it is checked no more often than this
CONNECT_TIMEOUT_SECONDS = 3.0


class DatabaseMonitor:
    """Checks with a new connection: a busy pool proves nothing, nor does an old connection."""

    def __init__(self, conninfo: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._conninfo = conninfo
        self._clock = clock
        self._reachable_at = clock()
        self._checked_at: float | None = None
        self._is_reachable = True

    async def check_downtime(self) -> float | None:
        """Seconds since the database last answered; None while it does."""
        if self._checked_at is None or self._clock() - self._checked_at >= CHECK_VALID_SECONDS:
            self._checked_at = self._clock()
            self._is_reachable = await self._can_connect_in_time()
            if self._is_reachable:
                self._reachable_at = self._clock()
        return None if self._is_reachable else self._clock() - self._reachable_at

    async def run(self) -> None:
        """Check now and then, so that it is known since when."""
        while True:
            await asyncio.sleep(CHECK_INTERVAL_SECONDS)
            await self.check_downtime()

    async def _can_connect_in_time(self) -> bool:
        # A limiter of its own, for when all threads wait for the database.
        with anyio.move_on_after(CONNECT_TIMEOUT_SECONDS):
            return await anyio.to_thread.run_sync(
                self._can_connect, abandon_on_cancel=True, limiter=anyio.CapacityLimiter(1)
            )
        return False

    def _can_connect(self) -> bool:
        try:
            psycopg.connect(self._conninfo, connect_timeout=int(CONNECT_TIMEOUT_SECONDS)).close()
        except psycopg.OperationalError:
            return False
        return True


MAX_PLAIN_INSERTS = 50  # up to here plain inserts cost less than making the temporary table


def read_row(tx: Tx, query: sa.Executable) -> sa.Row[*tuple[Any, ...]]:
    """The first row of the result; `NotFound` if there is none."""
    row = tx.execute(query).first()
    if row is None:
        raise NotFound
    return row


def insert_rows(tx: Tx, table: sa.Table, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """COPY is refused under row-level security, so many rows go through a temporary table."""
    if len(rows) <= MAX_PLAIN_INSERTS:
        if rows:
            tx.execute(sa.insert(table), [dict(zip(columns, row, strict=True)) for row in rows])
        return
    connection = driver_connection(tx)
    target, staging = sql.Identifier(table.name), sql.Identifier(f"incoming_{table.name}")
    names = sql.SQL(", ").join(map(sql.Identifier, columns))
    connection.execute(
        sql.SQL(
            "create temp table if not exists {staging} on commit drop as select {names} from {target} with no data"
        ).format(staging=staging, names=names, target=target)
    )
    with (
        connection.cursor() as cursor,
        cursor.copy(sql.SQL("copy {staging} ({names}) from stdin").format(staging=staging, names=names)) as copy,
    ):
        for row in rows:
            copy.write_row(row)
    connection.execute(
        sql.SQL("insert into {target} ({names}) select {names} from {staging}").format(
            target=target, names=names, staging=staging
        )
    )
    connection.execute(sql.SQL("drop table {staging}").format(staging=staging))
