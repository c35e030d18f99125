"""Methods and odd paths are answered alike, pages of other sites may call the API alone, and health is shown."""

import asyncio
import json
import re
import socket
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa
from fastapi import FastAPI
from starlette.responses import StreamingResponse

from quillpost.accounts import service as account_service
from quillpost.app import bootstrap, runtime
from quillpost.app.container import Container
from quillpost.cli.server import UNREADABLE_MESSAGE
from quillpost.core.database import engine
from quillpost.core.database.engine import DatabaseMonitor
from quillpost.core.database.tables.base import accounts
from quillpost.core.encryption import KeyFile
from quillpost.core.errors import Unavailable
from quillpost.core.settings import Settings
from quillpost.core.telemetry import REGISTRY
from quillpost.fulfillment.qr_scans.service import InvalidCode
from quillpost.web.application import create_app
from quillpost.web.middleware.methods import EXPOSED_HEADERS, MethodMiddleware
from quillpost.web.public.qr_codes.endpoints import SCAN_FAILURES
from support.factories import Account, Build
from support.raw_http import real_server, send_request
from support.rows import execute
from support.test_client import TestClient

JSON = "application/json"
SHAPE = {"message": "This method is not allowed here."}


@pytest.fixture
def port(container: Container) -> Iterator[int]:
    with real_server(create_app(container)) as port:
        yield port


def raw(port: int, caller: Account | None, line: str, *more: str) -> tuple[int, dict[str, str], bytes]:
    """A request whose first line is exactly this one."""
    token = [] if caller is None else [f"Authorization: Bearer {caller.token}"]
    lines = [f"{line} HTTP/1.1", "Host: quillpost.test", "Connection: close", *token, *more, "", ""]
    answer = send_request(port, "\r\n".join(lines).encode("latin-1"))
    return answer.status, answer.headers, answer.body


def test_what_is_no_http_is_refused_in_the_shape_of_all_failures(port: int, owner: Account) -> None:
    for line, header in (
        ("FOO /api/v2/ping", "X: y"), ("GET /api/v2/ping\x00", "X: y"), ("GET /api/v2/ping\xff", "X: y"),
        (f"GET /api/v2/orders?x={'y' * 100_000}", "X: y"), ("GET /api/v2/ping", "X: \x00"),
        ("POST /api/v2/send/postcard", "Content-Length: -5"),
    ):  # fmt: skip
        status, headers, body = raw(port, owner, line, header)
        expected = (400, JSON, {"message": UNREADABLE_MESSAGE})
        assert (status, headers["content-type"], json.loads(body)) == expected, (line[:30], header)
        assert re.fullmatch("[0-9a-f]{32}", headers["x-request-id"])


def test_head_is_get_without_a_body(owner: Account) -> None:
    for path in ("/ping", "/orders/list?items_per_page=3", "/orders", "/webhooks", "/openapi.json", "/orders/999999"):
        get, head = owner.get(path), owner.call("HEAD", path)
        assert (head.status_code, head.content) == (get.status_code, b""), path
        for answer in (get, head):
            del answer.headers["X-Request-Id"], answer.headers["X-RateLimit-Remaining"]
        assert head.headers == get.headers, path
        assert int(head.headers["Content-Length"]) == len(get.content) > 0, path
    for path in ("/health", "/docs", "/openapi.json", "/"):
        head = owner.http.head(path)
        assert (head.status_code, head.content) == (200, b""), path
    refused = owner.call("HEAD", "/send/postcard")
    assert (refused.status_code, refused.content, refused.headers["Allow"]) == (405, b"", "POST, OPTIONS")


def test_odd_requests_over_a_real_connection_are_answered_like_others(port: int, owner: Account) -> None:
    status, headers, body = raw(port, owner, "HEAD /api/v2/ping")
    assert (status, body) == (200, b"")
    assert headers["content-length"] == str(len(owner.get("/ping").content))
    status, headers, body = raw(port, None, "HEAD /api/v2/ping")
    assert (status, body, headers["www-authenticate"]) == (401, b"", "Bearer")
    for method in ("TRACE", "CONNECT", "BREW"):
        assert raw(port, owner, f"{method} /api/v2/ping")[0] in (400, 405), method
    for method in ("GET", "OPTIONS", "HEAD"):
        for target in ("*", "http://quillpost.test/api/v2/ping", "/api%2Fv2%2Fping", "?", "/\xff"):
            # None passes the gate unseen.
            assert raw(port, None, f"{method} {target}")[0] in (400, 401, 404), (method, target)
    assert raw(port, owner, "GET /api/v2/ping")[0] == 200


def samples() -> Iterator[tuple[str, dict[str, str], float]]:
    for metric in REGISTRY.collect():
        yield from ((sample.name, sample.labels, sample.value) for sample in metric.samples)


