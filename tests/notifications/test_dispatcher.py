"""The dispatcher: deliveries in turn, and what happens when its database or a receiver fails."""

import asyncio
import json
from collections import Counter
from contextlib import suppress
from datetime import timedelta
from itertools import count
from typing import Any
from uuid import uuid4

import psycopg
import pytest
import sqlalchemy as sa

from quillpost.accounts.models import Caller
from quillpost.app.container import Container
from quillpost.core.database.tables.base import items
from quillpost.notifications.ports import PostResult
from quillpost.notifications.webhooks import queries as webhook_queries
from quillpost.notifications.webhooks import service as webhook_service
from quillpost.notifications.webhooks.concurrency import MAX_CONCURRENCY
from quillpost.notifications.webhooks.queries import WebhookSubscription
from quillpost.notifications.webhooks.rules import ITEM_STATUS_EVENT, ORDER_STATUS_EVENT
from quillpost.orders.items.service import StatusChange, change_item_statuses
from quillpost.orders.rules import ItemStatus
from support import webhooks
from support.factories import Clock, people
from support.orders import create_order, end_review, item_ids
from support.rows import execute, run, run_as
from support.waiting import wait_until
from support.webhooks import Receivers, answer_ok, deliver, delivery_rows, run_until, subscribe

pytestmark = pytest.mark.usefixtures("clean_database")

WAY = ("Processing", "Printed", "In Transit", "In Local Area")
OTHERS = """
    select pg_terminate_backend(pid, 5000) from pg_stat_activity
     where datname = current_database() and pid <> pg_backend_pid()
"""


def travel(container: Container, owner: Caller, pieces: int) -> int:
    """So many pieces, each on its way through several statuses: the number of their events."""
    order = create_order(container, owner, people(pieces))
    end_review(container, order)
    for status in WAY[1:]:
        with container.db.system_transaction() as tx:
            moves = [StatusChange(item_id, ItemStatus(status)) for item_id in item_ids(tx, order)]
            change_item_statuses(tx, moves, now=container.clock())
    return pieces * len(WAY)


def heard(receivers: Receivers) -> list[dict[str, Any]]:
    return [json.loads(body) for _, body in receivers.requests]


def event_ids(receivers: Receivers) -> set[str]:
    return {event["event_id"] for event in heard(receivers)}


def ways(receivers: Receivers) -> dict[int, list[str]]:
    """The statuses that each piece was told of, in their order, repeats left out."""
    seen: dict[str, dict[str, Any]] = {}
    for event in heard(receivers):
        assert seen.setdefault(event["event_id"], event) == event, "a repeat in other words"
    passed: dict[int, list[str]] = {}
    for event in seen.values():
        passed.setdefault(event["data"]["order_item.id"], []).append(event["data"]["order_item.current_status"])
    return passed


def statuses(container: Container, *hooks: WebhookSubscription) -> set[tuple[str, int]]:
    """Of the deliveries: whether they came, and after how many attempts."""
    return {(row.status, row.attempts) for hook in hooks for row in delivery_rows(container, hook)}


@pytest.mark.parametrize("verb", ["get", "post"])
def test_what_is_sent_again_is_the_same_letter(container: Container, clock: Clock, owner: Caller, verb: str) -> None:
    hook = subscribe(container, owner, type=ITEM_STATUS_EVENT, verb=verb, url="https://example.com/hook?a=1")
    order = create_order(container, owner, metadata='{"note":"' + "x" * 3_000 + '"}')
    [first] = deliver(container, 500).requests
    # A message put in words anew would tell of it.
    execute(container, sa.update(items).where(items.c.order_id == order.id).values(name="Somebody Else"))
    clock.advance(seconds=10)
    assert deliver(container, 200).requests == [first]
    [row] = delivery_rows(container, hook)
    assert (row.status, row.attempts) == ("delivered", 2)
    assert row.body == (first[0] if verb == "get" else first[1].decode())


def test_each_piece_s_events_arrive_in_their_order(container: Container, owner: Caller) -> None:
    hook = subscribe(container, owner, type=ITEM_STATUS_EVENT)
    whole = travel(container, owner, 30)
    receivers = run_until(container, answer_ok, lambda receivers: len(receivers.requests) == whole)
    assert list(ways(receivers).values()) == [list(WAY)] * 30
    assert (len(event_ids(receivers)), statuses(container, hook)) == (whole, {("delivered", 1)})


