"""The flow as programs of others drive it: requests-oauthlib and Authlib's client, against a real server."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import urlsplit

import httpx2
import pytest
import requests
from authlib.integrations.requests_client import OAuth2Session as AuthlibSession
from requests.auth import HTTPBasicAuth
from requests_oauthlib import OAuth2Session

from quillpost.app.container import Container
from quillpost.web.application import create_app
from support.browser_sessions import Browser, make_user
from support.factories import Account
from support.oauth_app import REDIRECT_URI, hidden_fields, register_client
from support.raw_http import real_server
from support.test_client import TestClient

WITHOUT_TLS = ("OAUTHLIB_INSECURE_TRANSPORT", "AUTHLIB_INSECURE_TRANSPORT")
"""What these libraries want to be told before they speak to a server on this machine. Ours wants neither."""


@dataclass
class Service:
    home: str
    browser: Browser

    def consent(self, link: str) -> str:
        """Where the person ends up who was sent to this link, and has allowed it."""
        assert link.startswith(f"{self.home}/oauth/authorize?")
        path = link.removeprefix(self.home)
        page = self.browser.get(path)
        assert page.status_code == 200
        answer = self.browser.post(path, follow=False, decision="allow", mode="test", **hidden_fields(page))
        place: str = answer.headers["location"]
        assert place.startswith(f"{REDIRECT_URI}?")
        return place

    def ping(self, token: str) -> int:
        header = {"Authorization": f"Bearer {token}"}
        return requests.get(f"{self.home}/api/v2/ping", headers=header, timeout=20).status_code


@pytest.fixture
def service(container: Container, owner: Account, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    make_user(container, owner.id, "dana@example.com")
    with real_server(create_app(container)) as port:
        home = f"http://127.0.0.1:{port}"
        with httpx2.Client(base_url=home) as client:
            browser = Browser(cast(TestClient, client))
            browser.sign_in("dana@example.com")
            for name in WITHOUT_TLS:
                monkeypatch.setenv(name, "1")
            yield Service(home, browser)


@pytest.mark.parametrize(
    ("by", "has_pkce"), [("basic", True), ("basic", False), ("form", True), ("form", False), ("public", True)]
)
def test_by_requests_oauthlib(container: Container, owner: Account, service: Service, by: str, has_pkce: bool) -> None:
    client, secret = register_client(container, owner.id, is_public=by == "public")
    proofs: dict[str, dict[str, Any]] = {
        "basic": {"auth": HTTPBasicAuth(client.client_id, secret or "")},
        "form": {"client_secret": secret, "include_client_id": True},
        "public": {"include_client_id": True},
    }
    proof = proofs[by]
    session = OAuth2Session(
        client.client_id,
        redirect_uri=REDIRECT_URI,
        scope=["orders:read", "send:write"],
        pkce="S256" if has_pkce else None,
    )
    link, _state = session.authorization_url(f"{service.home}/oauth/authorize")
    token_url = f"{service.home}/oauth/token"
    tokens = session.fetch_token(token_url, authorization_response=service.consent(link), **proof)
    assert tokens["expires_in"] == 2_592_000
    assert session.get(f"{service.home}/api/v2/ping").json() == {"message": "pong", "test_mode": True}
    in_form = {"client_id": client.client_id} | ({} if secret is None else {"client_secret": secret})
    how: dict[str, Any] = {"auth": proof["auth"]} if by == "basic" else in_form
    again = session.refresh_token(token_url, **how)
    assert again["refresh_token"] != tokens["refresh_token"]
    assert session.get(f"{service.home}/api/v2/ping").status_code == 200
    given_back = requests.post(
        f"{service.home}/oauth/revoke", data={"token": again["refresh_token"], **in_form}, timeout=20
    )
    assert given_back.status_code == 200
    assert service.ping(again["access_token"]) == 401


@pytest.mark.parametrize(
    ("method", "has_pkce"),
    [
        ("client_secret_basic", True),
        ("client_secret_basic", False),
        ("client_secret_post", True),
        ("client_secret_post", False),
        ("none", True),
    ],
)
def test_by_authlibs_client(
    container: Container, owner: Account, service: Service, method: str, has_pkce: bool
) -> None:
    client, secret = register_client(container, owner.id, is_public=method == "none")
    metadata = requests.get(f"{service.home}/.well-known/oauth-authorization-server", timeout=20).json()
    assert method in metadata["token_endpoint_auth_methods_supported"]
    session = AuthlibSession(
        client.client_id,
        secret,
        redirect_uri=REDIRECT_URI,
        token_endpoint_auth_method=method,
        revocation_endpoint_auth_method=method,
        code_challenge_method="S256" if has_pkce else None,
    )
    verifier = {"code_verifier": "v" * 64} if has_pkce else {}
    path = urlsplit(metadata["authorization_endpoint"]).path
    link, state = session.create_authorization_url(service.home + path, **verifier)
    token_url = service.home + urlsplit(metadata["token_endpoint"]).path
    tokens = session.fetch_token(token_url, authorization_response=service.consent(link), state=state, **verifier)
    assert set(tokens) == {"token_type", "expires_in", "access_token", "refresh_token", "expires_at"}
    assert session.get(f"{service.home}/api/v2/ping").json()["message"] == "pong"
    again = session.refresh_token(token_url)
    assert again["refresh_token"] != tokens["refresh_token"]
    assert session.get(f"{service.home}/api/v2/ping").status_code == 200
    revocation_url = service.home + urlsplit(metadata["revocation_endpoint"]).path
    given_back = session.revoke_token(revocation_url, again["refresh_token"], token_type_hint="refresh_token")
    assert given_back.status_code == 200
    assert service.ping(again["access_token"]) == 401
