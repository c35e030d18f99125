"""SQL of due orders and production batches, in the worker's transactions."""

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Any, Self
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from quillpost.core.database import Tx
from quillpost.core.database.tables.base import files, items, orders
from quillpost.core.database.tables.fulfillment import batch_files, batches, prints
from quillpost.core.errors import NotFound, Unavailable
from quillpost.core.tokens import hide_secrets
from quillpost.orders.designs import DesignKey
from quillpost.orders.items.models import Item
from quillpost.orders.models import Order
from quillpost.orders.queries import lock_orders_of_items
from quillpost.orders.rules import FINAL_STATUSES
from quillpost.recipients.addresses.rules import INCOMPLETE_ADDRESS, UNDELIVERABLE
from quillpost.recipients.rules import SUPPRESSED

# Live orders wait for address verification, as long as its timeout lasts.
AWAITS_VERIFICATION = """
    (mode = 'live' and verified_at is null and coalesce(due_at > cast(:answers_since as timestamptz), false))
"""

# An order whose lists are not materialized yet waits.
CLAIM_DUE_ORDERS = sa.text(f"""
    select id, mode from orders
     where status = 'reviewing' and due_at <= :now and not audience_pending and not {AWAITS_VERIFICATION}
     order by due_at, id limit :most
       for update skip locked
""")

FIND_AWAITING_VERIFICATION = sa.text(f"""
    select 1 from orders
     where status = 'reviewing' and due_at <= :now and not audience_pending and {AWAITS_VERIFICATION} limit 1
""")

FIND_SUPPRESSED_ITEMS = sa.text("select id from suppressed_items(:orders) as found (id)")

# In the order of their ids, so that two batches for the same lists cannot deadlock.
ADD_LIST_SENDS = sa.text("""
    with sent as (
        select i.mailing_list_id, count(*) as pieces from prints p join items i on i.id = p.item_id
         where p.batch_id = :batch and p.edition = 0 and i.mailing_list_id is not null
           and i.status = 'Processing'
         group by i.mailing_list_id),
    turn as materialized (
        select id from mailing_lists where id in (select mailing_list_id from sent)
         order by id for no key update)
    update mailing_lists l set total_sends = l.total_sends + sent.pieces, last_send = :now
      from turn join sent on sent.mailing_list_id = turn.id
     where l.id = turn.id
""")

LOCK_BATCH_ORDERS = lock_orders_of_items("select item_id from prints where batch_id = any(:batches)")

REPLACED_POSITIONS = sa.text("""
    select old.position from prints p
      join prints old on old.item_id = p.item_id and old.edition = p.edition - 1
     where p.batch_id = :batch order by old.position
""")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductionBatch:
    """`indicia`, `qr_base` and `opt_out` are what it was composed with; `partner` is set before it is handed over."""

    id: int
    mode: str
    piece: str
    mail_class: str
    stock: str
    rush: bool
    status: str
    item_count: int
    reprint_of: int | None
    mailer_id: str | None
    first_serial: int | None
    indicia: list[str] | None
    qr_base: str | None
    partner: str | None
    acknowledged_at: datetime | None
    trouble: str | None
    trouble_at: datetime | None
    created_at: datetime
    composed_at: datetime | None
    handed_at: datetime | None
    printed_at: datetime | None
    mailed_at: datetime | None
    settled_at: datetime | None
    opt_out: str | None

    @classmethod
    def of(cls, row: sa.Row[Any]) -> Self:
        columns = row._mapping
        return cls(**{field.name: columns[field.name] for field in fields(cls)})


def claim_due_orders(
    tx: Tx, *, now: datetime, limit: int, verification_since: datetime | None = None
) -> dict[str, list[int]]:
    """Orders whose review has ended, by mode, locked for this transaction; others may take the rest. Those that were
    due before `verification_since` go on without verification."""
    claimed: dict[str, list[int]] = {}
    for row in tx.execute(CLAIM_DUE_ORDERS, {"now": now, "most": limit, "answers_since": verification_since}):
        claimed.setdefault(row.mode, []).append(row.id)
    return claimed


def has_orders_awaiting_verification(tx: Tx, *, now: datetime, verification_since: datetime | None) -> bool:
    params = {"now": now, "answers_since": verification_since}
    return tx.execute(FIND_AWAITING_VERIFICATION, params).first() is not None


