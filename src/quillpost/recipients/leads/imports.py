"""Import addresses from files, and load the sample of made-up ones."""

import hashlib
import math
import multiprocessing
import os
import random
import threading
import tomllib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from importlib import resources
from itertools import islice
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from quillpost.core.database import Database, Tx, driver_connection
from quillpost.core.database.engine import create_admin_engine
from quillpost.core.database.tables.recipients import lead_files, lead_sources, leads
from quillpost.core.errors import NotReady
from quillpost.recipients.addresses.cities import find_zip_area
from quillpost.recipients.addresses.rules import HOME_COUNTRY
from quillpost.recipients.leads import rules
from quillpost.recipients.leads.files import (
    LEAD_COLUMNS,
    BadLeadRow,
    LeadRow,
    NotLeadFile,
    PreparedLeads,
    open_file,
    prepare_rows,
    read_rows,
)
from quillpost.recipients.leads.rules import SAMPLE_TAG

SAMPLE_SOURCE = "sample"
ROWS_PER_CHUNK = 2_000
SMALL_FILE_BYTES = 1_000_000
"""Smaller files are done before other processes have started."""

_LOCK_LEADS = sa.text("select pg_advisory_xact_lock(hashtextextended('leads import', 0))")

_CREATE_STAGING = f"""
    create temp table incoming_leads on commit drop as
    select 0::bigint as number, {", ".join(LEAD_COLUMNS[1:])} from leads with no data
"""
_COPY_STAGING = f"copy incoming_leads ({', '.join(LEAD_COLUMNS)}) from stdin"
_DELETE_REPLACED = sa.text(
    """
    delete from leads l using incoming_leads i
     where l.source_id = :source and l.address_key = i.address_key
    """
)
_INSERT_STAGED = sa.text(
    f"""
    insert into leads (source_id, {", ".join(LEAD_COLUMNS[1:])})
    select :source, {", ".join(LEAD_COLUMNS[1:])}
      from (select distinct on (address_key) * from incoming_leads order by address_key, number desc) each
     order by grid, latitude, longitude, number
    """
)
_INSERT_DENSITY = sa.text(
    """
    insert into lead_density (cell, records)
    select grid / 36000 / 10 * 3600 + grid % 36000 / 10, count(*) from leads group by 1
    """
)
_DELETE_DENSITY = sa.text("delete from lead_density")
ReadProgressCallback = Callable[[int, int], None]
"""Bytes read, and bytes in all."""


@dataclass(slots=True)
class ImportedLeadFile:
    """`is_already_imported`: it was imported before, and changed nothing."""

    file: str
    rows: int = 0
    records: int = 0
    rejected: int = 0
    is_already_imported: bool = False


@dataclass(slots=True)
class LeadImportReport:
    files: list[ImportedLeadFile] = field(default_factory=list)
    replaced_count: int = 0


def import_files(
    db: Database,
    files: Sequence[Path],
    *,
    source: str,
    replace: bool,
    country: str,
    open_progress: Callable[[Path], ReadProgressCallback],
    report_rejected: Callable[[str, Iterable[BadLeadRow]], None],
    now: datetime,
) -> LeadImportReport:
    """All of them, or none. `report_rejected` gets rejected rows as they are found."""
    digests = {file: _digest(file) for file in files}
    report = LeadImportReport()
    with db.system_transaction() as tx, ExitStack() as exit_stack:
        source_id = _lock_source(tx, source, is_sample=False, now=now)
        if replace:
            report.replaced_count = _delete_source_rows(tx, source_id)
        executor: Executor | None = None
        for file in files:
            imported_file = ImportedLeadFile(file.name)
            report.files.append(imported_file)
            if _is_already_imported(tx, source_id, digests[file]):
                imported_file.is_already_imported = True
                continue
            if executor is None and file.stat().st_size > SMALL_FILE_BYTES:
                executor = exit_stack.enter_context(_open_process_pool())
            with _open_staging(tx), open_file(file) as (raw, content):
                size = file.stat().st_size
                report_progress = open_progress(file)
                for prepared_chunk in _prepare_chunks(read_rows(content, str(file)), executor, country):
                    _write_chunk(tx, prepared_chunk, imported_file)
                    report_rejected(imported_file.file, prepared_chunk.bad_rows)
                    report_progress(min(raw.tell(), size), size)
                imported_file.records = _insert_staged(tx, source_id)
            if not imported_file.records:
                raise NotLeadFile(f"{file} has no row that can be used: nothing was imported.")
            _record_file(tx, source_id, digests[file], imported_file, now=now)
        _update_counts(tx, source_id, now=now)
    return report


