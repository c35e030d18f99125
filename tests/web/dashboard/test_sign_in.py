"""Signing in on the page and setting a forgotten password: what it says, where it leads, what it does not tell. And the
cookie of a session and the token of a page: who can set or get one, and how long it is good."""

import re
import secrets
from urllib.parse import urlencode, urljoin, urlsplit

import pytest
import sqlalchemy as sa
from httpx2 import Response
from hypothesis import given
from hypothesis import strategies as st

from quillpost.accounts.audit import service as audit_service
from quillpost.accounts.models import Role
from quillpost.accounts.users import passwords
from quillpost.accounts.users import rules as user_rules
from quillpost.app.container import Container
from quillpost.core.database.tables.accounts import people
from quillpost.core.tokens import mint_secret
from quillpost.web.rendering import MAX_NEXT_LENGTH, path_with_next, safe_next
from support.factories import Account, Clock, count_rows, make_operator, make_sub_account
from support.oauth_app import connect_app, register_client
from support.pages import OWNER, assert_hides, assert_shows, form_errors
from support.sign_in import PASSWORD, Browser, make_user, send_emails, sign_in_browser, turn_on_second_factor
from support.test_client import TestClient

OURS = "https://mail.example.com/sign-in"
SESSION, NEW = "quillpost_session", "a brand new set of words"


def location(browser: Browser, path: str) -> str:
    return str(browser.get(path, follow=False).headers["Location"])


def test_signing_in_leads_to_the_requested_page_of_ours(visitor: Browser) -> None:
    response = visitor.get("/settings?tab=1", follow=False)
    assert (response.status_code, response.headers["Location"]) == (303, "/sign-in?next=%2Fsettings%3Ftab%3D1")
    assert_shows(visitor.get("/settings?tab=1"), 'name="next" value="/settings?tab=1"')
    refused = visitor.post("/sign-in", email="x" * 321, password=PASSWORD, next="/settings?tab=1")
    assert_shows(refused, "At most 320 characters, please.", 'name="next" value="/settings?tab=1"', status=422)
    assert_hides(visitor.get("/sign-in?next=https://evil.example/"), "evil")
    for next_path, leads_to in (("/settings?tab=1", "/settings?tab=1"), ("//evil.example", "/")):
        answer = visitor.post("/sign-in", email=OWNER, password=PASSWORD, next=next_path, follow=False)
        assert (answer.status_code, answer.headers["Location"]) == (303, leads_to)
    assert_shows(visitor.get("/"), "Dana Whitfield", OWNER, ">Test<", "Sign out", "/settings")
    # Whoever is signed in already goes on.
    for path, leads_to in (
        ("/sign-in?next=/settings", "/settings"), ("/sign-in?next=//evil.example", "/"), ("/sign-in/code", "/"),
    ):  # fmt: skip
        assert location(visitor, path) == leads_to


PATHS_OF_OURS = (
    "/", "/settings", "/settings/tokens?page=2", "/lists/import", "/a//b", "/..//evil.example",
    "/oauth/authorize?client_id=a&redirect_uri=https%3A%2F%2Fapp.example%2Fback&state=x%2Fy",
)  # fmt: skip
OTHER_PATHS = (
    None, "", "settings", "https://evil.example", "HTTPS:evil.example", "//evil.example", "///evil.example",
    "/\\evil.example", "\\\\evil.example", "/\t/evil.example", "/\n/evil.example", "\t//evil.example",
    " //evil.example", "/settings evil", "/a\r\nSet-Cookie: x=y", "/\x00", "/\x7f", "/sétting",
    "/\u2028/evil.example", "javascript:alert(1)", "data:text/html,hello", "@evil.example", ".evil.example",
    "?next=/", "#x", "/sign-in", "/sign-in?next=/settings", "/sign-out", "/session/switch",
    "/" + "a" * MAX_NEXT_LENGTH,
)  # fmt: skip


