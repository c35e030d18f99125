"""The pump while things go wrong around it: at least once, each stream in its order, nothing lost."""

import asyncio
import json
from collections import Counter
from contextlib import suppress
from datetime import timedelta
from itertools import count
from typing import Any

import psycopg
import pytest
from outbox import LEASE, delivery_rows, fan_out, holder, lane_row, subscribe
from placing import end_review, item_ids, open_account, place
from receivers import Answer, Receivers, deliver, pumping

from makers import Clock, people
from quillpost.accounts.models import Caller
from quillpost.accounts.service import tenant
from quillpost.app.container import Parts
from quillpost.notifications.ports import PostOutcome
from quillpost.notifications.webhooks import service as webhook_service
from quillpost.notifications.webhooks.dispatcher import Pump
from quillpost.notifications.webhooks.rules import ITEM_STATUS, ORDER_STATUS
from quillpost.orders.models import Order
from quillpost.orders.rules import ItemStatus
from quillpost.orders.status import Move, move_items

WAY = ("Processing", "Printed", "In Transit", "In Local Area")
OTHERS = """
    select pg_terminate_backend(pid) from pg_stat_activity
     where datname = current_database() and pid <> pg_backend_pid()
"""


@pytest.fixture
def owner(parts: Parts) -> Caller:
    return open_account(parts)


def travel(parts: Parts, owner: Caller, pieces: int) -> Order:
    """So many pieces, each on its way through several statuses."""
    order = place(parts, owner, people(pieces))
    end_review(parts, order)
    for status in WAY[1:]:
        with parts.db.work() as tx:
            moves = [Move(item_id, ItemStatus(status)) for item_id in item_ids(tx, order)]
            move_items(tx, moves, now=parts.clock())
    return order


def pump_of(parts: Parts, receivers: Receivers) -> Pump:
    return Pump(parts.db, parts.sealer, receivers, parts.clock, answer_within=timedelta(seconds=15))


def heard(receivers: Receivers) -> list[dict[str, Any]]:
    return [json.loads(body) for _, body in receivers.asked]


def ways(events: list[dict[str, Any]]) -> dict[int, list[str]]:
    """The statuses that each piece was told of, in their order, repeats left out."""
    seen: dict[str, dict[str, Any]] = {}
    for event in events:
        assert seen.setdefault(event["event_id"], event) == event, "a repeat in other words"
    passed: dict[int, list[str]] = {}
    for event in seen.values():
        passed.setdefault(event["data"]["order_item.id"], []).append(
            event["data"]["order_item.current_status"]
        )
    return passed


async def always(_: str) -> PostOutcome:
    return PostOutcome(200)


def test_each_piece_s_events_arrive_in_their_order(parts: Parts, owner: Caller) -> None:
    hook = subscribe(parts, owner, type=ITEM_STATUS)
    travel(parts, owner, 30)

    async def journey() -> list[dict[str, Any]]:
        receivers = Receivers(always)
        await pumping(parts, receivers, lambda: len(receivers.asked) == 30 * len(WAY), lambda: None)
        return heard(receivers)

    events = asyncio.run(journey())
    assert list(ways(events).values()) == [list(WAY)] * 30
    assert len(events) == len({event["event_id"] for event in events})
    assert {(row.status, row.attempts) for row in delivery_rows(parts, hook)} == {("delivered", 1)}


def test_a_piece_whose_event_fails_holds_up_its_own_later_ones_alone(
    parts: Parts, clock: Clock, owner: Caller
) -> None:
    subscribe(parts, owner, type=ITEM_STATUS)
    travel(parts, owner, 3)
    left = [500]

    async def answer(_: str) -> PostOutcome:
        return PostOutcome(left.pop() if left else 200)

    async def journey(count: int) -> list[dict[str, Any]]:
        receivers = Receivers(answer)
        await pumping(parts, receivers, lambda: len(receivers.asked) == count, lambda: None)
        return heard(receivers)

    first = asyncio.run(journey(1 + 2 * len(WAY)))
    failed = first[0]["data"]["order_item.id"]
    assert ways(first)[failed] == ["Processing"]
    assert [way for item, way in ways(first).items() if item != failed] == [list(WAY)] * 2
    clock.advance(seconds=7)
    assert ways(asyncio.run(journey(len(WAY)))) == {failed: list(WAY)}


