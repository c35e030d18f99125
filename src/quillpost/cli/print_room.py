"""`quillpost print`: the batches, how far they are, what is printed again."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from quillpost.accounts.audit.service import record_for_operators
from quillpost.app.bootstrap import open_container
from quillpost.app.container import Container
from quillpost.cli.console import MAX_LISTED, JsonOption, format_count, print_json
from quillpost.cli.orders import format_waiting, pool, refuse, release, rush, show_held
from quillpost.core.database import Tx
from quillpost.core.errors import NotFound, NotReady, Refused, Unavailable
from quillpost.core.paging import PageRequest
from quillpost.core.text import format_iso
from quillpost.fulfillment.batches import tasks as batch_tasks
from quillpost.fulfillment.batches.files import BatchFileStorage
from quillpost.fulfillment.batches.queries import ProductionBatch
from quillpost.fulfillment.batches.rules import batch_reference, download_name, format_ranges, parse_batch_reference
from quillpost.fulfillment.batches.service import list_waiting_orders
from quillpost.fulfillment.print_room import reports
from quillpost.fulfillment.print_room import service as print_room_service
from quillpost.fulfillment.print_room.queries import (
    BatchDetails,
    BatchQuery,
    find_batch,
    list_batches,
    list_files,
    read_batch_details,
    read_statement,
)
from quillpost.fulfillment.print_room.reports import BatchSelection, MarkResult, SpoiledItem
from quillpost.fulfillment.print_room.service import AuditCallback, ReprintResult, read_files_for_download

TIME_FIELDS = (
    "created_at", "composed_at", "handed_at", "acknowledged_at", "printed_at", "mailed_at", "settled_at",
)  # fmt: skip

print_ = typer.Typer(help="The print room.", no_args_is_help=True)

BatchArgument = Annotated[str, typer.Argument(metavar="BATCH", help="Its number, or its reference.")]
OWNER_ONLY_MODE = 0o600


@print_.command("list")
def show_list(
    mode: Annotated[Literal["test", "live"] | None, typer.Option(help="Only this mode.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Those in the mail, too.")] = False,
    trouble: Annotated[bool, typer.Option("--trouble", help="Only those whose step does not succeed.")] = False,
    machine: JsonOption = False,
) -> None:
    """List the batches that are not in the mail yet, newest first."""
    batch_filter = BatchQuery(mode=mode, is_open=None if every else True, has_error=trouble)
    with open_container() as (_, container), container.db.system_transaction() as tx:
        page = list_batches(tx, PageRequest(per_page=MAX_LISTED), batch_filter)
        now = container.clock()
        environments = [
            environment for environment in container.environments.values() if mode in (None, environment.mode)
        ]
        waiting = [(environment, list_waiting_orders(tx, environment.mode, now=now)) for environment in environments]
    if machine:
        print_json([_batch_to_json(batch) for batch in page.rows])
        return
    out = Console()
    out.print(_batch_table(page.rows))
    for batch in page.rows:
        if batch.trouble is not None:
            out.print(Text(f"{batch_reference(batch.id)}: {batch.trouble}", style="bold red"))
    if page.total > len(page.rows):
        typer.echo(f"These are the newest {len(page.rows):,} of {page.total:,}.")
    for environment, groups in waiting:
        if groups:
            typer.echo(format_waiting(groups, environment.mode, zone=environment.zone, now=now))
    for environment in environments:
        if environment.gaps:
            out.print(Text(f"No {environment.mode} mail is printed yet:", style="bold red"))
            typer.echo("\n".join(f"  {gap}" for gap in environment.gaps))


@print_.command("show")
def show(batch: BatchArgument, machine: JsonOption = False) -> None:
    """Show a batch: its files, its mailing statement, its pieces."""
    with open_container() as (_, container):
        with container.db.system_transaction() as tx:
            details = read_batch_details(tx, find_named_batch(tx, batch).id)
        statement = read_statement(container.storage.store, details)
    if machine:
        output = _batch_to_json(details.batch) | {
            "pieces_by_status": details.pieces,
            "void": details.void,
            "reprints": details.reprints,
            "files": details.files,
            "statement": statement,
        }
        print_json(output)
        return
    out = Console()
    out.print(_batch_details_table(details))
    if details.files:
        out.print(_file_table(details))
    if statement:
        out.print(_statement_table(statement))


@print_.command("mark")
def mark(
    batch: BatchArgument,
    status: Annotated[Literal["acknowledged", "printed", "mailed", "spoiled"], typer.Argument(help="How far it is.")],
    piece: Annotated[list[int] | None, typer.Option(help="A spoiled piece's place, from 1; repeatable.")] = None,
    item: Annotated[list[int] | None, typer.Option(help="The same by its item's id.")] = None,
    reason: Annotated[str | None, typer.Option(help="Why the pieces are spoiled.")] = None,
    at: Annotated[datetime | None, typer.Option(help="When, in UTC unless it says otherwise; now if not said.")] = None,
) -> None:
    """Say how far a batch is, and which of its pieces are spoiled.

    A spoiled piece is given up: it fails, and is not billed. To print it again, use `reprint` instead.
    """
    spoiled = [SpoiledItem(position=position, reason=reason) for position in piece or ()]
    spoiled += [SpoiledItem(item_id=number, reason=reason) for number in item or ()]

    with _open_batch(batch) as (container, target_batch):
        now = container.clock()
        marked_at = at.replace(tzinfo=UTC) if at is not None and at.tzinfo is None else at
        record_audit = _audit_recorder("batch.marked", target_batch, now, status=status)
        result = reports.mark_batch(
            container.db, target_batch.id, status, at=marked_at, spoiled=spoiled, write_audit=record_audit, now=now
        )
    if status == "spoiled":
        typer.echo(_spoiled_message(target_batch, result))
    else:
        typer.echo(f"{batch_reference(target_batch.id)} is marked {status}.")


@print_.command("reprint")
def reprint(
    batch: BatchArgument,
    reason: Annotated[str, typer.Option(help="Why.")],
    piece: Annotated[list[int] | None, typer.Option(help="A piece's place, from 1; repeatable.")] = None,
    first: Annotated[int | None, typer.Option("--from", help="From this place on.")] = None,
    last: Annotated[int | None, typer.Option("--to", help="Up to this place.")] = None,
    item: Annotated[list[int] | None, typer.Option(help="A piece by its item's id; repeatable.")] = None,
) -> None:
    """Print pieces of a batch again, under new barcodes, in a batch of their own."""
    selection = BatchSelection(positions=piece or (), first=first, last=last, item_ids=item or ())

    with _open_batch(batch) as (container, target_batch):
        environment, now = container.environments[target_batch.mode], container.clock()
        record_audit = _audit_recorder("batch.reprinted", target_batch, now, reason=reason)
        result = reports.reprint_selection(
            container.db, environment, target_batch.id, selection, reason=reason, write_audit=record_audit, now=now
        )
    typer.echo(f"Printed again in {batch_reference(result.batch_id)}: {format_count(result.item_count, 'piece')}.")
    for message in _left_out_messages(result):
        typer.echo(message)


@print_.command("retry")
def retry(
    batch: BatchArgument,
    anew: Annotated[
        bool,
        typer.Option(
            "--anew", help="The partner to whom it was offered does not have it: offer it to the present one."
        ),
    ] = False,
) -> None:
    """Take a batch's present step again, now: it was given up, or waits for its time."""
    with _open_batch(batch) as (container, target_batch):
        record_audit = _audit_recorder("batch.retried", target_batch, container.clock(), anew=anew)
        print_room_service.retry_batch(container.db, target_batch.id, reoffer=anew, write_audit=record_audit)
    typer.echo(f"{batch_reference(target_batch.id)} is {'offered anew' if anew else 'tried again'}.")


