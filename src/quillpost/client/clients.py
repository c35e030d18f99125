"""The two clients: one that blocks, one that is awaited."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Self

import httpx2

from quillpost.client.requests import Async, Sync
from quillpost.client.retries import Patience
from quillpost.client.service import Service
from quillpost.client.transport import AwaitedWire, BlockingWire, Writer

RETRIES = 12
"""Longer than a server takes to start again."""

HERE = "http://127.0.0.1:8025"


class Quillpost(Service[Sync]):
    """A connection to Quillpost, for use by several threads; close it, or use it with `with`.

    `timeout` is how many seconds the service may be silent; `deadline` how many one call may take with
    all its retries. `transport` stands in for the network, and for the environment's proxies.
    """

    def __init__(
        self,
        token: str,
        base_url: str = HERE,
        *,
        timeout: float = 30,
        retries: int = RETRIES,
        deadline: float = 120,
        transport: httpx2.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        http = httpx2.Client(transport=transport)
        self._blocking = BlockingWire(Writer(base_url, token), http, Patience(timeout, retries, deadline), sleep)
        super().__init__(self._blocking)

    def download(self, url: str) -> bytes:
        """What a signed link, such as a preview's, shows to whoever holds it: no token goes with it."""
        return self._blocking.download(url)

    def close(self) -> None:
        self._blocking.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncQuillpost(Service[Async]):
    """The same to be awaited: `await client.ping()`, `async for order in client.orders.list()`."""

    def __init__(
        self,
        token: str,
        base_url: str = HERE,
        *,
        timeout: float = 30,
        retries: int = RETRIES,
        deadline: float = 120,
        transport: httpx2.AsyncBaseTransport | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        http = httpx2.AsyncClient(transport=transport)
        self._awaited = AwaitedWire(Writer(base_url, token), http, Patience(timeout, retries, deadline), sleep)
        super().__init__(self._awaited)

    async def download(self, url: str) -> bytes:
        """What a signed link, such as a preview's, shows to whoever holds it: no token goes with it."""
        return await self._awaited.download(url)

    async def close(self) -> None:
        await self._awaited.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
