"""The rows of imports: their status changes by compare-and-swap alone, so of two that try one wins."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from psycopg import sql

from quillpost.core.database import Tx, driver
from quillpost.core.database.tables.imports import import_rejects, imports
from quillpost.core.errors import NotFound
from quillpost.recipients.imports.columns import Column, Layout
from quillpost.recipients.imports.process_pool import Examined

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
    layout: Layout
    columns: Sequence[Column]
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
    def staged(self) -> int:
        """People that wait in its staging table."""
        return self.rows_read - self.rows_rejected

    @property
    def progress(self) -> float:
        """From 0 to 1. Reading is most of the work; the last tenth puts everyone on the list."""
        if self.status == "done":
            return 1.0
        return round(0.9 * min(1.0, self.bytes_read / max(1, self.file_bytes)), 3)


_COLUMNS = [imports.c[field.name] for field in fields(Import)]


def _import(row: sa.Row[Any]) -> Import:
    values = dict(row._mapping)
    values["layout"] = Layout.read(values["layout"])
    values["columns"] = [Column.read(each) for each in values["columns"]]
    return Import(**values)


def insert_import(tx: Tx, values: Mapping[str, Any]) -> Import:
    return _import(tx.execute(sa.insert(imports).values(**values).returning(*_COLUMNS)).one())


def read_import(tx: Tx, import_id: int) -> Import:
    row = tx.execute(sa.select(*_COLUMNS).where(imports.c.id == import_id)).first()
    if row is None:
        raise NotFound
    return _import(row)


def recent_imports(tx: Tx, list_id: int, *, most: int) -> list[Import]:
    """Into one list, newest first."""
    rows = tx.execute(
        sa.select(*_COLUMNS)
        .where(imports.c.mailing_list_id == list_id)
        .order_by(imports.c.id.desc())
        .limit(most)
    )
    return [_import(row) for row in rows]


@dataclass(frozen=True, slots=True)
class Reject:
    """A row of a file that was not taken: where in it the row begins, and why."""

    place: int
    line: int
    reason: str


def first_rejects(tx: Tx, import_id: int, *, most: int) -> list[Reject]:
    """In the order of the file. Takes the service's transaction, and an import that its reader has read."""
    columns = import_rejects.c
    rows = tx.execute(
        sa.select(columns.place, columns.line, columns.reason)
        .where(columns.import_id == import_id)
        .order_by(columns.place)
        .limit(most)
    )
    return [Reject(*row) for row in rows]


def start(tx: Tx, import_id: int, *, now: datetime) -> Import | None:
    """The import at work, whether it begins or goes on; nothing where it has ended."""
    row = tx.execute(
        sa.update(imports)
        .where(imports.c.id == import_id, imports.c.status.in_(UNFINISHED))
        .values(status="running", updated_at=now)
        .returning(*_COLUMNS)
    ).first()
    return None if row is None else _import(row)


def start_anew(tx: Tx, import_id: int, *, now: datetime) -> None:
    """Nothing of it is staged: its first row is read next."""
    tx.execute(sa.delete(import_rejects).where(import_rejects.c.import_id == import_id))
    tx.execute(
        sa.update(imports)
        .where(imports.c.id == import_id)
        .values(rows_read=0, rows_rejected=0, bytes_read=0, updated_at=now)
    )


def finish(tx: Tx, import_id: int, status: str, *, now: datetime, **values: Any) -> bool:
    """Whether it was this call that ended it."""
    ended = tx.execute(
        sa.update(imports)
        .where(imports.c.id == import_id, imports.c.status.in_(UNFINISHED))
        .values(status=status, finished_at=now, updated_at=now, **values)
    )
    return ended.rowcount == 1


def keep_chunk(tx: Tx, import_id: int, examined: Examined, *, now: datetime) -> bool:
    """Stage what became of a chunk and note that it is; False where the import has gone another way since."""
    chunk = examined.chunk
    # A crash of the server empties the staging table anyway, so nobody need wait for the disk.
    tx.execute(sa.text("set local synchronous_commit = off"))
    moved = tx.execute(
        sa.update(imports)
        .where(imports.c.id == import_id, imports.c.status == "running", imports.c.rows_read == chunk.first)
        .values(
            rows_read=chunk.first + chunk.count,
            rows_rejected=imports.c.rows_rejected + examined.bad,
            bytes_read=chunk.bytes_read,
            updated_at=now,
        )
    )
    if moved.rowcount == 0:
        return False
    copy_into(tx, staging_name(import_id), examined.people)
    copy_into(tx, import_rejects.name, examined.rejects)
    return True


def copy_into(tx: Tx, table: str, lines: bytes) -> None:
    if not lines:
        return
    command = sql.SQL("copy {} from stdin").format(sql.Identifier(table))
    with driver(tx).cursor() as cursor, cursor.copy(command) as copy:
        copy.write(lines)


def staging_name(import_id: int) -> str:
    return f"import_staging_{import_id}"


def make_staging(tx: Tx, import_id: int) -> int:
    """See that there is a staging table; how many wait in it."""
    tx.execute(sa.text("select make_import_staging(:id)"), {"id": import_id})
    return int(tx.execute(sa.text(f"select count(*) from {staging_name(import_id)}")).scalar_one())


def empty_staging(tx: Tx, import_id: int) -> None:
    tx.execute(sa.text(f"truncate {staging_name(import_id)}"))


def drop_staging(tx: Tx, import_id: int) -> None:
    tx.execute(sa.text("select drop_import_staging(:id)"), {"id": import_id})


def has_ended(tx: Tx, import_id: int) -> bool:
    """Whether it is done, failed, cancelled or gone altogether."""
    unfinished = sa.select(imports.c.id).where(imports.c.id == import_id, imports.c.status.in_(UNFINISHED))
    return tx.execute(unfinished).first() is None
