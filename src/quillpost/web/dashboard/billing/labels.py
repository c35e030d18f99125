"""The ledger in words: what moved, why, and what that did to the credit."""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from quillpost.accounts.billing.queries import Move
from quillpost.core.clock import iso

KINDS: Final[Mapping[str, str]] = {
    "deposit": "Credit added",
    "withdrawal": "Credit taken out",
    "authorise": "Held",
    "capture": "Spent",
    "release": "Given back",
    "refund": "Refunded",
    "issue": "Gift cards issued",
    "return": "Gift cards returned",
}
"""Each kind of move by what a sender calls it."""

FOR_ORDER: Final[Mapping[str, str]] = {
    "authorise": "Held for order {order}",
    "capture": "Captured for order {order}: it was printed",
    "release": "Given back from order {order}",
    "refund": "Refunded for order {order}",
    "issue": "Gift cards issued for order {order}",
    "return": "Gift cards of order {order} returned",
}
LEADS_KEY = "capture:leads:"

COLUMNS = ("id", "at", "kind", "what", "order_id", "sub_account_id", "amount", "credit_change", "note")
FORMULAS = ("=", "+", "-", "@", "\t", "\r")


def told(move: Move) -> str:
    """What happened, in a sentence without its amount."""
    if move.key.startswith(LEADS_KEY):
        bought = "Addresses bought"
        return f"{bought} for order {move.order_id}" if move.order_id else bought
    if move.order_id is None:
        return KINDS.get(move.kind, move.kind)
    return FOR_ORDER.get(move.kind, "Moved for order {order}").format(order=move.order_id)


def csv_rows(moves: Iterable[Move]) -> Iterator[str]:
    """Lines of a CSV file, the header first, amounts in dollars. No note is a formula to a spreadsheet."""
    yield _line(COLUMNS)
    for move in moves:
        yield _line(
            (
                move.id,
                iso(move.at),
                move.kind,
                told(move),
                move.order_id,
                move.sub_account_id,
                _plain(move.cents),
                _plain(move.change),
                _harmless(move.note or ""),
            )
        )


def _line(cells: Iterable[object]) -> str:
    out = io.StringIO()
    csv.writer(out).writerow("" if cell is None else cell for cell in cells)
    return out.getvalue()


def _plain(cents: int) -> str:
    """`-12.50`, as a spreadsheet adds it up."""
    return f"{'-' if cents < 0 else ''}{abs(cents) // 100}.{abs(cents) % 100:02d}"


def _harmless(text: str) -> str:
    return f"'{text}" if text.startswith(FORMULAS) else text
