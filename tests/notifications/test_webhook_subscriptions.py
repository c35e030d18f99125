"""Subscriptions: to a list, paused, and to receivers that fail: left alone, given up, and their owners notified."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.accounts.models import Caller
from quillpost.accounts.service import build_tenant
from quillpost.app.container import Container
from quillpost.core.database.tables.base import orders
from quillpost.core.database.tables.notifications import webhooks
from quillpost.notifications.ports import PostResult
from quillpost.notifications.webhooks import queries as webhook_queries
from quillpost.notifications.webhooks import rules as webhook_rules
from quillpost.notifications.webhooks import service as webhook_service
from quillpost.notifications.webhooks.outcomes import decide_outcome
from quillpost.notifications.webhooks.queries import HEALTHY_ENDPOINT, EndpointHealth, WebhookSubscription
from quillpost.notifications.webhooks.rules import ITEM_STATUS_EVENT, ORDER_STATUS_EVENT, RETRY_DELAYS
from quillpost.orders.items import queries as item_queries
from quillpost.recipients.lists.service import change_list, merge_lists
from support import webhooks as outbox
from support.factories import Clock, make_sub_account, people
from support.mailing_lists import make_list, make_order
from support.notifications import notification_rows
from support.orders import create_order, end_review
from support.rows import run_as
from support.webhooks import deliver

pytestmark = pytest.mark.usefixtures("clean_database")


@dataclass(frozen=True)
class Town:
    """A list of one sub account's, which listens to it, and another sub account."""

    container: Container
    owner: Caller
    here: Caller
    there: Caller
    list_id: int
    hook: WebhookSubscription

    def move(self, home: Caller) -> int:
        with self.container.db.transaction(build_tenant(self.owner)) as tx:
            changes = {"sub_account_id": home.sub_account_id}
            return change_list(tx, self.owner, self.list_id, changes, now=self.container.clock()).id

    def merge(self, home: Caller) -> int:
        into = make_list(self.container, self.owner, sub_account_id=home.sub_account_id)
        return run_as(self.container, self.owner, merge_lists, self.list_id, into, clock=self.container.clock).id

    def ship(self, order_id: int, status: str) -> None:
        outbox.set_columns(self.container, orders, order_id, status=status)
        with self.container.db.system_transaction() as tx:
            item_queries.record_order_status_change(tx, [order_id], previous="reviewing", now=self.container.clock())
        outbox.fan_out(self.container)


@pytest.fixture
def town(container: Container, owner: Caller) -> Town:
    here, there = (replace(owner, sub_account_id=make_sub_account(container, owner)) for _ in "ab")
    list_id = make_list(container, owner, sub_account_id=here.sub_account_id)
    return Town(container, owner, here, there, list_id, outbox.subscribe(container, here, mailing_list_id=list_id))


Going = Callable[[Town, Caller], int]


@pytest.mark.parametrize("goes", [Town.move, Town.merge])
def test_events_of_mail_under_way_are_sent_to_the_end(town: Town, goes: Going) -> None:
    order_id = make_order(town.container, town.here, town.list_id)
    town.ship(order_id, "processing")
    before = len(outbox.event_types(town.container, town.hook))
    goes(town, town.there)
    town.ship(order_id, "printing")
    assert len(outbox.event_types(town.container, town.hook)) == before + 1


@pytest.mark.parametrize("goes", [Town.move, Town.merge])
@pytest.mark.parametrize("home", ["here", "there", "owner"])
def test_one_hears_of_a_list_s_mail_only_in_ones_own_sub_account(town: Town, goes: Going, home: str) -> None:
    list_id, caller = goes(town, getattr(town, home)), town.here if home == "here" else town.there
    town.ship(make_order(town.container, caller, list_id), "processing")
    assert (outbox.event_types(town.container, town.hook) != []) == (home == "here")


def pause(container: Container, caller: Caller, hook: WebhookSubscription) -> WebhookSubscription:
    return run_as(container, caller, webhook_service.pause_webhook, hook.id, now=container.clock())


def resume(container: Container, caller: Caller, hook: WebhookSubscription) -> WebhookSubscription:
    return run_as(container, caller, webhook_service.resume_webhook, hook.id, now=container.clock())


def change(container: Container, caller: Caller, hook: WebhookSubscription, **changes: Any) -> WebhookSubscription:
    return run_as(container, caller, webhook_service.update_webhook, caller, hook.id, changes, now=container.clock())