def replace_source_rows(
    db: Database, rows: Iterable[LeadRow], *, source: str, country: str, is_sample: bool, now: datetime
) -> int:
    """Replace all rows of a source; how many there are."""
    with db.system_transaction() as tx:
        source_id = _lock_source(tx, source, is_sample=is_sample, now=now)
        _delete_source_rows(tx, source_id)
        with _open_staging(tx):
            imported_file = ImportedLeadFile(source)
            _write_chunk(tx, prepare_rows(rows, country, SAMPLE_TAG if is_sample else 0), imported_file)
            records = _insert_staged(tx, source_id)
        _update_counts(tx, source_id, now=now)
    return records


def delete_source(db: Database, source: str) -> int:
    """Delete a source and its records; how many. What was bought stays on its lists."""
    with db.system_transaction() as tx:
        tx.execute(_LOCK_LEADS)
        source_id = tx.execute(sa.select(lead_sources.c.id).where(lead_sources.c.name == source)).scalar()
        if source_id is None:
            raise NotReady(f"There is no source {source} of addresses: see `quillpost leads list`.")
        removed_count = _delete_source_rows(tx, source_id)
        tx.execute(sa.delete(lead_sources).where(lead_sources.c.id == source_id))
        _recount_density(tx)
    return removed_count


def vacuum_leads(conninfo: str) -> None:
    """Enable index-only scans: set the visibility map, and update statistics."""
    engine = create_admin_engine(conninfo).execution_options(isolation_level="AUTOCOMMIT")
    try:
        with engine.connect() as connection:
            connection.execute(sa.text("vacuum (analyze) leads"))
    finally:
        engine.dispose()


def _digest(file: Path) -> bytes:
    with open_file(file) as (raw, _):
        return hashlib.file_digest(raw, "sha256").digest()  # type: ignore[arg-type]


def _lock_source(tx: Tx, name: str, *, is_sample: bool, now: datetime) -> int:
    """The source's id; one import at a time."""
    tx.execute(_LOCK_LEADS)
    insert_query = insert(lead_sources).values(name=name, is_sample=is_sample, records=0, updated_at=now)
    tx.execute(insert_query.on_conflict_do_nothing(index_elements=["name"]))
    source = tx.execute(sa.select(lead_sources).where(lead_sources.c.name == name)).one()
    if source.is_sample != is_sample:
        raise NotReady(f"The source {SAMPLE_SOURCE} is the sample's: give the import another --source.")
    return int(source.id)


def _delete_source_rows(tx: Tx, source_id: int) -> int:
    tx.execute(sa.delete(lead_files).where(lead_files.c.source_id == source_id))
    return tx.execute(sa.delete(leads).where(leads.c.source_id == source_id)).rowcount


def _is_already_imported(tx: Tx, source_id: int, digest: bytes) -> bool:
    condition = (lead_files.c.source_id == source_id) & (lead_files.c.digest == digest)
    return tx.execute(sa.select(lead_files.c.records).where(condition)).first() is not None


@contextmanager
def _open_staging(tx: Tx) -> Iterator[None]:
    connection = driver_connection(tx)
    connection.execute(_CREATE_STAGING)
    yield
    connection.execute("drop table incoming_leads")


@contextmanager
def _open_process_pool() -> Iterator[Executor]:
    # Not forked: other threads may hold locks that would never be released in the child.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(os.cpu_count() or 1, mp_context=context) as pool:
        yield pool


def _prepare_chunks(rows: Iterable[LeadRow], executor: Executor | None, country: str) -> Iterator[PreparedLeads]:
    """In the order of the file, with a limited read-ahead."""
    row_iterator = iter(rows)
    chunks = iter(lambda: list(islice(row_iterator, ROWS_PER_CHUNK)), [])
    if executor is None:
        for chunk in chunks:
            yield prepare_rows(chunk, country)
        return
    pending: deque[Future[PreparedLeads]] = deque()
    for chunk in chunks:
        pending.append(executor.submit(prepare_rows, chunk, country))
        if len(pending) > 2 * (os.cpu_count() or 1):
            yield pending.popleft().result()
    for future in pending:
        yield future.result()


def _write_chunk(tx: Tx, prepared_chunk: PreparedLeads, imported_file: ImportedLeadFile) -> None:
    imported_file.rows += prepared_chunk.count + len(prepared_chunk.bad_rows)
    imported_file.rejected += len(prepared_chunk.bad_rows)
    if prepared_chunk.count:
        with driver_connection(tx).cursor() as cursor, cursor.copy(_COPY_STAGING) as copy:
            copy.write(prepared_chunk.data)


def _insert_staged(tx: Tx, source_id: int) -> int:
    """Of an address that repeats, the last row wins."""
    driver_connection(tx).execute("analyze incoming_leads")
    tx.execute(_DELETE_REPLACED, {"source": source_id})
    return tx.execute(_INSERT_STAGED, {"source": source_id}).rowcount


