"""Rows as people, and people as the database copies them."""

import re
from typing import Any

import pytest

from quillpost.recipients.imports.models import RowPlan
from quillpost.recipients.imports.rules import RowReader, examine_rows, format_array
from quillpost.recipients.lists.queries import escape_formula
from quillpost.recipients.models import BY_ADDRESS, Person
from quillpost.recipients.rules import INEFFECTIVE_ENTRY, check_recipient


def person(suppress_by: str | None = None, **cells: str) -> Person | str:
    plan = RowPlan(list(enumerate(cells)), len(cells), suppress_by)
    return RowReader(plan).read_person(list(cells.values()))


def made(**cells: str) -> Person:
    found = person(**cells)
    assert isinstance(found, Person), found
    return found


JANE: dict[str, Any] = {
    "name": "Jane Doe", "address": "12 Main St", "city": "Austin", "province": "TX", "postal_code": "78701",
}  # fmt: skip


def test_a_row_is_checked_like_a_recipient_of_the_api() -> None:
    assert made(**JANE) == check_recipient(JANE, allow_incomplete=True)[0]


def test_names_are_joined_and_countries_are_codes() -> None:
    found = made(first_name="Jane", last_name="Doe", address="1 King St", city="Toronto", country="Canada")
    assert (found.name, found.country) == ("Jane Doe", "CA")
    assert made(first_name="Jane", last_name="", email="j@example.com").name == "Jane"


def test_an_address_is_put_together_from_its_parts() -> None:
    assert made(street_number="12", street_name="Main St", city="Austin").address == "12 Main St"
    whole = made(full_address="12 Main St, Austin, TX 78701")
    assert (whole.address, whole.city, whole.postal_code) == ("12 Main St", "Austin", "78701")
    two = made(**JANE | {"address": "12 Main St\nSuite 4"})
    assert (two.address, two.address2) == ("12 Main St", "Suite 4")


def test_noughts_that_a_spreadsheet_lost_are_back() -> None:
    assert made(**JANE | {"province": "MA", "city": "Cambridge", "postal_code": "2139"}).postal_code == "02139"
    assert made(address="1 Rue X", city="Y", postal_code="2139", country="CH").postal_code == "2139"


def test_noughts_that_nobody_lost_are_not_made_up() -> None:
    """7870 of Austin lacks its last digit: 07870 is in New Jersey."""
    assert person(**JANE | {"postal_code": "7870"}) == "postal_code: A ZIP code has 5 digits, or 5-4."


def test_a_date_may_have_its_time() -> None:
    assert str(made(email="j@example.com", dob="1980-02-29T00:00:00").dob) == "1980-02-29"


@pytest.mark.parametrize("value", ["=1+1", "'=1+1", "-1", "@x", "''+1", "'tis", "plain", "＝1"])
def test_what_an_export_made_harmless_is_what_it_was(value: str) -> None:
    assert made(email="j@example.com", custom1=escape_formula(value)).custom[0] == value
    assert not escape_formula(value).startswith(("=", "+", "-", "@", "＝"))


@pytest.mark.parametrize(
    ("cells", "error"),
    [
        ({"name": "Jane"}, "address: Give an address, or at least an email."),
        (JANE | {"postal_code": "787"[:2]}, "postal_code: A ZIP code has 5 digits, or 5-4."),
        (JANE | {"name": "Jos\ufffd"}, "name holds a broken character"),
        (JANE | {"name": "a\x00b"}, "name holds a NUL character"),
        (JANE | {"name": "x" * 301}, "name: At most 300 characters, please."),
        ({"email": "nobody"}, "email: This is not an e-mail address."),
    ],
)
def test_a_row_that_cannot_be_taken_says_why(cells: dict[str, str], error: str) -> None:
    found = person(**cells)
    assert isinstance(found, str)
    assert error in found


def test_a_broken_letter_in_a_column_that_is_left_out_harms_nobody() -> None:
    found = RowReader(RowPlan([(0, "email")], 2)).read_person(["j@example.com", "\ufffd"])
    assert isinstance(found, Person)


def test_short_rows_lack_something_and_long_ones_say_too_much() -> None:
    reader = RowReader(RowPlan([(0, "email"), (1, "name")], 2))
    assert isinstance(reader.read_person(["j@example.com"]), Person)
    assert isinstance(reader.read_person(["j@example.com", "Jane", "", " "]), Person)
    assert "The row has 3 cells, and there are 2 columns" in str(reader.read_person(["j@example.com", "Jane", "TX"]))


def test_on_a_suppression_list_everyone_bars_somebody() -> None:
    assert person(BY_ADDRESS, address="12 Main St", name="Jane") == f"address: {INEFFECTIVE_ENTRY}"
    assert isinstance(person(None, address="12 Main St", name="Jane"), Person)
    assert isinstance(person(BY_ADDRESS, **JANE), Person)


def test_rows_that_could_not_be_read_are_rejected_with_the_others() -> None:
    people, rejects = examine_rows(
        RowReader(RowPlan([(0, "email")], 1)), 7, 40, [41, 42, 43], [["a@example.com"], [], ["b"]], {1: "too\tlong"}
    )
    assert [line.split("\t")[:2] for line in people] == [["40", "41"]]
    assert rejects == ["7\t41\t42\ttoo\\tlong\n", "7\t42\t43\temail: This is not an e-mail address.\n"]


@pytest.mark.parametrize(
    ("texts", "written"),
    [
        (None, None),
        ((), "{}"),
        (("A", None, "B C"), '{"A",NULL,"B C"}'),
        ((None,), "{NULL}"),
        (('A "B"', "C\\D"), '{"A \\"B\\"","C\\\\D"}'),
        (("A\tB",), '{"A\tB"}'),
    ],
)
def test_arrays_are_written_as_the_database_reads_them(
    texts: tuple[str | None, ...] | None, written: str | None
) -> None:
    assert format_array(texts) == written


@pytest.mark.parametrize(
    "odd", ["plain", "back\\slash", "tab\there", "line\nbreak", "return\rhere", "unit\x1fmark", "N\\N"]
)
def test_what_copy_would_take_for_a_sign_of_its_own_comes_through(odd: str) -> None:
    [line], _ = examine_rows(
        RowReader(RowPlan([(0, "email"), (1, "custom1"), (2, "custom3")], 3)), 7, 0, [2],
        [["a@example.com", odd, "after"]], {},
    )  # fmt: skip
    assert line.endswith("\n")
    cells = line[:-1].split("\t")
    assert len(cells) == 30
    signs = {"\\t": "\t", "\\n": "\n", "\\r": "\r", "\\\\": "\\"}
    found = [None if cell == "\\N" else re.sub(r"\\.", lambda sign: signs[sign[0]], cell) for cell in cells]
    assert found[14:18] == [odd, None, "after", None]
