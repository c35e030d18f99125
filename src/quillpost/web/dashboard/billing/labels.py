"""Labels and CSV lines of the ledger."""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from quillpost.accounts.billing.queries import LedgerMove
from quillpost.core.text import format_iso

KIND_LABELS: Final[Mapping[str, str]] = {
    "deposit": "Credit added",
    "withdrawal": "Credit taken out",
    "authorise": "Held",
    "capture": "Spent",
    "release": "Given back",
    "refund": "Refunded",
    "issue": "Gift cards issued",
    "return": "Gift cards returned",
}

ORDER_LABELS: Final[Mapping[str, str]] = {
    "authorise": "Held for order {order}",
    "capture": "Captured for order {order}: it was printed",
    "release": "Given back from order {order}",
    "refund": "Refunded for order {order}",
    "issue": "Gift cards issued for order {order}",
    "return": "Gift cards of order {order} returned",
}
LEADS_KEY_PREFIX = "capture:leads:"

CSV_COLUMNS = ("id", "at", "kind", "what", "order_id", "sub_account_id", "amount", "credit_change", "note")
FORMULA_PREFIXES = ("=", "+", "-", "@", "\t", "\r")


def describe_move(move: LedgerMove) -> str:
    """A sentence without the amount."""
    if move.key.startswith(LEADS_KEY_PREFIX):
        label = "Addresses bought"
        return f"{label} for order {move.order_id}" if move.order_id else label
    if move.order_id is None:
        return KIND_LABELS.get(move.kind, move.kind)
    return ORDER_LABELS.get(move.kind, "Moved for order {order}").format(order=move.order_id)


def csv_lines(moves: Iterable[LedgerMove]) -> Iterator[str]:
    """The header first, amounts in dollars. Notes are escaped, so that no spreadsheet takes one for a formula."""
    yield _csv_line(CSV_COLUMNS)
    for move in moves:
        yield _csv_line(
            (
                move.id,
                format_iso(move.at),
                move.kind,
                describe_move(move),
                move.order_id,
                move.sub_account_id,
                _format_dollars(move.cents),
                _format_dollars(move.change),
                _escape_formula(move.note or ""),
            )
        )


def _csv_line(cells: Iterable[object]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer).writerow("" if cell is None else cell for cell in cells)
    return buffer.getvalue()


def _format_dollars(cents: int) -> str:
    """`-12.50`"""
    return f"{'-' if cents < 0 else ''}{abs(cents) // 100}.{abs(cents) % 100:02d}"


def _escape_formula(text: str) -> str:
    return f"'{text}" if text.startswith(FORMULA_PREFIXES) else text
