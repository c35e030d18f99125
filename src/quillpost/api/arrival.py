"""How a body arrives: whole or not at all, in time, and no more of them at once than the process can hold."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from starlette.datastructures import Headers
from starlette.types import Receive, Scope

from quillpost.api.bodies import whole_number
from quillpost.api.charsets import require_utf8
from quillpost.api.errors import HungUp as HungUp
from quillpost.api.errors import WrongBody
from quillpost.kit.errors import Invalid, Unavailable

SMALL = 64_000
"""Bytes of a body that are not counted, so that ordinary calls pass however many large ones there are."""

MOST = 10
"""Bodies of the largest size that one process holds at once."""

PATIENCE = 60.0
"""Seconds that any body may take, beside those that `SLOWEST` gives it."""

SLOWEST = 16_000
"""Bytes a second. A poor mobile line is faster; whoever is slower only keeps our memory."""

FASTEST = 100_000_000
"""Bytes a second of all large bodies together. Hardly a line is faster; whoever calls from the same machine
would keep the loop from everybody else."""

SHORTEST_WAIT = 0.005
"""Seconds: what is ahead by less goes on at once."""

Grow = Callable[[int], None]


class Held:
    """The bytes of all large bodies whose requests are not done with."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._bytes = 0

    @contextmanager
    def share(self) -> Iterator[Grow]:
        """Takes one body's size as it grows; forgets that body in the end."""
        mine = 0

        def grow(size: int) -> None:
            nonlocal mine
            if size <= SMALL:
                return
            if self._bytes - mine + size > self._most:
                raise Unavailable("Too many large bodies arrive at once. Send this one again in a moment.")
            self._bytes += size - mine
            mine = size

        try:
            yield grow
        finally:
            self._bytes -= mine


class Pace:
    """Holds large bodies back that come faster than the loop should read."""

    def __init__(self) -> None:
        self._free_at = 0.0

    async def keep(self, size: int) -> None:
        now = asyncio.get_running_loop().time()
        self._free_at = max(self._free_at, now) + size / FASTEST
        if self._free_at - now > SHORTEST_WAIT:
            await asyncio.sleep(self._free_at - now)


async def whole_body(
    scope: Scope, receive: Receive, *, largest: int, grow: Grow, pace: Pace | None = None
) -> bytes:
    """The body, cut off at the limit whatever length it claims to have."""
    headers = Headers(scope=scope)
    declared = whole_number(headers.get("content-length", "")) or 0
    if declared or "transfer-encoding" in headers:
        require_utf8(headers.get("content-type", ""))
    if declared > largest:
        raise too_large(largest)
    pieces, size = [], 0
    begun = asyncio.get_running_loop().time()
    try:
        async with asyncio.timeout_at(begun + PATIENCE) as limit:
            is_whole = False
            while not is_whole:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise HungUp
                pieces.append(message.get("body", b""))
                size += len(pieces[-1])
                if size > largest:
                    raise too_large(largest)
                grow(size)
                limit.reschedule(begun + PATIENCE + size / SLOWEST)
                is_whole = not message.get("more_body")
                if pace is not None and size > SMALL and not is_whole:
                    await pace.keep(len(pieces[-1]))
    except TimeoutError:
        raise WrongBody(408) from None
    if size < declared:
        raise Invalid({"body": ["The body ends before its Content-Length: send it whole."]})
    return b"".join(pieces)


def too_large(largest: int) -> WrongBody:
    return WrongBody(413, f"The body is larger than this service accepts here ({largest:,} bytes).")
