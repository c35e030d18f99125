"""Starlette's test client with one step between the threads for each call, where it takes eight."""

from typing import Any

import httpx2
from starlette.testclient import TestClient as SteppedClient


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
        asgi = httpx2.ASGITransport(app, raise_app_exceptions=raise_server_exceptions, client=client)
        self._transport = _OneStep(asgi, self)


class _OneStep(httpx2.BaseTransport):
    def __init__(self, asgi: httpx2.ASGITransport, client: TestClient) -> None:
        self._asgi, self._client = asgi, client

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        request.read()
        with self._client._portal_factory() as portal:
            return portal.call(self._answer, request)

    async def _answer(self, request: httpx2.Request) -> httpx2.Response:
        answer = await self._asgi.handle_async_request(request)
        content = await answer.aread()
        return httpx2.Response(answer.status_code, headers=answer.headers, stream=httpx2.ByteStream(content))
