"""The end of the review: orders that are due become batches, or are held with the reason."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

import sqlalchemy as sa

from quillpost import events, jobs
from quillpost.audience.rules import SUPPRESSED
from quillpost.audience.verifying import VERIFY
from quillpost.database import Tx
from quillpost.database.tables import orders
from quillpost.fulfilment import checks, gift_stock, store
from quillpost.fulfilment.gift_stock import Stock
from quillpost.fulfilment.pooling import pool
from quillpost.fulfilment.press import Press
from quillpost.fulfilment.readiness import price_gaps
from quillpost.fulfilment.rules import UNDELIVERABLE_NAME, next_cutoff
from quillpost.fulfilment.steps import POOL
from quillpost.orders.moves import Move, move_items
from quillpost.orders.order_steps import advance_orders
from quillpost.orders.rejudged_pieces import judge_before_mailing
from quillpost.orders.rules import ItemStatus, OrderStatus
from quillpost.orders.service import SWEEP
from quillpost.orders.store import swap_status
from quillpost.ports.worlds import World

ORDERS_AT_ONCE = 1_000
SOON = timedelta(minutes=2)

HOLD = sa.text("update orders set hold_reasons = :why where id = :held")


def sweep(press: Press, *, now: datetime) -> None:
    """Take every order whose review has ended, and pool what may be. Several sweeps share the work."""
    judge_before_mailing(press.db)
    since = None if press.answer_within is None else now - press.answer_within
    while True:
        stock = gift_stock.look(press, now=now)
        with press.db.work() as tx:
            claimed = store.claim_due(tx, now=now, most=ORDERS_AT_ONCE, answers_since=since)
            for mode, order_ids in claimed.items():
                _end_review(tx, press, press.worlds[mode], order_ids, stock, now=now)
            if sum(map(len, claimed.values())) < ORDERS_AT_ONCE:
                _come_back(tx, now=now)
                if store.awaits_answers(tx, now=now, answers_since=since):
                    jobs.wake(tx, VERIFY, at=now)
                break
    pool(press, now=now)


def _come_back(tx: Tx, *, now: datetime) -> None:
    """Book the next sweep where one is needed soon: a clock that runs ahead woke us too early."""
    due_at = store.next_due(tx, now=now, until=now + SOON)
    if due_at is not None:
        jobs.wake(tx, SWEEP, at=due_at)


def _end_review(
    tx: Tx, press: Press, world: World, order_ids: Sequence[int], stock: Stock, *, now: datetime
) -> None:
    held = _reasons_to_hold(tx, press, world, order_ids, stock, now=now)
    _pause(tx, held, now=now)
    let_go(tx, world, [order for order in order_ids if order not in held], now=now)


def _reasons_to_hold(
    tx: Tx, press: Press, world: World, order_ids: Sequence[int], stock: Stock, *, now: datetime
) -> dict[int, list[str]]:
    """What the automatic checks found, and what is missing before anything may reach paper."""
    reasons = {order: list(world.gaps) for order in order_ids if world.gaps}
    found = [checks.reasons(tx, press.studio, order_ids, press.review)]
    found.append(gift_stock.reasons(tx, stock, order_ids))
    if world.mode == "live":
        found.append(price_gaps(tx, order_ids, on=now.date()))
    for each in found:
        for order, why in each.items():
            reasons.setdefault(order, []).extend(why)
    return reasons


def let_go(
    tx: Tx,
    world: World,
    order_ids: Sequence[int],
    *,
    expected: OrderStatus = OrderStatus.REVIEWING,
    now: datetime,
) -> list[int]:
    """Orders that are to be made, from here on: they wait for the next pooling. Those that were let go."""
    taken = swap_status(tx, order_ids, expected=[expected], to=OrderStatus.PROCESSING, now=now)
    if not taken:
        return []
    events.order_status_changed(tx, taken, previous=expected.value, now=now)
    _fail_the_unmailable(tx, world, taken, now=now)
    pools_at = next_cutoff(now, world.cutoff, world.zone)
    tx.execute(
        sa.update(orders)
        .where(orders.c.id.in_(taken), orders.c.n_processing > 0)
        # Nothing is pooled before it is due, whoever lets it go.
        .values(pool_at=sa.func.greatest(orders.c.due_at, sa.case((orders.c.rush, now), else_=pools_at)))
    )
    jobs.wake(tx, POOL, at=pools_at)
    advance_orders(tx, taken, now=now)
    return taken


def _fail_the_unmailable(tx: Tx, world: World, order_ids: Sequence[int], *, now: datetime) -> None:
    """Whom nobody may mail any more, and in testing mode those whose name asks for it."""
    reasons = store.undeliverable_items(tx, order_ids)
    reasons |= dict.fromkeys(store.suppressed_items(tx, order_ids), SUPPRESSED)
    if world.mode == "test":
        undeliverable = store.reserved_items(tx, order_ids, UNDELIVERABLE_NAME)
        reasons |= dict.fromkeys(undeliverable, "Undeliverable address")
    move_items(tx, [Move(item, ItemStatus.FAILED, why=why) for item, why in reasons.items()], now=now)


def _pause(tx: Tx, reasons: Mapping[int, Sequence[str]], *, now: datetime) -> None:
    """Nothing unready reaches paper: the order waits, and says for what."""
    if not reasons:
        return
    held = swap_status(tx, list(reasons), expected=[OrderStatus.REVIEWING], to=OrderStatus.PAUSED, now=now)
    tx.execute(HOLD, [{"held": order, "why": list(reasons[order])} for order in held])
    events.order_status_changed(tx, held, previous=OrderStatus.REVIEWING.value, now=now)
