"""Attacks on the flow, each by its name (RFC 9700), and what comes of them."""

from typing import Any

import pytest
import sqlalchemy as sa
from httpx2 import Response

from quillpost.accounts.audit.service import list_audit_entries
from quillpost.accounts.oauth import tokens
from quillpost.app.container import Container
from quillpost.core.database.tables.accounts import memberships, oauth_clients, oauth_grants, people
from quillpost.core.database.tables.notifications import notices
from support import oauth_app
from support.factories import Account, Clock
from support.oauth_app import CHALLENGE, REDIRECT_URI, OAuthApp, basic_auth, connect_app, hidden_fields, parse_query
from support.pages import assert_hides, assert_shows
from support.rows import execute, run, scalars
from support.sign_in import make_user, sign_in_browser
from support.test_client import TestClient

pytestmark = pytest.mark.usefixtures("clean_database")


@pytest.fixture
def app_(container: Container, http: TestClient, owner: Account) -> OAuthApp:
    return connect_app(container, http, owner)


@pytest.fixture
def public(container: Container, http: TestClient, owner: Account) -> OAuthApp:
    """That can keep no secret."""
    return connect_app(container, http, owner, is_public=True)


@pytest.fixture
def other(container: Container, http: TestClient, stranger: Account, app_: OAuthApp) -> OAuthApp:
    """Another integrator's app, which the same person uses."""
    client, secret = oauth_app.register_client(
        container, stranger.id, name="Other", redirect_uris=("https://other.example/",)
    )
    return OAuthApp(http, client, secret, app_.browser)


INVALID_GRANT, INVALID_CLIENT = (400, "invalid_grant"), (401, "invalid_client")


def error_of(answer: Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]


def is_noted_once(container: Container, account_id: int, act: str) -> bool:
    """Whether the log has it, and the owner a letter."""
    acts = [entry.act for entry in run(container, list_audit_entries, account_id)]
    letters = scalars(container, sa.select(notices.c.subject))
    return (acts.count(act), letters.count("“Letterhead” was disconnected")) == (1, 1)


def is_refused(app: OAuthApp, link: str) -> Response:
    """The page, which leads nowhere; nor does the form."""
    page = app.browser.get(link, follow=False)
    for answer in (page, app.consent(link)):
        assert (answer.status_code, "location" in answer.headers) == (400, False), link
    return page


def test_wrong_or_missing_redirect_uri_and_open_redirect(app_: OAuthApp) -> None:
    for address in (
        None, "", "https://evil.example/", "https://app.example/back/", "https://app.example/back?x=1",
        "https://app.example/back#", "https://app.example/Back", "https://app.example:443/back",
        "https://app.example/back/../back", "https://app.example.evil.example/back",
        "https://app.example@evil.example/back", "https://app.example\\@evil.example/back", "http://app.example/back",
        "//app.example/back", "/settings", "javascript:alert(1)", "data:text/html,x",
    ):  # fmt: skip
        page = is_refused(app_, app_.link(redirect_uri=address))
        assert_shows(page, "redirect_uri")
        assert_hides(page, "evil.example")
    for first, second in ((REDIRECT_URI, "https://evil.example/"), ("https://evil.example/", REDIRECT_URI)):
        is_refused(app_, f"{app_.link(redirect_uri=first)}&redirect_uri={second}")


def test_an_unregistered_client_is_refused(app_: OAuthApp) -> None:
    for client_id in (None, "", "unknown", "1", "00000000-0000-0000-0000-000000000000", "a\0b"):
        is_refused(app_, app_.link(client_id=client_id))
        if client_id != "a\0b":
            assert error_of(app_.exchange(app_.code(), client_id=client_id)) == INVALID_CLIENT


def test_a_replayed_code_and_its_tokens_are_revoked(app_: OAuthApp, container: Container, owner: Account) -> None:
    code = app_.code()
    tokens = app_.exchange(code).json()
    tokens = app_.refresh(tokens["refresh_token"]).json()
    assert error_of(app_.exchange(code)) == INVALID_GRANT
    assert app_.ping(tokens["access_token"]).status_code == 401
    assert error_of(app_.refresh(tokens["refresh_token"])) == INVALID_GRANT
    assert error_of(app_.exchange(code)) == INVALID_GRANT
    assert is_noted_once(container, owner.id, "app.replayed")


def test_an_expired_code_and_one_that_another_client_shows(app_: OAuthApp, other: OAuthApp, clock: Clock) -> None:
    code = app_.code()
    clock.advance(seconds=60)
    assert error_of(app_.exchange(code)) == INVALID_GRANT
    code = app_.code()
    clock.advance(seconds=59)
    assert error_of(other.exchange(code)) == INVALID_GRANT
    assert error_of(other.exchange(code, redirect_uri=REDIRECT_URI)) == INVALID_GRANT
    tokens = app_.exchange(code).json()
    assert error_of(other.exchange(code, redirect_uri=REDIRECT_URI)) == INVALID_GRANT
    assert app_.ping(tokens["access_token"]).status_code == 200, "another's replay is not this client's"


