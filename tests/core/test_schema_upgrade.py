"""A database of this release meets the release after it, which brings one more revision."""

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from alembic import command

from quillpost.app.runtime import read_schema
from quillpost.core.database import schema
from quillpost.core.database.migrations.upgrade import config_of
from quillpost.core.database.schema import SchemaState, list_revisions, migrate, require_current
from quillpost.core.errors import NotReady

THIS, NEXT = "0001", "0002"
ACCOUNT = "insert into accounts (email, name, created_at, updated_at) values ('a@example.com', 'Ada', now(), now())"
ADD_COLUMN = "alter table accounts add column motto text not null default '100% %s :ink';"


@dataclass(frozen=True)
class NextRelease:
    """Its migrations: ours, and one that our template made."""

    script: Path

    def write(self, sql: str) -> None:
        self.script.write_text(sql)


@pytest.fixture
def next_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[NextRelease]:
    folder = tmp_path / "migrations"
    shutil.copytree(schema.MIGRATIONS_FOLDER, folder, ignore=shutil.ignore_patterns("__pycache__"))
    command.revision(config_of(folder), message="motto", rev_id=NEXT)
    script = folder / "versions" / f"{NEXT}_motto.sql"
    script.write_text(ADD_COLUMN)
    monkeypatch.setattr(schema, "MIGRATIONS_FOLDER", folder)
    list_revisions.cache_clear()
    yield NextRelease(script)
    list_revisions.cache_clear()


def mottos(conninfo: str) -> list[tuple[str]]:
    with psycopg.connect(conninfo) as admin:
        return admin.execute("select motto from accounts").fetchall()


def test_an_upgrade_runs_what_is_new_and_leaves_the_rows(conninfo: str, next_release: NextRelease) -> None:
    with psycopg.connect(conninfo) as admin:
        admin.execute(ACCOUNT)
    assert migrate(conninfo) == SchemaState("older", THIS, NEXT)
    assert read_schema(conninfo) == SchemaState("current", NEXT, NEXT)
    assert mottos(conninfo) == [("100% %s :ink",)]


def test_an_older_schema_says_how_to_upgrade(conninfo: str, next_release: NextRelease) -> None:
    with pytest.raises(NotReady, match=r"\(0001\) is older than this release needs \(0002\).* run `quillpost migrate`"):
        require_current(read_schema(conninfo))


def test_an_upgrade_that_fails_changes_nothing(conninfo: str, next_release: NextRelease) -> None:
    next_release.write(ADD_COLUMN + "select 1 / 0")
    with pytest.raises(psycopg.errors.DivisionByZero):
        migrate(conninfo)
    assert read_schema(conninfo).revision == THIS
    with pytest.raises(psycopg.errors.UndefinedColumn):
        mottos(conninfo)
    next_release.write(ADD_COLUMN)
    assert migrate(conninfo).status == "older"


def test_two_upgrades_at_once_take_turns(conninfo: str, next_release: NextRelease) -> None:
    with ThreadPoolExecutor(2) as pool:
        both = [run.result() for run in [pool.submit(migrate, conninfo), pool.submit(migrate, conninfo)]]
    assert sorted(before.status for before in both) == ["current", "older"]


def test_the_release_before_refuses_what_was_upgraded(
    conninfo: str, next_release: NextRelease, monkeypatch: pytest.MonkeyPatch
) -> None:
    migrate(conninfo)
    monkeypatch.setattr(schema, "list_revisions", lambda: [THIS])
    with pytest.raises(NotReady, match=r"\(0002\) is newer than this release knows \(0001\)"):
        migrate(conninfo)
