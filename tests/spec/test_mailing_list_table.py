"""The specification's table "Mailing list", row by row, in every answer that shows a list."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from quillpost.core.database.embedded.server import EmbeddedPostgres
from support.mailing_lists import ListOwner
from support.shared_lists import shared_lists

Test = Callable[[Any], bool]
Shown = dict[str, dict[str, Any]]

TYPES = (
    "csv", "manual", "map", "friends", "retarget", "leads", "automation", "radius", "crm", "qrscans",
)  # fmt: skip
DATE_TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"
RELATIVE = r"just now|\d+ (second|minute|hour|day|week|month|year)s? ago"


def integer(value: Any) -> bool:
    return type(value) is int


def boolean(value: Any) -> bool:
    return type(value) is bool


def matches(pattern: str) -> Test:
    return lambda value: type(value) is str and re.fullmatch(pattern, value) is not None


def or_null(holds: Test) -> Test:
    return lambda value: value is None or holds(value)


TABLE: list[tuple[str, Test]] = [
    ("id", integer),
    ("user_id", integer),
    ("sub_account_id", or_null(integer)),
    ("type", lambda value: value in TYPES),
    ("description", matches("Visitors")),
    ("qrcode_url", or_null(matches("https://.+"))),
    ("total_recipients", integer),
    ("processed", boolean),
    ("is_suppression_list", boolean),
    ("total_scans", integer),
    ("unique_scans", integer),
    ("total_sends", integer),
    ("last_scan", or_null(matches(DATE_TIME))),
    ("last_send", or_null(matches(DATE_TIME))),
    ("api_key", matches(r"ql_[\w-]{40,}")),
    ("created_at", matches(DATE_TIME)),
    ("created_at_diff", matches(RELATIVE)),
    ("updated_at", matches(DATE_TIME)),
]


@pytest.fixture(scope="module")
def lists(postgres: EmbeddedPostgres, template: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ListOwner]:
    with shared_lists(postgres, template, tmp_path_factory.mktemp("list_table")) as (found, _):
        yield found


@pytest.fixture(scope="module")
def shown(lists: ListOwner) -> Shown:
    """One list wherever the interface shows it as it is read."""
    list_id = lists.make(qrcode_url="https://example.com/")
    return {
        "recipient": lists.add(list_id).json()["mailing-list"],
        "read": lists.read(list_id),
        "list": lists.account.get("/mailing-lists").json()["data"][0],
        "change": lists.put(f"/mailing-lists/{list_id}", {"description": "Visitors"}).json(),
        "rotated": lists.account.post(f"/mailing-lists/{list_id}/rotate-key").json(),
    }


@pytest.mark.parametrize(("field", "holds"), TABLE, ids=[field for field, _ in TABLE])
def test_every_list_has_the_field_in_its_form(shown: Shown, field: str, holds: Test) -> None:
    for where, mailing_list in shown.items():
        assert holds(mailing_list[field]), (where, mailing_list[field])


FIELDS = [field for field, _ in TABLE]
ADDED = "suppress_by"
"""Our one addition: the table has no field for whom an entry of a suppression list bars."""


def test_a_list_has_one_other_field(shown: Shown) -> None:
    assert {ADDED in each for each in shown.values()} == {True}
    assert {tuple(field for field in each if field != ADDED) for each in shown.values()} == {tuple(FIELDS)}


@pytest.mark.parametrize("kind", TYPES)
def test_every_type_of_the_table_is_accepted(lists: ListOwner, kind: str) -> None:
    assert lists.read(lists.make(type=kind))["type"] == kind


def test_both_forms_of_created_at_are_shown(lists: ListOwner) -> None:
    """As a relative text where a list is made, as a date-time where it is read."""
    made = lists.account.post("/mailing-lists", {"description": "Visitors"}).json()
    assert re.fullmatch(RELATIVE, made["created_at"])
    assert re.fullmatch(DATE_TIME, lists.read(made["id"])["created_at"])
    assert [field for field in made if field != ADDED] == FIELDS
