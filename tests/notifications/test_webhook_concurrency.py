"""Who has how many deliveries in the air, and who goes next."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

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


def attempt_each(
    deliveries: InFlightDeliveries, of: EndpointQueue, *statuses: int | None, now: datetime = NOON
) -> None:
    """One after the other."""
    for status in statuses:
        deliveries.schedule_queues([of])
        taken = deliveries.start_next(now=now)
        assert taken is not None, "nothing may start"
        deliveries.complete_delivery(of, outcome(taken[1], status, now), now=now)


def test_a_receiver_gets_more_at_once_as_it_answers_and_half_as_many_when_it_fails() -> None:
    deliveries, one = InFlightDeliveries(), make_queue()
    deliveries.schedule_queues([one])
    assert len(start_all(deliveries)) == deliveries.in_flight == one.concurrency == INITIAL_CONCURRENCY
    deliveries, one = InFlightDeliveries(), make_queue()
    attempt_each(deliveries, one, *[200] * 30)
    assert one.concurrency == MAX_CONCURRENCY
    attempt_each(deliveries, one, 500)
    assert one.concurrency == MAX_CONCURRENCY // 2
    attempt_each(deliveries, one, 500, None)
    assert one.concurrency == MAX_CONCURRENCY // 8
    attempt_each(deliveries, one, 200)
    assert one.concurrency == MAX_CONCURRENCY // 8 + 1


def test_queues_get_equal_shares() -> None:
    deliveries, queues = InFlightDeliveries(max_in_flight=4), [make_queue(number) for number in range(4)]
    for one in queues:
        one.has_succeeded = True
    deliveries.schedule_queues(queues)
    assert Counter(one.lease.webhook_id for one, _ in start_all(deliveries)) == dict.fromkeys(range(4), 1)


def test_those_that_have_not_answered_have_half_of_the_places() -> None:
    deliveries = InFlightDeliveries(max_in_flight=20)
    silent, lively = [make_queue(number) for number in range(50)], make_queue(99)
    lively.has_succeeded, lively.concurrency_window = True, 20
    deliveries.schedule_queues([*silent, lively])
    started = Counter(one is lively for one, _ in start_all(deliveries))
    assert started == {True: 10, False: 10}


def test_silence_alone_never_takes_more_than_half() -> None:
    for lively in (0, 1, 5):
        deliveries, queues = InFlightDeliveries(max_in_flight=20), [make_queue(number) for number in range(50)]
        for one in queues[:lively]:
            one.has_succeeded = True
        deliveries.schedule_queues(queues)
        counts = Counter(one.is_untrusted for one, _ in start_all(deliveries))
        assert (counts[True], counts[False]) == (10, min(lively * INITIAL_CONCURRENCY, 10)), lively


def test_one_that_answers_leaves_its_place_to_the_doubtful() -> None:
    deliveries = InFlightDeliveries(max_in_flight=4)
    first, second = make_queue(1), make_queue(2)
    deliveries.schedule_queues([first, second])
    started = start_all(deliveries)
    assert len(started) == 2
    answering, due = started[0]
    deliveries.complete_delivery(answering, outcome(due), now=NOON)
    assert len(start_all(deliveries)) == 3  # its own two, and one more of the other


def test_after_failures_in_a_row_a_receiver_is_left_alone() -> None:
    deliveries, one = InFlightDeliveries(), make_queue()
    attempt_each(deliveries, one, *[500] * (webhook_rules.CIRCUIT_BREAKER_FAILURES - 1))
    assert one.can_send(NOON)
    attempt_each(deliveries, one, 500)
    assert one.health == EndpointHealth(webhook_rules.CIRCUIT_BREAKER_FAILURES, NOON, NOON + webhook_rules.MIN_BACKOFF)
    assert (one.can_send(NOON), list(one.ready), one.read_limit(NOON)) == (False, [], 0)
    assert one.can_send(NOON + webhook_rules.MIN_BACKOFF)


def test_then_one_is_tried_at_a_time_and_each_failure_doubles_the_rest() -> None:
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
    assert rests == [10, 20, 40, 80, 160, 320, 600, 600, 600]
    assert health.failing_since == NOON


def test_a_success_ends_it() -> None:
    one = make_queue(health=EndpointHealth(9, NOON, NOON))
    attempt_each(InFlightDeliveries(), one, 200)
    assert one.health == HEALTHY_ENDPOINT
    assert (one.concurrency, one.is_untrusted) == (INITIAL_CONCURRENCY + 1, False)


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


def test_nothing_starts_at_a_receiver_that_is_gone_or_in_a_queue_whose_lease_has_ended() -> None:
    deliveries, one = InFlightDeliveries(), make_queue()
    assert (one.can_start(NOON), one.can_start(one.lease.leased_until)) == (True, False)
    attempt_each(deliveries, one, 410)
    assert (one.can_start(NOON), list(one.ready)) == (False, [])


def test_deliveries_read_for_a_changed_endpoint_are_read_again() -> None:
    changes: list[dict[str, Any]] = [{"url": "https://elsewhere.example"}, {"verb": "get"}, {"status": "paused"}]
    for change in changes:
        one = make_queue(ready=3)
        delivery = one.ready.popleft()
        one.cursor = NOON, 9
        one.update_lease(held(**change))
        assert (list(one.ready), one.unacknowledged_ids, one.cursor) == ([], {delivery.id}, QUEUE_START), change


def test_an_owner_can_reset_the_health_of_an_endpoint() -> None:
    failing = EndpointHealth(7, NOON, NOON + timedelta(minutes=1))
    one = make_queue(health=failing)
    one.update_lease(held(woken=2, health=failing))
    assert one.health == failing
    one.update_lease(held(woken=3))
    assert one.health == HEALTHY_ENDPOINT


def test_unrecorded_failures_are_kept_when_the_lease_is_updated() -> None:
    deliveries, one = InFlightDeliveries(), make_queue()
    attempt_each(deliveries, one, 500)
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
