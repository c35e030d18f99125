"""Reads due deliveries and builds their payloads."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import structlog
from psycopg.rows import namedtuple_row

from quillpost.core.database import Tx, driver_connection
from quillpost.notifications.webhooks import rules
from quillpost.notifications.webhooks.queries import Lease
from quillpost.rendering.models import Addressee, SenderName
from quillpost.rendering.text.variables import fill_url

SAMPLE_ID = 0

SAMPLE_STATUSES = {
    rules.ORDER_STATUS_EVENT: ("reviewing", "processing"),
    rules.ITEM_STATUS_EVENT: ("Printed", "In Transit"),
    rules.DELIVERED_EVENT: ("Processed for Delivery", "Delivered"),
    rules.SCAN_EVENT: (None, "Delivered"),
}
"""Previous and current status of the sample."""

SAMPLE_RECIPIENT: dict[str, Any] = dict.fromkeys((*rules.RECIPIENT_KEYS, *(f"custom{n}" for n in range(1, 11)))) | {
    "name": "Jane Doe",
    "address": "12 Main St",
    "city": "Austin",
    "province": "TX",
    "postal_code": "78701",
    "country": "US",
    "email": "jane.doe@example.com",
    "phone": "+15125550100",
}


def sample_event_type(subscription_type: str) -> str:
    return rules.ORDER_STATUS_EVENT if subscription_type == rules.ALL_EVENT_TYPES else subscription_type


def build_sample_event(
    event_type: str, event_id: str, *, sub_account_id: int | None, at: datetime
) -> rules.WebhookEvent:
    """The same time and id make the same event."""
    previous, current = SAMPLE_STATUSES[event_type]
    return rules.WebhookEvent(
        event_type=event_type,
        event_id=event_id,
        at=at,
        order_id=SAMPLE_ID,
        sub_account_id=sub_account_id,
        order_status="printing",
        previous=previous,
        current=current,
        metadata='{"customer":"c-1001"}',
        item=None if event_type == rules.ORDER_STATUS_EVENT else _build_sample_item(event_type, at),
        qrcode_url=None if event_type == rules.ORDER_STATUS_EVENT else "https://example.com/welcome",
    )


def _build_sample_item(event_type: str, at: datetime) -> dict[str, Any]:
    return {
        "id": SAMPLE_ID,
        "failure": None,
        "delivery_date": (at - timedelta(days=1)).date() if event_type == rules.SCAN_EVENT else at.date(),
        "scans": 1 if event_type == rules.SCAN_EVENT else 0,
        **SAMPLE_RECIPIENT,
    }


log = structlog.get_logger(__name__)
QueueCursor = tuple[datetime, int]  # due time and id

QUEUE_START: QueueCursor = datetime(1970, 1, 1, tzinfo=UTC), 0
READ_OVERLAP = timedelta(seconds=5)  # deliveries may be committed a moment after their time, so this is read again
_CUSTOM_COLUMNS = [f"custom{n}" for n in range(1, 11)]
_ITEM_COLUMNS = ["failure", "delivery_date", *rules.RECIPIENT_KEYS, *_CUSTOM_COLUMNS, "dob", "anniversary"]

# The next due deliveries of each queue after its cursor. A later event of a stream waits for the earlier, and is read
# by its stream when that is settled.
READ_DUE_DELIVERIES = """
    with requested as materialized (
        select * from unnest(%(hooks)b::bigint[], %(after_at)b::timestamptz[],
                             %(after_id)b::bigint[], %(most)b::integer[])
                      as a (webhook_id, after_at, after_id, most)),
    settled as materialized (
        select * from unnest(%(settled)b::bigint[], %(streams)b::text[]) as s (webhook_id, stream)),
    found as materialized (
        select d.*, true as is_next from requested a
         cross join lateral (
             select d.* from deliveries d
              where d.webhook_id = a.webhook_id and d.status = 'pending' and d.next_at <= %(now)b::timestamptz
                and (d.next_at, d.id) > (a.after_at, a.after_id)
                and (d.next_at < %(recent)b::timestamptz or d.id <> all(%(known)b::bigint[]))
                and (select true from deliveries e
                      where e.webhook_id = d.webhook_id and e.stream = d.stream and e.status = 'pending'
                        and e.id < d.id limit 1) is null
              order by d.next_at, d.id limit a.most) d
        union all
        select d.*, false from settled s
         cross join lateral (
             select d.* from deliveries d
              where d.webhook_id = s.webhook_id and d.stream = s.stream and d.status = 'pending'
              order by d.webhook_id, d.stream, d.id limit 1) d
         where d.next_at <= %(now)b::timestamptz and d.id <> all(%(known)b::bigint[]))
    select id, created_at, webhook_id, stream, next_at, attempts, extra_tries, event_type, event_id::text,
           fact_id, body, sub_account_id, is_next
      from found order by webhook_id, next_at, id
"""
READ_FACTS = f"""
    select f.id, f.at, f.order_id, f.order_status, f.previous, f.current, f.item_id, f.scans,
           o.metadata, o.qrcode_url, o.sender_name, o.sender_company,
           {", ".join(f"i.{name}" for name in _ITEM_COLUMNS)}
      from facts f
      join orders o on o.id = f.order_id
      left join items i on i.id = f.item_id
     where f.id = any(%(facts)b::bigint[])
