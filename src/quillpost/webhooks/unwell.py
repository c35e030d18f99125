"""Subscriptions that cannot be delivered to, whosever they are, for those who run the service."""

from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlsplit

import sqlalchemy as sa

from quillpost.database import Tx
from quillpost.kit.paging import Page, PageRequest

MOST_WAITING = 1_000

COUNTED = sa.text("select count(*) from webhooks where status in ('failing', 'disabled') and mode = :mode")
LISTED = sa.text(
    """
    select w.id, w.account_id, w.url, w.type, w.status, w.failing_since, w.last_error,
           a.name as account_name, a.email as account_email, waits.backlog
      from webhooks w
      join accounts a on a.id = w.account_id
     cross join lateral (
            select count(*) as backlog from (
                select 1 from deliveries d where d.webhook_id = w.id and d.status = 'pending' limit :most) d
           ) waits
     where w.status in ('failing', 'disabled') and w.mode = :mode
     order by w.id desc offset :skip limit :rows
    """
)


@dataclass(frozen=True, slots=True)
class Unwell:
    """A subscription that fails, or was switched off. `host` alone: the rest of an address may be a secret.
    A backlog of `MOST_WAITING` is that or more."""

    id: int
    account_id: int
    account_name: str
    account_email: str
    host: str
    type: str
    status: str
    failing_since: datetime | None
    last_error: str | None
    backlog: int


def count_unwell(tx: Tx, mode: str) -> int:
    return int(tx.execute(COUNTED, {"mode": mode}).scalar_one())


def list_unwell(tx: Tx, mode: str, asked: PageRequest) -> Page[Unwell]:
    """Of every account, the newest first."""
    window = {"mode": mode, "skip": asked.offset, "rows": asked.per_page, "most": MOST_WAITING}
    rows = [
        Unwell(
            id=row.id,
            account_id=row.account_id,
            account_name=row.account_name,
            account_email=row.account_email,
            host=urlsplit(row.url).hostname or "",
            type=row.type,
            status=row.status,
            failing_since=row.failing_since,
            last_error=row.last_error,
            backlog=row.backlog,
        )
        for row in tx.execute(LISTED, window)
    ]
    return Page(rows, count_unwell(tx, mode), asked)
