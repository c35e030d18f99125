"""Taking in scans: kept once each, then the pieces moved in rounds, each item's scans in their order."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

import sqlalchemy as sa
import structlog

from quillpost import jobs
from quillpost.database import Database, Tx
from quillpost.orders.moves import Move, move_items
from quillpost.orders.rules import ItemStatus
from quillpost.ports import CarrierScan, World
from quillpost.tracking.rules import digest, reason_of, status_of

log = structlog.get_logger(__name__)

POLL = "tracking.poll"

# A barcode may return on another piece after 45 days: a scan means the piece that was newest at its time.
# That is told by the batch, which gave the code: an order may be placed a year before it is mailed. The day
# of grace is for carriers' clocks.
KEEP = sa.text(
    """
    insert into carrier_scans (digest, tracking, phase, scanned_at, raw, received_at, item_id)
    select s.digest, s.tracking, s.phase, s.at, cast(s.raw as jsonb), :now,
           (select i.id from items i join batches b on b.id = i.batch_id
             where i.tracking = s.tracking and b.created_at <= s.at + interval '1 day'
             order by b.created_at desc, i.id desc limit 1)
      from unnest(cast(:digests as bytea[]), cast(:trackings as text[]), cast(:phases as text[]),
                  cast(:moments as timestamptz[]), cast(:raws as text[]))
               as s (digest, tracking, phase, at, raw)
    on conflict (digest) do nothing
    returning digest, item_id
    """
)


def poll(db: Database, worlds: Mapping[str, World], *, now: datetime) -> None:
    """Ask every carrier feed what is new, and come back soon while pieces are on their way."""
    for world in worlds.values():
        report = world.carrier.poll(now=now)
        with db.work() as tx:
            if report.scans:
                ingest(tx, report.scans, now=now)
            if report.expects_more:
                jobs.wake(tx, POLL, at=now + world.poll_every - timedelta(seconds=1))
        world.carrier.settled(report.receipt)


def ingest(tx: Tx, scans: Sequence[CarrierScan], *, now: datetime) -> int:
    """Keep the scans that are new and move their pieces; how many were new."""
    # Sorted, so that two reports of the same scans meet in the same order.
    by_digest = dict(sorted(((digest(scan), scan) for scan in scans), key=lambda kept: kept[0]))
    kept = tx.execute(
        KEEP,
        {
            "digests": list(by_digest),
            "trackings": [scan.tracking for scan in by_digest.values()],
            "phases": [scan.phase for scan in by_digest.values()],
            "moments": [scan.at for scan in by_digest.values()],
            "raws": [json.dumps(dict(scan.raw)) for scan in by_digest.values()],
            "now": now,
        },
    ).all()
    scans_of_item: dict[int, list[CarrierScan]] = defaultdict(list)
    for row in kept:
        if row.item_id is not None:
            scans_of_item[row.item_id].append(by_digest[bytes(row.digest)])
    for history in scans_of_item.values():
        history.sort(key=lambda scan: scan.at)
    _take_as_printed(tx, scans_of_item, now=now)
    _move_in_rounds(tx, scans_of_item, now=now)
    return len(kept)


def _take_as_printed(tx: Tx, scans_of_item: Mapping[int, list[CarrierScan]], *, now: datetime) -> None:
    """A piece that the carrier has seen was printed, even if the printer has not said so yet."""
    seen = [item for item, history in scans_of_item.items() if any(map(status_of, history))]
    move_items(tx, [Move(item, ItemStatus.PRINTED) for item in seen], now=now)


def _move_in_rounds(tx: Tx, scans_of_item: Mapping[int, list[CarrierScan]], *, now: datetime) -> None:
    """First every item's first scan, then the second ones: each status is passed through and told."""
    for place in range(max(map(len, scans_of_item.values()), default=0)):
        moves = []
        for item_id, history in scans_of_item.items():
            if place < len(history) and (status := status_of(history[place])):
                scan = history[place]
                on = scan.at.date() if status is ItemStatus.DELIVERED else None
                moves.append(Move(item_id, status, on=on, why=reason_of(status, scan)))
        move_items(tx, moves, now=now)
