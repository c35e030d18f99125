"""Parses a carrier's row as a scan, whatever its columns are called, and says what a scan means."""

import hashlib
import re
import tomllib
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta, timezone
from importlib.resources import files
from operator import itemgetter
from typing import NamedTuple

from quillpost.orders.rules import ItemStatus

MAX_ROW_LENGTH = 65_536  # characters; a scan has some hundreds


class InvalidScanFile(Exception):
    """Why a file holds no scans, as a sentence."""


class BadScanRow(NamedTuple):
    """`row` counts from 1."""

    row: int
    reason: str


class RawScanRow(NamedTuple):
    """A row by column, and the same as JSON."""

    row: int
    columns: Mapping[str, object]
    raw: str


class Scan(NamedTuple):
    """`phase` is one of ours or, if unknown, the carrier's own; `raw` is the carrier's row as JSON."""

    tracking: str
    phase: str
    at: datetime
    raw: str = "{}"
    location: str | None = None
    reason: str | None = None


RETURNED, DESTROYED, FORWARDED = "returned", "destroyed", "pars"

PHASES: Mapping[str, ItemStatus] = {
    **dict.fromkeys(("0", "1", "1a", "1b"), ItemStatus.IN_TRANSIT),
    **dict.fromkeys(("2", "2a", "2b", "2c"), ItemStatus.IN_LOCAL_AREA),
    **dict.fromkeys(("3a", "3b", "3c"), ItemStatus.PROCESSED_FOR_DELIVERY),
    "4c": ItemStatus.DELIVERED,
    FORWARDED: ItemStatus.RE_ROUTED,
    "fpars": ItemStatus.RE_ROUTED,
    RETURNED: ItemStatus.RETURNED_TO_SENDER,
    DESTROYED: ItemStatus.FAILED,
}
"""The status that a mail phase is evidence of. Any other phase keeps the status."""

DEFAULT_REASONS: Mapping[ItemStatus, str] = {
    ItemStatus.RE_ROUTED: "Forwarded by the postal service",
    ItemStatus.RETURNED_TO_SENDER: "Returned by the postal service",
    ItemStatus.FAILED: "Lost in the mail",
}

MAX_PHASE_LENGTH = 60
NUMBERED_PHASE = re.compile(r"(?:phase)?\s*([0-4][abc]?)(?![0-9a-z])")
FORWARDING_CODE = re.compile(r"\b(f?pars)\b")
FORWARDING_PATTERN = re.compile(r"\bforward(?:ed|ing)\b")
RETURN_PATTERN = re.compile(r"\brts\b|\breturn(?:ed|ing)? to (?:the )?(?:sender|mailer)\b|\breturned\b")
LOSS_PATTERN = re.compile(r"\bdestroyed\b|\bdead (?:letter|mail)\b|\bmail recovery\b|\bwaste\b|\bdisposed\b")
DELIVERY_PATTERN = re.compile(r"\bdelivered\b|\blogical delivery\b")


DATA = files("quillpost.fulfillment.tracking")
OPERATION_PHASES = dict(
    line.split(",") for line in DATA.joinpath("operations.csv").read_text().splitlines() if line[:1].isdigit()
)  # by the three digits of a sorting machine's operation


def parse_phase(mail_phase: str, operation: str = "", description: str = "") -> str:
    """Our name of the phase, from the carrier's phase, the operation code and any description. A phase number decides.
    Elsewhere, a return or a loss outweighs forwarding, which is how both begin."""
    phase_name = mail_phase.strip().lower()
    if number_match := NUMBERED_PHASE.match(phase_name):
        return number_match[1]
    if phase_name in PHASES:
        known_phase = phase_name
    else:
        code_match = FORWARDING_CODE.search(phase_name)
        known_phase = code_match[1] if code_match else ""
    text = f"{phase_name} {description.lower()}"
    if LOSS_PATTERN.search(text):
        return DESTROYED
    if RETURN_PATTERN.search(text):
        return RETURNED
    if known_phase:
        return known_phase
    if phase_name:
        return phase_name[:MAX_PHASE_LENGTH]
    if operation in OPERATION_PHASES:
        return OPERATION_PHASES[operation]
    if FORWARDING_CODE.search(text) or FORWARDING_PATTERN.search(text):
        return FORWARDED
    if DELIVERY_PATTERN.search(text):
        return "4c"
    return (f"operation {operation}" if operation else "unknown")[:MAX_PHASE_LENGTH]


