"""The service that the tests of a process share: one container, application and client on one database.

A test gets fresh accounts in it. What is unique in a whole database, such as an email address, the accounts of
earlier tests have given up by then. The databases are as good as new, though few are: emptying one costs a tenth of
making one."""

import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa
from anyio.from_thread import BlockingPortal
from fastapi import FastAPI
from psycopg import sql

from quillpost.app import bootstrap, runtime
from quillpost.app.container import Container
from quillpost.core.database import Database
from quillpost.core.database.embedded.server import EmbeddedPostgres
from quillpost.core.encryption import KeyFile
from quillpost.core.settings import Settings
from quillpost.integrations.leads.table import TableLeadProvider
from quillpost.web.application import create_app
from support.factories import Clock
from support.test_client import TestClient

SHIPPED = ("prices", "giftcard_brands")
"""The tables that a new database has rows in."""

# What a test may have done to the schema, and not only to its rows.
SHAPE = """
    select (select count(*) from pg_class where relnamespace = 'public'::regnamespace),
           (select sum(hashname(attname)::bigint * (attrelid::bigint * 2048 + attnum)
                       + atttypid::bigint * (1 + attnotnull::integer))
              from pg_attribute where attrelid >= 16384 and not attisdropped),
           (select sum(hashtextextended(adbin::text, 0)) from pg_attrdef),
           (select count(*) from pg_proc where pronamespace = 'public'::regnamespace),
           (select count(*) from pg_policy),
           (select array[count(*) filter (where not tgisinternal), count(*) filter (where tgenabled <> 'O')]
              from pg_trigger),
           (select array_agg(version_num) from alembic_version)
"""
CONTENT = "select {}".format(
    ", ".join(f"(select sum(hashtextextended(t::text, 0)) from {table} t)" for table in SHIPPED)
)
# What a table has had rows in has pages: told without opening it, and emptying it again costs nothing.
USED = """
    select relname from pg_class
     where relnamespace = 'public'::regnamespace and relkind = 'r' and relname <> 'alembic_version'
       and pg_relation_size(oid) > 0
     order by 1
"""
# Connections that are kept stay, unless a test has left something unfinished on one.
OTHERS = """
    select pg_terminate_backend(pid, 5000) from pg_stat_activity a
     where datname = current_database() and pid <> pg_backend_pid()
       and not (
           pid = any (%(kept)s) and state = 'idle'
           and not exists (select 1 from pg_locks l where l.pid = a.pid and l.locktype = 'advisory')
       )
"""
SEQUENCES = """
    select setval(c.oid::regclass, s.seqstart, false) from pg_class c join pg_sequence s on s.seqrelid = c.oid
     where c.relnamespace = 'public'::regnamespace;
    select setval('prices_id_seq', (select max(id) from prices))
"""


class KeptDatabase(Database):
    """One whose connections outlive the parts that it was built for: with them the server knows its tables
    and we know our statements, which takes longer than most tests do."""

    def __init__(self, conninfo: str, *, has_own_logins: bool) -> None:
        super().__init__(conninfo, has_own_logins=has_own_logins)
        self.backends: set[int] = set()
        self.has_rows_of_other_tests = False
        for engine in (self._app, self._worker):
            sa.event.listen(engine, "connect", self._note)

    def _note(self, connection: psycopg.Connection, _record: object) -> None:
        self.backends.add(connection.info.backend_pid)

    def close(self) -> None:
        """It stays open; see `end`."""

    def end(self) -> None:
        super().close()


class SharedDatabase:
    """The one that most tests of a process share."""

    def __init__(self, databases: "Databases", name: str, conninfo: str) -> None:
        self._databases, self._name = databases, name
        self.conninfo = conninfo

    def open(self, conninfo: str, *, has_own_logins: bool) -> "KeptDatabase":
        return self._databases.open(conninfo, has_own_logins=has_own_logins)

    def empty(self) -> None:
        """Numbers are not given again, so that no cache takes a new row for an old one."""
        assert self._databases.empty(self._name), "A test changed the schema, and did not ask for `conninfo`."

    def restore_shipped(self) -> None:
        """What belongs to no account, and a test has changed."""
        self._databases.restore_shipped(self._name)


