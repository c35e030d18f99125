"""Who has how many deliveries in the air, and who goes next."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quillpost.notifications.ports import PostResult
from quillpost.notifications.webhooks import rules as webhook_rules
from quillpost.notifications.webhooks.concurrency import (
    INITIAL_CONCURRENCY,
    MAX_CONCURRENCY,
    EndpointQueue,
    InFlightDeliveries,
)
from quillpost.notifications.webhooks.outcomes import DeliveryOutcome, decide_outcome
from quillpost.notifications.webhooks.payloads import QUEUE_START, DueDelivery
from quillpost.notifications.webhooks.queries import HEALTHY_ENDPOINT, EndpointHealth, Lease

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)
NUMBERS = count(1)


def held(number: int = 1, *, health: EndpointHealth = HEALTHY_ENDPOINT, **changes: Any) -> Lease:
    known: dict[str, Any] = {
        "woken": 1,
        "leased_until": NOON + timedelta(minutes=1),
        "status": "active",
        "url": "https://example.com",
        "verb": "post",
        "secret_sealed": b"new",
        "previous_secret_sealed": None,
        "previous_until": None,
    }
    return Lease(webhook_id=number, health=health, **{**known, **changes})


def lane(number: int = 1, *, ready: int = 100, health: EndpointHealth = HEALTHY_ENDPOINT) -> EndpointQueue:
    one = EndpointQueue(held(number, health=health), leased_at=0)
    for _ in range(ready):
        due = DueDelivery(next(NUMBERS), NOON, number, "s", NOON, 0, 0, "e", "https://example.com", "post", "{}")
        one.ready.append(due)
        one.unacknowledged_ids.add(due.id)
    return one


def start_all(air: InFlightDeliveries, now: datetime = NOON) -> list[tuple[EndpointQueue, DueDelivery]]:
    return list(iter(lambda: air.start_next(now=now), None))


def outcome(
    due: DueDelivery, status: int | None = 200, *, asked: int | None = None, now: datetime = NOON
) -> DeliveryOutcome:
    return decide_outcome(due, PostResult(status, retry_after=asked), jitter=0, now=now)


def fly(air: InFlightDeliveries, of: EndpointQueue, *statuses: int | None, now: datetime = NOON) -> None:
    """One after the other."""
    for status in statuses:
        air.schedule_queues([of])
        taken = air.start_next(now=now)
        assert taken is not None, "nothing may start"
        air.complete_delivery(of, outcome(taken[1], status, now=now), now=now)


def test_a_receiver_gets_more_at_once_as_it_answers_and_half_as_many_when_it_fails() -> None:
    air, one = InFlightDeliveries(), lane()
    assert one.concurrency == INITIAL_CONCURRENCY
    fly(air, one, *[200] * 30)
    assert one.concurrency == MAX_CONCURRENCY
    fly(air, one, 500)
    assert one.concurrency == MAX_CONCURRENCY // 2
    fly(air, one, 500, None)
    assert one.concurrency == MAX_CONCURRENCY // 8
    fly(air, one, 200)
    assert one.concurrency == MAX_CONCURRENCY // 8 + 1


def test_no_more_start_than_the_window_has_room_for() -> None:
    air, one = InFlightDeliveries(), lane()
    air.schedule_queues([one])
    assert len(start_all(air)) == INITIAL_CONCURRENCY
    assert air.in_flight == INITIAL_CONCURRENCY


def test_lanes_take_turns() -> None:
    air, lanes = InFlightDeliveries(max_in_flight=4), [lane(number) for number in range(4)]
    for one in lanes:
        one.has_succeeded = True
    air.schedule_queues(lanes)
    assert Counter(one.lease.webhook_id for one, _ in start_all(air)) == dict.fromkeys(range(4), 1)


def test_those_that_have_not_answered_have_half_of_the_places() -> None:
    air = InFlightDeliveries(max_in_flight=20)
    silent, lively = [lane(number) for number in range(50)], lane(99)
    lively.has_succeeded, lively.concurrency_window = True, 20
    air.schedule_queues([*silent, lively])
    started = Counter(one is lively for one, _ in start_all(air))
    assert started == {True: 10, False: 10}


@pytest.mark.parametrize("lively", [0, 1, 5])
def test_silence_alone_never_takes_more_than_half(lively: int) -> None:
    air = InFlightDeliveries(max_in_flight=20)
    lanes = [lane(number) for number in range(50)]
    for one in lanes[:lively]:
        one.has_succeeded = True
    air.schedule_queues(lanes)
    flying = Counter(one.is_untrusted for one, _ in start_all(air))
    assert flying[True] == 10
    assert flying[False] == min(lively * INITIAL_CONCURRENCY, 10)


def test_one_that_answers_leaves_its_place_to_the_doubtful() -> None:
    air = InFlightDeliveries(max_in_flight=4)
    first, second = lane(1), lane(2)
    air.schedule_queues([first, second])
    started = start_all(air)
    assert len(started) == 2
    answering, due = started[0]
    air.complete_delivery(answering, outcome(due), now=NOON)
    assert len(start_all(air)) == 3  # its own two, and one more of the other


def test_after_failures_in_a_row_a_receiver_is_left_alone() -> None:
    air, one = InFlightDeliveries(), lane()
    fly(air, one, *[500] * (webhook_rules.CIRCUIT_BREAKER_FAILURES - 1))
    assert one.can_send(NOON)
    fly(air, one, 500)
    assert one.health == EndpointHealth(webhook_rules.CIRCUIT_BREAKER_FAILURES, NOON, NOON + webhook_rules.MIN_BACKOFF)
    assert (one.can_send(NOON), list(one.ready), one.read_limit(NOON)) == (False, [], 0)
    assert one.can_send(NOON + webhook_rules.MIN_BACKOFF)


def test_then_one_is_tried_at_a_time_and_each_failure_doubles_the_rest() -> None:
    air, now, rests = InFlightDeliveries(), NOON, []
    health = EndpointHealth(webhook_rules.CIRCUIT_BREAKER_FAILURES, NOON, NOON)
    for _ in range(9):
        one = lane(health=health)
        one.update_lease(held(health=health, leased_until=now + timedelta(minutes=1)))
        air.schedule_queues([one])
        [(_, due)] = start_all(air, now)
        air.complete_delivery(one, outcome(due, 500, now=now), now=now)
        health = one.health
        assert health.backoff_until is not None
        rests.append((health.backoff_until - now).total_seconds())
        now = health.backoff_until
    assert rests == [10, 20, 40, 80, 160, 320, 600, 600, 600]
    assert health.failing_since == NOON


def test_a_success_ends_it() -> None:
    air = InFlightDeliveries()
    one = lane(health=EndpointHealth(9, NOON, NOON))
    fly(air, one, 200)
    assert one.health == HEALTHY_ENDPOINT
    assert (one.concurrency, one.is_untrusted) == (INITIAL_CONCURRENCY + 1, False)


def test_failures_that_were_in_the_air_together_are_one_lesson() -> None:
    air, one = InFlightDeliveries(), lane()
    one.concurrency_window, one.has_succeeded = 20, True
    air.schedule_queues([one])
    for _, due in start_all(air):
        air.complete_delivery(one, outcome(due, 500), now=NOON)
    assert one.health == EndpointHealth(webhook_rules.CIRCUIT_BREAKER_FAILURES, NOON, NOON + webhook_rules.MIN_BACKOFF)
    assert air.in_flight == one.in_flight == 0


@pytest.mark.parametrize(
    ("status", "asked", "rest"), [(429, 30, 30), (503, 30, 30), (429, 86_400, 600), (500, 30, None), (429, None, None)]
)
def test_a_receiver_that_is_busy_is_left_alone_for_as_long_as_it_asks(
    status: int, asked: int | None, rest: int | None
) -> None:
    air, one = InFlightDeliveries(), lane()
    air.schedule_queues([one])
    [(_, due), _] = start_all(air)
    air.complete_delivery(one, outcome(due, status, asked=asked), now=NOON)
    assert one.health.backoff_until == (None if rest is None else NOON + timedelta(seconds=rest))


def test_one_that_is_gone_is_told_nothing_more() -> None:
    air, one = InFlightDeliveries(), lane()
    fly(air, one, 410)
    assert not one.can_start(NOON)
    assert not one.ready


def test_nothing_starts_in_a_lane_that_may_be_another_s() -> None:
    one = lane()
    assert one.can_start(NOON)
    assert not one.can_start(one.lease.leased_until)


@pytest.mark.parametrize("change", [{"url": "https://elsewhere.example"}, {"verb": "get"}, {"status": "paused"}])
def test_what_was_read_for_another_address_is_read_anew(change: dict[str, Any]) -> None:
    one = lane(ready=3)
    flying = one.ready.popleft()
    one.cursor = NOON, 9
    one.update_lease(held(**change))
    assert (list(one.ready), one.unacknowledged_ids, one.cursor) == ([], {flying.id}, QUEUE_START)


def test_an_owner_who_wants_it_tried_afresh_is_heeded() -> None:
    troubled = EndpointHealth(7, NOON, NOON + timedelta(minutes=1))
    one = lane(health=troubled)
    one.update_lease(held(woken=2, health=troubled))
    assert one.health == troubled
    one.update_lease(held(woken=3))
    assert one.health == HEALTHY_ENDPOINT


def test_failures_that_nobody_was_told_of_yet_are_not_forgotten_when_more_comes() -> None:
    air, one = InFlightDeliveries(), lane()
    fly(air, one, 500)
    one.update_lease(held(woken=2))
    assert one.health.failures == 1


@pytest.mark.parametrize(("minutes", "signers"), [(5, (b"new", b"old")), (0, (b"new",)), (-5, (b"new",))])
def test_while_a_secret_is_new_the_one_before_signs_too(minutes: int, signers: tuple[bytes, ...]) -> None:
    until = NOON + timedelta(minutes=minutes)
    assert held(previous_secret_sealed=b"old", previous_until=until).signing_secrets(NOON) == signers


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from([200, 500, 429, 410, None])), max_size=80))
def test_places_are_counted_right_whatever_comes(landings: list[tuple[int, int | None]]) -> None:
    air, lanes, now = InFlightDeliveries(max_in_flight=12), [lane(number) for number in range(4)], NOON
    flying: list[tuple[EndpointQueue, DueDelivery]] = []
    for number, status in landings:
        air.schedule_queues(lanes)
        flying += start_all(air, now)
        theirs = [each for each in flying if each[0] is lanes[number]]
        if theirs:
            flying.remove(theirs[0])
            air.complete_delivery(theirs[0][0], outcome(theirs[0][1], status, asked=1, now=now), now=now)
        now += timedelta(milliseconds=300)
        assert air.in_flight == len(flying) == sum(one.in_flight for one in lanes) <= 12
        assert air.untrusted_in_flight == sum(one.in_flight for one in lanes if one.is_untrusted)
        assert all(0 <= one.in_flight <= MAX_CONCURRENCY for one in lanes)
