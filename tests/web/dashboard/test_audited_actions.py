"""Whatever people and apps do that the audit log should tell is done here by way of pages and endpoints."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyotp
import sqlalchemy as sa
from httpx2 import Response

from quillpost.accounts.audit.service import ACTION_LABELS, COMMAND_LINE_ACTOR, list_audit_entries
from quillpost.accounts.users import invitations, passwords
from quillpost.app.container import Container
from quillpost.core.database.tables.accounts import invitations as invited
from quillpost.core.database.tables.accounts import memberships, oauth_clients, oauth_grants, people
from quillpost.core.database.tables.base import tokens
from support.audited_actions import AUDITED_BY_CALLS, AUDITED_BY_COMMANDS, AUDITED_BY_OPERATORS
from support.browser_sessions import PASSWORD, Browser, sign_in_browser
from support.factories import Account, Clock
from support.oauth_app import REDIRECT_URI, OAuthApp, connect_app
from support.test_client import TestClient

DANA, MEL = "dana@example.com", "mel@example.com"
NEW = "a brand new set of words"


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

    def newest(self, column: sa.ColumnElement[int]) -> int:
        with self.container.db.system_transaction() as tx:
            return int(tx.execute(sa.select(sa.func.max(column))).scalar_one())

    def join_path(self) -> str:
        with self.container.db.system_transaction() as tx:
            link = invitations.invite(
                tx, self.container.encryptor, self.account.id, email=MEL, role="member", sub_account_id=None,
                actor=COMMAND_LINE_ACTOR, base_url=self.container.base_url, now=self.clock.now(),
                send_email=False,
            )  # fmt: skip
        return link.removeprefix(self.container.base_url)

    def reset_path(self) -> str:
        with self.container.db.system_transaction() as tx:
            person_id = tx.execute(sa.select(people.c.id).where(people.c.email == DANA)).scalar_one()
            link = passwords.create_reset_link(tx, person_id, base_url=self.container.base_url, now=self.clock.now())
        return link.removeprefix(self.container.base_url)

    def turn_on(self) -> Response:
        page = self.dana.get("/settings/second-factor").text
        secret = re.search(r"<code>([A-Z2-7]{32})</code>", page)
        assert secret is not None
        return self.dana.post("/settings/second-factor", code=pyotp.TOTP(secret[1]).at(self.clock.now()))

    def recover(self) -> Response:
        codes = self.dana.post("/settings/second-factor/codes").text
        code = re.search(r"<code>([0-9a-z]+(?:-[0-9a-z]+)+)</code>", codes)
        assert code is not None, codes
        other = sign_in_browser(self.http)
        other.sign_in(DANA, NEW)
        return other.post("/sign-in/code", code=code[1])

    def revoked(self) -> Response:
        number = self.newest(tokens.c.id)
        return self.dana.post(f"/settings/tokens/{number}/revoke")

    def twice(self, act: Callable[[str], Response], secret: str) -> Response:
        assert act(secret).status_code == 200
        return act(secret)


def token_fields(name: str) -> dict[str, Any]:
    return {"name": name, "mode": "test", "limits": "all", "lasts": "never"}


DEEDS: list[tuple[str, Callable[[Scene], Response], int]] = [
    ("sign_in.refused", lambda s: sign_in_browser(s.http).sign_in(DANA, "not these words"), 422),
    ("sign_in", lambda s: sign_in_browser(s.http).sign_in(DANA), 200),
    ("sessions.ended", lambda s: s.dana.post("/settings/sessions/end-others"), 200),
    (
        "password.changed",
        lambda s: s.dana.post("/settings/password", present=PASSWORD, password=NEW * 2, again=NEW * 2),
        200,
    ),
    ("password.reset_asked", lambda s: sign_in_browser(s.http).post("/forgot", email=DANA), 200),
    (
        "password.reset",
        lambda s: sign_in_browser(s.http).post(s.reset_path(), password=NEW, again=NEW),
        200,
    ),
    ("sign_in", lambda s: s.dana.sign_in(DANA, NEW), 200),
    ("account.changed", lambda s: s.dana.post("/settings/account", name="Whitfield & Co"), 200),
    ("embed.changed", lambda s: s.dana.post("/settings/embed", origins="https://shop.example.com"), 200),
    ("second_factor.on", Scene.turn_on, 200),
    ("second_factor.codes", lambda s: s.dana.post("/settings/second-factor/codes"), 200),
    ("second_factor.recovered", Scene.recover, 200),
    ("second_factor.off", lambda s: s.dana.post("/settings/second-factor/off", password=NEW), 200),
    ("person.invited", lambda s: s.dana.post("/settings/people/invite", email=MEL, role="member"), 200),
    (
        "person.uninvited",
        lambda s: s.dana.post(f"/settings/people/invitations/{s.newest(invited.c.id)}/take-back"),
        200,
    ),
    (
        "person.joined",
        lambda s: sign_in_browser(s.http).post(s.join_path(), name="Mel Ortiz", password=NEW, again=NEW),
        200,
    ),
    (
        "person.changed",
        lambda s: s.dana.post(f"/settings/people/{s.newest(memberships.c.id)}/change", role="owner"),
        200,
    ),
    ("person.removed", lambda s: s.dana.post(f"/settings/people/{s.newest(memberships.c.id)}/remove"), 200),
    ("token.created", lambda s: s.dana.post("/settings/tokens/new", **token_fields("Zapier")), 200),
    ("token.revoked", Scene.revoked, 200),
    (
        "token.leaked",
        lambda s: s.http.post("/tokens/leaked", json={"tokens": [s.app.tokens()["access_token"]]}),
        202,
    ),
    ("app.allowed", lambda s: s.app.exchange(s.app.code()), 200),
    (
        "app.disconnected",
        lambda s: s.dana.post(f"/settings/apps/{s.newest(oauth_grants.c.id)}/disconnect"),
        200,
    ),
    ("app.disconnected", lambda s: s.app.revoke(s.app.tokens()["refresh_token"]), 200),
    ("app.replayed", lambda s: s.twice(s.app.exchange, s.app.code()), 400),
    ("app.reused", lambda s: s.twice(s.app.refresh, s.app.tokens()["refresh_token"]), 400),
    (
        "client.created",
        lambda s: s.dana.post(
            "/settings/clients/new", name="Zap", redirect_uris=REDIRECT_URI, kind="confidential", limits="all"
        ),
        200,
    ),
    (
        "client.changed",
        lambda s: s.dana.post(
            f"/settings/clients/{s.newest(oauth_clients.c.id)}/change",
            name="Zip", redirect_uris=REDIRECT_URI, limits="all",
        ),
        200,
    ),
    (
        "client.secret",
        lambda s: s.dana.post(f"/settings/clients/{s.newest(oauth_clients.c.id)}/secret"),
        200,
    ),
    (
        "client.deleted",
        lambda s: s.dana.post(f"/settings/clients/{s.newest(oauth_clients.c.id)}/delete"),
        200,
    ),
    ("sign_out", lambda s: s.dana.post("/sign-out"), 200),
]  # fmt: skip
"""What is noted, how it is done, and the answer to it. Each goes on from where the last has led."""


def test_every_act_is_done_somewhere() -> None:
    assert {
        act for act, _, _ in DEEDS
    } == ACTION_LABELS.keys() - AUDITED_BY_CALLS - AUDITED_BY_COMMANDS - AUDITED_BY_OPERATORS


def test_each_deed_is_noted_when_it_is_done(
    container: Container, http: TestClient, owner: Account, clock: Clock
) -> None:
    scene = Scene(container, http, owner, clock, connect_app(container, http, owner))
    for act, deed, status in DEEDS:
        with container.db.system_transaction() as tx:
            known = {entry.id for entry in list_audit_entries(tx, owner.id, limit=1_000)}
        answer = deed(scene)
        assert answer.status_code == status, (act, answer.text)
        with container.db.system_transaction() as tx:
            new = [entry.act for entry in list_audit_entries(tx, owner.id, limit=1_000) if entry.id not in known]
        assert act in new, (act, new)
