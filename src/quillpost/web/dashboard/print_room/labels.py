"""Labels of the print room, and what operators type: positions in a batch, dollars."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from quillpost.core.errors import Invalid
from quillpost.fulfillment.print_room.reports import MAX_REPRINTED_ITEMS
from quillpost.web.dashboard.labels import PRODUCT_NAMES

CLASS_LABELS: Final[Mapping[str, str]] = {"first": "First class", "standard": "Standard"}
STATUS_LABELS: Final[Mapping[str, str]] = {
    "new": "Composing",
    "composed": "Composed",
    "handed": "With the printer",
    "printed": "Printed",
    "mailed": "Mailed",
}
STATUS_TINTS: Final[Mapping[str, str]] = {
    "new": "composing",
    "composed": "composed",
    "handed": "processing",
    "printed": "printed",
    "mailed": "mailed",
}  # classes of the style sheet
LABELS: Final[Mapping[str, Any]] = {
    "product_names": PRODUCT_NAMES,
    "class_labels": CLASS_LABELS,
    "status_labels": STATUS_LABELS,
    "tints": STATUS_TINTS,
}
"""For the templates of batches, by the names that they have there."""

RANGE_PATTERN = re.compile(r"(\d{1,18})(?:\s*(?:-|–|to)\s*(\d{1,18}))?", re.ASCII)
SEPARATOR_PATTERN = re.compile(r"[\s,;]+")
AMOUNT_PATTERN = re.compile(r"\$?\s*(\d{1,3}(?:,\d{3}){1,2}|\d{1,9})(?:\.(\d{2}))?", re.ASCII)

INVALID_NUMBERS = "Write numbers such as 17, 20-25, 31."
TOO_MANY_ITEMS = f"At most {MAX_REPRINTED_ITEMS:,} pieces at once, please."
INVALID_AMOUNT = "Write dollars and cents above zero, such as 100.00."


def parse_numbers(text: str, *, field: str) -> list[int]:
    """`17, 20-25` as sorted distinct numbers; `Invalid` at the field."""
    normalized = re.sub(r"\s*(-|–|\bto\b)\s*", "-", text.strip())
    numbers = dict[int, None]()
    for token in filter(None, SEPARATOR_PATTERN.split(normalized)):
        match = RANGE_PATTERN.fullmatch(token)
        if match is None:
            raise Invalid({field: [f"{token[:30]} is no number. {INVALID_NUMBERS}"]})
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise Invalid({field: [f"{token} runs backward. {INVALID_NUMBERS}"]})
        if last - first + len(numbers) >= MAX_REPRINTED_ITEMS:
            raise Invalid({field: [TOO_MANY_ITEMS]})
        numbers |= dict.fromkeys(range(first, last + 1))
    if not numbers:
        raise Invalid({field: [f"Say which pieces. {INVALID_NUMBERS}"]})
    return sorted(numbers)


def parse_cents(text: str, *, field: str) -> int:
    """`$1,250.00` in cents; `Invalid` at the field."""
    match = AMOUNT_PATTERN.fullmatch(text.strip())
    cents = int(match[1].replace(",", "")) * 100 + int(match[2] or 0) if match else 0
    if cents == 0:
        raise Invalid({field: [INVALID_AMOUNT]})
    return cents


def format_dollars(cents: int) -> str:
    """`25.00`"""
    return f"{cents // 100}.{cents % 100:02d}"


def format_ranges(numbers: Sequence[int]) -> str:
    """`17, 20-25`"""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