def test_head_is_counted_under_its_own_route_and_invented_methods_as_others(owner: Account) -> None:
    def count() -> float:
        return sum(
            value
            for name, labels, value in samples()
            if name.endswith("requests_total")
            and (labels["method"], labels["status"]) == ("HEAD", "200")
            and labels["route"].removeprefix("/api/v2") == "/ping"
        )

    before = count()
    owner.call("HEAD", "/ping")
    assert count() == before + 1
    owner.call("BREW", "/ping")
    methods = {labels["method"] for _, labels, _ in samples() if "method" in labels}
    assert ("BREW" in methods, "other" in methods) == (False, True)


def test_a_route_may_answer_head_itself_and_a_stream_is_not_drawn_for_it() -> None:
    app, done = FastAPI(), []

    @app.get("/sent")
    def send_it() -> None:
        done.append("sent")

    @app.head("/sent")
    def say_that_it_can_be_sent() -> None:
        done.append("asked")

    @app.get("/endless")
    def stream() -> StreamingResponse:
        def pieces() -> Iterator[bytes]:
            while True:
                done.append("piece")
                yield b"x"

        return StreamingResponse(pieces(), headers={"X-Kind": "endless"})

    app.add_middleware(MethodMiddleware, routes=app.routes)
    with TestClient(app) as http:
        assert http.head("/sent").status_code == 200
        streamed = http.head("/endless")
    assert (streamed.status_code, streamed.headers["X-Kind"], streamed.content) == (200, "endless", b"")
    assert done == ["asked", "piece"]
    with real_server(app) as port:
        status, headers, body = raw(port, None, "HEAD /endless")
    assert (status, headers["x-kind"], body) == (200, "endless", b"")


ALLOWED = {
    "/api/v2/ping": "GET, HEAD, OPTIONS",
    "/api/v2/send/postcard": "POST, OPTIONS",
    "/api/v2/webhooks": "GET, HEAD, POST, OPTIONS",
    "/api/v2/webhooks/1": "GET, HEAD, PUT, DELETE, OPTIONS",
    "/api/v2/orders/1/cancel": "POST, PUT, DELETE, OPTIONS",
    "/api/v2/orders/1/cancel/": "POST, PUT, DELETE, OPTIONS",
    "/health": "GET, HEAD, OPTIONS",
    "/docs": "GET, HEAD, POST, OPTIONS",
    "/q/Abcdef12": "GET, HEAD, OPTIONS",
    "/": "GET, HEAD, OPTIONS",
    # What is spelled out is not taken for an id.
    "/api/v2/orders/list": "GET, HEAD, OPTIONS",
    "/api/v2/orders/search": "GET, HEAD, OPTIONS",
    "/api/v2/recipients/lookup": "POST, OPTIONS",
}


def test_options_names_every_method_of_a_path_and_others_are_refused_in_shape(owner: Account) -> None:
    headers = {"Authorization": f"Bearer {owner.token}"}
    for path, allowed in ALLOWED.items():
        answer = owner.http.options(path, headers=headers)
        assert (answer.status_code, answer.content, answer.headers["Allow"]) == (204, b"", allowed), path
        assert answer.headers["X-Request-Id"]
        others = [method for method in ("GET", "POST", "PUT", "PATCH", "DELETE") if method not in allowed]
        for method in ("TRACE", "CONNECT", "BREW", "get", "PROPFIND", "QUERY", *others):
            # The client would write it in capitals.
            request = owner.http.build_request("GET", path, headers=headers)
            request.method = method
            refused = owner.http.send(request)
            found = (refused.status_code, refused.json(), refused.headers["Allow"])
            assert found == (405, SHAPE, allowed), (method, path)
    assert owner.http.options("/api/v2/ping").status_code == 401
    assert owner.call("OPTIONS", "/nothing").json() == {"message": "Not Found"}
    assert owner.http.options("/nothing").status_code == 404


def test_a_trailing_slash_changes_nothing_and_odd_or_unknown_paths_are_not_found(owner: Account, port: int) -> None:
    for path in ("/ping", "/orders/list", "/orders", "/webhooks", "/openapi.json", "/docs"):
        plain = owner.get(path).content
        assert [owner.get(path + slashes).content == plain for slashes in ("/", "//")] == [True, True], path
    for path in ("/health/", "/docs/", "/openapi.json/"):
        assert owner.http.get(path).status_code == 200, path
    for path in ODD_PATHS:
        status, headers, body = raw(port, owner, f"GET {path}", "Accept: application/json")
        message = SCAN_FAILURES[InvalidCode.UNKNOWN].message if path.startswith("/q/") else "Not Found"
        assert (status, body) == (404, f'{{"message":"{message}"}}'.encode()), path
        assert headers["x-request-id"]
    for method in ("GET", "POST", "DELETE", "HEAD", "OPTIONS", "BREW"):
        known, unknown = owner.call(method, "/no/such/path"), owner.http.request(method, "/api/v2/no/such/path")
        assert (known.status_code, unknown.status_code) == (404, 401), method
        if method != "HEAD":
            assert known.json() == {"message": "Not Found"}
            assert unknown.json() == {"message": "Unauthenticated."}


