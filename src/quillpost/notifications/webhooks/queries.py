"""SQL of subscriptions, and of the leases of their delivery queues (table webhook_lanes)."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Self
from urllib.parse import urlsplit
from uuid import UUID

import sqlalchemy as sa

from quillpost.core.database import Tx
from quillpost.core.database.engine import account_wide_access
from quillpost.core.database.tables.notifications import deliveries, webhooks
from quillpost.core.errors import NotFound, Refused
from quillpost.core.paging import Page, PageRequest, read_newest_page

# It has no fact, so it takes a number that no fact can have. It waits for no other.
INSERT_SAMPLE = sa.text("""
    insert into deliveries (account_id, sub_account_id, mode, webhook_id, fact_id, event_id,
                            event_type, stream, status, next_at, created_at)
    select account_id, sub_account_id, mode, id, -nextval('facts_id_seq'), :event_id,
           :event_type, :stream, 'pending', :now, :now
      from webhooks where id = :webhook_id
    returning id
""")


@dataclass(frozen=True, slots=True)
class WebhookSubscription:
    id: int
    account_id: int
    sub_account_id: int | None
    mailing_list_id: int | None
    mode: str
    url: str
    type: str
    verb: str
    description: str | None
    status: str
    invoke_count: int
    created_at: datetime
    updated_at: datetime
    failing_since: datetime | None
    last_error: str | None
    previous_until: datetime | None

    @classmethod
    def of(cls, row: sa.Row[Any]) -> Self:
        return cls(**row._mapping)

    @property
    def is_awake(self) -> bool:
        return self.status in ("active", "failing")

    @property
    def audit_details(self) -> dict[str, Any]:
        """Names only the host: the rest of the URL may hold a key."""
        return {"name": urlsplit(self.url).hostname, "mode": self.mode, "id": self.id}


_WEBHOOK_COLUMNS = [webhooks.c[field.name] for field in fields(WebhookSubscription)]


def insert_webhook(tx: Tx, values: dict[str, Any]) -> int:
    result = tx.execute(sa.insert(webhooks).values(**values).returning(webhooks.c.id))
    return int(result.scalar_one())


def read_webhook(tx: Tx, webhook_id: int, *, locked: bool = False) -> WebhookSubscription:
    """The subscription; `locked`, for the rest of the transaction."""
    query = sa.select(*_WEBHOOK_COLUMNS).where(webhooks.c.id == webhook_id)
    row = tx.execute(query.with_for_update(key_share=True) if locked else query).first()
    if row is None:
        raise NotFound
    return WebhookSubscription.of(row)


def list_webhooks(tx: Tx, page_request: PageRequest, *, sub_account_id: int | None) -> Page[WebhookSubscription]:
    conditions = [] if sub_account_id is None else [webhooks.c.sub_account_id == sub_account_id]
    query = sa.select(*_WEBHOOK_COLUMNS).where(*conditions)
    return read_newest_page(tx, query, page_request, WebhookSubscription.of)


def update_webhook(tx: Tx, webhook_id: int, values: Mapping[str, Any]) -> WebhookSubscription:
    query = sa.update(webhooks).where(webhooks.c.id == webhook_id).values(**values).returning(*_WEBHOOK_COLUMNS)
    return WebhookSubscription.of(tx.execute(query).one())


def delete_webhook(tx: Tx, webhook_id: int) -> None:
    if tx.execute(sa.delete(webhooks).where(webhooks.c.id == webhook_id)).rowcount == 0:
        raise NotFound


def insert_sample(tx: Tx, webhook_id: int, *, event_type: str, event_id: UUID, now: datetime) -> int:
    params = {"webhook_id": webhook_id, "event_type": event_type, "event_id": event_id, "now": now}
    return int(tx.execute(INSERT_SAMPLE, params | {"stream": f"sample:{event_id}"}).scalar_one())


def retry_waiting_now(tx: Tx, webhook_id: int, *, now: datetime) -> None:
    """Make all pending deliveries due now, as extra attempts."""
    tx.execute(
        sa.update(deliveries)
        .where(deliveries.c.webhook_id == webhook_id, deliveries.c.status == "pending", deliveries.c.next_at > now)
        .values(next_at=now, extra_tries=deliveries.c.extra_tries + 1)
    )


LOCK_ACCOUNT = sa.text("select pg_advisory_xact_lock(hashtextextended(:lock, 0))")


def require_webhook_quota(tx: Tx, account_id: int, *, limit: int) -> None:
    """Raise where the account has reached the limit, in both modes and all sub accounts. Locks the account's quota."""
    tx.execute(LOCK_ACCOUNT, {"lock": f"webhooks:{account_id}"})
    with account_wide_access(tx):
        is_own = webhooks.c.account_id == account_id
        webhook_count = tx.execute(sa.select(sa.func.count()).select_from(webhooks).where(is_own)).scalar_one()
    if webhook_count >= limit:
        raise Refused(
            f"An account has at most {limit:,} subscriptions, in both modes and all sub accounts together. "
            "Delete one that is not needed, or subscribe to * with one."
        )


