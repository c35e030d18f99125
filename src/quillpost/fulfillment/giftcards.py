"""The gift cards that a batch's items bring: issued before it is drawn.

Pieces for which there is no card at present wait in a batch of their own, with their barcodes, so that the
others go on. That batch says what it waits for, as do the orders.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

import sqlalchemy as sa
import structlog

from quillpost.accounts.billing.rules import dollars
from quillpost.core.database import Tx
from quillpost.core.database.tables.giftcards import giftcards
from quillpost.core.database.tables.print_room import prints
from quillpost.core.encryption import SealBroken, Sealer
from quillpost.core.errors import Unavailable
from quillpost.fulfillment import queries
from quillpost.fulfillment.batching import put_apart
from quillpost.fulfillment.models import Press
from quillpost.fulfillment.rules import reference
from quillpost.orders import designs
from quillpost.orders.giftcards import issuance
from quillpost.orders.giftcards.issuance import Asked
from quillpost.orders.giftcards.ports import GiftCard, NoCard
from quillpost.orders.models import Gift, Order
from quillpost.orders.rules import ItemStatus
from quillpost.orders.status import Move, move_items
from quillpost.rendering.models import Claim

log = structlog.get_logger(__name__)

AT_ONCE = 500
"""Cards that are asked for together, and kept before the next are asked for."""

REFUSED = "The gift card of this piece could not be issued"
CLOSED = "the claim to the gift card does not open, as where a key is missing. See `quillpost doctor`."
LEFT_OUT = "The issuer has not answered for all of them yet."

MOST_REASONS = 3

WAITING = sa.text(
    """
    select p.item_id, i.order_id from prints p
      join items i on i.id = p.item_id
      join giftcards g on g.item_id = p.item_id
     where p.batch_id = :batch and i.status = 'Processing' and g.status = 'asked'
     order by p.position
    """
)

TELL_WAITING = sa.text(
    """
    update orders o set hold_reasons = o.hold_reasons || t.told
      from unnest(cast(:orders as bigint[]), cast(:told as text[])) as t (id, told)
     where o.id = t.id and not t.told = any(o.hold_reasons)
    """
)

# Other batches may have pieces of the order that still wait: whoever is last takes it back.
TAKE_BACK = sa.text(
    """
    update orders o set hold_reasons = array_remove(o.hold_reasons, t.told)
      from unnest(cast(:orders as bigint[]), cast(:told as text[])) as t (id, told)
     where o.id = t.id and t.told = any(o.hold_reasons)
       and not exists (select 1 from giftcards g join items i on i.id = g.item_id
                        where g.order_id = o.id and g.status = 'asked' and i.status = 'Processing')
    """
)


def issue_cards(
    press: Press, batch: queries.Batch, item_ids: Sequence[int], orders: Mapping[int, Order], *, now: datetime
) -> str | None:
    """Have a card issued for each of the batch's pieces. Then every piece that is left in it has one, or has
    ended; where not one has, what they wait for.

    No transaction is open while an issuer is asked; `IssuerDown`, where it could not be.
    """
    issuer = press.issuers[batch.mode]
    with press.db.work() as tx:
        asked = issuance.ask(tx, item_ids, issuer=issuer.name, now=now)
    own = [each for each in asked if each.issuer == issuer.name]
    reasons = [_asked_of(each.issuer) for each in asked if each.issuer != issuer.name]
    for start in range(0, len(own), AT_ONCE):
        together = own[start : start + AT_ONCE]
        answers = issuer.issue([each.card for each in together], now=now)
        reasons += _keep(press, together, answers, issuer=issuer.name, now=now)
    trouble = " ".join(list(dict.fromkeys(reasons))[:MOST_REASONS])
    return _put_apart(press, batch, orders, trouble, now=now)


def _keep(
    press: Press,
    asked: Sequence[Asked],
    answers: Mapping[str, GiftCard | NoCard],
    *,
    issuer: str,
    now: datetime,
) -> list[str]:
    """Keep the cards, and fail the pieces that will never have one; why the others have none yet."""
    cards: dict[int, GiftCard] = {}
    refused: dict[int, str] = {}
    none_now: dict[int, str] = {}
    awaited: list[str] = []
    for each in asked:
        match answers.get(each.card.reference):
            case GiftCard() as card:
                cards[each.item_id] = card
            case NoCard(reason, "never"):
                refused[each.item_id] = reason
            case NoCard(reason, "none"):
                none_now[each.item_id] = reason
            case NoCard(reason):
                awaited.append(reason)
            case None:
                awaited.append(LEFT_OUT)
    with press.db.work() as tx:
        issuance.take_turns(tx, [each.item_id for each in asked])
        sealed = issuance.seal(press.sealer, cards)
        kept = issuance.take(tx, sealed, issuer=issuer, now=now) if sealed else 0
        if none_now:
            issuance.none_now(tx, list(none_now), issuer=issuer)
        failed = issuance.refuse(tx, list(refused)) if refused else []
        move_items(tx, [Move(item, ItemStatus.FAILED, why=REFUSED) for item in failed], now=now)
    log.info("giftcards.issued", issuer=issuer, asked=len(asked), kept=kept)
    for item in failed:
        log.warning("giftcards.refused", issuer=issuer, item=item, reason=refused[item])
    return [*none_now.values(), *awaited]


def _put_apart(
    press: Press, batch: queries.Batch, orders: Mapping[int, Order], trouble: str, *, now: datetime
) -> str | None:
    """Let the pieces without a card wait in a batch of their own; what they wait for, where they are all."""
    with press.db.work() as tx:
        if queries.read_batch(tx, batch.id, locked=True).status != "new":
            return None
        queries.take_turns(tx, [batch.id])
        waiting = tx.execute(WAITING, {"batch": batch.id}).all()
        _tell_senders(tx, orders, {row.order_id for row in waiting})
        if not waiting:
            return None
        pieces = "piece waits for its gift card" if len(waiting) == 1 else "pieces wait for their gift cards"
        told = f"{len(waiting):,} {pieces}. {trouble or LEFT_OUT}"
        apart = put_apart(tx, press, batch, [row.item_id for row in waiting], told, now=now)
    if apart is None:
        return told
    log.warning("batch.cards_awaited", batch=batch.id, apart=apart, pieces=len(waiting))
    return None


def part_closed(press: Press, batch: queries.Batch, item_ids: Sequence[int], *, now: datetime) -> str | None:
    """Let pieces whose claims cannot be read wait in a batch of their own; why, where they are all.

    They do not fail: a key may be missing here, and other pieces of the same senders would follow.
    """
    with press.db.work() as tx:
        if queries.read_batch(tx, batch.id, locked=True).status != "new":
            return None
        queries.take_turns(tx, [batch.id])
        queries.take_out_ended(tx, batch.id)
        left = {item.id for item in queries.batch_items(tx, batch.id).values()}
        unread = [item_id for item_id in item_ids if item_id in left]
        if not unread:
            return None
        pieces = "piece cannot" if len(unread) == 1 else "pieces cannot"
        told = f"{len(unread):,} {pieces} be printed: {CLOSED}"
        apart = put_apart(tx, press, batch, unread, told, now=now)
    log.warning("batch.claims_closed", batch=batch.id, apart=apart, items=unread)
    return told if apart is None else None


def end_waiting(tx: Tx, batch_id: int) -> None:
    """Pieces of the batch that have ended wait for no card: nor do their orders, if they were the last."""
    if not queries.has_ended(tx, batch_id):
        return
    queries.take_turns(tx, [batch_id])
    _tell_senders(tx, {order.id: order for order in queries.batch_orders(tx, batch_id)}, set())


def _tell_senders(tx: Tx, orders: Mapping[int, Order], waiting: set[int]) -> None:
    """What the orders of these pieces wait for is among their warnings, for as long as they do."""
    told = {order.id: waits_for(order.gift) for order in orders.values() if order.gift is not None}
    late = {order: words for order, words in told.items() if order in waiting}
    tx.execute(TELL_WAITING, {"orders": list(late), "told": list(late.values())})
    tx.execute(TAKE_BACK, {"orders": list(told), "told": list(told.values())})


def waits_for(gift: Gift) -> str:
    """What a sender reads whose pieces wait for cards."""
    return (
        f"Pieces of this order wait for gift cards of {gift.title} over {dollars(gift.cents)} that are not"
        " issued yet: they are printed as soon as they are."
    )


def _asked_of(issuer: str) -> str:
    return (
        f"Some were asked of {issuer}, who may have issued them: set QUILLPOST_GIFTCARDS back until they are"
        " printed."
    )


Claims = Mapping[int, bytes | None]
"""Sealed, by the pieces; None where a claim is no longer kept."""


def read_claims(tx: Tx, batch_id: int) -> Claims:
    """Those of every piece of the batch that has, or had, a card: a void one is printed as it was."""
    inside = (
        sa.select(giftcards.c.item_id, giftcards.c.claim_sealed)
        .join(prints, prints.c.item_id == giftcards.c.item_id)
        .where(prints.c.batch_id == batch_id, giftcards.c.claim_digest.is_not(None))
    )
    return {
        row.item_id: None if row.claim_sealed is None else bytes(row.claim_sealed)
        for row in tx.execute(inside)
    }


def opened(sealer: Sealer, batch_id: int, claims: Claims, *, qr_base: str) -> dict[int, Claim]:
    """The claims as they are printed, by the pieces; or `Unavailable`, where one is no longer kept."""
    return {
        item_id: designs.printed_claim(_open(sealer, batch_id, item_id, sealed), qr_base=qr_base)
        for item_id, sealed in claims.items()
    }


def closed(sealer: Sealer, claims: Claims, item_ids: Iterable[int]) -> list[int]:
    """Those of these pieces without a claim that can be read. Without it nothing of them is drawn."""
    return [item_id for item_id in item_ids if not _opens(sealer, item_id, claims.get(item_id))]


def _opens(sealer: Sealer, item_id: int, sealed: bytes | None) -> bool:
    try:
        return sealed is not None and bool(issuance.open_claim(sealer, item_id, sealed))
    except SealBroken:
        return False


def _open(sealer: Sealer, batch_id: int, item_id: int, sealed: bytes | None) -> str:
    if sealed is None:
        raise Unavailable(
            f"The print file of {reference(batch_id)} cannot be made again: the claims of its gift cards are"
            " forgotten once it is long in the mail. They still work for whoever has a piece."
        )
    return issuance.open_claim(sealer, item_id, sealed)
