"""Edits and cancels orders that are still held back."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from types import MappingProxyType
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from quillpost.accounts.billing import service as billing_service
from quillpost.accounts.billing.queries import read_tariff
from quillpost.accounts.billing.rules import Tariff
from quillpost.accounts.models import Caller
from quillpost.accounts.service import build_tenant
from quillpost.core import jobs
from quillpost.core.database import Tx
from quillpost.core.database.tables.base import items, orders
from quillpost.core.errors import Conflict, Invalid, Message, Refused
from quillpost.core.files import find_order_files
from quillpost.orders import designs, queries
from quillpost.orders.audience.queries import AudienceCriteria, count_repeated_items
from quillpost.orders.designs import longest_in_order, longest_on_lists
from quillpost.orders.drafts.rules import INK_HARD_TO_READ, WrittenMessage, check_fit, handwriting_warnings
from quillpost.orders.handwriting.queries import find_order_handwriting
from quillpost.orders.items import queries as item_queries
from quillpost.orders.items.models import Item
from quillpost.orders.models import FieldErrors, GiftcardChoice, Order
from quillpost.orders.ports import OrderContext
from quillpost.orders.requests.files import hash_creative
from quillpost.orders.rules import SWEEP_TASK, ItemStatus, OrderStatus
from quillpost.orders.templates.rules import unknown_variables_error
from quillpost.recipients.models import Person
from quillpost.rendering.models import Addressee
from quillpost.rendering.text.variables import compile_template, find_unknown_variables, has_variables

# What a piece costs depends only on its country, so few different prices meet many pieces.
REPRICE_ITEMS = sa.text("""
    update items i set price_cents = p.cents, updated_at = :now
      from unnest(cast(:countries as text[]), cast(:cents as integer[])) as p (country, cents)
     where i.order_id = :order_id and i.status = 'Processing' and i.country = p.country
       and i.price_cents <> p.cents
