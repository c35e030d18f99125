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
from quillpost.core.database.tables.base import HELD_BACK, orders
from quillpost.orders.create import SWEEP
from quillpost.orders.items import take_turns_of
from quillpost.orders.status import advance_orders, print_again
from quillpost.recipients.addresses.service import HOME
from quillpost.recipients.verification.ports import AskedAddress, VerifierDown
from quillpost.recipients.verification.service import FITS, HOLDS, TAKE_OVER, Question, Verifying, ask
from quillpost.recipients.verification.tasks import VERIFY, leave_turn, take_turn, verify_recipients

_MAIL = f"""
    with wanted as ({{source}}),
    mailed as (
        update items i set is_mailed = true, is_over = i.country <> '{HOME}', updated_at = :now
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
_RETRIEVE = """
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


class Mailing:
    """A statement that hands the printed items of a source, which it names by `item_id`, to the carrier."""

    def __init__(self, source: str) -> None:
        self._take_turns = take_turns_of(source)
        self._mail = sa.text(_MAIL.replace("{source}", source))

    def run(self, tx: Tx, values: Mapping[str, object], *, now: datetime) -> int:
        """How many the carrier has now that it had not; their orders move on."""
        asked = {**values, "now": now}
        tx.execute(self._take_turns, asked)
        touched = tx.execute(self._mail, asked).all()
        advance_orders(tx, [row.order_id for row in touched], now=now)
        return sum(row.mailed for row in touched)


class Retrieval:
    """A statement that takes the items of a source back from the carrier: they are printed again."""

    def __init__(self, source: str) -> None:
        self._take_turns = take_turns_of(source)
        self._retrieve = sa.text(_RETRIEVE.replace("{source}", source))

    def run(self, tx: Tx, values: Mapping[str, object], *, now: datetime) -> None:
        asked = {**values, "now": now}
        tx.execute(self._take_turns, asked)
        print_again(tx, list(tx.execute(self._retrieve, asked).scalars()), now=now)


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
