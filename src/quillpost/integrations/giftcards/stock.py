"""The cards that an operator has loaded, and those that testing mode makes up as it needs them."""

import secrets
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta

import sqlalchemy as sa

from quillpost.core.clock import Clock
from quillpost.core.database import Database, Tx
from quillpost.core.encryption import Sealer
from quillpost.orders.giftcards import issuance
from quillpost.orders.giftcards.ports import CardAsked, GiftCard, NoCard
from quillpost.orders.giftcards.rules import ALPHABET
from quillpost.orders.giftcards.stock import GOOD_FOR, next_ids

# Two that ask for the same card would each take another one: they take turns. So a card that is free stays
# so, and one that is locked (it is sealed anew, say) is waited for, in the order of the ids.
_TAKE_TURNS = sa.text("select pg_advisory_xact_lock(hashtextextended('giftcard stock', 0))")

_FREE = sa.text(
    """
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
    """
)

_TAKEN = sa.text(
    """
    select id, taken_by, card_sealed from giftcard_stock where taken_by = any(cast(:references as uuid[]))
    """
)

_COUNT = sa.text(
    """
    select count(*) from giftcard_stock
     where mode = :mode and brand = :brand and cents = :cents and taken_by is null and set_aside_at is null
       and (expires_on is null or expires_on >= :good_on)
    """
)

_BACK = sa.text(
    "update giftcard_stock set taken_by = null, taken_at = null where taken_by = cast(:reference as uuid)"
)

_GONE = sa.text("delete from giftcard_stock where taken_by = cast(:reference as uuid)")

_MINT = sa.text(
    """
    insert into giftcard_stock
           (id, mode, brand, cents, card_sealed, expires_on, source, loaded_at, taken_by, taken_at)
    overriding system value
    select m.id, 'test', m.brand, m.cents, m.card_sealed, :expires_on, :source, :now, m.reference, :now
      from unnest(cast(:ids as bigint[]), cast(:brands as text[]), cast(:cents as integer[]),
                  cast(:sealed as bytea[]), cast(:references as uuid[]))
           as m (id, brand, cents, card_sealed, reference)
     order by m.reference
    on conflict (taken_by) do nothing
    """
)

SANDBOX = "testing mode"
SANDBOX_LASTS = timedelta(days=365)


class StockCards:
    """An operator's own cards: each is given once, those that expire first before the others. When they run
    out, pieces wait for more."""

    name = "stock"

    def __init__(self, db: Database, sealer: Sealer, *, clock: Clock, mode: str = "live") -> None:
        self._db, self._sealer, self._clock, self._mode = db, sealer, clock, mode

    def issue(self, asked: Sequence[CardAsked], *, now: datetime) -> Mapping[str, GiftCard | NoCard]:
        asked = list({card.reference: card for card in asked}.values())
        with self._db.work() as tx:
            tx.execute(_TAKE_TURNS)
            self._take(tx, asked, now=now)
            taken = tx.execute(_TAKEN, {"references": [card.reference for card in asked]}).all()
        known = {
            str(row.taken_by): issuance.open_card(
                self._sealer, issuance.stock_context(row.id), bytes(row.card_sealed)
            )
            for row in taken
        }
        return {card.reference: known.get(card.reference, _none_left(card)) for card in asked}

    def in_stock(self, brand: str, product: str, cents: int) -> int | None:
        del product
        kind = {"mode": self._mode, "brand": brand, "cents": cents}
        with self._db.work() as tx:
            good_on = (self._clock() + GOOD_FOR).date()
            return int(tx.execute(_COUNT, kind | {"good_on": good_on}).scalar_one())

    def give_back(self, reference: str, *, now: datetime) -> bool:
        """The next piece may have it."""
        del now
        with self._db.work() as tx:
            tx.execute(_BACK, {"reference": reference})
        return True

    def _take(self, tx: Tx, asked: Sequence[CardAsked], *, now: datetime) -> None:
        """A card for each that has none yet, as far as there are any."""
        tx.execute(
            _FREE,
            {
                "references": [card.reference for card in asked],
                "brands": [card.brand for card in asked],
                "cents": [card.cents for card in asked],
                "mode": self._mode,
                "good_on": (now + GOOD_FOR).date(),
                "now": now,
            },
        )


class SandboxCards(StockCards):
    """Testing mode: as many cards as are wanted, that no shop takes."""

    name = "sandbox"

    def __init__(self, db: Database, sealer: Sealer, *, clock: Clock) -> None:
        super().__init__(db, sealer, clock=clock, mode="test")

    def in_stock(self, brand: str, product: str, cents: int) -> int | None:
        del brand, product, cents
        return None

    def give_back(self, reference: str, *, now: datetime) -> bool:
        del now
        with self._db.work() as tx:
            tx.execute(_GONE, {"reference": reference})
        return True

    def _take(self, tx: Tx, asked: Sequence[CardAsked], *, now: datetime) -> None:
        known = {
            str(row.taken_by) for row in tx.execute(_TAKEN, {"references": [c.reference for c in asked]})
        }
        new = [card for card in asked if card.reference not in known]
        if not new:
            return
        expires_on = (now + SANDBOX_LASTS).date()
        ids = next_ids(tx, len(new))
        sealed = [
            issuance.seal_card(self._sealer, issuance.stock_context(id_), _made_up(expires_on)) for id_ in ids
        ]
        tx.execute(
            _MINT,
            {
                "ids": ids,
                "brands": [card.brand for card in new],
                "cents": [card.cents for card in new],
                "sealed": sealed,
                "references": [card.reference for card in new],
                "expires_on": expires_on,
                "source": SANDBOX,
                "now": now,
            },
        )


def _made_up(expires_on: date) -> GiftCard:
    letters = "".join(secrets.choice(ALPHABET) for _ in range(12))
    code = "-".join(("TEST", letters[:4], letters[4:8], letters[8:]))
    pin = f"{secrets.randbelow(10_000):04d}"
    return GiftCard(code=code, pin=pin, expires_on=expires_on)


def _none_left(card: CardAsked) -> NoCard:
    return NoCard(f"There are no cards of {card.brand} over {card.cents} cents left.")
