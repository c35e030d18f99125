"""How many deliveries each endpoint has in flight, and which is next. All of it runs in one event loop, without clock
or database."""

from collections import deque
from collections.abc import Iterable
from datetime import datetime, timedelta

from quillpost.notifications.webhooks import rules
from quillpost.notifications.webhooks.outcomes import DeliveryOutcome
from quillpost.notifications.webhooks.payloads import QUEUE_START, READ_OVERLAP, DueDelivery, QueueCursor
from quillpost.notifications.webhooks.queries import HEALTHY_ENDPOINT, EndpointHealth, Lease

MAX_IN_FLIGHT = 1_000  # of one dispatcher
INITIAL_CONCURRENCY, MAX_CONCURRENCY = 2, 20  # of one endpoint
MAX_READY = 10 * MAX_CONCURRENCY  # deliveries read ahead of an endpoint


class EndpointQueue:
    """An endpoint whose lease this dispatcher holds: its deliveries, concurrency and health."""

    def __init__(self, lease: Lease, *, leased_at: float) -> None:
        self.lease = lease
        self.leased_at = leased_at
        self.ready: deque[DueDelivery] = deque()
        self.unacknowledged_ids: set[int] = set()
        """Read, but not recorded as settled: ready, in flight, or just completed."""
        self.in_flight = 0
        self.started_since_read = 0
        self.concurrency_window = float(INITIAL_CONCURRENCY)
        self.has_succeeded = False
        self.health = self.recorded_health = lease.health
        self.cursor = QUEUE_START
        self.rewound_at = self.read_at = leased_at
        self.is_exhausted = False
        self.has_new_arrivals = False  # deliveries arrived since it was read from its start
        self.is_blocked = False  # outcomes cannot be recorded, as the subscription is locked
        self.is_closed = not lease.is_active
        self.is_yielding = False
        self.is_scheduled = False

    @property
    def is_untrusted(self) -> bool:
        return not self.has_succeeded or self.health.failures > 0

    @property
    def concurrency(self) -> int:
        """One at a time while the circuit breaker is half open."""
        return 1 if self.health.failures >= rules.CIRCUIT_BREAKER_FAILURES else int(self.concurrency_window)

    def is_backing_off(self, now: datetime) -> bool:
        return self.health.backoff_until is not None and self.health.backoff_until > now

    def can_send(self, now: datetime) -> bool:
        """Whether the lease is valid and the endpoint accepts deliveries."""
        is_leased = self.lease.leased_until > now and not self.is_yielding and not self.is_blocked
        return is_leased and not self.is_closed and not self.is_backing_off(now)

    @property
    def has_startable(self) -> bool:
        return bool(self.ready) and self.in_flight < self.concurrency

    def can_start(self, now: datetime) -> bool:
        return self.has_startable and self.can_send(now)

    def read_limit(self, now: datetime) -> int:
        """How many more to read: enough until the next read, judged by how many were started since the last, and no
        more, as they are read in vain where the subscription is paused or changed meanwhile."""
        ready_count = len(self.ready)
        target_depth = min(max(2 * self.concurrency, 2 * self.started_since_read), MAX_READY)
        return target_depth - ready_count if self.can_send(now) and ready_count <= target_depth // 2 else 0

    def read_cursor(self, now: datetime) -> tuple[datetime, int]:
        """Where to read on: settled deliveries before it, maybe thousands, are not scanned again."""
        return min(self.cursor, (now - READ_OVERLAP, 0))

    def advance_cursor(self, cursor: QueueCursor | None, *, now: datetime) -> None:
        """The queue was read up to there, or to its end. Deliveries that arrived meanwhile may be due earlier: it is
        exhausted only if it was read from its start after the last arrival."""
        self.is_exhausted = cursor is None
        self.cursor = cursor or (now, 0)
        if self.is_exhausted and self.has_new_arrivals:
            self.has_new_arrivals = False
            self.rewind()

    def rewind(self) -> None:
        self.cursor = QUEUE_START
        self.is_exhausted = False

    def set_blocked(self, is_blocked: bool) -> None:
        """Nothing is sent until outcomes can be recorded; then its streams go on."""
        if self.is_blocked and not is_blocked:
            self.rewind()
        self.is_blocked = is_blocked

    def discard_ready(self) -> None:
        self.unacknowledged_ids.difference_update(delivery.id for delivery in self.ready)
        self.ready.clear()
        self.rewind()

    def update_lease(self, lease: Lease) -> None:
        if lease.woken != self.lease.woken:
            self.is_exhausted = False
            self.has_new_arrivals = True
            if lease.health == HEALTHY_ENDPOINT != self.recorded_health:
                self.health = self.recorded_health = HEALTHY_ENDPOINT  # its owner wants it tried afresh, from its start
                self.discard_ready()
        if lease.destination != self.lease.destination:
            self.discard_ready()
        self.lease = lease
        self.is_closed = not lease.is_active

    def complete_delivery(self, outcome: DeliveryOutcome, *, now: datetime) -> None:
        """Update concurrency and health. Failures that were in flight together count once: during a backoff they do not
        extend it."""
        self.in_flight -= 1
        if outcome.is_delivered:
            self.concurrency_window = min(self.concurrency_window + 1, MAX_CONCURRENCY)
            self.has_succeeded = True
            self.health = HEALTHY_ENDPOINT
            return
        self.concurrency_window = max(self.concurrency_window / 2, 1)
        self.is_closed = self.is_closed or outcome.is_gone
        previous = self.health
        backoff_ends = [previous.backoff_until] if previous.backoff_until and self.is_backing_off(now) else []
        failures = previous.failures if backoff_ends else previous.failures + 1
        if outcome.backoff_seconds:
            backoff_ends.append(now + min(timedelta(seconds=outcome.backoff_seconds), rules.MAX_BACKOFF))
        if failures != previous.failures and (backoff := rules.backoff_after(failures)):
            backoff_ends.append(now + backoff)
        self.health = EndpointHealth(failures, previous.failing_since or now, max(backoff_ends, default=None))
        if backoff_ends or self.is_closed:
            self.discard_ready()


