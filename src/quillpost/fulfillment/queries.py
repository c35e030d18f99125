"""Queries over due orders and production batches, in the worker's transactions."""

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
from quillpost.core.database.tables.print_room import batch_files, batches, prints
from quillpost.core.errors import NotFound, Unavailable
from quillpost.core.tokens import hide_secrets
from quillpost.orders.designs import DesignKey
from quillpost.orders.models import Item, Order
from quillpost.orders.rules import ENDS
from quillpost.recipients.addresses.service import HALF_AN_ADDRESS, UNDELIVERABLE

# Live pieces wait for the verifier's answers, if one is asked, as long as it has time to give them.
AWAITS_ANSWERS = """
    (mode = 'live' and verified_at is null and coalesce(due_at > cast(:answers_since as timestamptz), false))
"""

# An order whose lists are yet to become items waits for them.
CLAIM_DUE = sa.text(
    f"""
    select id, mode from orders
     where status = 'reviewing' and due_at <= :now and not audience_pending and not {AWAITS_ANSWERS}
     order by due_at, id limit :most
       for update skip locked
    """
)

AWAITING_ANSWERS = sa.text(
    f"""
    select 1 from orders
     where status = 'reviewing' and due_at <= :now and not audience_pending and {AWAITS_ANSWERS} limit 1
    """
)

SUPPRESSED_ITEMS = sa.text("select id from suppressed_items(:orders) as found (id)")

# In the order of their ids: of two that mail to the same lists neither waits for the other in a circle.
COUNT_SENDS = sa.text(
    """
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
    """
)


TAKE_TURNS = sa.text(
    """
    select id from orders
     where id in (select i.order_id from prints p join items i on i.id = p.item_id
                   where p.batch_id = any(:batches))
     order by id for no key update
    """
)

