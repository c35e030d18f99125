"""The specification's tables "Mailing list", "Recipient" and "Sub account", in every answer that shows one."""

import re
from typing import Any

import pytest

from support.factories import Account, person
from support.field_shapes import (
    DATE_TIME,
    RELATIVE_TIME,
    Json,
    boolean,
    date_time,
    find_differences,
    integer,
    matches,
    one_of,
    or_null,
    plain_time,
)
from support.mailing_lists import ListOwner, field_errors

TYPES = (
    "csv", "manual", "map", "friends", "retarget", "leads", "automation", "radius", "crm", "qrscans",
)  # fmt: skip
LIST = {
    "id": integer,
    "user_id": integer,
    "sub_account_id": or_null(integer),
    "type": one_of(*TYPES),
    "description": one_of("Visitors"),
    "qrcode_url": or_null(matches("https://.+")),
    "total_recipients": integer,
    "processed": boolean,
    "is_suppression_list": boolean,
    "total_scans": integer,
    "unique_scans": integer,
    "total_sends": integer,
    "last_scan": or_null(date_time),
    "last_send": or_null(date_time),
    "api_key": matches(r"ql_[\w-]{40,}"),
    "created_at": date_time,
    "created_at_diff": matches(RELATIVE_TIME),
    "updated_at": date_time,
}
ADDED = "suppress_by"
"""Our one addition: the table has no field for whom an entry of a suppression list bars."""

GIVEN = {
    "name": "Jane Doe", "company": "Doe Homes", "address": "12 Main St", "address2": "Apt 4",
    "city": "Austin", "province": "TX", "postal_code": "78701", "country": "US", "dob": "02/29/1980",
    "anniversary": "06/15/2004", "email": "jane@example.com", "phone": "+1 512 555 0100",
    **{f"custom{n}": f"own words {n}" for n in range(1, 11)},
}  # fmt: skip
SHOWN = {name: text for name, text in GIVEN.items() if not re.fullmatch(r"custom([5-9]|10)", name)}
RECIPIENT = {
    "id": integer,
    "mailing_list_id": integer,
    **{name: one_of(text) for name, text in SHOWN.items()},
    "dob": one_of("1980-02-29"),
    "anniversary": one_of("2004-06-15"),
    "mailing-list": lambda value: type(value) is dict and value["description"] == "Visitors",
    "created_at": date_time,
    "updated_at": date_time,
}
OURS = (
    *(f"custom{n}" for n in range(5, 11)), "mailing_list", "deliverability", "can_deliver", "deliverability_reasons",
)  # fmt: skip


@pytest.fixture
def lists(owner: Account) -> ListOwner:
    return ListOwner(owner)


def test_a_list_is_as_its_table_says_wherever_it_is_shown(lists: ListOwner) -> None:
    list_id = lists.make(qrcode_url="https://example.com/")
    shown = {
        "recipient": [lists.add(list_id).json()["mailing-list"]],
        "read": [lists.read(list_id)],
        "list": lists.account.get("/mailing-lists").json()["data"],
        "change": [lists.put(f"/mailing-lists/{list_id}", {"description": "Visitors"}).json()],
        "rotated": [lists.account.post(f"/mailing-lists/{list_id}/rotate-key").json()],
    }
    assert find_differences(shown, LIST, ADDED) == []
    for each in (each for listed in shown.values() for each in listed):
        assert [field for field in each if field != ADDED] == [*LIST]


def test_every_type_of_list_is_made_and_shows_how_long_ago_that_was(lists: ListOwner) -> None:
    """As a relative text where it is made, as a date-time where it is read."""
    made = lists.account.post("/mailing-lists", {"description": "Visitors"}).json()
    assert re.fullmatch(RELATIVE_TIME, made["created_at"])
    assert re.fullmatch(DATE_TIME, lists.read(made["id"])["created_at"])
    assert [field for field in made if field != ADDED] == [*LIST]
    assert [lists.read(lists.make(type=kind))["type"] for kind in TYPES] == [*TYPES]


