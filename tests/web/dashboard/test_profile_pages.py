"""A person's own page: name, password, second factor, sessions."""

import re

import pyotp
import pytest
import sqlalchemy as sa
import zxingcpp
from PIL import Image

from quillpost.accounts.audit import service as audit_service
from quillpost.app.container import Container
from quillpost.web.dashboard.settings.profile.pages import browser_name, qr_svg
from quillpost.web.security import SESSION
from support.browser_sessions import PASSWORD, Browser, make_user, sign_in_browser, turn_on_second_factor
from support.factories import Account, Clock
from support.test_client import TestClient

NEW = "a brand new set of words"
RECOVERY_CODE = re.compile(r"<li><code>([0-9a-z-]{19})</code></li>")
RUN = re.compile(r"M(\d+) (\d+)h(\d+)v1h-\d+z")


@pytest.fixture
def browser(container: Container, http: TestClient, owner: Account) -> Browser:
    make_user(container, owner.id, "dana@example.com")
    browser = sign_in_browser(http)
    browser.sign_in("dana@example.com")
    return browser


def acts(container: Container, owner: Account) -> list[str]:
    with container.db.system_transaction() as tx:
        return [entry.act for entry in audit_service.list_audit_entries(tx, owner.id)]


def test_a_name_is_changed_and_none_is_refused(browser: Browser) -> None:
    shown = browser.post("/settings/name", name="  Dana <b>Reed</b> ")
    assert "Your name is changed." in shown.text
    assert 'value="Dana &lt;b&gt;Reed&lt;/b&gt;"' in shown.text
    assert "<b>Reed" not in shown.text
    for name in ("", " ", "a" * 101):
        refused = browser.post("/settings/name", name=name)
        assert refused.status_code == 422
        assert 'id="name-fault" role="alert"' in refused.text


def test_another_password_takes_the_present_one_and_ends_other_sessions(
    container: Container, http: TestClient, owner: Account, browser: Browser
) -> None:
    elsewhere = sign_in_browser(http)
    elsewhere.sign_in("dana@example.com")
    wrong = browser.post("/settings/password", present="another", password=NEW, again=NEW)
    assert wrong.status_code == 422
    assert 'id="present-fault" role="alert">That is not your password.' in wrong.text
    weak = browser.post("/settings/password", present=PASSWORD, password="short", again="short")
    assert 'id="password-fault" role="alert"' in weak.text
    assert elsewhere.get("/settings", follow=False).status_code == 200
    stolen = browser.cookie(SESSION)
    assert stolen is not None
    done = browser.post("/settings/password", present=PASSWORD, password=NEW, again=NEW)
    assert "Your password is changed." in done.text
    assert browser.cookie(SESSION) not in (None, stolen)
    thief = sign_in_browser(http)
    thief.client.cookies.set(SESSION, stolen)
    assert thief.get("/settings", follow=False).status_code == 303
    assert elsewhere.get("/settings", follow=False).status_code == 303
    assert browser.get("/settings", follow=False).status_code == 200
    assert elsewhere.sign_in("dana@example.com", NEW).url.path == "/"
    assert "password.changed" in acts(container, owner)


def test_the_second_factor_is_turned_on_by_a_code_of_the_app(
    container: Container, owner: Account, browser: Browser, clock: Clock
) -> None:
    page = browser.get("/settings/second-factor")
    found = re.search(r"<code>([A-Z2-7]{32})</code>", page.text)
    assert found is not None
    assert 'style="' not in page.text
    app = pyotp.TOTP(found[1])
    wrong = browser.post("/settings/second-factor", code="000000")
    assert wrong.status_code == 422
    assert f"<code>{found[1]}</code>" in wrong.text
    codes = browser.post("/settings/second-factor", code=app.at(clock.now()))
    assert codes.status_code == 200
    assert len(RECOVERY_CODE.findall(codes.text)) == 10
    assert codes.headers["Cache-Control"] == "no-store"
    assert "You have 10 unused" in browser.get("/settings").text
    assert found[1] not in browser.get("/settings/second-factor").text
    assert "second_factor.on" in acts(container, owner)


def test_a_recovery_code_lets_one_in_once(container: Container, http: TestClient, browser: Browser) -> None:
    turn_on_second_factor(container, "dana@example.com")
    [code, *_] = RECOVERY_CODE.findall(browser.post("/settings/second-factor/codes").text)
    other = sign_in_browser(http)
    other.sign_in("dana@example.com")
    assert other.post("/sign-in/code", code=code).url.path == "/"
    assert "You have 9 unused" in other.get("/settings").text
    other.post("/sign-out")
    other.sign_in("dana@example.com")
    assert other.post("/sign-in/code", code=code).status_code == 422


