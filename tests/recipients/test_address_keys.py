"""The key of an address: one for every way to write a door, another for another door."""

from unicodedata import normalize

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quillpost.recipients.addresses.rules import (
    AMBIGUOUS_KEY_SUFFIX,
    DELIVERABLE,
    DOUBTFUL,
    NO_NUMBER,
    StandardizedAddress,
    standardize,
)
from quillpost.recipients.addresses.text import extract_surname
from quillpost.recipients.rules import (
    MAX_FIELD_LENGTH,
    check_recipient,
    may_share_address,
    parse_partial_address,
    validate_recipient,
    validate_recipients,
)
from support.factories import person

TOWN = {"city": "Austin", "province": "TX", "postal_code": "78701"}


def standardized(address: str, address2: str | None = None, **other: str) -> StandardizedAddress:
    return standardize({"address": address, "address2": address2, **(TOWN | other)}, "US")


SAME_ADDRESS: tuple[tuple[str, str], ...] = (
    ("12 Main Street, Apt. 4", "12 MAIN ST / Apt 4"), ("12 Main Street, Apt. 4", "12 MAIN ST #4"),
    ("12 Main Street / 4", "12 MAIN ST / Unit 4"), ("12 First Street", "12 1st St"),
    ("12 Saint Marys Ave", "12 St. Mary's Avenue"), ("12 Main St / c/o Jane Doe", "12 Main St"),
    ("Oak Tower / 12 Main St", "12 Main St / Oak Tower"), ("PO Box 12", "P.O. Box #12"), ("12 Hwy 5", "12 Highway 5"),
    ("12 Main St / Second Floor", "12 Main St / 2nd Floor"), ("12 Main St / Apt Upper", "12 Main St / Upper"),
    ("12 Main St / Apartment No. 4", "12 Main St / Apt 4"), ("12 Twenty-First St", "12 21st St"),
    ("12 Twenty First St", "12 21st St"), ("12 Thirteenth Ave", "12 13th Ave"), ("12 Lake Shore Dr", "12 Lakeshore Dr"),
    ("12 Main St / N/A", "12 Main St"), ("12 Main St, none", "12 Main St"),
    ("12 Main St / 12 Main Street", "12 Main St"), ("12 Main St / 12 Main Street Apt 4", "12 Main St / Apt 4"),
    ("12 Main St / Acme Corp", "12 Main St"), ("12 Main St / Acme Widgets, LLC", "12 Main St"),
    ("12 Main St / Gate code 1234", "12 Main St"), ("12 Main St Apt 4 / ring bell twice", "12 Main St Apt 4"),
)  # fmt: skip
"""Of one line or two."""
OTHER_ADDRESS: tuple[tuple[str, str], ...] = (
    ("12 Main St, Apt 4", "12 Main St, Apt 5"), ("12 Main St, Apt 4", "12 Main St, Bldg 4"),
    ("12 Main St, Apt 4", "12 Main St, Fl 4"), ("12 Main St, Bldg 1 Apt 12", "12 Main St, Bldg 11 Apt 2"),
    ("12 Main St", "12 Main Ave"), ("12 N Main St", "12 S Main St"), ("12 Main St N", "12 N Main St"),
    ("12 Main St, Oak Tower", "12 Main St, Elm Tower"), ("12 1/2 Main St", "12 Main St"),
    ("12 W Alton Ave", "12 Walton Ave"), ("12 N Ash St", "12 Nash St"), ("12 N E St", "12 NE St"),
    ("12 Oak Hill S", "12 Oak Hills"), ("12 Elm Ct S", "12 Elm Courts"), ("12 E Aston Rd", "12 Easton Rd"),
    ("12 Fore St", "12 Forest"), ("12 Park Way", "12 Parkway"), ("12N Ash St", "12 N Ash St"),
    ("12 Main St Ste 4", "12 Main St Apt 4"), ("12 Main St Apt 1.2", "12 Main St Apt 12"),
    ("123 5.5 Mile Rd", "123 55 Mile Rd"), ("12 Calle 5 Km 5.3", "12 Calle 5 Km 53"),
    ("12 Main St, Smith Hall", "12 Main St, Jones Hall"), ("12 Main St, PO Box 5", "12 Main St, PO Box 6"),
    ("12 Main St, North Wing", "12 Main St, South Wing"),
)  # fmt: skip
ONE_RECIPIENT: tuple[tuple[dict[str, str], dict[str, str]], ...] = (
    ({"address": "12 Café St"}, {"address": "12 Cafe\u0301 St"}),
    ({"address": "12 CAFÉ ST"}, {"address": "12 cafe\u0301 st"}),
    ({"address": "12 οδός ΐ"}, {"address": "12 ΟΔΌΣ Ϊ\u0301"}),
    ({"address": "12 שָׁלוֹם", "country": "IL"}, {"address": "12 שלום", "country": "IL"}),
    ({"address": "12 葛\U000e0100", "country": "JP"}, {"address": "12 葛", "country": "JP"}),
    ({"address": "12 - 2nd St"}, {"address": "12, 2nd St"}),
    ({"postal_code": "110 00", "country": "CZ"}, {"postal_code": "11000", "country": "CZ"}),
    ({"postal_code": "K1A 0B1", "country": "CA"}, {"postal_code": "k1a0b1", "country": "CA"}),
)