def _record_file(tx: Tx, source_id: int, digest: bytes, imported_file: ImportedLeadFile, *, now: datetime) -> None:
    tx.execute(
        sa.insert(lead_files).values(
            source_id=source_id,
            digest=digest,
            name=imported_file.file,
            records=imported_file.records,
            refused=imported_file.rejected,
            imported_at=now,
        )
    )


def _update_counts(tx: Tx, source_id: int, *, now: datetime) -> None:
    _recount_density(tx)
    record_count = sa.select(sa.func.count()).where(leads.c.source_id == source_id).scalar_subquery()
    tx.execute(
        sa.update(lead_sources).where(lead_sources.c.id == source_id).values(records=record_count, updated_at=now)
    )


def _recount_density(tx: Tx) -> None:
    tx.execute(_DELETE_DENSITY)
    tx.execute(_INSERT_DENSITY)


RANDOM_SEED = 7
_SAMPLE = tomllib.loads((resources.files("quillpost.recipients.leads") / "sample.toml").read_text(encoding="utf-8"))
FIRST_CITY_COUNT, OTHER_CITY_COUNT = 200, 40
METERS_PER_DEGREE = 111_195.0
SPREAD_METERS = 2_500.0
"""The standard deviation from the center of the ZIP code."""

_HOME_RECORD_TYPES = tuple(name for name in rules.HOME_RECORD_TYPES if name != "absenteeowner")
_load_lock = threading.Lock()


def load_sample(db: Database, *, now: datetime) -> int:
    return replace_source_rows(
        db, generate_sample_rows(), source=SAMPLE_SOURCE, country=HOME_COUNTRY, is_sample=True, now=now
    )


def ensure_sample(db: Database, *, now: datetime) -> None:
    """The first search in test mode waits a second for it."""
    with _load_lock:
        with db.system_transaction() as tx:
            source = tx.execute(sa.select(lead_sources.c.id).where(lead_sources.c.is_sample)).first()
        if source is None:
            load_sample(db, now=now)


def generate_sample_rows() -> Iterator[LeadRow]:
    """Every record type, in every city."""
    randomness = random.Random(RANDOM_SEED)  # noqa: S311 (the same for everyone, and for nobody's secrets)
    number = 0
    for zip5, count in (
        *((zip5, FIRST_CITY_COUNT) for zip5 in _SAMPLE["first_city_zips"]),
        *((zip5, OTHER_CITY_COUNT) for zip5 in _SAMPLE["other_city_zips"]),
    ):
        for fields in _generate_around_zip(randomness, zip5, count):
            number += 1
            yield LeadRow(number, fields)


def _generate_around_zip(randomness: random.Random, zip5: str, count: int) -> Iterator[dict[str, str]]:
    zip_area = find_zip_area(zip5)
    assert zip_area is not None
    assert zip_area.latitude is not None
    assert zip_area.longitude is not None
    meters_per_longitude = METERS_PER_DEGREE * math.cos(math.radians(zip_area.latitude))
    for index, (street, house) in enumerate(_choose_addresses(randomness, count)):
        fields = {
            "lat": f"{zip_area.latitude + randomness.gauss(0, SPREAD_METERS) / METERS_PER_DEGREE:.6f}",
            "lon": f"{zip_area.longitude + randomness.gauss(0, SPREAD_METERS) / meters_per_longitude:.6f}",
            "number": str(house),
            "street": street,
            "city": zip_area.city,
            "region": zip_area.state,
            "postcode": zip5,
        }
        yield fields | _build_kind_fields(randomness, index, zip5)


def _choose_addresses(randomness: random.Random, count: int) -> Sequence[tuple[str, int]]:
    streets = [f"Sample {name} {suffix}" for name in _SAMPLE["streets"] for suffix in _SAMPLE["suffixes"]]
    addresses = [(street, house) for street in streets for house in range(100, 1_300, 50)]
    return randomness.sample(addresses, count)


def _build_kind_fields(randomness: random.Random, index: int, zip5: str) -> dict[str, str]:
    if index % 10 == 9:
        new_business = {"newbusiness": "yes"} if index % 20 == 9 else {}
        return {"company": "Sample Business", "business": "yes", **new_business}
    record_types = {_HOME_RECORD_TYPES[index % len(_HOME_RECORD_TYPES)], *randomness.sample(_HOME_RECORD_TYPES, 2)}
    fields = {"name": "Sample Resident", "record_types": ",".join(sorted(record_types))}
    if index % 7 == 3:
        fields |= {"unit": f"Apt {index}", "condo": "yes"}
    if index % 12 == 5:
        fields |= {
            "owner_name": "Sample Owner",
            "owner_address": f"{index + 100} Sample Harbor Rd",
            "owner_postcode": "98101" if zip5 != "98101" else "97204",
        }
    return fields
