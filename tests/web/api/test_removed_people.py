"""Taking someone off a list by address or e-mail, and erasing them: who may ask, for whom, and what is said where
something is wrong."""

import json
from typing import Any

import pytest
import sqlalchemy as sa
from httpx2 import Response

from quillpost.app.container import Container
from quillpost.core.database.tables.base import recipients
from quillpost.privacy.erasure.service import COUNTED_TABLES
from support.automations import AutomationDriver, plan
from support.factories import Account, Clock, make_sub_account, make_teammate, person
from support.mailing_lists import NO_LIST, ListOwner, field_errors, ids, message
from support.traces import unchanged

PATHS = ("/recipients-utils/delete-by-address", "/recipients/delete-by-address")


def remove(lists: ListOwner, list_id: int, **given: Any) -> Response:
    return lists.account.post(PATHS[0], {"mailing_list_id": list_id} | given)


MATCHING: list[dict[str, Any]] = [
    {"address": "12 Main St", "city": "Austin", "province": "TX", "postal_code": "78701"},
    {"address": "12 MAIN ST.", "postal_code": "78701-1234"},
    {"address": "12 main st, Austin, Texas 78701"},
    {"address": "12 Main St"},
    {"address": "12 Main St", "city": "AUSTIN", "province": "Texas", "country": "USA"},
    {"address": "12 Main St", "email": "JANE@example.com"},
    {"email": " Jane@Example.com "},
]
OTHER: list[dict[str, Any]] = [
    {"address": "12 Main"},
    {"address": "12 Main St, Austin, TX 78702"},
    {"address": "12 Main St", "postal_code": "78701", "address2": "Apt 2"},
    {"address": "12 Main St", "city": "Dallas"},
    {"address": "12 Main St", "email": "joe@example.com"},
    {"address": "12 Main St", "country": "CA"},
    {"address": "%"},
    {"email": "joe@example.com"},
]
WRONG: list[tuple[dict[str, Any], str]] = [
    ({}, "address"),
    ({"address": " ", "email": ""}, "address"),
    ({"city": "Austin"}, "address"),
    ({"address": "12 Main St", "country": "Narnia"}, "country"),
    ({"address": 5}, "address"),
    ({"email": "x" * 301}, "email"),
    ({"mailing_list_id": None}, "mailing_list_id"),
]


def test_the_matching_recipient_is_deleted_and_nobody_else(
    lists: ListOwner, stranger: Account, subtests: pytest.Subtests
) -> None:
    list_id, empty = lists.make(), lists.make()
    [stays] = lists.fill(list_id, "12 Main Ave")
    for number, given in enumerate(MATCHING):
        with subtests.test(str(given)):
            jane = lists.add(list_id, email="jane@example.com").json()["id"]
            answer = lists.account.post(PATHS[number % 2], {"mailing_list": list_id} | given)
            assert (answer.status_code, answer.json()) == (200, {"status": f"Recipient {jane} Deleted"})
            assert ids(lists.on(list_id)) == [stays]
    lists.add(list_id, email="jane@example.com")
    for given in OTHER:
        with subtests.test(str(given)):
            assert remove(lists, list_id, **given).status_code == 404
    for given, field in WRONG:
        with subtests.test(str(given)):
            assert list(field_errors(remove(lists, list_id, **given))) == [field]
    assert remove(lists, empty, address="12 Main St").status_code == 404
    assert message(remove(ListOwner(stranger), list_id, address="12 Main St")) == (400, NO_LIST)
    assert lists.read(list_id)["total_recipients"] == 2


def test_what_several_share_asks_for_more(lists: ListOwner) -> None:
    list_id = lists.make()
    for place in ({}, {"address2": "Apt 2"}, {"city": "Dallas", "postal_code": "75201"}):
        lists.add(list_id, **place)
    assert set(field_errors(remove(lists, list_id, address="12 Main St"))) == {"postal_code", "address2", "city"}
    assert set(field_errors(remove(lists, list_id, address="12 Main St", city="Austin"))) == {"address2"}
    assert remove(lists, list_id, address="12 Main St", city="dallas").status_code == 200
    # With its ZIP code an address is one door: the one without a unit.
    assert remove(lists, list_id, address="12 Main St", postal_code="78701").status_code == 200
    assert [one["address2"] for one in lists.on(list_id)] == ["Apt 2"]
    for street in ("12 Main St", "9 Oak Ave"):
        lists.add(list_id, email="doe@example.com", address=street)
    assert set(field_errors(remove(lists, list_id, email="doe@example.com"))) == {"address"}
    assert remove(lists, list_id, email="doe@example.com", address="9 Oak Ave").status_code == 200
    # Those whom nothing tells apart are left to their ids.
    for _ in range(2):
        lists.add_email(list_id, "twin@example.com")
    assert "ids" in field_errors(remove(lists, list_id, email="twin@example.com"))["email"][0]


# Erasing


HERE = "12 Main St, Austin, TX 78701"


def erase(account: Account, **whom: Any) -> tuple[int, dict[str, Any]]:
    response = account.post("/recipients/erase", whom)
    return response.status_code, response.json()


