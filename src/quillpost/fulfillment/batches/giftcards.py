"""Gift cards of a batch's items: stock before the review ends, issuing before printing."""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

import sqlalchemy as sa
import structlog

from quillpost.accounts.billing.rules import format_dollars
from quillpost.core.database import Tx
from quillpost.core.database.tables.fulfillment import prints
from quillpost.core.database.tables.orders import giftcards
from quillpost.core.encryption import DecryptionFailed, Encryptor
from quillpost.core.errors import Message, Unavailable
from quillpost.fulfillment.batches import queries
from quillpost.fulfillment.batches.queries import ProductionBatch
from quillpost.fulfillment.batches.rules import batch_reference
from quillpost.fulfillment.batches.service import split_batch
from quillpost.fulfillment.models import ProductionContext
from quillpost.orders import designs
from quillpost.orders.giftcards import issuance
from quillpost.orders.giftcards.issuance import PendingCard
from quillpost.orders.giftcards.ports import CardNotIssued, CardSecret, IssuerDown
from quillpost.orders.giftcards.queries import find_brands
from quillpost.orders.giftcards.rules import shortage_text
from quillpost.orders.items.service import StatusChange, change_item_statuses
from quillpost.orders.models import GiftcardChoice, Order
from quillpost.orders.rules import ItemStatus
from quillpost.rendering.models import GiftcardClaim

log = structlog.get_logger(__name__)
CARDS_PER_REQUEST = 500
CARD_REFUSED = "The gift card of this piece could not be issued"
CLAIM_UNREADABLE = "the claim to the gift card does not open, as where a key is missing. See `quillpost doctor`."
NO_ISSUER_RESPONSE = "The issuer has not answered for all of them yet."
MAX_REASONS = 3
GIFTCARDS_PENDING = "giftcards_pending"

FIND_WAITING_ITEMS = sa.text("""
    select p.item_id, i.order_id from prints p
      join items i on i.id = p.item_id
      join giftcards g on g.item_id = p.item_id
     where p.batch_id = :batch and i.status = 'Processing' and g.status = 'asked'
     order by p.position
""")

ADD_HOLD_REASONS = sa.text(f"""
    update orders o set hold_reasons = o.hold_reasons || t.reason
      from unnest(cast(:orders as bigint[]), cast(:reasons as jsonb[])) as t (id, reason)
     where o.id = t.id and not jsonb_path_exists(o.hold_reasons, '$[*] ? (@.code == "{GIFTCARDS_PENDING}")')
""")

# Other batches may have items of the order that still wait: the last one removes the reason.
REMOVE_HOLD_REASONS = sa.text(f"""
    update orders o
       set hold_reasons = jsonb_path_query_array(o.hold_reasons, '$[*] ? (@.code != "{GIFTCARDS_PENDING}")')
     where o.id = any(:orders) and jsonb_path_exists(o.hold_reasons, '$[*] ? (@.code == "{GIFTCARDS_PENDING}")')
       and not exists (select 1 from giftcards g join items i on i.id = g.item_id
                        where g.order_id = o.id and g.status = 'asked' and i.status = 'Processing')
""")


def issue_cards(
    production: ProductionContext,
    batch: ProductionBatch,
    item_ids: Sequence[int],
    orders: Mapping[int, Order],
    *,
    now: datetime,
) -> str | None:
    """Have a card issued for each of the batch's items. Afterward every item left in it has one; where none has, why.
    No transaction is open while an issuer is asked; `IssuerDown`, where it cannot be reached."""
    issuer = production.giftcard_issuers[batch.mode]
    with production.db.system_transaction() as tx:
        card_requests = issuance.request_cards(tx, item_ids, issuer=issuer.name, now=now)
    own_requests = [pending for pending in card_requests if pending.issuer == issuer.name]
    reasons = [
        f"Some were asked of {pending.issuer}, who may have issued them: set QUILLPOST_GIFTCARDS back until they are"
        " printed."
        for pending in card_requests
        if pending.issuer != issuer.name
    ]
    for start in range(0, len(own_requests), CARDS_PER_REQUEST):
        chunk = own_requests[start : start + CARDS_PER_REQUEST]
        responses = issuer.issue([pending.card_request for pending in chunk], now=now)
        reasons += _store_issued_cards(production, chunk, responses, issuer=issuer.name, now=now)
    error = " ".join(list(dict.fromkeys(reasons))[:MAX_REASONS])
    return _split_waiting_items(production, batch, orders, error, now=now)


