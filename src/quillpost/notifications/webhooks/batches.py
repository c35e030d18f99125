"""The lanes that a pump holds: what it wants of the database next, and what it makes of the answer."""

from datetime import datetime, timedelta

from quillpost.notifications.webhooks import outcomes
from quillpost.notifications.webhooks.claims import Found, Wish
from quillpost.notifications.webhooks.concurrency import Air, Lane
from quillpost.notifications.webhooks.leases import Health
from quillpost.notifications.webhooks.outcomes import Outcome
from quillpost.notifications.webhooks.payloads import START, Ask, Unspeakable

MOST_LANES = 500
LANES_AT_ONCE = 100
"""So that pumps which start together share what there is."""

LOOK_EVERY = 0.25
READ_DRY_EVERY = 0.5
SWEEP_EVERY = 30.0
"""How often a lane is read from its start: what others wrote down late lies behind the place come to."""

TURN_SECONDS = 10.0
"""How long a lane keeps its place while others wait for one."""


class Holding:
    """Moments (`at`) are the event loop's, in seconds; times (`now`) are those that the database has."""

    def __init__(self, air: Air, lease: timedelta) -> None:
        self._air = air
        self._lease = lease
        self._lanes: dict[int, Lane] = {}
        self._landed: list[Outcome] = []
        self._looked_at = float("-inf")
        self._unfinished: set[int] = set()
        self._may_be_more = True
        self.is_busy = True

    def land(self, outcome: Outcome) -> int:
        """To be told with the next wish; how many there are to tell."""
        self._landed.append(outcome)
        return len(self._landed)

    def expect_more(self) -> None:
        """Something new may wait in any lane."""
        self._may_be_more = True

    def wish(self, *, now: datetime, at: float) -> Wish:
        must_look = self._may_be_more or at - self._looked_at >= LOOK_EVERY
        if must_look:
            self._looked_at = at
            self._let_others_have_a_turn(at)
        landed, self._landed = self._landed, []
        over = {
            (each.due.webhook_id, each.due.stream): lane.held
            for each in landed
            if each.is_over and (lane := self._lanes.get(each.due.webhook_id)) and lane.is_open(now)
        }
        asks = [
            self._ask(lane, now, at) for lane in self._lanes.values() if self._is_to_be_read(lane, now, at)
        ]
        asked = {each.lane.webhook_id for each in asks} | {hook for hook, _ in over}
        return Wish(
            outcomes=landed,
            healths=self._healths(),
            look_at=list(self._lanes) if must_look else [],
            renew=[hook for hook, lane in self._lanes.items() if must_look and self._is_soon_over(lane, now)],
            empty={hook: lane.held.woken for hook, lane in self._lanes.items() if self._is_empty(lane, now)},
            give_back=[hook for hook, lane in self._lanes.items() if lane.is_yielding and not lane.known],
            asks=asks,
            settled=[(held, stream) for (_, stream), held in over.items()],
            known=[number for hook in asked for number in self._lanes[hook].known],
            more_lanes=min(MOST_LANES - len(self._lanes), LANES_AT_ONCE) if must_look else 0,
        )

    def last_wish(self) -> Wish:
        """Tell everything, and let go of everything but what is in the air."""
        landed, self._landed = self._landed, []
        at_rest = [hook for hook, lane in self._lanes.items() if not lane.flying]
        return Wish(outcomes=landed, healths=self._healths(), give_back=at_rest)

    def take_back(self, wish: Wish) -> None:
        """Nobody heard it: it is said again."""
        self._landed = [*wish.outcomes, *self._landed]

    def put_off(self, wish: Wish, hooks: set[int]) -> None:
        """What came of attempts there could not be written down: it is said again."""
        again = [each for each in wish.outcomes if each.due.webhook_id in hooks]
        self._landed = [*again, *self._landed]

    def keep(self, wish: Wish, found: Found, *, at: float) -> None:
        """What was told is known now; what was found is there to be sent."""
        self.put_off(wish, found.put_off)
        self._forget_told(wish, found.put_off)
        for hook in wish.look_at:
            if hook in found.seen:
                self._air.reassess(self._lanes[hook], found.seen[hook])
            else:
                self._lanes.pop(hook).drop_ready()
        for hook in found.left:
            self._lanes.pop(hook, None)
        for hook in set(wish.empty) & set(self._lanes):
            self._lanes[hook].start_over()
        for held in found.leased:
            if held.webhook_id in self._lanes:
                self._air.reassess(self._lanes[held.webhook_id], held)
            else:
                self._lanes[held.webhook_id] = Lane(held, since=at)
        self._unfinished = found.unfinished
        self._take_in(found)
        self._may_be_more = 0 < wish.more_lanes == len(found.leased)
        self._air.queue(self._lanes.values())
        self.is_busy = self._may_be_more or any(
            self._is_empty(lane, found.now) or self._is_to_be_read(lane, found.now, at)
            for lane in self._lanes.values()
        )

    def _forget_told(self, wish: Wish, put_off: set[int]) -> None:
        for each in wish.outcomes:
            lane = self._lanes.get(each.due.webhook_id)
            if lane and each.due.webhook_id not in put_off:
                lane.known.discard(each.due.id)
        for hook, health in wish.healths.items():
            if hook in self._lanes and hook not in put_off:
                self._lanes[hook].noted = health
        for hook, lane in self._lanes.items():
            lane.hold_up(hook in put_off)

    def _take_in(self, found: Found) -> None:
        for ask in found.asks:
            if lane := self._lanes.get(ask.lane.webhook_id):
                places = found.reading.places.get(lane.held.webhook_id, [])
                lane.come_to(places[-1] if len(places) >= ask.most else None, now=found.now)
        for due in found.reading.due:
            lane = self._lanes.get(due.webhook_id)
            if lane is None or due.id in lane.known:
                continue
            if isinstance(due, Unspeakable):
                lane.known.add(due.id)
                self._landed.append(outcomes.give_up(due))
            elif lane.is_open(found.now) and (due.verb, due.url) == (lane.held.verb, lane.held.url):
                lane.known.add(due.id)
                lane.ready.append(due)
            else:
                lane.start_over()

    def _healths(self) -> dict[int, Health]:
        return {hook: lane.health for hook, lane in self._lanes.items() if lane.health != lane.noted}

    def _ask(self, lane: Lane, now: datetime, at: float) -> Ask:
        if at - lane.swept_at >= SWEEP_EVERY:
            lane.swept_at = at
            lane.place = START
        wanted = lane.wanted(now)
        lane.read_at, lane.started = at, 0
        return Ask(lane.held, lane.after(now), wanted)

    def _is_to_be_read(self, lane: Lane, now: datetime, at: float) -> bool:
        return lane.wanted(now) > 0 and (not lane.is_dry or at - lane.read_at >= READ_DRY_EVERY)

    def _is_empty(self, lane: Lane, now: datetime) -> bool:
        """Whether to leave it: nothing goes out there for now, and all that did has been written down."""
        if lane.known or lane.is_yielding or lane.health != lane.noted:
            return False
        if lane.held.webhook_id in self._unfinished:
            return False
        return lane.is_dry or lane.is_closed or lane.is_resting(now)

    def _is_soon_over(self, lane: Lane, now: datetime) -> bool:
        return lane.held.leased_until - now < self._lease / 2

    def _let_others_have_a_turn(self, at: float) -> None:
        if len(self._lanes) < MOST_LANES:
            return
        for lane in self._lanes.values():
            if at - lane.since >= TURN_SECONDS and not lane.is_yielding:
                lane.is_yielding = True
                lane.drop_ready()
