"""Databases for tests: each is as good as new, though few are. Emptying one costs a tenth of making one."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

import psycopg
from psycopg import sql

from quillpost.database.embedded import EmbeddedPostgres

TABLES = """
    select relname from pg_class
     where relnamespace = 'public'::regnamespace and relkind = 'r' and relname <> 'alembic_version'
     order by 1
"""
# What a test may have done to the schema, and not only to its rows.
SHAPE = """
    select (select count(*) from pg_class where relnamespace = 'public'::regnamespace),
           (select md5(string_agg(concat_ws(' ', c.relname, a.attname, a.atttypid, a.attnotnull), ',' order by
                                  c.relname, a.attnum))
              from pg_attribute a join pg_class c on c.oid = a.attrelid
             where c.relnamespace = 'public'::regnamespace and not a.attisdropped),
           (select count(*) from pg_proc where pronamespace = 'public'::regnamespace),
           (select count(*) from pg_policy), (select count(*) from pg_trigger where not tgisinternal),
           (select count(*) from pg_trigger where tgenabled <> 'O'),
           (select array_agg(version_num) from alembic_version)
"""
OTHERS = """
    select pg_terminate_backend(pid, 5000) from pg_stat_activity
     where datname = current_database() and pid <> pg_backend_pid()
"""
SEQUENCES = """
    select setval(oid::regclass, 1, false) from pg_class
     where relkind = 'S' and relnamespace = 'public'::regnamespace
"""
SHIPPED = ("prices", "address_passes")
"""The tables that a new database has rows in."""


class Databases:
    def __init__(self, server: EmbeddedPostgres, template: str) -> None:
        self._server = server
        self._template = template
        self._spare: list[str] = []
        self._numbers = count()
        with psycopg.connect(server.conninfo(template)) as new:
            tables = [sql.Identifier(row[0]) for row in new.execute(TABLES)]
            self._shape = new.execute(SHAPE).fetchone()
            self._shipped = {table: _copied(new, table) for table in SHIPPED}
        used = sql.SQL(" union all ").join(
            sql.SQL("select {name} where exists (select 1 from {table})").format(
                name=sql.Literal(table._obj[0]), table=table
            )
            for table in tables
        )
        self._used = used

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
                self._administer(f"drop database if exists {name} with (force)")

    def _make(self) -> str:
        name = f"test_{next(self._numbers)}"
        self._administer(f"create database {name} template {self._template} strategy file_copy")
        return name

    def _administer(self, statement: str) -> None:
        with psycopg.connect(self._server.conninfo("postgres"), autocommit=True) as admin:
            admin.execute(statement)

    def _is_clean_again(self, name: str) -> bool:
        try:
            with psycopg.connect(self._server.conninfo(name)) as admin:
                admin.execute(OTHERS)
                if admin.execute(SHAPE).fetchone() != self._shape:
                    return False
                admin.execute("set local session_replication_role = replica")  # neither triggers nor keys
                for (table,) in admin.execute(self._used).fetchall():
                    admin.execute(sql.SQL("delete from {}").format(sql.Identifier(table)))
                admin.execute(SEQUENCES)
                for table, rows in self._shipped.items():
                    with admin.cursor() as cursor, cursor.copy(f"copy {table} from stdin") as copy:
                        copy.write(rows)
                admin.execute("select setval('prices_id_seq', (select max(id) from prices))")
            return True
        except psycopg.Error:
            return False


def _copied(db: psycopg.Connection, table: str) -> bytes:
    with db.cursor() as cursor, cursor.copy(f"copy {table} to stdout") as copied:
        return b"".join(bytes(part) for part in copied)
