"""A server on loopback that does to its caller exactly what a test tells it to."""

import socket
import ssl
import struct
from collections.abc import Callable, Sequence

from aiohttp.abc import AbstractResolver, ResolveResult

from support.fake_server import FakeServer, read_head, read_rest

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