def find_next_due(tx: Tx, *, now: datetime, until: datetime) -> datetime | None:
    due_at: datetime | None = tx.execute(
        sa.select(sa.func.min(orders.c.due_at)).where(
            orders.c.status == "reviewing", orders.c.due_at > now, orders.c.due_at <= until, ~orders.c.audience_pending
        )
    ).scalar()
    return due_at


def read_batch(tx: Tx, batch_id: int, *, locked: bool = False) -> ProductionBatch:
    """The batch; `locked`, for the rest of the transaction."""
    query = sa.select(batches).where(batches.c.id == batch_id)
    row = tx.execute(query.with_for_update(key_share=True) if locked else query).first()
    if row is None:
        raise NotFound
    return ProductionBatch.of(row)


def lock_batch_orders(tx: Tx, batch_ids: Sequence[int]) -> None:
    """Lock the batches' orders, all at once and in the order of their ids, which prevents deadlocks. Lock a batch
    before."""
    tx.execute(LOCK_BATCH_ORDERS, {"batches": list(batch_ids)})


def swap_batch_status(
    tx: Tx, batch_id: int, *, expected: str, new_status: str, now: datetime, **values: object
) -> bool:
    """Whether this call changed the status. It also clears the error of the finished step."""
    result = tx.execute(
        sa.update(batches)
        .where(batches.c.id == batch_id, batches.c.status == expected)
        .values(status=new_status, **{f"{new_status}_at": now}, trouble=None, trouble_at=None, **values)
    )
    return result.rowcount == 1


def offer_batch(tx: Tx, batch_id: int, *, partner: str) -> ProductionBatch:
    """The batch, offered to this partner unless it was offered before, or has moved on."""
    batch = read_batch(tx, batch_id, locked=True)
    result = tx.execute(
        sa.update(batches)
        .where(batches.c.id == batch_id, batches.c.status == "composed", batches.c.partner.is_(None))
        .values(partner=partner)
    )
    return replace(batch, partner=partner) if result.rowcount else batch


def withdraw_offer(tx: Tx, batch_id: int) -> bool:
    """Whether the batch can be offered again; one that is handed over stays with its partner."""
    result = tx.execute(
        sa.update(batches)
        .where(batches.c.id == batch_id, batches.c.status == "composed")
        .values(partner=None, trouble=None, trouble_at=None)
    )
    return result.rowcount == 1


def record_batch_error(tx: Tx, batch_id: int, error: str | None, *, now: datetime) -> None:
    """Store why the batch's current step fails, and since when; None: it works again."""
    error = None if error is None else hide_secrets(error)
    failing_since = None if error is None else sa.func.coalesce(batches.c.trouble_at, now)
    tx.execute(
        sa.update(batches)
        .where(batches.c.id == batch_id, batches.c.trouble.is_distinct_from(error))
        .values(trouble=error, trouble_at=failing_since)
    )


def list_unfinished_batches(tx: Tx) -> list[ProductionBatch]:
    condition = sa.and_(batches.c.status != "mailed", batches.c.settled_at.is_(None))
    return [ProductionBatch.of(row) for row in tx.execute(sa.select(batches).where(condition).order_by(batches.c.id))]


def read_batch_items(tx: Tx, batch_id: int) -> dict[int, Item]:
    """The batch's items by position."""
    rows = tx.execute(
        sa.select(items, prints.c.position, prints.c.tracking)
        .join(prints, prints.c.item_id == items.c.id)
        .where(prints.c.batch_id == batch_id)
        .order_by(prints.c.position)
    )
    return {row.position: Item.of(row) for row in rows}


def read_replaced_positions(tx: Tx, batch_id: int) -> list[int]:
    """The positions of a reprint's items in the original batch."""
    return list(tx.execute(REPLACED_POSITIONS, {"batch": batch_id}).scalars())


def read_batch_orders(tx: Tx, batch_id: int) -> list[Order]:
    order_ids = (
        sa.select(items.c.order_id)
        .join(prints, prints.c.item_id == items.c.id)
        .where(prints.c.batch_id == batch_id)
        .distinct()
    )
    rows = tx.execute(sa.select(orders).where(orders.c.id.in_(order_ids)).order_by(orders.c.id))
    return [Order.of(row) for row in rows]


