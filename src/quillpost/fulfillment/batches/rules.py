"""How pieces become batches, and what a barcode says."""

import csv
import io
import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, time, timedelta, tzinfo

MAX_BATCH_ITEMS = 5_000
MAX_BATCH_BYTES = 64_000_000
"""A batch carries pictures up to so many bytes, and those of one more look."""

SERVICE_TYPES: Mapping[str, str] = {"first": "310", "standard": "311"}
FULL_SERVICE_TYPES: Mapping[str, str] = {"first": "270", "standard": "271"}
"""The postal service's codes for mail with tracing, by class."""

SERIAL_REUSE_AFTER = timedelta(days=45)
"""So long after a piece was mailed its barcode is on no other."""

SECRET_FILES_NOTE = "secret-files.txt"
"""In the job folders of our own store, what lies in the place of secret files."""

UNDELIVERABLE_NAME = "Test Undeliverable"
"""In testing mode a recipient of this name fails the review."""

MANIFEST_COLUMNS = (
    "position", "item_id", "order_id", "first_page", "last_page", "envelope_page", "tracking",
    "name", "company", "address", "address2", "city", "province", "postal_code", "country",
)  # fmt: skip


def batch_reference(batch_id: int) -> str:
    """The name under which a printer knows a batch."""
    return f"batch-{batch_id:06d}"


def download_name(batch_id: int, file_name: str) -> str:
    """The name of a batch's file on the disk of whoever downloads it."""
    return f"{batch_reference(batch_id)}-{file_name}"


def parse_batch_reference(name: str) -> int | None:
    """The batch of a reference, if it is one."""
    match = re.fullmatch(r"batch-(\d{6,18})", name, re.ASCII)
    return int(match[1]) if match and batch_reference(int(match[1])) == name else None


def count_serial_digits(mailer_id: str) -> int:
    """A mailer id of nine digits leaves six for the serial, one of six nine."""
    return 15 - len(mailer_id)


def next_cutoff(now: datetime, cutoff: time | None, zone: tzinfo) -> datetime:
    """When pieces that are ready now are pooled: at once, or at that time of day, today or tomorrow."""
    if cutoff is None:
        return now
    local_now = now.astimezone(zone)
    cutoff_today = datetime.combine(local_now.date(), cutoff, zone)
    day = local_now.date() if cutoff_today >= local_now else local_now.date() + timedelta(days=1)
    return datetime.combine(day, cutoff, zone).astimezone(UTC)


def build_manifest_csv(rows: Sequence[Mapping[str, object]]) -> bytes:
    out = io.StringIO()
    writer = csv.DictWriter(out, MANIFEST_COLUMNS, lineterminator="\r\n")
    writer.writeheader()
    writer.writerows({name: _escape_formula(value) for name, value in row.items()} for row in rows)
    return out.getvalue().encode()


def build_manifest_json(rows: Sequence[Mapping[str, object]]) -> bytes:
    return json.dumps({"pieces": list(rows)}, ensure_ascii=False, indent=1).encode()


def _escape_formula(value: object) -> object:
    """A spreadsheet must not take a name for a formula."""
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r"):
        return "'" + value
    return value
