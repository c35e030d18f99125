"""How a body arrives: whole, in time, in UTF-8, and only while its client waits."""

import asyncio
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from quillpost.accounts.models import Caller
from quillpost.core.errors import Invalid, Unavailable
from quillpost.core.requests import ClientConnection, client_context
from quillpost.web.api.errors import RequestAborted, UnreadableBody
from quillpost.web.dependencies import parse_digits

UTF_8_CHARSETS = frozenset({"utf-8", "utf8", "us-ascii", "ascii"})
FILE_CONTENT_TYPES = ("text/csv", "text/tab-separated-values", "text/plain", "application/csv")
"""Of a body that is a file of people: its bytes say what it is written in."""


def require_utf8(content_type: str, *, allow_file: bool = False) -> None:
    """415 if a body says that it is not in UTF-8; `allow_file` where it may be a file by itself."""
    kind, *parameters = content_type.split(";")
    if allow_file and kind.strip().lower() in FILE_CONTENT_TYPES:
        return
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        charset = value.strip().strip("\"'").strip().lower()
        if name.strip().lower() == "charset" and charset and charset not in UTF_8_CHARSETS:
            raise UnreadableBody(415, f"The body is declared as charset={charset[:40]}: send it in UTF-8.")


MAX_UNCOUNTED_BYTES = 64_000
"""Bytes of a body that are not counted, so that ordinary calls pass however many large ones there are."""
MAX_LARGE_BODIES = 10
BODY_TIMEOUT_SECONDS = 60.0
"""Seconds that any body may take, beside those that `MIN_BYTES_PER_SECOND` gives it."""
MIN_BYTES_PER_SECOND = 16_000
"""A poor mobile line is faster."""
MAX_BYTES_PER_SECOND = 100_000_000
"""Of all large bodies together: a caller on the same machine must not keep the loop from the others."""
MIN_WAIT_SECONDS = 0.005

ReportSize = Callable[[int], None]


class LargeBodyBudget:
    """The bytes of all large bodies whose requests are not finished."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0

    @contextmanager
    def reserve(self) -> Iterator[ReportSize]:
        """Takes one body's size as it grows, and releases it in the end."""
        reserved_bytes = 0

        def report_size(size: int) -> None:
            nonlocal reserved_bytes
            if size <= MAX_UNCOUNTED_BYTES:
                return
            if self._bytes - reserved_bytes + size > self._max_bytes:
                raise Unavailable("Too many large bodies arrive at once. Send this one again in a moment.")
            self._bytes += size - reserved_bytes
            reserved_bytes = size

        try:
            yield report_size
        finally:
            self._bytes -= reserved_bytes


class BodyReadThrottle:
    """Holds large bodies back that come faster than the loop should read."""

    def __init__(self) -> None:
        self._free_at = 0.0

    async def wait(self, size: int) -> None:
        now = asyncio.get_running_loop().time()
        self._free_at = max(self._free_at, now) + size / MAX_BYTES_PER_SECOND
        if self._free_at - now > MIN_WAIT_SECONDS:
            await asyncio.sleep(self._free_at - now)


async def read_whole_body(
    scope: Scope, receive: Receive, *, max_bytes: int, report_size: ReportSize, throttle: BodyReadThrottle | None = None
) -> bytes:
    """The body, cut off at the limit whatever length it claims to have."""
    headers = Headers(scope=scope)
    declared_length = parse_digits(headers.get("content-length", "")) or 0
    if declared_length or "transfer-encoding" in headers:
        require_utf8(headers.get("content-type", ""))
    if declared_length > max_bytes:
        raise body_too_large(max_bytes)
    chunks, size = [], 0
    started_at = asyncio.get_running_loop().time()
    try:
        async with asyncio.timeout_at(started_at + BODY_TIMEOUT_SECONDS) as timeout:
            is_complete = False
            while not is_complete:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise RequestAborted
                chunks.append(message.get("body", b""))
                size += len(chunks[-1])
                if size > max_bytes:
                    raise body_too_large(max_bytes)
                report_size(size)
                timeout.reschedule(started_at + BODY_TIMEOUT_SECONDS + size / MIN_BYTES_PER_SECOND)
                is_complete = not message.get("more_body")
                if throttle is not None and size > MAX_UNCOUNTED_BYTES and not is_complete:
                    await throttle.wait(len(chunks[-1]))
    except TimeoutError:
        raise UnreadableBody(408) from None
    if size < declared_length:
        raise Invalid({"body": ["The body ends before its Content-Length: send it whole."]})
    return b"".join(chunks)


def body_too_large(max_bytes: int) -> UnreadableBody:
    return UnreadableBody(413, f"The body is larger than this service accepts here ({max_bytes:,} bytes).")


class DisconnectMiddleware:
    """Around every request. Nothing listens for a disconnect until some work asks for it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope.setdefault("state", {})
        messages = _RequestMessages(scope, receive)
        try:
            with client_context(messages.client):
                await self._app(scope, messages.receive, send)
        finally:
            messages.close()


class _RequestMessages:
    """One request's messages. All who wait for the next one share it."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self._scope = scope
        self._receive = receive
        self._loop = asyncio.get_running_loop()
        self._is_complete = False
        self._next_message: asyncio.Task[Message] | None = None
        self.client = ClientConnection(
            self._account_id, lambda: self._loop.call_soon_threadsafe(self._listen_for_disconnect)
        )

    async def receive(self) -> Message:
        if self._next_message is not None:
            return await asyncio.shield(self._next_message)
        return await self._receive_next()

    def close(self) -> None:
        if self._next_message is not None:
            self._next_message.cancel()

    async def _receive_next(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.disconnect":
            self.client.disconnect()
        elif not message.get("more_body"):
            self._is_complete = True
        return message

    def _listen_for_disconnect(self) -> None:
        """Once the body is there, the next message is that the client is gone."""
        if self._is_complete and self._next_message is None:
            self._next_message = self._loop.create_task(self._receive_next())

    def _account_id(self) -> Hashable:
        state = self._scope["state"]
        caller = state.get("caller")
        return caller.account_id if isinstance(caller, Caller) else state.get("account_id")
