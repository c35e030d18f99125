"""Where an app exchanges a code, or a refresh token, for tokens, and gives them back."""

import pytest
from httpx2 import Response

from quillpost.app.container import Container
from quillpost.core.tokens import is_of_kind
from support.factories import Account, Build, Clock
from support.oauth_app import OAuthApp, basic_auth, connect_app
from support.test_client import TestClient

THIRTY_DAYS = 2_592_000


@pytest.fixture
def app_(container: Container, http: TestClient, owner: Account) -> OAuthApp:
    return connect_app(container, http, owner)


def test_a_code_becomes_tokens_that_call_the_api(app_: OAuthApp) -> None:
    answer = app_.exchange(app_.code())
    tokens = answer.json()
    assert answer.status_code == 200, tokens
    assert set(tokens) == {"token_type", "expires_in", "access_token", "refresh_token"}
    assert (tokens["token_type"], tokens["expires_in"]) == ("Bearer", THIRTY_DAYS)
    assert is_of_kind(tokens["access_token"], "test")
    assert is_of_kind(tokens["refresh_token"], "refresh")
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["pragma"] == "no-cache"
    assert app_.ping(tokens["access_token"]).json() == {"message": "pong", "test_mode": True}


def test_a_live_leave_gives_a_live_token(app_: OAuthApp) -> None:
    token = app_.tokens(mode="live")["access_token"]
    assert is_of_kind(token, "live")
    assert app_.ping(token).json()["test_mode"] is False


def test_http_basic_is_as_good_as_the_form(app_: OAuthApp) -> None:
    assert app_.secret is not None
    header = basic_auth(app_.client.client_id, app_.secret)
    nothing_in_the_form = {"client_id": None, "client_secret": None}
    answer = app_.exchange(app_.code(), headers=header, **nothing_in_the_form)
    assert answer.status_code == 200, answer.text
    again = app_.refresh(answer.json()["refresh_token"], headers=header, client_secret=None)
    assert again.status_code == 200, again.text


def test_a_public_client_is_known_by_its_id_and_its_verifier(
    container: Container, http: TestClient, owner: Account
) -> None:
    app = connect_app(container, http, owner, is_public=True)
    tokens = app.tokens()
    assert app.ping(tokens["access_token"]).status_code == 200
    assert app.refresh(tokens["refresh_token"]).status_code == 200
    # As libraries send it that know no clients without a secret.
    by_basic = app.exchange(app.code(), headers=basic_auth(app.client.client_id, ""), client_id=None)
    assert by_basic.status_code == 200, by_basic.text


def test_a_refresh_gives_the_next_pair_and_the_earlier_token_ends_soon(app_: OAuthApp, clock: Clock) -> None:
    first = app_.tokens()
    answer = app_.refresh(first["refresh_token"])
    second = answer.json()
    assert answer.status_code == 200, second
    assert set(second) == {"token_type", "expires_in", "access_token", "refresh_token"}
    assert second["refresh_token"] != first["refresh_token"]
    clock.advance(minutes=9)
    assert app_.ping(first["access_token"]).status_code == 200
    clock.advance(minutes=2)
    assert app_.ping(first["access_token"]).status_code == 401
    assert app_.ping(second["access_token"]).status_code == 200


def test_an_access_token_lasts_thirty_days_and_a_refresh_token_a_year(app_: OAuthApp, clock: Clock) -> None:
    tokens = app_.tokens()
    clock.advance(days=29, hours=23)
    assert app_.ping(tokens["access_token"]).status_code == 200
    clock.advance(hours=2)
    assert app_.ping(tokens["access_token"]).status_code == 401
    clock.advance(days=334)
    tokens = app_.refresh(tokens["refresh_token"]).json()
    assert "access_token" in tokens
    clock.advance(days=366)
    refused = app_.refresh(tokens["refresh_token"])
    assert (refused.status_code, refused.json()["error"]) == (400, "invalid_grant")


