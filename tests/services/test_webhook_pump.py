"""The pump itself, before receivers that answer as the test says."""

import asyncio
from collections import Counter

import pytest
import sqlalchemy as sa
from outbox import delivery_rows, subscribe
from placing import open_account, place
from receivers import Receivers, answering, deliver, pumping

from makers import Clock, people
from quillpost.accounts.models import Caller
from quillpost.app.container import Parts
from quillpost.core.database.tables.base import items
from quillpost.notifications.ports import PostOutcome
from quillpost.notifications.webhooks import queries as webhook_queries
from quillpost.notifications.webhooks.concurrency import FIRST_WINDOW
from quillpost.notifications.webhooks.rules import ITEM_STATUS, ORDER_STATUS


@pytest.fixture
def owner(parts: Parts) -> Caller:
    return open_account(parts)


def test_a_silent_receiver_silences_nobody_else(parts: Parts, owner: Caller) -> None:
    subscribe(parts, owner, type=ITEM_STATUS, url="https://silent.example.com")
    subscribe(parts, owner, type=ITEM_STATUS, url="https://lively.example.com")
    place(parts, owner, people(150))

    async def journey() -> Counter[str]:
        released = asyncio.Event()

        async def answer(url: str) -> PostOutcome:
            if "silent" in url:
                await released.wait()
            return PostOutcome(200)

        receivers = Receivers(answer)

        def told() -> Counter[str]:
            return Counter(url for url, _ in receivers.asked)

        silent: list[int] = []

        def release() -> None:
            silent.append(told()["https://silent.example.com"])
            released.set()

        await pumping(parts, receivers, lambda: told()["https://lively.example.com"] == 150, release)
        return Counter({"lively": told()["https://lively.example.com"], "silent": silent[0]})

    assert asyncio.run(journey()) == {"lively": 150, "silent": FIRST_WINDOW}


def test_a_receiver_that_is_gone_is_told_nothing_more(parts: Parts, owner: Caller) -> None:
    hook = subscribe(parts, owner, type=ORDER_STATUS)
    for _ in range(12):
        place(parts, owner)

    async def journey() -> None:
        receivers = Receivers(answering(*[410] * 12))
        await pumping(parts, receivers, lambda: bool(receivers.asked), lambda: None)

    asyncio.run(journey())
    with parts.db.work() as tx:
        assert webhook_queries.read_webhook(tx, hook.id).status == "disabled"
    assert {row.status for row in delivery_rows(parts, hook)} == {"failed"}


@pytest.mark.parametrize("verb", ["get", "post"])
def test_what_was_sent_once_is_sent_again_to_the_letter(
    parts: Parts, clock: Clock, owner: Caller, verb: str
) -> None:
    hook = subscribe(parts, owner, type=ITEM_STATUS, verb=verb, url="https://example.com/hook?a=1")
    order = place(parts, owner, metadata='{"note":"' + "x" * 3_000 + '"}')

    [first] = deliver(parts, 500).asked
    rename_everyone(parts, order.id)
    clock.advance(seconds=10)
    assert deliver(parts, 200).asked == [first]
    [row] = delivery_rows(parts, hook)
    assert (row.status, row.attempts) == ("delivered", 2)
    assert row.body == (first[0] if verb == "get" else first[1].decode())


def rename_everyone(parts: Parts, order_id: int) -> None:
    """A message put in words anew would tell of it."""
    with parts.db.work() as tx:
        tx.execute(sa.update(items).where(items.c.order_id == order_id).values(name="Somebody Else"))
