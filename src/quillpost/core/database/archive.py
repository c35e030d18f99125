"""A backup as one file: a compressed tar whose first entry says what it is and whose last proves it whole.

manifest.json    which release and schema, when, how many of everything
files/KEY        each file of the file store
database/N       the database's dump, in pieces: PostgreSQL's own `pg_dump`, and `pg_restore` for the way back
checksum.json    the digest of all that came before
"""

import gzip
import hashlib
import io
import json
import os
import subprocess
import tarfile
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, BinaryIO

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from quillpost.core.database.embedded.binaries import PostgresBinaries
from quillpost.core.database.engine import create_admin_engine
from quillpost.core.database.schema import OWNER_ROLE, create_roles
from quillpost.core.errors import NotReady

FORMAT = "quillpost backup 1"
MANIFEST_NAME, CHECKSUM_NAME = "manifest.json", "checksum.json"
FILES_PREFIX, DATABASE_PREFIX = "files/", "database/"
MAX_MANIFEST_BYTES = 1_000_000
PADDING_CHUNK_BYTES = 100_000

# Print files and pictures are compressed already: more effort would gain little.
COMPRESSION_LEVEL = 1


@dataclass(frozen=True, slots=True)
class BackupManifest:
    """`key_check` tells whether secret keys are the right ones, the current one first, and nothing else of them."""

    release: str
    schema: str
    taken_at: str
    key_check: str
    counts: Mapping[str, int]
    format: str = FORMAT


class _EntryChecksum:
    """Covers names and sizes too."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()
        self.entries = 0

    def add(self, name: str, data: bytes) -> None:
        self._digest.update(f"{name}\n{len(data)}\n".encode())
        self._digest.update(data)
        self.entries += 1

    def to_json(self) -> dict[str, object]:
        return {"entries": self.entries, "sha256": self._digest.hexdigest()}


class ArchiveWriter:
    """`finish` makes it a whole backup."""

    def __init__(self, out: BinaryIO, manifest: BackupManifest) -> None:
        self._gzip = gzip.GzipFile(filename="", mode="wb", compresslevel=COMPRESSION_LEVEL, fileobj=out, mtime=0)
        self._tar = tarfile.open(fileobj=self._gzip, mode="w|", format=tarfile.PAX_FORMAT)  # noqa: SIM115
        self._checksum = _EntryChecksum()
        self._database_chunks = 0
        self._add(MANIFEST_NAME, _dump_json(asdict(manifest)))

    def add_file(self, key: str, data: bytes) -> None:
        self._add(FILES_PREFIX + key, data)

    def add_database_chunk(self, data: bytes) -> None:
        self._database_chunks += 1
        self._add(f"{DATABASE_PREFIX}{self._database_chunks:08d}", data)

    def finish(self) -> None:
        self._add(CHECKSUM_NAME, _dump_json(self._checksum.to_json()))
        self._tar.close()

    def close(self) -> None:
        self._gzip.close()

    def _add(self, name: str, data: bytes) -> None:
        entry = tarfile.TarInfo(name)
        entry.size, entry.mode = len(data), 0o600
        self._tar.addfile(entry, io.BytesIO(data))
        _clear_entries(self._tar)
        self._checksum.add(name, data)


def verify_backup(file: Path) -> BackupManifest:
    """Reads all of it. `NotReady` when it is no backup, or not whole."""
    checksum = _EntryChecksum()
    manifest: BackupManifest | None = None
    expected_checksum: object = None
    for name, data in _read_entries(file):
        if expected_checksum is not None:
            raise _damaged_error(file)
        if manifest is None:
            manifest = _parse_manifest(file, name, data)
        if name == CHECKSUM_NAME:
            expected_checksum = _parse_json(data)
        else:
            checksum.add(name, data)
    if manifest is None or expected_checksum != checksum.to_json():
        raise _damaged_error(file)
    return manifest


def read_files(file: Path) -> Iterator[tuple[str, bytes]]:
    for name, data in _read_entries(file):
        if name.startswith(FILES_PREFIX):
            yield name.removeprefix(FILES_PREFIX), data


def read_database_dump(file: Path) -> Iterator[bytes]:
    for name, data in _read_entries(file):
        if name.startswith(DATABASE_PREFIX):
            yield data


def _read_entries(file: Path) -> Iterator[tuple[str, bytes]]:
    is_first = True
    try:
        with gzip.open(file) as unzipped, tarfile.open(fileobj=unzipped, mode="r|") as tar:
            while (entry := tar.next()) is not None:
                if is_first and (entry.name != MANIFEST_NAME or entry.size > MAX_MANIFEST_BYTES):
                    raise _foreign_error(file)
                is_first = False
                content = tar.extractfile(entry)
                yield entry.name, b"" if content is None else content.read()
                _clear_entries(tar)
            while unzipped.read(PADDING_CHUNK_BYTES):  # nothing but padding, up to the stream's own checksum
                pass
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile):
        raise (_foreign_error(file) if is_first else _damaged_error(file)) from None
    except OSError as error:
        raise NotReady(f"The backup {file} cannot be read: {error.strerror}.") from None


def _clear_entries(tar: tarfile.TarFile) -> None:
    """Python keeps every entry's header for random access, which we never use."""
    tar.members.clear()  # type: ignore[attr-defined]


def _parse_manifest(file: Path, name: str, data: bytes) -> BackupManifest:
    fields = _parse_json(data)
    if name != MANIFEST_NAME or not isinstance(fields, dict) or fields.get("format") != FORMAT:
        raise _foreign_error(file)
    try:
        return BackupManifest(**fields)
    except TypeError:
        raise _foreign_error(file) from None


def _parse_json(data: bytes) -> object:
    try:
        return json.loads(data)
    except ValueError:
        return None


def _dump_json(value: Mapping[str, object]) -> bytes:
    return json.dumps(value, indent=1).encode()


def _foreign_error(file: Path) -> NotReady:
    return NotReady(f"{file} is not a backup that this release of Quillpost can read.")


def _damaged_error(file: Path) -> NotReady:
    return NotReady(f"The backup {file} is damaged or cut short: use another copy.")


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
    with create_admin_engine(conninfo).begin() as connection:
        create_roles(connection)
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
