"""Places at what takes much: shared among accounts, so that no one's work fills all of them."""

from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from threading import Condition
from time import monotonic

from quillpost.kit.clients import ClientGone, current_client
from quillpost.kit.errors import Unavailable


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
