"""Cards that an operator has loaded, and sandbox cards."""

import secrets
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta

import sqlalchemy as sa

from quillpost.core.database import Database, Tx
from quillpost.core.encryption import Encryptor
from quillpost.core.text import Clock
from quillpost.orders.giftcards import issuance
from quillpost.orders.giftcards.ports import CardNotIssued, CardRequest, CardSecret
from quillpost.orders.giftcards.rules import CLAIM_ALPHABET
from quillpost.orders.giftcards.stock import MIN_VALIDITY, reserve_stock_ids

# Two requests for the same card would each take another one, so they take a lock. A locked card (being encrypted again,
# say) is waited for, in the order of ids.
_LOCK_STOCK = sa.text("select pg_advisory_xact_lock(hashtextextended('giftcard stock', 0))")

_TAKE_FREE_CARDS = sa.text("""
    with wanted as (
        select w.*, row_number() over (partition by brand, cents order by place) as turn
          from unnest(cast(:references as uuid[]), cast(:brands as text[]), cast(:cents as integer[]))
               with ordinality as w (reference, brand, cents, place)
         where not exists (select 1 from giftcard_stock s where s.taken_by = w.reference)),
    free as materialized (
        select s.id, s.brand, s.cents,
               row_number() over (partition by s.brand, s.cents order by s.expires_on, s.id) as turn
          from (select brand, cents, count(*) as many from wanted group by brand, cents) kind
          join lateral (
                select id, brand, cents, expires_on from giftcard_stock
                 where mode = :mode and brand = kind.brand and cents = kind.cents
                   and taken_by is null and set_aside_at is null
                   and (expires_on is null or expires_on >= :good_on)
                 order by expires_on, id limit kind.many) s on true),
    mine as materialized (
        select id from giftcard_stock where id in (select id from free) order by id for update)
    update giftcard_stock s set taken_by = w.reference, taken_at = :now
      from wanted w
      join free f on (f.brand, f.cents, f.turn) = (w.brand, w.cents, w.turn)
      join mine m on m.id = f.id
     where s.id = m.id
""")

_SELECT_TAKEN = sa.text("""
    select id, taken_by, card_sealed from giftcard_stock where taken_by = any(cast(:references as uuid[]))
""")

_COUNT_FREE_CARDS = sa.text("""
    select count(*) from giftcard_stock
     where mode = :mode and brand = :brand and cents = :cents and taken_by is null and set_aside_at is null
       and (expires_on is null or expires_on >= :good_on)
""")

_RETURN_CARD = sa.text(
    "update giftcard_stock set taken_by = null, taken_at = null where taken_by = cast(:reference as uuid)"
)

_DELETE_CARD = sa.text("delete from giftcard_stock where taken_by = cast(:reference as uuid)")

_INSERT_SANDBOX_CARDS = sa.text("""
    insert into giftcard_stock
           (id, mode, brand, cents, card_sealed, expires_on, source, loaded_at, taken_by, taken_at)
    overriding system value
    select m.id, 'test', m.brand, m.cents, m.card_sealed, :expires_on, :source, :now, m.reference, :now
      from unnest(cast(:ids as bigint[]), cast(:brands as text[]), cast(:cents as integer[]),
                  cast(:sealed as bytea[]), cast(:references as uuid[]))
           as m (id, brand, cents, card_sealed, reference)
     order by m.reference
    on conflict (taken_by) do nothing
""")

SANDBOX_SOURCE = "testing mode"
SANDBOX_LIFETIME = timedelta(days=365)


