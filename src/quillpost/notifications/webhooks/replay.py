"""A time told again: everything that happened then goes once more, in its order, under its own event ids.

It is a job of many short steps. Each puts the events of some facts in the outbox and keeps how far it has
come in the same transaction: whoever dies in between leaves nothing out and nothing twice.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from quillpost.core import jobs
from quillpost.core.clock import iso
from quillpost.core.database import Database, Tx
from quillpost.core.database.tables.notifications import webhook_replays
from quillpost.core.errors import Conflict, NotFound
from quillpost.notifications.webhooks import fan_out, leases, queries, service

REPLAY = "webhooks.replay"
KEPT = timedelta(days=30)
"""How far back a replay may reach."""
FACTS_AT_ONCE = 10_000
MOST_COUNTED = 5_000
REPLAYS_AT_ONCE = 1_000

_TO = f"""
          join webhooks w on w.id = :webhook_id and {fan_out.OWN}
         cross join lateral ({fan_out.EVENTS}) e
         where {fan_out.WANTED}
"""

COUNT = sa.text(
    f"""
    with asked as materialized (
        select * from facts
         where account_id = :account_id and at >= :since and at < :until order by at, id limit :most + 1),
    counted as (select * from asked order by at, id limit :most)
    select (select count(*) from asked) as facts, (select count(*) from counted f {_TO}) as events
    """
)

TELL_AGAIN = sa.text(
    f"""
    with chunk as materialized (
        select * from facts
         where account_id = :account_id and (at, id) > (:reached_at, :reached_id) and at < :until
         order by at, id limit :most),
    told as (
        insert into deliveries (account_id, sub_account_id, mode, webhook_id, fact_id, event_id,
                                event_type, stream, status, next_at, created_at)
        select f.account_id, f.sub_account_id, f.mode, w.id, f.id, e.event_id,
               e.event_type, {fan_out.STREAM}, 'pending', :now, :now
          from chunk f {_TO}
         order by f.at, f.id, e.event_type desc
        returning id)
    select at, id, (select count(*) from chunk) as facts, (select count(*) from told) as told
      from chunk order by at desc, id desc limit 1
    """
)


@dataclass(frozen=True, slots=True)
class Replay:
    """`events` is how many go again, of the first `MOST_COUNTED` that happened; if more did, it is
    `truncated`."""

    since: datetime
    until: datetime
    events: int
    truncated: bool


def replay(tx: Tx, webhook_id: int, *, since: datetime, until: datetime) -> Replay:
    """Begin to tell the subscription of all that happened from `since` until before `until`."""
    webhook = queries.read_webhook(tx, webhook_id)
    asked = {"webhook_id": webhook_id, "account_id": webhook.account_id, "since": since, "until": until}
    counted = tx.execute(COUNT, asked | {"most": MOST_COUNTED}).one()  # before anyone waits for us
    service.require_awake(queries.read_webhook(tx, webhook_id, locked=True))
    _require_none(tx, webhook_id)
    truncated = counted.facts > MOST_COUNTED
    if counted.events or truncated:
        whose = {"sub_account_id": webhook.sub_account_id, "mode": webhook.mode}
        begun = {"reached_at": since, "reached_id": 0, "told": 0}
        tx.execute(sa.insert(webhook_replays).values(**asked, **whose, **begun))
        jobs.defer(tx, REPLAY, webhook_id=webhook_id)
    return Replay(since, until, counted.events, truncated)


def go_on(db: Database, webhook_id: int, *, now: datetime) -> None:
    """One step of the subscription's replay, and the next one booked where there is more to tell."""
    with db.work() as tx:
        under_way = _take(tx, webhook_id)
        if under_way is None:
            return
        asked = {
            name: under_way._mapping[name] for name in ("account_id", "reached_at", "reached_id", "until")
        }
        step = tx.execute(
            TELL_AGAIN, asked | {"webhook_id": webhook_id, "most": FACTS_AT_ONCE, "now": now}
        ).first()
        this = webhook_replays.c.id == under_way.id
        if step is None or step.facts < FACTS_AT_ONCE:
            tx.execute(sa.delete(webhook_replays).where(this))
        else:
            come_to = {"reached_at": step.at, "reached_id": step.id, "told": under_way.told + step.told}
            tx.execute(sa.update(webhook_replays).where(this).values(**come_to))
            jobs.defer(tx, REPLAY, webhook_id=webhook_id)
        if step is not None and step.told:
            leases.wake(tx, webhook_id, at=now)


def go_on_again(db: Database) -> None:
    """Book the job for every replay that is not at its end and that no job is booked for."""
    with db.work() as tx:
        under_way = sa.select(webhook_replays.c.webhook_id).order_by(webhook_replays.c.id)
        for webhook_id in tx.execute(under_way.limit(REPLAYS_AT_ONCE)).scalars():
            # A job that was given up waits for a person: `quillpost doctor` shows it.
            if not jobs.is_known(tx, REPLAY, webhook_id=webhook_id):
                jobs.defer(tx, REPLAY, webhook_id=webhook_id)


def _require_none(tx: Tx, webhook_id: int) -> None:
    found = tx.execute(sa.select(webhook_replays).where(webhook_replays.c.webhook_id == webhook_id)).first()
    if found is not None:
        raise Conflict(
            f"A replay from {iso(found.since)} to {iso(found.until)} is under way, with {found.told:,} events"
            " so far: wait until it is done."
        )


def _take(tx: Tx, webhook_id: int) -> sa.Row[Any] | None:
    """The replay, for this transaction alone; one of a subscription that was disabled is given up."""
    try:
        webhook = queries.read_webhook(tx, webhook_id, locked=True)
    except NotFound:
        return None
    this = webhook_replays.c.webhook_id == webhook_id
    if webhook.status == "disabled":
        tx.execute(sa.delete(webhook_replays).where(this))
        return None
    return tx.execute(sa.select(webhook_replays).where(this).with_for_update()).first()
