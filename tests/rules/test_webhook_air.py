"""Who has how many deliveries in the air, and who goes next."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quillpost.notifications.ports import PostOutcome
from quillpost.notifications.webhooks import rules as webhook_rules
from quillpost.notifications.webhooks.concurrency import FIRST_WINDOW, WIDEST_WINDOW, Air, Lane
from quillpost.notifications.webhooks.leases import HEALTHY, Health, Held
from quillpost.notifications.webhooks.outcomes import Outcome, judge
from quillpost.notifications.webhooks.payloads import START, Due

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)
NUMBERS = count(1)


def held(number: int = 1, *, health: Health = HEALTHY, **changes: Any) -> Held:
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
    return Held(webhook_id=number, health=health, **{**known, **changes})


def lane(number: int = 1, *, ready: int = 100, health: Health = HEALTHY) -> Lane:
    one = Lane(held(number, health=health), since=0)
    for _ in range(ready):
        due = Due(next(NUMBERS), NOON, number, "s", NOON, 0, 0, "e", "https://example.com", "post", "{}")
        one.ready.append(due)
        one.known.add(due.id)
    return one


def start_all(air: Air, now: datetime = NOON) -> list[tuple[Lane, Due]]:
    return list(iter(lambda: air.take(now=now), None))


def outcome(due: Due, status: int | None = 200, *, asked: int | None = None, now: datetime = NOON) -> Outcome:
    return judge(due, PostOutcome(status, retry_after=asked), jitter=0, now=now)


def fly(air: Air, of: Lane, *statuses: int | None, now: datetime = NOON) -> None:
    """One after the other."""
    for status in statuses:
        air.queue([of])
        taken = air.take(now=now)
        assert taken is not None, "nothing may start"
        air.land(of, outcome(taken[1], status, now=now), now=now)


def test_a_receiver_gets_more_at_once_as_it_answers_and_half_as_many_when_it_fails() -> None:
    air, one = Air(), lane()
    assert one.width == FIRST_WINDOW
    fly(air, one, *[200] * 30)
    assert one.width == WIDEST_WINDOW
    fly(air, one, 500)
    assert one.width == WIDEST_WINDOW // 2
    fly(air, one, 500, None)
    assert one.width == WIDEST_WINDOW // 8
    fly(air, one, 200)
    assert one.width == WIDEST_WINDOW // 8 + 1


def test_no_more_start_than_the_window_has_room_for() -> None:
    air, one = Air(), lane()
    air.queue([one])
    assert len(start_all(air)) == FIRST_WINDOW
    assert air.flying == FIRST_WINDOW


def test_lanes_take_turns() -> None:
    air, lanes = Air(places=4), [lane(number) for number in range(4)]
    for one in lanes:
        one.has_answered = True
    air.queue(lanes)
    assert Counter(one.held.webhook_id for one, _ in start_all(air)) == dict.fromkeys(range(4), 1)


def test_those_that_have_not_answered_have_half_of_the_places() -> None:
    air = Air(places=20)
    silent, lively = [lane(number) for number in range(50)], lane(99)
    lively.has_answered, lively.window = True, 20
    air.queue([*silent, lively])
    started = Counter(one is lively for one, _ in start_all(air))
    assert started == {True: 10, False: 10}


@pytest.mark.parametrize("lively", [0, 1, 5])
def test_silence_alone_never_takes_more_than_half(lively: int) -> None:
    air = Air(places=20)
    lanes = [lane(number) for number in range(50)]
    for one in lanes[:lively]:
        one.has_answered = True
    air.queue(lanes)
    flying = Counter(one.is_doubtful for one, _ in start_all(air))
    assert flying[True] == 10
    assert flying[False] == min(lively * FIRST_WINDOW, 10)


def test_one_that_answers_leaves_its_place_to_the_doubtful() -> None:
    air = Air(places=4)
    first, second = lane(1), lane(2)
    air.queue([first, second])
    started = start_all(air)
    assert len(started) == 2
    answering, due = started[0]
    air.land(answering, outcome(due), now=NOON)
    assert len(start_all(air)) == 3  # its own two, and one more of the other


def test_after_failures_in_a_row_a_receiver_is_left_alone() -> None:
    air, one = Air(), lane()
    fly(air, one, *[500] * (webhook_rules.BREAKS_AFTER - 1))
    assert one.is_open(NOON)
    fly(air, one, 500)
    assert one.health == Health(webhook_rules.BREAKS_AFTER, NOON, NOON + webhook_rules.FIRST_REST)
    assert (one.is_open(NOON), list(one.ready), one.wanted(NOON)) == (False, [], 0)
    assert one.is_open(NOON + webhook_rules.FIRST_REST)


def test_then_one_is_tried_at_a_time_and_each_failure_doubles_the_rest() -> None:
    air, now, rests = Air(), NOON, []
    health = Health(webhook_rules.BREAKS_AFTER, NOON, NOON)
    for _ in range(9):
        one = lane(health=health)
        one.see(held(health=health, leased_until=now + timedelta(minutes=1)))
        air.queue([one])
        [(_, due)] = start_all(air, now)
        air.land(one, outcome(due, 500, now=now), now=now)
        health = one.health
        assert health.resting_until is not None
        rests.append((health.resting_until - now).total_seconds())
        now = health.resting_until
    assert rests == [10, 20, 40, 80, 160, 320, 600, 600, 600]
    assert health.troubled_since == NOON


def test_a_success_ends_it() -> None:
    air = Air()
    one = lane(health=Health(9, NOON, NOON))
    fly(air, one, 200)
    assert one.health == HEALTHY
    assert (one.width, one.is_doubtful) == (FIRST_WINDOW + 1, False)


def test_failures_that_were_in_the_air_together_are_one_lesson() -> None:
    air, one = Air(), lane()
    one.window, one.has_answered = 20, True
    air.queue([one])
    for _, due in start_all(air):
        air.land(one, outcome(due, 500), now=NOON)
    assert one.health == Health(webhook_rules.BREAKS_AFTER, NOON, NOON + webhook_rules.FIRST_REST)
    assert air.flying == one.flying == 0


@pytest.mark.parametrize(
    ("status", "asked", "rest"),
    [(429, 30, 30), (503, 30, 30), (429, 86_400, 600), (500, 30, None), (429, None, None)],
)
def test_a_receiver_that_is_busy_is_left_alone_for_as_long_as_it_asks(
    status: int, asked: int | None, rest: int | None
) -> None:
    air, one = Air(), lane()
    air.queue([one])
    [(_, due), _] = start_all(air)
    air.land(one, outcome(due, status, asked=asked), now=NOON)
    assert one.health.resting_until == (None if rest is None else NOON + timedelta(seconds=rest))


def test_one_that_is_gone_is_told_nothing_more() -> None:
    air, one = Air(), lane()
    fly(air, one, 410)
    assert not one.can_start(NOON)
    assert not one.ready


def test_nothing_starts_in_a_lane_that_may_be_another_s() -> None:
    one = lane()
    assert one.can_start(NOON)
    assert not one.can_start(one.held.leased_until)


@pytest.mark.parametrize(
    "change", [{"url": "https://elsewhere.example"}, {"verb": "get"}, {"status": "paused"}]
)
def test_what_was_read_for_another_address_is_read_anew(change: dict[str, Any]) -> None:
    one = lane(ready=3)
    flying = one.ready.popleft()
    one.place = NOON, 9
    one.see(held(**change))
    assert (list(one.ready), one.known, one.place) == ([], {flying.id}, START)


def test_an_owner_who_wants_it_tried_afresh_is_heeded() -> None:
    troubled = Health(7, NOON, NOON + timedelta(minutes=1))
    one = lane(health=troubled)
    one.see(held(woken=2, health=troubled))
    assert one.health == troubled
    one.see(held(woken=3))
    assert one.health == HEALTHY


def test_failures_that_nobody_was_told_of_yet_are_not_forgotten_when_more_comes() -> None:
    air, one = Air(), lane()
    fly(air, one, 500)
    one.see(held(woken=2))
    assert one.health.failures == 1


@pytest.mark.parametrize(("minutes", "signers"), [(5, (b"new", b"old")), (0, (b"new",)), (-5, (b"new",))])
def test_while_a_secret_is_new_the_one_before_signs_too(minutes: int, signers: tuple[bytes, ...]) -> None:
    until = NOON + timedelta(minutes=minutes)
    assert held(previous_secret_sealed=b"old", previous_until=until).secrets(NOON) == signers


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from([200, 500, 429, 410, None])), max_size=80))
def test_places_are_counted_right_whatever_comes(landings: list[tuple[int, int | None]]) -> None:
    air, lanes, now = Air(places=12), [lane(number) for number in range(4)], NOON
    flying: list[tuple[Lane, Due]] = []
    for number, status in landings:
        air.queue(lanes)
        flying += start_all(air, now)
        theirs = [each for each in flying if each[0] is lanes[number]]
        if theirs:
            flying.remove(theirs[0])
            air.land(theirs[0][0], outcome(theirs[0][1], status, asked=1, now=now), now=now)
        now += timedelta(milliseconds=300)
        assert air.flying == len(flying) == sum(one.flying for one in lanes) <= 12
        assert air.in_doubt == sum(one.flying for one in lanes if one.is_doubtful)
        assert all(0 <= one.flying <= WIDEST_WINDOW for one in lanes)
