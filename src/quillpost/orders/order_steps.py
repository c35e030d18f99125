"""How far an order is, by its counts: mailed when the carrier has its pieces, fulfilled when all have ended.

Whoever changes pieces calls this in the same transaction, holding the orders. Each step is a compare-and-swap
and an event of its own: an order that ends at once is mailed first.
"""

from collections.abc import Sequence
from datetime import datetime

import sqlalchemy as sa

from quillpost import events
from quillpost.database import Tx
from quillpost.orders.rules import ENDS, OrderStatus
from quillpost.orders.store import swap_status

# What failed before the carrier had it will not be mailed, and holds nothing back.
MAIL = sa.text(
    """
    update orders o set status = 'mailed', updated_at = :now
      from orders was
     where o.id = any(:orders) and was.id = o.id and o.status = was.status
       and o.status in ('processing', 'printing')
       and o.n_mailed > 0 and o.recipient_count = o.n_mailed + o.n_failed - o.n_lost
    returning o.id, was.status as previous
    """
)
CLOSE = sa.text(
    f"""
    update orders o set status = 'fulfilled', hold_reasons = '{{}}', updated_at = :now
      from orders was
     where o.id = any(:orders) and was.id = o.id and o.status = was.status
       and o.status in ('processing', 'printing', 'mailed')
       and o.recipient_count = {" + ".join(f"o.n_{end.tally}" for end in ENDS)} + o.n_over
    returning o.id, was.status as previous
    """
)


def advance_orders(tx: Tx, order_ids: Sequence[int], *, now: datetime) -> None:
    """Move each order on as far as its pieces are; an order that has ended waits for nothing any more."""
    if not order_ids:
        return
    for step in (MAIL, CLOSE):
        moved = tx.execute(step, {"orders": list(order_ids), "now": now}).all()
        for previous in {row.previous for row in moved}:
            ids = [row.id for row in moved if row.previous == previous]
            events.order_status_changed(tx, ids, previous=previous, now=now)


def print_again(tx: Tx, order_ids: Sequence[int], *, now: datetime) -> None:
    """Pieces of these orders are with the printer again: an order that said mailed says printing."""
    if not order_ids:
        return
    back = swap_status(tx, order_ids, expected=[OrderStatus.MAILED], to=OrderStatus.PRINTING, now=now)
    events.order_status_changed(tx, back, previous=OrderStatus.MAILED.value, now=now)
