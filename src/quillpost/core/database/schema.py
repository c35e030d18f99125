"""The schema that this release needs: migrations, and whether a database has it."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

import sqlalchemy as sa

from quillpost.core.database.engine import create_admin_engine
from quillpost.core.errors import NotReady

OWNER_ROLE, APP_ROLE, WORKER_ROLE = "quillpost_owner", "quillpost_app", "quillpost_worker"

MIGRATIONS_FOLDER = Path(__file__).parent / "migrations"

MIGRATION_LOCK_KEY = 7_125_201  # for two processes that start at once on an empty database


@dataclass(frozen=True, slots=True)
class SchemaState:
    status: Literal["empty", "current", "older", "newer"]
    revision: str | None
    required_revision: str


@cache
def list_revisions() -> list[str]:
    """In order; the name of a migration's file begins with its revision."""
    return sorted(path.name.partition("_")[0] for path in MIGRATIONS_FOLDER.glob("versions/[0-9]*.py"))


def required_revision() -> str:
    return list_revisions()[-1]


def read_schema_state(connection: sa.Connection) -> SchemaState:
    if connection.scalar(sa.text("select to_regclass('alembic_version')")) is None:
        return compare_revision(None)
    return compare_revision(connection.scalars(sa.text("select version_num from alembic_version")).one_or_none())


def compare_revision(revision: str | None) -> SchemaState:
    """`revision` is None for an empty database."""
    required = required_revision()
    if revision is None:
        return SchemaState("empty", None, required)
    if revision == required:
        return SchemaState("current", revision, required)
    return SchemaState("older" if revision in list_revisions() else "newer", revision, required)


def require_current(schema: SchemaState) -> None:
    if schema.status == "older":
        raise NotReady(
            f"The database schema ({schema.revision}) is older than this release needs "
            f"({schema.required_revision}): take a backup, then run `quillpost migrate`."
        )
    if schema.status == "newer":
        raise NotReady(
            f"The database schema ({schema.revision}) is newer than this release knows "
            f"({schema.required_revision}): run the release that wrote it, or a later one."
        )
    if schema.status == "empty":
        raise NotReady("The database is empty: run `quillpost migrate` first.")


def migrate(conninfo: str) -> SchemaState:
    """Upgrade to this release's schema, or create it with its roles; the state before."""
    with create_admin_engine(conninfo).begin() as connection:
        connection.execute(sa.text("select pg_advisory_xact_lock(:key)"), {"key": MIGRATION_LOCK_KEY})
        before = read_schema_state(connection)
        if before.status == "newer":
            require_current(before)
        if before.status != "current":
            create_roles(connection)
            connection.execute(sa.text(f"set local role {OWNER_ROLE}"))
            # Imported here, as every other start goes without Alembic.
            from quillpost.core.database.migrations.upgrade import upgrade  # noqa: PLC0415

            upgrade(connection, MIGRATIONS_FOLDER)
    return before


def create_roles(connection: sa.Connection) -> None:
    """Roles belong to the whole server, so another database of ours may have made them already. The creator of a role
    may administer it, but use it only after a grant: an ordinary login needs both."""
    for role, login_option in ((OWNER_ROLE, "nologin"), (APP_ROLE, "login"), (WORKER_ROLE, "login")):
        connection.execute(
            sa.text(
                f"""do $$ begin create role {role} {login_option};
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
    connection.execute(sa.text(f"grant usage, create on schema public to {OWNER_ROLE}"))
    connection.execute(
        sa.text(
            f"""do $$ begin
            execute format('grant temporary on database %I to {APP_ROLE}, {WORKER_ROLE}', current_database());
            end $$"""
        )
    )
