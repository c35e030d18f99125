"""Attacks on the flow, each by its name (RFC 9700), and what comes of them."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa
from httpx2 import Response

from quillpost.accounts.audit.service import list_audit_entries
from quillpost.app.container import Container
from quillpost.core.database.tables.accounts import memberships, oauth_clients, oauth_grants, people
from quillpost.core.database.tables.notifications import notices
from support.browser_sessions import make_user, sign_in_browser
from support.factories import Account, Clock, make_operator
from support.oauth_app import (
    CHALLENGE,
    REDIRECT_URI,
    OAuthApp,
    basic_auth,
    connect_app,
    hidden_fields,
    parse_query,
    register_client,
)
from support.test_client import TestClient

pytestmark = pytest.mark.usefixtures("clean_database")


def test_an_apps_token_is_refused_at_operator_calls(container: Container, http: TestClient) -> None:
    app = connect_app(container, http, make_operator(container, http))
    token = app.tokens()["access_token"]
    refused = http.get("/api/v2/print/held", headers={"Authorization": f"Bearer {token}"})
    assert refused.status_code == 403
    assert "A connected app never may do this, whoever connected it" in refused.json()["message"]


@pytest.fixture
def app_(container: Container, http: TestClient, owner: Account) -> OAuthApp:
    return connect_app(container, http, owner)


@pytest.fixture
def other(container: Container, http: TestClient, stranger: Account, app_: OAuthApp) -> OAuthApp:
    """Another integrator's app, which the same person uses."""
    client, secret = register_client(container, stranger.id, name="Other", redirect_uris=("https://other.example/",))
    return OAuthApp(http, client, secret, app_.browser)


def error_of(answer: Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]


def acts(container: Container, account_id: int) -> list[str]:
    with container.db.system_transaction() as tx:
        return [entry.act for entry in list_audit_entries(tx, account_id)]


def letters(container: Container) -> list[str]:
    with container.db.system_transaction() as tx:
        return list(tx.execute(sa.select(notices.c.subject).order_by(notices.c.id)).scalars())


@pytest.mark.parametrize(
    "address",
    [
        None,
        "",
        "https://evil.example/",
        "https://app.example/back/",
        "https://app.example/back?x=1",
        "https://app.example/back#",
        "https://app.example/Back",
        "https://app.example:443/back",
        "https://app.example/back/../back",
        "https://app.example.evil.example/back",
        "https://app.example@evil.example/back",
        "https://app.example\\@evil.example/back",
        "http://app.example/back",
        "//app.example/back",
        "/settings",
        "javascript:alert(1)",
        "data:text/html,x",
    ],
)
def test_wrong_or_missing_redirect_uri_and_open_redirect(app_: OAuthApp, address: str | None) -> None:
    link = app_.link(redirect_uri=address)
    for answer in (app_.browser.get(link, follow=False), app_.consent(link)):
        assert answer.status_code == 400
        assert "location" not in answer.headers
        assert "redirect_uri" in answer.text
        assert "evil.example" not in answer.text


def test_a_redirect_uri_that_is_there_twice(app_: OAuthApp) -> None:
    for first, second in ((REDIRECT_URI, "https://evil.example/"), ("https://evil.example/", REDIRECT_URI)):
        link = f"{app_.link(redirect_uri=first)}&redirect_uri={second}"
        answer = app_.browser.get(link, follow=False)
        assert (answer.status_code, "location" in answer.headers) == (400, False)


@pytest.mark.parametrize("client_id", [None, "", "unknown", "1", "00000000-0000-0000-0000-000000000000", "a\0b"])
def test_an_unregistered_client(app_: OAuthApp, client_id: str | None) -> None:
    for answer in (
        app_.browser.get(app_.link(client_id=client_id), follow=False),
        app_.consent(app_.link(client_id=client_id)),
    ):
        assert (answer.status_code, "location" in answer.headers) == (400, False)
    if client_id != "a\0b":
        assert error_of(app_.exchange(app_.code(), client_id=client_id)) == (401, "invalid_client")


