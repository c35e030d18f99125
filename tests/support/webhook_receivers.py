"""Receivers that answer as the test says, and a dispatcher before them."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
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

    @property
    def counts(self) -> Counter[str]:
        return Counter(url for url, _ in self.requests)

    async def wait_until(self, is_so: Callable[[], bool]) -> None:
        async with asyncio.timeout(100):
            while not is_so():
                await self.heard.wait()
                self.heard.clear()

    async def post(self, url: str, *, method: str, headers: Mapping[str, str], body: bytes) -> PostResult:
        self.requests.append((url, body))
        self.headers.append(headers)
        self.heard.set()
        return await self._answer(url)

    async def close(self) -> None: ...


async def answer_ok(_: str) -> PostResult:
    return PostResult(200)


def responding(*statuses: int) -> Answer:
    """These answers, one after the other."""
    left = list(statuses)

    async def answer(_: str) -> PostResult:
        return PostResult(left.pop(0))

    return answer


def make_dispatcher(container: Container, receivers: Receivers) -> Dispatcher:
    within = timedelta(seconds=15)
    return Dispatcher(container.db, container.encryptor, receivers, container.clock, response_timeout=within)


@asynccontextmanager
async def dispatching(
    container: Container, receivers: Receivers, *, dispatchers: int = 1
) -> AsyncIterator[asyncio.Event]:
    """Dispatchers at work, which come to their end after it: what stops them before."""
    stop = asyncio.Event()
    running = [asyncio.create_task(make_dispatcher(container, receivers).run(stop)) for _ in range(dispatchers)]
    yield stop
    stop.set()
    await asyncio.gather(*running)


def run_until(
    container: Container, answer: Answer, until: Callable[[Receivers], bool], *, dispatchers: int = 1
) -> Receivers:
    """Run a dispatcher until the receivers have heard so much, and let it end."""

    async def journey() -> Receivers:
        receivers = Receivers(answer)
        async with dispatching(container, receivers, dispatchers=dispatchers):
            await receivers.wait_until(lambda: until(receivers))
        return receivers

    return asyncio.run(journey())


def deliver(container: Container, *statuses: int) -> Receivers:
    """Dispatch until as many deliveries as there are answers have gone out; what was sent."""
    return run_until(container, responding(*statuses), lambda receivers: len(receivers.requests) == len(statuses))
