"""Facts about orders. Facts about items are written by the statement that moves them (orders/items/service.py)."""

from collections.abc import Sequence
from datetime import datetime

import sqlalchemy as sa

from quillpost.core.database import Tx

INSERT_ORDER_STATUS_EVENTS = sa.text(
    """
    with fact as (
        insert into facts (account_id, sub_account_id, mode, kind, order_id,
                           order_status, previous, current, at)
        select account_id, sub_account_id, mode, 'order.status', id, status,
               cast(:previous as text), status, :now
          from orders where id = any(:orders) order by id
        returning id)
    insert into fact_queue (fact_id) select id from fact
    """
)


def record_order_status_change(tx: Tx, order_ids: Sequence[int], *, previous: str | None, now: datetime) -> None:
    """Call it after the status has changed from `previous`."""
    if order_ids:
        tx.execute(INSERT_ORDER_STATUS_EVENTS, {"orders": list(order_ids), "previous": previous, "now": now})
