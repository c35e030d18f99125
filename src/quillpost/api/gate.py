"""The gate before /api/v2: nobody comes in without a token, too often, or with too much."""

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from quillpost.accounts import service as accounts
from quillpost.accounts.rules import Allowance
from quillpost.api.arrival import MOST, Grow, Held, HungUp, whole_body
from quillpost.api.errors import WrongBody, response_for
from quillpost.api.leaks import InAddress
from quillpost.api.route import PREFIX
from quillpost.api.uploads import Landing, takes_file
from quillpost.kit.errors import QuillpostError, Throttled, Unauthenticated
from quillpost.parts import Parts

ROOM = 16
"""Requests at work at once, fewer than there are connections and threads. The others wait outside, holding
nothing; inside they would hold connections while waiting for threads, and threads for connections."""


class Gate:
    """Admits a request with its caller in `scope["state"]["who"]` and its whole body, or answers it."""

    def __init__(self, app: ASGIApp, parts: Parts) -> None:
        self._app = app
        self._parts = parts
        self._room = asyncio.Semaphore(ROOM)
        self._held = Held(MOST * parts.limits.body_bytes)
        self._landing = Landing(largest=parts.limits.import_bytes, bounds=parts.limits.bounds)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not _is_guarded(scope["path"]):
            await self._app(scope, receive, send)
            return
        with self._held.share() as grow, closing_upload(scope):
            try:
                body = await self._let_in(scope, receive, grow)
            except HungUp:
                return
            except (QuillpostError, WrongBody) as refusal:
                await response_for(refusal)(scope, receive, send)
                return
            await self._serve(scope, _replayed(body, receive), send)

    async def _let_in(self, scope: Scope, receive: Receive, grow: Grow) -> bytes:
        async with self._room:
            allowance = await self._admit(scope)
        if allowance.is_spent:
            raise Throttled(retry_after=allowance.resets_in)
        if scope["state"].get("leaked"):
            raise InAddress
        # A body that trickles in keeps nobody waiting but its sender.
        if takes_file(scope):
            scope["state"]["upload"] = await self._landing.whole(scope, receive)
            return b""
        return await whole_body(scope, receive, largest=self._parts.limits.body_bytes, grow=grow)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with AsyncExitStack() as stay:
            await stay.enter_async_context(self._room)

            async def send_outside(message: Message) -> None:
                await stay.aclose()  # all is done: whoever reads slowly keeps nobody else out
                await send(message)

            await self._app(scope, receive, send_outside)

    async def _admit(self, scope: Scope) -> Allowance:
        state = scope.setdefault("state", {})
        limit = self._parts.limits.calls_a_minute
        try:
            token = _bearer(Headers(scope=scope))
            who, allowance = await run_in_threadpool(
                accounts.authenticate, self._parts.db, token, limit=limit, now=self._parts.clock()
            )
        except Unauthenticated:
            address = scope["client"][0] if scope.get("client") else "unknown"
            allowance = await run_in_threadpool(accounts.count_stranger, self._parts.db, address, limit=limit)
            state["allowance"] = allowance
            if allowance.is_spent:
                raise Throttled(retry_after=allowance.resets_in) from None
            if state.get("leaked"):
                raise InAddress from None
            raise
        state["who"], state["allowance"] = who, allowance
        return allowance


@contextmanager
def closing_upload(scope: Scope) -> Iterator[None]:
    """A file that came with the request is gone when the request is done with."""
    try:
        yield
    finally:
        upload = scope.get("state", {}).get("upload")
        if upload is not None:
            upload.close()


def _replayed(body: bytes, receive: Receive) -> Receive:
    """The body in one piece, and after it whatever else the caller does."""
    given = False

    async def replay() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


def _is_guarded(path: str) -> bool:
    return path == PREFIX or path.startswith(PREFIX + "/")


def _bearer(headers: Headers) -> str:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise Unauthenticated
    return token.strip()
