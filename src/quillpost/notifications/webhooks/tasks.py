"""Turns events into deliveries: new ones, and those of a replayed period."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from quillpost.core import jobs
from quillpost.core.database import Database, Tx
from quillpost.core.database.tables.notifications import webhook_replays
from quillpost.core.errors import Conflict, NotFound
from quillpost.core.text import format_iso
from quillpost.notifications.webhooks import queries, service
from quillpost.notifications.webhooks.queries import force_index_plans

OWNER_CONDITION = """
              w.account_id = f.account_id and w.mode = f.mode
          and (w.sub_account_id is null or w.sub_account_id = f.sub_account_id)
"""

# A delivered item has two events: the status, then the delivery, whose id is derived from the first.
EVENTS_OF_FACT = """
             select case f.kind when 'order.status' then 'order.status_update'
                                when 'item.status' then 'order_item.status_update'
                                when 'item.scan' then 'scans.scan_update' end as event_type, f.event_id
             union all
             select 'order_item.delivered', md5(f.event_id::text)::uuid
              where f.kind = 'item.status' and f.current = 'Delivered'
"""

# A list's subscription gets events of orders to that list, and of items from it or a list merged into it.
SUBSCRIPTION_CONDITION = """
               (w.type = e.event_type or w.type = '*' and e.event_type is not null)
           and (w.mailing_list_id is null or w.mailing_list_id = any(case
                when f.item_id is null then (select o.mailing_list_ids from orders o where o.id = f.order_id)
                else array[(select list_now(i.mailing_list_id) from items i where i.id = f.item_id)] end))
"""

STREAM_KEY = "coalesce('item:' || f.item_id, 'order:' || f.order_id)"  # events of one stream keep their order

# One at a time: two concurrent fan-outs could number the facts of an item in the wrong order.
TRY_LOCK = sa.text(
    "select case when exists (select from fact_queue) then pg_try_advisory_xact_lock(7125202) else false end"
)

# A fact leaves the queue in the transaction that writes its deliveries. Subscriptions are not locked, as outcomes are
# written to them all the time: one that is disabled at this moment may get a delivery, which its next lease holder
# fails. Deliveries of a paused one wait until it is resumed. Queues are locked last, in the order of their ids, and
# briefly.
INSERT_DELIVERIES = sa.text(f"""
    with taken as materialized (
        delete from fact_queue
         where fact_id = any(array(select fact_id from fact_queue order by fact_id limit :most))
        returning fact_id),
    addressed as (
        insert into deliveries (account_id, sub_account_id, mode, webhook_id, fact_id, event_id,
                                event_type, stream, status, next_at, created_at)
        select f.account_id, f.sub_account_id, f.mode, w.id, f.id, e.event_id, e.event_type,
               {STREAM_KEY}, 'pending', :now, :now
          from facts f
          join webhooks w on {OWNER_CONDITION} and w.status <> 'disabled'
         cross join lateral ({EVENTS_OF_FACT}) e
         where f.id = any(array(select fact_id from taken)) and {SUBSCRIPTION_CONDITION}
         order by f.id, e.event_type desc
        returning webhook_id),
    touched as materialized (
        select l.webhook_id from webhook_lanes l
         where l.webhook_id in (select webhook_id from addressed)
         order by l.webhook_id for update),
    woken as (
        update webhook_lanes l set due_at = least(l.due_at, :now), woken = l.woken + 1
          from touched t where l.webhook_id = t.webhook_id)
    select count(*) from taken
""")


def fan_out_facts(tx: Tx, *, limit: int, now: datetime) -> int:
    """Turn new facts into deliveries; how many facts."""
    if not tx.execute(TRY_LOCK).scalar_one():
        return 0
    force_index_plans(tx)
    return int(tx.execute(INSERT_DELIVERIES, {"most": limit, "now": now}).scalar_one())


REPLAY_TASK = "webhooks.replay"
MAX_REPLAY_AGE = timedelta(days=30)
FACTS_PER_TRANSACTION = 10_000
MAX_COUNTED = 5_000
MAX_RESUMED = 1_000

_TO_WEBHOOK = f"""
          join webhooks w on w.id = :webhook_id and {OWNER_CONDITION}
         cross join lateral ({EVENTS_OF_FACT}) e
         where {SUBSCRIPTION_CONDITION}
"""

COUNT_EVENTS = sa.text(f"""
    with candidates as materialized (
        select * from facts
         where account_id = :account_id and at >= :since and at < :until order by at, id limit :most + 1),
    counted as (select * from candidates order by at, id limit :most)
    select (select count(*) from candidates) as facts, (select count(*) from counted f {_TO_WEBHOOK}) as events