def test_two_pumps_beside_each_other_tell_everything_once(parts: Parts, owner: Caller) -> None:
    hooks = [subscribe(parts, owner, type=ITEM_STATUS, url=f"https://{n}.example.com") for n in range(6)]
    travel(parts, owner, 5)
    whole = len(hooks) * 5 * len(WAY)

    async def journey() -> Counter[str]:
        receivers, stop = Receivers(always), asyncio.Event()
        pumps = [asyncio.create_task(pump_of(parts, receivers).run(stop)) for _ in range(2)]
        async with asyncio.timeout(20):
            while len(receivers.asked) < whole:
                await receivers.heard.wait()
                receivers.heard.clear()
        stop.set()
        await asyncio.gather(*pumps)
        return Counter(url for url, _ in receivers.asked)

    assert asyncio.run(journey()) == {hook.url: 5 * len(WAY) for hook in hooks}
    assert {row.status for hook in hooks for row in delivery_rows(parts, hook)} == {"delivered"}


def test_what_a_dead_pump_had_in_the_air_goes_again_when_its_lease_ends(
    parts: Parts, clock: Clock, owner: Caller
) -> None:
    hook = subscribe(parts, owner, type=ITEM_STATUS)
    travel(parts, owner, 3)

    async def die() -> list[dict[str, Any]]:
        """What it has sent is with the receiver; nobody ever writes down what came of it."""
        hanging = asyncio.Event()

        async def answer(_: str) -> PostOutcome:
            await hanging.wait()
            raise AssertionError

        receivers = Receivers(answer)
        running = asyncio.create_task(pump_of(parts, receivers).run(asyncio.Event()))
        async with asyncio.timeout(20):
            while len(receivers.asked) < 2:
                await receivers.heard.wait()
                receivers.heard.clear()
        everything = asyncio.all_tasks() - {asyncio.current_task()}
        for task in everything:
            task.cancel()
        with suppress(asyncio.CancelledError):
            await running
        return heard(receivers)

    sent = asyncio.run(die())
    assert holder(parts, hook)[0] is not None
    assert {row.status for row in delivery_rows(parts, hook)} == {"pending"}
    clock.advance(seconds=LEASE.seconds)
    again = heard(deliver(parts, *[200] * 3 * len(WAY)))
    assert list(ways(again).values()) == [list(WAY)] * 3
    assert {event["event_id"] for event in sent} <= {event["event_id"] for event in again}


def interrupted(conninfo: str, times: list[int]) -> Answer:
    """A receiver that answers; after so many calls each, the database throws everyone out."""
    calls, one_at_a_time = count(1), asyncio.Lock()

    async def answer(_: str) -> PostOutcome:
        if times and next(calls) >= times[0]:
            times.pop(0)
            async with one_at_a_time:  # or they would throw each other out
                await asyncio.to_thread(throw_everyone_out, conninfo)
        return PostOutcome(200)

    return answer


def throw_everyone_out(conninfo: str) -> None:
    with psycopg.connect(conninfo, autocommit=True) as admin:
        admin.execute(OTHERS)


