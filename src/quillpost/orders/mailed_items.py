"""Pieces that the carrier has: handed to it with their batch, or seen by it.

What the carrier has not scanned yet still stands as Printed; `is_mailed` tells it from what lies in the print
room. Abroad nobody scans it: there its way is over once it is mailed.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
import structlog

from quillpost.core import jobs
from quillpost.core.database import Tx
from quillpost.core.database.tables.base import CHANGEABLE_ORDER_STATUSES, orders
from quillpost.orders.items import lock_orders_of_items
from quillpost.orders.rules import SWEEP_TASK
from quillpost.orders.status import advance_orders, return_to_printing
from quillpost.recipients.addresses.service import HOME_COUNTRY
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

_MAIL_ITEMS = f"""
    with wanted as ({{source}}),
    mailed as (
        update items i set is_mailed = true, is_over = i.country <> '{HOME_COUNTRY}', updated_at = :now
          from wanted w join items was on was.id = w.item_id
         where i.id = was.id and i.status = 'Printed' and not i.is_mailed
        returning i.order_id, i.is_over::integer - was.is_over::integer as over),
    changed as (select order_id, count(*) as mailed, sum(over) as over from mailed group by order_id),
    counted as (
        update orders o
           set n_mailed = o.n_mailed + d.mailed, n_over = o.n_over + d.over, updated_at = :now
          from changed d where o.id = d.order_id)
    select order_id, mailed from changed
    """

# An order that has ended is not taken up again: a piece of it that is printed again changes nothing there.
_RETRIEVE_ITEMS = """
    with wanted as ({source}),
    back as (
        update items i set is_mailed = false, is_over = false, updated_at = :now
          from wanted w join items was on was.id = w.item_id join orders o on o.id = was.order_id
         where i.id = was.id and i.status = 'Printed' and i.is_mailed and o.status <> 'fulfilled'
        returning i.order_id, was.is_over::integer as over),
    changed as (select order_id, count(*) as pieces, sum(over) as over from back group by order_id),
    counted as (
        update orders o
           set n_mailed = o.n_mailed - d.pieces, n_over = o.n_over - d.over, updated_at = :now
          from changed d where o.id = d.order_id)
    select order_id from changed
    """


class MailItemsStatement:
    """A statement that hands the printed items of a source, which it names by `item_id`, to the carrier."""

    def __init__(self, source_sql: str) -> None:
        self._lock_orders = lock_orders_of_items(source_sql)
        self._mail = sa.text(_MAIL_ITEMS.replace("{source}", source_sql))

    def run(self, tx: Tx, values: Mapping[str, object], *, now: datetime) -> int:
        """How many the carrier has now that it had not; their orders move on."""
        query_params = {**values, "now": now}
        tx.execute(self._lock_orders, query_params)
        changed_orders = tx.execute(self._mail, query_params).all()
        advance_orders(tx, [row.order_id for row in changed_orders], now=now)
        return sum(row.mailed for row in changed_orders)


class RetrieveItemsStatement:
    """A statement that takes the items of a source back from the carrier: they are printed again."""

    def __init__(self, source_sql: str) -> None:
        self._lock_orders = lock_orders_of_items(source_sql)
        self._retrieve = sa.text(_RETRIEVE_ITEMS.replace("{source}", source_sql))

    def run(self, tx: Tx, values: Mapping[str, object], *, now: datetime) -> None:
        query_params = {**values, "now": now}
        tx.execute(self._lock_orders, query_params)
        return_to_printing(tx, list(tx.execute(self._retrieve, query_params).scalars()), now=now)


log = structlog.get_logger(__name__)

ITEMS_PER_CHUNK = 2_000
VERIFY_AHEAD = timedelta(days=1)
"""An order that is due later is looked at when it is closer: people move."""

VERIFIED_MODE = "live"
"""What is only tried out reaches nobody, and answers cost."""

_SELECT_NEXT_ORDER = sa.text(
    """
    select id, account_id, sub_account_id, due_at from orders
     where status in ('reviewing', 'paused') and mode = :mode and not audience_pending
       and verified_at is null and due_at <= :ahead
     order by due_at, id limit 1
    """
)
_SELECT_ITEMS = sa.text(
    f"""
    select i.id, i.address_key, mover_of(i.name, i.company) as mover, i.name, i.company, i.standard,
           not exists (select from address_verdicts v
                        where {VALID_RESULT_CONDITION.format(key="i.address_key", alias="i")})
           as needs_verification
      from items i
     where i.order_id = :order and i.id > :last and i.status = 'Processing' and i.country = '{HOME_COUNTRY}'
       and i.standard is not null and i.address_key is not null
     order by i.id limit :most
    """
)
# Where somebody has moved, what bars the new address is asked at the end of the review, with all that bars.
_APPLY_VERIFICATION = sa.text(
    f"""
    update items i set {APPLY_RESULT_ASSIGNMENTS.format(row="i")}
      from address_verdicts v
     where i.id = any(:ids) and i.status = 'Processing'
       and {VALID_RESULT_CONDITION.format(key="i.address_key", alias="i")}
       and v.deliverability is not null and not {MATCHES_RESULT_CONDITION.format(row="i")}
    """
)


def verify_addresses(context: VerificationContext) -> None:
    """Whoever is due first, then the people of lists; a verifier that is down is asked again in a minute."""
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
            _mark_verified(tx, order, now=context.clock())


def _verify_chunk(context: VerificationContext, order: sa.Row[Any], *, after_item_id: int) -> int | None:
    """Two thousand pieces; the last of them, or None: there was none."""
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
    with context.db.system_transaction() as tx:
        if _lock_if_held_back(tx, order.id):
            tx.execute(_APPLY_VERIFICATION, {"ids": [row.id for row in rows], "now": context.clock()})
    return int(rows[-1].id)


def _lock_if_held_back(tx: Tx, order_id: int) -> bool:
    """In our hands from here on: what is on its way to paper stays as it is."""
    query = sa.select(orders.c.id).where(orders.c.id == order_id, orders.c.status.in_(CHANGEABLE_ORDER_STATUSES))
    return tx.execute(query.with_for_update(key_share=True)).first() is not None


def _mark_verified(tx: Tx, order: sa.Row[Any], *, now: datetime) -> None:
    tx.execute(sa.update(orders).where(orders.c.id == order.id).values(verified_at=now))
    if order.due_at <= now:
        jobs.enqueue_unique(tx, SWEEP_TASK, at=now)
