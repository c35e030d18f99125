"""Pictures that are drawn anew as somebody types: a few at a time for each, so that nobody has to wait for
what another asked for and has long typed on from."""

import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from fastapi import Response

AT_ONCE: Final = 2
"""Of one reader: what they see next is begun while the last one is not finished."""


class Overtaken(Exception):
    """Somebody asked for something newer meanwhile."""


@dataclass(slots=True)
class _Line:
    """Of one reader: how many are at work and wait, and which of those came last."""

    working: int = 0
    waiting: int = 0
    newest: object = None


class Turns:
    """Of each reader the newest waits, and those before it are let go."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._lines: dict[Hashable, _Line] = {}

    @contextmanager
    def turn(self, whose: Hashable) -> Iterator[None]:
        """`Overtaken` by one that came later."""
        with self._changed:
            line = self._lines.setdefault(whose, _Line())
            try:
                self._wait(line)
                line.working += 1
            finally:
                self._forget(whose, line)
        try:
            yield
        finally:
            with self._changed:
                line.working -= 1
                self._changed.notify_all()
                self._forget(whose, line)

    def waiting(self, whose: Hashable) -> int:
        line = self._lines.get(whose)
        return 0 if line is None else line.waiting

    def _wait(self, line: _Line) -> None:
        mine = line.newest = object()
        self._changed.notify_all()
        line.waiting += 1
        try:
            while line.working >= AT_ONCE:
                if line.newest is not mine:
                    raise Overtaken
                self._changed.wait()
        finally:
            line.waiting -= 1

    def _forget(self, whose: Hashable, line: _Line) -> None:
        if not line.working and not line.waiting:
            self._lines.pop(whose, None)


turns: Final = Turns()


def in_turn(whose: Hashable, draw: Callable[[], Response]) -> Response:
    """What is drawn; where it was overtaken no answer, and what the browser shows stays as it is."""
    try:
        with turns.turn(whose):
            return draw()
    except Overtaken:
        return Response(status_code=204, headers={"Cache-Control": "no-store"})
