"""The rows of imports: their status changes by compare-and-swap alone, so of two that try one wins."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from psycopg import sql

from quillpost.core.database import Tx, driver_connection
from quillpost.core.database.tables.recipients import import_rejects, imports
from quillpost.core.errors import NotFound
from quillpost.recipients.imports.columns import FileLayout, MappedColumn
from quillpost.recipients.imports.process_pool import ExaminedChunk

UNFINISHED = ("waiting", "running")


@dataclass(frozen=True, slots=True)
class Import:
    id: int
    account_id: int
    sub_account_id: int | None
    mailing_list_id: int
    status: str
    file_name: str
    file_key: str | None
    file_bytes: int
    layout: FileLayout
    columns: Sequence[MappedColumn]
    rows_total: int | None
    rows_read: int
    bytes_read: int
    rows_imported: int
    rows_rejected: int
    duplicates: int
    error: str | None
    created_at: datetime
    finished_at: datetime | None

    @property
    def is_finished(self) -> bool:
        return self.status not in UNFINISHED

    @property
    def staged_count(self) -> int:
        """People that wait in its staging table."""
        return self.rows_read - self.rows_rejected

    @property
    def progress(self) -> float:
        """From 0 to 1. Reading is most of the work; the last tenth puts everyone on the list."""
        if self.status == "done":
            return 1.0
        return round(0.9 * min(1.0, self.bytes_read / max(1, self.file_bytes)), 3)


_COLUMNS = [imports.c[field.name] for field in fields(Import)]


def _build_import(row: sa.Row[Any]) -> Import:
    values = dict(row._mapping)
    values["layout"] = FileLayout.from_dict(values["layout"])
    values["columns"] = [MappedColumn.from_stored(column) for column in values["columns"]]
    return Import(**values)


def insert_import(tx: Tx, values: Mapping[str, Any]) -> Import:
    return _build_import(tx.execute(sa.insert(imports).values(**values).returning(*_COLUMNS)).one())


def read_import(tx: Tx, import_id: int) -> Import:
    row = tx.execute(sa.select(*_COLUMNS).where(imports.c.id == import_id)).first()
    if row is None:
        raise NotFound
    return _build_import(row)


def list_recent_imports(tx: Tx, list_id: int, *, limit: int) -> list[Import]:
    """Into one list, newest first."""
    rows = tx.execute(
        sa.select(*_COLUMNS).where(imports.c.mailing_list_id == list_id).order_by(imports.c.id.desc()).limit(limit)
    )
    return [_build_import(row) for row in rows]


@dataclass(frozen=True, slots=True)
class RejectedImportRow:
    """A row of a file that was not taken: where in it the row begins, and why."""

    place: int
    line: int
    reason: str


def list_first_rejects(tx: Tx, import_id: int, *, limit: int) -> list[RejectedImportRow]:
    """In the order of the file. Takes the service's transaction, and an import that its reader has read."""
    columns = import_rejects.c
    rows = tx.execute(
        sa.select(columns.place, columns.line, columns.reason)
        .where(columns.import_id == import_id)
        .order_by(columns.place)
        .limit(limit)
    )
    return [RejectedImportRow(*row) for row in rows]


def start_import(tx: Tx, import_id: int, *, now: datetime) -> Import | None:
    """The import at work, whether it begins or goes on; nothing where it has ended."""
    row = tx.execute(
        sa.update(imports)
        .where(imports.c.id == import_id, imports.c.status.in_(UNFINISHED))
        .values(status="running", updated_at=now)
        .returning(*_COLUMNS)
    ).first()
    return None if row is None else _build_import(row)


def restart_import(tx: Tx, import_id: int, *, now: datetime) -> None:
    """Nothing of it is staged: its first row is read next."""
    tx.execute(sa.delete(import_rejects).where(import_rejects.c.import_id == import_id))
    tx.execute(
        sa.update(imports)
        .where(imports.c.id == import_id)
        .values(rows_read=0, rows_rejected=0, bytes_read=0, updated_at=now)
    )


def finish_import(tx: Tx, import_id: int, status: str, *, now: datetime, **values: Any) -> bool:
    """Whether it was this call that ended it."""
    result = tx.execute(
        sa.update(imports)
        .where(imports.c.id == import_id, imports.c.status.in_(UNFINISHED))
        .values(status=status, finished_at=now, updated_at=now, **values)
    )
    return result.rowcount == 1


def store_chunk(tx: Tx, import_id: int, examined: ExaminedChunk, *, now: datetime) -> bool:
    """Stage what became of a chunk and note that it is; False where the import has gone another way since."""
    chunk = examined.chunk
    # A crash of the server empties the staging table anyway, so nobody need wait for the disk.
    tx.execute(sa.text("set local synchronous_commit = off"))
    result = tx.execute(
        sa.update(imports)
        .where(imports.c.id == import_id, imports.c.status == "running", imports.c.rows_read == chunk.first_row)
        .values(
            rows_read=chunk.first_row + chunk.row_count,
            rows_rejected=imports.c.rows_rejected + examined.rejected_count,
            bytes_read=chunk.bytes_read,
            updated_at=now,
        )
    )
    if result.rowcount == 0:
        return False
    copy_lines(tx, get_staging_name(import_id), examined.accepted_data)
    copy_lines(tx, import_rejects.name, examined.rejected_data)
    return True


def copy_lines(tx: Tx, table: str, lines: bytes) -> None:
    if not lines:
        return
    command = sql.SQL("copy {} from stdin").format(sql.Identifier(table))
    with driver_connection(tx).cursor() as cursor, cursor.copy(command) as copy:
        copy.write(lines)


def get_staging_name(import_id: int) -> str:
    return f"import_staging_{import_id}"


def create_staging(tx: Tx, import_id: int) -> int:
    """See that there is a staging table; how many wait in it."""
    tx.execute(sa.text("select make_import_staging(:id)"), {"id": import_id})
    return int(tx.execute(sa.text(f"select count(*) from {get_staging_name(import_id)}")).scalar_one())


def truncate_staging(tx: Tx, import_id: int) -> None:
    tx.execute(sa.text(f"truncate {get_staging_name(import_id)}"))


def drop_staging(tx: Tx, import_id: int) -> None:
    tx.execute(sa.text("select drop_import_staging(:id)"), {"id": import_id})


def has_ended(tx: Tx, import_id: int) -> bool:
    """Whether it is done, failed, cancelled or gone altogether."""
    unfinished = sa.select(imports.c.id).where(imports.c.id == import_id, imports.c.status.in_(UNFINISHED))
    return tx.execute(unfinished).first() is None
