"""Brings a database to the schema this release needs, or says plainly why it cannot be used."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

import sqlalchemy as sa

from quillpost.core.database.engine import administrator
from quillpost.core.errors import NotReady

OWNER, APP, WORKER = "quillpost_owner", "quillpost_app", "quillpost_worker"

MIGRATIONS = Path(__file__).parent / "migrations"

# Two processes that start at once on an empty database take turns.
MIGRATION_LOCK = 7_125_201


@dataclass(frozen=True, slots=True)
class SchemaState:
    """How the database's revision stands to this release's."""

    verdict: Literal["empty", "current", "older", "newer"]
    found: str | None
    needed: str


@cache
def revisions() -> list[str]:
    """Every one that this release knows, in their order: each file of a migration begins with its own."""
    return sorted(path.name.partition("_")[0] for path in MIGRATIONS.glob("versions/[0-9]*.py"))


def needed_revision() -> str:
    return revisions()[-1]


def state(connection: sa.Connection) -> SchemaState:
    """Where the database stands."""
    if connection.scalar(sa.text("select to_regclass('alembic_version')")) is None:
        return state_of(None)
    return state_of(connection.scalars(sa.text("select version_num from alembic_version")).one_or_none())


def state_of(found: str | None) -> SchemaState:
    """How a revision, or a database without any, stands to this release's."""
    needed = needed_revision()
    if found is None:
        return SchemaState("empty", None, needed)
    if found == needed:
        return SchemaState("current", found, needed)
    return SchemaState("older" if found in revisions() else "newer", found, needed)


def require_current(found: SchemaState) -> None:
    """Raise one clear sentence unless the schema is this release's."""
    if found.verdict == "older":
        raise NotReady(
            f"The database schema ({found.found}) is older than this release needs "
            f"({found.needed}): take a backup, then run `quillpost migrate`."
        )
    if found.verdict == "newer":
        raise NotReady(
            f"The database schema ({found.found}) is newer than this release knows "
            f"({found.needed}): run the release that wrote it, or a later one."
        )
    if found.verdict == "empty":
        raise NotReady("The database is empty: run `quillpost migrate` first.")


def migrate(conninfo: str) -> SchemaState:
    """Upgrade to this release's schema, creating roles and everything else where there is nothing."""
    engine = administrator(conninfo)
    try:
        with engine.begin() as connection:
            connection.execute(sa.text("select pg_advisory_xact_lock(:key)"), {"key": MIGRATION_LOCK})
            before = state(connection)
            if before.verdict == "newer":
                require_current(before)
            if before.verdict != "current":
                create_roles(connection)
                connection.execute(sa.text(f"set local role {OWNER}"))
                _run_migrations(connection)
        return before
    finally:
        engine.dispose()


def _run_migrations(connection: sa.Connection) -> None:
    # Here and nowhere else: Alembic is for whoever upgrades, and every other start goes without loading it.
    from quillpost.core.database.migrations.running import upgrade  # noqa: PLC0415

    upgrade(connection, MIGRATIONS)


def create_roles(connection: sa.Connection) -> None:
    """Roles belong to the whole server, so another database of ours may have made them already.

    Whoever makes a role may administer it, but use it only after a grant: an ordinary login needs both.
    """
    for role, kind in ((OWNER, "nologin"), (APP, "login"), (WORKER, "login")):
        connection.execute(
            sa.text(
                f"""do $$ begin create role {role} {kind};
                exception when duplicate_object or unique_violation then null; end $$"""
            )
        )
        connection.execute(
            sa.text(
                f"""do $$ begin
                if not pg_has_role(current_user, '{role}', 'usage') then
                    execute format('grant {role} to %I', current_user);
                end if; end $$"""
            )
        )
    connection.execute(sa.text(f"grant usage, create on schema public to {OWNER}"))
    connection.execute(
        sa.text(
            f"""do $$ begin
            execute format('grant temporary on database %I to {APP}, {WORKER}', current_database());
            end $$"""
        )
    )
