"""The end of the review: orders that are due become batches, or are held with the reason."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

import sqlalchemy as sa
import structlog

from quillpost import events, jobs
from quillpost.audience.rules import SUPPRESSED
from quillpost.database import Database, Tx
from quillpost.database.tables import orders
from quillpost.fulfilment import store
from quillpost.fulfilment.rules import UNDELIVERABLE_NAME
from quillpost.fulfilment.steps import COMPOSE, book
from quillpost.orders.moves import Move, close_ended_orders, move_items
from quillpost.orders.rules import ItemStatus, OrderStatus
from quillpost.orders.service import SWEEP
from quillpost.orders.store import swap_status
from quillpost.ports import World

log = structlog.get_logger(__name__)

ORDERS_AT_ONCE = 1_000
SOON = timedelta(minutes=2)


def sweep(db: Database, worlds: Mapping[str, World], *, now: datetime) -> None:
    """Take every order whose review has ended. Several sweeps at once share the work."""
    while True:
        with db.work() as tx:
            claimed = store.claim_due(tx, now=now, most=ORDERS_AT_ONCE)
            for mode, order_ids in claimed.items():
                _end_review(tx, worlds[mode], order_ids, now=now)
            if sum(map(len, claimed.values())) < ORDERS_AT_ONCE:
                _come_back(tx, now=now)
                return


def _come_back(tx: Tx, *, now: datetime) -> None:
    """Book the next sweep where one is needed soon: a clock that runs ahead woke us too early."""
    due_at = store.next_due(tx, until=now + SOON)
    if due_at is not None:
        jobs.wake(tx, SWEEP, at=due_at)


def _end_review(tx: Tx, world: World, order_ids: Sequence[int], *, now: datetime) -> None:
    if world.gaps:
        _pause(tx, order_ids, world.gaps, now=now)
        return
    taken = swap_status(tx, order_ids, expected=[OrderStatus.REVIEWING], to=OrderStatus.PROCESSING, now=now)
    events.order_status_changed(tx, taken, previous=OrderStatus.REVIEWING.value, now=now)
    _fail_the_unmailable(tx, world, taken, now=now)
    for batch_id in store.pool(tx, taken, mailer_id=world.mailer_id, now=now):
        book(tx, COMPOSE, batch_id)
        log.info("batch.made", batch=batch_id, mode=world.mode)
    close_ended_orders(tx, taken, now=now)


def _fail_the_unmailable(tx: Tx, world: World, order_ids: Sequence[int], *, now: datetime) -> None:
    """Whom nobody may mail any more, and in testing mode those whose name asks for it."""
    reasons = dict.fromkeys(store.suppressed_items(tx, order_ids), SUPPRESSED)
    if world.mode == "test":
        undeliverable = store.reserved_items(tx, order_ids, UNDELIVERABLE_NAME)
        reasons |= dict.fromkeys(undeliverable, "Undeliverable address")
    move_items(tx, [Move(item, ItemStatus.FAILED, why=why) for item, why in reasons.items()], now=now)


def _pause(tx: Tx, order_ids: Sequence[int], gaps: Sequence[str], *, now: datetime) -> None:
    """Nothing unready reaches paper: the order waits, and says for what."""
    held = swap_status(tx, order_ids, expected=[OrderStatus.REVIEWING], to=OrderStatus.PAUSED, now=now)
    tx.execute(
        sa.update(orders)
        .where(orders.c.id.in_(held))
        .values(warnings=orders.c.warnings + sa.cast(list(gaps), orders.c.warnings.type))
    )
    events.order_status_changed(tx, held, previous=OrderStatus.REVIEWING.value, now=now)
