"""Making, reading, changing and ending mailing lists."""

from typing import Any

import pytest

from quillpost.app.container import Container
from quillpost.core import tokens
from support.factories import Account, Clock, make_account, make_sub_account, make_teammate
from support.mailing_lists import (
    NO_SUB_ACCOUNT,
    ListOwner,
    field_errors,
    ids,
    message,
    recipients_of_order,
    subscribe_to_list,
    subscription_scopes,
)


@pytest.fixture
def lists(owner: Account) -> ListOwner:
    return ListOwner(owner)


def test_a_new_list_is_empty_and_says_in_words_when_it_was_made(owner: Account, clock: Clock) -> None:
    made = owner.post("/mailing-lists", {"name": " Visitors ", "colour": "red"})
    assert made.status_code == 201
    assert made.headers["X-Ignored-Fields"] == "colour"
    body = made.json()
    assert (body["description"], body["type"], body["total_recipients"]) == ("Visitors", "manual", 0)
    assert body["created_at"] == body["created_at_diff"] == "just now"
    clock.advance(minutes=5)
    read = owner.get(f"/mailing-lists/{body['id']}").json()
    assert read == body | {"created_at": "2026-05-04T12:00:00Z", "created_at_diff": "5 minutes ago"}


def test_a_form_makes_a_list_too(owner: Account) -> None:
    made = owner.call(
        "POST",
        "/mailing-lists",
        content=b"description=Doors&is_suppression_list=true",
        headers={"Content-Type": "application/x-www-form-urlencoded"},
    )
    assert (made.status_code, made.json()["is_suppression_list"]) == (201, True)


def test_a_key_is_unguessable_stored_sealed_and_shown_in_reads(lists: ListOwner, container: Container) -> None:
    first, second = lists.make(), lists.make()
    key = lists.read(first)["api_key"]
    assert key.startswith("ql_")
    assert len(key) > 40
    assert lists.read(second)["api_key"] != key
    with container.db.system_transaction() as tx:
        rows = tx.exec_driver_sql("select key_sealed, key_digest from mailing_lists").all()
    assert all(key.encode() not in bytes(column) for row in rows for column in row)


@pytest.mark.usefixtures("conninfo")
def test_a_new_key_ends_the_old_one(lists: ListOwner, container: Container) -> None:
    list_id = lists.make()
    old = lists.read(list_id)["api_key"]
    rotated = lists.account.post(f"/mailing-lists/{list_id}/rotate-key")
    assert rotated.status_code == 200
    assert rotated.json()["api_key"] == lists.read(list_id)["api_key"] != old
    assert rotated.headers["Cache-Control"] == "no-store"
    with container.db.system_transaction() as tx:
        [known] = tx.exec_driver_sql("select key_digest from mailing_lists").scalars()
    assert bytes(known) == tokens.hash_token(rotated.json()["api_key"])


def test_lists_are_listed_newest_first_and_found_by_a_part_of_their_name(lists: ListOwner) -> None:
    made = [lists.make(name) for name in ("Spring 50%", "Spring 500", "a_b\\c", "AXB")]

    def found(query: str) -> list[int]:
        return ids(lists.account.get("/mailing-lists", params={"query": query}).json()["data"])

    assert found("") == made[::-1]
    assert found("sPRING") == [made[1], made[0]]
    assert found("50%") == [made[0]]
    assert found("A_b") == [made[2]]
    assert found("b\\C") == [made[2]]
    assert found("nothing") == []
    page = lists.account.get("/mailing-lists?items_per_page=3&query=s").json()
    assert (page["meta"]["total"], page["meta"]["per_page"]) == (2, 3)


def test_a_change_leaves_what_it_does_not_name(lists: ListOwner, clock: Clock) -> None:
    list_id = lists.make(qrcode_url="https://example.com/a", type="crm")
    before = lists.read(list_id)
    clock.advance(hours=1)
    changed = lists.put(f"/mailing-lists/{list_id}", {"name": "Doors", "x": 1})
    assert (changed.status_code, changed.headers["X-Ignored-Fields"]) == (200, "x")
    assert changed.json() == before | {
        "description": "Doors", "created_at_diff": "1 hour ago", "updated_at": "2026-05-04T13:00:00Z",
    }  # fmt: skip
    cleared = lists.put(f"/mailing-lists/{list_id}", {"qrcode_url": None, "type": "friends"}).json()
    assert (cleared["qrcode_url"], cleared["type"], cleared["description"]) == (None, "friends", "Doors")


