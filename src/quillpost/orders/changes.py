"""Changing an order while nothing of it has been made: checked, and priced, as if it were sent again.

What takes long comes first, in `new_words`; `edit` holds the order no longer than it takes to write.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from uuid import UUID

import sqlalchemy as sa

from quillpost.accounts.billing import credit, ledger
from quillpost.accounts.billing.prices import tariff_on
from quillpost.accounts.billing.rules import Tariff
from quillpost.core import jobs
from quillpost.core.database import Database, Tenant, Tx
from quillpost.core.database.tables.base import items, orders
from quillpost.core.errors import Conflict, Invalid, Refused
from quillpost.core.stored_files import files_of_order
from quillpost.orders import designs
from quillpost.orders import items as store
from quillpost.orders.audience import Reach, may_repeat, repeated_items
from quillpost.orders.create import SWEEP
from quillpost.orders.drafts import Written, check_fit, handwriting_warnings
from quillpost.orders.images import key_of
from quillpost.orders.materialization import longest_mailed, longest_people
from quillpost.orders.models import Item, Order
from quillpost.orders.rules import ItemStatus, OrderStatus
from quillpost.orders.templates.rules import wrong_variables
from quillpost.orders.validation import HARD_TO_READ
from quillpost.recipients.rules import Person
from quillpost.rendering.models import Addressee
from quillpost.rendering.renderer import Studio
from quillpost.rendering.text.variables import compile_text, holds_variable

# What a piece costs may depend on its country alone, so few different prices meet many pieces.
REPRICE = sa.text(
    """
    update items i set price_cents = p.cents, updated_at = :now
      from unnest(cast(:countries as text[]), cast(:cents as integer[])) as p (country, cents)
     where i.order_id = :order_id and i.status = 'Processing' and i.country = p.country
       and i.price_cents <> p.cents
    """
)

CHANGED_SINCE = "Its message was changed after that: released, it is reviewed once more."
"""What an operator is told of a held order whose words are others by now."""

WORDED = ("message", "creative_key", "warnings", "hold_reasons")
"""What other words change of an order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewWords:
    """A message that fits everyone, what is told of it, and what was told of the one before."""

    before: str
    message: str
    creative_key: UUID
    warnings: list[str]
    untrue: list[str]

    def written_on(self, order: Order) -> Order:
        """The order with these words, unless others have come between."""
        # Only the message matters: a list that became items, say, is no reason to try again.
        if order.message != self.before:
            raise Conflict("Another call changed this order's message meanwhile: try again.", retry_after=1)
        kept = [warning for warning in order.warnings if warning not in self.untrue]
        is_news = order.status is OrderStatus.PAUSED and self.message != self.before
        return replace(
            order,
            message=self.message,
            creative_key=self.creative_key,
            warnings=self.warnings + kept,
            hold_reasons=_with(order.hold_reasons, CHANGED_SINCE) if is_news else order.hold_reasons,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What is to be different. What is not named stays: a schedule or metadata may be set to nothing."""

    names: frozenset[str]
    words: NewWords | None = None
    schedule_for: datetime | None = None
    metadata: str | None = None


def edit(
    tx: Tx,
    order_id: int,
    changes: Changes,
    *,
    review: timedelta,
    needs_credit: bool = False,
    now: datetime,
) -> Order:
    """The order as it is from now on. Against the press, one side wins."""
    order = store.read_order(tx, order_id, locked=True)
    _require_changeable(order)
    values: dict[str, object] = {"updated_at": now}
    changed = order
    if changes.words is not None:
        changed = changes.words.written_on(order)
        values |= {name: getattr(changed, name) for name in WORDED}
    if "metadata" in changes.names:
        values["metadata"] = changes.metadata
    if "schedule_for" in changes.names:
        due_at = max(order.created_at + review, changes.schedule_for or now, now)
        changed = replace(changed, schedule_for=changes.schedule_for, due_at=due_at)
        values |= {"schedule_for": changes.schedule_for, "due_at": due_at}
        jobs.wake(tx, SWEEP, at=due_at)
    if changed is not order:
        _require_no_repeats(tx, changed, "message" if changes.words else "schedule_for")
    if changed.creative_key != order.creative_key:
        tx.execute(
            sa.update(items)
            .where(items.c.order_id == order.id)
            .values(creative_key=changed.creative_key, updated_at=now)
        )
    # What mails the same at the same time costs what was agreed.
    is_other = (changed.message, changed.schedule_for) != (order.message, order.schedule_for)
    if is_other and not order.audience_pending:
        cost = _priced_again(tx, order, needs_credit=needs_credit, now=now)
        values |= {"order_total": cost.pieces, "gift_total": cost.gifts}
    return Order.of(
        tx.execute(
            sa.update(orders).where(orders.c.id == order_id).values(**values).returning(*orders.c)
        ).one()
    )


def new_words(
    db: Database, whose: Tenant, order: Order, message: str, *, studio: Studio, indicia: Sequence[str]
) -> NewWords:
    """Other words for the order, if everyone's fit.

    Laying them out takes a while, longer where the hand is yet to be made: nothing is locked meanwhile.
    """
    _require_changeable(order)
    if order.pdf_only:
        raise Invalid({"message": ["This letter is a PDF alone: no message is printed on it."]})
    if wrong := wrong_variables(message):
        raise Invalid({"message": [wrong]})
    changed = replace(order, message=message)
    with db.transaction(whose) as tx:
        own, key = _own_addressees(tx, order), _key(tx, changed)
        longest, longest_before = _longest(tx, changed), _longest(tx, order)
    has_qr = order.qrcode_url is not None
    before, after = (
        designs.design(one, sender=order.sender, return_address=order.return_address, indicia=indicia)
        for one in (order, changed)
    )
    written = check_fit(studio, after, own, longest=longest, has_qr=has_qr, may_be_blank=order.has_background)
    told = handwriting_warnings(studio, after, written)
    others = [designs.addressee(person) for person in longest_before]
    wordings = studio.wordings(before, own + others)
    smallest = studio.misfits(before, [], qr=has_qr, wordings=wordings).smallest
    untrue = handwriting_warnings(studio, before, Written(wordings, smallest))
    if not message.strip():
        untrue += [warning for warning in order.warnings if warning.startswith(HARD_TO_READ)]
    return NewWords(before=order.message, message=message, creative_key=key, warnings=told, untrue=untrue)


def _with(reasons: Sequence[str], last: str) -> list[str]:
    return [*(why for why in reasons if why != last), last]


def _require_changeable(order: Order) -> None:
    if not order.is_cancellable:
        raise Refused(f"This order can no longer be changed: it is {order.status.display}.")


def _own_addressees(tx: Tx, order: Order) -> list[Addressee]:
    """Those whom the call itself named."""
    rows = tx.execute(
        sa.select(items)
        .where(
            *store.own_items(order),
            items.c.status == ItemStatus.PROCESSING.value,
        )
        .order_by(items.c.id)
    )
    resident = order.append_or_current_resident
    return [designs.addressee(Item.of(row), or_current_resident=resident) for row in rows]


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


def _priced_again(tx: Tx, order: Order, *, needs_credit: bool, now: datetime) -> store.Cost:
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
    cost = store.live_cents(tx, order.id)
    if needs_credit:
        more = cost.total - ledger.held_for(tx, order.id)
        credit.require(tx, order.account_id, order.mode, cents=more, is_change=True)
    ledger.hold_exactly(tx, order.id, cents=cost.total, why=f"edit:{now:%Y%m%dT%H%M%S%f}", now=now)
    return cost
