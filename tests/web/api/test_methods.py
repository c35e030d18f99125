"""HEAD, OPTIONS, wrong methods and odd paths: answered alike wherever they come."""

import json
import re
from collections.abc import Iterator

import pytest
from fastapi import FastAPI
from starlette.responses import StreamingResponse

from quillpost.app.container import Container
from quillpost.cli.server import UNREADABLE_MESSAGE
from quillpost.core.database.embedded.server import EmbeddedPostgres
from quillpost.core.telemetry import REGISTRY
from quillpost.fulfillment.qr_scans.service import InvalidCode
from quillpost.web.application import create_app
from quillpost.web.middleware.methods import MethodMiddleware
from quillpost.web.public.qr_codes.endpoints import SCAN_FAILURES
from support.factories import Account, make_account
from support.raw_http import real_server, send_request
from support.shared_service import shared_service
from support.test_client import TestClient

JSON = "application/json"
SHAPE = {"message": "This method is not allowed here."}


@pytest.fixture(scope="module")
def service(postgres: EmbeddedPostgres, template: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Container]:
    with shared_service(postgres, template, tmp_path_factory.mktemp("methods")) as parts:
        yield parts


@pytest.fixture(scope="module")
def caller(service: Container) -> Iterator[Account]:
    """Reads and asks; leaves nothing behind."""
    with TestClient(create_app(service), base_url="http://quillpost.test") as http:
        yield make_account(service, http, "owner@example.com")


@pytest.fixture(scope="module")
def port(service: Container) -> Iterator[int]:
    with real_server(create_app(service)) as port:
        yield port


def raw(port: int, caller: Account | None, line: str, *more: str) -> tuple[int, dict[str, str], bytes]:
    """A request whose first line is exactly this one."""
    token = [] if caller is None else [f"Authorization: Bearer {caller.token}"]
    lines = [f"{line} HTTP/1.1", "Host: quillpost.test", "Connection: close", *token, *more, "", ""]
    answer = send_request(port, "\r\n".join(lines).encode("latin-1"))
    return answer.status, answer.headers, answer.body


@pytest.mark.parametrize(
    ("line", "header"),
    [
        ("FOO /api/v2/ping", "X: y"),
        ("GET /api/v2/ping\x00", "X: y"),
        ("GET /api/v2/ping\xff", "X: y"),
        (f"GET /api/v2/orders?x={'y' * 100_000}", "X: y"),
        ("GET /api/v2/ping", "X: \x00"),
        ("POST /api/v2/send/postcard", "Content-Length: -5"),
    ],
    ids=["method", "NUL", "no ASCII", "too long", "NUL in a header", "length"],
)
def test_what_is_no_http_is_refused_in_the_shape_of_all_failures(
    port: int, caller: Account, line: str, header: str
) -> None:
    status, headers, body = raw(port, caller, line, header)
    assert (status, headers["content-type"], json.loads(body)) == (400, JSON, {"message": UNREADABLE_MESSAGE})
    assert re.fullmatch("[0-9a-f]{32}", headers["x-request-id"])


@pytest.mark.parametrize(
    "path", ["/ping", "/orders/list?items_per_page=3", "/orders", "/webhooks", "/openapi.json", "/orders/999"]
)
def test_head_is_get_without_a_body(caller: Account, path: str) -> None:
    get, head = caller.get(path), caller.call("HEAD", path)
    assert head.status_code == get.status_code
    assert head.content == b""
    for answer in (get, head):
        del answer.headers["X-Request-Id"], answer.headers["X-RateLimit-Remaining"]
    assert head.headers == get.headers
    assert int(head.headers["Content-Length"]) == len(get.content) > 0


def test_head_works_over_a_real_connection_with_and_without_a_token(caller: Account, port: int) -> None:
    status, headers, body = raw(port, caller, "HEAD /api/v2/ping")
    assert (status, body) == (200, b"")
    assert headers["content-length"] == str(len(caller.get("/ping").content))
    status, headers, body = raw(port, None, "HEAD /api/v2/ping")
    assert (status, body, headers["www-authenticate"]) == (401, b"", "Bearer")


