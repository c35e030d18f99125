"""Deliveries to a webhook: are they genuine, and what do they say?"""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal, cast

from typing_extensions import TypedDict

from quillpost.client import signatures
from quillpost.client.errors import SignatureError

ItemEventType = Literal["order_item.status_update", "order_item.delivered", "scans.scan_update"]
EventType = Literal["order.status_update"] | ItemEventType

OrderData = TypedDict(
    "OrderData",
    {
        "order.id": int,
        "order.status": str,
        "order.previous_status": str | None,
        "order.current_status": str,
        "order.metadata": dict[str, Any] | None,
    },
)

ItemData = TypedDict(
    "ItemData",
    {
        "order_item.id": int | None,
        "order.id": int | None,
        "order.sub_account_id": int | None,
        "order_item.scans": int | None,
        "order_item.failure": str | None,
        "order_item.delivery_date": str | None,
        "order_item.previous_status": str | None,
        "order_item.current_status": str | None,
        "order.status": str | None,
        "recipient.name": str | None,
        "recipient.company": str | None,
        "recipient.address": str | None,
        "recipient.address2": str | None,
        "recipient.absentee_address": str | None,
        "recipient.city": str | None,
        "recipient.province": str | None,
        "recipient.postal_code": str | None,
        "recipient.country": str | None,
        "recipient.email": str | None,
        "recipient.phone": str | None,
        "recipient.custom_1": str | None,
        "recipient.custom_2": str | None,
        "recipient.custom_3": str | None,
        "recipient.custom_4": str | None,
        "recipient.custom_5": str | None,
        "recipient.custom_6": str | None,
        "recipient.custom_7": str | None,
        "recipient.custom_8": str | None,
        "recipient.custom_9": str | None,
        "recipient.custom_10": str | None,
        "qrcode.url": str | None,
        "order.metadata": dict[str, Any] | None,
    },
)


class OrderEvent(TypedDict):
    event_type: Literal["order.status_update"]
    event_id: str
    data: OrderData
    timestamp: int
    date_time: str


class ItemEvent(TypedDict):
    event_type: ItemEventType
    event_id: str
    data: ItemData
    timestamp: int
    date_time: str


Event = OrderEvent | ItemEvent
"""`event_type` tells which: after asking for it, type checkers know the keys of `data`."""


def verify_webhook(
    body: bytes | str,
    headers: Mapping[str, str],
    secret: str | Sequence[str],
    *,
    tolerance: float = 300,
    now: datetime | None = None,
) -> Event:
    """The event that a delivery tells of, once its signature is known to be good; else `SignatureError`.

    `body` is the body as it came, not parsed and written again. Give both secrets while one replaces the
    other. `tolerance` is how many seconds a delivery may be old, so that nobody can repeat it later.
    """
    raw = body.encode() if isinstance(body, str) else body
    secrets = [secret] if isinstance(secret, str) else secret
    sent_at = _sent_at({name.lower(): value for name, value in headers.items()})
    if abs(((now or datetime.now(UTC)) - sent_at).total_seconds()) > tolerance:
        raise SignatureError("The delivery is too old, or a clock is wrong.")
    # How old it may be has been judged, by this caller's own measure.
    if not signatures.verify(secrets, headers, raw, now=sent_at):
        raise SignatureError("The signature is not of this body and this secret.")
    try:
        return cast(Event, json.loads(raw))
    except ValueError:
        raise SignatureError("The signature is good, but of no event: are deliveries made by GET?") from None


def _sent_at(headers: Mapping[str, str]) -> datetime:
    missing = [name for name in ("webhook-id", "webhook-timestamp", "webhook-signature") if not headers.get(name)]
    if missing:
        raise SignatureError(f"The delivery has no {missing[0]}.")
    try:
        return datetime.fromtimestamp(int(headers["webhook-timestamp"]), UTC)
    except (ValueError, OverflowError, OSError):
        raise SignatureError("The webhook-timestamp is no time.") from None
