"""What an event says, exactly as the interface has it, and when a delivery is tried again."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any
from urllib.parse import urlencode

from quillpost.core import exact_json
from quillpost.core.clock import plain_time
from quillpost.orders.rules import OrderStatus

ORDER_STATUS, ITEM_STATUS = "order.status_update", "order_item.status_update"
DELIVERED, SCAN = "order_item.delivered", "scans.scan_update"
EVENT_TYPES = (ORDER_STATUS, ITEM_STATUS, DELIVERED, SCAN)
EVERY_TYPE = "*"

RETRY_AFTER = (
    timedelta(seconds=5),
    timedelta(minutes=5),
    timedelta(minutes=30),
    timedelta(hours=2),
    timedelta(hours=5),
    timedelta(hours=10),
    timedelta(hours=14),
    timedelta(hours=20),
    timedelta(hours=24),
)
"""The wait after the first, second ... failed attempt; after the last one the delivery has failed."""

JITTER = 0.2
"""A wait is longer by up to this share of it: what failed together does not come back together."""

LONGEST_WAIT = sum(RETRY_AFTER, timedelta()) * (1 + JITTER)
"""What waits for longer than this at a receiver that fails all the time has failed."""

TOLD_AFTER = timedelta(hours=1)
"""A receiver that fails for longer than this is failing, and its owner is told."""

BREAKS_AFTER = 5
"""As many failures in a row, and the receiver is left alone for a while."""

FIRST_REST, LONGEST_REST = timedelta(seconds=5), timedelta(minutes=10)

RECIPIENT_KEYS = (
    "name", "company", "address", "address2", "absentee_address", "city", "province",
    "postal_code", "country", "email", "phone",
)  # fmt: skip

_RECIPIENT = (
    *((f"recipient.{key}", key) for key in RECIPIENT_KEYS),
    *((f"recipient.custom_{n}", f"custom{n}") for n in range(1, 11)),
)


@dataclass(frozen=True, slots=True)
class Told:
    """A fact together with what it is about, ready to be put in words."""

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


def data(told: Told) -> dict[str, Any]:
    """The dotted keys of the interface, and no other."""
    return _said(told) | {"order.metadata": _metadata(told)}


def _said(told: Told) -> dict[str, Any]:
    """All but the metadata."""
    if told.event_type == ORDER_STATUS:
        return {
            "order.id": told.order_id,
            "order.status": OrderStatus(told.current).display,
            "order.previous_status": told.previous,
            "order.current_status": told.current,
        }
    assert told.item is not None
    ended = told.current in ("Failed", "Returned to Sender")
    return {
        "order_item.id": told.item["id"],
        "order_item.failure": told.item["failure"] if ended else None,
        "order_item.delivery_date": _day(told),
        "order_item.previous_status": told.previous,
        "order_item.current_status": told.current,
        "order_item.scans": told.item["scans"],
        "order.id": told.order_id,
        "order.status": OrderStatus(told.order_status).display,
        "order.sub_account_id": told.sub_account_id,
        **{name: told.item[key] for name, key in _RECIPIENT},
        "qrcode.url": told.qrcode_url,
    }


def body(told: Told) -> bytes:
    """The whole message. Its metadata is put in as text: number texts survive no ordinary writer, and the one
    that keeps them takes its time, so it writes once for all events of an order."""
    said = _said(told)
    metadata = "null" if told.metadata is None else _compact(told.metadata)
    start = f'{{"event_type":"{told.event_type}","event_id":"{told.event_id}","data":'
    when = f'"timestamp":{int(told.at.timestamp())},"date_time":"{plain_time(told.at)}"}}'
    end = f',"order.metadata":{metadata}}},{when}'
    try:
        return f"{start}{_ENCODER.encode(said)[:-1]}{end}".encode()
    except UnicodeEncodeError:  # half of a letter, which only an escape can say
        return f"{start}{exact_json.write(said)[:-1]}{end}".encode()


def query(told: Told) -> str:
    """The same keys for a subscription that asked for GET: metadata as JSON text, null as nothing."""
    flat = {
        key: exact_json.write(value) if isinstance(value, dict) else "" if value is None else value
        for key, value in data(told).items()
    }
    head = {"event_type": told.event_type, "event_id": told.event_id}
    when = {"timestamp": int(told.at.timestamp()), "date_time": plain_time(told.at)}
    return urlencode(head | flat | when)


def next_attempt(attempts: int, *, now: datetime, jitter: float, asked: int | None) -> datetime | None:
    """When to try again after this many failures, or None: give up. `jitter` is between 0 and 1;
    `asked` is the receiver's own Retry-After in seconds, honoured when it is later."""
    if attempts > len(RETRY_AFTER):
        return None
    wait = RETRY_AFTER[attempts - 1] * (1 + JITTER * jitter)
    return now + max(wait, timedelta(seconds=min(asked or 0, 86_400)))


def rest(failures: int) -> timedelta | None:
    """How long a receiver is left alone after so many failures in a row, if at all. Twice as long each time:
    then one delivery is tried, and no other before it has succeeded."""
    if failures < BREAKS_AFTER:
        return None
    return min(FIRST_REST * (1 << min(failures - BREAKS_AFTER, 20)), LONGEST_REST)


_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


@lru_cache(maxsize=64)
def _compact(metadata: str) -> str:
    return exact_json.write(exact_json.read(metadata.encode()))


def _metadata(told: Told) -> Any:
    return None if told.metadata is None else exact_json.read(told.metadata.encode())


def _day(told: Told) -> str | None:
    """A piece has a delivery date in the event that says so, not in those before it."""
    assert told.item is not None
    day = told.item["delivery_date"]
    return day.isoformat() if day is not None and told.current == "Delivered" else None
