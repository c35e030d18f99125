"""The pump itself, before receivers that answer as the test says."""

import asyncio
from collections import Counter

import pytest
import sqlalchemy as sa

from quillpost.accounts.models import Caller
from quillpost.app.container import Container
from quillpost.core.database.tables.base import items
from quillpost.notifications.ports import PostResult
from quillpost.notifications.webhooks import queries as webhook_queries
from quillpost.notifications.webhooks.concurrency import INITIAL_CONCURRENCY
from quillpost.notifications.webhooks.rules import ITEM_STATUS_EVENT, ORDER_STATUS_EVENT
from support.factories import Clock, people
from support.orders import create_order, open_account
from support.webhook_outbox import delivery_rows, subscribe
from support.webhook_receivers import Receivers, deliver, responding, run_dispatcher


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
