"""Importing addresses: every file of an import in one transaction, each judged by several processes at once.

The rows go to a table of the transaction's own first. From there they are put into the table in the order of
the grid, so that neighbours lie together on the disk, and each address once.
"""

import hashlib
import multiprocessing
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from quillpost.core.database import Database, Tx, driver
from quillpost.core.database.engine import administrator
from quillpost.core.database.tables.leads import lead_files, lead_sources, leads
from quillpost.core.errors import NotReady
from quillpost.recipients.leads.files import NotLeads, Row, opened, rows
from quillpost.recipients.leads.rows import COLUMNS, Bad, Prepared, prepare
from quillpost.recipients.leads.rules import SAMPLE

SAMPLE_SOURCE = "sample"
ROWS_AT_ONCE = 2_000
SMALL_FILE = 1_000_000
"""Bytes, up to which a file is done before other processes have started."""
DIGESTED_AT_ONCE = 1 << 20

_TAKE_TURNS = sa.text("select pg_advisory_xact_lock(hashtextextended('leads import', 0))")

_STAGE = f"""
    create temp table incoming_leads on commit drop as
    select 0::bigint as number, {", ".join(COLUMNS[1:])} from leads with no data
"""
_COPY = f"copy incoming_leads ({', '.join(COLUMNS)}) from stdin"
_OLD = sa.text(
    """
    delete from leads l using incoming_leads i
     where l.source_id = :source and l.address_key = i.address_key
    """
)
_NEW = sa.text(
    f"""
    insert into leads (source_id, {", ".join(COLUMNS[1:])})
    select :source, {", ".join(COLUMNS[1:])}
      from (select distinct on (address_key) * from incoming_leads order by address_key, number desc) each
     order by grid, latitude, longitude, number
    """
)
_COUNT = sa.text(
    """
    insert into lead_density (cell, records)
    select grid / 36000 / 10 * 3600 + grid % 36000 / 10, count(*) from leads group by 1
    """
)
_NONE_COUNTED = sa.text("delete from lead_density")

Told = Callable[[int, int], None]
"""Hears how many bytes of a file are read, of how many."""


@dataclass(slots=True)
class Imported:
    """What has become of one file. `is_known`: it was imported before, and changed nothing."""

    file: str
    rows: int = 0
    records: int = 0
    refused: int = 0
    is_known: bool = False


@dataclass(slots=True)
class Report:
    files: list[Imported] = field(default_factory=list)
    replaced: int = 0


def import_files(
    db: Database,
    files: Sequence[Path],
    *,
    source: str,
    replace: bool,
    country: str,
    told: Callable[[Path], Told],
    refuse: Callable[[str, Iterable[Bad]], None],
    now: datetime,
) -> Report:
    """All of them, or none. Whatever a row is refused for is told to `refuse` as it is found."""
    digests = {file: _digest(file) for file in files}
    report = Report()
    with db.work() as tx, ExitStack() as pool:
        source_id = _source(tx, source, is_sample=False, now=now)
        if replace:
            report.replaced = _empty(tx, source_id)
        executor: Executor | None = None
        for file in files:
            done = Imported(file.name)
            report.files.append(done)
            if _is_known(tx, source_id, digests[file]):
                done.is_known = True
                continue
            if executor is None and file.stat().st_size > SMALL_FILE:
                executor = pool.enter_context(_processes())
            with _staged(tx), opened(file) as (raw, content):
                size = file.stat().st_size
                tell = told(file)
                for prepared in _prepared(rows(content, str(file)), executor, country):
                    _write(tx, prepared, done)
                    refuse(done.file, prepared.bad)
                    tell(min(raw.tell(), size), size)
                done.records = _settle(tx, source_id)
            if not done.records:
                raise NotLeads(f"{file} has no row that can be used: nothing was imported.")
            _note(tx, source_id, digests[file], done, now=now)
        _counted(tx, source_id, now=now)
    return report


def load_rows(
    db: Database, found: Iterable[Row], *, source: str, country: str, is_sample: bool, now: datetime
) -> int:
    """Rows that were made here, in place of all that the source has; how many there are."""
    with db.work() as tx:
        source_id = _source(tx, source, is_sample=is_sample, now=now)
        _empty(tx, source_id)
        with _staged(tx):
            done = Imported(source)
            _write(tx, prepare(found, country, SAMPLE if is_sample else 0), done)
            records = _settle(tx, source_id)
        _counted(tx, source_id, now=now)
    return records


