"""Outcomes of attempts: decided one by one, recorded in bulk."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from http import HTTPStatus
from typing import NamedTuple
from uuid import UUID

import sqlalchemy as sa

from quillpost.core.database import Tx, driver_connection
from quillpost.notifications.ports import PostResult
from quillpost.notifications.webhooks import rules
from quillpost.notifications.webhooks import service as webhook_failures
from quillpost.notifications.webhooks.payloads import DueDelivery, InvalidDelivery
from quillpost.notifications.webhooks.queries import EndpointHealth

MAX_QUOTED_LENGTH = 200
BUSY_STATUSES = (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE)

# All subscriptions before all queues, in the order of their ids, as everywhere. A locked subscription is skipped: that
# may take long, and others' outcomes would wait too.
LOCK_WEBHOOKS = sa.text(
    "select id, verb, url from webhooks where id = any(:hooks) order by id for no key update skip locked"
)
SELECT_LEASED = "select webhook_id from webhook_lanes where webhook_id = any(:hooks) and leased_by = :dispatcher"
FIND_LEASED = sa.text(SELECT_LEASED)
LOCK_QUEUES = sa.text(f"{SELECT_LEASED} order by webhook_id for no key update")
# In binary: as text, every quotation mark of every event would be escaped.
UPDATE_DELIVERIES = """
    update deliveries d
       set status = o.status, attempts = d.attempts + o.attempts, body = o.payload, next_at = o.next_at,
           response_status = o.response_status, response_body = o.response_body, error = o.error,
           delivered_at = case when o.status = 'delivered' then %(now)b::timestamptz end
      from unnest(%(ids)b::bigint[], %(created)b::timestamptz[], %(statuses)b::text[],
                  %(attempts)b::integer[], %(payloads)b::text[], %(next_at)b::timestamptz[],
                  %(response_statuses)b::integer[], %(response_bodies)b::text[], %(errors)b::text[])
           as o (id, created_at, status, attempts, payload, next_at, response_status, response_body, error)
     where d.id = o.id and d.created_at = o.created_at and d.status = 'pending'
    returning d.id
"""
UPDATE_WEBHOOKS = sa.text("""
    update webhooks w
       set invoke_count = w.invoke_count + n.delivered, last_error = n.error,
           status = case when w.status = 'failing' and n.delivered > 0 then 'active' else w.status end,
           failing_since = case when n.delivered > 0 and w.status in ('active', 'failing') then null
                                else w.failing_since end
      from unnest(cast(:hooks as bigint[]), cast(:delivered as bigint[]), cast(:errors as text[]))
           as n (id, delivered, error)
     where w.id = n.id
""")
UPDATE_HEALTH = sa.text("""
    update webhook_lanes l
       set failures = n.failures, troubled_since = n.troubled_since, resting_until = n.resting_until
      from unnest(cast(:hooks as bigint[]), cast(:failures as integer[]), cast(:failing_since as timestamptz[]),
                  cast(:backoff_until as timestamptz[])) as n (webhook_id, failures, troubled_since, resting_until)
     where l.webhook_id = n.webhook_id and l.leased_by = :dispatcher
""")

# The circuit breaker closes: what waits for a retry is due now.
RETRY_WAITING_NOW = sa.text("""
    update deliveries d set next_at = :now, extra_tries = d.extra_tries + 1
      from webhook_lanes l
     where l.webhook_id = any(:hooks) and l.leased_by = :dispatcher and l.failures >= :broken
       and d.webhook_id = l.webhook_id and d.status = 'pending' and d.next_at > :now
