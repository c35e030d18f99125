"""What is in the air: how many deliveries each receiver is sent at once, and who goes next.

All of it lives in one event loop, and nothing here waits, reads a clock or a database.
"""

from collections import deque
from collections.abc import Iterable
from datetime import datetime, timedelta

from quillpost.notifications.webhooks import rules
from quillpost.notifications.webhooks.leases import HEALTHY, Health, Held
from quillpost.notifications.webhooks.outcomes import Outcome
from quillpost.notifications.webhooks.payloads import OVERLAP, START, Due, Place

PLACES = 1_000
"""How many deliveries one pump has in the air."""

FIRST_WINDOW, WIDEST_WINDOW = 2, 20
"""How many of them one receiver has: few until it has answered."""

DEEPEST = 10 * WIDEST_WINDOW
"""How many of a lane lie ready at most."""


class Lane:
    """A lane that this pump holds: what it has read from there, and how its receiver does."""

    def __init__(self, held: Held, *, since: float) -> None:
        self.held = held
        self.since = since
        self.ready: deque[Due] = deque()
        self.known: set[int] = set()
        """All that was read and is not written down yet as settled: ready, in the air, or just landed."""
        self.flying = 0
        self.started = 0
        """How many have gone out since the lane was read last."""
        self.window = float(FIRST_WINDOW)
        self.has_answered = False
        self.health = self.noted = held.health
        self.place = START
        self.swept_at = self.read_at = since
        self.is_dry = False
        self.is_stirred = False
        """Whether more has come in than what was read from its start."""
        self.is_held_up = False
        """Whether what has landed cannot be written down now, as somebody changes the subscription."""
        self.is_closed = not held.is_open
        self.is_yielding = False
        self.is_queued = False

    @property
    def is_doubtful(self) -> bool:
        return not self.has_answered or self.health.failures > 0

    @property
    def width(self) -> int:
        """One at a time for a receiver that has just been left alone."""
        return 1 if self.health.failures >= rules.BREAKS_AFTER else int(self.window)

    def is_resting(self, now: datetime) -> bool:
        return self.health.resting_until is not None and self.health.resting_until > now

    def is_open(self, now: datetime) -> bool:
        """Whether anything may go out: the lane must be ours still, and its receiver willing."""
        is_ours = self.held.leased_until > now and not self.is_yielding and not self.is_held_up
        return is_ours and not self.is_closed and not self.is_resting(now)

    @property
    def has_more(self) -> bool:
        return bool(self.ready) and self.flying < self.width

    def can_start(self, now: datetime) -> bool:
        return self.has_more and self.is_open(now)

    def wanted(self, now: datetime) -> int:
        """How many more to read: enough to go on with until the next reading, judged by how many have gone
        out since the last, and no more: what is paused or moved meanwhile was read in vain."""
        have, depth = len(self.ready), min(max(2 * self.width, 2 * self.started), DEEPEST)
        return depth - have if self.is_open(now) and have <= depth // 2 else 0

    def after(self, now: datetime) -> tuple[datetime, int]:
        """Where to read on. What was settled lies behind that place, perhaps by the thousand: whoever comes
        by there again has to look at each."""
        return min(self.place, (now - OVERLAP, 0))

    def come_to(self, place: Place | None, *, now: datetime) -> None:
        """The lane was read up to there, or to its end. What came in meanwhile may bear an earlier time than
        what was read: a lane is at its end when it was read from its start after it was woken last."""
        self.is_dry = place is None
        self.place = place or (now, 0)
        if self.is_dry and self.is_stirred:
            self.is_stirred = False
            self.start_over()

    def start_over(self) -> None:
        self.place = START
        self.is_dry = False

    def hold_up(self, is_held_up: bool) -> None:
        """Nothing more goes out until what has landed is written down; then its streams go on."""
        if self.is_held_up and not is_held_up:
            self.start_over()
        self.is_held_up = is_held_up

    def drop_ready(self) -> None:
        """What was read is read anew, if at all."""
        self.known.difference_update(due.id for due in self.ready)
        self.ready.clear()
        self.start_over()

    def see(self, held: Held) -> None:
        """The lane as it was found just now."""
        if held.woken != self.held.woken:
            self.is_dry = False
            self.is_stirred = True
            if held.health == HEALTHY != self.noted:
                self.health = self.noted = HEALTHY  # its owner wants it tried afresh, from its start
                self.drop_ready()
        if held.address != self.held.address:
            self.drop_ready()
        self.held = held
        self.is_closed = not held.is_open

    def land(self, outcome: Outcome, *, now: datetime) -> None:
        """One that was in the air has come home. Failures that were in the air together are one lesson: once
        the receiver is left alone, they make it no worse."""
        self.flying -= 1
        if outcome.is_delivered:
            self.window = min(self.window + 1, WIDEST_WINDOW)
            self.has_answered = True
            self.health = HEALTHY
            return
        self.window = max(self.window / 2, 1)
        self.is_closed = self.is_closed or outcome.is_gone
        was = self.health
        rests = [each for each in (was.resting_until,) if self.is_resting(now) and each is not None]
        failures = was.failures if rests else was.failures + 1
        if outcome.rest:
            rests.append(now + min(timedelta(seconds=outcome.rest), rules.LONGEST_REST))
        if failures != was.failures and (rest := rules.rest(failures)):
            rests.append(now + rest)
        self.health = Health(failures, was.troubled_since or now, max(rests, default=None))
        if rests or self.is_closed:
            self.drop_ready()


