"""Where an app exchanges a code, or a refresh token, for tokens, and gives them back; what the server says of itself,
and what no log line tells."""

import logging
from collections.abc import Iterator

import pytest
from authlib.oauth2.rfc8414 import AuthorizationServerMetadata
from httpx2 import Response

from quillpost.accounts.tokens.rules import SCOPES
from quillpost.app.container import Container
from quillpost.core.telemetry import configure_logging
from quillpost.core.tokens import is_of_kind
from quillpost.web.application import create_app
from support.factories import Account, Build, Clock, make_account
from support.oauth_app import STATE, VERIFIER, WITH_PKCE, OAuthApp, basic_auth, connect_app, parse_query
from support.test_client import TestClient

DAY = 86_400
PAIR = {"token_type", "expires_in", "access_token", "refresh_token"}
FORM = "application/x-www-form-urlencoded"
ENDPOINTS = ("/oauth/token", "/oauth/revoke")


@pytest.fixture
def app_(container: Container, http: TestClient, owner: Account) -> OAuthApp:
    return connect_app(container, http, owner)


@pytest.fixture
def public(container: Container, http: TestClient, stranger: Account) -> OAuthApp:
    """That can keep no secret."""
    return connect_app(container, http, stranger, is_public=True)


def post(app: OAuthApp, body: str, kind: str = FORM) -> Response:
    return app.http.post("/oauth/token", content=body, headers={"Content-Type": kind})


def error_of(answer: Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]


def is_good(app: OAuthApp, token: str) -> bool:
    return app.ping(token).status_code == 200


def test_a_code_becomes_tokens_of_a_client_known_by_secret_header_or_verifier(app_: OAuthApp, public: OAuthApp) -> None:
    answer = app_.exchange(app_.code())
    tokens = answer.json()
    assert (answer.status_code, set(tokens)) == (200, PAIR)
    assert (tokens["token_type"], tokens["expires_in"]) == ("Bearer", 30 * DAY)
    assert is_of_kind(tokens["access_token"], "test")
    assert is_of_kind(tokens["refresh_token"], "refresh")
    assert (answer.headers["cache-control"], answer.headers["pragma"]) == ("no-store", "no-cache")
    assert app_.ping(tokens["access_token"]).json() == {"message": "pong", "test_mode": True}
    live = app_.tokens(mode="live")["access_token"]
    assert is_of_kind(live, "live")
    assert app_.ping(live).json()["test_mode"] is False
    assert app_.secret is not None
    header = basic_auth(app_.client.client_id, app_.secret)
    answer = app_.exchange(app_.code(), headers=header, client_id=None, client_secret=None)
    assert answer.status_code == 200, answer.text
    assert app_.refresh(answer.json()["refresh_token"], headers=header, client_secret=None).status_code == 200
    tokens = public.tokens()
    assert is_good(public, tokens["access_token"])
    assert public.refresh(tokens["refresh_token"]).status_code == 200
    # As libraries send it that know no clients without a secret.
    header = basic_auth(public.client.client_id, "")
    assert public.exchange(public.code(), headers=header, client_id=None).status_code == 200
    # PKCE is taken from clients with a secret too.
    code = app_.code(app_.link(**WITH_PKCE))
    assert error_of(app_.exchange(code)) == (400, "invalid_request")
    assert error_of(app_.exchange(code, code_verifier="w" * 43)) == (400, "invalid_grant")
    assert app_.exchange(code, code_verifier=VERIFIER).status_code == 200


def test_a_refresh_gives_the_next_pair_and_the_earlier_token_ends_soon(app_: OAuthApp, clock: Clock) -> None:
    first = app_.tokens()
    answer = app_.refresh(first["refresh_token"])
    second = answer.json()
    assert (answer.status_code, set(second)) == (200, PAIR)
    assert second["refresh_token"] != first["refresh_token"]
    clock.advance(minutes=9)
    assert is_good(app_, first["access_token"])
    clock.advance(minutes=2)
    assert (is_good(app_, first["access_token"]), is_good(app_, second["access_token"])) == (False, True)
    # An access token lasts thirty days, a refresh token a year.
    tokens = app_.tokens()
    clock.advance(days=29, hours=23)
    assert is_good(app_, tokens["access_token"])
    clock.advance(hours=2)
    assert not is_good(app_, tokens["access_token"])
    clock.advance(days=334)
    tokens = app_.refresh(tokens["refresh_token"]).json()
    clock.advance(days=366)
    assert error_of(app_.refresh(tokens["refresh_token"])) == (400, "invalid_grant")


