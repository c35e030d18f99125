"""Many orders at once, written straight into the tables: nothing of theirs is drawn."""

from datetime import datetime
from typing import Any

import sqlalchemy as sa

from quillpost.app.container import Container

WRITE = sa.text(
    """
    insert into orders (account_id, sub_account_id, mode, type, size, piece, mail_class, status, method,
                        message, style, handwriting_color, handwriting_realism, font_size,
                        total_estimated_recipients, recipient_count, n_delivered, authorization_total,
                        order_total, due_at, created_at, updated_at)
    select :account_id, cast(:sub_account_id as bigint), :mode, :type, :size, :piece, 'first', :status, 'api',
           'Hi', 1, 'rgba(0,0,255,1)', true, 'auto',
           :pieces, :pieces, :pieces, 109 * :pieces, 109 * :pieces, :at, :at, :at
      from generate_series(1, :how_many)
    returning id
    """
)
WRITE_ITEMS = sa.text(
    """
    insert into items (account_id, sub_account_id, mode, order_id, status, price_cents, name, country,
                       created_at, updated_at)
    select o.account_id, o.sub_account_id, o.mode, o.id, 'Delivered', 109, 'Person ' || n, 'US', o.created_at,
           o.created_at
      from orders o, generate_series(1, o.recipient_count) n
     where o.id = any(:orders) order by o.id, n
    """
)


def insert_orders(
    container: Container,
    account_id: int,
    how_many: int,
    *,
    type: str = "postcard",  # noqa: A002
    size: str | None = "4x6",
    at: datetime | None = None,
    **changes: Any,
) -> list[int]:
    """Fulfilled orders of one account; `pieces` says how many delivered items each of them has."""
    values = {
        "account_id": account_id,
        "sub_account_id": None,
        "mode": "test",
        "status": "fulfilled",
        "pieces": 0,
        "type": type,
        "size": size,
        "piece": f"postcard-{size}" if size else type,
        "at": at or container.clock(),
        "how_many": how_many,
    } | changes
    with container.db.system_transaction() as tx:
        made = list(tx.execute(WRITE, values).scalars())
        if values["pieces"]:
            tx.execute(WRITE_ITEMS, {"orders": made})
    return made