def test_spellings_of_one_address_have_one_key_and_different_addresses_have_two(subtests: pytest.Subtests) -> None:
    for here, there in SAME_ADDRESS:
        with subtests.test(f"{here} is {there}"):
            assert standardized(*here.split(" / ")).key == standardized(*there.split(" / ")).key
    for one, other in OTHER_ADDRESS:
        with subtests.test(f"{one} is not {other}"):
            assert standardized(one).key != standardized(other).key
    for changes, spelled in ONE_RECIPIENT:
        with subtests.test(f"{changes} is {spelled}"):
            keys = [validate_recipient(person(**each)).address_key for each in (changes, spelled)]
            assert keys[0] == keys[1]
    assert standardized("12 North Main Street, Apt. 4", postal_code="78701-1234").key == "12 N MAIN ST|4|78701|US"


@given(st.text(), st.text())
def test_a_key_knows_no_difference_of_normal_form(address: str, address2: str) -> None:
    keys = {
        check_recipient({"address": normalize(form, address), "address2": normalize(form, address2)})[0].address_key
        for form in ("NFC", "NFD")
    }
    assert len(keys) == 1


SHARED = {
    "General Delivery": None, "RR 2": "RR 2 has no BOX after it.", "HC 68": "HC 68 has no BOX after it.",
    "PSC 3": "PSC 3 has no BOX after it.", "Main St": NO_NUMBER, "5th Ave": NO_NUMBER,
}  # fmt: skip


def test_a_shared_address_has_an_ambiguous_key() -> None:
    for address, reason in SHARED.items():
        found = standardized(address)
        assert (found.key or "").endswith(AMBIGUOUS_KEY_SUFFIX), address
        assert found.deliverability == (DOUBTFUL if reason else DELIVERABLE)
        assert found.reasons == ((reason,) if reason else ())


def test_general_delivery_recipients_differ_by_name_and_email() -> None:
    jane = {"name": "Jane Doe", "address": "General Delivery", **TOWN}
    others = {"name": "Joe Doe"}, {"email": "jane@example.com"}, {"city": "Dallas", "postal_code": "75201"}
    people = [jane, *(jane | apart for apart in others)]
    assert len({validate_recipient(row).address_key for row in people}) == len(people)
    assert validate_recipient(jane | {"name": "JANE  DOE"}).address_key == validate_recipient(jane).address_key
    assert [person.refusal for person in validate_recipients(people)] == [None] * len(people)
    assert not validate_recipient(jane).can_be_suppressed
    assert parse_partial_address({"address": "General Delivery", "postal_code": "78701"}).address_key is None


ELSEWHERE: tuple[dict[str, str], ...] = (
    {"city": "Waco"}, {"province": "CA"}, {"email": "joe@example.com"}, {"address2": "Apt 2"},
    {"address": "13 Main St"}, {"postal_code": "78701"}, {"country": "CA", "city": "Toronto"},
)  # fmt: skip


def test_a_street_whose_place_is_not_known_is_known_by_all_the_rest() -> None:
    street = {"address": "12 Main St", "city": "Austin", "province": "TX", "email": "jane@example.com"}
    key = validate_recipient(street).address_key
    assert key == validate_recipient(street | {"address": "12 MAIN ST.", "email": "Jane@Example.com"}).address_key
    for apart in ELSEWHERE:
        assert key != validate_recipient(street | apart).address_key, apart


SUPPRESSIBLE: tuple[tuple[dict[str, str], bool], ...] = (
    ({}, False), ({"city": "Austin", "province": "TX"}, False), ({"postal_code": "78701"}, True),
    ({"country": "FR"}, False), ({"country": "FR", "city": "Paris"}, True),
    ({"country": "FR", "postal_code": "75001"}, True),
)  # fmt: skip


def test_an_address_can_be_suppressed_where_its_place_is_known() -> None:
    for address in ("12 Main St", "1 " + "long " * 59):
        for known, has_place in SUPPRESSIBLE:
            row = {"address": address, "address2": address} | known
            assert validate_recipient(row).can_be_suppressed is has_place, row
            assert validate_recipient(row | {"email": "jane@example.com"}).can_be_suppressed
    assert validate_recipient({"email": "jane@example.com"}).can_be_suppressed


