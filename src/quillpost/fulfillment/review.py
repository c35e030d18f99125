"""The end of the review: due orders become batches or are paused, and operators decide."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Self

import sqlalchemy as sa

from quillpost.core import events, jobs
from quillpost.core.database import Tx
from quillpost.core.database.tables.base import accounts, facts, orders
from quillpost.core.database.tables.print_room import order_verdicts
from quillpost.core.errors import Conflict, NotFound
from quillpost.core.paging import OLDEST_FIRST, Page, PageRequest, page_ids
from quillpost.fulfillment import checks, giftcard_stock, queries
from quillpost.fulfillment.batching import pool
from quillpost.fulfillment.environments import World
from quillpost.fulfillment.giftcard_stock import Stock
from quillpost.fulfillment.models import POOL, Press
from quillpost.fulfillment.readiness import price_gaps
from quillpost.fulfillment.rules import UNDELIVERABLE_NAME, next_cutoff
from quillpost.orders import create
from quillpost.orders.changes import CHANGED_SINCE
from quillpost.orders.create import SWEEP
from quillpost.orders.items import read_order, swap_status
from quillpost.orders.models import Order
from quillpost.orders.rejudged import judge_before_mailing
from quillpost.orders.rules import ItemStatus, OrderStatus
from quillpost.orders.status import Move, advance_orders, move_items
from quillpost.recipients.rules import SUPPRESSED
from quillpost.recipients.verification.tasks import VERIFY

ORDERS_AT_ONCE = 1_000
SOON = timedelta(minutes=2)

HOLD = sa.text("update orders set hold_reasons = :why where id = :held")


def sweep(press: Press, *, now: datetime) -> None:
    """Take every order whose review has ended, and pool what may be. Several sweeps share the work."""
    judge_before_mailing(press.db)
    since = None if press.answer_within is None else now - press.answer_within
    while True:
        stock = giftcard_stock.look(press, now=now)
        with press.db.work() as tx:
            claimed = queries.claim_due(tx, now=now, most=ORDERS_AT_ONCE, answers_since=since)
            for mode, order_ids in claimed.items():
                _end_review(tx, press, press.worlds[mode], order_ids, stock, now=now)
            if sum(map(len, claimed.values())) < ORDERS_AT_ONCE:
                _come_back(tx, now=now)
                if queries.awaits_answers(tx, now=now, answers_since=since):
                    jobs.wake(tx, VERIFY, at=now)
                break
    pool(press, now=now)


def _come_back(tx: Tx, *, now: datetime) -> None:
    """Book the next sweep where one is needed soon: a clock that runs ahead woke us too early."""
    due_at = queries.next_due(tx, now=now, until=now + SOON)
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
    found = [checks.review_reasons(tx, press.studio, order_ids, press.review)]
    found.append(giftcard_stock.stock_reasons(tx, stock, order_ids))
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
    reasons = queries.undeliverable_items(tx, order_ids)
    reasons |= dict.fromkeys(queries.suppressed_items(tx, order_ids), SUPPRESSED)
    if world.mode == "test":
        undeliverable = queries.reserved_items(tx, order_ids, UNDELIVERABLE_NAME)
        reasons |= dict.fromkeys(undeliverable, "Undeliverable address")
    move_items(tx, [Move(item, ItemStatus.FAILED, why=why) for item, why in reasons.items()], now=now)


def _pause(tx: Tx, reasons: Mapping[int, Sequence[str]], *, now: datetime) -> None:
    """Nothing unready reaches paper: the order waits, and says for what."""
    if not reasons:
        return
    held = swap_status(tx, list(reasons), expected=[OrderStatus.REVIEWING], to=OrderStatus.PAUSED, now=now)
    tx.execute(HOLD, [{"held": order, "why": list(reasons[order])} for order in held])
    events.order_status_changed(tx, held, previous=OrderStatus.REVIEWING.value, now=now)


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
    jobs.wake(tx, create.SWEEP, at=order.due_at)


def _without_price(tx: Tx, order: Order, *, now: datetime) -> list[str]:
    return price_gaps(tx, [order.id], on=now.date()).get(order.id, []) if order.mode == "live" else []


def refuse(
    tx: Tx, world: World, order_id: int, *, operator_id: int | None, reason: str, now: datetime
) -> Order:
    """End an order that is not to be made; the sender has the money back and reads the reason."""
    order = _read(tx, world, order_id)
    if not order.status.is_held_back:
        raise Conflict(f"This order can no longer be refused: it is {order.status.display}.")
    create.stop(tx, order, to=OrderStatus.ERROR, why=f"Order refused: {reason}", now=now)
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


# In the statement itself, for the index of paused orders is followed where the status is known beforehand.
PAUSED: sa.ColumnElement[str] = sa.literal_column("'paused'", sa.Text())

# An order's facts are many, its pause is among the last.
PAUSED_AT = (
    sa.select(facts.c.at)
    .where(facts.c.order_id == orders.c.id, facts.c.item_id.is_(None), facts.c.current == PAUSED)
    .order_by(facts.c.id.desc())
    .limit(1)
    .scalar_subquery()
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOrder:
    """A paused order, whose it is, since when it waits and for what."""

    id: int
    account_id: int
    account_email: str
    sub_account_id: int | None
    type: str
    recipient_count: int
    pieces: int
    grand_total: int
    created_at: datetime
    paused_at: datetime
    reasons: list[str]

    @classmethod
    def of(cls, row: sa.Row[Any]) -> Self:
        order = Order.of(row)
        return cls(
            id=order.id,
            account_id=order.account_id,
            account_email=row.account_email,
            sub_account_id=order.sub_account_id,
            type=order.type,
            recipient_count=order.recipient_count,
            pieces=order.pieces,
            grand_total=order.grand_total,
            created_at=order.created_at,
            paused_at=row.paused_at,
            # Before reasons had a place of their own they were among the warnings.
            reasons=order.hold_reasons or order.warnings,
        )


def list_held(tx: Tx, mode: str, asked: PageRequest) -> Page[HeldOrder]:
    """Every account's, oldest first."""
    held = orders.c.mode == mode, orders.c.status == PAUSED
    total = int(tx.execute(sa.select(sa.func.count()).select_from(orders).where(*held)).scalar_one())
    if asked.offset >= total:
        return Page([], total, asked)
    found = page_ids(orders, held, asked, total=total, sorting=OLDEST_FIRST).subquery()
    rows = tx.execute(
        sa.select(orders, accounts.c.email.label("account_email"), PAUSED_AT.label("paused_at"))
        .join(found, found.c.id == orders.c.id)
        .join(accounts, accounts.c.id == orders.c.account_id)
        .order_by(orders.c.id)
    )
    return Page([HeldOrder.of(row) for row in rows], total, asked)
