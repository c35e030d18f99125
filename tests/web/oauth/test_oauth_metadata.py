"""What the server says it can do, and that no log line tells what it should not."""

import logging

import pytest
from authlib.oauth2.rfc8414 import AuthorizationServerMetadata

from quillpost.accounts.tokens.rules import SCOPES
from quillpost.app.container import Container
from quillpost.core.telemetry import configure_logging
from quillpost.web.application import create_app
from support.factories import Account, Build, make_account
from support.oauth_app import STATE, VERIFIER, WITH_PKCE, connect_app, parse_query
from support.test_client import TestClient


def test_the_metadata_says_what_the_server_does(build: Build) -> None:
    container = build(base_url="https://mail.example/")
    answer = TestClient(create_app(container)).get("/.well-known/oauth-authorization-server")
    metadata = answer.json()
    assert answer.status_code == 200
    assert metadata["issuer"] == "https://mail.example"
    assert metadata["authorization_endpoint"] == "https://mail.example/oauth/authorize"
    assert metadata["token_endpoint"] == "https://mail.example/oauth/token"
    assert metadata["revocation_endpoint"] == "https://mail.example/oauth/revoke"
    assert metadata["scopes_supported"] == list(SCOPES)
    assert metadata["response_types_supported"] == ["code"]
    assert metadata["grant_types_supported"] == ["authorization_code", "refresh_token"]
    assert metadata["code_challenge_methods_supported"] == ["S256"]
    assert metadata["authorization_response_iss_parameter_supported"] is True
    methods = ["client_secret_basic", "client_secret_post", "none"]
    assert metadata["token_endpoint_auth_methods_supported"] == methods
    AuthorizationServerMetadata(metadata).validate()


def test_the_issuer_is_the_one_that_answers_name(build: Build) -> None:
    container = build(base_url="https://mail.example/")
    http = TestClient(create_app(container), base_url="https://mail.example")
    app = connect_app(container, http, make_account(container, http, "owner@example.com"))
    metadata = http.get("/.well-known/oauth-authorization-server").json()
    assert parse_query(app.consent())["iss"] == metadata["issuer"]


def test_no_log_line_of_a_whole_flow_holds_a_secret(
    container: Container,
    http: TestClient,
    owner: Account,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """At the level debug, which Authlib uses to write tokens."""
    configure_logging(as_json=True, level="debug")
    caplog.set_level(logging.DEBUG)
    try:
        app = connect_app(container, http, owner)
        code = app.code(app.link(**WITH_PKCE))
        app.exchange(code, code_verifier="w" * 43)
        first = app.exchange(code, code_verifier=VERIFIER).json()
        second = app.refresh(first["refresh_token"]).json()
        app.revoke(second["access_token"])
        app.refresh(first["refresh_token"])
    finally:
        configure_logging(as_json=True, level="warning")
    written = "".join(f"{record.getMessage()}{record.__dict__}" for record in caplog.records)
    written += "".join(capsys.readouterr())
    assert "/oauth/token" in written, "the requests themselves are logged"
    assert app.secret is not None
    secrets = [app.secret, code, VERIFIER, STATE, *first.values(), *second.values()]
    leaked = [secret for secret in secrets if isinstance(secret, str) and len(secret) > 9 and secret in written]
    assert leaked == []
    assert not [record for record in caplog.records if record.name.startswith("authlib")]
