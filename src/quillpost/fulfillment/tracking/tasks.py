"""Closes items that are not seen any more: infers deliveries, ends re-routed items, settles batches."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta

import sqlalchemy as sa
import structlog

from quillpost.core import jobs
from quillpost.core.database import Database, Tx
from quillpost.fulfillment.models import Environment
from quillpost.orders.items.service import EndReroutedStatement, MoveItemsStatement

log = structlog.get_logger(__name__)
CLOSE_TASK = "tracking.close_items"
AN_HOUR, A_DAY = timedelta(hours=1), timedelta(days=1)
BATCHES_AT_ONCE = 50
MAX_TRACKED_TIME = timedelta(days=180)  # after mailing; later a batch is settled in any case

# When the carrier last reported the current status, and when it last reported anything.
STATUS_SINCE_SQL = """(select max(coalesce(f.seen_at, f.at)) from facts f
             where f.item_id = i.id and f.kind = 'item.status' and f.current = i.status)"""
LAST_HEARD_SQL = "greatest(b.mailed_at, (select max(s.scanned_at) from carrier_scans s where s.item_id = i.id))"


class ClosingRule:
    """Ends items whose `latest_sql` lies before `:before`. They are searched in batches without a lock, then checked
    again under lock; mostly there are none."""

    def __init__(
        self,
        statuses: Iterable[str],
        latest_sql: str,
        build_statement: Callable[[str], MoveItemsStatement | EndReroutedStatement],
    ) -> None:
        items_sql = f"""
            select i.id as item_id, i.status, {STATUS_SINCE_SQL} as since
              from batches b
              join prints p on p.batch_id = b.id and not p.superseded
              join items i on i.id = p.item_id
             where {{which}} and not i.is_over
               and i.status in ({", ".join(f"'{status}'" for status in statuses)}) and {latest_sql} <= :before
        """
        self._find_statement = sa.text(f"select u.item_id from ({items_sql.format(which='b.id = any(:batches)')}) u")
        self._end_statement = build_statement(items_sql.format(which="i.id = any(:items)"))

    def run(self, db: Database, batch_ids: Sequence[int], *, before: datetime, now: datetime) -> int:
        """How many items ended. A transaction of its own, so that locked orders are not held for others."""
        with db.system_transaction() as tx:
            item_ids = tx.execute(self._find_statement, {"batches": list(batch_ids), "before": before}).scalars().all()
        if not item_ids:
            return 0
        with db.system_transaction() as tx:
            return self._end_statement.run(tx, {"items": list(item_ids), "before": before}, now=now)


def _infer_deliveries(items_sql: str) -> MoveItemsStatement:
    return MoveItemsStatement(f"""
        select u.item_id, 'Delivered' as target,
               cast(case u.status when 'Processed for Delivery' then u.since else :now end
                    at time zone 'UTC' as date) as day,
               cast(null as text) as reason, cast(null as timestamptz) as seen_at,
               cast(null as text) as place, true as inferred
          from ({items_sql}) u
    """)


INFER_SORTED = ClosingRule(["Processed for Delivery"], STATUS_SINCE_SQL, _infer_deliveries)
INFER_UNSEEN = ClosingRule(
    ["Printed", "In Transit", "In Local Area", "Processed for Delivery"], LAST_HEARD_SQL, _infer_deliveries
)
END_REROUTED = ClosingRule(
    ["Re-routed"],
    f"greatest({STATUS_SINCE_SQL}, {LAST_HEARD_SQL})",
    lambda items_sql: EndReroutedStatement(f"select u.item_id from ({items_sql}) u"),
)

FIND_DUE_BATCHES = sa.text("""
    select id from batches
     where mode = :mode and settled_at is null and status = 'mailed'
       and mailed_at <= :mailed_before and id > :after
     order by id limit :most
""")
# Stops at a batch's first item that is still in the mail.
SETTLE_BATCHES = sa.text("""
    update batches b set settled_at = :now
     where b.mode = :mode and b.settled_at is null and b.status = 'mailed' and b.mailed_at <= :mailed_before
       and (b.mailed_at <= :long_ago or (
           select true from prints p join items i on i.id = p.item_id
            where p.batch_id = b.id and not p.superseded and not i.is_over
              and i.status not in ('Delivered', 'Returned to Sender', 'Failed') limit 1) is null)
""")
HAS_OPEN_BATCHES = sa.text(
    "select 1 from batches where mode = :mode and settled_at is null and status = 'mailed' limit 1"
)


def close_items(db: Database, environments: Mapping[str, Environment], *, now: datetime) -> None:
    """Close what is due in mailed batches, and settle those without open items."""
    for environment in environments.values():
        inferred = _apply_rule(db, environment, INFER_SORTED, environment.infer_delivery_after, now=now)
        inferred += _apply_rule(db, environment, INFER_UNSEEN, environment.infer_unseen_delivery_after, now=now)
        ended = _apply_rule(db, environment, END_REROUTED, environment.reroute_timeout, now=now)
        if inferred or ended:
            log.info("tracking.items_closed", mode=environment.mode, inferred=inferred, ended=ended)
        with db.system_transaction() as tx:
            mailed_before = now - min(_shortest_wait(environment), A_DAY)
            params = {"mode": environment.mode, "mailed_before": mailed_before, "long_ago": now - MAX_TRACKED_TIME}
            tx.execute(SETTLE_BATCHES, params | {"now": now})
        with db.system_transaction() as tx:
            schedule_close(tx, environment, now=now)


def schedule_close(tx: Tx, environment: Environment, *, now: datetime) -> None:
    """Enqueue the next run where an hour is too long: an environment's clock may be fast."""
    wait = _shortest_wait(environment)
    if wait < AN_HOUR and tx.execute(HAS_OPEN_BATCHES, {"mode": environment.mode}).first() is not None:
        jobs.enqueue_unique(tx, CLOSE_TASK, at=now + wait / 4)


def _shortest_wait(environment: Environment) -> timedelta:
    waits = (environment.infer_delivery_after, environment.infer_unseen_delivery_after, environment.reroute_timeout)
    return min(wait for wait in waits if wait is not None)


def _apply_rule(
    db: Database, environment: Environment, rule: ClosingRule, wait: timedelta | None, *, now: datetime
) -> int:
    """Only batches that were mailed before: items of later ones have not waited long enough."""
    if wait is None:
        return 0
    before, after, ended = now - wait, 0, 0
    while batch_ids := _find_due_batches(db, environment, before=before, after=after):
        ended += rule.run(db, batch_ids, before=before, now=now)
        after = batch_ids[-1]
    return ended


def _find_due_batches(db: Database, environment: Environment, *, before: datetime, after: int) -> list[int]:
    params = {"mode": environment.mode, "mailed_before": before, "after": after, "most": BATCHES_AT_ONCE}
    with db.system_transaction() as tx:
        return list(tx.execute(FIND_DUE_BATCHES, params).scalars())
