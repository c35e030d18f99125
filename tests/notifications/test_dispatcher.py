"""The dispatcher: deliveries in turn, and what happens when its database or a receiver fails."""

import asyncio
import json
from collections import Counter
from contextlib import suppress
from datetime import timedelta
from itertools import count
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa

from quillpost.accounts.models import Caller
from quillpost.accounts.service import build_tenant
from quillpost.app.container import Container
from quillpost.core.database.tables.base import items
from quillpost.notifications.ports import PostResult
from quillpost.notifications.webhooks import queries as webhook_queries
from quillpost.notifications.webhooks import service as webhook_service
from quillpost.notifications.webhooks.concurrency import INITIAL_CONCURRENCY
from quillpost.notifications.webhooks.dispatcher import Dispatcher
from quillpost.notifications.webhooks.rules import ITEM_STATUS_EVENT, ORDER_STATUS_EVENT
from quillpost.orders.items.service import StatusChange, change_item_statuses
from quillpost.orders.models import Order
from quillpost.orders.rules import ItemStatus
from support.factories import Clock, people
from support.orders import create_order, end_review, item_ids, open_account
from support.webhook_outbox import LEASE, delivery_rows, fan_out, lease_owner, queue_row, subscribe
from support.webhook_receivers import Answer, Receivers, deliver, responding, run_dispatcher

pytestmark = pytest.mark.usefixtures("clean_database")


@pytest.fixture
def owner(container: Container) -> Caller:
    return open_account(container)


def test_a_silent_receiver_silences_nobody_else(container: Container, owner: Caller) -> None:
    subscribe(container, owner, type=ITEM_STATUS_EVENT, url="https://silent.example.com")
    subscribe(container, owner, type=ITEM_STATUS_EVENT, url="https://lively.example.com")
    create_order(container, owner, people(150))

    async def journey() -> Counter[str]:
        released = asyncio.Event()

        async def answer(url: str) -> PostResult:
            if "silent" in url:
                await released.wait()
            return PostResult(200)

        receivers = Receivers(answer)

        def request_counts() -> Counter[str]:
            return Counter(url for url, _ in receivers.requests)

        silent: list[int] = []

        def release() -> None:
            silent.append(request_counts()["https://silent.example.com"])
            released.set()

        await run_dispatcher(
            container, receivers, lambda: request_counts()["https://lively.example.com"] == 150, release
        )
        return Counter({"lively": request_counts()["https://lively.example.com"], "silent": silent[0]})

    assert asyncio.run(journey()) == {"lively": 150, "silent": INITIAL_CONCURRENCY}


def test_a_receiver_that_is_gone_gets_no_more_events(container: Container, owner: Caller) -> None:
    hook = subscribe(container, owner, type=ORDER_STATUS_EVENT)
    for _ in range(12):
        create_order(container, owner)

    async def journey() -> None:
        receivers = Receivers(responding(*[410] * 12))
        await run_dispatcher(container, receivers, lambda: bool(receivers.requests), lambda: None)

    asyncio.run(journey())
    with container.db.system_transaction() as tx:
        assert webhook_queries.read_webhook(tx, hook.id).status == "disabled"
    assert {row.status for row in delivery_rows(container, hook)} == {"failed"}


@pytest.mark.parametrize("verb", ["get", "post"])
def test_what_was_sent_once_is_sent_again_to_the_letter(
    container: Container, clock: Clock, owner: Caller, verb: str
) -> None:
    hook = subscribe(container, owner, type=ITEM_STATUS_EVENT, verb=verb, url="https://example.com/hook?a=1")
    order = create_order(container, owner, metadata='{"note":"' + "x" * 3_000 + '"}')

    [first] = deliver(container, 500).requests
    rename_everyone(container, order.id)
    clock.advance(seconds=10)
    assert deliver(container, 200).requests == [first]
    [row] = delivery_rows(container, hook)
    assert (row.status, row.attempts) == ("delivered", 2)
    assert row.body == (first[0] if verb == "get" else first[1].decode())


