"""`quillpost print`: the batches, how far they are, what is printed again."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from quillpost.accounts.audit.service import note_for_operators
from quillpost.app.container import Parts
from quillpost.cli import held_orders, print_files
from quillpost.cli.container import opened
from quillpost.cli.print_files import MOST_LISTED, Machine, Mode, Which, counted, find, write
from quillpost.core.clock import iso
from quillpost.core.errors import Refused, Unavailable
from quillpost.core.paging import PageRequest
from quillpost.fulfillment import production
from quillpost.fulfillment.batching import Waiting, list_waiting
from quillpost.fulfillment.print_room import marks as marking
from quillpost.fulfillment.print_room import service as print_room_service
from quillpost.fulfillment.print_room.marks import Marked, Pieces, Spoiled
from quillpost.fulfillment.print_room.queries import (
    BatchFilter,
    BatchShown,
    list_batches,
    read_batch_shown,
    read_statement,
)
from quillpost.fulfillment.print_room.service import Deed, Reprinted, Told
from quillpost.fulfillment.queries import Batch
from quillpost.fulfillment.rules import reference
from quillpost.fulfillment.tickets import ranges

MOMENTS = (
    "created_at", "composed_at", "handed_at", "acknowledged_at", "printed_at", "mailed_at", "settled_at",
)  # fmt: skip

app = typer.Typer(help="The print room.", no_args_is_help=True)

Reason = Annotated[str, typer.Option(help="Why.")]


def add_to(parent: typer.Typer) -> None:
    held_orders.add_to(app)
    print_files.add_to(app)
    parent.add_typer(app, name="print")


@app.command("list")
def show_list(
    mode: Annotated[Literal["live", "test"] | None, typer.Option(help="Only this mode.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Those in the mail, too.")] = False,
    trouble: Annotated[
        bool, typer.Option("--trouble", help="Only those whose step does not succeed.")
    ] = False,
    machine: Machine = False,
) -> None:
    """List the batches that are not in the mail yet, newest first."""
    wanted = BatchFilter(mode=mode, is_open=None if every else True, in_trouble=trouble)
    with opened() as (_, parts), parts.db.work() as tx:
        page = list_batches(tx, PageRequest(per_page=MOST_LISTED), wanted)
        now = parts.clock()
        worlds = [world for world in parts.worlds.values() if mode in (None, world.mode)]
        waiting = [(world, list_waiting(tx, world.mode, now=now)) for world in worlds]
    if machine:
        write([_plain(batch) for batch in page.rows])
        return
    out = Console()
    out.print(_batch_table(page.rows))
    for batch in page.rows:
        if batch.trouble is not None:
            out.print(Text(f"{reference(batch.id)}: {batch.trouble}", style="bold red"))
    if page.total > len(page.rows):
        typer.echo(f"These are the newest {len(page.rows):,} of {page.total:,}.")
    for world, groups in waiting:
        if groups:
            typer.echo(waiting_line(groups, world.mode, zone=world.zone, now=now))
    for world in worlds:
        if world.gaps:
            out.print(Text(f"No {world.mode} mail is printed yet:", style="bold red"))
            typer.echo("\n".join(f"  {gap}" for gap in world.gaps))


@app.command("show")
def show(batch: Which, machine: Machine = False) -> None:
    """Show a batch: its files, its mailing statement, its pieces."""
    with opened() as (_, parts):
        with parts.db.work() as tx:
            shown = read_batch_shown(tx, find(tx, batch).id)
        statement = read_statement(parts.shelf.store, shown)
    if machine:
        told = _plain(shown.batch) | {
            "pieces_by_status": shown.pieces,
            "void": shown.void,
            "reprints": shown.reprints,
            "files": [asdict(file) for file in shown.files],
            "statement": statement,
        }
        write(told)
        return
    out = Console()
    out.print(_facts_table(shown))
    if shown.files:
        out.print(_file_table(shown))
    if statement:
        out.print(_statement_table(statement))


@app.command("mark")
def mark(
    batch: Which,
    status: Annotated[
        Literal["acknowledged", "printed", "mailed", "spoiled"], typer.Argument(help="How far it is.")
    ],
    piece: Annotated[
        list[int] | None, typer.Option(help="A spoiled piece's place, from 1; repeatable.")
    ] = None,
    item: Annotated[list[int] | None, typer.Option(help="The same by its item's id.")] = None,
    reason: Annotated[str | None, typer.Option(help="Why the pieces are spoiled.")] = None,
    at: Annotated[
        datetime | None, typer.Option(help="When, in UTC unless it says otherwise; now if not said.")
    ] = None,
) -> None:
    """Say how far a batch is, and which of its pieces are spoiled.

    A spoiled piece is given up: it fails, and is not billed. To print it again, use `reprint` instead.
    """
    spoiled = [Spoiled(position=place, reason=reason) for place in piece or ()]
    spoiled += [Spoiled(item_id=number, reason=reason) for number in item or ()]

    def deed(parts: Parts, found: Batch) -> str:
        now = parts.clock()
        when = at.replace(tzinfo=UTC) if at is not None and at.tzinfo is None else at
        noted = _noted("batch.marked", _about(found) | {"status": status}, now)
        done = marking.mark(parts.db, found.id, status, at=when, spoiled=spoiled, noted=noted, now=now)
        if status == "spoiled":
            return _spoiled_line(found, done)
        return f"{reference(found.id)} is marked {status}."

    _do(batch, deed)


@app.command("reprint")
def reprint(
    batch: Which,
    reason: Reason,
    piece: Annotated[list[int] | None, typer.Option(help="A piece's place, from 1; repeatable.")] = None,
    first: Annotated[int | None, typer.Option("--from", help="From this place on.")] = None,
    last: Annotated[int | None, typer.Option("--to", help="Up to this place.")] = None,
    item: Annotated[list[int] | None, typer.Option(help="A piece by its item's id; repeatable.")] = None,
) -> None:
    """Print pieces of a batch again, under new barcodes, in a batch of their own."""
    wanted = Pieces(positions=piece or (), first=first, last=last, item_ids=item or ())

    def deed(parts: Parts, found: Batch) -> str:
        world, now = parts.worlds[found.mode], parts.clock()
        noted = _noted("batch.reprinted", _about(found) | {"reason": reason}, now)
        made = marking.reprint(parts.db, world, found.id, wanted, reason=reason, noted=noted, now=now)
        told = f"Printed again in {reference(made.batch_id)}: {counted(made.pieces, 'piece')}."
        return "\n".join([told, *_left_out_lines(made)])

    _do(batch, deed)


@app.command("retry")
def retry(
    batch: Which,
    anew: Annotated[
        bool,
        typer.Option(
            "--anew",
            help="The partner to whom it was offered does not have it: offer it to the present one.",
        ),
    ] = False,
) -> None:
    """Take a batch's present step again, now: it was given up, or waits for its time."""

    def deed(parts: Parts, found: Batch) -> str:
        noted = _noted("batch.retried", _about(found) | {"anew": anew}, parts.clock())
        print_room_service.retry(parts.db, found.id, anew=anew, noted=noted)
        return f"{reference(found.id)} is {'offered anew' if anew else 'tried again'}."

    _do(batch, deed)


