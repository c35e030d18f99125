"""The delivery log, in one table for each day."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import sqlalchemy as sa
import structlog

from quillpost.core.database import Database, Tenant, Tx
from quillpost.core.database.tables.notifications import deliveries
from quillpost.core.errors import NotFound, Refused
from quillpost.core.paging import Page, PageRequest
from quillpost.notifications.webhooks import leases, queries, service
from quillpost.notifications.webhooks.queries import by_index

STATUSES = ("pending", "delivered", "failed")
QUOTED = {status: sa.literal_column(f"'{status}'", sa.Text()) for status in STATUSES}
"""Written out, a status finds the index that has its rows alone."""

MOST = 10_000
"""How many of the newest are looked through; a subscription may have had millions."""

_EARLIER = deliveries.alias()
_WAITS_FOR = (
    sa.select(_EARLIER.c.id)
    .where(
        deliveries.c.status == "pending",
        _EARLIER.c.webhook_id == deliveries.c.webhook_id,
        _EARLIER.c.stream == deliveries.c.stream,
        _EARLIER.c.status == "pending",
        _EARLIER.c.id < deliveries.c.id,
    )
    .order_by(_EARLIER.c.id)
    .limit(1)
    .scalar_subquery()
)
_REST = sa.text("select lane_rest(:webhook_id)")

_LOGGED = [
    deliveries.c[name]
    for name in (
        "id", "event_id", "event_type", "status", "attempts", "body", "response_status", "response_body",
        "error", "created_at", "next_at", "delivered_at",
    )
]  # fmt: skip

# What was sent is sent again to the letter, unless it was for another address or another verb. It is the
# same event, so its receiver can tell the repeat.
SEND_AGAIN = sa.text(
    """
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
    """
)
FIRST_IN_LINE = sa.text(
    """
    select least(min(next_at), :now) - interval '1 millisecond' from deliveries
     where webhook_id = :webhook_id and status = 'pending'
    """
)
SENT_AGAIN = sa.text(
    """
    select a.id from deliveries d
      join deliveries a on a.webhook_id = d.webhook_id and a.stream = d.stream and a.status = 'pending'
                       and a.event_id = d.event_id
     where d.id = :id and d.created_at = :created_at
     order by a.id limit 1
    """
)


@dataclass(frozen=True, slots=True)
class Delivery:
    """One event on its way to one subscription. `words` is what went out: a POST's body, or a GET's URL."""

    id: int
    event_id: UUID
    event_type: str
    status: str
    attempts: int
    words: str | None
    response_status: int | None
    response_body: str | None
    error: str | None
    created_at: datetime
    next_at: datetime | None
    delivered_at: datetime | None
    waits_for: int | None
    """The earlier delivery of the same piece, or order, that comes first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryFilter:
    status: str | None = None
    event_type: str | None = None


def list_deliveries(
    db: Database, tx: Tx, who: Tenant, webhook_id: int, asked: PageRequest, wanted: DeliveryFilter
) -> tuple[Page[Delivery], bool]:
    """The newest first, and whether there are more than are looked through.

    The service finds the rows, in an index that is closed to tenants; they are read as the caller. Whose
    the subscription is must be known already.
    """
    there = _newest(who, webhook_id, wanted.status)
    newest = there.limit(MOST).subquery()
    of_type = [] if wanted.event_type is None else [newest.c.event_type == wanted.event_type]
    with db.work() as ours:
        is_truncated = ours.execute(there.offset(MOST).limit(1)).first() is not None
        total = ours.execute(sa.select(sa.func.count()).select_from(newest).where(*of_type)).scalar_one()
        found = ours.execute(
            sa.select(newest.c.id)
            .where(*of_type)
            .order_by(newest.c.id.desc())
            .offset(min(asked.offset, MOST))
            .limit(asked.per_page)
        ).scalars()
        ids = list(found)
    return Page(_read(tx, webhook_id, ids), total, asked), is_truncated


def read_delivery(tx: Tx, webhook_id: int, delivery_id: int) -> Delivery:
    found = _read(tx, webhook_id, [delivery_id])
    if not found:
        raise NotFound
    return found[0]


