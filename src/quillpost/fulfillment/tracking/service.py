"""Imports carrier scans: each stored once, then items moved in rounds, in the order of their scans."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache
from io import BytesIO
from itertools import chain, islice
from typing import BinaryIO

import psycopg
import sqlalchemy as sa
import structlog

from quillpost.core import jobs
from quillpost.core.database import Database
from quillpost.core.ports import FileMissing
from quillpost.fulfillment.models import Environment
from quillpost.fulfillment.ports import CarrierDown, CarrierFeed, ScanFileForbidden, ScanFileTooLarge
from quillpost.fulfillment.tracking import queries, rules, tasks
from quillpost.fulfillment.tracking.files import read_csv_rows, read_json_rows, read_text_chunks
from quillpost.fulfillment.tracking.rules import BadScanRow, InvalidScanFile, Scan
from quillpost.orders.items.service import MailItemsStatement, MoveItemsStatement
from quillpost.orders.rules import ItemStatus

log = structlog.get_logger(__name__)
POLL_TASK = "tracking.poll_carriers"
SCANS_PER_TRANSACTION = 20_000
MAX_CLOCK_SKEW = timedelta(days=1)  # a scan's time may be local, without a zone
MAX_LISTED_ROWS = 20
MAX_COLUMN_SETS = 100  # remembered within one file

# An item that the carrier has seen was printed, even if the printer has not said so yet.
MOVE_TO_PRINTED = MoveItemsStatement("""
    select item_id, 'Printed' as target, cast(null as date) as day, cast(null as text) as reason,
           min(at) as seen_at, cast(null as text) as place, false as inferred
      from scan_steps where previous = 'Processing' group by item_id
""")
# And it was mailed: the order is mailed before its item is in transit.
MARK_MAILED = MailItemsStatement("select distinct item_id from scan_steps")
MOVE_ROUND = MoveItemsStatement("""
    select item_id, target, day, reason, at as seen_at, place, false as inferred
      from scan_steps where round = :round
""")


@dataclass(slots=True)
class ScanImportResult:
    """Totals of one or more files. `bad_rows` has only the first."""

    rows: int = 0
    new: int = 0
    matched: int = 0
    bad_count: int = 0
    moved: Counter[ItemStatus] = field(default_factory=Counter)
    bad_rows: list[BadScanRow] = field(default_factory=list)

    def add_bad_row(self, row: BadScanRow) -> None:
        self.bad_count += 1
        if len(self.bad_rows) < MAX_LISTED_ROWS:
            self.bad_rows.append(row)


def poll_carriers(db: Database, environments: Mapping[str, Environment], *, now: datetime) -> None:
    """Import what every carrier feed has, and poll again soon where more is expected."""
    for environment in environments.values():
        try:
            expects_more = _import_feed_files(db, environment.carrier, now=now)
        except CarrierDown as error:
            # The feed is polled again in a minute; the doctor reports the error.
            log.warning("tracking.feed_unavailable", mode=environment.mode, reason=str(error))
            continue
        with db.system_transaction() as tx:
            if expects_more:
                jobs.enqueue_unique(tx, POLL_TASK, at=now + environment.poll_interval - timedelta(seconds=1))
            tasks.schedule_close(tx, environment, now=now)


def _import_feed_files(db: Database, feed: CarrierFeed, *, now: datetime) -> bool:
    """Import every file that is there; whether another poll is worth it."""
    report = feed.poll(now=now)
    for name in report.file_names:
        try:
            result = import_scan_file(db, BytesIO(feed.fetch(name)), now=now)
        except FileMissing:  # another poll has settled it since
            continue
        except ScanFileForbidden as error:  # it stays where it is; those behind it are read
            log.warning("tracking.file_forbidden", file=name, reason=str(error))
            continue
        except (InvalidScanFile, ScanFileTooLarge) as error:
            feed.refuse(name, str(error))
            log.warning("tracking.file_rejected", file=name, reason=str(error))
            continue
        feed.settle(name)
        if result.bad_count:
            first_bad = result.bad_rows[0]
            log.warning(
                "tracking.rows_rejected", file=name, rows=result.bad_count, row=first_bad.row, reason=first_bad.reason
            )
    return report.expects_more


def import_scan_file(
    db: Database, source: BinaryIO, *, now: datetime, result: ScanImportResult | None = None
) -> ScanImportResult:
    """Import a carrier's file chunk by chunk, or `InvalidScanFile`. Idempotent."""
    totals = result if result is not None else ScanImportResult()
    for chunk in _read_chunks(_valid_scans(read_scans(source), totals, latest=now + MAX_CLOCK_SKEW)):
        try:
            ingest_scans(db, chunk, now=now, result=totals)
        except (sa.exc.DataError, psycopg.DataError) as error:
            # Our own bug, which would repeat each time and hold up all other files.
            raise InvalidScanFile(f"The database does not take this file: {_database_error_text(error)}.") from error
    return totals


