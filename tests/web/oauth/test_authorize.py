"""The page on which a person lets an app act for their account, and where it leads; and the whole flow as programs of
others drive it, on a real server."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from html import unescape
from typing import Any, cast
from urllib.parse import urlsplit

import httpx2
import pytest
import requests
import sqlalchemy as sa
from authlib.integrations.requests_client import OAuth2Session as AuthlibSession
from requests.auth import HTTPBasicAuth
from requests_oauthlib import OAuth2Session

from quillpost.accounts.tokens.rules import SCOPE_LABELS
from quillpost.app.container import Container
from quillpost.core.database.tables.accounts import oauth_clients
from quillpost.core.database.tables.base import accounts, tokens
from quillpost.web.application import create_app
from support import oauth_app
from support.factories import Account, make_operator, make_sub_account
from support.oauth_app import CHALLENGE, REDIRECT_URI, STATE, OAuthApp, connect_app, parse_query, register_client
from support.pages import assert_hides, assert_shows, page_text
from support.raw_http import real_server
from support.rows import execute
from support.sign_in import PASSWORD, Browser, make_user, sign_in_browser
from support.test_client import TestClient

pytestmark = pytest.mark.usefixtures("clean_database")


@pytest.fixture
def app_(container: Container, http: TestClient, owner: Account) -> OAuthApp:
    return connect_app(container, http, owner, website="https://letterhead.example")


def read(app: OAuthApp, link: str | None = None) -> str:
    """What the page says."""
    return page_text(app.browser.get(link or app.link()))


def allow_scopes(container: Container, *scopes: str) -> None:
    """That clients may ask for."""
    execute(container, sa.update(oauth_clients).values(scopes=list(scopes)))


def newest_token(container: Container) -> sa.Row[Any]:
    """Of an app."""
    query = sa.select(tokens).where(tokens.c.grant_id.is_not(None)).order_by(tokens.c.id.desc()).limit(1)
    with container.db.system_transaction() as tx:
        return tx.execute(query).one()


def read_as(app: OAuthApp, email: str) -> None:
    """Somebody else is at the app's browser."""
    app.browser = sign_in_browser(app.http)
    app.browser.sign_in(email)


def test_the_page_names_the_app_its_scopes_and_where_it_leads(app_: OAuthApp, container: Container) -> None:
    shown = app_.browser.get(app_.link(scope="orders:read lists:write"))
    assert shown.status_code == 200
    words = page_text(shown)
    for part in (
        "Let Letterhead act for Dana Whitfield?", "that Dana Whitfield has registered here. We have not verified",
        "https://letterhead.example", SCOPE_LABELS["orders:read"], SCOPE_LABELS["lists:write"],
        "led back to app.example", "signed in as dana@example.com",
    ):  # fmt: skip
        assert part in words
    assert SCOPE_LABELS["send:write"] not in words
    # Without scopes everything the client may have is requested, and leave is asked for each time.
    allow_scopes(container, "send:write", "orders:read")
    for _ in range(2):
        words = read(app_)
        assert [scope for scope, words_ in SCOPE_LABELS.items() if words_ in words] == ["send:write", "orders:read"]
        app_.tokens()


def test_it_leads_back_with_a_code_or_with_a_refusal(app_: OAuthApp, container: Container, owner: Account) -> None:
    answer = app_.consent()
    params = parse_query(answer)
    assert answer.headers["location"].startswith(f"{REDIRECT_URI}?")
    assert answer.headers["cache-control"] == "no-store"
    assert params["code"].startswith("qp_code_")
    assert params == {"code": params["code"], "state": STATE, "iss": container.base_url}
    assert set(parse_query(app_.consent(app_.link(state=None)))) == {"code", "iss"}
    denied = parse_query(app_.consent(decision="deny", mode=None))
    assert denied.items() >= {"error": "access_denied", "state": STATE, "iss": container.base_url}.items()
    assert "code" not in denied
    # A query of the app's own address is kept.
    client, secret = register_client(container, owner.id, redirect_uris=(f"{REDIRECT_URI}?shop=7&empty=",))
    params = parse_query(OAuthApp(app_.http, client, secret, app_.browser).consent())
    assert (params["shop"], params["empty"], params["state"]) == ("7", "", STATE)
    # An app on a device is led back to by its own scheme.
    client, secret = register_client(container, owner.id, is_public=True, redirect_uris=("com.example.letters:/back",))
    device = OAuthApp(app_.http, client, secret, app_.browser)
    page = device.browser.get(device.link())
    assert "an app on your device (com.example.letters)" in page_text(page)
    assert "form-action 'self' com.example.letters:;" in page.headers["content-security-policy"]
    assert device.consent().headers["location"].startswith("com.example.letters:/back?code=qp_code_")


