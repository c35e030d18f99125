"""The job that brings a file's recipients onto their list: staged, then stored in one transaction.

Before it nobody of the file is on the list, after it all are who may be. Whoever is there already, and
whoever comes twice in the file, is a rejected row: the first stays as it is. Of several in the file that is
the first to whom mail can come.

Whoever goes on after a crash begins where the last chunk was staged. A database that crashed has lost what
was staged, and the file is read anew: by whoever goes on, or by the job's next try if it crashed meanwhile.
"""

import io
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from typing import IO, Any

import psycopg
import sqlalchemy as sa
import structlog

from quillpost.core import jobs
from quillpost.core.clock import Clock
from quillpost.core.database import Database, Tx, search
from quillpost.core.ports import FileMissing, FileStore
from quillpost.recipients.addresses.service import UNDELIVERABLE
from quillpost.recipients.imports import queries
from quillpost.recipients.imports.examiner import examine_rows
from quillpost.recipients.imports.process_pool import ExaminedChunk, ExaminerPool, RowChunk
from quillpost.recipients.imports.queries import Import
from quillpost.recipients.imports.rows import FileRecord, RowPlan, RowReader, read_records
from quillpost.recipients.lists.queries import MailingList, lock_lists, update_list
from quillpost.recipients.rules import CUSTOM_FIELDS, DERIVED_COLUMNS
from quillpost.recipients.service import ALREADY_ON_LIST

SAME_ADDRESS = "address: Line %s of the file has the same address."
SAME_EMAIL = "email: Line %s of the file has the same e-mail."
UNDELIVERABLE_ON_LIST = (
    "address: This address is on this mailing list already, as one that nothing can be delivered to: correct"
    " or delete recipient %s, and import this row again."
)
EMAIL_ON_LIST = "email: This e-mail is already on this mailing list."

_PERSON_COLUMNS = (
    "name", "company", "address", "address2", "city", "province", "postal_code", "country", "email",
    "phone", "dob", "anniversary", *CUSTOM_FIELDS, *DERIVED_COLUMNS, "told_apart",
)  # fmt: skip

# Runs of rows that lie in order cost a sort next to nothing, and are compared in memory where there is some.
_SESSION_SETTINGS = ("set local work_mem = '64MB'", "set local jit = off")

_REJECT_FILE_DUPLICATES = """
    insert into import_rejects (import_id, place, line, reason)
    select :id, s.place, s.line, format(:told, d.line)
      from {staging} s
      join (select {key} as key, told_apart,
                   coalesce(min(place) filter (where deliverability <> :undeliverable), min(place)) as place,
                   coalesce(min(line) filter (where deliverability <> :undeliverable), min(line)) as line
              from {staging} where {among} group by 1, 2 having count(*) > 1) d
        on {qualified} = d.key and s.told_apart = d.told_apart
     where {among} and s.place <> d.place
"""
_REJECT_ADDRESSES_ON_LIST = """
    insert into import_rejects (import_id, place, line, reason)
    select :id, s.place, s.line,
           case when r.deliverability = :undeliverable and s.deliverability <> :undeliverable
                then format(:told_undeliverable, r.id) else :told end
      from {staging} s
      join recipients r on r.mailing_list_id = :list and r.address_key = s.address_key
                       and r.told_apart = s.told_apart
    on conflict do nothing
"""
_REJECT_EMAILS_ON_LIST = """
    insert into import_rejects (import_id, place, line, reason)
    select :id, s.place, s.line, :told from {staging} s
     where s.address_key is null
       and exists (select from recipients r
                    where r.account_id = :account and r.email_key = lower(s.email)
                      and r.mailing_list_id = :list and r.address_key is null)
    on conflict do nothing
"""
_DELETE_REJECTED = """
    delete from {staging} s using import_rejects x where x.import_id = :id and x.place = s.place
"""
# In the order of the file. They lie nearly so: a chunk may fill pages that one before it has left free.
_INSERT_STAGED = f"""
    insert into recipients (account_id, sub_account_id, mailing_list_id, {", ".join(_PERSON_COLUMNS)},
                            created_at, updated_at)
    select :account, cast(:sub_account as bigint), :list, {", ".join(_PERSON_COLUMNS)}, :now, :now from {{staging}}
     order by place
"""


class StagedRowsLost(Exception):
    """Not all who were staged are there: the database has crashed since, and they must be read anew."""


def add_staged_recipients(tx: Tx, import_record: Import, mailing_list: MailingList, *, clock: Clock) -> None:
    """`mailing_list` is in this transaction's hands: nobody else writes its people. Undo it on `StagedRowsLost`."""
    for setting in _SESSION_SETTINGS:
        tx.execute(sa.text(setting))
    now = clock()
    bind_values: dict[str, object] = {
        "id": import_record.id,
        "list": mailing_list.id,
        "account": mailing_list.account_id,
        "undeliverable": UNDELIVERABLE,
        "told_undeliverable": UNDELIVERABLE_ON_LIST,
    }
    duplicates = _reject_duplicates(tx, import_record, bind_values, is_empty=mailing_list.total_recipients == 0)
    if duplicates:
        _run_staging_query(tx, import_record, _DELETE_REJECTED, bind_values)
    added_count = _run_staging_query(
        tx, import_record, _INSERT_STAGED, bind_values | {"sub_account": mailing_list.sub_account_id, "now": now}
    )
    if added_count + duplicates != import_record.staged_count:
        raise StagedRowsLost(f"Of {import_record.staged_count} people {added_count + duplicates} are staged.")
    is_first_fill = mailing_list.type == "manual" and mailing_list.total_recipients == 0 and added_count > 0
    update_list(
        tx, mailing_list.id, {"processed": True, "updated_at": now} | ({"type": "csv"} if is_first_fill else {})
    )
    queries.finish_import(
        tx,
        import_record.id,
        "done",
        now=clock(),
        rows_total=import_record.rows_read,
        rows_imported=added_count,
        rows_rejected=import_record.rows_rejected + duplicates,
        duplicates=duplicates,
        bytes_read=import_record.file_bytes,
    )
    queries.drop_staging(tx, import_record.id)


