"""How subscriptions have done lately, and which of them fail."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlsplit

import sqlalchemy as sa

from quillpost.core.database import Database, Tx
from quillpost.core.paging import Page, PageRequest

RECENT_DELIVERIES = 50
"""So many of the newest are looked at."""

# Each one's newest lie at the end of an index, which is closed to tenants.
_COUNT_RECENT = sa.text(
    """
    select h.id as webhook_id, count(*) filter (where d.attempts > 0) as tried,
           count(*) filter (where d.attempts > 0 and d.status <> 'delivered') as not_arrived,
           max(d.created_at) filter (where d.attempts > 0) as last_at
      from unnest(cast(:hooks as bigint[])) as h (id)
     cross join lateral (select attempts, status, created_at from deliveries
                          where webhook_id = h.id order by id desc limit :most) d
     group by h.id
    """
)


@dataclass(frozen=True, slots=True)
class RecentDeliveryCount:
    """Of the newest that were tried, how many have not arrived, or not yet."""

    tried: int = 0
    not_arrived: int = 0
    last_at: datetime | None = None

    @property
    def percent_failed(self) -> int:
        """Rounded up: where anything failed it is not 0."""
        return -(-100 * self.not_arrived // self.tried) if self.tried else 0


def count_recent_deliveries(db: Database, webhook_ids: Sequence[int]) -> Mapping[int, RecentDeliveryCount]:
    """Of each of them. Whose they are must be known already."""
    if not webhook_ids:
        return {}
    with db.system_transaction() as tx:
        rows = tx.execute(_COUNT_RECENT, {"hooks": list(webhook_ids), "most": RECENT_DELIVERIES}).all()
    counts = {row.webhook_id: RecentDeliveryCount(row.tried, row.not_arrived, row.last_at) for row in rows}
    return {webhook_id: counts.get(webhook_id, RecentDeliveryCount()) for webhook_id in webhook_ids}


MAX_BACKLOG = 1_000

COUNT_FAILING = sa.text("select count(*) from webhooks where status in ('failing', 'disabled') and mode = :mode")
LIST_FAILING = sa.text(
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
class FailingWebhook:
    """A subscription that fails, or was switched off. `host` alone: the rest of an address may be a secret.
    A backlog of `MAX_BACKLOG` is that or more."""

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


def count_failing_webhooks(tx: Tx, mode: str) -> int:
    return int(tx.execute(COUNT_FAILING, {"mode": mode}).scalar_one())


def list_failing_webhooks(tx: Tx, mode: str, page_request: PageRequest) -> Page[FailingWebhook]:
    """Of every account, the newest first."""
    params = {"mode": mode, "skip": page_request.offset, "rows": page_request.per_page, "most": MAX_BACKLOG}
    rows = [
        FailingWebhook(
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
        for row in tx.execute(LIST_FAILING, params)
    ]
    return Page(rows, count_failing_webhooks(tx, mode), page_request)
