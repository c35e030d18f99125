"""A row of a carrier's file, whatever its columns are called, as a scan.

Which columns there are, and how they are spelled, depends on the subscription: `scanDatetime`,
`scan_date_time` and `SCAN DATETIME` are one. So letters alone tell a column's name.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta, timezone
from operator import itemgetter
from typing import NamedTuple

from quillpost.fulfillment.tracking.rules import Scan, phase_of, reason_of

TRACKING = (
    "imbtrackingcode",
    "imb",
    "intelligentmailbarcode",
    "imbcode",
    "trackingcode",
    "tracking",
    "barcode",
)
MOMENT = ("scandatetime", "scandatetimestamp", "scantimestamp", "eventdatetime", "datetime", "timestamp")
DAY, TIME = ("scandate", "eventdate", "date"), ("scantime", "eventtime", "time")
PHASE = ("mailphase", "scanmailphase", "mailphasedescription", "phase")
OPERATION = ("scaneventcode", "operationcode", "scanoperationcode", "opcode", "operation")
REASON = ("reason", "returnreason", "forwardreason", "reasondescription", "undeliverablereason")
WORDS = (
    "handlingeventtype", "handlingeventtypedescription", "scaneventdescription", "scaneventcodedescription",
    "eventdescription", "operationdescription", "description", "disposition", "action", *REASON,
)  # fmt: skip
FACILITY = ("scanfacilityname", "facilityname", "facility")
CITY = ("scanfacilitycity", "facilitycity", "city")
STATE = ("scanfacilitystate", "facilitystate", "state")
ZIP = ("scanfacilityzip", "scanfacilityzipcode", "facilityzip", "facilityzipcode", "zip")

LEGACY = ("scanFacilityZip", "operationCode", "scanDatetime", "imbRoutingCode", "imbTrackingCode")
"""The columns of a row without a header, as the postal service's older files have them."""

NOT_LETTERS = re.compile(r"[^a-z]")
AROUND_DIGITS = re.compile(r"[\s\-'\"=]")
BARCODE_LENGTHS = (20, 25, 29, 31)
SERVICE_TYPES = {"040", "042", "240", "260", "261", "270", "271", "300", "301", "310", "311", "700", "702"}
"""What follows the first two digits on usual mail; ours are 270, 271, 310 and 311."""

LOST = 3
"""Zeros in front that a barcode loses at most as a number: two digits, and one of the service type."""

SHORTEST = 20 - LOST
AMERICAN = re.compile(
    r"(\d{1,2})/(\d{1,2})/(\d{4})(?:[ T]+(\d{1,2}):(\d\d)(?::(\d\d)(?:\.\d*)?)?\s*([AaPp][Mm])?)?\s*(\S*)"
)
OFFSET = re.compile(r"([+-])(\d\d):?(\d\d)")
ZONES = {"Z": 0, "UTC": 0, "GMT": 0, "EST": -5, "EDT": -4, "CST": -6, "CDT": -5, "MST": -7, "MDT": -6,
         "PST": -8, "PDT": -7, "AKST": -9, "AKDT": -8, "HST": -10}  # fmt: skip
OLDEST, NEWEST = 2000, 2100
LONGEST_PLACE, LONGEST_REASON = 200, 200
MOST_MEANINGS = 10_000

Row = Mapping[str, object]


class Unreadable(Exception):
    """Why a row is no scan, as a sentence."""


class Meaning(NamedTuple):
    """What a row says beside whose it is and when."""

    phase: str
    place: str | None
    reason: str | None


class Columns:
    """Where each thing is told in rows with these columns, the best place first."""

    def __init__(self, names: Iterable[str]) -> None:
        plain: dict[str, str] = {}
        for name in names:
            plain.setdefault(NOT_LETTERS.sub("", name.lower()), name)

        def where(known: Iterable[str]) -> tuple[str, ...]:
            return tuple(plain[each] for each in known if each in plain)

        self.tracking, self.moment = where(TRACKING), where(MOMENT)
        self.day, self.time = where(DAY), where(TIME)
        self.phase, self.operation, self.words = where(PHASE), where(OPERATION), where(WORDS)
        self.reason = where(REASON)
        self.facility, self.city, self.state, self.zip = map(where, (FACILITY, CITY, STATE, ZIP))
        # A million rows say few different things: each is thought about once.
        told = where((*PHASE, *OPERATION, *WORDS, *FACILITY, *CITY, *STATE, *ZIP)) or ("",)
        self._told = itemgetter(*told) if told != ("",) else lambda _: None
        self._known: dict[object, Meaning] = {}

    @property
    def can_be_scans(self) -> bool:
        return bool(self.tracking and (self.moment or self.day))

    def meaning(self, row: Row) -> Meaning:
        told = self._told(row)
        known = self._known.get(told)
        if known is None:
            if len(self._known) >= MOST_MEANINGS:
                self._known.clear()
            known = self._known[told] = self._think(row)
        return known

    def _think(self, row: Row) -> Meaning:
        words = " ".join(filter(None, (_said(row, name) for name in self.words)))
        phase = phase_of(_told(row, self.phase), _told(row, self.operation), words)
        reason = reason_of(phase, _told(row, self.reason)[:LONGEST_REASON])
        where = [_told(row, names) for names in (self.facility, self.city, self.state, self.zip)]
        return Meaning(phase, place(*where), reason)