"""


@dataclass(frozen=True, slots=True)
class QueueRead:
    lease: Lease
    after: QueueCursor
    limit: int


class DueDelivery(NamedTuple):
    """`payload` is what is sent: a POST's body, or a GET's whole URL."""

    id: int
    created_at: datetime
    webhook_id: int
    stream: str
    next_at: datetime
    attempts: int
    extra_tries: int
    event_id: str
    url: str
    verb: str
    payload: str


@dataclass(frozen=True, slots=True)
class InvalidDelivery:
    """A delivery that can never be sent, and why."""

    id: int
    created_at: datetime
    webhook_id: int
    stream: str
    next_at: datetime
    error: str


@dataclass(frozen=True, slots=True)
class DeliveryBatch:
    deliveries: list[DueDelivery | InvalidDelivery]
    cursors: dict[int, list[QueueCursor]]  # without those read by stream


def read_batch(
    tx: Tx,
    reads: Sequence[QueueRead],
    *,
    finished_streams: Sequence[tuple[Lease, str]] = (),
    unacknowledged_ids: Sequence[int] = (),
    now: datetime,
) -> DeliveryBatch:
    """What may be sent: the first pending delivery of each stream. `unacknowledged_ids` after the cursor are not read
    again. `finished_streams` are those whose earlier delivery was settled."""
    cursor = driver_connection(tx).cursor(row_factory=namedtuple_row, binary=True)
    params = {
        "hooks": [read.lease.webhook_id for read in reads],
        "after_at": [read.after[0] for read in reads],
        "after_id": [read.after[1] for read in reads],
        "most": [read.limit for read in reads],
        "settled": [lease.webhook_id for lease, _ in finished_streams],
        "streams": [stream for _, stream in finished_streams],
        "known": list(unacknowledged_ids),
        "recent": now - READ_OVERLAP,
        "now": now,
    }
    rows: list[Any] = cursor.execute(READ_DUE_DELIVERIES, params, prepare=True).fetchall()
    leases = {
        lease.webhook_id: lease
        for lease in [*(read.lease for read in reads), *(stream_lease for stream_lease, _ in finished_streams)]
    }
    fact_ids = list(
        {row.fact_id for row in rows if row.fact_id > 0 and not _is_payload_for(row.body, leases[row.webhook_id])}
    )
    facts = cursor.execute(READ_FACTS, {"facts": fact_ids}, prepare=True).fetchall() if fact_ids else []
    builder = PayloadBuilder(facts)
    cursors: dict[int, list[QueueCursor]] = {}
    for row in rows:
        if row.is_next:
            cursors.setdefault(row.webhook_id, []).append((row.next_at, row.id))
    unique_rows = {row.id: row for row in rows}.values()
    return DeliveryBatch([builder.build_delivery(row, leases[row.webhook_id]) for row in unique_rows], cursors)


class PayloadBuilder:
    """Builds each event's body once for all its subscriptions."""

    def __init__(self, facts: Sequence[Any]) -> None:
        self._facts = {fact.id: fact for fact in facts}
        self._bodies: dict[str, str] = {}

    def build_delivery(self, row: Any, lease: Lease) -> DueDelivery | InvalidDelivery:
        """One that cannot be built holds up no other."""
        try:
            # The same body is sent again, unless it was for another URL or method.
            payload = row.body if _is_payload_for(row.body, lease) else self._build_payload(row, lease)
        except Exception as failure:
            log.exception("webhooks.payload_failed", delivery=row.id)
            error = f"The event cannot be put in words: {failure!r}"
            return InvalidDelivery(row.id, row.created_at, row.webhook_id, row.stream, row.next_at, error)
        return DueDelivery._make((*row[:7], row.event_id, lease.url, lease.verb, payload))

    def _build_payload(self, row: Any, lease: Lease) -> str:
        if lease.verb == "get":
            return _query_prefix(lease.url) + rules.build_query(self._build_event(row))
        if row.event_id not in self._bodies:
            self._bodies[row.event_id] = rules.build_body(self._build_event(row)).decode()
        return self._bodies[row.event_id]

    def _build_event(self, row: Any) -> rules.WebhookEvent:
        if row.fact_id < 0:
            return build_sample_event(
                row.event_type, row.event_id, sub_account_id=row.sub_account_id, at=row.created_at
            )
        fact = self._facts[row.fact_id]
        item = None
        if fact.item_id is not None:
            # The item as it is now, with the scans of then.
            item_values = zip(_ITEM_COLUMNS, fact[-len(_ITEM_COLUMNS) :], strict=True)
            item = {"id": fact.item_id, "scans": fact.scans, **dict(item_values)}
        return rules.WebhookEvent(
            event_type=row.event_type,
            event_id=row.event_id,
            at=fact.at,
            order_id=fact.order_id,
            sub_account_id=row.sub_account_id,
            order_status=fact.order_status,
            previous=fact.previous,
            current=fact.current,
            metadata=fact.metadata,
            item=item,
            qrcode_url=_qr_destination(fact, item),
        )


def _is_payload_for(payload: str | None, lease: Lease) -> bool:
    return payload is not None and payload.startswith(_query_prefix(lease.url) if lease.verb == "get" else "{")


def _query_prefix(url: str) -> str:
    return url + ("&" if "?" in url else "?")


def _qr_destination(fact: Any, item: dict[str, Any] | None) -> str | None:
    """The URL behind the item's QR code, with the recipient's values filled in."""
    if fact.qrcode_url is None or item is None:
        return None
    addressee = Addressee(
        **{key: item[key] for key in rules.RECIPIENT_KEYS if key != "absentee_address"},
        dob=item["dob"] and item["dob"].isoformat(),
        anniversary=item["anniversary"] and item["anniversary"].isoformat(),
        custom=tuple(item[name] for name in _CUSTOM_COLUMNS),
    )
    return fill_url(fact.qrcode_url, addressee, SenderName(fact.sender_name, fact.sender_company))