def test_scope_is_returned_only_when_it_differs_from_the_request(app_: OAuthApp) -> None:
    link = app_.link(scope="orders:read lists:read")
    tokens = app_.tokens(link)
    assert "scope" not in tokens
    fewer = app_.refresh(tokens["refresh_token"], scope="lists:read").json()
    assert "scope" not in fewer
    header = {"Authorization": f"Bearer {fewer['access_token']}"}
    assert app_.http.get("/api/v2/orders", headers=header).status_code == 403
    assert app_.http.get("/api/v2/mailing-lists", headers=header).status_code == 200
    # Narrowed once, the leave itself is as wide as before.
    whole = app_.refresh(fewer["refresh_token"]).json()
    header = {"Authorization": f"Bearer {whole['access_token']}"}
    assert app_.http.get("/api/v2/orders", headers=header).status_code == 200


@pytest.mark.parametrize("scope", ["templates:read", "lists:read send:write", "everything"])
def test_a_refresh_cannot_widen_the_scope(app_: OAuthApp, scope: str) -> None:
    tokens = app_.tokens(app_.link(scope="orders:read lists:read"))
    refused = app_.refresh(tokens["refresh_token"], scope=scope)
    assert (refused.status_code, refused.json()["error"]) == (400, "invalid_scope")
    wrong = scope.removeprefix("lists:read ")
    assert refused.json()["error_description"] == (
        f"This was not allowed: {wrong}. A refresh may ask for: orders:read lists:read"
    )
    assert app_.refresh(tokens["refresh_token"]).status_code == 200


def test_a_refresh_without_its_token_is_refused(app_: OAuthApp) -> None:
    refused = app_.call(grant_type="refresh_token")
    assert (refused.status_code, refused.json()["error"]) == (400, "invalid_request")
    assert refused.json()["error_description"].startswith("The refresh_token is missing: send the one")


@pytest.mark.parametrize(
    ("verifier", "error", "words"),
    [
        (None, "invalid_request", "The code_verifier is missing: the code was asked for with"),
        ("v" * 42, "invalid_request", "has 43 to 128 characters"),
        ("v" * 42 + "\u00e9", "invalid_request", "letters, digits and - . _ ~ alone"),
        ("w" * 43, "invalid_grant", "The code_verifier does not fit the code_challenge."),
    ],
)
def test_the_error_for_a_wrong_verifier_says_what_to_do(
    container: Container, http: TestClient, owner: Account, verifier: str | None, error: str, words: str
) -> None:
    app = connect_app(container, http, owner, is_public=True)
    code = app.code()
    refused = app.exchange(code, code_verifier=verifier)
    assert (refused.status_code, refused.json()["error"]) == (400, error)
    assert words in refused.json()["error_description"]
    assert app.exchange(code).status_code == 200


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"grant_type": None}, "invalid_request", "grant_type is missing"),
        ({"grant_type": ""}, "invalid_request", "grant_type is missing"),
        ({"grant_type": "password"}, "unsupported_grant_type", "must be authorization_code or"),
        ({"grant_type": 'client_"credentials\u2603'}, "unsupported_grant_type", "must be"),
        ({"code": None}, "invalid_request", "The code is missing: send the one"),
        ({"code": "nonsense"}, "invalid_grant", "The code is unknown"),
        ({"redirect_uri": None}, "invalid_request", "The redirect_uri is missing: send the one"),
        ({"redirect_uri": "https://app.example/back/"}, "invalid_grant", "redirect_uri is not the one"),
        ({"code_verifier": "v" * 43}, "invalid_request", "asked for without a code_challenge"),
    ],
)
def test_missing_or_wrong_fields_get_rfc_6749_errors(
    app_: OAuthApp, changes: dict[str, str | None], error: str, words: str
) -> None:
    fields = {"grant_type": "authorization_code", "code": app_.code(), "redirect_uri": "https://app.example/back"}
    refused = app_.call(**fields | changes)
    payload = refused.json()
    assert (refused.status_code, payload["error"]) == (400, error)
    assert set(payload) == {"error", "error_description"}
    assert words in payload["error_description"]
    assert all(" " <= letter <= "~" and letter not in '"\\' for letter in payload["error_description"])
    assert refused.headers["cache-control"] == "no-store"
    assert app_.call(**fields).status_code == 200, "what was refused has used nothing up"


