"""Webhook subscriptions and deliveries step by step and in their log, and receivers that answer as a test says."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import sqlalchemy as sa

from quillpost.accounts.models import Caller
from quillpost.accounts.service import build_tenant
from quillpost.app.container import Container
from quillpost.core.database.tables.notifications import deliveries, webhook_lanes, webhooks
from quillpost.notifications.ports import PostResult
from quillpost.notifications.webhooks import outcomes, payloads
from quillpost.notifications.webhooks import queries as webhook_queries
from quillpost.notifications.webhooks import service as webhook_service
from quillpost.notifications.webhooks import tasks as fanning
from quillpost.notifications.webhooks.dispatcher import Dispatcher
from quillpost.notifications.webhooks.outcomes import DeliveryOutcome
from quillpost.notifications.webhooks.payloads import QUEUE_START, DueDelivery, InvalidDelivery, QueueRead
from quillpost.notifications.webhooks.rules import ORDER_STATUS_EVENT
from quillpost.orders.items.service import StatusChange, change_item_statuses
from quillpost.orders.models import Order
from quillpost.orders.rules import ItemStatus
from support.factories import Account
from support.orders import create_order, item_ids
from support.rows import execute, scalars

LEASE = timedelta(seconds=60)


def subscribe(container: Container, caller: Caller, **how: Any) -> webhook_queries.WebhookSubscription:
    values = {"url": "https://example.com/hook", "type": "*"} | how
    with container.db.transaction(build_tenant(caller)) as tx:
        return webhook_service.create_webhook(tx, caller, container.encryptor, now=container.clock(), **values)[0]


def fan_out(container: Container, most: int = 1_000) -> int:
    with container.db.system_transaction() as tx:
        return fanning.fan_out_facts(tx, limit=most, now=container.clock())


def fan_out_order(
    container: Container, caller: Caller, people: Sequence[dict[str, Any]] | None = None, **how: Any
) -> Order:
    """An order, and the deliveries that it makes."""
    order = create_order(container, caller, people, **how)
    fan_out(container)
    return order


def subscribe_with_delivery(container: Container, caller: Caller, **how: Any) -> webhook_queries.WebhookSubscription:
    """A subscription to orders that has one delivery to send."""
    hook = subscribe(container, caller, **{"type": ORDER_STATUS_EVENT} | how)
    fan_out_order(container, caller)
    return hook


def move_pieces(container: Container, order: Order, status: ItemStatus = ItemStatus.PRINTED, **how: Any) -> None:
    with container.db.system_transaction() as tx:
        moves = [StatusChange(item_id, status, **how) for item_id in item_ids(tx, order)]
        change_item_statuses(tx, moves, now=container.clock())


class LeaseHolder:
    """A pump's, without the air: it holds lanes, and remembers what it has taken from them."""

    def __init__(self, container: Container) -> None:
        self.parts = container
        self.id = uuid4()
        self.leases: dict[int, webhook_queries.Lease] = {}
        self.taken: set[int] = set()

    def lease(self, most: int = 100) -> list[int]:
        """The subscriptions whose lanes it got."""
        now = self.parts.clock()
        with self.parts.db.system_transaction() as tx:
            leased = webhook_queries.lease_queues(tx, self.id, limit=most, until=now + LEASE, now=now)
        self.leases |= {held.webhook_id: held for held in leased}
        return [held.webhook_id for held in leased]

    def read(self, most: int = 100, settled: Collection[DueDelivery] = ()) -> list[DueDelivery | InvalidDelivery]:
        asks = [QueueRead(held, QUEUE_START, most) for held in self.leases.values() if held.is_active]
        with self.parts.db.system_transaction() as tx:
            reading = payloads.read_batch(
                tx,
                asks if not settled else [],
                finished_streams=[(self.leases[due.webhook_id], due.stream) for due in settled],
                unacknowledged_ids=list(self.taken),
                now=self.parts.clock(),
            )
        self.taken |= {due.id for due in reading.deliveries}
        return reading.deliveries

    def record(self, *all_: DeliveryOutcome) -> list[DeliveryOutcome]:
        """Which of them were news."""
        with self.parts.db.system_transaction() as tx:
            recorded = outcomes.record_outcomes(tx, self.id, all_, {}, now=self.parts.clock())
        self.taken -= {each.delivery.id for each in all_ if each.delivery.webhook_id not in recorded.blocked_ids}
        return recorded.recorded

    def leave(self, hooks: Collection[int] | None = None) -> set[int]:
        """Which of the lanes, or of all, are left: they were as they had been seen."""
        seen = {hook: self.leases[hook].woken for hook in (self.leases if hooks is None else hooks)}
        with self.parts.db.system_transaction() as tx:
            left = webhook_queries.release_empty_queues(tx, self.id, seen, now=self.parts.clock())
        self.leases = {hook: held for hook, held in self.leases.items() if hook not in left}
        return left

    def look(self) -> set[int]:
        """The lanes that are still in it."""
        with self.parts.db.system_transaction() as tx:
            self.leases = {
                held.webhook_id: held for held in webhook_queries.read_leases(tx, self.id, list(self.leases))
            }
        return set(self.leases)


