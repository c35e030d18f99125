"""The job that brings a file's people onto their list: staged chunk by chunk, then all put there at once.

Whoever goes on after a crash begins where the last chunk was staged. A database that crashed has lost what
was staged, and the file is read anew: by whoever goes on, or by the job's next try if it crashed meanwhile.
"""

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from typing import IO, Any

import psycopg
import structlog

from quillpost import jobs
from quillpost.audience.importing import store
from quillpost.audience.importing.crew import Chunk, Crew, Examined
from quillpost.audience.importing.examiner import examined
from quillpost.audience.importing.people import Plan, Reader
from quillpost.audience.importing.records import Record, records
from quillpost.audience.importing.settling import put_on_list
from quillpost.audience.importing.store import Import
from quillpost.audience.lists import MailingList, lock_lists, update_list
from quillpost.database import Database, Tx, search
from quillpost.kit.times import Clock
from quillpost.ports.files import FileMissing, FileStore

log = structlog.get_logger(__name__)

FILL = "audience.import"
QUEUE = "import"
"""One at a time: each takes all processors."""

CHUNK_ROWS = 4_000
CHUNK_CHARACTERS = 1_000_000
SMALL = 300_000
"""Bytes of a file that is examined on the spot: processes of its own would take longer to start."""

GONE = "The file is gone from the file store. Upload it again."
GIVEN_UP = "The import could not be finished. Upload the file again."
LOCKS = 7_125_212
"""Our advisory locks for imports."""

Tell = Callable[[Import], None]


@dataclass(frozen=True, slots=True)
class Means:
    """All that an import is made with."""

    db: Database
    store: FileStore
    clock: Clock


class Overtaken(Exception):
    """The import was cancelled, or somebody else goes on with it."""


class Interrupted(Exception):
    """This process is to end; the job is taken up again where it was."""


def fill(means: Means, import_id: int, *, tell: Tell | None = None) -> None:
    """Do what is left of an import. Who finds it in others' hands leaves it to them."""
    with _turn(means.db, import_id) as is_ours:
        if not is_ours:
            return
        with means.db.work() as tx:
            work = store.start(tx, import_id, now=means.clock())
        if work is None:
            _clear(means.db, import_id)
            return
        try:
            _stage(means, work, tell)
            _settle(means, import_id)
        except Overtaken:
            # Where it has not ended, the next try finds others at work, or goes on from what a crash left.
            if not _clear(means.db, import_id):
                raise
        except FileMissing:
            fail(means, import_id, GONE)


def fail(means: Means, import_id: int, why: str) -> None:
    """End it with a reason; its list is as it was."""
    with means.db.work() as tx:
        end(tx, store.read_import(tx, import_id), "failed", clock=means.clock, error=why)
        store.drop_staging(tx, import_id)
    log.warning("audience.import_failed", id=import_id, why=why)


def end(tx: Tx, work: Import, status: str, *, clock: Clock, error: str | None = None) -> bool:
    """Whether this call ended it. The list before the import, as everyone does who writes both."""
    lock_lists(tx, [work.mailing_list_id])
    now = clock()
    if not store.finish(tx, work.id, status, now=now, error=error):
        return False
    update_list(tx, work.mailing_list_id, {"processed": True, "updated_at": now})
    return True


def _stage(means: Means, work: Import, tell: Tell | None) -> None:
    """Read on from where it was, until all rows are staged."""
    done = _begun(means, work)
    assert work.file_key is not None
    with means.db.work() as tx:
        [into] = lock_lists(tx, [work.mailing_list_id]).values()
    with means.store.open(work.file_key) as file:
        counted = _Counted(file)
        rows = records(io.BufferedReader(counted, 256 * 1024), work.layout)
        chunks = _chunks(islice(rows, done, None), done, counted)
        with _examining(work, _plan(work, into)) as examine:
            for found in examine(chunks):
                if jobs.is_stopping():
                    raise Interrupted
                with means.db.work() as tx:
                    if not store.keep_chunk(tx, work.id, found, now=means.clock()):
                        raise Overtaken
                    current = store.read_import(tx, work.id) if tell else None
                if tell and current:
                    tell(current)


