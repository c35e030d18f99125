"""Pages of recipients: of one list, of all, and of those who changed."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from quillpost.app.container import Container
from quillpost.recipients import service as recipient_service
from quillpost.recipients.lists.queries import lock_lists
from quillpost.web.application import create_app
from support.factories import Account, Build, Clock, make_account, make_sub_account, person
from support.mailing_lists import NO_SUB_ACCOUNT, ListOwner, field_errors, ids, message
from support.rows import scalar
from support.test_client import TestClient
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


def test_all_recipients_are_listed_newest_first_and_filtered(
    lists: ListOwner, stranger: Account, container: Container
) -> None:
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