@app.command("remake")
def remake(batch: Which) -> None:
    """Compose a batch's files again, to the same bytes, and put them back where they were lost."""

    def deed(parts: Parts, found: Batch) -> str:
        try:
            production.remake(parts.press, found.id)
        except Unavailable as fault:
            raise Refused(f"{reference(found.id)} is left as it is. {fault.message}") from None
        return f"The files of {reference(found.id)} are made again."

    _do(batch, deed)


@app.command("rush")
def rush(
    orders: Annotated[list[int], typer.Argument(metavar="ORDER", help="Numbers of orders.")],
    mode: Mode = "live",
) -> None:
    """Let orders go before the others, and without waiting for the cut-off."""
    with opened() as (_, parts):
        try:
            now = parts.clock()
            noted = _counted("orders.rushed", mode, now)
            rushed = print_room_service.rush(parts.db, mode, orders, operator_id=None, noted=noted, now=now)
        except Refused as fault:
            raise Refused(f"{fault.message.removesuffix('.')} in {mode} mode.") from None
    typer.echo(f"Rushed: {', '.join(map(str, rushed)) or 'none, they are in batches or rushed already'}.")


@app.command("pool")
def pool(mode: Mode = "live") -> None:
    """Make batches of what waits, without waiting for the cut-off."""
    with opened() as (_, parts):
        now = parts.clock()
        early = print_room_service.pool_now(
            parts.db, mode, noted=_counted("orders.pooled", mode, now), now=now
        )
    typer.echo(f"No longer waiting for the cut-off: {counted(early, 'order')}.")


