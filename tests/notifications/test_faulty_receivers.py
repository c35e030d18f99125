"""Receivers: how many deliveries each has in the air, and whatever they do, each event comes, and in its order."""

import asyncio
import json
import ssl
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from quillpost.accounts.models import Caller
from quillpost.app.container import Container
from quillpost.core.database.tables.notifications import deliveries
from quillpost.integrations.http.client import WebhookPoster
from quillpost.integrations.http.guard import OutboundGuard
from quillpost.notifications.ports import PostResult
from quillpost.notifications.webhooks import concurrency
from quillpost.notifications.webhooks import rules as webhook_rules
from quillpost.notifications.webhooks.concurrency import MAX_CONCURRENCY, EndpointQueue, InFlightDeliveries
from quillpost.notifications.webhooks.dispatcher import Dispatcher
from quillpost.notifications.webhooks.outcomes import DeliveryOutcome, decide_outcome
from quillpost.notifications.webhooks.payloads import QUEUE_START, DueDelivery
from quillpost.notifications.webhooks.queries import HEALTHY_ENDPOINT, EndpointHealth, Lease, WebhookSubscription
from quillpost.notifications.webhooks.rules import CIRCUIT_BREAKER_FAILURES, ITEM_STATUS_EVENT
from support.factories import Clock, people
from support.fake_server import Answer, ScriptedServer, reply_with, reset_connection, self_signed, stay_silent
from support.orders import create_order
from support.rows import execute
from support.waiting import wait_until
from support.webhooks import delivery_rows, move_pieces, queue_row, subscribe, webhook_row

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)
NUMBERS = count(1)


def held(number: int = 1, *, health: EndpointHealth = HEALTHY_ENDPOINT, **changes: Any) -> Lease:
    known: dict[str, Any] = {
        "woken": 1, "leased_until": NOON + timedelta(minutes=1), "status": "active", "url": "https://example.com",
        "verb": "post", "secret_sealed": b"new", "previous_secret_sealed": None, "previous_until": None,
    }  # fmt: skip
    return Lease(webhook_id=number, health=health, **known | changes)


def make_queue(number: int = 1, *, ready: int = 100, health: EndpointHealth = HEALTHY_ENDPOINT) -> EndpointQueue:
    one = EndpointQueue(held(number, health=health), leased_at=0)
    for _ in range(ready):
        due = DueDelivery(next(NUMBERS), NOON, number, "s", NOON, 0, 0, "e", "https://example.com", "post", "{}")
        one.ready.append(due)
        one.unacknowledged_ids.add(due.id)
    return one


def start_all(deliveries: InFlightDeliveries, now: datetime = NOON) -> list[tuple[EndpointQueue, DueDelivery]]:
    return list(iter(lambda: deliveries.start_next(now=now), None))


def outcome(
    due: DueDelivery, status: int | None = 200, now: datetime = NOON, *, retry_after: int | None = None
) -> DeliveryOutcome:
    return decide_outcome(due, PostResult(status, retry_after=retry_after), jitter=0, now=now)


def attempt(deliveries: InFlightDeliveries, of: EndpointQueue, *statuses: int | None, now: datetime = NOON) -> None:
    """One after the other."""
    for status in statuses:
        deliveries.schedule_queues([of])
        taken = deliveries.start_next(now=now)
        assert taken is not None, "nothing may start"
        deliveries.complete_delivery(of, outcome(taken[1], status, now), now=now)


def test_a_receiver_gets_more_at_once_as_it_answers_and_half_as_many_when_it_fails() -> None:
    deliveries, one = InFlightDeliveries(), make_queue()
    deliveries.schedule_queues([one])
    assert len(start_all(deliveries)) == deliveries.in_flight == one.concurrency == concurrency.INITIAL_CONCURRENCY
    deliveries, one = InFlightDeliveries(), make_queue()
    attempt(deliveries, one, *[200] * 30)
    assert one.concurrency == MAX_CONCURRENCY
    attempt(deliveries, one, 500)
    assert one.concurrency == MAX_CONCURRENCY // 2
    attempt(deliveries, one, 500, None)
    assert one.concurrency == MAX_CONCURRENCY // 8
    attempt(deliveries, one, 200)
    assert one.concurrency == MAX_CONCURRENCY // 8 + 1


