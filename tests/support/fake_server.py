"""One server on loopback for the stand-ins of all that others serve: each gives it routes, or does to a caller byte by
byte what it likes."""

import contextlib
import ipaddress
import json
import re
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from pathlib import Path
from socketserver import BaseRequestHandler, ThreadingTCPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from aiohttp.abc import AbstractResolver, ResolveResult
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

FakeResponse = tuple[int, dict[str, str], bytes]
Route = Callable[..., FakeResponse | None]
"""Of a request, and of the parts of its path that the route names in braces. None cuts the connection."""

TLS_GREETING = b"\x16"


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

    def json(self) -> Any:
        return json.loads(self.body or b"{}")


class FakeServer:
    """Runs while it is entered, or from `open` to `close`; opened again it has the same port. `calls` are what came,
    `requests` the same to the byte; `answers` are given before those of the routes, in turn."""

    path = ""
    """Where in it the service is."""

    def __init__(
        self, routes: Mapping[str, Route] | None = None, *, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None
    ) -> None:
        """Each route by its method and path, such as `GET /orders/{id}`."""
        self.answers: list[FakeResponse] = []
        self.calls: list[FakeRequest] = []
        self.requests: list[bytes] = []
        self.closing = threading.Event()
        self.port = 0
        self._host, self._tls = host, tls
        self._routes = {_pattern(name): route for name, route in (routes or {}).items()}
        self._listener: ThreadingTCPServer | None = None
        self._thread = threading.Thread()

    def url(self, path: str = "", *, scheme: str = "http", host: str | None = None) -> str:
        return f"{scheme}://{host or self._host}:{self.port}{self.path}{path}"

    @property
    def place(self) -> tuple[str, int]:
        return ("127.0.0.1", self.port)

    def handle(self, request: FakeRequest) -> FakeResponse | None:
        if self.answers:
            return self.answers.pop(0)
        for pattern, route in self._routes.items():
            if match := pattern.fullmatch(f"{request.method} {request.path}"):
                return route(request, *match.groups())
        return respond(404, {})

    def hangs_up_on(self, request: FakeRequest) -> bool:
        """Whether the connection is cut in the middle of the body, which `request` does not have yet."""
        return False

    def serve(self, connection: socket.socket) -> None:
        """One request and its response; then the connection is closed."""
        head, body = read_head(connection)
        if not head.endswith(b"\r\n\r\n"):
            return
        request = _parse(head)
        if self.hangs_up_on(request):
            return
        body += read_rest(connection, int(request.headers.get("content-length", 0)) - len(body))
        request = replace(request, body=body)
        self.calls.append(request)
        self.requests.append(head + body)
        if response := self.handle(request):
            status, headers, data = response
            lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}", "Connection: close"]
            lines += [f"{name}: {value}" for name, value in headers.items()]
            lines += [f"Content-Length: {len(data)}"] if status != 204 else []
            connection.sendall("\r\n".join([*lines, "", ""]).encode("latin-1") + data)

    def open(self) -> None:
        server = self

        class Handler(BaseRequestHandler):
            def handle(self) -> None:
                with contextlib.suppress(OSError), server._secured(self.request) as connection:  # its caller may go
                    server.serve(connection)

        self.closing.clear()
        self._listener = _Listener(("127.0.0.1", self.port), Handler)
        self.port = self._listener.server_address[1]
        self._thread = threading.Thread(target=self._listener.serve_forever, args=(None,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            self.closing.set()
            listener.socket.shutdown(socket.SHUT_RDWR)  # so that it wakes
            listener.shutdown()
            self._thread.join()
            listener.server_close()

    @contextlib.contextmanager
    def _secured(self, connection: socket.socket) -> Iterator[socket.socket]:
        if self._tls is None:
            yield connection
            return
        with self._tls.wrap_socket(connection, server_side=True) as secured:
            yield secured

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class SilentServer(FakeServer):
    """Says nothing to anybody until it is closed."""

    def handle(self, request: FakeRequest) -> None:
        self.closing.wait()


class _Listener(ThreadingTCPServer):
    allow_reuse_address = daemon_threads = True
    request_queue_size = 128


def read_head(connection: socket.socket) -> tuple[bytes, bytes]:
    """Up to the empty line, and what came behind it; or what there is of somebody who speaks otherwise."""
    received = b""
    while b"\r\n\r\n" not in received and not received.startswith(TLS_GREETING):
        piece = connection.recv(65536)
        if not piece:
            return received, b""
        received += piece
    head, end, body = received.partition(b"\r\n\r\n")
    return head + end, body


def read_rest(connection: socket.socket, length: int) -> bytes:
    rest = bytearray()
    while len(rest) < length and (piece := connection.recv(65536)):
        rest += piece
    return bytes(rest)


def _parse(head: bytes) -> FakeRequest:
    first, *lines = head.decode("latin-1").split("\r\n")
    method, target, _ = first.split(" ", 2)
    pairs = (line.partition(":") for line in lines if line)
    return FakeRequest(method, target, {name.lower(): value.strip() for name, _, value in pairs})


def _pattern(route: str) -> re.Pattern[str]:
    """A part in braces takes one part of a path."""
    return re.compile(re.sub(r"\\{[a-z]+\\}", "([^/]*)", re.escape(route)))


Answer = Callable[[socket.socket], None]

# Closing with unsent or unread data and no linger time sends RST instead of FIN.
RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class ScriptedServer(FakeServer):
    """Reads a request of each connection, whatever it is, and gives the answer."""

    def __init__(self, answer: Answer, *, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(tls=tls)
        self._answer = answer

    def url(self, path: str = "/", *, scheme: str = "http", host: str | None = None) -> str:
        return super().url(path, scheme=scheme, host=host)

    def serve(self, connection: socket.socket) -> None:
        head, body = read_head(connection)
        _, _, length = head.lower().partition(b"\r\ncontent-length:")
        body += read_rest(connection, int(length.partition(b"\r\n")[0] or 0) - len(body))
        self.requests.append(head + body)
        self._answer(connection)


def reply_with(head: str, body: bytes = b"") -> Answer:
    """Answers with these header lines and this body, then closes."""
    lines = head.replace("\n", "\r\n").encode() + b"\r\nConnection: close\r\n\r\n"
    return lambda connection: connection.sendall(lines + body)


def reset_connection(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)


def stay_silent(connection: socket.socket) -> None:
    """Says nothing until the caller gives up and hangs up."""
    connection.recv(1)


def stream_forever(connection: socket.socket) -> None:
    """A body without a length that ends only when the caller hangs up."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
    while True:
        connection.sendall(b"x" * 65536)


class ScriptedResolver(AbstractResolver):
    """Gives the next of its answers each time it is asked, then repeats the last; or knows none."""

    def __init__(self, answers: Sequence[str]) -> None:
        self._answers = list(answers)
        self.requests: list[str] = []

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        self.requests.append(host)
        if not self._answers:
            raise OSError("Name or service not known")
        address = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        found = socket.AF_INET6 if ":" in address else socket.AF_INET
        return [ResolveResult(hostname=host, host=address, port=port, family=found, proto=0, flags=0)]

    async def close(self) -> None:
        """Nothing is held open."""


def self_signed(folder: Path) -> ssl.SSLContext:
    """A server's context for 127.0.0.1; `server.pem` in the folder holds its certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .sign(key, hashes.SHA256())
    )
    (folder / "server.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (folder / "server.key").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem", folder / "server.key")
    return context