def _reject_duplicates(tx: Tx, import_record: Import, bind_values: dict[str, object], *, is_empty: bool) -> int:
    by_address = {"key": "address_key", "qualified": "s.address_key", "among": "address_key is not null"}
    by_email = {"key": "lower(email)", "qualified": "lower(s.email)", "among": "address_key is null"}
    duplicates = 0
    for names, message in ((by_address, SAME_ADDRESS), (by_email, SAME_EMAIL)):
        duplicates += _run_staging_query(
            tx, import_record, _REJECT_FILE_DUPLICATES, bind_values | {"told": message}, **names
        )
    if not is_empty:
        for query, message in (
            (_REJECT_ADDRESSES_ON_LIST, f"address: {ALREADY_ON_LIST}"),
            (_REJECT_EMAILS_ON_LIST, EMAIL_ON_LIST),
        ):
            duplicates += _run_staging_query(tx, import_record, query, bind_values | {"told": message})
    return duplicates


def _run_staging_query(tx: Tx, import_record: Import, query: str, values: Mapping[str, object], **names: str) -> int:
    text = query.format(staging=queries.get_staging_name(import_record.id), **names)
    return tx.execute(sa.text(text), values).rowcount


log = structlog.get_logger(__name__)

IMPORT_TASK = "imports.run"
IMPORT_QUEUE = "import"
"""One at a time: each takes all processors."""

MAX_CHUNK_ROWS = 4_000
MAX_CHUNK_CHARACTERS = 1_000_000
MAX_INLINE_BYTES = 300_000
"""Bytes of a file that is examined on the spot: processes of its own would take longer to start."""

FILE_GONE = "The file is gone from the file store. Upload it again."
IMPORT_ABANDONED = "The import could not be finished. Upload the file again."
ADVISORY_LOCK_CLASS = 7_125_212
"""Our advisory locks for imports."""

ImportProgressCallback = Callable[[Import], None]


@dataclass(frozen=True, slots=True)
class ImportContext:
    """All that an import is made with."""

    db: Database
    store: FileStore
    clock: Clock


class ImportTakenOver(Exception):
    """The import was cancelled, or somebody else goes on with it."""


class ImportInterrupted(Exception):
    """This process is to end; the job is taken up again where it was."""


def run_import(context: ImportContext, import_id: int, *, on_progress: ImportProgressCallback | None = None) -> None:
    """Do what is left of an import. Who finds it in others' hands leaves it to them."""
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
    """End it with a reason; its list is as it was."""
    with context.db.system_transaction() as tx:
        end_import(tx, queries.read_import(tx, import_id), "failed", clock=context.clock, error=reason)
        queries.drop_staging(tx, import_id)
    log.warning("imports.failed", import_id=import_id, reason=reason)


def end_import(tx: Tx, import_record: Import, status: str, *, clock: Clock, error: str | None = None) -> bool:
    """Whether this call ended it. The list before the import, as everyone does who writes both."""
    lock_lists(tx, [import_record.mailing_list_id])
    now = clock()
    if not queries.finish_import(tx, import_record.id, status, now=now, error=error):
        return False
    update_list(tx, import_record.mailing_list_id, {"processed": True, "updated_at": now})
    return True


def _stage_rows(context: ImportContext, import_record: Import, on_progress: ImportProgressCallback | None) -> None:
    """Read on from where it was, until all rows are staged."""
    rows_done = _prepare_staging(context, import_record)
    assert import_record.file_key is not None
    with context.db.system_transaction() as tx:
        [mailing_list] = lock_lists(tx, [import_record.mailing_list_id]).values()
    with context.store.open(import_record.file_key) as file:
        counting_file = _CountingFile(file)
        rows = read_records(io.BufferedReader(counting_file, 256 * 1024), import_record.layout)
        chunks = _read_chunks(islice(rows, rows_done, None), rows_done, counting_file)
        with _open_examiner(import_record, _build_plan(import_record, mailing_list)) as examine:
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
    """How many rows are staged; none, where a crash has emptied the staging table."""
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
def _open_examiner(import_record: Import, plan: RowPlan) -> Iterator[ExamineChunks]:
    if import_record.file_bytes <= MAX_INLINE_BYTES:
        reader = RowReader(plan)
        yield lambda chunks: (_examine_inline(reader, import_record.id, chunk) for chunk in chunks)
        return
    with ExaminerPool(plan, import_record.id) as examiner_pool:
        yield examiner_pool.examine


def _examine_inline(reader: RowReader, import_id: int, chunk: RowChunk) -> ExaminedChunk:
    people, rejects = examine_rows(reader, import_id, chunk.first_row, chunk.lines, chunk.rows, chunk.errors)
    return ExaminedChunk(chunk, "".join(people).encode(), "".join(rejects).encode(), len(people), len(rejects))


def _read_chunks(rows: Iterator[FileRecord], first_row: int, counting_file: "_CountingFile") -> Iterator[RowChunk]:
    """A few thousand rows at a time, or fewer where they are long."""
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
    """A file, and how much of it was read."""

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
    """Whether nobody else is at this import; the database forgets us when we are gone."""
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
    """Nobody waits in its staging table any more, once it has ended; whether it has."""
    with db.system_transaction() as tx:
        has_ended = queries.has_ended(tx, import_id)
        if has_ended:
            queries.drop_staging(tx, import_id)
    return has_ended
