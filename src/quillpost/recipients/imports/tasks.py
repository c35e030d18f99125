"""Jobs that import files into lists, and delete expired imports. Rows are staged, then inserted in one transaction.
A person who is on the list already, or twice in the file, is a rejected row: the first to whom mail can be delivered
is taken. After a crash an import continues after the last staged chunk; if the database has lost what was staged, it
reads the file again."""

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import IO, Any

import psycopg
import sqlalchemy as sa
import structlog

from quillpost.core import jobs
from quillpost.core.database import Database, Tx, search
from quillpost.core.database.tables.recipients import import_rejects, imports
from quillpost.core.ports import FileMissing, FileStore
from quillpost.core.text import Clock
from quillpost.recipients.imports import queries
from quillpost.recipients.imports.files import read_records
from quillpost.recipients.imports.models import ExaminedChunk, FileRecord, RowChunk, RowPlan
from quillpost.recipients.imports.process_pool import ImportProcessPool
from quillpost.recipients.imports.queries import Import, add_staged_recipients
from quillpost.recipients.imports.rules import RowReader, examine_rows
from quillpost.recipients.lists.queries import lock_lists, update_list
from quillpost.recipients.models import MailingList

log = structlog.get_logger(__name__)
IMPORT_TASK = "imports.run"
IMPORT_QUEUE = "import"
"""One at a time: each uses all processors."""

MAX_CHUNK_ROWS = 4_000
MAX_CHUNK_CHARACTERS = 1_000_000
MAX_INLINE_BYTES = 300_000
"""Smaller files are examined inline: a process would take longer to start."""

FILE_GONE = "The file is gone from the file store. Upload it again."
IMPORT_ABANDONED = "The import could not be finished. Upload the file again."
ADVISORY_LOCK_CLASS = 7_125_212
ImportProgressCallback = Callable[[Import], None]


@dataclass(frozen=True, slots=True)
class ImportContext:
    db: Database
    store: FileStore
    clock: Clock


class ImportTakenOver(Exception):
    """The import was canceled, or another worker continues it."""


class ImportInterrupted(Exception):
    """This process is stopping; the job continues later."""


def run_import(context: ImportContext, import_id: int, *, on_progress: ImportProgressCallback | None = None) -> None:
    """Do what is left of an import, unless another worker has it."""
    with _lock_import(context.db, import_id) as is_locked:
        if not is_locked:
            return
        with context.db.system_transaction() as tx:
            import_record = queries.start_import(tx, import_id, now=context.clock())
        if import_record is None:
            _drop_finished_staging(context.db, import_id)
            return
        try:
            _stage_rows(context, import_record, on_progress)
            _finish_import(context, import_id)
        except ImportTakenOver:
            # Where it has not ended, the next try finds others at work, or goes on from what a crash left.
            if not _drop_finished_staging(context.db, import_id):
                raise
        except FileMissing:
            fail_import(context, import_id, FILE_GONE)


def fail_import(context: ImportContext, import_id: int, reason: str) -> None:
    with context.db.system_transaction() as tx:
        end_import(tx, queries.read_import(tx, import_id), "failed", clock=context.clock, error=reason)
        queries.drop_staging(tx, import_id)
    log.warning("imports.failed", import_id=import_id, reason=reason)


def end_import(tx: Tx, import_record: Import, status: str, *, clock: Clock, error: str | None = None) -> bool:
    """Whether this call ended it. The list is locked before the import, as everywhere."""
    lock_lists(tx, [import_record.mailing_list_id])
    now = clock()
    if not queries.finish_import(tx, import_record.id, status, now=now, error=error):
        return False
    update_list(tx, import_record.mailing_list_id, {"processed": True, "updated_at": now})
    return True