class InFlightDeliveries:
    """All deliveries in flight, and a fair schedule of endpoints. Endpoints that have not answered yet, or failed
    lately, share half of the capacity, so that those that hang cannot take all of it."""

    def __init__(self, max_in_flight: int = MAX_IN_FLIGHT) -> None:
        self._max_in_flight = max_in_flight
        self.in_flight = 0
        self.untrusted_in_flight = 0  # with endpoints that may hang
        self._trusted: deque[EndpointQueue] = deque()
        self._untrusted: deque[EndpointQueue] = deque()

    def schedule_queues(self, queues: Iterable[EndpointQueue]) -> None:
        for queue in queues:
            if not queue.is_scheduled and queue.has_startable:
                self._schedule(queue)

    def start_next(self, *, now: datetime) -> tuple[EndpointQueue, DueDelivery] | None:
        """The next delivery to send, if there is one and capacity for it."""
        while self.in_flight < self._max_in_flight:
            queue = self._next_queue()
            if queue is None:
                return None
            queue.is_scheduled = False
            if not queue.can_start(now):
                continue
            if queue.is_untrusted and self.untrusted_in_flight >= self._max_in_flight // 2:
                self._schedule(queue)  # it failed while it waited among those that do not
                continue
            delivery = queue.ready.popleft()
            queue.in_flight += 1
            queue.started_since_read += 1
            self.in_flight += 1
            self.untrusted_in_flight += queue.is_untrusted
            if queue.has_startable:
                self._schedule(queue)
            return queue, delivery
        return None

    def complete_delivery(self, queue: EndpointQueue, outcome: DeliveryOutcome, *, now: datetime) -> None:
        untrusted_before = queue.in_flight * queue.is_untrusted
        queue.complete_delivery(outcome, now=now)
        self.untrusted_in_flight += queue.in_flight * queue.is_untrusted - untrusted_before
        self.in_flight -= 1
        if not queue.is_scheduled and queue.has_startable:
            self._schedule(queue)

    def update_lease(self, queue: EndpointQueue, lease: Lease) -> None:
        untrusted_before = queue.in_flight * queue.is_untrusted
        queue.update_lease(lease)
        self.untrusted_in_flight += queue.in_flight * queue.is_untrusted - untrusted_before

    def _schedule(self, queue: EndpointQueue) -> None:
        queue.is_scheduled = True
        (self._untrusted if queue.is_untrusted else self._trusted).append(queue)

    def _next_queue(self) -> EndpointQueue | None:
        """Alternate between trusted and untrusted endpoints, while both have capacity."""
        has_untrusted_capacity = self.untrusted_in_flight < self._max_in_flight // 2
        if (
            self._untrusted
            and has_untrusted_capacity
            and (not self._trusted or self.untrusted_in_flight * 2 <= self.in_flight)
        ):
            return self._untrusted.popleft()
        if self._trusted:
            return self._trusted.popleft()
        return self._untrusted.popleft() if self._untrusted and has_untrusted_capacity else None
