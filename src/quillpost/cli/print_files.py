"""`quillpost print download`, and what print commands share."""

import json
import os
import sys
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

import typer

from quillpost.accounts.audit.service import note_for_operators
from quillpost.cli.container import opened
from quillpost.core.database import Tx
from quillpost.core.errors import NotFound, NotReady, Refused, Unavailable
from quillpost.fulfillment.files import BatchStore
from quillpost.fulfillment.print_room.downloads import take_files
from quillpost.fulfillment.print_room.queries import find_batch, list_files
from quillpost.fulfillment.queries import Batch
from quillpost.fulfillment.rules import batch_of, reference, saved_as

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


FOR_THE_OWNER = 0o600


def add_to(app: typer.Typer) -> None:
    app.command("download")(download)


def download(
    batch: Which,
    to: Annotated[Path, typer.Option(metavar="FOLDER", help="Where to write them; made if it is not there.")],
    file: Annotated[list[str] | None, typer.Option(help="Only the file of this name; repeatable.")] = None,
) -> None:
    """Write a batch's files into a folder, in clear and for your eyes alone.

    Each is called after its batch, such as batch-000007-print.pdf, and none that is there is replaced. The
    print file of gift cards holds what they are claimed with: remove it once it is printed. Every download
    is noted in the audit log.
    """
    with opened() as (_, parts):
        with parts.db.work() as tx:
            found = find(tx, batch)
            there = list_files(tx, found.id)
        wanted = [each for each in there if not file or each.name in file]
        missing = sorted({*(file or ())} - {each.name for each in wanted})
        name = reference(found.id)
        if missing or not wanted:
            raise Refused(f"{name} has no {', '.join(missing)}." if missing else f"{name} has no files.")
        places = {each.name: to / saved_as(found.id, each.name) for each in wanted}
        _require_absent(places.values())
        about = {"name": name, "mode": found.mode, "files": [each.name for each in wanted]}
        try:
            files = take_files(
                parts.db,
                BatchStore(parts.shelf.store, parts.sealer),
                found.id,
                wanted,
                noted=lambda tx: note_for_operators(
                    tx, "print_file.downloaded", about=about, now=parts.clock()
                ),
            )
        except NotFound:
            raise Refused(
                f"Files of {name} are lost: `quillpost print remake {name}` makes them again."
            ) from None
        except Unavailable as fault:
            raise Refused(fault.message) from None
    _write(to, {places[each]: data for each, data in files.items()})
    typer.echo(f"{counted(len(files), 'file')} of {name}: {to}")


def _require_absent(places: Iterable[Path]) -> None:
    """Before anything is noted: what is not written was not downloaded."""
    for place in places:
        if os.path.lexists(place):
            raise NotReady(f"{place} is there already: remove it, or choose another folder.")


def _write(folder: Path, files: Mapping[Path, bytes]) -> None:
    """All of them or, where one cannot be written, none."""
    made: list[Path] = []
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for place, data in files.items():
            # Not into a file that others may read, nor where a link leads.
            number = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FOR_THE_OWNER)
            made.append(place)
            with os.fdopen(number, "wb") as out:
                out.write(data)
    except OSError as fault:
        for place in made:
            place.unlink(missing_ok=True)
        raise NotReady(f"{folder} cannot be written: {fault.strerror}.") from None
