"""Whether there are cards enough for an order whose review ends: one for which there are not waits."""

from collections.abc import Mapping, Sequence
from datetime import datetime

import sqlalchemy as sa
import structlog

from quillpost.accounts.billing.rules import dollars
from quillpost.core.database import Tx
from quillpost.fulfillment.models import Press
from quillpost.orders.giftcards.brands import find_brands
from quillpost.orders.giftcards.ports import IssuerDown
from quillpost.orders.models import Gift

log = structlog.get_logger(__name__)

DUE = sa.text(
    """
    select distinct o.mode, o.giftcard_brand as brand, o.giftcard_amount as cents,
           coalesce(b.issuer_code, o.giftcard_brand) as product
      from orders o left join giftcard_brands b on b.code = o.giftcard_brand
     where o.status = 'reviewing' and o.due_at <= :now and o.giftcard_brand is not null
    """
)

NEEDED = sa.text(
    """
    select id, mode, giftcard_brand as brand, giftcard_title as title, giftcard_amount as cents,
           n_processing as cards
      from orders
     where id = any(:orders) and giftcard_brand is not null and n_processing > 0
     order by due_at, id
    """
)

# Pieces that were let go before, and whose card is not issued yet, come first.
PROMISED = sa.text(
    """
    select count(*) from orders o join items i on i.order_id = o.id
     where o.mode = :mode and o.giftcard_brand = :brand and o.giftcard_amount = :cents
       and o.giftcard_brand is not null and o.status in ('processing', 'printing')
       and i.status = 'Processing' and i.giftcard_brand is null and i.gift_cents > 0
    """
)

Kind = tuple[str, str, int]
"""Mode, brand and cents."""

Stock = Mapping[Kind, int]
"""How many are free and promised to nobody, of each kind of card that is not made as it is wanted."""


def look(press: Press, *, now: datetime) -> Stock:
    """What issuers have, beyond what they owe, of the cards that orders bring that are due.

    No transaction is open while they are asked; and what is promised, which may be a million pieces, is
    counted before orders are held.
    """
    with press.db.work() as tx:
        due = tx.execute(DUE, {"now": now}).all()
    found: dict[Kind, int] = {}
    for row in due:
        kind = row.mode, row.brand, row.cents
        left = _left(press, kind, row.product)
        if left is not None:
            found[kind] = left
    return found


def left_for(press: Press, mode: str, gift: Gift) -> int | None:
    """How many of such cards another order could have now; None: as many as it wants. To be asked while no
    transaction is open."""
    with press.db.work() as tx:
        brand = find_brands(tx, [gift.brand]).get(gift.brand)
    product = brand.issuer_code if brand is not None else None
    return _left(press, (mode, gift.brand, gift.cents), product or gift.brand)


def too_few(gift: Gift, cards: int, left: int | None) -> list[str]:
    """What a sender is told beforehand, where the review would hold the order."""
    if left is None or cards <= left:
        return []
    return [f"{_needs(gift.title, gift.cents, cards, left)}: it will be held until there are more."]


def _left(press: Press, kind: Kind, product: str) -> int | None:
    mode, brand, cents = kind
    try:
        free = press.issuers[mode].in_stock(brand, product, cents)
    except IssuerDown as down:
        # Pieces wait for it at the press, if they must.
        log.warning("giftcards.stock_unknown", brand=brand, trouble=str(down))
        return None
    return None if free is None else max(free - _promised(press, kind), 0)


def _promised(press: Press, kind: Kind) -> int:
    with press.db.work() as tx:
        counted = tx.execute(PROMISED, dict(zip(("mode", "brand", "cents"), kind, strict=True)))
        return int(counted.scalar_one())


def stock_reasons(tx: Tx, stock: Stock, order_ids: Sequence[int]) -> dict[int, list[str]]:
    """Why these orders should wait, by their ids; one that waits leaves its cards to the next."""
    found: dict[int, list[str]] = {}
    left = dict(stock)
    for row in tx.execute(NEEDED, {"orders": list(order_ids)}).all() if stock else ():
        kind = row.mode, row.brand, row.cents
        if kind not in left:
            continue
        if row.cards <= left[kind]:
            left[kind] -= row.cards
            continue
        found[row.id] = [
            f"{_needs(row.title, row.cents, row.cards, left[kind])}: have it released when there are"
            " more, or send it with another card."
        ]
    return found


def _needs(title: str, cents: int, cards: int, left: int) -> str:
    wanted = "card" if cards == 1 else "cards"
    are_free = f"{left:,} {'is' if left == 1 else 'are'} free"
    return f"It needs {cards:,} gift {wanted} of {title} over {dollars(cents)}, and {are_free}"
