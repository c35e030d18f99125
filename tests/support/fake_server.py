"""Somebody else's service on loopback, which a test tells what to say."""

import json
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

FakeResponse = tuple[int, dict[str, str], bytes]


def respond(status: int, body: object = b"", **headers: str) -> FakeResponse:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return status, {name.replace("_", "-"): value for name, value in headers.items()}, data


class FakeServer(ABC):
    """Open while it is entered. `path` is where in it the service is. `answers` are given before its own, in
    turn, by whoever hears."""

    path = ""

    def __init__(self) -> None:
        self.answers: list[FakeResponse] = []
        self.closing = threading.Event()
        handler = type("Handler", (_Handler,), {"house": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}{self.path}"

    @abstractmethod
    def hear(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> FakeResponse | None:
        """What is answered; None: nothing, the line is cut. Names of headers are in small letters."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.closing.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    house: FakeServer

    def do_POST(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        given = {name.lower(): value for name, value in self.headers.items()}
        answer = self.house.hear(self.command, self.path, given, body)
        self.close_connection = True
        if answer is None:
            return
        status, headers, data = answer
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Nothing on the standard error."""
