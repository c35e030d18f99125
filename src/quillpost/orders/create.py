"""Placing and cancelling."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from uuid import UUID

import sqlalchemy as sa

from quillpost.accounts.billing import credit, ledger
from quillpost.accounts.models import Caller
from quillpost.core import events, jobs
from quillpost.core.database import Tx
from quillpost.core.database.tables.base import items
from quillpost.core.errors import Refused
from quillpost.orders import items as store
from quillpost.orders.models import Order, Wish
from quillpost.orders.rules import ItemStatus, OrderStatus
from quillpost.rendering.models import ReturnAddress, Sender

SWEEP = "fulfilment.sweep"
"""The task that takes orders whose review has ended; it lives above, so it is known by name alone."""

STOP_ITEMS = sa.update(items).where(items.c.status == ItemStatus.PROCESSING.value)

STOP_ORDER = sa.text(
    """
    update orders
       set n_failed = n_failed + n_processing, n_processing = 0, order_total = 0, gift_total = 0,
           hold_reasons = '{}', pool_at = null
     where id = :order_id
    """
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A wish after everything was looked up: nothing left that could refuse it.

    `listed` people of its lists become items later; `estimated` and `authorised` count them already. The
    `leads_fee`, where people were bought for it, and `gift_total`, the cards that it brings, are held
    together with what is `authorised`.
    """

    wish: Wish
    pieces: Sequence[store.Piece]
    estimated: int
    authorised: int
    sender: Sender
    return_address: ReturnAddress
    listed: int = 0
    front_file_id: UUID | None = None
    background_file_id: UUID | None = None
    logo_file_id: UUID | None = None
    pages_file_id: UUID | None = None
    creative_key: UUID | None = None
    warnings: Sequence[str] = ()
    lowest_dpi: int | None = None
    lowest_contrast: float | None = None
    leads_fee: int = 0
    gift_total: int = 0

    @property
    def total(self) -> int:
        return self.authorised + self.leads_fee + self.gift_total


def place(
    tx: Tx, who: Caller, ready: Prepared, *, due_at: datetime, needs_credit: bool = False, now: datetime
) -> Order:
    """Make it a durable order; its work starts when this transaction has committed.

    Where it `needs_credit` the account's must cover it, or it is `Unpaid`.
    """
    wish, home, gift = ready.wish, ready.return_address, ready.wish.gift
    order = store.insert_order(
        tx,
        {
            "account_id": who.account_id,
            "sub_account_id": wish.sub_account_id,
            "mode": who.mode,
            "type": wish.type,
            "size": wish.size,
            "piece": wish.piece,
            "mail_class": wish.mail_class,
            "status": OrderStatus.REVIEWING.value,
            "method": wish.method,
            "message": wish.message,
            "message_template_id": wish.message_template_id,
            "image_template_id": wish.image_template_id,
            "style": wish.style,
            "handwriting_color": wish.handwriting_color,
            "handwriting_realism": wish.handwriting_realism,
            "font_size": wish.font_size,
            "front_image_url": wish.front.url if wish.front else None,
            "front_file_id": ready.front_file_id,
            "background_url": wish.background.url if wish.background else None,
            "background_file_id": ready.background_file_id,
            "pages_url": wish.pages.url if wish.pages else None,
            "pages_file_id": ready.pages_file_id,
            "pdf_only": wish.pdf_only,
            "branding": asdict(wish.brand) if wish.brand else None,
            "logo_file_id": ready.logo_file_id,
            "qrcode_url": wish.qrcode_url,
            "return_name": home.name,
            "return_address": home.address,
            "return_address2": home.address2,
            "return_city": home.city,
            "return_province": home.province,
            "return_postal_code": home.postal_code,
            "sender_name": ready.sender.name,
            "sender_company": ready.sender.company,
            "append_or_current_resident": wish.append_or_current_resident,
            "allow_duplicates": wish.allow_duplicates,
            "mailing_list_ids": list(wish.mailing_list_ids),
            "notification_emails": list(wish.notification_emails),
            "metadata": wish.metadata,
            "creative_key": ready.creative_key,
            "audience_pending": bool(wish.mailing_list_ids),
            "total_estimated_recipients": ready.estimated,
            "recipient_count": len(ready.pieces) + ready.listed,
            **store.tally_of(ready.pieces),
            "authorization_total": ready.total,
            "order_total": ready.authorised,
            "leads_fee": ready.leads_fee,
            "gift_total": ready.gift_total,
            "giftcard_brand": gift.brand if gift else None,
            "giftcard_title": gift.title if gift else None,
            "giftcard_accent": gift.accent if gift else None,
            "giftcard_amount": gift.cents if gift else None,
            "landing_page_url": gift.landing_page_url if gift else None,
            "warnings": list(ready.warnings),
            "lowest_dpi": ready.lowest_dpi,
            "lowest_contrast": ready.lowest_contrast,
            "schedule_for": wish.schedule_for,
            "due_at": due_at,
            "created_at": now,
            "updated_at": now,
        },
    )
    store.insert_items(tx, order, ready.pieces, now=now)
    if needs_credit:
        credit.require(tx, who.account_id, who.mode, cents=ready.total)
    ledger.authorise(
        tx,
        account_id=who.account_id,
        sub_account_id=wish.sub_account_id,
        mode=who.mode,
        order_id=order.id,
        cents=ready.total,
        now=now,
    )
    events.order_status_changed(tx, [order.id], previous=None, now=now)
    store.append_first_item_facts(tx, order.id, now=now)
    jobs.wake(tx, SWEEP, at=due_at)
    return order


def cancel(tx: Tx, order_id: int, *, now: datetime) -> Order:
    """Stop an order before it is made, and give the money back. Against the press, one side wins."""
    order = store.read_order(tx, order_id, locked=True)
    if not order.is_cancellable:
        raise Refused(f"This order can no longer be cancelled: it is {order.status.display}.")
    stop(tx, order, to=OrderStatus.CANCELLED, why="Order cancelled", now=now)
    return store.read_order(tx, order_id)


def stop(tx: Tx, order: Order, *, to: OrderStatus, why: str, now: datetime) -> None:
    """End an order, which is locked, of which nothing is made yet: its pieces fail, and the money goes back.

    One fact of the order tells it for all its pieces.
    """
    store.swap_status(tx, [order.id], expected=[order.status], to=to, now=now)
    failed = {"status": ItemStatus.FAILED.value, "failure": why, "updated_at": now}
    tx.execute(STOP_ITEMS.where(items.c.order_id == order.id).values(**failed))
    tx.execute(STOP_ORDER, {"order_id": order.id})
    ledger.release_order(tx, order.id, now=now)
    events.order_status_changed(tx, [order.id], previous=order.status.value, now=now)
