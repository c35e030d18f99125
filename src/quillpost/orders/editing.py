"""Changing an order while nothing of it has been made: checked, and priced, as if it were sent again."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from uuid import UUID

import sqlalchemy as sa

from quillpost import jobs
from quillpost.audience.rules import Person
from quillpost.composition.content import Addressee
from quillpost.composition.studio import Studio
from quillpost.composition.words.variables import compile_text, holds_variable
from quillpost.creative.shelf import files_of_order
from quillpost.creative.wording import wrong_variables
from quillpost.database import Tx
from quillpost.database.tables import items, orders
from quillpost.kit.errors import Invalid, Refused
from quillpost.orders import look, store
from quillpost.orders.listed import Reach, may_repeat, repeated_items
from quillpost.orders.longest import longest_mailed, longest_people
from quillpost.orders.pictures import key_of
from quillpost.orders.preparing import check_fit, handwriting_warnings
from quillpost.orders.records import Item, Order
from quillpost.orders.rules import ItemStatus
from quillpost.orders.service import SWEEP
from quillpost.pricing import ledger
from quillpost.pricing.rules import Tariff
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
    changed = order
    if "message" in changes.names:
        changed = _with_message(tx, order, changes.message, studio=studio, indicia=indicia)
        values |= {name: getattr(changed, name) for name in ("message", "creative_key", "warnings")}
    if "metadata" in changes.names:
        values["metadata"] = changes.metadata
    if "schedule_for" in changes.names:
        due_at = max(order.created_at + review, changes.schedule_for or now, now)
        changed = replace(changed, due_at=due_at)
        values |= {"schedule_for": changes.schedule_for, "due_at": due_at}
        jobs.wake(tx, SWEEP, at=due_at)
    if changed is not order:
        _require_no_repeats(tx, changed, "message" if "message" in changes.names else "schedule_for")
    if changed.creative_key != order.creative_key:
        tx.execute(
            sa.update(items)
            .where(items.c.order_id == order.id)
            .values(creative_key=changed.creative_key, updated_at=now)
        )
    if not order.audience_pending:
        values["order_total"] = _priced_again(tx, order, now=now)
    return Order.of(
        tx.execute(
            sa.update(orders).where(orders.c.id == order_id).values(**values).returning(*orders.c)
        ).one()
    )


def _with_message(tx: Tx, order: Order, message: str, *, studio: Studio, indicia: Sequence[str]) -> Order:
    """The order with other words, if everyone's fit."""
    if order.pdf_only:
        raise Invalid({"message": ["This letter is a PDF alone: no message is printed on it."]})
    if wrong := wrong_variables(message):
        raise Invalid({"message": [wrong]})
    changed = replace(order, message=message)
    own, on_white = _own_addressees(tx, order), order.background_file_id is None
    before, after = (
        look.design(one, sender=order.sender, return_address=order.return_address, indicia=indicia)
        for one in (order, changed)
    )
    has_qr = order.qrcode_url is not None
    wordings = check_fit(studio, after, own, longest=_longest(tx, changed), has_qr=has_qr)
    told = handwriting_warnings(studio, after, wordings, on_white=on_white)
    others = [look.addressee(person) for person in _longest(tx, order)]
    untrue = handwriting_warnings(studio, before, studio.wordings(before, own + others), on_white=on_white)
    kept = [warning for warning in order.warnings if warning not in untrue]
    return replace(changed, creative_key=_key(tx, changed), warnings=told + kept)


def _own_addressees(tx: Tx, order: Order) -> list[Addressee]:
    """Those whom the call itself named."""
    rows = tx.execute(
        sa.select(items)
        .where(
            items.c.order_id == order.id,
            items.c.mailing_list_id.is_(None),
            items.c.status == ItemStatus.PROCESSING.value,
        )
        .order_by(items.c.id)
    )
    resident = order.append_or_current_resident
    return [look.addressee(Item.of(row), or_current_resident=resident) for row in rows]


def _longest(tx: Tx, order: Order) -> list[Person]:
    """The longest words of those on the order's lists, or of those it has taken over from them."""
    if not order.mailing_list_ids:
        return []
    used = {slot.name for slot in compile_text(order.message).slots}
    if order.audience_pending:
        return longest_people(tx, order.mailing_list_ids, used)
    return longest_mailed(tx, order.id, used)


def _require_no_repeats(tx: Tx, order: Order, field: str) -> None:
    """Other words or another time may bring two of the same to one address within 36 hours."""
    wanted = Reach(
        account_id=order.account_id,
        sub_account_id=order.sub_account_id,
        mode=order.mode,
        list_ids=order.mailing_list_ids,
        creative_key=order.creative_key,
        allow_duplicates=may_repeat(order.type, allow_duplicates=order.allow_duplicates),
        mails_at=order.due_at,
        tariff=Tariff({}),
        order_id=order.id,
    )
    repeated = repeated_items(tx, wanted)
    if repeated:
        raise Invalid(
            {field: [f"{repeated:,} of its recipients would get the same piece twice within 36 hours."]}
        )


def _key(tx: Tx, order: Order) -> UUID:
    """The creative's key, from the digests of its files, which need not be read for that."""
    shelf = files_of_order(tx, order.id)

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
    total = store.live_cents(tx, order.id)
    ledger.hold_exactly(tx, order.id, cents=total, why=f"edit:{now:%Y%m%dT%H%M%S%f}", now=now)
    return total
