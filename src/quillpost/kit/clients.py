"""Whoever waits for what is being done: whose call it is, and whether they are still there.

Work that takes long asks, from whatever thread it runs in. A job that nobody waits for has nobody's client.
"""

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock
from typing import Final

from quillpost.kit.errors import Unavailable

Act = Callable[[], object]


class ClientGone(Unavailable):
    """Nobody waits for the answer any more; what was being made for them has been stopped."""

    def __init__(self) -> None:
        super().__init__("The client has gone, and the work was stopped.")


class Client:
    """One call's. `account` says whose it is as far as that is known by now; `watch` begins to listen
    for their leaving, once somebody wants to know."""

    def __init__(self, account: Callable[[], Hashable] = lambda: None, watch: Act | None = None) -> None:
        self._account = account
        self._watch = watch
        self._lock = Lock()
        self._acts: list[Act] = []
        self._is_gone = False

    @property
    def account(self) -> Hashable:
        return self._account()

    @property
    def is_gone(self) -> bool:
        return self._is_gone

    def leave(self) -> None:
        """The client has gone: everything that is done for it is stopped."""
        with self._lock:
            self._is_gone = True
            acts, self._acts = self._acts, []
        for act in acts:  # not under the lock: whoever waits may hold another that the act needs
            act()

    @contextmanager
    def when_gone(self, act: Act) -> Iterator[None]:
        """Within the block `act` is called, from any thread, as soon as the client is gone; it may come
        a moment late, when the block has just been left."""
        with self._lock:
            if self._is_gone:
                raise ClientGone
            self._acts.append(act)
            watch, self._watch = self._watch, None
        if watch is not None:
            watch()
        try:
            yield
        finally:
            with self._lock:
                if act in self._acts:
                    self._acts.remove(act)


NOBODY: Final = Client()
_client: ContextVar[Client] = ContextVar("client", default=NOBODY)


def current_client() -> Client:
    return _client.get()


@contextmanager
def serving(client: Client) -> Iterator[None]:
    """What is done within the block, and in the threads that it starts, is done for this client."""
    before = _client.set(client)
    try:
        yield
    finally:
        _client.reset(before)
