"""Events about nothing, so that a receiver can be tried: only their ids, which are 0, tell them apart."""

from datetime import datetime, timedelta
from typing import Any

from quillpost.webhooks.rules import DELIVERED, EVERY_TYPE, ITEM_STATUS, ORDER_STATUS, SCAN, Told

NOBODY = 0

STATUSES = {
    ORDER_STATUS: ("reviewing", "processing"),
    ITEM_STATUS: ("Printed", "In Transit"),
    DELIVERED: ("Processed for Delivery", "Delivered"),
    SCAN: (None, "Delivered"),
}
"""Where an order or a piece of the sample comes from, and where it is now."""

RECIPIENT: dict[str, Any] = {
    "name": "Jane Doe",
    "company": None,
    "address": "12 Main St",
    "address2": None,
    "absentee_address": None,
    "city": "Austin",
    "province": "TX",
    "postal_code": "78701",
    "country": "US",
    "email": "jane.doe@example.com",
    "phone": "+15125550100",
    **{f"custom{n}": None for n in range(1, 11)},
}


def sample_type(subscribed: str) -> str:
    """The event that a subscription to this type is tried with."""
    return ORDER_STATUS if subscribed == EVERY_TYPE else subscribed


def sample(event_type: str, event_id: str, *, sub_account_id: int | None, at: datetime) -> Told:
    """The same moment and id make the same event, however often it is put in words."""
    previous, current = STATUSES[event_type]
    return Told(
        event_type=event_type,
        event_id=event_id,
        at=at,
        order_id=NOBODY,
        sub_account_id=sub_account_id,
        order_status="printing",
        previous=previous,
        current=current,
        metadata='{"customer":"c-1001"}',
        item=None if event_type == ORDER_STATUS else _item(event_type, at),
        qrcode_url=None if event_type == ORDER_STATUS else "https://example.com/welcome",
    )


def _item(event_type: str, at: datetime) -> dict[str, Any]:
    return {
        "id": NOBODY,
        "failure": None,
        "delivery_date": (at - timedelta(days=1)).date() if event_type == SCAN else at.date(),
        "scans": 1 if event_type == SCAN else 0,
        **RECIPIENT,
    }