class Databases:
    def __init__(self, server: EmbeddedPostgres, template: str) -> None:
        self._server = server
        self._template = template
        self._spare: list[str] = []
        self._numbers = count()
        self._cleaners: dict[str, psycopg.Connection] = {}
        self._kept: dict[tuple[str, bool], list[KeptDatabase]] = {}
        with psycopg.connect(server.conninfo(template)) as new:
            self._shape = new.execute(SHAPE).fetchone()
            self._content = new.execute(CONTENT).fetchone()
            self._shipped = {table: _copied(new, table) for table in SHIPPED}

    @contextmanager
    def one(self) -> Iterator[str]:
        """A database as the migrations leave it."""
        name = self._spare.pop() if self._spare else self._make()
        try:
            yield self._server.conninfo(name)
        finally:
            if self._is_clean_again(name):
                self._spare.append(name)
            else:
                self._remove(name)

    @contextmanager
    def shared(self) -> Iterator[SharedDatabase]:
        name = self._make()
        yield SharedDatabase(self, name, self._server.conninfo(name))
        self._remove(name)

    @contextmanager
    def opened(self) -> Iterator[Callable[..., KeptDatabase]]:
        """Opens databases as `Database` does. The next who asks is given those that this one has left."""
        given: list[tuple[tuple[str, bool], KeptDatabase]] = []

        def give(conninfo: str, *, has_own_logins: bool) -> KeptDatabase:
            left = self._kept.setdefault((conninfo, has_own_logins), [])
            database = left.pop() if left else KeptDatabase(conninfo, has_own_logins=has_own_logins)
            given.append(((conninfo, has_own_logins), database))
            return database

        yield give
        for key, database in given:
            self._kept[key].append(database)

    def open(self, conninfo: str, *, has_own_logins: bool) -> KeptDatabase:
        """One that stays until the end."""
        database = KeptDatabase(conninfo, has_own_logins=has_own_logins)
        self._kept.setdefault((conninfo, has_own_logins), []).append(database)
        return database

    def empty(self, name: str, *, keep_numbers: bool = True) -> bool:
        """Whether it is as the migrations leave it, but for the numbers that rows had."""
        kept = self._kept_of(self._server.conninfo(name))
        backends = {pid for database in kept for pid in database.backends}
        return self._clean(self._cleaner(name), backends, keep_numbers=keep_numbers)

    def restore_shipped(self, name: str) -> None:
        admin = self._cleaner(name)
        if not self._is_as_shipped(admin):
            with admin.transaction():
                self._delete_from(admin, SHIPPED)
                self._copy_shipped(admin)

    def close(self) -> None:
        for cleaner in self._cleaners.values():
            cleaner.close()
        for left in self._kept.values():
            for database in left:
                database.end()

    def _make(self) -> str:
        name = f"test_{next(self._numbers)}"
        self._administer(f"create database {name} template {self._template} strategy file_copy")
        return name

    def _remove(self, name: str) -> None:
        if name in self._cleaners:
            self._cleaners.pop(name).close()
        for database in self._kept_of(self._server.conninfo(name)):
            database.end()
        self._kept = {key: left for key, left in self._kept.items() if key[0] != self._server.conninfo(name)}
        self._administer(f"drop database if exists {name} with (force)")

    def _administer(self, statement: str) -> None:
        with psycopg.connect(self._server.conninfo("postgres"), autocommit=True) as admin:
            admin.execute(statement)

    def _cleaner(self, name: str) -> psycopg.Connection:
        # A connection that knows the tables already looks at them in a quarter of the time.
        if name not in self._cleaners:
            self._cleaners[name] = psycopg.connect(self._server.conninfo(name), autocommit=True)
        return self._cleaners[name]

    def _is_clean_again(self, name: str) -> bool:
        try:
            return self.empty(name, keep_numbers=False)
        except psycopg.Error:
            return False

    def _kept_of(self, conninfo: str) -> list[KeptDatabase]:
        return [database for (whose, _), left in self._kept.items() if whose == conninfo for database in left]

    def _clean(self, admin: psycopg.Connection, kept: set[int], *, keep_numbers: bool) -> bool:
        admin.execute(OTHERS, {"kept": list(kept)})
        if admin.execute(SHAPE).fetchone() != self._shape:
            return False
        used = [table for (table,) in admin.execute(USED).fetchall()]
        is_as_shipped = self._is_as_shipped(admin)
        with admin.transaction():
            self._delete_from(admin, [table for table in used if not (is_as_shipped and table in SHIPPED)])
            if not is_as_shipped:
                self._copy_shipped(admin)
            if not keep_numbers:
                admin.execute(SEQUENCES)
        return True

    def _is_as_shipped(self, admin: psycopg.Connection) -> bool:
        return admin.execute(CONTENT).fetchone() == self._content

    def _delete_from(self, admin: psycopg.Connection, tables: Iterable[str]) -> None:
        # Neither triggers nor keys; and all in one message, as most tables have few rows.
        admin.execute("set local session_replication_role = replica")
        admin.execute(sql.SQL("; ").join(sql.SQL("delete from {}").format(sql.Identifier(table)) for table in tables))

    def _copy_shipped(self, admin: psycopg.Connection) -> None:
        for table, rows in self._shipped.items():
            with admin.cursor() as cursor, cursor.copy(f"copy {table} from stdin") as copy:
                copy.write(rows)