class StockCards:
    """Each card is given once, those that expire first before others. When they run out, items wait."""

    name = "stock"

    def __init__(self, db: Database, encryptor: Encryptor, *, clock: Clock, mode: str = "live") -> None:
        self._db, self._encryptor, self._clock, self._mode = db, encryptor, clock, mode

    def issue(self, card_requests: Sequence[CardRequest], *, now: datetime) -> Mapping[str, CardSecret | CardNotIssued]:
        card_requests = list({card.reference: card for card in card_requests}.values())
        with self._db.system_transaction() as tx:
            tx.execute(_LOCK_STOCK)
            self._take_cards(tx, card_requests, now=now)
            rows = tx.execute(_SELECT_TAKEN, {"references": [card.reference for card in card_requests]}).all()
        cards_by_reference = {
            str(row.taken_by): issuance.decrypt_card(
                self._encryptor, issuance.stock_context(row.id), bytes(row.card_sealed)
            )
            for row in rows
        }
        return {
            card.reference: cards_by_reference.get(card.reference)
            or CardNotIssued(f"There are no cards of {card.brand} over {card.cents} cents left.")
            for card in card_requests
        }

    def in_stock(self, brand: str, product: str, cents: int) -> int | None:
        del product
        stock_key = {"mode": self._mode, "brand": brand, "cents": cents}
        with self._db.system_transaction() as tx:
            good_on = (self._clock() + MIN_VALIDITY).date()
            return int(tx.execute(_COUNT_FREE_CARDS, stock_key | {"good_on": good_on}).scalar_one())

    def return_card(self, reference: str, *, now: datetime) -> bool:
        del now
        with self._db.system_transaction() as tx:
            tx.execute(_RETURN_CARD, {"reference": reference})
        return True

    def _take_cards(self, tx: Tx, card_requests: Sequence[CardRequest], *, now: datetime) -> None:
        """A card for each that has none yet, as far as there are any."""
        params = {
            "references": [card.reference for card in card_requests],
            "brands": [card.brand for card in card_requests],
            "cents": [card.cents for card in card_requests],
            "mode": self._mode,
            "good_on": (now + MIN_VALIDITY).date(),
            "now": now,
        }
        tx.execute(_TAKE_FREE_CARDS, params)


class SandboxCards(StockCards):
    """Testing mode: any number of cards, which no shop accepts."""

    name = "sandbox"

    def __init__(self, db: Database, encryptor: Encryptor, *, clock: Clock) -> None:
        super().__init__(db, encryptor, clock=clock, mode="test")

    def in_stock(self, brand: str, product: str, cents: int) -> int | None:
        del brand, product, cents
        return None

    def return_card(self, reference: str, *, now: datetime) -> bool:
        del now
        with self._db.system_transaction() as tx:
            tx.execute(_DELETE_CARD, {"reference": reference})
        return True

    def _take_cards(self, tx: Tx, card_requests: Sequence[CardRequest], *, now: datetime) -> None:
        taken_references = {
            str(row.taken_by) for row in tx.execute(_SELECT_TAKEN, {"references": [c.reference for c in card_requests]})
        }
        new_cards = [card for card in card_requests if card.reference not in taken_references]
        if not new_cards:
            return
        expires_on = (now + SANDBOX_LIFETIME).date()
        ids = reserve_stock_ids(tx, len(new_cards))
        encrypted_cards = [
            issuance.encrypt_card(self._encryptor, issuance.stock_context(id_), _generate_card(expires_on))
            for id_ in ids
        ]
        params = {
            "ids": ids,
            "brands": [card.brand for card in new_cards],
            "cents": [card.cents for card in new_cards],
            "sealed": encrypted_cards,
            "references": [card.reference for card in new_cards],
            "expires_on": expires_on,
            "source": SANDBOX_SOURCE,
            "now": now,
        }
        tx.execute(_INSERT_SANDBOX_CARDS, params)


def _generate_card(expires_on: date) -> CardSecret:
    characters = "".join(secrets.choice(CLAIM_ALPHABET) for _ in range(12))
    code = "-".join(("TEST", characters[:4], characters[4:8], characters[8:]))
    pin = f"{secrets.randbelow(10_000):04d}"
    return CardSecret(code=code, pin=pin, expires_on=expires_on)
