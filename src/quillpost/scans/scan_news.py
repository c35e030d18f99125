"""Scans of which the order's addresses are to be told: at once, or together when they come in numbers."""

from collections.abc import Sequence
from datetime import datetime

import sqlalchemy as sa

from quillpost.database import Tx

# The rows of the threads are locked, in their order, before the news is numbered. An address that was told a
# while ago is told at once; one that was told just now, when its quiet time ends.
WAKE_THREADS = sa.text(
    """
    insert into news_threads (order_id, address, due_at)
    select w.order_id, w.address, :now
      from (select distinct on (o.id, lower(e.address)) o.id as order_id, o.account_id, e.address
              from (select distinct order_id from visits
                     where id = any(cast(:visits as bigint[])) and kind = 'person') v
              join orders o on o.id = v.order_id
              cross join lateral unnest(o.notification_emails) with ordinality as e (address, place)
             order by o.id, lower(e.address), e.place) w
     where not exists (select 1 from notice_refusals r
                        where r.account_id = w.account_id and r.address = lower(w.address))
     order by w.order_id, w.address
    on conflict (order_id, address) do update
       set due_at = coalesce(news_threads.due_at, greatest(news_threads.quiet_until, excluded.due_at))
    """
)
KEEP_NEWS = sa.text(
    """
    with kept as (
        insert into scan_news (order_id, item_id, at)
        select v.order_id, v.item_id, v.at
          from visits v
         where v.id = any(cast(:visits as bigint[])) and v.kind = 'person'
           and exists (select 1 from news_threads t
                        where t.order_id = v.order_id and t.due_at is not null)
         order by v.id
        returning id, order_id)
    update news_threads t set since = k.since
      from (select order_id, min(id) as since from kept group by order_id) k
     where t.order_id = k.order_id and t.due_at is not null and t.since is null
    """
)


def note(tx: Tx, visit_ids: Sequence[int], *, now: datetime) -> None:
    """These visits are new and counted: whoever their orders name, and has not refused, is to hear of those
    that were persons'. Call it as the worker, in the transaction that counts them."""
    visits = {"visits": list(visit_ids)}
    if tx.execute(WAKE_THREADS, {**visits, "now": now}).rowcount:
        tx.execute(KEEP_NEWS, visits)