def _store_issued_cards(
    production: ProductionContext,
    card_requests: Sequence[PendingCard],
    responses: Mapping[str, CardSecret | CardNotIssued],
    *,
    issuer: str,
    now: datetime,
) -> list[str]:
    """Store the cards, and fail the items that will never have one; why the others have none yet."""
    cards: dict[int, CardSecret] = {}
    refused: dict[int, str] = {}
    out_of_stock: dict[int, str] = {}
    awaited_reasons: list[str] = []
    for pending in card_requests:
        match responses.get(pending.card_request.reference):
            case CardSecret() as card:
                cards[pending.item_id] = card
            case CardNotIssued(reason, "never"):
                refused[pending.item_id] = reason
            case CardNotIssued(reason, "none"):
                out_of_stock[pending.item_id] = reason
            case CardNotIssued(reason):
                awaited_reasons.append(reason)
            case None:
                awaited_reasons.append(NO_ISSUER_RESPONSE)
    with production.db.system_transaction() as tx:
        issuance.lock_cards(tx, [pending.item_id for pending in card_requests])
        encrypted = issuance.encrypt_cards(production.encryptor, cards)
        stored = issuance.store_cards(tx, encrypted, issuer=issuer, now=now) if encrypted else 0
        if out_of_stock:
            issuance.clear_issuer(tx, list(out_of_stock), issuer=issuer)
        failed = issuance.refuse_cards(tx, list(refused)) if refused else []
        change_item_statuses(
            tx, [StatusChange(item_id, ItemStatus.FAILED, reason=CARD_REFUSED) for item_id in failed], now=now
        )
    log.info("giftcards.issued", issuer=issuer, requested=len(card_requests), stored=stored)
    for item_id in failed:
        log.warning("giftcards.issue_refused", issuer=issuer, item=item_id, reason=refused[item_id])
    return [*out_of_stock.values(), *awaited_reasons]


def _split_waiting_items(
    production: ProductionContext, batch: ProductionBatch, orders: Mapping[int, Order], error: str, *, now: datetime
) -> str | None:
    """Move the items without a card to a batch of their own; why they wait, where that is all of them."""
    with production.db.system_transaction() as tx:
        if queries.read_batch(tx, batch.id, locked=True).status != "new":
            return None
        queries.lock_batch_orders(tx, [batch.id])
        waiting = tx.execute(FIND_WAITING_ITEMS, {"batch": batch.id}).all()
        _update_hold_reasons(tx, orders, {row.order_id for row in waiting})
        if not waiting:
            return None
        noun = "piece waits for its gift card" if len(waiting) == 1 else "pieces wait for their gift cards"
        message = f"{len(waiting):,} {noun}. {error or NO_ISSUER_RESPONSE}"
        new_batch_id = split_batch(tx, production, batch, [row.item_id for row in waiting], message, now=now)
    if new_batch_id is None:
        return message
    log.warning("batches.giftcards_pending", batch=batch.id, new_batch=new_batch_id, items=len(waiting))
    return None


def split_unreadable_items(
    production: ProductionContext, batch: ProductionBatch, item_ids: Sequence[int], *, now: datetime
) -> str | None:
    """Move items whose claims cannot be read to a batch of their own; why, where that is all of them. They do not fail:
    a key may only be missing here."""
    with production.db.system_transaction() as tx:
        if queries.read_batch(tx, batch.id, locked=True).status != "new":
            return None
        queries.lock_batch_orders(tx, [batch.id])
        queries.remove_ended_items(tx, batch.id)
        remaining_ids = {item.id for item in queries.read_batch_items(tx, batch.id).values()}
        unreadable_ids = [item_id for item_id in item_ids if item_id in remaining_ids]
        if not unreadable_ids:
            return None
        noun = "piece cannot" if len(unreadable_ids) == 1 else "pieces cannot"
        message = f"{len(unreadable_ids):,} {noun} be printed: {CLAIM_UNREADABLE}"
        new_batch_id = split_batch(tx, production, batch, unreadable_ids, message, now=now)
    log.warning("batches.claims_unreadable", batch=batch.id, new_batch=new_batch_id, item_ids=unreadable_ids)
    return message if new_batch_id is None else None


def clear_ended_holds(tx: Tx, batch_id: int) -> None:
    """Remove the hold reason of orders whose last waiting item has ended."""
    if not queries.has_ended_items(tx, batch_id):
        return
    queries.lock_batch_orders(tx, [batch_id])
    _update_hold_reasons(tx, {order.id: order for order in queries.read_batch_orders(tx, batch_id)}, set())


def _update_hold_reasons(tx: Tx, orders: Mapping[int, Order], waiting_order_ids: set[int]) -> None:
    reasons = {order.id: waiting_reason(order.gift) for order in orders.values() if order.gift is not None}
    waiting_ids = [order_id for order_id in reasons if order_id in waiting_order_ids]
    documents = [json.dumps(reasons[order_id].to_json()) for order_id in waiting_ids]
    tx.execute(ADD_HOLD_REASONS, {"orders": waiting_ids, "reasons": documents})
    tx.execute(REMOVE_HOLD_REASONS, {"orders": list(reasons)})


def waiting_reason(gift: GiftcardChoice) -> Message:
    return Message(
        GIFTCARDS_PENDING,
        f"Pieces of this order wait for gift cards of {gift.title} over {format_dollars(gift.cents)} that are not"
        " issued yet: they are printed as soon as they are.",
    )


EncryptedClaims = Mapping[int, bytes | None]
"""Encrypted, by item; None where a claim is no longer stored."""


