"""Issues cards and encrypts their two secrets: the printed claim and the card itself. Neither is ever logged."""

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date, datetime

import sqlalchemy as sa

from quillpost.core import jobs
from quillpost.core.database import Tx
from quillpost.core.encryption import Encryptor
from quillpost.core.tokens import ULID_PREFIX
from quillpost.orders.giftcards.ports import CardRequest, CardSecret
from quillpost.orders.giftcards.rules import CLAIM_BYTES, claim_digest, encode_claim
from quillpost.orders.giftcards.tasks import ITEM_FAILED, RETURN_CARDS_TASK
from quillpost.orders.queries import LOCK_ORDERS_OF_ITEMS


def new_claim() -> str:
    """Never with the prefix of ids, which are shown in logs."""
    while (code := encode_claim(secrets.token_bytes(CLAIM_BYTES))).startswith(ULID_PREFIX):
        pass
    return code


def claim_context(item_id: int) -> str:
    return f"giftcards:{item_id}:claim"


def card_context(item_id: int) -> str:
    return f"giftcards:{item_id}:card"


def stock_context(row_id: int) -> str:
    return f"giftcard_stock:{row_id}:card"


def encrypt_claim(encryptor: Encryptor, item_id: int, claim: str) -> bytes:
    return encryptor.encrypt(claim.encode("ascii"), context=claim_context(item_id))


def decrypt_claim(encryptor: Encryptor, item_id: int, encrypted: bytes) -> str:
    return encryptor.decrypt(encrypted, context=claim_context(item_id)).decode("ascii")


def encrypt_card(encryptor: Encryptor, context: str, card: CardSecret) -> bytes:
    """`context` names the row in `giftcards` or `giftcard_stock`."""
    card_values = asdict(card) | {"expires_on": card.expires_on.isoformat() if card.expires_on else None}
    return encryptor.encrypt(json.dumps(card_values, separators=(",", ":")).encode(), context=context)


def decrypt_card(encryptor: Encryptor, context: str, encrypted: bytes) -> CardSecret:
    card_values = json.loads(encryptor.decrypt(encrypted, context=context))
    expires_on = date.fromisoformat(card_values["expires_on"]) if card_values["expires_on"] else None
    return CardSecret(**card_values | {"expires_on": expires_on})


LOCK_CARDS = sa.text("select item_id from giftcards where item_id = any(:items) order by item_id for no key update")

INSERT_CARD_REQUESTS = sa.text("""
    insert into giftcards (item_id, account_id, sub_account_id, mode, order_id, brand, cents,
                           status, issuer, asked_at)
    select i.id, i.account_id, i.sub_account_id, i.mode, i.order_id, o.giftcard_brand, i.gift_cents,
           'asked', :issuer, :now
      from items i join orders o on o.id = i.order_id
     where i.id = any(:items) and i.status = 'Processing'
       and o.giftcard_brand is not null and i.gift_cents > 0
     order by i.id
    on conflict (item_id) do nothing
""")

# The issuer that was asked before had none.
SET_ISSUER = sa.text("""
    update giftcards set issuer = :issuer
     where item_id = any(:items) and status = 'asked' and issuer is null
""")

SELECT_PENDING_CARDS = sa.text("""
    select g.item_id, g.reference, g.brand, g.cents, g.issuer, coalesce(b.issuer_code, g.brand) as product
      from giftcards g
      join items i on i.id = g.item_id
      left join giftcard_brands b on b.code = g.brand
     where g.item_id = any(:items) and g.status = 'asked' and i.status = 'Processing'
     order by g.item_id
""")

# A piece that has ended meanwhile brings no card, and its value went back when it ended: no money moves. What
# comes for a card that is void already was issued after it was returned to its issuer: it is returned again. One
# that was refused to another process meanwhile has failed its piece, too.
STORE_CARDS = sa.text("""
    with given as (
        select * from unnest(cast(:items as bigint[]), cast(:digests as bytea[]), cast(:claims as bytea[]),
                             cast(:cards as bytea[])) as g (item_id, digest, claim, card)),
    stored as (
        update giftcards c
           set status = 'issued', issuer = :issuer, issued_at = :now,
               claim_digest = g.digest, claim_sealed = g.claim, card_sealed = g.card
          from given g join items i on i.id = g.item_id
         where c.item_id = g.item_id and c.status = 'asked' and i.status = 'Processing'
        returning c.item_id, c.account_id, c.sub_account_id, c.mode, c.order_id, c.brand, c.cents),
    late as (
        update giftcards c
           set status = 'void', issuer = :issuer, voided_at = :now, given_back_at = null,
               void_reason = coalesce(c.void_reason, :why)
          from given g join items i on i.id = g.item_id
         where c.item_id = g.item_id and c.issued_at is null
           and (c.status = 'asked' and i.status <> 'Processing' or c.status in ('void', 'refused'))
        returning c.item_id),
    piece as (
        update items i set giftcard_brand = s.brand, updated_at = :now
          from stored s where i.id = s.item_id),
    money as (
        insert into ledger_moves (account_id, sub_account_id, mode, order_id, kind,
                                  source, target, cents, key, at)
        select account_id, sub_account_id, mode, order_id, 'issue', 'held', 'gifts', sum(cents),
               'issue:order:' || order_id || ':items:' || min(item_id) || '-' || max(item_id)
                   || ':' || count(*),
               :now
          from stored group by account_id, sub_account_id, mode, order_id)
    select (select count(*) from stored) as issued, (select count(*) from late) as late
""")

