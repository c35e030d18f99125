"""Two doors never have one key, and what is no part of a door makes no other door of it."""

import pytest

from quillpost.recipients.addresses.rules import (
    AMBIGUOUS_KEY_SUFFIX,
    DELIVERABLE,
    DOUBTFUL,
    NO_NUMBER,
    StandardizedAddress,
    standardize,
)
from quillpost.recipients.rules import check_recipient, parse_partial_address, validate_recipient, validate_recipients

TOWN = {"city": "Austin", "province": "TX", "postal_code": "78701"}


def standardized(address: str, address2: str | None = None, **other: str) -> StandardizedAddress:
    return standardize({"address": address, "address2": address2, **(TOWN | other)}, "US")


def lines(address: str, address2: str | None = None, **other: str) -> tuple[str | None, str | None]:
    standard = standardized(address, address2, **other).standard
    assert standard is not None
    return standard[:2]


@pytest.mark.parametrize(
    ("here", "there"),
    [
        ("12 W Alton Ave", "12 Walton Ave"),
        ("12 N Ash St", "12 Nash St"),
        ("12 N E St", "12 NE St"),
        ("12 Oak Hill S", "12 Oak Hills"),
        ("12 Elm Ct S", "12 Elm Courts"),
        ("12 E Aston Rd", "12 Easton Rd"),
        ("12 Fore St", "12 Forest"),
        ("12 Park Way", "12 Parkway"),
        ("12N Ash St", "12 N Ash St"),
        ("12 Main St Ste 4", "12 Main St Apt 4"),
        ("12 Main St Apt 1.2", "12 Main St Apt 12"),
        ("123 5.5 Mile Rd", "123 55 Mile Rd"),
        ("12 Calle 5 Km 5.3", "12 Calle 5 Km 53"),
        ("12 Main St, Smith Hall", "12 Main St, Jones Hall"),
        ("12 Main St, PO Box 5", "12 Main St, PO Box 6"),
        ("12 Main St, North Wing", "12 Main St, South Wing"),
    ],
)
def test_different_addresses_have_different_keys(here: str, there: str) -> None:
    assert standardized(here).key != standardized(there).key


@pytest.mark.parametrize(
    ("here", "there"),
    [
        (("12 Main St", "Second Floor"), ("12 Main St", "2nd Floor")),
        (("12 Main St", "Apt Upper"), ("12 Main St", "Upper")),
        (("12 Main St", "Apartment No. 4"), ("12 Main St", "Apt 4")),
        (("12 Twenty-First St", None), ("12 21st St", None)),
        (("12 Twenty First St", None), ("12 21st St", None)),
        (("12 Thirteenth Ave", None), ("12 13th Ave", None)),
        (("12 Lake Shore Dr", None), ("12 Lakeshore Dr", None)),
        (("12 Main St", "N/A"), ("12 Main St", None)),
        (("12 Main St, none", None), ("12 Main St", None)),
        (("12 Main St", "12 Main Street"), ("12 Main St", None)),
        (("12 Main St", "12 Main Street Apt 4"), ("12 Main St", "Apt 4")),
        (("12 Main St", "Acme Corp"), ("12 Main St", None)),
        (("12 Main St", "Acme Widgets, LLC"), ("12 Main St", None)),
        (("12 Main St", "Gate code 1234"), ("12 Main St", None)),
        (("12 Main St Apt 4", "ring bell twice"), ("12 Main St Apt 4", None)),
    ],
)  # fmt: skip
def test_spellings_of_one_address_have_one_key(here: tuple[str, str | None], there: tuple[str, str | None]) -> None:
    assert standardized(*here).key == standardized(*there).key


@pytest.mark.parametrize("words", ["N/A", "n.a.", "none", "NULL", "-", "nan", "Not applicable"])
def test_a_second_line_that_says_nothing_is_not_printed(words: str) -> None:
    assert lines("12 Main St", words) == ("12 MAIN ST", None)
    abroad = standardize({"address": "12 Rue Foch", "address2": words, **TOWN}, "FR")
    assert abroad.standard is not None
    assert abroad.standard[1] is None
    assert abroad.key == standardize({"address": "12 Rue Foch", "address2": None, **TOWN}, "FR").key


def test_a_repeated_street_is_printed_once() -> None:
    assert lines("12 Main St", "12 Main Street") == ("12 MAIN ST", None)
    assert lines("12 Main St", "12 Main Street Apt 4") == ("12 MAIN ST APT 4", None)


def test_a_company_and_a_gate_code_are_printed_all_the_same() -> None:
    assert lines("12 Main St", "Acme Corp.") == ("12 MAIN ST", "ACME CORP")
    assert lines("12 Main St", "Gate code 1234") == ("12 MAIN ST", "GATE CODE 1234")


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("General Delivery", None),
        ("RR 2", "RR 2 has no BOX after it."),
        ("HC 68", "HC 68 has no BOX after it."),
        ("PSC 3", "PSC 3 has no BOX after it."),
        ("Main St", NO_NUMBER),
        ("5th Ave", NO_NUMBER),
    ],
)
def test_a_shared_address_has_an_ambiguous_key(address: str, reason: str | None) -> None:
    found = standardized(address)
    assert (found.key or "").endswith(AMBIGUOUS_KEY_SUFFIX)
    assert found.deliverability == (DOUBTFUL if reason else DELIVERABLE)
    assert found.reasons == ((reason,) if reason else ())


