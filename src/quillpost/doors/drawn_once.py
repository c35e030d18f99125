"""Pictures that are the same for everyone: each is drawn when it is first asked for, and then remembered."""

from collections.abc import Callable, Hashable
from threading import BoundedSemaphore, Lock
from typing import Generic, TypeVar

from quillpost.kit.errors import Unavailable

Name = TypeVar("Name", bound=Hashable)

WAITING_AT_ONCE = 8
"""A hand that is not ready takes seconds: so few wait for it that other callers still find a thread."""


class DrawnOnce(Generic[Name]):
    def __init__(self, draw: Callable[[Name], bytes]) -> None:
        self._draw = draw
        self._drawn: dict[Name, bytes] = {}
        self._places = BoundedSemaphore(WAITING_AT_ONCE)
        self._pen = Lock()

    def of(self, name: Name) -> bytes:
        return self._drawn.get(name) or self._wait_for(name)

    def _wait_for(self, name: Name) -> bytes:
        if not self._places.acquire(blocking=False):
            raise Unavailable("The hands are being made ready. Try again shortly.")
        try:
            with self._pen:
                if name not in self._drawn:
                    self._drawn[name] = self._draw(name)
                return self._drawn[name]
        finally:
            self._places.release()
