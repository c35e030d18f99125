"""What was read a moment ago and never changes: kept in memory, up to a size."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class LruCache(Generic[Key, Value]):
    """The things last asked for. Two who miss the same one at once both read it: nobody waits."""

    def __init__(self, *, max_bytes: int, size_of: Callable[[Value], int]) -> None:
        self._max_bytes = max_bytes
        self._size_of = size_of
        self._entries: OrderedDict[Key, Value] = OrderedDict()
        self._total_bytes = 0
        self._lock = Lock()

    def peek(self, key: Key) -> Value | None:
        """What is kept of it; nothing is read."""
        with self._lock:
            return self._entries.get(key)

    def get(self, key: Key, load: Callable[[], Value]) -> Value:
        with self._lock:
            if key in self._entries:
                self._entries.move_to_end(key)
                return self._entries[key]
        value = load()
        with self._lock:
            if key not in self._entries:
                self._entries[key] = value
                self._total_bytes += self._size_of(value)
            while self._total_bytes > self._max_bytes:
                _, oldest = self._entries.popitem(last=False)
                self._total_bytes -= self._size_of(oldest)
        return value
