"""The bodies of events, exactly as the interface has them, and the retry schedule."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any
from urllib.parse import urlencode

from quillpost.core import exact_json
from quillpost.core.text import format_time
from quillpost.orders.rules import OrderStatus

ORDER_STATUS_EVENT, ITEM_STATUS_EVENT = "order.status_update", "order_item.status_update"
DELIVERED_EVENT, SCAN_EVENT = "order_item.delivered", "scans.scan_update"
EVENT_TYPES = (ORDER_STATUS_EVENT, ITEM_STATUS_EVENT, DELIVERED_EVENT, SCAN_EVENT)
ALL_EVENT_TYPES = "*"

RETRY_DELAYS = (
    timedelta(seconds=5),
    *(timedelta(minutes=minutes) for minutes in (5, 30)),
    *(timedelta(hours=hours) for hours in (2, 5, 10, 14, 20, 24)),
)
"""The wait after the first, second ... failed attempt; after the last one the delivery has failed."""

RETRY_JITTER = 0.2  # share by which a wait is extended at random
MAX_RETRY_TIME = sum(RETRY_DELAYS, timedelta()) * (1 + RETRY_JITTER)
FAILING_NOTICE_AFTER = timedelta(hours=1)  # then its owner is notified
CIRCUIT_BREAKER_FAILURES = 5  # in a row
MIN_BACKOFF, MAX_BACKOFF = timedelta(seconds=5), timedelta(minutes=10)

RECIPIENT_KEYS = (
    "name", "company", "address", "address2", "absentee_address", "city", "province",
    "postal_code", "country", "email", "phone",
)  # fmt: skip

_RECIPIENT_FIELDS = (
    *((f"recipient.{key}", key) for key in RECIPIENT_KEYS),
    *((f"recipient.custom_{n}", f"custom{n}") for n in range(1, 11)),
)


@dataclass(frozen=True, slots=True)
class WebhookEvent:
    """A fact with the data that its payload needs."""

    event_type: str
    event_id: str
    at: datetime
    order_id: int
    sub_account_id: int | None
    order_status: str
    previous: str | None
    current: str
    metadata: str | None
    item: Mapping[str, Any] | None = None
    qrcode_url: str | None = None


def build_data(event: WebhookEvent) -> dict[str, Any]:
    """The dotted keys of the interface, and no others."""
    metadata = None if event.metadata is None else exact_json.parse_json(event.metadata.encode())
    return _build_fields(event) | {"order.metadata": metadata}


def _build_fields(event: WebhookEvent) -> dict[str, Any]:
    if event.event_type == ORDER_STATUS_EVENT:
        return {
            "order.id": event.order_id,
            "order.status": OrderStatus(event.current).capitalize(),
            "order.previous_status": event.previous,
            "order.current_status": event.current,
        }
    assert event.item is not None
    has_failed = event.current in ("Failed", "Returned to Sender")
    return {
        "order_item.id": event.item["id"],
        "order_item.failure": event.item["failure"] if has_failed else None,
        "order_item.delivery_date": _delivery_date(event),
        "order_item.previous_status": event.previous,
        "order_item.current_status": event.current,
        "order_item.scans": event.item["scans"],
        "order.id": event.order_id,
        "order.status": OrderStatus(event.order_status).capitalize(),
        "order.sub_account_id": event.sub_account_id,
        **{name: event.item[key] for name, key in _RECIPIENT_FIELDS},
        "qrcode.url": event.qrcode_url,
    }


def build_body(event: WebhookEvent) -> bytes:
    """The whole message. Metadata is inserted as text: its exact numbers need our own writer, which is slow, so it runs
    once for all events of an order."""
    fields = _build_fields(event)
    metadata = "null" if event.metadata is None else _compact_metadata(event.metadata)
    head = f'{{"event_type":"{event.event_type}","event_id":"{event.event_id}","data":'
    time_fields = f'"timestamp":{int(event.at.timestamp())},"date_time":"{format_time(event.at)}"}}'
    tail = f',"order.metadata":{metadata}}},{time_fields}'
    try:
        return f"{head}{_JSON_ENCODER.encode(fields)[:-1]}{tail}".encode()
    except UnicodeEncodeError:  # half of a letter, which only an escape can say
        return f"{head}{exact_json.dump_json(fields)[:-1]}{tail}".encode()


def build_query(event: WebhookEvent) -> str:
    """The same keys for a subscription by GET: metadata as JSON text, null as empty."""
    data_params = {
        key: exact_json.dump_json(value) if isinstance(value, dict) else "" if value is None else value
        for key, value in build_data(event).items()
    }
    head_params = {"event_type": event.event_type, "event_id": event.event_id}
    time_params = {"timestamp": int(event.at.timestamp()), "date_time": format_time(event.at)}
    return urlencode(head_params | data_params | time_params)


def next_attempt_at(attempts: int, *, now: datetime, jitter: float, retry_after: int | None) -> datetime | None:
    """When to try again after this many failures, or None: give up. `jitter` is between 0 and 1; the endpoint's
    `retry_after` in seconds is honored when it is later."""
    if attempts > len(RETRY_DELAYS):
        return None
    delay = RETRY_DELAYS[attempts - 1] * (1 + RETRY_JITTER * jitter)
    return now + max(delay, timedelta(seconds=min(retry_after or 0, 86_400)))


def backoff_after(failures: int) -> timedelta | None:
    """The backoff after so many failures in a row, doubled each time. Then the circuit breaker is half open: one
    delivery is tried, and no other before it has succeeded."""
    if failures < CIRCUIT_BREAKER_FAILURES:
        return None
    return min(MIN_BACKOFF * (1 << min(failures - CIRCUIT_BREAKER_FAILURES, 20)), MAX_BACKOFF)


_JSON_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


@lru_cache(maxsize=64)
def _compact_metadata(metadata: str) -> str:
    return exact_json.dump_json(exact_json.parse_json(metadata.encode()))


def _delivery_date(event: WebhookEvent) -> str | None:
    """Only in the event that reports the delivery."""
    assert event.item is not None
    day = event.item["delivery_date"]
    return day.isoformat() if day is not None and event.current == "Delivered" else None