def test_one_is_led_to_pages_of_ours_whatever_somebody_writes_into_the_link() -> None:
    for path in PATHS_OF_OURS:
        assert safe_next(path) == path
        assert urlsplit(urljoin(OURS, path)).netloc == "mail.example.com"
    assert {path: safe_next(path) for path in OTHER_PATHS} == dict.fromkeys(OTHER_PATHS, "/")
    assert path_with_next("/sign-in", "/a?b=c&d=e") == "/sign-in?next=%2Fa%3Fb%3Dc%26d%3De"
    assert path_with_next("/sign-in", "//evil.example") == "/sign-in"


@given(st.text() | st.text(alphabet="/\\:.@?#%aA \t\r\n"))
def test_no_text_leads_to_another_host(text: str) -> None:
    led = urlsplit(urljoin(OURS, safe_next(text)))
    assert (led.scheme, led.netloc) == ("https", "mail.example.com")


def test_whoever_comes_from_an_app_reads_which(container: Container, http: TestClient, owner: Account) -> None:
    app = connect_app(container, http, owner, name="Mail <b>Robot</b>")
    browser = sign_in_browser(http)
    response = browser.get(app.link())
    assert response.url.path == "/sign-in"
    assert_shows(response, "The app “Mail &lt;b&gt;Robot&lt;/b&gt;” asks for leave to act for you.")
    assert_shows(browser.post("/sign-in", email=OWNER, password="not it", next=app.link()), "The app “Mail", status=422)
    known, _ = register_client(container, owner.id)
    for next_path in (
        "/settings", "/oauth/authorize", "/oauth/authorize?client_id=", "/oauth/authorize?client_id=%00",
        "/oauth/authorize?client_id=00000000-0000-4000-8000-000000000000",
        "/oauth/authorize?client_id={id}&client_id={id}", "/oauth/authorize?" + "a=b&" * 101,
        "/settings?client_id={id}",
    ):  # fmt: skip
        response = browser.get(f"/sign-in?{urlencode({'next': next_path.format(id=known.client_id)})}")
        assert (response.status_code, "The app" in response.text) == (200, False), next_path


def test_a_wrong_password_and_an_unknown_email_get_the_same_page(visitor: Browser) -> None:
    wrong = visitor.sign_in(OWNER, "not the password at all")
    unknown = visitor.sign_in("nobody@example.com", "not the password at all")
    assert wrong.status_code == unknown.status_code == 422
    assert_shows(wrong, "The e-mail or the password is not right.")
    assert wrong.text.replace("dana@", "nobody@") == unknown.text
    assert_hides(wrong, "not the password at all")
    empty = visitor.sign_in("", "")
    assert (empty.status_code, form_errors(empty)) == (
        422, {"email": "Type your e-mail.", "password": "Type your password."},
    )  # fmt: skip
    assert visitor.sign_in("a" * 301 + "@example.com").status_code == 422
    # No address puts words into our mouth.
    assert_hides(visitor.get("/sign-in?said=Call+555+0100+now"), "Call 555")
    assert_shows(visitor.get("/sign-in?said=signed_out"), "You are signed out.")


def test_after_many_wrong_passwords_the_page_says_how_long_to_wait(visitor: Browser) -> None:
    for _ in range(10):
        assert visitor.sign_in(OWNER, "a guess of somebody").status_code == 422
    refused = visitor.sign_in(OWNER)
    assert refused.status_code == 429
    assert 0 < int(refused.headers["Retry-After"]) <= 900
    assert_shows(refused, "too many attempts. Wait for")
    assert visitor.cookie(SESSION) is None


