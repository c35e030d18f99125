"""Signing in on the page: what it says, where it leads, and what it does not tell."""

from urllib.parse import urlencode

import pytest

from quillpost.accounts.audit import service as audit_service
from quillpost.accounts.users import rules as user_rules
from quillpost.app.container import Container
from support.browser_sessions import PASSWORD, Browser, make_user, sign_in_browser, turn_on_second_factor
from support.factories import Account, Clock
from support.oauth_app import connect_app, register_client
from support.test_client import TestClient


@pytest.fixture
def browser(container: Container, http: TestClient, owner: Account) -> Browser:
    make_user(container, owner.id, "dana@example.com")
    return sign_in_browser(http)


def test_a_signed_in_user_sees_their_name_account_and_mode(browser: Browser) -> None:
    answer = browser.sign_in("dana@example.com")
    assert (answer.status_code, answer.url.path) == (200, "/")
    for text in ("Dana Whitfield", "dana@example.com", ">Test<", "Sign out", "/settings"):
        assert text in answer.text


def test_signing_in_leads_to_the_requested_page(browser: Browser) -> None:
    response = browser.get("/settings?tab=1", follow=False)
    assert (response.status_code, response.headers["Location"]) == (303, "/sign-in?next=%2Fsettings%3Ftab%3D1")
    shown = browser.get("/settings?tab=1")
    assert 'name="next" value="/settings?tab=1"' in shown.text
    answer = browser.post("/sign-in", email="dana@example.com", password=PASSWORD, next="/settings?tab=1", follow=False)
    assert (answer.status_code, answer.headers["Location"]) == (303, "/settings?tab=1")


def test_whoever_comes_from_an_app_reads_which(container: Container, http: TestClient, owner: Account) -> None:
    app = connect_app(container, http, owner, name="Mail <b>Robot</b>")
    browser = sign_in_browser(http)
    response = browser.get(app.link())
    assert response.url.path == "/sign-in"
    assert "The app “Mail &lt;b&gt;Robot&lt;/b&gt;” asks for leave to act for you." in response.text
    again = browser.post("/sign-in", email="dana@example.com", password="not it", next=app.link())
    assert (again.status_code, "The app “Mail" in again.text) == (422, True)


@pytest.mark.parametrize(
    "next_path",
    [
        "/settings",
        "/oauth/authorize",
        "/oauth/authorize?client_id=",
        "/oauth/authorize?client_id=%00",
        "/oauth/authorize?client_id=00000000-0000-4000-8000-000000000000",
        "/oauth/authorize?client_id={id}&client_id={id}",
        "/oauth/authorize?" + "a=b&" * 101,
        "/settings?client_id={id}",
    ],
)
def test_no_app_is_named_unless_a_known_one_asks_next(
    container: Container, http: TestClient, owner: Account, next_path: str
) -> None:
    known, _ = register_client(container, owner.id)
    path = f"/sign-in?{urlencode({'next': next_path.format(id=known.client_id)})}"
    response = sign_in_browser(http).get(path)
    assert (response.status_code, "The app" in response.text) == (200, False)


def test_it_leads_to_no_other_site(browser: Browser) -> None:
    assert "evil" not in browser.get("/sign-in?next=https://evil.example/").text
    answer = browser.post("/sign-in", email="dana@example.com", password=PASSWORD, next="//evil.example", follow=False)
    assert answer.headers["Location"] == "/"
    assert browser.get("/sign-in?next=//evil.example", follow=False).headers["Location"] == "/"


def test_a_wrong_password_and_an_unknown_email_get_the_same_page(browser: Browser) -> None:
    wrong = browser.sign_in("dana@example.com", "not the password at all")
    unknown = browser.sign_in("nobody@example.com", "not the password at all")
    assert wrong.status_code == unknown.status_code == 422
    assert "The e-mail or the password is not right." in wrong.text
    assert wrong.text.replace("dana@", "nobody@") == unknown.text
    assert "not the password at all" not in wrong.text


def test_what_is_missing_is_named_at_its_field(browser: Browser) -> None:
    shown = browser.sign_in("", "")
    assert shown.status_code == 422
    assert 'id="email-fault" role="alert">Type your e-mail.' in shown.text
    assert 'id="password-fault" role="alert">Type your password.' in shown.text
    assert browser.sign_in("a" * 301 + "@example.com").status_code == 422


def test_after_many_wrong_passwords_the_page_says_how_long_to_wait(browser: Browser) -> None:
    for _ in range(10):
        assert browser.sign_in("dana@example.com", "a guess of somebody").status_code == 422
    refused = browser.sign_in("dana@example.com")
    assert refused.status_code == 429
    assert 0 < int(refused.headers["Retry-After"]) <= 900
    assert "too many attempts. Wait for" in refused.text
    assert browser.cookie("quillpost_session") is None


def test_whoever_is_signed_in_already_goes_on(browser: Browser) -> None:
    browser.sign_in("dana@example.com")
    assert browser.get("/sign-in?next=/settings", follow=False).headers["Location"] == "/settings"
    assert browser.get("/sign-in/code", follow=False).headers["Location"] == "/"