def rename_everyone(container: Container, order_id: int) -> None:
    """A message put in words anew would tell of it."""
    with container.db.system_transaction() as tx:
        tx.execute(sa.update(items).where(items.c.order_id == order_id).values(name="Somebody Else"))


WAY = ("Processing", "Printed", "In Transit", "In Local Area")
OTHERS = """
    select pg_terminate_backend(pid) from pg_stat_activity
     where datname = current_database() and pid <> pg_backend_pid()
"""


def travel(container: Container, owner: Caller, pieces: int) -> Order:
    """So many pieces, each on its way through several statuses."""
    order = create_order(container, owner, people(pieces))
    end_review(container, order)
    for status in WAY[1:]:
        with container.db.system_transaction() as tx:
            moves = [StatusChange(item_id, ItemStatus(status)) for item_id in item_ids(tx, order)]
            change_item_statuses(tx, moves, now=container.clock())
    return order


def make_dispatcher(container: Container, receivers: Receivers) -> Dispatcher:
    return Dispatcher(
        container.db, container.encryptor, receivers, container.clock, response_timeout=timedelta(seconds=15)
    )


def heard(receivers: Receivers) -> list[dict[str, Any]]:
    return [json.loads(body) for _, body in receivers.requests]


def ways(events: list[dict[str, Any]]) -> dict[int, list[str]]:
    """The statuses that each piece was told of, in their order, repeats left out."""
    seen: dict[str, dict[str, Any]] = {}
    for event in events:
        assert seen.setdefault(event["event_id"], event) == event, "a repeat in other words"
    passed: dict[int, list[str]] = {}
    for event in seen.values():
        passed.setdefault(event["data"]["order_item.id"], []).append(event["data"]["order_item.current_status"])
    return passed


async def always(_: str) -> PostResult:
    return PostResult(200)


def test_each_piece_s_events_arrive_in_their_order(container: Container, owner: Caller) -> None:
    hook = subscribe(container, owner, type=ITEM_STATUS_EVENT)
    travel(container, owner, 30)

    async def journey() -> list[dict[str, Any]]:
        receivers = Receivers(always)
        await run_dispatcher(container, receivers, lambda: len(receivers.requests) == 30 * len(WAY), lambda: None)
        return heard(receivers)

    events = asyncio.run(journey())
    assert list(ways(events).values()) == [list(WAY)] * 30
    assert len(events) == len({event["event_id"] for event in events})
    assert {(row.status, row.attempts) for row in delivery_rows(container, hook)} == {("delivered", 1)}


def test_a_piece_whose_event_fails_holds_up_its_own_later_ones_alone(
    container: Container, clock: Clock, owner: Caller
) -> None:
    subscribe(container, owner, type=ITEM_STATUS_EVENT)
    travel(container, owner, 3)
    left = [500]

    async def answer(_: str) -> PostResult:
        return PostResult(left.pop() if left else 200)

    async def journey(count: int) -> list[dict[str, Any]]:
        receivers = Receivers(answer)
        await run_dispatcher(container, receivers, lambda: len(receivers.requests) == count, lambda: None)
        return heard(receivers)

    first = asyncio.run(journey(1 + 2 * len(WAY)))
    failed = first[0]["data"]["order_item.id"]
    assert ways(first)[failed] == ["Processing"]
    assert [way for item, way in ways(first).items() if item != failed] == [list(WAY)] * 2
    clock.advance(seconds=7)
    assert ways(asyncio.run(journey(len(WAY)))) == {failed: list(WAY)}


