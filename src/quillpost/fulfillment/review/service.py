"""The end of the review: due orders are processed or paused, and operators decide."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import date, datetime, timedelta
from typing import Any, Self

import sqlalchemy as sa

from quillpost.accounts.billing.rules import EVERYWHERE_ELSE
from quillpost.accounts.models import Caller
from quillpost.accounts.service import build_tenant
from quillpost.core import jobs
from quillpost.core.database import Database, Tx
from quillpost.core.database.tables.base import accounts, facts, orders
from quillpost.core.database.tables.fulfillment import order_verdicts
from quillpost.core.errors import Conflict, Message, NotFound
from quillpost.core.paging import OLDEST_FIRST, Page, PageRequest, select_page_ids
from quillpost.core.text import Clock
from quillpost.fulfillment.batches import giftcards
from quillpost.fulfillment.batches import queries as batch_queries
from quillpost.fulfillment.batches.giftcards import CardStock
from quillpost.fulfillment.batches.rules import UNDELIVERABLE_NAME, next_cutoff
from quillpost.fulfillment.batches.service import pool_due_orders
from quillpost.fulfillment.models import POOL, Environment, ProductionContext
from quillpost.fulfillment.review import queries
from quillpost.orders import changes
from quillpost.orders.changes import MESSAGE_CHANGED_WHILE_HELD
from quillpost.orders.items import queries as item_queries
from quillpost.orders.items.service import StatusChange, advance_orders, change_item_statuses
from quillpost.orders.models import Order
from quillpost.orders.products import DISPLAY_TYPES
from quillpost.orders.queries import change_status, read_order
from quillpost.orders.rules import SWEEP_TASK, ItemStatus, OrderStatus
from quillpost.recipients.verification.tasks import VERIFY_TASK

# With a price for every other country, no item needs to be looked at.
FIND_PRICE_GAPS = sa.text(f"""
    with open as (
        select id, type, size, mail_class from orders o
         where id = any(:orders) and not exists (
               select 1 from prices p
                where (p.type, p.size, p.mail_class) = (o.type, coalesce(o.size, ''), o.mail_class)
                  and p.country = '{EVERYWHERE_ELSE}' and p.valid_from <= :on)),
    destinations as (
        select distinct o.id, o.type, o.size, o.mail_class, i.country
          from open o join items i on i.order_id = o.id
         where i.status = 'Processing')
    select id, type, size, mail_class, country from destinations d
     where not exists (
           select 1 from prices p
            where (p.type, p.size, p.mail_class) = (d.type, coalesce(d.size, ''), d.mail_class)
              and p.country = d.country and p.valid_from <= :on)
     order by id, country