def scan_of(row: Row, columns: Columns, raw: str) -> Scan:
    """The scan that the row tells of, or `Unreadable`."""
    tracking = barcode(_told(row, columns.tracking))
    when = _told(row, columns.moment)
    if not when and columns.day:
        when = f"{_told(row, columns.day)} {_told(row, columns.time)}".strip()
    phase, where, reason = columns.meaning(row)
    return Scan(tracking, phase, moment(when), raw, where, reason)


def _told(row: Row, names: tuple[str, ...]) -> str:
    """The first of these columns that says anything."""
    for name in names:
        if said := _said(row, name):
            return said
    return ""


def _said(row: Row, name: str) -> str:
    value = row.get(name)
    return value.strip() if isinstance(value, str) else ""


def barcode(text: str) -> str:
    """The 20 digits of a piece's own; what may follow is where it goes."""
    if not text:
        raise Unreadable("it has no barcode")
    digits = text if text.isdigit() else AROUND_DIGITS.sub("", text)
    whole = _with_zeros(digits) if digits.isascii() and digits.isdigit() else None
    if whole is None:
        raise Unreadable("its barcode is not 20 or 31 digits")
    return whole[:20]


def _with_zeros(digits: str) -> str | None:
    """The barcode with the zeros in front that it loses where somebody takes it for a number.

    29 digits may be a whole one or what is left of 31: the service type tells.
    """
    has = len(digits)
    longer = [digits.zfill(length) for length in BARCODE_LENGTHS if 0 < length - has <= LOST]
    if digits[0] == "0":  # none was lost
        longer = []
    for each in longer:
        if each[:2] == "00" and each[2:5] in SERVICE_TYPES:
            return each
    if has in BARCODE_LENGTHS:
        return digits
    # Of a type that we do not know, no more than the first two digits.
    return next((each for each in longer if len(each) - has < LOST), None)


def moment(text: str) -> datetime:
    """When it was. A time without a zone is taken as UTC: the carrier does not say whose it is."""
    if not text:
        raise Unreadable("it has no time")
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = _american(text)
    if not OLDEST <= found.year <= NEWEST:
        raise Unreadable(f"its time is not between {OLDEST} and {NEWEST}")
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def _american(text: str) -> datetime:
    parts = AMERICAN.fullmatch(text)
    if parts is None:
        raise Unreadable("its time cannot be read: write 2026-05-04T12:00:00Z or 05/04/2026 12:00:00")
    month, day, year, hour, minute, second = (int(part or 0) for part in parts.groups()[:6])
    half = (parts[7] or "").lower()
    try:
        if half and not 1 <= hour <= 12:
            raise ValueError
        hour = hour % 12 + (12 if half == "pm" else 0) if half else hour
        return datetime(year, month, day, hour, minute, second, tzinfo=_zone(parts[8].upper()))
    except ValueError:
        raise Unreadable("its time does not exist") from None


def _zone(text: str) -> timezone:
    if offset := OFFSET.fullmatch(text):
        sign = -1 if offset[1] == "-" else 1
        return timezone(sign * timedelta(hours=int(offset[2]), minutes=int(offset[3])))
    if text and text not in ZONES:
        raise Unreadable(f"its time is in a zone that nobody knows: {text[:10]}")
    return timezone(timedelta(hours=ZONES.get(text, 0)))


def place(facility: str, city: str, state: str, zip_code: str) -> str | None:
    """Where it was, as a person reads it: `Austin P&DC, Austin, TX 78710`."""
    town = city.title() if city.isupper() else city
    region = f"{state.upper()} {zip_code}".strip()
    if region == zip_code and zip_code and not (facility or town):
        return f"ZIP {zip_code}"[:LONGEST_PLACE]
    return ", ".join(filter(None, (facility, town, region)))[:LONGEST_PLACE] or None
