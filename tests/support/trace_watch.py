"""The traces of one service, for those who look for them after each of a thousand calls."""

import psycopg
import sqlalchemy as sa
from psycopg import sql

from quillpost.app.container import Container
from support.factories import rows_of, snapshot_rows, traced_tables

Traces = tuple[dict[str, tuple[int, int]], list[str]]

# By every statement, also one that keys or other triggers make, and undone with its transaction.
NOTES = """
    create schema watched;
    create table watched.written (name text not null);
    create function watched.note() returns trigger language plpgsql security definer as
    $$begin insert into watched.written values (tg_table_name); return null; end$$;
    grant usage on schema watched to quillpost_worker;
    grant select, delete on watched.written to quillpost_worker;
"""
NOTED = """
    create trigger watched after insert or update or delete or truncate on {table}
    for each statement execute function watched.note();
    alter table {table} enable always trigger watched
"""
# Not those in parts, of which each may be written to, made and dropped by itself.
WHOLE = "select relname from pg_class where relkind = 'r' and oid = any(%s::regclass[])"
TAKE = sa.text("with taken as (delete from watched.written returning name) select distinct name from taken")


class TraceWatch:
    """Says what `traces` says, for less: a table that no statement wrote to since is not read again."""

    def __init__(self, container: Container) -> None:
        self._parts = container
        tables = traced_tables()
        with psycopg.connect(container.db.conninfo) as admin:
            admin.execute(NOTES)
            whole = {name for (name,) in admin.execute(WHOLE, [tables])}
            for table in whole:
                admin.execute(sql.SQL(NOTED).format(table=sql.Identifier(table)))
        self._always = set(tables) - whole
        self._rows = snapshot_rows(container)

    def traces(self) -> Traces:
        with self._parts.db.system_transaction() as tx:
            written = self._always.union(tx.scalars(TAKE))
            self._rows = self._rows | rows_of(tx, sorted(written))
        return self._rows, sorted(self._parts.storage.store.keys(""))