@pytest.mark.parametrize("path", ["/health", "/docs", "/openapi.json", "/"])
def test_head_works_on_public_endpoints_too(caller: Account, path: str) -> None:
    head = caller.http.head(path)
    assert (head.status_code, head.content) == (200, b"")


def test_head_is_counted_under_its_own_route(caller: Account) -> None:
    def count() -> float:
        labels = {"method": "HEAD", "route": "/api/v2/ping", "status": "200"}
        found = [
            sample.value
            for metric in REGISTRY.collect()
            for sample in metric.samples
            if sample.name.endswith("requests_total")
            and sample.labels | {"route": "/api/v2" + sample.labels["route"].removeprefix("/api/v2")} == labels
        ]
        return sum(found)

    before = count()
    caller.call("HEAD", "/ping")
    assert count() == before + 1


def test_head_of_a_call_that_only_posts_is_a_wrong_method(caller: Account) -> None:
    refused = caller.call("HEAD", "/send/postcard")
    assert (refused.status_code, refused.content) == (405, b"")
    assert refused.headers["Allow"] == "POST, OPTIONS"


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


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/api/v2/ping", "GET, HEAD, OPTIONS"),
        ("/api/v2/send/postcard", "POST, OPTIONS"),
        ("/api/v2/orders/1/cancel", "POST, PUT, DELETE, OPTIONS"),
        ("/api/v2/orders/1/cancel/", "POST, PUT, DELETE, OPTIONS"),
        ("/health", "GET, HEAD, OPTIONS"),
        ("/docs", "GET, HEAD, POST, OPTIONS"),
        ("/q/Abcdef12", "GET, HEAD, OPTIONS"),
        ("/", "GET, HEAD, OPTIONS"),
    ],
)
def test_options_names_every_method_of_a_path(caller: Account, path: str, allowed: str) -> None:
    headers = {"Authorization": f"Bearer {caller.token}"}
    answer = caller.http.options(path, headers=headers)
    assert (answer.status_code, answer.content, answer.headers["Allow"]) == (204, b"", allowed)
    assert answer.headers["X-Request-Id"]


def test_options_needs_a_token_and_a_path_that_exists(caller: Account) -> None:
    assert caller.http.options("/api/v2/ping").status_code == 401
    assert caller.call("OPTIONS", "/nothing").json() == {"message": "Not Found"}
    assert caller.http.options("/nothing").status_code == 404


@pytest.mark.parametrize("method", ["TRACE", "CONNECT", "BREW", "get", "PROPFIND", "QUERY"])
@pytest.mark.parametrize("path", ["/api/v2/ping", "/api/v2/orders/1/cancel", "/health"])
def test_any_other_method_is_refused_in_shape(caller: Account, method: str, path: str) -> None:
    headers = {"Authorization": f"Bearer {caller.token}"}
    # The client would write it in capitals.
    request = caller.http.build_request("GET", path, headers=headers)
    request.method = method
    refused = caller.http.send(request)
    assert (refused.status_code, refused.json()) == (405, SHAPE)
    assert refused.headers["Allow"] == caller.http.options(path, headers=headers).headers["Allow"]


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", "/orders/list", "GET, HEAD, OPTIONS"),
        ("PUT", "/orders/search", "GET, HEAD, OPTIONS"),
        ("GET", "/recipients/lookup", "POST, OPTIONS"),
        ("DELETE", "/recipients/lookup", "POST, OPTIONS"),
    ],
)
def test_a_path_that_is_spelled_out_is_not_taken_for_an_id(
    caller: Account, method: str, path: str, allowed: str
) -> None:
    refused = caller.call(method, path)
    assert (refused.status_code, refused.json()) == (405, SHAPE)
    assert refused.headers["Allow"] == caller.call("OPTIONS", path).headers["Allow"] == allowed