def test_what_a_pause_holds_up_goes_out_on_resume_in_order(container: Container, clock: Clock, owner: Caller) -> None:
    hook, other = (outbox.subscribe(container, owner, type=ITEM_STATUS_EVENT) for _ in range(2))
    order = outbox.fan_out_order(container, owner)
    pause(container, owner, hook)
    clock.advance(minutes=5)
    end_review(container, order)
    outbox.move_pieces(container, order)
    outbox.fan_out(container)
    assert {due.webhook_id for due in outbox.claim_deliveries(container)} == {other.id}
    assert outbox.event_types(container, hook) == [ITEM_STATUS_EVENT, ITEM_STATUS_EVENT]
    resume(container, owner, hook)
    statuses = []
    while dues := [due for due in outbox.claim_deliveries(container) if due.webhook_id == hook.id]:
        statuses += [outbox.payload_data(due)["order_item.current_status"] for due in dues]
        outbox.complete_deliveries(container, dues)
    assert statuses == ["Processing", "Printed"]


def test_a_pause_and_a_resume_send_nothing_in_flight_again(container: Container, clock: Clock, owner: Caller) -> None:
    hook = outbox.subscribe_with_delivery(container, owner)
    [in_flight] = outbox.claim_deliveries(container)
    pause(container, owner, hook)
    resume(container, owner, hook)
    assert outbox.claim_deliveries(container) == []
    clock.advance(seconds=outbox.LEASE.seconds)
    assert [due.id for due in outbox.claim_deliveries(container)] == [in_flight.id]


def test_another_try_comes_with_a_resume_and_beside_its_schedule(container: Container, owner: Caller) -> None:
    hook, now = outbox.subscribe_with_delivery(container, owner), container.clock()
    outbox.complete_deliveries(container, outbox.claim_deliveries(container), "pending", next_at=now + RETRY_DELAYS[-1])
    pause(container, owner, hook)
    assert outbox.claim_deliveries(container) == []
    resume(container, owner, hook)
    [due] = outbox.claim_deliveries(container)
    assert (due.attempts, due.extra_tries) == (1, 1)
    failed = decide_outcome(due, PostResult(500), jitter=0, now=now)
    assert failed.next_at == now + RETRY_DELAYS[0], "the schedule has moved on"


def test_each_status_has_its_rest(container: Container, clock: Clock, owner: Caller, subtests: pytest.Subtests) -> None:
    for status in ("active", "failing", "paused", "disabled"):
        with subtests.test(status):
            hook = outbox.subscribe(container, owner)
            outbox.set_columns(container, webhooks, hook.id, status=status)
            paused = "disabled" if status == "disabled" else "paused"
            assert [pause(container, owner, hook).status for _ in range(2)] == [paused, paused]
            clock.advance(seconds=5)
            back = resume(container, owner, hook)
            assert (back.status, back.updated_at) == ("active", clock.now())
            clock.advance(seconds=5)
            assert resume(container, owner, hook) == back


def test_one_that_was_gone_hears_of_what_happens_after_its_return_alone(container: Container, owner: Caller) -> None:
    hook = outbox.subscribe_with_delivery(container, owner)
    deliver(container, 410)
    outbox.fan_out_order(container, owner)
    resume(container, owner, hook)
    last = outbox.fan_out_order(container, owner)
    assert [outbox.payload_data(due)["order.id"] for due in outbox.claim_deliveries(container)] == [last.id]


def test_what_still_waits_goes_out_to_where_the_subscription_leads_now(
    container: Container, clock: Clock, owner: Caller, subtests: pytest.Subtests
) -> None:
    moves = [("get", {"url": "https://new.example.com/"}), ("post", {"url": "https://new.example.com/"})]
    for verb, becomes in (*moves, ("get", {"verb": "post"}), ("post", {"verb": "get"})):
        with subtests.test(f"from {verb} to {becomes}"):
            hook = outbox.subscribe_with_delivery(container, owner, verb=verb)
            deliver(container, 500)
            moved = change(container, owner, hook, **becomes)
            clock.advance(seconds=10)
            [(url, body)] = deliver(container, 200).requests
            assert url.startswith(moved.url)
            assert (bool(body), "event_id=" in url) == (moved.verb == "post", moved.verb == "get")
            pause(container, owner, hook)


def test_a_failure_while_the_subscription_moves_leaves_no_words_behind(container: Container, owner: Caller) -> None:
    hook = outbox.subscribe_with_delivery(container, owner)
    in_flight = outbox.claim_deliveries(container)
    change(container, owner, hook, verb="get")
    outbox.complete_deliveries(container, in_flight, "pending", next_at=container.clock())
    [row] = outbox.delivery_rows(container, hook)
    assert row.body is None
    [again] = outbox.claim_deliveries(container)
    assert again.payload.startswith("https://example.com/hook?event_type=")


