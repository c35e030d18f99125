"""`quillpost print download`, and what print commands share."""

import json
import os
import sys
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

import typer

from quillpost.accounts.audit.service import record_for_operators
from quillpost.app.bootstrap import open_container
from quillpost.core.database import Tx
from quillpost.core.errors import NotFound, NotReady, Refused, Unavailable
from quillpost.fulfillment.batches.files import BatchFileStorage
from quillpost.fulfillment.batches.queries import ProductionBatch
from quillpost.fulfillment.batches.rules import batch_reference, download_name, parse_batch_reference
from quillpost.fulfillment.print_room.queries import find_batch, list_files
from quillpost.fulfillment.print_room.service import read_files_for_download

ModeOption = Annotated[Literal["live", "test"], typer.Option(help="Real mail, or testing mode.")]
BatchArgument = Annotated[str, typer.Argument(metavar="BATCH", help="Its number, or its reference.")]
JsonOption = Annotated[bool, typer.Option("--json", help="For machines.")]

MAX_LISTED = 1_000
MAX_COLUMN_WIDTH = 35  # of a terminal of 80 letters, for the column that is not to be broken


def format_count(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def format_day(moment: datetime | None) -> str | None:
    return None if moment is None else moment.astimezone(UTC).strftime("%Y-%m-%d")


def fit_in_column(texts: Iterable[str]) -> bool:
    """Whether they leave room for other columns."""
    return max(map(len, texts), default=0) <= MAX_COLUMN_WIDTH


def find_named_batch(tx: Tx, batch: str) -> ProductionBatch:
    try:
        return find_batch(tx, _parse_batch_number(batch))
    except NotFound:
        raise Refused(f"There is no batch {batch}.") from None


def _parse_batch_number(batch: str) -> int:
    number = int(batch) if batch.isascii() and batch.isdigit() and len(batch) <= 18 else parse_batch_reference(batch)
    if number is None:
        raise Refused(f"{batch} is no batch: give its number, or its reference such as {batch_reference(7)}.")
    return number


def print_json(value: object) -> None:
    json.dump(value, sys.stdout, ensure_ascii=False, indent=1)
    sys.stdout.write("\n")


OWNER_ONLY_MODE = 0o600


def add_to(app: typer.Typer) -> None:
    app.command("download")(download)


def download(
    batch: BatchArgument,
    to: Annotated[Path, typer.Option(metavar="FOLDER", help="Where to write them; made if it is not there.")],
    file: Annotated[list[str] | None, typer.Option(help="Only the file of this name; repeatable.")] = None,
) -> None:
    """Write a batch's files into a folder, in clear and for your eyes alone.

    Each is called after its batch, such as batch-000007-print.pdf, and none that is there is replaced. The
    print file of gift cards holds what they are claimed with: remove it once it is printed. Every download
    is noted in the audit log.
    """
    with open_container() as (_, container):
        with container.db.system_transaction() as tx:
            target_batch = find_named_batch(tx, batch)
            batch_files = list_files(tx, target_batch.id)
        selected_files = [each for each in batch_files if not file or each.name in file]
        missing = sorted({*(file or ())} - {each.name for each in selected_files})
        name = batch_reference(target_batch.id)
        if missing or not selected_files:
            raise Refused(f"{name} has no {', '.join(missing)}." if missing else f"{name} has no files.")
        paths = {each.name: to / download_name(target_batch.id, each.name) for each in selected_files}
        _require_absent(paths.values())
        about = {"name": name, "mode": target_batch.mode, "files": [each.name for each in selected_files]}
        try:
            files = read_files_for_download(
                container.db,
                BatchFileStorage(container.storage.store, container.encryptor),
                target_batch.id,
                selected_files,
                write_audit=lambda tx: record_for_operators(
                    tx, "print_file.downloaded", about=about, now=container.clock()
                ),
            )
        except NotFound:
            raise Refused(f"Files of {name} are lost: `quillpost print remake {name}` makes them again.") from None
        except Unavailable as error:
            raise Refused(error.message) from None
    _write_files(to, {paths[each]: data for each, data in files.items()})
    typer.echo(f"{format_count(len(files), 'file')} of {name}: {to}")


def _require_absent(paths: Iterable[Path]) -> None:
    """Before the audit entry: what is not written was not downloaded."""
    for path in paths:
        if os.path.lexists(path):
            raise NotReady(f"{path} is there already: remove it, or choose another folder.")


def _write_files(folder: Path, files: Mapping[Path, bytes]) -> None:
    """All or none."""
    written: list[Path] = []
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path, data in files.items():
            # Not into a file that others may read, nor where a link leads.
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER_ONLY_MODE)
            written.append(path)
            with os.fdopen(descriptor, "wb") as out:
                out.write(data)
    except OSError as error:
        for path in written:
            path.unlink(missing_ok=True)
        raise NotReady(f"{folder} cannot be written: {error.strerror}.") from None
