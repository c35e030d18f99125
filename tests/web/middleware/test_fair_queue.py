"""Places that accounts share: nobody's work fills them all, and nobody waits for ever."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event

import pytest

from quillpost.core.errors import Unavailable
from quillpost.core.requests import ClientConnection, ClientDisconnected, FairQueue, client_context

PLENTY = 30.0
BUSY = "All places are taken."


class Crowd:
    """Threads that take turns, and stay until they are let go."""

    def __init__(self, turns: FairQueue) -> None:
        self._turns = turns
        self._threads = ThreadPoolExecutor(8)
        self._leave = Event()
        self.order: list[str] = []

    def enter(self, account: str) -> Future[None]:
        """One who has a place when this returns."""
        inside = Event()
        entered = self._threads.submit(self._stay, ClientConnection(lambda: account), inside)
        assert inside.wait(PLENTY)
        return entered

    def wait(self, account: str) -> Future[None]:
        """One who has to wait, and does when this returns."""
        requested = Event()

        def whose() -> str:
            requested.set()
            return account

        waiting = self._threads.submit(self._stay, ClientConnection(whose), Event())
        assert requested.wait(PLENTY)
        return waiting

    def _stay(self, client: ClientConnection, inside: Event) -> None:
        with client_context(client), self._turns.slot(BUSY):
            self.order.append(str(client.account))
            inside.set()
            assert self._leave.wait(PLENTY)

    def end(self) -> None:
        self._leave.set()
        self._threads.shutdown()


@pytest.fixture
def crowd() -> Iterator[Crowd]:
    made = Crowd(FairQueue(3, 2, PLENTY))
    yield made
    made.end()


def test_an_account_never_has_all_places(crowd: Crowd) -> None:
    crowd.enter("a")
    crowd.enter("a")
    third = crowd.wait("a")
    crowd.enter("b")
    assert not third.done()
    assert crowd.order == ["a", "a", "b"]
    crowd.end()
    third.result()
    assert crowd.order == ["a", "a", "b", "a"]


def test_waiting_too_long_raises_unavailable() -> None:
    turns = FairQueue(1, 1, 0.01)
    with turns.slot(BUSY), pytest.raises(Unavailable, match=BUSY), turns.slot(BUSY):
        pass
    with turns.slot(BUSY):
        pass


def test_a_client_that_goes_waits_no_longer(crowd: Crowd) -> None:
    crowd.enter("a")
    crowd.enter("a")
    turns, client = crowd._turns, ClientConnection(lambda: "a")

    def wait() -> None:
        with client_context(client), turns.slot(BUSY):
            raise AssertionError

    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(wait)
        client.disconnect()
        with pytest.raises(ClientDisconnected):
            waiting.result(PLENTY)


def test_what_is_done_for_a_client_is_stopped_when_it_goes() -> None:
    stopped: list[str] = []
    client = ClientConnection()
    with client.on_disconnect(lambda: stopped.append("one")):
        with client.on_disconnect(lambda: stopped.append("over")):
            pass
        client.disconnect()
    assert stopped == ["one"]
    with pytest.raises(ClientDisconnected), client.on_disconnect(lambda: stopped.append("late")):
        pass
    assert stopped == ["one"]
