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
from quillpost.accounts.billing.rules import EVERYWHERE_ELSE, Tariff, UnitPrice, build_tariff, format_dollars
from quillpost.core.database import Tx
from quillpost.core.database.tables.base import prices
from quillpost.core.errors import Conflict, Invalid, NotFound
from quillpost.rendering.text.addresses import COUNTRY_CODES

HOME_COUNTRY = "US"
DOMESTIC_ONLY_CLASS = "standard"
MAX_UNIT_CENTS = 100_000
MAX_ADVANCE = timedelta(days=2 * 366)

LOCK_PRICE_LIST = sa.text("select pg_advisory_xact_lock(hashtextextended('price list', 0))")


@dataclass(frozen=True, slots=True)
class PriceKey:
    """What is priced by itself: a piece, a class of mail, and where it goes."""

    type: str
    size: str
    mail_class: str
    country: str


@dataclass(frozen=True, slots=True)
class PriceHistory:
    """One kind with its price today, what is to come, the next first, and what was, the last first."""

    kind: PriceKey
    now: UnitPrice | None
    coming: Sequence[tuple[int, UnitPrice]]
    past: Sequence[UnitPrice]


@dataclass(frozen=True, slots=True)
class PriceChange:
    """What a new price does: from when on it replaces which, until when it holds if another is to come."""

    price: UnitPrice
    before: int | None
    until: date | None


def read_price_list(tx: Tx, *, on: date) -> list[PriceHistory]:
    """Everything that has, had or will have a price, in the order in which it was first priced."""
    by_key = dict[PriceKey, list[tuple[int, UnitPrice]]]()
    for row in tx.execute(sa.select(prices).order_by(prices.c.id)):
        price = UnitPrice(row.type, row.size, row.mail_class, row.country, row.unit_cents, row.valid_from)
        by_key.setdefault(_build_key(price), []).append((row.id, price))
    return [_build_history(key, rows, on=on) for key, rows in by_key.items()]


def preview_price(tx: Tx, price: UnitPrice, *, on: date) -> PriceChange:
    """What this price would change, or `Invalid` by the names of its parts."""
    histories = read_price_list(tx, on=on)
    _validate_price(price, [priced.kind for priced in histories], on=on)
    existing = next((priced for priced in histories if priced.kind == _build_key(price)), None)
    dated_prices = (
        []
        if existing is None
        else [*existing.past, *([existing.now] if existing.now else []), *_list_future_prices(existing)]
    )
    if any(other.valid_from == price.valid_from for other in dated_prices):
        message = "There is a price from that day on already. Take it back first, or choose another day."
        raise Invalid({"valid_from": [message]})
    earlier_prices = [other for other in dated_prices if other.valid_from < price.valid_from]
    later_days = [other.valid_from for other in dated_prices if other.valid_from > price.valid_from]
    previous = max(earlier_prices, key=lambda other: other.valid_from, default=None)
    previous_cents = _find_fallback_cents(histories, price) if previous is None else previous.unit_cents
    return PriceChange(price, previous_cents, min(later_days, default=None))


def add_price(tx: Tx, account_id: int, price: UnitPrice, actor: audit_service.Actor, *, now: datetime) -> PriceChange:
    """Put it on the list. Takes the service's own transaction; `account_id` is whose log tells of it."""
    tx.execute(LOCK_PRICE_LIST)
    change = preview_price(tx, price, on=now.date())
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
    audit_service.record_audit_entry(tx, account_id, "price.added", actor, about=_describe_price(price), now=now)
    return change


def find_future_price(tx: Tx, price_id: int, *, on: date) -> UnitPrice:
    """A price that is not in force yet. `Conflict` for one that is."""
    row = tx.execute(sa.select(prices).where(prices.c.id == price_id)).first()
    if row is None:
        raise NotFound
    if row.valid_from <= on:
        raise Conflict("This price is in force already, and stays on the list. Set another from a later day.")
    return UnitPrice(row.type, row.size, row.mail_class, row.country, row.unit_cents, row.valid_from)