def test_a_replayed_code_and_its_tokens_are_revoked(app_: OAuthApp, container: Container, owner: Account) -> None:
    code = app_.code()
    tokens = app_.exchange(code).json()
    tokens = app_.refresh(tokens["refresh_token"]).json()
    assert error_of(app_.exchange(code)) == (400, "invalid_grant")
    assert app_.ping(tokens["access_token"]).status_code == 401
    assert error_of(app_.refresh(tokens["refresh_token"])) == (400, "invalid_grant")
    assert error_of(app_.exchange(code)) == (400, "invalid_grant")
    assert acts(container, owner.id).count("app.replayed") == 1
    assert letters(container).count("“Letterhead” was disconnected") == 1


def test_an_expired_code(app_: OAuthApp, clock: Clock) -> None:
    code = app_.code()
    clock.advance(seconds=60)
    assert error_of(app_.exchange(code)) == (400, "invalid_grant")
    code = app_.code()
    clock.advance(seconds=59)
    assert app_.exchange(code).status_code == 200


def test_a_code_of_another_client_which_does_not_burn_it(app_: OAuthApp, other: OAuthApp) -> None:
    code = app_.code()
    assert error_of(other.exchange(code)) == (400, "invalid_grant")
    assert error_of(other.exchange(code, redirect_uri=REDIRECT_URI)) == (400, "invalid_grant")
    tokens = app_.exchange(code).json()
    assert error_of(other.exchange(code, redirect_uri=REDIRECT_URI)) == (400, "invalid_grant")
    assert app_.ping(tokens["access_token"]).status_code == 200, "another's replay is not this client's"


@pytest.mark.parametrize(
    "verifier", [None, "", "w" * 43, "short", CHALLENGE, "v" * 42, "v" * 44, "é" * 43, "v" * 43 + " "]
)
def test_a_wrong_or_missing_verifier(
    container: Container, http: TestClient, owner: Account, verifier: str | None
) -> None:
    app = connect_app(container, http, owner, is_public=True)
    code = app.code()
    status, error = error_of(app.exchange(code, code_verifier=verifier))
    assert status == 400
    assert error in ("invalid_grant", "invalid_request")
    assert app.exchange(code).status_code == 200


@pytest.mark.parametrize(
    "changes",
    [
        {"code_challenge_method": "plain"},
        {"code_challenge_method": None},
        {"code_challenge_method": "s256"},
        {"code_challenge": "v" * 43, "code_challenge_method": "plain"},
    ],
)
@pytest.mark.parametrize("is_public", [True, False])
def test_a_downgrade_to_plain_pkce(
    container: Container, http: TestClient, owner: Account, is_public: bool, changes: dict[str, str | None]
) -> None:
    app = connect_app(container, http, owner, is_public=is_public)
    link = app.link(**{"code_challenge": CHALLENGE, **changes})
    for answer in (app.browser.get(link, follow=False), app.consent(link)):
        assert parse_query(answer)["error"] == "invalid_request"


def test_a_public_client_without_pkce(container: Container, http: TestClient, owner: Account) -> None:
    app = connect_app(container, http, owner, is_public=True)
    bare = app.link(code_challenge=None, code_challenge_method=None)
    assert parse_query(app.browser.get(bare, follow=False))["error"] == "invalid_request"
    assert parse_query(app.consent(bare))["error"] == "invalid_request"


def test_a_verifier_where_no_challenge_was(app_: OAuthApp) -> None:
    """A code that was injected from a request without PKCE into a session that has it."""
    assert error_of(app_.exchange(app_.code(), code_verifier="v" * 43)) == (400, "invalid_request")


def test_a_stolen_refresh_token_that_is_used_twice(app_: OAuthApp, container: Container, owner: Account) -> None:
    stolen = app_.tokens()
    second = app_.refresh(stolen["refresh_token"]).json()
    third = app_.refresh(second["refresh_token"]).json()
    assert error_of(app_.refresh(stolen["refresh_token"])) == (400, "invalid_grant")
    for pair in (stolen, second, third):
        assert app_.ping(pair["access_token"]).status_code == 401
        assert error_of(app_.refresh(pair["refresh_token"])) == (400, "invalid_grant")
    assert acts(container, owner.id).count("app.reused") == 1
    assert letters(container).count("“Letterhead” was disconnected") == 1


def test_reuse_is_seen_even_after_the_token_ran_out(app_: OAuthApp, clock: Clock) -> None:
    first = app_.tokens()
    second = app_.refresh(first["refresh_token"]).json()
    clock.advance(days=300)
    third = app_.refresh(second["refresh_token"]).json()
    clock.advance(days=70)
    assert error_of(app_.refresh(first["refresh_token"])) == (400, "invalid_grant")
    assert error_of(app_.refresh(third["refresh_token"])) == (400, "invalid_grant")


