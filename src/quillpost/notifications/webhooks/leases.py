"""Leases of endpoint queues, as one dispatcher holds them, and its steps in the database."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

from quillpost.core.database import Tx
from quillpost.notifications.webhooks import outcomes, payloads, queries, service
from quillpost.notifications.webhooks.concurrency import INITIAL_CONCURRENCY, EndpointQueue, InFlightDeliveries
from quillpost.notifications.webhooks.outcomes import DeliveryOutcome
from quillpost.notifications.webhooks.payloads import QUEUE_START, DeliveryBatch, InvalidDelivery, QueueRead
from quillpost.notifications.webhooks.queries import EndpointHealth, Lease, force_index_plans


@dataclass(frozen=True, slots=True)
class StepRequest:
    """All that a dispatcher writes and reads in one transaction."""

    outcomes: Sequence[DeliveryOutcome] = ()
    healths: Mapping[int, EndpointHealth] = field(default_factory=dict)
    check_ids: Sequence[int] = ()
    renew_ids: Sequence[int] = ()
    empty_queues: Mapping[int, int] = field(default_factory=dict)
    """By subscription, its arrivals when it was seen empty."""
    release_ids: Sequence[int] = ()
    reads: Sequence[QueueRead] = ()
    finished_streams: Sequence[tuple[Lease, str]] = ()
    unacknowledged_ids: Sequence[int] = ()
    lease_limit: int = 0


@dataclass(frozen=True, slots=True)
class StepResult:
    checked_leases: Mapping[int, Lease]  # those that are still this dispatcher's
    blocked_ids: set[int]  # locked, so no outcome could be recorded
    released_ids: set[int]
    new_leases: Sequence[Lease]
    unfinished_ids: set[int]  # disabled, with deliveries left to fail
    reads: Sequence[QueueRead]
    batch: DeliveryBatch
    now: datetime


def run_step(tx: Tx, dispatcher_id: UUID, request: StepRequest, *, lease_until: datetime, now: datetime) -> StepResult:
    """Outcomes are recorded first, so that what is read afterward takes them into account."""
    force_index_plans(tx)
    blocked_ids: set[int] = set()
    if request.outcomes or request.healths:
        blocked_ids = outcomes.record_outcomes(
            tx, dispatcher_id, request.outcomes, request.healths, now=now
        ).blocked_ids
    if request.renew_ids:
        queries.renew_leases(tx, dispatcher_id, request.renew_ids, until=lease_until)
    checked_leases = queries.read_leases(tx, dispatcher_id, request.check_ids) if request.check_ids else []
    released_ids: set[int] = set()
    if request.empty_queues:
        released_ids = queries.release_empty_queues(tx, dispatcher_id, request.empty_queues, now=now)
    if release_ids := set(request.release_ids) - blocked_ids:
        released_ids |= queries.release_queues(tx, dispatcher_id, release_ids, now=now)
    new_leases: list[Lease] = []
    if request.lease_limit:
        new_leases = queries.lease_queues(tx, dispatcher_id, limit=request.lease_limit, until=lease_until, now=now)
    disabled_ids = [lease.webhook_id for lease in (*checked_leases, *new_leases) if lease.status == "disabled"]
    unfinished_ids = {webhook_id for webhook_id in disabled_ids if service.fail_disabled_deliveries(tx, webhook_id)}
    reads = [
        *request.reads,
        *(QueueRead(lease, QUEUE_START, 2 * INITIAL_CONCURRENCY) for lease in new_leases if lease.is_active),
    ]
    batch = DeliveryBatch([], {})
    if reads or request.finished_streams:
        batch = payloads.read_batch(
            tx, reads, finished_streams=request.finished_streams, unacknowledged_ids=request.unacknowledged_ids, now=now
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


MAX_QUEUES = 500
QUEUES_PER_STEP = 100  # so that dispatchers which start together share the queues
LEASE_CHECK_SECONDS = 0.25
EXHAUSTED_READ_SECONDS = 0.5
REWIND_SECONDS = 30.0
"""A queue is read from its start that often: deliveries committed late lie before the cursor."""

FAIRNESS_SECONDS = 10.0  # how long a queue is kept while others wait


class LeaseManager:
    """`at` is the event loop's time in seconds, `now` that of the database."""

    def __init__(self, in_flight: InFlightDeliveries, lease_duration: timedelta) -> None:
        self._in_flight = in_flight
        self._lease_duration = lease_duration
        self._queues: dict[int, EndpointQueue] = {}
        self._unrecorded_outcomes: list[DeliveryOutcome] = []
        self._leases_checked_at = float("-inf")
        self._unfinished_ids: set[int] = set()
        self._has_more_queues = True
        self.is_busy = True

    def add_outcome(self, outcome: DeliveryOutcome) -> int:
        """To be recorded in the next step; how many there are."""
        self._unrecorded_outcomes.append(outcome)
        return len(self._unrecorded_outcomes)

    def expect_deliveries(self) -> None:
        self._has_more_queues = True

    def build_request(self, *, now: datetime, at: float) -> StepRequest:
        must_check_leases = self._has_more_queues or at - self._leases_checked_at >= LEASE_CHECK_SECONDS
        if must_check_leases:
            self._leases_checked_at = at
            self._yield_for_fairness(at)
        recorded_outcomes, self._unrecorded_outcomes = self._unrecorded_outcomes, []
        finished_streams = {
            (outcome.delivery.webhook_id, outcome.delivery.stream): queue.lease
            for outcome in recorded_outcomes
            if outcome.is_final and (queue := self._queues.get(outcome.delivery.webhook_id)) and queue.can_send(now)
        }
        reads = [
            self._build_read(queue, now, at) for queue in self._queues.values() if self._should_read(queue, now, at)
        ]
        read_ids = {outcome.lease.webhook_id for outcome in reads} | {webhook_id for webhook_id, _ in finished_streams}
        return StepRequest(
            outcomes=recorded_outcomes,
            healths=self._changed_healths(),
            check_ids=list(self._queues) if must_check_leases else [],
            renew_ids=[
                webhook_id
                for webhook_id, queue in self._queues.items()
                if must_check_leases and queue.lease.leased_until - now < self._lease_duration / 2
            ],
            empty_queues={
                webhook_id: queue.lease.woken
                for webhook_id, queue in self._queues.items()
                if self._can_release(queue, now)
            },
            release_ids=[
                webhook_id
                for webhook_id, queue in self._queues.items()
                if queue.is_yielding and not queue.unacknowledged_ids
            ],
            reads=reads,
            finished_streams=[(lease, stream) for (_, stream), lease in finished_streams.items()],
            unacknowledged_ids=[
                delivery_id for webhook_id in read_ids for delivery_id in self._queues[webhook_id].unacknowledged_ids
            ],
            lease_limit=min(MAX_QUEUES - len(self._queues), QUEUES_PER_STEP) if must_check_leases else 0,
        )

    def build_final_request(self) -> StepRequest:
        """Record everything, and release every queue without requests in flight."""
        recorded_outcomes, self._unrecorded_outcomes = self._unrecorded_outcomes, []
        idle_ids = [webhook_id for webhook_id, queue in self._queues.items() if not queue.in_flight]
        return StepRequest(outcomes=recorded_outcomes, healths=self._changed_healths(), release_ids=idle_ids)

    def requeue_outcomes(self, request: StepRequest, blocked_ids: set[int] | None = None) -> None:
        """All outcomes after a failed step; else those that could not be recorded."""
        unrecorded = [
            outcome for outcome in request.outcomes if blocked_ids is None or outcome.delivery.webhook_id in blocked_ids
        ]
        self._unrecorded_outcomes = [*unrecorded, *self._unrecorded_outcomes]

    def apply_result(self, request: StepRequest, result: StepResult, *, at: float) -> None:
        self.requeue_outcomes(request, result.blocked_ids)
        self._acknowledge(request, result.blocked_ids)
        for webhook_id in request.check_ids:
            if webhook_id in result.checked_leases:
                self._in_flight.update_lease(self._queues[webhook_id], result.checked_leases[webhook_id])
            else:
                self._queues.pop(webhook_id).discard_ready()
        for webhook_id in result.released_ids:
            self._queues.pop(webhook_id, None)
        for webhook_id in set(request.empty_queues) & set(self._queues):
            self._queues[webhook_id].rewind()
        for lease in result.new_leases:
            if lease.webhook_id in self._queues:
                self._in_flight.update_lease(self._queues[lease.webhook_id], lease)
            else:
                self._queues[lease.webhook_id] = EndpointQueue(lease, leased_at=at)
        self._unfinished_ids = result.unfinished_ids
        self._add_batch(result)
        self._has_more_queues = 0 < request.lease_limit == len(result.new_leases)
        self._in_flight.schedule_queues(self._queues.values())
        self.is_busy = self._has_more_queues or any(
            self._can_release(queue, result.now) or self._should_read(queue, result.now, at)
            for queue in self._queues.values()
        )

    def _acknowledge(self, request: StepRequest, blocked_ids: set[int]) -> None:
        for outcome in request.outcomes:
            queue = self._queues.get(outcome.delivery.webhook_id)
            if queue and outcome.delivery.webhook_id not in blocked_ids:
                queue.unacknowledged_ids.discard(outcome.delivery.id)
        for webhook_id, health in request.healths.items():
            if webhook_id in self._queues and webhook_id not in blocked_ids:
                self._queues[webhook_id].recorded_health = health
        for webhook_id, queue in self._queues.items():
            queue.set_blocked(webhook_id in blocked_ids)

    def _add_batch(self, result: StepResult) -> None:
        for queue_read in result.reads:
            if queue := self._queues.get(queue_read.lease.webhook_id):
                cursors = result.batch.cursors.get(queue.lease.webhook_id, [])
                queue.advance_cursor(cursors[-1] if len(cursors) >= queue_read.limit else None, now=result.now)
        for delivery in result.batch.deliveries:
            queue = self._queues.get(delivery.webhook_id)
            if queue is None or delivery.id in queue.unacknowledged_ids:
                continue
            if isinstance(delivery, InvalidDelivery):
                queue.unacknowledged_ids.add(delivery.id)
                self._unrecorded_outcomes.append(outcomes.fail_invalid(delivery))
            elif queue.can_send(result.now) and (delivery.verb, delivery.url) == (queue.lease.verb, queue.lease.url):
                queue.unacknowledged_ids.add(delivery.id)
                queue.ready.append(delivery)
            else:
                queue.rewind()

    def _changed_healths(self) -> dict[int, EndpointHealth]:
        return {
            webhook_id: queue.health
            for webhook_id, queue in self._queues.items()
            if queue.health != queue.recorded_health
        }

    def _build_read(self, queue: EndpointQueue, now: datetime, at: float) -> QueueRead:
        if at - queue.rewound_at >= REWIND_SECONDS:
            queue.rewound_at = at
            queue.cursor = QUEUE_START
        limit = queue.read_limit(now)
        queue.read_at, queue.started_since_read = at, 0
        return QueueRead(queue.lease, queue.read_cursor(now), limit)

    def _should_read(self, queue: EndpointQueue, now: datetime, at: float) -> bool:
        return queue.read_limit(now) > 0 and (not queue.is_exhausted or at - queue.read_at >= EXHAUSTED_READ_SECONDS)

    def _can_release(self, queue: EndpointQueue, now: datetime) -> bool:
        """Whether nothing is to be sent for now, and all outcomes are recorded."""
        if queue.unacknowledged_ids or queue.is_yielding or queue.health != queue.recorded_health:
            return False
        if queue.lease.webhook_id in self._unfinished_ids:
            return False
        return queue.is_exhausted or queue.is_closed or queue.is_backing_off(now)

    def _yield_for_fairness(self, at: float) -> None:
        if len(self._queues) < MAX_QUEUES:
            return
        for queue in self._queues.values():
            if at - queue.leased_at >= FAIRNESS_SECONDS and not queue.is_yielding:
                queue.is_yielding = True
                queue.discard_ready()