def test_whoever_is_not_signed_in_signs_in_and_comes_back(http: TestClient, app_: OAuthApp) -> None:
    browser = sign_in_browser(http)
    sent_away = browser.get(app_.link(), follow=False)
    assert sent_away.status_code == 303
    assert sent_away.headers["location"].startswith("/sign-in?next=")
    next_field = re.search(r'name="next" value="([^"]+)"', browser.get(sent_away.headers["location"]).text)
    assert next_field is not None
    back = browser.post("/sign-in", email="dana@example.com", password=PASSWORD, next=unescape(next_field[1]))
    assert "Let Letterhead act for" in page_text(back)


WRONG: list[tuple[dict[str, str | None], str, str]] = [
    ({"response_type": None}, "invalid_request", ""),
    ({"response_type": "token"}, "unsupported_response_type", ""),
    ({"response_type": "code token"}, "unsupported_response_type", ""),
    ({"response_type": 'c"\u2603'}, "unsupported_response_type", ""),
    ({"scope": "everything"}, "invalid_scope", "A scope is unknown: everything. Known scopes: send:read send:write"),
    ({"scope": "orders:read sudo"}, "invalid_scope", ""),
    ({"scope": "orders:read lists:read"}, "invalid_scope",
     "The client is not registered for: lists:read. It may ask for: send:write orders:read"),
    ({"code_challenge": "short", "code_challenge_method": "S256"}, "invalid_request", ""),
    ({"code_challenge": CHALLENGE + "x", "code_challenge_method": "S256"}, "invalid_request", ""),
    ({"code_challenge": CHALLENGE[:-1] + "~", "code_challenge_method": "S256"}, "invalid_request", ""),
    ({"code_challenge": CHALLENGE, "code_challenge_method": "S512"}, "invalid_request", ""),
    ({"code_challenge": None, "code_challenge_method": "S256"}, "invalid_request", ""),
]  # fmt: skip


def test_other_errors_go_back_to_the_app(app_: OAuthApp, container: Container, subtests: pytest.Subtests) -> None:
    allow_scopes(container, "send:write", "orders:read")
    for changes, error, words in WRONG:
        link = app_.link(**changes)
        for answer in (app_.browser.get(link, follow=False), app_.consent(link)):
            with subtests.test(str(changes)):
                params = parse_query(answer)
                assert answer.headers["location"].startswith(f"{REDIRECT_URI}?")
                assert (params["error"], params["state"], params["iss"]) == (error, STATE, container.base_url)
                assert params["error_description"].startswith(words)
                assert params["error_description"].isascii()
                assert "code" not in params
    for name in ("state", "scope", "response_type", "code_challenge", "of_our_own"):  # that are there twice
        twice = app_.link(**{name: "orders:read"}) + f"&{name}=b"
        params = parse_query(app_.browser.get(twice, follow=False))
        assert (params["error"], "state" in params) == ("invalid_request", name != "state")


def test_a_program_gets_an_error_and_a_person_no_redirect_to_another_site(app_: OAuthApp, http: TestClient) -> None:
    link = app_.link(scope="everything")
    assert parse_query(http.get(link, follow_redirects=False))["error"] == "invalid_scope"
    answer = sign_in_browser(http).get(link, follow=False)
    assert (answer.status_code, "location" in answer.headers) == (400, False)
    assert "The app's request is wrong. A scope is unknown: everything. Known scopes:" in page_text(answer)
    back = re.search(r'<a class="button" href="([^"]+)" rel="noreferrer">Back to app.example</a>', answer.text)
    assert back is not None
    assert unescape(back[1]).startswith(f"{REDIRECT_URI}?error=invalid_scope&")
    refused = app_.browser.get(app_.link(state="s" * 4_000))  # too long to come back to
    assert (refused.status_code, "too long" in page_text(refused)) == (400, True)
    refused = http.put("/oauth/authorize")
    assert (refused.status_code, refused.headers["allow"]) == (405, "GET, HEAD, POST, OPTIONS")


def test_an_owner_lends_a_sub_account_and_in_test_mode_testing_alone(
    app_: OAuthApp, container: Container, owner: Account, stranger: Account
) -> None:
    branch = make_sub_account(container, owner, "North")
    assert "North alone" in read(app_)
    header = {"Authorization": f"Bearer {app_.tokens(sub_account_id=str(branch))['access_token']}"}
    made = app_.http.post("/api/v2/mailing-lists", json={"description": "Theirs"}, headers=header)
    assert (made.status_code, made.json()["sub_account_id"]) == (201, branch)
    # Those with one title show their numbers.
    numbers = [make_sub_account(container, owner, "North Shop") for _ in range(2)]
    page = app_.browser.get(app_.link())
    assert_shows(page, *(f'<option value="{number}">North Shop ({number}) alone</option>' for number in numbers))
    for wrong, words in (
        ({"sub_account_id": str(make_sub_account(container, stranger))}, "Choose one that is on the list."),
        ({"mode": None}, "Choose whether it sends real mail."),
        ({"decision": "perhaps"}, "Allow it, or do not."),
    ):
        refused = app_.consent(**wrong)
        assert (refused.status_code, words in page_text(refused)) == (422, True), wrong
        assert_shows(refused, 'role="alert"')
    execute(container, sa.update(accounts).where(accounts.c.id == owner.id).values(test_mode=True))
    assert "This account is in testing mode" in read(app_)
    assert app_.consent(mode="live").status_code == 422
    assert app_.tokens(mode="test")["access_token"].startswith("qp_test_")


