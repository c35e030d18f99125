"""Audit entries as sentences, or as CSV."""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from quillpost.accounts.audit.service import ACTION_LABELS, APP_ACTOR_NAME, AuditEntry
from quillpost.core.text import format_iso

OBJECT_KEYS = ("name", "email", "title", "amount")
PLAIN_KEYS = ("mode", "role", "sub_account")
HIDDEN_KEYS = ("id",)
CSV_COLUMNS = ("id", "at", "actor", "act", "about", "sub_account_id", "network")
FORMULA_PREFIXES = ("=", "+", "-", "@", "\t", "\r")


def describe_entry(entry: AuditEntry) -> str:
    """`dana@example.com made a token: Zapier (live)`. A person who did it to themselves is named once."""
    sentence = f"{entry.actor} {ACTION_LABELS.get(entry.act, entry.act)}"
    self_references = {
        key: value for key, value in entry.about.items() if entry.actor in (value, APP_ACTOR_NAME.format(name=value))
    }
    target, details = _split_details({key: value for key, value in entry.about.items() if key not in self_references})
    return sentence + (f": {target}" if target else "") + (f" ({details})" if details else "")


def describe_details(details: Mapping[str, Any]) -> str:
    target, extra = _split_details(details)
    return f"{target} ({extra})" if target and extra else target or extra


def _split_details(details: Mapping[str, Any]) -> tuple[str, str]:
    """What it was done to, and more about that."""
    values = {key: value for key, value in details.items() if key not in HIDDEN_KEYS and value not in (None, "")}
    target = ", ".join(_format_value(values.pop(key)) for key in OBJECT_KEYS if key in values)
    plain_values = [_format_value(values.pop(key)) for key in PLAIN_KEYS if key in values]
    return target, ", ".join(
        plain_values + [f"{key.replace('_', ' ')}: {_format_value(values[key])}" for key in sorted(values)]
    )


def generate_csv(entries: Iterable[AuditEntry]) -> Iterator[str]:
    """Lines of a CSV file, the header first. No cell is a formula to a spreadsheet."""
    yield _format_csv_line(CSV_COLUMNS)
    for entry in entries:
        details = describe_details(entry.about)
        yield _format_csv_line(
            (entry.id, format_iso(entry.at), entry.actor, entry.act, details, entry.sub_account_id, entry.network)
        )


def _format_value(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _format_csv_line(cells: Iterable[object]) -> str:
    out = io.StringIO()
    csv.writer(out).writerow(_escape_formula("" if cell is None else str(cell)) for cell in cells)
    return out.getvalue()


def _escape_formula(cell: str) -> str:
    return f"'{cell}" if cell.startswith(FORMULA_PREFIXES) else cell
