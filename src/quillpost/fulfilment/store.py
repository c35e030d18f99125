"""Queries over due orders and production batches, in the worker's transactions."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from quillpost.database import Tx
from quillpost.database.tables import batches, files, items, orders
from quillpost.fulfilment.rules import BATCH_SIZE, SERVICE_TYPES
from quillpost.orders.look import DesignKey
from quillpost.orders.records import Item, Order

# An order whose lists are yet to become items waits for them.
CLAIM_DUE = sa.text(
    """
    select id, mode from orders
     where status = 'reviewing' and due_at <= :now and not audience_pending
     order by due_at, id limit :most
       for update skip locked
    """
)

# The rows are numbered once and the batches made from those numbers, so every piece finds its batch.
# Batches of one kind come out of the insert in the order of their chunks.
# A mailer id of nine digits leaves six for the serial: the number wraps there, it is not cut.
POOL = sa.text(
    f"""
    with sorted as (
        select i.id, i.country, o.mode, o.piece, o.mail_class,
               row_number() over (partition by o.mode, o.piece, o.mail_class
                                  order by i.country, i.postal_code, i.id) - 1 as place
          from items i join orders o on o.id = i.order_id
         where i.order_id = any(:orders) and i.status = 'Processing' and i.batch_id is null),
    ready as materialized (
        select s.*, s.place / size as chunk, s.place % size as position
          from sorted s, cast(:size as bigint) as size),
    made as (
        insert into batches (mode, piece, mail_class, status, item_count, created_at)
        select mode, piece, mail_class, 'new', count(*), :now
          from ready group by mode, piece, mail_class, chunk
         order by mode, piece, mail_class, chunk
        returning id, mode, piece, mail_class),
    numbered as (
        select *, row_number() over (partition by mode, piece, mail_class order by id) - 1 as chunk
          from made),
    assigned as (
        update items i
           set batch_id = n.id, batch_position = r.position, updated_at = :now,
               tracking = case when r.country = 'US' then
                   '00' || case r.mail_class when 'standard' then '{SERVICE_TYPES["standard"]}'
                                             else '{SERVICE_TYPES["first"]}' end
                   || cast(:mailer_id as text)
                   || lpad((nextval('mail_serials') % cast(10 ^ (15 - length(:mailer_id)) as bigint))::text,
                           15 - length(:mailer_id), '0') end
          from ready r join numbered n using (mode, piece, mail_class, chunk)
         where i.id = r.id)
    select id from numbered order by id
    """
)

# Who is suppressed, as the functions of the schema say it for one account; here for pieces of many.
SUPPRESSED_ITEMS = sa.text(
    """
    with due as (
        select id, account_id, sub_account_id, address_key, lower(email) as email
          from items i
         where order_id = any(:orders) and status = 'Processing'
           and exists (select 1 from mailing_lists l
                        where l.account_id = i.account_id and l.is_suppression_list)),
    barred as (
        select r.account_id, l.sub_account_id, r.address_key, lower(r.email) as email
          from mailing_lists l join recipients r on r.mailing_list_id = l.id
         where l.is_suppression_list and l.account_id in (select account_id from due))
    select d.id from due d join barred b on b.account_id = d.account_id and b.address_key = d.address_key
     where d.sub_account_id is null or b.sub_account_id is null or b.sub_account_id = d.sub_account_id
    union
    select d.id from due d join barred b on b.account_id = d.account_id and b.email = d.email
     where bars_email(b.address_key)
       and (d.sub_account_id is null or b.sub_account_id is null or b.sub_account_id = d.sub_account_id)
    """
)

# In the order of their ids: of two that mail to the same lists neither waits for the other in a circle.
COUNT_SENDS = sa.text(
    """
    with sent as (
        select mailing_list_id, count(*) as pieces from items
         where batch_id = :batch and mailing_list_id is not null and status = 'Processing'
         group by mailing_list_id),
    turn as materialized (
        select id from mailing_lists where id in (select mailing_list_id from sent)
         order by id for no key update)
    update mailing_lists l set total_sends = l.total_sends + sent.pieces, last_send = :now
      from turn join sent on sent.mailing_list_id = turn.id
     where l.id = turn.id
    """
)


@dataclass(frozen=True, slots=True)
class Batch:
    id: int
    mode: str
    piece: str
    mail_class: str
    status: str
    item_count: int
    created_at: datetime
    print_sha256: bytes | None


def claim_due(tx: Tx, *, now: datetime, most: int) -> dict[str, list[int]]:
    """Orders whose review has ended, by mode, locked for this transaction; others may take the rest."""
    claimed: dict[str, list[int]] = {}
    for row in tx.execute(CLAIM_DUE, {"now": now, "most": most}):
        claimed.setdefault(row.mode, []).append(row.id)
    return claimed


def next_due(tx: Tx, *, until: datetime) -> datetime | None:
    """When the next review ends, if it does until then."""
    ends: datetime | None = tx.execute(
        sa.select(sa.func.min(orders.c.due_at)).where(
            orders.c.status == "reviewing", orders.c.due_at <= until, ~orders.c.audience_pending
        )
    ).scalar()
    return ends


def pool(
    tx: Tx, order_ids: Sequence[int], *, mailer_id: str, size: int = BATCH_SIZE, now: datetime
) -> list[int]:
    """Put the orders' pieces into new batches of at most `size`, sorted by destination; the batches' ids."""
    rows = tx.execute(POOL, {"orders": list(order_ids), "mailer_id": mailer_id, "size": size, "now": now})
    return list(rows.scalars())


def read_batch(tx: Tx, batch_id: int) -> Batch:
    row = tx.execute(sa.select(batches).where(batches.c.id == batch_id)).one()
    return _batch(row)


def swap_batch(tx: Tx, batch_id: int, *, expected: str, to: str, now: datetime, **values: object) -> bool:
    """Whether this call moved the batch on."""
    moved = tx.execute(
        sa.update(batches)
        .where(batches.c.id == batch_id, batches.c.status == expected)
        .values(status=to, **{f"{to}_at": now}, **values)
    )
    return moved.rowcount == 1


def unfinished_batches(tx: Tx) -> list[Batch]:
    rows = tx.execute(sa.select(batches).where(batches.c.status != "mailed").order_by(batches.c.id))
    return [_batch(row) for row in rows]


def _batch(row: sa.Row[Any]) -> Batch:
    digest = None if row.print_sha256 is None else bytes(row.print_sha256)
    return Batch(
        row.id, row.mode, row.piece, row.mail_class, row.status, row.item_count, row.created_at, digest
    )


def batch_items(tx: Tx, batch_id: int) -> list[Item]:
    rows = tx.execute(sa.select(items).where(items.c.batch_id == batch_id).order_by(items.c.batch_position))
    return [Item.of(row) for row in rows]


def batch_orders(tx: Tx, batch_id: int) -> list[Order]:
    inside = sa.select(items.c.order_id).where(items.c.batch_id == batch_id).distinct()
    rows = tx.execute(sa.select(orders).where(orders.c.id.in_(inside)).order_by(orders.c.id))
    return [Order.of(row) for row in rows]


def reserved_items(tx: Tx, order_ids: Sequence[int], name: str) -> list[int]:
    """Pieces to a recipient of this name that are not batched yet."""
    return list(
        tx.execute(
            sa.select(items.c.id).where(
                items.c.order_id.in_(order_ids),
                items.c.status == "Processing",
                sa.func.lower(items.c.name) == name.lower(),
            )
        ).scalars()
    )


def suppressed_items(tx: Tx, order_ids: Sequence[int]) -> list[int]:
    """Pieces to addresses that came onto a suppression list since they were accepted."""
    return list(tx.execute(SUPPRESSED_ITEMS, {"orders": list(order_ids)}).scalars())


def count_sends(tx: Tx, batch_id: int, *, now: datetime) -> None:
    """Add the batch's pieces that go to paper to the lists they came from."""
    tx.execute(COUNT_SENDS, {"batch": batch_id, "now": now})


def file_keys(tx: Tx, designs: Iterable[DesignKey]) -> dict[UUID, str]:
    """Where the pictures of the designs lie in the store."""
    wanted = {file for _, *pictures in designs for file in pictures if file is not None}
    rows = tx.execute(sa.select(files.c.id, files.c.key).where(files.c.id.in_(wanted)))
    return {row.id: row.key for row in rows}
