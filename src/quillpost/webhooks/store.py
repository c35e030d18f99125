"""Subscriptions, and the outbox of deliveries."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from quillpost.database import Tx
from quillpost.database.tables import deliveries, webhooks
from quillpost.kit.errors import NotFound
from quillpost.kit.paging import Page, PageRequest
from quillpost.webhooks import telling
from quillpost.webhooks.telling import Due, Unspeakable

# One at a time: two that fan out beside each other could number a stream's deliveries out of their order.
FAN_OUT_TURN = sa.text("select pg_try_advisory_xact_lock(7125202)")

# Delivered tells two things: the status, then the delivery. The second id is derived from the first,
# so that a fan-out that runs again finds its rows there. The subscriptions are locked, so that one that is
# disabled at this moment is either seen so, or finds these deliveries among those it fails. What a paused
# one is to be told has no time yet: it waits for the one who resumes it, out of the pumps' sight.
FAN_OUT = sa.text(
    """
    with taken as (
        delete from fact_queue where fact_id in (
            select fact_id from fact_queue order by fact_id limit :most for update skip locked)
        returning fact_id),
    told as (
        select f.*, e.event_type, e.event_id as told_id
          from facts f join taken t on t.fact_id = f.id
          cross join lateral (values
              (case f.kind when 'order.status' then 'order.status_update'
                           when 'item.status' then 'order_item.status_update' end, f.event_id),
              (case when f.kind = 'item.status' and f.current = 'Delivered'
                    then 'order_item.delivered' end, md5(f.event_id::text)::uuid)
          ) as e (event_type, event_id)
         where e.event_type is not null),
    addressed as (
        insert into deliveries (account_id, sub_account_id, mode, webhook_id, fact_id, event_id,
                                event_type, stream, status, next_at, created_at)
        select t.account_id, t.sub_account_id, t.mode, w.id, t.id, t.told_id, t.event_type,
               coalesce('item:' || t.item_id, 'order:' || t.order_id), 'pending',
               case when w.status <> 'paused' then cast(:now as timestamptz) end, :now
          from told t
          join webhooks w on w.account_id = t.account_id and w.mode = t.mode
                         and w.status <> 'disabled' and w.type in ('*', t.event_type)
                         and (w.sub_account_id is null or w.sub_account_id = t.sub_account_id)
          join orders o on o.id = t.order_id
         where w.mailing_list_id is null or w.mailing_list_id = any(o.mailing_list_ids)
         order by t.id, t.event_type desc
           for share of w
        on conflict (webhook_id, fact_id, event_type) do nothing)
    select count(*) from taken
    """
)

# The lease and the back-off are one column. A later event of a stream waits for the earlier one. Whoever has
# the fewest in the air goes first, and nobody has more than the share: a silent receiver with thousands due
# takes no other's place. A row that another pump took since it was ranked is judged again when it is locked.
CLAIM = sa.text(
    """
    with ranked as materialized (
        select h.id, coalesce(f.flying, 0)
                     + row_number() over (partition by h.webhook_id order by h.next_at, h.id) as place
          from deliveries h
          join webhooks w on w.id = h.webhook_id and w.status in ('active', 'failing')
          left join unnest(cast(:hooks as bigint[]), cast(:flying as bigint[]))
                    as f (webhook_id, flying) on f.webhook_id = h.webhook_id
         where h.status = 'pending' and h.next_at <= :now
           and not exists (select 1 from deliveries e
                            where e.webhook_id = h.webhook_id and e.stream = h.stream
                              and e.status = 'pending' and e.id < h.id)),
    taken as materialized (
        select p.id
          from ranked r join deliveries p on p.id = r.id
         where r.place <= :share and p.status = 'pending' and p.next_at <= :now
         order by r.place, p.next_at, p.id limit :most
           for update of p skip locked)
    update deliveries d set attempts = attempts + 1, next_at = :lease
      from taken t where d.id = t.id
    returning d.id
    """
)

# Behind it there is no fact, so it takes a number that no fact can have. It waits for no other of its kind.
ADD_SAMPLE = sa.text(
    """
    insert into deliveries (account_id, sub_account_id, mode, webhook_id, fact_id, event_id,
                            event_type, stream, status, next_at, created_at)
    select account_id, sub_account_id, mode, id, -nextval('facts_id_seq'), :event_id,
           :event_type, :stream, 'pending', :now, :now
      from webhooks where id = :webhook_id
    """
)

SHARE = 10
"""How many deliveries to one subscription may be in the air of one pump."""


@dataclass(frozen=True, slots=True)
class Webhook:
    id: int
    account_id: int
    sub_account_id: int | None
    mailing_list_id: int | None
    mode: str
    url: str
    type: str
    verb: str
    description: str | None
    status: str
    invoke_count: int
    created_at: datetime
    updated_at: datetime


_WEBHOOK = [
    webhooks.c[name]
    for name in (
        "id", "account_id", "sub_account_id", "mailing_list_id", "mode", "url", "type", "verb",
        "description", "status", "invoke_count", "created_at", "updated_at",
    )
]  # fmt: skip


def insert_webhook(tx: Tx, values: dict[str, Any]) -> int:
    made = tx.execute(sa.insert(webhooks).values(**values).returning(webhooks.c.id))
    return int(made.scalar_one())


def set_secret(tx: Tx, webhook_id: int, sealed: bytes) -> None:
    tx.execute(sa.update(webhooks).where(webhooks.c.id == webhook_id).values(secret_sealed=sealed))


def read_webhook(tx: Tx, webhook_id: int, *, locked: bool = False) -> Webhook:
    """The subscription; `locked`, nobody else changes it before this transaction ends."""
    query = sa.select(*_WEBHOOK).where(webhooks.c.id == webhook_id)
    row = tx.execute(query.with_for_update(key_share=True) if locked else query).first()
    if row is None:
        raise NotFound
    return Webhook(*row)


def list_webhooks(tx: Tx, asked: PageRequest, *, sub_account_id: int | None) -> Page[Webhook]:
    wanted = [] if sub_account_id is None else [webhooks.c.sub_account_id == sub_account_id]
    rows = tx.execute(
        sa.select(*_WEBHOOK)
        .where(*wanted)
        .order_by(webhooks.c.id.desc())
        .limit(asked.per_page)
        .offset(asked.offset)
    )
    total = tx.execute(sa.select(sa.func.count()).select_from(webhooks).where(*wanted)).scalar_one()
    return Page([Webhook(*row) for row in rows], total, asked)


def update_webhook(tx: Tx, webhook_id: int, values: Mapping[str, Any]) -> Webhook:
    changed = sa.update(webhooks).where(webhooks.c.id == webhook_id).values(**values).returning(*_WEBHOOK)
    return Webhook(*tx.execute(changed).one())


def delete_webhook(tx: Tx, webhook_id: int) -> None:
    if tx.execute(sa.delete(webhooks).where(webhooks.c.id == webhook_id)).rowcount == 0:
        raise NotFound


def add_sample(tx: Tx, webhook_id: int, *, event_type: str, event_id: UUID, now: datetime) -> None:
    """A delivery of an event that is about nothing."""
    tx.execute(
        ADD_SAMPLE,
        {
            "webhook_id": webhook_id,
            "event_type": event_type,
            "event_id": event_id,
            "stream": f"sample:{event_id}",
            "now": now,
        },
    )


def hold_back(tx: Tx, webhook_id: int, *, now: datetime) -> None:
    """Take what is due out of the pumps' sight. What is in the air, or waits for another try, has its own
    time and keeps it."""
    tx.execute(_pending(webhook_id).where(deliveries.c.next_at <= now).values(next_at=None))


def let_go(tx: Tx, webhook_id: int, *, now: datetime) -> None:
    """What was held back is due; the pumps keep the order of each stream."""
    tx.execute(_pending(webhook_id).where(deliveries.c.next_at.is_(None)).values(next_at=now))


def forget_words(tx: Tx, webhook_id: int) -> None:
    """What waits is put in words anew: those it has are for another address or verb."""
    tx.execute(_pending(webhook_id).values(body=None))


def _pending(webhook_id: int) -> sa.Update:
    return sa.update(deliveries).where(
        deliveries.c.webhook_id == webhook_id, deliveries.c.status == "pending"
    )


def fan_out(tx: Tx, *, most: int, now: datetime) -> int:
    """Turn facts that nobody was told of into deliveries; how many facts that were."""
    if not tx.execute(FAN_OUT_TURN).scalar_one():
        return 0
    return int(tx.execute(FAN_OUT, {"most": most, "now": now}).scalar_one())


def claim(
    tx: Tx, *, most: int, flying: Mapping[int, int] | None = None, lease: datetime, now: datetime
) -> list[Due]:
    """Deliveries that are this caller's until the lease ends.

    `flying` is how many each subscription, by its id, has in the caller's air already.
    """
    air = flying or {}
    claimed = tx.execute(
        CLAIM,
        {
            "most": most,
            "share": SHARE,
            "hooks": list(air),
            "flying": list(air.values()),
            "lease": lease,
            "now": now,
        },
    )
    ids = claimed.scalars().all()
    found = telling.read(tx, ids) if ids else []
    _give_up(tx, (lost for lost in found if isinstance(lost, Unspeakable)))
    return [due for due in found if isinstance(due, Due)]


def _give_up(tx: Tx, lost: Iterable[Unspeakable]) -> None:
    for delivery in lost:
        tx.execute(
            sa.update(deliveries)
            .where(deliveries.c.id == delivery.id)
            .values(status="failed", error=delivery.error, next_at=None)
        )


def record_outcome(
    tx: Tx,
    due: Due,
    *,
    status: str,
    response_status: int | None,
    response_body: str,
    error: str | None,
    next_at: datetime | None,
    now: datetime,
) -> bool:
    """Keep what came of the attempt; whether that was news. A success counts for the subscription.

    The subscription is locked before the delivery, as whoever deletes it does: two that lock in different
    orders would wait for each other.
    """
    address = _lock(tx, due.webhook_id)
    if address is None:
        return False
    is_moved = address != (due.verb, due.url)
    kept = tx.execute(
        sa.update(deliveries)
        .where(deliveries.c.id == due.id, deliveries.c.status == "pending")
        .values(
            status=status,
            body=None if is_moved and status == "pending" else due.words,
            response_status=response_status,
            response_body=response_body,
            error=error,
            next_at=next_at,
            delivered_at=now if status == "delivered" else None,
        )
    )
    if kept.rowcount == 0:
        return False
    if status == "delivered":
        tx.execute(
            sa.update(webhooks)
            .where(webhooks.c.id == due.webhook_id)
            .values(
                invoke_count=webhooks.c.invoke_count + 1,
                status=sa.case((webhooks.c.status == "failing", "active"), else_=webhooks.c.status),
            )
        )
    return True


def mark_failing(tx: Tx, webhook_id: int, *, now: datetime) -> None:
    """An owner is shown that deliveries fail; they go on. One that rests keeps its status."""
    tx.execute(
        sa.update(webhooks)
        .where(webhooks.c.id == webhook_id, webhooks.c.status == "active")
        .values(status="failing", updated_at=now)
    )


def disable(tx: Tx, webhook_id: int, *, why: str, now: datetime) -> None:
    """Deliver nothing more to it: what waits has failed."""
    tx.execute(
        sa.update(webhooks).where(webhooks.c.id == webhook_id).values(status="disabled", updated_at=now)
    )
    tx.execute(_pending(webhook_id).values(status="failed", error=why, next_at=None))


def _lock(tx: Tx, webhook_id: int) -> tuple[str, str] | None:
    """The verb and the URL of the subscription, which then waits for this transaction; None: it is gone."""
    locked = (
        sa.select(webhooks.c.verb, webhooks.c.url)
        .where(webhooks.c.id == webhook_id)
        .with_for_update(key_share=True)
    )
    row = tx.execute(locked).first()
    return None if row is None else (row.verb, row.url)
