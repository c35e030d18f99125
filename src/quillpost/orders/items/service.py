"""Moves items and orders from status to status."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, ClassVar

import sqlalchemy as sa

from quillpost.core.database import Tx
from quillpost.orders.giftcards import tasks as giftcard_tasks
from quillpost.orders.items import queries
from quillpost.orders.queries import change_status, lock_orders_of_items
from quillpost.orders.rules import FINAL_STATUSES, NEXT_STATUSES, ItemStatus, OrderStatus
from quillpost.recipients.addresses.rules import HOME_COUNTRY

# What failed before the carrier had it will not be mailed, and holds nothing back.
MARK_MAILED = sa.text("""
    update orders o set status = 'mailed', updated_at = :now
      from orders was
     where o.id = any(:orders) and was.id = o.id and o.status = was.status
       and o.status in ('processing', 'printing')
       and o.n_mailed > 0 and o.recipient_count = o.n_mailed + o.n_failed - o.n_lost
    returning o.id, was.status as previous
""")
MARK_FULFILLED = sa.text(f"""
    update orders o set status = 'fulfilled', hold_reasons = '[]', updated_at = :now
      from orders was
     where o.id = any(:orders) and was.id = o.id and o.status = was.status
       and o.status in ('processing', 'printing', 'mailed')
       and o.recipient_count = {" + ".join(f"o.n_{end.count_name}" for end in FINAL_STATUSES)} + o.n_over
    returning o.id, was.status as previous
