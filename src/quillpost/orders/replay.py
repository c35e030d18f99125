"""Sending an order again: its creative as it was, to the same people or to others."""

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from uuid import UUID

import sqlalchemy as sa

from quillpost.accounts import service as accounts
from quillpost.accounts.billing.prices import tariff_on
from quillpost.accounts.models import Caller
from quillpost.accounts.sub_accounts import require_sub_account
from quillpost.core.database import Tx
from quillpost.core.database.tables.base import items, orders
from quillpost.core.errors import Refused
from quillpost.core.stored_files import ShelfFile, files_of_order
from quillpost.orders import items as store
from quillpost.orders import validation
from quillpost.orders.images import BACKGROUND, FRONT, PAGES
from quillpost.orders.materialization import longest_people
from quillpost.orders.models import CAMPAIGN, Item, Order, Source, Wish
from quillpost.orders.request import Resolved
from quillpost.orders.rules import ItemStatus, OrderStatus
from quillpost.recipients.lists.queries import read_lists
from quillpost.recipients.rules import CUSTOM, TEXTS
from quillpost.rendering.text.variables import compile_text, holds_variable

Row = Mapping[str, str | None]

UNMAILED = (ItemStatus.PROCESSING, ItemStatus.FAILED)


def resolve_again(
    tx: Tx,
    who: Caller,
    order_id: int,
    *,
    recipients: Sequence[Row] | None,
    schedule_for: datetime | None,
    metadata: str | None,
    copies_metadata: bool,
    allow_duplicates: bool,
    on: date,
) -> Resolved:
    """The wish of an order that was mailed. `recipients` take the place of all whom it went to."""
    order = store.read_order(tx, order_id)
    _require_mailed(order)
    _require_pictures(tx, order)
    _require_gift(tx, order)
    if order.sub_account_id is not None:
        require_sub_account(tx, order.sub_account_id)
    lists = [] if recipients is not None else read_lists(tx, order.mailing_list_ids)
    list_ids = [one.id for one in lists]
    shelf = files_of_order(tx, order.id)
    used = {slot.name for slot in compile_text(order.message).slots}
    wish = Wish(
        type=order.type,
        size=order.size,
        piece=order.piece,
        message=order.message,
        style=order.style,
        handwriting_color=order.handwriting_color,
        handwriting_realism=order.handwriting_realism,
        font_size=order.font_size,
        recipients=_own_recipients(tx, order) if recipients is None else recipients,
        mailing_list_ids=list_ids,
        sub_account_id=order.sub_account_id,
        message_template_id=order.message_template_id,
        image_template_id=order.image_template_id,
        front=_source(FRONT, order.front_image_url, order.front_file_id, shelf),
        background=_source(BACKGROUND, order.background_url, order.background_file_id, shelf),
        pages=_source(PAGES, order.pages_url, order.pages_file_id, shelf),
        pdf_only=order.pdf_only,
        brand=order.brand,
        logo=_source("sub_account_id", None, order.logo_file_id, shelf),
        qrcode_url=order.qrcode_url,
        return_address=order.return_address,
        mail_class=order.mail_class,
        append_or_current_resident=order.append_or_current_resident,
        allow_duplicates=allow_duplicates,
        notification_emails=order.notification_emails,
        metadata=order.metadata if copies_metadata else metadata,
        schedule_for=schedule_for,
        gift=order.gift,
    )
    return Resolved(
        wish,
        accounts.sender_of(tx, who, order.sub_account_id),
        tariff_on(tx, type=order.type, size=order.size, mail_class=order.mail_class, on=on),
        longest_people(tx, list_ids, used) if list_ids else [],
    )


def _require_mailed(order: Order) -> None:
    if order.status is OrderStatus.CANCELLED:
        raise Refused("This order was cancelled: there is nothing to replay.")
    if _has_mailed_nothing(order):
        raise Refused(f"This order has mailed nothing that could be replayed: it is {order.status.display}.")


def is_yet_to_be_mailed(order: Order) -> bool:
    """Whether nothing of it was mailed so far, and something will be."""
    return order.tally[ItemStatus.PROCESSING] > 0 and _has_mailed_nothing(order)


def _has_mailed_nothing(order: Order) -> bool:
    return all(n == 0 for status, n in order.tally.items() if status not in UNMAILED)


def _require_pictures(tx: Tx, order: Order) -> None:
    gone = tx.execute(sa.select(orders.c.pictures_gone_at).where(orders.c.id == order.id)).scalar()
    if gone is not None:
        raise Refused("The pictures of this order are no longer kept: send it anew instead.")


def _require_gift(tx: Tx, order: Order) -> None:
    """A card is bought anew for each piece, as the catalogue has it today."""
    if order.gift is not None and (faults := validation.faults_of(tx, order.gift)):
        [told] = next(iter(faults.values()))
        raise Refused(f"The gift card of this order is offered no more: send it anew with another. {told}")


def _own_recipients(tx: Tx, order: Order) -> list[Row]:
    """Those whom the call itself named; the lists are asked anew. Of an automation's those whom it mailed: a
    caller would have been refused the others. Whoever was erased is nobody any more."""
    wanted = [*store.own_items(order), items.c.person_gone_at.is_(None)]
    if order.method == CAMPAIGN:
        wanted.append((items.c.price_cents > 0) | (items.c.status != ItemStatus.FAILED.value))
    rows = tx.execute(sa.select(items).where(*wanted).order_by(items.c.id)).all()
    if not rows and not order.mailing_list_ids:
        raise Refused(
            "Nobody whom this order went to is known any more: name `recipients` to send it to others."
        )
    return [as_given(Item.of(row)) for row in rows]


def as_given(item: Item) -> Row:
    """The recipient of a piece, as a call would name them."""
    days = {"dob": item.dob, "anniversary": item.anniversary}
    return {
        **{name: getattr(item, name) for name in TEXTS if name not in CUSTOM},
        **dict(zip(CUSTOM, item.custom, strict=True)),
        **{name: day.isoformat() if day else None for name, day in days.items()},
    }


def _source(
    field: str, url: str | None, file_id: UUID | None, shelf: Mapping[UUID, ShelfFile]
) -> Source | None:
    """What was printed, from the shelf; only pictures that differ from one to the next are fetched again."""
    if url is not None and holds_variable(url):
        return Source(field, url)
    return None if file_id is None else Source(field, url, shelf[file_id])
