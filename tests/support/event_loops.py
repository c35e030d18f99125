"""Tests that are stories of several tasks in one event loop."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import ParamSpec

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
