"""The migrations, the tables as queries see them, and what a start finds."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import Any

import psycopg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

from quillpost.core.database.embedded.server import EmbeddedPostgres
from quillpost.core.database.engine import create_admin_engine
from quillpost.core.database.migrations.upgrade import config_of
from quillpost.core.database.schema import (
    MIGRATION_LOCK_KEY,
    MIGRATIONS_FOLDER,
    SchemaState,
    list_revisions,
    migrate,
    read_schema_state,
    require_current,
    required_revision,
)
from quillpost.core.database.tables.base import metadata
from quillpost.core.errors import NotReady
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


def state_of(conninfo: str) -> SchemaState:
    engine = create_admin_engine(conninfo)
    with engine.connect() as connection:
        return read_schema_state(connection)


def differences(conninfo: str) -> list[Any]:
    """What the database has and tables.py has not, or the other way round."""
    engine = create_admin_engine(conninfo)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True, "include_name": is_described})
        return [found for found in compare_metadata(context, metadata) if found[0] not in NOISE]


def is_described(name: str | None, kind: str, _parents: object) -> bool:
    """The job engine and the migrations keep their own tables, and deliveries have one a day."""
    return kind != "table" or not (name or "").startswith(("procrastinate_", "alembic_", "deliveries_"))


def write_revision(conninfo: str, revision: str) -> None:
    with psycopg.connect(conninfo) as admin:
        admin.execute("update alembic_version set version_num = %s", [revision])


def test_the_revisions_that_file_names_tell_are_those_that_the_migrations_follow() -> None:
    known = ScriptDirectory.from_config(config_of(MIGRATIONS_FOLDER)).walk_revisions()
    assert list_revisions() == [script.revision for script in known][::-1]


def test_the_baseline_runs_every_script_in_its_folder() -> None:
    baseline = ScriptDirectory.from_config(config_of(MIGRATIONS_FOLDER)).get_revision("0001")
    folder = MIGRATIONS_FOLDER / "versions" / "0001_baseline"
    assert sorted(baseline.module.SCRIPTS) == sorted(script.stem for script in folder.iterdir())


def test_the_migrations_make_exactly_the_tables_that_queries_know(empty: str) -> None:
    migrate(empty)
    assert differences(empty) == []


@pytest.mark.parametrize(
    "change",
    [
        "alter table orders add column surprise text",
        "alter table orders drop column message",
        "alter table orders alter column message drop not null",
        "alter table orders alter column leads_fee type text",
        "create table surprises (id bigint)",
    ],
)
def test_a_difference_would_be_noticed(conninfo: str, change: str) -> None:
    with psycopg.connect(conninfo) as admin:
        admin.execute(change)
    assert differences(conninfo) != []


def test_an_empty_database_is_filled(empty: str) -> None:
    assert state_of(empty).status == "empty"
    assert migrate(empty).status == "empty"
    assert state_of(empty) == SchemaState("current", required_revision(), required_revision())


def test_migrating_again_changes_nothing(conninfo: str) -> None:
    catalogue = "select oid, relname, relfilenode from pg_class order by oid"
    with psycopg.connect(conninfo) as admin:
        before = admin.execute(catalogue).fetchall()
    assert migrate(conninfo).status == "current"
    with psycopg.connect(conninfo) as admin:
        assert admin.execute(catalogue).fetchall() == before


def test_two_migrations_at_once_take_turns(empty: str) -> None:
    with ThreadPoolExecutor(2) as pool:
        both = [run.result() for run in [pool.submit(migrate, empty), pool.submit(migrate, empty)]]
    assert sorted(before.status for before in both) == ["current", "empty"]


def test_a_migration_waits_while_another_holds_the_turn(empty: str) -> None:
    waiting = "select count(*) from pg_locks where locktype = 'advisory' and not granted"
    with psycopg.connect(empty) as other, ThreadPoolExecutor(1) as pool:
        other.execute("select pg_advisory_xact_lock(%s)", [MIGRATION_LOCK_KEY])
        migration = pool.submit(migrate, empty)
        wait_until(lambda: other.execute(waiting).fetchone() == (1,))
        assert not migration.done()
        other.rollback()
        assert migration.result().status == "empty"


def test_a_schema_of_a_later_release_is_left_alone(conninfo: str) -> None:
    write_revision(conninfo, "9999")
    assert state_of(conninfo).status == "newer"
    with pytest.raises(NotReady, match=r"\(9999\) is newer than this release knows"):
        migrate(conninfo)
    assert state_of(conninfo).revision == "9999"


def test_an_empty_database_is_not_current(empty: str) -> None:
    with pytest.raises(NotReady, match="The database is empty"):
        require_current(state_of(empty))


def test_the_release_s_own_schema_is_current(conninfo: str) -> None:
    require_current(state_of(conninfo))
