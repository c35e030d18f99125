"""What comes late into a lane is found, and what cannot be written down at once is not lost."""

import asyncio
from collections import Counter
from datetime import timedelta
from uuid import uuid4

import pytest
from outbox import Hand, delivery_rows, fan_out, lane_row, subscribe
from placing import open_account, place
from receivers import Receivers
from waiting import wait_until

from makers import people
from quillpost.accounts.models import Caller
from quillpost.app.container import Parts
from quillpost.notifications.ports import PostOutcome
from quillpost.notifications.webhooks import leases
from quillpost.notifications.webhooks import queries as webhook_queries
from quillpost.notifications.webhooks.concurrency import WIDEST_WINDOW
from quillpost.notifications.webhooks.dispatcher import Pump
from quillpost.notifications.webhooks.leases import Health
from quillpost.notifications.webhooks.outcomes import Outcome, record
from quillpost.notifications.webhooks.rules import ITEM_STATUS, ORDER_STATUS

LATE = timedelta(seconds=8)


@pytest.fixture
def owner(parts: Parts) -> Caller:
    return open_account(parts)


def pump_to(parts: Parts, receivers: Receivers) -> Pump:
    return Pump(parts.db, parts.sealer, receivers, parts.clock, answer_within=timedelta(seconds=15))


def add_late(parts: Parts, hook: webhook_queries.Webhook, *, wakes: bool = True) -> None:
    """By somebody whose clock is behind, or who took long."""
    now = parts.clock()
    with parts.db.work() as tx:
        webhook_queries.add_sample(tx, hook.id, event_type=ORDER_STATUS, event_id=uuid4(), now=now - LATE)
        if wakes:
            leases.wake(tx, hook.id, at=now)


def count_told(parts: Parts, hook: webhook_queries.Webhook) -> int:
    with parts.db.work() as tx:
        return webhook_queries.read_webhook(tx, hook.id).invoke_count


def test_what_comes_late_into_a_lane_that_is_held_goes_out(parts: Parts, owner: Caller) -> None:
    hook = subscribe(parts, owner, type=ORDER_STATUS)
    place(parts, owner)
    fan_out(parts)

    async def journey() -> None:
        may_answer, stop = asyncio.Event(), asyncio.Event()

        async def answer(_: str) -> PostOutcome:
            await may_answer.wait()
            return PostOutcome(200)

        receivers = Receivers(answer)
        running = asyncio.create_task(pump_to(parts, receivers).run(stop))
        async with asyncio.timeout(20):
            await receivers.heard.wait()
            receivers.heard.clear()
            add_late(parts, hook)  # the lane was read to its end, and is held while the first is in the air
            await receivers.heard.wait()
        may_answer.set()
        stop.set()
        await running

    asyncio.run(journey())
    assert {row.status for row in delivery_rows(parts, hook)} == {"delivered"}


def test_whoever_leaves_a_lane_in_which_something_is_due_has_the_next_one_look(
    parts: Parts, owner: Caller
) -> None:
    hook = subscribe(parts, owner, type=ORDER_STATUS)
    place(parts, owner)
    fan_out(parts)
    hand = Hand(parts)
    hand.lease()
    hand.record(*(Outcome(due, "delivered", 200) for due in hand.read()))
    add_late(parts, hook, wakes=False)
    assert hand.leave() == {hook.id}
    assert lane_row(parts, hook).due_at == parts.clock()
    assert Hand(parts).lease() == [hook.id]


def test_outcomes_wait_for_no_subscription_that_somebody_has_in_hand_and_are_kept(
    parts: Parts, owner: Caller
) -> None:
    slow, hook = (subscribe(parts, owner, type=ORDER_STATUS) for _ in range(2))
    place(parts, owner)
    fan_out(parts)
    hand = Hand(parts)
    hand.lease()
    outcomes = [Outcome(due, "delivered", 200) for due in hand.read()]
    ill = {each.id: Health(1, parts.clock()) for each in (slow, hook)}
    with parts.db.work() as changing, parts.db.work() as tx:
        webhook_queries.read_webhook(changing, slow.id, locked=True)
        news, put_off = record(tx, hand.id, outcomes, ill, now=parts.clock())
    assert ([each.due.webhook_id for each in news], put_off) == ([hook.id], {slow.id})
    assert [row.status for row in delivery_rows(parts, slow)] == ["pending"]
    assert [lane_row(parts, each).failures for each in (slow, hook)] == [0, 1]
    assert [each.due.webhook_id for each in hand.record(*outcomes)] == [slow.id]


@pytest.mark.parametrize("ends_meanwhile", [False, True])
def test_what_a_slow_call_holds_up_is_written_down_after_it_and_sent_once(
    parts: Parts, owner: Caller, ends_meanwhile: bool
) -> None:
    slow = subscribe(parts, owner, type=ITEM_STATUS, url="https://slow.example.com")
    fine = subscribe(parts, owner, type=ITEM_STATUS, url="https://fine.example.com")
    pieces = 3 * WIDEST_WINDOW
    place(parts, owner, people(pieces))
    fan_out(parts)

    async def journey() -> Counter[str]:
        async def answer(_: str) -> PostOutcome:
            return PostOutcome(200)

        receivers, stop = Receivers(answer), asyncio.Event()
        with parts.db.work() as changing:
            webhook_queries.read_webhook(changing, slow.id, locked=True)
            running = asyncio.create_task(pump_to(parts, receivers).run(stop))
            await asyncio.to_thread(wait_until, lambda: count_told(parts, fine) == pieces)
            assert 0 < len([url for url, _ in receivers.asked if url == slow.url]) < pieces
            if ends_meanwhile:
                stop.set()
        if not ends_meanwhile:
            await asyncio.to_thread(wait_until, lambda: count_told(parts, slow) == pieces)
            stop.set()
        await running
        return Counter(url for url, _ in receivers.asked)

    asked = asyncio.run(journey())
    assert asked == {slow.url: count_told(parts, slow), fine.url: pieces}
    assert lane_row(parts, slow).leased_by is None