def test_a_refresh_token_of_another_client_leaves_its_family_alone(app_: OAuthApp, other: OAuthApp) -> None:
    first = app_.tokens()
    second = app_.refresh(first["refresh_token"]).json()
    for token in (first["refresh_token"], second["refresh_token"]):
        assert error_of(other.refresh(token)) == (400, "invalid_grant")
        assert error_of(other.revoke(token)) == (400, "invalid_grant")
    assert error_of(other.revoke(second["access_token"])) == (400, "invalid_grant")
    assert app_.ping(second["access_token"]).status_code == 200
    assert app_.refresh(second["refresh_token"]).status_code == 200


def test_a_mixed_up_client_secret(app_: OAuthApp, other: OAuthApp) -> None:
    assert app_.secret is not None
    assert other.secret is not None
    code = app_.code()
    known, wrong = app_.client.client_id, (401, "invalid_client")
    assert error_of(app_.exchange(code, client_secret=other.secret)) == wrong
    assert error_of(app_.exchange(code, client_secret=None)) == wrong
    assert error_of(app_.exchange(code, client_secret=app_.secret[:-1])) == wrong
    in_header = {"client_secret": None, "client_id": None}
    assert error_of(app_.exchange(code, headers=basic_auth(known, other.secret), **in_header)) == wrong
    assert error_of(app_.exchange(code, headers=basic_auth(known, ""), **in_header)) == wrong
    # Whose secret is good, but not for the client that the form names.
    mixed = {"client_secret": None, "client_id": other.client.client_id}
    assert error_of(app_.exchange(code, headers=basic_auth(known, app_.secret), **mixed)) == wrong
    twice = app_.exchange(code, headers=basic_auth(known, app_.secret))
    assert error_of(twice) == (400, "invalid_request")
    assert app_.exchange(code).status_code == 200


def test_a_public_clients_made_up_secret(container: Container, http: TestClient, owner: Account) -> None:
    app = connect_app(container, http, owner, is_public=True)
    assert error_of(app.exchange(app.code(), client_secret="made up")) == (401, "invalid_client")


def test_csrf_on_consent(app_: OAuthApp, container: Container) -> None:
    link = app_.link()
    elsewhere = {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}
    for how in ({"csrf": None}, {"csrf": "x" * 64}, {"headers": elsewhere}):
        refused = app_.browser.post(link, follow=False, decision="allow", mode="test", **how)
        assert refused.status_code == 403
        assert "location" not in refused.headers
    # Nor does the page that asks give leave, whatever its address says.
    app_.browser.get(f"{link}&decision=allow&mode=test", follow=False)
    with container.db.system_transaction() as tx:
        assert tx.execute(sa.select(oauth_grants)).all() == []


def test_csrf_word_of_another_session(
    app_: OAuthApp, http: TestClient, container: Container, stranger: Account
) -> None:
    make_user(container, stranger.id, "evil@example.com")
    evil = sign_in_browser(http)
    evil.sign_in("evil@example.com")
    assert app_.consent(csrf=evil.csrf()).status_code == 403


def granted(container: Container) -> list[int]:
    """The accounts that apps act for."""
    with container.db.system_transaction() as tx:
        return list(tx.execute(sa.select(oauth_grants.c.account_id)).scalars())


def memberships_of(container: Container, email: str) -> dict[int, int]:
    """By account."""
    of = sa.select(memberships.c.account_id, memberships.c.id).join(people, people.c.id == memberships.c.person_id)
    with container.db.system_transaction() as tx:
        return {row.account_id: row.id for row in tx.execute(of.where(people.c.email == email))}


@pytest.mark.parametrize("is_chosen", [False, True])
def test_consent_for_another_account_than_the_page_names(
    app_: OAuthApp, container: Container, owner: Account, stranger: Account, is_chosen: bool
) -> None:
    """A page stands open, and its reader goes on to another of their accounts in another tab."""
    make_user(container, stranger.id, "dana@example.com")
    places = memberships_of(container, "dana@example.com")
    link = app_.link(account=str(places[owner.id])) if is_chosen else app_.link()
    shown = hidden_fields(app_.browser.get(link))
    app_.browser.post("/session/switch", membership=places[stranger.id])
    answer = app_.browser.post(link, follow=False, decision="allow", mode="test", **shown)
    app_.exchange(parse_query(answer)["code"])
    assert granted(container) == [owner.id]