def test_a_field_that_is_there_twice_is_refused(app_: OAuthApp) -> None:
    body = f"grant_type=authorization_code&code=a&code=b&client_id={app_.client.client_id}"
    refused = _post(app_, body)
    assert (refused.status_code, refused.json()["error"]) == (400, "invalid_request")
    assert "more than once" in refused.json()["error_description"]


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ('{"grant_type": "refresh_token"}', "application/json"),
        ("grant_type=refresh_token", "text/plain"),
        ("grant_type=%FF", "application/x-www-form-urlencoded"),
        ("client_id=a%00b&grant_type=refresh_token", "application/x-www-form-urlencoded"),
        ("&".join(f"f{n}=1" for n in range(60)), "application/x-www-form-urlencoded"),
    ],
)
def test_a_body_that_is_no_plain_form_is_an_invalid_request(app_: OAuthApp, body: str, kind: str) -> None:
    refused = _post(app_, body, kind)
    assert (refused.status_code, refused.json()["error"]) == (400, "invalid_request")


def test_nothing_is_taken_from_the_address(app_: OAuthApp) -> None:
    tokens = app_.tokens()
    refused = app_.http.post(
        f"/oauth/token?refresh_token={tokens['refresh_token']}", data={"grant_type": "refresh_token"}
    )
    assert (refused.status_code, refused.json()["error"]) == (400, "invalid_request")


def test_an_endless_form_is_cut_off(app_: OAuthApp) -> None:
    assert _post(app_, "code=" + "x" * 60_000).status_code == 413


@pytest.mark.parametrize("path", ["/oauth/token", "/oauth/revoke"])
def test_only_posts_are_taken(http: TestClient, path: str) -> None:
    refused = http.get(path)
    assert (refused.status_code, refused.headers["allow"]) == (405, "POST, OPTIONS")


@pytest.mark.parametrize(
    "header",
    [
        {"Authorization": "Bearer qp_live_x"},
        {"Authorization": "Basic"},
        {"Authorization": "Basic %%%"},
        {"Authorization": "Basic bm9jb2xvbg=="},
        {"Authorization": "Basic /w=="},
        {"Authorization": "Basic OnNlY3JldA=="},
        basic_auth("unknown", "secret"),
        basic_auth("nul\0", "secret"),
        basic_auth("%00", "x"),
        basic_auth("%20%0A", "x"),
        basic_auth("unknown", "%00"),
        basic_auth("%FF", "secret"),
    ],
)
@pytest.mark.parametrize("path", ["/oauth/token", "/oauth/revoke"])
def test_a_header_that_proves_nothing_is_a_401_that_names_basic(
    http: TestClient, path: str, header: dict[str, str]
) -> None:
    refused = http.post(path, data={"grant_type": "refresh_token", "token": "x"}, headers=header)
    assert (refused.status_code, refused.json()["error"]) == (401, "invalid_client")
    assert refused.headers["www-authenticate"] == 'Basic realm="Quillpost"'


def test_nobody_at_all_is_no_client(http: TestClient) -> None:
    refused = http.post("/oauth/token", data={"grant_type": "refresh_token"})
    assert (refused.status_code, refused.json()["error"]) == (401, "invalid_client")


@pytest.mark.parametrize("path", ["/oauth/token", "/oauth/revoke"])
@pytest.mark.parametrize("name", ["code", "refresh_token", "redirect_uri", "client_id", "scope", "token"])
def test_a_field_with_nul_in_it_is_refused(app_: OAuthApp, path: str, name: str) -> None:
    for kind in ("authorization_code", "refresh_token"):
        refused = app_.call(path, **{"grant_type": kind, name: "a\0b"})
        assert (refused.status_code, refused.json()["error"]) == (400, "invalid_request")


def test_codes_are_not_guessed_at_for_long_either(container: Container, http: TestClient, owner: Account) -> None:
    app = connect_app(container, http, owner, is_public=True)
    tokens = app.tokens()
    for _ in range(60):
        assert app.exchange("x").json()["error"] == "invalid_grant"
    refused = app.exchange("x")
    assert (refused.status_code, refused.json()["error"]) == (429, "temporarily_unavailable")
    assert app.refresh("x").status_code == 429
    assert app.refresh(tokens["refresh_token"]).status_code == 200, "whoever has a good one guesses nothing"


