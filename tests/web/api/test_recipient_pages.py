"""Pages of recipients, and who is gone from them: taken off one list, or erased."""

import json
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
import sqlalchemy as sa
from httpx2 import Response

from quillpost.app.container import Container
from quillpost.core.database.tables.base import recipients
from quillpost.privacy.erasure.service import COUNTED_TABLES
from quillpost.recipients import service as recipient_service
from quillpost.recipients.lists.queries import lock_lists
from quillpost.web.application import create_app
from support.automations import AutomationDriver, plan
from support.factories import Account, Build, Clock, make_account, make_sub_account, make_teammate, person
from support.mailing_lists import NO_LIST, NO_SUB_ACCOUNT, ListOwner, field_errors, ids, message
from support.rows import scalar, scalars
from support.test_client import TestClient
from support.traces import unchanged
from support.waiting import wait_until

PATHS = ("/mailing-lists-utils/recipients/{}", "/mailing-lists/{}/recipients")
BASE = "http://quillpost.test/api/v2"


def test_a_list_is_paged_in_the_order_in_which_it_grew(lists: ListOwner) -> None:
    list_id, other, empty = lists.make(), lists.make(), lists.make()
    lists.fill(other, "1 Main St")
    people = lists.fill(list_id, "1 Main St", "2 Main St", "3 Main St")
    people.append(lists.add_email(list_id, "a@example.com"))
    for path in PATHS:
        at = path.format(list_id)
        page = lists.account.get(f"{at}?items_per_page=3&page=2").json()
        assert (ids(page["data"]), page["prev_page_url"]) == (people[3:], f"{BASE}{at}?items_per_page=3&page=1")
        assert (page["from"], page["to"], page["total"], page["last_page"]) == (4, 4, 4, 2)
        rows = lists.account.get(f"{at}?limit=9").json()["data"]
        assert ids(rows) == people
        assert [row["can_deliver"] for row in rows] == [True, True, True, False]
        assert rows[0] == lists.account.get(f"/recipients/{people[0]}").json()
        beyond = lists.account.get(f"{at}?page=9").json()
        assert (beyond["data"], beyond["total"]) == ([], 4)
        page = lists.account.get(path.format(empty)).json()
        assert (page["data"], page["from"], page["to"], page["last_page"]) == ([], None, None, 1)


def test_a_page_may_be_long_but_not_endless(build: Build) -> None:
    container = build(recipients_per_page=3, items_per_page=2)
    with TestClient(create_app(container)) as http:
        lists = ListOwner(make_account(container, http, "owner@example.com"))
        list_id = lists.make()
        lists.fill(list_id, *(f"{n} Main St" for n in range(5)))
        for path in (PATHS[0].format(list_id), "/recipients"):
            for query in ("items_per_page=1000000000", "limit=4", ""):
                answer = lists.account.get(f"{path}?{query}").json()
                assert len(answer["data"]) == (answer.get("meta") or answer)["per_page"] == 3
            for query in ("items_per_page=0", "items_per_page=-1", "limit=abc", "page=0"):
                assert list(field_errors(lists.account.get(f"{path}?{query}"))) == [query.split("=")[0]]


def test_whoever_follows_a_list_asks_for_what_changed(lists: ListOwner, clock: Clock) -> None:
    path = PATHS[0].format(list_id := lists.make())
    first, second, third = lists.fill(list_id, "1 Main St", "2 Main St", "3 Main St")
    clock.advance(minutes=10)
    lists.put(f"/recipients/{first}", {"name": "Changed"})

    def since(text: str, **more: str) -> list[int]:
        page = lists.account.get(path, params={"updated_since": text, **more}).json()
        assert page["total"] >= len(page["data"])
        return ids(page["data"])

    assert since("2026-05-04T12:00:00Z") == [second, third, first]
    assert since("2026-05-04T12:00:00Z", limit="2", page="2") == [first]
    assert since("2026-05-04T12:10:00Z") == since("2026-05-04T14:10:00+02:00") == [first]
    assert since("2026-05-04T12:10:01Z") == []
    assert since("2026-05-04") == [second, third, first]
    assert list(field_errors(lists.account.get(f"{path}?updated_since=yesterday"))) == ["updated_since"]


