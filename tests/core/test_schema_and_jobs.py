"""The migrations, the tables as queries see them, many rows at once, and jobs one at a time."""

import asyncio
import shutil
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

from quillpost.app import bootstrap
from quillpost.app.container import Container
from quillpost.app.runtime import read_schema
from quillpost.core.database import Tenant, Tx, engine, schema
from quillpost.core.database.embedded.server import EmbeddedPostgres
from quillpost.core.database.engine import create_admin_engine
from quillpost.core.database.migrations.upgrade import config_of
from quillpost.core.database.schema import list_revisions
from quillpost.core.database.tables.base import mailing_lists, metadata, recipients
from quillpost.core.errors import NotReady
from quillpost.core.settings import Settings
from quillpost.fulfillment.batches import tasks as batch_tasks
from quillpost.fulfillment.models import COMPOSE, HAND_OVER, enqueue_step
from support.orders import open_account
from support.tenant_rows import insert_least
from support.waiting import wait_until

_numbers = count()

NOISE = ("add_index", "remove_index", "add_constraint", "remove_constraint", "add_fk", "remove_fk")
"""Indexes, keys and checks are the migrations' business alone: queries do not name them."""


@pytest.fixture
def empty(postgres: EmbeddedPostgres, template: str) -> Iterator[str]:
    """A database with nothing in it, on a server that knows our roles."""
    name = f"empty_{next(_numbers)}"
    with psycopg.connect(postgres.conninfo("postgres"), autocommit=True) as admin:
        admin.execute(f"create database {name} strategy file_copy")
        yield postgres.conninfo(name)
        admin.execute(f"drop database {name} with (force)")


def differences(connection: sa.Connection) -> list[Any]:
    """What the database has and tables.py has not, or the other way round."""
    context = MigrationContext.configure(connection, opts={"compare_type": True, "include_name": is_described})
    return [found for found in compare_metadata(context, metadata) if found[0] not in NOISE]


def is_described(name: str | None, kind: str, _parents: object) -> bool:
    """The job engine and the migrations keep their own tables, and deliveries have one a day."""
    return kind != "table" or not (name or "").startswith(("procrastinate_", "alembic_", "deliveries_"))


def test_every_migration_and_every_script_of_the_baseline_is_known() -> None:
    scripts = ScriptDirectory.from_config(config_of(schema.MIGRATIONS_FOLDER))
    assert list_revisions() == [script.revision for script in scripts.walk_revisions()][::-1]
    folder = schema.MIGRATIONS_FOLDER / "versions" / "0001_baseline"
    assert sorted(scripts.get_revision("0001").module.SCRIPTS) == sorted(script.stem for script in folder.iterdir())


def test_the_migrations_make_exactly_the_tables_that_queries_know(empty: str) -> None:
    assert read_schema(empty).status == "empty"
    with pytest.raises(NotReady, match="The database is empty"):
        schema.require_current(read_schema(empty))
    assert schema.migrate(empty).status == "empty"
    assert read_schema(empty) == schema.SchemaState("current", schema.required_revision(), schema.required_revision())
    schema.require_current(read_schema(empty))
    catalog = "select oid, relname, relfilenode from pg_class order by oid"
    with psycopg.connect(empty) as admin:
        before = admin.execute(catalog).fetchall()
    assert schema.migrate(empty).status == "current", "migrating again changes nothing"
    with psycopg.connect(empty) as admin:
        assert admin.execute(catalog).fetchall() == before

    with create_admin_engine(empty).connect() as connection:
        assert differences(connection) == []
        for change in (
            "alter table orders add column surprise text",
            "alter table orders drop column message",
            "alter table orders alter column status drop not null",
            "alter table orders alter column leads_fee type text",
            "create table surprises (id bigint)",
        ):
            connection.execute(sa.text(change))
        noticed = {found[0] if isinstance(found, tuple) else found[0][0] for found in differences(connection)}
        assert noticed == {"remove_column", "add_column", "modify_nullable", "modify_type", "remove_table"}
        connection.rollback()


