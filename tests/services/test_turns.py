"""A service that starts while a short command holds the database waits for it to be gone."""

import threading
from pathlib import Path

from quillpost.core.locks import Turn


def test_the_second_waits_until_the_first_turn_has_ended(tmp_path: Path) -> None:
    first, second = Turn(tmp_path / "lock"), Turn(tmp_path / "lock")
    order: list[str] = []
    first.take()

    def take_second() -> None:
        second.take()
        order.append("second")

    waiting = threading.Thread(target=take_second)
    waiting.start()
    order.append("first ends")
    first.end()
    waiting.join(timeout=30)
    second.end()
    assert order == ["first ends", "second"]


def test_a_turn_may_be_ended_twice_and_taken_again(tmp_path: Path) -> None:
    turn = Turn(tmp_path / "new" / "lock")
    turn.take()
    turn.end()
    turn.end()
    turn.take()
    turn.end()