def test_the_second_factor_is_required_before_all(container: Container, visitor: Browser, clock: Clock) -> None:
    assert location(visitor, "/sign-in/code?next=/settings") == "/sign-in?next=%2Fsettings"
    assert visitor.post("/sign-in/code", code="123456", follow=False).headers["Location"] == "/sign-in"
    totp = turn_on_second_factor(container, OWNER)
    half_in = visitor.post("/sign-in", email=OWNER, password=PASSWORD, next="/settings", follow=False)
    assert half_in.headers["Location"] == "/sign-in/code?next=%2Fsettings"
    half_open = visitor.cookie(SESSION)
    assert location(visitor, "/settings").startswith("/sign-in")
    assert visitor.get("/sign-in/code?next=/settings").status_code == 200
    assert_shows(visitor.post("/sign-in/code", code="000000", next="/settings"), "That is not the code", status=422)
    clock.advance(seconds=60)
    right = visitor.post("/sign-in/code", code=totp.at(clock.now()), next="/settings", follow=False)
    assert (right.status_code, right.headers["Location"]) == (303, "/settings")
    assert visitor.cookie(SESSION) not in (None, half_open)
    assert visitor.get("/settings").status_code == 200
    visitor.sign_in(OWNER)
    clock.advance(minutes=11)  # the code is entered within ten
    assert location(visitor, "/sign-in/code") == "/sign-in"
    visitor.sign_in(OWNER)
    for _ in range(4):
        assert visitor.post("/sign-in/code", code="000000").status_code == 422
    over = visitor.post("/sign-in/code", code="000000")
    assert (over.status_code, over.url.path) == (200, "/sign-in")
    assert_shows(over, "too many wrong codes")
    assert visitor.cookie(SESSION) is None


def test_the_password_is_required_again_after_half_an_hour(browser: Browser, clock: Clock) -> None:
    assert browser.get("/settings/second-factor", follow=False).status_code == 200
    clock.advance(minutes=31)
    leads_to = "/sign-in/confirm?next=%2Fsettings%2Fsecond-factor"
    assert location(browser, "/settings/second-factor") == leads_to
    for referer, back in (  # a form leads back to its page
        (f"{browser.origin}/settings/second-factor?from=form", f"{leads_to}%3Ffrom%3Dform"),
        ("https://evil.example/settings", "/sign-in/confirm"),
    ):
        answer = browser.post("/settings/second-factor/codes", headers={"Referer": referer}, follow=False)
        assert answer.headers["Location"] == back
    wrong = browser.post("/sign-in/confirm", password="another", next="/settings/second-factor")
    assert_shows(wrong, "That is not your password.", status=422)
    right = browser.post("/sign-in/confirm", password=PASSWORD, next="/settings/second-factor", follow=False)
    assert right.headers["Location"] == "/settings/second-factor"
    assert browser.get("/settings/second-factor", follow=False).status_code == 200


def test_signing_out_ends_the_session_itself(container: Container, owner: Account, browser: Browser) -> None:
    kept = browser.cookie(SESSION)
    assert kept is not None
    out = browser.post("/sign-out")
    assert out.url.path == "/sign-in"
    assert_shows(out, "You are signed out.")
    with container.db.system_transaction() as tx:
        assert [entry.act for entry in audit_service.list_audit_entries(tx, owner.id)] == ["sign_out", "sign_in"]
    assert browser.cookie(SESSION) is None
    thief = sign_in_browser(browser.client)
    thief.client.cookies.set(SESSION, kept)
    assert location(thief, "/settings") == "/sign-in?next=%2Fsettings"


def test_the_longest_e_mail_can_sign_in(container: Container, owner: Account, visitor: Browser) -> None:
    email = "d" * 64 + "@" + ("e" * 61 + ".") * 4 + "example"
    assert (len(email), user_rules.find_email_error(email)) == (320, None)
    make_user(container, owner.id, email)
    for page in ("/sign-in", "/forgot"):
        assert_shows(visitor.get(page), 'name="email" type="email" maxlength="320"')
    assert visitor.post("/forgot", email=email).url.params["said"].startswith("reset_")
    assert_shows(visitor.sign_in(email), email)


def reset_link(container: Container) -> str:
    with container.db.system_transaction() as tx:
        person_id = tx.execute(sa.select(people.c.id).where(people.c.email == OWNER)).scalar_one()
        return passwords.create_reset_link(tx, person_id, base_url="", now=container.clock())


def test_no_forgotten_password_tells_of_an_email(container: Container, http: TestClient, visitor: Browser) -> None:
    send_emails(http, container)
    before = count_rows(container)
    known = visitor.post("/forgot", email=OWNER)
    written = count_rows(container)
    unknown = visitor.post("/forgot", email="nobody@example.com")
    assert count_rows(container) == written
    assert [written[table] - before[table] for table in ("password_resets", "notices")] == [1, 1]
    assert known.status_code == unknown.status_code == 200
    assert known.text == unknown.text
    assert_shows(known, "Look into your mailbox", hides=["dana"])
    assert_shows(visitor.post("/forgot", email="dana"), "Type your e-mail.", 'value="dana"', status=422)


