"""What an operator can mend, as one sentence and exit code 1."""

import sys

import psycopg
import sqlalchemy as sa
from rich.console import Console
from rich.markup import escape

from quillpost.kit.errors import QuillpostError


def leave_with(failure: Exception) -> None:
    """Say it and end; what only we can mend is left to be raised."""
    sentence = _sentence(failure)
    if sentence is None:
        return
    out = Console(stderr=True, soft_wrap=True, highlight=False)
    out.print(f"[bold red]quillpost:[/] {escape(sentence)}")
    sys.exit(1)


def _sentence(failure: Exception) -> str | None:
    if isinstance(failure, QuillpostError):
        return failure.message
    if isinstance(failure, psycopg.Error | sa.exc.DBAPIError):
        said = failure.orig if isinstance(failure, sa.exc.DBAPIError) else failure
        return f"The database refused: {str(said).strip().splitlines()[0].rstrip('.')}."
    return None
