"""Mailing lists from files, and back."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, TaskProgressColumn, TextColumn
from rich.progress import Progress as Bar

from quillpost.accounts.audit import service as audit_service
from quillpost.accounts.models import Caller
from quillpost.accounts.service import find_account, tenant
from quillpost.app.runtime import Footing
from quillpost.cli.runtime import standing
from quillpost.core.database import Tenant
from quillpost.core.errors import Invalid, NotFound, NotReady
from quillpost.recipients.imports import queries as import_queries
from quillpost.recipients.imports import report
from quillpost.recipients.imports import service as import_service
from quillpost.recipients.imports import tasks as import_tasks
from quillpost.recipients.imports.columns import require_someone, warnings_of
from quillpost.recipients.imports.queries import Import
from quillpost.recipients.imports.service import Looked
from quillpost.recipients.imports.tasks import SomeLost
from quillpost.recipients.lists import export as exporting
from quillpost.recipients.lists import service as list_service
from quillpost.recipients.lists.queries import read_list

lists = typer.Typer(help="Mailing lists from files, and back.", no_args_is_help=True)

TAKEN_OVER = "Import {} is in other hands: see GET /imports/{}."


def add_to(app: typer.Typer) -> None:
    app.add_typer(lists, name="lists")


@lists.command("import")
def import_(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="CSV, TSV or a workbook (.xlsx).")],
    account: Annotated[str, typer.Option(help="The account's e-mail.")],
    list_id: Annotated[int | None, typer.Option("--list", help="The list to fill.")] = None,
    name: Annotated[str | None, typer.Option(help="The name of a new list to fill.")] = None,
    mapping: Annotated[
        list[str] | None, typer.Option("--map", metavar="COLUMN=FIELD", help="What a column holds.")
    ] = None,
    sub_account: Annotated[int | None, typer.Option(help="The sub account of a new list.")] = None,
    header: Annotated[
        bool | None,
        typer.Option(
            "--header/--no-header", help="Whether the first row names the columns; else it is guessed."
        ),
    ] = None,
    rejected: Annotated[Path | None, typer.Option(help="Where rows that are not taken are listed.")] = None,
) -> None:
    """Put the people of a file on a mailing list, all of them at once.

    Columns are guessed by their names; --map says otherwise, as --map "Strasse=address", and --map "Notes="
    leaves one out. Rows that cannot be taken are written with the reason to a CSV file. If this command is
    killed, the service goes on with the import.
    """
    if (list_id is None) == (name is None):
        raise NotReady("Say which list: --list with its id, or --name for a new one.")
    with _looked(file, mapping or [], header) as looked, standing() as ground:
        who = _caller(ground, account)
        list_id = list_id or _new_list(ground, who, str(name), sub_account)
        key = import_service.keep(ground.store, looked, now=ground.clock())
        try:
            with ground.db.transaction(tenant(who)) as tx:
                made = import_service.place(tx, list_id, looked, key, clock=ground.clock, booked=False)
        except NotFound:
            ground.store.delete(key)
            raise NotReady(f"{account} has no list {list_id}.") from None
        except BaseException:
            ground.store.delete(key)
            raise
        done = _filled(ground, made.id)
        _tell(done)
        if done.rows_rejected and done.status == "done":
            _write_rejected(ground, done, rejected or file.with_name(f"{file.stem}-rejected.csv"))
    if done.status != "done":
        raise typer.Exit(1)


@lists.command("export")
def export_(
    list_id: Annotated[int, typer.Argument(metavar="ID", help="The list's id.")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to write it.")],
) -> None:
    """Write everyone on a mailing list to a CSV file, which can be imported again."""
    with standing() as ground:
        with ground.db.work() as tx:
            try:
                found = read_list(tx, list_id)
            except NotFound:
                raise NotReady(f"There is no list {list_id}.") from None
        with ground.db.transaction(Tenant(found.account_id)) as tx:
            written = exporting.csv_file(tx, list_id)
            audit_service.note(
                tx,
                found.account_id,
                "list.exported",
                audit_service.AT_THE_COMMAND_LINE,
                about={"name": found.description, "id": found.id},
                sub_account_id=found.sub_account_id,
                now=ground.clock(),
            )
        _write(file, exporting.chunks(written))
    typer.echo(f"{found.total_recipients:,} recipients: {file}")


@contextmanager
def _looked(file: Path, mapping: list[str], header: bool | None) -> Iterator[Looked]:
    """The file as it will be read: what is wrong with it is told before anything is made."""
    said = _mapped(mapping)
    try:
        source = file.open("rb")
    except OSError as fault:
        raise NotReady(f"{file} cannot be read: {fault.strerror}.") from None
    with source:
        try:
            looked = import_service.look(source, name=file.name, mapping=said, has_header=header)
            require_someone(looked.columns)
        except Invalid as wrong:
            told = "; ".join(f"{name}: {fault}" for name, faults in wrong.fields.items() for fault in faults)
            raise NotReady(told.removeprefix("file: ").removeprefix("mapping: ")) from None
        with looked.file:
            yield looked


def _mapped(pairs: list[str]) -> dict[str, Any]:
    mapping = {}
    for pair in pairs:
        column, sign, field = pair.rpartition("=")
        if not sign:
            raise NotReady(f'--map needs COLUMN=FIELD, such as --map "Strasse=address"; not {pair}.')
        mapping[column.strip()] = field.strip()
    return mapping


def _caller(ground: Footing, email: str) -> Caller:
    with ground.db.work() as tx:
        return Caller(find_account(tx, email), "live")


def _new_list(ground: Footing, who: Caller, name: str, sub_account: int | None) -> int:
    values = {
        "description": name,
        "type": "csv",
        "is_suppression_list": False,
        "sub_account_id": sub_account,
    }
    with ground.db.transaction(tenant(who)) as tx:
        return list_service.make_list(tx, who, ground.sealer, values, now=ground.clock()).id


def _filled(ground: Footing, import_id: int) -> Import:
    """Do the work here and now, and show how far it is."""
    means = import_tasks.Means(ground.db, ground.store, ground.clock)
    console = Console()
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[rows]}"),
    )
    with Bar(*columns, console=console, disable=not console.is_terminal, transient=True) as bar:
        task = bar.add_task("Importing", total=1.0, rows="")

        def tell(work: Import) -> None:
            bar.update(task, completed=work.progress, rows=f"{work.rows_read:,} rows")

        with suppress(import_tasks.Overtaken, SomeLost):  # a worker goes on with it
            import_tasks.fill(means, import_id, tell=tell)
    with ground.db.work() as tx:
        done = import_queries.read_import(tx, import_id)
    if not done.is_finished:
        raise NotReady(TAKEN_OVER.format(import_id, import_id))
    return done


def _tell(done: Import) -> None:
    if done.error:
        typer.echo(done.error, err=True)
    used = ", ".join(f"{column.name} as {column.field}" for column in done.columns if column.field)
    typer.echo(f"Columns: {used}")
    for warning in warnings_of(done.columns):
        typer.echo(warning, err=True)
    typer.echo(
        f"List {done.mailing_list_id}: {done.rows_read:,} rows read, {done.rows_imported:,} imported,"
        f" {done.rows_rejected:,} rejected ({done.duplicates:,} of them duplicates)"
    )


def _write_rejected(ground: Footing, done: Import, path: Path) -> None:
    _write(path, report.rejected_rows(ground.db, ground.store, done))
    typer.echo(f"Rows that were rejected, with the reasons: {path}", err=True)


def _write(path: Path, pieces: Iterable[bytes]) -> None:
    try:
        with path.open("wb") as file:
            for piece in pieces:
                file.write(piece)
    except OSError as fault:
        raise NotReady(f"{path} cannot be written: {fault.strerror}.") from None
