"""What commands that list things have in common."""

import json
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Annotated, Literal

import typer

Mode = Annotated[Literal["live", "test"], typer.Option(help="Real mail, or testing mode.")]
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


def write(told: object) -> None:
    json.dump(told, sys.stdout, ensure_ascii=False, indent=1)
    sys.stdout.write("\n")
