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
from support.factories import Account, make_account, make_sub_account, make_teammate
from support.rows import execute
from support.sign_in import make_user
from support.test_client import TestClient
from support.traces import capture_logs

DONE = (202, {"message": leaked_token_endpoints.DONE_MESSAGE})
JSON = {"Content-Type": "application/json"}


def report(http: TestClient, *tokens: Any, **how: Any) -> Response:
    return http.post("/tokens/leaked", json={"tokens": list(tokens)}, **how)


def letters(container: Container) -> list[Any]:
    return execute(container, sa.select(notices).where(notices.c.kind == "people").order_by(notices.c.id))


def log_lines(container: Container, account_id: int) -> list[Any]:
    return execute(container, sa.select(audit_log).where(audit_log.c.account_id == account_id))


def test_a_reported_token_is_unknown(http: TestClient, container: Container, owner: Account, stranger: Account) -> None:
    """It is enough to show it: a wrong credential changes nothing, and nobody learns whether it was good."""
    unknown = mint_secret("live", secrets.token_bytes(24))
    for shown in ([unknown], ["nonsense", "", "qp_live_"], [], ["\ud800", "ü"]):
        answer = http.post("/tokens/leaked", content=json.dumps({"tokens": shown}), headers=JSON)
        assert (answer.status_code, answer.json()) == DONE, shown
    assert owner.get("/ping").status_code == 200
    with capture_logs() as lines:
        for _ in range(2):
            answer = report(http, owner.token, headers={"Authorization": f"Bearer {stranger.token}"})
            assert (answer.status_code, answer.json()) == DONE
        report(http, owner.token, 7)
    assert len(lines()) == 3
    assert owner.token not in json.dumps(lines())
    assert (owner.get("/ping").status_code, stranger.get("/ping").status_code) == (401, 200)
    (line,) = log_lines(container, owner.id)
    assert (line.act, line.about["name"]) == ("token.leaked", "test")
    assert owner.token not in str(line)


def test_many_are_ended_at_once_whosever_they_are(http: TestClient, container: Container, owner: Account) -> None:
    others = [make_account(container, http, f"{n}@example.com") for n in range(3)]
    limited = make_teammate(container, owner, make_sub_account(container, owner))
    found = [owner.token, limited.token, *(each.token for each in others)]
    assert report(http, *found, f" {found[0]}\n").status_code == 202
    assert {each.get("/ping").status_code for each in (owner, limited, *others)} == {401}


@pytest.mark.usefixtures("clean_database")
def test_every_owner_has_a_letter_and_nobody_else(http: TestClient, container: Container, owner: Account) -> None:
    for email, role in (
        ("dana@example.com", "owner"), ("second@example.com", "owner"), ("member@example.com", "member"),
    ):  # fmt: skip
        make_user(container, owner.id, email, role=role)  # type: ignore[arg-type]
    report(http, mint_secret("test", secrets.token_bytes(24)))  # nothing that is good
    assert (letters(container), log_lines(container, owner.id)) == ([], [])
    other = make_teammate(container, owner, make_sub_account(container, owner))
    for token in (owner.token, other.token, owner.token):
        report(http, token)
    emails = letters(container)
    assert [letter.address for letter in emails] == ["dana@example.com", "second@example.com"]
    assert owner.token not in str(emails)
    assert other.get("/ping").status_code == 401, "within the minute it is ended all the same"


def test_an_invalid_report_is_refused(http: TestClient) -> None:
    invalid = {
        b"": "body", b"tokens=qp_live_": "body", b"[]": "tokens", b"{}": "tokens", b'{"tokens": "qp_live_"}': "tokens",
        b'{"tokens": ["a", 7, null]}': "tokens.1", json.dumps({"tokens": ["a"] * 1_001}).encode(): "tokens",
    }  # fmt: skip
    for body, field in invalid.items():
        answer = http.post("/tokens/leaked", content=body, headers=JSON)
        assert (answer.status_code, field in answer.json()["errors"]) == (422, True), body
    endless = b" " * (leaked_token_endpoints.MAX_BODY_BYTES + 1)
    assert http.post("/tokens/leaked", content=endless).status_code == 413


def test_one_that_reports_too_often_waits(http: TestClient, owner: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaked_token_endpoints, "MAX_PER_NETWORK", 2)
    assert [report(http, "x").status_code for _ in range(2)] == [202, 202]
    response = report(http, owner.token)
    assert response.status_code == 429
    assert int(response.headers["Retry-After"]) > 0
    assert owner.get("/ping").status_code == 200
