"""Pages of other sites may call the API, and nothing else."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
import sqlalchemy as sa

from quillpost.accounts import service as account_service
from quillpost.app.container import Container
from quillpost.core.errors import Unavailable
from quillpost.web.application import create_app
from quillpost.web.middleware.methods import EXPOSED_HEADERS
from support.factories import Account
from support.test_client import TestClient

PAGE = {"Origin": "https://shop.example"}
ASKS = {**PAGE, "Access-Control-Request-Method": "POST"}
OUTSIDE = (
    "/", "/health", "/sign-in", "/docs", "/openapi.json", "/nowhere", "/api", "/api/v20/ping", "/q/none",
    "/oauth/token", "/oauth/revoke", "/oauth/authorize", "/.well-known/oauth-authorization-server",
)  # fmt: skip


def shared(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items() if name.lower().startswith("access-control")}


def assert_readable(headers: Mapping[str, str]) -> None:
    assert headers["Access-Control-Allow-Origin"] == "*"
    assert "Access-Control-Allow-Credentials" not in headers
    exposed = headers["Access-Control-Expose-Headers"].split(", ")
    assert {"X-Request-Id", "X-RateLimit-Limit", "X-RateLimit-Remaining", "Retry-After"} <= set(exposed)
    assert {"X-Warnings", "X-Ignored-Fields"} <= set(exposed) == set(EXPOSED_HEADERS)


def test_a_preflight_is_answered_without_a_token_or_the_database(http: TestClient) -> None:
    asks = ASKS | {"Access-Control-Request-Headers": "authorization,content-type"}
    for path in ("/api/v2/send/postcard", "/api/v2/orders/1/cancel", "/api/v2", "/api/v2/nowhere"):
        response = http.options(path, headers=asks)
        assert (response.status_code, response.content) == (204, b""), path
        assert_readable(response.headers)
        allowed = response.headers["Access-Control-Allow-Headers"].split(", ")
        assert {"Authorization", "Content-Type", "Idempotency-Key", "*"} <= set(allowed)
        methods = set(response.headers["Access-Control-Allow-Methods"].split(", "))
        assert {"GET", "POST", "PUT", "PATCH", "DELETE"} <= methods
        assert int(response.headers["Access-Control-Max-Age"]) > 0
        assert response.headers["X-Request-Id"]
    statements: list[str] = []
    note = lambda *about: statements.append(about[2])  # noqa: E731
    sa.event.listen(sa.Engine, "before_cursor_execute", note)
    try:
        assert http.options("/api/v2/send/postcard", headers=ASKS).status_code == 204
        assert statements == []
        http.get("/api/v2/ping", headers={"Authorization": "Bearer none"})
        assert statements != []
    finally:
        sa.event.remove(sa.Engine, "before_cursor_execute", note)


def test_options_answers_and_refusals_are_readable_by_a_page(http: TestClient, owner: Account) -> None:
    for headers in (PAGE, {"Access-Control-Request-Method": "POST"}):
        refused = http.options("/api/v2/send/postcard", headers=headers)
        assert refused.status_code == 401
        assert_readable(refused.headers)
    assert owner.call("OPTIONS", "/send/postcard").headers["Allow"] == "POST, OPTIONS"
    answers = {
        200: owner.get("/ping", headers=PAGE), 401: http.get("/api/v2/ping", headers=PAGE),
        404: owner.get("/orders/1", headers=PAGE), 405: owner.put("/ping", headers=PAGE),
        415: owner.post("/send/postcard", headers={**PAGE, "Content-Type": "text/csv"}, content="a"),
        422: owner.post("/send/postcard", {}, headers=PAGE),
    }  # fmt: skip
    for status, answer in answers.items():
        assert answer.status_code == status, answer.text
        assert_readable(answer.headers)


def test_rate_limit_and_server_errors_are_readable_across_origins(
    container: Container, owner: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    tired = replace(container, limits=replace(container.limits, calls_a_minute=1))
    with TestClient(create_app(tired), base_url="http://quillpost.test") as http:
        answers = [http.get("/api/v2/ping", headers=PAGE) for _ in range(2)]
    errors: list[Exception] = [Unavailable("The database does not answer."), RuntimeError()]

    def fail(*_: object, **__: object) -> None:
        raise errors.pop(0)

    monkeypatch.setattr(account_service, "authenticate", fail)
    with TestClient(create_app(container), raise_server_exceptions=False) as http:
        headers = {**PAGE, "Authorization": f"Bearer {owner.token}"}
        answers += [http.get("/api/v2/ping", headers=headers) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [401, 429, 503, 500]
    for answer in answers:
        assert_readable(answer.headers)


def test_nothing_outside_the_api_is_shared(http: TestClient) -> None:
    for path in OUTSIDE:
        assert shared(http.get(path, headers=PAGE).headers) == {}, path
        assert shared(http.options(path, headers=ASKS).headers) == {}, path
        assert shared(http.post(path, headers=PAGE, data={"grant_type": "refresh_token"}).headers) == {}, path
