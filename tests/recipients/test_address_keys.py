"""The key of an address: one for every way to write a door, another for another door."""

from typing import Any
from unicodedata import normalize

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quillpost.recipients.rules import (
    MAX_FIELD_LENGTH,
    check_recipient,
    may_share_address,
    parse_partial_address,
    validate_recipient,
    validate_recipients,
)
from support.factories import person


@pytest.mark.parametrize(
    ("here", "there"),
    [
        ({"address": "12 Café St"}, {"address": "12 Cafe\u0301 St"}),
        ({"address": "12 CAFÉ ST"}, {"address": "12 cafe\u0301 st"}),
        ({"address": "12 οδός ΐ"}, {"address": "12 ΟΔΌΣ Ϊ\u0301"}),
        ({"address": "12 שָׁלוֹם", "country": "IL"}, {"address": "12 שלום", "country": "IL"}),
        ({"address": "12 葛\U000e0100", "country": "JP"}, {"address": "12 葛", "country": "JP"}),
        ({"address": "12 - 2nd St"}, {"address": "12, 2nd St"}),
        ({"postal_code": "110 00", "country": "CZ"}, {"postal_code": "11000", "country": "CZ"}),
        ({"postal_code": "K1A 0B1", "country": "CA"}, {"postal_code": "k1a0b1", "country": "CA"}),
    ],
)
def test_two_spellings_of_an_address_have_one_key(here: dict[str, str], there: dict[str, str]) -> None:
    assert validate_recipient(person(**here)).address_key == validate_recipient(person(**there)).address_key


@given(st.text(), st.text())
def test_a_key_knows_no_difference_of_normal_form(address: str, address2: str) -> None:
    keys = {
        check_recipient({"address": normalize(form, address), "address2": normalize(form, address2)})[0].address_key
        for form in ("NFC", "NFD")
    }
    assert len(keys) == 1


@pytest.mark.parametrize(
    "row",
    [person(), {"address": "12 MAIN ST, Austin, TX 78701-1234"}, {"address": "12 main st.", "postal_code": "78701"}],
)
def test_a_whole_address_is_known_by_its_key(row: dict[str, Any]) -> None:
    assert parse_partial_address(row).address_key == validate_recipient(person()).address_key


@pytest.mark.parametrize(
    "apart",
    [
        {"city": "Waco"},
        {"province": "CA"},
        {"email": "joe@example.com"},
        {"address2": "Apt 2"},
        {"address": "13 Main St"},
        {"postal_code": "78701"},
        {"country": "CA", "city": "Toronto"},
    ],
)
def test_a_street_whose_place_is_not_known_is_known_by_all_the_rest(apart: dict[str, str]) -> None:
    street = {"address": "12 Main St", "city": "Austin", "province": "TX", "email": "jane@example.com"}
    key = validate_recipient(street).address_key
    assert key == validate_recipient(street | {"address": "12 MAIN ST.", "email": "Jane@Example.com"}).address_key
    assert key != validate_recipient(street | apart).address_key


@pytest.mark.parametrize("address", ["12 Main St", "1 " + "long " * 59])
@pytest.mark.parametrize(
    ("known", "has_place"),
    [
        ({}, False),
        ({"city": "Austin", "province": "TX"}, False),
        ({"postal_code": "78701"}, True),
        ({"country": "FR"}, False),
        ({"country": "FR", "city": "Paris"}, True),
        ({"country": "FR", "postal_code": "75001"}, True),
    ],
)
def test_an_address_can_be_suppressed_where_its_place_is_known(
    address: str, known: dict[str, str], has_place: bool
) -> None:
    row = {"address": address, "address2": address} | known
    assert validate_recipient(row).can_be_suppressed is has_place
    assert validate_recipient(row | {"email": "jane@example.com"}).can_be_suppressed
    assert validate_recipient({"email": "jane@example.com"}).can_be_suppressed


def test_of_a_street_the_rest_stays_open() -> None:
    where = parse_partial_address({"address": "12 Main St.", "province": "Texas", "country": "us"})
    assert (where.street, where.address_key) == ("12MAIN ST", None)
    assert where.parts == {"province": "TX", "country": "US"}


@given(st.text(max_size=MAX_FIELD_LENGTH), st.text(max_size=MAX_FIELD_LENGTH), st.text(max_size=MAX_FIELD_LENGTH))
def test_an_address_has_a_key_that_an_index_takes(address: str, address2: str, code: str) -> None:
    row = {"address": address, "address2": address2, "postal_code": code, "city": "X", "country": "CN"}
    found, _ = check_recipient(row)
    assert len((found.address_key or "").encode()) <= 2_000
    assert check_recipient(row)[0].address_key == found.address_key


def test_long_addresses_that_end_differently_differ() -> None:
    rows = [
        {"address": "x" * 300, "address2": "y" * 300, "postal_code": code, "city": "X", "country": "CN"}
        for code in ("1", "2")
    ]
    first, second = validate_recipients(rows)
    assert first.address_key != second.address_key


@pytest.mark.parametrize(
    ("row", "beginning"),
    [
        ({"address": "12 Main Street"}, "12MAIN ST"),
        ({"address": "12 Main Street Apt 4"}, "12MAIN ST|4"),
        ({"address": "12 Main St", "address2": "# 4"}, "12MAIN ST|4"),
        ({"address": "12 Rue Foch", "address2": "Étage 4", "country": "FR"}, "12RUEFOCH|ÉTAGE4"),
    ],
)
def test_a_partial_address_is_matched_with_its_unit(row: dict[str, str], beginning: str) -> None:
    """Whoever takes apartment 4 off a list does not mean all of the house."""
    assert parse_partial_address(row).key_prefix == beginning


@pytest.mark.parametrize(
    ("known", "other", "is_one"),
    [
        ("12 Main St Apt 4", "12 Main Street #4", True),
        ("12 Main St", "12 Main Street Apt 4", True),
        ("12 Main St Apt 4", "12 Main St Apt 5", False),
        ("12 Main St", "12 Main Ave", False),
    ],
)
def test_half_an_address_may_be_another_with_the_same_unit(known: str, other: str, is_one: bool) -> None:
    whole = validate_recipient(person(address=known))
    assert may_share_address(whole, validate_recipient({"address": other})) is is_one
