"""Prices by product, mail class, destination and day; money as text."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from quillpost.core.errors import Invalid
from quillpost.rendering.text.addresses import COUNTRY_CODES

CREDIT, HELD, EARNED = "credit", "held", "earned"
HOME_COUNTRY = "US"
EVERYWHERE_ELSE = "*"
DOMESTIC_ONLY_CLASS = "standard"
MAX_UNIT_CENTS = 100_000
MAX_ADVANCE = timedelta(days=2 * 366)
LEAD_CENTS = 5


@dataclass(frozen=True, slots=True)
class PriceKey:
    type: str
    size: str
    mail_class: str
    country: str


@dataclass(frozen=True, slots=True)
class UnitPrice:
    type: str
    size: str
    mail_class: str
    country: str
    unit_cents: int
    valid_from: date

    @property
    def key(self) -> PriceKey:
        return PriceKey(self.type, self.size, self.mail_class, self.country)


@dataclass(frozen=True, slots=True)
class Tariff:
    """Prices of one product and class on one day, by destination."""

    by_country: dict[str, int]

    def unit_cents(self, country: str) -> int | None:
        """Cents for one item, or None where it is not offered."""
        return self.by_country.get(country, self.by_country.get(EVERYWHERE_ELSE))


def build_tariff(prices: Sequence[UnitPrice], on: date) -> Tariff:
    """For each destination the last price that is in force on the day."""
    current_prices: dict[str, UnitPrice] = {}
    for price in prices:
        if price.valid_from > on:
            continue
        current = current_prices.get(price.country)
        if current is None or price.valid_from > current.valid_from:
            current_prices[price.country] = price
    return Tariff({country: price.unit_cents for country, price in current_prices.items()})


def format_dollars(cents: int) -> str:
    """$1,234.50, or -$0.05."""
    return f"{'-' if cents < 0 else ''}${abs(cents) // 100:,}.{abs(cents) % 100:02d}"


@dataclass(frozen=True, slots=True)
class PriceHistory:
    """The price today, coming ones with their ids, the next first, and past ones, the last first."""

    kind: PriceKey
    now: UnitPrice | None
    coming: Sequence[tuple[int, UnitPrice]]
    past: Sequence[UnitPrice]


@dataclass(frozen=True, slots=True)
class PriceChange:
    """From when a new price replaces which, and until when it holds."""

    price: UnitPrice
    before: int | None
    until: date | None


def validate_price(price: UnitPrice, price_keys: Sequence[PriceKey], *, on: date) -> None:
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


def find_fallback_cents(histories: Sequence[PriceHistory], price: UnitPrice) -> int | None:
    """The price everywhere else, for a country without its own."""
    fallback_key = PriceKey(price.type, price.size, price.mail_class, EVERYWHERE_ELSE)
    fallback = next((history.now for history in histories if history.kind == fallback_key), None)
    return None if fallback is None or price.country == EVERYWHERE_ELSE else fallback.unit_cents


def build_price_history(key: PriceKey, rows: Sequence[tuple[int, UnitPrice]], *, on: date) -> PriceHistory:
    rows_by_date = sorted(rows, key=lambda row: row[1].valid_from)
    started_prices = [price for _, price in rows_by_date if price.valid_from <= on]
    future_rows = [row for row in rows_by_date if row[1].valid_from > on]
    return PriceHistory(key, started_prices[-1] if started_prices else None, future_rows, started_prices[-2::-1])


def describe_price(price: UnitPrice) -> dict[str, str]:
    name = " ".join(filter(None, (price.type, price.size, price.mail_class, price.country)))
    return {"name": name, "amount": format_dollars(price.unit_cents), "from": price.valid_from.isoformat()}