def test_two_dispatchers_at_once_deliver_everything_once(container: Container, owner: Caller) -> None:
    hooks = [subscribe(container, owner, type=ITEM_STATUS_EVENT, url=f"https://{n}.example.com") for n in range(6)]
    travel(container, owner, 5)
    whole = len(hooks) * 5 * len(WAY)

    async def journey() -> Counter[str]:
        receivers, stop = Receivers(always), asyncio.Event()
        dispatchers = [asyncio.create_task(make_dispatcher(container, receivers).run(stop)) for _ in range(2)]
        async with asyncio.timeout(100):
            while len(receivers.requests) < whole:
                await receivers.heard.wait()
                receivers.heard.clear()
        stop.set()
        await asyncio.gather(*dispatchers)
        return Counter(url for url, _ in receivers.requests)

    assert asyncio.run(journey()) == {hook.url: 5 * len(WAY) for hook in hooks}
    assert {row.status for hook in hooks for row in delivery_rows(container, hook)} == {"delivered"}


def test_deliveries_in_flight_of_a_dead_dispatcher_are_sent_again_when_its_lease_ends(
    container: Container, clock: Clock, owner: Caller
) -> None:
    hook = subscribe(container, owner, type=ITEM_STATUS_EVENT)
    travel(container, owner, 3)

    async def die() -> list[dict[str, Any]]:
        """What it has sent is with the receiver; nobody ever writes down what came of it."""
        hanging = asyncio.Event()

        async def answer(_: str) -> PostResult:
            await hanging.wait()
            raise AssertionError

        receivers = Receivers(answer)
        running = asyncio.create_task(make_dispatcher(container, receivers).run(asyncio.Event()))
        async with asyncio.timeout(100):
            while len(receivers.requests) < 2:
                await receivers.heard.wait()
                receivers.heard.clear()
        everything = asyncio.all_tasks() - {asyncio.current_task()}
        for task in everything:
            task.cancel()
        with suppress(asyncio.CancelledError):
            await running
        return heard(receivers)

    sent = asyncio.run(die())
    assert lease_owner(container, hook)[0] is not None
    assert {row.status for row in delivery_rows(container, hook)} == {"pending"}
    clock.advance(seconds=LEASE.seconds)
    again = heard(deliver(container, *[200] * 3 * len(WAY)))
    assert list(ways(again).values()) == [list(WAY)] * 3
    assert {event["event_id"] for event in sent} <= {event["event_id"] for event in again}


def interrupted(conninfo: str, times: list[int]) -> Answer:
    """A receiver that answers; after so many calls each, the database throws everyone out."""
    calls, one_at_a_time = count(1), asyncio.Lock()

    async def answer(_: str) -> PostResult:
        if times and next(calls) >= times[0]:
            times.pop(0)
            async with one_at_a_time:  # or they would throw each other out
                await asyncio.to_thread(throw_everyone_out, conninfo)
        return PostResult(200)

    return answer


def throw_everyone_out(conninfo: str) -> None:
    with psycopg.connect(conninfo, autocommit=True) as admin:
        admin.execute(OTHERS)