def test_a_failed_event_holds_up_those_of_its_piece_alone(container: Container, clock: Clock, owner: Caller) -> None:
    subscribe(container, owner, type=ITEM_STATUS_EVENT)
    travel(container, owner, 3)
    first = deliver(container, 500, *[200] * 2 * len(WAY))
    failed = heard(first)[0]["data"]["order_item.id"]
    assert ways(first)[failed] == ["Processing"]
    assert [way for item, way in ways(first).items() if item != failed] == [list(WAY)] * 2
    clock.advance(seconds=7)
    assert ways(deliver(container, *[200] * len(WAY))) == {failed: list(WAY)}


def test_two_dispatchers_at_once_deliver_everything_once(container: Container, owner: Caller) -> None:
    hooks = [subscribe(container, owner, type=ITEM_STATUS_EVENT, url=f"https://{n}.example.com") for n in range(6)]
    each = travel(container, owner, 5)
    receivers = run_until(container, answer_ok, lambda receivers: len(receivers.requests) >= 6 * each, dispatchers=2)
    assert receivers.counts == {hook.url: each for hook in hooks}
    assert statuses(container, *hooks) == {("delivered", 1)}


def test_what_a_dead_dispatcher_had_goes_when_its_lease_ends(container: Container, clock: Clock, owner: Caller) -> None:
    hook = subscribe(container, owner, type=ITEM_STATUS_EVENT)
    whole = travel(container, owner, 3)

    async def hang(_: str) -> PostResult:
        await asyncio.Event().wait()
        raise AssertionError

    async def die() -> Receivers:
        """What it has sent is with the receiver; nobody ever writes down what came of it."""
        receivers = Receivers(hang)
        running = asyncio.create_task(webhooks.make_dispatcher(container, receivers).run(asyncio.Event()))
        await receivers.wait_until(lambda: len(receivers.requests) >= 2)
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        with suppress(asyncio.CancelledError):
            await running
        return receivers

    sent = asyncio.run(die())
    assert webhooks.lease_owner(container, hook)[0] is not None
    assert statuses(container, hook) == {("pending", 0)}
    clock.advance(seconds=webhooks.LEASE.seconds)
    again = deliver(container, *[200] * whole)
    assert list(ways(again).values()) == [list(WAY)] * 3
    assert event_ids(sent) <= event_ids(again)


def interrupted(conninfo: str, times: list[int]) -> webhooks.Answer:
    """A receiver that answers; after so many calls each, the database throws everyone out."""
    calls, one_at_a_time = count(1), asyncio.Lock()

    def throw_everyone_out() -> None:
        with psycopg.connect(conninfo, autocommit=True) as admin:
            admin.execute(OTHERS)

    async def answer(_: str) -> PostResult:
        if times and next(calls) >= times[0]:
            times.pop(0)
            async with one_at_a_time:  # or they would throw each other out
                await asyncio.to_thread(throw_everyone_out)
        return PostResult(200)

    return answer


