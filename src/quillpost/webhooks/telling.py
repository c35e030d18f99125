"""Deliveries whose time has come, read together with what they tell and put in words."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
import structlog

from quillpost.composition.content import Sender
from quillpost.database import Tx
from quillpost.database.tables import deliveries, facts, items, orders, webhooks
from quillpost.orders import look
from quillpost.orders.records import Item
from quillpost.webhooks import rules
from quillpost.webhooks.rules import Told
from quillpost.webhooks.samples import sample

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Due:
    """A delivery whose time has come. `words` is what goes out: a POST's body, or a GET's whole URL."""

    id: int
    webhook_id: int
    url: str
    verb: str
    secret_sealed: bytes
    attempts: int
    told: Told
    words: str


@dataclass(frozen=True, slots=True)
class Unspeakable:
    """A delivery that no attempt will ever make, and why."""

    id: int
    error: str


def read(tx: Tx, delivery_ids: Sequence[int]) -> list[Due | Unspeakable]:
    """Each of the deliveries. One that cannot be put in words is told apart and holds up no other."""
    item_columns = [column.label(f"item_{column.name}") for column in items.c]
    rows = tx.execute(
        sa.select(
            deliveries.c.id, deliveries.c.webhook_id, deliveries.c.event_type, deliveries.c.fact_id,
            deliveries.c.event_id, deliveries.c.attempts, deliveries.c.body, deliveries.c.created_at,
            deliveries.c.sub_account_id,
            webhooks.c.url, webhooks.c.verb, webhooks.c.secret_sealed,
            facts.c.at, facts.c.order_id, facts.c.order_status,
            facts.c.previous, facts.c.current, facts.c.item_id.label("fact_item_id"),
            orders.c.metadata, orders.c.qrcode_url, orders.c.sender_name, orders.c.sender_company,
            *item_columns,
        )
        .join(webhooks, webhooks.c.id == deliveries.c.webhook_id)
        .outerjoin(facts, facts.c.id == deliveries.c.fact_id)
        .outerjoin(orders, orders.c.id == facts.c.order_id)
        .outerjoin(items, items.c.id == facts.c.item_id)
        .where(deliveries.c.id.in_(delivery_ids))
        .order_by(deliveries.c.id)
    )  # fmt: skip
    return [_worded(row) for row in rows]


def _worded(row: Any) -> Due | Unspeakable:
    try:
        told = _told(row)
        return Due(
            id=row.id,
            webhook_id=row.webhook_id,
            url=row.url,
            verb=row.verb,
            secret_sealed=bytes(row.secret_sealed),
            attempts=row.attempts,
            told=told,
            # What was sent once is sent again to the letter.
            words=row.body or _words(row.verb, row.url, told),
        )
    except Exception as fault:
        log.exception("webhooks.unspeakable", delivery=row.id)
        return Unspeakable(row.id, f"The event cannot be put in words: {fault!r}")


def _words(verb: str, url: str, told: Told) -> str:
    if verb == "get":
        return url + ("&" if "?" in url else "?") + rules.query(told)
    return rules.body(told).decode()


def _told(row: Any) -> Told:
    if row.fact_id < 0:
        return sample(row.event_type, str(row.event_id), sub_account_id=row.sub_account_id, at=row.created_at)
    return Told(
        event_type=row.event_type,
        event_id=str(row.event_id),
        at=row.at,
        order_id=row.order_id,
        sub_account_id=row.sub_account_id,
        order_status=row.order_status,
        previous=row.previous,
        current=row.current,
        metadata=row.metadata,
        item=_item(row) if row.fact_item_id is not None else None,
        qrcode_url=_destination(row),
    )


def _item(row: Any) -> dict[str, Any]:
    return {column.name: row._mapping[f"item_{column.name}"] for column in items.c}


def _destination(row: Any) -> str | None:
    """Where the piece's QR code leads, with its recipient's words filled in."""
    if row.qrcode_url is None or row.fact_item_id is None:
        return None
    item = Item.of_columns(_item(row))
    sender = Sender(row.sender_name, row.sender_company)
    return look.qr_destination(row.qrcode_url, look.addressee(item), sender)