def test_the_second_factor_is_required_before_anything_opens(
    container: Container, browser: Browser, clock: Clock
) -> None:
    totp = turn_on_second_factor(container, "dana@example.com")
    half_in = browser.post("/sign-in", email="dana@example.com", password=PASSWORD, next="/settings", follow=False)
    assert half_in.headers["Location"] == "/sign-in/code?next=%2Fsettings"
    half_open = browser.cookie("quillpost_session")
    assert browser.get("/settings", follow=False).headers["Location"].startswith("/sign-in")
    assert browser.get("/sign-in/code?next=/settings").status_code == 200
    wrong = browser.post("/sign-in/code", code="000000", next="/settings")
    assert wrong.status_code == 422
    assert "That is not the code" in wrong.text
    clock.advance(seconds=60)
    right = browser.post("/sign-in/code", code=totp.at(clock.now()), next="/settings", follow=False)
    assert (right.status_code, right.headers["Location"]) == (303, "/settings")
    assert browser.cookie("quillpost_session") not in (None, half_open)
    assert browser.get("/settings").status_code == 200


def test_after_five_wrong_codes_one_begins_again(container: Container, browser: Browser) -> None:
    turn_on_second_factor(container, "dana@example.com")
    browser.sign_in("dana@example.com")
    for _ in range(4):
        assert browser.post("/sign-in/code", code="000000").status_code == 422
    over = browser.post("/sign-in/code", code="000000")
    assert (over.status_code, over.url.path) == (200, "/sign-in")
    assert "too many wrong codes" in over.text
    assert browser.cookie("quillpost_session") is None


def test_without_a_password_the_page_for_codes_leads_to_signing_in(browser: Browser) -> None:
    assert browser.get("/sign-in/code?next=/settings", follow=False).headers["Location"] == (
        "/sign-in?next=%2Fsettings"
    )
    answer = browser.post("/sign-in/code", code="123456", follow=False)
    assert answer.headers["Location"] == "/sign-in"


def test_the_password_is_required_again_after_half_an_hour(browser: Browser, clock: Clock) -> None:
    browser.sign_in("dana@example.com")
    assert browser.get("/settings/second-factor", follow=False).status_code == 200
    clock.advance(minutes=31)
    response = browser.get("/settings/second-factor", follow=False)
    assert response.headers["Location"] == "/sign-in/confirm?next=%2Fsettings%2Fsecond-factor"
    wrong = browser.post("/sign-in/confirm", password="another", next="/settings/second-factor")
    assert wrong.status_code == 422
    assert "That is not your password." in wrong.text
    right = browser.post("/sign-in/confirm", password=PASSWORD, next="/settings/second-factor", follow=False)
    assert right.headers["Location"] == "/settings/second-factor"
    assert browser.get("/settings/second-factor", follow=False).status_code == 200


def test_a_form_that_needs_the_password_again_leads_back_to_its_page(browser: Browser, clock: Clock) -> None:
    browser.sign_in("dana@example.com")
    clock.advance(minutes=31)
    page = f"{browser.origin}/settings/second-factor?from=form"
    answer = browser.post("/settings/second-factor/codes", headers={"Referer": page}, follow=False)
    assert answer.headers["Location"] == "/sign-in/confirm?next=%2Fsettings%2Fsecond-factor%3Ffrom%3Dform"
    elsewhere = {"Referer": "https://evil.example/settings"}
    answer = browser.post("/settings/second-factor/codes", headers=elsewhere, follow=False)
    assert answer.headers["Location"] == "/sign-in/confirm"


def test_a_program_without_a_session_gets_a_401_in_our_shape(http: TestClient) -> None:
    answer = http.get("/settings")
    assert (answer.status_code, answer.json()) == (401, {"message": "Sign in first."})


def test_signing_out_ends_the_session_itself(container: Container, owner: Account, browser: Browser) -> None:
    browser.sign_in("dana@example.com")
    kept = browser.cookie("quillpost_session")
    assert kept is not None
    out = browser.post("/sign-out")
    assert out.url.path == "/sign-in"
    assert "You are signed out." in out.text
    with container.db.system_transaction() as tx:
        assert [entry.act for entry in audit_service.list_audit_entries(tx, owner.id)] == ["sign_out", "sign_in"]
    assert browser.cookie("quillpost_session") is None
    thief = sign_in_browser(browser.client)
    thief.client.cookies.set("quillpost_session", kept)
    assert thief.get("/settings", follow=False).headers["Location"] == "/sign-in?next=%2Fsettings"


def test_no_address_puts_words_into_our_mouth(browser: Browser) -> None:
    shown = browser.get("/sign-in?said=Call+555+0100+now")
    assert "Call 555" not in shown.text
    assert "You are signed out." in browser.get("/sign-in?said=signed_out").text


def test_an_invalid_form_keeps_the_requested_page(browser: Browser) -> None:
    refused = browser.post("/sign-in", email="x" * 321, password=PASSWORD, next="/settings?tab=1")
    assert refused.status_code == 422
    assert "At most 320 characters, please." in refused.text
    assert 'name="next" value="/settings?tab=1"' in refused.text


def test_the_longest_e_mail_that_can_be_invited_can_sign_in(
    container: Container, owner: Account, browser: Browser
) -> None:
    email = "d" * 64 + "@" + ("e" * 61 + ".") * 4 + "example"
    assert (len(email), user_rules.find_email_error(email)) == (320, None)
    make_user(container, owner.id, email)
    for page in ("/sign-in", "/forgot"):
        assert 'name="email" type="email" maxlength="320"' in browser.get(page).text
    assert browser.post("/forgot", email=email).url.params["said"].startswith("reset_")
    assert email in browser.sign_in(email).text
