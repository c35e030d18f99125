"""The audit log as owners read it, and that whatever people and apps do by pages and endpoints is in it. A person's own
page, and their account's: name, password, second factor, sessions, return address."""

import csv
import io
import re
from collections.abc import Callable
from dataclasses import dataclass
from html import unescape
from typing import Any

import pyotp
import pytest
import sqlalchemy as sa
import zxingcpp
from httpx2 import Response
from PIL import Image

from quillpost.accounts.audit import service as audit
from quillpost.accounts.audit.service import ACTION_LABELS, COMMAND_LINE_ACTOR, Actor
from quillpost.accounts.users import invitations, passwords
from quillpost.app.container import Container
from quillpost.core.database.tables.accounts import invitations as invited
from quillpost.core.database.tables.accounts import memberships, oauth_clients, oauth_grants, people, sessions
from quillpost.core.database.tables.base import tokens
from quillpost.web.dashboard.settings import pages as setting_pages
from quillpost.web.dashboard.settings.profile.pages import browser_name, qr_svg
from quillpost.web.security import SESSION, ZONE_COOKIE
from support.audited_actions import AUDITED_BY_CALLS, AUDITED_BY_COMMANDS, AUDITED_BY_OPERATORS
from support.factories import Account, Clock
from support.oauth_app import REDIRECT_URI, OAuthApp, connect_app
from support.pages import ADDRESS, OWNER, AccountPages, assert_hides, assert_shows, form_errors
from support.rows import run, scalar
from support.sign_in import PASSWORD, Browser, make_user, sign_in_browser
from support.test_client import TestClient

PAGE = "/settings/audit"
MEL, NEW = "mel@example.com", "a brand new set of words"
OLDER = re.compile(r'href="([^"]+)" rel="next"')
ROW = re.compile(r'<td class="told" data-label="What">([^<]*?)\n', re.DOTALL)


def write(house: AccountPages, account: Account, *names: str, act: str = "token.created", **how: Any) -> None:
    actor, branch = how.get("actor", Actor(OWNER, address="192.0.2.7")), how.get("sub_account_id")
    with house.parts.db.system_transaction() as tx:
        for name in names:
            about, now = {"name": name, "mode": "live"}, house.parts.clock()
            audit.record_audit_entry(tx, account.id, act, actor, about=about, sub_account_id=branch, now=now)


def rows(house: AccountPages, path: str = PAGE) -> list[str]:
    return ROW.findall(house.owner.get(path).text)


def made(name: str) -> str:
    return f"{OWNER} made a token: {name} (live)"


def test_an_entry_shows_its_actor_action_time_and_network(house: AccountPages) -> None:
    assert_shows(house.owner.get(PAGE), "Nothing was noted yet.")
    write(house, house.others, "Theirs")
    write(house, house.account, "Zapier", sub_account_id=house.branch)
    assert rows(house) == [made("Zapier")]
    assert_shows(house.owner.get(PAGE), "192.0.2.7", "for Dallas", 'data-moment="year">4 May 2026, 12:00</time>')
    for before in ("", "x", "-1", "0", "9" * 40):  # a place that is none is the beginning
        assert rows(house, f"{PAGE}?before={before}") == [made("Zapier")], before
    assert_shows(house.owner.get(f"{PAGE}?before=1"), "There is nothing older.", f'href="{PAGE}"')
    for page in (PAGE, f"{PAGE}.csv"):  # another account's lines are on no page of ours
        assert_hides(house.owner.get(page), "Theirs")
        assert_hides(house.stranger.get(page), "Zapier")
    write(house, house.account, "<script>alert(1)</script>")
    assert_shows(house.owner.get(PAGE), "&lt;script&gt;", hides=["<script>alert"])
    house.owner.client.cookies.set(ZONE_COOKIE, "Pacific/Auckland")
    assert_shows(house.owner.get(PAGE), 'title="5 May 2026, 00:00 NZST" data-moment="year">5 May 2026, 00:00</time>')
    for page in ("/settings/tokens", "/settings/people", "/settings"):
        assert_shows(house.owner.get(page), 'title="5 May 2026, 00:00 NZST">')