def _do(batch: str, deed: Callable[[Parts, Batch], str]) -> None:
    """Find the batch, do it, and say what came of it."""
    with opened() as (_, parts):
        with parts.db.work() as tx:
            found = find(tx, batch)
        typer.echo(deed(parts, found))


def _about(batch: Batch) -> dict[str, Any]:
    return {"name": reference(batch.id), "mode": batch.mode}


def _noted(act: str, about: Mapping[str, Any], now: datetime) -> Deed:
    return lambda tx: note_for_operators(tx, act, about=about, now=now)


def _counted(act: str, mode: str, now: datetime) -> Told:
    return lambda tx, how_many: note_for_operators(
        tx, act, about={"mode": mode, "how_many": how_many}, now=now
    )


def _spoiled_line(batch: Batch, done: Marked) -> str:
    name = reference(batch.id)
    before = f"{counted(done.passed_over, 'piece')} had failed before."
    if not done.spoiled:
        return f"Nothing changes in {name}: {before}"
    told = f"{counted(done.spoiled, 'piece')} of {name}: spoiled, and not billed."
    return f"{told} {before}" if done.passed_over else told


def _left_out_lines(made: Reprinted) -> list[str]:
    why = dict[str, list[int]]()
    for piece in made.left_out:
        why.setdefault(piece.reason, []).append(piece.position)
    return [f"Left out: {ranges(positions)}. {reason}" for reason, positions in why.items()]


def _plain(batch: Batch) -> dict[str, Any]:
    told = {"reference": reference(batch.id)} | asdict(batch)
    return {name: iso(value) if isinstance(value, datetime) else value for name, value in told.items()}


def waiting_line(groups: Sequence[Waiting], mode: str, *, zone: tzinfo, now: datetime) -> str:
    """What waits for the next pooling, and how much of it for a later one."""
    what = "order" if mode == "live" else "test order"

    def pieces_of(several: Sequence[Waiting]) -> str:
        pieces, orders = (sum(getattr(each, name) for each in several) for name in ("pieces", "orders"))
        return f"{counted(pieces, 'piece')} of {counted(orders, what)}"

    first, later = groups[0], groups[1:]
    is_soon = first.until - now < timedelta(days=1)
    until = first.until.astimezone(zone).strftime("%H:%M" if is_soon else "%Y-%m-%d %H:%M")
    wait = "waits" if first.pieces == 1 else "wait"
    longer = f", {pieces_of(later)} longer" if later else ""
    return f"{pieces_of([first])} {wait} until {until} ({zone}){longer}."


def _batch_table(rows: list[Batch]) -> Table:
    """As wide as a usual screen; what troubles a batch needs lines of its own."""
    table = Table()
    for name in ("Batch", "Mode", "Status", "Piece", "Pieces", "Made"):
        # Where the window is narrow these may break; what an operator types stays whole.
        is_whole = name not in ("Status", "Piece")
        table.add_column(name, no_wrap=is_whole, justify="right" if name == "Pieces" else "left")
    for batch in rows:
        marks = ["rush"] * batch.rush + [f"reprint of {batch.reprint_of}"] * bool(batch.reprint_of)
        table.add_row(
            reference(batch.id),
            batch.mode,
            "\n".join([batch.status, *marks]),
            f"{batch.piece}\n{batch.mail_class}, {batch.stock}",
            f"{batch.item_count:,}",
            f"{batch.created_at:%Y-%m-%d\n%H:%M} UTC",
        )
    return table


def _facts_table(shown: BatchShown) -> Table:
    batch = shown.batch
    table = Table(reference(batch.id), f"{batch.mode}, {batch.status}")
    table.add_row("piece", f"{batch.piece}, {batch.mail_class} class, {batch.stock}")
    if batch.reprint_of:
        table.add_row("reprint of", reference(batch.reprint_of))
    for name in MOMENTS:
        at = getattr(batch, name)
        if at is not None:
            table.add_row(name.removesuffix("_at"), iso(at))
    if batch.trouble:
        table.add_row("trouble", Text(batch.trouble, style="bold red"))
    for status, pieces in shown.pieces.items():
        table.add_row(status, f"{pieces:,}")
    if shown.void:
        anew = ", ".join(map(reference, shown.reprints))
        table.add_row("void", f"{shown.void:,}, printed again in {anew}")
    return table


def _file_table(shown: BatchShown) -> Table:
    table = Table("File", "Bytes")
    table.add_column("SHA-256", overflow="fold")
    for file in shown.files:
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
