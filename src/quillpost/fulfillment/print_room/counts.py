"""Counts for the print room: open batches, output, handovers, stuck batches."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import sqlalchemy as sa

from quillpost.core.database import Tx

LATE_AFTER = timedelta(days=2)  # since handover
LOOKBACK = timedelta(days=14)  # what is printed or mailed today was created in this time

COUNT_OPEN_BATCHES = sa.text("""
    select status, count(*) as batches, sum(item_count - void_count) as pieces, min(created_at) as oldest,
           count(*) filter (where trouble is not null) as failing,
           count(*) filter (where handed_at < :late) as late
      from batches where mode = :mode and status <> 'mailed' group by status
""")

COUNT_OUTPUT = sa.text("""
    select coalesce(sum(item_count - void_count) filter (where created_at >= :since), 0) as made,
           coalesce(sum(item_count - void_count) filter (where printed_at >= :since), 0) as printed,
           coalesce(sum(item_count - void_count) filter (where mailed_at >= :since), 0) as mailed,
           count(*) filter (where created_at >= :since) as batches
      from batches where mode = :mode and created_at >= :looked_back
""")

COUNT_PAUSED = sa.text(
    "select count(*) from (select 1 from orders where mode = :mode and status = 'paused' limit :most) held"
)

COUNT_HANDOVERS = sa.text("""
    select partner, max(handed_at) as last_at, count(*) filter (where handed_at >= :since) as batches,
           coalesce(sum(item_count) filter (where handed_at >= :since), 0) as pieces
      from batches where mode = :mode and created_at >= :looked_back and handed_at is not null
     group by partner order by max(handed_at) desc limit 10
""")

COUNT_STUCK = sa.text("""
    select count(*) as batches, min(trouble_at) as since, min(trouble) as error
      from batches where mode = :mode and status <> 'mailed' and status = 'composed' and trouble is not null
""")

MAX_PAUSED = 1_000


@dataclass(frozen=True, slots=True)
class OpenBatchCount:
    batches: int = 0
    pieces: int = 0
    failing: int = 0
    late: int = 0
    oldest: datetime | None = None


@dataclass(frozen=True, slots=True)
class DailyOutput:
    """In items; a spoiled one does not count, a reprinted one counts where it is now."""

    made: int
    printed: int
    mailed: int
    batches: int


@dataclass(frozen=True, slots=True)
class PartnerHandovers:
    """What one partner was given: last, and since yesterday."""

    partner: str | None
    last_at: datetime
    batches: int
    pieces: int


@dataclass(frozen=True, slots=True)
class StuckBatches:
    """Batches that cannot be handed over; the error is that of one of them."""

    batches: int
    since: datetime | None
    error: str | None


def count_open_batches(tx: Tx, mode: str, *, now: datetime) -> dict[str, OpenBatchCount]:
    rows = tx.execute(COUNT_OPEN_BATCHES, {"mode": mode, "late": now - LATE_AFTER})
    return {row.status: OpenBatchCount(row.batches, row.pieces, row.failing, row.late, row.oldest) for row in rows}


def count_output_since(tx: Tx, mode: str, *, since: datetime, now: datetime) -> DailyOutput:
    row = tx.execute(COUNT_OUTPUT, {"mode": mode, "since": since, "looked_back": now - LOOKBACK}).one()
    return DailyOutput(row.made, row.printed, row.mailed, row.batches)


def count_paused_orders(tx: Tx, mode: str) -> int:
    """`MAX_PAUSED` stands for that or more."""
    return int(tx.execute(COUNT_PAUSED, {"mode": mode, "most": MAX_PAUSED}).scalar_one())


def list_handovers(tx: Tx, mode: str, *, now: datetime) -> Sequence[PartnerHandovers]:
    """The latest first."""
    params = {"mode": mode, "since": now - timedelta(days=1), "looked_back": now - LOOKBACK}
    return [PartnerHandovers(**row._mapping) for row in tx.execute(COUNT_HANDOVERS, params)]


def read_stuck_batches(tx: Tx, mode: str) -> StuckBatches:
    return StuckBatches(**tx.execute(COUNT_STUCK, {"mode": mode}).one()._mapping)
