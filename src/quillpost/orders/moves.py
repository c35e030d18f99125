"""Moving pieces: one statement changes the items, writes the facts, moves the money and keeps the counts.

An item moves only if the new status may follow the one it has. Two that move pieces of one order take
turns, so of two that ask for the same move one wins, and a scan that arrives beside another is not lost.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime

import sqlalchemy as sa

from quillpost import events
from quillpost.database import Tx
from quillpost.orders.rules import ENDS, FOLLOWS, ItemStatus


@dataclass(frozen=True, slots=True)
class Move:
    """Where an item should stand next; `on` is the day of a delivery, `why` the reason of a failure."""

    item_id: int
    to: ItemStatus
    on: date | None = None
    why: str | None = None


_ALLOWED = ", ".join(
    f"('{before}', '{after}')" for before, afters in FOLLOWS.items() for after in sorted(afters)
)
_DELTAS = ",\n".join(
    f"count(*) filter (where current = '{s}') - count(*) filter (where previous = '{s}') as {s.tally}"
    for s in ItemStatus
)
_COUNTS = ",\n".join(f"n_{s.tally} = o.n_{s.tally} + d.{s.tally}" for s in ItemStatus)

# Orders before items, and in the order of their ids: whoever holds one never waits for a lower one.
TAKE_TURNS = sa.text(
    """
    select id from orders
     where id in (select order_id from items where id = any(:ids))
     order by id for no key update
    """
)

MOVE = sa.text(
    f"""
    with wanted as (
        select * from unnest(cast(:ids as bigint[]), cast(:targets as text[]),
                             cast(:days as date[]), cast(:reasons as text[]))
               as w (item_id, target, day, reason)),
    moved as (
        update items i
           set status = w.target,
               delivery_date = case when w.target = 'Delivered' then w.day end,
               failure = case when w.target in ('Failed', 'Returned to Sender')
                              then coalesce(w.reason, i.failure) else i.failure end,
               updated_at = :now
          from wanted w join items was on was.id = w.item_id
         where i.id = was.id and i.status = was.status
           and (was.status, w.target) in ({_ALLOWED})
        returning i.id, i.account_id, i.sub_account_id, i.mode, i.order_id, i.price_cents,
                  was.status as previous, i.status as current),
    fact as (
        insert into facts (account_id, sub_account_id, mode, kind, order_id, item_id,
                           order_status, previous, current, at)
        select m.account_id, m.sub_account_id, m.mode, 'item.status', m.order_id, m.id,
               o.status, m.previous, m.current, :now
          from moved m join orders o on o.id = m.order_id order by m.id
        returning id),
    queued as (insert into fact_queue (fact_id) select id from fact),
    money as (
        insert into ledger_moves (account_id, sub_account_id, mode, order_id, kind,
                                  source, target, cents, key, at)
        select account_id, sub_account_id, mode, order_id, kind,
               case kind when 'refund' then 'earned' else 'held' end,
               case kind when 'capture' then 'earned' else 'credit' end,
               sum(price_cents),
               kind || ':order:' || order_id || ':items:' || min(id) || '-' || max(id) || ':' || count(*),
               :now
          from (select *, case when current = 'Printed' then 'capture'
                               when current = 'Failed' and previous = 'Processing' then 'release'
                               when current = 'Failed' then 'refund' end as kind
                  from moved where price_cents > 0) due
         where kind is not null
         group by account_id, sub_account_id, mode, order_id, kind),
    counted as (
        update orders o
           set {_COUNTS}, order_total = o.order_total - d.lost, updated_at = :now
          from (select order_id, {_DELTAS},
                       coalesce(sum(price_cents) filter (where current = 'Failed'), 0) as lost
                  from moved group by order_id) d
         where o.id = d.order_id)
    select distinct order_id from moved
    """
)

CLOSE = sa.text(
    f"""
    update orders o set status = 'fulfilled', updated_at = :now
      from orders was
     where o.id = any(:orders) and was.id = o.id and o.status = was.status
       and o.status in ('processing', 'printing')
       and o.recipient_count = {" + ".join(f"o.n_{end.tally}" for end in ENDS)}
    returning o.id, was.status as previous
    """
)


def move_items(tx: Tx, moves: Sequence[Move], *, now: datetime) -> None:
    """Move each item that may so move, and end the orders whose last piece has ended."""
    if not moves:
        return
    item_ids = [move.item_id for move in moves]
    tx.execute(TAKE_TURNS, {"ids": item_ids})
    touched = tx.execute(
        MOVE,
        {
            "ids": item_ids,
            "targets": [move.to.value for move in moves],
            "days": [move.on for move in moves],
            "reasons": [move.why for move in moves],
            "now": now,
        },
    ).scalars()
    close_ended_orders(tx, list(touched), now=now)


def close_ended_orders(tx: Tx, order_ids: Sequence[int], *, now: datetime) -> None:
    """An order is fulfilled when each of its pieces has come to an end."""
    if not order_ids:
        return
    closed = tx.execute(CLOSE, {"orders": list(order_ids), "now": now}).all()
    for previous in {row.previous for row in closed}:
        ids = [row.id for row in closed if row.previous == previous]
        events.order_status_changed(tx, ids, previous=previous, now=now)
