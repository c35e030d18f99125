"""The specification's table "Recipient", row by row: what is written, and what every answer shows."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from quillpost.core.database.embedded.server import EmbeddedPostgres
from support.mailing_lists import ListOwner, field_errors
from support.shared_lists import shared_lists

Test = Callable[[Any], bool]
Shown = dict[str, dict[str, Any]]

DATE_TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"
GIVEN = {
    "name": "Jane Doe", "company": "Doe Homes", "address": "12 Main St", "address2": "Apt 4",
    "city": "Austin", "province": "TX", "postal_code": "78701", "country": "US", "dob": "02/29/1980",
    "anniversary": "06/15/2004", "email": "jane@example.com", "phone": "+1 512 555 0100",
    **{f"custom{n}": f"own words {n}" for n in range(1, 11)},
}  # fmt: skip


def integer(value: Any) -> bool:
    return type(value) is int


def moment(value: Any) -> bool:
    return type(value) is str and re.fullmatch(DATE_TIME, value) is not None


def exactly(text: str) -> Test:
    return lambda value: value == text


def a_list(value: Any) -> bool:
    return type(value) is dict and value["description"] == "Visitors"


TABLE: list[tuple[str, Test]] = [
    ("id", integer),
    ("mailing_list_id", integer),
    ("name", exactly("Jane Doe")),
    ("company", exactly("Doe Homes")),
    ("address", exactly("12 Main St")),
    ("address2", exactly("Apt 4")),
    ("city", exactly("Austin")),
    ("province", exactly("TX")),
    ("postal_code", exactly("78701")),
    ("country", exactly("US")),
    ("dob", exactly("1980-02-29")),
    ("anniversary", exactly("2004-06-15")),
    ("email", exactly("jane@example.com")),
    ("phone", exactly("+1 512 555 0100")),
    ("custom1", exactly("own words 1")),
    ("custom2", exactly("own words 2")),
    ("custom3", exactly("own words 3")),
    ("custom4", exactly("own words 4")),
    ("mailing-list", a_list),
    ("created_at", moment),
    ("updated_at", moment),
]
FIELDS = [field for field, _ in TABLE]
OURS = {
    *(f"custom{n}" for n in range(5, 11)), "mailing_list",
    "deliverability", "can_deliver", "deliverability_reasons",
}  # fmt: skip
READ_ONLY = ("id", "mailing-list", "created_at", "updated_at")


@pytest.fixture(scope="module")
def lists(postgres: EmbeddedPostgres, template: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ListOwner]:
    with shared_lists(postgres, template, tmp_path_factory.mktemp("recipient_table")) as (found, _):
        yield found


@pytest.fixture(scope="module")
def shown(lists: ListOwner) -> Shown:
    """One recipient wherever the interface shows it."""
    list_id = lists.make()
    [of_many] = lists.account.post("/recipients_multi", [GIVEN | {"mailing_list_id": lists.make()}]).json()
    made = lists.account.post("/recipients", GIVEN | {"mailing_list_id": list_id}).json()
    return {
        "made": made,
        "of many": of_many,
        "read": lists.account.get(f"/recipients/{made['id']}").json(),
        "list": lists.account.get("/recipients").json()["data"][0],
        "lookup": lists.account.post("/recipients/lookup", {"email": GIVEN["email"]}).json(),
        "change": lists.put(f"/recipients/{made['id']}", {"name": "Jane Doe"}).json(),
        "page": lists.on(list_id)[0],
    }


@pytest.mark.parametrize(("field", "holds"), TABLE, ids=FIELDS)
def test_every_recipient_has_the_field_in_its_form(shown: Shown, field: str, holds: Test) -> None:
    for where, recipient in shown.items():
        assert holds(recipient[field]), (where, recipient[field])


def test_a_recipient_has_no_field_beyond_the_table_but_our_own(shown: Shown) -> None:
    for where, recipient in shown.items():
        assert set(recipient) == {*FIELDS, *OURS}, where


@pytest.mark.parametrize("field", READ_ONLY)
def test_a_read_only_field_changes_nothing(lists: ListOwner, field: str) -> None:
    made = lists.add(lists.make()).json()
    put = lists.put(f"/recipients/{made['id']}", {field: 5})
    assert (put.json(), put.headers["X-Ignored-Fields"]) == (made, field)


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        ({"mailing_list_id"}, {"address"}),
        ({"mailing_list_id", "address"}, set()),
        ({"mailing_list_id", "email"}, set()),
        ({"mailing_list_id", "address", "email"}, set()),
        ({"address", "email"}, {"mailing_list_id"}),
    ],
)
def test_a_list_and_an_address_or_an_email_are_required(lists: ListOwner, given: set[str], missing: set[str]) -> None:
    whole = {
        "mailing_list_id": lists.make(), "address": "12 Main St, Austin, TX 78701", "email": "a@example.com",
    }  # fmt: skip
    answer = lists.account.post("/recipients", {name: whole[name] for name in given})
    if missing:
        assert set(field_errors(answer)) == missing
    else:
        assert answer.status_code == 201


@pytest.mark.parametrize("field", ["dob", "anniversary"])
@pytest.mark.parametrize(
    ("written", "kept"), [("2000-12-31", "2000-12-31"), ("12/31/2000", "2000-12-31"), (None, None), ("", None)]
)
def test_a_date_is_iso_or_converted_to_it(lists: ListOwner, field: str, written: str | None, kept: str | None) -> None:
    assert lists.add(lists.make(), **{field: written}).json()[field] == kept
