"""Carrier scans from files, read at once."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from quillpost.cli.runtime import standing
from quillpost.core.errors import NotReady
from quillpost.fulfillment.tracking.files import NotScans
from quillpost.fulfillment.tracking.service import TakenIn, take_in
from quillpost.orders.rules import ItemStatus

STANDARD_INPUT = Path("-")
SHOWN = 10

tracking = typer.Typer(help="What the carrier has seen.", no_args_is_help=True)


def add_to(app: typer.Typer) -> None:
    app.add_typer(tracking, name="tracking")


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
    refused = False
    with standing() as ground:
        for file in files:
            taken = TakenIn()
            try:
                with _opened(file) as source:
                    take_in(ground.db, source, now=ground.clock(), into=taken)
            except NotScans as reason:
                typer.echo(f"{file}: {reason}", err=True)
                refused = True
            else:
                typer.echo(f"{file}: {_told(taken)}")
            _name_bad_rows(taken)
    if refused:
        raise typer.Exit(1)


@contextmanager
def _opened(file: Path) -> Iterator[BinaryIO]:
    if file == STANDARD_INPUT:
        yield sys.stdin.buffer
        return
    try:
        source = file.open("rb")
    except OSError as fault:
        raise NotReady(f"{file} cannot be read: {fault.strerror}.") from None
    with source:
        yield source


def _told(taken: TakenIn) -> str:
    moved = [f"{taken.moved[status]:,} {status}" for status in ItemStatus if taken.moved[status]]
    return (
        f"{taken.rows:,} rows read, {taken.new:,} new, {taken.ours:,} of our pieces, {taken.bad:,} refused;"
        f" moved: {', '.join(moved) or 'none'}"
    )


def _name_bad_rows(taken: TakenIn) -> None:
    for bad in taken.refused[:SHOWN]:
        typer.echo(f"  row {bad.row}: {bad.reason}", err=True)
    if taken.bad > SHOWN:
        typer.echo(f"  and {taken.bad - SHOWN:,} more", err=True)