@print_.command("remake")
def remake(batch: BatchArgument) -> None:
    """Compose a batch's files again, to the same bytes, and put them back where they were lost."""
    with _open_batch(batch) as (container, target_batch):
        try:
            batch_tasks.remake_files(container.production, target_batch.id)
        except Unavailable as error:
            raise Refused(f"{batch_reference(target_batch.id)} is left as it is. {error.message}") from None
    typer.echo(f"The files of {batch_reference(target_batch.id)} are made again.")


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
    with _open_batch(batch) as (container, target_batch):
        with container.db.system_transaction() as tx:
            batch_files = list_files(tx, target_batch.id)
        selected_files = [each for each in batch_files if not file or each.name in file]
        missing = sorted({*(file or ())} - {each.name for each in selected_files})
        name = batch_reference(target_batch.id)
        if missing or not selected_files:
            raise Refused(f"{name} has no {', '.join(missing)}." if missing else f"{name} has no files.")
        paths = {each.name: to / download_name(target_batch.id, each.name) for each in selected_files}
        for path in paths.values():  # before the audit entry: what is not written was not downloaded
            if os.path.lexists(path):
                raise NotReady(f"{path} is there already: remove it, or choose another folder.")
        file_names = [each.name for each in selected_files]
        try:
            files = read_files_for_download(
                container.db,
                BatchFileStorage(container.storage.store, container.encryptor),
                target_batch.id,
                selected_files,
                write_audit=_audit_recorder("print_file.downloaded", target_batch, container.clock(), files=file_names),
            )
        except NotFound:
            raise Refused(f"Files of {name} are lost: `quillpost print remake {name}` makes them again.") from None
        except Unavailable as error:
            raise Refused(error.message) from None
    _write_files(to, {paths[each]: data for each, data in files.items()})
    typer.echo(f"{format_count(len(files), 'file')} of {name}: {to}")


