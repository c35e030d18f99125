"""Orders on their way through the press and the mail, as tests of the services drive them."""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.accounts.models import Caller
from quillpost.app.container import Container
from quillpost.core.database import Tx
from quillpost.core.database.tables.base import items
from quillpost.core.database.tables.fulfillment import batches, carrier_scans, prints
from quillpost.fulfillment.batches import queries
from quillpost.fulfillment.batches import service as batch_service
from quillpost.fulfillment.batches import tasks as batch_tasks
from quillpost.fulfillment.batches.queries import ProductionBatch
from quillpost.fulfillment.ports import PrintProgress
from quillpost.fulfillment.print_room import service as print_room_service
from quillpost.fulfillment.print_room.service import MARK_MAILED
from quillpost.fulfillment.review import service as review_service
from quillpost.fulfillment.tracking import service as tracking_service
from quillpost.fulfillment.tracking.rules import Scan
from quillpost.orders.items.models import Item
from quillpost.orders.items.service import StatusChange, change_item_statuses
from quillpost.orders.models import Order
from quillpost.orders.rules import ItemStatus
from quillpost.rendering.files import PrintFiles
from support.factories import Clock, people
from support.orders import REVIEW, create_order, end_review, fact_rows, id_of, item_rows
from support.rows import Where, execute, run

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


def batch_rows(where: Where) -> list[sa.Row[Any]]:
    return execute(where, sa.select(batches).order_by(batches.c.id))


def only_batch(where: Where) -> sa.Row[Any]:
    [found] = batch_rows(where)
    return found


def read_batch(container: Container, batch_id: int) -> ProductionBatch:
    return run(container, queries.read_batch, batch_id)


def batch_items(container: Container, batch_id: int) -> dict[int, Item]:
    """By their positions."""
    return run(container, queries.read_batch_items, batch_id)


def enqueued_steps(where: Where) -> list[tuple[str, dict[str, int]]]:
    """The steps of batches that wait to be done."""
    waiting = "select task_name, args from procrastinate_jobs where status = 'todo' and args ? 'batch_id' order by id"
    return [(row.task_name, row.args) for row in execute(where, waiting)]


def delete_jobs(container: Container) -> None:
    execute(container, "delete from procrastinate_jobs")


def compose_batch(container: Container, clock: Clock, caller: Caller, whom: Sequence[dict[str, Any]]) -> int:
    create_order(container, caller, whom)
    sweep_due_orders(container, clock)
    return compose(container, only_batch(container).id)


def compose(container: Container, batch_id: int) -> int:
    batch_tasks.compose_batch(container.production, batch_id, now=container.clock())
    return batch_id


def hand_over(container: Container, batch_id: int) -> int:
    batch_tasks.hand_over_batch(container.production, batch_id, now=container.clock())
    return batch_id


def poll(container: Container, batch_id: int) -> int:
    batch_tasks.poll_printer(container.production, batch_id, now=container.clock())
    return batch_id


def hear_printer(container: Container, batch_id: int, **progress: Any) -> list[int]:
    """What a printer says of a batch; those of the pieces it calls spoiled that are not in it."""
    report = PrintProgress(**progress)
    return print_room_service.record_printer_progress(container.db, batch_id, report, now=container.clock())


def reprint(container: Container, batch_id: int, *positions: int, **how: Any) -> print_room_service.ReprintResult:
    asked: dict[str, Any] = {"positions": positions, "reason": "Jam", "now": container.clock()} | how
    return print_room_service.reprint_items(container.db, container.environments["test"], batch_id, **asked)


def batch_statuses(container: Container, batch_id: int) -> list[str]:
    return [item.status.value for item in batch_items(container, batch_id).values()]


def files_of(container: Container, batch_id: int) -> dict[str, bytes]:
    storage = container.storage.store
    return {key: storage.get(key) for key in storage.keys(f"batches/{batch_id}/")}


def print_rows(where: Where, order: Order | int) -> list[sa.Row[Any]]:
    """What lies on paper of the order, in the order of its items."""
    own = sa.select(prints).join(items, items.c.id == prints.c.item_id).where(items.c.order_id == id_of(order))
    return execute(where, own.order_by(items.c.id, prints.c.edition))


def create_batches(container: Container, tx: Tx, *several: Order, mode: str = "test", **how: Any) -> list[int]:
    """Pool these orders as they stand; the new batches."""
    ids = [order.id for order in several]
    return batch_service.pool_orders(
        tx, container.production.stock_by_product, container.environments[mode], ids, now=container.clock(), **how
    )


def with_environment(container: Container, mode: str = "test", **changes: Any) -> Container:
    """The same service in a world that differs."""
    environments = {**container.environments, mode: replace(container.environments[mode], **changes)}
    production = replace(container.production, environments=environments)
    return replace(container, environments=environments, production=production)


def stumble_over(container: Container, patch: pytest.MonkeyPatch, error: Exception, message: str = "") -> None:
    """Whoever draws a message with these words fails so."""
    draw = container.production.renderer.compose

    def draws_all_others(designs: Any, copies: Any, **how: Any) -> PrintFiles:
        if any(message in designs[copy.design].message for copy in copies):
            raise error
        return draw(designs, copies, **how)

    patch.setattr(container.production.renderer, "compose", draws_all_others)


JOURNEY = ("1", "2", "3a", "4c")


def mailed_order(container: Container, caller: Caller, pieces: int = 1) -> Order:
    """An order whose pieces carry barcodes and are in the mail."""
    order = create_order(container, caller, people(pieces))
    mail_order(container, order)
    return order


def mail_order(container: Container, order: Order) -> list[int]:
    """Its batches."""
    now = container.clock()
    end_review(container, order)
    with container.db.system_transaction() as tx:
        made = create_batches(container, tx, order)
        gone = {"status": "mailed", "handed_at": now, "mailed_at": now}
        tx.execute(sa.update(batches).where(batches.c.id.in_(made)).values(**gone))
        change_item_statuses(
            tx, [StatusChange(piece.id, ItemStatus.PRINTED) for piece in item_rows(tx, order)], now=now
        )
        for batch_id in made:
            MARK_MAILED.run(tx, {"batch": batch_id}, now=now)
    return made


def tracking_codes(container: Container, order: Order) -> list[str]:
    return [piece.tracking for piece in print_rows(container, order)]


def scan(
    tracking: str, phase: str, at: datetime, *, place: str | None = None, reason: str | None = None, **raw: object
) -> Scan:
    return Scan(tracking, phase, at, json.dumps({"imb": tracking, **raw}), place, reason)


def scan_journey(container: Container, tracking: str) -> list[Scan]:
    """A scan a day until it is delivered."""
    days = ((phase, container.clock() + timedelta(days=day)) for day, phase in enumerate(JOURNEY, start=1))
    return [scan(tracking, phase, at, mailPhase=phase, scanDatetime=at.isoformat()) for phase, at in days]


def ingest(container: Container, *scans: Scan) -> int:
    """How many were new."""
    return tracking_service.ingest_scans(container.db, scans, now=container.clock()).new


def statuses(container: Container, order: Order) -> list[str]:
    return [piece.status for piece in item_rows(container, order)]


def item_statuses_recorded(container: Container, order: Order) -> list[str]:
    return [fact.current for fact in fact_rows(container, order) if fact.item_id is not None]


def carrier_scan_rows(container: Container) -> list[sa.Row[Any]]:
    return execute(container, sa.select(carrier_scans).order_by(carrier_scans.c.id))