""")

MESSAGE_CHANGED_WHILE_HELD = Message(
    "message_changed", "Its message was changed after that: released, it is reviewed once more."
)
"""Shown to operators."""

MESSAGE_COLUMNS = ("message", "creative_key", "warnings", "hold_reasons")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewMessage:
    """A message that fits everyone, its warnings, and those of the previous one."""

    previous_message: str
    message: str
    creative_key: UUID
    warnings: list[Message]
    outdated_warnings: list[Message]

    def apply_to(self, order: Order) -> Order:
        """`Conflict` if the message was changed meanwhile."""
        # Only the message matters: a list that became items, say, is no reason to try again.
        if order.message != self.previous_message:
            raise Conflict("Another call changed this order's message meanwhile: try again.", retry_after=1)
        remaining_warnings = [warning for warning in order.warnings if warning not in self.outdated_warnings]
        hold_reasons = order.hold_reasons
        if order.status is OrderStatus.PAUSED and self.message != self.previous_message:
            other_reasons = [reason for reason in hold_reasons if reason.code != MESSAGE_CHANGED_WHILE_HELD.code]
            hold_reasons = [*other_reasons, MESSAGE_CHANGED_WHILE_HELD]
        return replace(
            order,
            message=self.message,
            creative_key=self.creative_key,
            warnings=self.warnings + remaining_warnings,
            hold_reasons=hold_reasons,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderEdit:
    """Only `changed_fields` change; a schedule or metadata may be set to None."""

    changed_fields: frozenset[str]
    message: str | None = None
    schedule_for: datetime | None = None
    metadata: str | None = None


GIFTCARD_UNCHANGEABLE = "The gift card that was chosen stays: cancel the order, and send another."


def change_order(
    context: OrderContext,
    caller: Caller,
    order_id: int,
    changes: OrderEdit,
    errors: FieldErrors,
    *,
    max_characters: int,
    get_tx: Callable[[], Tx],
    unused_fields: Mapping[str, Any] = MappingProxyType({}),
) -> Order:
    """The order as it is from now on. `get_tx` opens the transaction once another message is laid out, which takes a
    while. `unused_fields` are those that no change has, of which some would be another gift card."""
    with context.db.transaction(build_tenant(caller)) as tx:
        order = queries.read_order(tx, order_id)
    message = changes.message or ""
    can_be_blank = changes.message is not None and order.has_background
    if "message" in changes.changed_fields and not message.strip() and not can_be_blank:
        errors["message"] = ["A message cannot be taken away: leave the field out, or write another."]
    elif len(message) > max_characters:
        errors["message"] = [f"At most {max_characters:,} characters, please."]
    errors |= {name: [GIFTCARD_UNCHANGEABLE] for name in _find_giftcard_changes(order.gift, unused_fields)}
    if errors:
        raise Invalid(errors)
    new_message = None if changes.message is None else check_new_message(context, caller, order, message)
    return edit_order(context, get_tx(), caller, order.id, changes, new_message)


def _find_giftcard_changes(gift: GiftcardChoice | None, fields: Mapping[str, Any]) -> list[str]:
    """Fields with which the caller wants another gift card: as it is about money, they are not just ignored."""
    if gift is None:
        return []
    current = {
        "giftcard_brand": gift.brand,
        "giftcard_brand_code": gift.brand,
        "giftcard_amount": gift.cents,
        "giftcard_amount_in_cents": gift.cents,
        "landing_page_url": gift.landing_page_url,
    }
    return [name for name, value in current.items() if fields.get(name) is not None and str(fields[name]) != str(value)]


def edit_order(
    context: OrderContext, tx: Tx, caller: Caller, order_id: int, changes: OrderEdit, new_message: NewMessage | None
) -> Order:
    """The changed order; `Refused` once it is in production."""
    terms, now = context.environments[caller.mode], context.clock()
    order = queries.read_order(tx, order_id, locked=True)
    _require_editable(order)
    values: dict[str, object] = {"updated_at": now}
    updated = order
    if new_message is not None:
        updated = new_message.apply_to(order)
        values |= {name: getattr(updated, name) for name in MESSAGE_COLUMNS}
    if "metadata" in changes.changed_fields:
        values["metadata"] = changes.metadata
    if "schedule_for" in changes.changed_fields:
        due_at = max(order.created_at + terms.review_period, changes.schedule_for or now, now)
        updated = replace(updated, schedule_for=changes.schedule_for, due_at=due_at)
        values |= {"schedule_for": changes.schedule_for, "due_at": due_at}
        jobs.enqueue_unique(tx, SWEEP_TASK, at=due_at)
    if updated is not order:
        _require_no_repeats(tx, updated, "message" if new_message else "schedule_for")
    if updated.creative_key != order.creative_key:
        tx.execute(
            sa.update(items)
            .where(items.c.order_id == order.id)
            .values(creative_key=updated.creative_key, updated_at=now)
        )
    # What mails the same at the same time costs what was agreed.
    needs_new_price = (updated.message, updated.schedule_for) != (order.message, order.schedule_for)
    if needs_new_price and not order.audience_pending:
        cost = _reprice(tx, order, needs_credit=terms.needs_credit, now=now)
        values |= {"order_total": cost.item_cents, "gift_total": cost.gift_cents}
    return Order.of(
        tx.execute(sa.update(orders).where(orders.c.id == order_id).values(**values).returning(*orders.c)).one()
    )


def check_new_message(context: OrderContext, caller: Caller, order: Order, message: str) -> NewMessage:
    """Check that the new text fits everyone. Layout takes a while, so nothing is locked."""
    _require_editable(order)
    if order.pdf_only:
        raise Invalid({"message": ["This letter is a PDF alone: no message is printed on it."]})
    if unknown_names := find_unknown_variables(message):
        raise Invalid({"message": [unknown_variables_error(unknown_names)]})
    updated, renderer = replace(order, message=message), context.renderer
    with context.db.transaction(build_tenant(caller)) as tx:
        inline_addressees, creative_key = _read_inline_addressees(tx, order), _creative_key(tx, updated)
        longest_people, previous_longest_people = _longest_people(tx, updated), _longest_people(tx, order)
        own_handwriting = find_order_handwriting(tx, order.id)
    has_qr = order.qrcode_url is not None
    indicia = context.environments[caller.mode].indicia[order.mail_class]
    previous_design, new_design = (
        designs.build_design(
            version,
            own_handwriting=own_handwriting,
            sender=order.sender,
            return_address=order.return_address,
            indicia=indicia,
        )
        for version in (order, updated)
    )
    written_message = check_fit(
        renderer,
        new_design,
        inline_addressees,
        longest_people=longest_people,
        has_qr=has_qr,
        may_be_blank=order.has_background,
    )
    warnings = handwriting_warnings(renderer, new_design, written_message)
    list_addressees = [designs.build_addressee(person) for person in previous_longest_people]
    texts = renderer.fill_messages(previous_design, inline_addressees + list_addressees)
    smallest = renderer.find_misfits(previous_design, [], qr=has_qr, messages=texts).smallest_size
    outdated_warnings = handwriting_warnings(renderer, previous_design, WrittenMessage(texts, smallest))
    if not message.strip():
        outdated_warnings += [warning for warning in order.warnings if warning.code == INK_HARD_TO_READ]
    return NewMessage(
        previous_message=order.message,
        message=message,
        creative_key=creative_key,
        warnings=warnings,
        outdated_warnings=outdated_warnings,
    )


def _require_editable(order: Order) -> None:
    if not order.is_cancellable:
        raise Refused(f"This order can no longer be changed: it is {order.status.capitalize()}.")


def _read_inline_addressees(tx: Tx, order: Order) -> list[Addressee]:
    """Those named by the call."""
    rows = tx.execute(
        sa.select(items)
        .where(*item_queries.inline_item_conditions(order), items.c.status == ItemStatus.PROCESSING.value)
        .order_by(items.c.id)
    )
    return [designs.build_addressee(Item.of(row), order) for row in rows]


def _longest_people(tx: Tx, order: Order) -> list[Person]:
    """Of its lists, or of the items made from them."""
    if not order.mailing_list_ids:
        return []
    variables = {slot.name for slot in compile_template(order.message).slots}
    if order.audience_pending:
        return longest_on_lists(tx, order.mailing_list_ids, variables)
    return longest_in_order(tx, order.id, variables)


def _require_no_repeats(tx: Tx, order: Order, field: str) -> None:
    """Another text or time may repeat a mailing within 36 hours."""
    repeated_count = count_repeated_items(tx, AudienceCriteria.for_order(order, tariff=Tariff({})))
    if repeated_count:
        raise Invalid(
            {field: [f"{repeated_count:,} of its recipients would get the same piece twice within 36 hours."]}
        )


def _creative_key(tx: Tx, order: Order) -> UUID:
    """From the digests of its files."""
    storage = find_order_files(tx, order.id)

    def content(picture_url: str | None, file_id: UUID | None) -> str | None:
        return (
            picture_url if picture_url and has_variables(picture_url) else storage[file_id].digest if file_id else None
        )

    return hash_creative(
        order.piece,
        order.message,
        front=content(order.front_image_url, order.front_file_id),
        background=content(order.background_url, order.background_file_id),
        pages=content(None, order.pages_file_id),
    )


def _reprice(tx: Tx, order: Order, *, needs_credit: bool, now: datetime) -> item_queries.OrderCost:
    """Today's cost, which is held from now on."""
    countries = list(
        tx.execute(
            sa.select(items.c.country)
            .where(items.c.order_id == order.id, items.c.status == ItemStatus.PROCESSING.value)
            .distinct()
        ).scalars()
    )
    tariff = read_tariff(tx, type=order.type, size=order.size, mail_class=order.mail_class, on=now.date())
    prices = {country: tariff.unit_cents(country) for country in countries}
    available_prices = {country: cents for country, cents in prices.items() if cents is not None}
    tx.execute(
        REPRICE_ITEMS,
        {
            "order_id": order.id,
            "countries": list(available_prices),
            "cents": list(available_prices.values()),
            "now": now,
        },
    )
    cost = item_queries.read_live_cost(tx, order.id)
    if needs_credit:
        extra_cents = cost.total_cents - billing_service.read_held_cents(tx, order.id)
        sentence = billing_service.CHANGE_NOT_COVERED
        billing_service.require_credit(tx, order.account_id, order.mode, cents=extra_cents, sentence=sentence)
    billing_service.set_order_hold(tx, order.id, cents=cost.total_cents, reason=f"edit:{now:%Y%m%dT%H%M%S%f}", now=now)
    return cost


