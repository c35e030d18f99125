"""Many who scan at once: `python -m benchmarks.events.phones PORT CONNECTIONS FILE`, a code a line.

Each has a connection that stays open, and asks for the next code when it has its answer.
"""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

ASK = (
    "GET /q/{code} HTTP/1.1\r\n"
    "Host: go.example.com\r\n"
    "User-Agent: Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 "
    "(KHTML, like Gecko) Version/17.5 Mobile/15E148 Safari/604.1\r\n"
    "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n"
    "Accept-Language: en-US,en;q=0.9\r\n"
    "Accept-Encoding: gzip, deflate, br\r\n"
    "Sec-Fetch-Dest: document\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Site: none\r\n"
    "Connection: keep-alive\r\n\r\n"
)


async def main(port: int, connections: int, codes: list[str]) -> None:
    left = iter(codes)
    await asyncio.gather(*(scan(port, left) for _ in range(connections)))


async def scan(port: int, left: Iterator[str]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for code in left:
        writer.write(ASK.format(code=code).encode())
        answer = await reader.readuntil(b"\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 302 "), answer
        assert b"content-length: 0\r\n" in answer.lower()
    writer.close()
    await writer.wait_closed()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]).read_text().split()))
