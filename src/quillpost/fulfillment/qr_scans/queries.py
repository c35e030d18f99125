"""SQL of scans as they come in: single statements on the recorder's own connection, not the pool's round trips."""

import select
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import NamedTuple

import orjson
import psycopg
import sqlalchemy as sa
import structlog
from psycopg.conninfo import make_conninfo

from quillpost.core.database import Database, Tx
from quillpost.core.errors import Unavailable
from quillpost.fulfillment.qr_scans.rules import VisitorKind
from quillpost.rendering.models import Addressee, SenderName
from quillpost.rendering.text.variables import fill_url

# One text for all of them: the driver writes arrays value by value, which costs ten times as much.
INSERT_SCANS = """
    insert into visit_inbox (item_id, at, kind, agent)
    select (row ->> 0)::bigint, (row ->> 1)::timestamptz, row ->> 2, row ->> 3
      from json_array_elements(%s::json) row
"""

_PERSON_COLUMNS = (
    "name", "company", "address", "address2", "city", "province", "postal_code", "country", "email", "phone",
    "dob", "anniversary",
)  # fmt: skip
_CUSTOM_COLUMNS = [f"i.custom{n}" for n in range(1, 11)]

FIND_CODES = f"""
    select i.code, i.id, i.created_at, o.qrcode_url, array[o.sender_name, o.sender_company],
           array[{", ".join(f"i.{word}::text" for word in _PERSON_COLUMNS)}],
           array[{", ".join(_CUSTOM_COLUMNS)}]
      from items i join orders o on o.id = i.order_id
     where i.code = any(%s) and o.qrcode_url is not null
"""


class NewScan(NamedTuple):
    item_id: int
    at: datetime
    kind: VisitorKind
    agent: str


class CodeDestination(NamedTuple):
    code: str
    item_id: int
    url: str
    created_at: datetime


def find_destinations(connection: psycopg.Connection, codes: Iterable[str]) -> Iterator[CodeDestination]:
    """The codes that belong to an item, each with the sender's URL filled in for the recipient."""
    for code, item_id, created_at, url, sender, values, custom in connection.execute(FIND_CODES, [list(codes)]):
        addressee = Addressee(**dict(zip(_PERSON_COLUMNS, values, strict=True)), custom=tuple(custom))
        yield CodeDestination(code, item_id, fill_url(url, addressee, SenderName(*sender)), created_at)


def insert_scans(connection: psycopg.Connection, scans: Sequence[NewScan]) -> None:
    connection.execute(INSERT_SCANS, [orjson.dumps([tuple(scan) for scan in scans]).decode()])


log = structlog.get_logger(__name__)

# No scan takes longer.
CONNECTION_LIMITS = {"connect_timeout": 3, "tcp_user_timeout": 5_000}
SET_STATEMENT_TIMEOUT = "set statement_timeout = '5s'"


class ScanConnection:
    def __init__(self, db: Database) -> None:
        self._db = db
        self._connection: psycopg.Connection | None = None

    @contextmanager
    def open(self) -> Iterator[psycopg.Connection]:
        """Any database failure is `Unavailable`, and the next use opens a new connection."""
        try:
            yield self._live_connection()
        except psycopg.Error as error:
            self.close()
            log.warning("qr_scans.database_unavailable", sqlstate=error.sqlstate, error=type(error).__name__)
            raise Unavailable("The database does not answer. Try again shortly.") from error

    def close(self) -> None:
        if self._connection is not None:
            with suppress(psycopg.Error):
                self._connection.close()
            self._connection = None

    def _live_connection(self) -> psycopg.Connection:
        connection = self._connection
        # An idle server only sends when it closes the connection: no scan is sent to it then.
        if connection is not None and (connection.closed or select.select([connection.fileno()], [], [], 0)[0]):
            self.close()
        if self._connection is None:
            self._connection = psycopg.connect(
                make_conninfo(self._db.worker_conninfo, **CONNECTION_LIMITS), autocommit=True
            )
            self._connection.execute(SET_STATEMENT_TIMEOUT)
        return self._connection


# Threads are locked, in their order, before the news is numbered. An address that was notified a while ago is notified
# at once; else when its quiet time ends.
SCHEDULE_THREADS = sa.text("""
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
""")
INSERT_SCAN_NEWS = sa.text("""
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
""")


def insert_scan_news(tx: Tx, visit_ids: Sequence[int], *, now: datetime) -> None:
    """Notify the addresses that the orders name, unless they unsubscribed, of these counted visits by persons. Call it
    as the worker, in the transaction that counts them."""
    params = {"visits": list(visit_ids)}
    if tx.execute(SCHEDULE_THREADS, {**params, "now": now}).rowcount:
        tx.execute(INSERT_SCAN_NEWS, params)