_DISABLED_PLANS = ("seqscan", "bitmapscan", "hashjoin", "mergejoin", "material", "sort", "incremental_sort")
_FORCE_INDEX_PLANS = sa.text(
    "select set_config('plan_cache_mode', 'force_generic_plan', true), "
    + ", ".join(f"set_config('enable_{way}', 'off', true)" for way in _DISABLED_PLANS)
)


def force_index_plans(tx: Tx) -> None:
    """For the rest of the transaction. The number of pending rows changes so fast that the planner's statistics are
    always wrong, and planning over a partition for each day takes longer than the query."""
    tx.execute(_FORCE_INDEX_PLANS)


# Failing endpoints last.
LEASE_QUEUES = sa.text("""
    with free as materialized (
        select webhook_id from webhook_lanes
         where due_at <= :now and (leased_until is null or leased_until <= :now)
           and (resting_until is null or resting_until <= :now)
         order by failures > 0, due_at, webhook_id limit :most for update skip locked)
    update webhook_lanes l set leased_by = :dispatcher, leased_until = :until
      from free f where l.webhook_id = f.webhook_id
    returning l.webhook_id
""")

# The holder has sent all due deliveries that it saw. One committed after its time may have been missed: then the queue
# is due at once. Others that are due wait behind an earlier one of their stream. `woken` has changed if more arrived
# since; a locked queue is about to change.
RELEASE_EMPTY_QUEUES = sa.text("""
    with empty as materialized (
        select l.webhook_id from webhook_lanes l
          join unnest(cast(:hooks as bigint[]), cast(:seen as bigint[])) as s (webhook_id, woken)
            on s.webhook_id = l.webhook_id and s.woken = l.woken
         where l.leased_by = :dispatcher for update of l skip locked)
    update webhook_lanes l
       set leased_by = null, leased_until = null,
           due_at = case
               when w.status not in ('active', 'failing') then null
               when l.resting_until > :now then l.resting_until
               else coalesce(
                   (select cast(:now as timestamptz) from deliveries d
                     where d.webhook_id = l.webhook_id and d.status = 'pending' and d.next_at <= :now
                       and (select true from deliveries e
                             where e.webhook_id = d.webhook_id and e.stream = d.stream
                               and e.status = 'pending' and e.id < d.id limit 1) is null
                     limit 1),
                   (select d.next_at from deliveries d
                     where d.webhook_id = l.webhook_id and d.status = 'pending' and d.next_at > :now
                     order by d.next_at limit 1)) end
      from empty e, webhooks w
     where l.webhook_id = e.webhook_id and w.id = l.webhook_id
    returning l.webhook_id
""")
READ_LEASES = sa.text("""
    select l.failures, l.troubled_since, l.resting_until, l.webhook_id, l.woken, l.leased_until,
           w.status, w.url, w.verb, w.secret_sealed, w.previous_secret_sealed, w.previous_until
      from webhook_lanes l join webhooks w on w.id = l.webhook_id
     where l.webhook_id = any(:hooks) and l.leased_by = :dispatcher
""")
RENEW_LEASES = sa.text("""
    with ours as materialized (
        select webhook_id from webhook_lanes where webhook_id = any(:hooks) and leased_by = :dispatcher
           for update skip locked)
    update webhook_lanes l set leased_until = :until from ours o where l.webhook_id = o.webhook_id
""")
RELEASE_QUEUES = sa.text("""
    with ours as materialized (
        select webhook_id from webhook_lanes where webhook_id = any(:hooks) and leased_by = :dispatcher
           for update skip locked)
    update webhook_lanes l set leased_by = null, leased_until = null, due_at = :now
      from ours o where l.webhook_id = o.webhook_id
    returning l.webhook_id
""")


