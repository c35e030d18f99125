"""How the print room calls things, and how it reads what operators type: places in a batch, and dollars."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from quillpost.core.errors import Invalid
from quillpost.fulfillment.print_room.marks import MOST_PIECES

CLASSES: Final[Mapping[str, str]] = {"first": "First class", "standard": "Standard"}
STATUSES: Final[Mapping[str, str]] = {
    "new": "Composing",
    "composed": "Composed",
    "handed": "With the printer",
    "printed": "Printed",
    "mailed": "Mailed",
}
TINTS: Final[Mapping[str, str]] = {
    "new": "composing",
    "composed": "composed",
    "handed": "processing",
    "printed": "printed",
    "mailed": "mailed",
}
"""The colour of a batch's status, by the name that the style sheet has for it."""

RANGE = re.compile(r"(\d{1,18})(?:\s*(?:-|–|to)\s*(\d{1,18}))?", re.ASCII)
BETWEEN = re.compile(r"[\s,;]+")
AMOUNT = re.compile(r"\$?\s*(\d{1,3}(?:,\d{3}){1,2}|\d{1,9})(?:\.(\d{2}))?", re.ASCII)

NOT_PLACES = "Write numbers such as 17, 20-25, 31."
TOO_MANY = f"At most {MOST_PIECES:,} pieces at once, please."
NOT_DOLLARS = "Write dollars and cents above zero, such as 100.00."


def numbers_in(text: str, *, field: str) -> list[int]:
    """`17, 20-25` as the numbers that it names, each once and in their order; `Invalid` at the field."""
    joined = re.sub(r"\s*(-|–|\bto\b)\s*", "-", text.strip())
    found = dict[int, None]()
    for word in filter(None, BETWEEN.split(joined)):
        parsed = RANGE.fullmatch(word)
        if parsed is None:
            raise Invalid({field: [f"{word[:30]} is no number. {NOT_PLACES}"]})
        first, last = int(parsed[1]), int(parsed[2] or parsed[1])
        if last < first:
            raise Invalid({field: [f"{word} runs backward. {NOT_PLACES}"]})
        if last - first + len(found) >= MOST_PIECES:
            raise Invalid({field: [TOO_MANY]})
        found |= dict.fromkeys(range(first, last + 1))
    if not found:
        raise Invalid({field: [f"Say which pieces. {NOT_PLACES}"]})
    return sorted(found)


def cents_in(text: str, *, field: str) -> int:
    """`$1,250.00` in cents; `Invalid` at the field."""
    parsed = AMOUNT.fullmatch(text.strip())
    cents = int(parsed[1].replace(",", "")) * 100 + int(parsed[2] or 0) if parsed else 0
    if cents == 0:
        raise Invalid({field: [NOT_DOLLARS]})
    return cents


def dollars_typed(cents: int) -> str:
    """The way back, as one types it: `25.00`."""
    return f"{cents // 100}.{cents % 100:02d}"


def joined(numbers: Sequence[int]) -> str:
    """The way back: `17, 20-25`."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
