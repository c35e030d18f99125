"""A real server, requests that no HTTP library would write, and an application behind nothing but the API's gate."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event, Thread
from typing import Any

import uvicorn
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from quillpost.app.container import Container
from quillpost.cli.server import QuillpostProtocol
from quillpost.web.middleware.admission import Admission
from quillpost.web.middleware.auth import AuthMiddleware, IdentityCache
from quillpost.web.middleware.load_shedder import LoadSheddingMiddleware


@dataclass(frozen=True, slots=True)
class RawResponse:
    status: int
    headers: dict[str, str]
    body: bytes


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()


@contextmanager
def real_server(app: ASGIApp) -> Iterator[int]:
    """The application behind the server that the product runs; gives its port."""
    listener = socket.create_server(("127.0.0.1", 0))
    how: dict[str, Any] = {"log_config": None, "access_log": False, "server_header": False}
    server = _Server(uvicorn.Config(app, http=QuillpostProtocol, **how))
    thread = Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        assert server.listening.wait(30)
        yield int(listener.getsockname()[1])
    finally:
        server.should_exit = True
        thread.join(30)
        listener.close()


def send_request(port: int, request: bytes) -> RawResponse:
    """Send exactly these bytes and read until the server has no more to say."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as line:
        line.sendall(request)
        answer = b""
        while piece := line.recv(65_536):
            answer += piece
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    pairs = (each.partition(": ") for each in lines)
    return RawResponse(int(first.split()[1]), {name.lower(): value for name, _, value in pairs}, body)


def abort_request(app: ASGIApp, head: bytes, body: bytes) -> None:
    """Send exactly these bytes and, when the application has them all, be gone. Returns when it is done."""
    has_all, is_done = Event(), Event()

    async def watched(scope: Scope, receive: Receive, send: Send) -> None:
        arrived = 0

        async def count() -> Message:
            nonlocal arrived
            message = await receive()
            arrived += len(message.get("body", b""))
            if arrived == len(body):
                has_all.set()
            return message

        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        if not body:
            has_all.set()
        try:
            await app(scope, count, send)
        finally:
            is_done.set()

    with real_server(watched) as port:
        with socket.create_connection(("127.0.0.1", port), timeout=20) as line:
            line.sendall(head + body)
            assert has_all.wait(20)
        assert is_done.wait(20)


def build_guarded_app(app: ASGIApp, container: Container, admission: Admission | None = None) -> LoadSheddingMiddleware:
    limits, identities = container.limits, IdentityCache("quillpost_session")
    usual = Admission(max_per_caller=limits.calls_at_once, max_wait_seconds=limits.wait_seconds)
    return LoadSheddingMiddleware(AuthMiddleware(app, container, identities), admission or usual, identities)
