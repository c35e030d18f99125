"""Subscriptions that are paused, resumed and moved, and what becomes of what they are to be told."""

from datetime import timedelta
from typing import Any

import pytest

from quillpost.accounts.models import Caller
from quillpost.accounts.service import build_tenant
from quillpost.app.container import Container
from quillpost.core.database.tables.notifications import webhooks
from quillpost.notifications.ports import PostResult
from quillpost.notifications.webhooks import queries as webhook_queries
from quillpost.notifications.webhooks import service as webhook_service
from quillpost.notifications.webhooks.outcomes import decide_outcome
from quillpost.notifications.webhooks.rules import ITEM_STATUS_EVENT, ORDER_STATUS_EVENT, RETRY_DELAYS
from quillpost.orders.items.service import StatusChange, change_item_statuses
from quillpost.orders.models import Order
from quillpost.orders.rules import ItemStatus
from support.factories import Clock
from support.orders import create_order, end_review, item_ids, open_account
from support.webhook_outbox import (
    LEASE,
    claim_deliveries,
    complete_deliveries,
    delivery_rows,
    event_types,
    fan_out,
    payload_data,
    set_columns,
    subscribe,
)
from support.webhook_receivers import deliver

pytestmark = pytest.mark.usefixtures("clean_database")


@pytest.fixture
def owner(container: Container) -> Caller:
    return open_account(container)


def pause(
    container: Container, caller: Caller, hook: webhook_queries.WebhookSubscription
) -> webhook_queries.WebhookSubscription:
    with container.db.transaction(build_tenant(caller)) as tx:
        return webhook_service.pause_webhook(tx, hook.id, now=container.clock())


def resume(
    container: Container, caller: Caller, hook: webhook_queries.WebhookSubscription
) -> webhook_queries.WebhookSubscription:
    with container.db.transaction(build_tenant(caller)) as tx:
        return webhook_service.resume_webhook(tx, hook.id, now=container.clock())


def change(
    container: Container, caller: Caller, hook: webhook_queries.WebhookSubscription, **changes: Any
) -> webhook_queries.WebhookSubscription:
    with container.db.transaction(build_tenant(caller)) as tx:
        return webhook_service.update_webhook(tx, caller, hook.id, changes, now=container.clock())


def print_piece(container: Container, order: Order) -> None:
    with container.db.system_transaction() as tx:
        moves = [StatusChange(item_id, ItemStatus.PRINTED) for item_id in item_ids(tx, order)]
        change_item_statuses(tx, moves, now=container.clock())


def test_what_happens_before_and_during_a_pause_goes_out_on_resume_in_its_order(
    container: Container, clock: Clock, owner: Caller
) -> None:
    hook, other = (subscribe(container, owner, type=ITEM_STATUS_EVENT) for _ in range(2))
    order = create_order(container, owner)
    fan_out(container)
    pause(container, owner, hook)
    clock.advance(minutes=5)
    end_review(container, order)
    print_piece(container, order)
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
    hook = subscribe(container, owner, type=ORDER_STATUS_EVENT)
    create_order(container, owner)
    fan_out(container)
    [in_flight] = claim_deliveries(container)
    pause(container, owner, hook)
    resume(container, owner, hook)
    assert claim_deliveries(container) == []
    clock.advance(seconds=LEASE.seconds)
    assert [due.id for due in claim_deliveries(container)] == [in_flight.id]


def test_another_try_comes_with_a_resume_and_beside_its_schedule(container: Container, owner: Caller) -> None:
    hook = subscribe(container, owner, type=ORDER_STATUS_EVENT)
    create_order(container, owner)
    fan_out(container)
    complete_deliveries(
        container, claim_deliveries(container), "pending", next_at=container.clock() + timedelta(hours=1)
    )
    pause(container, owner, hook)
    assert claim_deliveries(container) == []
    resume(container, owner, hook)
    [due] = claim_deliveries(container)
    assert (due.attempts, due.extra_tries) == (1, 1)
    failed = decide_outcome(due, PostResult(500), jitter=0, now=container.clock())
    assert failed.next_at == container.clock() + RETRY_DELAYS[0], "the schedule has moved on"


@pytest.mark.parametrize(
    ("status", "paused", "resumed"),
    [
        ("active", "paused", "active"),
        ("failing", "paused", "active"),
        ("paused", "paused", "active"),
        ("disabled", "disabled", "active"),
    ],
)
def test_each_status_has_its_rest_and_its_return(
    container: Container, clock: Clock, owner: Caller, status: str, paused: str, resumed: str
) -> None:
    hook = subscribe(container, owner)
    set_columns(container, webhooks, hook.id, status=status)
    assert [pause(container, owner, hook).status for _ in range(2)] == [paused, paused]
    clock.advance(seconds=5)
    back = resume(container, owner, hook)
    assert (back.status, back.updated_at) == (resumed, container.clock())
    clock.advance(seconds=5)
    assert resume(container, owner, hook) == back


def test_one_that_was_gone_hears_of_what_happens_after_its_return_alone(container: Container, owner: Caller) -> None:
    hook = subscribe(container, owner, type=ORDER_STATUS_EVENT)
    create_order(container, owner)
    deliver(container, 410)
    create_order(container, owner)
    fan_out(container)
    resume(container, owner, hook)
    last = create_order(container, owner)
    fan_out(container)
    assert [payload_data(due)["order.id"] for due in claim_deliveries(container)] == [last.id]


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ({"verb": "get"}, {"url": "https://new.example.com/"}),
        ({"verb": "get"}, {"verb": "post"}),
        ({"verb": "post"}, {"verb": "get"}),
        ({"verb": "post"}, {"url": "https://new.example.com/"}),
    ],
)
def test_what_still_waits_goes_out_to_where_the_subscription_leads_now(
    container: Container, clock: Clock, owner: Caller, was: dict[str, str], becomes: dict[str, str]
) -> None:
    hook = subscribe(container, owner, type=ORDER_STATUS_EVENT, **was)
    create_order(container, owner)
    deliver(container, 500)
    moved = change(container, owner, hook, **becomes)
    clock.advance(seconds=10)
    [(url, body)] = deliver(container, 200).requests
    assert url.startswith(moved.url)
    assert bool(body) == (moved.verb == "post")
    assert ("event_id=" in url) == (moved.verb == "get")


def test_an_attempt_that_fails_while_the_subscription_moves_leaves_no_words_behind(
    container: Container, clock: Clock, owner: Caller
) -> None:
    hook = subscribe(container, owner, type=ORDER_STATUS_EVENT)
    create_order(container, owner)
    fan_out(container)
    in_flight = claim_deliveries(container)
    change(container, owner, hook, verb="get")
    complete_deliveries(container, in_flight, "pending", next_at=container.clock())
    [row] = delivery_rows(container, hook)
    assert row.body is None
    [again] = claim_deliveries(container)
    assert again.payload.startswith("https://example.com/hook?event_type=")
