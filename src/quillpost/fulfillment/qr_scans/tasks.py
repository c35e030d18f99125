"""Counts new scans: out of the inbox and into every counter, in one transaction. Lists are locked before orders, both
in the order of their ids, as everywhere."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

import sqlalchemy as sa
import structlog

from quillpost.core.database import Database, Tx
from quillpost.core.encryption import Encryptor
from quillpost.core.errors import Unavailable
from quillpost.core.requests import wait_for_any
from quillpost.core.text import Clock
from quillpost.fulfillment.qr_scans import queries
from quillpost.fulfillment.qr_scans.service import ScanRecorder
from quillpost.orders.audience.queries import PERSON_COLUMNS
from quillpost.orders.queries import lock_orders_of_items
from quillpost.recipients.lists import service as list_service

# One process counts at a time; the others do not wait.
TRY_LOCK = sa.text("select pg_try_advisory_xact_lock(7125203)")
READ_INBOX = sa.text("select id from visit_inbox order by id limit :most")
LIST_NAMES = {"live": "Scanned QR codes", "test": "Scanned QR codes (testing)"}

# Owners of the lists for recipients whose code a person scanned; not deleted sub accounts.
_LIST_OWNERS = """
    select distinct i.account_id, i.sub_account_id, i.mode
      from visit_inbox v join items i on i.id = v.item_id
      left join sub_accounts s on s.id = i.sub_account_id
     where v.id = any(:ids) and v.kind = 'person' and i.address_key is not null and s.deleted_at is null
"""
_LIST_OF_OWNER = """l.account_id = h.account_id and l.kept_for = h.mode and not l.is_suppression_list
              and coalesce(l.sub_account_id, 0) = coalesce(h.sub_account_id, 0)"""

INSERT_LISTS = sa.text(f"""
    insert into mailing_lists (account_id, sub_account_id, type, description, kept_for,
                               created_at, updated_at)
    select h.account_id, h.sub_account_id, 'qrscans',
           case h.mode when 'live' then '{LIST_NAMES["live"]}' else '{LIST_NAMES["test"]}' end
               || coalesce((select ': ' || left(s.title, 200) from sub_accounts s
                             where s.id = h.sub_account_id), ''),
           h.mode, :now, :now
      from ({_LIST_OWNERS}) h
     where not exists (select from mailing_lists l where {_LIST_OF_OWNER})
    on conflict do nothing
    returning id
""")
LOCK_LISTS = sa.text(f"""
    select id from mailing_lists
     where id in (select list_now(i.mailing_list_id) from visit_inbox v join items i on i.id = v.item_id
                   where v.id = any(:ids)
                  union
                  select l.id from ({_LIST_OWNERS}) h join mailing_lists l on {_LIST_OF_OWNER})
     order by id for no key update
""")
LOCK_ORDERS = lock_orders_of_items("select item_id from visit_inbox where id = any(:ids)")

# Scans of a deleted item are deleted too. `nth` numbers an item's scans by persons; machines have the number before.
COUNT_SCANS = sa.text("""
    with taken as (
        delete from visit_inbox where id = any(:ids) returning id, item_id, at, kind, agent),
    scan as (
        select t.*, i.account_id, i.sub_account_id, i.mode, i.order_id, i.status,
               list_now(i.mailing_list_id) as mailing_list_id, i.scans as before, o.status as order_status,
               count(*) filter (where t.kind = 'person')
                   over (partition by t.item_id order by t.id rows unbounded preceding) as nth
          from taken t join items i on i.id = t.item_id join orders o on o.id = i.order_id),
    visited as (
        insert into visits (account_id, sub_account_id, mode, order_id, item_id, mailing_list_id,
                            at, kind, agent)
        select account_id, sub_account_id, mode, order_id, item_id, mailing_list_id, at, kind, agent
          from scan order by id
        returning id, kind),
    fact as (
        insert into facts (account_id, sub_account_id, mode, kind, order_id, item_id,
                           order_status, previous, current, at, inferred, scans)
        select account_id, sub_account_id, mode, 'item.scan', order_id, item_id,
               order_status, null, status, at, false, before + nth
          from scan where kind = 'person' order by id
        returning id),
    queued as (insert into fact_queue (fact_id) select id from fact),
    piece as (
        select item_id, order_id, mailing_list_id, before, count(*) as n, max(at) as last
          from scan where kind = 'person' group by 1, 2, 3, 4),
    in_items as (
        update items i set scans = i.scans + p.n, updated_at = :now from piece p where i.id = p.item_id),
    in_orders as (
        update orders o
           set total_scans = o.total_scans + c.n, multi_scans = o.multi_scans + c.again, updated_at = :now
          from (select order_id, sum(n) as n, count(*) filter (where before < 2 and before + n >= 2) as again
                  from piece group by 1) c
         where o.id = c.order_id),
    in_lists as (
        update mailing_lists l
           set total_scans = l.total_scans + c.n, unique_scans = l.unique_scans + c.first,
               last_scan = greatest(l.last_scan, c.last)
          from (select mailing_list_id, sum(n) as n, count(*) filter (where before = 0) as first,
                       max(last) as last
                  from piece group by 1) c
         where l.id = c.mailing_list_id)
    select id from visited where kind = 'person' order by id
