"""How a body arrives: whole, in time, in UTF-8, and only while its client waits."""

import asyncio
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from quillpost.accounts.models import Caller
from quillpost.core.clients import Client, serving
from quillpost.core.errors import Invalid, Unavailable
from quillpost.web.api.bodies import whole_number
from quillpost.web.api.errors import HungUp, WrongBody

UTF_8 = frozenset({"utf-8", "utf8", "us-ascii", "ascii"})
"""Plain ASCII is UTF-8, too."""
FILES = ("text/csv", "text/tab-separated-values", "text/plain", "application/csv")
"""Of a body that is a file of people: its bytes say what it is written in."""


def require_utf8(content_type: str, *, or_file: bool = False) -> None:
    """415 if a body says that it is not in UTF-8; `or_file` where it may be a file by itself."""
    kind, *parameters = content_type.split(";")
    if or_file and kind.strip().lower() in FILES:
        return
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        charset = value.strip().strip("\"'").strip().lower()
        if name.strip().lower() == "charset" and charset and charset not in UTF_8:
            raise WrongBody(415, f"The body is declared as charset={charset[:40]}: send it in UTF-8.")


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


class Presence:
    """Around every request. Nobody listens for a client's leaving until some work asks for it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope.setdefault("state", {})
        line = _Line(scope, receive)
        try:
            with serving(line.client):
                await self._app(scope, line.receive, send)
        finally:
            line.hang_up()


class _Line:
    """One request's messages. Whoever listens for the next one shares it with all who do."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self._scope = scope
        self._receive = receive
        self._loop = asyncio.get_running_loop()
        self._is_whole = False
        self._next: asyncio.Task[Message] | None = None
        self.client = Client(self._account, lambda: self._loop.call_soon_threadsafe(self._listen))

    async def receive(self) -> Message:
        if self._next is not None:
            return await asyncio.shield(self._next)
        return await self._take()

    def hang_up(self) -> None:
        if self._next is not None:
            self._next.cancel()

    async def _take(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.disconnect":
            self.client.leave()
        elif not message.get("more_body"):
            self._is_whole = True
        return message

    def _listen(self) -> None:
        """Once the body is there, the next message is that the client is gone."""
        if self._is_whole and self._next is None:
            self._next = self._loop.create_task(self._take())

    def _account(self) -> Hashable:
        state = self._scope["state"]
        who = state.get("who")
        return who.account_id if isinstance(who, Caller) else state.get("account_id")