@pytest.mark.parametrize("field", ["type", "is_suppression_list"])
def test_null_says_nothing_of_a_new_list_and_is_refused_for_one_there_is(lists: ListOwner, field: str) -> None:
    made = lists.account.post("/mailing-lists", {"description": "A", field: None}).json()
    assert (made["type"], made["is_suppression_list"]) == ("manual", False)
    assert list(field_errors(lists.account.put(f"/mailing-lists/{made['id']}", {field: None}))) == [field]


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"description": ""}, "description"),
        ({"description": "  "}, "description"),
        ({"description": None}, "description"),
        ({"description": 5}, "description"),
        ({"description": "x" * 301}, "description"),
        ({"description": "a\x00b"}, "description"),
        ({"type": "zapier"}, "type"),
        ({"is_suppression_list": "yes"}, "is_suppression_list"),
        ({"qrcode_url": "ftp://example.com"}, "qrcode_url"),
        ({"qrcode_url": "http://127.0.0.1/"}, "qrcode_url"),
        ({"qrcode_url": "https://example.com/%FRISTNAME%"}, "qrcode_url"),
        ({"sub_account_id": "x"}, "sub_account_id"),
        ({"sub_account_id": 2**63}, "sub_account_id"),
    ],
)
def test_a_wrong_field_is_named(lists: ListOwner, fields: dict[str, Any], field: str) -> None:
    assert list(field_errors(lists.account.post("/mailing-lists", {"description": "A"} | fields))) == [field]
    list_id = lists.make()
    assert list(field_errors(lists.put(f"/mailing-lists/{list_id}", fields))) == [field]
    assert lists.read(list_id)["description"] == "Visitors"


def test_a_list_needs_a_description(owner: Account) -> None:
    assert field_errors(owner.post("/mailing-lists", {})) == {"description": ["This field is required."]}


def test_a_lists_people_follow_it_into_another_sub_account(lists: ListOwner, container: Container) -> None:
    branch = make_sub_account(container, lists.account)
    list_id = lists.make()
    lists.fill(list_id, "1 Main St", "2 Main St")
    teammate = ListOwner(make_teammate(container, lists.account, branch))
    assert teammate.account.get("/recipients").json()["meta"]["total"] == 0
    assert lists.put(f"/mailing-lists/{list_id}", {"sub_account": branch}).json()["sub_account_id"] == branch
    assert len(teammate.on(list_id)) == 2
    assert lists.read(list_id)["total_recipients"] == 2
    lists.put(f"/mailing-lists/{list_id}", {"sub_account_id": None})
    assert teammate.account.get("/recipients").json()["data"] == []


def test_subscriptions_to_a_list_that_moves_stay_whose_they_are(lists: ListOwner, container: Container) -> None:
    here, there = make_sub_account(container, lists.account), make_sub_account(container, lists.account, "Other")
    list_id = lists.make(sub_account_id=here)
    hooks = subscribe_to_list(container, lists.account, list_id, here)
    for home in (there, None):
        assert lists.put(f"/mailing-lists/{list_id}", {"sub_account_id": home}).status_code == 200
        assert subscription_scopes(container, hooks) == [(list_id, None), (list_id, here)] * 2


def test_the_sub_account_filters_lists(lists: ListOwner, container: Container) -> None:
    branch = make_sub_account(container, lists.account)
    lists.make()
    mine = lists.make(sub_account_id=branch)
    for name in ("sub_account_id", "sub_account"):
        assert ids(lists.account.get(f"/mailing-lists?{name}={branch}").json()["data"]) == [mine]
    assert message(lists.account.get("/mailing-lists?sub_account_id=999")) == (400, NO_SUB_ACCOUNT)


def test_another_accounts_list_looks_like_none(lists: ListOwner, stranger: Account, container: Container) -> None:
    list_id = lists.make()
    theirs = ListOwner(stranger)
    own = theirs.make()
    for n in (list_id, list_id + 99, "x", 2**63):
        for method, path in (
            ("GET", ""), ("PUT", ""), ("DELETE", ""), ("GET", "/export"), ("GET", "/recipients"),
            ("POST", "/dedupe"), ("POST", "/rotate-key"), ("POST", "/merge"),
        ):  # fmt: skip
            body = {"into": own} if path == "/merge" else {"name": "X"} if method == "PUT" else None
            answer = stranger.call(method, f"/mailing-lists/{n}{path}", json=body)
            assert (answer.status_code, answer.text) == (404, '{"message":"Not Found"}'), (method, path)
    assert ids(stranger.get("/mailing-lists").json()["data"]) == [own]
    assert message(stranger.post(f"/mailing-lists/{own}/merge", {"into": list_id}))[0] == 400
    branch = make_sub_account(container, lists.account)
    for refused in (
        stranger.post("/mailing-lists", {"name": "A", "sub_account_id": branch}),
        theirs.put(f"/mailing-lists/{own}", {"sub_account_id": branch}),
        stranger.get(f"/mailing-lists?sub_account_id={branch}"),
    ):
        assert message(refused) == (400, NO_SUB_ACCOUNT)
    assert lists.read(list_id)["description"] == "Visitors"


