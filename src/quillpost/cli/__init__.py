"""The command line: `quillpost --help`."""

import sys

import typer
from rich.console import Console

from quillpost.cli import people, serving
from quillpost.kit.errors import QuillpostError

app = typer.Typer(
    name="quillpost",
    help="Self-hosted direct mail.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
serving.add_to(app)
people.add_to(app)


def main() -> None:
    """Run a command. What an operator can mend is one sentence and exit code 1, never a traceback."""
    try:
        app()
    except QuillpostError as failure:
        Console(stderr=True, soft_wrap=True, highlight=False).print(
            f"[bold red]quillpost:[/] {failure.message}"
        )
        sys.exit(1)
