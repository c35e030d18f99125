"""Subscriptions and deliveries as the pump sees them, step by step."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import sqlalchemy as sa

from quillpost.accounts.rules import Caller
from quillpost.accounts.service import tenant
from quillpost.database.tables import deliveries
from quillpost.parts import Parts
from quillpost.webhooks import service, store
from quillpost.webhooks.telling import Due

LEASE = timedelta(seconds=60)


def subscribe(parts: Parts, who: Caller, **how: Any) -> store.Webhook:
    wanted = {"url": "https://example.com/hook", "type": "*"} | how
    with parts.db.transaction(tenant(who)) as tx:
        return service.subscribe(tx, who, parts.sealer, now=parts.clock(), **wanted)[0]


def fan_out(parts: Parts, most: int = 1_000) -> int:
    with parts.db.work() as tx:
        return store.fan_out(tx, most=most, now=parts.clock())


def claim(parts: Parts, most: int = 100, flying: Mapping[int, int] | None = None) -> list[Due]:
    now = parts.clock()
    with parts.db.work() as tx:
        return store.claim(tx, most=most, flying=flying, lease=now + LEASE, now=now)


def settle(parts: Parts, dues: Sequence[Due], status: str = "delivered", **how: Any) -> None:
    """What came of the attempts."""
    with parts.db.work() as tx:
        for due in dues:
            outcome: dict[str, Any] = {
                "response_status": 200,
                "response_body": "",
                "error": None,
                "next_at": None,
            } | how
            store.record_outcome(tx, due, status=status, now=parts.clock(), **outcome)


def addressed(parts: Parts, hook: store.Webhook) -> list[str]:
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


def delivery_rows(parts: Parts, hook: store.Webhook) -> list[sa.Row[Any]]:
    with parts.db.work() as tx:
        found = sa.select(deliveries).where(deliveries.c.webhook_id == hook.id).order_by(deliveries.c.id)
        return list(tx.execute(found).all())
