"""Which events a fact tells of, and which subscriptions are for them: one SQL for fan-out and replays.

A statement that uses it has facts as `f`, subscriptions as `w` and events as `e`.
"""

OWN = """
              w.account_id = f.account_id and w.mode = f.mode
          and (w.sub_account_id is null or w.sub_account_id = f.sub_account_id)
"""
"""Whose facts a subscription is about."""

# Delivered tells two things: the status, then the delivery, whose id is derived from the first.
EVENTS = """
             select case f.kind when 'order.status' then 'order.status_update'
                                when 'item.status' then 'order_item.status_update'
                                when 'item.scan' then 'scans.scan_update' end as event_type, f.event_id
             union all
             select 'order_item.delivered', md5(f.event_id::text)::uuid
              where f.kind = 'item.status' and f.current = 'Delivered'
"""

# A list's subscription hears of the orders to that list, and of the pieces that came from it, or from one
# that was merged into it.
WANTED = """
               (w.type = e.event_type or w.type = '*' and e.event_type is not null)
           and (w.mailing_list_id is null or w.mailing_list_id = any(case
                when f.item_id is null then (select o.mailing_list_ids from orders o where o.id = f.order_id)
                else array[(select list_now(i.mailing_list_id) from items i where i.id = f.item_id)] end))
"""

STREAM = "coalesce('item:' || f.item_id, 'order:' || f.order_id)"
"""Events of one stream keep their order."""