def test_the_link_sets_another_password_once(container: Container, http: TestClient, visitor: Browser) -> None:
    elsewhere = sign_in_browser(http)
    elsewhere.sign_in(OWNER)
    earlier, path = reset_link(container), reset_link(container)
    assert visitor.get(earlier).status_code == 404
    shown = visitor.get(path)
    assert_shows(shown, OWNER, "you will be signed out", status=200)
    assert shown.headers["Referrer-Policy"] == "strict-origin", "the secret of the path goes to nobody"
    assert shown.headers["Cache-Control"] == "no-store"
    for password, again, field in (
        ("short", "short", "password"), ("password123", "password123", "password"), (NEW, NEW + "!", "again"),
        ("", "", "password"),
    ):  # fmt: skip
        refused = visitor.post(path, password=password, again=again)
        assert (refused.status_code, field in form_errors(refused)) == (422, True), password
        assert not password or f'value="{password}"' not in refused.text
    done = visitor.post(path, password=NEW, again=NEW)
    assert (done.status_code, done.url.path) == (200, "/sign-in")
    assert_shows(done, "Your password is set.")
    assert elsewhere.get("/settings", follow=False).status_code == 303
    assert visitor.sign_in(OWNER, PASSWORD).status_code == 422
    assert visitor.sign_in(OWNER, NEW).url.path == "/"
    assert visitor.get(path).status_code == 404
    assert visitor.post(path, password=NEW, again=NEW).status_code == 404


def test_old_unknown_and_broken_links_look_alike(container: Container, visitor: Browser, clock: Clock) -> None:
    path = reset_link(container)
    clock.advance(hours=1, seconds=1)
    responses = [visitor.get(each) for each in (path, "/reset/" + mint_secret("reset", bytes(32)), "/reset/nonsense")]
    assert {each.status_code for each in responses} == {404}
    assert len({each.text for each in responses}) == 1
    assert_shows(responses[0], "This link is over.")
    assert visitor.post("/reset/nonsense", password=NEW, again=NEW).status_code == 404


KNOWN, VISITOR = "quillpost_known", "quillpost_visitor"
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
def test_cookies_are_closed_to_other_sites(http: TestClient, visitor: Browser, base_url: str, prefix: str) -> None:
    here = sign_in_browser(http, base_url=base_url)
    found = cookies_set(here)
    assert set(found) == {f"{prefix}{name}" for name in (SESSION, KNOWN, VISITOR)}
    for attributes in found.values():
        assert {"HttpOnly", "Path=/", "SameSite=lax"} <= attributes
        assert ("Secure" in attributes) == bool(prefix)
        assert not [each for each in attributes if each.lower().startswith("domain")]
    assert is_in(here)


def test_no_planted_session_stays(container: Container, http: TestClient, stranger: Account, visitor: Browser) -> None:
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


def test_a_page_s_token_ends_with_its_session(http: TestClient, browser: Browser, clock: Clock) -> None:
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


def test_a_page_s_token_has_a_mode(container: Container, http: TestClient, stranger: Account, browser: Browser) -> None:
    theirs = make_user(container, stranger.id, "eve@example.com")  # whose membership has about this number
    for membership in (*range(theirs - 3, theirs + 4), 0):
        browser.post("/session/switch", membership=membership)
        assert_shows(browser.get("/"), OWNER)
    assert browser.get("/session/token").status_code == 405
    for mode, looked_at in (("live", "live"), ("nonsense", "live"), ("test", "test")):
        browser.post("/session/switch", mode=mode)
        assert re.findall(r'name="mode" value="(\w+)" aria-pressed="true"', browser.get("/").text) == [looked_at]
        assert call(http, token_of(browser)).json()["test_mode"] is (looked_at == "test")
    assert browser.post("/session/token", mode="test", headers=JSON).status_code == 200
    for given_mode, membership in (("live", None), (None, 999_999)):
        refused = browser.post("/session/token", headers=JSON, mode=given_mode, membership=membership)
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
