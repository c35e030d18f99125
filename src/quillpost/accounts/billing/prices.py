"""Dated prices: what holds, what held, and what is to come.

A price holds for whole days, from one in UTC on. Whoever was told a price today pays it today, so that a new
one begins tomorrow at the earliest; until then it can be taken back.
"""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from importlib.resources import files

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from quillpost.accounts.audit import service as audit_service
from quillpost.accounts.billing.rules import EVERYWHERE_ELSE, Price, Tariff, dollars, tariff
from quillpost.core.database import Tx
from quillpost.core.database.tables.base import prices
from quillpost.core.errors import Conflict, Invalid, NotFound
from quillpost.rendering.text.countries import COUNTRIES

HOME = "US"
AT_HOME_ALONE = "standard"
MOST_CENTS = 100_000
FURTHEST = timedelta(days=2 * 366)

TAKE_TURNS = sa.text("select pg_advisory_xact_lock(hashtextextended('price list', 0))")


@dataclass(frozen=True, slots=True)
class Kind:
    """What is priced by itself: a piece, a class of mail, and where it goes."""

    type: str
    size: str
    mail_class: str
    country: str


@dataclass(frozen=True, slots=True)
class Priced:
    """One kind with its price today, what is to come, the next first, and what was, the last first."""

    kind: Kind
    now: Price | None
    coming: Sequence[tuple[int, Price]]
    past: Sequence[Price]


@dataclass(frozen=True, slots=True)
class Change:
    """What a new price does: from when on it replaces which, until when it holds if another is to come."""

    price: Price
    before: int | None
    until: date | None


def price_list(tx: Tx, *, on: date) -> list[Priced]:
    """Everything that has, had or will have a price, in the order in which it was first priced."""
    by_kind = dict[Kind, list[tuple[int, Price]]]()
    for row in tx.execute(sa.select(prices).order_by(prices.c.id)):
        price = Price(row.type, row.size, row.mail_class, row.country, row.unit_cents, row.valid_from)
        by_kind.setdefault(_kind(price), []).append((row.id, price))
    return [_priced(kind, rows, on=on) for kind, rows in by_kind.items()]


def look_at(tx: Tx, price: Price, *, on: date) -> Change:
    """What this price would change, or `Invalid` by the names of its parts."""
    known = price_list(tx, on=on)
    _examine(price, [priced.kind for priced in known], on=on)
    same = next((priced for priced in known if priced.kind == _kind(price)), None)
    dated = [] if same is None else [*same.past, *([same.now] if same.now else []), *_coming(same)]
    if any(other.valid_from == price.valid_from for other in dated):
        told = "There is a price from that day on already. Take it back first, or choose another day."
        raise Invalid({"valid_from": [told]})
    ruling = [other for other in dated if other.valid_from < price.valid_from]
    later = [other.valid_from for other in dated if other.valid_from > price.valid_from]
    before = max(ruling, key=lambda other: other.valid_from, default=None)
    elsewhere = _elsewhere(known, price) if before is None else before.unit_cents
    return Change(price, elsewhere, min(later, default=None))


def add_price(tx: Tx, account_id: int, price: Price, actor: audit_service.Actor, *, now: datetime) -> Change:
    """Put it on the list. Takes the service's own transaction; `account_id` is whose log tells of it."""
    tx.execute(TAKE_TURNS)
    change = look_at(tx, price, on=now.date())
    tx.execute(
        sa.insert(prices).values(
            type=price.type,
            size=price.size,
            mail_class=price.mail_class,
            country=price.country,
            unit_cents=price.unit_cents,
            valid_from=price.valid_from,
        )
    )
    audit_service.note(tx, account_id, "price.added", actor, about=_about(price), now=now)
    return change


def find_coming(tx: Tx, price_id: int, *, on: date) -> Price:
    """A price that is not in force yet. `Conflict` for one that is."""
    row = tx.execute(sa.select(prices).where(prices.c.id == price_id)).first()
    if row is None:
        raise NotFound
    if row.valid_from <= on:
        raise Conflict("This price is in force already, and stays on the list. Set another from a later day.")
    return Price(row.type, row.size, row.mail_class, row.country, row.unit_cents, row.valid_from)


