"""Subscribing to events, and reading and ending subscriptions."""

from dataclasses import replace
from typing import Any

import pytest

from quillpost.accounts.queries import insert_token
from quillpost.app.container import Container
from support.factories import Account, make_account, make_sub_account, make_teammate
from support.traces import FORM, traces

URL = "https://example.com/hook"
KEYS = {
    "id", "user_id", "sub_account_id", "mailing_list_id", "url", "type", "verb", "mode", "description",
    "status", "failing_since", "last_error", "previous_secret_until", "invoke_count",
    "created_at", "updated_at",
}  # fmt: skip


def subscribe(account: Account, **changes: Any) -> Any:
    return account.post("/webhooks", {"url": URL, "type": "*"} | changes)


def test_the_secret_is_shown_once(owner: Account) -> None:
    created = subscribe(owner, description="CRM")
    assert created.status_code == 201
    body = created.json()
    assert set(body) == KEYS | {"secret"}
    assert body["secret"].startswith("whsec_")
    assert (body["verb"], body["mode"], body["status"], body["invoke_count"]) == ("post", "test", "active", 0)
    assert created.headers["Cache-Control"] == "no-store"
    assert "x-holds-secret" not in created.headers
    read = owner.get(f"/webhooks/{body['id']}")
    assert set(read.json()) == KEYS
    assert read.json() == {key: body[key] for key in KEYS}
    assert body["secret"] not in read.text + owner.get("/webhooks").text
    assert subscribe(owner).json()["secret"] != body["secret"]


def test_subscriptions_are_listed_newest_first(owner: Account, stranger: Account, container: Container) -> None:
    branch = make_sub_account(container, owner)
    first, second = subscribe(owner).json()["id"], subscribe(owner, sub_account_id=branch).json()["id"]
    subscribe(stranger)
    listed = owner.get("/webhooks?items_per_page=1").json()
    assert [hook["id"] for hook in listed["data"]] == [second]
    assert (listed["meta"]["total"], listed["meta"]["last_page"]) == (2, 2)
    assert listed["links"]["next"] == "http://quillpost.test/api/v2/webhooks?items_per_page=1&page=2"
    only = owner.get(f"/webhooks?sub_account_id={branch}").json()["data"]
    assert [hook["id"] for hook in only] == [second]
    assert [hook["id"] for hook in owner.get("/webhooks").json()["data"]] == [second, first]


def test_a_subscription_ends_when_it_is_deleted(owner: Account) -> None:
    hook = subscribe(owner).json()["id"]
    deleted = owner.call("DELETE", f"/webhooks/{hook}")
    assert (deleted.status_code, deleted.json()) == (200, {"message": "success"})
    assert owner.get(f"/webhooks/{hook}").status_code == 404
    assert owner.call("DELETE", f"/webhooks/{hook}").status_code == 404


def test_another_accounts_subscription_looks_like_none(owner: Account, stranger: Account) -> None:
    hook = subscribe(owner).json()["id"]
    for method in ("GET", "DELETE"):
        answers = [stranger.call(method, f"/webhooks/{n}") for n in (hook, hook + 99, "x", 2**63, "9" * 5_000)]
        assert {answer.status_code for answer in answers} == {404}
        assert {answer.text for answer in answers} == {'{"message":"Not Found"}'}
    assert owner.get(f"/webhooks/{hook}").status_code == 200


def test_a_teammate_of_one_sub_account_subscribes_within_it(owner: Account, container: Container) -> None:
    mine, other = make_sub_account(container, owner), make_sub_account(container, owner)
    teammate = make_teammate(container, owner, mine)
    everything = subscribe(owner).json()["id"]
    assert subscribe(teammate).json()["sub_account_id"] == mine
    assert subscribe(teammate, sub_account_id=other).status_code == 400
    assert teammate.get(f"/webhooks/{everything}").status_code == 404


@pytest.mark.parametrize(
    "named",
    [
        {"type": "order_item.delivered"},
        {"event": "order_item.delivered"},
        {"events": "order_item.delivered"},
        {"events": ["order_item.delivered"]},
    ],
)
def test_the_event_has_three_names(owner: Account, named: dict[str, Any]) -> None:
    created = owner.post("/webhooks", {"url": URL} | named)
    assert (created.status_code, created.json()["type"]) == (201, "order_item.delivered")


