"""Subscriptions and deliveries as the pump sees them, step by step."""

import json
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import sqlalchemy as sa

from quillpost.accounts.models import Caller
from quillpost.accounts.service import tenant
from quillpost.app.container import Parts
from quillpost.core.database.tables.notifications import deliveries, webhook_lanes
from quillpost.notifications.webhooks import fan_out as fanning
from quillpost.notifications.webhooks import leases, outcomes, payloads
from quillpost.notifications.webhooks import queries as webhook_queries
from quillpost.notifications.webhooks import service as webhook_service
from quillpost.notifications.webhooks.outcomes import Outcome
from quillpost.notifications.webhooks.payloads import START, Ask, Due, Unspeakable

LEASE = timedelta(seconds=60)


def subscribe(parts: Parts, who: Caller, **how: Any) -> webhook_queries.Webhook:
    wanted = {"url": "https://example.com/hook", "type": "*"} | how
    with parts.db.transaction(tenant(who)) as tx:
        return webhook_service.subscribe(tx, who, parts.sealer, now=parts.clock(), **wanted)[0]


def fan_out(parts: Parts, most: int = 1_000) -> int:
    with parts.db.work() as tx:
        return fanning.fan_out(tx, most=most, now=parts.clock())


class Hand:
    """A pump's, without the air: it holds lanes, and remembers what it has taken from them."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self.id = uuid4()
        self.lanes: dict[int, leases.Held] = {}
        self.taken: set[int] = set()

    def lease(self, most: int = 100) -> list[int]:
        """The subscriptions whose lanes it got."""
        now = self.parts.clock()
        with self.parts.db.work() as tx:
            leased = leases.lease(tx, self.id, most=most, until=now + LEASE, now=now)
        self.lanes |= {held.webhook_id: held for held in leased}
        return [held.webhook_id for held in leased]

    def read(self, most: int = 100, settled: Collection[Due] = ()) -> list[Due | Unspeakable]:
        asks = [Ask(held, START, most) for held in self.lanes.values() if held.is_open]
        with self.parts.db.work() as tx:
            reading = payloads.read(
                tx,
                asks if not settled else [],
                settled=[(self.lanes[due.webhook_id], due.stream) for due in settled],
                known=list(self.taken),
                now=self.parts.clock(),
            )
        self.taken |= {due.id for due in reading.due}
        return reading.due

    def record(self, *all_: Outcome) -> list[Outcome]:
        """Which of them were news."""
        with self.parts.db.work() as tx:
            recorded = outcomes.record(tx, self.id, all_, {}, now=self.parts.clock())
        self.taken -= {each.due.id for each in all_ if each.due.webhook_id not in recorded.put_off}
        return recorded.news

    def leave(self, hooks: Collection[int] | None = None) -> set[int]:
        """Which of the lanes, or of all, are left: they were as they had been seen."""
        seen = {hook: self.lanes[hook].woken for hook in (self.lanes if hooks is None else hooks)}
        with self.parts.db.work() as tx:
            left = leases.leave(tx, self.id, seen, now=self.parts.clock())
        self.lanes = {hook: held for hook, held in self.lanes.items() if hook not in left}
        return left

    def look(self) -> set[int]:
        """The lanes that are still in it."""
        with self.parts.db.work() as tx:
            self.lanes = {held.webhook_id: held for held in leases.look(tx, self.id, list(self.lanes))}
        return set(self.lanes)


_HOLDERS: dict[int, Hand] = {}


def claim(parts: Parts, most: int = 100) -> list[Due]:
    """What may go out now, into the hand of one who has nothing to do with those before."""
    hand = Hand(parts)
    hand.lease()
    found = hand.read(most)
    hand.record(*(outcomes.give_up(lost) for lost in found if isinstance(lost, Unspeakable)))
    dues = [due for due in found if isinstance(due, Due)]
    _HOLDERS.update(dict.fromkeys((due.id for due in dues), hand))
    busy = {due.webhook_id for due in dues}
    if set(hand.lanes) - busy:
        hand.leave(set(hand.lanes) - busy)
    return dues


def settle(parts: Parts, dues: Sequence[Due], status: str = "delivered", **how: Any) -> None:
    """What came of the attempts; whoever made them lets go of their lanes."""
    answered = {"response_status": 200} | how
    for hand in {_HOLDERS[due.id] for due in dues}:
        theirs = [due for due in dues if _HOLDERS[due.id] is hand]
        hand.record(*(Outcome(due, status, **answered) for due in theirs))
        with parts.db.work() as tx:
            leases.hand_back(tx, hand.id, list(hand.lanes), now=parts.clock())


def said(due: Due) -> dict[str, Any]:
    """What it tells."""
    return dict(json.loads(due.words)["data"])


def addressed(parts: Parts, hook: webhook_queries.Webhook) -> list[str]:
    """The types of the events that the subscription is to be told, in their order."""
    with parts.db.work() as tx:
        found = tx.execute(
            sa.select(deliveries.c.event_type)
            .where(deliveries.c.webhook_id == hook.id)
            .order_by(deliveries.c.id)
        )
        return list(found.scalars())


def set_columns(parts: Parts, table: sa.Table, row_id: int, **values: object) -> None:
    with parts.db.work() as tx:
        tx.execute(sa.update(table).where(table.c.id == row_id).values(**values))


def delivery_rows(parts: Parts, hook: webhook_queries.Webhook) -> list[sa.Row[Any]]:
    with parts.db.work() as tx:
        found = sa.select(deliveries).where(deliveries.c.webhook_id == hook.id).order_by(deliveries.c.id)
        return list(tx.execute(found).all())


def is_somebody_waiting(parts: Parts) -> bool:
    """Whether a transaction waits for another's lock."""
    with parts.db.work() as tx:
        waiting = "select count(*) from pg_locks where not granted"
        return bool(tx.execute(sa.text(waiting)).scalar_one() > 0)


def lane_row(parts: Parts, hook: webhook_queries.Webhook) -> sa.Row[Any]:
    with parts.db.work() as tx:
        return tx.execute(sa.select(webhook_lanes).where(webhook_lanes.c.webhook_id == hook.id)).one()


def waking(parts: Parts, hook: webhook_queries.Webhook) -> tuple[datetime | None, int]:
    """When somebody is to look at the lane, and how often it was woken."""
    row = lane_row(parts, hook)
    return row.due_at, row.woken


def health(parts: Parts, hook: webhook_queries.Webhook) -> leases.Health:
    row = lane_row(parts, hook)
    return leases.Health(row.failures, row.troubled_since, row.resting_until)


def holder(parts: Parts, hook: webhook_queries.Webhook) -> tuple[UUID | None, datetime | None]:
    row = lane_row(parts, hook)
    return row.leased_by, row.leased_until