""")

HAS_PRICES = sa.text("select exists (select from prices where valid_from <= :on)")
NO_PRICES_GAP = Message(
    "prices", "No price is in force: set prices at /print-room/prices.", for_sender="No prices are in force."
)
NO_RETURN_ADDRESS_GAP = Message(
    "return_address",
    "The account has no return address: set one, or give one with each send.",
    for_sender="Your account has no return address. Add one, or give one with each order.",
)
PAUSE_WARNING = "Live mail isn't ready yet, so this order will be paused when its review ends."


def find_service_gaps(tx: Tx, environment: Environment, *, on: date) -> list[Message]:
    """What keeps every live order from print that day."""
    if environment.mode != "live":
        return []
    gaps = list(environment.gaps)
    return gaps if tx.execute(HAS_PRICES, {"on": on}).scalar_one() else [*gaps, NO_PRICES_GAP]


def list_pause_warnings(
    db: Database, environments: Mapping[str, Environment], clock: Clock, caller: Caller
) -> list[str]:
    """The warnings for a sender whose live order could not be mailed with the current setup."""
    with db.transaction(build_tenant(caller)) as tx:
        gaps = find_service_gaps(tx, environments[caller.mode], on=clock().date())
    return format_pause_warnings(gaps)


def format_pause_warnings(gaps: Sequence[Message]) -> list[str]:
    return [" ".join([PAUSE_WARNING, *texts_for_sender(gaps)])] if gaps else []


def texts_for_sender(reasons: Sequence[Message]) -> list[str]:
    """What a sender reads of gaps and hold reasons: some have a sentence for those who cannot change a setting."""
    return [reason.params.get("for_sender", str(reason)) for reason in reasons]


def find_price_gaps(tx: Tx, order_ids: Sequence[int], *, on: date) -> dict[int, list[Message]]:
    """By order, a sentence for each destination without a price."""
    gaps: dict[int, list[Message]] = {}
    for row in tx.execute(FIND_PRICE_GAPS, {"orders": list(order_ids), "on": on}):
        product_label = DISPLAY_TYPES.get((row.type, row.size), row.type)
        text = f"No price is in force for {product_label} by {row.mail_class} class to {row.country}."
        gaps.setdefault(row.id, []).append(Message("price_missing", text))
    return gaps


ORDERS_PER_TRANSACTION = 1_000
NEXT_SWEEP_WITHIN = timedelta(minutes=2)
SET_HOLD_REASONS = (
    sa.update(orders).where(orders.c.id == sa.bindparam("held")).values(hold_reasons=sa.bindparam("reasons"))
)


def sweep_due_orders(production: ProductionContext, *, now: datetime) -> None:
    """Process or pause every order whose review has ended, then pool. Several workers share the orders."""
    verification_since = None if production.verification_timeout is None else now - production.verification_timeout
    while True:
        stock = giftcards.read_card_stock(production, now=now)
        with production.db.system_transaction() as tx:
            order_ids_by_mode = batch_queries.claim_due_orders(
                tx, now=now, limit=ORDERS_PER_TRANSACTION, verification_since=verification_since
            )
            for mode, order_ids in order_ids_by_mode.items():
                _end_reviews(tx, production, mode, order_ids, stock, now=now)
            if sum(map(len, order_ids_by_mode.values())) < ORDERS_PER_TRANSACTION:
                due_at = batch_queries.find_next_due(tx, now=now, until=now + NEXT_SWEEP_WITHIN)
                if due_at is not None:  # a clock that runs ahead woke us too early
                    jobs.enqueue_unique(tx, SWEEP_TASK, at=due_at)
                if batch_queries.has_orders_awaiting_verification(tx, now=now, verification_since=verification_since):
                    jobs.enqueue_unique(tx, VERIFY_TASK, at=now)
                break
    pool_due_orders(production, now=now)


def _end_reviews(
    tx: Tx, production: ProductionContext, mode: str, order_ids: Sequence[int], stock: CardStock, *, now: datetime
) -> None:
    hold_reasons = _reasons_to_hold(tx, production, mode, order_ids, stock, now=now)
    _pause_orders(tx, hold_reasons, now=now)
    released_ids = [order_id for order_id in order_ids if order_id not in hold_reasons]
    start_processing(tx, production.environments[mode], released_ids, now=now)


def _reasons_to_hold(
    tx: Tx, production: ProductionContext, mode: str, order_ids: Sequence[int], stock: CardStock, *, now: datetime
) -> dict[int, list[Message]]:
    gaps = production.environments[mode].gaps
    reasons = {order_id: list(gaps) for order_id in order_ids if gaps}
    sources = [queries.find_review_reasons(tx, production.renderer, order_ids, production.review_limits)]
    sources.append(giftcards.find_stock_reasons(tx, stock, order_ids))
    if mode == "live":
        sources.append(find_price_gaps(tx, order_ids, on=now.date()))
    for source in sources:
        for order_id, messages in source.items():
            reasons.setdefault(order_id, []).extend(messages)
    return reasons


def start_processing(
    tx: Tx,
    environment: Environment,
    order_ids: Sequence[int],
    *,
    expected: OrderStatus = OrderStatus.REVIEWING,
    now: datetime,
) -> list[int]:
    """Move orders to processing, to wait for the next pooling; those that were moved."""
    started = change_status(tx, order_ids, expected=[expected], new_status=OrderStatus.PROCESSING, now=now)
    if not started:
        return []
    item_queries.record_order_status_change(tx, started, previous=expected.value, now=now)
    _fail_unmailable_items(tx, environment, started, now=now)
    pool_at = next_cutoff(now, environment.cutoff, environment.zone)
    tx.execute(
        sa.update(orders)
        .where(orders.c.id.in_(started), orders.c.n_processing > 0)
        # Nothing is pooled before it is due.
        .values(pool_at=sa.func.greatest(orders.c.due_at, sa.case((orders.c.rush, now), else_=pool_at)))
    )
    jobs.enqueue_unique(tx, POOL, at=pool_at)
    advance_orders(tx, started, now=now)
    return started


def _fail_unmailable_items(tx: Tx, environment: Environment, order_ids: Sequence[int], *, now: datetime) -> None:
    reserved_name = UNDELIVERABLE_NAME if environment.mode == "test" else None
    reasons = batch_queries.find_unmailable_items(tx, order_ids, reserved_name=reserved_name)
    change_item_statuses(
        tx, [StatusChange(item_id, ItemStatus.FAILED, reason=reason) for item_id, reason in reasons.items()], now=now
    )


def _pause_orders(tx: Tx, reasons: Mapping[int, list[Message]], *, now: datetime) -> None:
    if not reasons:
        return
    paused = change_status(tx, list(reasons), expected=[OrderStatus.REVIEWING], new_status=OrderStatus.PAUSED, now=now)
    tx.execute(SET_HOLD_REASONS, [{"held": order_id, "reasons": reasons[order_id]} for order_id in paused])
    item_queries.record_order_status_change(tx, paused, previous=OrderStatus.REVIEWING.value, now=now)


MAX_REASON_LENGTH = 500
AUDIENCE_RETRY_SECONDS = 5


def release_order(
    tx: Tx, environment: Environment, order_id: int, *, operator_id: int | None, reason: str = "", now: datetime
) -> Order:
    """Process a paused order, whatever the checks said. Not before it is ready and due, and not with a message that the
    checks have not seen. `operator_id` is None on the command line."""
    order = _read_locked_order(tx, environment, order_id)
    if order.status is not OrderStatus.PAUSED:
        raise Conflict(f"Only a paused order can be released: this one is {order.status.capitalize()}.")
    if order.audience_pending:
        message = "The people of this order's lists are not known yet: try again shortly."
        raise Conflict(message, retry_after=AUDIENCE_RETRY_SECONDS)
    price_gaps = find_price_gaps(tx, [order.id], on=now.date()) if order.mode == "live" else {}
    gaps = [*environment.gaps, *price_gaps.get(order.id, ())]
    if gaps:
        raise Conflict(f"This order cannot be released yet. {' '.join(gaps)}")
    if order.due_at > now or any(reason.code == MESSAGE_CHANGED_WHILE_HELD.code for reason in order.hold_reasons):
        _resume_review(tx, order, now=now)
    else:
        start_processing(tx, environment, [order.id], expected=OrderStatus.PAUSED, now=now)
    tx.execute(sa.update(orders).where(orders.c.id == order.id).values(hold_reasons=[]))
    _insert_decision(tx, order, "released", operator_id=operator_id, reason=reason, now=now)
    return read_order(tx, order.id)


def _resume_review(tx: Tx, order: Order, *, now: datetime) -> None:
    """The sender postponed it while it was held, or changed its message: it can be canceled as before, and is checked
    again when it is due."""
    resumed = change_status(tx, [order.id], expected=[OrderStatus.PAUSED], new_status=OrderStatus.REVIEWING, now=now)
    item_queries.record_order_status_change(tx, resumed, previous=OrderStatus.PAUSED.value, now=now)
    jobs.enqueue_unique(tx, SWEEP_TASK, at=order.due_at)


def refuse_order(
    tx: Tx, environment: Environment, order_id: int, *, operator_id: int | None, reason: str, now: datetime
) -> Order:
    """End an order that is not to be printed; the sender is refunded and reads the reason."""
    order = _read_locked_order(tx, environment, order_id)
    if not order.status.is_held_back:
        raise Conflict(f"This order can no longer be refused: it is {order.status.capitalize()}.")
    changes.stop_order(tx, order, new_status=OrderStatus.ERROR, reason=f"Order refused: {reason}", now=now)
    warnings = [*order.warnings, Message("operator_refused", f"An operator refused this order: {reason}")]
    tx.execute(sa.update(orders).where(orders.c.id == order.id).values(warnings=warnings))
    _insert_decision(tx, order, "refused", operator_id=operator_id, reason=reason, now=now)
    return read_order(tx, order.id)


def _read_locked_order(tx: Tx, environment: Environment, order_id: int) -> Order:
    order = read_order(tx, order_id, locked=True)
    if order.mode != environment.mode:
        raise NotFound
    return order


def _insert_decision(
    tx: Tx, order: Order, decision: str, *, operator_id: int | None, reason: str, now: datetime
) -> None:
    tx.execute(
        sa.insert(order_verdicts).values(
            account_id=order.account_id,
            order_id=order.id,
            verdict=decision,
            reasons=order.hold_reasons,
            reason=reason,
            operator_id=operator_id,
            at=now,
        )
    )


# As a literal, since the partial index of paused orders is used only then.
PAUSED_STATUS: sa.ColumnElement[str] = sa.literal_column("'paused'", sa.Text())

PAUSED_AT = (
    sa.select(facts.c.at)
    .where(facts.c.order_id == orders.c.id, facts.c.item_id.is_(None), facts.c.current == PAUSED_STATUS)
    .order_by(facts.c.id.desc())
    .limit(1)
    .scalar_subquery()
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PausedOrder:
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
    reasons: Sequence[str]

    @classmethod
    def of(cls, row: sa.Row[Any]) -> Self:
        order = Order.of(row)
        extra = {"account_email", "paused_at", "reasons"}
        values = {field.name: getattr(order, field.name) for field in fields(cls) if field.name not in extra}
        return cls(**values, account_email=row.account_email, paused_at=row.paused_at, reasons=order.hold_reasons)


def list_paused_orders(tx: Tx, mode: str, page_request: PageRequest) -> Page[PausedOrder]:
    """Of every account, oldest first."""
    conditions = orders.c.mode == mode, orders.c.status == PAUSED_STATUS
    total = int(tx.execute(sa.select(sa.func.count()).select_from(orders).where(*conditions)).scalar_one())
    if page_request.offset >= total:
        return Page([], total, page_request)
    page_rows = select_page_ids(orders, conditions, page_request, total=total, sorting=OLDEST_FIRST).subquery()
    rows = tx.execute(
        sa.select(orders, accounts.c.email.label("account_email"), PAUSED_AT.label("paused_at"))
        .join(page_rows, page_rows.c.id == orders.c.id)
        .join(accounts, accounts.c.id == orders.c.account_id)
        .order_by(orders.c.id)
    )
    return Page([PausedOrder.of(row) for row in rows], total, page_request)
