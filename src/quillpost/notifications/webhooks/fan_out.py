"""Events become deliveries: one for each subscription that wants them.

A statement that uses it has facts as `f`, subscriptions as `w` and events as `e`.
"""

from datetime import datetime

import sqlalchemy as sa

from quillpost.core.database import Tx
from quillpost.notifications.webhooks.queries import force_index_plans

OWNER_CONDITION = """
              w.account_id = f.account_id and w.mode = f.mode
          and (w.sub_account_id is null or w.sub_account_id = f.sub_account_id)
"""
"""Whose facts a subscription is about."""

# Delivered tells two things: the status, then the delivery, whose id is derived from the first.
EVENTS_OF_FACT = """
             select case f.kind when 'order.status' then 'order.status_update'
                                when 'item.status' then 'order_item.status_update'
                                when 'item.scan' then 'scans.scan_update' end as event_type, f.event_id
             union all
             select 'order_item.delivered', md5(f.event_id::text)::uuid
              where f.kind = 'item.status' and f.current = 'Delivered'
"""

# A list's subscription hears of the orders to that list, and of the pieces that came from it, or from one
# that was merged into it.
SUBSCRIPTION_CONDITION = """
               (w.type = e.event_type or w.type = '*' and e.event_type is not null)
           and (w.mailing_list_id is null or w.mailing_list_id = any(case
                when f.item_id is null then (select o.mailing_list_ids from orders o where o.id = f.order_id)
                else array[(select list_now(i.mailing_list_id) from items i where i.id = f.item_id)] end))
"""

STREAM_KEY = "coalesce('item:' || f.item_id, 'order:' || f.order_id)"
"""Events of one stream keep their order."""


# One at a time. An item's later fact commits after the earlier, so a fan-out that sees one sees both; two
# that run beside each other could number them the wrong way round.
TRY_LOCK = sa.text(
    "select case when exists (select from fact_queue) then pg_try_advisory_xact_lock(7125202) else false end"
)

# A fact leaves the queue in the transaction that writes its deliveries, so it is told once. Subscriptions are
# not locked, as outcomes are written to them all the time: one that is disabled at this moment may be left a
# delivery, which whoever comes to its lane then fails. What a paused one is to be told lies in its lane until
# it is resumed. The lanes are locked last, in the order of their ids,
# and for a moment.
INSERT_DELIVERIES = sa.text(
    f"""
    with taken as materialized (
        delete from fact_queue
         where fact_id = any(array(select fact_id from fact_queue order by fact_id limit :most))
        returning fact_id),
    addressed as (
        insert into deliveries (account_id, sub_account_id, mode, webhook_id, fact_id, event_id,
                                event_type, stream, status, next_at, created_at)
        select f.account_id, f.sub_account_id, f.mode, w.id, f.id, e.event_id, e.event_type,
               {STREAM_KEY}, 'pending', :now, :now
          from facts f
          join webhooks w on {OWNER_CONDITION} and w.status <> 'disabled'
         cross join lateral ({EVENTS_OF_FACT}) e
         where f.id = any(array(select fact_id from taken)) and {SUBSCRIPTION_CONDITION}
         order by f.id, e.event_type desc
        returning webhook_id),
    touched as materialized (
        select l.webhook_id from webhook_lanes l
         where l.webhook_id in (select webhook_id from addressed)
         order by l.webhook_id for update),
    woken as (
        update webhook_lanes l set due_at = least(l.due_at, :now), woken = l.woken + 1
          from touched t where l.webhook_id = t.webhook_id)
    select count(*) from taken
    """
)


def fan_out_facts(tx: Tx, *, limit: int, now: datetime) -> int:
    """Turn facts that nobody was told of into deliveries; how many facts that were."""
    if not tx.execute(TRY_LOCK).scalar_one():
        return 0
    force_index_plans(tx)
    return int(tx.execute(INSERT_DELIVERIES, {"most": limit, "now": now}).scalar_one())
