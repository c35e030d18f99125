"""The outbox: who is told of what, in which order, and by whom."""

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import date, timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.accounts.models import Caller
from quillpost.accounts.service import build_tenant
from quillpost.app.container import Container
from quillpost.core.database.tables.notifications import webhooks
from quillpost.notifications.webhooks import service as webhook_service
from quillpost.notifications.webhooks import tasks as fanning
from quillpost.notifications.webhooks.rules import DELIVERED_EVENT, SCAN_EVENT
from quillpost.notifications.webhooks.rules import ITEM_STATUS_EVENT as ITEM
from quillpost.notifications.webhooks.rules import ORDER_STATUS_EVENT as ORDER
from quillpost.orders.items.service import StatusChange, change_item_statuses
from quillpost.orders.models import Order
from quillpost.orders.rules import ItemStatus
from support.factories import Clock, people, person
from support.orders import create_order, end_review, item_ids
from support.rows import execute, run_as, scalar
from support.waiting import is_lock_awaited, wait_until
from support.webhooks import (
    LEASE,
    claim_deliveries,
    complete_deliveries,
    delivery_rows,
    event_types,
    fan_out,
    fan_out_order,
    move_pieces,
    payload_data,
    queue_row,
    queue_wakeups,
    set_columns,
    subscribe,
    subscribe_with_delivery,
    webhook_row,
)

pytestmark = pytest.mark.usefixtures("clean_database")

SCANNED = """
    with fact as (
        insert into facts (account_id, mode, kind, order_id, item_id, order_status, current, at, scans)
        select account_id, mode, 'item.scan', order_id, id, 'reviewing', status, :now, :scans
          from items where order_id = :order returning id)
    insert into fact_queue select id from fact
"""


def deliver_order(container: Container, owner: Caller, *args: Any, **how: Any) -> Order:
    """An order whose one piece is printed and delivered, of which all events are on their way."""
    order = create_order(container, owner, *args, **how)
    end_review(container, order)
    for status in (ItemStatus.PRINTED, ItemStatus.DELIVERED):
        move_pieces(container, order, status, delivery_date=date(2026, 5, 9))
    fan_out(container)
    return order


def test_a_subscription_gets_only_events_of_its_type_the_status_first(container: Container, owner: Caller) -> None:
    counts = {ORDER: 3, ITEM: 3, DELIVERED_EVENT: 1, SCAN_EVENT: 0}
    hooks = {kind: subscribe(container, owner, type=kind) for kind in ("*", *counts)}
    deliver_order(container, owner)
    got = {kind: event_types(container, hook) for kind, hook in hooks.items()}
    assert got.pop("*") == [ORDER, ITEM, ITEM, ITEM, DELIVERED_EVENT, ORDER, ORDER]
    assert got == {kind: [kind] * number for kind, number in counts.items()}


def test_a_scan_event_carries_the_count_at_that_scan(container: Container, owner: Caller) -> None:
    hook = subscribe(container, owner, type=SCAN_EVENT)
    order = create_order(container, owner)
    for scans in (1, 2):
        execute(container, SCANNED, order=order.id, scans=scans, now=container.clock())
    fan_out(container)
    assert event_types(container, hook) == [SCAN_EVENT, SCAN_EVENT]
    [first] = claim_deliveries(container)
    complete_deliveries(container, [first])
    payloads = [payload_data(due) for due in (first, *claim_deliveries(container))]
    assert [each["order_item.scans"] for each in payloads] == [1, 2]
    statuses = {(each["order_item.previous_status"], each["order_item.current_status"]) for each in payloads}
    assert statuses == {(None, "Processing")}


def test_only_a_subscription_that_is_disabled_misses_anything(container: Container, owner: Caller) -> None:
    hooks = {status: subscribe(container, owner) for status in ("active", "failing", "paused", "disabled")}
    for status, hook in hooks.items():
        set_columns(container, webhooks, hook.id, status=status)
    fan_out_order(container, owner)
    counts = {status: len(event_types(container, hook)) for status, hook in hooks.items()}
    assert counts == {"active": 2, "failing": 2, "paused": 2, "disabled": 0}


def test_every_fact_is_taken_once(container: Container, owner: Caller) -> None:
    hook = subscribe(container, owner)
    create_order(container, owner, people(2))
    with container.db.system_transaction() as tx:
        assert fanning.fan_out_facts(tx, limit=10, now=container.clock()) == 3
        tx.rollback()  # and leaves its facts to the next
    assert (event_types(container, hook), queue_row(container, hook).due_at) == ([], None)
    with container.db.system_transaction() as tx:
        assert fanning.fan_out_facts(tx, limit=2, now=container.clock()) == 2
        assert fan_out(container) == 0, "of two at once one leaves it to the other"
    assert [fan_out(container), fan_out(container)] == [1, 0]
    assert event_types(container, hook) == [ORDER, ITEM, ITEM]


def test_events_wake_only_the_queues_of_their_subscribers(container: Container, clock: Clock, owner: Caller) -> None:
    active, paused = (subscribe(container, owner) for _ in range(2))
    other, earlier = subscribe(container, owner, type=SCAN_EVENT), clock.now()
    set_columns(container, webhooks, paused.id, status="paused")
    fan_out_order(container, owner)
    woken = [queue_wakeups(container, hook) for hook in (active, paused, other)]
    assert woken == [(earlier, 1), (earlier, 1), (None, 0)]
    clock.advance(seconds=5)
    fan_out_order(container, owner)
    assert queue_wakeups(container, active) == (earlier, 2)


