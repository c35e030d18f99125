"""A person's own page, and their account's: name, password, second factor, sessions, return address."""

import re
from typing import Any

import pyotp
import pytest
import sqlalchemy as sa
import zxingcpp
from PIL import Image

from quillpost.accounts.audit import service as audit_service
from quillpost.app.container import Container
from quillpost.core.database.tables.accounts import sessions
from quillpost.web.dashboard.settings.profile.pages import browser_name, qr_svg
from quillpost.web.security import SESSION
from support.factories import Account, Clock
from support.pages import ADDRESS, OWNER, AccountPages, assert_hides, assert_shows, form_errors
from support.sign_in import PASSWORD, Browser, make_user, sign_in_browser
from support.test_client import TestClient

NEW = "a brand new set of words"
RECOVERY_CODE = re.compile(r"<li><code>([0-9a-z-]{19})</code></li>")
RUN = re.compile(r"M(\d+) (\d+)h(\d+)v1h-\d+z")


def acts(container: Container, owner: Account) -> list[str]:
    with container.db.system_transaction() as tx:
        return [entry.act for entry in audit_service.list_audit_entries(tx, owner.id)]


def is_in(browser: Browser) -> bool:
    return browser.get("/settings", follow=False).status_code == 200


def test_a_name_is_changed_and_none_is_refused(browser: Browser) -> None:
    shown = browser.post("/settings/name", name="  Dana <b>Reed</b> ")
    assert_shows(shown, "Your name is changed.", 'value="Dana &lt;b&gt;Reed&lt;/b&gt;"', hides=["<b>Reed"])
    for name in ("", " ", "a" * 101):
        refused = browser.post("/settings/name", name=name)
        assert (refused.status_code, set(form_errors(refused))) == (422, {"name"})


def test_a_new_password_ends_sessions(container: Container, http: TestClient, owner: Account, browser: Browser) -> None:
    elsewhere = sign_in_browser(http)
    elsewhere.sign_in(OWNER)
    wrong = browser.post("/settings/password", present="another", password=NEW, again=NEW)
    assert (wrong.status_code, form_errors(wrong)) == (422, {"present": "That is not your password."})
    weak = browser.post("/settings/password", present=PASSWORD, password="short", again="short")
    assert form_errors(weak).keys() == {"password"}
    present = browser.post("/settings/password", present=PASSWORD, password=PASSWORD, again=PASSWORD)
    assert_shows(present, "That is your present password. Choose another.", "At least 10 characters.", status=422)
    stolen = browser.cookie(SESSION)
    assert stolen is not None
    assert is_in(elsewhere)
    assert_shows(
        browser.post("/settings/password", present=PASSWORD, password=NEW, again=NEW), "Your password is changed."
    )
    assert browser.cookie(SESSION) not in (None, stolen)
    thief = sign_in_browser(http)
    thief.client.cookies.set(SESSION, stolen)
    assert [is_in(each) for each in (thief, elsewhere, browser)] == [False, False, True]
    assert elsewhere.sign_in(OWNER, NEW).url.path == "/"
    assert "password.changed" in acts(container, owner)


def test_the_second_factor_is_turned_on_by_a_code_of_the_app_and_off_by_the_password(
    container: Container, http: TestClient, owner: Account, browser: Browser, clock: Clock
) -> None:
    assert browser.post("/settings/second-factor/codes", follow=False).headers["Location"] == "/settings/second-factor"
    page = browser.get("/settings/second-factor").text
    found = re.search(r"<code>([A-Z2-7]{32})</code>", page)
    assert found is not None
    assert_hides(page, 'style="')
    assert_shows(browser.post("/settings/second-factor", code="000000"), f"<code>{found[1]}</code>", status=422)
    on = browser.post("/settings/second-factor", code=pyotp.TOTP(found[1]).at(clock.now()))
    assert (on.status_code, on.headers["Cache-Control"]) == (200, "no-store")
    assert len(RECOVERY_CODE.findall(on.text)) == 10
    assert_shows(browser.get("/settings"), "You have 10 unused")
    assert_hides(browser.get("/settings/second-factor"), found[1])
    assert "second_factor.on" in acts(container, owner)
    [code, *_] = RECOVERY_CODE.findall(browser.post("/settings/second-factor/codes").text)
    assert_hides(on, code)
    other = sign_in_browser(http)
    other.sign_in(OWNER)
    assert other.post("/sign-in/code", code=code).url.path == "/"
    assert_shows(other.get("/settings"), "You have 9 unused")
    other.post("/sign-out")
    other.sign_in(OWNER)
    used = other.post("/sign-in/code", code=code)
    assert (used.status_code, "none of your recovery codes, or it was used already" in used.text) == (422, True)
    assert_shows(other.post("/sign-in/code", code="123456"), "That is not the code")
    wrong = browser.post("/settings/second-factor/off", password="another")
    assert_shows(wrong, "That is not your password.", status=422)
    assert "second_factor.off" not in acts(container, owner)
    assert_shows(browser.post("/settings/second-factor/off", password=PASSWORD), "The second factor is off.")
    assert "second_factor.off" in acts(container, owner)


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