""")

# A recipient who is on the list stays unchanged. One that was bought as a sample is a sample here too: it gets no live
# mail.
INSERT_RECIPIENTS = sa.text(f"""
    insert into recipients (account_id, sub_account_id, mailing_list_id, {", ".join(PERSON_COLUMNS)},
                            is_sample, created_at, updated_at)
    select distinct on (l.id, h.address_key) l.account_id, l.sub_account_id, l.id,
           {", ".join(f"h.{name}" for name in PERSON_COLUMNS)},
           exists (select from recipients r
                    where r.account_id = h.account_id and r.address_key = h.address_key and r.is_sample),
           :now, :now
      from visits v join items h on h.id = v.item_id join mailing_lists l on {_LIST_OF_OWNER}
     where v.id = any(:visits) and h.address_key is not null
       and not exists (select from recipients r
                        where r.mailing_list_id = l.id and r.address_key = h.address_key)
     order by l.id, h.address_key, v.id
""")


def count_scans(tx: Tx, encryptor: Encryptor, clock: Clock, *, limit: int) -> int:
    """How many were taken out of the inbox; 0 where another process counts."""
    if not tx.execute(TRY_LOCK).scalar_one():
        return 0
    ids = list(tx.execute(READ_INBOX, {"most": limit}).scalars())
    if not ids:
        return 0
    params = {"ids": ids}
    list_service.assign_keys(tx, encryptor, _lock_lists_and_orders(tx, params, clock))
    # Read after locking, so that a client that follows a list's changes by date misses none.
    now = clock()
    visit_ids = list(tx.execute(COUNT_SCANS, {**params, "now": now}).scalars())
    if visit_ids:
        _record_visitors(tx, visit_ids, now=now)
    return len(ids)


def _lock_lists_and_orders(tx: Tx, params: dict[str, Any], clock: Clock) -> list[int]:
    """Lock the lists and orders of these scans; the ids of lists that were created."""
    insert_params = {**params, "now": clock()}
    new_list_ids = list(tx.execute(INSERT_LISTS, insert_params).scalars())
    tx.execute(LOCK_LISTS, params)
    # A list that was deleted before it was locked is created again.
    new_list_ids += tx.execute(INSERT_LISTS, insert_params).scalars()
    tx.execute(LOCK_ORDERS, params)
    return new_list_ids


def _record_visitors(tx: Tx, visit_ids: Sequence[int], *, now: datetime) -> None:
    tx.execute(INSERT_RECIPIENTS, {"visits": list(visit_ids), "now": now})
    queries.insert_scan_news(tx, visit_ids, now=now)


log = structlog.get_logger(__name__)
SCANS_PER_TRANSACTION = 2_000
BATCH_WAIT_SECONDS = 0.05  # scans within it are counted together
IDLE_SECONDS = 1.0  # for scans that another process recorded
ERROR_PAUSE_SECONDS = 2.0


class ScanCounter:
    def __init__(self, db: Database, encryptor: Encryptor, recorder: ScanRecorder, clock: Clock) -> None:
        self._db, self._encryptor, self._recorder, self._clock = db, encryptor, recorder, clock
        self._has_news = asyncio.Event()

    async def run(self, stop: asyncio.Event) -> None:
        """Count until `stop`; what is left then is counted later."""
        loop = asyncio.get_running_loop()

        def notify() -> None:
            with suppress(RuntimeError):  # a loop that has ended counts nothing any more
                loop.call_soon_threadsafe(self._has_news.set)

        with self._recorder.notify_on_scans(notify):
            await self._count_until(stop)

    async def _count_until(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            self._has_news.clear()
            try:
                scan_count = await asyncio.to_thread(self._count)
            except Unavailable as error:
                log.warning("qr_scans.database_unavailable", error=error.message)
                await wait_for_any(stop, seconds=ERROR_PAUSE_SECONDS)
            except Exception:
                log.exception("qr_scans.counting_failed")
                await wait_for_any(stop, seconds=ERROR_PAUSE_SECONDS)
            else:
                if scan_count < SCANS_PER_TRANSACTION:
                    await wait_for_any(stop, self._has_news, seconds=IDLE_SECONDS)
                    await wait_for_any(stop, seconds=BATCH_WAIT_SECONDS)

    def _count(self) -> int:
        with self._db.system_transaction() as tx:
            scan_count = count_scans(tx, self._encryptor, self._clock, limit=SCANS_PER_TRANSACTION)
        if scan_count:
            log.info("qr_scans.counted", scans=scan_count)
        return scan_count
