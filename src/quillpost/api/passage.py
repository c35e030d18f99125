"""One request on its way in: it waits for its turn, gives its place up while its body trickles in, and leaves
when the first of the answer goes out or when its caller has hung up."""

import asyncio
from collections import deque
from collections.abc import Hashable

from starlette.types import Message, Receive, Send

from quillpost.api.admission import Admission
from quillpost.api.arrival import HungUp


class Passage:
    def __init__(
        self, admission: Admission, whose: Hashable, receive: Receive, *, patience: float = 1
    ) -> None:
        self._place = admission.place(whose, patience=patience)
        self._receive = receive
        self._come: deque[Message] = deque()
        """What came while we listened whether the caller is still there."""
        self._awaits_body = True

    async def enter(self) -> None:
        """Raises `Overloaded` where it takes too long, and `HungUp` when the caller has."""
        if self._place.enter_at_once():
            return
        listening = asyncio.ensure_future(self._until_gone())
        listening.add_done_callback(self._note_end)
        try:
            await self._place.enter()
        finally:
            listening.cancel()

    async def become(self, whose: Hashable) -> None:
        """It has turned out whose it is: it goes on among those of that caller."""
        self._place.become(whose)
        await self.enter()

    def leave(self) -> None:
        self._place.leave()

    async def receive(self) -> Message:
        """The next piece of the body. What is not there yet is awaited outside."""
        if not self._awaits_body:
            return await self._next()
        message = await self._awaited()
        if not message.get("more_body"):
            self._awaits_body = False
            if message["type"] != "http.disconnect":
                await self.enter()
        return message

    def sending(self, send: Send) -> Send:
        """All is done when the answer begins: whoever reads slowly keeps nobody else out."""

        async def send_outside(message: Message) -> None:
            self._awaits_body = False
            self.leave()
            await send(message)

        return send_outside

    async def _awaited(self) -> Message:
        piece = asyncio.ensure_future(self._next())
        try:
            await asyncio.sleep(0)
            if not piece.done():
                self.leave()
            return await piece
        finally:
            piece.cancel()

    def _note_end(self, listening: asyncio.Future[None]) -> None:
        if not listening.cancelled() and listening.exception() is None:
            self._place.give_up(HungUp)

    async def _next(self) -> Message:
        return self._come.popleft() if self._come else await self._receive()

    async def _until_gone(self) -> None:
        """Returns when the caller hangs up. Who still sends a body is not read any further, and so it cannot
        be told: that is found out when its turn has come."""
        if not self._come:
            self._come.append(await self._receive())
        last = self._come[-1]
        if last["type"] == "http.request" and not last.get("more_body"):
            last = await self._receive()
            self._come.append(last)
        if last["type"] != "http.disconnect":
            await asyncio.Event().wait()