VERIFIERS = {
    None: ("invalid_request", "The code_verifier is missing: the code was asked for with"),
    "": ("invalid_request", "The code_verifier is missing: the code was asked for with"),
    "short": ("invalid_request", "has 43 to 128 characters"), "v" * 42: ("invalid_request", "has 43 to 128 characters"),
    "v" * 42 + "é": ("invalid_request", "letters, digits and - . _ ~ alone"), "é" * 43: ("invalid_request", ""),
    "v" * 43 + " ": ("invalid_request", ""),
    "w" * 43: ("invalid_grant", "The code_verifier does not fit the code_challenge."), CHALLENGE: ("invalid_grant", ""),
    "v" * 44: ("invalid_grant", ""),
}  # fmt: skip


def test_a_wrong_or_missing_verifier_and_a_made_up_secret(public: OAuthApp) -> None:
    code = public.code()
    for verifier, (error, words) in VERIFIERS.items():
        refused = public.exchange(code, code_verifier=verifier)
        assert error_of(refused) == (400, error), verifier
        assert words in refused.json()["error_description"]
    assert error_of(public.exchange(code, client_secret="made up")) == INVALID_CLIENT
    assert public.exchange(code).status_code == 200


def test_a_downgrade_to_plain_pkce_or_to_none(app_: OAuthApp, container: Container, owner: Account) -> None:
    client, _ = oauth_app.register_client(container, owner.id, is_public=True)
    public = OAuthApp(app_.http, client, None, app_.browser)
    plain: list[dict[str, str | None]] = [{"code_challenge_method": name} for name in ("plain", None, "s256")]
    plain += [{"code_challenge": "v" * 43, "code_challenge_method": "plain"}]
    links = [app.link(**{"code_challenge": CHALLENGE, **changes}) for changes in plain for app in (app_, public)]
    for link in (*links, public.link(code_challenge=None, code_challenge_method=None)):
        for answer in (app_.browser.get(link, follow=False), app_.consent(link)):
            assert parse_query(answer)["error"] == "invalid_request"
    # A code that was injected from a request without PKCE into a session that has it.
    assert error_of(app_.exchange(app_.code(), code_verifier="v" * 43)) == (400, "invalid_request")


def test_a_stolen_refresh_token_that_is_used_twice(app_: OAuthApp, container: Container, owner: Account) -> None:
    stolen = app_.tokens()
    second = app_.refresh(stolen["refresh_token"]).json()
    third = app_.refresh(second["refresh_token"]).json()
    assert error_of(app_.refresh(stolen["refresh_token"])) == INVALID_GRANT
    for pair in (stolen, second, third):
        assert app_.ping(pair["access_token"]).status_code == 401
        assert error_of(app_.refresh(pair["refresh_token"])) == INVALID_GRANT
    assert is_noted_once(container, owner.id, "app.reused")


