"""Guessers of gift cards wait, and those who hold one come in."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from statistics import median
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.accounts.models import RateLimitStatus, get_network
from quillpost.app.container import Container
from quillpost.orders.giftcards import issuance
from quillpost.orders.giftcards import service as giftcard_service
from quillpost.orders.giftcards.rules import format_claim
from quillpost.web.application import create_app
from quillpost.web.public.giftcards import pages
from quillpost.web.public.giftcards import pages as giftcard_pages
from quillpost.web.public.giftcards.pages import EXTRA_LOOKUPS_PER_SECOND, MAX_PER_NETWORK, ClaimRateLimit
from support.factories import Account, snapshot_rows
from support.giftcard_orders import issue_order_cards, read_claim, send_giftcards
from support.test_client import TestClient

GUESSER, ELSEWHERE = "203.0.113.7", "198.51.100.9"


class Ticks:
    """Seconds as the test says."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def ticks() -> Ticks:
    return Ticks()


class Guesses(ClaimRateLimit):
    """Counts not in the database but in a window that lasts as long as the test: for what is tried a hundred
    thousand times."""

    def __init__(self, ticks: Ticks, patch: pytest.MonkeyPatch) -> None:
        nowhere: Any = None
        super().__init__(nowhere, monotonic=ticks)
        self.used: dict[str, int] = {}
        patch.setattr(giftcard_pages, "count_public_call", self._count)

    def _count(self, _db: object, _endpoint: str, address: str | None, *, limit: int) -> RateLimitStatus:
        key = "all" if address is None else get_network(address)
        self.used[key] = self.used.get(key, 0) + 1
        return RateLimitStatus(limit, self.used[key], 10_000)

    def guess(self, code: str, address: str = GUESSER) -> bool:
        """A wrong one: whether it was looked for."""
        if self.seconds_to_wait(code, address):
            return False
        self.record_invalid(code, address)
        return True


@pytest.fixture
def guesses(ticks: Ticks, monkeypatch: pytest.MonkeyPatch) -> Guesses:
    return Guesses(ticks, monkeypatch)


@pytest.fixture
def claim(container: Container, owner: Account) -> str:
    [piece] = issue_order_cards(container, send_giftcards(owner))
    return read_claim(container, piece)


def knock(container: Container, limit: ClaimRateLimit, code: str, address: str) -> bool | None:
    """As the page does it: whether the claim was found, None if it was not looked for."""
    if limit.seconds_to_wait(code, address):
        return None
    with container.db.system_transaction() as tx:
        is_right = giftcard_service.open_claim_page(tx, code, records_opening=False, now=container.clock()) is not None
    if is_right:
        limit.record_valid(code)
    else:
        limit.record_invalid(code, address)
    return is_right


@contextmanager
def statements(container: Container) -> Iterator[list[str]]:
    """What the database is asked meanwhile, by either role."""
    queries: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        queries.append(statement)

    engines = [container.db._app, container.db._worker]
    for engine in engines:
        sa.event.listen(engine, "before_cursor_execute", note)
    try:
        yield queries
    finally:
        for engine in engines:
            sa.event.remove(engine, "before_cursor_execute", note)


def visitor(container: Container, address: str, ticks: Ticks) -> TestClient:
    app = create_app(container)
    app.state.claim_rate_limit = ClaimRateLimit(container.db, monotonic=ticks)
    return TestClient(app, client=(address, 50_000))


def test_a_few_guesses_of_a_network_are_read_and_counted(container: Container, ticks: Ticks, claim: str) -> None:
    limit = ClaimRateLimit(container.db, monotonic=ticks)
    before, found = snapshot_rows(container), []
    with statements(container) as queries:
        for _ in range(1_000):
            found.append(knock(container, limit, issuance.new_claim(), GUESSER))
            ticks.now += 0.001
    looks = sum("claim_digest" in each for each in queries)
    # The minute's allowance and the one too many, what was saved up, and one in each fiftieth of a second.
    spare = EXTRA_LOOKUPS_PER_SECOND * (pages.MAX_SAVED_SECONDS + 1)
    assert MAX_PER_NETWORK + EXTRA_LOOKUPS_PER_SECOND <= looks == found.count(False) <= MAX_PER_NETWORK + 1 + spare
    assert found.count(None) == 1_000 - looks
    assert sum("count_call" in each for each in queries) == 2 * (MAX_PER_NETWORK + 1)
    assert snapshot_rows(container) == before
    assert knock(container, limit, claim, ELSEWHERE) is True


