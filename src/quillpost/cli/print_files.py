"""`quillpost print download`: a batch's files, for whoever prints them here."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated

import typer

from quillpost.accounts.audit import note_for_operators
from quillpost.cli.opening import opened
from quillpost.cli.print_words import Which, counted, find
from quillpost.fulfilment.batch_store import BatchStore
from quillpost.fulfilment.downloads import take_files
from quillpost.fulfilment.rules import reference, saved_as
from quillpost.fulfilment.shown import list_files
from quillpost.kit.errors import NotFound, NotReady, Refused, Unavailable

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