""")


def advance_orders(tx: Tx, order_ids: Sequence[int], *, now: datetime) -> None:
    """Move each order on as far as its items are."""
    if not order_ids:
        return
    for statement in (MARK_MAILED, MARK_FULFILLED):
        changed_rows = tx.execute(statement, {"orders": list(order_ids), "now": now}).all()
        for previous in {row.previous for row in changed_rows}:
            ids = [row.id for row in changed_rows if row.previous == previous]
            queries.record_order_status_change(tx, ids, previous=previous, now=now)


@dataclass(frozen=True, slots=True)
class StatusChange:
    """`delivery_date` belongs to a delivery, `reason` to a failure."""

    item_id: int
    new_status: ItemStatus
    delivery_date: date | None = None
    reason: str | None = None


# As one text each: so PostgreSQL looks a step up among them instead of trying one after another.
_ALLOWED_CHANGES = ", ".join(
    f"'{before}>{after}'" for before, afters in NEXT_STATUSES.items() for after in sorted(afters)
)
_COUNT_DELTAS = ",\n".join(
    f"count(*) filter (where current = '{s}') - count(*) filter (where previous = '{s}') as {s.count_name}"
    for s in ItemStatus
)
# What failed after the mail had it: spoiled pieces, and such as were stopped, never went out.
WAS_MAILED_SQL = "(previous not in ('Processing', 'Printed') or seen_at is not null)"
_COUNT_UPDATES = ",\n".join(f"n_{s.count_name} = o.n_{s.count_name} + d.{s.count_name}" for s in ItemStatus)


# What goes abroad is tracked to the press and no further; it is over once it is mailed.
# What the printer says to be spoiled after all has failed, wherever it should have gone; it was not mailed,
# whatever was said before.
_MOVE_ITEMS = f"""
    with wanted as ({{source}}),
    moved as (
        update items i
           set status = w.target,
               delivery_date = case when w.target = 'Delivered' then w.day end,
               delivery_inferred = w.target = 'Delivered' and w.inferred,
               is_over = false,
               is_mailed = case w.target
                   when 'Printed' then false
                   when 'Failed' then was.status not in ('Processing', 'Printed') or w.seen_at is not null
                   else true end,
               failure = case when w.target in ('Failed', 'Returned to Sender')
                              then coalesce(w.reason, i.failure) else i.failure end,
               updated_at = :now
          from wanted w join items was on was.id = w.item_id
         where i.id = was.id and i.status = was.status
           and (not was.is_over or was.status = 'Printed' and w.target = 'Failed')
           and (i.country = '{HOME_COUNTRY}' or w.target in ('Printed', 'Failed'))
           and (was.status || '>' || w.target in ({_ALLOWED_CHANGES})
                or was.delivery_inferred and w.target = 'Returned to Sender')
        returning i.id, i.account_id, i.sub_account_id, i.mode, i.order_id, i.price_cents, i.scans,
                  i.is_over::integer - was.is_over::integer as over,
                  i.is_mailed::integer - was.is_mailed::integer as mailed,
                  case when i.giftcard_brand is null then i.gift_cents else 0 end as gift_held,
                  i.giftcard_brand is not null as has_card,
                  was.status as previous, i.status as current, w.seen_at, w.place, w.reason, w.inferred),
    fact as (
        insert into facts (account_id, sub_account_id, mode, kind, order_id, item_id,
                           order_status, previous, current, at, seen_at, place, reason, inferred, scans)
        select m.account_id, m.sub_account_id, m.mode, 'item.status', m.order_id, m.id,
               o.status, m.previous, m.current, :now, m.seen_at, m.place, m.reason, m.inferred, m.scans
          from moved m join orders o on o.id = m.order_id order by m.id
        returning id),
    queued as (insert into fact_queue (fact_id) select id from fact),
    money as (
        insert into ledger_moves (account_id, sub_account_id, mode, order_id, kind,
                                  source, target, cents, key, at)
        select account_id, sub_account_id, mode, order_id, kind,
               case kind when 'refund' then 'earned' else 'held' end,
               case kind when 'capture' then 'earned' else 'credit' end,
               sum(price_cents + case kind when 'release' then gift_held else 0 end),
               kind || ':order:' || order_id || ':items:' || min(id) || '-' || max(id) || ':' || count(*),
               :now
          from (select *, case when current = 'Printed' then 'capture'
                               when current = 'Failed' and previous = 'Processing' then 'release'
                               when current = 'Failed' then 'refund' end as kind
                  from moved where price_cents > 0 or gift_held > 0) due
         where kind is not null
         group by account_id, sub_account_id, mode, order_id, kind
        having sum(price_cents + case kind when 'release' then gift_held else 0 end) > 0),
    changed as (
        select order_id, count(*) as moved, sum(over) as over, sum(mailed) as mailed, {_COUNT_DELTAS},
               count(*) filter (where current = 'Failed' and {WAS_MAILED_SQL}) as lost_in_mail,
               coalesce(sum(price_cents) filter (where current = 'Failed'), 0) as lost,
               coalesce(sum(gift_held) filter (where current = 'Failed'), 0) as not_given,
               array_agg(id) filter (where has_card and current = 'Failed') as lost_cards
          from moved group by order_id),
    counted as (
        update orders o
           set {_COUNT_UPDATES}, n_over = o.n_over + d.over, n_mailed = o.n_mailed + d.mailed,
               n_lost = o.n_lost + d.lost_in_mail,
               order_total = o.order_total - d.lost, gift_total = o.gift_total - d.not_given,
               updated_at = :now
          from changed d
         where o.id = d.order_id)
    select order_id, moved, lost_cards from changed
    """


class _ItemsStatement:
    """Changes the items of a source that has their `item_id`, while their orders are locked."""

    template: ClassVar[str]

    def __init__(self, source_sql: str) -> None:
        self._lock_orders = lock_orders_of_items(source_sql)
        self._change = sa.text(self.template.replace("{source}", source_sql))

    def run(self, tx: Tx, values: Mapping[str, object], *, now: datetime) -> int:
        """Change each item that may change, and move their orders on; how many changed."""
        tx.execute(self._lock_orders, {**values, "now": now})
        changed_orders = tx.execute(self._change, {**values, "now": now}).all()
        self._move_orders(tx, changed_orders, now=now)
        return sum(row.moved for row in changed_orders)

    def _move_orders(self, tx: Tx, changed_orders: Sequence[sa.Row[Any]], *, now: datetime) -> None:
        advance_orders(tx, [row.order_id for row in changed_orders], now=now)


class MoveItemsStatement(_ItemsStatement):
    """Moves the items of a source with the columns `item_id`, `target`, `day` (of a delivery), `reason` (of a failure,
    return or new route), `seen_at` (by printer or carrier), `place` (of a scan) and `inferred` (a delivery that
    was not seen). Each item is there once."""

    template = _MOVE_ITEMS

    def _move_orders(self, tx: Tx, changed_orders: Sequence[sa.Row[Any]], *, now: datetime) -> None:
        # The recipient will never have the piece: its card is worth the sender's money again.
        if lost_card_items := [item_id for row in changed_orders for item_id in row.lost_cards or ()]:
            giftcard_tasks.void_cards(tx, lost_card_items, reason=giftcard_tasks.ITEM_FAILED, now=now)
        super()._move_orders(tx, changed_orders, now=now)


class EndReroutedStatement(_ItemsStatement):
    """Ends the re-routed items of a source: nobody will see them again."""

    template = """
    with wanted as ({source}),
    ended as (
        update items i set is_over = true, updated_at = :now
          from wanted w
         where i.id = w.item_id and i.status = 'Re-routed' and not i.is_over
        returning i.order_id),
    changed as (select order_id, count(*) as moved from ended group by order_id),
    counted as (
        update orders o set n_over = o.n_over + d.moved, updated_at = :now
          from changed d where o.id = d.order_id)
    select order_id, moved from changed
    """


MOVE_LISTED_ITEMS = MoveItemsStatement("""
    select w.*, cast(null as timestamptz) as seen_at, cast(null as text) as place, false as inferred
      from unnest(cast(:ids as bigint[]), cast(:targets as text[]),
                  cast(:days as date[]), cast(:reasons as text[])) as w (item_id, target, day, reason)