def test_a_teammate_of_one_sub_account_keeps_lists_within_it(lists: ListOwner, container: Container) -> None:
    mine, other = make_sub_account(container, lists.account), make_sub_account(container, lists.account)
    mate = ListOwner(make_teammate(container, lists.account, mine))
    everyones, others = lists.make(), lists.make(sub_account_id=other)
    own = mate.make()
    assert mate.read(own)["sub_account_id"] == mine
    assert mate.put(f"/mailing-lists/{own}", {"sub_account_id": None}).json()["sub_account_id"] == mine
    assert ids(mate.account.get("/mailing-lists").json()["data"]) == [own]
    assert [mate.account.get(f"/mailing-lists/{n}").status_code for n in (everyones, others)] == [404, 404]
    for refused in (
        mate.account.post("/mailing-lists", {"name": "A", "sub_account_id": other}),
        mate.put(f"/mailing-lists/{own}", {"sub_account_id": other}),
    ):
        assert message(refused) == (400, NO_SUB_ACCOUNT)


def test_a_deleted_list_takes_its_people_along(lists: ListOwner) -> None:
    list_id = lists.make()
    [recipient] = lists.fill(list_id, "1 Main St")
    deleted = lists.delete(f"/mailing-lists/{list_id}")
    assert (deleted.status_code, deleted.json()) == (200, {"message": "success"})
    assert lists.delete(f"/mailing-lists/{list_id}").status_code == 404
    assert lists.account.get(f"/recipients/{recipient}").status_code == 404
    assert lists.account.get("/recipients").json()["data"] == []


@pytest.mark.parametrize(
    ("status", "mode", "answers"),
    [
        ("reviewing", "test", 400),
        ("reviewing", "live", 400),
        ("paused", "test", 400),
        ("printing", "test", 200),
        ("cancelled", "test", 200),
    ],
)
def test_a_list_that_an_order_waits_for_stays(
    lists: ListOwner, container: Container, status: str, mode: str, answers: int
) -> None:
    list_id, other = lists.make(), lists.make()
    order = recipients_of_order(container, lists.account, list_id, status=status, mode=mode)
    tries = [
        lists.put(f"/mailing-lists/{list_id}", {"is_suppression_list": True}),
        lists.put(f"/mailing-lists/{list_id}", {"is_suppression_list": False}),
        lists.account.post(f"/mailing-lists/{list_id}/merge", {"into": other}),
        lists.delete(f"/mailing-lists/{other}"),
    ]
    assert [one.status_code for one in tries] == [answers, 200, answers, 200]
    if answers == 400:
        assert message(tries[0])[1].startswith(f"Order {order} waits")
        assert message(lists.delete(f"/mailing-lists/{list_id}"))[1].startswith(f"Order {order} waits")
        assert lists.read(list_id)["is_suppression_list"] is False


def test_after_a_look_at_both_modes_only_the_callers_own_is_seen_again(lists: ListOwner, container: Container) -> None:
    list_id = lists.make()
    recipients_of_order(container, lists.account, list_id, status="fulfilled", mode="live")
    assert lists.delete(f"/mailing-lists/{list_id}").status_code == 200
    assert lists.account.get("/orders").json()["data"] == []


@pytest.mark.usefixtures("conninfo")
@pytest.mark.parametrize(("scope", "reads", "writes"), [("lists:read", 200, 403), ("lists:write", 403, 201)])
def test_lists_have_scopes_of_their_own(
    container: Container, owner: Account, scope: str, reads: int, writes: int
) -> None:
    caller = make_account(container, owner.http, "caller@example.com", scopes=[scope])
    assert caller.get("/mailing-lists").status_code == reads
    assert caller.get("/recipients").status_code == reads
    assert caller.post("/mailing-lists", {"name": "A"}).status_code == writes
    assert caller.post("/recipients", {"mailing_list_id": 1, "email": "a@b.cd"}).status_code == writes
