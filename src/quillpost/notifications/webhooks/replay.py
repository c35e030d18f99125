"""A time told again: everything that happened then goes once more, in its order, under its own event ids.

It is a job of many short steps. Each puts the events of some facts in the outbox and keeps how far it has
come in the same transaction: whoever dies in between leaves nothing out and nothing twice.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from quillpost.core import jobs
from quillpost.core.clock import format_iso
from quillpost.core.database import Database, Tx
from quillpost.core.database.tables.notifications import webhook_replays
from quillpost.core.errors import Conflict, NotFound
from quillpost.notifications.webhooks import fan_out, leases, queries, service

REPLAY_TASK = "webhooks.replay"
MAX_REPLAY_AGE = timedelta(days=30)
"""How far back a replay may reach."""
FACTS_PER_TRANSACTION = 10_000
MAX_COUNTED = 5_000
MAX_RESUMED = 1_000

_TO_WEBHOOK = f"""
          join webhooks w on w.id = :webhook_id and {fan_out.OWNER_CONDITION}
         cross join lateral ({fan_out.EVENTS_OF_FACT}) e
         where {fan_out.SUBSCRIPTION_CONDITION}
"""

COUNT_EVENTS = sa.text(
    f"""
    with asked as materialized (
        select * from facts
         where account_id = :account_id and at >= :since and at < :until order by at, id limit :most + 1),
    counted as (select * from asked order by at, id limit :most)
    select (select count(*) from asked) as facts, (select count(*) from counted f {_TO_WEBHOOK}) as events
    """
)

INSERT_REPLAYED = sa.text(
    f"""
    with chunk as materialized (
        select * from facts
         where account_id = :account_id and (at, id) > (:reached_at, :reached_id) and at < :until
         order by at, id limit :most),
    told as (
        insert into deliveries (account_id, sub_account_id, mode, webhook_id, fact_id, event_id,
                                event_type, stream, status, next_at, created_at)
        select f.account_id, f.sub_account_id, f.mode, w.id, f.id, e.event_id,
               e.event_type, {fan_out.STREAM_KEY}, 'pending', :now, :now
          from chunk f {_TO_WEBHOOK}
         order by f.at, f.id, e.event_type desc
        returning id)
    select at, id, (select count(*) from chunk) as facts, (select count(*) from told) as told
      from chunk order by at desc, id desc limit 1
    """
)


@dataclass(frozen=True, slots=True)
class WebhookReplay:
    """`events` is how many go again, of the first `MAX_COUNTED` that happened; if more did, it is
    `truncated`."""

    since: datetime
    until: datetime
    events: int
    truncated: bool


def start_replay(tx: Tx, webhook_id: int, *, since: datetime, until: datetime) -> WebhookReplay:
    """Begin to tell the subscription of all that happened from `since` until before `until`."""
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
    """One step of the subscription's replay, and the next one booked where there is more to tell."""
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
            progress = {"reached_at": step.at, "reached_id": step.id, "told": active_replay.told + step.told}
            tx.execute(sa.update(webhook_replays).where(is_this_replay).values(**progress))
            jobs.enqueue(tx, REPLAY_TASK, webhook_id=webhook_id)
        if step is not None and step.told:
            leases.schedule_queue(tx, webhook_id, at=now)


def resume_replays(db: Database) -> None:
    """Book the job for every replay that is not at its end and that no job is booked for."""
    with db.system_transaction() as tx:
        replays_query = sa.select(webhook_replays.c.webhook_id).order_by(webhook_replays.c.id)
        for webhook_id in tx.execute(replays_query.limit(MAX_RESUMED)).scalars():
            # A job that was given up waits for a person: `quillpost doctor` shows it.
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
    """The replay, for this transaction alone; one of a subscription that was disabled is given up."""
    try:
        webhook = queries.read_webhook(tx, webhook_id, locked=True)
    except NotFound:
        return None
    is_this_replay = webhook_replays.c.webhook_id == webhook_id
    if webhook.status == "disabled":
        tx.execute(sa.delete(webhook_replays).where(is_this_replay))
        return None
    return tx.execute(sa.select(webhook_replays).where(is_this_replay).with_for_update()).first()
