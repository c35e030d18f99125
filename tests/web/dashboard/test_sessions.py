"""The cookie of a session and the token of a page: who can set or get one, and how long it is good."""

import re
import secrets

import pytest
from httpx2 import Response

from quillpost.accounts.models import Role
from quillpost.app.container import Container
from quillpost.core.tokens import mint_secret
from support.factories import Account, Clock, make_operator, make_sub_account
from support.pages import OWNER, assert_shows
from support.sign_in import Browser, make_user, sign_in_browser
from support.test_client import TestClient

SESSION, KNOWN, VISITOR = "quillpost_session", "quillpost_known", "quillpost_visitor"
JSON = {"Accept": "application/json"}


def is_in(browser: Browser) -> bool:
    return browser.get("/settings", follow=False).status_code == 200


def with_cookie(http: TestClient, value: str | None, base_url: str | None = None) -> Browser:
    assert value is not None
    browser = sign_in_browser(http, base_url=base_url)
    browser.client.cookies.set(SESSION, value)
    return browser


def cookies_set(browser: Browser) -> dict[str, set[str]]:
    """By name, the attributes of each cookie that signing in sets or drops."""
    answer = browser.sign_in(OWNER, follow=False)
    assert answer.status_code == 303
    found = {}
    for line in answer.headers.get_list("set-cookie"):
        pair, *attributes = (each.strip() for each in line.split(";"))
        name, _, _ = pair.partition("=")
        found[name] = {each.partition("=")[0].lower() if "expires" in each else each for each in attributes}
    return found


@pytest.mark.parametrize(("base_url", "prefix"), [("http://quillpost.test", ""), ("https://quillpost.test", "__Host-")])
def test_the_cookies_are_closed_to_scripts_and_other_sites_and_over_https_to_other_hosts(
    http: TestClient, visitor: Browser, base_url: str, prefix: str
) -> None:
    here = sign_in_browser(http, base_url=base_url)
    found = cookies_set(here)
    assert set(found) == {f"{prefix}{name}" for name in (SESSION, KNOWN, VISITOR)}
    for attributes in found.values():
        assert {"HttpOnly", "Path=/", "SameSite=lax"} <= attributes
        assert ("Secure" in attributes) == bool(prefix)
        assert not [each for each in attributes if each.lower().startswith("domain")]
    assert is_in(here)


def test_a_session_that_was_planted_is_never_the_one_after_signing_in(
    container: Container, http: TestClient, stranger: Account, visitor: Browser
) -> None:
    make_user(container, stranger.id, "eve@example.com")
    eve = sign_in_browser(http)
    eve.sign_in("eve@example.com")
    planted = eve.cookie(SESSION)
    assert planted is not None
    # Over https a cookie without the prefix is not looked at.
    assert (is_in(with_cookie(http, planted)), is_in(with_cookie(http, planted, "https://quillpost.test"))) == (
        True, False,
    )  # fmt: skip
    for value in (planted, mint_secret("session", secrets.token_bytes(32))):
        visitor.client.cookies.clear()
        visitor.client.cookies.set(SESSION, value, domain="quillpost.test", path="/")
        visitor.sign_in(OWNER)
        mine = visitor.cookie(SESSION)
        assert mine not in (None, value)
        assert_shows(visitor.get("/settings"), OWNER)
        eve.client.cookies.set(SESSION, value, domain="quillpost.test", path="/")
        assert not is_in(eve)
    visitor.sign_in(OWNER)  # again: the session before ends
    assert visitor.cookie(SESSION) != mine
    assert not is_in(with_cookie(http, mine))


def test_a_cookie_that_is_none_of_ours_is_nobodys(http: TestClient, visitor: Browser) -> None:
    others = (mint_secret("visitor", bytes(32)), mint_secret("live", bytes(32)))
    for value in ("", "nonsense", "qp_session_short", *others, "x" * 5_000):
        assert not is_in(with_cookie(http, value)), value
    for value in ("nonsense", mint_secret("session", bytes(32))):  # no form is bound to one that somebody made up
        browser = sign_in_browser(http)
        browser.client.cookies.set(VISITOR, value, domain="quillpost.test", path="/")
        browser.get("/sign-in")
        assert str(browser.cookie(VISITOR)).startswith("qp_visitor_")


def token_of(browser: Browser) -> str:
    return str(browser.post("/session/token", headers=JSON).json()["token"])


def call(http: TestClient, token: str, path: str = "/ping") -> Response:
    return http.request("GET", f"/api/v2{path}", headers={"Authorization": f"Bearer {token}"})


def test_a_page_gets_a_token_for_a_quarter_of_an_hour_that_ends_with_its_session(
    http: TestClient, browser: Browser, clock: Clock
) -> None:
    answer = browser.post("/session/token", headers=JSON)
    payload = answer.json()
    assert (set(payload), payload["expires_in"], payload["mode"]) == ({"token", "expires_in", "mode"}, 900, "test")
    assert answer.headers["Cache-Control"] == "no-store"
    assert call(http, payload["token"]).json() == {"message": "pong", "test_mode": True}
    clock.advance(minutes=14, seconds=59)
    assert call(http, payload["token"]).status_code == 200
    clock.advance(seconds=1)
    assert call(http, payload["token"]).status_code == 401
    token = token_of(browser)
    assert call(http, token).status_code == 200
    browser.post("/sign-out")
    assert call(http, token).status_code == 401


def test_a_page_s_token_is_in_the_account_and_mode_that_are_looked_at(
    container: Container, http: TestClient, stranger: Account, browser: Browser
) -> None:
    theirs = make_user(container, stranger.id, "eve@example.com")  # whose membership has about this number
    for membership in (*range(theirs - 3, theirs + 4), 0):
        browser.post("/session/switch", membership=membership)
        assert_shows(browser.get("/"), OWNER)
    assert browser.get("/session/token").status_code == 405
    for mode, looked_at in (("live", "live"), ("nonsense", "live"), ("test", "test")):
        browser.post("/session/switch", mode=mode)
        pressed = re.findall(r'name="mode" value="(\w+)" aria-pressed="true"', browser.get("/").text)
        assert pressed == [looked_at]
        assert call(http, token_of(browser)).json()["test_mode"] is (looked_at == "test")
    assert browser.post("/session/token", mode="test", headers=JSON).status_code == 200
    for given, membership in (("live", None), (None, 999_999)):
        refused = browser.post("/session/token", headers=JSON, mode=given, membership=membership)
        assert refused.status_code == 409
        assert "Load this page again" in refused.json()["message"]


def test_a_page_s_token_may_what_its_reader_may(container: Container, http: TestClient, owner: Account) -> None:
    branch, other = make_sub_account(container, owner, "Branch"), make_sub_account(container, owner, "Other")
    make_user(container, owner.id, "mel@example.com", role="member", sub_account_id=branch)
    mel = sign_in_browser(http)
    assert_shows(mel.sign_in("mel@example.com"), "Branch")
    token = token_of(mel)
    assert [each["id"] for each in call(http, token, "/sub-accounts").json()["data"]] == [branch]
    assert call(http, token, f"/sub-accounts/{other}").status_code == 404
    operator = make_operator(container, http)
    roles: tuple[tuple[Role, int], ...] = (("owner", 200), ("operator", 200), ("member", 403))
    for role, status in roles:
        make_user(container, operator.id, f"{role}@example.com", role=role)
        browser = sign_in_browser(http)
        browser.sign_in(f"{role}@example.com")
        assert call(http, token_of(browser), "/print/batches").status_code == status, role
