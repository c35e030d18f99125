"""What waits for the cut-off: pieces that may be printed and are in no batch yet."""

from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from quillpost.database import Tx

# Of an order that found too few barcodes some pieces are in a batch already.
WAITING = sa.text(
    """
    select o.pool_at, count(distinct o.id) as orders, count(*) as pieces
      from orders o
      join items i on i.order_id = o.id and i.status = 'Processing'
     where o.pool_at > :now and o.mode = :mode
       and not exists (select 1 from prints p where p.item_id = i.id)
     group by o.pool_at order by o.pool_at
    """
)


@dataclass(frozen=True, slots=True)
class Waiting:
    """So many pieces of so many orders wait until then."""

    until: datetime
    orders: int
    pieces: int


def list_waiting(tx: Tx, mode: str, *, now: datetime) -> list[Waiting]:
    """By the time they wait for, the next one first."""
    rows = tx.execute(WAITING, {"mode": mode, "now": now})
    return [Waiting(row.pool_at, row.orders, row.pieces) for row in rows]
