"""One step of a pump: all that it asks of the database, in one transaction."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from quillpost.core.database import Tx
from quillpost.notifications.webhooks import failures, leases, outcomes, payloads
from quillpost.notifications.webhooks.concurrency import FIRST_WINDOW
from quillpost.notifications.webhooks.leases import Health, Held
from quillpost.notifications.webhooks.outcomes import Outcome
from quillpost.notifications.webhooks.payloads import START, Ask, Reading
from quillpost.notifications.webhooks.queries import by_index


@dataclass(frozen=True, slots=True)
class Wish:
    """What the pump has to say and wants to know."""

    outcomes: Sequence[Outcome] = ()
    healths: Mapping[int, Health] = field(default_factory=dict)
    look_at: Sequence[int] = ()
    renew: Sequence[int] = ()
    empty: Mapping[int, int] = field(default_factory=dict)
    """Lanes in which nothing is due, and how often each was woken when that was seen."""
    give_back: Sequence[int] = ()
    asks: Sequence[Ask] = ()
    settled: Sequence[tuple[Held, str]] = ()
    known: Sequence[int] = ()
    more_lanes: int = 0


@dataclass(frozen=True, slots=True)
class Found:
    seen: Mapping[int, Held]
    """The lanes that were looked at and are still the pump's."""
    put_off: set[int]
    """The subscriptions of which nothing could be written down now."""
    left: set[int]
    leased: Sequence[Held]
    unfinished: set[int]
    """Lanes of subscriptions that were disabled, in which something waits still."""
    asks: Sequence[Ask]
    reading: Reading
    now: datetime


def take(tx: Tx, pump: UUID, wish: Wish, *, lease_until: datetime, now: datetime) -> Found:
    """What is to be told is told first: whatever is then read has been judged with it in mind."""
    by_index(tx)
    put_off: set[int] = set()
    if wish.outcomes or wish.healths:
        put_off = outcomes.record(tx, pump, wish.outcomes, wish.healths, now=now).put_off
    if wish.renew:
        leases.renew(tx, pump, wish.renew, until=lease_until)
    seen = leases.look(tx, pump, wish.look_at) if wish.look_at else []
    left = leases.leave(tx, pump, wish.empty, now=now) if wish.empty else set()
    if give_back := set(wish.give_back) - put_off:
        left |= leases.hand_back(tx, pump, give_back, now=now)
    leased = (
        leases.lease(tx, pump, most=wish.more_lanes, until=lease_until, now=now) if wish.more_lanes else []
    )
    disabled = [held.webhook_id for held in (*seen, *leased) if held.status == "disabled"]
    unfinished = {webhook_id for webhook_id in disabled if failures.clear_disabled(tx, webhook_id)}
    asks = [*wish.asks, *(Ask(held, START, 2 * FIRST_WINDOW) for held in leased if held.is_open)]
    reading = Reading([], {})
    if asks or wish.settled:
        reading = payloads.read(tx, asks, settled=wish.settled, known=wish.known, now=now)
    return Found(
        seen={held.webhook_id: held for held in seen},
        put_off=put_off,
        left=left,
        leased=leased,
        unfinished=unfinished,
        asks=asks,
        reading=reading,
        now=now,
    )