URL = "https://example.com/hook"


def mark_failing(container: Container, hook: WebhookSubscription, **since: float) -> None:
    outbox.set_queue(container, hook, failures=9, troubled_since=container.clock() - timedelta(**since))


def give_up_failing(container: Container) -> None:
    webhook_service.give_up_failing(container.db, now=container.clock())


def delivery_statuses(container: Container, hook: WebhookSubscription) -> set[str]:
    return {row.status for row in outbox.delivery_rows(container, hook)}


def state(container: Container, hook: WebhookSubscription) -> tuple[Any, ...]:
    """Its status, since when it fails, and with what."""
    row = outbox.webhook_row(container, hook)
    return row.status, row.failing_since, row.last_error


def notice_of(container: Container, owner: Caller, *words: str) -> sa.Row[Any]:
    """The only one, which goes to the owner and says so much."""
    [notice] = notification_rows(container)
    assert (notice.account_id, notice.address, notice.kind) == (owner.account_id, "owner@example.com", "webhook")
    assert [word for word in words if word not in notice.words] == []
    return notice


def test_after_the_last_attempt_it_fails_and_its_owner_knows(container: Container, clock: Clock, owner: Caller) -> None:
    hook, begun = outbox.subscribe_with_delivery(container, owner, url=URL), clock.now()
    for wait in webhook_rules.RETRY_DELAYS:
        assert len(deliver(container, 500).requests) == 1
        assert (outbox.webhook_row(container, hook).status, notification_rows(container)) == ("active", [])
        clock.advance(seconds=wait.total_seconds() * 1.2)
    deliver(container, 500)
    [delivery] = outbox.delivery_rows(container, hook)
    assert (delivery.status, delivery.attempts, delivery.next_at) == ("failed", 10, None)
    assert state(container, hook) == ("failing", begun, "The receiver answered 500.")
    notice_of(container, owner, URL, "2026-05-04 12:00:00 UTC", "The receiver answered 500.", "replay", "retry")


def fail_for_good(container: Container, owner: Caller) -> None:
    outbox.fan_out_order(container, owner)
    how = {"response_status": 500, "response_body": "no\n\n  idea"}
    outbox.complete_deliveries(container, outbox.claim_deliveries(container), "failed", **how)


def test_an_owner_is_notified_once_until_it_answers_again(container: Container, clock: Clock, owner: Caller) -> None:
    hook = outbox.subscribe(container, owner, type=ORDER_STATUS_EVENT)
    for _ in range(2):
        fail_for_good(container, owner)
        clock.advance(days=1)
    assert outbox.webhook_row(container, hook).last_error == "The receiver answered 500: no idea"
    assert len(notification_rows(container)) == 1
    outbox.fan_out_order(container, owner)
    outbox.complete_deliveries(container, outbox.claim_deliveries(container))
    assert state(container, hook) == ("active", None, None)
    for _ in range(3):  # an unstable receiver is reported once a day
        fail_for_good(container, owner)
        outbox.set_columns(container, webhooks, hook.id, status="active")
        clock.advance(minutes=5)
    assert len(notification_rows(container)) == 2


def test_a_failure_is_shown_until_a_success_takes_it_away(container: Container, clock: Clock, owner: Caller) -> None:
    hook = outbox.subscribe_with_delivery(container, owner)
    deliver(container, 503)
    row = outbox.webhook_row(container, hook)
    assert (row.status, row.last_error) == ("active", "The receiver answered 503.")
    assert outbox.health(container, hook) == EndpointHealth(1, clock.now())
    clock.advance(seconds=6)
    deliver(container, 200)
    assert outbox.webhook_row(container, hook).last_error is None
    assert outbox.health(container, hook) == HEALTHY_ENDPOINT


def test_the_owner_is_notified_of_a_receiver_that_is_gone(container: Container, owner: Caller) -> None:
    hook = outbox.subscribe_with_delivery(container, owner, url=URL)
    deliver(container, 410)
    assert state(container, hook) == ("disabled", container.clock(), webhook_service.GONE_ERROR)
    assert "switched off" in notice_of(container, owner, URL, "gone", "resume", "replay").subject


