"""Previews by turns: a few at a time for each reader, and of those who wait the newest alone."""

import threading
import time
from collections.abc import Hashable
from contextlib import ExitStack

import pytest
from settings_house import OWNER, House

from direct import TestClient
from quillpost.app.container import Parts
from quillpost.web.dashboard import previews
from quillpost.web.dashboard.previews import AT_ONCE, Overtaken, Turns


def until_one_waits(line: Turns, whose: Hashable) -> None:
    ends = time.monotonic() + 10
    while line.waiting(whose) != 1 and time.monotonic() < ends:
        time.sleep(0.005)
    assert line.waiting(whose) == 1


def test_the_newest_waits_and_those_before_it_are_let_go() -> None:
    line, told = Turns(), list[str]()

    def ask(name: str) -> None:
        try:
            with line.turn("dana"):
                told.append(f"{name} drawn")
        except Overtaken:
            told.append(f"{name} overtaken")

    older, newer = (threading.Thread(target=ask, args=[name]) for name in ("older", "newer"))
    with ExitStack() as busy:
        for _ in range(AT_ONCE):
            busy.enter_context(line.turn("dana"))
        older.start()
        until_one_waits(line, "dana")
        newer.start()
        older.join(10)
        assert told == ["older overtaken"]
        until_one_waits(line, "dana")
        with line.turn("finn"):
            pass  # another reader waits for none of them
    newer.join(10)
    assert told == ["older overtaken", "newer drawn"]
    assert line._lines == {}


def test_a_preview_that_was_overtaken_changes_nothing_that_is_shown(
    parts: Parts, http: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    house, asked = House(parts, http), list[Hashable]()

    def overtaken(whose: Hashable) -> None:
        asked.append(whose)
        raise Overtaken

    monkeypatch.setattr(previews.turns, "turn", overtaken)
    for path in ("/compose", "/compose/preview", "/templates/messages/preview"):
        answer = house.owner.post(path, message="Hi", headers={"HX-Request": "true"})
        assert (answer.status_code, answer.text) == (204, ""), path
    assert asked == [house.person(OWNER)] * 3
