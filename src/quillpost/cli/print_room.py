"""`quillpost print`: the batches, how far they are, what is printed again."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from quillpost.accounts.audit.service import record_for_operators
from quillpost.app.bootstrap import open_container
from quillpost.app.container import Container
from quillpost.cli import held_orders, print_files
from quillpost.cli.print_files import (
    MAX_LISTED,
    BatchArgument,
    JsonOption,
    ModeOption,
    find_named_batch,
    format_count,
    print_json,
)
from quillpost.core.clock import format_iso
from quillpost.core.errors import Refused, Unavailable
from quillpost.core.paging import PageRequest
from quillpost.fulfillment.batches import tasks as batch_tasks
from quillpost.fulfillment.batches.queries import ProductionBatch
from quillpost.fulfillment.batches.rules import batch_reference
from quillpost.fulfillment.batches.service import WaitingOrders, list_waiting_orders
from quillpost.fulfillment.batches.tickets import format_ranges
from quillpost.fulfillment.print_room import reports
from quillpost.fulfillment.print_room import service as print_room_service
from quillpost.fulfillment.print_room.queries import (
    BatchDetails,
    BatchQuery,
    list_batches,
    read_batch_details,
    read_statement,
)
from quillpost.fulfillment.print_room.reports import BatchSelection, MarkResult, SpoiledItem
from quillpost.fulfillment.print_room.service import AuditCallback, CountAuditCallback, ReprintResult

TIME_FIELDS = (
    "created_at", "composed_at", "handed_at", "acknowledged_at", "printed_at", "mailed_at", "settled_at",
)  # fmt: skip

app = typer.Typer(help="The print room.", no_args_is_help=True)

ReasonOption = Annotated[str, typer.Option(help="Why.")]


def add_to(parent: typer.Typer) -> None:
    held_orders.add_to(app)
    print_files.add_to(app)
    parent.add_typer(app, name="print")


@app.command("list")
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


@app.command("show")
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
            "files": [asdict(file) for file in details.files],
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


@app.command("mark")
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

    def mark_batch(container: Container, target_batch: ProductionBatch) -> str:
        now = container.clock()
        marked_at = at.replace(tzinfo=UTC) if at is not None and at.tzinfo is None else at
        record_audit = _audit_recorder("batch.marked", _audit_details(target_batch) | {"status": status}, now)
        result = reports.mark_batch(
            container.db, target_batch.id, status, at=marked_at, spoiled=spoiled, write_audit=record_audit, now=now
        )
        if status == "spoiled":
            return _spoiled_message(target_batch, result)
        return f"{batch_reference(target_batch.id)} is marked {status}."

    _run_on_batch(batch, mark_batch)


@app.command("reprint")
def reprint(
    batch: BatchArgument,
    reason: ReasonOption,
    piece: Annotated[list[int] | None, typer.Option(help="A piece's place, from 1; repeatable.")] = None,
    first: Annotated[int | None, typer.Option("--from", help="From this place on.")] = None,
    last: Annotated[int | None, typer.Option("--to", help="Up to this place.")] = None,
    item: Annotated[list[int] | None, typer.Option(help="A piece by its item's id; repeatable.")] = None,
) -> None:
    """Print pieces of a batch again, under new barcodes, in a batch of their own."""
    selection = BatchSelection(positions=piece or (), first=first, last=last, item_ids=item or ())

    def reprint_batch(container: Container, target_batch: ProductionBatch) -> str:
        environment, now = container.environments[target_batch.mode], container.clock()
        record_audit = _audit_recorder("batch.reprinted", _audit_details(target_batch) | {"reason": reason}, now)
        result = reports.reprint_selection(
            container.db, environment, target_batch.id, selection, reason=reason, write_audit=record_audit, now=now
        )
        message = f"Printed again in {batch_reference(result.batch_id)}: {format_count(result.item_count, 'piece')}."
        return "\n".join([message, *_left_out_messages(result)])

    _run_on_batch(batch, reprint_batch)


@app.command("retry")
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

    def retry_batch(container: Container, target_batch: ProductionBatch) -> str:
        record_audit = _audit_recorder(
            "batch.retried", _audit_details(target_batch) | {"anew": anew}, container.clock()
        )
        print_room_service.retry_batch(container.db, target_batch.id, reoffer=anew, write_audit=record_audit)
        return f"{batch_reference(target_batch.id)} is {'offered anew' if anew else 'tried again'}."

    _run_on_batch(batch, retry_batch)


@app.command("remake")
def remake(batch: BatchArgument) -> None:
    """Compose a batch's files again, to the same bytes, and put them back where they were lost."""

    def remake_batch(container: Container, target_batch: ProductionBatch) -> str:
        try:
            batch_tasks.remake_files(container.production, target_batch.id)
        except Unavailable as error:
            raise Refused(f"{batch_reference(target_batch.id)} is left as it is. {error.message}") from None
        return f"The files of {batch_reference(target_batch.id)} are made again."

    _run_on_batch(batch, remake_batch)


