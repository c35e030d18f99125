"""Waiting for what other threads, processes or tasks bring about, where there is no event to wait for."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import ParamSpec

from support.rows import Where, scalar


def wait_until(is_so: Callable[[], bool], *, seconds: float = 20) -> None:
    """Return as soon as it is so; fail when it has not become so in time."""
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, "It did not come to pass."
        time.sleep(0.02)


def is_lock_awaited(where: Where) -> bool:
    """Whether anybody on this server waits for somebody else."""
    return bool(scalar(where, "select count(*) from pg_locks where not granted"))


Given = ParamSpec("Given")


def in_time(story: Callable[Given, Awaitable[None]]) -> Callable[Given, None]:
    """A test in an event loop of its own, which hangs no longer than a minute."""

    @wraps(story)
    def test(*args: Given.args, **kwargs: Given.kwargs) -> None:
        async def within_time() -> None:
            async with asyncio.timeout(60):
                await story(*args, **kwargs)

        asyncio.run(within_time())

    return test


async def until(is_so: Callable[[], bool]) -> None:
    while not is_so():
        await asyncio.sleep(0.001)
