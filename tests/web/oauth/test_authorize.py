"""The page on which a person lets an app act for their account, and where it leads."""

import re
from html import unescape

import pytest
import sqlalchemy as sa

from quillpost.accounts.tokens.rules import SCOPE_LABELS
from quillpost.app.container import Container
from quillpost.core.database.tables.base import accounts, tokens
from support.browser_sessions import PASSWORD, make_user, sign_in_browser
from support.factories import Account, make_account, make_sub_account
from support.oauth_app import (
    CHALLENGE,
    REDIRECT_URI,
    STATE,
    WITH_PKCE,
    OAuthApp,
    connect_app,
    parse_query,
    register_client,
)
from support.test_client import TestClient

pytestmark = pytest.mark.usefixtures("clean_database")


@pytest.fixture
def app_(container: Container, http: TestClient, owner: Account) -> OAuthApp:
    return connect_app(container, http, owner, website="https://letterhead.example")


def words_of(page: str) -> str:
    """The page as it is read."""
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", page)).split())


def test_the_page_names_the_app_its_scopes_and_where_it_leads(app_: OAuthApp) -> None:
    shown = app_.browser.get(app_.link(scope="orders:read lists:write"))
    words = words_of(shown.text)
    assert shown.status_code == 200
    assert "Let Letterhead act for Dana Whitfield?" in words
    assert "that Dana Whitfield has registered here. We have not verified" in words
    assert "https://letterhead.example" in words
    assert SCOPE_LABELS["orders:read"] in words
    assert SCOPE_LABELS["lists:write"] in words
    assert SCOPE_LABELS["send:write"] not in words
    assert "led back to app.example" in words
    assert "signed in as dana@example.com" in words


def test_without_scopes_everything_the_client_may_have_is_requested(
    container: Container, http: TestClient, owner: Account
) -> None:
    app = connect_app(container, http, owner, scopes=["send:write", "orders:read"])
    words = words_of(app.browser.get(app.link()).text)
    assert [scope for scope, sentence in SCOPE_LABELS.items() if sentence in words] == ["send:write", "orders:read"]


def test_allowed_it_leads_back_with_a_code_the_state_and_the_issuer(app_: OAuthApp, container: Container) -> None:
    answer = app_.consent()
    params = parse_query(answer)
    assert answer.headers["location"].startswith(f"{REDIRECT_URI}?")
    assert answer.headers["cache-control"] == "no-store"
    assert params["code"].startswith("qp_code_")
    assert (params["state"], params["iss"]) == (STATE, container.base_url)
    assert set(params) == {"code", "state", "iss"}


def test_without_a_state_none_comes_back(app_: OAuthApp) -> None:
    assert set(parse_query(app_.consent(app_.link(state=None)))) == {"code", "iss"}


def test_a_query_of_the_apps_own_address_is_kept(container: Container, http: TestClient, owner: Account) -> None:
    app = connect_app(container, http, owner, redirect_uris=(f"{REDIRECT_URI}?shop=7&empty=",))
    params = parse_query(app.consent())
    assert (params["shop"], params["empty"], params["state"]) == ("7", "", STATE)


def test_an_app_on_a_device_is_led_back_to_by_its_own_scheme(
    container: Container, http: TestClient, owner: Account
) -> None:
    app = connect_app(container, http, owner, is_public=True, redirect_uris=("com.example.letters:/back",))
    page = app.browser.get(app.link())
    assert "an app on your device (com.example.letters)" in words_of(page.text)
    assert "form-action 'self' com.example.letters:;" in page.headers["content-security-policy"]
    assert app.consent().headers["location"].startswith("com.example.letters:/back?code=qp_code_")


def test_denied_it_leads_back_with_access_denied(app_: OAuthApp, container: Container) -> None:
    params = parse_query(app_.consent(decision="deny", mode=None))
    assert (params["error"], params["state"], params["iss"]) == ("access_denied", STATE, container.base_url)
    assert "code" not in params