def test_queues_have_equal_shares_and_the_silent_half_of_the_places_at_most() -> None:
    deliveries, queues = InFlightDeliveries(max_in_flight=4), [make_queue(number) for number in range(4)]
    for one in queues:
        one.has_succeeded = True
    deliveries.schedule_queues(queues)
    assert Counter(one.lease.webhook_id for one, _ in start_all(deliveries)) == dict.fromkeys(range(4), 1)
    deliveries = InFlightDeliveries(max_in_flight=20)
    silent, lively = [make_queue(n) for n in range(50)], make_queue(99)
    lively.has_succeeded, lively.concurrency_window = True, 20
    deliveries.schedule_queues([*silent, lively])
    assert Counter(one is lively for one, _ in start_all(deliveries)) == {True: 10, False: 10}
    for number in (0, 1, 5):
        deliveries, queues = InFlightDeliveries(max_in_flight=20), [make_queue(n) for n in range(50)]
        for one in queues[:number]:
            one.has_succeeded = True
        deliveries.schedule_queues(queues)
        counts = Counter(one.is_untrusted for one, _ in start_all(deliveries))
        assert (counts[True], counts[False]) == (10, min(number * concurrency.INITIAL_CONCURRENCY, 10)), number
    deliveries, first, second = InFlightDeliveries(max_in_flight=4), make_queue(1), make_queue(2)
    deliveries.schedule_queues([first, second])
    (answering, due), _ = start_all(deliveries)
    deliveries.complete_delivery(answering, outcome(due), now=NOON)
    assert len(start_all(deliveries)) == 3  # its own two, and one more of the other


def test_after_failures_a_receiver_rests_ever_longer_until_a_success() -> None:
    deliveries, one = InFlightDeliveries(), make_queue()
    attempt(deliveries, one, *[500] * (webhook_rules.CIRCUIT_BREAKER_FAILURES - 1))
    assert one.can_send(NOON)
    attempt(deliveries, one, 500)
    assert one.health == EndpointHealth(webhook_rules.CIRCUIT_BREAKER_FAILURES, NOON, NOON + webhook_rules.MIN_BACKOFF)
    assert (one.can_send(NOON), list(one.ready), one.read_limit(NOON)) == (False, [], 0)
    assert one.can_send(NOON + webhook_rules.MIN_BACKOFF)
    deliveries, now, rests = InFlightDeliveries(), NOON, []
    health = EndpointHealth(webhook_rules.CIRCUIT_BREAKER_FAILURES, NOON, NOON)
    for _ in range(9):
        one = make_queue(health=health)
        one.update_lease(held(health=health, leased_until=now + timedelta(minutes=1)))
        deliveries.schedule_queues([one])
        [(_, due)] = start_all(deliveries, now)
        deliveries.complete_delivery(one, outcome(due, 500, now), now=now)
        health = one.health
        assert health.backoff_until is not None
        rests.append((health.backoff_until - now).total_seconds())
        now = health.backoff_until
    assert (rests, health.failing_since) == ([10, 20, 40, 80, 160, 320, 600, 600, 600], NOON)
    one = make_queue(health=EndpointHealth(9, NOON, NOON))
    attempt(InFlightDeliveries(), one, 200)
    assert (one.health, one.is_untrusted) == (HEALTHY_ENDPOINT, False)
    assert one.concurrency == concurrency.INITIAL_CONCURRENCY + 1


def test_failures_in_flight_together_cause_one_backoff() -> None:
    deliveries, one = InFlightDeliveries(), make_queue()
    one.concurrency_window, one.has_succeeded = 20, True
    deliveries.schedule_queues([one])
    for _, due in start_all(deliveries):
        deliveries.complete_delivery(one, outcome(due, 500), now=NOON)
    assert one.health == EndpointHealth(webhook_rules.CIRCUIT_BREAKER_FAILURES, NOON, NOON + webhook_rules.MIN_BACKOFF)
    assert deliveries.in_flight == one.in_flight == 0


