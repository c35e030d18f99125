"""What calls leave behind in tables, files and logs; those that are refused leave nothing."""

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, redirect_stderr
from io import StringIO
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
import structlog
from httpx2 import Response
from psycopg import sql

from quillpost.app.container import Container
from quillpost.core.telemetry import configure_logging
from support.factories import Account, postcard, rows_of, snapshot_rows, traced_tables

JSON = "application/json"
FORM = "application/x-www-form-urlencoded"


def traces(container: Container) -> tuple[dict[str, tuple[int, int]], list[str]]:
    """Every row and every file; a refused call must not change them."""
    return snapshot_rows(container), sorted(container.storage.store.keys(""))


def send_raw(sender: Account, body: bytes | str, content_type: str = JSON) -> Response:
    """A send whose body is exactly these bytes."""
    content = body.encode() if isinstance(body, str) else body
    return sender.call("POST", "/send/postcard", content=content, headers={"Content-Type": content_type})


def postcard_with(name: str, written: str) -> str:
    """A good postcard with one more field, whose value is written exactly so."""
    return f"{json.dumps(postcard())[:-1]},{json.dumps(name)}:{written}}}"


def metadata_text(response: Response, *path: str) -> str:
    """The metadata of an answer as it stands there, letter for letter."""
    text = response.text
    start = text.index('"metadata":') + len('"metadata":')
    _, end = json.JSONDecoder().raw_decode(text, start)
    found: Any = response.json()
    for step in path:
        found = found[int(step)] if step.isdigit() else found[step]
    assert json.loads(text[start:end]) == found["metadata"]
    return text[start:end]


@contextmanager
def capture_logs() -> Iterator[Callable[[], list[dict[str, Any]]]]:
    """The log lines written meanwhile, at info level and as JSON."""
    usual, written = structlog.get_config(), StringIO()
    with redirect_stderr(written):
        configure_logging(as_json=True, level="info")
    try:
        yield lambda: [json.loads(line) for line in written.getvalue().splitlines()]
    finally:
        structlog.configure(**usual)


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


@contextmanager
def unchanged(container: Container) -> Iterator[None]:
    """Whatever is done meanwhile leaves no row and no file."""
    before = traces(container)
    yield
    assert traces(container) == before


def assert_refused(
    subtests: pytest.Subtests, container: Container, call: Callable[[Any], Response], cases: Iterable[tuple[Any, ...]]
) -> None:
    """Each case: what the call is made with, the field that is named alone, and words of its error."""
    with unchanged(container):
        for what, field, *words in cases:
            with subtests.test(str(what)[:200]):
                refused = call(what)
                assert (refused.status_code, list(refused.json()["errors"])) == (422, [field]), refused.text
                error = refused.json()["errors"][field][0]
                assert [each for each in words if each not in error] == [], error