def test_a_database_that_goes_away_in_the_middle_costs_no_event_and_no_order(
    parts: Parts, conninfo: str, owner: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quillpost.notifications.webhooks.dispatcher.PAUSE_SECONDS", 0.05)
    hook = subscribe(parts, owner, type=ITEM_STATUS)
    travel(parts, owner, 40)
    times = [1, 30, 31, 90, 120]

    async def journey() -> list[dict[str, Any]]:
        receivers = Receivers(interrupted(conninfo, times))

        def is_told() -> bool:
            return len({event["event_id"] for event in heard(receivers)}) == 40 * len(WAY)

        await pumping(parts, receivers, is_told, lambda: None)
        return heard(receivers)

    events = asyncio.run(journey())
    assert times == []
    assert list(ways(events).values()) == [list(WAY)] * 40
    assert {row.status for row in delivery_rows(parts, hook)} == {"delivered"}


def test_a_receiver_that_asks_for_time_gets_it(parts: Parts, clock: Clock, owner: Caller) -> None:
    hook = subscribe(parts, owner, type=ORDER_STATUS)
    place(parts, owner)

    async def busy(_: str) -> PostOutcome:
        return PostOutcome(429, retry_after=90)

    async def journey() -> None:
        receivers = Receivers(busy)
        await pumping(parts, receivers, lambda: bool(receivers.asked), lambda: None)

    asyncio.run(journey())
    again = parts.clock() + timedelta(seconds=90)
    [row] = delivery_rows(parts, hook)
    assert (row.status, row.next_at) == ("pending", again)
    assert lane_row(parts, hook).resting_until == again
    clock.advance(seconds=90)
    assert len(deliver(parts, 200).asked) == 1


@pytest.mark.parametrize("status", [301, 302, 400, 404, 500])
def test_whatever_is_no_success_is_tried_again(parts: Parts, owner: Caller, status: int) -> None:
    hook = subscribe(parts, owner, type=ORDER_STATUS)
    place(parts, owner)
    deliver(parts, status)
    [row] = delivery_rows(parts, hook)
    assert (row.status, row.attempts, row.response_status) == ("pending", 1, status)
    assert timedelta(seconds=5) <= row.next_at - parts.clock() <= timedelta(seconds=6)


def test_a_pump_that_is_stopped_gives_its_lanes_back_at_once(parts: Parts, owner: Caller) -> None:
    hook = subscribe(parts, owner, type=ITEM_STATUS)
    travel(parts, owner, 20)
    whole = 20 * len(WAY)

    async def journey(least: int) -> list[dict[str, Any]]:
        receivers = Receivers(always)
        await pumping(parts, receivers, lambda: len(receivers.asked) >= least, lambda: None)
        return heard(receivers)

    first = asyncio.run(journey(30))
    assert holder(parts, hook) == (None, None)
    rest = asyncio.run(journey(whole - len(first)))
    assert len(first) + len(rest) == len({event["event_id"] for event in first + rest}) == whole


def test_a_pump_that_is_stopped_waits_for_no_receiver_that_hangs(
    parts: Parts, owner: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quillpost.notifications.webhooks.dispatcher.LAST_SECONDS", 0.05)
    silent = subscribe(parts, owner, type=ORDER_STATUS, url="https://silent.example.com")
    lively = subscribe(parts, owner, type=ORDER_STATUS, url="https://lively.example.com")
    place(parts, owner)

    async def answer(url: str) -> PostOutcome:
        if "silent" in url:
            await asyncio.Event().wait()
        return PostOutcome(200)

    async def journey() -> None:
        receivers = Receivers(answer)
        await pumping(parts, receivers, lambda: len(receivers.asked) == 2, lambda: None)

    asyncio.run(journey())
    assert [row.status for row in delivery_rows(parts, lively)] == ["delivered"]
    assert holder(parts, lively) == (None, None)
    assert [row.status for row in delivery_rows(parts, silent)] == ["pending"]
    assert holder(parts, silent)[0] is not None


def test_one_that_is_paused_while_it_is_told_hears_no_more(parts: Parts, owner: Caller) -> None:
    hook = subscribe(parts, owner, type=ITEM_STATUS)
    travel(parts, owner, 100)

    async def journey() -> int:
        receivers, stop = Receivers(always), asyncio.Event()
        running = asyncio.create_task(pump_of(parts, receivers).run(stop))
        async with asyncio.timeout(20):
            await receivers.heard.wait()
            await asyncio.to_thread(pause)
            while holder(parts, hook)[0] is not None:
                await asyncio.sleep(0.02)
        stop.set()
        await running
        return len(receivers.asked)

    def pause() -> None:
        with parts.db.transaction(tenant(owner)) as tx:
            webhook_service.pause(tx, hook.id, now=parts.clock())

    told = asyncio.run(journey())
    waiting = [row for row in delivery_rows(parts, hook) if row.status == "pending"]
    assert len(waiting) == 100 * len(WAY) - told > 0
    assert {row.attempts for row in waiting} == {0}
    assert fan_out(parts) == 0