def test_a_receiver_that_is_busy_is_left_alone_for_as_long_as_it_asks() -> None:
    for status, retry_after, rest in ((429, 30, 30), (503, 30, 30), (429, 86_400, 600), (500, 30, 0), (429, None, 0)):
        deliveries, one = InFlightDeliveries(), make_queue()
        deliveries.schedule_queues([one])
        [(_, due), _] = start_all(deliveries)
        deliveries.complete_delivery(one, outcome(due, status, retry_after=retry_after), now=NOON)
        until = NOON + timedelta(seconds=rest) if rest else None
        assert one.health.backoff_until == until, (status, retry_after)


def test_nothing_goes_to_a_receiver_that_is_gone_or_changed_or_whose_lease_has_ended() -> None:
    deliveries, one = InFlightDeliveries(), make_queue()
    assert (one.can_start(NOON), one.can_start(one.lease.leased_until)) == (True, False)
    attempt(deliveries, one, 410)
    assert (one.can_start(NOON), list(one.ready)) == (False, [])
    changes: list[dict[str, Any]] = [{"url": "https://elsewhere.example"}, {"verb": "get"}, {"status": "paused"}]
    for change in changes:
        one = make_queue(ready=3)
        delivery = one.ready.popleft()
        one.cursor = NOON, 9
        one.update_lease(held(**change))
        assert (list(one.ready), one.unacknowledged_ids, one.cursor) == ([], {delivery.id}, QUEUE_START), change


def test_health_is_reset_by_an_owner_and_kept_when_the_lease_is_updated() -> None:
    failing = EndpointHealth(7, NOON, NOON + timedelta(minutes=1))
    one = make_queue(health=failing)
    one.update_lease(held(woken=2, health=failing))
    assert one.health == failing
    one.update_lease(held(woken=3))
    assert one.health == HEALTHY_ENDPOINT
    deliveries, one = InFlightDeliveries(), make_queue()
    attempt(deliveries, one, 500)
    one.update_lease(held(woken=2))
    assert one.health.failures == 1


def test_while_a_secret_is_new_the_one_before_signs_too() -> None:
    for minutes, signers in ((5, (b"new", b"old")), (0, (b"new",)), (-5, (b"new",))):
        until = NOON + timedelta(minutes=minutes)
        assert held(previous_secret_sealed=b"old", previous_until=until).signing_secrets(NOON) == signers


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from([200, 500, 429, 410, None])), max_size=80))
def test_places_are_counted_right_whatever_comes(landings: list[tuple[int, int | None]]) -> None:
    deliveries, queues, now = InFlightDeliveries(max_in_flight=12), [make_queue(number) for number in range(4)], NOON
    started: list[tuple[EndpointQueue, DueDelivery]] = []
    for number, status in landings:
        deliveries.schedule_queues(queues)
        started += start_all(deliveries, now)
        theirs = [each for each in started if each[0] is queues[number]]
        if theirs:
            started.remove(theirs[0])
            deliveries.complete_delivery(theirs[0][0], outcome(theirs[0][1], status, now, retry_after=1), now=now)
        now += timedelta(milliseconds=300)
        assert deliveries.in_flight == len(started) == sum(one.in_flight for one in queues) <= 12
        assert deliveries.untrusted_in_flight == sum(one.in_flight for one in queues if one.is_untrusted)
        assert all(0 <= one.in_flight <= MAX_CONCURRENCY for one in queues)


PIECES = 2
WELL = reply_with("HTTP/1.1 204 No Content")
DOWN = reply_with("HTTP/1.1 500 Internal Server Error\nContent-Length: 0")
PATIENCE = 0.5
"""Seconds that a receiver has to answer here."""

