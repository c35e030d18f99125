"""Due deliveries, read together with the event that each of them tells."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import structlog
from psycopg.rows import namedtuple_row

from quillpost.core.database import Tx, driver
from quillpost.notifications.webhooks import rules
from quillpost.notifications.webhooks.leases import Held
from quillpost.notifications.webhooks.rules import (
    DELIVERED,
    EVERY_TYPE,
    ITEM_STATUS,
    ORDER_STATUS,
    RECIPIENT_KEYS,
    SCAN,
    Told,
)
from quillpost.orders import designs
from quillpost.rendering.models import Addressee, Sender

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


log = structlog.get_logger(__name__)

Place = tuple[datetime, int]
"""Where in a lane: the time at which something is due there, and its id."""

START: Place = datetime(1970, 1, 1, tzinfo=UTC), 0
"""Before everything that waits."""

OVERLAP = timedelta(seconds=5)
"""What is written down by others is there a moment after the time it bears: so much is read again."""

_CUSTOM = [f"custom{n}" for n in range(1, 11)]
_PIECE = ["failure", "delivery_date", *RECIPIENT_KEYS, *_CUSTOM, "dob", "anniversary"]

# Of each lane the next that are due, in the order of their times, behind the place that was come to. A later
# event of a stream waits for the earlier: it is asked for when that one has been settled, by its stream.
READ = """
    with asked as materialized (
        select * from unnest(%(hooks)b::bigint[], %(after_at)b::timestamptz[],
                             %(after_id)b::bigint[], %(most)b::integer[])
                      as a (webhook_id, after_at, after_id, most)),
    settled as materialized (
        select * from unnest(%(settled)b::bigint[], %(streams)b::text[]) as s (webhook_id, stream)),
    found as materialized (
        select d.*, true as is_next from asked a
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
# What happened is read once for all who are told of it.
FACTS = f"""
    select f.id, f.at, f.order_id, f.order_status, f.previous, f.current, f.item_id, f.scans,
           o.metadata, o.qrcode_url, o.sender_name, o.sender_company,
           {", ".join(f"i.{name}" for name in _PIECE)}
      from facts f
      join orders o on o.id = f.order_id
      left join items i on i.id = f.item_id
     where f.id = any(%(facts)b::bigint[])
"""


@dataclass(frozen=True, slots=True)
class Ask:
    """How many more of a lane are wanted, behind which place."""

    lane: Held
    after: Place
    most: int


class Due(NamedTuple):
    """A delivery whose time has come. `words` is what goes out: a POST's body, or a GET's whole URL."""

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
    words: str


@dataclass(frozen=True, slots=True)
class Unspeakable:
    """A delivery that no attempt will ever make, and why."""

    id: int
    created_at: datetime
    webhook_id: int
    stream: str
    next_at: datetime
    error: str


@dataclass(frozen=True, slots=True)
class Reading:
    due: list[Due | Unspeakable]
    places: dict[int, list[Place]]
    """Of each lane, those that came next in it, without those that were asked for by their stream."""


def read(
    tx: Tx,
    asks: Sequence[Ask],
    *,
    settled: Sequence[tuple[Held, str]] = (),
    known: Sequence[int] = (),
    now: datetime,
) -> Reading:
    """What may go out: each the first of its stream that waits. Of the `known`, those that lie behind the
    place come to are not read again. `settled` are lanes and streams of theirs that wait no longer for an
    earlier one."""
    cursor = driver(tx).cursor(row_factory=namedtuple_row, binary=True)
    asked = {
        "hooks": [each.lane.webhook_id for each in asks],
        "after_at": [each.after[0] for each in asks],
        "after_id": [each.after[1] for each in asks],
        "most": [each.most for each in asks],
        "settled": [lane.webhook_id for lane, _ in settled],
        "streams": [stream for _, stream in settled],
        "known": list(known),
        "recent": now - OVERLAP,
        "now": now,
    }
    rows: list[Any] = cursor.execute(READ, asked, prepare=True).fetchall()
    lanes = {lane.webhook_id: lane for lane in [*(each.lane for each in asks), *(of for of, _ in settled)]}
    wordless = list(
        {row.fact_id for row in rows if row.fact_id > 0 and not _is_for(row.body, lanes[row.webhook_id])}
    )
    facts = cursor.execute(FACTS, {"facts": wordless}, prepare=True).fetchall() if wordless else []
    teller = Teller(facts)
    places: dict[int, list[Place]] = {}
    for row in rows:
        if row.is_next:
            places.setdefault(row.webhook_id, []).append((row.next_at, row.id))
    once = {row.id: row for row in rows}.values()
    return Reading([teller.worded(row, lanes[row.webhook_id]) for row in once], places)


class Teller:
    """Puts events in words; those that several are told of, in the same words, once."""

    def __init__(self, facts: Sequence[Any]) -> None:
        self._facts = {fact.id: fact for fact in facts}
        self._bodies: dict[str, str] = {}

    def worded(self, row: Any, lane: Held) -> Due | Unspeakable:
        """One that cannot be put in words is told apart and holds up no other."""
        try:
            # What was sent once is sent again to the letter, unless it was for another address or verb.
            words = row.body if _is_for(row.body, lane) else self._words(row, lane)
        except Exception as fault:
            log.exception("webhooks.unspeakable", delivery=row.id)
            error = f"The event cannot be put in words: {fault!r}"
            return Unspeakable(row.id, row.created_at, row.webhook_id, row.stream, row.next_at, error)
        return Due(
            id=row.id,
            created_at=row.created_at,
            webhook_id=row.webhook_id,
            stream=row.stream,
            next_at=row.next_at,
            attempts=row.attempts,
            extra_tries=row.extra_tries,
            event_id=row.event_id,
            url=lane.url,
            verb=lane.verb,
            words=words,
        )

    def _words(self, row: Any, lane: Held) -> str:
        if lane.verb == "get":
            return _asking(lane.url) + rules.query(self._told(row))
        if row.event_id not in self._bodies:
            self._bodies[row.event_id] = rules.body(self._told(row)).decode()
        return self._bodies[row.event_id]

    def _told(self, row: Any) -> Told:
        if row.fact_id < 0:
            return sample(row.event_type, row.event_id, sub_account_id=row.sub_account_id, at=row.created_at)
        fact = self._facts[row.fact_id]
        piece = None
        if fact.item_id is not None:
            # The piece as it is, scanned as often as it was then.
            known = zip(_PIECE, fact[-len(_PIECE) :], strict=True)
            piece = {"id": fact.item_id, "scans": fact.scans, **dict(known)}
        return Told(
            event_type=row.event_type,
            event_id=row.event_id,
            at=fact.at,
            order_id=fact.order_id,
            sub_account_id=row.sub_account_id,
            order_status=fact.order_status,
            previous=fact.previous,
            current=fact.current,
            metadata=fact.metadata,
            item=piece,
            qrcode_url=_destination(fact, piece),
        )


def _is_for(words: str | None, lane: Held) -> bool:
    """Whether there are words, and they are what goes out where the lane leads now."""
    return words is not None and words.startswith(_asking(lane.url) if lane.verb == "get" else "{")


def _asking(url: str) -> str:
    """The URL, ready for further parameters."""
    return url + ("&" if "?" in url else "?")


def _destination(fact: Any, piece: dict[str, Any] | None) -> str | None:
    """Where the piece's QR code leads, with its recipient's words filled in."""
    if fact.qrcode_url is None or piece is None:
        return None
    whom = Addressee(
        **{key: piece[key] for key in RECIPIENT_KEYS if key != "absentee_address"},
        dob=piece["dob"] and piece["dob"].isoformat(),
        anniversary=piece["anniversary"] and piece["anniversary"].isoformat(),
        custom=tuple(piece[name] for name in _CUSTOM),
    )
    return designs.qr_destination(fact.qrcode_url, whom, Sender(fact.sender_name, fact.sender_company))
