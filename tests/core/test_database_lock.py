"""A service that starts while a short command holds the database waits for it to be gone."""

import threading
from pathlib import Path

from quillpost.core.filesystem import FileLock


def test_the_second_waits_until_the_first_turn_has_ended(tmp_path: Path) -> None:
    first, second = FileLock(tmp_path / "lock"), FileLock(tmp_path / "lock")
    order: list[str] = []
    first.acquire()

    def take_second() -> None:
        second.acquire()
        order.append("second")

    waiting = threading.Thread(target=take_second)
    waiting.start()
    order.append("first ends")
    first.release()
    waiting.join(timeout=30)
    second.release()
    assert order == ["first ends", "second"]


def test_a_turn_may_be_ended_twice_and_taken_again(tmp_path: Path) -> None:
    turn = FileLock(tmp_path / "new" / "lock")
    turn.acquire()
    turn.release()
    turn.release()
    turn.acquire()
    turn.release()