ODD_PATHS = [
    "/api/v2//ping", "//api/v2/ping", "/api/v2/../v2/ping", "/api/v2/./ping", "/api/v2/%2e%2e/v2/ping",
    "/api/v2/orders/%00", "/api/v2/%00", "/%00", "/api/v2/orders/1%2Ftrack", "/api/v2/orders%2F..%2Fping",
    "/api/v2/orders/%ff%fe", "/api/v2/orders/%ed%a0%80", "/api/v2/orders/%", "/api/v2/orders/%zz",
    "/api/v2/orders/" + "9" * 5_000, "/api/v2/orders/1;x=1", "/api/v2/orders/1\\", "/API/v2/ping",
    "/api/v2/orders/1%20", "/api/v2/orders/1%0d%0aX:1", "/files/%00", "/q/%00", "/hands/%00.png",
    "/art/%00.png", "/assets/%00", "/assets/..%2f..%2fweb.py", "/receiver/%00", "/receiver/%ff/events",
    "/api/v2/ping%3Fx", "/api/v2/ping%23x", "/api/v2/orders/1/2/3", "/api/v2/v1/ping",
]  # fmt: skip


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


NOWHERE = "host=/nowhere dbname=quillpost"


def test_health_tells_of_a_database_that_is_away(tmp_path: Path, http: TestClient, subtests: pytest.Subtests) -> None:
    alive = http.get("/health")
    assert (alive.status_code, alive.json()) == (200, {"status": "ok", "database": "ok"})
    for name, url, silent_for, status, word in (
        ("just now", None, 0, 200, "degraded"), ("while it restarts", None, 60, 200, "degraded"),
        ("beyond that", None, 61, 503, "failing"), ("another's database", NOWHERE, 3_600, 200, "degraded"),
    ):  # fmt: skip
        with subtests.test(name):
            settings = Settings.model_validate({"home": tmp_path / name, "database_url": url})
            # Without a database nobody can tell whether a key is lost.
            KeyFile(runtime.key_path(settings.home)).create_if_missing()
            app = create_app(bootstrap.build_container(settings, NOWHERE))
            times = iter([0.0, *[float(silent_for)] * 10])
            app.state.database_monitor = DatabaseMonitor(NOWHERE, lambda times=times: next(times))  # type: ignore[misc]
            with TestClient(app) as away:
                alive, ready = away.get("/health"), away.get("/ready")
            shown = {"status": word, "database": "unreachable", "database_unreachable_seconds": silent_for}
            assert (alive.status_code, alive.json()) == (status, shown)
            assert (ready.status_code, ready.json()["checks"]["database"]) == (503, "unreachable")


def test_a_database_that_never_answers_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "CONNECT_TIMEOUT_SECONDS", 0.05)
    times = iter([0.0, *[9.0] * 3])
    with socket.create_server(("127.0.0.1", 0)) as silent:  # the machine takes the connection, and no program does
        monitor = DatabaseMonitor(f"host=127.0.0.1 port={silent.getsockname()[1]}", lambda: next(times))
        assert asyncio.run(monitor.check_downtime()) == 9


@pytest.mark.usefixtures("clean_database")
def test_ready_names_the_workers_until_one_has_a_heartbeat(http: TestClient, container: Container) -> None:
    answer = http.get("/ready")
    checks = {"database": "ok", "migrations": "ok", "workers": "none alive"}
    assert (answer.status_code, answer.json()) == (503, {"status": "not ready", "checks": checks})
    assert int(answer.headers["Retry-After"]) > 0
    for age, status in (("1 hour", 503), ("1 second", 200)):
        execute(container, f"insert into procrastinate_workers (last_heartbeat) values (now() - interval '{age}')")
        assert http.get("/ready").status_code == status


def test_operators_see_metrics_by_route_and_not_by_path(owner: Account, container: Container, build: Build) -> None:
    owner.get("/orders/4711")

    def metrics(http: TestClient, token: str | None) -> tuple[int, str]:
        headers = {} if token is None else {b"Authorization": f"Bearer {token}".encode("latin-1")}
        answer = http.get("/metrics", headers=headers)
        return answer.status_code, answer.text

    with TestClient(create_app(build(metrics_token="scrape-me"))) as http:
        assert [metrics(http, token)[0] for token in (None, "", "wrong", "é", owner.token)] == [401] * 5
        status, text = metrics(http, "scrape-me")
        execute(container, sa.update(accounts).where(accounts.c.id == owner.id).values(is_operator=True))
        assert (status, metrics(http, owner.token)[0]) == (200, 200)
    assert metrics(owner.http, "scrape-me")[0] == 401
    assert 'route="/orders/{order_id}"' in text or 'route="/api/v2/orders/{order_id}"' in text
    assert "/orders/4711" not in text
    assert "quillpost_jobs_waiting" in text
