"""The price in force for a piece, a class of mail, a destination and a day; money in words."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

EVERYWHERE_ELSE = "*"
LEAD_CENTS = 5
"""What a record of a radius search costs."""


@dataclass(frozen=True, slots=True)
class UnitPrice:
    type: str
    size: str
    mail_class: str
    country: str
    unit_cents: int
    valid_from: date


@dataclass(frozen=True, slots=True)
class Tariff:
    """The prices of one piece and class on one day, by destination."""

    by_country: dict[str, int]

    def unit_cents(self, country: str) -> int | None:
        """Cents for one piece there, or None where it is not offered."""
        return self.by_country.get(country, self.by_country.get(EVERYWHERE_ELSE))


def build_tariff(prices: Sequence[UnitPrice], on: date) -> Tariff:
    """Of each destination the price that came into force last, not after the day."""
    current_prices: dict[str, UnitPrice] = {}
    for price in prices:
        if price.valid_from > on:
            continue
        current = current_prices.get(price.country)
        if current is None or price.valid_from > current.valid_from:
            current_prices[price.country] = price
    return Tariff({country: price.unit_cents for country, price in current_prices.items()})


def format_dollars(cents: int) -> str:
    """An amount as a person reads it: $1,234.50, or -$0.05."""
    return f"{'-' if cents < 0 else ''}${abs(cents) // 100:,}.{abs(cents) % 100:02d}"