def test_whoever_is_not_signed_in_signs_in_and_comes_back(
    container: Container, http: TestClient, app_: OAuthApp
) -> None:
    browser = sign_in_browser(http)
    sent_away = browser.get(app_.link(), follow=False)
    assert sent_away.status_code == 303
    assert sent_away.headers["location"].startswith("/sign-in?next=")
    page = browser.get(sent_away.headers["location"])
    next_field = re.search(r'name="next" value="([^"]+)"', page.text)
    assert next_field is not None
    back = browser.post("/sign-in", email="dana@example.com", password=PASSWORD, next=unescape(next_field[1]))
    assert "Let Letterhead act for" in words_of(back.text)


def test_consent_is_required_each_time(app_: OAuthApp) -> None:
    app_.tokens()
    assert "Let Letterhead act for" in words_of(app_.browser.get(app_.link(), follow=False).text)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"response_type": None}, "invalid_request"),
        ({"response_type": "token"}, "unsupported_response_type"),
        ({"response_type": "code token"}, "unsupported_response_type"),
        ({"response_type": 'c"\u2603'}, "unsupported_response_type"),
        ({"scope": "everything"}, "invalid_scope"),
        ({"scope": "orders:read sudo"}, "invalid_scope"),
        ({"scope": "lists:read"}, "invalid_scope"),
        ({"code_challenge": "short", "code_challenge_method": "S256"}, "invalid_request"),
        ({"code_challenge": CHALLENGE + "x", "code_challenge_method": "S256"}, "invalid_request"),
        ({"code_challenge": CHALLENGE[:-1] + "~", "code_challenge_method": "S256"}, "invalid_request"),
        ({"code_challenge": CHALLENGE, "code_challenge_method": "S512"}, "invalid_request"),
        ({"code_challenge": None, "code_challenge_method": "S256"}, "invalid_request"),
    ],
)
def test_other_errors_go_back_to_the_app(
    container: Container, http: TestClient, owner: Account, changes: dict[str, str | None], error: str
) -> None:
    app = connect_app(container, http, owner, scopes=["send:write", "orders:read"])
    for answer in (app.browser.get(app.link(**changes), follow=False), app.consent(app.link(**changes))):
        params = parse_query(answer)
        assert answer.headers["location"].startswith(f"{REDIRECT_URI}?")
        assert (params["error"], params["state"], params["iss"]) == (error, STATE, container.base_url)
        assert params["error_description"].isascii()
        assert "code" not in params


def test_sub_accounts_with_one_title_show_their_numbers(container: Container, app_: OAuthApp, owner: Account) -> None:
    first, second = (make_sub_account(container, owner, "North Shop") for _ in range(2))
    page = app_.browser.get(app_.link()).text
    for number in (first, second):
        assert f'<option value="{number}">North Shop ({number}) alone</option>' in page


@pytest.mark.parametrize(
    ("scope", "words"),
    [
        ("orders:read lists:read", "The client is not registered for: lists:read. It may ask for: orders:read"),
        ("orders:delete", "A scope is unknown: orders:delete. Known scopes: send:read send:write"),
    ],
)
def test_the_wrong_scope_is_named(
    container: Container, http: TestClient, owner: Account, scope: str, words: str
) -> None:
    app = connect_app(container, http, owner, scopes=["orders:read"])
    params = parse_query(app.browser.get(app.link(scope=scope), follow=False))
    assert params["error_description"].startswith(words)


def test_a_program_gets_an_error_without_signing_in(app_: OAuthApp, http: TestClient) -> None:
    answer = http.get(app_.link(scope="everything"), follow_redirects=False)
    assert parse_query(answer)["error"] == "invalid_scope"


def test_a_signed_out_person_is_not_redirected_to_another_site(app_: OAuthApp, http: TestClient) -> None:
    answer = sign_in_browser(http).get(app_.link(scope="everything"), follow=False)
    assert (answer.status_code, "location" in answer.headers) == (400, False)
    assert "The app's request is wrong. A scope is unknown: everything. Known scopes:" in words_of(answer.text)
    back = re.search(r'<a class="button" href="([^"]+)" rel="noreferrer">Back to app.example</a>', answer.text)
    assert back is not None
    assert unescape(back[1]).startswith(f"{REDIRECT_URI}?error=invalid_scope&")