""")


def change_item_statuses(tx: Tx, changes: Sequence[StatusChange], *, now: datetime) -> None:
    """Move each item that may move, and complete orders."""
    if changes:
        query_params = {
            "ids": [change.item_id for change in changes],
            "targets": [change.new_status.value for change in changes],
            "days": [change.delivery_date for change in changes],
            "reasons": [change.reason for change in changes],
        }
        MOVE_LISTED_ITEMS.run(tx, query_params, now=now)


class MailItemsStatement(_ItemsStatement):
    """Hands the printed items of a source to the carrier."""

    template = f"""
    with wanted as ({{source}}),
    mailed as (
        update items i set is_mailed = true, is_over = i.country <> '{HOME_COUNTRY}', updated_at = :now
          from wanted w join items was on was.id = w.item_id
         where i.id = was.id and i.status = 'Printed' and not i.is_mailed
        returning i.order_id, i.is_over::integer - was.is_over::integer as over),
    changed as (select order_id, count(*) as moved, sum(over) as over from mailed group by order_id),
    counted as (
        update orders o
           set n_mailed = o.n_mailed + d.moved, n_over = o.n_over + d.over, updated_at = :now
          from changed d where o.id = d.order_id)
    select order_id, moved from changed
    """


class RetrieveItemsStatement(_ItemsStatement):
    """Takes the items of a source back from the carrier: they are printed again."""

    # An order that has ended is not taken up again: a piece of it that is printed again changes nothing there.
    template = """
    with wanted as ({source}),
    back as (
        update items i set is_mailed = false, is_over = false, updated_at = :now
          from wanted w join items was on was.id = w.item_id join orders o on o.id = was.order_id
         where i.id = was.id and i.status = 'Printed' and i.is_mailed and o.status <> 'fulfilled'
        returning i.order_id, was.is_over::integer as over),
    changed as (select order_id, count(*) as moved, sum(over) as over from back group by order_id),
    counted as (
        update orders o
           set n_mailed = o.n_mailed - d.moved, n_over = o.n_over - d.over, updated_at = :now
          from changed d where o.id = d.order_id)
    select order_id, moved from changed
    """

    def _move_orders(self, tx: Tx, changed_orders: Sequence[sa.Row[Any]], *, now: datetime) -> None:
        """A mailed order is printing again."""
        order_ids = [row.order_id for row in changed_orders]
        reopened_ids = change_status(
            tx, order_ids, expected=[OrderStatus.MAILED], new_status=OrderStatus.PRINTING, now=now
        )
        queries.record_order_status_change(tx, reopened_ids, previous=OrderStatus.MAILED.value, now=now)
