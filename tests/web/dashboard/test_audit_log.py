"""The audit log as owners read it, and that whatever people and apps do by pages and endpoints is in it."""

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
from httpx2 import Response

from quillpost.accounts.audit import service as audit
from quillpost.accounts.audit.service import ACTION_LABELS, COMMAND_LINE_ACTOR, Actor
from quillpost.accounts.users import invitations, passwords
from quillpost.app.container import Container
from quillpost.core.database.tables.accounts import invitations as invited
from quillpost.core.database.tables.accounts import memberships, oauth_clients, oauth_grants, people
from quillpost.core.database.tables.base import tokens
from quillpost.web.dashboard.settings import pages as setting_pages
from quillpost.web.security import ZONE_COOKIE
from support.audited_actions import AUDITED_BY_CALLS, AUDITED_BY_COMMANDS, AUDITED_BY_OPERATORS
from support.factories import Account, Clock
from support.oauth_app import REDIRECT_URI, OAuthApp, connect_app
from support.pages import OWNER, AccountPages, assert_hides, assert_shows
from support.sign_in import PASSWORD, Browser, sign_in_browser
from support.test_client import TestClient

PAGE = "/settings/audit"
MEL, NEW = "mel@example.com", "a brand new set of words"
OLDER = re.compile(r'href="([^"]+)" rel="next"')
ROW = re.compile(r'<td class="told" data-label="What">([^<]*?)\n', re.DOTALL)


def write(house: AccountPages, account: Account, *names: str, act: str = "token.created", **how: Any) -> None:
    with house.parts.db.system_transaction() as tx:
        for name in names:
            audit.record_audit_entry(
                tx, account.id, act, how.get("actor", Actor(OWNER, address="192.0.2.7")),
                about={"name": name, "mode": "live"}, sub_account_id=how.get("sub_account_id"),
                now=house.parts.clock(),
            )  # fmt: skip


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
    assert answer.headers["Content-Type"] == "text/csv; charset=utf-8"
    assert answer.headers["Content-Disposition"] == 'attachment; filename="audit.csv"'
    assert answer.headers["Cache-Control"] == "no-store"
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
        with self.container.db.system_transaction() as tx:
            return int(tx.execute(sa.select(sa.func.max(column))).scalar_one())

    def join_path(self) -> str:
        with self.container.db.system_transaction() as tx:
            return invitations.invite(
                tx, self.container.encryptor, self.account.id, email=MEL, role="member", sub_account_id=None,
                actor=COMMAND_LINE_ACTOR, base_url="", now=self.clock.now(), send_email=False,
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
        with container.db.system_transaction() as tx:
            new = [entry for entry in audit.list_audit_entries(tx, owner.id, limit=1_000) if entry.id not in known]
        assert act in [entry.act for entry in new], act
        known |= {entry.id for entry in new}
