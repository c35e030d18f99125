"""The job that makes items of an order's lists: one transaction, in which the database does all the work."""

from collections.abc import Collection
from datetime import datetime
from typing import Any

import sqlalchemy as sa
import structlog

from quillpost import events, jobs
from quillpost.audience.rejudging import is_under_way, judge_lists, judge_suppressions
from quillpost.database import Database, Tx, search
from quillpost.database.tables import items, orders
from quillpost.orders import listed, store
from quillpost.orders.listed import PERSON_COLUMNS, Reach
from quillpost.orders.rules import ItemStatus, OrderStatus
from quillpost.orders.service import SWEEP
from quillpost.pricing import credit, ledger
from quillpost.pricing.store import tariff_on

log = structlog.get_logger(__name__)

MATERIALISE = "audience.materialise"
ORDERS_AT_ONCE = 1_000

ACT_FOR = sa.text("select set_config('app.account_id', :account, true)")

# Sorted apart, the refusal is found once for each; and items lie in the order of their lists.
INSERT_ITEMS = sa.text(
    f"""
    with {listed.CLASSIFIED}
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
    """
)


def materialise(db: Database, order_id: int, *, needs_credit: Collection[str] = (), now: datetime) -> None:
    """Make the order's lists items, once; an order that was cancelled meanwhile gets none.

    In the modes that need credit an order that has outgrown its account's waits for an operator.
    Two pieces that drew the same short code undo it all: the job is tried again, and draws others.
    """
    if is_under_way(db):
        _judge_its_lists(db, order_id)
    with db.work() as tx:
        order = _take(tx, order_id, now=now)
        if order is None:
            return
        if not OrderStatus(order.status).is_held_back:
            tx.execute(store.COUNT_ITEMS, {"order_id": order_id})
            return
        tx.execute(ACT_FOR, {"account": str(order.account_id)})
        reach = _reach(tx, order)
        listed.take_turns(tx, reach)
        made = tx.execute(
            INSERT_ITEMS, listed.values(reach) | {"gift_cents": order.giftcard_amount or 0, "now": now}
        )
        tx.execute(store.COUNT_ITEMS, {"order_id": order_id})
        cost = store.live_cents(tx, order_id)
        totals = {"order_total": cost.pieces, "gift_total": cost.gifts, "updated_at": now}
        tx.execute(sa.update(orders).where(orders.c.id == order_id).values(**totals))
        store.append_first_item_facts(tx, order_id, listed=True, now=now)
        # Last of all: the account's other sends wait for us from here on.
        if order.mode in needs_credit:
            _wait_unless_covered(tx, order, cost.total, now=now)
        # Held even so: what is owed for it can be seen, and nothing else is sent on it.
        ledger.hold_exactly(tx, order_id, cents=cost.total, why="audience", now=now)
        jobs.wake(tx, SWEEP, at=max(order.due_at, now))
        jobs.wake(tx, search.INDEX, at=now)
    log.info("audience.materialised", order=order_id, items=made.rowcount)


def _judge_its_lists(db: Database, order_id: int) -> None:
    """After an upgrade the people of lists are judged anew: those of this order now, and whom it must not
    reach, so that doors are told by the same keys."""
    judge_suppressions(db)
    with db.work() as tx:
        lists = tx.execute(sa.select(orders.c.mailing_list_ids).where(orders.c.id == order_id)).scalar()
    judge_lists(db, lists or [])


def materialise_again(db: Database) -> None:
    """Book the job for every order that waits for its items and that no job is booked for."""
    with db.work() as tx:
        waiting = tx.execute(
            sa.select(orders.c.id)
            .where(orders.c.audience_pending)
            .order_by(orders.c.id)
            .limit(ORDERS_AT_ONCE)
        )
        for order_id in waiting.scalars():
            # A job that was given up waits for a person: `quillpost doctor` shows it.
            if not jobs.is_known(tx, MATERIALISE, order_id=order_id):
                jobs.defer(tx, MATERIALISE, order_id=order_id)


def _take(tx: Tx, order_id: int, *, now: datetime) -> sa.Row[Any] | None:
    """The order, if its lists were still to become items; from here on they are taken care of."""
    return tx.execute(
        sa.update(orders)
        .where(orders.c.id == order_id, orders.c.audience_pending)
        .values(audience_pending=False, updated_at=now)
        .returning(orders)
    ).first()


def _wait_unless_covered(tx: Tx, order: sa.Row[Any], total: int, *, now: datetime) -> None:
    """Pause the order where its account's credit does not cover what it costs beyond what is held for it."""
    more = total - ledger.held_for(tx, order.id)
    if more <= 0:
        return
    credit.take_turns(tx, order.account_id, order.mode)
    has = credit.credit(tx, order.mode)
    if has >= more:
        return
    reason = sa.cast([credit.growth_short_of(has, more)], orders.c.hold_reasons.type)
    tx.execute(
        sa.update(orders)
        .where(orders.c.id == order.id)
        .values(status=OrderStatus.PAUSED.value, hold_reasons=orders.c.hold_reasons + reason, updated_at=now)
    )
    if order.status != OrderStatus.PAUSED:
        events.order_status_changed(tx, [order.id], previous=order.status, now=now)


def _reach(tx: Tx, order: sa.Row[Any]) -> Reach:
    """As when it was sent, at the prices of that day."""
    inline = sa.select(items.c.address_key).where(
        items.c.order_id == order.id, items.c.status != ItemStatus.FAILED.value
    )
    return Reach(
        account_id=order.account_id,
        sub_account_id=order.sub_account_id,
        mode=order.mode,
        list_ids=order.mailing_list_ids,
        creative_key=order.creative_key,
        allow_duplicates=listed.may_repeat(order.type, allow_duplicates=order.allow_duplicates),
        mails_at=order.due_at,
        tariff=tariff_on(
            tx,
            type=order.type,
            size=order.size,
            mail_class=order.mail_class,
            on=order.created_at.date(),
        ),
        inline_keys=list(tx.execute(inline).scalars()),
        order_id=order.id,
    )