def _stage_rows(context: ImportContext, import_record: Import, on_progress: ImportProgressCallback | None) -> None:
    rows_done = _prepare_staging(context, import_record)
    assert import_record.file_key is not None
    with context.db.system_transaction() as tx:
        [mailing_list] = lock_lists(tx, [import_record.mailing_list_id]).values()
    with context.store.open(import_record.file_key) as file:
        counting_file = _CountingFile(file)
        rows = read_records(io.BufferedReader(counting_file, 256 * 1024), import_record.layout)
        chunks = _read_chunks(islice(rows, rows_done, None), rows_done, counting_file)
        with _open_processes(import_record, _build_plan(import_record, mailing_list)) as examine:
            for examined_chunk in examine(chunks):
                if jobs.is_stopping():
                    raise ImportInterrupted
                with context.db.system_transaction() as tx:
                    if not queries.store_chunk(tx, import_record.id, examined_chunk, now=context.clock()):
                        raise ImportTakenOver
                    current = queries.read_import(tx, import_record.id) if on_progress else None
                if on_progress and current:
                    on_progress(current)


def _prepare_staging(context: ImportContext, import_record: Import) -> int:
    """How many rows are staged; 0 if a crash has emptied the staging table."""
    with context.db.system_transaction() as tx:
        staged_rows = queries.create_staging(tx, import_record.id)
        if staged_rows == import_record.staged_count:
            return import_record.rows_read
        queries.truncate_staging(tx, import_record.id)
        queries.restart_import(tx, import_record.id, now=context.clock())
    log.warning("imports.restarted", import_id=import_record.id)
    return 0


def _finish_import(context: ImportContext, import_id: int) -> None:
    with context.db.system_transaction() as tx:
        list_id = queries.read_import(tx, import_id).mailing_list_id
        mailing_list = lock_lists(tx, [list_id]).get(list_id)
        import_record = queries.start_import(tx, import_id, now=context.clock())
        if mailing_list is None or import_record is None:
            raise ImportTakenOver
        add_staged_recipients(tx, import_record, mailing_list, clock=context.clock)
        jobs.enqueue_unique(tx, search.INDEX_TASK, at=context.clock())
    log.info("imports.finished", import_id=import_id, rows=import_record.rows_read)


def _build_plan(import_record: Import, mailing_list: MailingList) -> RowPlan:
    fields = [(index, column.field) for index, column in enumerate(import_record.columns) if column.field]
    return RowPlan(
        fields, import_record.layout.width, mailing_list.suppress_by if mailing_list.is_suppression_list else None
    )


ExamineChunks = Callable[[Iterator[RowChunk]], Iterator[ExaminedChunk]]


@contextmanager
def _open_processes(import_record: Import, plan: RowPlan) -> Iterator[ExamineChunks]:
    if import_record.file_bytes <= MAX_INLINE_BYTES:
        reader = RowReader(plan)
        yield lambda chunks: (_examine_inline(reader, import_record.id, chunk) for chunk in chunks)
        return
    with ImportProcessPool(plan, import_record.id) as process_pool:
        yield process_pool.examine


def _examine_inline(reader: RowReader, import_id: int, chunk: RowChunk) -> ExaminedChunk:
    people, rejects = examine_rows(reader, import_id, chunk.first_row, chunk.lines, chunk.rows, chunk.errors)
    return ExaminedChunk(chunk, "".join(people).encode(), "".join(rejects).encode(), len(people), len(rejects))


def _read_chunks(rows: Iterator[FileRecord], first_row: int, counting_file: "_CountingFile") -> Iterator[RowChunk]:
    while True:
        chunk = RowChunk(first_row, [], [], {}, 0)
        length = 0
        for row in rows:
            if row.error is not None:
                chunk.errors[chunk.row_count] = row.error
            chunk.lines.append(row.line)
            chunk.rows.append(row.cells)
            length += sum(map(len, row.cells))
            if chunk.row_count >= MAX_CHUNK_ROWS or length >= MAX_CHUNK_CHARACTERS:
                break
        if not chunk.rows:
            return
        yield RowChunk(first_row, chunk.lines, chunk.rows, chunk.errors, counting_file.bytes_read)
        first_row += chunk.row_count


class _CountingFile(io.RawIOBase):
    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.bytes_read = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        chunk = self._file.read(len(buffer))
        buffer[: len(chunk)] = chunk
        self.bytes_read += len(chunk)
        return len(chunk)


