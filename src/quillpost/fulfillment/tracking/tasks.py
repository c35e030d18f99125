"""The end of the way for pieces that nobody sees any more: a delivery is inferred, where the operator wants
that, a re-routed piece stays so, and a batch of which nothing is on its way is settled."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta

import sqlalchemy as sa
import structlog

from quillpost.core import jobs
from quillpost.core.database import Database, Tx
from quillpost.fulfillment.environments import World
from quillpost.orders.status import Moves, Stays

log = structlog.get_logger(__name__)

CLOSE = "tracking.close"
AN_HOUR, A_DAY = timedelta(hours=1), timedelta(days=1)
AT_ONCE = 50

LONGEST = timedelta(days=180)
"""A batch that was mailed so long ago is not looked at any more, whatever became of its last pieces."""

# When the carrier said last where a piece stands, and when it said anything at all of it.
SINCE = """(select max(coalesce(f.seen_at, f.at)) from facts f
             where f.item_id = i.id and f.kind = 'item.status' and f.current = i.status)"""
HEARD = "greatest(b.mailed_at, (select max(s.scanned_at) from carrier_scans s where s.item_id = i.id))"


class Rule:
    """What becomes of pieces that stood somewhere for long: `latest` is what must lie before `:before`, and
    `ends` makes of the source of such pieces what ends them.

    Which they are is asked once of all pieces of some batches, and then only of those again, when nobody else
    can move them: in most hours there are none.
    """

    def __init__(self, statuses: Iterable[str], latest: str, ends: Callable[[str], Moves | Stays]) -> None:
        pieces = f"""
            select i.id as item_id, i.status, {SINCE} as since
              from batches b
              join prints p on p.batch_id = b.id and not p.superseded
              join items i on i.id = p.item_id
             where {{which}} and not i.is_over
               and i.status in ({", ".join(f"'{status}'" for status in statuses)}) and {latest} <= :before
        """
        self._find = sa.text(f"select u.item_id from ({pieces.format(which='b.id = any(:batches)')}) u")
        self._ends = ends(pieces.format(which="i.id = any(:items)"))

    def run(self, db: Database, batches: Sequence[int], *, before: datetime, now: datetime) -> int:
        """How many pieces ended. A transaction by itself: whoever holds orders must wait for no others."""
        with db.work() as tx:
            found = tx.execute(self._find, {"batches": list(batches), "before": before}).scalars().all()
        if not found:
            return 0
        with db.work() as tx:
            return self._ends.run(tx, {"items": list(found), "before": before}, now=now)


def _inferred(pieces: str) -> Moves:
    return Moves(
        f"""
        select u.item_id, 'Delivered' as target,
               cast(case u.status when 'Processed for Delivery' then u.since else :now end
                    at time zone 'UTC' as date) as day,
               cast(null as text) as reason, cast(null as timestamptz) as seen_at,
               cast(null as text) as place, true as inferred
          from ({pieces}) u
        """
    )


def _ended(pieces: str) -> Stays:
    return Stays(f"select u.item_id from ({pieces}) u")


SORTED = Rule(["Processed for Delivery"], SINCE, _inferred)
UNSEEN = Rule(["Printed", "In Transit", "In Local Area", "Processed for Delivery"], HEARD, _inferred)
REROUTED = Rule(["Re-routed"], f"greatest({SINCE}, {HEARD})", _ended)

DUE = sa.text(
    """
    select id from batches
     where mode = :mode and settled_at is null and status = 'mailed'
       and mailed_at <= :mailed_before and id > :after
     order by id limit :most
    """
)
# A look into a batch ends with the first piece that is found on its way.
SETTLE = sa.text(
    """
    update batches b set settled_at = :now
     where b.mode = :mode and b.settled_at is null and b.status = 'mailed' and b.mailed_at <= :mailed_before
       and (b.mailed_at <= :long_ago or (
           select true from prints p join items i on i.id = p.item_id
            where p.batch_id = b.id and not p.superseded and not i.is_over
              and i.status not in ('Delivered', 'Returned to Sender', 'Failed') limit 1) is null)
    """
)
ANY_OPEN = sa.text(
    "select 1 from batches where mode = :mode and settled_at is null and status = 'mailed' limit 1"
)


def close(db: Database, worlds: Mapping[str, World], *, now: datetime) -> None:
    """End what is due in the batches that are in the mail, and settle those of which nothing is left."""
    for world in worlds.values():
        inferred = _apply(db, world, SORTED, world.infer_after, now=now)
        inferred += _apply(db, world, UNSEEN, world.infer_unseen_after, now=now)
        ended = _apply(db, world, REROUTED, world.reroute_ends, now=now)
        if inferred or ended:
            log.info("tracking.closed", mode=world.mode, inferred=inferred, ended=ended)
        with db.work() as tx:
            _settle(tx, world, now=now)
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


def _apply(db: Database, world: World, rule: Rule, wait: timedelta | None, *, now: datetime) -> int:
    """In batches that were mailed so long ago: a piece of a later one has hardly waited so long."""
    if wait is None:
        return 0
    before, after, ended = now - wait, 0, 0
    while batches := _due(db, world, before=before, after=after):
        ended += rule.run(db, batches, before=before, now=now)
        after = batches[-1]
    return ended


def _due(db: Database, world: World, *, before: datetime, after: int) -> list[int]:
    wanted = {"mode": world.mode, "mailed_before": before, "after": after, "most": AT_ONCE}
    with db.work() as tx:
        return list(tx.execute(DUE, wanted).scalars())


def _settle(tx: Tx, world: World, *, now: datetime) -> None:
    wait = min(_shortest(world), A_DAY)
    wanted = {"mode": world.mode, "mailed_before": now - wait, "long_ago": now - LONGEST, "now": now}
    tx.execute(SETTLE, wanted)
