"""Whether there are cards enough for an order whose review ends: one for which there are not waits."""

from collections.abc import Mapping, Sequence
from datetime import datetime

import sqlalchemy as sa
import structlog

from quillpost.core.database import Tx
from quillpost.fulfillment.models import ProductionContext
from quillpost.orders.giftcards.brands import find_brands
from quillpost.orders.giftcards.ports import IssuerDown
from quillpost.orders.giftcards.rules import shortage_text
from quillpost.orders.models import GiftcardChoice

log = structlog.get_logger(__name__)

READ_DUE_CARDS = sa.text(
    """
    select distinct o.mode, o.giftcard_brand as brand, o.giftcard_amount as cents,
           coalesce(b.issuer_code, o.giftcard_brand) as product
      from orders o left join giftcard_brands b on b.code = o.giftcard_brand
     where o.status = 'reviewing' and o.due_at <= :now and o.giftcard_brand is not null
    """
)

READ_NEEDED_CARDS = sa.text(
    """
    select id, mode, giftcard_brand as brand, giftcard_title as title, giftcard_amount as cents,
           n_processing as cards
      from orders
     where id = any(:orders) and giftcard_brand is not null and n_processing > 0
     order by due_at, id
    """
)

# Pieces that were let go before, and whose card is not issued yet, come first.
COUNT_PROMISED_CARDS = sa.text(
    """
    select count(*) from orders o join items i on i.order_id = o.id
     where o.mode = :mode and o.giftcard_brand = :brand and o.giftcard_amount = :cents
       and o.giftcard_brand is not null and o.status in ('processing', 'printing')
       and i.status = 'Processing' and i.giftcard_brand is null and i.gift_cents > 0
    """
)

CardKind = tuple[str, str, int]
"""Mode, brand and cents."""

CardStock = Mapping[CardKind, int]
"""How many are free and promised to nobody, of each kind of card that is not made as it is wanted."""


def read_card_stock(production: ProductionContext, *, now: datetime) -> CardStock:
    """What issuers have, beyond what they owe, of the cards that orders bring that are due.

    No transaction is open while they are asked; and what is promised, which may be a million pieces, is
    counted before orders are held.
    """
    with production.db.system_transaction() as tx:
        due_cards = tx.execute(READ_DUE_CARDS, {"now": now}).all()
    stock: dict[CardKind, int] = {}
    for row in due_cards:
        kind = row.mode, row.brand, row.cents
        available = _count_available(production, kind, row.product)
        if available is not None:
            stock[kind] = available
    return stock


def count_available_cards(production: ProductionContext, mode: str, gift: GiftcardChoice) -> int | None:
    """How many of such cards another order could have now; None: as many as it wants. To be asked while no
    transaction is open."""
    with production.db.system_transaction() as tx:
        brand = find_brands(tx, [gift.brand]).get(gift.brand)
    issuer_product = brand.issuer_code if brand is not None else None
    return _count_available(production, (mode, gift.brand, gift.cents), issuer_product or gift.brand)


def _count_available(production: ProductionContext, kind: CardKind, issuer_product: str) -> int | None:
    mode, brand, cents = kind
    try:
        free = production.giftcard_issuers[mode].in_stock(brand, issuer_product, cents)
    except IssuerDown as error:
        # Pieces wait for it at the press, if they must.
        log.warning("giftcards.stock_unavailable", brand=brand, error=str(error))
        return None
    return None if free is None else max(free - _count_promised(production, kind), 0)


def _count_promised(production: ProductionContext, kind: CardKind) -> int:
    with production.db.system_transaction() as tx:
        result = tx.execute(COUNT_PROMISED_CARDS, dict(zip(("mode", "brand", "cents"), kind, strict=True)))
        return int(result.scalar_one())


def find_stock_reasons(tx: Tx, stock: CardStock, order_ids: Sequence[int]) -> dict[int, list[str]]:
    """Why these orders should wait, by their ids; one that waits leaves its cards to the next."""
    reasons: dict[int, list[str]] = {}
    available = dict(stock)
    for row in tx.execute(READ_NEEDED_CARDS, {"orders": list(order_ids)}).all() if stock else ():
        kind = row.mode, row.brand, row.cents
        if kind not in available:
            continue
        if row.cards <= available[kind]:
            available[kind] -= row.cards
            continue
        reasons[row.id] = [
            f"{shortage_text(row.title, row.cents, row.cards, available[kind])}: have it released when there are"
            " more, or send it with another card."
        ]
    return reasons
