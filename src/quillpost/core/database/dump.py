"""The database as a stream of bytes, and back: PostgreSQL's own `pg_dump` and `pg_restore`."""

import os
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import IO

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from quillpost.core.database.embedded.binaries import PostgresBinaries
from quillpost.core.database.engine import create_admin_engine
from quillpost.core.database.schema import OWNER_ROLE, create_roles
from quillpost.core.errors import NotReady

CHUNK_BYTES = 4_000_000
TABLE_WITHOUT_DATA = "rate_windows"  # who called in the last minute, in a table that a crash may empty anyway
STAGING_TABLES = "import_staging_*"  # rows of running imports, whose files are read again
COUNTED_TABLES = ("accounts", "orders", "items", "giftcards", "giftcard_stock", "facts", "files", "webhooks")

# What was given out after a backup is on paper, though a restored database does not know of it. It goes on
# so far behind that the two cannot meet:
# - A mailer id of nine digits has a million serials, each for 45 days: 22,000 pieces a day at most. 100,000
#   are four days of those, and keep a tenth of all serials from use for 45 days.
# - One of six digits has a billion: 10,000,000 are ten orders to a million people, and a hundredth of all.
# - Mailers that had no pieces yet may be of either kind: both moves in one.
# - A batch for each minute would make 1,440 a day: 10,000 are a week.
NINE_DIGIT_SKIP, SIX_DIGIT_SKIP = 100_000, 10_000_000
UNKNOWN_MAILER_SKIP = SIX_DIGIT_SKIP + NINE_DIGIT_SKIP
BATCH_SKIP = 10_000

SKIP_BATCH_NUMBERS = f"""
    select setval(pg_get_serial_sequence('batches', 'id'),
                  nextval(pg_get_serial_sequence('batches', 'id')) + {BATCH_SKIP})
"""
SKIP_SERIALS = f"""
    do $$
    declare
        first bigint;
    begin
        update mailers set next_serial = next_serial
            + case length(mailer_id) when 9 then {NINE_DIGIT_SKIP} else {SIX_DIGIT_SKIP} end;
        execute (select 'select ' || column_default from information_schema.columns
                  where (table_name, column_name) = ('mailers', 'next_serial')) into first;
        execute format('alter table mailers alter column next_serial set default %s', first + {UNKNOWN_MAILER_SKIP});
    end $$
"""

# A card of the operator's own that was free then may be in the mail by now, and one that a piece had may have
# come back and gone to another: none is given before the operator says so.
SET_ASIDE_GIFTCARDS = "update giftcard_stock set set_aside_at = now() where mode = 'live'"
COUNT_SET_ASIDE_GIFTCARDS = "select count(*) from giftcard_stock where set_aside_at is not null and taken_by is null"

# Who was signed in when the backup was made may have signed out since, or been shown the door. With a session
# go the tokens of its pages.
DELETE_SESSIONS = """
    delete from sessions;
    delete from password_resets;
    delete from oauth_codes;
"""

HAS_RELATIONS = """
    select exists (
        select from pg_class c join pg_namespace n on n.oid = c.relnamespace
         where n.nspname not in ('pg_catalog', 'information_schema') and n.nspname not like 'pg\\_t%')
"""


@dataclass(frozen=True, slots=True)
class DatabaseSnapshot:
    """One moment of the database, visible to `pg_dump` while it is held."""

    name: str
    schema: str
    last_batch: int
    counts: Mapping[str, int]


@contextmanager
def hold_snapshot(conninfo: str) -> Iterator[DatabaseSnapshot]:
    """The service may go on writing."""
    with psycopg.connect(conninfo, connect_timeout=5) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.read_only = True
        connection.execute("set local idle_in_transaction_session_timeout = 0")
        connection.execute(f"set local role {OWNER_ROLE}")
        # Deliveries lie in a table a day, and old days are dropped. What the snapshot knows must be there
        # until `pg_dump` comes to it, which may be long after: so the days are locked first, and all of them.
        connection.execute("lock table deliveries in access share mode")
        yield DatabaseSnapshot(
            name=str(_query_value(connection, "select pg_export_snapshot()")),
            schema=str(_query_value(connection, "select version_num from alembic_version")),
            last_batch=_query_number(connection, "select coalesce(max(id), 0) from batches"),
            counts=_count_rows(connection),
        )


