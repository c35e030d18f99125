"""Previews by turns: a few at a time for each reader, and of those who wait the newest alone."""

import threading
import time
from collections.abc import Hashable
from contextlib import ExitStack

import pytest

from quillpost.app.container import Container
from quillpost.web.dashboard import previews
from quillpost.web.dashboard.previews import MAX_CONCURRENT_PREVIEWS, PreviewLimiter, PreviewSuperseded
from support.account_pages import OWNER, AccountPages
from support.test_client import TestClient


def until_one_waits(line: PreviewLimiter, whose: Hashable) -> None:
    ends = time.monotonic() + 10
    while line.count_waiting(whose) != 1 and time.monotonic() < ends:
        time.sleep(0.005)
    assert line.count_waiting(whose) == 1


def test_the_newest_waits_and_those_before_it_are_let_go() -> None:
    line, events = PreviewLimiter(), list[str]()

    def ask(name: str) -> None:
        try:
            with line.slot("dana"):
                events.append(f"{name} drawn")
        except PreviewSuperseded:
            events.append(f"{name} overtaken")

    older, newer = (threading.Thread(target=ask, args=[name]) for name in ("older", "newer"))
    with ExitStack() as busy:
        for _ in range(MAX_CONCURRENT_PREVIEWS):
            busy.enter_context(line.slot("dana"))
        older.start()
        until_one_waits(line, "dana")
        newer.start()
        older.join(10)
        assert events == ["older overtaken"]
        until_one_waits(line, "dana")
        with line.slot("finn"):
            pass  # another reader waits for none of them
    newer.join(10)
    assert events == ["older overtaken", "newer drawn"]
    assert line._queues == {}


def test_a_preview_that_was_overtaken_changes_nothing_that_is_shown(
    container: Container, http: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    house, callers = AccountPages(container, http), list[Hashable]()

    def overtaken(whose: Hashable) -> None:
        callers.append(whose)
        raise PreviewSuperseded

    monkeypatch.setattr(previews.preview_limiter, "slot", overtaken)
    for path in ("/compose", "/compose/preview", "/templates/messages/preview"):
        answer = house.owner.post(path, message="Hi", headers={"HX-Request": "true"})
        assert (answer.status_code, answer.text) == (204, ""), path
    assert callers == [house.person(OWNER)] * 3