def test_resuming_during_a_fan_out_waits_for_it_and_leaves_nothing_behind(container: Container, owner: Caller) -> None:
    hook = subscribe(container, owner)
    run_as(container, owner, webhook_service.pause_webhook, hook.id, now=container.clock())
    create_order(container, owner)

    def resume() -> None:
        run_as(container, owner, webhook_service.resume_webhook, hook.id, now=container.clock())

    with ThreadPoolExecutor(1) as pool:
        with container.db.system_transaction() as tx:
            fanning.fan_out_facts(tx, limit=10, now=container.clock())
            resumed = pool.submit(resume)
            wait_until(lambda: is_lock_awaited(container))
        resumed.result()
    assert [row.next_at for row in delivery_rows(container, hook)] == [container.clock()] * 2
    assert len(claim_deliveries(container)) == 2


def test_an_event_that_was_rolled_back_is_not_sent(container: Container, owner: Caller) -> None:
    order = create_order(container, owner)
    end_review(container, order)
    fan_out(container)
    with container.db.system_transaction() as tx:
        change_item_statuses(tx, [StatusChange(item_ids(tx, order)[0], ItemStatus.PRINTED)], now=container.clock())
        tx.rollback()
    assert fan_out(container) == 0


def test_a_later_event_of_a_piece_waits_for_the_earlier(container: Container, owner: Caller) -> None:
    subscribe(container, owner)
    deliver_order(container, owner)
    seen = []
    while dues := claim_deliveries(container):
        streams = [due.stream for due in dues]
        assert len(set(streams)) == len(streams), "two of one stream were in the air together"
        seen += [
            (json.loads(due.payload)["event_type"], payload_data(due)["order_item.current_status"])
            for due in dues
            if due.stream.startswith("item:")
        ]
        complete_deliveries(container, dues)
    assert seen == [(ITEM, "Processing"), (ITEM, "Printed"), (ITEM, "Delivered"), (DELIVERED_EVENT, "Delivered")]


def test_a_failing_delivery_of_one_item_holds_up_no_other(container: Container, owner: Caller) -> None:
    subscribe(container, owner, type=ITEM)
    order = create_order(container, owner, people(2))
    end_review(container, order)
    move_pieces(container, order)
    fan_out(container)
    stuck, fine = claim_deliveries(container)
    complete_deliveries(container, [stuck], "pending", next_at=container.clock() + timedelta(hours=1))
    complete_deliveries(container, [fine])
    [after] = claim_deliveries(container)
    assert payload_data(after)["order_item.id"] == payload_data(fine)["order_item.id"]


def test_a_claimed_delivery_is_not_claimed_again_before_its_lease_ends(
    container: Container, clock: Clock, owner: Caller
) -> None:
    subscribe_with_delivery(container, owner)
    [first] = claim_deliveries(container)
    assert claim_deliveries(container) == []
    clock.advance(seconds=LEASE.seconds)
    [again] = claim_deliveries(container)
    assert (again.id, again.event_id, again.payload, again.attempts) == (first.id, first.event_id, first.payload, 0)


def test_a_success_counts_and_heals_the_subscription(container: Container, owner: Caller) -> None:
    hook = subscribe_with_delivery(container, owner)
    set_columns(container, webhooks, hook.id, status="failing")
    dues = claim_deliveries(container)
    for _ in range(2):  # a success that was known already is not counted again
        complete_deliveries(container, dues)
    healed, [row] = webhook_row(container, hook), delivery_rows(container, hook)
    assert (healed.status, healed.invoke_count) == ("active", 1)
    assert (row.status, row.delivered_at, row.response_status) == ("delivered", container.clock(), 200)
    complete_deliveries(container, dues, "pending", next_at=container.clock())
    assert claim_deliveries(container) == [], "an outcome after the lease does not undo it"


def test_a_failure_is_kept_with_its_answer_and_counts_for_nothing(container: Container, owner: Caller) -> None:
    hook, dues = subscribe_with_delivery(container, owner), claim_deliveries(container)
    complete_deliveries(container, dues, "failed", response_status=500, response_body="oops", error="gave up")
    assert claim_deliveries(container) == []
    [row] = delivery_rows(container, hook)
    assert (row.status, row.response_body, row.error) == ("failed", "oops", "gave up")
    assert webhook_row(container, hook).invoke_count == 0


def test_events_carry_the_values_of_their_moment(container: Container, owner: Caller) -> None:
    subscribe(container, owner)
    how = {"metadata": '{"a":1.0}', "qrcode_url": "https://x.test/%CUSTOM1%"}
    deliver_order(container, owner, [person(custom1="blue")], **how)
    dues = claim_deliveries(container)
    creation, first = (payload_data(due) for due in dues)
    assert (creation["order.previous_status"], creation["order.current_status"]) == (None, "reviewing")
    assert (first["order_item.previous_status"], first["order_item.current_status"]) == (None, "Processing")
    assert (first["order.status"], first["qrcode.url"]) == ("Reviewing", "https://x.test/blue")
    assert all('"order.metadata":{"a":1.0}}' in due.payload for due in dues)


def test_a_secret_is_sealed_and_opens_for_its_own_subscription(container: Container, owner: Caller) -> None:
    how = {"url": "https://example.com", "type": "*", "now": container.clock()}
    with container.db.transaction(build_tenant(owner)) as tx:
        hook, secret = webhook_service.create_webhook(tx, owner, container.encryptor, **how)  # type: ignore[arg-type]
    sealed = bytes(scalar(container, sa.select(webhooks.c.secret_sealed)))
    assert secret.encode() not in sealed
    assert webhook_service.decrypt_secret(container.encryptor, hook.id, sealed) == secret