_HOLDERS: dict[int, LeaseHolder] = {}


def claim_deliveries(container: Container, most: int = 100) -> list[DueDelivery]:
    """What may go out now, into the hand of one who has nothing to do with those before."""
    hand = LeaseHolder(container)
    hand.lease()
    found = hand.read(most)
    hand.record(*(outcomes.fail_invalid(lost) for lost in found if isinstance(lost, InvalidDelivery)))
    dues = [due for due in found if isinstance(due, DueDelivery)]
    _HOLDERS.update(dict.fromkeys((due.id for due in dues), hand))
    busy = {due.webhook_id for due in dues}
    if set(hand.leases) - busy:
        hand.leave(set(hand.leases) - busy)
    return dues


def complete_deliveries(
    container: Container, dues: Sequence[DueDelivery], status: str = "delivered", **how: Any
) -> None:
    """What came of the attempts; whoever made them lets go of their lanes."""
    answered = {"response_status": 200} | how
    for hand in {_HOLDERS[due.id] for due in dues}:
        theirs = [due for due in dues if _HOLDERS[due.id] is hand]
        hand.record(*(DeliveryOutcome(due, status, **answered) for due in theirs))
        with container.db.system_transaction() as tx:
            webhook_queries.release_queues(tx, hand.id, list(hand.leases), now=container.clock())


def payload_data(due: DueDelivery) -> dict[str, Any]:
    """What it tells."""
    return dict(json.loads(due.payload)["data"])


def event_types(container: Container, hook: webhook_queries.WebhookSubscription) -> list[str]:
    """The types of the events that the subscription is to be told, in their order."""
    of_it = deliveries.c.webhook_id == hook.id
    return scalars(container, sa.select(deliveries.c.event_type).where(of_it).order_by(deliveries.c.id))


def set_columns(container: Container, table: sa.Table, row_id: int, **values: object) -> None:
    execute(container, sa.update(table).where(table.c.id == row_id).values(**values))


def delivery_rows(container: Container, hook: webhook_queries.WebhookSubscription) -> list[sa.Row[Any]]:
    return execute(container, sa.select(deliveries).where(deliveries.c.webhook_id == hook.id).order_by(deliveries.c.id))


def webhook_row(container: Container, hook: webhook_queries.WebhookSubscription) -> sa.Row[Any]:
    [row] = execute(container, sa.select(webhooks).where(webhooks.c.id == hook.id))
    return row  # type: ignore[no-any-return]


def queue_row(container: Container, hook: webhook_queries.WebhookSubscription) -> sa.Row[Any]:
    [row] = execute(container, sa.select(webhook_lanes).where(webhook_lanes.c.webhook_id == hook.id))
    return row  # type: ignore[no-any-return]


def set_queue(container: Container, hook: webhook_queries.WebhookSubscription, **values: object) -> None:
    execute(container, sa.update(webhook_lanes).where(webhook_lanes.c.webhook_id == hook.id).values(**values))


def queue_wakeups(container: Container, hook: webhook_queries.WebhookSubscription) -> tuple[datetime | None, int]:
    """When somebody is to look at the lane, and how often it was woken."""
    row = queue_row(container, hook)
    return row.due_at, row.woken


def health(container: Container, hook: webhook_queries.WebhookSubscription) -> webhook_queries.EndpointHealth:
    row = queue_row(container, hook)
    return webhook_queries.EndpointHealth(row.failures, row.troubled_since, row.resting_until)


def lease_owner(container: Container, hook: webhook_queries.WebhookSubscription) -> tuple[UUID | None, datetime | None]:
    row = queue_row(container, hook)
    return row.leased_by, row.leased_until


URL = "https://example.com/hook"


