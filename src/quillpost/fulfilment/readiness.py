"""What an order's own pieces lack before they may reach paper: a price. The rest is the world's `gaps`."""

from collections.abc import Sequence
from datetime import date

import sqlalchemy as sa

from quillpost.database import Tx
from quillpost.orders.pieces import DISPLAY_TYPES
from quillpost.pricing.rules import EVERYWHERE_ELSE

# Where a price for every other country is in force, no piece needs to be looked at.
PRICE_GAPS = sa.text(
    f"""
    with open as (
        select id, type, size, mail_class from orders o
         where id = any(:orders) and not exists (
               select 1 from prices p
                where (p.type, p.size, p.mail_class) = (o.type, coalesce(o.size, ''), o.mail_class)
                  and p.country = '{EVERYWHERE_ELSE}' and p.valid_from <= :on)),
    destinations as (
        select distinct o.id, o.type, o.size, o.mail_class, i.country
          from open o join items i on i.order_id = o.id
         where i.status = 'Processing')
    select id, type, size, mail_class, country from destinations d
     where not exists (
           select 1 from prices p
            where (p.type, p.size, p.mail_class) = (d.type, coalesce(d.size, ''), d.mail_class)
              and p.country = d.country and p.valid_from <= :on)
     order by id, country
    """
)


def price_gaps(tx: Tx, order_ids: Sequence[int], *, on: date) -> dict[int, list[str]]:
    """By order, a sentence for each destination that no price is in force for that day."""
    gaps: dict[int, list[str]] = {}
    for row in tx.execute(PRICE_GAPS, {"orders": list(order_ids), "on": on}):
        what = DISPLAY_TYPES.get((row.type, row.size), row.type)
        gaps.setdefault(row.id, []).append(
            f"No price is in force for {what} by {row.mail_class} class to {row.country}."
        )
    return gaps
