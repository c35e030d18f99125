"""The end of the way for pieces that nobody sees any more: a delivery is inferred, where the operator wants
that, a re-routed piece stays so, and a batch of which nothing is on its way is settled."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

import sqlalchemy as sa
import structlog

from quillpost import jobs
from quillpost.database import Database, Tx
from quillpost.orders.moves import Moves, Stays
from quillpost.ports import World

log = structlog.get_logger(__name__)

CLOSE = "tracking.close"
AN_HOUR = timedelta(hours=1)
AT_ONCE = 50

LONGEST = timedelta(days=180)
"""A batch that was mailed so long ago is not looked at any more, whatever became of its last pieces."""

# When the carrier said last that a piece is processed for delivery, and when it said anything at all.
UNDER_WAY = """
    select i.id as item_id, i.status,
           (select max(coalesce(f.seen_at, f.at)) from facts f
             where f.item_id = i.id and f.kind = 'item.status' and f.current = i.status) as since,
           greatest(b.mailed_at, (select max(s.scanned_at) from carrier_scans s
                                   where s.item_id = i.id)) as heard
      from batches b
      join prints p on p.batch_id = b.id and not p.superseded
      join items i on i.id = p.item_id
     where b.id = any(:batches) and not i.is_over
       and i.status in ('Printed', 'In Transit', 'In Local Area', 'Processed for Delivery', 'Re-routed')
"""
INFER = Moves(
    f"""
    select u.item_id, 'Delivered' as target,
           cast(case u.status when 'Processed for Delivery' then u.since else :now end
                at time zone 'UTC' as date) as day,
           cast(null as text) as reason, cast(null as timestamptz) as seen_at, cast(null as text) as place,
           true as inferred
      from ({UNDER_WAY}) u
     where u.status = 'Processed for Delivery' and u.since <= :processed_before
        or u.status <> 'Re-routed' and u.heard <= :heard_before
    """
)
END_REROUTED = Stays(
    f"""
    select u.item_id from ({UNDER_WAY}) u
     where u.status = 'Re-routed' and greatest(u.since, u.heard) <= :rerouted_before
    """
)

DUE = sa.text(
    """
    select id from batches
     where mode = :mode and settled_at is null and status = 'mailed'
       and mailed_at <= :mailed_before and id > :after
     order by id limit :most
    """
)
SETTLE = sa.text(
    """
    update batches b set settled_at = :now
     where b.id = any(:batches)
       and (b.mailed_at <= :long_ago or not exists (
           select 1 from prints p join items i on i.id = p.item_id
            where p.batch_id = b.id and not p.superseded and not i.is_over
              and i.status not in ('Delivered', 'Returned to Sender', 'Failed')))
    """
)
ANY_OPEN = sa.text(
    "select 1 from batches where mode = :mode and settled_at is null and status = 'mailed' limit 1"
)


def close(db: Database, worlds: Mapping[str, World], *, now: datetime) -> None:
    """Look through every batch that is in the mail and old enough for something to be due."""
    for world in worlds.values():
        after = 0
        while batches := _due(db, world, after=after, now=now):
            _close(db, world, batches, now=now)
            after = batches[-1]
        with db.work() as tx:
            come_soon(tx, world, now=now)


def come_soon(tx: Tx, world: World, *, now: datetime) -> None:
    """Book the next look where the hour between two is too long: the clock of a world may be fast."""
    wait = _shortest(world)
    if wait < AN_HOUR and tx.execute(ANY_OPEN, {"mode": world.mode}).first() is not None:
        jobs.wake(tx, CLOSE, at=now + wait / 4)


def _shortest(world: World) -> timedelta:
    waits = (world.infer_after, world.infer_unseen_after, world.reroute_ends)
    return min(wait for wait in waits if wait is not None)


def _due(db: Database, world: World, *, after: int, now: datetime) -> list[int]:
    with db.work() as tx:
        rows = tx.execute(
            DUE,
            {
                "mode": world.mode,
                "mailed_before": now - min(_shortest(world), AN_HOUR * 24),
                "after": after,
                "most": AT_ONCE,
            },
        )
        return list(rows.scalars())


def _close(db: Database, world: World, batches: Sequence[int], *, now: datetime) -> None:
    with db.work() as tx:
        wanted = {
            "batches": list(batches),
            "processed_before": _before(now, world.infer_after),
            "heard_before": _before(now, world.infer_unseen_after),
        }
        inferred = 0
        if world.infer_after is not None or world.infer_unseen_after is not None:
            inferred = INFER.run(tx, wanted, now=now)
        ended = END_REROUTED.run(
            tx, {"batches": list(batches), "rerouted_before": now - world.reroute_ends}, now=now
        )
        tx.execute(SETTLE, {"batches": list(batches), "long_ago": now - LONGEST, "now": now})
    if inferred or ended:
        log.info("tracking.closed", mode=world.mode, inferred=inferred, ended=ended)


def _before(now: datetime, wait: timedelta | None) -> datetime | None:
    return None if wait is None else now - wait