def test_consent_for_an_account_that_one_was_removed_from(
    app_: OAuthApp, container: Container, owner: Account, stranger: Account
) -> None:
    make_user(container, stranger.id, "dana@example.com")
    shown = hidden_fields(app_.browser.get(app_.link()))
    with container.db.system_transaction() as tx:
        tx.execute(sa.delete(memberships).where(memberships.c.account_id == owner.id))
    refused = app_.browser.post(app_.link(), follow=False, decision="allow", mode="test", **shown)
    assert (refused.status_code, "location" in refused.headers) == (409, False)
    assert "You have gone on to another account meanwhile" in refused.text
    assert granted(container) == []


def test_consent_that_names_no_account_or_another_person_s(
    app_: OAuthApp, container: Container, stranger: Account
) -> None:
    make_user(container, stranger.id, "sam@example.com")
    theirs = memberships_of(container, "sam@example.com")[stranger.id]
    for account in (None, "", "0", "x", str(theirs), f" {theirs}", "1 or 1=1"):
        refused = app_.consent(app_.link(account=str(theirs)), account=account)
        assert (refused.status_code, "location" in refused.headers) == (409, False), account
    assert granted(container) == []


def test_an_app_that_asks_for_more_while_its_page_is_read(
    container: Container, http: TestClient, owner: Account
) -> None:
    app = connect_app(container, http, owner, scopes=["orders:read"])
    shown = hidden_fields(app.browser.get(app.link()))
    assert shown["scopes"] == "orders:read"
    with container.db.system_transaction() as tx:
        tx.execute(sa.update(oauth_clients).values(scopes=["orders:read", "send:write"]))
    assert app.tokens(**shown)["scope"] == "orders:read"
    refused = app.consent(scopes="")
    assert refused.status_code == 422
    assert "What the app asks for has changed." in refused.text


def test_clickjacking(app_: OAuthApp) -> None:
    for page in (app_.browser.get(app_.link()), app_.browser.get(app_.link(client_id="unknown"))):
        policy = page.headers["content-security-policy"]
        assert "frame-ancestors 'none'" in policy
        assert "default-src 'none'" in policy
        assert page.headers["x-frame-options"] == "DENY"
        assert page.headers["cache-control"] == "no-store"
    assert "form-action 'self' https://app.example;" in app_.browser.get(app_.link()).headers["content-security-policy"]


def test_a_removed_person_takes_their_apps_along(app_: OAuthApp, container: Container, owner: Account) -> None:
    tokens = app_.tokens()
    waiting = app_.code()
    with container.db.system_transaction() as tx:
        tx.execute(sa.text("delete from memberships where account_id = :it"), {"it": owner.id})
    assert error_of(app_.refresh(tokens["refresh_token"])) == (400, "invalid_grant")
    assert error_of(app_.exchange(waiting)) == (400, "invalid_grant")


def test_two_exchanges_of_one_code_at_once_leave_no_pair(app_: OAuthApp, container: Container) -> None:
    code = app_.code()
    with ThreadPoolExecutor(2) as both:
        answers = list(both.map(lambda _: app_.exchange(code), range(2)))
    good = [answer.json() for answer in answers if answer.status_code == 200]
    assert len(good) <= 1
    for pair in good:
        assert app_.ping(pair["access_token"]).status_code == 401
        assert error_of(app_.refresh(pair["refresh_token"])) == (400, "invalid_grant")
    with container.db.system_transaction() as tx:
        assert tx.scalar(sa.select(oauth_grants.c.ended_by)) == "replay"


def test_two_refreshes_at_once_leave_no_pair(app_: OAuthApp, container: Container) -> None:
    tokens = app_.tokens()
    with ThreadPoolExecutor(2) as both:
        answers = list(both.map(lambda _: app_.refresh(tokens["refresh_token"]), range(2)))
    good = [answer.json() for answer in answers if answer.status_code == 200]
    assert len(good) <= 1
    for pair in (tokens, *good):
        assert app_.ping(pair["access_token"]).status_code == 401
    with container.db.system_transaction() as tx:
        assert tx.scalar(sa.select(oauth_grants.c.ended_by)) == "reuse"
