"""What `quillpost doctor` sees of gift cards: who issues them, whether there are enough, what is void."""

from collections.abc import Iterator
from datetime import datetime, timedelta

import sqlalchemy as sa

from quillpost.cli.findings import Finding
from quillpost.database import Tx
from quillpost.giftcard_issuers import house_of
from quillpost.giftcards import catalogue, stocking
from quillpost.giftcards.stocking import GOOD_FOR
from quillpost.kit.errors import NotReady
from quillpost.ports.giftcards import IssuerDown
from quillpost.pricing.rules import dollars
from quillpost.wiring import Settings

TOLD_WITHIN = timedelta(hours=1)
"""Issuers hear of a void card within minutes, while they can be reached."""
MOST_NAMED = 5

# Orders that have ended wait for nothing; those on hold do, once they are released.
SHORT = sa.text(
    """
    with waiting as (
        select o.giftcard_brand as brand, o.giftcard_amount as cents, count(*) as wanted
          from orders o join items i on i.order_id = o.id
         where o.mode = 'live' and o.giftcard_amount is not null
           and o.status in ('reviewing', 'processing', 'printing', 'paused')
           and i.status = 'Processing' and i.giftcard_brand is null and i.gift_cents > 0
         group by 1, 2)
    select w.brand, w.cents, w.wanted, s.free
      from waiting w
     cross join lateral (
            select count(*) as free from giftcard_stock
             where mode = 'live' and brand = w.brand and cents = w.cents
               and taken_by is null and set_aside_at is null and coalesce(expires_on >= :good_on, true)) s
     where s.free < w.wanted order by w.brand, w.cents
    """
)

SET_ASIDE = sa.text(
    """
    select count(*) from giftcard_stock
     where mode = 'live' and taken_by is null and set_aside_at is not null
    """
)

UNTOLD = sa.text(
    """
    select issuer, count(*) as cards from giftcards
     where status = 'void' and issuer is not null and given_back_at is null and voided_at < :long_ago
     group by issuer order by issuer
    """
)


def check_issuer(settings: Settings) -> Finding:
    """Whether the house that issues live cards lets us in, and knows what we pay from. Nothing is bought."""
    look = "Look at the QUILLPOST_GIFTCARDS settings."
    try:
        house = house_of(settings)
        if house is None:
            return Finding("gift cards", "ok", "live ones are your own: `quillpost giftcards stock`")
        return Finding("gift cards", "ok", house.reach())
    except NotReady as fault:
        return Finding("gift cards", "broken", fault.message, look)
    except IssuerDown as down:
        return Finding("gift cards", "warning", str(down), f"Pieces wait until it is back. {look}")


def _check_brands(tx: Tx, settings: Settings, *, now: datetime) -> Finding:
    """Whether live mail can bring what is offered: senders choose without knowing who issues it."""
    offered = catalogue.offered(tx)
    if settings.giftcards is None:
        there = {shelf.brand for shelf in stocking.count_stock(tx, now=now) if shelf.free}
        without = [brand.code for brand in offered if brand.code not in there]
        lack, do = "no card is free", "Load some with `quillpost giftcards load`"
    else:
        without = [brand.code for brand in offered if brand.issuer_code is None]
        lack, do = "no issuer code is known", "Say it with `quillpost giftcards brand`"
    if not without:
        return Finding("gift card brands", "ok", f"{len(offered)} offered, and live mail can bring each")
    named = ", ".join(without[:MOST_NAMED])
    what = f"of {len(without)} of the {len(offered)} that are offered {lack}. First {named}"
    return Finding("gift card brands", "warning", what, f"{do}, or `quillpost giftcards retire` them.")


def check_cards(tx: Tx, settings: Settings, *, now: datetime) -> Iterator[Finding]:
    """Brands of which there are no cards, cards that pieces wait for, and void ones that their issuer has not
    heard of."""
    yield _check_brands(tx, settings, now=now)
    short = []
    if settings.giftcards is None:
        short = list(tx.execute(SHORT, {"good_on": (now + GOOD_FOR).date()}))
    if short:
        kinds = [f"{row.brand} over {dollars(row.cents)}: {row.wanted - row.free:,}" for row in short]
        named = "; ".join(kinds[:MOST_NAMED])
        advice = "Load them with `quillpost giftcards load`, or name an issuer in QUILLPOST_GIFTCARDS."
        yield Finding(
            "gift card stock", "warning", f"pieces wait for more cards than there are. {named}", advice
        )
    if set_aside := int(tx.execute(SET_ASIDE).scalar_one()):
        yield Finding(
            "restored gift cards",
            "warning",
            f"{set_aside:,} in stock are set aside, as they may have been mailed since the backup",
            "See Backups in docs/operate.md, then `quillpost giftcards release-stock`.",
        )
    untold = list(tx.execute(UNTOLD, {"long_ago": now - TOLD_WITHIN}))
    if untold:
        named = ", ".join(f"{row.cards:,} of {row.issuer}" for row in untold)
        advice = "See that workers run, and that QUILLPOST_GIFTCARDS names who issued them."
        yield Finding("void gift cards", "warning", f"not given back yet: {named}", advice)
    if not short and not untold:
        yield Finding("gift card stock", "ok", "no piece waits for a card that is not there")