@pytest.mark.usefixtures("clean_database")
def test_somebody_is_taken_off_every_list_and_out_of_what_waits(owner: Account, container: Container) -> None:
    lists = ListOwner(owner)
    one, two = lists.make("One"), lists.make("Two")
    lists.add(one)
    lists.add(two, address="12 MAIN STREET", email="jane@example.com")
    lists.add(two, name="Jo", address="9 Oak Ave")
    both = json.dumps({"recipients": [person(), person(address="9 Oak Ave")], "message": "Hi", "metadata": 7})
    both = both.replace("7}", '{"n": 1.10}}')
    as_json = {"Content-Type": "application/json"}
    kept = owner.post("/stored_send/postcard", content=both, headers=as_json).json()["stored_send_url"]
    alone = owner.post("/stored_send/postcard", {"recipients": [person()], "message": "Hi"}).json()
    status, response = erase(owner, address="12 Main St", city="Austin", province="TX", postal_code="78701")
    assert (status, response["message"], list(response["erased"])) == (200, "success", list(COUNTED_TABLES))
    assert (response["erased"]["recipients"], response["erased"]["stored_sends"]) == (2, 2)
    assert [lists.read(each)["total_recipients"] for each in (one, two)] == [0, 1]
    with container.db.system_transaction() as tx:
        bodies = tx.execute(sa.text("select body from stored_sends")).scalars().all()
    assert [("Oak" in body, "Main" in body, "1.10" in body) for body in bodies] == [(True, False, True)]
    urls = (kept, alone["stored_send_url"])
    assert [owner.get(url.partition("/api/v2")[2]).status_code for url in urls] == [200, 404]


def test_a_repeated_call_is_not_carried_out_again_and_tells_nothing(owner: Account) -> None:
    made = ListOwner(owner).make()
    key = {"Idempotency-Key": "once"}
    body = {"mailing_list_id": made, **person()}
    assert owner.post("/recipients", body, headers=key).status_code == 201
    assert erase(owner, address=HERE)[1]["erased"]["idempotency_keys"] == 1
    again = owner.post("/recipients", body, headers=key)
    assert (again.status_code, "Jane" in again.text, "erased" in again.json()["message"]) == (201, False, True)
    assert ListOwner(owner).read(made)["total_recipients"] == 0


def test_erasing_nobody_is_no_error_and_a_stranger_erases_nobody(owner: Account, stranger: Account) -> None:
    made = ListOwner(owner).make()
    ListOwner(owner).add(made, email="jane@example.com")
    status, response = erase(stranger, address=HERE, email="jane@example.com")
    assert (status, set(response["erased"].values()), response["waiting"]) == (200, {0}, 0)
    assert ListOwner(owner).read(made)["total_recipients"] == 1


@pytest.mark.usefixtures("clean_database")
def test_a_teammate_erases_within_their_sub_account(owner: Account, container: Container) -> None:
    branch = make_sub_account(container, owner)
    mate = make_teammate(container, owner, branch)
    for list_id in (ListOwner(owner).make(), ListOwner(owner).make(sub_account_id=branch)):
        ListOwner(owner).add(list_id)
    assert erase(mate, address=HERE)[1]["erased"]["recipients"] == 1
    with container.db.system_transaction() as tx:
        left = tx.execute(sa.select(recipients.c.sub_account_id)).scalars().all()
    assert left == [None]
    assert erase(owner, address=HERE)[1]["erased"]["recipients"] == 1


NOBODY: list[tuple[dict[str, Any], str, str]] = [
    ({}, "address", "Give the person's address, or their email, or both."),
    ({"name": "Jane"}, "address", "Give the person's address, or their email, or both."),
    ({"address": "12 Main St"}, "postal_code", "a street alone may be many people's"),
    (
        {"address": "General Delivery, Austin, TX 78701"},
        "address",
        "Many people have this address: give a house number or a box",
    ),
    ({"address": "12 Main St", "city": "Austin", "country": "QQ"}, "country", "two-letter country code"),
    ({"email": "nobody"}, "email", "This is not an e-mail address."),
    ({"email": 7}, "email", ""),
    ({"address": "x" * 301, "postal_code": "78701"}, "address", ""),
]


def test_what_names_nobody_is_refused_and_erases_nobody(owner: Account, container: Container) -> None:
    with unchanged(container):
        for whom, field, words in NOBODY:
            status, response = erase(owner, **whom)
            assert (status, list(response["errors"])) == (422, [field])
            assert words in response["errors"][field][0]


def test_an_automation_mails_nobody_twice_a_year_whom_it_does_not_know_any_more(
    owner: Account, container: Container, clock: Clock
) -> None:
    flow = AutomationDriver(owner, container, clock)
    flow.make(plan(made := flow.lists.make()))
    flow.lists.add(made)
    flow.work()
    assert len(flow.orders()) == 1
    assert erase(owner, address=HERE)[1]["erased"]["automation_sent"] == 1
    flow.lists.add(made)
    flow.work()
    assert len(flow.orders()) == 1
    flow.lists.add(made, address="9 Oak Ave")
    flow.work()
    assert len(flow.orders()) == 2
