"""What comes late into a lane is found, and what cannot be written down at once is not lost."""

import asyncio
from collections import Counter
from datetime import timedelta
from uuid import uuid4

import pytest

from quillpost.accounts.models import Caller
from quillpost.app.container import Container
from quillpost.notifications.ports import PostResult
from quillpost.notifications.webhooks import queries as webhook_queries
from quillpost.notifications.webhooks.concurrency import MAX_CONCURRENCY
from quillpost.notifications.webhooks.dispatcher import Dispatcher
from quillpost.notifications.webhooks.outcomes import DeliveryOutcome, record_outcomes
from quillpost.notifications.webhooks.queries import EndpointHealth
from quillpost.notifications.webhooks.rules import ITEM_STATUS_EVENT, ORDER_STATUS_EVENT
from support.factories import people
from support.orders import create_order, open_account
from support.waiting import wait_until
from support.webhook_outbox import LeaseHolder, delivery_rows, fan_out, queue_row, subscribe
from support.webhook_receivers import Receivers

pytestmark = pytest.mark.usefixtures("clean_database")

LATE = timedelta(seconds=8)


@pytest.fixture
def owner(container: Container) -> Caller:
    return open_account(container)


def make_dispatcher(container: Container, receivers: Receivers) -> Dispatcher:
    return Dispatcher(
        container.db, container.encryptor, receivers, container.clock, response_timeout=timedelta(seconds=15)
    )


def add_late(container: Container, hook: webhook_queries.WebhookSubscription, *, wakes: bool = True) -> None:
    """By somebody whose clock is behind, or who took long."""
    now = container.clock()
    with container.db.system_transaction() as tx:
        webhook_queries.insert_sample(tx, hook.id, event_type=ORDER_STATUS_EVENT, event_id=uuid4(), now=now - LATE)
        if wakes:
            webhook_queries.schedule_queue(tx, hook.id, at=now)


def count_sent(container: Container, hook: webhook_queries.WebhookSubscription) -> int:
    with container.db.system_transaction() as tx:
        return webhook_queries.read_webhook(tx, hook.id).invoke_count


def test_a_late_delivery_into_a_leased_queue_is_sent(container: Container, owner: Caller) -> None:
    hook = subscribe(container, owner, type=ORDER_STATUS_EVENT)
    create_order(container, owner)
    fan_out(container)

    async def journey() -> None:
        may_answer, stop = asyncio.Event(), asyncio.Event()

        async def answer(_: str) -> PostResult:
            await may_answer.wait()
            return PostResult(200)

        receivers = Receivers(answer)
        running = asyncio.create_task(make_dispatcher(container, receivers).run(stop))
        async with asyncio.timeout(100):
            await receivers.heard.wait()
            receivers.heard.clear()
            add_late(container, hook)  # the lane was read to its end, and is held while the first is in the air
            await receivers.heard.wait()
        may_answer.set()
        stop.set()
        await running

    asyncio.run(journey())
    assert {row.status for row in delivery_rows(container, hook)} == {"delivered"}


def test_a_queue_released_with_due_deliveries_is_leased_again_at_once(container: Container, owner: Caller) -> None:
    hook = subscribe(container, owner, type=ORDER_STATUS_EVENT)
    create_order(container, owner)
    fan_out(container)
    hand = LeaseHolder(container)
    hand.lease()
    hand.record(*(DeliveryOutcome(due, "delivered", 200) for due in hand.read()))
    add_late(container, hook, wakes=False)
    assert hand.leave() == {hook.id}
    assert queue_row(container, hook).due_at == container.clock()
    assert LeaseHolder(container).lease() == [hook.id]


def test_outcomes_wait_for_no_subscription_that_somebody_has_in_hand_and_are_kept(
    container: Container, owner: Caller
) -> None:
    slow, hook = (subscribe(container, owner, type=ORDER_STATUS_EVENT) for _ in range(2))
    create_order(container, owner)
    fan_out(container)
    hand = LeaseHolder(container)
    hand.lease()
    outcomes = [DeliveryOutcome(due, "delivered", 200) for due in hand.read()]
    ill = {each.id: EndpointHealth(1, container.clock()) for each in (slow, hook)}
    with container.db.system_transaction() as changing, container.db.system_transaction() as tx:
        webhook_queries.read_webhook(changing, slow.id, locked=True)
        news, put_off = record_outcomes(tx, hand.id, outcomes, ill, now=container.clock())
    assert ([each.delivery.webhook_id for each in news], put_off) == ([hook.id], {slow.id})
    assert [row.status for row in delivery_rows(container, slow)] == ["pending"]
    assert [queue_row(container, each).failures for each in (slow, hook)] == [0, 1]
    assert [each.delivery.webhook_id for each in hand.record(*outcomes)] == [slow.id]


@pytest.mark.parametrize("ends_meanwhile", [False, True])
def test_what_a_slow_call_holds_up_is_written_down_after_it_and_sent_once(
    container: Container, owner: Caller, ends_meanwhile: bool
) -> None:
    slow = subscribe(container, owner, type=ITEM_STATUS_EVENT, url="https://slow.example.com")
    fine = subscribe(container, owner, type=ITEM_STATUS_EVENT, url="https://fine.example.com")
    pieces = 3 * MAX_CONCURRENCY
    create_order(container, owner, people(pieces))
    fan_out(container)

    async def journey() -> Counter[str]:
        async def answer(_: str) -> PostResult:
            return PostResult(200)

        receivers, stop = Receivers(answer), asyncio.Event()
        with container.db.system_transaction() as changing:
            webhook_queries.read_webhook(changing, slow.id, locked=True)
            running = asyncio.create_task(make_dispatcher(container, receivers).run(stop))
            await asyncio.to_thread(wait_until, lambda: count_sent(container, fine) == pieces)
            assert 0 < len([url for url, _ in receivers.requests if url == slow.url]) < pieces
            if ends_meanwhile:
                stop.set()
        if not ends_meanwhile:
            await asyncio.to_thread(wait_until, lambda: count_sent(container, slow) == pieces)
            stop.set()
        await running
        return Counter(url for url, _ in receivers.requests)

    request_counts = asyncio.run(journey())
    assert request_counts == {slow.url: count_sent(container, slow), fine.url: pieces}
    assert queue_row(container, slow).leased_by is None