MORE_THAN_ITS_LENGTH = reply_with("HTTP/1.1 200 OK\nContent-Length: 2", b"ok HTTP/1.1 500 no, it was not")
NOT_HTTP = "gave an answer that is not HTTP"
FAILURES: dict[str, tuple[Answer, int | None, str | None]] = {
    "slow": (stay_silent, None, "did not answer within 0.5 seconds"),
    "resetting": (reset_connection, None, "closed the connection without an answer"),
    "speaking of something else": (reply_with("SSH-2.0-OpenSSH_9.6"), None, NOT_HTTP),
    "saying more than its length": (MORE_THAN_ITS_LENGTH, None, NOT_HTTP),
    "moved": (reply_with("HTTP/1.1 301 Moved Permanently\nLocation: /new\nContent-Length: 0"), 301, None),
    "broken": (DOWN, 500, None),
    "busy": (reply_with("HTTP/1.1 429 Too Many Requests\nRetry-After: 120\nContent-Length: 0"), 429, None),
}


class Moody:
    """A receiver that does as its mood says, until it is in a better one."""

    def __init__(self, mood: Answer, *, tls: ssl.SSLContext | None = None, **how: str) -> None:
        self.mood, self.how = mood, how
        self.server = ScriptedServer(lambda connection: self.mood(connection), tls=tls)

    def heard(self) -> list[tuple[int, str, str]]:
        """Item, status and event id of each request, in the order in which they came."""
        bodies = [json.loads(request.partition(b"\r\n\r\n")[2]) for request in list(self.server.requests)]
        data = [(body["data"], body["event_id"]) for body in bodies]
        return [(each["order_item.id"], each["order_item.current_status"], event) for each, event in data]


@contextmanager
def pumping(container: Container, poster: WebhookPoster) -> Iterator[None]:
    """A pump at work, in a thread of its own."""
    begun = threading.Event()
    running: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def run() -> None:
        stop = asyncio.Event()
        running.append((asyncio.get_running_loop(), stop))
        begun.set()
        within = timedelta(seconds=PATIENCE)
        await Dispatcher(container.db, container.encryptor, poster, container.clock, response_timeout=within).run(stop)

    thread = threading.Thread(target=lambda: asyncio.run(run()))
    thread.start()
    begun.wait()
    loop, stop = running[0]
    try:
        yield
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()


def poster_to(*servers: ScriptedServer) -> WebhookPoster:
    return WebhookPoster(OutboundGuard(allow=frozenset(server.place for server in servers)), seconds=PATIENCE)


def all_delivered(container: Container, hook: WebhookSubscription, pieces: int = PIECES) -> bool:
    rows = delivery_rows(container, hook)
    return len(rows) == 2 * pieces and {row.status for row in rows} == {"delivered"}


def tried(container: Container, hook: WebhookSubscription) -> bool:
    """Whether the first event of each piece was tried, and that is written down."""
    outcomes = [row.response_status or row.error for row in delivery_rows(container, hook)]
    return len(outcomes) - outcomes.count(None) >= PIECES


def by_place(container: Container, hook: WebhookSubscription) -> tuple[list[sa.Row[Any]], list[sa.Row[Any]]]:
    """The deliveries of each piece's first event, and those of its second."""
    rows = delivery_rows(container, hook)
    assert len(rows) == 2 * PIECES
    return rows[:PIECES], rows[PIECES:]


def assert_in_order(heard: Sequence[tuple[int, str, str]]) -> None:
    """Each piece's first event, as often as it takes, and only then its second."""
    for item in {number for number, _, _ in heard}:
        statuses = [status for number, status, _ in heard if number == item]
        assert statuses == sorted(statuses, key=["Processing", "Printed"].index)
        assert len({event for number, status, event in heard if (number, status) == (item, "Processing")}) == 1
        assert statuses[-1] == "Printed"


@contextmanager
def heard_by(
    container: Container, clock: Clock, caller: Caller, *all_: Moody, pieces: int = PIECES
) -> Iterator[list[WebhookSubscription]]:
    """The receivers at work, and the subscriptions of each, which are owed two events of each piece."""
    with ExitStack() as servers:
        for each in all_:
            servers.enter_context(each.server)
        urls = [each.server.url("/hook", **each.how) for each in all_]
        hooks = [subscribe(container, caller, type=ITEM_STATUS_EVENT, url=url) for url in urls]
        order = create_order(container, caller, people(pieces))
        clock.advance(seconds=1)
        move_pieces(container, order)
        yield hooks


