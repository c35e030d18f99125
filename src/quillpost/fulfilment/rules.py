"""How pieces become batches, and what a barcode says."""

import csv
import io
import json
from collections.abc import Mapping, Sequence

BATCH_SIZE = 5_000

SERVICE_TYPES: Mapping[str, str] = {"first": "310", "standard": "311"}
"""The postal service's codes for mail with tracing, by class."""

UNDELIVERABLE_NAME = "Test Undeliverable"
"""In testing mode a recipient of this name fails the review."""

MANIFEST_COLUMNS = (
    "item_id", "order_id", "first_page", "last_page", "envelope_page", "tracking", "name", "company",
    "address", "address2", "city", "province", "postal_code", "country",
)  # fmt: skip


def reference(batch_id: int) -> str:
    """The name under which a printer knows a batch."""
    return f"batch-{batch_id:06d}"


def manifest_csv(rows: Sequence[Mapping[str, object]]) -> bytes:
    out = io.StringIO()
    writer = csv.DictWriter(out, MANIFEST_COLUMNS, lineterminator="\r\n")
    writer.writeheader()
    writer.writerows({name: _plain(value) for name, value in row.items()} for row in rows)
    return out.getvalue().encode()


def manifest_json(rows: Sequence[Mapping[str, object]]) -> bytes:
    return json.dumps({"pieces": list(rows)}, ensure_ascii=False, indent=1).encode()


def _plain(value: object) -> object:
    """A spreadsheet must not take a name for a formula."""
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r"):
        return "'" + value
    return value
