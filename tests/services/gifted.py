"""Gift card orders whose cards are issued, claimed and reported without any paper."""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from makers import GIFT, Account
from quillpost.app.container import Parts
from quillpost.core.database.tables.base import items
from quillpost.core.database.tables.giftcards import giftcards
from quillpost.orders.giftcards import claims, issuance
from quillpost.orders.giftcards.ports import GiftCard
from quillpost.orders.items import swap_status
from quillpost.orders.rules import ItemStatus, OrderStatus
from quillpost.orders.status import Move, move_items

BRAND, VALUE = str(GIFT["giftcard_brand"]), int(GIFT["giftcard_amount"])


def send_gifts(sender: Account, **changes: Any) -> int:
    """An order of gift cards; its id."""
    sent = sender.send("giftcard", **changes)
    assert sent.status_code == 200, sent.text
    return int(sent.json()["id"])


def pieces_of(parts: Parts, order_id: int) -> list[int]:
    with parts.db.work() as tx:
        found = sa.select(items.c.id).where(items.c.order_id == order_id).order_by(items.c.id)
        return list(tx.execute(found).scalars())


def end_review_of(parts: Parts, order_id: int) -> None:
    ends = {"expected": [OrderStatus.REVIEWING], "to": OrderStatus.PROCESSING}
    with parts.db.work() as tx:
        swap_status(tx, [order_id], now=parts.clock(), **ends)  # type: ignore[arg-type]


def issue(parts: Parts, item_ids: Sequence[int]) -> None:
    """Each piece that waits for a card has one, of those that testing mode makes up."""
    issuer, now = parts.press.issuers["test"], parts.clock()
    with parts.db.work() as tx:
        asked = issuance.ask(tx, item_ids, issuer=issuer.name, now=now)
    given = issuer.issue([each.card for each in asked], now=now)
    cards = {each.item_id: given[each.card.reference] for each in asked}
    sealed = issuance.seal(
        parts.sealer, {item_id: card for item_id, card in cards.items() if isinstance(card, GiftCard)}
    )
    with parts.db.work() as tx:
        issuance.take(tx, sealed, issuer=issuer.name, now=now)


def move(parts: Parts, item_ids: Sequence[int], *way: ItemStatus) -> None:
    for to in way:
        with parts.db.work() as tx:
            move_items(tx, [Move(each, to, why="so it went") for each in item_ids], now=parts.clock())


def issued(parts: Parts, order_id: int) -> list[int]:
    """The order is being made, and all its cards are issued; its pieces."""
    end_review_of(parts, order_id)
    pieces = pieces_of(parts, order_id)
    issue(parts, pieces)
    return pieces


def mailed(parts: Parts, sender: Account, **changes: Any) -> int:
    """A piece with a card that is in the mail."""
    [piece] = issued(parts, send_gifts(sender, **changes))
    move(parts, [piece], ItemStatus.PRINTED, ItemStatus.IN_TRANSIT)
    return piece


def claim_of(parts: Parts, item_id: int) -> str:
    """What is printed on the piece."""
    with parts.db.work() as tx:
        found = sa.select(giftcards.c.claim_sealed).where(giftcards.c.item_id == item_id)
        return issuance.open_claim(parts.sealer, item_id, bytes(tx.execute(found).scalar_one()))


def claim(parts: Parts, item_id: int) -> None:
    """Whoever has the piece has its code shown, if that may be."""
    with parts.db.work() as tx:
        claims.claim_card(tx, parts.sealer, claim_of(parts, item_id), now=parts.clock())


def card_row(parts: Parts, item_id: int) -> sa.Row[Any]:
    with parts.db.work() as tx:
        return tx.execute(sa.select(giftcards).where(giftcards.c.item_id == item_id)).one()