def test_turning_it_off_takes_the_password(container: Container, owner: Account, browser: Browser) -> None:
    turn_on_second_factor(container, "dana@example.com")
    wrong = browser.post("/settings/second-factor/off", password="another")
    assert wrong.status_code == 422
    assert "That is not your password." in wrong.text
    assert "second_factor.off" not in acts(container, owner)
    off = browser.post("/settings/second-factor/off", password=PASSWORD)
    assert "The second factor is off." in off.text
    assert "second_factor.off" in acts(container, owner)


def test_codes_are_made_for_nobody_whose_second_factor_is_off(browser: Browser) -> None:
    assert browser.post("/settings/second-factor/codes", follow=False).headers["Location"] == (
        "/settings/second-factor"
    )


def test_the_picture_of_the_secret_is_read_by_a_camera() -> None:
    uri = "otpauth://totp/Quillpost:dana%40example.com?secret=JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP&issuer=Quillpost"
    svg = qr_svg(uri, label='A "code" & more')
    assert 'aria-label="A &#34;code&#34; &amp; more"' in svg
    assert "style=" not in svg
    side = int(re.findall(r'viewBox="0 0 (\d+)', svg)[0])
    picture = Image.new("L", (side, side), 255)
    for x, y, length in (map(int, run) for run in RUN.findall(svg)):
        picture.paste(0, (x, y, x + length, y + 1))
    [read] = zxingcpp.read_barcodes(picture.resize((side * 4, side * 4), Image.Resampling.NEAREST))
    assert read.text == uri


def test_one_session_or_all_others_can_be_ended(
    container: Container, http: TestClient, owner: Account, browser: Browser
) -> None:
    others = [sign_in_browser(http, address=f"192.0.2.{n}") for n in (7, 8, 9)]
    for each in others:
        each.sign_in("dana@example.com")
    shown = browser.get("/settings").text
    assert shown.count("This browser") == 1
    ends = re.findall(r'action="(/settings/sessions/\d+/end)"', shown)
    assert len(ends) == 3
    assert "192.0.2.8" in shown
    assert "That session has ended." in browser.post(ends[0]).text
    assert [each.get("/settings", follow=False).status_code for each in others].count(303) == 1
    assert browser.post(ends[0]).status_code == 404
    assert "All your other sessions have ended." in browser.post("/settings/sessions/end-others").text
    assert {each.get("/settings", follow=False).status_code for each in others} == {303}
    assert browser.get("/settings", follow=False).status_code == 200
    assert acts(container, owner).count("sessions.ended") == 2


def test_nobody_ends_the_session_of_somebody_else(
    container: Container, http: TestClient, stranger: Account, browser: Browser
) -> None:
    make_user(container, stranger.id, "eve@example.com")
    eve = sign_in_browser(http)
    eve.sign_in("eve@example.com")
    with container.db.system_transaction() as tx:
        every = list(tx.scalars(sa.text("select id from sessions")))
    for session in every:
        eve.post(f"/settings/sessions/{session}/end")
    assert browser.get("/settings", follow=False).status_code == 200
    eve.sign_in("eve@example.com")
    assert eve.post("/settings/sessions/nonsense/end").status_code == 404


def test_whoever_is_in_two_accounts_switches_between_them(
    container: Container, stranger: Account, browser: Browser
) -> None:
    make_user(container, stranger.id, "dana@example.com", role="member")
    shown = browser.get("/settings").text
    assert "Your accounts" in shown
    [other] = set(re.findall(r'name="membership" value="(\d+)"', shown))
    moved = browser.post("/session/switch", membership=other, next="/settings").text
    assert "You are a member" in moved
    assert "/settings/tokens" not in moved
    refused = browser.get("/settings/people")
    assert refused.status_code == 403
    assert "Only an owner of this account may do this." in refused.text


@pytest.mark.parametrize(
    ("user_agent", "name"),
    [
        ("Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0", "Firefox on Linux"),
        (
            "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) "
            "Chrome/141.0.0.0 Safari/537.36 Edg/141.0.0.0",
            "Edge on Windows",
        ),
        (
            "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) "
            "Version/18.0 Mobile/15E148 Safari/604.1",
            "Safari on iPhone",
        ),
        ("curl/8.5", "curl/8.5"),
        ("x" * 300, "x" * 40),
        (None, "Unknown browser"),
    ],
)
def test_a_browser_is_named_in_words(user_agent: str | None, name: str) -> None:
    assert browser_name(user_agent) == name