@contextmanager
def _open_batch(batch: str) -> Iterator[tuple[Container, ProductionBatch]]:
    with open_container() as (_, container):
        with container.db.system_transaction() as tx:
            target_batch = find_named_batch(tx, batch)
        yield container, target_batch


def _audit_recorder(act: str, batch: ProductionBatch, now: datetime, **details: object) -> AuditCallback:
    about = {"name": batch_reference(batch.id), "mode": batch.mode} | details
    return lambda tx: record_for_operators(tx, act, about=about, now=now)


def _spoiled_message(batch: ProductionBatch, result: MarkResult) -> str:
    name = batch_reference(batch.id)
    already_failed = f"{format_count(result.skipped, 'piece')} had failed before."
    if not result.spoiled:
        return f"Nothing changes in {name}: {already_failed}"
    message = f"{format_count(result.spoiled, 'piece')} of {name}: spoiled, and not billed."
    return f"{message} {already_failed}" if result.skipped else message


def _left_out_messages(result: ReprintResult) -> list[str]:
    positions_by_reason = dict[str, list[int]]()
    for piece in result.skipped:
        positions_by_reason.setdefault(piece.reason, []).append(piece.position)
    return [f"Left out: {format_ranges(positions)}. {reason}" for reason, positions in positions_by_reason.items()]


def _batch_to_json(batch: ProductionBatch) -> dict[str, Any]:
    return {"reference": batch_reference(batch.id)} | asdict(batch)


def _batch_table(rows: list[ProductionBatch]) -> Table:
    """80 columns wide; errors get lines of their own."""
    table = Table()
    for name in ("Batch", "Mode", "Status", "Piece", "Pieces", "Made"):
        # Where the window is narrow these may break; what an operator types stays whole.
        is_unbroken = name not in ("Status", "Piece")
        table.add_column(name, no_wrap=is_unbroken, justify="right" if name == "Pieces" else "left")
    for batch in rows:
        notes = ["rush"] * batch.rush + [f"reprint of {batch.reprint_of}"] * bool(batch.reprint_of)
        table.add_row(
            batch_reference(batch.id),
            batch.mode,
            "\n".join([batch.status, *notes]),
            f"{batch.piece}\n{batch.mail_class}, {batch.stock}",
            f"{batch.item_count:,}",
            f"{batch.created_at:%Y-%m-%d\n%H:%M} UTC",
        )
    return table


def _batch_details_table(details: BatchDetails) -> Table:
    batch = details.batch
    table = Table(batch_reference(batch.id), f"{batch.mode}, {batch.status}")
    table.add_row("piece", f"{batch.piece}, {batch.mail_class} class, {batch.stock}")
    if batch.reprint_of:
        table.add_row("reprint of", batch_reference(batch.reprint_of))
    for name in TIME_FIELDS:
        at = getattr(batch, name)
        if at is not None:
            table.add_row(name.removesuffix("_at"), format_iso(at))
    if batch.trouble:
        table.add_row("trouble", Text(batch.trouble, style="bold red"))
    for status, pieces in details.pieces.items():
        table.add_row(status, f"{pieces:,}")
    if details.void:
        reprint_names = ", ".join(map(batch_reference, details.reprints))
        table.add_row("void", f"{details.void:,}, printed again in {reprint_names}")
    return table


def _file_table(details: BatchDetails) -> Table:
    table = Table("File", "Bytes")
    table.add_column("SHA-256", overflow="fold")
    for file in details.files:
        table.add_row(file.name, f"{file.size:,}", file.sha256)
    return table


def _statement_table(statement: dict[str, Any]) -> Table:
    """The sums; the groups by ZIP are in the file."""
    table = Table("Mailing statement", "")
    for name, value in statement.items():
        if not isinstance(value, list | dict):
            table.add_row(name.replace("_", " "), Text(str(value if value is not None else "")))
    if serials := statement.get("serials"):
        table.add_row("serials", f"{serials['first']} to {serials['last']}")
    table.add_row("groups by ZIP", f"{len(statement.get('by_zip3', ())):,}")
    return table


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


# After the batches' own commands, as `quillpost print --help` lists them.
for _name, _command in (
    ("rush", rush), ("pool", pool), ("held", show_held),
    ("release", release), ("refuse", refuse), ("download", download),
):  # fmt: skip
    print_.command(_name)(_command)