def test_a_disabled_one_fails_bit_by_bit(container: Container, owner: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook_service, "DELIVERIES_PER_TRANSACTION", 2)
    hook = outbox.subscribe(container, owner, type=ITEM_STATUS_EVENT)
    outbox.fan_out_order(container, owner, people(6))
    with container.db.system_transaction() as tx:
        webhook_service.disable_webhook(tx, hook.id, reason="gone", now=container.clock())
        assert [webhook_service.fail_disabled_deliveries(tx, hook.id) for _ in range(3)] == [True, True, False]
    assert delivery_statuses(container, hook) == {"failed"}


def test_after_failures_a_receiver_rests_and_is_tried_once(container: Container, clock: Clock, owner: Caller) -> None:
    hook = outbox.subscribe(container, owner, type=ORDER_STATUS_EVENT)
    for _ in range(10):
        create_order(container, owner)
    for answers, failures, wait in ((5, 5, webhook_rules.MIN_BACKOFF), (1, 6, 2 * webhook_rules.MIN_BACKOFF)):
        deliver(container, *[500] * answers)
        queue = outbox.queue_row(container, hook)
        assert (queue.failures, queue.resting_until) == (failures, clock.now() + wait)
        clock.advance(seconds=wait.total_seconds())
    assert len(deliver(container, *[200] * 10).requests) == 10
    assert delivery_statuses(container, hook) == {"delivered"}


def test_deliveries_past_the_retry_time_are_given_up_and_the_owner_is_notified(
    container: Container, clock: Clock, owner: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook_service, "DELIVERIES_PER_TRANSACTION", 2)
    too_long = webhook_rules.MAX_RETRY_TIME.total_seconds() + 1
    hook, fine, paused = (outbox.subscribe(container, owner, type=ITEM_STATUS_EVENT) for _ in range(3))
    outbox.set_columns(container, webhooks, paused.id, status="paused")
    outbox.fan_out_order(container, owner, people(5))
    clock.advance(seconds=too_long)
    mark_failing(container, paused, seconds=too_long)
    outbox.fan_out_order(container, owner, people(5)[:1], message="Something else")
    give_up_failing(container)
    assert delivery_statuses(container, hook) == {"pending"}
    mark_failing(container, hook, days=3)  # not for as long
    give_up_failing(container)
    assert delivery_statuses(container, hook) == {"pending"}
    assert [notice.subject for notice in notification_rows(container)] == ["A webhook of yours cannot be reached"]
    mark_failing(container, hook, seconds=too_long)
    give_up_failing(container)
    *old, new = outbox.delivery_rows(container, hook)
    given_up = ("failed", webhook_service.RETRIES_EXHAUSTED_ERROR, None)
    assert {(row.status, row.error, row.next_at) for row in old} == {given_up}
    assert (len(old), new.status) == (5, "pending")
    assert delivery_statuses(container, fine) == delivery_statuses(container, paused) == {"pending"}
    assert state(container, hook)[:2] == ("failing", old[0].created_at)
    give_up_failing(container)
    _, notice = notification_rows(container)  # and no third
    assert notice.subject == "Events for a webhook of yours were given up"


def test_an_owner_is_notified_once_after_an_hour_of_failures(container: Container, clock: Clock, owner: Caller) -> None:
    hook, paused = (outbox.subscribe(container, owner, type=ORDER_STATUS_EVENT, url=URL) for _ in range(2))
    outbox.set_columns(container, webhooks, paused.id, status="paused")
    create_order(container, owner)
    begun, error = clock.now(), "The receiver answered 500."
    deliver(container, 500)
    mark_failing(container, paused, hours=9)
    clock.advance(seconds=webhook_rules.FAILING_NOTICE_AFTER.total_seconds())
    give_up_failing(container)
    assert (outbox.webhook_row(container, hook).status, notification_rows(container)) == ("active", [])
    clock.advance(seconds=1)
    for _ in range(2):
        give_up_failing(container)
        assert state(container, hook) == ("failing", begun, error)
        notice_of(container, owner, URL, "2026-05-04 12:00:00 UTC", error, "Nothing is lost yet", "resume")
    assert outbox.webhook_row(container, paused).status == "paused"
    deliver(container, 200)
    assert state(container, hook) == ("active", None, None)


def test_a_locked_subscription_is_reported_the_next_time(container: Container, owner: Caller) -> None:
    slow, hook = (outbox.subscribe(container, owner) for _ in range(2))
    for each in (slow, hook):
        mark_failing(container, each, hours=2)
    with container.db.system_transaction() as changing:
        webhook_queries.read_webhook(changing, slow.id, locked=True)
        give_up_failing(container)
    assert [outbox.webhook_row(container, each).status for each in (slow, hook)] == ["active", "failing"]
    give_up_failing(container)
    assert outbox.webhook_row(container, slow).status == "failing"
