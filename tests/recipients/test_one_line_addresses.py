"""Addresses on one line: people write them in many ways, and what is not certain is not guessed."""

import pytest
from benchmarks.audience.addresses import Row, sample

from quillpost.recipients.addresses.parser import split_address_line
from quillpost.recipients.addresses.rules import standardize


@pytest.mark.parametrize(
    ("line", "street", "city", "state", "code"),
    [
        ("12 main st austin tx 78701", "12 main st", "austin", "TX", "78701"),
        ("12 Main St Apt 4 Austin TX 78701-1234", "12 Main St Apt 4", "Austin", "TX", "78701-1234"),
        ("12 Main St, Apt B Austin, TX 78701", "12 Main St, Apt B", "Austin", "TX", "78701"),
        ("12 Main St\nApt 4\nAustin, TX 78701", "12 Main St, Apt 4", "Austin", "TX", "78701"),
        ("12 Main St\tAustin\tTX\t78701", "12 Main St", "Austin", "TX", "78701"),
        ("12 Main St Austin, Texas 78701 U.S.A.", "12 Main St", "Austin", "TX", "78701"),
        ("12 Main St, Austin, TX 78701, United States of America", "12 Main St", "Austin", "TX", "78701"),
        ("12 Main St, Austin 78701", "12 Main St", "Austin", "TX", "78701"),
        ("5 Fifth Ave, New York 10001", "5 Fifth Ave", "New York", "NY", "10001"),
        ("12 Broadway New York, New York 10001", "12 Broadway", "New York", "NY", "10001"),
        ("1 Elm Rd St. Paul Minnesota 55101", "1 Elm Rd", "St. Paul", "MN", "55101"),
        ("100 main st ft worth tx 76102", "100 main st", "ft worth", "TX", "76102"),
        ("12 N Main St E Lansing MI 48823", "12 N Main St", "E Lansing", "MI", "48823"),
        ("112-10 Bronx Rd Queens NY 11354", "112-10 Bronx Rd", "Queens", "NY", "11354"),
        ("1600 K Street NW Washington DC 20006", "1600 K Street NW", "Washington", "DC", "20006"),
        ("PSC 3 Box 4120, APO AE 09021", "PSC 3 Box 4120", "APO", "AE", "09021"),
        ("psc 3 box 4120 apo ae 09021", "psc 3 box 4120", "apo", "AE", "09021"),
        ("P.O. Box 12 Austin TX 78701", "P.O. Box 12", "Austin", "TX", "78701"),
        ("RR 2 Box 18 Adjuntas PR 00601", "RR 2 Box 18", "Adjuntas", "PR", "00601"),
        ("One Microsoft Way Redmond WA 98052", "One Microsoft Way", "Redmond", "WA", "98052"),
        ("General Delivery Austin TX 78701", "General Delivery", "Austin", "TX", "78701"),
        ("12 US Highway 44 Austin TX 78701", "12 US Highway 44", "Austin", "TX", "78701"),
        # The table does not know these cities: the library finds where the street ends.
        ("12 main st smallville ks 67524", "12 main st", "smallville", "KS", "67524"),
        ("12 Oak Ave Nowhere Heights TX 99999", "12 Oak Ave", "Nowhere Heights", "TX", "99999"),
    ],
)  # fmt: skip
def test_a_line_is_taken_apart(line: str, street: str, city: str, state: str, code: str) -> None:
    assert split_address_line(line) == {"address": street, "city": city, "province": state, "postal_code": code}


@pytest.mark.parametrize(
    "line",
    [
        "", "78701", "TX 78701", "Austin TX 78701", "Main St Austin TX 78701", "12 Main St Austin TX",
        "12 Main St, Apt B, TX 78701", "12 Main St, West Virginia 25301", "12 Main St, Austin, XX 78701",
        "12 Main St, Washington 98101", "12 Foo Bar Baz TX 99999", "12 Main St, , TX 78701",
    ],
)  # fmt: skip
def test_an_ambiguous_line_is_not_split(line: str) -> None:
    assert split_address_line(line) is None


def one_line_forms(row: Row) -> list[str]:
    whole = row.line()
    return [whole, whole.replace(", ", " "), whole.replace(", ", "\n"), f"{whole}, USA"]


def test_a_made_address_is_found_again_in_its_line() -> None:
    """Boxes, highways, units and all: the street and the door are the same as from separate fields."""
    made = sample(150, seed=11)
    for row in made:
        expected = standardize(row.parts(), "US")
        for line in one_line_forms(row):
            found = split_address_line(line)
            assert found is not None, line
            again = standardize({"address2": None, **found}, "US")
            assert (again.key, again.standard) == (expected.key, expected.standard), line
