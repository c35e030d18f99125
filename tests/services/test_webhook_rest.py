"""Subscriptions that are paused, resumed and moved, and what becomes of what they are to be told."""

from datetime import timedelta
from typing import Any

import pytest
from outbox import LEASE, addressed, claim, delivery_rows, fan_out, said, set_columns, settle, subscribe
from placing import end_review, item_ids, open_account, place
from receivers import deliver

from makers import Clock
from quillpost.accounts.models import Caller
from quillpost.accounts.service import tenant
from quillpost.app.container import Parts
from quillpost.core.database.tables.notifications import webhooks
from quillpost.notifications.ports import PostOutcome
from quillpost.notifications.webhooks import queries as webhook_queries
from quillpost.notifications.webhooks import service as webhook_service
from quillpost.notifications.webhooks.outcomes import judge
from quillpost.notifications.webhooks.rules import ITEM_STATUS, ORDER_STATUS, RETRY_AFTER
from quillpost.orders.models import Order
from quillpost.orders.rules import ItemStatus
from quillpost.orders.status import Move, move_items


@pytest.fixture
def owner(parts: Parts) -> Caller:
    return open_account(parts)


def pause(parts: Parts, who: Caller, hook: webhook_queries.Webhook) -> webhook_queries.Webhook:
    with parts.db.transaction(tenant(who)) as tx:
        return webhook_service.pause(tx, hook.id, now=parts.clock())


def resume(parts: Parts, who: Caller, hook: webhook_queries.Webhook) -> webhook_queries.Webhook:
    with parts.db.transaction(tenant(who)) as tx:
        return webhook_service.resume(tx, hook.id, now=parts.clock())


def change(
    parts: Parts, who: Caller, hook: webhook_queries.Webhook, **changes: Any
) -> webhook_queries.Webhook:
    with parts.db.transaction(tenant(who)) as tx:
        return webhook_service.change(tx, who, hook.id, changes, now=parts.clock())


def print_piece(parts: Parts, order: Order) -> None:
    with parts.db.work() as tx:
        moves = [Move(item_id, ItemStatus.PRINTED) for item_id in item_ids(tx, order)]
        move_items(tx, moves, now=parts.clock())


def test_what_happens_before_and_during_a_pause_goes_out_on_resume_in_its_order(
    parts: Parts, clock: Clock, owner: Caller
) -> None:
    hook, other = (subscribe(parts, owner, type=ITEM_STATUS) for _ in range(2))
    order = place(parts, owner)
    fan_out(parts)
    pause(parts, owner, hook)
    clock.advance(minutes=5)
    end_review(parts, order)
    print_piece(parts, order)
    fan_out(parts)
    assert {due.webhook_id for due in claim(parts)} == {other.id}
    assert addressed(parts, hook) == [ITEM_STATUS, ITEM_STATUS]
    resume(parts, owner, hook)
    told = []
    while dues := [due for due in claim(parts) if due.webhook_id == hook.id]:
        told += [said(due)["order_item.current_status"] for due in dues]
        settle(parts, dues)
    assert told == ["Processing", "Printed"]


def test_what_is_in_the_air_is_not_sent_again_by_a_pause_and_a_resume(
    parts: Parts, clock: Clock, owner: Caller
) -> None:
    hook = subscribe(parts, owner, type=ORDER_STATUS)
    place(parts, owner)
    fan_out(parts)
    [flying] = claim(parts)
    pause(parts, owner, hook)
    resume(parts, owner, hook)
    assert claim(parts) == []
    clock.advance(seconds=LEASE.seconds)
    assert [due.id for due in claim(parts)] == [flying.id]


def test_another_try_comes_with_a_resume_and_beside_its_schedule(parts: Parts, owner: Caller) -> None:
    hook = subscribe(parts, owner, type=ORDER_STATUS)
    place(parts, owner)
    fan_out(parts)
    settle(parts, claim(parts), "pending", next_at=parts.clock() + timedelta(hours=1))
    pause(parts, owner, hook)
    assert claim(parts) == []
    resume(parts, owner, hook)
    [due] = claim(parts)
    assert (due.attempts, due.extra_tries) == (1, 1)
    failed = judge(due, PostOutcome(500), jitter=0, now=parts.clock())
    assert failed.next_at == parts.clock() + RETRY_AFTER[0], "the schedule has moved on"


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
    parts: Parts, clock: Clock, owner: Caller, status: str, paused: str, resumed: str
) -> None:
    hook = subscribe(parts, owner)
    set_columns(parts, webhooks, hook.id, status=status)
    assert [pause(parts, owner, hook).status for _ in range(2)] == [paused, paused]
    clock.advance(seconds=5)
    back = resume(parts, owner, hook)
    assert (back.status, back.updated_at) == (resumed, parts.clock())
    clock.advance(seconds=5)
    assert resume(parts, owner, hook) == back


def test_one_that_was_gone_hears_of_what_happens_after_its_return_alone(parts: Parts, owner: Caller) -> None:
    hook = subscribe(parts, owner, type=ORDER_STATUS)
    place(parts, owner)
    deliver(parts, 410)
    place(parts, owner)
    fan_out(parts)
    resume(parts, owner, hook)
    last = place(parts, owner)
    fan_out(parts)
    assert [said(due)["order.id"] for due in claim(parts)] == [last.id]


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
    parts: Parts, clock: Clock, owner: Caller, was: dict[str, str], becomes: dict[str, str]
) -> None:
    hook = subscribe(parts, owner, type=ORDER_STATUS, **was)
    place(parts, owner)
    deliver(parts, 500)
    moved = change(parts, owner, hook, **becomes)
    clock.advance(seconds=10)
    [(url, body)] = deliver(parts, 200).asked
    assert url.startswith(moved.url)
    assert bool(body) == (moved.verb == "post")
    assert ("event_id=" in url) == (moved.verb == "get")


def test_an_attempt_that_fails_while_the_subscription_moves_leaves_no_words_behind(
    parts: Parts, clock: Clock, owner: Caller
) -> None:
    hook = subscribe(parts, owner, type=ORDER_STATUS)
    place(parts, owner)
    fan_out(parts)
    flying = claim(parts)
    change(parts, owner, hook, verb="get")
    settle(parts, flying, "pending", next_at=parts.clock())
    [row] = delivery_rows(parts, hook)
    assert row.body is None
    [again] = claim(parts)
    assert again.words.startswith("https://example.com/hook?event_type=")
