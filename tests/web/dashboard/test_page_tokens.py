"""The token of a page: for its reader alone, in the account and mode that they look at, and not for long."""

import pytest
from httpx2 import Response

from quillpost.app.container import Container
from support.browser_sessions import Browser, make_user, sign_in_browser
from support.factories import Account, Clock, make_operator, make_sub_account
from support.test_client import TestClient

JSON = {"Accept": "application/json"}


@pytest.fixture
def browser(container: Container, http: TestClient, owner: Account) -> Browser:
    make_user(container, owner.id, "dana@example.com")
    browser = sign_in_browser(http)
    browser.sign_in("dana@example.com")
    return browser


def token_of(browser: Browser) -> str:
    return str(browser.post("/session/token", headers=JSON).json()["token"])


def call(http: TestClient, token: str, path: str, method: str = "GET") -> Response:
    return http.request(method, f"/api/v2{path}", headers={"Authorization": f"Bearer {token}"})


def test_a_page_gets_a_token_for_a_quarter_of_an_hour(http: TestClient, browser: Browser, clock: Clock) -> None:
    answer = browser.post("/session/token", headers=JSON)
    payload = answer.json()
    assert (set(payload), payload["expires_in"], payload["mode"]) == ({"token", "expires_in", "mode"}, 900, "test")
    assert answer.headers["Cache-Control"] == "no-store"
    assert call(http, payload["token"], "/ping").json() == {"message": "pong", "test_mode": True}
    clock.advance(minutes=15)
    assert call(http, payload["token"], "/ping").status_code == 401


def test_it_ends_with_the_session(http: TestClient, browser: Browser) -> None:
    token = token_of(browser)
    browser.post("/sign-out")
    assert call(http, token, "/ping").status_code == 401


def test_nobody_else_gets_one(http: TestClient, browser: Browser) -> None:
    nobody = sign_in_browser(http)
    refused = nobody.post("/session/token", headers=JSON)
    assert (refused.status_code, refused.json()) == (401, {"message": "Sign in first."})
    assert browser.post("/session/token", csrf=None, mode="test", headers=JSON).status_code == 403
    other_site = {"Origin": "https://evil.example", **JSON}
    assert browser.post("/session/token", headers=other_site).status_code == 403
    assert browser.get("/session/token").status_code == 405


def test_the_api_takes_no_cookie(browser: Browser) -> None:
    assert browser.get("/api/v2/ping").status_code == 401


def test_it_is_in_the_mode_that_is_looked_at(http: TestClient, browser: Browser) -> None:
    browser.post("/session/switch", mode="live")
    assert ">Live<" in browser.get("/").text
    assert call(http, token_of(browser), "/ping").json()["test_mode"] is False
    browser.post("/session/switch", mode="nonsense")
    assert ">Live<" in browser.get("/").text
    browser.post("/session/switch", mode="test")
    assert call(http, token_of(browser), "/ping").json()["test_mode"] is True


def test_a_page_that_was_made_for_another_account_or_mode_gets_none(browser: Browser) -> None:
    assert browser.post("/session/token", mode="test", headers=JSON).status_code == 200
    for mode, membership in (("live", None), (None, 999)):
        refused = browser.post("/session/token", headers=JSON, mode=mode, membership=membership)
        assert refused.status_code == 409
        assert "Load this page again" in refused.json()["message"]


def test_a_member_of_one_sub_account_gets_one_for_it_alone(
    container: Container, http: TestClient, owner: Account
) -> None:
    branch, other = make_sub_account(container, owner, "Branch"), make_sub_account(container, owner, "Other")
    make_user(container, owner.id, "mel@example.com", role="member", sub_account_id=branch)
    mel = sign_in_browser(http)
    assert "Branch" in mel.sign_in("mel@example.com").text
    token = token_of(mel)
    shown = call(http, token, "/sub-accounts").json()["data"]
    assert [each["id"] for each in shown] == [branch]
    assert call(http, token, f"/sub-accounts/{other}").status_code == 404


def test_only_operators_get_an_operator_token(container: Container, http: TestClient) -> None:
    operator = make_operator(container, http)
    answers = {}
    for email, role in (("ann@example.com", "owner"), ("ben@example.com", "operator"), ("cy@example.com", "member")):
        make_user(container, operator.id, email, role=role)  # type: ignore[arg-type]
        browser = sign_in_browser(http)
        browser.sign_in(email)
        answers[role] = call(http, token_of(browser), "/print/batches").status_code
    assert answers["owner"] == answers["operator"] == 200
    assert answers["member"] in (403, 404)


def test_nobody_switches_to_an_account_that_is_not_theirs(
    container: Container, stranger: Account, browser: Browser
) -> None:
    make_user(container, stranger.id, "eve@example.com")
    for membership in range(1, 6):
        browser.post("/session/switch", membership=membership)
        assert "dana@example.com" in browser.get("/").text
    with container.db.system_transaction() as tx:
        seen = tx.exec_driver_sql(
            "select count(*) from sessions s join memberships m on m.id = s.membership_id"
            " where m.person_id <> s.person_id"
        ).scalar_one()
    assert seen == 0