def is_waited_for(container: Container, holder: int) -> bool:
    """Whether some connection waits for a lock that this one holds."""
    waits = "select count(*) from pg_locks where not granted and :holder = any(pg_blocking_pids(pid))"
    return bool(scalar(container, waits, holder=holder))


def test_a_change_that_waited_for_another_is_later_than_it(
    subtests: pytest.Subtests, lists: ListOwner, container: Container, clock: Clock
) -> None:
    """Whoever follows the list may have seen the other one by then, and asks for what came after."""
    for place in range(4):
        list_id, other = lists.make(), lists.make()
        [someone] = lists.fill(list_id, "1 Main St")
        lists.fill(other, "9 Main St")
        row = person(mailing_list_id=list_id, address="2 Main St")
        calls: list[tuple[str, str, Any]] = [
            ("POST", "/recipients", row),
            ("POST", "/recipients_multi", [row]),
            ("PUT", f"/recipients/{someone}", {"name": "Changed"}),
            ("POST", f"/mailing-lists/{other}/merge", {"into": list_id}),
        ]
        method, path, body = calls[place]
        with subtests.test(path), ThreadPoolExecutor(1) as elsewhere:
            with container.db.system_transaction() as tx:
                lock_lists(tx, [list_id])
                waiting = elsewhere.submit(lists.account.call, method, path, json=body)
                wait_until(partial(is_waited_for, container, scalar(tx, "select pg_backend_pid()")))
                clock.advance(minutes=1)
                seen = recipient_service.add_recipient(tx, list_id, person(address="3 Main St"), clock=container.clock)
            assert waiting.result().is_success
            later = {"updated_since": seen.updated_at.isoformat()}
            assert len(lists.account.get(PATHS[0].format(list_id), params=later).json()["data"]) == 2


def test_all_recipients_come_newest_first_filtered(lists: ListOwner, stranger: Account, container: Container) -> None:
    one, two = lists.make(), lists.make()
    first = lists.add(one, email="Jane@example.com").json()["id"]
    [second] = lists.fill(two, "2 Main St")
    third = lists.add_email(two, "jane@example.com")
    ListOwner(stranger).add(ListOwner(stranger).make(), email="jane@example.com")

    def found(query: str) -> list[int]:
        page = lists.account.get(f"/recipients?{query}").json()
        assert page["meta"]["total"] == len(page["data"])
        return ids(page["data"])

    assert found("") == [third, second, first]
    assert found("email=JANE@example.com") == [third, first]
    assert found(f"mailing_list_id={two}") == found(f"mailing_list={two}") == [third, second]
    assert found(f"mailing_list_id={one}&mailing_list={two}") == [first]
    assert found(f"mailing_list_id={two}&email=jane@example.com") == [third]
    assert found("email=nobody@example.com") == []
    page = lists.account.get("/recipients?limit=2&page=2").json()
    assert ids(page["data"]) == [first]
    assert page["links"]["prev"] == f"{BASE}/recipients?limit=2&page=1"
    assert page["data"][0]["mailing-list"]["id"] == page["data"][0]["mailing_list"]["id"] == one
    for query in ("mailing_list_id=x", "mailing_list=x", "email=%00"):
        assert list(field_errors(lists.account.get(f"/recipients?{query}"))) == [query.split("=")[0]]
    assert lists.account.get(f"/recipients?mailing_list={10**9}").status_code == 400
    # By their sub account
    branch = make_sub_account(container, lists.account)
    of_branch = lists.make(sub_account_id=branch)
    mine = lists.fill(of_branch, "1 Main St", "2 Main St")
    for name in ("sub_account_id", "sub_account"):
        assert found(f"{name}={branch}") == mine[::-1]
        for list_id, total in ((one, 0), (of_branch, 2)):
            page = lists.account.get(f"/mailing-lists/{list_id}/recipients?{name}={branch}").json()
            assert (len(page["data"]), page["total"]) == (total, total)
    for path in (f"/mailing-lists/{one}/recipients", "/recipients"):
        assert message(lists.account.get(f"{path}?sub_account_id={10**9}")) == (400, NO_SUB_ACCOUNT)


