"""The tables of events: their types and their payloads, key for key."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from quillpost.kit import exact_json
from quillpost.webhooks.rules import EVENT_TYPES, data
from quillpost.webhooks.samples import sample

TYPES = ["order.status_update", "order_item.status_update", "order_item.delivered", "scans.scan_update"]
FLAT = TYPES[1:]

TEXT, NUMBER, NOTHING = str, int, type(None)

ORDER_PAYLOAD: dict[str, tuple[type, ...]] = {
    "order.id": (NUMBER,),
    "order.status": (TEXT,),
    "order.previous_status": (TEXT, NOTHING),
    "order.current_status": (TEXT,),
    "order.metadata": (dict, NOTHING),
}
FLAT_PAYLOAD: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(
        ("order_item.id", "order.id", "order.sub_account_id", "order_item.scans"), (NUMBER, NOTHING)
    ),
    **dict.fromkeys(
        ("order_item.failure", "order_item.delivery_date", "order_item.previous_status",
         "order_item.current_status", "order.status"),
        (TEXT, NOTHING),
    ),
    **dict.fromkeys(
        (f"recipient.{name}" for name in (
            "name", "company", "address", "address2", "absentee_address", "city", "province",
            "postal_code", "country", "email", "phone",
        )),
        (TEXT, NOTHING),
    ),
    **dict.fromkeys((f"recipient.custom_{n}" for n in range(1, 11)), (TEXT, NOTHING)),
    "qrcode.url": (TEXT, NOTHING),
    "order.metadata": (dict, NOTHING),
}  # fmt: skip


def payload(event_type: str) -> dict[str, Any]:
    told = sample(event_type, "5f3c", sub_account_id=7, at=datetime(2026, 5, 4, tzinfo=UTC))
    return json.loads(exact_json.write(data(told)))  # type: ignore[no-any-return]


def test_the_types_are_these() -> None:
    assert list(EVENT_TYPES) == TYPES


@pytest.mark.parametrize("key", ORDER_PAYLOAD)
def test_each_key_of_the_order_payload(key: str) -> None:
    assert isinstance(payload(TYPES[0])[key], ORDER_PAYLOAD[key])


@pytest.mark.parametrize("event_type", FLAT)
@pytest.mark.parametrize("key", FLAT_PAYLOAD)
def test_each_key_of_the_flat_payload(event_type: str, key: str) -> None:
    assert isinstance(payload(event_type)[key], FLAT_PAYLOAD[key])


@pytest.mark.parametrize("event_type", TYPES)
def test_there_are_no_other_keys(event_type: str) -> None:
    assert set(payload(event_type)) == set(ORDER_PAYLOAD if event_type == TYPES[0] else FLAT_PAYLOAD)
