"""Forms that are ours, and forms that somebody else would like to send in our reader's name."""

import re
from typing import Any

import pytest

from quillpost.app.container import Container
from quillpost.core.errors import Invalid
from quillpost.core.tokens import mint_secret
from quillpost.web.forms import MAX_FIELDS, MAX_FORM_BYTES, Form
from support.browser_sessions import ACCEPTS, Browser, make_user, sign_in_browser
from support.factories import Account
from support.route_access import PAGE_NEEDS
from support.test_client import TestClient

FORM_TYPE = "application/x-www-form-urlencoded"


@pytest.fixture
def browser(container: Container, http: TestClient, owner: Account) -> Browser:
    make_user(container, owner.id, "dana@example.com")
    browser = sign_in_browser(http)
    browser.sign_in("dana@example.com")
    return browser


def name_in(browser: Browser) -> str:
    shown = browser.get("/settings").text
    return "Another" if 'value="Another"' in shown else "Dana" if 'value="Dana Whitfield"' in shown else "?"


def test_a_form_of_ours_is_taken(browser: Browser) -> None:
    assert browser.post("/settings/name", name="Another").status_code == 200
    assert name_in(browser) == "Another"


@pytest.mark.parametrize("word", [None, "", "nonsense", "0" * 64, "é" * 20])
def test_a_form_without_the_right_word_changes_nothing(browser: Browser, word: str | None) -> None:
    refused = browser.post("/settings/name", name="Another", csrf=word)
    assert refused.status_code == 403
    assert "Open the page anew" in refused.text
    assert name_in(browser) == "Dana"


def test_the_word_of_another_session_is_worth_nothing(browser: Browser, http: TestClient) -> None:
    other = sign_in_browser(http)
    before = other.csrf()
    other.sign_in("dana@example.com")
    for word in (before, other.csrf()):
        assert browser.post("/settings/name", name="Another", csrf=word).status_code == 403
    assert name_in(browser) == "Dana"


def test_the_word_from_before_signing_in_is_worth_nothing_after_it(http: TestClient, browser: Browser) -> None:
    new = sign_in_browser(http)
    before = new.csrf()
    new.sign_in("dana@example.com")
    assert new.post("/sign-out", csrf=before).status_code == 403


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://quillpost.test.evil.example"},
        {"Origin": "https://quillpost.test"},
        {"Origin": "http://quillpost.test:8080"},
        {"Origin": ""},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "null", "Sec-Fetch-Site": "same-origin"},
    ],
)
def test_a_form_that_another_site_sends_is_refused_whatever_it_holds(browser: Browser, headers: dict[str, str]) -> None:
    refused = browser.post("/settings/name", name="Another", headers=headers)
    assert refused.status_code == 403
    assert "sent by another site" in refused.text
    assert name_in(browser) == "Dana"


def test_the_configured_address_is_ours_too(container: Container, browser: Browser) -> None:
    """Behind a proxy that ends https and is not trusted to say so, the request itself looks plain."""
    taken = browser.post("/settings/name", name="Another", headers={"Origin": container.base_url})
    assert taken.status_code == 200


def test_whoever_is_no_browser_needs_the_word_all_the_same(browser: Browser) -> None:
    word = browser.csrf()
    bare = {"Accept": "application/json", "Content-Type": FORM_TYPE}
    body = f"name=Another&csrf={word}"
    refused = browser.client.post("/settings/name", content="name=Another", headers=bare)
    assert refused.status_code == 403
    assert set(refused.json()) == {"message"}
    taken = browser.client.post("/settings/name", content=body, headers=bare, follow_redirects=False)
    assert taken.status_code == 303


def test_signed_out_visitors_are_refused_before_the_form_is_read(http: TestClient) -> None:
    posts = [re.sub(r"{\w+}", "1", path) for method, path in PAGE_NEEDS if method == "POST"]
    assert len(posts) > 15
    for path in posts:
        for kind in (FORM_TYPE, "application/json"):
            response = http.post(path, content="{}", headers={"Content-Type": kind})
            assert (response.status_code, response.json()) == (401, {"message": "Sign in first."}), path
        led = sign_in_browser(http).post(path, csrf=None, nothing="1", follow=False)
        assert (led.status_code, led.headers["Location"]) == (303, "/sign-in"), path


