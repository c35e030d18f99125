"""Ends an order before anything of it is made, and gives the money back."""

from datetime import datetime

import sqlalchemy as sa

from quillpost.accounts.billing import ledger
from quillpost.core import events
from quillpost.core.database import Tx
from quillpost.core.database.tables.base import items
from quillpost.core.errors import Refused
from quillpost.orders import items as order_items
from quillpost.orders.models import Order
from quillpost.orders.rules import ItemStatus, OrderStatus

FAIL_PROCESSING_ITEMS = sa.update(items).where(items.c.status == ItemStatus.PROCESSING.value)

STOP_ORDER = sa.text(
    """
    update orders
       set n_failed = n_failed + n_processing, n_processing = 0, order_total = 0, gift_total = 0,
           hold_reasons = '{}', pool_at = null
     where id = :order_id
    """
)


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
