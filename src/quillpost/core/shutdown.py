"""The end of a server process: what is under way is finished, or leaves nothing behind.

When it begins, nobody new is let in, streams end and work stops. A while later no request commits any more:
one that has not by then is told to come again, and can be, for it has done nothing. Whoever has committed is
answered.
"""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from quillpost.core.errors import Unavailable

STOPPING_MESSAGE = "The service is stopping, and nothing was done. Try again in a few seconds."


COMMIT_SECONDS = 2.5
"""After its beginning no request commits: sooner than the server gives requests up, by more than a commit
takes."""


class Shutdown:
    """Of one server process. It begins on the event loop; threads ask whether it has come."""

    def __init__(self) -> None:
        self._callbacks: list[Callable[[], None]] = []
        self._commits_ended = threading.Event()
        self.has_begun = False

    def on_begin(self, callback: Callable[[], None]) -> None:
        """What is done when it begins."""
        self._callbacks.append(callback)

    def begin(self) -> None:
        """Safe to call twice."""
        if not self.has_begun:
            self.has_begun = True
            for callback in self._callbacks:
                callback()
            asyncio.get_running_loop().call_later(COMMIT_SECONDS, self._commits_ended.set)

    @contextmanager
    def request_context(self) -> Iterator[None]:
        """Meanwhile, in threads too: this is a request, and so its time may be over."""
        token = _current_shutdown.set(self)
        try:
            yield
        finally:
            _current_shutdown.reset(token)

    def require_commit_time(self) -> None:
        if self._commits_ended.is_set():
            raise Unavailable(STOPPING_MESSAGE)


_current_shutdown: ContextVar[Shutdown | None] = ContextVar("shutdown", default=None)


def require_commit_allowed() -> None:
    """Asked before every commit: `Unavailable` where this is a request whose time is over."""
    if (shutdown := _current_shutdown.get()) is not None:
        shutdown.require_commit_time()
