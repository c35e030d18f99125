"""The whole flow on a real server: as a person sees it in a browser, and as programs of others drive it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx2
import pytest
import requests
from authlib.integrations.requests_client import OAuth2Session as AuthlibSession
from playwright.sync_api import expect
from requests.auth import HTTPBasicAuth
from requests_oauthlib import OAuth2Session

from quillpost.app.container import Container
from quillpost.web.application import create_app
from support.browser_sessions import PASSWORD, Browser, make_user, sign_in_browser
from support.chromium import new_page
from support.factories import Account, make_sub_account
from support.oauth_app import REDIRECT_URI, STATE, VERIFIER, WITH_PKCE, OAuthApp, hidden_fields, register_client
from support.other_site import SiteResponse, other_site
from support.raw_http import real_server
from support.test_client import TestClient

DANA = "dana@example.com"
WITHOUT_TLS = ("OAUTHLIB_INSECURE_TRANSPORT", "AUTHLIB_INSECURE_TRANSPORT")
"""What these libraries want to be told before they speak to a server on this machine. Ours wants neither."""


@pytest.mark.costly
def test_from_an_apps_site_to_consent_and_back(container: Container, http: TestClient, owner: Account) -> None:
    make_sub_account(container, owner, "North")
    make_user(container, owner.id, DANA)
    link, came_back = list[str](), list[dict[str, list[str]]]()

    def answer(target: str, _body: bytes) -> SiteResponse:
        """The app's website: a page with one link, and a page to come back to."""
        address = urlsplit(target)
        if address.path == "/back":
            came_back.append(parse_qs(address.query))
            return SiteResponse("<p>Welcome back</p>")
        return SiteResponse(f'<a href="{link[0]}">Connect</a>')

    with other_site(answer) as place, real_server(create_app(container)) as port, new_page(width=390) as page:
        client, _ = register_client(container, owner.id, is_public=True, redirect_uris=(f"{place}/back",))
        params = {
            "response_type": "code", "client_id": client.client_id, "redirect_uri": f"{place}/back", "state": STATE,
            "scope": "send:write orders:read", **WITH_PKCE,
        }  # fmt: skip
        link.append(f"http://127.0.0.1:{port}/oauth/authorize?{urlencode(params)}".replace("&", "&amp;"))
        page.goto(place)
        page.get_by_role("link", name="Connect").click()
        page.get_by_label("E-mail").fill(DANA)
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Let Letterhead act for Dana Whitfield?")
        page.get_by_label("For", exact=True).select_option(label="North alone")
        page.get_by_label("is for testing").check()
        page.get_by_role("button", name="Allow", exact=True).click()
        expect(page.get_by_text("Welcome back")).to_be_visible()
    [query] = came_back
    assert (query["state"], query["iss"]) == ([STATE], [container.base_url])
    given = OAuthApp(http, client, None, sign_in_browser(http)).exchange(query["code"][0], code_verifier=VERIFIER)
    assert given.status_code == 200, given.text


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
    make_user(container, owner.id, DANA)
    for name in WITHOUT_TLS:
        monkeypatch.setenv(name, "1")
    with real_server(create_app(container)) as port, httpx2.Client(base_url=f"http://127.0.0.1:{port}") as client:
        browser = Browser(cast(TestClient, client))
        browser.sign_in(DANA)
        yield Service(f"http://127.0.0.1:{port}", browser)


def drive_requests_oauthlib(
    service: Service, client_id: str, secret: str | None, *, by: str, has_pkce: bool
) -> tuple[Any, str]:
    """The session, and the last access token, which it has given back."""
    in_form = {"client_id": client_id} | ({} if secret is None else {"client_secret": secret})
    proof: dict[str, Any] = {"include_client_id": True} | ({"client_secret": secret} if secret else {})
    if by == "client_secret_basic":
        proof = {"auth": HTTPBasicAuth(client_id, secret or "")}
    scope, pkce = ["orders:read", "send:write"], "S256" if has_pkce else None
    session = OAuth2Session(client_id, redirect_uri=REDIRECT_URI, scope=scope, pkce=pkce)
    link, _state = session.authorization_url(f"{service.home}/oauth/authorize")
    token_url = f"{service.home}/oauth/token"
    tokens = session.fetch_token(token_url, authorization_response=service.consent(link), **proof)
    assert tokens["expires_in"] == 2_592_000
    assert session.get(f"{service.home}/api/v2/ping").json() == {"message": "pong", "test_mode": True}
    how: dict[str, Any] = {"auth": proof["auth"]} if "auth" in proof else in_form
    again = session.refresh_token(token_url, **how)
    assert again["refresh_token"] != tokens["refresh_token"]
    assert session.get(f"{service.home}/api/v2/ping").status_code == 200
    body = {"token": again["refresh_token"], **in_form}
    return requests.post(f"{service.home}/oauth/revoke", data=body, timeout=20), str(again["access_token"])


def drive_authlib(service: Service, client_id: str, secret: str | None, *, by: str, has_pkce: bool) -> tuple[Any, str]:
    metadata = requests.get(f"{service.home}/.well-known/oauth-authorization-server", timeout=20).json()
    authorize, token_url, revoke = (
        service.home + urlsplit(metadata[f"{name}_endpoint"]).path for name in ("authorization", "token", "revocation")
    )
    assert by in metadata["token_endpoint_auth_methods_supported"]
    session = AuthlibSession(
        client_id, secret, redirect_uri=REDIRECT_URI, token_endpoint_auth_method=by,
        revocation_endpoint_auth_method=by, code_challenge_method="S256" if has_pkce else None,
    )  # fmt: skip
    verifier = {"code_verifier": "v" * 64} if has_pkce else {}
    link, state = session.create_authorization_url(authorize, **verifier)
    tokens = session.fetch_token(token_url, authorization_response=service.consent(link), state=state, **verifier)
    assert set(tokens) == {"token_type", "expires_in", "access_token", "refresh_token", "expires_at"}
    assert session.get(f"{service.home}/api/v2/ping").json()["message"] == "pong"
    again = session.refresh_token(token_url)
    assert again["refresh_token"] != tokens["refresh_token"]
    assert session.get(f"{service.home}/api/v2/ping").status_code == 200
    given_back = session.revoke_token(revoke, again["refresh_token"], token_type_hint="refresh_token")
    return given_back, str(again["access_token"])


def test_by_requests_oauthlib_and_by_authlibs_client(
    container: Container, owner: Account, service: Service, subtests: pytest.Subtests
) -> None:
    for drive in (drive_requests_oauthlib, drive_authlib):
        for by in ("client_secret_basic", "client_secret_post", "none"):
            client, secret = register_client(container, owner.id, is_public=by == "none")
            for has_pkce in (True,) if by == "none" else (True, False):
                with subtests.test(f"{drive.__name__} {by}, with PKCE: {has_pkce}"):
                    given_back, token = drive(service, client.client_id, secret, by=by, has_pkce=has_pkce)
                    assert given_back.status_code == 200
                    assert service.ping(token) == 401
