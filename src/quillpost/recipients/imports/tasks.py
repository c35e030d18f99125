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
from quillpost.recipients.imports.examiner import examined
from quillpost.recipients.imports.process_pool import Chunk, Crew, Examined
from quillpost.recipients.imports.queries import Import
from quillpost.recipients.imports.rows import Plan, Record, RowReader, records
from quillpost.recipients.lists.queries import MailingList, lock_lists, update_list
from quillpost.recipients.rules import CUSTOM, JUDGED
from quillpost.recipients.service import ALREADY_THERE

SAME_ADDRESS = "address: Line %s of the file has the same address."
SAME_EMAIL = "email: Line %s of the file has the same e-mail."
UNDELIVERABLE_THERE = (
    "address: This address is on this mailing list already, as one that nothing can be delivered to: correct"
    " or delete recipient %s, and import this row again."
)
EMAIL_THERE = "email: This e-mail is already on this mailing list."

_PERSON = (
    "name", "company", "address", "address2", "city", "province", "postal_code", "country", "email",
    "phone", "dob", "anniversary", *CUSTOM, *JUDGED, "told_apart",
)  # fmt: skip

# Runs of rows that lie in order cost a sort next to nothing, and are compared in memory where there is some.
_AT_EASE = ("set local work_mem = '64MB'", "set local jit = off")

_TWICE = """
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
_THERE = """
    insert into import_rejects (import_id, place, line, reason)
    select :id, s.place, s.line,
           case when r.deliverability = :undeliverable and s.deliverability <> :undeliverable
                then format(:told_undeliverable, r.id) else :told end
      from {staging} s
      join recipients r on r.mailing_list_id = :list and r.address_key = s.address_key
                       and r.told_apart = s.told_apart
    on conflict do nothing
"""
_EMAIL_THERE = """
    insert into import_rejects (import_id, place, line, reason)
    select :id, s.place, s.line, :told from {staging} s
     where s.address_key is null
       and exists (select from recipients r
                    where r.account_id = :account and r.email_key = lower(s.email)
                      and r.mailing_list_id = :list and r.address_key is null)
    on conflict do nothing
"""
_LEAVE_OUT = """
    delete from {staging} s using import_rejects x where x.import_id = :id and x.place = s.place
"""
# In the order of the file. They lie nearly so: a chunk may fill pages that one before it has left free.
_INSERT = f"""
    insert into recipients (account_id, sub_account_id, mailing_list_id, {", ".join(_PERSON)},
                            created_at, updated_at)
    select :account, cast(:sub_account as bigint), :list, {", ".join(_PERSON)}, :now, :now from {{staging}}
     order by place
"""


class SomeLost(Exception):
    """Not all who were staged are there: the database has crashed since, and they must be read anew."""


def put_on_list(tx: Tx, work: Import, into: MailingList, *, clock: Clock) -> None:
    """`into` is in this transaction's hands: nobody else writes its people. Undo it on `SomeLost`."""
    for setting in _AT_EASE:
        tx.execute(sa.text(setting))
    now = clock()
    these: dict[str, object] = {
        "id": work.id,
        "list": into.id,
        "account": into.account_id,
        "undeliverable": UNDELIVERABLE,
        "told_undeliverable": UNDELIVERABLE_THERE,
    }
    doubles = _reject_doubles(tx, work, these, is_empty=into.total_recipients == 0)
    if doubles:
        _run(tx, work, _LEAVE_OUT, these)
    added = _run(tx, work, _INSERT, these | {"sub_account": into.sub_account_id, "now": now})
    if added + doubles != work.staged:
        raise SomeLost(f"Of {work.staged} people {added + doubles} are staged.")
    is_first = into.type == "manual" and into.total_recipients == 0 and added > 0
    update_list(tx, into.id, {"processed": True, "updated_at": now} | ({"type": "csv"} if is_first else {}))
    queries.finish(
        tx,
        work.id,
        "done",
        now=clock(),
        rows_total=work.rows_read,
        rows_imported=added,
        rows_rejected=work.rows_rejected + doubles,
        duplicates=doubles,
        bytes_read=work.file_bytes,
    )
    queries.drop_staging(tx, work.id)


def _reject_doubles(tx: Tx, work: Import, these: dict[str, object], *, is_empty: bool) -> int:
    by_address = {"key": "address_key", "qualified": "s.address_key", "among": "address_key is not null"}
    by_email = {"key": "lower(email)", "qualified": "lower(s.email)", "among": "address_key is null"}
    found = 0
    for names, told in ((by_address, SAME_ADDRESS), (by_email, SAME_EMAIL)):
        found += _run(tx, work, _TWICE, these | {"told": told}, **names)
    if not is_empty:
        for query, told in ((_THERE, f"address: {ALREADY_THERE}"), (_EMAIL_THERE, EMAIL_THERE)):
            found += _run(tx, work, query, these | {"told": told})
    return found


def _run(tx: Tx, work: Import, query: str, values: Mapping[str, object], **names: str) -> int:
    text = query.format(staging=queries.staging_name(work.id), **names)
    return tx.execute(sa.text(text), values).rowcount


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
            work = queries.start(tx, import_id, now=means.clock())
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
        end(tx, queries.read_import(tx, import_id), "failed", clock=means.clock, error=why)
        queries.drop_staging(tx, import_id)
    log.warning("audience.import_failed", id=import_id, why=why)


def end(tx: Tx, work: Import, status: str, *, clock: Clock, error: str | None = None) -> bool:
    """Whether this call ended it. The list before the import, as everyone does who writes both."""
    lock_lists(tx, [work.mailing_list_id])
    now = clock()
    if not queries.finish(tx, work.id, status, now=now, error=error):
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
                    if not queries.keep_chunk(tx, work.id, found, now=means.clock()):
                        raise Overtaken
                    current = queries.read_import(tx, work.id) if tell else None
                if tell and current:
                    tell(current)


def _begun(means: Means, work: Import) -> int:
    """How many rows are staged; none, where a crash has emptied the staging table."""
    with means.db.work() as tx:
        waiting = queries.make_staging(tx, work.id)
        if waiting == work.staged:
            return work.rows_read
        queries.empty_staging(tx, work.id)
        queries.start_anew(tx, work.id, now=means.clock())
    log.warning("audience.import_anew", id=work.id)
    return 0


def _settle(means: Means, import_id: int) -> None:
    with means.db.work() as tx:
        list_id = queries.read_import(tx, import_id).mailing_list_id
        found = lock_lists(tx, [list_id]).get(list_id)
        work = queries.start(tx, import_id, now=means.clock())
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
        reader = RowReader(plan)
        yield lambda chunks: (_on_the_spot(reader, work.id, chunk) for chunk in chunks)
        return
    with Crew(plan, work.id) as crew:
        yield crew.examine


def _on_the_spot(reader: RowReader, import_id: int, chunk: Chunk) -> Examined:
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
        has_ended = queries.has_ended(tx, import_id)
        if has_ended:
            queries.drop_staging(tx, import_id)
    return has_ended