REMOVAL_PATHS = ("/recipients-utils/delete-by-address", "/recipients/delete-by-address")


def remove(lists: ListOwner, list_id: int, **given: Any) -> Response:
    return lists.account.post(REMOVAL_PATHS[0], {"mailing_list_id": list_id} | given)


MATCHING: list[dict[str, Any]] = [
    {"address": "12 Main St", "city": "Austin", "province": "TX", "postal_code": "78701"},
    {"address": "12 MAIN ST.", "postal_code": "78701-1234"}, {"address": "12 main st, Austin, Texas 78701"},
    {"address": "12 Main St"}, {"address": "12 Main St", "city": "AUSTIN", "province": "Texas", "country": "USA"},
    {"address": "12 Main St", "email": "JANE@example.com"}, {"email": " Jane@Example.com "},
]  # fmt: skip
OTHER: list[dict[str, Any]] = [
    {"address": "12 Main"}, {"address": "12 Main St, Austin, TX 78702"},
    {"address": "12 Main St", "postal_code": "78701", "address2": "Apt 2"}, {"address": "12 Main St", "city": "Dallas"},
    {"address": "12 Main St", "email": "joe@example.com"}, {"address": "12 Main St", "country": "CA"}, {"address": "%"},
    {"email": "joe@example.com"},
]  # fmt: skip
WRONG: list[tuple[dict[str, Any], str]] = [
    ({}, "address"), ({"address": " ", "email": ""}, "address"), ({"city": "Austin"}, "address"),
    ({"address": "12 Main St", "country": "Narnia"}, "country"), ({"address": 5}, "address"),
    ({"email": "x" * 301}, "email"), ({"mailing_list_id": None}, "mailing_list_id"),
]  # fmt: skip


def test_only_the_matching_recipient_is_deleted(lists: ListOwner, stranger: Account, subtests: pytest.Subtests) -> None:
    list_id, empty = lists.make(), lists.make()
    [stays] = lists.fill(list_id, "12 Main Ave")
    for number, given in enumerate(MATCHING):
        with subtests.test(str(given)):
            jane = lists.add(list_id, email="jane@example.com").json()["id"]
            answer = lists.account.post(REMOVAL_PATHS[number % 2], {"mailing_list": list_id} | given)
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
    bodies = scalars(container, "select body from stored_sends")
    assert [("Oak" in body, "Main" in body, "1.10" in body) for body in bodies] == [(True, False, True)]
    urls = (kept, alone["stored_send_url"])
    assert [owner.get(url.partition("/api/v2")[2]).status_code for url in urls] == [200, 404]


def test_a_repeated_call_is_not_carried_out_again_and_a_stranger_erases_nobody(
    owner: Account, stranger: Account
) -> None:
    made = ListOwner(owner).make()
    key = {"Idempotency-Key": "once"}
    body = {"mailing_list_id": made, **person()}
    assert owner.post("/recipients", body, headers=key).status_code == 201
    assert erase(owner, address=HERE)[1]["erased"]["idempotency_keys"] == 1
    again = owner.post("/recipients", body, headers=key)
    assert (again.status_code, "Jane" in again.text, "erased" in again.json()["message"]) == (201, False, True)
    assert ListOwner(owner).read(made)["total_recipients"] == 0
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
    left = scalars(container, sa.select(recipients.c.sub_account_id))
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


def test_an_automation_mails_erased_people_once_a_year(owner: Account, container: Container, clock: Clock) -> None:
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
