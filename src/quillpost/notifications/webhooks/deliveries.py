"""The delivery log, partitioned by day, and the health of endpoints."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit
from uuid import UUID

import sqlalchemy as sa
import structlog

from quillpost.core.database import Database, Tenant, Tx
from quillpost.core.database.tables.notifications import deliveries
from quillpost.core.errors import NotFound, Refused
from quillpost.core.paging import Page, PageRequest
from quillpost.notifications.webhooks import queries, service
from quillpost.notifications.webhooks.queries import force_index_plans

DELIVERY_STATUSES = ("pending", "delivered", "failed")
STATUS_LITERALS = {status: sa.literal_column(f"'{status}'", sa.Text()) for status in DELIVERY_STATUSES}
"""As a literal, so that the partial index of a status is used."""

MAX_LISTED = 10_000  # of the newest; a subscription may have had millions
_EARLIER_DELIVERIES = deliveries.alias()
_BLOCKING_DELIVERY = (
    sa.select(_EARLIER_DELIVERIES.c.id)
    .where(
        deliveries.c.status == "pending",
        _EARLIER_DELIVERIES.c.webhook_id == deliveries.c.webhook_id,
        _EARLIER_DELIVERIES.c.stream == deliveries.c.stream,
        _EARLIER_DELIVERIES.c.status == "pending",
        _EARLIER_DELIVERIES.c.id < deliveries.c.id,
    )
    .order_by(_EARLIER_DELIVERIES.c.id)
    .limit(1)
    .scalar_subquery()
)
_READ_BACKOFF_END = sa.text("select lane_rest(:webhook_id)")

# The same body is sent again, unless it was for another URL or method. It is the same event, so its receiver can
# recognize the repeat.
INSERT_RESEND = sa.text("""
    insert into deliveries (account_id, sub_account_id, mode, webhook_id, fact_id, event_id, event_type,
                            stream, body, status, next_at, created_at)
    select d.account_id, d.sub_account_id, d.mode, d.webhook_id, d.fact_id, d.event_id, d.event_type,
           d.stream,
           case when w.verb = 'post' and starts_with(d.body, '{')
                  or w.verb = 'get' and starts_with(d.body, w.url) then d.body end,
           'pending', :next_at, :now
      from deliveries d join webhooks w on w.id = d.webhook_id
     where d.id = :id and d.created_at = :created_at
    returning id
""")
FRONT_OF_QUEUE_TIME = sa.text("""
    select least(min(next_at), :now) - interval '1 millisecond' from deliveries
     where webhook_id = :webhook_id and status = 'pending'
""")
FIND_RESEND = sa.text("""
    select a.id from deliveries d
      join deliveries a on a.webhook_id = d.webhook_id and a.stream = d.stream and a.status = 'pending'
                       and a.event_id = d.event_id
     where d.id = :id and d.created_at = :created_at
     order by a.id limit 1
