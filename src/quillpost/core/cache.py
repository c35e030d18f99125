"""What was read a moment ago and never changes: kept in memory, up to a size."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Thing = TypeVar("Thing")


class Recent(Generic[Key, Thing]):
    """The things last asked for. Two who miss the same one at once both read it: nobody waits."""

    def __init__(self, *, most_bytes: int, size: Callable[[Thing], int]) -> None:
        self._most_bytes = most_bytes
        self._size = size
        self._kept: OrderedDict[Key, Thing] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def peek(self, key: Key) -> Thing | None:
        """What is kept of it; nothing is read."""
        with self._lock:
            return self._kept.get(key)

    def get(self, key: Key, read: Callable[[], Thing]) -> Thing:
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        thing = read()
        with self._lock:
            if key not in self._kept:
                self._kept[key] = thing
                self._bytes += self._size(thing)
            while self._bytes > self._most_bytes:
                _, oldest = self._kept.popitem(last=False)
                self._bytes -= self._size(oldest)
        return thing