""")


class DeliveryOutcome(NamedTuple):
    """What came of an attempt, or of a delivery that cannot be attempted."""

    delivery: DueDelivery | InvalidDelivery
    status: str
    response_status: int | None = None
    response_body: str = ""
    error: str | None = None
    next_at: datetime | None = None
    backoff_seconds: int | None = None  # the endpoint's Retry-After

    @property
    def is_delivered(self) -> bool:
        return self.status == "delivered"

    @property
    def is_final(self) -> bool:
        return self.status != "pending"

    @property
    def is_gone(self) -> bool:
        return self.response_status == HTTPStatus.GONE

    @property
    def error_message(self) -> str | None:
        """A sentence for the subscription's owner."""
        if self.is_delivered or self.error or self.response_status is None:
            return self.error
        quoted = " ".join(self.response_body.split())[:MAX_QUOTED_LENGTH]
        return f"The receiver answered {self.response_status}" + (f": {quoted}" if quoted else ".")


def decide_outcome(delivery: DueDelivery, response: PostResult, *, jitter: float, now: datetime) -> DeliveryOutcome:
    """Any 2xx is a success, and 410 disables the subscription; all else is retried on schedule."""
    is_delivered = response.status is not None and 200 <= response.status < 300
    next_at = None
    if not is_delivered and response.status != HTTPStatus.GONE:
        # An extra attempt does not count: the rest of the schedule stays.
        failures = max(1, delivery.attempts + 1 - delivery.extra_tries)
        next_at = rules.next_attempt_at(failures, now=now, jitter=jitter, retry_after=response.retry_after)
    return DeliveryOutcome(
        delivery=delivery,
        status="delivered" if is_delivered else "pending" if next_at else "failed",
        response_status=response.status,
        response_body=response.body,
        error=response.error,
        next_at=next_at,
        backoff_seconds=response.retry_after if response.status in BUSY_STATUSES else None,
    )


def fail_invalid(delivery: InvalidDelivery) -> DeliveryOutcome:
    return DeliveryOutcome(delivery, "failed", error=delivery.error)


class RecordedOutcomes(NamedTuple):
    recorded: list[DeliveryOutcome]
    blocked_ids: set[int]  # locked by others: nothing was recorded, to be repeated


def record_outcomes(
    tx: Tx,
    dispatcher_id: UUID,
    outcomes: Sequence[DeliveryOutcome],
    healths: Mapping[int, EndpointHealth],
    *,
    now: datetime,
) -> RecordedOutcomes:
    """Record outcomes and health; which outcomes were recorded. Settled deliveries stay unchanged, and so do those of a
    queue that this dispatcher no longer leases: its new holder sends them again."""
    webhook_ids = sorted({outcome.delivery.webhook_id for outcome in outcomes} | set(healths))
    leased, blocked_ids = _lock_leased(tx, dispatcher_id, webhook_ids)
    leased_outcomes = [outcome for outcome in outcomes if outcome.delivery.webhook_id in leased]
    updated_ids: set[int] = set()
    if leased_outcomes:
        updated = driver_connection(tx).execute(
            UPDATE_DELIVERIES, _outcome_columns(leased_outcomes, leased) | {"now": now}, prepare=True
        )
        updated_ids = {delivery_id for (delivery_id,) in updated}
    recorded_outcomes = [outcome for outcome in leased_outcomes if outcome.delivery.id in updated_ids]
    leased_healths = {webhook_id: health for webhook_id, health in healths.items() if webhook_id in leased}
    if leased_healths:
        _record_health(tx, dispatcher_id, leased_healths, now=now)
    if recorded_outcomes:
        _update_webhooks(tx, recorded_outcomes, now=now)
    return RecordedOutcomes(recorded_outcomes, blocked_ids)


def _lock_leased(
    tx: Tx, dispatcher_id: UUID, webhook_ids: Sequence[int]
) -> tuple[dict[int, tuple[str, str]], set[int]]:
    """The subscriptions that are locked now, with their destinations, and those that others have locked; of both, those
    whose queues this dispatcher leases."""
    locked = {row.id: (row.verb, row.url) for row in tx.execute(LOCK_WEBHOOKS, {"hooks": webhook_ids})}
    leased_ids = tx.execute(LOCK_QUEUES, {"hooks": list(locked), "dispatcher": dispatcher_id}).scalars()
    leased = {webhook_id: locked[webhook_id] for webhook_id in leased_ids}
    missing = [webhook_id for webhook_id in webhook_ids if webhook_id not in locked]
    if not missing:
        return leased, set()
    return leased, set(tx.execute(FIND_LEASED, {"hooks": missing, "dispatcher": dispatcher_id}).scalars())


