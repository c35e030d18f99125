"""One caller who asks far too much, as a process of its own: so many connections, each calling again as soon
as it is answered, whatever it is told.

`python -m benchmarks.overload.flood PORT TOKEN KIND CONNECTIONS` calls until its input ends, and then says in
JSON what it was answered.
"""

import asyncio
import json
import sys
import time
from collections import Counter
from itertools import count

_NUMBERS = count(1_000)


class Flood:
    def __init__(self, port: int, token: str, kind: str) -> None:
        self._port, self._token, self._kind = port, token, kind
        self.answers: Counter[str] = Counter()
        self.waits: list[float] = []

    async def call_on_and_on(self) -> None:
        """On one connection, which is opened anew when it breaks."""
        while True:
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
                while True:
                    await self._call(reader, writer)
            except OSError:
                self.answers["broken"] += 1
                await asyncio.sleep(0.05)

    async def _call(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        started = time.perf_counter()
        writer.write(request(self._kind, self._token, next(_NUMBERS)))
        status, headers = await read_answer(reader)
        self.waits.append(time.perf_counter() - started)
        promised = " with Retry-After" if status == 503 and b"retry-after:" in headers else ""
        self.answers[f"{status}{promised}"] += 1


async def read_answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """The status, and the head in lower case; the body is passed over."""
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        _, _, after = head.partition(b"content-length:")
        await reader.readexactly(int(after.split(b"\r\n", 1)[0] or 0))
    except (asyncio.IncompleteReadError, ValueError) as cut:
        raise ConnectionResetError from cut
    return int(head.split(b" ", 2)[1]), head


def send_of(number: int) -> dict[str, object]:
    """To somebody whom no other goes to."""
    person = {"name": f"Ada {number}", "address": f"{number} Main St", "city": "Austin", "province": "TX"}
    return {"recipients": [person | {"postal_code": "78701"}], "message": "Hello!"}


def request(kind: str, token: str, number: int) -> bytes:
    """A send, or the first page of orders."""
    if kind == "sends":
        body = json.dumps(send_of(number)).encode()
        line = "POST /api/v2/send/postcard"
    else:
        body, line = b"", "GET /api/v2/orders/list"
    headers = {
        "Host": "bench",
        "Authorization": f"Bearer {token}",
        "Content-Type": "application/json",
        "Content-Length": len(body),
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"{line} HTTP/1.1\r\n{head}\r\n".encode() + body


async def _until_input_ends(flood: Flood, connections: int) -> float:
    started = time.perf_counter()
    callers = [asyncio.create_task(flood.call_on_and_on()) for _ in range(connections)]
    await asyncio.to_thread(sys.stdin.read)
    seconds = time.perf_counter() - started
    for caller in callers:
        caller.cancel()
    await asyncio.gather(*callers, return_exceptions=True)
    return seconds


def main(port: str, token: str, kind: str, connections: str) -> None:
    flood = Flood(int(port), token, kind)
    seconds = asyncio.run(_until_input_ends(flood, int(connections)))
    waits = sorted(flood.waits) or [0.0]
    print(json.dumps({"seconds": seconds, "answers": flood.answers, "longest": waits[-1]}))


if __name__ == "__main__":
    main(*sys.argv[1:])
