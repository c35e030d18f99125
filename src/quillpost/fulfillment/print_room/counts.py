"""How much lies where in the print room, and what was done lately: counts for operators."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import sqlalchemy as sa

from quillpost.core.database import Tx

LATE = timedelta(days=2)
"""A batch that a printer has for longer than this, and that is not in the mail, is looked at."""
LOOKED_BACK = timedelta(days=14)
"""What is printed or mailed today was made in this time."""

LYING = sa.text(
    """
    select status, count(*) as batches, sum(item_count - void_count) as pieces, min(created_at) as oldest,
           count(*) filter (where trouble is not null) as in_trouble,
           count(*) filter (where handed_at < :late) as late
      from batches where mode = :mode and status <> 'mailed' group by status
    """
)
TODAY = sa.text(
    """
    select coalesce(sum(item_count - void_count) filter (where created_at >= :since), 0) as made,
           coalesce(sum(item_count - void_count) filter (where printed_at >= :since), 0) as printed,
           coalesce(sum(item_count - void_count) filter (where mailed_at >= :since), 0) as mailed,
           count(*) filter (where created_at >= :since) as batches
      from batches where mode = :mode and created_at >= :looked_back
    """
)
HELD = sa.text(
    "select count(*) from (select 1 from orders where mode = :mode and status = 'paused' limit :most) held"
)
HAND_OVERS = sa.text(
    """
    select partner, max(handed_at) as last_at, count(*) filter (where handed_at >= :since) as batches,
           coalesce(sum(item_count) filter (where handed_at >= :since), 0) as pieces
      from batches where mode = :mode and created_at >= :looked_back and handed_at is not null
     group by partner order by max(handed_at) desc limit 10
    """
)
STUCK = sa.text(
    """
    select count(*) as batches, min(trouble_at) as since, min(trouble) as trouble
      from batches where mode = :mode and status <> 'mailed' and status = 'composed' and trouble is not null
    """
)
MOST_HELD = 1_000


@dataclass(frozen=True, slots=True)
class Lying:
    """Batches that stand in one place, on their way to the mail."""

    batches: int = 0
    pieces: int = 0
    in_trouble: int = 0
    late: int = 0
    oldest: datetime | None = None


@dataclass(frozen=True, slots=True)
class Today:
    """In pieces; one that is spoiled does not count, and one that is printed again counts where it is now."""

    made: int
    printed: int
    mailed: int
    batches: int


@dataclass(frozen=True, slots=True)
class HandOvers:
    """What one partner was given: last, and since yesterday."""

    partner: str | None
    last_at: datetime
    batches: int
    pieces: int


@dataclass(frozen=True, slots=True)
class Stuck:
    """Batches that cannot be handed over, since when, and what is said of the first."""

    batches: int
    since: datetime | None
    trouble: str | None


def lying(tx: Tx, mode: str, *, now: datetime) -> dict[str, Lying]:
    """By their status, those that are not in the mail."""
    rows = tx.execute(LYING, {"mode": mode, "late": now - LATE})
    return {row.status: Lying(row.batches, row.pieces, row.in_trouble, row.late, row.oldest) for row in rows}


def done_since(tx: Tx, mode: str, *, since: datetime, now: datetime) -> Today:
    row = tx.execute(TODAY, {"mode": mode, "since": since, "looked_back": now - LOOKED_BACK}).one()
    return Today(row.made, row.printed, row.mailed, row.batches)


def count_held(tx: Tx, mode: str) -> int:
    """How many orders are paused; `MOST_HELD` stands for that or more."""
    return int(tx.execute(HELD, {"mode": mode, "most": MOST_HELD}).scalar_one())


def hand_overs(tx: Tx, mode: str, *, now: datetime) -> Sequence[HandOvers]:
    """By partner, whoever was given something of late first."""
    asked = {"mode": mode, "since": now - timedelta(days=1), "looked_back": now - LOOKED_BACK}
    return [HandOvers(**row._mapping) for row in tx.execute(HAND_OVERS, asked)]


def stuck(tx: Tx, mode: str) -> Stuck:
    return Stuck(**tx.execute(STUCK, {"mode": mode}).one()._mapping)