def test_scope_is_returned_only_when_it_differs_and_a_refresh_cannot_widen_it(app_: OAuthApp) -> None:
    def statuses(token: str) -> list[int]:
        header = {"Authorization": f"Bearer {token}"}
        return [app_.http.get(f"/api/v2/{path}", headers=header).status_code for path in ("orders", "mailing-lists")]

    tokens = app_.tokens(app_.link(scope="orders:read lists:read"))
    assert "scope" not in tokens
    for scope in ("templates:read", "lists:read send:write", "everything"):
        refused = app_.refresh(tokens["refresh_token"], scope=scope)
        assert error_of(refused) == (400, "invalid_scope")
        wrong = scope.removeprefix("lists:read ")
        words = f"This was not allowed: {wrong}. A refresh may ask for: orders:read lists:read"
        assert refused.json()["error_description"] == words
    fewer = app_.refresh(tokens["refresh_token"], scope="lists:read").json()
    assert "scope" not in fewer
    assert statuses(fewer["access_token"]) == [403, 200]
    # Narrowed once, the leave itself is as wide as before.
    assert statuses(app_.refresh(fewer["refresh_token"]).json()["access_token"]) == [200, 200]


WRONG: list[tuple[dict[str, str | None], str, str]] = [
    ({"grant_type": None}, "invalid_request", "grant_type is missing"),
    ({"grant_type": ""}, "invalid_request", "grant_type is missing"),
    ({"grant_type": "password"}, "unsupported_grant_type", "must be authorization_code or"),
    ({"grant_type": 'client_"credentials\u2603'}, "unsupported_grant_type", "must be"),
    ({"code": None}, "invalid_request", "The code is missing: send the one"),
    ({"code": "nonsense"}, "invalid_grant", "The code is unknown"),
    ({"redirect_uri": None}, "invalid_request", "The redirect_uri is missing: send the one"),
    ({"redirect_uri": "https://app.example/back/"}, "invalid_grant", "redirect_uri is not the one"),
    ({"code_verifier": "v" * 43}, "invalid_request", "asked for without a code_challenge"),
    ({"grant_type": "refresh_token"}, "invalid_request", "The refresh_token is missing: send the one"),
]
NUL: list[tuple[dict[str, str | None], str, str]] = [
    ({"grant_type": kind, name: "a\0b"}, "invalid_request", "")
    for kind in ("authorization_code", "refresh_token")
    for name in ("code", "refresh_token", "redirect_uri", "client_id", "scope", "token")
]


def test_missing_or_wrong_fields_get_rfc_6749_errors(app_: OAuthApp, subtests: pytest.Subtests) -> None:
    fields = {"grant_type": "authorization_code", "code": app_.code(), "redirect_uri": "https://app.example/back"}
    for changes, error, words in WRONG + NUL:
        with subtests.test(str(changes)):
            refused = app_.call(**fields | changes)
            assert error_of(refused) == (400, error)
            assert set(refused.json()) == {"error", "error_description"}
            description = refused.json()["error_description"]
            assert words in description
            assert all(" " <= letter <= "~" and letter not in '"\\' for letter in description)
            assert refused.headers["cache-control"] == "no-store"
            if "a\0b" in changes.values():
                assert error_of(app_.call("/oauth/revoke", **changes)) == (400, "invalid_request")
    assert app_.call(**fields).status_code == 200, "what was refused has used nothing up"


