"""Receivers that fail: left alone, given up, and their owners told."""

from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from outbox import claim, delivery_rows, fan_out, health, lane_row, set_columns, settle, subscribe
from placing import open_account, place
from receivers import deliver

from makers import Clock, people
from quillpost.accounts.models import Caller
from quillpost.app.container import Parts
from quillpost.core.database.tables.notifications import notices, webhook_lanes, webhooks
from quillpost.notifications.webhooks import failures
from quillpost.notifications.webhooks import queries as webhook_queries
from quillpost.notifications.webhooks import rules as webhook_rules
from quillpost.notifications.webhooks.leases import HEALTHY
from quillpost.notifications.webhooks.rules import ITEM_STATUS, ORDER_STATUS

URL = "https://example.com/hook"


@pytest.fixture
def owner(parts: Parts) -> Caller:
    return open_account(parts)


def row_of(parts: Parts, hook: webhook_queries.Webhook) -> sa.Row[Any]:
    with parts.db.work() as tx:
        return tx.execute(sa.select(webhooks).where(webhooks.c.id == hook.id)).one()


def told(parts: Parts) -> list[sa.Row[Any]]:
    with parts.db.work() as tx:
        return list(tx.execute(sa.select(notices).order_by(notices.c.id)).all())


def trouble(parts: Parts, hook: webhook_queries.Webhook, **since: float) -> None:
    with parts.db.work() as tx:
        at = parts.clock() - timedelta(**since)
        of_it = webhook_lanes.c.webhook_id == hook.id
        tx.execute(webhook_lanes.update().where(of_it).values(failures=9, troubled_since=at))


def test_after_the_last_try_the_subscription_is_failing_and_its_owner_is_told(
    parts: Parts, clock: Clock, owner: Caller
) -> None:
    hook = subscribe(parts, owner, type=ORDER_STATUS, url=URL)
    place(parts, owner)
    begun = parts.clock()
    for wait in webhook_rules.RETRY_AFTER:
        assert len(deliver(parts, 500).asked) == 1
        assert (row_of(parts, hook).status, told(parts)) == ("active", [])
        clock.advance(seconds=wait.total_seconds() * 1.2)
    deliver(parts, 500)
    row, [delivery], [notice] = row_of(parts, hook), delivery_rows(parts, hook), told(parts)
    assert (delivery.status, delivery.attempts, delivery.next_at) == ("failed", 10, None)
    assert (row.status, row.failing_since, row.last_error) == ("failing", begun, "The receiver answered 500.")
    assert (notice.account_id, notice.address, notice.kind) == (
        owner.account_id,
        "owner@example.com",
        "webhook",
    )
    for word in (URL, "2026-05-04 12:00:00 UTC", "The receiver answered 500.", "replay", "retry"):
        assert word in notice.words


def fail_for_good(parts: Parts, owner: Caller) -> None:
    place(parts, owner)
    fan_out(parts)
    settle(parts, claim(parts), "failed", response_status=500, response_body="no\n\n  idea")


def test_an_owner_is_told_once_until_the_receiver_answers_again(
    parts: Parts, clock: Clock, owner: Caller
) -> None:
    hook = subscribe(parts, owner, type=ORDER_STATUS)
    for _ in range(2):
        fail_for_good(parts, owner)
        clock.advance(days=1)
    assert row_of(parts, hook).last_error == "The receiver answered 500: no idea"
    assert len(told(parts)) == 1
    place(parts, owner)
    fan_out(parts)
    settle(parts, claim(parts))
    row = row_of(parts, hook)
    assert (row.status, row.failing_since, row.last_error) == ("active", None, None)
    fail_for_good(parts, owner)
    assert len(told(parts)) == 2


def test_one_that_comes_and_goes_is_told_of_once_a_day(parts: Parts, clock: Clock, owner: Caller) -> None:
    hook = subscribe(parts, owner, type=ORDER_STATUS)
    for _ in range(3):
        fail_for_good(parts, owner)
        set_columns(parts, webhooks, hook.id, status="active")
        clock.advance(minutes=5)
    assert len(told(parts)) == 1


def test_a_failure_is_shown_while_it_is_tried_again_and_a_success_takes_it_away(
    parts: Parts, clock: Clock, owner: Caller
) -> None:
    hook = subscribe(parts, owner, type=ORDER_STATUS)
    place(parts, owner)
    deliver(parts, 503)
    row = row_of(parts, hook)
    assert (row.status, row.last_error) == ("active", "The receiver answered 503.")
    assert (lane_row(parts, hook).failures, lane_row(parts, hook).troubled_since) == (1, parts.clock())
    clock.advance(seconds=6)
    deliver(parts, 200)
    assert row_of(parts, hook).last_error is None
    assert health(parts, hook) == HEALTHY


def test_a_receiver_that_is_gone_has_its_owner_told(parts: Parts, owner: Caller) -> None:
    hook = subscribe(parts, owner, type=ORDER_STATUS, url=URL)
    place(parts, owner)
    deliver(parts, 410)
    row, [notice] = row_of(parts, hook), told(parts)
    assert (row.status, row.last_error, row.failing_since) == ("disabled", failures.GONE, parts.clock())
    assert "switched off" in notice.subject
    for word in (URL, "gone", "resume", "replay"):
        assert word in notice.words