""")

INSERT_REPLAYED = sa.text(f"""
    with chunk as materialized (
        select * from facts
         where account_id = :account_id and (at, id) > (:reached_at, :reached_id) and at < :until
         order by at, id limit :most),
    inserted as (
        insert into deliveries (account_id, sub_account_id, mode, webhook_id, fact_id, event_id,
                                event_type, stream, status, next_at, created_at)
        select f.account_id, f.sub_account_id, f.mode, w.id, f.id, e.event_id,
               e.event_type, {STREAM_KEY}, 'pending', :now, :now
          from chunk f {_TO_WEBHOOK}
         order by f.at, f.id, e.event_type desc
        returning id)
    select at, id, (select count(*) from chunk) as facts, (select count(*) from inserted) as deliveries
      from chunk order by at desc, id desc limit 1
""")


@dataclass(frozen=True, slots=True)
class WebhookReplay:
    """`events` counts those of the first `MAX_COUNTED` facts; if there are more, it is `truncated`."""

    since: datetime
    until: datetime
    events: int
    truncated: bool


def start_replay(tx: Tx, webhook_id: int, *, since: datetime, until: datetime) -> WebhookReplay:
    """Send the events from `since` to before `until` again, under their own ids, by a job of many short steps."""
    webhook = queries.read_webhook(tx, webhook_id)
    params = {"webhook_id": webhook_id, "account_id": webhook.account_id, "since": since, "until": until}
    counts = tx.execute(COUNT_EVENTS, params | {"most": MAX_COUNTED}).one()  # before anyone waits for us
    service.require_active(queries.read_webhook(tx, webhook_id, locked=True))
    _require_no_replay(tx, webhook_id)
    truncated = counts.facts > MAX_COUNTED
    if counts.events or truncated:
        owner = {"sub_account_id": webhook.sub_account_id, "mode": webhook.mode}
        progress = {"reached_at": since, "reached_id": 0, "told": 0}
        tx.execute(sa.insert(webhook_replays).values(**params, **owner, **progress))
        jobs.enqueue(tx, REPLAY_TASK, webhook_id=webhook_id)
    return WebhookReplay(since, until, counts.events, truncated)


def continue_replay(db: Database, webhook_id: int, *, now: datetime) -> None:
    """One step, and the next one enqueued where there is more. The progress is stored in the same transaction."""
    with db.system_transaction() as tx:
        active_replay = _lock_replay(tx, webhook_id)
        if active_replay is None:
            return
        params = {name: active_replay._mapping[name] for name in ("account_id", "reached_at", "reached_id", "until")}
        step = tx.execute(
            INSERT_REPLAYED, params | {"webhook_id": webhook_id, "most": FACTS_PER_TRANSACTION, "now": now}
        ).first()
        is_this_replay = webhook_replays.c.id == active_replay.id
        if step is None or step.facts < FACTS_PER_TRANSACTION:
            tx.execute(sa.delete(webhook_replays).where(is_this_replay))
        else:
            progress = {"reached_at": step.at, "reached_id": step.id, "told": active_replay.told + step.deliveries}
            tx.execute(sa.update(webhook_replays).where(is_this_replay).values(**progress))
            jobs.enqueue(tx, REPLAY_TASK, webhook_id=webhook_id)
        if step is not None and step.deliveries:
            queries.schedule_queue(tx, webhook_id, at=now)


def resume_replays(db: Database) -> None:
    """Enqueue every unfinished replay without a job."""
    with db.system_transaction() as tx:
        replays_query = sa.select(webhook_replays.c.webhook_id).order_by(webhook_replays.c.id)
        for webhook_id in tx.execute(replays_query.limit(MAX_RESUMED)).scalars():
            # A job that was given up waits for an operator: `quillpost doctor` shows it.
            if not jobs.is_unfinished(tx, REPLAY_TASK, webhook_id=webhook_id):
                jobs.enqueue(tx, REPLAY_TASK, webhook_id=webhook_id)


def _require_no_replay(tx: Tx, webhook_id: int) -> None:
    active_replay = tx.execute(sa.select(webhook_replays).where(webhook_replays.c.webhook_id == webhook_id)).first()
    if active_replay is not None:
        raise Conflict(
            f"A replay from {format_iso(active_replay.since)} to {format_iso(active_replay.until)} is under way, "
            f"with {active_replay.told:,} events"
            " so far: wait until it is done."
        )


def _lock_replay(tx: Tx, webhook_id: int) -> sa.Row[Any] | None:
    """The locked replay; None where it is done, or its subscription is disabled."""
    try:
        webhook = queries.read_webhook(tx, webhook_id, locked=True)
    except NotFound:
        return None
    is_this_replay = webhook_replays.c.webhook_id == webhook_id
    if webhook.status == "disabled":
        tx.execute(sa.delete(webhook_replays).where(is_this_replay))
        return None
    return tx.execute(sa.select(webhook_replays).where(is_this_replay).with_for_update()).first()
