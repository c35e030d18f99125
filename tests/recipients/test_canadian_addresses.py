"""Addresses of Canada on one line, countries by their names, and texts that are one line."""

import pytest

from quillpost.recipients.rules import CITY_REQUIRED_ABROAD, apply_changes, check_recipient, validate_recipient

LINE = "123 Main St, Toronto, ON M5V 2T6"
PARTS = ("123 Main St", "Toronto", "ON", "M5V 2T6", "CA")


@pytest.mark.parametrize(
    "given",
    [
        {"address": LINE, "country": "CA"},
        {"address": LINE, "country": "Canada"},
        {"address": f"{LINE}, Canada"},
        {"address": "123 Main St\nToronto, Ontario m5v 2t6\nCANADA"},
    ],
)
def test_an_address_of_canada_may_come_on_one_line(given: dict[str, str | None]) -> None:
    person, errors = check_recipient(given)
    assert not errors
    assert (person.address, person.city, person.province, person.postal_code, person.country) == PARTS


@pytest.mark.parametrize(
    "given",
    [
        {"address": LINE},
        {"address": "123 Main St", "city": "Toronto", "province": "ON", "postal_code": "M5V 2T6"},
        {"address": "123 Main St", "city": "Toronto", "province": "Ontario", "postal_code": None},
    ],
)
def test_a_canadian_address_without_a_country_asks_for_it(given: dict[str, str | None]) -> None:
    _, errors = check_recipient(given)
    assert errors == {"country": ["This is an address in Canada: give country CA."]}


def test_a_line_abroad_is_not_split_and_asks_for_the_city() -> None:
    _, errors = check_recipient({"address": "10 Downing St, London SW1A 2AA", "country": "United Kingdom"})
    assert errors == {"city": [CITY_REQUIRED_ABROAD]}


def test_a_line_of_canada_replaces_an_older_address() -> None:
    known = validate_recipient({"address": "12 Main St, Austin, TX 78701"})
    person = apply_changes(known, {"address": f"{LINE}, Canada"})
    assert (person.address, person.city, person.province, person.postal_code, person.country) == PARTS


def test_countries_may_be_named() -> None:
    parts: dict[str, str | None] = {"address": "1 High St", "city": "Leeds", "postal_code": "LS1 4AP"}
    for name in ("United Kingdom", "uk", "GB"):
        assert validate_recipient(parts | {"country": name}).country == "GB"
    assert "country" in check_recipient(parts | {"country": "Atlantis"})[1]


def test_line_ends_and_tabs_in_a_name_a_company_or_a_city_are_spaces() -> None:
    given = {"name": "Jane\nDoe", "company": "Acme\t\r\nInc", "city": "Austin\n"}
    person = validate_recipient(given | {"address": "12 Main St", "province": "TX", "postal_code": "78701"})
    assert (person.name, person.company, person.city) == ("Jane Doe", "Acme Inc", "Austin")
