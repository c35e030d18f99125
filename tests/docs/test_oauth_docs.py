"""The page about OAuth: its lines are run against a real server, its numbers and errors are the real ones."""

import inspect
import io
import json
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args
from urllib.parse import parse_qs, urlsplit

import pytest
from authlib.oauth2 import rfc6749

from quillpost.accounts.audit.service import Actor
from quillpost.accounts.oauth import clients
from quillpost.accounts.oauth import tokens as app_tokens
from quillpost.accounts.tokens.rules import SCOPE_LABELS, SCOPES
from quillpost.app.container import Container
from quillpost.core import tokens
from quillpost.core.database import Tenant
from quillpost.web import forms as web_forms
from quillpost.web.application import create_app
from quillpost.web.oauth import endpoints as oauth_endpoints
from quillpost.web.oauth import requests
from quillpost.web.public.leaked_tokens import endpoints as leaked_token_endpoints
from support.factories import Account
from support.oauth_app import hidden_fields
from support.raw_http import real_server
from support.sign_in import Browser, make_user, sign_in_browser
from support.test_client import TestClient

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "oauth.md").read_text()
CODE = ROOT / "src" / "quillpost" / "web" / "oauth"
DANA, BACK = "dana@example.com", "https://app.example.com/back"


def blocks(language: str) -> dict[str, str]:
    """The page's pieces of code, by the name that stands before each."""
    found = re.findall(rf"<!-- {language}: (\w+) -->\n```\w+\n(.*?)```", PAGE, re.DOTALL)
    return dict(found)


@dataclass
class Integrator:
    """Somebody who follows the page, with a client of their own, and whoever allows what it asks for."""

    base: str
    client_id: str
    client_secret: str
    browser: Browser
    environment: dict[str, str] = field(default_factory=dict)

    def run(self, block: str, **more: str) -> str:
        """The block's lines, in a shell that still knows what earlier ones have set."""
        script = re.sub(r"^(BASE|CLIENT_ID|CLIENT_SECRET|REDIRECT_URI)=.*$", "", block, flags=re.MULTILINE)
        self.environment |= more | {"BASE": self.base, "CLIENT_ID": self.client_id}
        self.environment |= {"CLIENT_SECRET": self.client_secret, "REDIRECT_URI": BACK}
        echoes = "".join(f'\necho "{name}=${{{name}:-}}" >&2' for name in ("STATE", "VERIFIER"))
        done = subprocess.run(
            ["bash", "-euc", script + echoes], env=os.environ | self.environment, capture_output=True, text=True,
            check=True,
        )  # fmt: skip
        self.environment |= dict(line.split("=", 1) for line in done.stderr.splitlines())
        return done.stdout

    def allow(self, address: str) -> str:
        """Where the person is led back to."""
        assert address.startswith(self.base)
        path = address.removeprefix(self.base).strip()
        page = self.browser.get(path)
        assert page.status_code == 200
        answer = self.browser.post(path, decision="allow", mode="test", follow=False, **hidden_fields(page))
        assert answer.status_code in (302, 303), answer.text
        return str(answer.headers["Location"])


@pytest.fixture
def integrator(owner: Account, http: TestClient, container: Container) -> Iterator[Integrator]:
    make_user(container, owner.id, DANA)
    with container.db.transaction(Tenant(owner.id)) as tx:
        order_request = clients.ClientRegistration(name="Example", redirect_uris=[BACK])
        client, secret = clients.register_client(
            tx, owner.id, order_request, is_public=False, actor=Actor(DANA), now=container.clock()
        )
    assert secret is not None
    browser = sign_in_browser(http)
    browser.sign_in(DANA)
    with real_server(create_app(container)) as port:
        yield Integrator(f"http://127.0.0.1:{port}", client.client_id, secret, browser)


def test_the_flow_by_hand_works_as_it_is_written(integrator: Integrator) -> None:
    lines = blocks("shell")
    address = integrator.run(lines["ask"])
    came_back_to = integrator.allow(address)
    came = parse_qs(urlsplit(came_back_to).query)
    assert came_back_to.startswith(BACK)
    assert came["state"] == [integrator.environment["STATE"]]
    first = json.loads(integrator.run(lines["exchange"], CODE=came["code"][0]))
    assert first.keys() == {"token_type", "expires_in", "access_token", "refresh_token"}
    pong = json.loads(integrator.run(lines["call"], ACCESS_TOKEN=first["access_token"]))
    assert pong == {"message": "pong", "test_mode": True}
    second = json.loads(integrator.run(lines["refresh"], REFRESH_TOKEN=first["refresh_token"]))
    assert second["refresh_token"] != first["refresh_token"]
    integrator.run(lines["revoke"], REFRESH_TOKEN=second["refresh_token"])
    gone = json.loads(integrator.run(lines["call"], ACCESS_TOKEN=second["access_token"]))
    assert gone == {"message": "Unauthenticated."}