@app.command("rush")
def rush(
    orders: Annotated[list[int], typer.Argument(metavar="ORDER", help="Numbers of orders.")], mode: ModeOption = "live"
) -> None:
    """Let orders go before the others, and without waiting for the cut-off."""
    with open_container() as (_, container):
        try:
            now = container.clock()
            record_audit = _counting_audit_recorder("orders.rushed", mode, now)
            rushed = print_room_service.rush_orders(
                container.db, mode, orders, operator_id=None, write_audit=record_audit, now=now
            )
        except Refused as error:
            raise Refused(f"{error.message.removesuffix('.')} in {mode} mode.") from None
    typer.echo(f"Rushed: {', '.join(map(str, rushed)) or 'none, they are in batches or rushed already'}.")


@app.command("pool")
def pool(mode: ModeOption = "live") -> None:
    """Make batches of what waits, without waiting for the cut-off."""
    with open_container() as (_, container):
        now = container.clock()
        order_count = print_room_service.pool_orders_now(
            container.db, mode, write_audit=_counting_audit_recorder("orders.pooled", mode, now), now=now
        )
    typer.echo(f"No longer waiting for the cut-off: {format_count(order_count, 'order')}.")


def _run_on_batch(batch: str, action: Callable[[Container, ProductionBatch], str]) -> None:
    with open_container() as (_, container):
        with container.db.system_transaction() as tx:
            target_batch = find_named_batch(tx, batch)
        typer.echo(action(container, target_batch))


def _audit_details(batch: ProductionBatch) -> dict[str, Any]:
    return {"name": batch_reference(batch.id), "mode": batch.mode}


def _audit_recorder(act: str, about: Mapping[str, Any], now: datetime) -> AuditCallback:
    return lambda tx: record_for_operators(tx, act, about=about, now=now)


def _counting_audit_recorder(act: str, mode: str, now: datetime) -> CountAuditCallback:
    return lambda tx, how_many: record_for_operators(tx, act, about={"mode": mode, "how_many": how_many}, now=now)


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
    fields = {"reference": batch_reference(batch.id)} | asdict(batch)
    return {name: format_iso(value) if isinstance(value, datetime) else value for name, value in fields.items()}


def format_waiting(groups: Sequence[WaitingOrders], mode: str, *, zone: tzinfo, now: datetime) -> str:
    order_label = "order" if mode == "live" else "test order"

    def describe(waiting_groups: Sequence[WaitingOrders]) -> str:
        pieces, orders = (sum(getattr(each, name) for each in waiting_groups) for name in ("pieces", "orders"))
        return f"{format_count(pieces, 'piece')} of {format_count(orders, order_label)}"

    first, later = groups[0], groups[1:]
    is_soon = first.until - now < timedelta(days=1)
    until = first.until.astimezone(zone).strftime("%H:%M" if is_soon else "%Y-%m-%d %H:%M")
    wait = "waits" if first.pieces == 1 else "wait"
    later_text = f", {describe(later)} longer" if later else ""
    return f"{describe([first])} {wait} until {until} ({zone}){later_text}."


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