_ITEM_HAS_ENDED = (
    sa.select(items.c.id)
    .where(items.c.id == prints.c.item_id, items.c.status.in_([status.value for status in FINAL_STATUSES]))
    .exists()
)


def has_ended_items(tx: Tx, batch_id: int) -> bool:
    ended_positions = sa.select(prints.c.position).where(prints.c.batch_id == batch_id, _ITEM_HAS_ENDED)
    return tx.execute(ended_positions.limit(1)).first() is not None


def remove_ended_items(tx: Tx, batch_id: int) -> None:
    """Items that ended before they were drawn are not printed."""
    deleted = tx.execute(sa.delete(prints).where(prints.c.batch_id == batch_id, _ITEM_HAS_ENDED))
    if deleted.rowcount:
        tx.execute(
            sa.update(batches)
            .where(batches.c.id == batch_id)
            .values(item_count=batches.c.item_count - deleted.rowcount)
        )


def insert_batch_files(
    tx: Tx, batch_id: int, contents: Mapping[str, bytes], *, secret_names: Collection[str] = frozenset()
) -> None:
    rows = [
        {
            "batch_id": batch_id,
            "name": name,
            "size": len(data),
            "sha256": hashlib.sha256(data).digest(),
            "is_secret": name in secret_names,
        }
        for name, data in contents.items()
    ]
    tx.execute(insert(batch_files).on_conflict_do_nothing(), rows)


def read_file_digests(tx: Tx, batch_id: int) -> dict[str, bytes]:
    rows = tx.execute(sa.select(batch_files).where(batch_files.c.batch_id == batch_id))
    return {row.name: bytes(row.sha256) for row in rows}


def list_secret_files(tx: Tx, batch_id: int) -> frozenset[str]:
    conditions = batch_files.c.batch_id == batch_id, batch_files.c.is_secret
    return frozenset(tx.execute(sa.select(batch_files.c.name).where(*conditions)).scalars())


def require_same_files(contents: Mapping[str, bytes], expected_digests: Mapping[str, bytes]) -> None:
    """Raise `Unavailable` unless the files have these digests."""
    digests = {name: hashlib.sha256(data).digest() for name, data in contents.items()}
    damaged = sorted(name for name in {*expected_digests, *digests} if expected_digests.get(name) != digests.get(name))
    if damaged:
        raise Unavailable(f"{', '.join(damaged)}: not the files that were composed.")


def read_barcodes(tx: Tx, item_ids: Sequence[int]) -> dict[int, str]:
    """The current barcode of each item that has one."""
    conditions = prints.c.item_id.in_(item_ids), ~prints.c.superseded, prints.c.tracking.is_not(None)
    return {row.item_id: row.tracking for row in tx.execute(sa.select(prints).where(*conditions))}


def find_unmailable_items(tx: Tx, order_ids: Sequence[int], *, reserved_name: str | None) -> dict[int, str]:
    """Why items cannot be mailed: their addresses were found undeliverable or suppressed since they were accepted, or
    they have the name that testing mode reserves."""
    is_waiting = items.c.order_id.in_(order_ids), items.c.status == "Processing"
    undeliverable_query = sa.select(items.c.id, items.c.reasons).where(
        *is_waiting, items.c.deliverability == UNDELIVERABLE
    )
    reasons = {row.id: (row.reasons or [INCOMPLETE_ADDRESS])[0] for row in tx.execute(undeliverable_query)}
    reasons |= dict.fromkeys(tx.execute(FIND_SUPPRESSED_ITEMS, {"orders": list(order_ids)}).scalars(), SUPPRESSED)
    if reserved_name is not None:
        has_name = sa.func.lower(items.c.name) == reserved_name.lower()
        reserved_ids = tx.execute(sa.select(items.c.id).where(*is_waiting, has_name)).scalars()
        reasons |= dict.fromkeys(reserved_ids, "Undeliverable address")
    return reasons


def read_file_keys(tx: Tx, designs: Iterable[DesignKey]) -> dict[UUID, str]:
    """The storage keys of the designs' images."""
    file_ids = {file_id for _, *file_columns in designs for file_id in file_columns if file_id is not None}
    rows = tx.execute(sa.select(files.c.id, files.c.key).where(files.c.id.in_(file_ids)))
    return {row.id: row.key for row in rows}