def read_scans(source: BinaryIO, *, json_only: bool = False) -> Iterator[Scan | BadScanRow]:
    """Each row of the file as a scan or a bad row; `InvalidScanFile` as soon as that is certain."""
    chunks = read_text_chunks(source)
    beginning = ""
    for chunk in chunks:
        beginning += chunk
        if beginning.strip():
            break
    is_json = beginning.lstrip()[:1] in ("{", "[")
    if json_only and not is_json:
        raise InvalidScanFile("This is not JSON: send an object with an array of events, or the array alone.")
    rows = (read_json_rows if is_json else read_csv_rows)(chain([beginning], chunks))
    find_columns = lru_cache(maxsize=MAX_COLUMN_SETS)(rules.ScanColumns)
    has_scan, first_bad = False, None
    for row in rows:
        result: Scan | BadScanRow
        if isinstance(row, BadScanRow):
            result = row
        else:
            try:
                result = rules.parse_scan(row.columns, find_columns(tuple(row.columns)), row.raw)
            except rules.UnreadableScan as error:
                result = BadScanRow(row.row, str(error))
        if isinstance(result, BadScanRow):
            first_bad = first_bad or result
        else:
            has_scan = True
        yield result
    if first_bad and not has_scan:
        raise InvalidScanFile(f"No row of this file is a scan. Row {first_bad.row}: {first_bad.reason}.")


def read_scans_from_bytes(data: bytes, *, json_only: bool = False) -> Iterator[Scan | BadScanRow]:
    return read_scans(BytesIO(data), json_only=json_only)


def _database_error_text(error: Exception) -> str:
    driver_error = error.orig if isinstance(error, sa.exc.DataError) else error
    message = driver_error.diag.message_primary if isinstance(driver_error, psycopg.Error) else None
    return message or type(error).__name__


def _read_chunks(scans: Iterator[Scan]) -> Iterator[list[Scan]]:
    """The next chunk is read while the database works on one."""
    with ThreadPoolExecutor(1, thread_name_prefix="scans") as reader:
        next_chunk = reader.submit(lambda: list(islice(scans, SCANS_PER_TRANSACTION)))
        while chunk := next_chunk.result():
            next_chunk = reader.submit(lambda: list(islice(scans, SCANS_PER_TRANSACTION)))
            yield chunk


def _valid_scans(rows: Iterable[Scan | BadScanRow], result: ScanImportResult, *, latest: datetime) -> Iterator[Scan]:
    for row in rows:
        result.rows += 1
        if isinstance(row, BadScanRow):
            result.add_bad_row(row)
        elif row.at > latest:
            result.add_bad_row(BadScanRow(result.rows, "its time lies in the future"))
        else:
            yield row


def ingest_scans(
    db: Database, scans: Sequence[Scan], *, now: datetime, result: ScanImportResult | None = None
) -> ScanImportResult:
    """Store the new scans and move their items, in one transaction."""
    totals = result if result is not None else ScanImportResult()
    with db.system_transaction() as tx:
        new_count, matched_count = queries.insert_scans(tx, scans, now=now)
        if matched_count:
            plan = queries.plan_moves(tx)
            if plan.unprinted:
                MOVE_TO_PRINTED.run(tx, {}, now=now)
            if plan.unmailed:
                MARK_MAILED.run(tx, {}, now=now)
            for round_number in range(1, plan.rounds + 1):
                MOVE_ROUND.run(tx, {"round": round_number}, now=now)
            if plan.inferred:
                tx.execute(queries.CONFIRM_DELIVERIES, {"now": now})
            totals.moved.update(queries.count_moved(tx))
    totals.new += new_count
    totals.matched += matched_count
    return totals