@pytest.mark.parametrize("name", ["state", "scope", "response_type", "code_challenge", "of_our_own"])
def test_a_parameter_that_is_there_twice_is_refused(app_: OAuthApp, name: str) -> None:
    twice = app_.link(**{name: "orders:read"}) + f"&{name}=b"
    params = parse_query(app_.browser.get(twice, follow=False))
    assert params["error"] == "invalid_request"
    assert ("state" in params) == (name != "state")


def test_an_owner_may_lend_one_sub_account(app_: OAuthApp, container: Container, owner: Account) -> None:
    branch = make_sub_account(container, owner, "North")
    assert "North alone" in words_of(app_.browser.get(app_.link()).text)
    token = app_.tokens(sub_account_id=str(branch))["access_token"]
    header = {"Authorization": f"Bearer {token}"}
    made = app_.http.post("/api/v2/mailing-lists", json={"description": "Theirs"}, headers=header)
    assert made.status_code == 201, made.text
    assert made.json()["sub_account_id"] == branch


def test_another_accounts_sub_account_is_no_choice(app_: OAuthApp, container: Container, stranger: Account) -> None:
    theirs = make_sub_account(container, stranger)
    refused = app_.consent(sub_account_id=str(theirs))
    assert refused.status_code == 422
    assert "Choose one that is on the list." in words_of(refused.text)


def test_a_page_that_was_not_filled_in_says_what_is_missing(app_: OAuthApp) -> None:
    refused = app_.consent(mode=None)
    assert refused.status_code == 422
    assert 'role="alert"' in refused.text
    assert "Choose whether it sends real mail." in words_of(refused.text)
    undecided = app_.consent(decision="perhaps")
    assert undecided.status_code == 422
    assert "Allow it, or do not." in words_of(undecided.text)


def test_an_account_in_test_mode_lends_testing_alone(app_: OAuthApp, container: Container, owner: Account) -> None:
    with container.db.system_transaction() as tx:
        tx.execute(sa.update(accounts).where(accounts.c.id == owner.id).values(test_mode=True))
    assert "This account is in testing mode" in words_of(app_.browser.get(app_.link()).text)
    assert app_.consent(mode="live").status_code == 422
    assert app_.tokens(mode="test")["access_token"].startswith("qp_test_")


def test_a_member_lends_no_more_than_they_may(
    container: Container, http: TestClient, owner: Account, app_: OAuthApp
) -> None:
    make_user(container, owner.id, "member@example.com", role="member")
    app_.browser = sign_in_browser(http)
    app_.browser.sign_in("member@example.com")
    words = words_of(app_.browser.get(app_.link()).text)
    assert words.index("what your role in this account does not allow") < words.index(SCOPE_LABELS["account:write"])
    granted = app_.tokens()
    assert "account:write" not in granted["scope"].split()
    assert "send:write" in granted["scope"].split()


def test_what_a_role_does_not_allow_at_all_is_denied(
    container: Container, http: TestClient, owner: Account, app_: OAuthApp
) -> None:
    make_user(container, owner.id, "member@example.com", role="member")
    app_.browser = sign_in_browser(http)
    app_.browser.sign_in("member@example.com")
    link = app_.link(scope="account:write")
    page = app_.browser.get(link)
    assert "nothing that your role in this account allows" in words_of(page.text)
    assert 'value="allow"' not in page.text
    assert parse_query(app_.consent(link))["error"] == "access_denied"


def test_a_member_of_one_sub_account_lends_that_alone(
    container: Container, http: TestClient, owner: Account, app_: OAuthApp
) -> None:
    north, south = make_sub_account(container, owner, "North"), make_sub_account(container, owner, "South")
    make_user(container, owner.id, "north@example.com", role="member", sub_account_id=north)
    app_.browser = sign_in_browser(http)
    app_.browser.sign_in("north@example.com")
    assert "acts for the sub account North alone" in words_of(app_.browser.get(app_.link()).text)
    app_.tokens(sub_account_id=str(south))
    with container.db.system_transaction() as tx:
        assert tx.scalar(sa.select(tokens.c.sub_account_id).where(tokens.c.grant_id.is_not(None))) == north