@pytest.mark.parametrize("networks", [1, 1_000])
def test_guesses_cost_so_many_looks_a_second_from_however_many_networks(
    ticks: Ticks, guesses: Guesses, networks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(giftcard_pages, "MAX_TOTAL", 100)
    looks, seconds = 0, 4
    for n in range(500 * seconds):
        looks += guesses.guess(f"{n:026}", f"2001:{n % networks:x}::1")
        ticks.now += 1 / 500
    limit = MAX_PER_NETWORK if networks == 1 else 100
    assert looks <= limit + 1 + EXTRA_LOOKUPS_PER_SECOND * (pages.MAX_SAVED_SECONDS + seconds)
    assert guesses.used["all"] == limit + 1


def test_all_networks_of_a_site_are_one(guesses: Guesses) -> None:
    looks = sum(guesses.guess(f"{n:026}", f"2001:db8:7:{n:x}::1") for n in range(200))
    assert looks <= MAX_PER_NETWORK + 1 + EXTRA_LOOKUPS_PER_SECOND * pages.MAX_SAVED_SECONDS
    assert guesses.seconds_to_wait(issuance.new_claim(), "2001:db8:8::1") == 0
    assert guesses.seconds_to_wait(issuance.new_claim(), "no/address") == 0


@pytest.mark.parametrize(("a_second", "half_in", "all_in"), [(2, 0, 0), (20, 0, 0), (100, 5, 20), (300, 15, 90)])
def test_holders_of_cards_are_let_in_beside_guessers(
    ticks: Ticks, guesses: Guesses, a_second: int, half_in: int, all_in: int
) -> None:
    """Twenty of them, who try again when they are told to, or a little later, as people do."""
    chance, numbers = random.Random(9), count()
    for _ in range(MAX_PER_NETWORK + 1 + 2 * a_second):
        guesses.guess(f"{next(numbers):026}")
        ticks.now += 1 / a_second
    waits = []
    for n in range(20):
        holder, began = f"7{n:025}", ticks.now
        due = began + chance.random()
        while ticks.now < due or guesses.seconds_to_wait(holder, GUESSER):
            if ticks.now >= due:
                due = ticks.now + pages.RETRY_SECONDS + 2 * chance.random()
            guesses.guess(f"{next(numbers):026}")
            ticks.now += chance.expovariate(a_second)
        guesses.record_valid(holder)
        assert guesses.seconds_to_wait(holder, GUESSER) == 0, "never again"
        waits.append(ticks.now - began)
    # They come within a second, and are seen when the guesser guesses next.
    assert median(waits) <= 2 + half_in
    assert max(waits) <= 6 + all_in


def test_every_wrong_claim_is_answered_alike_and_costs_the_same_until_the_limit_and_nothing_beyond(
    container: Container, ticks: Ticks, claim: str
) -> None:
    http, seen = visitor(container, GUESSER, ticks), []
    close = claim[:-1] + ("0" if claim[-1] != "0" else "1")
    for code in (issuance.new_claim(), close, "0" * 26, "Z" * 26):
        with statements(container) as queries:
            answer = http.get(f"/gift/{code}")
        headers = {name: value for name, value in answer.headers.items() if name != "x-request-id"}
        seen.append((answer.status_code, headers, answer.text.replace(format_claim(code), ""), tuple(queries)))
    assert (seen.count(seen[0]), seen[0][0]) == (len(seen), 404)
    app: Any = http.app
    limit: ClaimRateLimit = app.state.claim_rate_limit
    limit._limited_until[None] = ticks.now + 60
    for _ in range(int(EXTRA_LOOKUPS_PER_SECOND * pages.MAX_SAVED_SECONDS) + 1):
        limit.seconds_to_wait(issuance.new_claim(), GUESSER)
    for method, path in (("GET", ""), ("POST", "/claim"), ("GET", "/visit"), ("POST", "/report")):
        with statements(container) as queries:
            refused = http.request(method, f"/gift/{issuance.new_claim()}{path}", data={"what": "lost"})
        assert (refused.status_code, queries, int(refused.headers["Retry-After"])) == (429, [], pages.RETRY_SECONDS)
        assert "One moment, please." in refused.text
    assert visitor(container, ELSEWHERE, ticks).post(f"/gift/{claim}/claim").status_code == 200


def test_two_servers_count_together(container: Container, ticks: Ticks) -> None:
    first, second = (ClaimRateLimit(container.db, monotonic=ticks) for _ in range(2))
    for _ in range(MAX_PER_NETWORK // 2):
        for server in (first, second):
            assert knock(container, server, issuance.new_claim(), GUESSER) is False
    for server in (first, second):
        assert GUESSER not in server._limited_until
        knock(container, server, issuance.new_claim(), GUESSER)
        assert GUESSER in server._limited_until


def test_many_networks_together_are_slowed_down_until_their_minute_is_over(
    container: Container, ticks: Ticks, claim: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(giftcard_pages, "MAX_TOTAL", 20)
    monkeypatch.setattr(giftcard_pages, "EXTRA_LOOKUPS_PER_SECOND", 1)
    limit = ClaimRateLimit(container.db, monotonic=ticks)
    for n in range(21):
        assert knock(container, limit, issuance.new_claim(), f"192.0.2.{n}") is False
    while knock(container, limit, issuance.new_claim(), "192.0.2.99") is not None:
        pass
    assert knock(container, limit, claim, ELSEWHERE) is None
    ticks.now += 1
    assert knock(container, limit, claim, ELSEWHERE) is True
    assert knock(container, limit, issuance.new_claim(), ELSEWHERE) is None
    ticks.now += 60
    for _ in range(5):
        assert limit.seconds_to_wait(issuance.new_claim(), "192.0.2.99") == 0


def test_what_is_remembered_does_not_grow_without_end(ticks: Ticks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(giftcard_pages, "MAX_REMEMBERED", 5)
    monkeypatch.setattr(giftcard_pages, "MAX_PER_NETWORK", 0)
    guesses = Guesses(ticks, monkeypatch)
    for n in range(12):
        guesses.guess(issuance.new_claim(), f"192.0.2.{n}")
        guesses.record_valid(issuance.new_claim())
    assert [len(each) for each in (guesses._limited_until, guesses._valid_digests)] == [5, 5]
    assert "192.0.2.11" in guesses._limited_until


def test_a_claim_that_is_right_no_more_counts_as_any_other(guesses: Guesses) -> None:
    gone = issuance.new_claim()
    guesses.record_valid(gone)
    while guesses.guess(issuance.new_claim()):
        pass
    assert (guesses.guess(gone), guesses.guess(gone)) == (True, False)
