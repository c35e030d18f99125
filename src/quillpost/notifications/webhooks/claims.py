"""One step of a pump: all that it asks of the database, in one transaction."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from quillpost.core.database import Tx
from quillpost.notifications.webhooks import failures, leases, outcomes, payloads
from quillpost.notifications.webhooks.concurrency import INITIAL_CONCURRENCY
from quillpost.notifications.webhooks.leases import EndpointHealth, Lease
from quillpost.notifications.webhooks.outcomes import DeliveryOutcome
from quillpost.notifications.webhooks.payloads import QUEUE_START, DeliveryBatch, QueueRead
from quillpost.notifications.webhooks.queries import force_index_plans


@dataclass(frozen=True, slots=True)
class StepRequest:
    """What the pump has to say and wants to know."""

    outcomes: Sequence[DeliveryOutcome] = ()
    healths: Mapping[int, EndpointHealth] = field(default_factory=dict)
    check_ids: Sequence[int] = ()
    renew_ids: Sequence[int] = ()
    empty_queues: Mapping[int, int] = field(default_factory=dict)
    """Lanes in which nothing is due, and how often each was woken when that was seen."""
    release_ids: Sequence[int] = ()
    reads: Sequence[QueueRead] = ()
    finished_streams: Sequence[tuple[Lease, str]] = ()
    unacknowledged_ids: Sequence[int] = ()
    lease_limit: int = 0


@dataclass(frozen=True, slots=True)
class StepResult:
    checked_leases: Mapping[int, Lease]
    """The lanes that were looked at and are still the pump's."""
    blocked_ids: set[int]
    """The subscriptions of which nothing could be written down now."""
    released_ids: set[int]
    new_leases: Sequence[Lease]
    unfinished_ids: set[int]
    """Lanes of subscriptions that were disabled, in which something waits still."""
    reads: Sequence[QueueRead]
    batch: DeliveryBatch
    now: datetime


def run_step(
    tx: Tx, dispatcher_id: UUID, step_request: StepRequest, *, lease_until: datetime, now: datetime
) -> StepResult:
    """What is to be told is told first: whatever is then read has been judged with it in mind."""
    force_index_plans(tx)
    blocked_ids: set[int] = set()
    if step_request.outcomes or step_request.healths:
        blocked_ids = outcomes.record_outcomes(
            tx, dispatcher_id, step_request.outcomes, step_request.healths, now=now
        ).blocked_ids
    if step_request.renew_ids:
        leases.renew_leases(tx, dispatcher_id, step_request.renew_ids, until=lease_until)
    checked_leases = leases.read_leases(tx, dispatcher_id, step_request.check_ids) if step_request.check_ids else []
    released_ids = (
        leases.release_empty_queues(tx, dispatcher_id, step_request.empty_queues, now=now)
        if step_request.empty_queues
        else set()
    )
    if release_ids := set(step_request.release_ids) - blocked_ids:
        released_ids |= leases.release_queues(tx, dispatcher_id, release_ids, now=now)
    new_leases = (
        leases.lease_queues(tx, dispatcher_id, limit=step_request.lease_limit, until=lease_until, now=now)
        if step_request.lease_limit
        else []
    )
    disabled_ids = [lease.webhook_id for lease in (*checked_leases, *new_leases) if lease.status == "disabled"]
    unfinished_ids = {webhook_id for webhook_id in disabled_ids if failures.fail_disabled_deliveries(tx, webhook_id)}
    reads = [
        *step_request.reads,
        *(QueueRead(lease, QUEUE_START, 2 * INITIAL_CONCURRENCY) for lease in new_leases if lease.is_active),
    ]
    batch = DeliveryBatch([], {})
    if reads or step_request.finished_streams:
        batch = payloads.read_batch(
            tx,
            reads,
            finished_streams=step_request.finished_streams,
            unacknowledged_ids=step_request.unacknowledged_ids,
            now=now,
        )
    return StepResult(
        checked_leases={lease.webhook_id: lease for lease in checked_leases},
        blocked_ids=blocked_ids,
        released_ids=released_ids,
        new_leases=new_leases,
        unfinished_ids=unfinished_ids,
        reads=reads,
        batch=batch,
        now=now,
    )
