"""Receivers that answer as the test says, and a pump before them."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta

from quillpost.app.container import Container
from quillpost.notifications.ports import PostResult
from quillpost.notifications.webhooks.dispatcher import Dispatcher

Answer = Callable[[str], Awaitable[PostResult]]


class Receivers:
    """Everyone who is told, by URL; `asked` is all that was sent, in its order, with its `headers`."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self.requests: list[tuple[str, bytes]] = []
        self.headers: list[Mapping[str, str]] = []
        self.heard = asyncio.Event()

    async def post(self, url: str, *, method: str, headers: Mapping[str, str], body: bytes) -> PostResult:
        self.requests.append((url, body))
        self.headers.append(headers)
        self.heard.set()
        return await self._answer(url)

    async def close(self) -> None: ...


async def run_dispatcher(
    container: Container, receivers: Receivers, until: Callable[[], bool], then: Callable[[], None]
) -> None:
    """Run a pump until it has come so far, then do the rest and let it end."""
    stop = asyncio.Event()
    dispatcher = Dispatcher(
        container.db, container.encryptor, receivers, container.clock, response_timeout=timedelta(seconds=15)
    )
    running = asyncio.create_task(dispatcher.run(stop))
    async with asyncio.timeout(100):
        while not until():
            await receivers.heard.wait()
            receivers.heard.clear()
    then()
    stop.set()
    await running


def responding(*statuses: int) -> Answer:
    """These answers, one after the other."""
    left = list(statuses)

    async def answer(_: str) -> PostResult:
        return PostResult(left.pop(0))

    return answer


def deliver(container: Container, *statuses: int) -> Receivers:
    """Pump until as many deliveries as there are answers have gone out; what was sent."""

    async def journey() -> Receivers:
        receivers = Receivers(responding(*statuses))
        await run_dispatcher(container, receivers, lambda: len(receivers.requests) == len(statuses), lambda: None)
        return receivers

    return asyncio.run(journey())
