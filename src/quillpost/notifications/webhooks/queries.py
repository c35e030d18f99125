"""Subscriptions, and the outbox of deliveries."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from quillpost.core.database import Tx
from quillpost.core.database.engine import account_wide_access
from quillpost.core.database.tables.notifications import deliveries, webhooks
from quillpost.core.errors import NotFound, Refused
from quillpost.core.paging import Page, PageRequest

# Behind it there is no fact, so it takes a number that no fact can have. It waits for no other of its kind.
INSERT_SAMPLE = sa.text(
    """
    insert into deliveries (account_id, sub_account_id, mode, webhook_id, fact_id, event_id,
                            event_type, stream, status, next_at, created_at)
    select account_id, sub_account_id, mode, id, -nextval('facts_id_seq'), :event_id,
           :event_type, :stream, 'pending', :now, :now
      from webhooks where id = :webhook_id
    returning id
    """
)


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

    @property
    def is_awake(self) -> bool:
        """Whether anything goes out to it."""
        return self.status in ("active", "failing")


_WEBHOOK_COLUMNS = [
    webhooks.c[name]
    for name in (
        "id", "account_id", "sub_account_id", "mailing_list_id", "mode", "url", "type", "verb",
        "description", "status", "invoke_count", "created_at", "updated_at", "failing_since", "last_error",
        "previous_until",
    )
]  # fmt: skip


def insert_webhook(tx: Tx, values: dict[str, Any]) -> int:
    result = tx.execute(sa.insert(webhooks).values(**values).returning(webhooks.c.id))
    return int(result.scalar_one())


def set_secret(tx: Tx, webhook_id: int, encrypted: bytes) -> None:
    tx.execute(sa.update(webhooks).where(webhooks.c.id == webhook_id).values(secret_sealed=encrypted))


def read_webhook(tx: Tx, webhook_id: int, *, locked: bool = False) -> WebhookSubscription:
    """The subscription; `locked`, nobody else changes it before this transaction ends."""
    query = sa.select(*_WEBHOOK_COLUMNS).where(webhooks.c.id == webhook_id)
    row = tx.execute(query.with_for_update(key_share=True) if locked else query).first()
    if row is None:
        raise NotFound
    return WebhookSubscription(*row)


def list_webhooks(tx: Tx, page_request: PageRequest, *, sub_account_id: int | None) -> Page[WebhookSubscription]:
    conditions = [] if sub_account_id is None else [webhooks.c.sub_account_id == sub_account_id]
    rows = tx.execute(
        sa.select(*_WEBHOOK_COLUMNS)
        .where(*conditions)
        .order_by(webhooks.c.id.desc())
        .limit(page_request.per_page)
        .offset(page_request.offset)
    )
    total = tx.execute(sa.select(sa.func.count()).select_from(webhooks).where(*conditions)).scalar_one()
    return Page([WebhookSubscription(*row) for row in rows], total, page_request)


def update_webhook(tx: Tx, webhook_id: int, values: Mapping[str, Any]) -> WebhookSubscription:
    query = sa.update(webhooks).where(webhooks.c.id == webhook_id).values(**values).returning(*_WEBHOOK_COLUMNS)
    return WebhookSubscription(*tx.execute(query).one())


def delete_webhook(tx: Tx, webhook_id: int) -> None:
    if tx.execute(sa.delete(webhooks).where(webhooks.c.id == webhook_id)).rowcount == 0:
        raise NotFound


def insert_sample(tx: Tx, webhook_id: int, *, event_type: str, event_id: UUID, now: datetime) -> int:
    """A delivery of an event that is about nothing; its id."""
    result = tx.execute(
        INSERT_SAMPLE,
        {
            "webhook_id": webhook_id,
            "event_type": event_type,
            "event_id": event_id,
            "stream": f"sample:{event_id}",
            "now": now,
        },
    )
    return int(result.scalar_one())


def retry_waiting_now(tx: Tx, webhook_id: int, *, now: datetime) -> None:
    """What waits for another try is due, beside its schedule; the pumps keep the order of each stream."""
    tx.execute(
        sa.update(deliveries)
        .where(deliveries.c.webhook_id == webhook_id, deliveries.c.status == "pending", deliveries.c.next_at > now)
        .values(next_at=now, extra_tries=deliveries.c.extra_tries + 1)
    )


LOCK_ACCOUNT = sa.text("select pg_advisory_xact_lock(hashtextextended(:lock, 0))")


def require_webhook_quota(tx: Tx, account_id: int, *, limit: int) -> None:
    """Raise where the account has as many already, of both modes and all sub accounts. Of two that want the
    last place one gets it."""
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
    """For the rest of the transaction. What waits is many now and few a moment later, so what the planner
    knows of it is never so, and it would read all of that for a handful of rows. A plan is made once: making
    one for as many tables as there are days takes longer than the work."""
    tx.execute(_FORCE_INDEX_PLANS)