def forget(db: Database, source: str) -> int:
    """Remove a source and its records; how many. What was bought of them stays on its lists."""
    with db.work() as tx:
        tx.execute(_TAKE_TURNS)
        found = tx.execute(sa.select(lead_sources.c.id).where(lead_sources.c.name == source)).scalar()
        if found is None:
            raise NotReady(f"There is no source {source} of addresses: see `quillpost leads list`.")
        removed = _empty(tx, found)
        tx.execute(sa.delete(lead_sources).where(lead_sources.c.id == found))
        _recount(tx)
    return removed


def tidy(conninfo: str) -> None:
    """Let the index answer alone: the server notes which rows everyone sees, and how many there are."""
    engine = administrator(conninfo).execution_options(isolation_level="AUTOCOMMIT")
    try:
        with engine.connect() as connection:
            connection.execute(sa.text("vacuum (analyze) leads"))
    finally:
        engine.dispose()


def _digest(file: Path) -> bytes:
    digest = hashlib.sha256()
    with opened(file) as (raw, _):
        while chunk := raw.read(DIGESTED_AT_ONCE):
            digest.update(chunk)
    return digest.digest()


def _source(tx: Tx, name: str, *, is_sample: bool, now: datetime) -> int:
    """The source's id; one import at a time."""
    tx.execute(_TAKE_TURNS)
    made = insert(lead_sources).values(name=name, is_sample=is_sample, records=0, updated_at=now)
    tx.execute(made.on_conflict_do_nothing(index_elements=["name"]))
    found = tx.execute(sa.select(lead_sources).where(lead_sources.c.name == name)).one()
    if found.is_sample != is_sample:
        raise NotReady(f"The source {SAMPLE_SOURCE} is the sample's: give the import another --source.")
    return int(found.id)


def _empty(tx: Tx, source_id: int) -> int:
    tx.execute(sa.delete(lead_files).where(lead_files.c.source_id == source_id))
    return tx.execute(sa.delete(leads).where(leads.c.source_id == source_id)).rowcount


def _is_known(tx: Tx, source_id: int, digest: bytes) -> bool:
    wanted = (lead_files.c.source_id == source_id) & (lead_files.c.digest == digest)
    return tx.execute(sa.select(lead_files.c.records).where(wanted)).first() is not None


@contextmanager
def _staged(tx: Tx) -> Iterator[None]:
    connection = driver(tx)
    connection.execute(_STAGE)
    yield
    connection.execute("drop table incoming_leads")


@contextmanager
def _processes() -> Iterator[Executor]:
    # Not forked: threads of ours may hold locks that nobody would ever open in the child.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(os.cpu_count() or 1, mp_context=context) as pool:
        yield pool


def _prepared(found: Iterable[Row], executor: Executor | None, country: str) -> Iterator[Prepared]:
    """In the order of the file. No more is read ahead than the processes are about to need."""
    every = iter(found)
    chunks = iter(lambda: list(islice(every, ROWS_AT_ONCE)), [])
    if executor is None:
        for chunk in chunks:
            yield prepare(chunk, country)
        return
    waiting: deque[Future[Prepared]] = deque()
    for chunk in chunks:
        waiting.append(executor.submit(prepare, chunk, country))
        if len(waiting) > 2 * (os.cpu_count() or 1):
            yield waiting.popleft().result()
    for each in waiting:
        yield each.result()


def _write(tx: Tx, prepared: Prepared, done: Imported) -> None:
    done.rows += prepared.count + len(prepared.bad)
    done.refused += len(prepared.bad)
    if prepared.count:
        with driver(tx).cursor() as cursor, cursor.copy(_COPY) as copy:
            copy.write(prepared.data)


def _settle(tx: Tx, source_id: int) -> int:
    """From the staging table into the table; of an address that comes again, the last stands for it."""
    driver(tx).execute("analyze incoming_leads")
    tx.execute(_OLD, {"source": source_id})
    return tx.execute(_NEW, {"source": source_id}).rowcount


def _note(tx: Tx, source_id: int, digest: bytes, done: Imported, *, now: datetime) -> None:
    tx.execute(
        sa.insert(lead_files).values(
            source_id=source_id,
            digest=digest,
            name=done.file,
            records=done.records,
            refused=done.refused,
            imported_at=now,
        )
    )


def _counted(tx: Tx, source_id: int, *, now: datetime) -> None:
    _recount(tx)
    everyone = sa.select(sa.func.count()).where(leads.c.source_id == source_id).scalar_subquery()
    tx.execute(
        sa.update(lead_sources).where(lead_sources.c.id == source_id).values(records=everyone, updated_at=now)
    )


def _recount(tx: Tx) -> None:
    tx.execute(_NONE_COUNTED)
    tx.execute(_COUNT)
