"""Jobs of orders: turn lists into items, and verify addresses before an order is due."""

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
import structlog

from quillpost.accounts.billing import service as billing_service
from quillpost.accounts.billing.queries import read_tariff
from quillpost.core import jobs
from quillpost.core.database import Database, Tx, search
from quillpost.core.database.tables.base import CHANGEABLE_ORDER_STATUSES, items, orders
from quillpost.core.errors import Message
from quillpost.orders.audience import queries as audience_queries
from quillpost.orders.audience.queries import PERSON_COLUMNS, AudienceCriteria
from quillpost.orders.items import queries as item_queries
from quillpost.orders.rules import MATERIALIZE_TASK, SWEEP_TASK, ItemStatus, OrderStatus
from quillpost.recipients.addresses.rules import HOME_COUNTRY
from quillpost.recipients.verification.ports import AddressQuery, VerifierDown
from quillpost.recipients.verification.service import (
    APPLY_RESULT_ASSIGNMENTS,
    MATCHES_RESULT_CONDITION,
    VALID_RESULT_CONDITION,
    VerificationContext,
    VerificationQuestion,
    verify_questions,
)
from quillpost.recipients.verification.tasks import VERIFY_TASK, acquire_lease, release_lease, verify_recipients

log = structlog.get_logger(__name__)

ORDERS_PER_RUN = 1_000

SET_ACCOUNT = sa.text("select set_config('app.account_id', :account, true)")

# Sorted apart, the refusal is found once for each; and items lie in the order of their lists.
INSERT_ITEMS = sa.text(f"""
    with {audience_queries.CLASSIFIED_SQL}
    insert into items (account_id, sub_account_id, mode, order_id, creative_key, mailing_list_id,
                       status, failure, scans, price_cents, gift_cents, code, {", ".join(PERSON_COLUMNS)},
                       moved_key, created_at, updated_at)
    select :account_id, cast(:sub_account_id as bigint), :mode, :order_id,
           cast(:creative_key as uuid), c.mailing_list_id,
           case when c.refusal is null then 'Processing' else 'Failed' end, c.refusal, 0,
           case when c.refusal is null then c.cents else 0 end,
           case when c.refusal is null then cast(:gift_cents as integer) else 0 end,
           case when c.refusal is null then new_short_code() end,
           {", ".join(f"c.{name}" for name in PERSON_COLUMNS)}, c.moved_key, :now, :now
      from (select * from classified order by mailing_list_id, id) c
""")


def materialize_order(db: Database, order_id: int, *, needs_credit: Collection[str] = (), now: datetime) -> None:
    """Turn the order's lists into items, once; a canceled order gets none. Where credit is needed and does not cover
    it, it is paused. A short code drawn twice rolls back, and the job is retried."""
    with db.system_transaction() as tx:
        order = tx.execute(
            sa.update(orders)
            .where(orders.c.id == order_id, orders.c.audience_pending)
            .values(audience_pending=False, updated_at=now)
            .returning(orders)
        ).first()
        if order is None:
            return  # its lists are items already
        if not OrderStatus(order.status).is_held_back:
            tx.execute(item_queries.COUNT_ITEMS, {"order_id": order_id})
            return
        tx.execute(SET_ACCOUNT, {"account": str(order.account_id)})
        criteria = _audience_criteria(tx, order)
        audience_queries.lock_creative(tx, criteria)
        inserted = tx.execute(
            INSERT_ITEMS,
            audience_queries.query_values(criteria) | {"gift_cents": order.giftcard_amount or 0, "now": now},
        )
        tx.execute(item_queries.COUNT_ITEMS, {"order_id": order_id})
        cost = item_queries.read_live_cost(tx, order_id)
        totals = {"order_total": cost.item_cents, "gift_total": cost.gift_cents, "updated_at": now}
        tx.execute(sa.update(orders).where(orders.c.id == order_id).values(**totals))
        tx.execute(item_queries.INSERT_FIRST_ITEM_FACTS, {"order_id": order_id, "listed": True, "now": now})
        # Last of all: the account's other sends wait for us from here on.
        if order.mode in needs_credit:
            _pause_unless_covered(tx, order, cost.total_cents, now=now)
        # Held even so: what is owed for it can be seen, and nothing else is sent on it.
        billing_service.set_order_hold(tx, order_id, cents=cost.total_cents, reason="audience", now=now)
        jobs.enqueue_unique(tx, SWEEP_TASK, at=max(order.due_at, now))
        jobs.enqueue_unique(tx, search.INDEX_TASK, at=now)
    log.info("orders.materialized", order=order_id, items=inserted.rowcount)


def enqueue_missing_materializations(db: Database) -> None:
    """Enqueue the job for every order that waits for items without one."""
    with db.system_transaction() as tx:
        pending_orders = tx.execute(
            sa.select(orders.c.id).where(orders.c.audience_pending).order_by(orders.c.id).limit(ORDERS_PER_RUN)
        )
        for order_id in pending_orders.scalars():
            # A job that was given up waits for a person: `quillpost doctor` shows it.
            if not jobs.is_unfinished(tx, MATERIALIZE_TASK, order_id=order_id):
                jobs.enqueue(tx, MATERIALIZE_TASK, order_id=order_id)