def subscribe_by_call(account: Account, **changes: Any) -> int:
    """A subscription to everything, but for the changes; its id."""
    return int(account.post("/webhooks", {"url": URL, "type": "*"} | changes).json()["id"])


def send_orders(container: Container, account: Account, how_many: int = 1) -> None:
    """Orders of one piece each: two facts an order, that go on their way at once."""
    for _ in range(how_many):
        assert account.send().status_code == 200
    while fan_out(container):
        """There may be facts of earlier tests before these."""


def list_deliveries(account: Account, hook: int, **query: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = account.get(f"/webhooks/{hook}/deliveries", params=query).json()["data"]
    return found


def set_delivery(container: Container, delivery_id: int, **columns: object) -> None:
    """Let this be what came of it."""
    change = sa.update(deliveries).where(deliveries.c.id == delivery_id).values(**columns)
    with container.db.system_transaction() as tx:
        assert tx.execute(change).rowcount == 1


def empty_queue(container: Container, hook: int) -> None:
    """Nothing is due."""
    change = sa.update(webhook_lanes).where(webhook_lanes.c.webhook_id == hook)
    execute(container, change.values(due_at=None))


def back_off(container: Container, hook: int) -> None:
    """The receiver failed so often that its lane rests, and nothing is due there."""
    change = sa.update(webhook_lanes).where(webhook_lanes.c.webhook_id == hook)
    execute(container, change.values(failures=7, resting_until=container.clock().replace(year=2030), due_at=None))


def is_due_now(container: Container, hook: int) -> bool:
    """Whether whoever delivers looks at the lane at once, as if nothing had been wrong."""
    with container.db.system_transaction() as tx:
        queue = tx.execute(sa.select(webhook_lanes).where(webhook_lanes.c.webhook_id == hook)).one()
    return (queue.failures, queue.resting_until, queue.due_at) == (0, None, container.clock())


def set_status(container: Container, hook: int, status: str, **more: object) -> None:
    execute(container, sa.update(webhooks).where(webhooks.c.id == hook).values(status=status, **more))


Answer = Callable[[str], Awaitable[PostResult]]


class Receivers:
    """Everyone who is told, by URL; `asked` is all that was sent, in its order, with its `headers`."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self.requests: list[tuple[str, bytes]] = []
        self.headers: list[Mapping[str, str]] = []
        self.heard = asyncio.Event()

    @property
    def counts(self) -> Counter[str]:
        return Counter(url for url, _ in self.requests)

    async def wait_until(self, is_so: Callable[[], bool]) -> None:
        async with asyncio.timeout(100):
            while not is_so():
                await self.heard.wait()
                self.heard.clear()

    async def post(self, url: str, *, method: str, headers: Mapping[str, str], body: bytes) -> PostResult:
        self.requests.append((url, body))
        self.headers.append(headers)
        self.heard.set()
        return await self._answer(url)

    async def close(self) -> None: ...


async def answer_ok(_: str) -> PostResult:
    return PostResult(200)


def responding(*statuses: int) -> Answer:
    """These answers, one after the other."""
    left = list(statuses)

    async def answer(_: str) -> PostResult:
        return PostResult(left.pop(0))

    return answer


def make_dispatcher(container: Container, receivers: Receivers) -> Dispatcher:
    within = timedelta(seconds=15)
    return Dispatcher(container.db, container.encryptor, receivers, container.clock, response_timeout=within)


@asynccontextmanager
async def dispatching(
    container: Container, receivers: Receivers, *, dispatchers: int = 1
) -> AsyncIterator[asyncio.Event]:
    """Dispatchers at work, which come to their end after it: what stops them before."""
    stop = asyncio.Event()
    running = [asyncio.create_task(make_dispatcher(container, receivers).run(stop)) for _ in range(dispatchers)]
    yield stop
    stop.set()
    await asyncio.gather(*running)


def run_until(
    container: Container, answer: Answer, until: Callable[[Receivers], bool], *, dispatchers: int = 1
) -> Receivers:
    """Run a dispatcher until the receivers have heard so much, and let it end."""

    async def journey() -> Receivers:
        receivers = Receivers(answer)
        async with dispatching(container, receivers, dispatchers=dispatchers):
            await receivers.wait_until(lambda: until(receivers))
        return receivers

    return asyncio.run(journey())


def deliver(container: Container, *statuses: int) -> Receivers:
    """Dispatch until as many deliveries as there are answers have gone out; what was sent."""
    return run_until(container, responding(*statuses), lambda receivers: len(receivers.requests) == len(statuses))
