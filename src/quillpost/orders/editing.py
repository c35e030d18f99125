"""Changing an order while nothing of it has been made: checked, and priced, as if it were sent again."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from uuid import UUID

import sqlalchemy as sa

from quillpost import jobs
from quillpost.composition.studio import Studio
from quillpost.composition.words.variables import compile_text, holds_variable
from quillpost.creative.shelf import find_files
from quillpost.creative.wording import wrong_variables
from quillpost.database import Tx
from quillpost.database.tables import items, orders
from quillpost.kit.errors import Invalid, Refused
from quillpost.orders import look, store
from quillpost.orders.listed import longest_people
from quillpost.orders.pictures import key_of
from quillpost.orders.preparing import check_fit, handwriting_warnings
from quillpost.orders.records import Item, Order
from quillpost.orders.rules import ItemStatus
from quillpost.orders.service import SWEEP
from quillpost.pricing import ledger
from quillpost.pricing.store import tariff_on

# What a piece costs may depend on its country alone, so few different prices meet many pieces.
REPRICE = sa.text(
    """
    update items i set price_cents = p.cents, updated_at = :now
      from unnest(cast(:countries as text[]), cast(:cents as integer[])) as p (country, cents)
     where i.order_id = :order_id and i.status = 'Processing' and i.country = p.country
       and i.price_cents <> p.cents
    """
)

SUM_UP = sa.text(
    """
    select coalesce(sum(price_cents), 0) from items where order_id = :order_id and status <> 'Failed'
    """
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What is to be different. What is not named stays: a schedule or metadata may be set to nothing."""

    names: frozenset[str]
    message: str = ""
    schedule_for: datetime | None = None
    metadata: str | None = None


def edit(
    tx: Tx,
    order_id: int,
    changes: Changes,
    *,
    studio: Studio,
    indicia: Sequence[str],
    review: timedelta,
    now: datetime,
) -> Order:
    """The order as it is from now on. Against the press, one side wins."""
    order = store.read_order(tx, order_id, locked=True)
    if not order.is_cancellable:
        raise Refused(f"This order can no longer be changed: it is {order.status.display}.")
    values: dict[str, object] = {"updated_at": now}
    if "message" in changes.names:
        values |= _with_message(tx, order, changes.message, studio=studio, indicia=indicia, now=now)
    if "metadata" in changes.names:
        values["metadata"] = changes.metadata
    if "schedule_for" in changes.names:
        due_at = max(order.created_at + review, changes.schedule_for or now, now)
        values |= {"schedule_for": changes.schedule_for, "due_at": due_at}
        jobs.wake(tx, SWEEP, at=due_at)
    if not order.audience_pending:
        values["order_total"] = _priced_again(tx, order, now=now)
    return Order.of(
        tx.execute(
            sa.update(orders).where(orders.c.id == order_id).values(**values).returning(*orders.c)
        ).one()
    )


def _with_message(
    tx: Tx, order: Order, message: str, *, studio: Studio, indicia: Sequence[str], now: datetime
) -> dict[str, object]:
    if order.pdf_only:
        raise Invalid({"message": ["This letter is a PDF alone: no message is printed on it."]})
    if wrong := wrong_variables(message):
        raise Invalid({"message": [wrong]})
    own = [
        Item.of(row)
        for row in tx.execute(
            sa.select(items)
            .where(
                items.c.order_id == order.id,
                items.c.mailing_list_id.is_(None),
                items.c.status == ItemStatus.PROCESSING.value,
            )
            .order_by(items.c.id)
        )
    ]
    before, after = order, replace(order, message=message)
    told = [_told(tx, look_of, own, studio=studio, indicia=indicia) for look_of in (before, after)]
    kept = [warning for warning in order.warnings if warning not in told[0]]
    key = _key(tx, after)
    tx.execute(sa.update(items).where(items.c.order_id == order.id).values(creative_key=key, updated_at=now))
    return {"message": message, "creative_key": key, "warnings": told[1] + kept}


def _told(tx: Tx, order: Order, own: Sequence[Item], *, studio: Studio, indicia: Sequence[str]) -> list[str]:
    """What is to be said about the order's handwriting; `Invalid` where it does not fit."""
    design = look.design(order, sender=order.sender, return_address=order.return_address, indicia=indicia)
    used = {slot.name for slot in compile_text(order.message).slots}
    wordings = check_fit(
        studio,
        design,
        [look.addressee(item, or_current_resident=order.append_or_current_resident) for item in own],
        longest=longest_people(tx, order.mailing_list_ids, used) if order.mailing_list_ids else [],
        has_qr=order.qrcode_url is not None,
    )
    return handwriting_warnings(studio, design, wordings, on_white=order.background_file_id is None)


def _key(tx: Tx, order: Order) -> UUID:
    """The creative's key, from the digests of its files, which need not be read for that."""
    shelf = find_files(tx, [order.front_file_id, order.background_file_id, order.pages_file_id])

    def content(url: str | None, file_id: UUID | None) -> str | None:
        return url if url and holds_variable(url) else shelf[file_id].digest if file_id else None

    return key_of(
        order.piece,
        order.message,
        front=content(order.front_image_url, order.front_file_id),
        background=content(order.background_url, order.background_file_id),
        pages=content(None, order.pages_file_id),
    )


def _priced_again(tx: Tx, order: Order, *, now: datetime) -> int:
    """What the order comes to at today's prices; that much is held for it."""
    countries = list(
        tx.execute(
            sa.select(items.c.country)
            .where(items.c.order_id == order.id, items.c.status == ItemStatus.PROCESSING.value)
            .distinct()
        ).scalars()
    )
    tariff = tariff_on(tx, type=order.type, size=order.size, mail_class=order.mail_class, on=now.date())
    prices = {country: tariff.unit_cents(country) for country in countries}
    known = {country: cents for country, cents in prices.items() if cents is not None}
    tx.execute(
        REPRICE,
        {"order_id": order.id, "countries": list(known), "cents": list(known.values()), "now": now},
    )
    total = int(tx.execute(SUM_UP, {"order_id": order.id}).scalar_one())
    ledger.hold_exactly(tx, order.id, cents=total, why=f"edit:{now:%Y%m%dT%H%M%S%f}", now=now)
    return total
