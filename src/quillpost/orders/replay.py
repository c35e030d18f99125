"""Sending an order again: its creative as it was, to the same people or to others."""

from collections.abc import Mapping
from datetime import date
from uuid import UUID

import sqlalchemy as sa

from quillpost.accounts import service as account_service
from quillpost.accounts.billing.prices import read_tariff
from quillpost.accounts.models import Caller
from quillpost.accounts.sub_accounts import require_sub_account
from quillpost.core.database import Tx
from quillpost.core.database.tables.base import items, orders
from quillpost.core.errors import Refused
from quillpost.core.stored_files import StoredFile, find_order_files
from quillpost.orders import items as order_items
from quillpost.orders import validation
from quillpost.orders.images import BACKGROUND_FIELD, FRONT_FIELD, PAGES_FIELD
from quillpost.orders.materialization import longest_on_lists
from quillpost.orders.models import (
    API_METHOD,
    AUTOMATION_METHOD,
    ContentSource,
    Item,
    Order,
    ReplayRequest,
    ResolvedRequest,
)
from quillpost.orders.products import find_product
from quillpost.orders.resolution import ResolvedOrder
from quillpost.orders.rules import ItemStatus, OrderStatus
from quillpost.recipients.lists.queries import read_lists
from quillpost.recipients.rules import CUSTOM_FIELDS, TEXT_FIELDS
from quillpost.rendering.text.variables import compile_template, has_variables

RecipientRow = Mapping[str, str | None]

UNMAILED_STATUSES = (ItemStatus.PROCESSING, ItemStatus.FAILED)


def resolve_replay(tx: Tx, caller: Caller, replay: ReplayRequest, *, price_date: date) -> ResolvedOrder:
    """The request of an order that was mailed."""
    order = order_items.read_order(tx, replay.order_id)
    _require_mailed(order)
    _require_pictures(tx, order)
    _require_gift(tx, order)
    if order.sub_account_id is not None:
        require_sub_account(tx, order.sub_account_id)
    lists = [] if replay.recipients is not None else read_lists(tx, order.mailing_list_ids)
    list_ids = [mailing_list.id for mailing_list in lists]
    files = find_order_files(tx, order.id)
    variables = {slot.name for slot in compile_template(order.message).slots}
    request = ResolvedRequest.of(
        order,
        product=find_product(order.type),
        method=API_METHOD,
        recipients=_read_inline_recipients(tx, order) if replay.recipients is None else replay.recipients,
        mailing_list_ids=list_ids,
        front=_build_source(FRONT_FIELD, order.front_image_url, order.front_file_id, files),
        background=_build_source(BACKGROUND_FIELD, order.background_url, order.background_file_id, files),
        pages=_build_source(PAGES_FIELD, order.pages_url, order.pages_file_id, files),
        logo=_build_source("sub_account_id", None, order.logo_file_id, files),
        qr_source=ContentSource("qrcode_url", order.qrcode_url),
        metadata=order.metadata if replay.copy_metadata else replay.metadata,
        schedule_for=replay.schedule_for,
        allow_duplicates=replay.allow_duplicates,
    )
    return ResolvedOrder(
        request,
        account_service.read_sender(tx, caller, order.sub_account_id),
        read_tariff(tx, type=order.type, size=order.size, mail_class=order.mail_class, on=price_date),
        longest_on_lists(tx, list_ids, variables) if list_ids else [],
    )


def _require_mailed(order: Order) -> None:
    if order.status is OrderStatus.CANCELLED:
        raise Refused("This order was cancelled: there is nothing to replay.")
    if _has_mailed_nothing(order):
        raise Refused(f"This order has mailed nothing that could be replayed: it is {order.status.display}.")


def is_unmailed(order: Order) -> bool:
    """Whether nothing of it was mailed so far, and something will be."""
    return order.status_counts[ItemStatus.PROCESSING] > 0 and _has_mailed_nothing(order)


def _has_mailed_nothing(order: Order) -> bool:
    return all(n == 0 for status, n in order.status_counts.items() if status not in UNMAILED_STATUSES)


def _require_pictures(tx: Tx, order: Order) -> None:
    deleted_at = tx.execute(sa.select(orders.c.pictures_gone_at).where(orders.c.id == order.id)).scalar()
    if deleted_at is not None:
        raise Refused("The pictures of this order are no longer kept: send it anew instead.")


def _require_gift(tx: Tx, order: Order) -> None:
    """A card is bought anew for each piece, as the catalog has it today."""
    if order.gift is not None and (errors := validation.check_giftcard(tx, order.gift)):
        [message] = next(iter(errors.values()))
        raise Refused(f"The gift card of this order is offered no more: send it anew with another. {message}")


def _read_inline_recipients(tx: Tx, order: Order) -> list[RecipientRow]:
    """Those whom the call itself named; the lists are asked anew. Of an automation's those whom it mailed: a
    caller would have been refused the others. Whoever was erased is nobody any more."""
    conditions = [*order_items.inline_item_conditions(order), items.c.person_gone_at.is_(None)]
    if order.method == AUTOMATION_METHOD:
        conditions.append((items.c.price_cents > 0) | (items.c.status != ItemStatus.FAILED.value))
    rows = tx.execute(sa.select(items).where(*conditions).order_by(items.c.id)).all()
    if not rows and not order.mailing_list_ids:
        raise Refused("Nobody whom this order went to is known any more: name `recipients` to send it to others.")
    return [recipient_row(Item.of(row)) for row in rows]


def recipient_row(item: Item) -> RecipientRow:
    """The recipient of a piece, as a call would name them."""
    dates = {"dob": item.dob, "anniversary": item.anniversary}
    return {
        **{name: getattr(item, name) for name in TEXT_FIELDS if name not in CUSTOM_FIELDS},
        **dict(zip(CUSTOM_FIELDS, item.custom, strict=True)),
        **{name: day.isoformat() if day else None for name, day in dates.items()},
    }


def _build_source(
    field: str, url: str | None, file_id: UUID | None, files: Mapping[UUID, StoredFile]
) -> ContentSource | None:
    """What was printed, from storage; only pictures that differ from one to the next are fetched again."""
    if url is not None and has_variables(url):
        return ContentSource(field, url)
    return None if file_id is None else ContentSource(field, url, files[file_id])