def test_a_body_that_is_no_plain_form_is_an_invalid_request(app_: OAuthApp) -> None:
    for body, kind in (
        ('{"grant_type": "refresh_token"}', "application/json"), ("grant_type=refresh_token", "text/plain"),
        ("grant_type=%FF", FORM), ("client_id=a%00b&grant_type=refresh_token", FORM),
        ("&".join(f"f{n}=1" for n in range(60)), FORM),
    ):  # fmt: skip
        assert error_of(post(app_, body, kind)) == (400, "invalid_request"), body
    twice = post(app_, f"grant_type=authorization_code&code=a&code=b&client_id={app_.client.client_id}")
    assert error_of(twice) == (400, "invalid_request")
    assert "more than once" in twice.json()["error_description"]
    assert post(app_, "code=" + "x" * 60_000).status_code == 413
    # Nothing is taken from the address.
    query = f"refresh_token={app_.tokens()['refresh_token']}"
    refused = app_.http.post(f"/oauth/token?{query}", data={"grant_type": "refresh_token"})
    assert error_of(refused) == (400, "invalid_request")
    for path in ENDPOINTS:
        refused = app_.http.get(path)
        assert (refused.status_code, refused.headers["allow"]) == (405, "POST, OPTIONS")


def test_a_header_that_proves_nothing_is_a_401_that_names_basic(http: TestClient) -> None:
    proofs = [{"Authorization": value} for value in (
        "Bearer qp_live_x", "Basic", "Basic %%%", "Basic bm9jb2xvbg==", "Basic /w==", "Basic OnNlY3JldA==",
    )]  # fmt: skip
    for client, secret in (("unknown", "secret"), ("nul\0", "secret"), ("%00", "x"), ("%20%0A", "x"),
                           ("unknown", "%00"), ("%FF", "secret")):  # fmt: skip
        proofs.append(basic_auth(client, secret))
    for path in ENDPOINTS:
        for header in proofs:
            refused = http.post(path, data={"grant_type": "refresh_token", "token": "x"}, headers=header)
            assert error_of(refused) == (401, "invalid_client"), header
            assert refused.headers["www-authenticate"] == 'Basic realm="Quillpost"'
    assert error_of(http.post("/oauth/token", data={"grant_type": "refresh_token"})) == (401, "invalid_client")


def test_whoever_guesses_is_slowed_down_and_whoever_knows_is_not(app_: OAuthApp) -> None:
    tokens = app_.tokens()
    for _ in range(60):
        assert app_.refresh("x", client_secret="guess").status_code == 401
    refused = app_.refresh("x", client_secret="guess")
    assert error_of(refused) == (429, "temporarily_unavailable")
    assert 1 <= int(refused.headers["retry-after"]) <= 60
    assert app_.refresh(tokens["refresh_token"]).status_code == 200


def test_codes_are_not_guessed_at_for_long_either(public: OAuthApp) -> None:
    tokens = public.tokens()
    for _ in range(60):
        assert error_of(public.exchange("x")) == (400, "invalid_grant")
    assert error_of(public.exchange("x")) == (429, "temporarily_unavailable")
    assert public.refresh("x").status_code == 429
    assert public.refresh(tokens["refresh_token"]).status_code == 200, "whoever has a good one guesses nothing"


def test_tokens_are_given_back_by_themselves_or_with_their_family(app_: OAuthApp, owner: Account) -> None:
    tokens = app_.tokens()
    answer = app_.revoke(tokens["access_token"], token_type_hint="refresh_token")
    assert (answer.status_code, answer.json()) == (200, {})
    assert not is_good(app_, tokens["access_token"])
    second = app_.refresh(tokens["refresh_token"]).json()
    third = app_.refresh(second["refresh_token"]).json()
    assert app_.revoke(third["refresh_token"], token_type_hint="nonsense").status_code == 200
    assert [is_good(app_, each["access_token"]) for each in (second, third)] == [False, False]
    assert error_of(app_.refresh(third["refresh_token"])) == (400, "invalid_grant")
    # Given back twice is given back; one that is unknown, or no app's, is as good as revoked.
    for token in (third["refresh_token"], "nonsense", "qp_live_nonsense", "x" * 3_000, owner.token):
        assert app_.revoke(token).status_code == 200
    assert owner.get("/ping").status_code == 200
    assert error_of(app_.call("/oauth/revoke")) == (400, "invalid_request")