def test_migrations_at_once_take_turns(empty: str) -> None:
    waiting = "select count(*) from pg_locks where locktype = 'advisory' and not granted"
    with psycopg.connect(empty) as other, ThreadPoolExecutor(2) as pool:
        other.execute("select pg_advisory_xact_lock(%s)", [schema.MIGRATION_LOCK_KEY])
        migrations = [pool.submit(schema.migrate, empty) for _ in range(2)]
        wait_until(lambda: other.execute(waiting).fetchone() == (2,))
        assert not any(migration.done() for migration in migrations)
        other.rollback()
        assert sorted(migration.result().status for migration in migrations) == ["current", "empty"]


THIS, NEXT = "0002", "0003"
ACCOUNT = "insert into accounts (email, name, created_at, updated_at) values ('a@example.com', 'Ada', now(), now())"
ADD_COLUMN = "alter table accounts add column motto text not null default '100% %s :ink';"


@pytest.fixture
def next_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The script of its migration, which our template made; the others are ours."""
    folder = tmp_path / "migrations"
    shutil.copytree(schema.MIGRATIONS_FOLDER, folder, ignore=shutil.ignore_patterns("__pycache__"))
    command.revision(config_of(folder), message="motto", rev_id=NEXT)
    script = folder / "versions" / f"{NEXT}_motto.sql"
    script.write_text(ADD_COLUMN)
    monkeypatch.setattr(schema, "MIGRATIONS_FOLDER", folder)
    list_revisions.cache_clear()
    yield script
    list_revisions.cache_clear()


def test_the_next_release_upgrades_a_database_of_this_one_and_leaves_its_rows(
    conninfo: str, next_release: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with psycopg.connect(conninfo) as admin:
        admin.execute(ACCOUNT)
    with pytest.raises(NotReady, match=r"\(0002\) is older than this release needs \(0003\).* run `quillpost migrate`"):
        schema.require_current(read_schema(conninfo))
    next_release.write_text(ADD_COLUMN + "select 1 / 0")
    with pytest.raises(psycopg.errors.DivisionByZero):
        schema.migrate(conninfo)
    assert read_schema(conninfo).revision == THIS
    with pytest.raises(psycopg.errors.UndefinedColumn), psycopg.connect(conninfo) as admin:
        admin.execute("select motto from accounts")

    next_release.write_text(ADD_COLUMN)
    with ThreadPoolExecutor(2) as pool:
        both = [run.result() for run in [pool.submit(schema.migrate, conninfo), pool.submit(schema.migrate, conninfo)]]
    assert sorted(both, key=lambda state: state.status) == [
        schema.SchemaState("current", NEXT, NEXT), schema.SchemaState("older", THIS, NEXT),
    ]  # fmt: skip
    assert read_schema(conninfo) == schema.SchemaState("current", NEXT, NEXT)
    with psycopg.connect(conninfo) as admin:
        assert admin.execute("select motto from accounts").fetchall() == [("100% %s :ink",)]

    monkeypatch.setattr(schema, "list_revisions", lambda: [THIS])
    assert read_schema(conninfo).status == "newer"
    with pytest.raises(NotReady, match=r"\(0003\) is newer than this release knows \(0002\)"):
        schema.migrate(conninfo)
    assert read_schema(conninfo).revision == NEXT


MOMENT = datetime(2026, 5, 4, 12, 0, 0, 123456, tzinfo=UTC)
COLUMNS = ("account_id", "mailing_list_id", "name", "company", "city", "dob", "created_at", "updated_at")
AWKWARD = ("", "\\N", "a\tb", "two\nlines", "back\\slash", "\\.", "'; drop table items; --", "Zoë 🎈", None)


def rows_for(account_id: int, list_id: int, how_many: int) -> list[tuple[Any, ...]]:
    return [
        (account_id, list_id, AWKWARD[n % len(AWKWARD)], str(n), None, date(2000, 1, 1), MOMENT, MOMENT)
        for n in range(how_many)
    ]


def stored(tx: Tx, list_id: int) -> list[tuple[Any, ...]]:
    chosen = sa.select(*(recipients.c[name] for name in COLUMNS)).where(recipients.c.mailing_list_id == list_id)
    return [tuple(row) for row in tx.execute(chosen.order_by(recipients.c.id))]


@pytest.mark.parametrize("few", [0, 1_000], ids=["copy", "plain"])
def test_rows_inserted_in_bulk_arrive_as_they_were_or_not_at_all(
    container: Container, account: int, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    monkeypatch.setattr(engine, "MAX_PLAIN_INSERTS", few)
    stranger = open_account(container, "stranger@example.com").account_id
    with container.db.transaction(Tenant(account)) as tx:
        list_id, other = (int(insert_least(tx, mailing_lists, {"account_id": account})) for _ in range(2))
        rows = rows_for(account, list_id, 300)
        engine.insert_rows(tx, recipients, COLUMNS, rows)
        assert stored(tx, list_id) == rows
    foreign = [*rows_for(account, other, 60), *rows_for(stranger, other, 1)]
    with pytest.raises(Exception, match="row-level security policy"), container.db.transaction(Tenant(account)) as tx:
        engine.insert_rows(tx, recipients, COLUMNS, foreign)
    with container.db.system_transaction() as tx:
        assert stored(tx, other) == []


def test_no_row_is_lost_where_one_way_ends_and_the_other_begins(container: Container, account: int) -> None:
    with container.db.transaction(Tenant(account)) as tx:
        for how_many in (0, 1, engine.MAX_PLAIN_INSERTS, engine.MAX_PLAIN_INSERTS + 1):
            list_id = int(insert_least(tx, mailing_lists, {"account_id": account}))
            engine.insert_rows(tx, recipients, COLUMNS, rows_for(account, list_id, how_many))
            assert len(stored(tx, list_id)) == how_many
        # Again in one transaction, with other columns.
        fewer = [(account, list_id, MOMENT, MOMENT)] * 60
        names = ("account_id", "mailing_list_id", "created_at", "updated_at")
        engine.insert_rows(tx, recipients, names, fewer)
        assert len(stored(tx, list_id)) == engine.MAX_PLAIN_INSERTS + 61


STEPS = {COMPOSE: ("compose", "compose_batch"), HAND_OVER: ("hand_over", "hand_over_batch")}
JOBS = 3


@pytest.mark.usefixtures("conninfo")  # a worker makes tables for the coming days
def test_of_such_a_step_one_is_taken_at_a_time(container: Container, monkeypatch: pytest.MonkeyPatch) -> None:
    guard, at_work, most = threading.Lock(), dict.fromkeys(STEPS, 0), dict.fromkeys(STEPS, 0)
    done: dict[str, list[int]] = {step: [] for step in STEPS}
    all_done, idle = threading.Event(), threading.Event()

    def working_at(step: str) -> Any:
        def takes_a_while(_production: Any, batch_id: int, **_when: Any) -> None:
            with guard:
                at_work[step] += 1
                most[step] = max(most[step], at_work[step])
            idle.wait(0.2)  # long enough for another to begin, if it may
            with guard:
                at_work[step] -= 1
                done[step].append(batch_id)
                if all(len(each) == JOBS for each in done.values()):
                    all_done.set()

        return takes_a_while

    with container.db.system_transaction() as tx:
        for step, (_, function) in STEPS.items():
            monkeypatch.setattr(batch_tasks, function, working_at(step))
            for batch_id in range(JOBS):
                enqueue_step(tx, step, batch_id)
        queues = tx.execute(sa.text("select distinct queue_name from procrastinate_jobs")).scalars().all()
    assert sorted(queues) == [queue for queue, _ in STEPS.values()]

    async def work() -> None:
        stop = asyncio.Event()
        working = asyncio.create_task(bootstrap.build_runner(Settings(), container, concurrency=8).run(stop))
        assert await asyncio.to_thread(all_done.wait, 60)
        stop.set()
        await working

    asyncio.run(work())
    assert {step: sorted(batches) for step, batches in done.items()} == {step: [*range(JOBS)] for step in STEPS}
    assert most == dict.fromkeys(STEPS, 1)