@pytest.mark.parametrize("kind", ["code", "refresh_token"])
def test_of_two_calls_at_once_the_later_is_a_replay(app_: OAuthApp, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both have found it unused."""
    secret, call = (app_.code(), app_.exchange) if kind == "code" else (app_.tokens()[kind], app_.refresh)
    exchange, is_first, faster = getattr(tokens, f"exchange_{kind}"), iter([True]), list[Response]()

    def exchange_late(*args: Any, **how: Any) -> Any:
        if next(is_first, False):
            faster.append(call(secret))
        return exchange(*args, **how)

    monkeypatch.setattr(tokens, f"exchange_{kind}", exchange_late)
    assert error_of(call(secret)) == INVALID_GRANT
    [answer] = faster
    assert answer.status_code == 200
    assert app_.ping(answer.json()["access_token"]).status_code == 401


def test_reuse_is_seen_even_after_the_token_ran_out(app_: OAuthApp, clock: Clock) -> None:
    first = app_.tokens()
    second = app_.refresh(first["refresh_token"]).json()
    clock.advance(days=300)
    third = app_.refresh(second["refresh_token"]).json()
    clock.advance(days=70)
    for pair in (first, third):
        assert error_of(app_.refresh(pair["refresh_token"])) == INVALID_GRANT


def test_a_refresh_token_of_another_client_leaves_its_family_alone(app_: OAuthApp, other: OAuthApp) -> None:
    first = app_.tokens()
    second = app_.refresh(first["refresh_token"]).json()
    for token in (first["refresh_token"], second["refresh_token"]):
        assert error_of(other.refresh(token)) == INVALID_GRANT
        assert error_of(other.revoke(token)) == INVALID_GRANT
    assert error_of(other.revoke(second["access_token"])) == INVALID_GRANT
    assert app_.ping(second["access_token"]).status_code == 200
    assert app_.refresh(second["refresh_token"]).status_code == 200


def test_a_mixed_up_client_secret(app_: OAuthApp, other: OAuthApp) -> None:
    assert app_.secret is not None
    assert other.secret is not None
    code, known = app_.code(), app_.client.client_id
    for secret in (other.secret, None, app_.secret[:-1]):
        assert error_of(app_.exchange(code, client_secret=secret)) == INVALID_CLIENT
    in_header: dict[str, Any] = {"client_secret": None, "client_id": None}
    for secret in (other.secret, ""):
        assert error_of(app_.exchange(code, headers=basic_auth(known, secret), **in_header)) == INVALID_CLIENT
    # Whose secret is good, but not for the client that the form names.
    mixed: dict[str, Any] = {"client_secret": None, "client_id": other.client.client_id}
    assert error_of(app_.exchange(code, headers=basic_auth(known, app_.secret), **mixed)) == INVALID_CLIENT
    assert error_of(app_.exchange(code, headers=basic_auth(known, app_.secret))) == (400, "invalid_request")
    assert app_.exchange(code).status_code == 200


def test_another_site_cannot_consent_for_whoever_is_signed_in(
    app_: OAuthApp, http: TestClient, container: Container, stranger: Account
) -> None:
    link = app_.link()
    make_user(container, stranger.id, "evil@example.com")
    evil = sign_in_browser(http)
    evil.sign_in("evil@example.com")
    elsewhere = {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}
    ways: list[dict[str, Any]] = [{"csrf": None}, {"csrf": "x" * 64}, {"csrf": evil.csrf()}, {"headers": elsewhere}]
    for how in ways:
        refused = app_.browser.post(link, follow=False, decision="allow", mode="test", **how)
        assert (refused.status_code, "location" in refused.headers) == (403, False)
    # Nor does the page that asks give leave, whatever its address says.
    app_.browser.get(f"{link}&decision=allow&mode=test", follow=False)
    assert granted(container) == []


def granted(container: Container) -> list[int]:
    """The accounts that apps act for."""
    return scalars(container, sa.select(oauth_grants.c.account_id))


def memberships_of(container: Container, email: str) -> dict[int, int]:
    """By account."""
    of = sa.select(memberships.c.account_id, memberships.c.id).join(people, people.c.id == memberships.c.person_id)
    return {row.account_id: row.id for row in execute(container, of.where(people.c.email == email))}


def test_consent_for_another_account_than_the_page_names(
    app_: OAuthApp, container: Container, owner: Account, stranger: Account
) -> None:
    """A page stands open, and its reader goes on to another of their accounts in another tab; or is removed."""
    make_user(container, stranger.id, "dana@example.com")
    places = memberships_of(container, "dana@example.com")
    for n, link in enumerate((app_.link(), app_.link(account=str(places[owner.id]))), start=1):
        app_.browser.post("/session/switch", membership=places[owner.id])
        shown = hidden_fields(app_.browser.get(link))
        app_.browser.post("/session/switch", membership=places[stranger.id])
        answer = app_.browser.post(link, follow=False, decision="allow", mode="test", **shown)
        app_.exchange(parse_query(answer)["code"])
        assert granted(container) == [owner.id] * n
    app_.browser.post("/session/switch", membership=places[owner.id])
    shown = hidden_fields(app_.browser.get(app_.link()))
    execute(container, sa.delete(oauth_grants))
    execute(container, sa.delete(memberships).where(memberships.c.id == places[owner.id]))
    refused = app_.browser.post(app_.link(), follow=False, decision="allow", mode="test", **shown)
    assert (refused.status_code, "location" in refused.headers) == (409, False)
    assert_shows(refused, "You have gone on to another account meanwhile")
    assert granted(container) == []


def test_consent_that_names_no_or_a_strangers_account(app_: OAuthApp, container: Container, stranger: Account) -> None:
    make_user(container, stranger.id, "sam@example.com")
    theirs = memberships_of(container, "sam@example.com")[stranger.id]
    for account in (None, "", "0", "x", str(theirs), f" {theirs}", "1 or 1=1"):
        refused = app_.consent(app_.link(account=str(theirs)), account=account)
        assert (refused.status_code, "location" in refused.headers) == (409, False), account
    assert granted(container) == []


def test_an_app_that_asks_for_more_while_its_page_is_read(app_: OAuthApp, container: Container) -> None:
    def may_ask_for(*scopes: str) -> None:
        execute(container, sa.update(oauth_clients).values(scopes=list(scopes)))

    may_ask_for("orders:read")
    shown = hidden_fields(app_.browser.get(app_.link()))
    assert shown["scopes"] == "orders:read"
    may_ask_for("orders:read", "send:write")
    assert app_.tokens(**shown)["scope"] == "orders:read"
    assert_shows(app_.consent(scopes=""), "What the app asks for has changed.", status=422)


def test_the_consent_page_is_shown_in_no_frame(app_: OAuthApp) -> None:
    for page in (app_.browser.get(app_.link()), app_.browser.get(app_.link(client_id="unknown"))):
        policy = page.headers["content-security-policy"]
        assert "frame-ancestors 'none'" in policy
        assert "default-src 'none'" in policy
        assert (page.headers["x-frame-options"], page.headers["cache-control"]) == ("DENY", "no-store")
    assert "form-action 'self' https://app.example;" in app_.browser.get(app_.link()).headers["content-security-policy"]