def test_sessions_can_be_ended_by_their_owner_alone(
    container: Container, http: TestClient, owner: Account, stranger: Account, browser: Browser
) -> None:
    others = [sign_in_browser(http, address=f"192.0.2.{n}") for n in (7, 8, 9)]
    for each in others:
        each.sign_in(OWNER)
    make_user(container, stranger.id, "eve@example.com")
    eve = sign_in_browser(http)
    eve.sign_in("eve@example.com")
    with container.db.system_transaction() as tx:
        every = list(tx.scalars(sa.select(sessions.c.id).order_by(sessions.c.id.desc()).limit(5)))
    for session in every:
        eve.post(f"/settings/sessions/{session}/end")
    assert [is_in(each) for each in (browser, *others)] == [True] * 4
    eve.sign_in("eve@example.com")
    assert eve.post("/settings/sessions/nonsense/end").status_code == 404
    shown = browser.get("/settings").text
    assert shown.count("This browser") == 1
    ends = re.findall(r'action="(/settings/sessions/\d+/end)"', shown)
    assert len(ends) == 3
    assert_shows(shown, "192.0.2.8")
    assert_shows(browser.post(ends[0]), "That session has ended.")
    assert [is_in(each) for each in others].count(False) == 1
    assert browser.post(ends[0]).status_code == 404
    assert_shows(browser.post("/settings/sessions/end-others"), "All your other sessions have ended.")
    assert [is_in(each) for each in (browser, *others)] == [True, False, False, False]
    assert acts(container, owner).count("sessions.ended") == 2


def test_one_switches_between_two_accounts(container: Container, stranger: Account, browser: Browser) -> None:
    make_user(container, stranger.id, OWNER, role="member")
    shown = browser.get("/settings").text
    assert_shows(shown, "Your accounts")
    [other] = set(re.findall(r'name="membership" value="(\d+)"', shown))
    moved = browser.post("/session/switch", membership=other, next="/settings")
    assert_shows(moved, "You are a member", hides=["/settings/tokens"])
    assert_shows(browser.get("/settings/people"), "Only an owner of this account may do this.", status=403)


USER_AGENTS = [
    ("Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0", "Firefox on Linux"),
    ("Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) "
     "Chrome/141.0.0.0 Safari/537.36 Edg/141.0.0.0", "Edge on Windows"),
    ("Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) "
     "Version/18.0 Mobile/15E148 Safari/604.1", "Safari on iPhone"),
    ("curl/8.5", "curl/8.5"), ("x" * 300, "x" * 40), (None, "Unknown browser"),
]  # fmt: skip


def test_a_browser_is_named_in_words() -> None:
    assert [browser_name(agent) for agent, _ in USER_AGENTS] == [name for _, name in USER_AGENTS]


def test_an_owner_fills_in_the_account_details(house: AccountPages, subtests: pytest.Subtests) -> None:
    with house.unchanged():
        half = house.owner.post("/settings/account", name="", return_city="Austin", return_state="TX")
    house.refuses_forms(
        subtests, "/settings/account", ADDRESS | {"name": "Dana"},
        [
            ({"name": " "}, "name", "Give the account a name"),
            ({"return_address": ""}, "return_address", "Give the street"),
            ({"return_postal_code": ""}, "return_postal_code", "Give the ZIP"),
        ],
    )  # fmt: skip
    assert form_errors(half).keys() >= {"return_address", "return_postal_code"}
    assert_shows(half, 'name="return_city" type="text"', 'value="Austin"')
    assert house.account.send().json()["return_city"] is None
    whole: dict[str, Any] = {"return_address": "500 Congress Ave, Austin, TX 78701"}
    saved = house.owner.post("/settings/account", name="Whitfield & Co", company="", **whole)
    assert_shows(saved, "Saved.")
    for field, value in {"name": "Whitfield &amp; Co", **ADDRESS}.items():
        assert re.search(rf'name="{field}"[^>]* value="{value}"', saved.text), field
    assert house.account.get("/account").json()["name"] == "Whitfield & Co"
    assert house.account.send().json()["return_city"] == "Austin"
    noted = house.log()
    assert (noted[0].act, noted[0].actor) == ("account.changed", OWNER)
    assert noted[0].about == {"changed": ["the name", "the return address"]}
    house.owner.post("/settings/account", name="Whitfield & Co", **ADDRESS)
    assert house.log() == noted  # nothing was another