def take_back(tx: Tx, account_id: int, price_id: int, actor: audit_service.Actor, *, now: datetime) -> Price:
    """Take a price off the list before it is in force."""
    tx.execute(TAKE_TURNS)
    price = find_coming(tx, price_id, on=now.date())
    tx.execute(sa.delete(prices).where(prices.c.id == price_id))
    audit_service.note(tx, account_id, "price.withdrawn", actor, about=_about(price), now=now)
    return price


def _examine(price: Price, known: Sequence[Kind], *, on: date) -> None:
    faults = dict[str, list[str]]()
    if (price.type, price.size) not in {(kind.type, kind.size) for kind in known}:
        faults["piece"] = ["Choose one of the pieces on the list."]
    if price.mail_class not in {kind.mail_class for kind in known}:
        faults["mail_class"] = ["Choose one of the classes on the list."]
    if price.country not in COUNTRIES and price.country != EVERYWHERE_ELSE:
        faults["country"] = ["Write a country's two letters, such as CA, or * for everywhere else."]
    elif price.mail_class == AT_HOME_ALONE and price.country != HOME:
        faults["country"] = ["Standard mail goes within the US alone: choose first class for other places."]
    if not 0 < price.unit_cents <= MOST_CENTS:
        faults["price"] = [f"A piece costs more than nothing, and {dollars(MOST_CENTS)} at most."]
    if price.valid_from <= on:
        faults["valid_from"] = ["Choose tomorrow or later: what was priced until today stays as it is."]
    elif price.valid_from > on + FURTHEST:
        faults["valid_from"] = ["Choose a day within the next two years."]
    if faults:
        raise Invalid(faults)


def _elsewhere(known: Sequence[Priced], price: Price) -> int | None:
    """What is paid there while the country has no price of its own."""
    everywhere = Kind(price.type, price.size, price.mail_class, EVERYWHERE_ELSE)
    found = next((priced.now for priced in known if priced.kind == everywhere), None)
    return None if found is None or price.country == EVERYWHERE_ELSE else found.unit_cents


def _priced(kind: Kind, rows: Sequence[tuple[int, Price]], *, on: date) -> Priced:
    in_turn = sorted(rows, key=lambda row: row[1].valid_from)
    gone = [price for _, price in in_turn if price.valid_from <= on]
    coming = [row for row in in_turn if row[1].valid_from > on]
    return Priced(kind, gone[-1] if gone else None, coming, gone[-2::-1])


def _coming(priced: Priced) -> list[Price]:
    return [price for _, price in priced.coming]


def _kind(price: Price) -> Kind:
    return Kind(price.type, price.size, price.mail_class, price.country)


def _about(price: Price) -> dict[str, str]:
    what = " ".join(filter(None, (price.type, price.size, price.mail_class, price.country)))
    return {"name": what, "amount": dollars(price.unit_cents), "from": price.valid_from.isoformat()}


def all_prices(tx: Tx) -> list[Price]:
    """Every price that there is, was or will be, in the order in which it came into the table."""
    rows = tx.execute(sa.select(prices).order_by(prices.c.id))
    return [
        Price(row.type, row.size, row.mail_class, row.country, row.unit_cents, row.valid_from) for row in rows
    ]


def tariff_on(tx: Tx, *, type: str, size: str | None, mail_class: str, on: date) -> Tariff:  # noqa: A002
    """What this piece costs that day."""
    rows = tx.execute(
        sa.select(prices).where(
            prices.c.type == type, prices.c.size == (size or ""), prices.c.mail_class == mail_class
        )
    )
    return tariff(
        [
            Price(row.type, row.size, row.mail_class, row.country, row.unit_cents, row.valid_from)
            for row in rows
        ],
        on,
    )


def load_default_prices(tx: Tx) -> None:
    """Put the shipped price list in where there is none for its dates; an operator's rows win."""
    source = files("quillpost.accounts.billing").joinpath("prices.csv").read_text()
    rows = list(csv.DictReader(source.splitlines()))
    tx.execute(insert(prices).on_conflict_do_nothing(), rows)
