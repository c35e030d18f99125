"""How items become batches, and the numbers in barcodes."""

import csv
import io
import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, time, timedelta, tzinfo

MAX_BATCH_ITEMS = 5_000
MAX_BATCH_BYTES = 64_000_000  # of images; a batch may exceed it by those of one design

SERVICE_TYPES: Mapping[str, str] = {"first": "310", "standard": "311"}
FULL_SERVICE_TYPES: Mapping[str, str] = {"first": "270", "standard": "271"}  # by class; codes for mail with tracing
SERIAL_REUSE_AFTER = timedelta(days=45)  # after mailing, when a barcode may be used again
SECRET_FILES_NOTE = "secret-files.txt"  # stands for secret files in job folders of our own store
UNDELIVERABLE_NAME = "Test Undeliverable"  # fails the review in testing mode
MANIFEST_COLUMNS = (
    "position", "item_id", "order_id", "first_page", "last_page", "envelope_page", "tracking",
    "name", "company", "address", "address2", "city", "province", "postal_code", "country",
)  # fmt: skip


def batch_reference(batch_id: int) -> str:
    return f"batch-{batch_id:06d}"


def download_name(batch_id: int, file_name: str) -> str:
    return f"{batch_reference(batch_id)}-{file_name}"


def parse_batch_reference(name: str) -> int | None:
    match = re.fullmatch(r"batch-(\d{6,18})", name, re.ASCII)
    return int(match[1]) if match and batch_reference(int(match[1])) == name else None


def count_serial_digits(mailer_id: str) -> int:
    """Of 15 digits that mailer id and serial share."""
    return 15 - len(mailer_id)


def next_cutoff(now: datetime, cutoff: time | None, zone: tzinfo) -> datetime:
    """When items that are ready now are pooled: at once, or at the cutoff today or tomorrow."""
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
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r"):
        return "'" + value
    return value
