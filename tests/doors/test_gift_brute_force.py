"""Thousands of guesses: nearly all are refused unlooked at, none finds anything, and holders come in."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from statistics import median
from typing import Any

import pytest
import sqlalchemy as sa
from gifted import claim_of, issued, send_gifts

from direct import TestClient
from makers import Account, rows_of_all
from quillpost.accounts.models import Allowance, network_of
from quillpost.app.container import Parts
from quillpost.orders.giftcards import claims, issuance
from quillpost.orders.giftcards.rules import spelled
from quillpost.web.application import create_app
from quillpost.web.public import claim_limits
from quillpost.web.public.claim_limits import LOOKS_A_SECOND, OF_ONE_NETWORK, SAVED_UP, TRY_AGAIN_IN, Guesses

GUESSER = NEIGHBOUR = "203.0.113.7"
ELSEWHERE = "198.51.100.9"
NO_DATABASE: Any = None


class Ticks:
    """Seconds as the test says."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def ticks() -> Ticks:
    return Ticks()


class Counter:
    """Counts as the database does, in a window that lasts as long as the test."""

    def __init__(self) -> None:
        self.used: dict[str, int] = {}

    def __call__(self, _db: object, _door: str, address: str | None, *, limit: int) -> Allowance:
        key = "all" if address is None else network_of(address)
        self.used[key] = self.used.get(key, 0) + 1
        return Allowance(limit, self.used[key], 10_000)


@pytest.fixture
def counter(monkeypatch: pytest.MonkeyPatch) -> Counter:
    """Instead of the database: for what is tried a hundred thousand times."""
    counter = Counter()
    monkeypatch.setattr(claim_limits, "count_knock", counter)
    return counter


@pytest.fixture
def claim(parts: Parts, owner: Account) -> str:
    [piece] = issued(parts, send_gifts(owner))
    return claim_of(parts, piece)


def knock(parts: Parts, guesses: Guesses, code: str, address: str) -> bool | None:
    """As the door does it: whether the claim was found, None if it was not looked for."""
    if guesses.wait(code, address):
        return None
    with parts.db.work() as tx:
        is_right = claims.look(tx, code, notes=False, now=parts.clock()) is not None
    if is_right:
        guesses.note_right(code)
    else:
        guesses.note_wrong(code, address)
    return is_right


@contextmanager
def statements(parts: Parts) -> Iterator[list[str]]:
    """What the database is asked meanwhile, by either role."""
    asked: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        asked.append(statement)

    engines = [parts.db._app, parts.db._worker]
    for engine in engines:
        sa.event.listen(engine, "before_cursor_execute", note)
    try:
        yield asked
    finally:
        for engine in engines:
            sa.event.remove(engine, "before_cursor_execute", note)


def visitor(parts: Parts, address: str, ticks: Ticks) -> TestClient:
    app = create_app(parts)
    app.state.gift_guesses = Guesses(parts.db, ticks=ticks)
    return TestClient(app, client=(address, 50_000))


def guess(guesses: Guesses, code: str, address: str) -> bool:
    """A wrong one, without a database: whether it was looked for."""
    if guesses.wait(code, address):
        return False
    guesses.note_wrong(code, address)
    return True


def test_of_the_guesses_of_a_network_a_few_are_looked_at_and_no_more_are_counted(
    parts: Parts, ticks: Ticks, claim: str
) -> None:
    guesses = Guesses(parts.db, ticks=ticks)
    before, found = rows_of_all(parts), []
    with statements(parts) as asked:
        for _ in range(1_000):
            found.append(knock(parts, guesses, issuance.new_claim(), GUESSER))
            ticks.now += 0.001
    looks = sum("claim_digest" in each for each in asked)
    # The minute's allowance and the one too many, what was saved up, and one in each fiftieth of a second.
    spare = LOOKS_A_SECOND * (SAVED_UP + 1)
    assert OF_ONE_NETWORK + LOOKS_A_SECOND <= looks == found.count(False) <= OF_ONE_NETWORK + 1 + spare
    assert found.count(None) == 1_000 - looks
    assert sum("count_call" in each for each in asked) == 2 * (OF_ONE_NETWORK + 1)
    assert rows_of_all(parts) == before
    assert knock(parts, guesses, claim, ELSEWHERE) is True


@pytest.mark.parametrize("networks", [1, 1_000])
def test_guesses_cost_so_many_looks_a_second_from_however_many_networks(
    ticks: Ticks, counter: Counter, networks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claim_limits, "OF_ALL", 100)
    guesses, looks, seconds = Guesses(NO_DATABASE, ticks=ticks), 0, 4
    for n in range(500 * seconds):
        looks += guess(guesses, f"{n:026}", f"2001:{n % networks:x}::1")
        ticks.now += 1 / 500
    limit = OF_ONE_NETWORK if networks == 1 else 100
    assert looks <= limit + 1 + LOOKS_A_SECOND * (SAVED_UP + seconds)
    assert counter.used["all"] == limit + 1


def test_all_networks_of_a_site_are_one(ticks: Ticks, counter: Counter) -> None:
    guesses = Guesses(NO_DATABASE, ticks=ticks)
    looks = sum(guess(guesses, f"{n:026}", f"2001:db8:7:{n:x}::1") for n in range(200))
    assert looks <= OF_ONE_NETWORK + 1 + LOOKS_A_SECOND * SAVED_UP
    assert guesses.wait(issuance.new_claim(), "2001:db8:8::1") == 0
    assert guesses.wait(issuance.new_claim(), "no/address") == 0


