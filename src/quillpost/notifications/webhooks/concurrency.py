"""What is in the air: how many deliveries each receiver is sent at once, and who goes next.

All of it lives in one event loop, and nothing here waits, reads a clock or a database.
"""

from collections import deque
from collections.abc import Iterable
from datetime import datetime, timedelta

from quillpost.notifications.webhooks import rules
from quillpost.notifications.webhooks.outcomes import DeliveryOutcome
from quillpost.notifications.webhooks.payloads import QUEUE_START, READ_OVERLAP, DueDelivery, QueueCursor
from quillpost.notifications.webhooks.queries import HEALTHY_ENDPOINT, EndpointHealth, Lease

MAX_IN_FLIGHT = 1_000
"""How many deliveries one pump has in the air."""

INITIAL_CONCURRENCY, MAX_CONCURRENCY = 2, 20
"""How many of them one receiver has: few until it has answered."""

MAX_READY = 10 * MAX_CONCURRENCY
"""How many of a lane lie ready at most."""


class EndpointQueue:
    """A lane that this pump holds: what it has read from there, and how its receiver does."""

    def __init__(self, lease: Lease, *, leased_at: float) -> None:
        self.lease = lease
        self.leased_at = leased_at
        self.ready: deque[DueDelivery] = deque()
        self.unacknowledged_ids: set[int] = set()
        """All that was read and is not written down yet as settled: ready, in the air, or just landed."""
        self.in_flight = 0
        self.started_since_read = 0
        """How many have gone out since the lane was read last."""
        self.concurrency_window = float(INITIAL_CONCURRENCY)
        self.has_succeeded = False
        self.health = self.recorded_health = lease.health
        self.cursor = QUEUE_START
        self.rewound_at = self.read_at = leased_at
        self.is_exhausted = False
        self.has_new_arrivals = False
        """Whether more has come in than what was read from its start."""
        self.is_blocked = False
        """Whether what has landed cannot be written down now, as somebody changes the subscription."""
        self.is_closed = not lease.is_active
        self.is_yielding = False
        self.is_scheduled = False

    @property
    def is_untrusted(self) -> bool:
        return not self.has_succeeded or self.health.failures > 0

    @property
    def concurrency(self) -> int:
        """One at a time for a receiver that has just been left alone."""
        return 1 if self.health.failures >= rules.CIRCUIT_BREAKER_FAILURES else int(self.concurrency_window)

    def is_backing_off(self, now: datetime) -> bool:
        return self.health.resting_until is not None and self.health.resting_until > now

    def can_send(self, now: datetime) -> bool:
        """Whether anything may go out: the lane must be ours still, and its receiver willing."""
        is_leased = self.lease.leased_until > now and not self.is_yielding and not self.is_blocked
        return is_leased and not self.is_closed and not self.is_backing_off(now)

    @property
    def has_startable(self) -> bool:
        return bool(self.ready) and self.in_flight < self.concurrency

    def can_start(self, now: datetime) -> bool:
        return self.has_startable and self.can_send(now)

    def read_limit(self, now: datetime) -> int:
        """How many more to read: enough to go on with until the next reading, judged by how many have gone
        out since the last, and no more: what is paused or moved meanwhile was read in vain."""
        ready_count, target_depth = (
            len(self.ready),
            min(max(2 * self.concurrency, 2 * self.started_since_read), MAX_READY),
        )
        return target_depth - ready_count if self.can_send(now) and ready_count <= target_depth // 2 else 0

    def read_cursor(self, now: datetime) -> tuple[datetime, int]:
        """Where to read on. What was settled lies behind that place, perhaps by the thousand: whoever comes
        by there again has to look at each."""
        return min(self.cursor, (now - READ_OVERLAP, 0))

    def advance_cursor(self, cursor: QueueCursor | None, *, now: datetime) -> None:
        """The lane was read up to there, or to its end. What came in meanwhile may bear an earlier time than
        what was read: a lane is at its end when it was read from its start after it was woken last."""
        self.is_exhausted = cursor is None
        self.cursor = cursor or (now, 0)
        if self.is_exhausted and self.has_new_arrivals:
            self.has_new_arrivals = False
            self.rewind()

    def rewind(self) -> None:
        self.cursor = QUEUE_START
        self.is_exhausted = False

    def set_blocked(self, is_blocked: bool) -> None:
        """Nothing more goes out until what has landed is written down; then its streams go on."""
        if self.is_blocked and not is_blocked:
            self.rewind()
        self.is_blocked = is_blocked

    def discard_ready(self) -> None:
        """What was read is read anew, if at all."""
        self.unacknowledged_ids.difference_update(delivery.id for delivery in self.ready)
        self.ready.clear()
        self.rewind()

    def update_lease(self, lease: Lease) -> None:
        """The lane as it was found just now."""
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
        """One that was in the air has come home. Failures that were in the air together are one lesson: once
        the receiver is left alone, they make it no worse."""
        self.in_flight -= 1
        if outcome.is_delivered:
            self.concurrency_window = min(self.concurrency_window + 1, MAX_CONCURRENCY)
            self.has_succeeded = True
            self.health = HEALTHY_ENDPOINT
            return
        self.concurrency_window = max(self.concurrency_window / 2, 1)
        self.is_closed = self.is_closed or outcome.is_gone
        previous = self.health
        backoff_ends = [
            backoff_end
            for backoff_end in (previous.resting_until,)
            if self.is_backing_off(now) and backoff_end is not None
        ]
        failures = previous.failures if backoff_ends else previous.failures + 1
        if outcome.backoff_seconds:
            backoff_ends.append(now + min(timedelta(seconds=outcome.backoff_seconds), rules.MAX_BACKOFF))
        if failures != previous.failures and (backoff := rules.backoff_after(failures)):
            backoff_ends.append(now + backoff)
        self.health = EndpointHealth(failures, previous.troubled_since or now, max(backoff_ends, default=None))
        if backoff_ends or self.is_closed:
            self.discard_ready()


class InFlightDeliveries:
    """The places, and the lanes that wait for one: each in its turn, so that none waits for long.

    Receivers that have not answered yet, or failed lately, together have half of the places: those that hang
    cannot take all of them.
    """

    def __init__(self, max_in_flight: int = MAX_IN_FLIGHT) -> None:
        self._max_in_flight = max_in_flight
        self.in_flight = 0
        self.untrusted_in_flight = 0
        """How many of them are with receivers that may hang."""
        self._trusted: deque[EndpointQueue] = deque()
        self._untrusted: deque[EndpointQueue] = deque()

    def schedule_queues(self, queues: Iterable[EndpointQueue]) -> None:
        """Those that have something to send, and are not waiting already."""
        for queue in queues:
            if not queue.is_scheduled and queue.has_startable:
                self._schedule(queue)

    def start_next(self, *, now: datetime) -> tuple[EndpointQueue, DueDelivery] | None:
        """The next to go out, if there is one and a place for it."""
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
        """See the lane as it is now; that may take a doubt away."""
        untrusted_before = queue.in_flight * queue.is_untrusted
        queue.update_lease(lease)
        self.untrusted_in_flight += queue.in_flight * queue.is_untrusted - untrusted_before

    def _schedule(self, queue: EndpointQueue) -> None:
        queue.is_scheduled = True
        (self._untrusted if queue.is_untrusted else self._trusted).append(queue)

    def _next_queue(self) -> EndpointQueue | None:
        """Turn about between the two kinds, while both have room."""
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
