"""Pieces in the mail, and what a carrier says of them."""

import json
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from quillpost.accounts.models import Caller
from quillpost.app.container import Container
from quillpost.core.database.tables.fulfillment import batches, carrier_scans
from quillpost.fulfillment.print_room.service import MARK_MAILED
from quillpost.fulfillment.tracking import service as tracking_service
from quillpost.fulfillment.tracking.rules import Scan
from quillpost.orders.items.service import StatusChange, change_item_statuses
from quillpost.orders.models import Order
from quillpost.orders.rules import ItemStatus
from support.factories import people
from support.orders import create_order, end_review, fact_rows, item_rows
from support.production import create_batches, print_rows

JOURNEY = ("1", "2", "3a", "4c")


def mailed_order(container: Container, caller: Caller, pieces: int = 1) -> Order:
    """An order whose pieces carry barcodes and are in the mail."""
    order = create_order(container, caller, people(pieces))
    mail_order(container, order)
    return order


def mail_order(container: Container, order: Order) -> list[int]:
    """Its batches."""
    now = container.clock()
    end_review(container, order)
    with container.db.system_transaction() as tx:
        made = create_batches(container, tx, order)
        gone = {"status": "mailed", "handed_at": now, "mailed_at": now}
        tx.execute(sa.update(batches).where(batches.c.id.in_(made)).values(**gone))
        change_item_statuses(
            tx, [StatusChange(piece.id, ItemStatus.PRINTED) for piece in item_rows(tx, order)], now=now
        )
        for batch_id in made:
            MARK_MAILED.run(tx, {"batch": batch_id}, now=now)
    return made


def tracking_codes(container: Container, order: Order) -> list[str]:
    with container.db.system_transaction() as tx:
        return [piece.tracking for piece in print_rows(tx, order)]


def scan(
    tracking: str, phase: str, at: datetime, *, place: str | None = None, reason: str | None = None, **raw: object
) -> Scan:
    return Scan(tracking, phase, at, json.dumps({"imb": tracking, **raw}), place, reason)


def scan_journey(container: Container, tracking: str) -> list[Scan]:
    """A scan a day until it is delivered."""
    days = ((phase, container.clock() + timedelta(days=day)) for day, phase in enumerate(JOURNEY, start=1))
    return [scan(tracking, phase, at, mailPhase=phase, scanDatetime=at.isoformat()) for phase, at in days]


def ingest(container: Container, *scans: Scan) -> int:
    """How many were new."""
    return tracking_service.ingest_scans(container.db, scans, now=container.clock()).new


def statuses(container: Container, order: Order) -> list[str]:
    with container.db.system_transaction() as tx:
        return [piece.status for piece in item_rows(tx, order)]


def item_statuses_recorded(container: Container, order: Order) -> list[str]:
    with container.db.system_transaction() as tx:
        return [fact.current for fact in fact_rows(tx, order) if fact.item_id is not None]


def carrier_scan_rows(container: Container) -> list[sa.Row[Any]]:
    with container.db.system_transaction() as tx:
        return list(tx.execute(sa.select(carrier_scans).order_by(carrier_scans.c.id)).all())
