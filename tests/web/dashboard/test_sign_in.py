"""Signing in on the page and setting a forgotten password: what it says, where it leads, what it does not tell."""

from urllib.parse import urlencode, urljoin, urlsplit

import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from quillpost.accounts.audit import service as audit_service
from quillpost.accounts.users import passwords
from quillpost.accounts.users import rules as user_rules
from quillpost.app.container import Container
from quillpost.core.database.tables.accounts import people
from quillpost.core.tokens import mint_secret
from quillpost.web.rendering import MAX_NEXT_LENGTH, path_with_next, safe_next
from support.factories import Account, Clock, count_rows
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
        path = f"/sign-in?{urlencode({'next': next_path.format(id=known.client_id)})}"
        response = browser.get(path)
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


def test_the_second_factor_is_required_before_anything_opens(
    container: Container, visitor: Browser, clock: Clock
) -> None:
    assert location(visitor, "/sign-in/code?next=/settings") == "/sign-in?next=%2Fsettings"
    assert visitor.post("/sign-in/code", code="123456", follow=False).headers["Location"] == "/sign-in"
    totp = turn_on_second_factor(container, OWNER)
    half_in = visitor.post("/sign-in", email=OWNER, password=PASSWORD, next="/settings", follow=False)
    assert half_in.headers["Location"] == "/sign-in/code?next=%2Fsettings"
    half_open = visitor.cookie(SESSION)
    assert location(visitor, "/settings").startswith("/sign-in")
    assert visitor.get("/sign-in/code?next=/settings").status_code == 200
    wrong = visitor.post("/sign-in/code", code="000000", next="/settings")
    assert_shows(wrong, "That is not the code", status=422)
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


def test_the_longest_e_mail_that_can_be_invited_can_sign_in(
    container: Container, owner: Account, visitor: Browser
) -> None:
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


def test_asking_for_a_new_password_says_the_same_whether_or_not_somebody_has_the_email(
    container: Container, http: TestClient, visitor: Browser
) -> None:
    send_emails(http, container)
    before = count_rows(container)
    known = visitor.post("/forgot", email=OWNER)
    written = count_rows(container)
    unknown = visitor.post("/forgot", email="nobody@example.com")
    assert count_rows(container) == written
    assert [written[table] - before[table] for table in ("password_resets", "notices")] == [1, 1]
    assert known.status_code == unknown.status_code == 200
    assert known.text == unknown.text
    assert_shows(known, "Look into your mailbox")
    assert_hides(known, "dana")
    assert_shows(visitor.post("/forgot", email="dana"), "Type your e-mail.", 'value="dana"', status=422)


def test_the_link_sets_another_password_once_and_ends_every_session(
    container: Container, http: TestClient, visitor: Browser
) -> None:
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
