"""Receivers that fail: left alone, given up, and their owners told."""

from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.accounts.models import Caller
from quillpost.app.container import Container
from quillpost.core.database.tables.notifications import notices, webhook_lanes, webhooks
from quillpost.notifications.webhooks import queries as webhook_queries
from quillpost.notifications.webhooks import rules as webhook_rules
from quillpost.notifications.webhooks import service as webhook_service
from quillpost.notifications.webhooks.queries import HEALTHY_ENDPOINT
from quillpost.notifications.webhooks.rules import ITEM_STATUS_EVENT, ORDER_STATUS_EVENT
from support.factories import Clock, people
from support.orders import create_order, open_account
from support.webhook_outbox import (
    claim_deliveries,
    complete_deliveries,
    delivery_rows,
    fan_out,
    health,
    queue_row,
    set_columns,
    subscribe,
)
from support.webhook_receivers import deliver

pytestmark = pytest.mark.usefixtures("clean_database")

URL = "https://example.com/hook"


@pytest.fixture
def owner(container: Container) -> Caller:
    return open_account(container)


def row_of(container: Container, hook: webhook_queries.WebhookSubscription) -> sa.Row[Any]:
    with container.db.system_transaction() as tx:
        return tx.execute(sa.select(webhooks).where(webhooks.c.id == hook.id)).one()


def sent_notices(container: Container) -> list[sa.Row[Any]]:
    with container.db.system_transaction() as tx:
        return list(tx.execute(sa.select(notices).order_by(notices.c.id)).all())


def mark_failing(container: Container, hook: webhook_queries.WebhookSubscription, **since: float) -> None:
    with container.db.system_transaction() as tx:
        at = container.clock() - timedelta(**since)
        of_it = webhook_lanes.c.webhook_id == hook.id
        tx.execute(webhook_lanes.update().where(of_it).values(failures=9, troubled_since=at))


def test_after_the_last_attempt_the_subscription_is_failing_and_its_owner_is_notified(
    container: Container, clock: Clock, owner: Caller
) -> None:
    hook = subscribe(container, owner, type=ORDER_STATUS_EVENT, url=URL)
    create_order(container, owner)
    begun = container.clock()
    for wait in webhook_rules.RETRY_DELAYS:
        assert len(deliver(container, 500).requests) == 1
        assert (row_of(container, hook).status, sent_notices(container)) == ("active", [])
        clock.advance(seconds=wait.total_seconds() * 1.2)
    deliver(container, 500)
    row, [delivery], [notice] = row_of(container, hook), delivery_rows(container, hook), sent_notices(container)
    assert (delivery.status, delivery.attempts, delivery.next_at) == ("failed", 10, None)
    assert (row.status, row.failing_since, row.last_error) == ("failing", begun, "The receiver answered 500.")
    assert (notice.account_id, notice.address, notice.kind) == (owner.account_id, "owner@example.com", "webhook")
    for word in (URL, "2026-05-04 12:00:00 UTC", "The receiver answered 500.", "replay", "retry"):
        assert word in notice.words


def fail_for_good(container: Container, owner: Caller) -> None:
    create_order(container, owner)
    fan_out(container)
    complete_deliveries(
        container, claim_deliveries(container), "failed", response_status=500, response_body="no\n\n  idea"
    )


def test_an_owner_is_notified_once_until_the_receiver_answers_again(
    container: Container, clock: Clock, owner: Caller
) -> None:
    hook = subscribe(container, owner, type=ORDER_STATUS_EVENT)
    for _ in range(2):
        fail_for_good(container, owner)
        clock.advance(days=1)
    assert row_of(container, hook).last_error == "The receiver answered 500: no idea"
    assert len(sent_notices(container)) == 1
    create_order(container, owner)
    fan_out(container)
    complete_deliveries(container, claim_deliveries(container))
    row = row_of(container, hook)
    assert (row.status, row.failing_since, row.last_error) == ("active", None, None)
    fail_for_good(container, owner)
    assert len(sent_notices(container)) == 2