@given(st.text(max_size=MAX_FIELD_LENGTH), st.text(max_size=MAX_FIELD_LENGTH), st.text(max_size=MAX_FIELD_LENGTH))
def test_an_address_has_a_key_that_an_index_takes(address: str, address2: str, code: str) -> None:
    row = {"address": address, "address2": address2, "postal_code": code, "city": "X", "country": "CN"}
    found, _ = check_recipient(row)
    assert len((found.address_key or "").encode()) <= 2_000
    assert check_recipient(row)[0].address_key == found.address_key


def test_long_addresses_that_end_differently_differ() -> None:
    long = {"address": "x" * 300, "address2": "y" * 300, "city": "X", "country": "CN"}
    first, second = validate_recipients([long | {"postal_code": code} for code in ("1", "2")])
    assert first.address_key != second.address_key


PARTIAL: tuple[tuple[dict[str, str], str], ...] = (
    ({"address": "12 Main Street"}, "12MAIN ST"),
    ({"address": "12 Main Street Apt 4"}, "12MAIN ST|4"),
    ({"address": "12 Main St", "address2": "# 4"}, "12MAIN ST|4"),
    ({"address": "12 Rue Foch", "address2": "Étage 4", "country": "FR"}, "12RUEFOCH|ÉTAGE4"),
)
WHOLE = {"address": "12 MAIN ST, Austin, TX 78701-1234"}, {"address": "12 main st.", "postal_code": "78701"}


def test_a_partial_address_is_matched_with_its_unit_and_a_whole_one_by_its_key() -> None:
    """Whoever takes apartment 4 off a list does not mean all of the house."""
    for row, beginning in PARTIAL:
        assert parse_partial_address(row).key_prefix == beginning, row
    for row in (person(), *WHOLE):
        assert parse_partial_address(row).address_key == validate_recipient(person()).address_key, row
    where = parse_partial_address({"address": "12 Main St.", "province": "Texas", "country": "us"})
    assert (where.street, where.address_key) == ("12MAIN ST", None)
    assert where.parts == {"province": "TX", "country": "US"}


def test_half_an_address_may_be_another_with_the_same_unit() -> None:
    for known, other, is_one in (
        ("12 Main St Apt 4", "12 Main Street #4", True),
        ("12 Main St", "12 Main Street Apt 4", True),
        ("12 Main St Apt 4", "12 Main St Apt 5", False),
        ("12 Main St", "12 Main Ave", False),
    ):
        whole = validate_recipient(person(address=known))
        assert may_share_address(whole, validate_recipient({"address": other})) is is_one, (known, other)


SURNAMES = {
    "Jane Doe": "DOE", "JANE DOE": "DOE", "Dr. Jane Q. Doe Jr.": "DOE", "Jane Doe, PhD": "DOE", "Doe, Jane": "DOE",
    "Doe, Jane Q.": "DOE", "Doe, Jr., John": "DOE", "The Smith Family": "SMITH", "Smith Household": "SMITH",
    "John Smith and family": "SMITH", "John and Jane Smith": "SMITH", "Jane Doe or Current Resident": "DOE",
    'Jane "Jay" Doe (new)': "DOE", "Pat O'Brien": "OBRIEN", "Mary Smith-Jones": "SMITHJONES",
    "Vincent van Gogh": "VANGOGH", "de la Cruz, Maria": "DELACRUZ", "Van Morrison": "MORRISON", "José García": "GARCÍA",
    "Attn: Jane Doe": "DOE", "李 小龙": "李", "Smith": "SMITH", "Jane Doe c/o Bob Smith": "DOE",
    "Jane Doe, C/O Bob Smith": "DOE", "Jane Doe in care of Bob Smith": "DOE", "Doe, Jane c/o Bob Smith": "DOE",
    "Jane St. John": "STJOHN", "Jane St John": "STJOHN", "St. John, Jane": "STJOHN",
}  # fmt: skip
NOBODY = (
    None, "", "  ", "Acme LLC", "Acme, Inc.", "The Smith Trust", "Current Resident", "Resident", "The Occupant",
    "Our Neighbor", "n/a", "Unknown", "jane@example.com", "12", "Dr.", "The", "Mr. & Mrs.",
)  # fmt: skip


def test_those_at_one_address_with_one_family_name_are_a_household(subtests: pytest.Subtests) -> None:
    for name, surname in [*SURNAMES.items(), *((nobody, None) for nobody in NOBODY)]:
        with subtests.test(str(name)):
            assert extract_surname(name) == surname
