"""Who of an order's recipients gets no piece, counted by the reason."""

from dataclasses import dataclass

import sqlalchemy as sa

from quillpost.database import Tx
from quillpost.orders.records import Order

MOST_REASONS = 20
"""Some reasons speak of one address alone: there may be as many as recipients."""
OTHER_REASONS = "Other reasons: each piece says its own."
ON_LISTS = "On the lists: each piece says its own reason once it is made."

# What failed after the carrier had it was mailed.
COUNT = sa.text(
    """
    select coalesce(failure, '') as reason, count(*) as recipients
      from items where order_id = :order and status = 'Failed' and not is_mailed
     group by 1 order by 2 desc, 1 limit :most
    """
)


@dataclass(frozen=True, slots=True)
class NotMailed:
    """So many recipients get nothing, all for the same reason."""

    reason: str
    count: int


def count_not_mailed(tx: Tx, order: Order) -> list[NotMailed]:
    """The most frequent reasons first, and all that is left as one: together the order's `not_mailed`."""
    if not order.not_mailed:
        return []
    rows = tx.execute(COUNT, {"order": order.id, "most": MOST_REASONS})
    found = [NotMailed(row.reason, row.recipients) for row in rows]
    left = order.not_mailed - sum(one.count for one in found)
    if left > 0:
        found.append(NotMailed(ON_LISTS if order.audience_pending else OTHER_REASONS, left))
    return found
