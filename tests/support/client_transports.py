"""Clients of a service in the test's own process, and of servers that follow a script."""

import asyncio
import inspect
import json
from collections.abc import Callable
from operator import attrgetter
from typing import Any

import httpx2

from quillpost.client import AsyncQuillpost, Quillpost
from support.fake_server import Answer
from support.test_client import TestClient

BASE = "http://quillpost.test"


class InProcessTransport(httpx2.BaseTransport):
    """Carries a client's requests to the application behind a test client."""

    def __init__(self, http: TestClient) -> None:
        self._http = http

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        answer = self._http.send(request)
        return httpx2.Response(answer.status_code, headers=answer.headers, content=answer.content)


class LossyTransport(InProcessTransport):
    """The service does what it is asked, but its first answers never arrive."""

    def __init__(self, http: TestClient, lost: int) -> None:
        super().__init__(http)
        self._left = lost

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        answer = super().handle_request(request)
        if self._left:
            self._left -= 1
            raise httpx2.ReadError("The connection was cut.", request=request)
        return answer


Call = Callable[..., Any]


def call_blocking(url: str, name: str, *args: Any, slept: list[float], **how: Any) -> Any:
    """Make the call of this name, such as `send.postcard`; pauses are noted instead of made."""
    fields = how.pop("fields", {})
    # Nobody here speaks TLS, and reading the machine's certificates takes longer than the call.
    network = httpx2.HTTPTransport(verify=False)
    with Quillpost("a-token", url, transport=network, sleep=slept.append, **how) as client:
        answer = attrgetter(name)(client)(*args, **fields)
        return answer if isinstance(answer, dict | list | bytes) else list(answer)


def call_awaited(url: str, name: str, *args: Any, slept: list[float], **how: Any) -> Any:
    """The same with the other client."""
    fields = how.pop("fields", {})

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    async def call() -> Any:
        network = httpx2.AsyncHTTPTransport(verify=False)
        async with AsyncQuillpost("a-token", url, transport=network, sleep=sleep, **how) as client:
            answer = attrgetter(name)(client)(*args, **fields)
            return await answer if inspect.isawaitable(answer) else [row async for row in answer]

    return asyncio.run(call())


def respond_with(status: int, body: Any = None, **headers: str) -> Answer:
    """An answer of JSON with these headers."""
    content = json.dumps({"message": "pong"} if body is None else body).encode()
    lines = [f"HTTP/1.1 {status} Whatever", f"Content-Length: {len(content)}", "Connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return lambda connection: connection.sendall("\r\n".join([*lines, "", ""]).encode() + content)


def disconnect(_connection: object) -> None:
    """Not a word."""


def scripted_transport(*script: Answer) -> Answer:
    """One answer after the other, and then the last one for ever."""
    left = list(script)
    return lambda connection: (left.pop(0) if len(left) > 1 else left[0])(connection)


def header(request: bytes, name: str) -> str:
    lines = request.split(b"\r\n\r\n")[0].decode().split("\r\n")[1:]
    return {found.lower(): value for found, _, value in (line.partition(": ") for line in lines)}[name.lower()]