@pytest.mark.parametrize(
    ("a_second", "half_in", "all_in"), [(2, 0, 0), (20, 0, 0), (100, 5, 20), (300, 15, 90)]
)
def test_holders_behind_a_guessers_address_come_in_soon(
    ticks: Ticks, counter: Counter, a_second: int, half_in: int, all_in: int
) -> None:
    """Twenty of them, who try again when they are told to, or a little later, as people do."""
    guesses, chance, numbers = Guesses(NO_DATABASE, ticks=ticks), random.Random(9), count()
    for _ in range(OF_ONE_NETWORK + 1 + 2 * a_second):
        guess(guesses, f"{next(numbers):026}", GUESSER)
        ticks.now += 1 / a_second
    waits = []
    for n in range(20):
        holder, began = f"7{n:025}", ticks.now
        due = began + chance.random()
        while ticks.now < due or guesses.wait(holder, NEIGHBOUR):
            if ticks.now >= due:
                due = ticks.now + TRY_AGAIN_IN + 2 * chance.random()
            guess(guesses, f"{next(numbers):026}", GUESSER)
            ticks.now += chance.expovariate(a_second)
        guesses.note_right(holder)
        assert guesses.wait(holder, NEIGHBOUR) == 0, "never again"
        waits.append(ticks.now - began)
    # They come within a second, and are seen when the guesser guesses next.
    assert median(waits) <= 2 + half_in
    assert max(waits) <= 6 + all_in


def test_every_wrong_claim_is_answered_alike_and_costs_the_same(
    parts: Parts, ticks: Ticks, claim: str
) -> None:
    http = visitor(parts, GUESSER, ticks)
    close = claim[:-1] + ("0" if claim[-1] != "0" else "1")
    seen = []
    for code in (issuance.new_claim(), close, "0" * 26, "Z" * 26):
        with statements(parts) as asked:
            answer = http.get(f"/gift/{code}")
        headers = {name: value for name, value in answer.headers.items() if name != "x-request-id"}
        typed = answer.text.replace(spelled(code), "")
        seen.append((answer.status_code, headers, typed, tuple(asked)))
    assert seen.count(seen[0]) == len(seen)
    assert seen[0][0] == 404


def test_beyond_the_limit_the_database_is_not_asked_and_the_page_says_when(
    parts: Parts, ticks: Ticks, claim: str
) -> None:
    http = visitor(parts, GUESSER, ticks)
    app: Any = http.app
    app.state.gift_guesses._all_slow_until = ticks.now + 60
    for _ in range(int(LOOKS_A_SECOND * SAVED_UP) + 1):
        app.state.gift_guesses.wait(issuance.new_claim(), GUESSER)
    for method, path in (("GET", ""), ("POST", "/claim"), ("GET", "/visit"), ("POST", "/report")):
        with statements(parts) as asked:
            refused = http.request(method, f"/gift/{issuance.new_claim()}{path}", data={"what": "lost"})
        assert (refused.status_code, asked) == (429, [])
        assert int(refused.headers["Retry-After"]) == TRY_AGAIN_IN
        assert "One moment, please." in refused.text
    assert visitor(parts, ELSEWHERE, ticks).post(f"/gift/{claim}/claim").status_code == 200


def test_two_servers_count_together(parts: Parts, ticks: Ticks) -> None:
    first, second = (Guesses(parts.db, ticks=ticks) for _ in range(2))
    for _ in range(OF_ONE_NETWORK // 2):
        for server in (first, second):
            assert knock(parts, server, issuance.new_claim(), GUESSER) is False
    for server in (first, second):
        assert GUESSER not in server._slow_until
        knock(parts, server, issuance.new_claim(), GUESSER)
        assert GUESSER in server._slow_until


def test_many_networks_together_are_slowed_down_until_their_minute_is_over(
    parts: Parts, ticks: Ticks, claim: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claim_limits, "OF_ALL", 20)
    monkeypatch.setattr(claim_limits, "LOOKS_A_SECOND", 1)
    guesses = Guesses(parts.db, ticks=ticks)
    for n in range(21):
        assert knock(parts, guesses, issuance.new_claim(), f"192.0.2.{n}") is False
    while knock(parts, guesses, issuance.new_claim(), "192.0.2.99") is not None:
        pass
    assert knock(parts, guesses, claim, ELSEWHERE) is None
    ticks.now += 1
    assert knock(parts, guesses, claim, ELSEWHERE) is True
    assert knock(parts, guesses, issuance.new_claim(), ELSEWHERE) is None
    ticks.now += 60
    for _ in range(5):
        assert guesses.wait(issuance.new_claim(), "192.0.2.99") == 0


def test_what_is_remembered_does_not_grow_without_end(
    ticks: Ticks, counter: Counter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claim_limits, "MOST", 5)
    monkeypatch.setattr(claim_limits, "OF_ONE_NETWORK", 0)
    guesses = Guesses(NO_DATABASE, ticks=ticks)
    for n in range(12):
        guess(guesses, issuance.new_claim(), f"192.0.2.{n}")
        guesses.note_right(issuance.new_claim())
    assert [len(each) for each in (guesses._slow_until, guesses._right)] == [5, 5]
    assert "192.0.2.11" in guesses._slow_until


def test_a_claim_that_is_right_no_more_counts_as_any_other(ticks: Ticks, counter: Counter) -> None:
    guesses, gone = Guesses(NO_DATABASE, ticks=ticks), issuance.new_claim()
    guesses.note_right(gone)
    while guess(guesses, issuance.new_claim(), GUESSER):
        pass
    assert guess(guesses, gone, GUESSER) is True
    assert guess(guesses, gone, GUESSER) is False