def retry(tx: Tx, webhook_id: int, delivery_id: int, *, now: datetime) -> Delivery:
    """Have it sent now, before all others that wait: at a receiver that still fails they would close its
    lane again. One that arrived goes again as a delivery of its own, of the same event; where that is on its
    way already, it is not sent a third time."""
    service.require_awake(queries.read_webhook(tx, webhook_id, locked=True))
    known = read_delivery(tx, webhook_id, delivery_id)
    if known.waits_for is not None:
        raise Refused(
            f"It waits for delivery {known.waits_for} of the same piece or order: retry that first."
        )
    row = {"id": known.id, "created_at": known.created_at}
    first = tx.execute(FIRST_IN_LINE, {"webhook_id": webhook_id, "now": now}).scalar_one()
    if known.status == "delivered":
        under_way = tx.execute(SENT_AGAIN, row).scalar()
        due = under_way or tx.execute(SEND_AGAIN, row | {"next_at": first, "now": now}).scalar_one()
    else:
        due = known.id
        tx.execute(
            sa.update(deliveries)
            .where(
                deliveries.c.id == known.id,
                deliveries.c.created_at == known.created_at,
                deliveries.c.status != "delivered",
            )
            .values(status="pending", next_at=first, extra_tries=deliveries.c.extra_tries + 1)
        )
    leases.wake(tx, webhook_id, at=now, afresh=True)
    return replace(read_delivery(tx, webhook_id, due), next_at=now)


def _newest(who: Tenant, webhook_id: int, status: str | None) -> sa.Select[tuple[int, str]]:
    """An index has them in this order. None has the types of events: those are looked at one by one."""
    conditions = [deliveries.c.webhook_id == webhook_id]
    if who.sub_account_id is not None:
        conditions.append(deliveries.c.sub_account_id == who.sub_account_id)
    if status is not None:
        conditions.append(deliveries.c.status == QUOTED[status])
    newest = sa.select(deliveries.c.id, deliveries.c.event_type).where(*conditions)
    return newest.order_by(deliveries.c.id.desc())


def _read(tx: Tx, webhook_id: int, ids: Sequence[int]) -> list[Delivery]:
    """What waits is tried when its time has come and its receiver is no longer left alone; what waits for
    another delivery has no time of its own."""
    query = (
        sa.select(*_LOGGED, _WAITS_FOR)
        .where(deliveries.c.webhook_id == webhook_id, deliveries.c.id.in_(ids))
        .order_by(deliveries.c.id.desc())
    )
    rows: Sequence[Any] = tx.execute(query).all()
    found = [Delivery(*row) for row in rows]
    rest = tx.execute(_REST, {"webhook_id": webhook_id}).scalar() if found else None
    return [replace(each, next_at=_next_at(each, rest)) for each in found]


def _next_at(delivery: Delivery, rest: datetime | None) -> datetime | None:
    if delivery.next_at is None or delivery.waits_for is not None:
        return None
    return delivery.next_at if rest is None else max(delivery.next_at, rest)


log = structlog.get_logger(__name__)

KEPT_DAYS = 30
DAYS_AHEAD = 7
"""So many are open: a week without a worker is no trouble."""

OPEN = sa.text("select open_delivery_days(:first, :last)")
DROP = sa.text("select drop_delivery_days(:before)")
FORGET = sa.text("select forget_deliveries(:before)")
FORGET_GONE = sa.text("select forget_gone_deliveries(:most)")
FORGOTTEN_AT_ONCE = 10_000


def keep(db: Database, *, kept_days: int = KEPT_DAYS, now: datetime) -> None:
    """A job: open the days to come, drop those that are too old, and forget what waited for as long or is
    of subscriptions that are no more.

    Each is a transaction of its own: an old day that a backup reads is dropped by the next run, and must not
    keep new days from being opened meanwhile.
    """
    today = now.astimezone(UTC).date()
    with db.work() as tx:
        is_open = tx.execute(OPEN, {"first": today, "last": today + timedelta(days=DAYS_AHEAD)}).scalar_one()
    with db.work() as tx:
        is_dropped = tx.execute(DROP, {"before": today - timedelta(days=kept_days)}).scalar_one()
    with db.work() as tx:
        tx.execute(FORGET, {"before": now - timedelta(days=kept_days)})
    forget_gone(db)
    if not (is_open and is_dropped):
        log.warning("webhooks.days_in_use", opened=is_open, dropped=is_dropped)


def forget_gone(db: Database) -> None:
    """Delete what deleted subscriptions were told: in small steps, as that may be millions."""
    while True:
        with db.work() as tx:
            if not forget_some(tx):
                return


def forget_some(tx: Tx) -> int:
    by_index(tx)
    return int(tx.execute(FORGET_GONE, {"most": FORGOTTEN_AT_ONCE}).scalar_one())
