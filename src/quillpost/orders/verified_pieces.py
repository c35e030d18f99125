"""The pieces of live orders under review are verified before they are made.

An order that is due waits for the answers, though not for ever: `fulfilment/review.py` says how long.
"""

from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
import structlog

from quillpost import jobs
from quillpost.audience.address_verdicts import FITS, HOLDS, TAKE_OVER, Question, Verifying, ask
from quillpost.audience.verifying import VERIFY, leave_turn, take_turn, verify_recipients
from quillpost.database import Tx
from quillpost.database.tables import HELD_BACK, orders
from quillpost.orders.service import SWEEP
from quillpost.ports.addresses import AskedAddress, VerifierDown
from quillpost.postal.judging import HOME

log = structlog.get_logger(__name__)

AT_ONCE = 2_000
AHEAD = timedelta(days=1)
"""An order that is due later is looked at when it is closer: people move."""

MODE = "live"
"""What is only tried out reaches nobody, and answers cost."""

_NEXT = sa.text(
    """
    select id, account_id, sub_account_id, due_at from orders
     where status in ('reviewing', 'paused') and mode = :mode and not audience_pending
       and verified_at is null and due_at <= :ahead
     order by due_at, id limit 1
    """
)
_PIECES = sa.text(
    f"""
    select i.id, i.address_key, mover_of(i.name, i.company) as mover, i.name, i.company, i.standard,
           not exists (select from address_verdicts v where {HOLDS.format(key="i.address_key", who="i")})
           as is_asked
      from items i
     where i.order_id = :order and i.id > :last and i.status = 'Processing' and i.country = '{HOME}'
       and i.standard is not null and i.address_key is not null
     order by i.id limit :most
    """
)
# Where somebody has moved, what bars the new address is asked at the end of the review, with all that bars.
_APPLY = sa.text(
    f"""
    update items i set {TAKE_OVER.format(row="i")}
      from address_verdicts v
     where i.id = any(:ids) and i.status = 'Processing' and {HOLDS.format(key="i.address_key", who="i")}
       and v.deliverability is not null and not {FITS.format(row="i")}
    """
)


def verify(means: Verifying) -> None:
    """Whoever is due first, then the people of lists; a verifier that is down is asked again in a minute."""
    if not take_turn(means.db, now=means.clock()):
        return
    trouble, has_more = None, False
    try:
        verify_orders(means)
        has_more = verify_recipients(means)
    except VerifierDown as down:
        trouble = str(down)
        log.warning("verifier.down", reason=trouble)
    finally:
        leave_turn(means.db, trouble, now=means.clock())
    if has_more:
        with means.db.work() as tx:
            jobs.wake(tx, VERIFY, at=means.clock())


def verify_orders(means: Verifying) -> None:
    while True:
        with means.db.work() as tx:
            order = tx.execute(_NEXT, {"mode": MODE, "ahead": means.clock() + AHEAD}).first()
        if order is None:
            return
        last: int | None = 0
        while last is not None:
            last = _portion(means, order, after=last)
        with means.db.work() as tx:
            _note_verified(tx, order, now=means.clock())


def _portion(means: Verifying, order: sa.Row[Any], *, after: int) -> int | None:
    """Two thousand pieces; the last of them, or None: there was none."""
    asked = {"order": order.id, "last": after, "most": AT_ONCE, "now": means.clock()}
    with means.db.work() as tx:
        pieces = tx.execute(_PIECES, asked).all()
    if not pieces:
        return None
    ask(
        means,
        [
            Question(row.address_key, row.mover, AskedAddress(row.name, row.company, tuple(row.standard)))
            for row in pieces
            if row.is_asked
        ],
    )
    with means.db.work() as tx:
        if _is_held_back(tx, order.id):
            tx.execute(_APPLY, {"ids": [row.id for row in pieces], "now": means.clock()})
    return int(pieces[-1].id)


def _is_held_back(tx: Tx, order_id: int) -> bool:
    """In our hands from here on: what is on its way to paper stays as it is."""
    held = sa.select(orders.c.id).where(orders.c.id == order_id, orders.c.status.in_(HELD_BACK))
    return tx.execute(held.with_for_update(key_share=True)).first() is not None


def _note_verified(tx: Tx, order: sa.Row[Any], *, now: datetime) -> None:
    tx.execute(sa.update(orders).where(orders.c.id == order.id).values(verified_at=now))
    if order.due_at <= now:
        jobs.wake(tx, SWEEP, at=now)
