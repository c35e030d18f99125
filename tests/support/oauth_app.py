"""An app that people connect: registered, led back to, and calling the token endpoint."""

import base64
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from html import unescape
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit
from uuid import uuid4

import sqlalchemy as sa
from httpx2 import Response

from quillpost.accounts.audit.service import Actor
from quillpost.accounts.oauth import clients
from quillpost.accounts.oauth.clients import ClientRegistration, OAuthClient
from quillpost.app.container import Container
from quillpost.core.database import Tenant
from quillpost.core.database.tables.accounts import oauth_clients, oauth_grants
from support.factories import Account
from support.sign_in import Browser, make_user, sign_in_browser
from support.test_client import TestClient

REDIRECT_URI = "https://app.example/back"
STATE = "a state/with +odd&letters=é"
VERIFIER = "v" * 43
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).rstrip(b"=").decode()
WITH_PKCE = {"code_challenge": CHALLENGE, "code_challenge_method": "S256"}
HIDDEN = re.compile(r'<input type="hidden" name="(account|scopes)" value="([^"]*)">')
ACTOR = Actor("owner@example.com", address="192.0.2.7")


def register_client(
    container: Container,
    account_id: int,
    *,
    is_public: bool = False,
    name: str = "Letterhead",
    redirect_uris: tuple[str, ...] = (REDIRECT_URI,),
    **more: Any,
) -> tuple[OAuthClient, str | None]:
    with container.db.transaction(Tenant(account_id)) as tx:
        order_request = ClientRegistration(name, redirect_uris, **more)
        return clients.register_client(
            tx, account_id, order_request, is_public=is_public, actor=ACTOR, now=container.clock()
        )


def insert_grant(
    container: Container, account_id: int, person_id: int, *, app: str = "App", is_connected: bool = True, **values: Any
) -> int:
    """Leave that somebody gave an app of its own, without a page or a code."""
    now = container.clock()
    at = {"account_id": account_id, "created_at": now}
    client = {"client_id": str(uuid4()), "name": app, "is_public": True, "redirect_uris": [REDIRECT_URI]}
    with container.db.system_transaction() as tx:
        made = sa.insert(oauth_clients).values(**at, **client, updated_at=now).returning(oauth_clients.c.id)
        given = {"mode": "test", "client_id": tx.execute(made).scalar_one(), "person_id": person_id} | values
        given["connected_at"] = now if is_connected else None
        made = sa.insert(oauth_grants).values(**at, **given).returning(oauth_grants.c.id)
        return int(tx.execute(made).scalar_one())


@dataclass
class OAuthApp:
    """The integrator's side of it, and a browser that goes to and fro."""

    http: TestClient
    client: OAuthClient
    secret: str | None
    browser: Browser

    @property
    def credentials(self) -> dict[str, str]:
        known = {"client_id": self.client.client_id}
        return known if self.secret is None else {**known, "client_secret": self.secret}

    def link(self, **changes: str | None) -> str:
        """To the page that asks for leave. None leaves a parameter out."""
        usual: dict[str, str | None] = {
            "response_type": "code",
            "client_id": self.client.client_id,
            "redirect_uri": self.client.redirect_uris[0],
            "state": STATE,
            **(WITH_PKCE if self.client.is_public else {}),
        }
        params = {name: value for name, value in {**usual, **changes}.items() if value is not None}
        return f"/oauth/authorize?{urlencode(params)}"

    def consent(
        self, link: str | None = None, *, decision: str = "allow", mode: str | None = "test", **fields: Any
    ) -> Response:
        """What the browser is answered when its owner has read the page and decided."""
        link = link or self.link()
        shown = hidden_fields(self.browser.get(link, follow=False))
        return self.browser.post(link, follow=False, **{**shown, "decision": decision, "mode": mode, **fields})

    def code(self, link: str | None = None, **fields: Any) -> str:
        return parse_query(self.consent(link, **fields))["code"]

    def exchange(self, code: str, *, headers: Mapping[str, str] | None = None, **changes: str | None) -> Response:
        usual = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self.client.redirect_uris[0],
            "code_verifier": VERIFIER if self.client.is_public else None,
        }
        return self.call("/oauth/token", headers, **usual | changes)

    def refresh(
        self, refresh_token: str, *, headers: Mapping[str, str] | None = None, **changes: str | None
    ) -> Response:
        fields = {"grant_type": "refresh_token", "refresh_token": refresh_token}
        return self.call("/oauth/token", headers, **fields | changes)

    def revoke(self, token: str, **changes: str | None) -> Response:
        return self.call("/oauth/revoke", token=token, **changes)

    def call(
        self, path: str = "/oauth/token", headers: Mapping[str, str] | None = None, /, **fields: str | None
    ) -> Response:
        given = {name: value for name, value in {**self.credentials, **fields}.items() if value is not None}
        return self.http.post(path, data=given, headers=headers)

    def tokens(self, link: str | None = None, **fields: Any) -> dict[str, Any]:
        """The whole way, from consent to tokens."""
        answer = self.exchange(self.code(link, **fields))
        assert answer.status_code == 200, answer.text
        content: dict[str, Any] = answer.json()
        return content

    def ping(self, token: str) -> Response:
        return self.http.get("/api/v2/ping", headers={"Authorization": f"Bearer {token}"})


def connect_app(
    container: Container, http: TestClient, owner: Account, *, is_public: bool = False, **how: Any
) -> OAuthApp:
    """An app of the owner's, and the owner signed in to use it."""
    client, secret = register_client(container, owner.id, is_public=is_public, **how)
    make_user(container, owner.id, "dana@example.com")
    browser = sign_in_browser(http)
    browser.sign_in("dana@example.com")
    return OAuthApp(http, client, secret, browser)


def hidden_fields(page: Response) -> dict[str, Any]:
    """What the page that asks for leave says of itself: its account, and what may be allowed."""
    return {name: unescape(value) for name, value in HIDDEN.findall(page.text)}


def parse_query(answer: Response) -> dict[str, str]:
    """What an app is told when it is led back."""
    assert answer.status_code == 303, answer.text
    pairs = parse_qsl(urlsplit(answer.headers["location"]).query, keep_blank_values=True)
    assert len(dict(pairs)) == len(pairs)
    return dict(pairs)


def basic_auth(client_id: str, secret: str) -> dict[str, str]:
    credentials = base64.b64encode(f"{client_id}:{secret}".encode()).decode()
    return {"Authorization": f"Basic {credentials}"}