def test_a_database_that_goes_away_in_the_middle_costs_no_event_and_no_order(
    container: Container, conninfo: str, owner: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quillpost.notifications.webhooks.dispatcher.ERROR_PAUSE_SECONDS", 0.05)
    hook = subscribe(container, owner, type=ITEM_STATUS_EVENT)
    travel(container, owner, 40)
    times = [1, 30, 31, 90, 120]

    async def journey() -> list[dict[str, Any]]:
        receivers = Receivers(interrupted(conninfo, times))

        def has_everything() -> bool:
            return len({event["event_id"] for event in heard(receivers)}) == 40 * len(WAY)

        await run_dispatcher(container, receivers, has_everything, lambda: None)
        return heard(receivers)

    events = asyncio.run(journey())
    assert times == []
    assert list(ways(events).values()) == [list(WAY)] * 40
    assert {row.status for row in delivery_rows(container, hook)} == {"delivered"}


def test_a_receiver_that_asks_for_time_gets_it(container: Container, clock: Clock, owner: Caller) -> None:
    hook = subscribe(container, owner, type=ORDER_STATUS_EVENT)
    create_order(container, owner)

    async def busy(_: str) -> PostResult:
        return PostResult(429, retry_after=90)

    async def journey() -> None:
        receivers = Receivers(busy)
        await run_dispatcher(container, receivers, lambda: bool(receivers.requests), lambda: None)

    asyncio.run(journey())
    again = container.clock() + timedelta(seconds=90)
    [row] = delivery_rows(container, hook)
    assert (row.status, row.next_at) == ("pending", again)
    assert queue_row(container, hook).resting_until == again
    clock.advance(seconds=90)
    assert len(deliver(container, 200).requests) == 1


@pytest.mark.parametrize("status", [301, 302, 400, 404, 500])
def test_whatever_is_no_success_is_tried_again(container: Container, owner: Caller, status: int) -> None:
    hook = subscribe(container, owner, type=ORDER_STATUS_EVENT)
    create_order(container, owner)
    deliver(container, status)
    [row] = delivery_rows(container, hook)
    assert (row.status, row.attempts, row.response_status) == ("pending", 1, status)
    assert timedelta(seconds=5) <= row.next_at - container.clock() <= timedelta(seconds=6)


def test_a_stopped_dispatcher_releases_its_queues_at_once(container: Container, owner: Caller) -> None:
    hook = subscribe(container, owner, type=ITEM_STATUS_EVENT)
    travel(container, owner, 20)
    whole = 20 * len(WAY)

    async def journey(least: int) -> list[dict[str, Any]]:
        receivers = Receivers(always)
        await run_dispatcher(container, receivers, lambda: len(receivers.requests) >= least, lambda: None)
        return heard(receivers)

    first = asyncio.run(journey(30))
    assert lease_owner(container, hook) == (None, None)
    rest = asyncio.run(journey(whole - len(first)))
    assert len(first) + len(rest) == len({event["event_id"] for event in first + rest}) == whole


def test_a_stopped_dispatcher_does_not_wait_for_a_hanging_receiver(
    container: Container, owner: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quillpost.notifications.webhooks.dispatcher.SHUTDOWN_SECONDS", 0.05)
    silent = subscribe(container, owner, type=ORDER_STATUS_EVENT, url="https://silent.example.com")
    lively = subscribe(container, owner, type=ORDER_STATUS_EVENT, url="https://lively.example.com")
    create_order(container, owner)

    async def answer(url: str) -> PostResult:
        if "silent" in url:
            await asyncio.Event().wait()
        return PostResult(200)

    async def journey() -> None:
        receivers = Receivers(answer)
        await run_dispatcher(container, receivers, lambda: len(receivers.requests) == 2, lambda: None)

    asyncio.run(journey())
    assert [row.status for row in delivery_rows(container, lively)] == ["delivered"]
    assert lease_owner(container, lively) == (None, None)
    assert [row.status for row in delivery_rows(container, silent)] == ["pending"]
    assert lease_owner(container, silent)[0] is not None


def test_a_subscription_paused_during_delivery_gets_no_more_events(container: Container, owner: Caller) -> None:
    hook = subscribe(container, owner, type=ITEM_STATUS_EVENT)
    travel(container, owner, 100)

    async def journey() -> int:
        receivers, stop = Receivers(always), asyncio.Event()
        running = asyncio.create_task(make_dispatcher(container, receivers).run(stop))
        async with asyncio.timeout(100):
            await receivers.heard.wait()
            await asyncio.to_thread(pause)
            while lease_owner(container, hook)[0] is not None:
                await asyncio.sleep(0.02)
        stop.set()
        await running
        return len(receivers.requests)

    def pause() -> None:
        with container.db.transaction(build_tenant(owner)) as tx:
            webhook_service.pause_webhook(tx, hook.id, now=container.clock())

    sent_count = asyncio.run(journey())
    waiting = [row for row in delivery_rows(container, hook) if row.status == "pending"]
    assert len(waiting) == 100 * len(WAY) - sent_count > 0
    assert {row.attempts for row in waiting} == {0}
    assert fan_out(container) == 0