def test_a_recipient_is_as_its_table_says_wherever_they_are_shown(lists: ListOwner) -> None:
    list_id, account = lists.make(), lists.account
    of_many = account.post("/recipients_multi", [GIVEN | {"mailing_list_id": lists.make()}]).json()
    made = account.post("/recipients", GIVEN | {"mailing_list_id": list_id}).json()
    shown = {
        "made": [made],
        "of many": of_many,
        "read": [account.get(f"/recipients/{made['id']}").json()],
        "list": account.get("/recipients").json()["data"],
        "lookup": [account.post("/recipients/lookup", {"email": GIVEN["email"]}).json()],
        "change": [lists.put(f"/recipients/{made['id']}", {"name": "Jane Doe"}).json()],
        "page": lists.on(list_id),
    }
    assert find_differences(shown, RECIPIENT, *OURS) == []


def test_a_read_only_field_of_a_recipient_changes_nothing(lists: ListOwner) -> None:
    made = lists.add(lists.make()).json()
    for field in ("id", "mailing-list", "created_at", "updated_at"):
        put = lists.put(f"/recipients/{made['id']}", {field: 5})
        assert (put.json(), put.headers["X-Ignored-Fields"]) == (made, field)


def test_a_recipient_needs_a_list_and_an_address_or_an_email(lists: ListOwner) -> None:
    for given, missing in (
        ({"mailing_list_id"}, {"address"}),
        ({"address", "email"}, {"mailing_list_id"}),
        ({"mailing_list_id", "address"}, set[str]()),
        ({"mailing_list_id", "email"}, set[str]()),
        ({"mailing_list_id", "address", "email"}, set[str]()),
    ):
        whole = person(mailing_list_id=lists.make(), address="12 Main St, Austin, TX 78701", email="a@example.com")
        answer = lists.account.post("/recipients", {name: whole[name] for name in given})
        errors = set(field_errors(answer)) if missing else set[str]()
        assert (answer.status_code, errors) == (422 if missing else 201, missing), given


ADDRESS = ("return_name", "return_address", "return_address2", "return_city", "return_state", "return_postal_code")
BACKGROUNDS = (
    "message_background_url", "postcard6x9_background_url", "notecard_background_url",
    "windowedletter_background_url", "windowlessletter_background_url",
)  # fmt: skip
BRANDING = (
    "accentColor", "symbol", "logo", "disclaimer", "headshot", "name", "email", "phone", "company",
    "domain", "set", "first_name",
)  # fmt: skip


def test_a_sub_account_is_as_its_table_says(owner: Account) -> None:
    def read(**body: Any) -> Json:
        made = owner.post("/sub-accounts", {"title": "Austin office"} | body)
        assert made.status_code == 201, made.text
        found: Json = owner.get(f"/sub-accounts/{made.json()['id']}").json()
        return found

    table = {
        "id": integer,
        "user_id": integer,
        "title": one_of("Austin office"),
        "name": one_of("Austin office"),
        **{field: one_of(None) for field in (*ADDRESS, *BACKGROUNDS)},
        "branding_fields": one_of(dict.fromkeys(BRANDING)),
        "created_at": plain_time,
        "updated_at": plain_time,
    }
    assert find_differences({"read": [read()]}, table) == []
    street = {"return_address": "9 Branch Rd"}
    for field in (*ADDRESS, *BACKGROUNDS):
        value = "https://example.com/a.png" if field in BACKGROUNDS else "78701"
        needed = street if field in ADDRESS else {}
        expected = {name: one_of(value) for name, value in (needed | {field: value}).items()}
        assert find_differences({field: [read(**needed | {field: value})]}, table | expected) == []
    for field in BRANDING:
        value = "#1f4e79" if field == "accentColor" else "ours"
        branding = read(branding_fields={field: value})["branding_fields"]
        assert branding == dict.fromkeys(BRANDING) | {field: value}
    untitled = owner.post("/sub-accounts", {"return_name": "Dana"})
    assert (untitled.status_code, list(untitled.json()["errors"])) == (422, ["title"])