def test_an_unstable_receiver_is_reported_once_a_day(container: Container, clock: Clock, owner: Caller) -> None:
    hook = subscribe(container, owner, type=ORDER_STATUS_EVENT)
    for _ in range(3):
        fail_for_good(container, owner)
        set_columns(container, webhooks, hook.id, status="active")
        clock.advance(minutes=5)
    assert len(sent_notices(container)) == 1


def test_a_failure_is_shown_while_it_is_tried_again_and_a_success_takes_it_away(
    container: Container, clock: Clock, owner: Caller
) -> None:
    hook = subscribe(container, owner, type=ORDER_STATUS_EVENT)
    create_order(container, owner)
    deliver(container, 503)
    row = row_of(container, hook)
    assert (row.status, row.last_error) == ("active", "The receiver answered 503.")
    assert (queue_row(container, hook).failures, queue_row(container, hook).troubled_since) == (1, container.clock())
    clock.advance(seconds=6)
    deliver(container, 200)
    assert row_of(container, hook).last_error is None
    assert health(container, hook) == HEALTHY_ENDPOINT


def test_the_owner_is_notified_of_a_receiver_that_is_gone(container: Container, owner: Caller) -> None:
    hook = subscribe(container, owner, type=ORDER_STATUS_EVENT, url=URL)
    create_order(container, owner)
    deliver(container, 410)
    row, [notice] = row_of(container, hook), sent_notices(container)
    assert (row.status, row.last_error, row.failing_since) == (
        "disabled",
        webhook_service.GONE_ERROR,
        container.clock(),
    )
    assert "switched off" in notice.subject
    for word in (URL, "gone", "resume", "replay"):
        assert word in notice.words


def test_what_waits_for_a_disabled_one_fails_bit_by_bit(
    container: Container, owner: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook_service, "DELIVERIES_PER_TRANSACTION", 2)
    hook = subscribe(container, owner, type=ITEM_STATUS_EVENT)
    create_order(container, owner, people(6))
    fan_out(container)
    with container.db.system_transaction() as tx:
        webhook_service.disable_webhook(tx, hook.id, reason="gone", now=container.clock())
        assert [webhook_service.fail_disabled_deliveries(tx, hook.id) for _ in range(3)] == [True, True, False]
    assert {row.status for row in delivery_rows(container, hook)} == {"failed"}


def test_after_failures_in_a_row_the_receiver_is_left_alone_and_then_tried_with_one(
    container: Container, clock: Clock, owner: Caller
) -> None:
    hook = subscribe(container, owner, type=ORDER_STATUS_EVENT)
    for _ in range(10):
        create_order(container, owner)
    deliver(container, *[500] * 5)
    queue = queue_row(container, hook)
    assert (queue.failures, queue.resting_until) == (5, container.clock() + webhook_rules.MIN_BACKOFF)
    clock.advance(seconds=5)
    deliver(container, 500)
    queue = queue_row(container, hook)
    assert (queue.failures, queue.resting_until) == (6, container.clock() + 2 * webhook_rules.MIN_BACKOFF)
    clock.advance(seconds=10)
    assert len(deliver(container, *[200] * 10).requests) == 10
    assert {row.status for row in delivery_rows(container, hook)} == {"delivered"}


