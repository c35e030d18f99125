"""Gift cards that their sender takes back while nobody has claimed them, and sends anew.

The value is credit again in the transaction that makes the card void, and that may pay for another in its
place: both are done or neither is. Asked again, what is done stays done.
"""

from dataclasses import dataclass
from datetime import date, datetime

from quillpost.accounts.models import Caller
from quillpost.core.database import Tx
from quillpost.core.errors import Refused
from quillpost.orders import items, replay
from quillpost.orders import queries as order_queries
from quillpost.orders.giftcards import returns
from quillpost.orders.giftcards.queries import ItemGiftcard, read_card
from quillpost.orders.models import Item, Order, ReplayRequest
from quillpost.orders.resolution import ResolvedOrder
from quillpost.orders.rules import ItemStatus

NO_CARD = "This piece brings no gift card."
NOT_ISSUED = "The gift card of this piece is not issued yet: cancel the order instead, while it can be."
NEVER_ISSUED = "This piece has no gift card: it was not mailed, and nothing is charged for it."
RECIPIENT_ERASED = "The recipient of this piece is not known any more: there is nobody to send another card to."
NOT_PRINTED_YET = "Another card can be sent once the order is printed; without reissue the card is taken back now."


@dataclass(frozen=True, slots=True)
class VoidableCard:
    """A card that can be void, or is, with its piece and order."""

    card: ItemGiftcard
    item: Item
    order: Order


def find_voidable_card(tx: Tx, item_id: int, *, locked: bool = False) -> VoidableCard:
    """The piece's card if it can be void, or is; `Refused` says why not. `locked`, so it stays until this
    transaction ends: whoever would issue, claim, fail or take it back waits."""
    item = order_queries.read_item(tx, item_id)
    order = items.read_order(tx, item.order_id, locked=locked)
    card = read_card(tx, item_id, locked=locked)
    if locked:
        item = order_queries.read_item(tx, item_id)
    if order.gift is None:
        raise Refused(NO_CARD)
    if card is None or card.issued_at is None:
        raise Refused(NEVER_ISSUED if item.status is ItemStatus.FAILED else NOT_ISSUED)
    if card.claimed_at is not None:
        raise Refused(
            f"This gift card was claimed on {card.claimed_at:%Y-%m-%d at %H:%M} UTC: it can no longer be taken back."
        )
    return VoidableCard(card, item, order)


def resolve_reissue(tx: Tx, caller: Caller, voidable: VoidableCard, *, price_date: date) -> ResolvedOrder:
    """The request for another card to the same recipient, with the same creative."""
    if voidable.item.address is None:
        raise Refused(RECIPIENT_ERASED)
    if replay.is_unmailed(voidable.order):
        raise Refused(NOT_PRINTED_YET)
    reissue = ReplayRequest.for_one(voidable.order.id, replay.recipient_row(voidable.item))
    return replay.resolve_replay(tx, caller, reissue, price_date=price_date)


def void_card(tx: Tx, voidable: VoidableCard, *, reason: str | None, now: datetime) -> bool:
    """Whether this call made the card, which is locked, void."""
    return returns.void_cards(tx, [voidable.card.item_id], reason=reason, now=now) == 1
