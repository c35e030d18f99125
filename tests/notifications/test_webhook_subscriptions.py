"""Subscriptions to a list, and paused ones."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest

from quillpost.accounts.models import Caller
from quillpost.accounts.service import build_tenant
from quillpost.app.container import Container
from quillpost.core.database.tables.base import orders
from quillpost.core.database.tables.notifications import webhooks
from quillpost.notifications.ports import PostResult
from quillpost.notifications.webhooks import service as webhook_service
from quillpost.notifications.webhooks.outcomes import decide_outcome
from quillpost.notifications.webhooks.queries import WebhookSubscription
from quillpost.notifications.webhooks.rules import ITEM_STATUS_EVENT, RETRY_DELAYS
from quillpost.orders.items import queries as item_queries
from quillpost.recipients.lists.service import change_list, merge_lists
from support.factories import Clock
from support.list_rows import make_list, make_order, make_sub_account
from support.orders import end_review
from support.transactions import run_as
from support.webhook_outbox import (
    LEASE,
    claim_deliveries,
    complete_deliveries,
    delivery_rows,
    event_types,
    fan_out,
    fan_out_order,
    move_pieces,
    payload_data,
    set_columns,
    subscribe,
    subscribe_with_delivery,
)
from support.webhook_receivers import deliver

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
        set_columns(self.container, orders, order_id, status=status)
        with self.container.db.system_transaction() as tx:
            item_queries.record_order_status_change(tx, [order_id], previous="reviewing", now=self.container.clock())
        fan_out(self.container)


@pytest.fixture
def town(container: Container, owner: Caller) -> Town:
    here, there = (replace(owner, sub_account_id=make_sub_account(container, owner)) for _ in "ab")
    list_id = make_list(container, owner, sub_account_id=here.sub_account_id)
    return Town(container, owner, here, there, list_id, subscribe(container, here, mailing_list_id=list_id))


Going = Callable[[Town, Caller], int]


@pytest.mark.parametrize("goes", [Town.move, Town.merge])
def test_events_of_mail_under_way_are_sent_to_the_end(town: Town, goes: Going) -> None:
    order_id = make_order(town.container, town.here, town.list_id)
    town.ship(order_id, "processing")
    before = len(event_types(town.container, town.hook))
    goes(town, town.there)
    town.ship(order_id, "printing")
    assert len(event_types(town.container, town.hook)) == before + 1


@pytest.mark.parametrize("goes", [Town.move, Town.merge])
@pytest.mark.parametrize("home", ["there", "owner"])
def test_nobody_hears_of_another_sub_accounts_mail(town: Town, goes: Going, home: str) -> None:
    list_id = goes(town, getattr(town, home))
    town.ship(make_order(town.container, town.there, list_id), "processing")
    assert event_types(town.container, town.hook) == []


def test_whoever_listened_to_a_merged_list_hears_of_the_other(town: Town) -> None:
    town.ship(make_order(town.container, town.here, town.merge(town.here)), "processing")
    assert event_types(town.container, town.hook) != []


def pause(container: Container, caller: Caller, hook: WebhookSubscription) -> WebhookSubscription:
    return run_as(container, caller, webhook_service.pause_webhook, hook.id, now=container.clock())


def resume(container: Container, caller: Caller, hook: WebhookSubscription) -> WebhookSubscription:
    return run_as(container, caller, webhook_service.resume_webhook, hook.id, now=container.clock())


def change(container: Container, caller: Caller, hook: WebhookSubscription, **changes: Any) -> WebhookSubscription:
    return run_as(container, caller, webhook_service.update_webhook, caller, hook.id, changes, now=container.clock())


def test_what_happens_before_and_during_a_pause_goes_out_on_resume_in_its_order(
    container: Container, clock: Clock, owner: Caller
) -> None:
    hook, other = (subscribe(container, owner, type=ITEM_STATUS_EVENT) for _ in range(2))
    order = fan_out_order(container, owner)
    pause(container, owner, hook)
    clock.advance(minutes=5)
    end_review(container, order)
    move_pieces(container, order)
    fan_out(container)
    assert {due.webhook_id for due in claim_deliveries(container)} == {other.id}
    assert event_types(container, hook) == [ITEM_STATUS_EVENT, ITEM_STATUS_EVENT]
    resume(container, owner, hook)
    statuses = []
    while dues := [due for due in claim_deliveries(container) if due.webhook_id == hook.id]:
        statuses += [payload_data(due)["order_item.current_status"] for due in dues]
        complete_deliveries(container, dues)
    assert statuses == ["Processing", "Printed"]


def test_deliveries_in_flight_are_not_sent_again_by_a_pause_and_a_resume(
    container: Container, clock: Clock, owner: Caller
) -> None:
    hook = subscribe_with_delivery(container, owner)
    [in_flight] = claim_deliveries(container)
    pause(container, owner, hook)
    resume(container, owner, hook)
    assert claim_deliveries(container) == []
    clock.advance(seconds=LEASE.seconds)
    assert [due.id for due in claim_deliveries(container)] == [in_flight.id]


def test_another_try_comes_with_a_resume_and_beside_its_schedule(container: Container, owner: Caller) -> None:
    hook, now = subscribe_with_delivery(container, owner), container.clock()
    complete_deliveries(container, claim_deliveries(container), "pending", next_at=now + timedelta(hours=1))
    pause(container, owner, hook)
    assert claim_deliveries(container) == []
    resume(container, owner, hook)
    [due] = claim_deliveries(container)
    assert (due.attempts, due.extra_tries) == (1, 1)
    failed = decide_outcome(due, PostResult(500), jitter=0, now=now)
    assert failed.next_at == now + RETRY_DELAYS[0], "the schedule has moved on"


def test_each_status_has_its_rest_and_its_return(
    container: Container, clock: Clock, owner: Caller, subtests: pytest.Subtests
) -> None:
    for status in ("active", "failing", "paused", "disabled"):
        with subtests.test(status):
            hook = subscribe(container, owner)
            set_columns(container, webhooks, hook.id, status=status)
            paused = "disabled" if status == "disabled" else "paused"
            assert [pause(container, owner, hook).status for _ in range(2)] == [paused, paused]
            clock.advance(seconds=5)
            back = resume(container, owner, hook)
            assert (back.status, back.updated_at) == ("active", clock.now())
            clock.advance(seconds=5)
            assert resume(container, owner, hook) == back


def test_one_that_was_gone_hears_of_what_happens_after_its_return_alone(container: Container, owner: Caller) -> None:
    hook = subscribe_with_delivery(container, owner)
    deliver(container, 410)
    fan_out_order(container, owner)
    resume(container, owner, hook)
    last = fan_out_order(container, owner)
    assert [payload_data(due)["order.id"] for due in claim_deliveries(container)] == [last.id]


def test_what_still_waits_goes_out_to_where_the_subscription_leads_now(
    container: Container, clock: Clock, owner: Caller, subtests: pytest.Subtests
) -> None:
    moves = [("get", {"url": "https://new.example.com/"}), ("post", {"url": "https://new.example.com/"})]
    for verb, becomes in (*moves, ("get", {"verb": "post"}), ("post", {"verb": "get"})):
        with subtests.test(f"from {verb} to {becomes}"):
            hook = subscribe_with_delivery(container, owner, verb=verb)
            deliver(container, 500)
            moved = change(container, owner, hook, **becomes)
            clock.advance(seconds=10)
            [(url, body)] = deliver(container, 200).requests
            assert url.startswith(moved.url)
            assert (bool(body), "event_id=" in url) == (moved.verb == "post", moved.verb == "get")
            pause(container, owner, hook)


def test_an_attempt_that_fails_while_the_subscription_moves_leaves_no_words_behind(
    container: Container, owner: Caller
) -> None:
    hook = subscribe_with_delivery(container, owner)
    in_flight = claim_deliveries(container)
    change(container, owner, hook, verb="get")
    complete_deliveries(container, in_flight, "pending", next_at=container.clock())
    [row] = delivery_rows(container, hook)
    assert row.body is None
    [again] = claim_deliveries(container)
    assert again.payload.startswith("https://example.com/hook?event_type=")
