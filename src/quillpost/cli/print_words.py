"""What the commands of the print room have in common."""

import json
import sys
from typing import Annotated, Literal

import typer

Mode = Annotated[Literal["live", "test"], typer.Option(help="Real mail, or testing mode.")]
Machine = Annotated[bool, typer.Option("--json", help="For machines.")]

MOST_LISTED = 1_000


def counted(how_many: int, what: str) -> str:
    return f"{how_many:,} {what}{'' if how_many == 1 else 's'}"


def write(told: object) -> None:
    json.dump(told, sys.stdout, ensure_ascii=False, indent=1)
    sys.stdout.write("\n")
