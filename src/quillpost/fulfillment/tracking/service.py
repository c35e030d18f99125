"""Taking in scans: kept once each, then the pieces moved in rounds, each item's scans in their order."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from io import BytesIO
from itertools import islice
from typing import BinaryIO

import psycopg
import sqlalchemy as sa
import structlog

from quillpost.core import jobs
from quillpost.core.database import Database
from quillpost.core.ports import FileMissing
from quillpost.fulfillment.environments import World
from quillpost.fulfillment.tracking import queries, tasks
from quillpost.fulfillment.tracking.files import BadRow, NotScans, read
from quillpost.fulfillment.tracking.ports import CarrierDown, CarrierFeed, FileBarred, TooMuch
from quillpost.fulfillment.tracking.rules import Scan
from quillpost.orders.mailed_items import Mailing
from quillpost.orders.rules import ItemStatus
from quillpost.orders.status import Moves

log = structlog.get_logger(__name__)

POLL = "tracking.poll"
CHUNK = 20_000
"""Scans that are taken in by one transaction: whole, or after a kill not at all and then again."""

CLOCKS_DIFFER = timedelta(days=1)
"""A scan may say so much more than our clock: its time may be a local one without a zone."""

MOST_NAMED = 20

# A piece that the carrier has seen was printed, even if the printer has not said so yet: at the latest then.
PRINTED = Moves(
    """
    select item_id, 'Printed' as target, cast(null as date) as day, cast(null as text) as reason,
           min(at) as seen_at, cast(null as text) as place, false as inferred
      from scan_steps where previous = 'Processing' group by item_id
    """
)
# And it was handed over, even if nobody has said so: the order is mailed before its piece is on its way.
MAILED = Mailing("select distinct item_id from scan_steps")
ROUND = Moves(
    """
    select item_id, target, day, reason, at as seen_at, place, false as inferred
      from scan_steps where round = :round
    """
)


@dataclass(slots=True)
class TakenIn:
    """What came of a file, or of several. `refused` names the first rows that could not be read."""

    rows: int = 0
    new: int = 0
    ours: int = 0
    bad: int = 0
    moved: Counter[ItemStatus] = field(default_factory=Counter)
    refused: list[BadRow] = field(default_factory=list)

    def refuse(self, row: BadRow) -> None:
        self.bad += 1
        if len(self.refused) < MOST_NAMED:
            self.refused.append(row)


def poll(db: Database, worlds: Mapping[str, World], *, now: datetime) -> None:
    """Take in what every carrier feed has, and come back soon while there is more to come."""
    for world in worlds.values():
        try:
            expects_more = _empty(db, world.carrier, now=now)
        except CarrierDown as down:
            # The feed is asked again in a minute; the doctor says what is wrong with it.
            log.warning("tracking.feed_down", mode=world.mode, reason=str(down))
            continue
        with db.work() as tx:
            if expects_more:
                jobs.wake(tx, POLL, at=now + world.poll_every - timedelta(seconds=1))
            tasks.come_soon(tx, world, now=now)


def _empty(db: Database, feed: CarrierFeed, *, now: datetime) -> bool:
    """Read every file that is there; whether another poll is worth it."""
    report = feed.poll(now=now)
    for name in report.names:
        try:
            taken = take_in(db, BytesIO(feed.fetch(name)), now=now)
        except FileMissing:  # another poll has settled it since
            continue
        except FileBarred as reason:  # it stays where it is, and keeps nobody from those behind it
            log.warning("tracking.file_barred", file=name, reason=str(reason))
            continue
        except (NotScans, TooMuch) as reason:
            feed.refuse(name, str(reason))
            log.warning("tracking.file_refused", file=name, reason=str(reason))
            continue
        feed.settle(name)
        if taken.bad:
            first = taken.refused[0]
            log.warning(
                "tracking.rows_refused", file=name, rows=taken.bad, row=first.row, reason=first.reason
            )
    return report.expects_more


def take_in(db: Database, source: BinaryIO, *, now: datetime, into: TakenIn | None = None) -> TakenIn:
    """Read a carrier's file and store it chunk by chunk, or `NotScans`. Done again, it changes nothing."""
    taken = into if into is not None else TakenIn()
    for chunk in _chunks(_scans(read(source), taken, latest=now + CLOCKS_DIFFER)):
        try:
            ingest(db, chunk, now=now, into=taken)
        except (sa.exc.DataError, psycopg.DataError) as fault:
            # A fault of ours, which let it pass. It would be the same each time, and hold up all others.
            raise NotScans(f"The database does not take this file: {_words(fault)}.") from fault
    return taken


def _words(fault: Exception) -> str:
    told = fault.orig if isinstance(fault, sa.exc.DataError) else fault
    words = told.diag.message_primary if isinstance(told, psycopg.Error) else None
    return words or type(fault).__name__


def _chunks(scans: Iterator[Scan]) -> Iterator[list[Scan]]:
    """While the database works on one chunk the next is read."""
    with ThreadPoolExecutor(1, thread_name_prefix="scans") as reader:
        ahead = reader.submit(lambda: list(islice(scans, CHUNK)))
        while chunk := ahead.result():
            ahead = reader.submit(lambda: list(islice(scans, CHUNK)))
            yield chunk


def _scans(rows: Iterable[Scan | BadRow], taken: TakenIn, *, latest: datetime) -> Iterator[Scan]:
    for row in rows:
        taken.rows += 1
        if isinstance(row, BadRow):
            taken.refuse(row)
        elif row.at > latest:
            taken.refuse(BadRow(taken.rows, "its time lies in the future"))
        else:
            yield row


def ingest(db: Database, scans: Sequence[Scan], *, now: datetime, into: TakenIn | None = None) -> TakenIn:
    """Keep the scans that are new and move their pieces, in one transaction."""
    taken = into if into is not None else TakenIn()
    with db.work() as tx:
        kept = queries.keep(tx, scans, now=now)
        if kept.ours:
            outlook = queries.plan(tx)
            if outlook.unprinted:
                PRINTED.run(tx, {}, now=now)
            if outlook.unmailed:
                MAILED.run(tx, {}, now=now)
            for number in range(1, outlook.rounds + 1):
                ROUND.run(tx, {"round": number}, now=now)
            if outlook.inferred:
                queries.confirm_deliveries(tx, now=now)
            taken.moved.update(queries.moved(tx))
    taken.new += kept.new
    taken.ours += kept.ours
    return taken
