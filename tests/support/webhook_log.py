"""Subscriptions that were told of something, as their log then shows it."""

from typing import Any

import sqlalchemy as sa

from quillpost.app.container import Container
from quillpost.core.database.tables.notifications import deliveries, webhook_lanes, webhooks
from support.factories import Account
from support.webhook_outbox import fan_out

URL = "https://example.com/hook"


def subscribe(account: Account, **changes: Any) -> int:
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
    with container.db.system_transaction() as tx:
        tx.execute(change.values(due_at=None))


def back_off(container: Container, hook: int) -> None:
    """The receiver failed so often that its lane rests, and nothing is due there."""
    change = sa.update(webhook_lanes).where(webhook_lanes.c.webhook_id == hook)
    with container.db.system_transaction() as tx:
        tx.execute(change.values(failures=7, resting_until=container.clock().replace(year=2030), due_at=None))


def is_due_now(container: Container, hook: int) -> bool:
    """Whether whoever delivers looks at the lane at once, as if nothing had been wrong."""
    with container.db.system_transaction() as tx:
        queue = tx.execute(sa.select(webhook_lanes).where(webhook_lanes.c.webhook_id == hook)).one()
    return (queue.failures, queue.resting_until, queue.due_at) == (0, None, container.clock())


def set_status(container: Container, hook: int, status: str, **more: object) -> None:
    with container.db.system_transaction() as tx:
        tx.execute(sa.update(webhooks).where(webhooks.c.id == hook).values(status=status, **more))
