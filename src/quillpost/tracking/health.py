"""Whether a carrier still tells of our pieces: when it was last heard, and what it told since yesterday."""

from dataclasses import dataclass
from datetime import datetime, timedelta

import sqlalchemy as sa

from quillpost.database import Tx
from quillpost.ports.worlds import World

MOST_SCANS = 10_000
SILENT_AFTER = timedelta(days=3)
"""Carriers scan a piece several times in this time: one that tells of none that are in the mail is silent."""

# A barcode holds the mailer's number behind its first five digits; without a number there are no barcodes.
NEWEST = sa.text(
    """
    select max(received_at) as last_at, count(*) filter (where received_at >= :since) as new,
           count(item_id) filter (where received_at >= :since) as ours, min(received_at) as looked_back
      from (select tracking, received_at, item_id from carrier_scans order by id desc limit :most) s
     where :mailer <> '' and substr(tracking, 6, length(:mailer)) = :mailer
    """
)
AWAITED = sa.text(
    """
    select min(mailed_at) from batches
     where mode = :mode and settled_at is null and status = 'mailed' and created_at >= :looked_back
    """
)
LOOKED_BACK = timedelta(days=14)


@dataclass(frozen=True, slots=True)
class Heard:
    """What was heard of a mode's carrier: at last, and since yesterday how many scans, of which `ours` are of
    pieces that we know. `silent_since` is set where more should have come."""

    last_at: datetime | None
    new: int
    ours: int
    is_more: bool
    silent_since: datetime | None


def heard(tx: Tx, world: World, *, now: datetime) -> Heard:
    """Looks at the newest scans alone."""
    since = now - timedelta(days=1)
    row = tx.execute(NEWEST, {"since": since, "most": MOST_SCANS, "mailer": world.mailer_id}).one()
    mailed = tx.execute(AWAITED, {"mode": world.mode, "looked_back": now - LOOKED_BACK}).scalar()
    waits_since = None if mailed is None else max(mailed, row.last_at or mailed)
    is_silent = waits_since is not None and waits_since < now - SILENT_AFTER
    return Heard(row.last_at, row.new, row.ours, row.new >= MOST_SCANS, waits_since if is_silent else None)