def test_deliveries_past_the_retry_time_are_given_up_and_the_owner_is_notified(
    container: Container, clock: Clock, owner: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook_service, "DELIVERIES_PER_TRANSACTION", 2)
    hook, fine = (
        subscribe(container, owner, type=ITEM_STATUS_EVENT),
        subscribe(container, owner, type=ITEM_STATUS_EVENT),
    )
    create_order(container, owner, people(5))
    fan_out(container)
    clock.advance(seconds=webhook_rules.MAX_RETRY_TIME.total_seconds() + 1)
    create_order(container, owner, people(5)[:1], message="Something else")
    fan_out(container)
    webhook_service.give_up_failing(container.db, now=container.clock())
    assert {row.status for row in delivery_rows(container, hook)} == {"pending"}
    mark_failing(container, hook, days=3)  # not for as long
    webhook_service.give_up_failing(container.db, now=container.clock())
    assert {row.status for row in delivery_rows(container, hook)} == {"pending"}
    assert [notice.subject for notice in sent_notices(container)] == ["A webhook of yours cannot be reached"]
    mark_failing(container, hook, seconds=webhook_rules.MAX_RETRY_TIME.total_seconds() + 1)
    webhook_service.give_up_failing(container.db, now=container.clock())
    *old, new = delivery_rows(container, hook)
    assert {(row.status, row.error, row.next_at) for row in old} == {
        ("failed", webhook_service.RETRIES_EXHAUSTED_ERROR, None)
    }
    assert (len(old), new.status) == (5, "pending")
    assert {row.status for row in delivery_rows(container, fine)} == {"pending"}
    assert (row_of(container, hook).status, len(sent_notices(container))) == ("failing", 2)
    assert row_of(container, hook).failing_since == old[0].created_at
    assert sent_notices(container)[1].subject == "Events for a webhook of yours were given up"
    webhook_service.give_up_failing(container.db, now=container.clock())
    assert len(sent_notices(container)) == 2


def test_what_waits_for_one_that_is_paused_is_not_given_up(container: Container, clock: Clock, owner: Caller) -> None:
    hook = subscribe(container, owner, type=ORDER_STATUS_EVENT)
    create_order(container, owner)
    fan_out(container)
    set_columns(container, webhooks, hook.id, status="paused")
    clock.advance(days=10)
    mark_failing(container, hook, days=9)
    webhook_service.give_up_failing(container.db, now=container.clock())
    assert [row.status for row in delivery_rows(container, hook)] == ["pending"]


def test_an_owner_is_notified_once_after_an_hour_of_failures_and_a_success_ends_them(
    container: Container, clock: Clock, owner: Caller
) -> None:
    hook, paused = (subscribe(container, owner, type=ORDER_STATUS_EVENT, url=URL) for _ in range(2))
    set_columns(container, webhooks, paused.id, status="paused")
    create_order(container, owner)
    begun = container.clock()
    deliver(container, 500)
    mark_failing(container, paused, hours=9)
    clock.advance(seconds=webhook_rules.FAILING_NOTICE_AFTER.total_seconds())
    webhook_service.give_up_failing(container.db, now=container.clock())
    assert (row_of(container, hook).status, sent_notices(container)) == ("active", [])
    clock.advance(seconds=1)
    for _ in range(2):
        webhook_service.give_up_failing(container.db, now=container.clock())
        row, [notice] = row_of(container, hook), sent_notices(container)
        assert (row.status, row.failing_since) == ("failing", begun)
    assert (notice.account_id, notice.address) == (owner.account_id, "owner@example.com")
    for word in (URL, "2026-05-04 12:00:00 UTC", "The receiver answered 500.", "Nothing is lost yet", "resume"):
        assert word in notice.words
    assert row_of(container, paused).status == "paused"
    deliver(container, 200)
    row = row_of(container, hook)
    assert (row.status, row.failing_since, row.last_error) == ("active", None, None)


def test_a_locked_subscription_is_reported_the_next_time(container: Container, owner: Caller) -> None:
    slow, hook = (subscribe(container, owner) for _ in range(2))
    for each in (slow, hook):
        mark_failing(container, each, hours=2)
    with container.db.system_transaction() as changing:
        webhook_queries.read_webhook(changing, slow.id, locked=True)
        webhook_service.give_up_failing(container.db, now=container.clock())
    assert [row_of(container, each).status for each in (slow, hook)] == ["active", "failing"]
    webhook_service.give_up_failing(container.db, now=container.clock())
    assert row_of(container, slow).status == "failing"
