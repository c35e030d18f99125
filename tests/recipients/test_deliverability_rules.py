"""Whether mail can reach an address, and what is said where that is in doubt."""

from typing import Any

import pytest

from quillpost.recipients.addresses.rules import DELIVERABLE, DOUBTFUL, UNDELIVERABLE, StandardizedAddress, standardize
from quillpost.recipients.rules import check_recipient, validate_recipient

HOUSE = {"address": "12 Main St", "address2": None, "city": "Austin", "province": "TX", "postal_code": "78701"}


def standardized(country: str = "US", **changes: str | None) -> StandardizedAddress:
    return standardize(HOUSE | changes, country)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"postal_code": "78701-1234"},
        {"address2": "Apt 4"},
        {"address2": "Rear"},
        {"address": "PO Box 12"},
        {"city": "St Louis", "province": "MO", "postal_code": "63101"},
        {"city": "Manhattan", "province": "NY", "postal_code": "10001"},
        {"address": "PSC 3 Box 4", "city": "APO", "province": "AE", "postal_code": "09021"},
        {"address": "PSC 3 Box 4", "city": "APO", "province": "AE", "postal_code": "09905"},
    ],
)
def test_an_address_whose_parts_agree_is_deliverable(changes: dict[str, str]) -> None:
    assert (standardized(**changes).deliverability, standardized(**changes).reasons) == (DELIVERABLE, ())


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"postal_code": "99999"}, "The ZIP code 99999 is not known."),
        ({"province": "NY"}, "The ZIP code 78701 is in TX, not in NY."),
        ({"city": "Dallas"}, "The ZIP code 78701 belongs to Austin, not to Dallas."),
        ({"address": "Main St"}, "The address has neither a house number nor a box."),
        ({"address": "5th Ave"}, "The address has neither a house number nor a box."),
        ({"address": "12"}, "The address has neither a house number nor a box."),
        ({"address2": "Apt"}, "APT has no number after it."),
        ({"address2": "4B"}, "The number 4B after the street does not say what it is, such as APT or STE."),
        (
            {"city": "APO", "province": "AE", "postal_code": "09021"},
            "Mail to the armed forces goes to a PSC, a CMR or a UNIT, and its BOX.",
        ),
        (
            {"address": "PSC 3 Box 4", "city": "Berlin", "province": "AE", "postal_code": "09021"},
            "In AE the city is APO, FPO or DPO, not Berlin.",
        ),
    ],
)
def test_an_inconsistent_address_is_doubtful_with_the_reason(changes: dict[str, str], reason: str) -> None:
    found = standardized(**changes)
    assert found.deliverability == DOUBTFUL
    assert reason in found.reasons
    assert found.standard is not None


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"address": None}, "There is no mailing address, only an e-mail."),
        ({"city": None}, "The address lacks its city, state or ZIP code."),
        ({"postal_code": None}, "The address lacks its city, state or ZIP code."),
    ],
)
def test_only_what_lacks_something_is_undeliverable(changes: dict[str, str | None], reason: str) -> None:
    found = standardize(HOUSE | changes, "US")
    assert (found.deliverability, found.reasons, found.standard) == (UNDELIVERABLE, (reason,), None)


@pytest.mark.parametrize(
    ("given", "city", "kept"),
    [("2134", "Allston", "02134"), ("2134-1001", "Boston", "02134-1001"), ("2134", "Springfield", None)],
)
def test_a_zero_that_a_spreadsheet_ate_is_put_back_where_the_city_confirms_it(
    given: str, city: str, kept: str | None
) -> None:
    row = {"address": "12 Main St", "city": city, "province": "Massachusetts", "postal_code": given}
    person, errors = check_recipient(row)
    assert person.postal_code == (kept or given)
    assert errors == ({} if kept else {"postal_code": ["A ZIP code has 5 digits, or 5-4."]})


def test_what_was_given_stays_as_it_was() -> None:
    row = {
        "address": "12 main street",
        "address2": "apt. 4",
        "city": "austin",
        "province": "TX",
        "postal_code": "78701",
    }
    person = validate_recipient(row)
    kept = {name: getattr(person, name) for name in row}
    assert kept == row
    assert person.standard == ("12 MAIN ST APT 4", None, "AUSTIN", "TX", "78701")


@pytest.mark.parametrize(
    ("country", "changes", "standard"),
    [
        (
            "CA",
            {"address": "10 rue  Sainte-Élie", "city": "Montréal", "province": "Québec", "postal_code": "h2x1y4"},
            ("10 rue Sainte-Élie", None, "MONTRÉAL", "QC", "H2X 1Y4"),
        ),
        (
            "AU",
            {"city": "Sydney", "province": "New South Wales", "postal_code": "2000"},
            ("12 Main St", None, "SYDNEY", "NSW", "2000"),
        ),
        (
            "GB",
            {"city": "London", "province": None, "postal_code": "sw1a  1aa"},
            ("12 Main St", None, "LONDON", None, "SW1A 1AA"),
        ),
        (
            "DE",
            {"address": "Hauptstraße 5", "city": "Köln", "province": None, "postal_code": "50667"},
            ("Hauptstraße 5", None, "KÖLN", None, "50667"),
        ),
        (
            "JP",
            {"address": "神宮前1-2", "city": "渋谷区", "province": "東京都", "postal_code": "150-0001"},
            ("神宮前1-2", None, "渋谷区", "東京都", "150-0001"),
        ),
    ],
)
def test_abroad_the_place_is_written_as_its_country_does(
    country: str, changes: dict[str, str | None], standard: tuple[Any, ...]
) -> None:
    found = standardized(country, **changes)
    assert (found.standard, found.deliverability, found.reasons) == (standard, DELIVERABLE, ())


@pytest.mark.parametrize(
    ("country", "changes", "reason"),
    [
        ("CA", {"province": "ON", "postal_code": "12345"}, "12345 is not a postal code of Canada; they look like"),
        ("CA", {"province": "ON", "postal_code": "V6B 1A1"}, "V6B 1A1 is not a postal code of Canada, ON;"),
        ("CA", {"province": "Bavaria"}, "Bavaria is not a province or state of Canada."),
        ("CA", {"province": None}, "An address in Canada needs a province or state."),
        ("DE", {"postal_code": None}, "An address in Germany needs a postal code; they look like 26133."),
        ("DE", {"postal_code": "5066"}, "5066 is not a postal code of Germany; they look like 26133."),
    ],
)
def test_abroad_too_what_is_not_of_the_form_is_doubtful(
    country: str, changes: dict[str, str | None], reason: str
) -> None:
    found = standardized(country, **changes)
    assert found.deliverability == DOUBTFUL
    assert any(text.startswith(reason) for text in found.reasons), found.reasons


def test_abroad_an_address_needs_a_city() -> None:
    assert standardized("FR", city=None).deliverability == UNDELIVERABLE


@pytest.mark.parametrize("country", ["AQ", "XX", "Q", "../US", "ZZZ", ""])
def test_of_an_odd_country_nothing_is_known_and_nothing_raised(country: str) -> None:
    assert standardized(country).deliverability == DELIVERABLE
