"""Who is let in, who is not, and that strangers learn nothing."""

import secrets
from datetime import timedelta

import pytest
import sqlalchemy as sa

from quillpost.accounts.tokens.rules import SCOPES
from quillpost.app.container import Container
from quillpost.core.database.tables.base import tokens
from quillpost.core.tokens import mint_secret
from support.factories import Account, make_account, make_sub_account, make_teammate, postcard
from support.test_client import TestClient
from support.traces import traces

PATHS = ("/ping", "/send/postcard", "/orders/list", "/orders/1", "/webhooks", "/openapi.json", "/no/such/path", "")


@pytest.mark.parametrize(
    "authorization",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        "Basic b3duZXI6cGFzcw==",
        "Bearer not-a-token",
        "Bearer qp_test_",
        f"Bearer {mint_secret('test', secrets.token_bytes(24))}",
        "Bearer " + "x" * 10_000,
        "Bearer ünïcode",
        "Bearer a b c",
    ],
    ids=["none", "empty", "bare", "blank", "basic", "malformed", "stub", "unknown", "long", "latin", "words"],
)
def test_without_a_good_token_every_path_answers_alike(
    http: TestClient, container: Container, authorization: str | None
) -> None:
    headers = {} if authorization is None else {b"Authorization": authorization.encode("latin-1")}
    before = traces(container)
    for path in PATHS:
        for method in ("GET", "POST"):
            answer = http.request(method, f"/api/v2{path}", headers=headers, json=postcard())
            assert (answer.status_code, answer.json()) == (401, {"message": "Unauthenticated."}), path
            assert answer.headers["WWW-Authenticate"] == "Bearer"
            assert int(answer.headers["X-RateLimit-Remaining"]) >= 0
    assert traces(container) == before


@pytest.mark.parametrize("column", ["revoked_at", "expires_at"])
def test_a_token_that_was_revoked_or_has_expired_is_worth_nothing(
    owner: Account, container: Container, column: str
) -> None:
    assert owner.get("/ping").status_code == 200
    ended = {column: container.clock() - timedelta(seconds=1)}
    with container.db.system_transaction() as tx:
        tx.execute(sa.update(tokens).where(tokens.c.account_id == owner.id).values(**ended))
    refused = owner.get("/ping")
    assert (refused.status_code, refused.json()) == (401, {"message": "Unauthenticated."})


def test_a_token_with_one_letter_changed_is_worth_nothing(owner: Account) -> None:
    changed = owner.token[:-1] + ("a" if owner.token[-1] != "a" else "b")
    assert owner.get("/ping", headers={"Authorization": f"Bearer {changed}"}).status_code == 401


def test_the_scheme_is_read_in_any_case(owner: Account) -> None:
    assert owner.get("/ping", headers={"Authorization": f"bearer {owner.token}"}).status_code == 200


def test_ping_tells_the_mode(owner: Account, container: Container, http: TestClient) -> None:
    assert owner.get("/ping").json() == {"message": "pong", "test_mode": True}
    live = make_account(container, http, "live@example.com", mode="live")
    assert live.get("/ping").json() == {"message": "pong", "test_mode": False}


@pytest.mark.parametrize(
    ("method", "path", "scope"),
    [
        ("POST", "/send/postcard", "send:write"),
        ("GET", "/orders/list", "orders:read"),
        ("GET", "/orders/1", "orders:read"),
        ("GET", "/orders/1/track", "orders:read"),
        ("GET", "/orders/1/items", "orders:read"),
        ("PUT", "/orders/1/cancel", "orders:write"),
        ("PUT", "/order/1/cancel", "orders:write"),
        ("GET", "/webhooks", "webhooks:read"),
        ("GET", "/webhooks/1", "webhooks:read"),
        ("POST", "/webhooks", "webhooks:write"),
        ("DELETE", "/webhooks/1", "webhooks:write"),
    ],
)
def test_the_error_names_the_scope_that_a_token_lacks(
    container: Container, http: TestClient, method: str, path: str, scope: str
) -> None:
    others = [other for other in SCOPES if other != scope]
    limited = make_account(container, http, "limited@example.com", scopes=others)
    before = traces(container)
    body = postcard() if path == "/send/postcard" else {"url": "https://example.com/hook", "type": "*"}
    refused = limited.call(method, path, json=body)
    assert (refused.status_code, refused.json()) == (403, {"message": f"This token lacks the scope {scope}."})
    assert traces(container) == before


def test_another_accounts_order_looks_like_one_that_does_not_exist(owner: Account, stranger: Account) -> None:
    order_id = owner.send().json()["id"]
    for method, path in (
        ("GET", "/orders/{}"),
        ("GET", "/orders/{}/track"),
        ("GET", "/orders/{}/items"),
        ("PUT", "/orders/{}/cancel"),
        ("POST", "/orders/{}/cancel"),
        ("DELETE", "/orders/{}/cancel"),
        ("PUT", "/order/{}/cancel"),
    ):
        theirs = stranger.call(method, path.format(order_id))
        unknown = [
            stranger.call(method, path.format(odd))
            for odd in (order_id + 1_000, 0, -1, "x", "1.0", 2**63, "9" * 5_000, "%00", "１")
        ]
        assert {answer.status_code for answer in (theirs, *unknown)} == {404}
        assert {answer.text for answer in (theirs, *unknown)} == {'{"message":"Not Found"}'}
    assert stranger.get("/orders/list").json()["meta"]["total"] == 0
    assert owner.get(f"/orders/{order_id}").json()["cancellable"] is True


def test_a_test_token_and_a_live_token_do_not_see_each_others_orders(
    owner: Account, container: Container, http: TestClient
) -> None:
    order_id = owner.send().json()["id"]
    with container.db.system_transaction() as tx:
        tx.execute(sa.update(tokens).where(tokens.c.account_id == owner.id).values(mode="live"))
    assert owner.get(f"/orders/{order_id}").status_code == 404
    assert owner.get("/orders/list").json()["data"] == []


def test_a_token_of_one_sub_account_sees_and_sends_for_that_one_only(owner: Account, container: Container) -> None:
    mine, other = make_sub_account(container, owner), make_sub_account(container, owner)
    teammate = make_teammate(container, owner, mine)
    elsewhere = owner.send(sub_account_id=other).json()["id"]
    assert teammate.send().json()["sub_account_id"] == mine
    assert teammate.send(sub_account_id=other).status_code == 400
    assert teammate.get(f"/orders/{elsewhere}").status_code == 404
    assert [order["sub_account_id"] for order in teammate.get("/orders/list").json()["data"]] == [mine]
    assert owner.get("/orders/list").json()["meta"]["total"] == 2