def test_invented_methods_do_not_swell_the_metrics(caller: Account) -> None:
    caller.call("BREW", "/ping")
    methods = {
        sample.labels["method"]
        for metric in REGISTRY.collect()
        for sample in metric.samples
        if "method" in sample.labels
    }
    assert "BREW" not in methods
    assert "other" in methods


@pytest.mark.parametrize("method", ["TRACE", "CONNECT", "BREW"])
def test_the_server_itself_survives_odd_methods(caller: Account, port: int, method: str) -> None:
    status, _, _ = raw(port, caller, f"{method} /api/v2/ping")
    assert status in (400, 405)
    assert raw(port, caller, "GET /api/v2/ping")[0] == 200


@pytest.mark.parametrize("path", ["/ping", "/orders/list", "/orders", "/webhooks", "/openapi.json", "/docs"])
@pytest.mark.parametrize("slashes", ["/", "//"])
def test_a_trailing_slash_changes_nothing(caller: Account, path: str, slashes: str) -> None:
    assert caller.get(path + slashes).content == caller.get(path).content


@pytest.mark.parametrize("path", ["/health/", "/docs/", "/openapi.json/"])
def test_a_trailing_slash_changes_nothing_on_public_endpoints(caller: Account, path: str) -> None:
    assert caller.http.get(path).status_code == 200


ODD_PATHS = [
    "/api/v2//ping", "//api/v2/ping", "/api/v2/../v2/ping", "/api/v2/./ping", "/api/v2/%2e%2e/v2/ping",
    "/api/v2/orders/%00", "/api/v2/%00", "/%00", "/api/v2/orders/1%2Ftrack", "/api/v2/orders%2F..%2Fping",
    "/api/v2/orders/%ff%fe", "/api/v2/orders/%ed%a0%80", "/api/v2/orders/%", "/api/v2/orders/%zz",
    "/api/v2/orders/" + "9" * 5_000, "/api/v2/orders/1;x=1", "/api/v2/orders/1\\", "/API/v2/ping",
    "/api/v2/orders/1%20", "/api/v2/orders/1%0d%0aX:1", "/files/%00", "/q/%00", "/hands/%00.png",
    "/art/%00.png", "/assets/%00", "/assets/..%2f..%2fweb.py", "/receiver/%00", "/receiver/%ff/events",
    "/api/v2/ping%3Fx", "/api/v2/ping%23x",
]  # fmt: skip


@pytest.mark.parametrize("path", ODD_PATHS)
def test_an_odd_path_is_not_found_and_nothing_worse(caller: Account, port: int, path: str) -> None:
    status, headers, body = raw(port, caller, f"GET {path}", "Accept: application/json")
    message = SCAN_FAILURES[InvalidCode.UNKNOWN].message if path.startswith("/q/") else "Not Found"
    assert (status, body) == (404, f'{{"message":"{message}"}}'.encode())
    assert headers["x-request-id"]


@pytest.mark.parametrize("target", ["*", "http://quillpost.test/api/v2/ping", "/api%2Fv2%2Fping", "?", "/\xff"])
@pytest.mark.parametrize("method", ["GET", "OPTIONS", "HEAD"])
def test_an_odd_target_never_passes_the_gate_unseen(port: int, method: str, target: str) -> None:
    assert raw(port, None, f"{method} {target}")[0] in (400, 401, 404)


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "HEAD", "OPTIONS", "BREW"])
def test_an_unknown_path_is_404_with_a_token_and_401_without(caller: Account, method: str) -> None:
    known, unknown = caller.call(method, "/no/such/path"), caller.http.request(method, "/api/v2/no/such/path")
    assert (known.status_code, unknown.status_code) == (404, 401)
    if method != "HEAD":
        assert known.json() == {"message": "Not Found"}
        assert unknown.json() == {"message": "Unauthenticated."}