def test_what_waits_for_a_disabled_one_fails_bit_by_bit(
    parts: Parts, owner: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failures, "AT_ONCE", 2)
    hook = subscribe(parts, owner, type=ITEM_STATUS)
    place(parts, owner, people(6))
    fan_out(parts)
    with parts.db.work() as tx:
        failures.disable(tx, hook.id, why="gone", now=parts.clock())
        assert [failures.clear_disabled(tx, hook.id) for _ in range(3)] == [True, True, False]
    assert {row.status for row in delivery_rows(parts, hook)} == {"failed"}


def test_after_failures_in_a_row_the_receiver_is_left_alone_and_then_tried_with_one(
    parts: Parts, clock: Clock, owner: Caller
) -> None:
    hook = subscribe(parts, owner, type=ORDER_STATUS)
    for _ in range(10):
        place(parts, owner)
    deliver(parts, *[500] * 5)
    lane = lane_row(parts, hook)
    assert (lane.failures, lane.resting_until) == (5, parts.clock() + webhook_rules.FIRST_REST)
    clock.advance(seconds=5)
    deliver(parts, 500)
    lane = lane_row(parts, hook)
    assert (lane.failures, lane.resting_until) == (6, parts.clock() + 2 * webhook_rules.FIRST_REST)
    clock.advance(seconds=10)
    assert len(deliver(parts, *[200] * 10).asked) == 10
    assert {row.status for row in delivery_rows(parts, hook)} == {"delivered"}


def test_what_waited_in_vain_all_the_time_is_given_up_and_its_owner_told(
    parts: Parts, clock: Clock, owner: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failures, "AT_ONCE", 2)
    hook, fine = subscribe(parts, owner, type=ITEM_STATUS), subscribe(parts, owner, type=ITEM_STATUS)
    place(parts, owner, people(5))
    fan_out(parts)
    clock.advance(seconds=webhook_rules.LONGEST_WAIT.total_seconds() + 1)
    place(parts, owner, people(5)[:1], message="Something else")
    fan_out(parts)
    failures.give_up(parts.db, now=parts.clock())
    assert {row.status for row in delivery_rows(parts, hook)} == {"pending"}
    trouble(parts, hook, days=3)  # not for as long
    failures.give_up(parts.db, now=parts.clock())
    assert {row.status for row in delivery_rows(parts, hook)} == {"pending"}
    assert [notice.subject for notice in told(parts)] == ["A webhook of yours cannot be reached"]
    trouble(parts, hook, seconds=webhook_rules.LONGEST_WAIT.total_seconds() + 1)
    failures.give_up(parts.db, now=parts.clock())
    *old, new = delivery_rows(parts, hook)
    assert {(row.status, row.error, row.next_at) for row in old} == {
        ("failed", failures.NEVER_ANSWERED, None)
    }
    assert (len(old), new.status) == (5, "pending")
    assert {row.status for row in delivery_rows(parts, fine)} == {"pending"}
    assert (row_of(parts, hook).status, len(told(parts))) == ("failing", 2)
    assert row_of(parts, hook).failing_since == old[0].created_at
    assert told(parts)[1].subject == "Events for a webhook of yours were given up"
    failures.give_up(parts.db, now=parts.clock())
    assert len(told(parts)) == 2


def test_what_waits_for_one_that_is_paused_is_not_given_up(parts: Parts, clock: Clock, owner: Caller) -> None:
    hook = subscribe(parts, owner, type=ORDER_STATUS)
    place(parts, owner)
    fan_out(parts)
    set_columns(parts, webhooks, hook.id, status="paused")
    clock.advance(days=10)
    trouble(parts, hook, days=9)
    failures.give_up(parts.db, now=parts.clock())
    assert [row.status for row in delivery_rows(parts, hook)] == ["pending"]


def test_an_owner_hears_of_trouble_after_an_hour_once_and_a_success_heals_it(
    parts: Parts, clock: Clock, owner: Caller
) -> None:
    hook, paused = (subscribe(parts, owner, type=ORDER_STATUS, url=URL) for _ in range(2))
    set_columns(parts, webhooks, paused.id, status="paused")
    place(parts, owner)
    begun = parts.clock()
    deliver(parts, 500)
    trouble(parts, paused, hours=9)
    clock.advance(seconds=webhook_rules.TOLD_AFTER.total_seconds())
    failures.give_up(parts.db, now=parts.clock())
    assert (row_of(parts, hook).status, told(parts)) == ("active", [])
    clock.advance(seconds=1)
    for _ in range(2):
        failures.give_up(parts.db, now=parts.clock())
        row, [notice] = row_of(parts, hook), told(parts)
        assert (row.status, row.failing_since) == ("failing", begun)
    assert (notice.account_id, notice.address) == (owner.account_id, "owner@example.com")
    for word in (
        URL,
        "2026-05-04 12:00:00 UTC",
        "The receiver answered 500.",
        "Nothing is lost yet",
        "resume",
    ):
        assert word in notice.words
    assert row_of(parts, paused).status == "paused"
    deliver(parts, 200)
    row = row_of(parts, hook)
    assert (row.status, row.failing_since, row.last_error) == ("active", None, None)


def test_one_that_somebody_has_in_hand_is_told_of_the_next_time(parts: Parts, owner: Caller) -> None:
    slow, hook = (subscribe(parts, owner) for _ in range(2))
    for each in (slow, hook):
        trouble(parts, each, hours=2)
    with parts.db.work() as changing:
        webhook_queries.read_webhook(changing, slow.id, locked=True)
        failures.give_up(parts.db, now=parts.clock())
    assert [row_of(parts, each).status for each in (slow, hook)] == ["active", "failing"]
    failures.give_up(parts.db, now=parts.clock())
    assert row_of(parts, slow).status == "failing"