REPLACED = sa.text(
    """
    select old.position from prints p
      join prints old on old.item_id = p.item_id and old.edition = p.edition - 1
     where p.batch_id = :batch order by old.position
    """
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A production batch. `indicia`, `qr_base` and `opt_out` are what it was composed with, `partner` to whom
    it was offered, from before it was handed over."""

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


def claim_due(
    tx: Tx, *, now: datetime, most: int, answers_since: datetime | None = None
) -> dict[str, list[int]]:
    """Orders whose review has ended, by mode, locked for this transaction; others may take the rest.

    Those that were due before `answers_since` go on without the verifier's answers.
    """
    claimed: dict[str, list[int]] = {}
    for row in tx.execute(CLAIM_DUE, {"now": now, "most": most, "answers_since": answers_since}):
        claimed.setdefault(row.mode, []).append(row.id)
    return claimed


def awaits_answers(tx: Tx, *, now: datetime, answers_since: datetime | None) -> bool:
    """Whether an order is due for which the verifier is yet to be asked."""
    asked = {"now": now, "answers_since": answers_since}
    return tx.execute(AWAITING_ANSWERS, asked).first() is not None


def next_due(tx: Tx, *, now: datetime, until: datetime) -> datetime | None:
    """When the next review ends, if it does until then."""
    ends: datetime | None = tx.execute(
        sa.select(sa.func.min(orders.c.due_at)).where(
            orders.c.status == "reviewing",
            orders.c.due_at > now,
            orders.c.due_at <= until,
            ~orders.c.audience_pending,
        )
    ).scalar()
    return ends


def read_batch(tx: Tx, batch_id: int, *, locked: bool = False) -> Batch:
    """The batch; `locked`, nobody else moves it on before this transaction ends."""
    query = sa.select(batches).where(batches.c.id == batch_id)
    row = tx.execute(query.with_for_update(key_share=True) if locked else query).first()
    if row is None:
        raise NotFound
    return Batch.of(row)


def take_turns(tx: Tx, batch_ids: Sequence[int]) -> None:
    """Nobody else moves pieces of the batches' orders before this transaction ends.

    All at once and in the order of their ids, for who moves some pieces and then others would otherwise wait
    for a lower order while holding a higher one. Whoever locks a batch as well does that before.
    """
    tx.execute(TAKE_TURNS, {"batches": list(batch_ids)})


def swap_batch(tx: Tx, batch_id: int, *, expected: str, to: str, now: datetime, **values: object) -> bool:
    """Whether this call moved the batch on. What troubled the step that is done is past."""
    moved = tx.execute(
        sa.update(batches)
        .where(batches.c.id == batch_id, batches.c.status == expected)
        .values(status=to, **{f"{to}_at": now}, trouble=None, trouble_at=None, **values)
    )
    return moved.rowcount == 1


def offer_batch(tx: Tx, batch_id: int, *, to: str) -> Batch:
    """The batch, offered to this partner from now on unless it was offered before, or has moved on."""
    batch = read_batch(tx, batch_id, locked=True)
    offered = tx.execute(
        sa.update(batches)
        .where(batches.c.id == batch_id, batches.c.status == "composed", batches.c.partner.is_(None))
        .values(partner=to)
    )
    return replace(batch, partner=to) if offered.rowcount else batch


def take_back(tx: Tx, batch_id: int) -> bool:
    """Whether the batch is nobody's now, to be offered anew; what is handed over stays where it is."""
    freed = tx.execute(
        sa.update(batches)
        .where(batches.c.id == batch_id, batches.c.status == "composed")
        .values(partner=None, trouble=None, trouble_at=None)
    )
    return freed.rowcount == 1


def note_trouble(tx: Tx, batch_id: int, trouble: str | None, *, now: datetime) -> None:
    """Why the batch's present step does not succeed, and since when; None: it does again.

    It may be in others' words, which are shown to whoever sees the batch.
    """
    trouble = None if trouble is None else hide_secrets(trouble)
    since = None if trouble is None else sa.func.coalesce(batches.c.trouble_at, now)
    tx.execute(
        sa.update(batches)
        .where(batches.c.id == batch_id, batches.c.trouble.is_distinct_from(trouble))
        .values(trouble=trouble, trouble_at=since)
    )


def unfinished_batches(tx: Tx) -> list[Batch]:
    wanted = sa.and_(batches.c.status != "mailed", batches.c.settled_at.is_(None))
    return [Batch.of(row) for row in tx.execute(sa.select(batches).where(wanted).order_by(batches.c.id))]


def batch_items(tx: Tx, batch_id: int) -> dict[int, Item]:
    """What lies in the batch, by its position."""
    rows = tx.execute(
        sa.select(items, prints.c.position, prints.c.tracking)
        .join(prints, prints.c.item_id == items.c.id)
        .where(prints.c.batch_id == batch_id)
        .order_by(prints.c.position)
    )
    return {row.position: Item.of(row) for row in rows}


def replaced(tx: Tx, batch_id: int) -> list[int]:
    """Where the pieces of a reprint lay in the batch that it is a reprint of."""
    return list(tx.execute(REPLACED, {"batch": batch_id}).scalars())


def batch_orders(tx: Tx, batch_id: int) -> list[Order]:
    inside = (
        sa.select(items.c.order_id)
        .join(prints, prints.c.item_id == items.c.id)
        .where(prints.c.batch_id == batch_id)
        .distinct()
    )
    rows = tx.execute(sa.select(orders).where(orders.c.id.in_(inside)).order_by(orders.c.id))
    return [Order.of(row) for row in rows]


_ENDED = (
    sa.select(items.c.id)
    .where(items.c.id == prints.c.item_id, items.c.status.in_([status.value for status in ENDS]))
    .exists()
)


def has_ended(tx: Tx, batch_id: int) -> bool:
    """Whether a piece of the batch has ended."""
    found = sa.select(prints.c.position).where(prints.c.batch_id == batch_id, _ENDED)
    return tx.execute(found.limit(1)).first() is not None


def take_out_ended(tx: Tx, batch_id: int) -> None:
    """Pieces that have ended before they were drawn are not printed: the batch is what is left."""
    out = tx.execute(sa.delete(prints).where(prints.c.batch_id == batch_id, _ENDED))
    if out.rowcount:
        tx.execute(
            sa.update(batches)
            .where(batches.c.id == batch_id)
            .values(item_count=batches.c.item_count - out.rowcount)
        )


def keep_files(
    tx: Tx, batch_id: int, made: Mapping[str, bytes], *, secret: Collection[str] = frozenset()
) -> None:
    """Write down what the batch's files are, and which of them lie sealed in the store."""
    rows = [
        {
            "batch_id": batch_id,
            "name": name,
            "size": len(data),
            "sha256": hashlib.sha256(data).digest(),
            "is_secret": name in secret,
        }
        for name, data in made.items()
    ]
    tx.execute(insert(batch_files).on_conflict_do_nothing(), rows)


def file_digests(tx: Tx, batch_id: int) -> dict[str, bytes]:
    """The SHA-256 of each of the batch's files, by name."""
    rows = tx.execute(sa.select(batch_files).where(batch_files.c.batch_id == batch_id))
    return {row.name: bytes(row.sha256) for row in rows}


def secret_files(tx: Tx, batch_id: int) -> frozenset[str]:
    """Those of the batch's files that lie sealed in the store."""
    wanted = batch_files.c.batch_id == batch_id, batch_files.c.is_secret
    return frozenset(tx.execute(sa.select(batch_files.c.name).where(*wanted)).scalars())


def require_same(made: Mapping[str, bytes], known: Mapping[str, bytes]) -> None:
    """`Unavailable`, if these are not the very files whose digests are known."""
    digests = {name: hashlib.sha256(data).digest() for name, data in made.items()}
    wrong = sorted(name for name in {*known, *digests} if known.get(name) != digests.get(name))
    if wrong:
        raise Unavailable(f"{', '.join(wrong)}: not the files that were composed.")


def trackings(tx: Tx, item_ids: Sequence[int]) -> dict[int, str]:
    """The barcode that counts of each piece that has one."""
    wanted = prints.c.item_id.in_(item_ids), ~prints.c.superseded, prints.c.tracking.is_not(None)
    return {row.item_id: row.tracking for row in tx.execute(sa.select(prints).where(*wanted))}


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


def undeliverable_items(tx: Tx, order_ids: Sequence[int]) -> dict[int, str]:
    """Pieces to addresses that were found, since they were accepted, not to be reached by mail; and why."""
    found = tx.execute(
        sa.select(items.c.id, items.c.reasons).where(
            items.c.order_id.in_(order_ids),
            items.c.status == "Processing",
            items.c.deliverability == UNDELIVERABLE,
        )
    )
    return {row.id: (row.reasons or [HALF_AN_ADDRESS])[0] for row in found}


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
