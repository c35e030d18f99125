"""The command line: `quillpost --help`."""

import os
import sys
from pathlib import Path
from typing import NoReturn

import psycopg
import sqlalchemy as sa
import typer
from rich.console import Console
from rich.markup import escape

from quillpost.cli import (
    backups,
    barcode,
    demo,
    hands,
    leads,
    lists,
    people,
    print_room,
    privacy,
    serving,
    tracking,
    upkeep,
)
from quillpost.kit.errors import QuillpostError

app = typer.Typer(
    name="quillpost",
    help="Self-hosted direct mail.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for commands in (
    serving, people, print_room, upkeep, backups, demo, hands, barcode, tracking, leads, lists, privacy,
):  # fmt: skip
    commands.add_to(app)


def _have_streams() -> None:
    """A stream that the caller has closed is replaced by one that swallows everything."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115 (for as long as we live)


def main() -> None:
    """Run a command. What an operator can mend is one sentence and exit code 1, never a traceback."""
    _have_streams()
    try:
        app()
    except QuillpostError as failure:
        _give_up(failure.message)
    except (psycopg.Error, sa.exc.DBAPIError) as refusal:
        said = refusal.orig if isinstance(refusal, sa.exc.DBAPIError) else refusal
        _give_up(f"The database refused: {str(said).strip().splitlines()[0].rstrip('.')}.")


def _give_up(sentence: str) -> NoReturn:
    out = Console(stderr=True, soft_wrap=True, highlight=False)
    out.print(f"[bold red]quillpost:[/] {escape(sentence)}")
    sys.exit(1)
