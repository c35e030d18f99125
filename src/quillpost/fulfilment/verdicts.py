"""What an operator decides about an order that is held or still under review. Of two, one wins."""

from datetime import datetime

import sqlalchemy as sa

from quillpost import events, jobs
from quillpost.database import Tx
from quillpost.database.press_tables import order_verdicts
from quillpost.database.tables import orders
from quillpost.fulfilment.readiness import price_gaps
from quillpost.fulfilment.review import let_go
from quillpost.kit.errors import Conflict, NotFound
from quillpost.orders import service
from quillpost.orders.editing import CHANGED_SINCE
from quillpost.orders.records import Order
from quillpost.orders.rules import OrderStatus
from quillpost.orders.store import read_order, swap_status
from quillpost.ports.worlds import World

LONGEST_REASON = 500
WHILE_LISTS_BECOME_ITEMS = 5
"""Seconds after which it is worth asking again."""


def release(
    tx: Tx, world: World, order_id: int, *, operator_id: int | None, reason: str = "", now: datetime
) -> Order:
    """Let a paused order go to the press, whatever the checks said of it. Nothing unready goes there,
    nothing before it is due, and no words that the checks have not seen.

    Who decides at the command line is no account's: the `operator_id` is None.
    """
    order = _read(tx, world, order_id)
    if order.status is not OrderStatus.PAUSED:
        raise Conflict(f"Only a paused order can be released: this one is {order.status.display}.")
    if order.audience_pending:
        told = "The people of this order's lists are not known yet: try again shortly."
        raise Conflict(told, retry_after=WHILE_LISTS_BECOME_ITEMS)
    gaps = [*world.gaps, *_without_price(tx, order, now=now)]
    if gaps:
        raise Conflict(f"This order cannot be released yet. {' '.join(gaps)}")
    if order.due_at > now or CHANGED_SINCE in order.hold_reasons:
        _review_on(tx, order, now=now)
    else:
        let_go(tx, world, [order.id], expected=OrderStatus.PAUSED, now=now)
    tx.execute(sa.update(orders).where(orders.c.id == order.id).values(hold_reasons=[]))
    _keep(tx, order, "released", operator_id=operator_id, reason=reason, now=now)
    return read_order(tx, order.id)


def _review_on(tx: Tx, order: Order, *, now: datetime) -> None:
    """The sender has put it off while it was held, or written it anew: until it is due, much may change.

    So it can be cancelled as before, and when it is due it is checked again, and who is suppressed is asked.
    """
    taken = swap_status(tx, [order.id], expected=[OrderStatus.PAUSED], to=OrderStatus.REVIEWING, now=now)
    events.order_status_changed(tx, taken, previous=OrderStatus.PAUSED.value, now=now)
    jobs.wake(tx, service.SWEEP, at=order.due_at)


def _without_price(tx: Tx, order: Order, *, now: datetime) -> list[str]:
    return price_gaps(tx, [order.id], on=now.date()).get(order.id, []) if order.mode == "live" else []


def refuse(
    tx: Tx, world: World, order_id: int, *, operator_id: int | None, reason: str, now: datetime
) -> Order:
    """End an order that is not to be made; the sender has the money back and reads the reason."""
    order = _read(tx, world, order_id)
    if not order.status.is_held_back:
        raise Conflict(f"This order can no longer be refused: it is {order.status.display}.")
    service.stop(tx, order, to=OrderStatus.ERROR, why=f"Order refused: {reason}", now=now)
    warnings = [*order.warnings, f"An operator refused this order: {reason}"]
    tx.execute(sa.update(orders).where(orders.c.id == order.id).values(warnings=warnings))
    _keep(tx, order, "refused", operator_id=operator_id, reason=reason, now=now)
    return read_order(tx, order.id)


def _read(tx: Tx, world: World, order_id: int) -> Order:
    """The order, whosever it is, if it is of this world; nobody else changes it meanwhile."""
    order = read_order(tx, order_id, locked=True)
    if order.mode != world.mode:
        raise NotFound
    return order


def _keep(tx: Tx, order: Order, verdict: str, *, operator_id: int | None, reason: str, now: datetime) -> None:
    tx.execute(
        sa.insert(order_verdicts).values(
            account_id=order.account_id,
            order_id=order.id,
            verdict=verdict,
            reasons=order.hold_reasons,
            reason=reason,
            operator_id=operator_id,
            at=now,
        )
    )