def test_general_delivery_recipients_differ_by_name_and_email() -> None:
    jane = {"name": "Jane Doe", "address": "General Delivery", **TOWN}
    people = [
        jane,
        jane | {"name": "Joe Doe"},
        jane | {"email": "jane@example.com"},
        jane | {"city": "Dallas", "postal_code": "75201"},
    ]
    assert len({validate_recipient(row).address_key for row in people}) == len(people)
    assert validate_recipient(jane | {"name": "JANE  DOE"}).address_key == validate_recipient(jane).address_key
    assert [person.refusal for person in validate_recipients(people)] == [None] * len(people)
    assert not validate_recipient(jane).can_be_suppressed
    assert parse_partial_address({"address": "General Delivery", "postal_code": "78701"}).address_key is None


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ("12 Old Hwy 5", "12 OLD HIGHWAY 5"),
        ("12 Old Highway 5 N", "12 OLD HIGHWAY 5 N"),
        ("12 Old State Road 7", "12 OLD STATE ROAD 7"),
        ("12 Old County Rd 5 Apt 2", "12 OLD COUNTY ROAD 5 APT 2"),
        ("12 N Old Hwy 5", "12 N OLD HIGHWAY 5"),
        ("12 Business Hwy 5", "12 BUSINESS HIGHWAY 5"),
        ("12 Scenic Hwy 98", "12 SCENIC HIGHWAY 98"),
        ("12 Pacific Coast Hwy 9", "12 PACIFIC COAST HWY 9"),
        ("12 Pine Ridge Rd 7", "12 PINE RIDGE RD 7"),
        ("12 Old Mill Rd", "12 OLD MILL RD"),
    ],
)
def test_the_number_of_a_highway_is_no_unit(given: str, written: str) -> None:
    assert lines(given) == (written, None)


@pytest.mark.parametrize("designator", ["Apartment No. 4", "Apt Num 4", "Apt Number 4", "Apt No 4", "Apt # 4"])
def test_a_repeated_unit_number_is_printed_once(designator: str) -> None:
    assert lines("12 Main St", designator) == ("12 MAIN ST APT 4", None)
    assert lines(f"12 Main St {designator}") == ("12 MAIN ST APT 4", None)


@pytest.mark.parametrize(
    ("address", "address2", "written"),
    [
        ("Foo Building, 12 Main St", None, ("12 MAIN ST", "FOO BUILDING")),
        ("12 Main St", "Foo Building", ("12 MAIN ST", "FOO BUILDING")),
        ("12 Main St", "Acme Suite", ("12 MAIN ST", "ACME SUITE")),
        ("12 Main St", "Foo Building 4", ("12 MAIN ST BLDG 4", "FOO")),
        ("12 Main St", "Oak Tower Penthouse", ("12 MAIN ST PH", "OAK TOWER")),
        ("12 Main St", "Apt 1.2", ("12 MAIN ST APT 1.2", None)),
        ("123 5.5 Mile Rd", None, ("123 5.5 MILE RD", None)),
    ],
)
def test_what_belongs_together_stays_together(
    address: str, address2: str | None, written: tuple[str, str | None]
) -> None:
    assert lines(address, address2) == written


@pytest.mark.parametrize(
    ("address", "written"),
    [
        ("URB Las Gladiolas 150 Calle A", ("150 CALLE A", "URB LAS GLADIOLAS")),
        ("Urb. Las Gladiolas 150 Calle A Apt 2", ("150 CALLE A APT 2", "URB LAS GLADIOLAS")),
        ("Bo Obrero 615 Calle 10", ("615 CALLE 10", "BO OBRERO")),
        ("Barrio Obrero, 615 Calle 10", ("615 CALLE 10", "BO OBRERO")),
        ("150 Calle A Urb Las Gladiolas", ("150 CALLE A", "URB LAS GLADIOLAS")),
    ],
)
def test_in_puerto_rico_the_number_may_come_after_the_neighbourhood(address: str, written: tuple[str, str]) -> None:
    town = {"city": "San Juan", "province": "PR", "postal_code": "00926"}
    assert lines(address, **town) == written
    assert standardized(address, **town).deliverability == DELIVERABLE


@pytest.mark.parametrize("town", ["A.P.O.", "apo", "A P O"])
def test_a_post_office_of_the_armed_forces_is_known_in_any_spelling(town: str) -> None:
    found = standardized("PSC 3 Box 4", city=town, province="AE", postal_code="09021")
    assert (found.deliverability, found.reasons) == (DELIVERABLE, ())
    assert found.standard is not None
    assert found.standard[2] == "APO"


def test_a_short_zip_code_is_not_made_longer_without_a_witness() -> None:
    row = {"address": "12 Main St", "city": "Austin", "province": "TX", "postal_code": "7870"}
    _, errors = check_recipient(row)
    assert errors == {"postal_code": ["A ZIP code has 5 digits, or 5-4."]}
