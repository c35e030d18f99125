"""Heavy bodies take turns: they are read apart from the loop, few at once, one caller after the other."""

import asyncio
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Coroutine, Hashable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Final, TypeVar

from starlette.types import Receive

from quillpost.api.errors import HungUp

AT_ONCE = 1
"""Bodies that a process reads at a time. Two threads that both compute are no quicker than one, and leave
light calls a smaller share."""

Given = TypeVar("Given")
Stops = Callable[[], bool]
"""Whether whoever waits for a piece of work has gone, so that the rest of it need not be done."""

_READERS: Final = ThreadPoolExecutor(AT_ONCE, "bodies")


class Turns:
    """Who is next: one of each caller in turn, so that whoever sends a hundred bodies waits for their own."""

    def __init__(self) -> None:
        self._free = AT_ONCE
        self._waiting: OrderedDict[Hashable, deque[asyncio.Future[None]]] = OrderedDict()

    async def take(self, who: Hashable, work: Callable[[Stops], Given]) -> Given:
        """What the work gives when its turn has come. Cancelled before, it is not begun; cancelled later, it
        is asked to stop, and the next turn begins when it has."""
        await self._turn_of(who)
        stop = threading.Event()
        done = asyncio.get_running_loop().run_in_executor(_READERS, work, stop.is_set)
        done.add_done_callback(self._over)
        try:
            return await asyncio.shield(done)
        finally:
            stop.set()

    async def _turn_of(self, who: Hashable) -> None:
        if self._free:
            self._free -= 1
            return
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(who, deque()).append(place)
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self._pass_on()  # it was this one's turn at that very moment
            raise

    def _over(self, done: asyncio.Future[Any]) -> None:
        if not done.cancelled():
            done.exception()  # looked at, even where nobody waits for it any longer
        self._pass_on()

    def _pass_on(self) -> None:
        """The turn, to the first of the caller who has waited longest since having had one."""
        while self._waiting:
            who, places = self._waiting.popitem(last=False)
            place = places.popleft()
            if places:
                self._waiting[who] = places
            if not place.done():
                place.set_result(None)
                return
        self._free += 1


async def while_there(receive: Receive, work: Coroutine[Any, Any, Given]) -> Given:
    """What the work gives; `HungUp`, and the work cancelled, if the caller leaves before."""
    working, leaving = asyncio.ensure_future(work), asyncio.ensure_future(_left(receive))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done() and leaving.done():
            raise HungUp
        return await working
    finally:
        for task in (working, leaving):
            task.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await task


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
