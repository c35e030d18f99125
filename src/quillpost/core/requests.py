"""The request under way: its client, a fair share of scarce resources, and the shutdown of the server process."""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Condition, Lock
from time import monotonic
from typing import Final

from quillpost.core.errors import Unavailable

STOPPING_MESSAGE = "The service is stopping, and nothing was done. Try again in a few seconds."
COMMIT_SECONDS = 2.5  # sooner than the server gives up requests, by more than a commit takes


async def wait_for_any(*events: asyncio.Event, seconds: float) -> None:
    """Until one of them is set, or the time has passed."""
    waits = [asyncio.create_task(event.wait()) for event in events]
    await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    for wait in waits:
        wait.cancel()


class Shutdown:
    """Of one server process: `COMMIT_SECONDS` after it has begun no request commits, and a request that has not by
    then may be repeated. It begins on the event loop; threads ask whether it has."""

    def __init__(self) -> None:
        self._callbacks: list[Callable[[], None]] = []
        self.commits_ended = threading.Event()
        self.has_begun = False

    def on_begin(self, callback: Callable[[], None]) -> None:
        self._callbacks.append(callback)

    def begin(self) -> None:
        """Safe to call twice."""
        if not self.has_begun:
            self.has_begun = True
            for callback in self._callbacks:
                callback()
            asyncio.get_running_loop().call_later(COMMIT_SECONDS, self.commits_ended.set)

    @contextmanager
    def request_context(self) -> Iterator[None]:
        """Within the block, and in the threads it starts, commits depend on this shutdown."""
        token = current_shutdown.set(self)
        try:
            yield
        finally:
            current_shutdown.reset(token)


current_shutdown: ContextVar[Shutdown | None] = ContextVar("shutdown", default=None)

Callback = Callable[[], object]


class ClientDisconnected(Unavailable):
    def __init__(self) -> None:
        super().__init__("The client has gone, and the work was stopped.")


class ClientConnection:
    """The client of one call. `get_account` returns its account as far as known by now; `start_watching` begins to
    listen for a disconnect, once a callback waits for it."""

    def __init__(
        self, get_account: Callable[[], Hashable] = lambda: None, start_watching: Callback | None = None
    ) -> None:
        self._get_account = get_account
        self._start_watching = start_watching
        self._lock = Lock()
        self._callbacks: list[Callback] = []
        self._is_disconnected = False

    @property
    def account(self) -> Hashable:
        return self._get_account()

    @property
    def is_disconnected(self) -> bool:
        return self._is_disconnected

    def disconnect(self) -> None:
        with self._lock:
            self._is_disconnected = True
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:  # not under the lock: a waiter may hold another lock that the callback needs
            callback()

    @contextmanager
    def on_disconnect(self, callback: Callback) -> Iterator[None]:
        """Within the block `callback` is called, from any thread, when the client disconnects; it may come a moment
        after the block was left."""
        with self._lock:
            if self._is_disconnected:
                raise ClientDisconnected
            self._callbacks.append(callback)
            start_watching, self._start_watching = self._start_watching, None
        if start_watching is not None:
            start_watching()
        try:
            yield
        finally:
            with self._lock:
                if callback in self._callbacks:
                    self._callbacks.remove(callback)


NO_CLIENT: Final = ClientConnection()
_current_client: ContextVar[ClientConnection] = ContextVar("client", default=NO_CLIENT)


def current_client() -> ClientConnection:
    return _current_client.get()


@contextmanager
def client_context(client: ClientConnection) -> Iterator[None]:
    """Within the block, and in the threads it starts, this is the current client."""
    token = _current_client.set(client)
    try:
        yield
    finally:
        _current_client.reset(token)


class FairQueue:
    """A free slot goes to the account that has the fewest, and among those to the first to come."""

    def __init__(self, capacity: int, max_per_account: int, timeout_seconds: float) -> None:
        self._free_slots = capacity
        self._max_per_account = max_per_account
        self._timeout_seconds = timeout_seconds
        self._changed = Condition()
        self._active_counts: Counter[Hashable] = Counter()
        self._waiters: list[tuple[Hashable, object]] = []

    @contextmanager
    def slot(self, busy_message: str) -> Iterator[None]:
        """A slot for the current client's account; `Unavailable(busy_message)` when none is free in time."""
        account = current_client().account
        with self._changed:
            self._wait_for_slot(account, busy_message)
            self._free_slots -= 1
            self._active_counts[account] += 1
        try:
            yield
        finally:
            with self._changed:
                self._free_slots += 1
                self._active_counts[account] -= 1
                if not self._active_counts[account]:
                    del self._active_counts[account]
                self._changed.notify_all()

    def _wait_for_slot(self, account: Hashable, busy_message: str) -> None:
        waiter = (account, object())
        deadline = monotonic() + self._timeout_seconds
        self._waiters.append(waiter)
        try:
            if self._next_waiter() is waiter:
                return
            with current_client().on_disconnect(self._notify_waiters):
                while self._next_waiter() is not waiter:
                    if current_client().is_disconnected:
                        raise ClientDisconnected
                    if not self._changed.wait(deadline - monotonic()) and self._next_waiter() is not waiter:
                        raise Unavailable(busy_message)
        finally:
            self._waiters.remove(waiter)
            self._changed.notify_all()

    def _next_waiter(self) -> tuple[Hashable, object] | None:
        eligible = [one for one in self._waiters if self._active_counts[one[0]] < self._max_per_account]
        return min(eligible, key=lambda one: self._active_counts[one[0]], default=None) if self._free_slots else None

    def _notify_waiters(self) -> None:
        with self._changed:
            self._changed.notify_all()
