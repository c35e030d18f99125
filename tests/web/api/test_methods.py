"""Methods and odd paths are answered alike, however they are spelled."""

import json
import re
from collections.abc import Iterator

import pytest
from fastapi import FastAPI
from starlette.responses import StreamingResponse

from quillpost.app.container import Container
from quillpost.cli.server import UNREADABLE_MESSAGE
from quillpost.core.telemetry import REGISTRY
from quillpost.fulfillment.qr_scans.service import InvalidCode
from quillpost.web.application import create_app
from quillpost.web.middleware.methods import MethodMiddleware
from quillpost.web.public.qr_codes.endpoints import SCAN_FAILURES
from support.factories import Account
from support.raw_http import real_server, send_request
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
