"""News of scans in words: for a letter, and for a text message."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo

from quillpost.kit.text import one_line

MOST_NAMED = 20
LONGEST_NAME = 60

PIECES = {
    "postcard": "postcard",
    "postcard6x11": "postcard",
    "letter": "letter",
    "windowlessletter": "letter",
    "notecard": "notecard",
    "giftcard": "gift card",
    "magnacard": "magnacard",
}


@dataclass(frozen=True, slots=True)
class Scanned:
    """A piece whose code was scanned: how often by this news, and how often so far."""

    item_id: int
    name: str | None
    city: str | None
    province: str | None
    scans: int
    so_far: int
    last_at: datetime

    @property
    def who(self) -> str:
        return one_line(self.name or "", most=LONGEST_NAME) or "Someone"

    @property
    def where(self) -> str:
        parts = (one_line(part or "", most=LONGEST_NAME) for part in (self.city, self.province))
        return ", ".join(filter(None, parts))


@dataclass(frozen=True, slots=True)
class News:
    """The scans of one order of which somebody has not heard; `named` are the first pieces of them."""

    order_id: int
    type: str
    scans: int
    pieces: int
    first_at: datetime
    last_at: datetime
    order_scans: int
    order_multi_scans: int
    named: Sequence[Scanned]

    @property
    def piece(self) -> str:
        return PIECES.get(self.type, "piece")


def subject(news: News) -> str:
    if news.scans == 1:
        return f"{news.named[0].who} scanned your {news.piece}"
    return f"{news.scans:,} scans of your {news.piece} (order {news.order_id})"


def letter(news: News, *, zone: tzinfo) -> str:
    return _of_one(news, zone) if news.scans == 1 else _of_many(news, zone)


def text_message(news: News) -> str:
    who = ", ".join(filter(None, (news.named[0].who, news.named[0].where.replace(",", ""))))
    order = f"your {news.piece} (order {news.order_id})"
    if news.scans == 1:
        return f"{who}, scanned {order}. {_so_far(news.named[0])}"
    others = f" and {news.pieces - 1:,} more" if news.pieces > 1 else ""
    return f"{news.scans:,} scans of {order}: {who}{others}. {news.order_scans:,} in all."


def _of_one(news: News, zone: tzinfo) -> str:
    one = news.named[0]
    place = f" in {one.where}" if one.where else ""
    return (
        f"{one.who}{place} scanned the QR code on your {news.piece} on {_moment(news.last_at, zone)}.\n\n"
        f"{_so_far(one)} It is piece {one.item_id} of order {news.order_id}, which has "
        f"{_times(news.order_scans)} in all."
    )


def _of_many(news: News, zone: tzinfo) -> str:
    first, last = _moment(news.first_at, zone), _moment(news.last_at, zone)
    between = f"on {last}" if first == last else f"between {first} and {last}"
    pieces = "one piece" if news.pieces == 1 else f"{news.pieces:,} pieces"
    lines = [
        f"- {', '.join(filter(None, (each.who, each.where)))}: {_times(each.scans)}, "
        f"{'last ' if each.scans > 1 else ''}on {_short_moment(each.last_at, zone)}"
        for each in news.named
    ]
    if news.pieces > len(news.named):
        lines.append(f"- and {news.pieces - len(news.named):,} more")
    multi = news.order_multi_scans
    more = f"{multi:,} of its pieces {'was' if multi == 1 else 'were'} scanned more than once"
    return (
        f"The QR code on your {news.piece} was scanned {news.scans:,} times, on {pieces}, {between}:\n\n"
        + "\n".join(lines)
        + f"\n\nOrder {news.order_id} has {_times(news.order_scans)} in all"
        + (f"; {more}." if multi else ".")
    )


def _so_far(one: Scanned) -> str:
    if one.so_far <= 1:
        return "This is its first scan."
    return f"It was scanned {one.so_far:,} times so far."


def _times(count: int) -> str:
    return "1 scan" if count == 1 else f"{count:,} scans"


def _moment(at: datetime, zone: tzinfo) -> str:
    local = at.astimezone(zone)
    return f"{local:%B} {local.day}, {local.year}, at {local:%H:%M} {local.tzname()}"


def _short_moment(at: datetime, zone: tzinfo) -> str:
    """Where the year and the zone have been told."""
    local = at.astimezone(zone)
    return f"{local:%B} {local.day} at {local:%H:%M}"