""")


@dataclass(frozen=True, slots=True)
class WebhookDelivery:
    """`payload` is what was sent: a POST's body, or a GET's URL."""

    id: int
    event_id: UUID
    event_type: str
    status: str
    attempts: int
    payload: str | None
    response_status: int | None
    response_body: str | None
    error: str | None
    created_at: datetime
    next_at: datetime | None
    delivered_at: datetime | None
    waits_for: int | None  # the earlier delivery of its stream


_DELIVERY_COLUMNS = [
    *(deliveries.c[field.name] for field in fields(WebhookDelivery) if field.name in deliveries.c),
    deliveries.c.body.label("payload"),
    _BLOCKING_DELIVERY.label("waits_for"),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryQuery:
    status: str | None = None
    event_type: str | None = None


def list_deliveries(
    db: Database, tx: Tx, tenant: Tenant, webhook_id: int, page_request: PageRequest, filters: DeliveryQuery
) -> tuple[Page[WebhookDelivery], bool]:
    """The newest first, and whether there are more than are searched. The service finds the rows, in an index that
    tenants cannot use; they are read as the caller, who must own the subscription."""
    matching_query = _newest_query(tenant, webhook_id, filters.status)
    newest = matching_query.limit(MAX_LISTED).subquery()
    type_conditions = [] if filters.event_type is None else [newest.c.event_type == filters.event_type]
    with db.system_transaction() as service_tx:
        is_truncated = service_tx.execute(matching_query.offset(MAX_LISTED).limit(1)).first() is not None
        total = service_tx.execute(sa.select(sa.func.count()).select_from(newest).where(*type_conditions)).scalar_one()
        page_query = sa.select(newest.c.id).where(*type_conditions).order_by(newest.c.id.desc())
        page_query = page_query.offset(min(page_request.offset, MAX_LISTED)).limit(page_request.per_page)
        ids = service_tx.execute(page_query).scalars().all()
    return Page(_read_deliveries(tx, webhook_id, ids), total, page_request), is_truncated


def read_delivery(tx: Tx, webhook_id: int, delivery_id: int) -> WebhookDelivery:
    matches = _read_deliveries(tx, webhook_id, [delivery_id])
    if not matches:
        raise NotFound
    return matches[0]


def retry_delivery(tx: Tx, webhook_id: int, delivery_id: int, *, now: datetime) -> WebhookDelivery:
    """Send it now, before all others, which could open the circuit breaker again. A delivered one is sent again as a
    new delivery of the same event; where that waits already, there is no third."""
    service.require_active(queries.read_webhook(tx, webhook_id, locked=True))
    delivery = read_delivery(tx, webhook_id, delivery_id)
    if delivery.waits_for is not None:
        raise Refused(f"It waits for delivery {delivery.waits_for} of the same piece or order: retry that first.")
    params = {"id": delivery.id, "created_at": delivery.created_at}
    front_time = tx.execute(FRONT_OF_QUEUE_TIME, {"webhook_id": webhook_id, "now": now}).scalar_one()
    if delivery.status == "delivered":
        resend_id = tx.execute(FIND_RESEND, params).scalar()
        due_id = resend_id or tx.execute(INSERT_RESEND, params | {"next_at": front_time, "now": now}).scalar_one()
    else:
        due_id = delivery.id
        tx.execute(
            sa.update(deliveries)
            .where(
                deliveries.c.id == delivery.id,
                deliveries.c.created_at == delivery.created_at,
                deliveries.c.status != "delivered",
            )
            .values(status="pending", next_at=front_time, extra_tries=deliveries.c.extra_tries + 1)
        )
    queries.schedule_queue(tx, webhook_id, at=now, reset_backoff=True)
    return replace(read_delivery(tx, webhook_id, due_id), next_at=now)


def _newest_query(tenant: Tenant, webhook_id: int, status: str | None) -> sa.Select[tuple[int, str]]:
    """An index has this order; event types are filtered row by row."""
    conditions = [deliveries.c.webhook_id == webhook_id]
    if tenant.sub_account_id is not None:
        conditions.append(deliveries.c.sub_account_id == tenant.sub_account_id)
    if status is not None:
        conditions.append(deliveries.c.status == STATUS_LITERALS[status])
    newest = sa.select(deliveries.c.id, deliveries.c.event_type).where(*conditions)
    return newest.order_by(deliveries.c.id.desc())


def _read_deliveries(tx: Tx, webhook_id: int, ids: Sequence[int]) -> list[WebhookDelivery]:
    """A pending delivery is due when its endpoint's backoff has ended; one that waits for another has no time of its
    own."""
    query = (
        sa.select(*_DELIVERY_COLUMNS)
        .where(deliveries.c.webhook_id == webhook_id, deliveries.c.id.in_(ids))
        .order_by(deliveries.c.id.desc())
    )
    read_rows = [WebhookDelivery(**row._mapping) for row in tx.execute(query)]
    backoff_until = tx.execute(_READ_BACKOFF_END, {"webhook_id": webhook_id}).scalar() if read_rows else None
    return [replace(delivery, next_at=_effective_next_at(delivery, backoff_until)) for delivery in read_rows]


def _effective_next_at(delivery: WebhookDelivery, backoff_until: datetime | None) -> datetime | None:
    if delivery.next_at is None or delivery.waits_for is not None:
        return None
    return delivery.next_at if backoff_until is None else max(delivery.next_at, backoff_until)


log = structlog.get_logger(__name__)
RETENTION_DAYS = 30
PARTITION_DAYS_AHEAD = 7  # so that a week without a worker is no problem
OPEN_PARTITIONS = sa.text("select open_delivery_days(:first, :last)")
DROP_PARTITIONS = sa.text("select drop_delivery_days(:before)")
DELETE_EXPIRED = sa.text("select forget_deliveries(:before)")
DELETE_ORPHANED = sa.text("select forget_gone_deliveries(:most)")
ORPHANED_PER_TRANSACTION = 10_000


def maintain_partitions(db: Database, *, retention_days: int = RETENTION_DAYS, now: datetime) -> None:
    """A job: create partitions of days to come, drop old ones, and delete deliveries that waited as long or whose
    subscriptions are deleted. Each in its own transaction: a partition that a backup reads is dropped by the next run.
    """
    today = now.astimezone(UTC).date()
    with db.system_transaction() as tx:
        are_opened = tx.execute(
            OPEN_PARTITIONS, {"first": today, "last": today + timedelta(days=PARTITION_DAYS_AHEAD)}
        ).scalar_one()
    with db.system_transaction() as tx:
        are_dropped = tx.execute(DROP_PARTITIONS, {"before": today - timedelta(days=retention_days)}).scalar_one()
    with db.system_transaction() as tx:
        tx.execute(DELETE_EXPIRED, {"before": now - timedelta(days=retention_days)})
    delete_orphaned_deliveries(db)
    if not (are_opened and are_dropped):
        log.warning("webhooks.partitions_in_use", created=are_opened, dropped=are_dropped)


def delete_orphaned_deliveries(db: Database) -> None:
    """Delete deliveries of deleted subscriptions, in small steps, as there may be millions."""
    while True:
        with db.system_transaction() as tx:
            if not delete_some_orphaned(tx):
                return


def delete_some_orphaned(tx: Tx) -> int:
    force_index_plans(tx)
    return int(tx.execute(DELETE_ORPHANED, {"most": ORPHANED_PER_TRANSACTION}).scalar_one())


RECENT_DELIVERIES = 50

# An index has the newest of each at its end; tenants cannot use it.
_COUNT_RECENT = sa.text("""
    select h.id as webhook_id, count(*) filter (where d.attempts > 0) as tried,
           count(*) filter (where d.attempts > 0 and d.status <> 'delivered') as not_arrived,
           max(d.created_at) filter (where d.attempts > 0) as last_at
      from unnest(cast(:hooks as bigint[])) as h (id)
     cross join lateral (select attempts, status, created_at from deliveries
                          where webhook_id = h.id order by id desc limit :most) d
     group by h.id