@pytest.mark.parametrize("failure", FAILURES)
def test_a_failing_receiver_gets_all_once_well(container: Container, clock: Clock, owner: Caller, failure: str) -> None:
    mood, status, error = FAILURES[failure]
    ill, well = Moody(mood), Moody(WELL)
    with heard_by(container, clock, owner, ill, well) as (sick, lively):
        with pumping(container, poster_to(ill.server, well.server)):
            wait_until(lambda: all_delivered(container, lively))
            wait_until(lambda: tried(container, sick))
        first, second = by_place(container, sick)
        assert [row.response_status for row in first] == [status] * PIECES
        assert all(error is None or error in row.error for row in first)
        assert [row.attempts for row in second] == [0] * PIECES, "a later event overtook the earlier"
        delay = timedelta(seconds=120) if status == 429 else timedelta(seconds=5)
        assert min(row.next_at for row in first) >= clock.now() + delay

        ill.mood = WELL
        clock.advance(seconds=130)
        with pumping(container, poster_to(ill.server, well.server)):
            wait_until(lambda: all_delivered(container, sick))
        assert_in_order(ill.heard())
        assert len(well.heard()) == 2 * PIECES


def test_what_waits_goes_when_a_receiver_left_alone_answers(container: Container, clock: Clock, owner: Caller) -> None:
    """The waits of what failed meanwhile are minutes and hours: nothing waits so long at one that is well."""
    moody, pieces = Moody(DOWN), CIRCUIT_BREAKER_FAILURES + 3
    with heard_by(container, clock, owner, moody, pieces=pieces) as [hook]:
        with pumping(container, poster_to(moody.server)):
            wait_until(lambda: queue_row(container, hook).failures >= CIRCUIT_BREAKER_FAILURES)
        its, late = deliveries.c.webhook_id == hook.id, clock.now() + timedelta(hours=10)
        put_off = sa.update(deliveries).where(its, deliveries.c.attempts > 0).values(next_at=late)
        assert len(execute(container, put_off.returning(deliveries.c.id))) >= CIRCUIT_BREAKER_FAILURES
        clock.advance(seconds=20)
        moody.mood = WELL
        with pumping(container, poster_to(moody.server)):
            wait_until(lambda: all_delivered(container, hook, pieces))
    assert_in_order(moody.heard())


def test_a_receiver_that_sends_too_little_has_answered_still(container: Container, clock: Clock, owner: Caller) -> None:
    liar = Moody(reply_with("HTTP/1.1 200 OK\nContent-Length: 4000", b"thanks"))
    with heard_by(container, clock, owner, liar) as [hook]:
        with pumping(container, poster_to(liar.server)):
            wait_until(lambda: all_delivered(container, hook))
        assert len(liar.heard()) == 2 * PIECES
    assert {row.response_body for row in delivery_rows(container, hook)} == {"thanks"}


def test_a_receiver_that_is_gone_is_disabled_and_all_goes_on(container: Container, clock: Clock, owner: Caller) -> None:
    gone, well = Moody(reply_with("HTTP/1.1 410 Gone\nContent-Length: 0")), Moody(WELL)
    with (
        heard_by(container, clock, owner, gone, well) as (left, lively),
        pumping(container, poster_to(gone.server, well.server)),
    ):
        wait_until(lambda: all_delivered(container, lively))
        wait_until(lambda: {row.status for row in delivery_rows(container, left)} == {"failed"})
    assert webhook_row(container, left).status == "disabled"


def test_a_stranger_s_certificate_is_refused(container: Container, clock: Clock, owner: Caller, tmp_path: Path) -> None:
    forged = Moody(WELL, tls=self_signed(tmp_path), scheme="https")
    with heard_by(container, clock, owner, forged) as [hook]:
        with pumping(container, poster_to(forged.server)):
            wait_until(lambda: tried(container, hook))
        first, _ = by_place(container, hook)
        assert {row.error for row in first} == {"The certificate of 127.0.0.1 could not be verified."}
        assert forged.server.requests == [], "an event was told to whoever answered"
