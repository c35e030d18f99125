"""Scans become messages: one for each address and window."""

from collections.abc import Sequence
from datetime import datetime, timedelta, tzinfo
from itertools import groupby
from typing import Any

import sqlalchemy as sa

from quillpost.core import outbox
from quillpost.core.database import Database, Tx
from quillpost.core.database.tables.notifications import notices
from quillpost.notifications import service
from quillpost.notifications.service import MAX_LISTED_ITEMS, ScannedItem, ScanNews

THREADS_PER_TRANSACTION = 100

CLAIM_DUE_THREADS = sa.text(
    """
    select t.order_id, t.address, t.since, o.account_id, o.sub_account_id, o.mode,
           exists (select 1 from notice_refusals r
                    where r.account_id = o.account_id and r.address = lower(t.address)) as is_refused
      from news_threads t join orders o on o.id = t.order_id
     where t.due_at <= :now
     order by t.due_at, t.order_id, t.address limit :most
       for update of t skip locked
    """
)
# Counted once for all addresses that heard of the order up to the same scan.
COUNT_SCANS = sa.text(
    """
    select a.order_id, a.since, o.type, c.scans, c.pieces, c.first_at, c.last_at,
           o.total_scans as order_scans, o.multi_scans as order_multi_scans
      from unnest(cast(:orders as bigint[]), cast(:sinces as bigint[])) as a (order_id, since)
      join orders o on o.id = a.order_id
      cross join lateral (
          select count(*) as scans, count(distinct n.item_id) as pieces,
                 min(n.at) as first_at, max(n.at) as last_at
            from scan_news n where n.order_id = a.order_id and n.id >= a.since) c
     where c.scans > 0
    """
)
READ_SCANNED_ITEMS = sa.text(
    """
    select a.order_id, a.since, i.id as item_id, coalesce(i.name, i.company) as name, i.city, i.province,
           c.scans, greatest(i.scans, c.scans) as so_far, c.last_at
      from unnest(cast(:orders as bigint[]), cast(:sinces as bigint[])) as a (order_id, since)
      cross join lateral (
          select n.item_id, count(*) as scans, max(n.at) as last_at, min(n.id) as first
            from scan_news n where n.order_id = a.order_id and n.id >= a.since
           group by n.item_id order by min(n.id) limit :named) c
      join items i on i.id = c.item_id
     order by a.order_id, a.since, c.first
    """
)
MARK_THREADS_NOTIFIED = sa.text(
    """
    update news_threads t set since = null, due_at = null, quiet_until = :quiet_until
      from unnest(cast(:orders as bigint[]), cast(:addresses as text[])) as a (order_id, address)
     where t.order_id = a.order_id and t.address = a.address
    """
)
DELETE_NEWS = """
    delete from scan_news n
     where {} not exists (select 1 from news_threads t
                           where t.order_id = n.order_id and t.since <= n.id)
"""
DELETE_NEWS_OF_ORDERS = sa.text(DELETE_NEWS.format("n.order_id = any(cast(:orders as bigint[])) and"))
DELETE_ALL_NEWS = sa.text(DELETE_NEWS.format(""))


def write_due_digests(tx: Tx, *, window: timedelta, zone: tzinfo, now: datetime) -> int:
    """Write the notices of those who are to hear now; how many threads were due. What comes after is told
    when the window ends."""
    due_threads = tx.execute(CLAIM_DUE_THREADS, {"now": now, "most": THREADS_PER_TRANSACTION}).all()
    if not due_threads:
        return 0
    news = _read_news(tx, sorted({(row.order_id, row.since) for row in due_threads if row.since is not None}))
    new_notifications = [
        _build_notification(row, news[row.order_id, row.since], zone)
        for row in due_threads
        if not row.is_refused and (row.order_id, row.since) in news
    ]
    outbox.enqueue_notifications(tx, new_notifications, now=now)
    orders = [row.order_id for row in due_threads]
    addresses = [row.address for row in due_threads]
    tx.execute(MARK_THREADS_NOTIFIED, {"orders": orders, "addresses": addresses, "quiet_until": now + window})
    tx.execute(DELETE_NEWS_OF_ORDERS, {"orders": sorted(set(orders))})
    return len(due_threads)


def delete_notified_news(tx: Tx) -> None:
    """Remove news that everyone has heard. Two who told of one order at the same moment left it."""
    tx.execute(DELETE_ALL_NEWS)


def _read_news(tx: Tx, thread_keys: Sequence[tuple[int, int]]) -> dict[tuple[int, int], ScanNews]:
    params = {"orders": [order for order, _ in thread_keys], "sinces": [since for _, since in thread_keys]}
    rows = tx.execute(READ_SCANNED_ITEMS, {**params, "named": MAX_LISTED_ITEMS})
    items_by_thread = {
        key: [ScannedItem(*row[2:]) for row in group]
        for key, group in groupby(rows, key=lambda row: (row.order_id, row.since))
    }
    return {
        (row.order_id, row.since): ScanNews(
            order_id=row.order_id,
            type=row.type,
            scans=row.scans,
            item_count=row.pieces,
            first_at=row.first_at,
            last_at=row.last_at,
            order_scans=row.order_scans,
            order_multi_scans=row.order_multi_scans,
            items=items_by_thread[row.order_id, row.since],
        )
        for row in tx.execute(COUNT_SCANS, params)
    }


def _build_notification(thread: Any, news: ScanNews, zone: tzinfo) -> dict[str, Any]:
    is_text = outbox.channel_for_address(thread.address) == "text"
    return {
        "key": f"scans:{thread.order_id}:{thread.since}:{thread.address}",
        "kind": outbox.SCANS_KIND,
        "account_id": thread.account_id,
        "sub_account_id": thread.sub_account_id,
        "mode": thread.mode,
        "address": thread.address,
        "subject": service.build_subject(news),
        "words": service.build_text_message(news) if is_text else service.build_email_text(news, zone=zone),
    }


def delete_expired_notifications(
    db: Database, *, retention_days: int = outbox.DELETE_AFTER.days, now: datetime
) -> None:
    """A job: give up what waited for too long, and forget what was settled so many days ago. A job
    that comes again finds nothing left to do."""
    with db.system_transaction() as tx:
        outbox.give_up_old_notifications(tx, now=now)
        delete_notified_news(tx)
        is_settled = notices.c.status != "pending"
        tx.execute(sa.delete(notices).where(is_settled, notices.c.created_at < now - timedelta(days=retention_days)))