def test_the_newest_come_first_and_older_ones_on_pages_of_their_own(house: AccountPages) -> None:
    write(house, house.account, *(f"T{number}" for number in range(50)))
    assert len(rows(house)) == 50
    assert_hides(house.owner.get(PAGE), 'rel="next"')  # a last page that is full leads nowhere
    write(house, house.account, *(f"T{number}" for number in range(50, 120)))
    seen, sizes, path = list[str](), list[int](), PAGE
    while path:
        page = house.owner.get(path).text
        seen += (some := ROW.findall(page))
        sizes.append(len(some))
        older = re.search(r'href="([^"]*before=\d+)" rel="next"', page)
        path = older[1] if older else ""
    assert sizes == [50, 50, 20]
    assert seen == [made(f"T{number}") for number in reversed(range(120))]


def test_every_act_can_be_shown(house: AccountPages) -> None:
    for act in ACTION_LABELS:
        write(house, house.account, "it", act=act)
    pages, older = "", [PAGE]
    while older:
        page = house.owner.get(unescape(older[-1])).text
        pages, older = pages + page, OLDER.findall(page)
    assert_shows(pages, *(words.replace("'", "&#39;") for words in ACTION_LABELS.values()))


def test_the_file_holds_the_whole_log(house: AccountPages, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setting_pages, "CSV_CHUNK_LINES", 10)
    write(house, house.account, *(f"T{number}" for number in range(30)))
    clock.advance(hours=1)
    write(house, house.account, "Ümlaut, Inc.", sub_account_id=house.branch)
    answer = house.owner.get(f"{PAGE}.csv")
    named = [answer.headers[name] for name in ("Content-Type", "Content-Disposition", "Cache-Control")]
    assert named == ["text/csv; charset=utf-8", 'attachment; filename="audit.csv"', "no-store"]
    header, *lines = csv.reader(io.StringIO(answer.content.decode()))
    assert header[:5] == ["id", "at", "actor", "act", "about"]
    names = ["Ümlaut, Inc.", *(f"T{number}" for number in reversed(range(30)))]
    assert [line[4] for line in lines] == [f"{name} (live)" for name in names]
    assert lines[0][1:4] == ["2026-05-04T13:00:00Z", OWNER, "token.created"]
    write(house, house.account, "it", actor=Actor('=HYPERLINK("https://evil.example.com")'))
    _, line, *_ = csv.reader(io.StringIO(house.owner.get(f"{PAGE}.csv").text))
    assert line[2].startswith("'="), "no cell is a formula"


@dataclass
class Scene:
    """An account, its owner Dana in her browser, and an app of hers."""

    container: Container
    http: TestClient
    account: Account
    clock: Clock
    app: OAuthApp

    @property
    def dana(self) -> Browser:
        return self.app.browser

    def other(self) -> Browser:
        return sign_in_browser(self.http)

    def newest(self, column: sa.ColumnElement[int]) -> int:
        return int(scalar(self.container, sa.select(sa.func.max(column))))

    def join_path(self) -> str:
        return run(
            self.container, invitations.invite, self.container.encryptor, self.account.id, email=MEL, role="member",
            sub_account_id=None, actor=COMMAND_LINE_ACTOR, base_url="", now=self.clock.now(), send_email=False,
        )  # fmt: skip

    def reset_path(self) -> str:
        with self.container.db.system_transaction() as tx:
            person_id = tx.execute(sa.select(people.c.id).where(people.c.email == OWNER)).scalar_one()
            return passwords.create_reset_link(tx, person_id, base_url="", now=self.clock.now())

    def turn_on(self) -> Response:
        secret = re.search(r"<code>([A-Z2-7]{32})</code>", self.dana.get("/settings/second-factor").text)
        assert secret is not None
        return self.dana.post("/settings/second-factor", code=pyotp.TOTP(secret[1]).at(self.clock.now()))

    def recover(self) -> Response:
        codes = self.dana.post("/settings/second-factor/codes").text
        code = re.search(r"<code>([0-9a-z]+(?:-[0-9a-z]+)+)</code>", codes)
        assert code is not None, codes
        other = self.other()
        other.sign_in(OWNER, NEW)
        return other.post("/sign-in/code", code=code[1])

    def twice(self, act: Callable[[str], Response], secret: str) -> Response:
        assert act(secret).status_code == 200
        return act(secret)

    def settings(self, path: str, **fields: Any) -> Response:
        return self.dana.post(f"/settings/{path}", **fields)

    def client(self, act: str, **fields: Any) -> Response:
        return self.settings(f"clients/{self.newest(oauth_clients.c.id)}/{act}", **fields)

    def person(self, act: str, **fields: Any) -> Response:
        return self.settings(f"people/{self.newest(memberships.c.id)}/{act}", **fields)


