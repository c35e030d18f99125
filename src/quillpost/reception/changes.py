"""Whether something has changed since one last looked: one cheap question for all that anybody watches."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final, Literal

import sqlalchemy as sa

from quillpost.database import Tx

Kind = Literal["order", "item", "import", "batch", "account"]
Topic = tuple[Kind, int]
"""What somebody watches: an order, a piece, an import, a print batch, or all that happens in an account."""

JUST_NOW = timedelta(seconds=10)

# PostgreSQL gives every version of a row the number of the transaction that wrote it.
ROWS = "select id, xmin::text as version from {table} where id = any(cast(:ids as bigint[]))"

# A piece's card has a life of its own, of which the piece itself knows nothing.
ITEMS = """
    select i.id, concat(i.xmin, ' ', g.xmin) as version from items i
      left join giftcards g on g.item_id = i.id
     where i.id = any(cast(:ids as bigint[]))
"""

# All that happens to an account's orders and pieces leaves a fact. The newest tells of most; those of the
# last seconds are counted too, for of two that write at once the earlier one may be seen later. What else
# needs attention, or is somebody's first step, leaves none: that is asked of an index each, and of the newest
# few rows.
ACCOUNTS = """
    select a.id, concat_ws(' ', newest.at, newest.id, lately.n,
           (select xmin from accounts where id = a.id),
           (select max(id) from mailing_lists where account_id = a.id),
           (select max(finished_at) from imports where account_id = a.id and finished_at is not null),
           (select max(at) from ledger_moves where account_id = a.id and mode = 'live'),
           (select max(reported_at) from giftcards
             where account_id = a.id and mode in ('test', 'live') and reported_at is not null),
           (select string_agg(w::text, ' ' order by id) from (
                select id, status from webhooks where account_id = a.id order by id desc limit 100) w),
           (select string_agg(u::text, ' ' order by id) from (
                select id, enabled, failing_since, last_error_at from automations
                 where account_id = a.id order by id desc limit 100) u)) as version
      from unnest(cast(:ids as bigint[])) as a (id)
      left join lateral (
          select at, id from facts f where f.account_id = a.id
           order by f.at desc, f.id desc limit 1) newest on true
      left join lateral (
          select count(*) as n from (
              select from facts f
               where f.account_id = a.id and f.at > :just_now limit 1000) counted) lately on true
"""

ASKING: Final[Mapping[Kind, sa.TextClause]] = {
    "order": sa.text(ROWS.format(table="orders")),
    "item": sa.text(ITEMS),
    "import": sa.text(ROWS.format(table="imports")),
    "batch": sa.text(ROWS.format(table="batches")),
    "account": sa.text(ACCOUNTS),
}


def versions(tx: Tx, topics: Iterable[Topic], *, now: datetime) -> dict[Topic, str]:
    """Of each that is there a text that is another once something has changed. One question for each kind.
    Takes the worker's transaction."""
    by_kind: dict[Kind, list[int]] = {}
    for kind, number in topics:
        by_kind.setdefault(kind, []).append(number)
    found: dict[Topic, str] = {}
    for kind, ids in by_kind.items():
        asked: dict[str, Any] = {"ids": ids}
        if kind == "account":
            asked["just_now"] = now - JUST_NOW
        found |= {(kind, row.id): row.version for row in tx.execute(ASKING[kind], asked)}
    return found
