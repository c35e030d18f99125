"""Subscriptions, and the outbox of deliveries."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from quillpost.composition.content import Sender
from quillpost.database import Tx
from quillpost.database.tables import accounts, deliveries, facts, items, orders, webhooks
from quillpost.kit.errors import NotFound
from quillpost.kit.paging import Page, PageRequest
from quillpost.orders import look
from quillpost.orders.records import Item
from quillpost.webhooks.rules import Told

# One at a time: two that fan out beside each other could number a stream's deliveries out of their order.
FAN_OUT_TURN = sa.text("select pg_try_advisory_xact_lock(7125202)")

# Delivered tells two things: the status, then the delivery. The second id is derived from the first,
# so that a fan-out that runs again finds its rows there.
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
               coalesce('item:' || t.item_id, 'order:' || t.order_id), 'pending', :now, :now
          from told t
          join webhooks w on w.account_id = t.account_id and w.mode = t.mode
                         and w.status in ('active', 'failing') and w.type in ('*', t.event_type)
                         and (w.sub_account_id is null or w.sub_account_id = t.sub_account_id)
          join orders o on o.id = t.order_id
         where w.mailing_list_id is null or w.mailing_list_id = any(o.mailing_list_ids)
         order by t.id, t.event_type desc
        on conflict (webhook_id, fact_id, event_type) do nothing)
    select count(*) from taken
    """
)

# The lease and the back-off are one column. A later event of a stream waits for the earlier one.
CLAIM = sa.text(
    """
    update deliveries d set attempts = attempts + 1, next_at = :lease
     where d.id in (
        select p.id from deliveries p join webhooks w on w.id = p.webhook_id
         where p.status = 'pending' and p.next_at <= :now and w.status in ('active', 'failing')
           and not exists (select 1 from deliveries e
                            where e.webhook_id = p.webhook_id and e.stream = p.stream
                              and e.status = 'pending' and e.id < p.id)
         order by p.next_at, p.id limit :most
           for update of p skip locked)
    returning d.id
    """
)


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


@dataclass(frozen=True, slots=True)
class Due:
    """A delivery whose time has come."""

    id: int
    webhook_id: int
    url: str
    verb: str
    secret_sealed: bytes
    attempts: int
    sent: str | None
    told: Told


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


def read_webhook(tx: Tx, webhook_id: int) -> Webhook:
    row = tx.execute(sa.select(*_WEBHOOK).where(webhooks.c.id == webhook_id)).first()
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


def delete_webhook(tx: Tx, webhook_id: int) -> None:
    if tx.execute(sa.delete(webhooks).where(webhooks.c.id == webhook_id)).rowcount == 0:
        raise NotFound


def fan_out(tx: Tx, *, most: int, now: datetime) -> int:
    """Turn facts that nobody was told of into deliveries; how many facts that were."""
    if not tx.execute(FAN_OUT_TURN).scalar_one():
        return 0
    return int(tx.execute(FAN_OUT, {"most": most, "now": now}).scalar_one())


def claim(tx: Tx, *, most: int, lease: datetime, now: datetime) -> list[Due]:
    """Deliveries that are this caller's until the lease ends."""
    claimed = tx.execute(CLAIM, {"most": most, "lease": lease, "now": now}).scalars().all()
    return _due(tx, claimed) if claimed else []


def _due(tx: Tx, delivery_ids: Sequence[int]) -> list[Due]:
    item_columns = [column.label(f"item_{column.name}") for column in items.c]
    rows = tx.execute(
        sa.select(
            deliveries.c.id, deliveries.c.webhook_id, deliveries.c.event_type,
            deliveries.c.event_id, deliveries.c.attempts, deliveries.c.body,
            webhooks.c.url, webhooks.c.verb, webhooks.c.secret_sealed,
            facts.c.at, facts.c.order_id, facts.c.sub_account_id, facts.c.order_status,
            facts.c.previous, facts.c.current, facts.c.item_id.label("fact_item_id"),
            orders.c.metadata, orders.c.qrcode_url,
            accounts.c.name.label("sender_name"), accounts.c.company.label("sender_company"),
            *item_columns,
        )
        .join(webhooks, webhooks.c.id == deliveries.c.webhook_id)
        .join(facts, facts.c.id == deliveries.c.fact_id)
        .join(orders, orders.c.id == facts.c.order_id)
        .join(accounts, accounts.c.id == deliveries.c.account_id)
        .outerjoin(items, items.c.id == facts.c.item_id)
        .where(deliveries.c.id.in_(delivery_ids))
        .order_by(deliveries.c.id)
    )  # fmt: skip
    return [
        Due(
            id=row.id,
            webhook_id=row.webhook_id,
            url=row.url,
            verb=row.verb,
            secret_sealed=bytes(row.secret_sealed),
            attempts=row.attempts,
            sent=row.body,
            told=Told(
                event_type=row.event_type,
                event_id=str(row.event_id),
                at=row.at,
                order_id=row.order_id,
                sub_account_id=row.sub_account_id,
                order_status=row.order_status,
                previous=row.previous,
                current=row.current,
                metadata=row.metadata,
                item=_item(row) if row.fact_item_id is not None else None,
                qrcode_url=_destination(row),
            ),
        )
        for row in rows
    ]


def _item(row: Any) -> dict[str, Any]:
    return {column.name: row._mapping[f"item_{column.name}"] for column in items.c}


def _destination(row: Any) -> str | None:
    """Where the piece's QR code leads, with its recipient's words filled in."""
    if row.qrcode_url is None or row.fact_item_id is None:
        return None
    item = Item.of_columns(_item(row))
    sender = Sender(row.sender_name, row.sender_company)
    return look.qr_destination(row.qrcode_url, look.addressee(item), sender)


def record_outcome(
    tx: Tx,
    due: Due,
    *,
    status: str,
    body: str,
    response_status: int | None,
    response_body: str,
    error: str | None,
    next_at: datetime | None,
    now: datetime,
) -> None:
    """What came of the attempt; a success counts for the subscription."""
    tx.execute(
        sa.update(deliveries)
        .where(deliveries.c.id == due.id, deliveries.c.status == "pending")
        .values(
            status=status,
            body=body,
            response_status=response_status,
            response_body=response_body,
            error=error,
            next_at=next_at,
            delivered_at=now if status == "delivered" else None,
        )
    )
    if status == "delivered":
        tx.execute(
            sa.update(webhooks)
            .where(webhooks.c.id == due.webhook_id)
            .values(
                invoke_count=webhooks.c.invoke_count + 1,
                status=sa.case((webhooks.c.status == "failing", "active"), else_=webhooks.c.status),
            )
        )


def set_status(tx: Tx, webhook_id: int, status: str, *, now: datetime) -> None:
    tx.execute(sa.update(webhooks).where(webhooks.c.id == webhook_id).values(status=status, updated_at=now))