def _begun(means: Means, work: Import) -> int:
    """How many rows are staged; none, where a crash has emptied the staging table."""
    with means.db.work() as tx:
        waiting = store.make_staging(tx, work.id)
        if waiting == work.staged:
            return work.rows_read
        store.empty_staging(tx, work.id)
        store.start_anew(tx, work.id, now=means.clock())
    log.warning("audience.import_anew", id=work.id)
    return 0


def _settle(means: Means, import_id: int) -> None:
    with means.db.work() as tx:
        list_id = store.read_import(tx, import_id).mailing_list_id
        found = lock_lists(tx, [list_id]).get(list_id)
        work = store.start(tx, import_id, now=means.clock())
        if found is None or work is None:
            raise Overtaken
        put_on_list(tx, work, found, clock=means.clock)
        jobs.wake(tx, search.INDEX, at=means.clock())
    log.info("audience.imported", id=import_id, rows=work.rows_read)


def _plan(work: Import, into: MailingList) -> Plan:
    fields = [(place, column.field) for place, column in enumerate(work.columns) if column.field]
    return Plan(fields, work.layout.width, into.suppress_by if into.is_suppression_list else None)


Examine = Callable[[Iterator[Chunk]], Iterator[Examined]]


@contextmanager
def _examining(work: Import, plan: Plan) -> Iterator[Examine]:
    if work.file_bytes <= SMALL:
        reader = Reader(plan)
        yield lambda chunks: (_on_the_spot(reader, work.id, chunk) for chunk in chunks)
        return
    with Crew(plan, work.id) as crew:
        yield crew.examine


def _on_the_spot(reader: Reader, import_id: int, chunk: Chunk) -> Examined:
    people, rejects = examined(reader, import_id, chunk.first, chunk.lines, chunk.rows, chunk.faults)
    return Examined(chunk, "".join(people).encode(), "".join(rejects).encode(), len(people), len(rejects))


def _chunks(rows: Iterator[Record], first: int, counted: "_Counted") -> Iterator[Chunk]:
    """A few thousand rows at a time, or fewer where they are long."""
    while True:
        chunk = Chunk(first, [], [], {}, 0)
        length = 0
        for row in rows:
            if row.fault is not None:
                chunk.faults[chunk.count] = row.fault
            chunk.lines.append(row.line)
            chunk.rows.append(row.cells)
            length += sum(map(len, row.cells))
            if chunk.count >= CHUNK_ROWS or length >= CHUNK_CHARACTERS:
                break
        if not chunk.rows:
            return
        yield Chunk(first, chunk.lines, chunk.rows, chunk.faults, counted.bytes)
        first += chunk.count


class _Counted(io.RawIOBase):
    """A file, and how much of it was read."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.bytes = 0

    def readable(self) -> bool:
        return True

    def readinto(self, into: Any) -> int:
        piece = self._file.read(len(into))
        into[: len(piece)] = piece
        self.bytes += len(piece)
        return len(piece)


@contextmanager
def _turn(db: Database, import_id: int) -> Iterator[bool]:
    """Whether nobody else is at this import; the database forgets us when we are gone."""
    lock = [LOCKS, import_id % 2**31]
    with psycopg.connect(db.worker_conninfo, autocommit=True, connect_timeout=5) as connection:
        row = connection.execute("select pg_try_advisory_lock(%s, %s)", lock).fetchone()
        try:
            yield bool(row and row[0])
        finally:
            # With the connection it is gone, too, but only once the server has noticed: whoever tries again
            # at once would find others at work.
            with suppress(psycopg.Error):
                connection.execute("select pg_advisory_unlock(%s, %s)", lock)


def _clear(db: Database, import_id: int) -> bool:
    """Nobody waits in its staging table any more, once it has ended; whether it has."""
    with db.work() as tx:
        has_ended = store.has_ended(tx, import_id)
        if has_ended:
            store.drop_staging(tx, import_id)
    return has_ended
