"""Pieces whose addresses an older release judged, or nobody, are judged by the rules of this one.

What lies in a batch is printed, or may be at any moment, and can be made again to the byte: there the printed
address stays what it was, and only what a piece is found by is renewed.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from quillpost.core import jobs
from quillpost.core.clock import Clock
from quillpost.core.database import Database, Tx
from quillpost.recipients.rejudging import (
    ADDRESS_RULES,
    AT_ONCE,
    NEW,
    PORTIONS,
    REJUDGE,
    UNJUDGED,
    go_on,
    is_under_way,
    judge_suppressions,
    open_pass,
    rejudge_recipients,
    written,
)

_ITEM_COLUMNS = """
    i.id, i.order_id, i.name, i.email, i.country, i.address, i.address2, i.city, i.province, i.postal_code
"""
_SELECT_NEXT_ITEMS = sa.text(
    f"""
    select {_ITEM_COLUMNS} from items i
     where i.id > :last and i.id <= :until and {UNJUDGED.format(row="i")} order by i.id limit :most
    """
)
_SELECT_HELD_ITEMS = sa.text(
    f"""
    select {_ITEM_COLUMNS} from orders o join items i on i.order_id = o.id
     where o.status in ('reviewing', 'paused') and i.status = 'Processing' and {UNJUDGED.format(row="i")}
     order by i.id limit :most
    """
)
# Whoever makes batches of orders locks them first: nothing comes into a batch while we look.
_LOCK_ORDERS = sa.text("select id from orders where id = any(:orders) order by id for no key update")
_UPDATE_ITEMS = sa.text(
    f"""
    update items i
       set surname = new.surname, address_key = new.key, deliverability = new.deliverability,
           reasons = texts_of(new.reasons), address_rules = cast(:rules as integer),
           standard = case when printed.already then i.standard else texts_of(new.standard) end,
           moved_key = case when printed.already then i.moved_key end
      from {NEW} cross join lateral (
           select exists (select from prints p where p.item_id = new.id) as already) printed
     where i.id = new.id
    """
)
_RESET_VERIFICATION = sa.text(
    """
    update orders set verified_at = null
     where id = any(:orders) and status in ('reviewing', 'paused') and verified_at is not null
    """
)


def restandardize(db: Database, clock: Clock) -> None:
    """Some portions of all that is to be judged: what must not be mailed to, what is about to be made, the
    lists, and then what was made long ago."""
    if not is_under_way(db):
        return
    standardize_before_mailing(db)
    if rejudge_recipients(db, now=clock()) or _restandardize_items(db, now=clock()):
        with db.system_transaction() as tx:
            jobs.enqueue_unique(tx, REJUDGE, at=clock())


def standardize_before_mailing(db: Database) -> None:
    """After this, suppression lists and the pieces that wait for the end of their review speak of doors by
    the same keys."""
    if not is_under_way(db):
        return
    judge_suppressions(db)
    while True:
        with db.system_transaction() as tx:
            rows = tx.execute(_SELECT_HELD_ITEMS, {"rules": ADDRESS_RULES, "most": AT_ONCE}).all()
            if not rows:
                return
            _update_items(tx, rows)


def _restandardize_items(db: Database, *, now: datetime) -> bool:
    for _ in range(PORTIONS):
        with db.system_transaction() as tx:
            if (cursor := open_pass(tx, "items")) is None:
                return False
            query_params = {"rules": ADDRESS_RULES, "most": AT_ONCE, "last": cursor.last_id, "until": cursor.until_id}
            rows = tx.execute(_SELECT_NEXT_ITEMS, query_params).all()
            _update_items(tx, rows)
            go_on(tx, "items", rows, now=now)
    return True


def _update_items(tx: Tx, rows: Sequence[sa.Row[Any]]) -> None:
    if rows:
        tx.execute(_LOCK_ORDERS, {"orders": sorted({row.order_id for row in rows})})
        tx.execute(_UPDATE_ITEMS, written(rows))
        tx.execute(_RESET_VERIFICATION, {"orders": [row.order_id for row in rows]})