def test_a_database_that_goes_away_in_the_middle_costs_no_event_and_no_order(
    container: Container, conninfo: str, owner: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quillpost.notifications.webhooks.dispatcher.ERROR_PAUSE_SECONDS", 0.05)
    hook = subscribe(container, owner, type=ITEM_STATUS_EVENT)
    whole, times = travel(container, owner, 40), [1, 30, 31, 90, 120]
    receivers = run_until(container, interrupted(conninfo, times), lambda receivers: len(event_ids(receivers)) == whole)
    assert (times, list(ways(receivers).values())) == ([], [list(WAY)] * 40)
    assert {row.status for row in delivery_rows(container, hook)} == {"delivered"}


def test_whatever_is_no_success_is_tried_again(container: Container, owner: Caller) -> None:
    tried = [301, 302, 400, 404, 500]
    hooks = [subscribe(container, owner, type=ORDER_STATUS_EVENT) for _ in tried]
    create_order(container, owner)
    deliver(container, *tried)
    rows = [row for hook in hooks for row in delivery_rows(container, hook)]
    assert sorted(row.response_status for row in rows) == tried
    assert {(row.status, row.attempts) for row in rows} == {("pending", 1)}
    assert all(5 <= (row.next_at - container.clock()).total_seconds() <= 6 for row in rows)


def test_a_stopped_dispatcher_releases_its_queues_at_once(container: Container, owner: Caller) -> None:
    hook = subscribe(container, owner, type=ITEM_STATUS_EVENT)
    whole = travel(container, owner, 20)
    first = run_until(container, answer_ok, lambda receivers: len(receivers.requests) >= 30)
    assert webhooks.lease_owner(container, hook) == (None, None)
    left = whole - len(first.requests)
    rest = run_until(container, answer_ok, lambda receivers: len(receivers.requests) >= left)
    assert (len(rest.requests), len(event_ids(first) | event_ids(rest))) == (left, whole)


def test_stopping_waits_for_no_receiver(container: Container, owner: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quillpost.notifications.webhooks.dispatcher.SHUTDOWN_SECONDS", 0.05)
    urls = [f"https://{name}.example.com" for name in ("silent", "lively")]
    silent, lively = (subscribe(container, owner, type=ORDER_STATUS_EVENT, url=url) for url in urls)
    create_order(container, owner)

    async def answer(url: str) -> PostResult:
        if url == silent.url:
            await asyncio.Event().wait()
        return PostResult(200)

    run_until(container, answer, lambda receivers: len(receivers.requests) == 2)
    assert [row.status for row in delivery_rows(container, lively)] == ["delivered"]
    assert webhooks.lease_owner(container, lively) == (None, None)
    assert [row.status for row in delivery_rows(container, silent)] == ["pending"]
    assert webhooks.lease_owner(container, silent)[0] is not None


def test_a_subscription_paused_during_delivery_gets_no_more_events(container: Container, owner: Caller) -> None:
    hook = subscribe(container, owner, type=ITEM_STATUS_EVENT)
    whole = travel(container, owner, 100)

    def pause() -> None:
        run_as(container, owner, webhook_service.pause_webhook, hook.id, now=container.clock())

    async def journey() -> int:
        receivers = Receivers(answer_ok)
        async with webhooks.dispatching(container, receivers):
            await receivers.wait_until(lambda: bool(receivers.requests))
            await asyncio.to_thread(pause)
            await asyncio.to_thread(wait_until, lambda: webhooks.lease_owner(container, hook)[0] is None, seconds=100)
        return len(receivers.requests)

    sent_count = asyncio.run(journey())
    waiting = [row for row in delivery_rows(container, hook) if row.status == "pending"]
    assert len(waiting) == whole - sent_count > 0
    assert ({row.attempts for row in waiting}, webhooks.fan_out(container)) == ({0}, 0)


def test_a_late_delivery_into_a_leased_queue_is_sent(container: Container, owner: Caller) -> None:
    hook = subscribe(container, owner, type=ORDER_STATUS_EVENT)
    create_order(container, owner)

    def add_late() -> None:
        """By somebody whose clock is behind, or who took long."""
        late, now = {"event_type": ORDER_STATUS_EVENT, "event_id": uuid4()}, container.clock()
        with container.db.system_transaction() as tx:
            webhook_queries.insert_sample(tx, hook.id, now=now - timedelta(seconds=8), **late)  # type: ignore[arg-type]
            webhook_queries.schedule_queue(tx, hook.id, at=now)

    async def journey() -> None:
        may_answer = asyncio.Event()

        async def answer(_: str) -> PostResult:
            await may_answer.wait()
            return PostResult(200)

        receivers = Receivers(answer)
        async with webhooks.dispatching(container, receivers):
            await receivers.wait_until(lambda: len(receivers.requests) == 1)
            add_late()  # the lane was read to its end, and is held while the first is in the air
            await receivers.wait_until(lambda: len(receivers.requests) == 2)
            may_answer.set()

    asyncio.run(journey())
    assert statuses(container, hook) == {("delivered", 1)}


@pytest.mark.parametrize("ends_meanwhile", [False, True])
def test_what_a_slow_call_holds_up_is_sent_once(container: Container, owner: Caller, ends_meanwhile: bool) -> None:
    urls = [f"https://{name}.example.com" for name in ("slow", "fine")]
    slow, fine = (subscribe(container, owner, type=ITEM_STATUS_EVENT, url=url) for url in urls)
    pieces = 3 * MAX_CONCURRENCY
    create_order(container, owner, people(pieces))
    webhooks.fan_out(container)

    def count_sent(hook: WebhookSubscription) -> int:
        return run(container, webhook_queries.read_webhook, hook.id).invoke_count

    async def journey() -> Counter[str]:
        receivers = Receivers(answer_ok)
        async with webhooks.dispatching(container, receivers) as stop:
            with container.db.system_transaction() as changing:
                webhook_queries.read_webhook(changing, slow.id, locked=True)
                await asyncio.to_thread(wait_until, lambda: count_sent(fine) == pieces)
                assert 0 < receivers.counts[slow.url] < pieces
                if ends_meanwhile:
                    stop.set()
            if not ends_meanwhile:
                await asyncio.to_thread(wait_until, lambda: count_sent(slow) == pieces)
        return receivers.counts

    assert asyncio.run(journey()) == {slow.url: count_sent(slow), fine.url: pieces}
    assert webhooks.queue_row(container, slow).leased_by is None
