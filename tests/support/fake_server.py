"""An HTTP server on loopback for the stand-ins of other people's services. Each handles requests its own way."""

import contextlib
import json
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

FakeResponse = tuple[int, dict[str, str], bytes]


def respond(status: int, body: object = b"", **headers: str) -> FakeResponse:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return status, {name.replace("_", "-"): value for name, value in headers.items()}, data


@dataclass(frozen=True)
class FakeRequest:
    """`target` is the path with its query; names of headers are in lower case."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes = b""

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def query(self) -> str:
        return urlsplit(self.target).query


class FakeServer(ABC):
    """Runs while it is entered, or from `open` to `close`; opened again it has the same port. `path` is where in it
    the service is. `answers` are for subclasses to give before their own, in turn."""

    path = ""
    host = "127.0.0.1"

    def __init__(self) -> None:
        self.answers: list[FakeResponse] = []
        self.closing = threading.Event()
        self.port = 0
        self._handler = type("Handler", (_Handler,), {"server_stub": self})
        self._server: ThreadingHTTPServer | None = None
        self._thread = threading.Thread()

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}{self.path}"

    @abstractmethod
    def handle(self, request: FakeRequest) -> FakeResponse | None:
        """The response; None cuts the connection."""

    def hangs_up_on(self, request: FakeRequest) -> bool:
        """Whether the connection is cut in the middle of the body, which `request` does not have yet."""
        return False

    def open(self) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), self._handler)
        self.port = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            self.closing.set()
            server.shutdown()
            self._thread.join()
            server.server_close()

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Handler(BaseHTTPRequestHandler):
    server_stub: FakeServer

    def do_GET(self) -> None:
        stub = self.server_stub
        self.close_connection = True
        headers = {name.lower(): value for name, value in self.headers.items()}
        if stub.hangs_up_on(FakeRequest(self.command, self.path, headers)):
            self.rfile.read(10)
            return
        body = self.rfile.read(int(headers.get("content-length", 0)))
        response = stub.handle(FakeRequest(self.command, self.path, headers, body))
        if response is None:
            return
        status, extra_headers, data = response
        with contextlib.suppress(OSError):  # the caller may have gone
            self.send_response(status)
            for name, value in extra_headers.items():
                self.send_header(name, value)
            if status != 204:
                self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    do_POST = do_PUT = do_GET  # noqa: N815

    def log_message(self, *_: Any) -> None:
        """Tests are quiet."""
