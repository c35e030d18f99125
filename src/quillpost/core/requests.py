"""The request under way: its client, a fair share of what is scarce, and the end of the server process."""

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


Callback = Callable[[], object]


class ClientDisconnected(Unavailable):
    """Nobody waits for the answer any more; what was being made for them has been stopped."""

    def __init__(self) -> None:
        super().__init__("The client has gone, and the work was stopped.")


class ClientConnection:
    """One call's. `account` says whose it is as far as that is known by now; `watch` begins to listen
    for their leaving, once somebody wants to know."""

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
        """The client has gone: everything that is done for it is stopped."""
        with self._lock:
            self._is_disconnected = True
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:  # not under the lock: whoever waits may hold another that the act needs
            callback()

    @contextmanager
    def on_disconnect(self, callback: Callback) -> Iterator[None]:
        """Within the block `callback` is called, from any thread, as soon as the client is gone; it may come
        a moment late, when the block has just been left."""
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
    """What is done within the block, and in the threads that it starts, is done for this client."""
    token = _current_client.set(client)
    try:
        yield
    finally:
        _current_client.reset(token)


class FairQueue:
    """`places` at once, of one account at most `each`.

    A place that is free goes to the account that has the fewest, and among those to whoever came first.
    """

    def __init__(self, capacity: int, max_per_account: int, timeout_seconds: float) -> None:
        self._free_slots = capacity
        self._max_per_account = max_per_account
        self._timeout_seconds = timeout_seconds
        self._changed = Condition()
        self._active_counts: Counter[Hashable] = Counter()
        self._waiters: list[tuple[Hashable, object]] = []

    @contextmanager
    def slot(self, busy_message: str) -> Iterator[None]:
        """A place for the account whose call this is; `busy_message` is what it is told when none is free for too
        long."""
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
        """Who has the next turn, if there is a place."""
        eligible = [one for one in self._waiters if self._active_counts[one[0]] < self._max_per_account]
        return min(eligible, key=lambda one: self._active_counts[one[0]], default=None) if self._free_slots else None

    def _notify_waiters(self) -> None:
        with self._changed:
            self._changed.notify_all()
