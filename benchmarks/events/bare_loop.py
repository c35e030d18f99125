"""The same bodies, signed alike, posted to the same sink by a bare aiohttp loop.

`python -m benchmarks.events.bare_loop FILE HOW_MANY_AT_ONCE`: each line of the file is a URL, a secret, an
event's id and its body. Prints the seconds from the first request to the last answer, and those on the
processor.
"""

import asyncio
import json
import sys
import time
from collections import deque
from datetime import UTC, datetime
from pathlib import Path

import aiohttp

from quillpost.client import signatures


async def main(file: Path, at_once: int) -> None:
    left = deque(tuple(json.loads(line)) for line in file.read_text().splitlines())
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:

        async def post_on() -> None:
            while left:
                url, secret, event_id, words = left.popleft()
                body = words.encode()
                headers = signatures.sign([secret], message_id=event_id, at=datetime.now(UTC), body=body)
                headers["content-type"] = "application/json"
                async with session.post(url, headers=headers, data=body, allow_redirects=False) as answer:
                    await answer.read()
                    assert answer.status == 200

        started, spent = time.perf_counter(), time.process_time()
        await asyncio.gather(*(post_on() for _ in range(at_once)))
        print(time.perf_counter() - started, time.process_time() - spent)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