def _pause_unless_covered(tx: Tx, order: sa.Row[Any], total: int, *, now: datetime) -> None:
    """Pause the order where the credit does not cover what it costs beyond its hold."""
    extra_cents = total - billing_service.read_held_cents(tx, order.id)
    if extra_cents <= 0:
        return
    billing_service.lock_credit(tx, order.account_id, order.mode)
    available_credit = billing_service.read_credit(tx, order.mode)
    if available_credit >= extra_cents:
        return
    sentence = billing_service.GROWTH_NOT_COVERED
    text = billing_service.format_insufficient_credit(available_credit, extra_cents, sentence)
    reasons = [*order.hold_reasons, Message("credit_short", text)]
    tx.execute(
        sa.update(orders)
        .where(orders.c.id == order.id)
        .values(status=OrderStatus.PAUSED.value, hold_reasons=reasons, updated_at=now)
    )
    if order.status != OrderStatus.PAUSED:
        item_queries.record_order_status_change(tx, [order.id], previous=order.status, now=now)


def _audience_criteria(tx: Tx, order: sa.Row[Any]) -> AudienceCriteria:
    """As when it was sent, at the prices of that day."""
    inline_keys_query = sa.select(items.c.address_key).where(
        items.c.order_id == order.id, items.c.status != ItemStatus.FAILED.value
    )
    tariff = read_tariff(tx, type=order.type, size=order.size, mail_class=order.mail_class, on=order.created_at.date())
    return AudienceCriteria.for_order(order, tariff=tariff, inline_keys=list(tx.execute(inline_keys_query).scalars()))


ITEMS_PER_CHUNK = 2_000


VERIFY_AHEAD = timedelta(days=1)
"""Orders due later are verified closer to their date: people move."""


VERIFIED_MODE = "live"
"""Test mail is not mailed, and verification costs."""


_SELECT_NEXT_ORDER = sa.text("""
    select id, account_id, sub_account_id, due_at from orders
     where status in ('reviewing', 'paused') and mode = :mode and not audience_pending
       and verified_at is null and due_at <= :ahead
     order by due_at, id limit 1
""")


_SELECT_ITEMS = sa.text(f"""
    select i.id, i.address_key, mover_of(i.name, i.company) as mover, i.name, i.company, i.standard,
           not exists (select from address_verdicts v
                        where {VALID_RESULT_CONDITION.format(key="i.address_key", alias="i")})
           as needs_verification
      from items i
     where i.order_id = :order and i.id > :last and i.status = 'Processing' and i.country = '{HOME_COUNTRY}'
       and i.standard is not null and i.address_key is not null
     order by i.id limit :most
""")


# Whether the new address of a moved recipient is suppressed is found at the end of the review, as for all.
_APPLY_VERIFICATION = sa.text(f"""
    update items i set {APPLY_RESULT_ASSIGNMENTS.format(row="i")}
      from address_verdicts v
     where i.id = any(:ids) and i.status = 'Processing'
       and {VALID_RESULT_CONDITION.format(key="i.address_key", alias="i")}
       and v.deliverability is not null and not {MATCHES_RESULT_CONDITION.format(row="i")}
""")


def verify_addresses(context: VerificationContext) -> None:
    """First orders that are due, then lists; an unavailable verifier is retried in a minute."""
    if not acquire_lease(context.db, now=context.clock()):
        return
    error_text, has_more = None, False
    try:
        verify_orders(context)
        has_more = verify_recipients(context)
    except VerifierDown as unavailable:
        error_text = str(unavailable)
        log.warning("verification.unavailable", reason=error_text)
    finally:
        release_lease(context.db, error_text, now=context.clock())
    if has_more:
        with context.db.system_transaction() as tx:
            jobs.enqueue_unique(tx, VERIFY_TASK, at=context.clock())


def verify_orders(context: VerificationContext) -> None:
    while True:
        with context.db.system_transaction() as tx:
            order = tx.execute(
                _SELECT_NEXT_ORDER, {"mode": VERIFIED_MODE, "ahead": context.clock() + VERIFY_AHEAD}
            ).first()
        if order is None:
            return
        last_item_id: int | None = 0
        while last_item_id is not None:
            last_item_id = _verify_chunk(context, order, after_item_id=last_item_id)
        with context.db.system_transaction() as tx:
            now = context.clock()
            tx.execute(sa.update(orders).where(orders.c.id == order.id).values(verified_at=now))
            if order.due_at <= now:
                jobs.enqueue_unique(tx, SWEEP_TASK, at=now)


def _verify_chunk(context: VerificationContext, order: sa.Row[Any], *, after_item_id: int) -> int | None:
    query_params = {"order": order.id, "last": after_item_id, "most": ITEMS_PER_CHUNK, "now": context.clock()}
    with context.db.system_transaction() as tx:
        rows = tx.execute(_SELECT_ITEMS, query_params).all()
    if not rows:
        return None
    verify_questions(
        context,
        [
            VerificationQuestion(row.address_key, row.mover, AddressQuery(row.name, row.company, tuple(row.standard)))
            for row in rows
            if row.needs_verification
        ],
    )
    # Locked, unless it is in production already.
    is_held_back = orders.c.id == order.id, orders.c.status.in_(CHANGEABLE_ORDER_STATUSES)
    with context.db.system_transaction() as tx:
        if tx.execute(sa.select(orders.c.id).where(*is_held_back).with_for_update(key_share=True)).first():
            tx.execute(_APPLY_VERIFICATION, {"ids": [row.id for row in rows], "now": context.clock()})
    return int(rows[-1].id)