class Air:
    """The places, and the lanes that wait for one: each in its turn, so that none waits for long.

    Receivers that have not answered yet, or failed lately, together have half of the places: those that hang
    cannot take all of them.
    """

    def __init__(self, places: int = PLACES) -> None:
        self._places = places
        self.flying = 0
        self.in_doubt = 0
        """How many of them are with receivers that may hang."""
        self._trusted: deque[Lane] = deque()
        self._doubtful: deque[Lane] = deque()

    def queue(self, lanes: Iterable[Lane]) -> None:
        """Those that have something to send, and are not waiting already."""
        for lane in lanes:
            if not lane.is_queued and lane.has_more:
                self._append(lane)

    def take(self, *, now: datetime) -> tuple[Lane, Due] | None:
        """The next to go out, if there is one and a place for it."""
        while self.flying < self._places:
            lane = self._next_lane()
            if lane is None:
                return None
            lane.is_queued = False
            if not lane.can_start(now):
                continue
            if lane.is_doubtful and self.in_doubt >= self._places // 2:
                self._append(lane)  # it failed while it waited among those that do not
                continue
            due = lane.ready.popleft()
            lane.flying += 1
            lane.started += 1
            self.flying += 1
            self.in_doubt += lane.is_doubtful
            if lane.has_more:
                self._append(lane)
            return lane, due
        return None

    def land(self, lane: Lane, outcome: Outcome, *, now: datetime) -> None:
        was_doubtful = lane.flying * lane.is_doubtful
        lane.land(outcome, now=now)
        self.in_doubt += lane.flying * lane.is_doubtful - was_doubtful
        self.flying -= 1
        if not lane.is_queued and lane.has_more:
            self._append(lane)

    def reassess(self, lane: Lane, held: Held) -> None:
        """See the lane as it is now; that may take a doubt away."""
        was_doubtful = lane.flying * lane.is_doubtful
        lane.see(held)
        self.in_doubt += lane.flying * lane.is_doubtful - was_doubtful

    def _append(self, lane: Lane) -> None:
        lane.is_queued = True
        (self._doubtful if lane.is_doubtful else self._trusted).append(lane)

    def _next_lane(self) -> Lane | None:
        """Turn about between the two kinds, while both have room."""
        has_room = self.in_doubt < self._places // 2
        if self._doubtful and has_room and (not self._trusted or self.in_doubt * 2 <= self.flying):
            return self._doubtful.popleft()
        if self._trusted:
            return self._trusted.popleft()
        return self._doubtful.popleft() if self._doubtful and has_room else None
