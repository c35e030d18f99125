"""Progress of a long command, and what the demo and the welcome share."""

import json
import sys
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, date, datetime
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any, Literal, Self

import psycopg
import sqlalchemy as sa
import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.progress import Progress as RichProgress
from rich.table import Column, Table

from quillpost.core.errors import NotReady, QuillpostError
from quillpost.core.text import format_iso

ReportProgress = Callable[[int, int], None]

SAMPLE_RETURN_ADDRESS = {
    "return_name": "Dana Whitfield",
    "return_address": "PO Box 1180",
    "return_city": "Austin",
    "return_state": "TX",
    "return_postal_code": "78701",
}
# A sample that is sent again within a day and a half should be mailed again.
SAMPLE_OPTIONS = {"allow_duplicates": True}


ModeOption = Annotated[Literal["live", "test"], typer.Option(help="Real mail, or testing mode.")]
JsonOption = Annotated[bool, typer.Option("--json", help="For machines.")]
MAX_LISTED = 1_000
MAX_COLUMN_WIDTH = 35  # of a terminal of 80 letters, for the column that is not to be broken


def format_count(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def format_day(moment: datetime | None) -> str | None:
    return None if moment is None else moment.astimezone(UTC).strftime("%Y-%m-%d")


def create_table(*columns: Column) -> Table:
    """On a terminal of 80 columns, what does not fit is wrapped."""
    return Table(*columns, box=None, pad_edge=False)


def fixed_column(name: str) -> Column:
    return Column(name, no_wrap=True)


def wrapped_column(name: str, texts: Iterable[str] | None = None) -> Column:
    """On one line where all `texts` are short, so that they leave room for other columns."""
    is_unbroken = texts is not None and max(map(len, texts), default=0) <= MAX_COLUMN_WIDTH
    return Column(name, overflow="fold", no_wrap=is_unbroken)


@contextmanager
def report_unwritable(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise NotReady(f"{path} cannot be written: {error.strerror}.") from None


def print_json(value: object) -> None:
    """Dataclasses are objects, and times are written as in the API."""
    json.dump(value, sys.stdout, ensure_ascii=False, indent=1, default=_to_json)
    sys.stdout.write("\n")


def _to_json(value: Any) -> object:
    if isinstance(value, datetime):
        return format_iso(value)
    return value.isoformat() if isinstance(value, date) else asdict(value)


class ProgressBar:
    def __init__(self, title: str, steps: int) -> None:
        self._console = Console()
        self._title, self._steps, self._completed_steps = title, steps, 0
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        self._bar = RichProgress(*columns, console=self._console, disable=not self._console.is_terminal, transient=True)
        self._task = self._bar.add_task(title, total=steps)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()
        if failure is None and self._console.is_terminal:
            self._console.print(f"{self._title}: done.")

    def set_completed(self, completed: int) -> None:
        """For too many steps to have names."""
        self._bar.update(self._task, completed=min(completed, self._steps))

    @contextmanager
    def step(self, name: str) -> Iterator[ReportProgress]:
        """Yields a callback for the progress within the step."""
        self._bar.update(self._task, description=f"{self._title}: {name}")

        def report(done: int, total: int) -> None:
            self._bar.update(self._task, completed=self._completed_steps + (done / total if total else 0))

        yield report
        self._completed_steps += 1
        self._bar.update(self._task, completed=self._completed_steps)
        if not self._console.is_terminal:
            line = f"{self._title}: {self._completed_steps} of {self._steps}, {name}"
            self._console.print(line, markup=False, highlight=False, soft_wrap=True)


DIRECT_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""Past any proxy of the environment, which could not reach a service on this machine."""


def exit_with_error(error: Exception) -> None:
    """Returns if it is a bug, which is to be raised."""
    message = _error_message(error)
    if message is None:
        return
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    console.print(f"[bold red]quillpost:[/] {escape(message)}")
    sys.exit(1)


def _error_message(error: Exception) -> str | None:
    if isinstance(error, QuillpostError):
        return error.message
    if isinstance(error, psycopg.Error | sa.exc.DBAPIError):
        database_error = error.orig if isinstance(error, sa.exc.DBAPIError) else error
        return f"The database refused: {str(database_error).strip().splitlines()[0].rstrip('.')}."
    return None
