"""A receiver that does as little as one can: `python -m benchmarks.events.sink PORT`.

Every request is answered at once, but for those to a path that starts with `/hang`: they never are.
"""

import asyncio
import sys

_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
_END_OF_HEAD = b"\r\n\r\n"
_LENGTH = b"content-length:"


class Sink(asyncio.Protocol):
    def __init__(self) -> None:
        self._received = bytearray()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        assert self._transport is not None
        self._received += data
        while (length := _length_of_first(self._received)) is not None:
            is_silent = self._received[: len(b"POST /hang")] == b"POST /hang"
            del self._received[:length]
            if not is_silent:
                self._transport.write(_ANSWER)


def _length_of_first(received: bytearray) -> int | None:
    """Of the first request, if it has come whole."""
    head = received.find(_END_OF_HEAD)
    if head < 0:
        return None
    at = received[:head].lower().find(_LENGTH)
    size = int(received[at + len(_LENGTH) : head].split(b"\r\n", 1)[0]) if at >= 0 else 0
    whole = head + len(_END_OF_HEAD) + size
    return whole if len(received) >= whole else None


async def main(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(Sink, "127.0.0.1", port, backlog=2_000)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