@pytest.mark.parametrize("page", ["/settings/tokens/new", "/settings/clients/new", "/settings/name", "/sign-in"])
def test_a_secret_that_is_typed_where_it_does_not_belong_is_not_shown_again(
    browser: Browser, http: TestClient, page: str
) -> None:
    if page == "/sign-in":
        browser = sign_in_browser(http)
    secret = mint_secret("live", b"0" * 24)
    name = f"{secret} " + "x" * 400
    typed: dict[str, Any] = {
        "name": name,
        "email": f"{secret}@example.com",
        "redirect_uris": f"{secret}\nhttp://{secret}/",
    }
    shown = browser.post(page, **typed)
    assert shown.status_code == 422
    assert "qp_live_[hidden]" in shown.text or page == "/settings/name"
    assert secret not in shown.text


@pytest.mark.parametrize("kind", ["application/json", "text/plain", "multipart/form-data; boundary=x", ""])
def test_a_form_of_another_type_is_refused(browser: Browser, kind: str) -> None:
    word = browser.csrf()
    answer = browser.client.post(
        "/settings/name",
        content=f"name=Another&csrf={word}",
        headers={"Content-Type": kind, "Accept": "application/json"},
    )
    assert answer.status_code == 415
    assert FORM_TYPE in answer.json()["message"]


def test_a_form_that_is_too_large_is_refused_however_it_comes(browser: Browser) -> None:
    word = browser.csrf()
    headers = {"Content-Type": FORM_TYPE, "Accept": ACCEPTS}
    body = f"csrf={word}&name=" + "a" * MAX_FORM_BYTES
    answer = browser.client.post("/settings/name", content=body, headers=headers)
    assert answer.status_code == 413
    assert "too much at once" in answer.text


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("name=%ff%fe", "UTF-8"),
        (b"name=\xff\xfe", "UTF-8"),
        ("&".join(f"f{n}=1" for n in range(MAX_FIELDS + 1)), f"send {MAX_FIELDS} at most"),
    ],
    ids=["encoded letters that are none", "letters that are none", "too many fields"],
)
def test_a_form_that_cannot_be_read_is_refused(browser: Browser, body: str | bytes, words: str) -> None:
    headers = {"Content-Type": FORM_TYPE, "Accept": "application/json", "X-CSRF-Token": browser.csrf()}
    answer = browser.client.post("/settings/name", content=body, headers=headers)
    assert answer.status_code == 422
    assert words in answer.json()["errors"]["body"][0]


def test_characters_that_cannot_be_stored_are_refused(browser: Browser) -> None:
    refused = browser.post("/settings/name", name="Da\x00na")
    assert refused.status_code == 422
    assert "cannot be stored" in refused.text
    assert browser.post("/settings/name", name="a" * 301).status_code == 422


def test_fields_are_read_as_they_are_meant() -> None:
    form = Form({"name": [" Dana "], "password": [" two  words "], "scopes": ["a", " b"], "id": ["12"], "no": [""]})
    assert form.text("name") == "Dana"
    assert form.text("missing") == ""
    assert form.secret("password") == " two  words "
    assert form.values("scopes") == ["a", "b"]
    assert (form.number("id"), form.number("no"), form.number("missing")) == (12, None, None)


@pytest.mark.parametrize("written", ["-1", "0", "1.5", "one", "9" * 30, "1e3", "٣"])
def test_a_number_that_is_no_id_is_refused(written: str) -> None:
    with pytest.raises(Invalid, match="on the list"):
        Form({"id": [written]}).number("id")


def test_too_much_of_anything_is_refused() -> None:
    with pytest.raises(Invalid, match="At most 5"):
        Form({"name": ["toolong"]}).text("name", max_length=5)
    with pytest.raises(Invalid, match="At most 2"):
        Form({"scopes": ["a", "b", "c"]}).values("scopes", max_count=2)