def dump_database(binaries: PostgresBinaries, conninfo: str, snapshot: DatabaseSnapshot) -> Iterator[bytes]:
    """In PostgreSQL's custom format."""
    command = [
        binaries.program_path("pg_dump"),
        "--format=custom",
        "--compress=none",  # the archive around it compresses
        f"--role={OWNER_ROLE}",  # whom row-level security does not filter
        f"--snapshot={snapshot.name}",
        f"--exclude-table-data={TABLE_WITHOUT_DATA}",
        f"--exclude-table={STAGING_TABLES}",
    ]
    with _run_program(command, conninfo, stdout=subprocess.PIPE) as program:
        assert program.stdout is not None
        while chunk := program.stdout.read(CHUNK_BYTES):
            yield chunk


def is_database_empty(conninfo: str) -> bool:
    with psycopg.connect(conninfo, connect_timeout=5) as connection:
        return not _query_value(connection, HAS_RELATIONS)


def restore_database(binaries: PostgresBinaries, conninfo: str, chunks: Iterable[bytes]) -> None:
    """In one transaction."""
    engine = create_admin_engine(conninfo)
    try:
        with engine.begin() as connection:
            create_roles(connection)
    finally:
        engine.dispose()
    command = [binaries.program_path("pg_restore"), "--single-transaction", "--exit-on-error"]
    with _run_program(command, conninfo, stdin=subprocess.PIPE) as program:
        assert program.stdin is not None
        # A program that gives up closes the pipe; what it says then is the better explanation.
        with suppress(BrokenPipeError):
            for chunk in chunks:
                program.stdin.write(chunk)
            program.stdin.close()


def skip_issued_numbers(conninfo: str) -> int:
    """Skip the barcodes and batch numbers issued since the backup: they are in the mail. Gift cards in stock may be,
    too: they are set aside; how many."""
    with psycopg.connect(conninfo, connect_timeout=5) as connection:
        connection.execute(f"set local role {OWNER_ROLE}")
        connection.execute(SKIP_BATCH_NUMBERS)
        connection.execute(SKIP_SERIALS)
        connection.execute(SET_ASIDE_GIFTCARDS)
        return _query_number(connection, COUNT_SET_ASIDE_GIFTCARDS)


def delete_sessions(conninfo: str) -> None:
    """Also the links that set a password."""
    with psycopg.connect(conninfo, connect_timeout=5) as connection:
        connection.execute(f"set local role {OWNER_ROLE}")
        connection.execute(DELETE_SESSIONS)


@contextmanager
def _run_program(
    command: list[str], conninfo: str, *, stdin: int | None = None, stdout: int | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """`NotReady` with the program's own message when it fails."""
    target, password = _split_password(conninfo)
    with tempfile.TemporaryFile() as error_output:
        try:
            program = subprocess.Popen(
                [*command, f"--dbname={target}"],
                stdin=stdin or subprocess.DEVNULL,
                stdout=stdout or subprocess.DEVNULL,
                stderr=error_output,
                env=os.environ | {"LC_ALL": "C"} | password,
            )
        except OSError as error:
            raise NotReady(f"PostgreSQL's program {command[0]} cannot run: {error.strerror}.") from None
        try:
            yield program
            exit_code = program.wait()
        except BaseException:
            program.kill()
            raise
        finally:
            _close_pipes(program)
        if exit_code != 0:
            raise NotReady(f"The database could not be copied: {_first_error(error_output)}.")


def _close_pipes(program: subprocess.Popen[bytes]) -> None:
    for pipe in (program.stdin, program.stdout):
        if pipe is not None:
            with suppress(BrokenPipeError):
                pipe.close()
    program.wait()


def _split_password(conninfo: str) -> tuple[str, dict[str, str]]:
    """Command lines are visible to everyone on the machine, an environment is not."""
    conninfo_params = conninfo_to_dict(conninfo)
    password = conninfo_params.pop("password", None)
    return make_conninfo("", **conninfo_params), {} if password is None else {"PGPASSWORD": str(password)}


def _first_error(error_output: IO[bytes]) -> str:
    error_output.seek(0)
    lines = error_output.read(20_000).decode(errors="replace").splitlines()
    errors = [line.partition("error:")[2].strip() for line in lines if "error:" in line]
    return (errors or lines or ["PostgreSQL's program ended without a word"])[0].rstrip(".")


def _count_rows(connection: psycopg.Connection) -> Mapping[str, int]:
    """An older schema may not have all tables."""
    existing_tables = [
        name for name in COUNTED_TABLES if _query_value(connection, f"select to_regclass('{name}')") is not None
    ]
    return {name: _query_number(connection, f"select count(*) from {name}") for name in existing_tables}


def _query_value(connection: psycopg.Connection, query: str) -> object:
    row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return row[0]


def _query_number(connection: psycopg.Connection, query: str) -> int:
    return int(str(_query_value(connection, query)))