def read_claims(tx: Tx, batch_id: int) -> EncryptedClaims:
    """The claims of every item of the batch that has, or had, a card: a void one is printed as it was."""
    query = (
        sa.select(giftcards.c.item_id, giftcards.c.claim_sealed)
        .join(prints, prints.c.item_id == giftcards.c.item_id)
        .where(prints.c.batch_id == batch_id, giftcards.c.claim_digest.is_not(None))
    )
    return {row.item_id: None if row.claim_sealed is None else bytes(row.claim_sealed) for row in tx.execute(query)}


def decrypt_claims(
    encryptor: Encryptor, batch_id: int, claims: EncryptedClaims, *, qr_base: str
) -> dict[int, GiftcardClaim]:
    """The claims as they are printed, by item; or `Unavailable`, where one is no longer stored."""
    return {
        item_id: designs.build_claim(_decrypt_claim(encryptor, batch_id, item_id, encrypted), qr_base=qr_base)
        for item_id, encrypted in claims.items()
    }


def find_unreadable_claims(encryptor: Encryptor, claims: EncryptedClaims, item_ids: Iterable[int]) -> list[int]:
    return [item_id for item_id in item_ids if not _is_readable(encryptor, item_id, claims.get(item_id))]


def _is_readable(encryptor: Encryptor, item_id: int, encrypted: bytes | None) -> bool:
    try:
        return encrypted is not None and bool(issuance.decrypt_claim(encryptor, item_id, encrypted))
    except DecryptionFailed:
        return False


def _decrypt_claim(encryptor: Encryptor, batch_id: int, item_id: int, encrypted: bytes | None) -> str:
    if encrypted is None:
        raise Unavailable(
            f"The print file of {batch_reference(batch_id)} cannot be made again: the claims of its gift cards are"
            " forgotten once it is long in the mail. They still work for whoever has a piece."
        )
    return issuance.decrypt_claim(encryptor, item_id, encrypted)


READ_DUE_CARDS = sa.text("""
    select distinct o.mode, o.giftcard_brand as brand, o.giftcard_amount as cents,
           coalesce(b.issuer_code, o.giftcard_brand) as product
      from orders o left join giftcard_brands b on b.code = o.giftcard_brand
     where o.status = 'reviewing' and o.due_at <= :now and o.giftcard_brand is not null
""")

READ_NEEDED_CARDS = sa.text("""
    select id, mode, giftcard_brand as brand, giftcard_title as title, giftcard_amount as cents,
           n_processing as cards
      from orders
     where id = any(:orders) and giftcard_brand is not null and n_processing > 0
     order by due_at, id
""")

# Items that were released before, and whose card is not issued yet, come first.
COUNT_PROMISED_CARDS = sa.text("""
    select count(*) from orders o join items i on i.order_id = o.id
     where o.mode = :mode and o.giftcard_brand = :brand and o.giftcard_amount = :cents
       and o.giftcard_brand is not null and o.status in ('processing', 'printing')
       and i.status = 'Processing' and i.giftcard_brand is null and i.gift_cents > 0
""")

CardKind = tuple[str, str, int]  # mode, brand, cents
CardStock = Mapping[CardKind, int]
"""How many cards are free and not promised, for each kind that is not issued on demand."""


def read_card_stock(production: ProductionContext, *, now: datetime) -> CardStock:
    """Cards that issuers have, beyond those promised, for due orders. No transaction is open while they are asked;
    promised cards, maybe a million, are counted before orders are locked."""
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
    """How many such cards another order could have now; None: no limit. Call it while no transaction is open."""
    with production.db.system_transaction() as tx:
        brand = find_brands(tx, [gift.brand]).get(gift.brand)
    issuer_product = brand.issuer_code if brand is not None else None
    return _count_available(production, (mode, gift.brand, gift.cents), issuer_product or gift.brand)


def _count_available(production: ProductionContext, kind: CardKind, issuer_product: str) -> int | None:
    mode, brand, cents = kind
    try:
        free = production.giftcard_issuers[mode].in_stock(brand, issuer_product, cents)
    except IssuerDown as error:
        # Items wait for it in production, if they must.
        log.warning("giftcards.stock_unavailable", brand=brand, error=str(error))
        return None
    if free is None:
        return None
    with production.db.system_transaction() as tx:
        params = {"mode": mode, "brand": brand, "cents": cents}
        return max(free - int(tx.execute(COUNT_PROMISED_CARDS, params).scalar_one()), 0)


def find_stock_reasons(tx: Tx, stock: CardStock, order_ids: Sequence[int]) -> dict[int, list[Message]]:
    """Why these orders should wait, by id; one that waits leaves its cards to the next."""
    reasons: dict[int, list[Message]] = {}
    available = dict(stock)
    for row in tx.execute(READ_NEEDED_CARDS, {"orders": list(order_ids)}).all() if stock else ():
        kind = row.mode, row.brand, row.cents
        if kind not in available:
            continue
        if row.cards <= available[kind]:
            available[kind] -= row.cards
            continue
        shortage = shortage_text(row.title, row.cents, row.cards, available[kind])
        text = f"{shortage}: have it released when there are more, or send it with another card."
        reasons[row.id] = [Message("giftcards_short", text)]
    return reasons