def test_the_example_in_python_works_as_it_is_written(integrator: Integrator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OAUTHLIB_INSECURE_TRANSPORT", "1")
    lines = blocks("python")
    kept: list[dict[str, str]] = []
    known: dict[str, Any] = {"base": integrator.base, "client_id": integrator.client_id}
    known |= {"client_secret": integrator.client_secret, "redirect_uri": BACK, "keep": kept.append}
    output = io.StringIO()
    with redirect_stdout(output):
        exec(lines["ask"], known)
        known["came_back_to"] = integrator.allow(known["address"])
        exec(lines["exchange"], known)
        known["tokens"] = known["tokens"] | {"expires_at": 1}  # long ago: the library refreshes by itself
        exec(lines["refresh"], known)
    pong, orders = output.getvalue().splitlines()
    assert "pong" in pong
    assert "'data': []" in orders
    [renewed] = kept
    assert renewed["refresh_token"] != known["tokens"]["refresh_token"]


def test_a_token_is_reported_as_the_page_says(integrator: Integrator, owner: Account) -> None:
    response = json.loads(integrator.run(blocks("shell")["leaked"], LEAKED=owner.token))
    assert response == {"message": leaked_token_endpoints.DONE_MESSAGE}
    assert owner.get("/ping").status_code == 401


def test_scanners_find_our_secrets_by_the_page_alone() -> None:
    known: dict[str, Any] = {}
    exec(blocks("python")["checksum"], known)
    [pattern] = re.findall(r"^qp_\(live.*$", PAGE, re.MULTILINE)
    for kind in get_args(tokens.SecretKind):
        for length in (24, 32, 64):
            assert re.fullmatch(pattern, tokens.mint_secret(kind, bytes(range(length)))), kind
        secret = tokens.mint_secret(kind, bytes(range(24)))
        assert known["is_real"](secret)
        assert not known["is_real"](secret[:-1] + ("0" if secret[-1] != "0" else "1"))


def test_every_scope_is_documented_in_the_words_that_people_see() -> None:
    rows = [f"| `{scope}` | {SCOPE_LABELS[scope][0].lower()}{SCOPE_LABELS[scope][1:]} |" for scope in SCOPES]
    assert [row for row in rows if row not in PAGE] == []


def errors_in_code() -> set[str]:
    """Every error that an app can be told, by the classes and the words that our code uses."""
    text = "\n".join(file.read_text() for file in CODE.glob("*.py"))
    named = set(re.findall(r"""["']?error["']?\s*[:=]\s*["'](\w+)["']""", text))
    for name in set(re.findall(r"\b(\w+Error)\b", text)):
        kind: Any = getattr(rfc6749, name, None)
        if inspect.isclass(kind) and issubclass(kind, rfc6749.OAuth2Error) and kind is not rfc6749.OAuth2Error:
            named.add(str(getattr(kind, "error", "")))
    return named | {"access_denied"}


def test_the_errors_of_the_page_are_those_of_the_code() -> None:
    errors = PAGE.partition("## Errors")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", errors, re.MULTILINE)) - {"error"} == errors_in_code()


def test_every_number_is_the_real_one() -> None:
    lifetimes = app_tokens.DEFAULT_LIFETIMES
    facts = [
        f"| code | {lifetimes.code.seconds} seconds, once (`QUILLPOST_CODE_SECONDS`) |",
        f"| access token | {lifetimes.access.days} days (`QUILLPOST_ACCESS_TOKEN_DAYS`);"
        f" {app_tokens.REFRESH_OVERLAP.seconds // 60} minutes more",
        f"| refresh token | {lifetimes.refresh.days} days, once (`QUILLPOST_REFRESH_TOKEN_DAYS`) |",
        f"| clients of an account | {clients.MAX_CLIENTS} |",
        f"| redirect addresses of a client | {clients.MAX_REDIRECT_URIS} |",
        f"`/oauth/revoke` from one network | {oauth_endpoints.MAX_FAILURES_PER_MINUTE} a minute, then 429; good ones",
        f"| {web_forms.MAX_FORM_BYTES:,} bytes, {requests.MAX_PARAMETERS} fields, each once |",
        f"at most {clients.MAX_REDIRECT_URI_LENGTH:,} characters",
        f'"expires_in": {int(lifetimes.access.total_seconds())}',
        f"{leaked_token_endpoints.MAX_TOKENS:,} in one report at most,"
        f" and {leaked_token_endpoints.MAX_PER_NETWORK} reports a minute",
    ]
    assert [fact for fact in facts if fact not in PAGE] == []


def test_the_endpoints_are_those_of_the_metadata(http: TestClient) -> None:
    metadata = http.get("/.well-known/oauth-authorization-server").json()
    for name in ("authorization_endpoint", "token_endpoint", "revocation_endpoint"):
        assert f"{urlsplit(metadata[name]).path}`" in PAGE
    assert "GET /.well-known/oauth-authorization-server" in PAGE