@dataclass(frozen=True, slots=True)
class EndpointHealth:
    """Failures in a row, since when, and until when to back off."""

    failures: int = 0
    failing_since: datetime | None = None
    backoff_until: datetime | None = None


HEALTHY_ENDPOINT = EndpointHealth()


@dataclass(frozen=True, slots=True)
class Lease:
    """An endpoint queue leased to a dispatcher, with its destination and secrets."""

    webhook_id: int
    woken: int
    health: EndpointHealth
    leased_until: datetime
    status: str
    url: str
    verb: str
    secret_sealed: bytes
    previous_secret_sealed: bytes | None
    previous_until: datetime | None

    @property
    def is_active(self) -> bool:
        return self.status in ("active", "failing")

    @property
    def destination(self) -> tuple[str, str, str]:
        """Deliveries read for another destination or status are discarded."""
        return self.status, self.verb, self.url

    def signing_secrets(self, now: datetime) -> tuple[bytes, ...]:
        """The current secret, and the previous one for a while after a rotation."""
        if self.previous_secret_sealed is None or self.previous_until is None or self.previous_until <= now:
            return (self.secret_sealed,)
        return self.secret_sealed, self.previous_secret_sealed


def schedule_queue(tx: Tx, webhook_id: int, *, at: datetime, reset_backoff: bool = False) -> None:
    """Make the queue due at that time; `reset_backoff` also closes its circuit breaker. Call it last, after the
    subscription and its deliveries were changed."""
    params = {"webhook_id": webhook_id, "at": at, "afresh": reset_backoff}
    tx.execute(sa.text("select wake_lane(:webhook_id, :at, :afresh)"), params)


def lease_queues(tx: Tx, dispatcher_id: UUID, *, limit: int, until: datetime, now: datetime) -> list[Lease]:
    """Lease queues with due deliveries to this dispatcher."""
    params = {"dispatcher": dispatcher_id, "most": limit, "until": until, "now": now}
    leased_ids = tx.execute(LEASE_QUEUES, params).scalars().all()
    return read_leases(tx, dispatcher_id, leased_ids) if leased_ids else []


def read_leases(tx: Tx, dispatcher_id: UUID, webhook_ids: Collection[int]) -> list[Lease]:
    """Those of the queues that this dispatcher still leases, as they are now."""
    rows = tx.execute(READ_LEASES, {"hooks": list(webhook_ids), "dispatcher": dispatcher_id})
    return [Lease(row.webhook_id, row.woken, EndpointHealth(*row[:3]), *row[5:]) for row in rows]


def renew_leases(tx: Tx, dispatcher_id: UUID, webhook_ids: Collection[int], *, until: datetime) -> None:
    tx.execute(RENEW_LEASES, {"hooks": list(webhook_ids), "dispatcher": dispatcher_id, "until": until})


def release_empty_queues(tx: Tx, dispatcher_id: UUID, woken_counts: Mapping[int, int], *, now: datetime) -> set[int]:
    """Release queues without due deliveries, unless more arrived than the given counts; which ones."""
    params = {"dispatcher": dispatcher_id, "hooks": list(woken_counts), "seen": list(woken_counts.values()), "now": now}
    return set(tx.execute(RELEASE_EMPTY_QUEUES, params).scalars())


def release_queues(tx: Tx, dispatcher_id: UUID, webhook_ids: Collection[int], *, now: datetime) -> set[int]:
    """Release queues in which deliveries may wait; which ones."""
    params = {"hooks": list(webhook_ids), "dispatcher": dispatcher_id, "now": now}
    return set(tx.execute(RELEASE_QUEUES, params).scalars())
