"""The outbox: who is told of what, in which order, and by whom."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import date, timedelta

import pytest
import sqlalchemy as sa
from outbox import (
    LEASE,
    addressed,
    claim,
    delivery_rows,
    fan_out,
    is_somebody_waiting,
    lane_row,
    said,
    set_columns,
    settle,
    subscribe,
    waking,
)
from placing import end_review, item_ids, open_account, place
from tenant_rows import insert_least
from waiting import wait_until

from makers import Clock, people, person
from quillpost.accounts.models import Caller
from quillpost.accounts.service import tenant
from quillpost.app.container import Parts
from quillpost.core.database.tables.base import items, mailing_lists, orders, sub_accounts
from quillpost.core.database.tables.notifications import deliveries, webhooks
from quillpost.core.errors import NotFound
from quillpost.core.paging import PageRequest
from quillpost.notifications.webhooks import fan_out as fanning
from quillpost.notifications.webhooks import queries as webhook_queries
from quillpost.notifications.webhooks import service as webhook_service
from quillpost.notifications.webhooks.rules import DELIVERED, SCAN
from quillpost.notifications.webhooks.rules import ITEM_STATUS as ITEM
from quillpost.notifications.webhooks.rules import ORDER_STATUS as ORDER
from quillpost.orders.models import Order
from quillpost.orders.rules import ItemStatus
from quillpost.orders.status import Move, move_items

SCANNED = sa.text(
    """
    with fact as (
        insert into facts (account_id, mode, kind, order_id, item_id, order_status, current, at, scans)
        select account_id, mode, 'item.scan', order_id, id, 'reviewing', status, :now, :scans
          from items where order_id = :order returning id)
    insert into fact_queue select id from fact
    """
)


@pytest.fixture
def owner(parts: Parts) -> Caller:
    return open_account(parts)


def deliver_piece(parts: Parts, order: Order) -> None:
    with parts.db.work() as tx:
        [item_id] = item_ids(tx, order)
        for to in (ItemStatus.PRINTED, ItemStatus.DELIVERED):
            move_items(tx, [Move(item_id, to, on=date(2026, 5, 9))], now=parts.clock())


def make(parts: Parts, who: Caller, table: sa.Table) -> int:
    """Some row of theirs."""
    with parts.db.work() as tx:
        return int(insert_least(tx, table, {"account_id": who.account_id}))


def test_a_delivery_is_told_twice_the_status_first(parts: Parts, owner: Caller) -> None:
    hook = subscribe(parts, owner)
    order = place(parts, owner)
    end_review(parts, order)
    deliver_piece(parts, order)
    fan_out(parts)
    assert addressed(parts, hook) == [ORDER, ITEM, ITEM, ITEM, DELIVERED, ORDER, ORDER]


@pytest.mark.parametrize(("kind", "told"), [(ORDER, 3), (ITEM, 3), (DELIVERED, 1), ("scans.scan_update", 0)])
def test_a_subscription_is_told_of_its_own_type_alone(
    parts: Parts, owner: Caller, kind: str, told: int
) -> None:
    hook = subscribe(parts, owner, type=kind)
    order = place(parts, owner)
    end_review(parts, order)
    deliver_piece(parts, order)
    fan_out(parts)
    assert addressed(parts, hook) == [kind] * told


def test_nobody_is_told_of_a_stranger_s_order(parts: Parts, owner: Caller) -> None:
    hook = subscribe(parts, open_account(parts, "stranger@example.com"))
    place(parts, owner)
    fan_out(parts)
    assert addressed(parts, hook) == []


def test_test_and_live_are_told_apart(parts: Parts, owner: Caller) -> None:
    test, live = subscribe(parts, owner), subscribe(parts, replace(owner, mode="live"))
    place(parts, replace(owner, mode="live"))
    fan_out(parts)
    assert (addressed(parts, test), addressed(parts, live)) == ([], [ORDER, ITEM])


def test_a_sub_account_s_subscription_is_told_of_that_one_alone(parts: Parts, owner: Caller) -> None:
    branch = make(parts, owner, sub_accounts)
    narrow, wide = subscribe(parts, owner, sub_account_id=branch), subscribe(parts, owner)
    place(parts, owner)
    place(parts, owner, sub_account_id=branch)
    fan_out(parts)
    assert (len(addressed(parts, narrow)), len(addressed(parts, wide))) == (2, 4)


def test_a_list_s_subscription_is_told_of_the_orders_to_it_and_the_pieces_from_it_alone(
    parts: Parts, owner: Caller
) -> None:
    mine, others = (make(parts, owner, mailing_lists) for _ in range(2))
    hook = subscribe(parts, owner, mailing_list_id=mine)
    order = place(parts, owner, people(3))
    place(parts, owner)
    with parts.db.work() as tx:
        first, second, _ = item_ids(tx, order)  # the third was named in the call, and is of no list
    set_columns(parts, orders, order.id, mailing_list_ids=[others, mine])
    set_columns(parts, items, first, mailing_list_id=mine)
    set_columns(parts, items, second, mailing_list_id=others)
    fan_out(parts)
    assert [(row.event_type, row.stream) for row in delivery_rows(parts, hook)] == [
        (ORDER, f"order:{order.id}"),
        (ITEM, f"item:{first}"),
    ]


def test_a_scan_is_told_as_a_scan_with_the_count_that_it_made(parts: Parts, owner: Caller) -> None:
    hook = subscribe(parts, owner, type=SCAN)
    order = place(parts, owner)
    with parts.db.work() as tx:
        for count in (1, 2):
            tx.execute(SCANNED, {"order": order.id, "scans": count, "now": parts.clock()})
    fan_out(parts)
    assert addressed(parts, hook) == [SCAN, SCAN]
    [first] = claim(parts)
    settle(parts, [first])
    [second] = claim(parts)
    told = [said(due) for due in (first, second)]
    assert [each["order_item.scans"] for each in told] == [1, 2]
    statuses = {(each["order_item.previous_status"], each["order_item.current_status"]) for each in told}
    assert statuses == {(None, "Processing")}


@pytest.mark.parametrize(("status", "told"), [("active", 2), ("failing", 2), ("paused", 2), ("disabled", 0)])
def test_only_a_subscription_that_is_disabled_misses_anything(
    parts: Parts, owner: Caller, status: str, told: int
) -> None:
    hook = subscribe(parts, owner)
    set_columns(parts, webhooks, hook.id, status=status)
    place(parts, owner)
    fan_out(parts)
    assert len(addressed(parts, hook)) == told


def test_every_fact_is_taken_once(parts: Parts, owner: Caller) -> None:
    hook = subscribe(parts, owner)
    place(parts, owner, people(2))
    assert [fan_out(parts, most=2), fan_out(parts), fan_out(parts)] == [2, 1, 0]
    assert addressed(parts, hook) == [ORDER, ITEM, ITEM]


def test_a_fan_out_that_comes_to_nothing_leaves_its_facts_to_the_next(parts: Parts, owner: Caller) -> None:
    hook = subscribe(parts, owner)
    place(parts, owner)
    with parts.db.work() as tx:
        assert fanning.fan_out(tx, most=10, now=parts.clock()) == 2
        tx.rollback()
    assert (addressed(parts, hook), lane_row(parts, hook).due_at) == ([], None)
    assert [fan_out(parts), fan_out(parts)] == [2, 0]
    assert addressed(parts, hook) == [ORDER, ITEM]


def test_of_two_fan_outs_at_once_one_leaves_it_to_the_other(parts: Parts, owner: Caller) -> None:
    hook = subscribe(parts, owner)
    place(parts, owner)
    with parts.db.work() as tx:
        assert fanning.fan_out(tx, most=1, now=parts.clock()) == 1
        assert fan_out(parts) == 0
    assert fan_out(parts) == 1
    assert addressed(parts, hook) == [ORDER, ITEM]


def test_facts_wake_the_lanes_that_they_lead_to_and_no_other(
    parts: Parts, clock: Clock, owner: Caller
) -> None:
    told, resting, other = (
        subscribe(parts, owner),
        subscribe(parts, owner),
        subscribe(parts, owner, type=SCAN),
    )
    set_columns(parts, webhooks, resting.id, status="paused")
    place(parts, owner)
    fan_out(parts)
    assert [waking(parts, hook) for hook in (told, resting, other)] == [
        (parts.clock(), 1),
        (parts.clock(), 1),
        (None, 0),
    ]
    earlier = parts.clock()
    clock.advance(seconds=5)
    place(parts, owner)
    fan_out(parts)
    assert waking(parts, told) == (earlier, 2)


def test_whoever_resumes_while_facts_are_told_waits_for_them_and_leaves_nothing_behind(
    parts: Parts, owner: Caller
) -> None:
    hook = subscribe(parts, owner)
    with parts.db.transaction(tenant(owner)) as tx:
        webhook_service.pause(tx, hook.id, now=parts.clock())
    place(parts, owner)

    def resume() -> None:
        with parts.db.transaction(tenant(owner)) as tx:
            webhook_service.resume(tx, hook.id, now=parts.clock())

    with ThreadPoolExecutor(1) as pool:
        with parts.db.work() as tx:
            fanning.fan_out(tx, most=10, now=parts.clock())
            resumed = pool.submit(resume)
            wait_until(lambda: is_somebody_waiting(parts))
        resumed.result()
    assert [row.next_at for row in delivery_rows(parts, hook)] == [parts.clock()] * 2
    assert len(claim(parts)) == 2


def test_a_fact_that_was_rolled_back_is_told_to_nobody(parts: Parts, owner: Caller) -> None:
    order = place(parts, owner)
    end_review(parts, order)
    fan_out(parts)
    with parts.db.work() as tx:
        move_items(tx, [Move(item_ids(tx, order)[0], ItemStatus.PRINTED)], now=parts.clock())
        tx.rollback()
    assert fan_out(parts) == 0


def test_a_later_event_of_a_piece_waits_for_the_earlier(parts: Parts, owner: Caller) -> None:
    subscribe(parts, owner)
    order = place(parts, owner)
    end_review(parts, order)
    deliver_piece(parts, order)
    fan_out(parts)
    seen = []
    while dues := claim(parts):
        streams = [due.stream for due in dues]
        assert len(set(streams)) == len(streams), "two of one stream were in the air together"
        seen += [
            (json.loads(due.words)["event_type"], said(due)["order_item.current_status"])
            for due in dues
            if due.stream.startswith("item:")
        ]
        settle(parts, dues)
    assert seen == [(ITEM, "Processing"), (ITEM, "Printed"), (ITEM, "Delivered"), (DELIVERED, "Delivered")]


def test_one_piece_s_trouble_holds_up_no_other(parts: Parts, owner: Caller) -> None:
    subscribe(parts, owner, type=ITEM)
    order = place(parts, owner, people(2))
    end_review(parts, order)
    with parts.db.work() as tx:
        moves = [Move(item_id, ItemStatus.PRINTED) for item_id in item_ids(tx, order)]
        move_items(tx, moves, now=parts.clock())
    fan_out(parts)
    stuck, fine = claim(parts)
    settle(parts, [stuck], "pending", next_at=parts.clock() + timedelta(hours=1))
    settle(parts, [fine])
    [after] = claim(parts)
    assert said(after)["order_item.id"] == said(fine)["order_item.id"]


def test_a_claimed_delivery_is_not_claimed_again_before_its_lease_ends(
    parts: Parts, clock: Clock, owner: Caller
) -> None:
    subscribe(parts, owner, type=ORDER)
    place(parts, owner)
    fan_out(parts)
    [first] = claim(parts)
    assert claim(parts) == []
    clock.advance(seconds=LEASE.seconds)
    [again] = claim(parts)
    assert (again.id, again.event_id, again.words, again.attempts) == (
        first.id,
        first.event_id,
        first.words,
        0,
    )


def test_a_success_counts_and_heals_the_subscription(parts: Parts, owner: Caller) -> None:
    hook = subscribe(parts, owner, type=ORDER)
    place(parts, owner)
    fan_out(parts)
    set_columns(parts, webhooks, hook.id, status="failing")
    settle(parts, claim(parts))
    with parts.db.work() as tx:
        healed = webhook_queries.read_webhook(tx, hook.id)
        [row] = tx.execute(sa.select(deliveries)).all()
    assert (healed.status, healed.invoke_count) == ("active", 1)
    assert (row.status, row.delivered_at, row.response_status) == ("delivered", parts.clock(), 200)


def test_a_failure_is_kept_with_its_answer_and_counts_for_nothing(parts: Parts, owner: Caller) -> None:
    hook = subscribe(parts, owner, type=ORDER)
    place(parts, owner)
    fan_out(parts)
    settle(parts, claim(parts), "failed", response_status=500, response_body="oops", error="gave up")
    assert claim(parts) == []
    with parts.db.work() as tx:
        [row] = tx.execute(sa.select(deliveries)).all()
        assert webhook_queries.read_webhook(tx, hook.id).invoke_count == 0
    assert (row.status, row.response_body, row.error) == ("failed", "oops", "gave up")


def test_an_outcome_that_comes_after_the_lease_does_not_undo_a_success(parts: Parts, owner: Caller) -> None:
    subscribe(parts, owner, type=ORDER)
    place(parts, owner)
    fan_out(parts)
    dues = claim(parts)
    settle(parts, dues)
    settle(parts, dues, "pending", next_at=parts.clock())
    assert claim(parts) == []


def test_what_is_told_is_what_was_so_at_that_moment(parts: Parts, owner: Caller) -> None:
    subscribe(parts, owner)
    order = place(
        parts, owner, [person(custom1="blue")], metadata='{"a":1.0}', qrcode_url="https://x.test/%CUSTOM1%"
    )
    end_review(parts, order)
    deliver_piece(parts, order)
    fan_out(parts)
    dues = claim(parts)
    creation, first = (said(due) for due in dues)
    assert (creation["order.previous_status"], creation["order.current_status"]) == (None, "reviewing")
    assert (first["order_item.previous_status"], first["order_item.current_status"]) == (None, "Processing")
    assert (first["order.status"], first["qrcode.url"]) == ("Reviewing", "https://x.test/blue")
    assert all('"order.metadata":{"a":1.0}}' in due.words for due in dues)


def test_a_secret_is_sealed_and_opens_for_its_own_subscription(parts: Parts, owner: Caller) -> None:
    with parts.db.transaction(tenant(owner)) as tx:
        hook, secret = webhook_service.subscribe(
            tx, owner, parts.sealer, url="https://example.com", type="*", now=parts.clock()
        )
        sealed = bytes(tx.execute(sa.select(webhooks.c.secret_sealed)).scalar_one())
    assert secret.encode() not in sealed
    assert webhook_service.unseal(parts.sealer, hook.id, sealed) == secret


def test_a_stranger_neither_reads_nor_deletes_a_subscription(parts: Parts, owner: Caller) -> None:
    hook = subscribe(parts, owner)
    stranger = open_account(parts, "stranger@example.com")
    with parts.db.transaction(tenant(stranger)) as tx:
        assert webhook_queries.list_webhooks(tx, PageRequest(), sub_account_id=None).total == 0
        for do in (webhook_queries.read_webhook, webhook_queries.delete_webhook):
            with pytest.raises(NotFound):
                do(tx, hook.id)
    with parts.db.transaction(tenant(owner)) as tx:
        webhook_queries.delete_webhook(tx, hook.id)
        assert webhook_queries.list_webhooks(tx, PageRequest(), sub_account_id=None).rows == []
