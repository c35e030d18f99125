"""The command line: `quillpost --help`."""

import sys
from typing import NoReturn

import psycopg
import sqlalchemy as sa
import typer
from rich.console import Console
from rich.markup import escape

from quillpost.cli import backups, barcode, demo, people, serving, upkeep
from quillpost.kit.errors import QuillpostError

app = typer.Typer(
    name="quillpost",
    help="Self-hosted direct mail.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for commands in (serving, people, upkeep, backups, demo, barcode):
    commands.add_to(app)


def main() -> None:
    """Run a command. What an operator can mend is one sentence and exit code 1, never a traceback."""
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
