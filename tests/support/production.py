"""Orders on their way through the press, as tests of the services drive them."""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from quillpost.accounts.models import Caller
from quillpost.app.container import Container
from quillpost.core.database import Tx
from quillpost.core.database.tables.base import items
from quillpost.core.database.tables.fulfillment import batches, prints
from quillpost.fulfillment.batches import service as batch_service
from quillpost.fulfillment.batches import tasks as batch_tasks
from quillpost.fulfillment.review import service as review_service
from quillpost.orders.models import Order
from support.factories import Clock
from support.orders import REVIEW, create_order

LIVE_SETTINGS = {
    "base_url": "https://mail.example.com",
    "permit_first": "FIRST-CLASS|PERMIT 1",
    "permit_standard": "PRSRT STD|PERMIT 1",
    "mailer_id": "123456789",
    "print_partner": "folder",
}
"""Settings with which live mail may be printed."""


def sweep_due_orders(container: Container, clock: Clock) -> None:
    clock.advance(seconds=REVIEW.seconds)
    review_service.sweep_due_orders(container.production, now=container.clock())


def batch_rows(tx: Tx) -> list[sa.Row[Any]]:
    return list(tx.execute(sa.select(batches).order_by(batches.c.id)).all())


def enqueued_steps(tx: Tx) -> list[tuple[str, dict[str, int]]]:
    """The steps of batches that wait to be done."""
    found = tx.execute(
        sa.text(
            """select task_name, args from procrastinate_jobs
                where status = 'todo' and args ? 'batch_id' order by id"""
        )
    )
    return [(row.task_name, row.args) for row in found]


def delete_jobs(container: Container) -> None:
    with container.db.system_transaction() as tx:
        tx.execute(sa.text("delete from procrastinate_jobs"))


def compose_batch(container: Container, clock: Clock, caller: Caller, whom: Sequence[dict[str, Any]]) -> int:
    create_order(container, caller, whom)
    sweep_due_orders(container, clock)
    with container.db.system_transaction() as tx:
        [batch] = batch_rows(tx)
    batch_tasks.compose_batch(container.production, batch.id, now=container.clock())
    return int(batch.id)


def files_of(container: Container, batch_id: int) -> dict[str, bytes]:
    storage = container.storage.store
    return {key: storage.get(key) for key in storage.keys(f"batches/{batch_id}/")}


def print_rows(tx: Tx, order: Order) -> list[sa.Row[Any]]:
    """What lies on paper of the order, in the order of its items."""
    own = sa.select(prints).join(items, items.c.id == prints.c.item_id).where(items.c.order_id == order.id)
    return list(tx.execute(own.order_by(items.c.id, prints.c.edition)))


def create_batches(container: Container, tx: Tx, *several: Order, mode: str = "test", **how: Any) -> list[int]:
    """Pool these orders as they stand; the new batches."""
    ids = [order.id for order in several]
    return batch_service.pool_orders(
        tx, container.production.stock_by_product, container.environments[mode], ids, now=container.clock(), **how
    )