@pytest.mark.parametrize(("given", "taken"), [("get", "get"), ("GET", "get"), ("Post", "post")])
def test_the_verb_is_read_in_any_case(owner: Account, given: str, taken: str) -> None:
    assert subscribe(owner, verb=given).json()["verb"] == taken


@pytest.mark.parametrize(("mode", "other"), [("test", "live"), ("live", "test")])
def test_the_mode_is_the_tokens_own(container: Container, owner: Account, mode: str, other: str) -> None:
    caller = make_account(container, owner.http, "caller@example.com", mode=mode)
    assert [subscribe(caller, mode=requested).json()["mode"] for requested in (None, mode)] == [mode, mode]
    before = traces(container)
    refused = subscribe(caller, mode=other)
    assert refused.status_code == 422
    assert refused.json()["errors"] == {"mode": [f"Use a {other} token to subscribe to {other} events."]}
    assert traces(container) == before


def test_a_test_token_neither_sees_nor_ends_a_live_subscription(owner: Account, container: Container) -> None:
    with container.db.system_transaction() as tx:
        token = insert_token(tx, owner.id, mode="live", name="live", now=container.clock())[1]
    live = replace(owner, token=token)
    hook = subscribe(live).json()["id"]
    assert owner.get("/webhooks").json()["data"] == []
    assert [owner.call(how, f"/webhooks/{hook}").status_code for how in ("GET", "DELETE")] == [404, 404]
    assert live.get(f"/webhooks/{hook}").status_code == 200


def test_a_form_subscribes_too(owner: Account) -> None:
    created = owner.call(
        "POST",
        "/webhooks",
        content=b"url=https%3A%2F%2Fexample.com%2Fhook&type=*&verb=GET&x=1",
        headers={"Content-Type": FORM},
    )
    assert created.status_code == 201
    assert (created.json()["url"], created.json()["verb"]) == (URL, "get")
    assert created.headers["X-Ignored-Fields"] == "x"


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"type": "order.printed"}, "type"),
        ({"type": ["order_item.delivered", "scans.scan_update"]}, "type"),
        ({"type": []}, "type"),
        ({"type": {}}, "type"),
        ({"type": None}, "type"),
        ({"verb": "put"}, "verb"),
        ({"verb": 5}, "verb"),
        ({"mode": "both"}, "mode"),
        ({"url": None}, "url"),
        ({"url": 5}, "url"),
        ({"url": ""}, "url"),
        ({"url": "example.com/hook"}, "url"),
        ({"url": "ftp://example.com"}, "url"),
        ({"url": "http://localhost/hook"}, "url"),
        ({"url": "http://127.0.0.1/hook"}, "url"),
        ({"url": "http://10.1.2.3/hook"}, "url"),
        ({"url": "https://me:pw@example.com/"}, "url"),
        ({"url": "https://example.com/" + "x" * 2_100}, "url"),
        ({"url": "https://example.com/\x00"}, "url"),
        ({"description": 5}, "description"),
        ({"description": "x" * 501}, "description"),
        ({"sub_account_id": "x"}, "sub_account_id"),
        ({"sub_account_id": 2**63}, "sub_account_id"),
    ],
)
def test_a_subscription_that_cannot_work_is_refused_by_its_field(
    owner: Account, container: Container, changes: dict[str, Any], field: str
) -> None:
    before = traces(container)
    refused = subscribe(owner, **changes)
    assert refused.status_code == 422
    assert list(refused.json()["errors"]) == [field]
    assert traces(container) == before


def test_ids_that_are_not_the_callers_are_refused(owner: Account, stranger: Account, container: Container) -> None:
    theirs = make_sub_account(container, stranger)
    before = traces(container)
    for changes, message in (
        ({"sub_account_id": theirs}, "Sub Account ID does not exist"),
        ({"sub_account_id": 10**15}, "Sub Account ID does not exist"),
        ({"mailing_list_id": 5}, "Mailing List Does Not Exist"),
    ):
        refused = subscribe(owner, **changes)
        assert (refused.status_code, refused.json()) == (400, {"message": message})
    assert traces(container) == before
