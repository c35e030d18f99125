"""Which price is in force."""

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quillpost.accounts.billing.rules import Tariff, UnitPrice, build_tariff


def price(country: str, cents: int, since: date) -> UnitPrice:
    return UnitPrice("postcard", "4x6", "first", country, cents, since)


OLD, NEW, LATER = date(2026, 1, 1), date(2026, 7, 1), date(2027, 1, 1)
LIST = [price("US", 109, OLD), price("US", 115, NEW), price("US", 120, LATER), price("*", 219, OLD)]


@pytest.mark.parametrize(
    ("day", "cents"),
    [
        (date(2026, 1, 1), 109),
        (date(2026, 6, 30), 109),
        (date(2026, 7, 1), 115),
        (date(2026, 12, 31), 115),
        (date(2027, 1, 1), 120),
        (date(2099, 1, 1), 120),
    ],
)
def test_a_price_holds_from_its_day_until_the_next(day: date, cents: int) -> None:
    assert build_tariff(LIST, day).unit_cents("US") == cents


def test_before_the_first_price_nothing_is_offered() -> None:
    assert build_tariff(LIST, date(2025, 12, 31)) == Tariff({})
    assert build_tariff(LIST, date(2025, 12, 31)).unit_cents("US") is None


def test_every_other_country_has_the_price_of_the_rest() -> None:
    assert build_tariff(LIST, OLD).unit_cents("CA") == 219


def test_a_country_of_its_own_is_not_the_rest_even_when_the_rest_is_newer() -> None:
    prices = [price("CA", 150, OLD), price("*", 219, NEW)]
    assert build_tariff(prices, NEW).unit_cents("CA") == 150


def test_without_a_price_for_the_rest_a_country_is_not_offered() -> None:
    assert build_tariff([price("US", 94, OLD)], OLD).unit_cents("CA") is None


def test_a_piece_may_be_free() -> None:
    assert build_tariff([price("US", 0, OLD)], OLD).unit_cents("US") == 0


@given(order=st.permutations(LIST))
def test_the_order_of_the_list_does_not_matter(order: list[UnitPrice]) -> None:
    assert build_tariff(order, date(2026, 8, 1)) == Tariff({"US": 115, "*": 219})
