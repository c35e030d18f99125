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


# By what the orders count themselves: one of them may have a million pieces. One that found too few barcodes
# counts those, too, that are in a batch and not printed yet.
BY_PRODUCT = sa.text(
    """
    select piece, mail_class, rush, min(pool_at) as until, count(*) as orders, sum(n_processing) as pieces
      from (select piece, mail_class, rush, pool_at, n_processing from orders
             where pool_at is not null and mode = :mode order by pool_at limit :most) o
     group by piece, mail_class, rush order by min(pool_at), piece, mail_class, rush
    """
)
MOST_ORDERS = 5_000


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


@dataclass(frozen=True, slots=True)
class Product:
    """So many pieces of one kind and class wait, the first of them until then."""

    piece: str
    mail_class: str
    rush: bool
    until: datetime
    orders: int
    pieces: int


@dataclass(frozen=True, slots=True)
class Due:
    """What waits, by product. Where there are more orders than are looked at, it is at least that."""

    products: list[Product]

    @property
    def orders(self) -> int:
        return sum(product.orders for product in self.products)

    @property
    def pieces(self) -> int:
        return sum(product.pieces for product in self.products)

    @property
    def until(self) -> datetime | None:
        """When the next of them are pooled."""
        return min((product.until for product in self.products), default=None)

    @property
    def is_more(self) -> bool:
        return self.orders >= MOST_ORDERS


def list_due(tx: Tx, mode: str) -> Due:
    """The next that will be pooled, at a cost that does not grow with their number."""
    rows = tx.execute(BY_PRODUCT, {"mode": mode, "most": MOST_ORDERS})
    return Due([Product(**row._mapping) for row in rows])