def test_somebody_in_several_accounts_chooses_one(
    container: Container, http: TestClient, stranger: Account, app_: OAuthApp
) -> None:
    with container.db.system_transaction() as tx:
        tx.execute(sa.update(accounts).where(accounts.c.id == stranger.id).values(name="Second Shop"))
    make_user(container, stranger.id, "dana@example.com", role="member")
    page = app_.browser.get(app_.link()).text
    other = re.search(r'<a href="([^"]+)">Second Shop</a>', page)
    assert other is not None
    link = unescape(other[1])
    assert "Let Letterhead act for Second Shop?" in words_of(app_.browser.get(link).text)
    token = app_.tokens(link)["access_token"]
    with container.db.system_transaction() as tx:
        whose = tx.scalar(sa.select(tokens.c.account_id).where(tokens.c.name == "Letterhead"))
    assert whose == stranger.id
    assert app_.ping(token).status_code == 200


def test_an_account_that_is_not_ones_own_cannot_be_chosen(
    container: Container, http: TestClient, stranger: Account, app_: OAuthApp
) -> None:
    make_user(container, stranger.id, "stranger@example.com")
    for membership in range(1, 5):
        page = app_.browser.get(app_.link(account=str(membership))).text
        assert "act for Dana Whitfield?" in words_of(page)
    app_.tokens(app_.link(account="2"))
    with container.db.system_transaction() as tx:
        whose = tx.scalar(sa.select(tokens.c.account_id).where(tokens.c.name == "Letterhead"))
    assert whose != stranger.id


def test_an_app_of_another_account_connects_to_mine(
    container: Container, http: TestClient, stranger: Account, app_: OAuthApp
) -> None:
    client, secret = register_client(container, stranger.id, name="Of a stranger")
    theirs = OAuthApp(http, client, secret, app_.browser)
    token = theirs.tokens()["access_token"]
    header = {"Authorization": f"Bearer {token}"}
    assert http.get("/api/v2/account", headers=header).status_code == 200
    with container.db.system_transaction() as tx:
        whose = tx.scalar(sa.select(tokens.c.account_id).where(tokens.c.name == "Of a stranger"))
    assert whose == app_.client.account_id


def test_an_app_has_no_operators_powers(container: Container, http: TestClient) -> None:
    office = make_account(container, http, "office@example.com")
    with container.db.system_transaction() as tx:
        tx.execute(sa.update(accounts).where(accounts.c.id == office.id).values(is_operator=True))
    app = connect_app(container, http, office)
    header = {"Authorization": f"Bearer {app.tokens()['access_token']}"}
    assert http.get("/api/v2/print/batches", headers=header).status_code == 403
    assert office.get("/print/batches").status_code == 200


def test_names_are_shown_and_never_obeyed(container: Container, http: TestClient, owner: Account) -> None:
    app = connect_app(container, http, owner, name="<script>alert(1)</script>", website="https://a.example/<b>\"'")
    page = app.browser.get(app.link()).text
    assert "<script>alert" not in page
    assert "/<b>" not in page


def test_a_request_that_is_too_long_to_come_back_to_is_refused(app_: OAuthApp) -> None:
    refused = app_.browser.get(app_.link(state="s" * 4_000))
    assert refused.status_code == 400
    assert "too long" in words_of(refused.text)


def test_only_get_and_post_are_taken(http: TestClient) -> None:
    refused = http.put("/oauth/authorize")
    assert (refused.status_code, refused.headers["allow"]) == (405, "GET, HEAD, POST, OPTIONS")


def test_pkce_is_taken_from_clients_with_a_secret_too(app_: OAuthApp) -> None:
    code = app_.code(app_.link(**WITH_PKCE))
    assert app_.exchange(code).json()["error"] == "invalid_request"
    assert app_.exchange(code, code_verifier="w" * 43).json()["error"] == "invalid_grant"
    assert app_.exchange(code, code_verifier="v" * 43).status_code == 200
