"""A server on loopback that does to its caller exactly what a test tells it to."""

import contextlib
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Self

from aiohttp.abc import AbstractResolver, ResolveResult

Answer = Callable[[socket.socket], None]

# Closing with unsent or unread data and no linger time sends RST instead of FIN.
RESET_ON_CLOSE = struct.pack("ii", 1, 0)
TLS_GREETING = b"\x16"


class ScriptedServer:
    """Takes connections one after another, reads each request and gives the answer."""

    def __init__(self, answer: Answer, *, tls: ssl.SSLContext | None = None) -> None:
        self._answer = answer
        self._tls = tls
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self.port: int = self._listener.getsockname()[1]
        self.requests: list[bytes] = []

    @property
    def place(self) -> tuple[str, int]:
        return ("127.0.0.1", self.port)

    def url(self, path: str = "/", *, scheme: str = "http", host: str = "127.0.0.1") -> str:
        return f"{scheme}://{host}:{self.port}{path}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with contextlib.suppress(OSError), self._wrapped(connection) as wrapped:
                self.requests.append(_read_request(wrapped))
                self._answer(wrapped)

    @contextlib.contextmanager
    def _wrapped(self, connection: socket.socket) -> Iterator[socket.socket]:
        with connection:
            if self._tls is None:
                yield connection
                return
            with self._tls.wrap_socket(connection, server_side=True) as wrapped:
                yield wrapped


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


def _read_request(connection: socket.socket) -> bytes:
    request = b""
    while b"\r\n\r\n" not in request:
        received = connection.recv(65536)
        if not received:
            return request
        request += received
        if request.startswith(TLS_GREETING):
            return request
    head, _, body = request.partition(b"\r\n\r\n")
    length = 0
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            length = int(line.partition(b":")[2])
    while len(body) < length:
        body += connection.recv(65536)
    return head + b"\r\n\r\n" + body
