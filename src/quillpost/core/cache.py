"""Caches that threads share, bounded in size and, on request, in time."""

from collections.abc import Callable, Hashable
from contextlib import suppress
from threading import Lock
from time import monotonic
from typing import Generic, TypeVar

from cachetools import Cache, LRUCache, TTLCache

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class SharedCache(Generic[Key, Value]):
    """The values used last. Two threads that miss a key at once both load it: neither waits."""

    def __init__(
        self,
        *,
        max_size: int,
        size_of: Callable[[Value], int] | None = None,
        seconds: float | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """`max_size` values, or so much of what `size_of` counts, each for at most `seconds`."""
        self._entries: Cache[Key, Value] = (
            LRUCache(max_size, getsizeof=size_of)
            if seconds is None
            else TTLCache(max_size, seconds, timer=clock, getsizeof=size_of)
        )
        self._lock = Lock()

    def peek(self, key: Key) -> Value | None:
        with self._lock:
            return self._entries.get(key)

    def put(self, key: Key, value: Value) -> None:
        with self._lock, suppress(ValueError):  # too large to be kept
            self._entries[key] = value

    def get(self, key: Key, load: Callable[[], Value]) -> Value:
        with self._lock:
            if key in self._entries:
                return self._entries[key]
        value = load()
        self.put(key, value)
        return value
