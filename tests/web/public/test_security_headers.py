"""What every answer tells the browser to refuse."""

import pytest

from quillpost.app.container import Container
from quillpost.web.rendering import CONTENT_SECURITY_POLICY, form_action_source
from support.browser_sessions import Browser, make_user, sign_in_browser
from support.factories import Account
from support.test_client import TestClient

PAGES = ("/", "/sign-in", "/forgot", "/reset/nonsense", "/join/nonsense", "/docs", "/nowhere", "/stop")
PAGES_OF_SOMEBODY = ("/", "/settings", "/settings/second-factor", "/lists/import", "/sign-in/confirm")


@pytest.fixture
def browser(container: Container, http: TestClient, owner: Account) -> Browser:
    make_user(container, owner.id, "dana@example.com")
    browser = sign_in_browser(http)
    browser.sign_in("dana@example.com")
    return browser


def test_every_page_is_under_the_policy_and_in_no_frame(http: TestClient, browser: Browser) -> None:
    anyone = sign_in_browser(http)
    shown = {f"anyone {path}": anyone.get(path) for path in PAGES}
    shown |= {f"dana {path}": browser.get(path) for path in PAGES_OF_SOMEBODY}
    for path, page in shown.items():
        assert page.headers["Content-Type"].startswith("text/html"), path
        assert page.headers["Content-Security-Policy"] == CONTENT_SECURITY_POLICY, path
        assert page.headers["X-Frame-Options"] == "DENY", path
        assert page.headers["X-Content-Type-Options"] == "nosniff", path
        assert "camera=()" in page.headers["Permissions-Policy"], path
        assert "style=" not in page.text, path
        assert "<script>" not in page.text, path


def test_a_form_tells_us_where_it_comes_from_and_tells_other_sites_nothing(http: TestClient) -> None:
    anyone = sign_in_browser(http)
    assert anyone.get("/sign-in").headers["Referrer-Policy"] == "same-origin"
    for path in ("/reset/nonsense", "/join/nonsense"):
        assert anyone.get(path).headers["Referrer-Policy"] == "strict-origin"
    assert http.get("/health").headers["Referrer-Policy"] == "no-referrer"


def test_pages_that_apps_open_in_a_window_keep_their_opener(browser: Browser, http: TestClient) -> None:
    name = "Cross-Origin-Opener-Policy"
    assert name not in sign_in_browser(http).get("/sign-in").headers
    assert name not in browser.get("/sign-in/confirm").headers
    for path in ("/", "/settings", "/lists/import", "/docs"):
        assert browser.get(path).headers[name] == "same-origin"


def test_data_is_under_a_policy_that_allows_nothing(http: TestClient, owner: Account) -> None:
    nothing = "default-src 'none'; frame-ancestors 'none'"
    for answer in (owner.get("/ping"), owner.get("/nowhere"), http.get("/health"), http.get("/settings")):
        assert answer.headers["Content-Type"] == "application/json"
        assert answer.headers["Content-Security-Policy"] == nothing
    picture = http.get("/art/postcard-4x6.png")
    assert picture.headers["Content-Type"] == "image/png"
    assert "Content-Security-Policy" not in picture.headers


def test_whoever_came_over_https_comes_so_again(http: TestClient) -> None:
    name = "Strict-Transport-Security"
    assert name not in sign_in_browser(http).get("/sign-in").headers
    safe = sign_in_browser(http, base_url="https://quillpost.test")
    for path in ("/sign-in", "/health", "/nowhere"):
        assert safe.get(path).headers[name] == "max-age=31536000"


def test_a_failure_is_a_page_for_people_and_our_shape_for_programs(browser: Browser) -> None:
    page = browser.post("/settings/name", csrf="wrong", headers={"Referer": f"{browser.origin}/settings"})
    assert (page.status_code, page.headers["Content-Type"]) == (403, "text/html; charset=utf-8")
    assert 'href="/settings">Open the page' in page.text
    for shown in (page, browser.get("/nowhere")):
        assert "Dana Whitfield" in shown.text
    response = browser.post("/settings/name", csrf="wrong", headers={"Accept": "*/*"})
    assert (response.status_code, set(response.json())) == (403, {"message"})


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("https://app.example/back?x=1", "https://app.example"),
        ("http://127.0.0.1:8765/back", "http://127.0.0.1:8765"),
        ("http://[::1]:8765/back", "http:"),
        ("com.example.app:/back", "com.example.app:"),
        ("https://app.example;script-src *", "https:"),
        ("https://user@app.example/", "https:"),
    ],
)
def test_a_policy_names_the_place_that_a_form_leads_to_and_nothing_more(address: str, expected: str) -> None:
    assert form_action_source(address) == expected
