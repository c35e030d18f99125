"""Erasing over the API: who may ask, for whom, and what is said where something is wrong."""

import json
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.app.container import Container
from quillpost.core.database.tables.base import recipients
from quillpost.privacy.erasure.service import COUNTED_TABLES
from support.automations import AutomationDriver, plan
from support.factories import Account, Clock, make_account, make_sub_account, make_teammate, person, snapshot_rows
from support.mailing_lists import ListOwner

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
    assert [owner.get(url.partition("/api/v2")[2]).status_code for url in (kept, alone["stored_send_url"])] == [
        200,
        404,
    ]


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
    for sub_account in (None, branch):
        made = ListOwner(owner).make(sub_account_id=sub_account) if sub_account else ListOwner(owner).make()
        ListOwner(owner).add(made)
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
    before = snapshot_rows(container)
    for whom, field, words in NOBODY:
        status, response = erase(owner, **whom)
        assert (status, list(response["errors"])) == (422, [field])
        assert words in response["errors"][field][0]
    assert snapshot_rows(container) == before


def test_it_takes_the_right_to_write_lists(container: Container, owner: Account) -> None:
    reader = make_account(container, owner.http, "reader@example.com", scopes=["lists:read"])
    assert erase(reader, email="jane@example.com")[0] == 403


def test_an_automation_mails_nobody_twice_a_year_whom_it_does_not_know_any_more(
    owner: Account, container: Container, clock: Clock
) -> None:
    made = ListOwner(owner).make()
    house = AutomationDriver(owner, container, clock)
    house.make(plan(made))
    ListOwner(owner).add(made)
    house.work()
    assert owner.get("/orders").json()["meta"]["total"] == 1
    assert erase(owner, address=HERE)[1]["erased"]["automation_sent"] == 1
    ListOwner(owner).add(made)
    house.work()
    assert owner.get("/orders").json()["meta"]["total"] == 1
    ListOwner(owner).add(made, address="9 Oak Ave")
    house.work()
    assert owner.get("/orders").json()["meta"]["total"] == 2
