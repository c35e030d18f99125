"""Starlette's test client with one step between the threads for each call, where it takes eight."""

import asyncio
from collections.abc import MutableMapping
from typing import Any

import httpx2
from starlette.testclient import TestClient as SteppedClient

Message = MutableMapping[str, Any]


class TestClient(SteppedClient):
    __test__ = False

    def __init__(
        self,
        app: Any,
        *,
        raise_server_exceptions: bool = True,
        client: tuple[str, int] = ("testclient", 50_000),
        **how: Any,
    ) -> None:
        super().__init__(app, client=client, **how)
        self._transport = _OneStep(app, self, client, raises=raise_server_exceptions)


class _OneStep(httpx2.BaseTransport):
    """As httpx2.ASGITransport, which looks through the whole path for a library with every call."""

    def __init__(self, app: Any, client: TestClient, address: tuple[str, int], *, raises: bool) -> None:
        self._app, self._client, self._address, self._raises = app, client, address, raises

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        request.read()
        with self._client._portal_factory() as portal:
            return portal.call(self._answer, request)

    async def _answer(self, request: httpx2.Request) -> httpx2.Response:
        exchange = _Exchange(request)
        try:
            await self._app(self._scope(request), exchange.receive, exchange.send)
        except Exception:
            if self._raises:
                raise
            exchange.break_off()
        return exchange.answer()

    def _scope(self, request: httpx2.Request) -> Message:
        return {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": request.method,
            "headers": [(name.lower(), value) for name, value in request.headers.raw], "scheme": request.url.scheme,
            "path": request.url.path, "raw_path": request.url.raw_path.split(b"?")[0],
            "query_string": request.url.query, "server": (request.url.host, request.url.port),
            "client": self._address, "root_path": "",
        }  # fmt: skip


class _Exchange:
    """One request as it is handed over, and what comes back."""

    def __init__(self, request: httpx2.Request) -> None:
        self._has_body = request.method != "HEAD"
        self._to_come = [request.content] if request.content else []
        self._is_read = False
        self._start: Message | None = None
        self._body: list[bytes] = []
        self._is_over = asyncio.Event()

    async def receive(self) -> Message:
        if self._is_read:
            await self._is_over.wait()
            return {"type": "http.disconnect"}
        if self._to_come:
            return {"type": "http.request", "body": self._to_come.pop(), "more_body": True}
        self._is_read = True
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            assert self._start is None
            self._start = message
        elif message["type"] == "http.response.body":
            assert not self._is_over.is_set()
            if self._has_body:
                self._body.append(message.get("body", b""))
            if not message.get("more_body", False):
                self._is_over.set()

    def break_off(self) -> None:
        self._start = self._start or {"status": 500}
        self._is_over.set()

    def answer(self) -> httpx2.Response:
        assert self._start is not None
        assert self._is_over.is_set()
        content = httpx2.ByteStream(b"".join(self._body))
        return httpx2.Response(self._start["status"], headers=self._start.get("headers", []), stream=content)