CLIENT = {"redirect_uris": REDIRECT_URI, "limits": "all"}
TOKEN = {"name": "Zapier", "mode": "test", "limits": "all", "lasts": "never"}
DEEDS: list[tuple[str, Callable[[Scene], Response], int]] = [
    ("sign_in.refused", lambda s: s.other().sign_in(OWNER, "not these words"), 422),
    ("sign_in", lambda s: s.other().sign_in(OWNER), 200),
    ("sessions.ended", lambda s: s.settings("sessions/end-others"), 200),
    ("password.changed", lambda s: s.settings("password", present=PASSWORD, password=NEW * 2, again=NEW * 2), 200),
    ("password.reset_asked", lambda s: s.other().post("/forgot", email=OWNER), 200),
    ("password.reset", lambda s: s.other().post(s.reset_path(), password=NEW, again=NEW), 200),
    ("sign_in", lambda s: s.dana.sign_in(OWNER, NEW), 200),
    ("account.changed", lambda s: s.settings("account", name="Whitfield & Co"), 200),
    ("embed.changed", lambda s: s.settings("embed", origins="https://shop.example.com"), 200),
    ("second_factor.on", Scene.turn_on, 200),
    ("second_factor.codes", lambda s: s.settings("second-factor/codes"), 200),
    ("second_factor.recovered", Scene.recover, 200),
    ("second_factor.off", lambda s: s.settings("second-factor/off", password=NEW), 200),
    ("person.invited", lambda s: s.settings("people/invite", email=MEL, role="member"), 200),
    ("person.uninvited", lambda s: s.settings(f"people/invitations/{s.newest(invited.c.id)}/take-back"), 200),
    ("person.joined", lambda s: s.other().post(s.join_path(), name="Mel Ortiz", password=NEW, again=NEW), 200),
    ("person.changed", lambda s: s.person("change", role="owner"), 200),
    ("person.removed", lambda s: s.person("remove"), 200),
    ("token.created", lambda s: s.settings("tokens/new", **TOKEN), 200),
    ("token.revoked", lambda s: s.settings(f"tokens/{s.newest(tokens.c.id)}/revoke"), 200),
    ("token.leaked", lambda s: s.http.post("/tokens/leaked", json={"tokens": [s.app.tokens()["access_token"]]}), 202),
    ("app.allowed", lambda s: s.app.exchange(s.app.code()), 200),
    ("app.disconnected", lambda s: s.settings(f"apps/{s.newest(oauth_grants.c.id)}/disconnect"), 200),
    ("app.disconnected", lambda s: s.app.revoke(s.app.tokens()["refresh_token"]), 200),
    ("app.replayed", lambda s: s.twice(s.app.exchange, s.app.code()), 400),
    ("app.reused", lambda s: s.twice(s.app.refresh, s.app.tokens()["refresh_token"]), 400),
    ("client.created", lambda s: s.settings("clients/new", name="Zap", kind="confidential", **CLIENT), 200),
    ("client.changed", lambda s: s.client("change", name="Zip", **CLIENT), 200),
    ("client.secret", lambda s: s.client("secret"), 200),
    ("client.deleted", lambda s: s.client("delete"), 200),
    ("sign_out", lambda s: s.dana.post("/sign-out"), 200),
]
"""What is noted, how it is done, and the answer to it. Each goes on from where the last has led."""


def test_each_deed_is_noted_once_done(container: Container, http: TestClient, owner: Account, clock: Clock) -> None:
    by_pages = ACTION_LABELS.keys() - AUDITED_BY_CALLS - AUDITED_BY_COMMANDS - AUDITED_BY_OPERATORS
    assert {act for act, _, _ in DEEDS} == by_pages
    scene = Scene(container, http, owner, clock, connect_app(container, http, owner))
    known: set[int] = set()
    for act, deed, status in DEEDS:
        answer = deed(scene)
        assert answer.status_code == status, (act, answer.text)
        entries = run(container, audit.list_audit_entries, owner.id, limit=1_000)
        new = [entry for entry in entries if entry.id not in known]
        assert act in [entry.act for entry in new], act
        known |= {entry.id for entry in new}


RECOVERY_CODE = re.compile(r"<li><code>([0-9a-z-]{19})</code></li>")
RUN = re.compile(r"M(\d+) (\d+)h(\d+)v1h-\d+z")


def acts(container: Container, owner: Account) -> list[str]:
    return [entry.act for entry in run(container, audit.list_audit_entries, owner.id)]


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
    for x, y, length in (map(int, found) for found in RUN.findall(svg)):
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