def _outcome_columns(
    outcomes: Sequence[DeliveryOutcome], destinations: Mapping[int, tuple[str, str]]
) -> dict[str, object]:
    return {
        "ids": [outcome.delivery.id for outcome in outcomes],
        "created": [outcome.delivery.created_at for outcome in outcomes],
        "statuses": [outcome.status for outcome in outcomes],
        "attempts": [int(isinstance(outcome.delivery, DueDelivery)) for outcome in outcomes],
        "payloads": [_payload_to_store(outcome, destinations) for outcome in outcomes],
        "next_at": [outcome.next_at for outcome in outcomes],
        "response_statuses": [outcome.response_status for outcome in outcomes],
        "response_bodies": [outcome.response_body for outcome in outcomes],
        "errors": [outcome.error for outcome in outcomes],
    }


def _payload_to_store(outcome: DeliveryOutcome, destinations: Mapping[int, tuple[str, str]]) -> str | None:
    """None where a retry goes to a new destination: its payload is built again."""
    delivery = outcome.delivery
    if isinstance(delivery, InvalidDelivery):
        return None
    is_moved = destinations[delivery.webhook_id] != (delivery.verb, delivery.url)
    return None if is_moved and not outcome.is_final else delivery.payload


def _record_health(tx: Tx, dispatcher_id: UUID, healths: Mapping[int, EndpointHealth], *, now: datetime) -> None:
    healthy_ids = [webhook_id for webhook_id, health in healths.items() if health.failures == 0]
    if healthy_ids:
        tx.execute(
            RETRY_WAITING_NOW,
            {"hooks": healthy_ids, "dispatcher": dispatcher_id, "broken": rules.CIRCUIT_BREAKER_FAILURES, "now": now},
        )
    params = {
        "dispatcher": dispatcher_id,
        "hooks": list(healths),
        "failures": [health.failures for health in healths.values()],
        "failing_since": [health.failing_since for health in healths.values()],
        "backoff_until": [health.backoff_until for health in healths.values()],
    }
    tx.execute(UPDATE_HEALTH, params)


def _update_webhooks(tx: Tx, recorded_outcomes: Sequence[DeliveryOutcome], *, now: datetime) -> None:
    """A success resets a failing subscription; a final failure marks it failing."""
    delivered_counts: dict[int, int] = {}
    error_messages: dict[int, str | None] = {}
    failures: dict[int, tuple[str | None, datetime]] = {}
    gone_ids: set[int] = set()
    for outcome in recorded_outcomes:
        if isinstance(outcome.delivery, InvalidDelivery):  # its receiver is not to blame
            continue
        webhook_id = outcome.delivery.webhook_id
        delivered_counts[webhook_id] = delivered_counts.get(webhook_id, 0) + outcome.is_delivered
        error_messages[webhook_id] = outcome.error_message
        if outcome.is_gone:
            gone_ids.add(webhook_id)
        if outcome.is_delivered:
            failures.pop(webhook_id, None)
        elif outcome.is_final:
            oldest = min(
                outcome.delivery.created_at,
                failures[webhook_id][1] if webhook_id in failures else outcome.delivery.created_at,
            )
            failures[webhook_id] = outcome.error_message, oldest
    params = {
        "hooks": list(delivered_counts),
        "delivered": list(delivered_counts.values()),
        "errors": [error_messages[webhook_id] for webhook_id in delivered_counts],
    }
    tx.execute(UPDATE_WEBHOOKS, params)
    for webhook_id in sorted(gone_ids | set(failures)):
        if webhook_id in gone_ids:
            webhook_failures.disable_webhook(tx, webhook_id, reason=webhook_failures.GONE_ERROR, now=now)
        else:
            error, since = failures[webhook_id]
            webhook_failures.mark_failing(tx, webhook_id, error=error, since=since, now=now)