def choose_reason(phase: str, carrier_reason: str | None) -> str | None:
    """Why an item was forwarded, returned or lost; the carrier's own reason comes first."""
    default = DEFAULT_REASONS.get(PHASES[phase]) if phase in PHASES else None
    return (carrier_reason or default) if default else None


def scan_digest(scan: Scan) -> bytes:
    """Equal for two reports of one scan."""
    at = scan.at if scan.at.tzinfo is UTC else scan.at.astimezone(UTC)
    timestamp = at.isoformat(timespec="seconds")
    return hashlib.sha256(f"{scan.tracking}|{scan.phase}|{timestamp}".encode()).digest()


COLUMN_ALIASES: Mapping[str, list[str]] = tomllib.loads(DATA.joinpath("columns.toml").read_text())
MEANING_FIELDS = ("phase", "operation", "description", "reason", "facility", "city", "state", "zip")
LEGACY_COLUMNS = ("scanFacilityZip", "operationCode", "scanDatetime", "imbRoutingCode", "imbTrackingCode")
"""Of rows without a header, in older files."""

NOT_LETTERS = re.compile(r"[^a-z]")
BARCODE_SEPARATORS = re.compile(r"[\s\-'\"=]")
BARCODE_LENGTHS = (20, 25, 29, 31)
SERVICE_TYPES = {"040", "042", "240", "260", "261", "270", "271", "300", "301", "310", "311", "700", "702"}
"""Digits three to five of usual mail; ours are 270, 271, 310 and 311."""

MAX_LOST_ZEROS = 3  # that a barcode loses as a number: two digits, and one of the service type
MIN_BARCODE_DIGITS = 20 - MAX_LOST_ZEROS
US_DATETIME = re.compile(
    r"(\d{1,2})/(\d{1,2})/(\d{4})(?:[ T]+(\d{1,2}):(\d\d)(?::(\d\d)(?:\.\d*)?)?\s*([AaPp][Mm])?)?\s*(\S*)"
)
UTC_OFFSET = re.compile(r"([+-])(\d\d):?(\d\d)")
ZONE_HOURS = {"Z": 0, "UTC": 0, "GMT": 0, "EST": -5, "EDT": -4, "CST": -6, "CDT": -5, "MST": -7, "MDT": -6,
         "PST": -8, "PDT": -7, "AKST": -9, "AKDT": -8, "HST": -10}  # fmt: skip
MIN_YEAR, MAX_YEAR = 2000, 2100
MAX_LOCATION_LENGTH, MAX_REASON_LENGTH = 200, 200
MAX_CACHED_MEANINGS = 10_000
ScanRow = Mapping[str, object]


class UnreadableScan(Exception):
    """Why a row is no scan, as a sentence."""


class ScanMeaning(NamedTuple):
    phase: str
    location: str | None
    reason: str | None


class ScanColumns:
    """The columns for each value, best first. `scanDatetime`, `scan_date_time` and `SCAN DATETIME` are one: only
    letters count."""

    def __init__(self, names: Iterable[str]) -> None:
        names_by_letters: dict[str, str] = {}
        for name in names:
            names_by_letters.setdefault(NOT_LETTERS.sub("", name.lower()), name)

        self.names = {
            field: tuple(names_by_letters[alias] for alias in aliases if alias in names_by_letters)
            for field, aliases in COLUMN_ALIASES.items()
        }
        # A million rows have few different meanings: each is parsed once.
        meaning_columns = [name for field in MEANING_FIELDS for name in self.names[field]]
        self._meaning_key = itemgetter(*meaning_columns) if meaning_columns else lambda _: None
        self._meanings: dict[object, ScanMeaning] = {}

    @property
    def has_scan_columns(self) -> bool:
        return bool(self.names["tracking"] and (self.names["datetime"] or self.names["date"]))

    def read_meaning(self, row: ScanRow) -> ScanMeaning:
        key = self._meaning_key(row)
        meaning = self._meanings.get(key)
        if meaning is None:
            if len(self._meanings) >= MAX_CACHED_MEANINGS:
                self._meanings.clear()
            meaning = self._meanings[key] = self._parse_meaning(row)
        return meaning

    def _parse_meaning(self, row: ScanRow) -> ScanMeaning:
        names = self.names
        descriptions = (_text_value(row, name) for name in (*names["description"], *names["reason"]))
        phase = parse_phase(
            _first_value(row, names["phase"]),
            _first_value(row, names["operation"]),
            " ".join(filter(None, descriptions)),
        )
        reason = choose_reason(phase, _first_value(row, names["reason"])[:MAX_REASON_LENGTH])
        location_values = [_first_value(row, names[field]) for field in ("facility", "city", "state", "zip")]
        return ScanMeaning(phase, format_location(*location_values), reason)


