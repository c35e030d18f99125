"""Whether a call's client still waits for its answer: known to whatever is done for it, in any thread."""

import asyncio
from collections.abc import Hashable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from quillpost.accounts.rules import Caller
from quillpost.kit.clients import Client, serving


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