@contextmanager
def _lock_import(db: Database, import_id: int) -> Iterator[bool]:
    """Whether no one else has this import; the lock ends with the connection."""
    lock_key = [ADVISORY_LOCK_CLASS, import_id % 2**31]
    with psycopg.connect(db.worker_conninfo, autocommit=True, connect_timeout=5) as connection:
        row = connection.execute("select pg_try_advisory_lock(%s, %s)", lock_key).fetchone()
        try:
            yield bool(row and row[0])
        finally:
            # With the connection it is gone, too, but only once the server has noticed: whoever tries again
            # at once would find others at work.
            with suppress(psycopg.Error):
                connection.execute("select pg_advisory_unlock(%s, %s)", lock_key)


def _drop_finished_staging(db: Database, import_id: int) -> bool:
    """Whether it has ended; then its staging table is dropped."""
    with db.system_transaction() as tx:
        has_ended = queries.has_ended(tx, import_id)
        if has_ended:
            queries.drop_staging(tx, import_id)
    return has_ended


IMPORTS_FOLDER = "imports"
MAX_IMPORTS_PER_RUN = 1_000
MAX_UNRECORDED_AGE = timedelta(days=1)
"""How long a file may be in the store before its import is recorded."""

_SELECT_STAGING_IDS = sa.text(
    r"select cast(substring(tablename from '\d+$') as bigint) from pg_tables"
    r" where schemaname = 'public' and tablename ~ '^import_staging_\d+$'"
)


def resume_imports(context: ImportContext) -> None:
    """Enqueue the job of every import that waits without one; fail those whose job was given up."""
    with context.db.system_transaction() as tx:
        unfinished_ids = tx.execute(
            sa.select(imports.c.id)
            .where(imports.c.status.in_(queries.UNFINISHED))
            .order_by(imports.c.id)
            .limit(MAX_IMPORTS_PER_RUN)
        )
        abandoned_ids = []
        for import_id in unfinished_ids.scalars():
            if jobs.is_waiting(tx, IMPORT_TASK, import_id=import_id) or jobs.is_running(
                tx, IMPORT_TASK, import_id=import_id
            ):
                continue
            if jobs.is_unfinished(tx, IMPORT_TASK, import_id=import_id):
                abandoned_ids.append(import_id)
            else:
                jobs.enqueue(tx, IMPORT_TASK, queue=IMPORT_QUEUE, import_id=import_id)
    for import_id in abandoned_ids:
        fail_import(context, import_id, IMPORT_ABANDONED)


def delete_expired_imports(context: ImportContext, *, retention: timedelta, now: datetime) -> None:
    """Delete files and reports of old imports, and leftover staging tables and files."""
    with context.db.system_transaction() as tx:
        is_expired = sa.and_(
            imports.c.created_at < now - retention,
            imports.c.file_key.is_not(None),
            imports.c.status.not_in(queries.UNFINISHED),
        )
        ids = list(tx.execute(sa.select(imports.c.id).where(is_expired).limit(MAX_IMPORTS_PER_RUN)).scalars())
        tx.execute(sa.update(imports).where(imports.c.id.in_(ids)).values(file_key=None, columns=[]))
        tx.execute(sa.delete(import_rejects).where(import_rejects.c.import_id.in_(ids)))
        for import_id in tx.execute(_SELECT_STAGING_IDS).scalars().all():
            if queries.has_ended(tx, import_id):
                queries.drop_staging(tx, import_id)
    _delete_orphaned_files(context, now=now)


def _delete_orphaned_files(context: ImportContext, *, now: datetime) -> None:
    """Files without an import: it expired, its list is gone, or its request failed."""
    first_retained_folder = f"{IMPORTS_FOLDER}/{now - MAX_UNRECORDED_AGE:%Y-%m-%d}"
    old_keys = [
        key for key in context.store.keys(f"{IMPORTS_FOLDER}/") if key.rpartition("/")[0] < first_retained_folder
    ]
    with context.db.system_transaction() as tx:
        recorded_keys = set(tx.execute(sa.select(imports.c.file_key).where(imports.c.file_key.in_(old_keys))).scalars())
    for key in set(old_keys) - recorded_keys:
        context.store.delete(key)
