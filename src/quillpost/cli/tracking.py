"""Carrier scans from files, read at once."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from quillpost.app.runtime import open_core_services
from quillpost.core.errors import NotReady
from quillpost.fulfillment.tracking.rules import InvalidScanFile
from quillpost.fulfillment.tracking.service import ScanImportResult, import_scan_file
from quillpost.orders.rules import ItemStatus

STANDARD_INPUT = Path("-")
MAX_SHOWN_ROWS = 10

tracking = typer.Typer(help="What the carrier has seen.", no_args_is_help=True)


@tracking.callback()
def _group() -> None:
    """What the carrier has seen."""


@tracking.command()
def ingest(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Files; - for standard input.")],
) -> None:
    """Read files of carrier scans: IV-MTR JSON, CSV with a header, or the older CSV; packed with gzip or not.

    A file that was read before changes nothing. Rows that cannot be read are named and passed over. Exit
    code 1 when a file holds no scans at all; the others are read nevertheless.
    """
    has_failed = False
    with open_core_services() as runtime:
        for file in files:
            result = ScanImportResult()
            try:
                with _open_source(file) as source:
                    import_scan_file(runtime.db, source, now=runtime.clock(), result=result)
            except InvalidScanFile as reason:
                typer.echo(f"{file}: {reason}", err=True)
                has_failed = True
            else:
                typer.echo(f"{file}: {_ingest_summary(result)}")
            _print_bad_rows(result)
    if has_failed:
        raise typer.Exit(1)


@contextmanager
def _open_source(file: Path) -> Iterator[BinaryIO]:
    if file == STANDARD_INPUT:
        yield sys.stdin.buffer
        return
    try:
        source = file.open("rb")
    except OSError as error:
        raise NotReady(f"{file} cannot be read: {error.strerror}.") from None
    with source:
        yield source


def _ingest_summary(result: ScanImportResult) -> str:
    moved_counts = [f"{result.moved[status]:,} {status}" for status in ItemStatus if result.moved[status]]
    return (
        f"{result.rows:,} rows read, {result.new:,} new, {result.matched:,} of our pieces, {result.bad_count:,} "
        "refused;"
        f" moved: {', '.join(moved_counts) or 'none'}"
    )


def _print_bad_rows(result: ScanImportResult) -> None:
    for bad_row in result.bad_rows[:MAX_SHOWN_ROWS]:
        typer.echo(f"  row {bad_row.row}: {bad_row.reason}", err=True)
    if result.bad_count > MAX_SHOWN_ROWS:
        typer.echo(f"  and {result.bad_count - MAX_SHOWN_ROWS:,} more", err=True)
