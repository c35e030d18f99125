"""Whoever finds a token of ours reports it, and from the next call on it is worth nothing."""

import json
import secrets
from typing import Any

import pytest
import sqlalchemy as sa
from httpx2 import Response

from quillpost.app.container import Container
from quillpost.core.database.tables.accounts import audit_log
from quillpost.core.database.tables.notifications import notices
from quillpost.core.tokens import mint_secret
from quillpost.web.public.leaked_tokens import endpoints as leaked_token_endpoints
from support.browser_sessions import make_user
from support.factories import Account, make_account, make_sub_account, make_teammate
from support.test_client import TestClient
from support.traces import capture_logs

DONE = (202, {"message": leaked_token_endpoints.DONE_MESSAGE})


def report(http: TestClient, *tokens: Any, **how: Any) -> Response:
    return http.post("/tokens/leaked", json={"tokens": list(tokens)}, **how)


def letters(container: Container) -> list[Any]:
    with container.db.system_transaction() as tx:
        return list(tx.execute(sa.select(notices).where(notices.c.kind == "people").order_by(notices.c.id)))


def log_lines(container: Container, account_id: int) -> list[Any]:
    with container.db.system_transaction() as tx:
        return list(tx.execute(sa.select(audit_log).where(audit_log.c.account_id == account_id)))


def test_a_token_that_is_reported_is_unknown_from_the_next_call_on(
    http: TestClient, container: Container, owner: Account, stranger: Account
) -> None:
    assert owner.get("/ping").status_code == 200
    response = report(http, owner.token)
    assert (response.status_code, response.json()) == DONE
    assert owner.get("/ping").status_code == 401
    assert stranger.get("/ping").status_code == 200
    (line,) = log_lines(container, owner.id)
    assert (line.act, line.about["name"]) == ("token.leaked", "test")
    assert owner.token not in str(line)


def test_nobody_learns_whether_a_token_was_good(http: TestClient, owner: Account) -> None:
    unknown = mint_secret("live", secrets.token_bytes(24))
    for shown in ([owner.token], [owner.token], [unknown], ["nonsense", "", "qp_live_"], [], ["\ud800", "ü"]):
        response = http.post(
            "/tokens/leaked", content=json.dumps({"tokens": shown}), headers={"Content-Type": "application/json"}
        )
        assert (response.status_code, response.json()) == DONE, shown


def test_it_is_enough_to_show_it_and_a_wrong_credential_changes_nothing(
    http: TestClient, owner: Account, stranger: Account
) -> None:
    response = report(http, owner.token, headers={"Authorization": f"Bearer {stranger.token}"})
    assert (response.status_code, response.json()) == DONE
    assert (owner.get("/ping").status_code, stranger.get("/ping").status_code) == (401, 200)


def test_many_are_ended_at_once_whosever_they_are(http: TestClient, container: Container, owner: Account) -> None:
    others = [make_account(container, http, f"{n}@example.com") for n in range(3)]
    limited = make_teammate(container, owner, make_sub_account(container, owner))
    found = [owner.token, limited.token, *(each.token for each in others)]
    assert report(http, *found, f" {found[0]}\n").status_code == 202
    assert {each.get("/ping").status_code for each in (owner, limited, *others)} == {401}


@pytest.mark.usefixtures("clean_database")
def test_every_owner_has_a_letter_and_nobody_else(http: TestClient, container: Container, owner: Account) -> None:
    make_user(container, owner.id, "dana@example.com")
    make_user(container, owner.id, "second@example.com")
    make_user(container, owner.id, "member@example.com", role="member")
    other = make_teammate(container, owner, make_sub_account(container, owner))
    report(http, owner.token)
    report(http, other.token)
    report(http, owner.token)
    emails = letters(container)
    assert [letter.address for letter in emails] == ["dana@example.com", "second@example.com"]
    assert owner.token not in str(emails)
    assert other.get("/ping").status_code == 401, "within the minute it is ended all the same"


@pytest.mark.usefixtures("clean_database")
def test_a_report_of_nothing_that_is_good_writes_to_nobody(
    http: TestClient, container: Container, owner: Account
) -> None:
    make_user(container, owner.id, "dana@example.com")
    report(http, mint_secret("test", secrets.token_bytes(24)))
    assert letters(container) == []
    assert log_lines(container, owner.id) == []


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b"", "body"),
        (b"tokens=qp_live_", "body"),
        (b"[]", "tokens"),
        (b"{}", "tokens"),
        (b'{"tokens": "qp_live_"}', "tokens"),
        (b'{"tokens": ["a", 7, null]}', "tokens.1"),
        (json.dumps({"tokens": ["a"] * 1_001}).encode(), "tokens"),
    ],
)
def test_an_invalid_report_is_refused(http: TestClient, body: bytes, field: str) -> None:
    response = http.post("/tokens/leaked", content=body, headers={"Content-Type": "application/json"})
    assert response.status_code == 422
    assert field in response.json()["errors"]


def test_a_body_without_end_is_not_read(http: TestClient) -> None:
    response = http.post("/tokens/leaked", content=b" " * (leaked_token_endpoints.MAX_BODY_BYTES + 1))
    assert response.status_code == 413


def test_a_network_that_reports_too_often_waits(
    http: TestClient, owner: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leaked_token_endpoints, "MAX_PER_NETWORK", 2)
    assert [report(http, "x").status_code for _ in range(2)] == [202, 202]
    response = report(http, owner.token)
    assert response.status_code == 429
    assert int(response.headers["Retry-After"]) > 0
    assert owner.get("/ping").status_code == 200


def test_what_was_reported_is_in_no_log(http: TestClient, owner: Account) -> None:
    with capture_logs() as lines:
        report(http, owner.token)
        report(http, owner.token, 7)
    assert len(lines()) == 2
    assert owner.token not in json.dumps(lines())