class TestLifetimes:
    @pytest.fixture
    def container(self, build: Build) -> Container:
        return build(code_seconds=10, access_token_days=2, refresh_token_days=5)

    def test_each_is_a_setting(self, app_: OAuthApp, clock: Clock) -> None:
        code = app_.code()
        clock.advance(seconds=11)
        assert app_.exchange(code).json()["error"] == "invalid_grant"
        tokens = app_.tokens()
        assert tokens["expires_in"] == 2 * 24 * 60 * 60
        clock.advance(days=2)
        assert app_.ping(tokens["access_token"]).status_code == 401
        tokens = app_.refresh(tokens["refresh_token"]).json()
        assert tokens["expires_in"] == 2 * 24 * 60 * 60
        clock.advance(days=5)
        assert app_.refresh(tokens["refresh_token"]).json()["error"] == "invalid_grant"


class TestCallsAMinute:
    @pytest.fixture
    def container(self, build: Build) -> Container:
        return build(calls_a_minute=5)

    def test_a_refresh_gives_an_app_no_more_of_them(self, app_: OAuthApp) -> None:
        tokens = app_.tokens()
        others = app_.tokens()
        assert [app_.ping(tokens["access_token"]).status_code for _ in range(4)] == [200] * 4
        tokens = app_.refresh(tokens["refresh_token"]).json()
        assert [app_.ping(tokens["access_token"]).status_code for _ in range(2)] == [200, 429]
        assert app_.ping(others["access_token"]).status_code == 200, "another leave has a count of its own"

    def test_nor_does_another_page_give_its_reader_more(self, app_: OAuthApp, owner: Account) -> None:
        def page_token() -> str:
            given = app_.browser.post("/session/token", headers={"Accept": "application/json"})
            return str(given.json()["token"])

        first, second = page_token(), page_token()
        assert first != second
        assert [app_.ping(first).status_code for _ in range(4)] == [200] * 4
        assert [app_.ping(second).status_code for _ in range(2)] == [200, 429]
        assert owner.get("/ping").status_code == 200


def test_failed_attempts_of_one_network_are_slowed_down(app_: OAuthApp) -> None:
    tokens = app_.tokens()
    for _ in range(60):
        assert app_.refresh("x", client_secret="guess").status_code == 401
    refused = app_.refresh("x", client_secret="guess")
    assert (refused.status_code, refused.json()["error"]) == (429, "temporarily_unavailable")
    assert 1 <= int(refused.headers["retry-after"]) <= 60
    assert app_.refresh(tokens["refresh_token"]).status_code == 200, "whoever knows the secret guesses nothing"


def test_an_access_token_is_given_back_by_itself(app_: OAuthApp) -> None:
    tokens = app_.tokens()
    answer = app_.revoke(tokens["access_token"], token_type_hint="refresh_token")
    assert (answer.status_code, answer.json()) == (200, {})
    assert app_.ping(tokens["access_token"]).status_code == 401
    assert app_.refresh(tokens["refresh_token"]).status_code == 200


def test_a_refresh_token_is_given_back_with_its_family(app_: OAuthApp) -> None:
    first = app_.tokens()
    second = app_.refresh(first["refresh_token"]).json()
    assert app_.revoke(second["refresh_token"], token_type_hint="nonsense").status_code == 200
    assert app_.ping(first["access_token"]).status_code == 401
    assert app_.ping(second["access_token"]).status_code == 401
    assert app_.refresh(second["refresh_token"]).json()["error"] == "invalid_grant"
    assert app_.revoke(second["refresh_token"]).status_code == 200, "given back twice is given back"


@pytest.mark.parametrize("token", ["nonsense", "qp_live_nonsense", "x" * 3_000])
def test_an_unknown_token_is_as_good_as_revoked(app_: OAuthApp, token: str) -> None:
    assert app_.revoke(token).status_code == 200


def test_a_personal_token_is_no_apps_to_revoke(app_: OAuthApp, owner: Account) -> None:
    assert app_.revoke(owner.token).status_code == 200
    assert owner.get("/ping").status_code == 200


def test_revoking_needs_a_token(app_: OAuthApp) -> None:
    refused = app_.call("/oauth/revoke")
    assert (refused.status_code, refused.json()["error"]) == (400, "invalid_request")


def _post(app: OAuthApp, body: str, kind: str = "application/x-www-form-urlencoded") -> Response:
    return app.http.post("/oauth/token", content=body, headers={"Content-Type": kind})