FAIL_PROCESSING_ITEMS = sa.update(items).where(items.c.status == ItemStatus.PROCESSING.value)

STOP_ORDER = sa.text("""
    update orders
       set n_failed = n_failed + n_processing, n_processing = 0, order_total = 0, gift_total = 0,
           hold_reasons = '[]', pool_at = null
     where id = :order_id
""")


def cancel_order(tx: Tx, order_id: int, *, now: datetime) -> Order:
    """Stop it and release the money; `Refused` once it is in production."""
    order = queries.read_order(tx, order_id, locked=True)
    if not order.is_cancellable:
        raise Refused(f"This order can no longer be cancelled: it is {order.status.capitalize()}.")
    stop_order(tx, order, new_status=OrderStatus.CANCELLED, reason="Order cancelled", now=now)
    return queries.read_order(tx, order_id)


def stop_order(tx: Tx, order: Order, *, new_status: OrderStatus, reason: str, now: datetime) -> None:
    """End a locked order before production: items fail, money is released. One fact stands for all items."""
    queries.change_status(tx, [order.id], expected=[order.status], new_status=new_status, now=now)
    failed_values = {"status": ItemStatus.FAILED.value, "failure": reason, "updated_at": now}
    tx.execute(FAIL_PROCESSING_ITEMS.where(items.c.order_id == order.id).values(**failed_values))
    tx.execute(STOP_ORDER, {"order_id": order.id})
    billing_service.release_order_hold(tx, order.id, now=now)
    item_queries.record_order_status_change(tx, [order.id], previous=order.status.value, now=now)