def _copied(db: psycopg.Connection, table: str) -> bytes:
    with db.cursor() as cursor, cursor.copy(f"copy {table} to stdout") as copied:
        return b"".join(bytes(part) for part in copied)


# What is unique across accounts, and what counts the calls of everybody from one network.
RETIREMENT = sa.text(
    """
    with retired as (update accounts set email = 'retired-' || id || '@example.com'
                      where email not like 'retired-%' returning 1),
         users as (update people set email = 'retired-' || id || '@example.com'
                    where email not like 'retired-%' returning 1),
         counts as (delete from rate_windows returning 1)
    select (select count(*) from retired) + (select count(*) from users) + (select count(*) from counts)
    """
)


@dataclass
class SharedService:
    container: Container
    app: FastAPI
    portal: BlockingPortal | None
    clock: Clock
    database: SharedDatabase

    @property
    def rows(self) -> KeptDatabase:
        assert isinstance(self.container.db, KeptDatabase)
        return self.container.db

    def empty(self) -> None:
        """No rows but those that a new database has, and no files."""
        self.database.empty()
        self.rows.has_rows_of_other_tests = False
        for provider in self.container.lead_providers.values():  # it remembers that the sample is there
            assert isinstance(provider, TableLeadProvider)
            provider._has_sample, provider._cached_density = not provider._uses_samples, None
        for key in self.container.storage.store.keys(""):
            self.container.storage.store.delete(key)

    @contextmanager
    def lent(self) -> Iterator[None]:
        """To one test: at the usual time, and with the usual parts, prices and brands again after it."""
        self.clock.reset()
        with self.container.db.system_transaction() as tx:
            tx.execute(RETIREMENT)
        self.container.sign_in_context.full_buckets.clear()
        usual = dict(self.app.state._state)
        yield
        self.app.state._state.clear()
        self.app.state._state.update(usual)
        self.database.restore_shipped()
        self.rows.has_rows_of_other_tests = True


@contextmanager
def open_shared_service(databases: Databases, settings: Settings) -> Iterator[SharedService]:
    home = Path(tempfile.mkdtemp(prefix="quillpost-shared-"))
    clock = Clock()
    KeyFile(runtime.key_path(home)).create_if_missing()
    with databases.shared() as database:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(runtime, "Database", database.open)
            chosen = settings.model_copy(update={"home": home})
            container = bootstrap.build_container(chosen, database.conninfo, clock=clock.now)
        app = create_app(container)
        with TestClient(app) as client:
            yield SharedService(container, app, client.portal, clock, database)
    shutil.rmtree(home, ignore_errors=True)