""")


@dataclass(frozen=True, slots=True)
class RecentDeliveryCount:
    """Of the newest that were attempted, how many have not arrived (yet)."""

    tried: int = 0
    not_arrived: int = 0
    last_at: datetime | None = None

    @property
    def percent_failed(self) -> int:
        """Rounded up, so that any failure shows."""
        return -(-100 * self.not_arrived // self.tried) if self.tried else 0


def count_recent_deliveries(db: Database, webhook_ids: Sequence[int]) -> Mapping[int, RecentDeliveryCount]:
    """The caller must own them."""
    if not webhook_ids:
        return {}
    with db.system_transaction() as tx:
        rows = tx.execute(_COUNT_RECENT, {"hooks": list(webhook_ids), "most": RECENT_DELIVERIES}).all()
    counts = {row.webhook_id: RecentDeliveryCount(row.tried, row.not_arrived, row.last_at) for row in rows}
    return {webhook_id: counts.get(webhook_id, RecentDeliveryCount()) for webhook_id in webhook_ids}


MAX_BACKLOG = 1_000
COUNT_FAILING = sa.text("select count(*) from webhooks where status in ('failing', 'disabled') and mode = :mode")
LIST_FAILING = sa.text("""
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
""")


@dataclass(frozen=True, slots=True)
class FailingWebhook:
    """A failing or disabled subscription. Only the `host`: the rest of a URL may be a secret. A backlog of
    `MAX_BACKLOG` is that or more."""

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
    values = [dict(row._mapping) for row in tx.execute(LIST_FAILING, params)]
    rows = [FailingWebhook(host=urlsplit(each.pop("url")).hostname or "", **each) for each in values]
    return Page(rows, count_failing_webhooks(tx, mode), page_request)