def test_a_member_lends_no_more_than_they_may(container: Container, owner: Account, app_: OAuthApp) -> None:
    make_user(container, owner.id, "member@example.com", role="member")
    read_as(app_, "member@example.com")
    words = read(app_)
    assert words.index("what your role in this account does not allow") < words.index(SCOPE_LABELS["account:write"])
    granted = app_.tokens()["scope"].split()
    assert ("account:write" in granted, "send:write" in granted) == (False, True)
    link = app_.link(scope="account:write")
    page = app_.browser.get(link)
    assert "nothing that your role in this account allows" in page_text(page)
    assert_hides(page, 'value="allow"')
    assert parse_query(app_.consent(link))["error"] == "access_denied"
    # One of a sub account lends that alone.
    north, south = make_sub_account(container, owner, "North"), make_sub_account(container, owner, "South")
    make_user(container, owner.id, "north@example.com", role="member", sub_account_id=north)
    read_as(app_, "north@example.com")
    assert "acts for the sub account North alone" in read(app_)
    app_.tokens(sub_account_id=str(south))
    assert newest_token(container).sub_account_id == north


def test_people_in_several_accounts_choose_their_own(container: Container, stranger: Account, app_: OAuthApp) -> None:
    make_user(container, stranger.id, "stranger@example.com")
    for membership in range(1, 5):
        assert "act for Dana Whitfield?" in read(app_, app_.link(account=str(membership)))
    app_.tokens(app_.link(account="2"))
    assert newest_token(container).account_id == app_.client.account_id
    execute(container, sa.update(accounts).where(accounts.c.id == stranger.id).values(name="Second Shop"))
    make_user(container, stranger.id, "dana@example.com", role="member")
    other = re.search(r'<a href="([^"]+)">Second Shop</a>', app_.browser.get(app_.link()).text)
    assert other is not None
    link = unescape(other[1])
    assert "Let Letterhead act for Second Shop?" in read(app_, link)
    token = app_.tokens(link)["access_token"]
    assert newest_token(container).account_id == stranger.id
    assert app_.ping(token).status_code == 200


def test_an_app_of_another_account_connects_to_mine(container: Container, stranger: Account, app_: OAuthApp) -> None:
    client, secret = register_client(container, stranger.id, name="Of a stranger")
    theirs = OAuthApp(app_.http, client, secret, app_.browser)
    header = {"Authorization": f"Bearer {theirs.tokens()['access_token']}"}
    assert app_.http.get("/api/v2/account", headers=header).status_code == 200
    assert newest_token(container).account_id == app_.client.account_id


def test_an_app_has_no_operators_powers(container: Container, http: TestClient) -> None:
    office = make_operator(container, http)
    header = {"Authorization": f"Bearer {connect_app(container, http, office).tokens()['access_token']}"}
    for path in ("/print/batches", "/print/held"):
        refused = http.get(f"/api/v2{path}", headers=header)
        assert refused.status_code == 403
        assert "A connected app never may do this, whoever connected it" in refused.json()["message"]
        assert office.get(path).status_code == 200


def test_names_are_shown_and_never_obeyed(container: Container, http: TestClient, owner: Account) -> None:
    app = connect_app(container, http, owner, name="<script>alert(1)</script>", website="https://a.example/<b>\"'")
    assert_hides(app.browser.get(app.link()), "<script>alert", "/<b>")


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
        answer = self.browser.post(path, follow=False, decision="allow", mode="test", **oauth_app.hidden_fields(page))
        place: str = answer.headers["location"]
        assert place.startswith(f"{REDIRECT_URI}?")
        return place

    def ping(self, token: str) -> int:
        header = {"Authorization": f"Bearer {token}"}
        return requests.get(f"{self.home}/api/v2/ping", headers=header, timeout=20).status_code


@pytest.fixture
def service(container: Container, owner: Account, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    make_user(container, owner.id, "dana@example.com")
    for name in WITHOUT_TLS:
        monkeypatch.setenv(name, "1")
    with real_server(create_app(container)) as port, httpx2.Client(base_url=f"http://127.0.0.1:{port}") as client:
        browser = Browser(cast(TestClient, client))
        browser.sign_in("dana@example.com")
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