REFUSE_CARDS = sa.text("""
    update giftcards set status = 'refused'
     where item_id = any(:items) and status = 'asked' returning item_id
""")

CLEAR_ISSUER = sa.text(
    "update giftcards set issuer = null where item_id = any(:items) and status = 'asked' and issuer = :issuer"
)


@dataclass(frozen=True, slots=True)
class PendingCard:
    """A card that an item waits for."""

    item_id: int
    card_request: CardRequest
    issuer: str


@dataclass(frozen=True, slots=True)
class EncryptedCard:
    """A card as stored, with its claim."""

    item_id: int
    digest: bytes = field(repr=False)
    encrypted_claim: bytes = field(repr=False)
    encrypted_card: bytes = field(repr=False)


def request_cards(tx: Tx, item_ids: Sequence[int], *, issuer: str, now: datetime) -> list[PendingCard]:
    """Record the requests before the issuer is asked. Items that have a card, or need none, are left out."""
    query_params = {"items": list(item_ids)}
    lock_cards(tx, item_ids)
    tx.execute(INSERT_CARD_REQUESTS, query_params | {"issuer": issuer, "now": now})
    tx.execute(SET_ISSUER, query_params | {"issuer": issuer})
    return [
        PendingCard(row.item_id, CardRequest(str(row.reference), row.brand, row.product, row.cents), row.issuer)
        for row in tx.execute(SELECT_PENDING_CARDS, query_params)
    ]


def encrypt_cards(encryptor: Encryptor, cards: Mapping[int, CardSecret]) -> list[EncryptedCard]:
    """Each with a new claim. The caller holds the locks, so the key is seen in the rows before it can be retired."""
    encrypted_cards = []
    for item_id, card in cards.items():
        claim = new_claim()
        encrypted_cards.append(
            EncryptedCard(
                item_id,
                claim_digest(claim),
                encrypt_claim(encryptor, item_id, claim),
                encrypt_card(encryptor, card_context(item_id), card),
            )
        )
    return encrypted_cards


def store_cards(tx: Tx, cards: Sequence[EncryptedCard], *, issuer: str, now: datetime) -> int:
    """Store the cards and move their money; how many were stored. The caller holds the locks."""
    counts = tx.execute(
        STORE_CARDS,
        {
            "items": [card.item_id for card in cards],
            "digests": [card.digest for card in cards],
            "claims": [card.encrypted_claim for card in cards],
            "cards": [card.encrypted_card for card in cards],
            "issuer": issuer,
            "why": ITEM_FAILED,
            "now": now,
        },
    ).one()
    if counts.late:
        jobs.enqueue_unique(tx, RETURN_CARDS_TASK, at=now)
    return int(counts.issued)


def refuse_cards(tx: Tx, item_ids: Sequence[int]) -> list[int]:
    """The issuer will never issue these; which of them are new. The caller holds the locks and fails the items."""
    return sorted(tx.execute(REFUSE_CARDS, {"items": list(item_ids)}).scalars())


def clear_issuer(tx: Tx, item_ids: Sequence[int], *, issuer: str) -> None:
    """The issuer issued none of these: another may be asked."""
    tx.execute(CLEAR_ISSUER, {"items": list(item_ids), "issuer": issuer})


def lock_cards(tx: Tx, item_ids: Sequence[int]) -> None:
    """No other transaction moves items of their orders, or changes their cards, before this one ends. Orders come
    first, then cards, in the order of their ids, as where items are moved and cards become void."""
    tx.execute(LOCK_ORDERS_OF_ITEMS, {"items": list(item_ids)})
    tx.execute(LOCK_CARDS, {"items": list(item_ids)})