def parse_scan(row: ScanRow, columns: ScanColumns, raw: str) -> Scan:
    """The scan of the row, or `UnreadableScan`."""
    names = columns.names
    tracking = parse_barcode(_first_value(row, names["tracking"]))
    datetime_text = _first_value(row, names["datetime"])
    if not datetime_text and names["date"]:
        datetime_text = f"{_first_value(row, names['date'])} {_first_value(row, names['time'])}".strip()
    phase, location, reason = columns.read_meaning(row)
    return Scan(tracking, phase, parse_datetime(datetime_text), raw, location, reason)


def _first_value(row: ScanRow, names: tuple[str, ...]) -> str:
    for name in names:
        if value := _text_value(row, name):
            return value
    return ""


def _text_value(row: ScanRow, name: str) -> str:
    value = row.get(name)
    return value.strip() if isinstance(value, str) else ""


def parse_barcode(text: str) -> str:
    """The item's 20 digits, without the routing code that may follow."""
    if not text:
        raise UnreadableScan("it has no barcode")
    digits = text if text.isdigit() else BARCODE_SEPARATORS.sub("", text)
    padded = _restore_zeros(digits) if digits.isascii() and digits.isdigit() else None
    if padded is None:
        raise UnreadableScan("its barcode is not 20 or 31 digits")
    return padded[:20]


def _restore_zeros(digits: str) -> str | None:
    """The barcode with the leading zeros that it loses as a number. 29 digits may be complete, or what is left of 31:
    the service type decides."""
    length = len(digits)
    candidates = [
        digits.zfill(full_length) for full_length in BARCODE_LENGTHS if 0 < full_length - length <= MAX_LOST_ZEROS
    ]
    if digits[0] == "0":  # none was lost
        candidates = []
    for candidate in candidates:
        if candidate[:2] == "00" and candidate[2:5] in SERVICE_TYPES:
            return candidate
    if length in BARCODE_LENGTHS:
        return digits
    # With an unknown service type, no more than the first two digits are restored.
    return next((candidate for candidate in candidates if len(candidate) - length < MAX_LOST_ZEROS), None)


def parse_datetime(text: str) -> datetime:
    """A time without a zone is taken as UTC."""
    if not text:
        raise UnreadableScan("it has no time")
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        parsed = _parse_us_datetime(text)
    if not MIN_YEAR <= parsed.year <= MAX_YEAR:
        raise UnreadableScan(f"its time is not between {MIN_YEAR} and {MAX_YEAR}")
    return parsed if parsed.tzinfo is not None else parsed.replace(tzinfo=UTC)


def _parse_us_datetime(text: str) -> datetime:
    parts = US_DATETIME.fullmatch(text)
    if parts is None:
        raise UnreadableScan("its time cannot be read: write 2026-05-04T12:00:00Z or 05/04/2026 12:00:00")
    month, day, year, hour, minute, second = (int(part or 0) for part in parts.groups()[:6])
    meridiem = (parts[7] or "").lower()
    try:
        if meridiem and not 1 <= hour <= 12:
            raise ValueError
        hour = hour % 12 + (12 if meridiem == "pm" else 0) if meridiem else hour
        return datetime(year, month, day, hour, minute, second, tzinfo=_parse_zone(parts[8].upper()))
    except ValueError:
        raise UnreadableScan("its time does not exist") from None


def _parse_zone(text: str) -> timezone:
    if offset := UTC_OFFSET.fullmatch(text):
        sign = -1 if offset[1] == "-" else 1
        return timezone(sign * timedelta(hours=int(offset[2]), minutes=int(offset[3])))
    if text and text not in ZONE_HOURS:
        raise UnreadableScan(f"its time is in a zone that nobody knows: {text[:10]}")
    return timezone(timedelta(hours=ZONE_HOURS.get(text, 0)))


def format_location(facility: str, city: str, state: str, zip_code: str) -> str | None:
    """As a person reads it: `Austin P&DC, Austin, TX 78710`."""
    city_name = city.title() if city.isupper() else city
    region = f"{state.upper()} {zip_code}".strip()
    if region == zip_code and zip_code and not (facility or city_name):
        return f"ZIP {zip_code}"[:MAX_LOCATION_LENGTH]
    return ", ".join(filter(None, (facility, city_name, region)))[:MAX_LOCATION_LENGTH] or None