@pytest.fixture
def limited(build: Build) -> Iterator[OAuthApp]:
    """On a service with other settings than usual."""
    container = build(
        base_url="https://mail.example/", code_seconds=10, access_token_days=2, refresh_token_days=5, calls_a_minute=5
    )
    with TestClient(create_app(container), base_url="https://mail.example") as http:
        yield connect_app(container, http, make_account(container, http, "owner@example.com"))


def test_the_metadata_is_true_and_how_long_each_token_is_good_is_a_setting(limited: OAuthApp, clock: Clock) -> None:
    answer = limited.http.get("/.well-known/oauth-authorization-server")
    metadata, home = answer.json(), "https://mail.example"
    assert answer.status_code == 200
    assert metadata.items() >= {
        "issuer": home, "authorization_endpoint": f"{home}/oauth/authorize", "token_endpoint": f"{home}/oauth/token",
        "revocation_endpoint": f"{home}/oauth/revoke", "scopes_supported": list(SCOPES),
        "response_types_supported": ["code"], "grant_types_supported": ["authorization_code", "refresh_token"],
        "code_challenge_methods_supported": ["S256"], "authorization_response_iss_parameter_supported": True,
        "token_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post", "none"],
    }.items()  # fmt: skip
    AuthorizationServerMetadata(metadata).validate()
    assert parse_query(limited.consent())["iss"] == home
    code = limited.code()
    clock.advance(seconds=11)
    assert error_of(limited.exchange(code)) == (400, "invalid_grant")
    tokens = limited.tokens()
    assert tokens["expires_in"] == 2 * DAY
    clock.advance(days=2)
    assert not is_good(limited, tokens["access_token"])
    tokens = limited.refresh(tokens["refresh_token"]).json()
    assert tokens["expires_in"] == 2 * DAY
    clock.advance(days=5)
    assert error_of(limited.refresh(tokens["refresh_token"])) == (400, "invalid_grant")


def test_neither_a_refresh_nor_another_page_gives_more_calls_a_minute(limited: OAuthApp) -> None:
    def statuses(token: str, calls: int) -> list[int]:
        return [limited.ping(token).status_code for _ in range(calls)]

    tokens, others = limited.tokens(), limited.tokens()
    assert statuses(tokens["access_token"], 4) == [200] * 4
    tokens = limited.refresh(tokens["refresh_token"]).json()
    assert statuses(tokens["access_token"], 2) == [200, 429]
    assert is_good(limited, others["access_token"]), "another leave has a count of its own"
    given = [limited.browser.post("/session/token", headers={"Accept": "application/json"}) for _ in range(2)]
    first, second = (str(answer.json()["token"]) for answer in given)
    assert first != second
    assert statuses(first, 4) == [200] * 4
    assert statuses(second, 2) == [200, 429]


def test_no_log_line_of_a_whole_flow_holds_a_secret(
    app_: OAuthApp, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    """At the level debug, which Authlib uses to write tokens."""
    configure_logging(as_json=True, level="debug")
    caplog.set_level(logging.DEBUG)
    try:
        code = app_.code(app_.link(**WITH_PKCE))
        app_.exchange(code, code_verifier="w" * 43)
        first = app_.exchange(code, code_verifier=VERIFIER).json()
        second = app_.refresh(first["refresh_token"]).json()
        app_.revoke(second["access_token"])
        app_.refresh(first["refresh_token"])
    finally:
        configure_logging(as_json=True, level="warning")
    written = "".join(f"{record.getMessage()}{record.__dict__}" for record in caplog.records)
    written += "".join(capsys.readouterr())
    assert "/oauth/token" in written, "the requests themselves are logged"
    secrets = [app_.secret, code, VERIFIER, STATE, *first.values(), *second.values()]
    leaked = [secret for secret in secrets if isinstance(secret, str) and len(secret) > 9 and secret in written]
    assert leaked == []
    assert not [record for record in caplog.records if record.name.startswith("authlib")]
