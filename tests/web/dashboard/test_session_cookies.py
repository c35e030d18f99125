"""The cookie of a session: who can set it, how long it is good, and what it is worth when it ends."""

import secrets

import pytest

from quillpost.app.container import Container
from quillpost.core.tokens import mint_secret
from support.browser_sessions import Browser, make_user, sign_in_browser, turn_on_second_factor
from support.factories import Account, Clock
from support.test_client import TestClient


@pytest.fixture
def browser(container: Container, http: TestClient, owner: Account) -> Browser:
    make_user(container, owner.id, "dana@example.com")
    return sign_in_browser(http)


def is_in(browser: Browser) -> bool:
    return browser.get("/settings", follow=False).status_code == 200


def cookies_set(browser: Browser) -> dict[str, set[str]]:
    """By name, the attributes of each cookie that signing in sets or drops."""
    answer = browser.sign_in("dana@example.com", follow=False)
    assert answer.status_code == 303
    found = {}
    for line in answer.headers.get_list("set-cookie"):
        pair, *attributes = (each.strip() for each in line.split(";"))
        name, _, _ = pair.partition("=")
        found[name] = {each.partition("=")[0].lower() if "expires" in each else each for each in attributes}
    return found


def test_over_http_the_cookies_are_closed_to_scripts_and_other_sites(browser: Browser) -> None:
    found = cookies_set(browser)
    assert set(found) == {"quillpost_session", "quillpost_known", "quillpost_visitor"}
    for attributes in found.values():
        assert {"HttpOnly", "Path=/", "SameSite=lax"} <= attributes
        assert "Secure" not in attributes
        assert not [each for each in attributes if each.lower().startswith("domain")]


def test_over_https_no_other_host_can_set_them(http: TestClient, browser: Browser) -> None:
    safe = sign_in_browser(http, base_url="https://quillpost.test")
    found = cookies_set(safe)
    assert set(found) == {"__Host-quillpost_session", "__Host-quillpost_known", "__Host-quillpost_visitor"}
    for attributes in found.values():
        assert {"HttpOnly", "Path=/", "SameSite=lax", "Secure"} <= attributes
        assert not [each for each in attributes if each.lower().startswith("domain")]
    assert is_in(safe)


def test_over_https_a_cookie_without_the_prefix_is_not_looked_at(http: TestClient, browser: Browser) -> None:
    browser.sign_in("dana@example.com")
    planted = browser.cookie("quillpost_session")
    assert planted is not None
    safe = sign_in_browser(http, base_url="https://quillpost.test")
    safe.client.cookies.set("quillpost_session", planted)
    assert not is_in(safe)


def test_a_session_that_was_planted_is_never_the_one_after_signing_in(
    container: Container, http: TestClient, stranger: Account, browser: Browser
) -> None:
    make_user(container, stranger.id, "eve@example.com")
    eve = sign_in_browser(http)
    eve.sign_in("eve@example.com")
    planted = eve.cookie("quillpost_session")
    assert planted is not None
    for value in (planted, mint_secret("session", secrets.token_bytes(32))):
        browser.client.cookies.clear()
        browser.client.cookies.set("quillpost_session", value, domain="quillpost.test", path="/")
        browser.sign_in("dana@example.com")
        mine = browser.cookie("quillpost_session")
        assert mine not in (None, value)
        assert "dana@example.com" in browser.get("/settings").text
        eve.client.cookies.set("quillpost_session", value, domain="quillpost.test", path="/")
        assert not is_in(eve)


def test_signing_in_again_ends_the_session_before(browser: Browser, http: TestClient) -> None:
    browser.sign_in("dana@example.com")
    first = browser.cookie("quillpost_session")
    assert first is not None
    browser.sign_in("dana@example.com")
    assert browser.cookie("quillpost_session") != first
    old = sign_in_browser(http)
    old.client.cookies.set("quillpost_session", first)
    assert not is_in(old)


@pytest.mark.parametrize(
    "value",
    [
        "",
        "nonsense",
        "qp_session_short",
        mint_secret("visitor", bytes(32)),
        mint_secret("live", bytes(32)),
        "x" * 5_000,
    ],
)
def test_a_cookie_that_is_none_of_ours_is_nobodys(browser: Browser, value: str) -> None:
    browser.client.cookies.set("quillpost_session", value)
    assert not is_in(browser)


def test_a_session_ends_after_a_week_without_a_visit(browser: Browser, clock: Clock) -> None:
    browser.sign_in("dana@example.com")
    clock.advance(days=6, hours=23)
    assert is_in(browser)
    clock.advance(days=6, hours=23)
    assert is_in(browser)
    clock.advance(days=7, seconds=1)
    assert not is_in(browser)


def test_a_session_ends_after_thirty_days_however_often_it_is_used(browser: Browser, clock: Clock) -> None:
    browser.sign_in("dana@example.com")
    for _ in range(5):
        clock.advance(days=5, hours=23)
        assert is_in(browser)
    clock.advance(hours=4)
    assert is_in(browser)
    clock.advance(hours=2)
    assert not is_in(browser)


def test_the_code_must_be_entered_within_ten_minutes(container: Container, browser: Browser, clock: Clock) -> None:
    turn_on_second_factor(container, "dana@example.com")
    browser.sign_in("dana@example.com")
    assert browser.get("/sign-in/code", follow=False).status_code == 200
    clock.advance(minutes=11)
    assert browser.get("/sign-in/code", follow=False).headers["Location"] == "/sign-in"


def test_a_page_of_somebody_is_never_kept(browser: Browser) -> None:
    browser.sign_in("dana@example.com")
    for path in ("/", "/settings", "/lists/import", "/settings/second-factor", "/nowhere"):
        assert browser.get(path).headers["Cache-Control"] == "no-store", path


@pytest.mark.parametrize("value", ["nonsense", mint_secret("session", bytes(32))])
def test_no_form_is_bound_to_a_cookie_that_somebody_made_up(browser: Browser, value: str) -> None:
    browser.client.cookies.set("quillpost_visitor", value, domain="quillpost.test", path="/")
    browser.get("/sign-in")
    given = browser.cookie("quillpost_visitor")
    assert given is not None
    assert given.startswith("qp_visitor_")
