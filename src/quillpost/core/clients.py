"""Who a call is for, whether they still wait, and a fair share of what is scarce.

Work that takes long asks, from whatever thread it runs in. A job that nobody waits for has nobody's client.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Condition, Lock
from time import monotonic
from typing import Final

from quillpost.core.errors import Unavailable

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


class FairTurns:
    """`places` at once, of one account at most `each`.

    A place that is free goes to the account that has the fewest, and among those to whoever came first.
    """

    def __init__(self, places: int, each: int, patience: float) -> None:
        self._free = places
        self._each = each
        self._patience = patience
        self._changed = Condition()
        self._working: Counter[Hashable] = Counter()
        self._waiting: list[tuple[Hashable, object]] = []

    @contextmanager
    def turn(self, busy: str) -> Iterator[None]:
        """A place for the account whose call this is; `busy` is what it is told when none is free for too
        long."""
        account = current_client().account
        with self._changed:
            self._wait(account, busy)
            self._free -= 1
            self._working[account] += 1
        try:
            yield
        finally:
            with self._changed:
                self._free += 1
                self._working[account] -= 1
                if not self._working[account]:
                    del self._working[account]
                self._changed.notify_all()

    def _wait(self, account: Hashable, busy: str) -> None:
        mine = (account, object())
        ends = monotonic() + self._patience
        self._waiting.append(mine)
        try:
            if self._next() is mine:
                return
            with current_client().when_gone(self._look_again):
                while self._next() is not mine:
                    if current_client().is_gone:
                        raise ClientGone
                    if not self._changed.wait(ends - monotonic()) and self._next() is not mine:
                        raise Unavailable(busy)
        finally:
            self._waiting.remove(mine)
            self._changed.notify_all()

    def _next(self) -> tuple[Hashable, object] | None:
        """Who has the next turn, if there is a place."""
        able = [one for one in self._waiting if self._working[one[0]] < self._each]
        return min(able, key=lambda one: self._working[one[0]], default=None) if self._free else None

    def _look_again(self) -> None:
        with self._changed:
            self._changed.notify_all()