def withdraw_price(tx: Tx, account_id: int, price_id: int, actor: audit_service.Actor, *, now: datetime) -> UnitPrice:
    """Take a price off the list before it is in force."""
    tx.execute(LOCK_PRICE_LIST)
    price = find_future_price(tx, price_id, on=now.date())
    tx.execute(sa.delete(prices).where(prices.c.id == price_id))
    audit_service.record_audit_entry(tx, account_id, "price.withdrawn", actor, about=_describe_price(price), now=now)
    return price


def _validate_price(price: UnitPrice, price_keys: Sequence[PriceKey], *, on: date) -> None:
    errors = dict[str, list[str]]()
    if (price.type, price.size) not in {(kind.type, kind.size) for kind in price_keys}:
        errors["piece"] = ["Choose one of the pieces on the list."]
    if price.mail_class not in {kind.mail_class for kind in price_keys}:
        errors["mail_class"] = ["Choose one of the classes on the list."]
    if price.country not in COUNTRY_CODES and price.country != EVERYWHERE_ELSE:
        errors["country"] = ["Write a country's two letters, such as CA, or * for everywhere else."]
    elif price.mail_class == DOMESTIC_ONLY_CLASS and price.country != HOME_COUNTRY:
        errors["country"] = ["Standard mail goes within the US alone: choose first class for other places."]
    if not 0 < price.unit_cents <= MAX_UNIT_CENTS:
        errors["price"] = [f"A piece costs more than nothing, and {format_dollars(MAX_UNIT_CENTS)} at most."]
    if price.valid_from <= on:
        errors["valid_from"] = ["Choose tomorrow or later: what was priced until today stays as it is."]
    elif price.valid_from > on + MAX_ADVANCE:
        errors["valid_from"] = ["Choose a day within the next two years."]
    if errors:
        raise Invalid(errors)


def _find_fallback_cents(histories: Sequence[PriceHistory], price: UnitPrice) -> int | None:
    """What is paid there while the country has no price of its own."""
    fallback_key = PriceKey(price.type, price.size, price.mail_class, EVERYWHERE_ELSE)
    fallback = next((history.now for history in histories if history.kind == fallback_key), None)
    return None if fallback is None or price.country == EVERYWHERE_ELSE else fallback.unit_cents


def _build_history(key: PriceKey, rows: Sequence[tuple[int, UnitPrice]], *, on: date) -> PriceHistory:
    rows_by_date = sorted(rows, key=lambda row: row[1].valid_from)
    started_prices = [price for _, price in rows_by_date if price.valid_from <= on]
    future_rows = [row for row in rows_by_date if row[1].valid_from > on]
    return PriceHistory(key, started_prices[-1] if started_prices else None, future_rows, started_prices[-2::-1])


def _list_future_prices(history: PriceHistory) -> list[UnitPrice]:
    return [price for _, price in history.coming]


def _build_key(price: UnitPrice) -> PriceKey:
    return PriceKey(price.type, price.size, price.mail_class, price.country)


def _describe_price(price: UnitPrice) -> dict[str, str]:
    name = " ".join(filter(None, (price.type, price.size, price.mail_class, price.country)))
    return {"name": name, "amount": format_dollars(price.unit_cents), "from": price.valid_from.isoformat()}


def list_prices(tx: Tx) -> list[UnitPrice]:
    """Every price that there is, was or will be, in the order in which it came into the table."""
    rows = tx.execute(sa.select(prices).order_by(prices.c.id))
    return [UnitPrice(row.type, row.size, row.mail_class, row.country, row.unit_cents, row.valid_from) for row in rows]


def read_tariff(tx: Tx, *, type: str, size: str | None, mail_class: str, on: date) -> Tariff:  # noqa: A002
    """What this piece costs that day."""
    rows = tx.execute(
        sa.select(prices).where(prices.c.type == type, prices.c.size == (size or ""), prices.c.mail_class == mail_class)
    )
    return build_tariff(
        [UnitPrice(row.type, row.size, row.mail_class, row.country, row.unit_cents, row.valid_from) for row in rows], on
    )


def load_default_prices(tx: Tx) -> None:
    """Put the shipped price list in where there is none for its dates; an operator's rows win."""
    source = files("quillpost.accounts.billing").joinpath("prices.csv").read_text()
    rows = list(csv.DictReader(source.splitlines()))
    tx.execute(insert(prices).on_conflict_do_nothing(), rows)
