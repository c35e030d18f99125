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
from quillpost.orders import items as order_items
from quillpost.orders.models import Order, OrderRequest
from quillpost.orders.rules import ItemStatus, OrderStatus
from quillpost.rendering.models import ReturnAddress, SenderName

SWEEP_TASK = "fulfillment.sweep_due_orders"
"""The task that takes orders whose review has ended; it lives above, so it is known by name alone."""

FAIL_PROCESSING_ITEMS = sa.update(items).where(items.c.status == ItemStatus.PROCESSING.value)

STOP_ORDER = sa.text(
    """
    update orders
       set n_failed = n_failed + n_processing, n_processing = 0, order_total = 0, gift_total = 0,
           hold_reasons = '{}', pool_at = null
     where id = :order_id
    """
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedOrder:
    """A wish after everything was looked up: nothing left that could refuse it.

    `listed_people` people of its lists become items later; `estimated_items` and `authorized_cents` count them
    already. The
    `leads_fee`, where people were bought for it, and `gift_total`, the cards that it brings, are held
    together with what is `authorized_cents`.
    """

    request: OrderRequest
    items: Sequence[order_items.NewItem]
    estimated_items: int
    authorized_cents: int
    sender: SenderName
    return_address: ReturnAddress
    listed_people: int = 0
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
    def total_cents(self) -> int:
        return self.authorized_cents + self.leads_fee + self.gift_total


def insert_order(
    tx: Tx, caller: Caller, prepared: PreparedOrder, *, due_at: datetime, needs_credit: bool = False, now: datetime
) -> Order:
    """Make it a durable order; its work starts when this transaction has committed.

    Where it `needs_credit` the account's must cover it, or it is `Unpaid`.
    """
    request, return_address, gift = prepared.request, prepared.return_address, prepared.request.gift
    order = order_items.insert_order(
        tx,
        {
            "account_id": caller.account_id,
            "sub_account_id": request.sub_account_id,
            "mode": caller.mode,
            "type": request.type,
            "size": request.size,
            "piece": request.piece,
            "mail_class": request.mail_class,
            "status": OrderStatus.REVIEWING.value,
            "method": request.method,
            "message": request.message,
            "message_template_id": request.message_template_id,
            "image_template_id": request.image_template_id,
            "style": request.style,
            "handwriting_color": request.handwriting_color,
            "handwriting_realism": request.handwriting_realism,
            "font_size": request.font_size,
            "front_image_url": request.front.url if request.front else None,
            "front_file_id": prepared.front_file_id,
            "background_url": request.background.url if request.background else None,
            "background_file_id": prepared.background_file_id,
            "pages_url": request.pages.url if request.pages else None,
            "pages_file_id": prepared.pages_file_id,
            "pdf_only": request.pdf_only,
            "branding": asdict(request.brand) if request.brand else None,
            "logo_file_id": prepared.logo_file_id,
            "qrcode_url": request.qrcode_url,
            "return_name": return_address.name,
            "return_address": return_address.address,
            "return_address2": return_address.address2,
            "return_city": return_address.city,
            "return_province": return_address.province,
            "return_postal_code": return_address.postal_code,
            "sender_name": prepared.sender.name,
            "sender_company": prepared.sender.company,
            "append_or_current_resident": request.append_or_current_resident,
            "allow_duplicates": request.allow_duplicates,
            "mailing_list_ids": list(request.mailing_list_ids),
            "notification_emails": list(request.notification_emails),
            "metadata": request.metadata,
            "creative_key": prepared.creative_key,
            "audience_pending": bool(request.mailing_list_ids),
            "total_estimated_recipients": prepared.estimated_items,
            "recipient_count": len(prepared.items) + prepared.listed_people,
            **order_items.count_by_status(prepared.items),
            "authorization_total": prepared.total_cents,
            "order_total": prepared.authorized_cents,
            "leads_fee": prepared.leads_fee,
            "gift_total": prepared.gift_total,
            "giftcard_brand": gift.brand if gift else None,
            "giftcard_title": gift.title if gift else None,
            "giftcard_accent": gift.accent if gift else None,
            "giftcard_amount": gift.cents if gift else None,
            "landing_page_url": gift.landing_page_url if gift else None,
            "warnings": list(prepared.warnings),
            "lowest_dpi": prepared.lowest_dpi,
            "lowest_contrast": prepared.lowest_contrast,
            "schedule_for": request.schedule_for,
            "due_at": due_at,
            "created_at": now,
            "updated_at": now,
        },
    )
    order_items.insert_items(tx, order, prepared.items, now=now)
    if needs_credit:
        credit.require_credit(tx, caller.account_id, caller.mode, cents=prepared.total_cents)
    ledger.authorize_order(
        tx,
        account_id=caller.account_id,
        sub_account_id=request.sub_account_id,
        mode=caller.mode,
        order_id=order.id,
        cents=prepared.total_cents,
        now=now,
    )
    events.record_order_status_change(tx, [order.id], previous=None, now=now)
    order_items.append_first_item_facts(tx, order.id, now=now)
    jobs.enqueue_unique(tx, SWEEP_TASK, at=due_at)
    return order


def cancel_order(tx: Tx, order_id: int, *, now: datetime) -> Order:
    """Stop an order before it is made, and give the money back. Against the press, one side wins."""
    order = order_items.read_order(tx, order_id, locked=True)
    if not order.is_cancellable:
        raise Refused(f"This order can no longer be cancelled: it is {order.status.display}.")
    stop_order(tx, order, new_status=OrderStatus.CANCELLED, reason="Order cancelled", now=now)
    return order_items.read_order(tx, order_id)


def stop_order(tx: Tx, order: Order, *, new_status: OrderStatus, reason: str, now: datetime) -> None:
    """End an order, which is locked, of which nothing is made yet: its pieces fail, and the money goes back.

    One fact of the order tells it for all its pieces.
    """
    order_items.change_status(tx, [order.id], expected=[order.status], new_status=new_status, now=now)
    failed_values = {"status": ItemStatus.FAILED.value, "failure": reason, "updated_at": now}
    tx.execute(FAIL_PROCESSING_ITEMS.where(items.c.order_id == order.id).values(**failed_values))
    tx.execute(STOP_ORDER, {"order_id": order.id})
    ledger.release_order_hold(tx, order.id, now=now)
    events.record_order_status_change(tx, [order.id], previous=order.status.value, now=now)
