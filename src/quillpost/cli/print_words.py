"""What commands that list things have in common."""

import json
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Annotated, Literal

import typer

from quillpost.database import Tx
from quillpost.fulfilment.rules import batch_of, reference
from quillpost.fulfilment.shown import find_batch
from quillpost.fulfilment.store import Batch
from quillpost.kit.errors import NotFound, Refused

Mode = Annotated[Literal["live", "test"], typer.Option(help="Real mail, or testing mode.")]
Which = Annotated[str, typer.Argument(metavar="BATCH", help="Its number, or its reference.")]
Machine = Annotated[bool, typer.Option("--json", help="For machines.")]

MOST_LISTED = 1_000
MOST_ROOM = 35
"""Of a terminal of 80 letters, for the column that is not to be broken."""


def counted(how_many: int, what: str) -> str:
    return f"{how_many:,} {what}{'' if how_many == 1 else 's'}"


def on_day(moment: datetime | None) -> str | None:
    return None if moment is None else moment.astimezone(UTC).strftime("%Y-%m-%d")


def are_short(words: Iterable[str]) -> bool:
    """Whether a column of these leaves room for others, and need not be broken."""
    return max(map(len, words), default=0) <= MOST_ROOM


def find(tx: Tx, batch: str) -> Batch:
    """The batch that somebody named."""
    try:
        return find_batch(tx, _number(batch))
    except NotFound:
        raise Refused(f"There is no batch {batch}.") from None


def _number(batch: str) -> int:
    number = int(batch) if batch.isascii() and batch.isdigit() and len(batch) <= 18 else batch_of(batch)
    if number is None:
        raise Refused(f"{batch} is no batch: give its number, or its reference such as {reference(7)}.")
    return number


def write(told: object) -> None:
    json.dump(told, sys.stdout, ensure_ascii=False, indent=1)
    sys.stdout.write("\n")
