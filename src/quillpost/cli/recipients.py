"""Mailing lists from files, and back."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, TaskProgressColumn, TextColumn
from rich.progress import Progress as RichProgress

from quillpost.accounts.audit import service as audit_service
from quillpost.accounts.models import Caller
from quillpost.accounts.service import build_tenant, find_account
from quillpost.app.runtime import CoreServices, open_core_services
from quillpost.cli.console import report_unwritable
from quillpost.core.database import Tenant
from quillpost.core.errors import Invalid, NotFound, NotReady
from quillpost.recipients.imports import queries as import_queries
from quillpost.recipients.imports import service as import_service
from quillpost.recipients.imports import tasks as import_tasks
from quillpost.recipients.imports.queries import Import, StagedRowsLost
from quillpost.recipients.imports.rules import build_warnings, require_address_or_email
from quillpost.recipients.imports.service import InspectedImport
from quillpost.recipients.lists import queries as list_queries
from quillpost.recipients.lists import service as list_service
from quillpost.recipients.lists.queries import read_list

lists = typer.Typer(help="Mailing lists from files, and back.", no_args_is_help=True)

TAKEN_OVER_MESSAGE = "Import {} is in other hands: see GET /imports/{}."


@lists.command("import")
def import_list(
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
        typer.Option("--header/--no-header", help="Whether the first row names the columns; else it is guessed."),
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
    with _open_import_file(file, mapping or [], header) as inspected_file, open_core_services() as runtime:
        with runtime.db.system_transaction() as tx:
            caller = Caller(find_account(tx, account), "live")
        list_id = list_id or _create_list(runtime, caller, str(name), sub_account)
        key = import_service.store_file(runtime.store, inspected_file, now=runtime.clock())
        try:
            with runtime.db.transaction(build_tenant(caller)) as tx:
                new_import = import_service.create_import(
                    tx, list_id, inspected_file, key, clock=runtime.clock, enqueue=False
                )
        except NotFound:
            runtime.store.delete(key)
            raise NotReady(f"{account} has no list {list_id}.") from None
        except BaseException:
            runtime.store.delete(key)
            raise
        finished_import = _run_import(runtime, new_import.id)
        _print_summary(finished_import)
        if finished_import.rows_rejected and finished_import.status == "done":
            _write_rejected(runtime, finished_import, rejected or file.with_name(f"{file.stem}-rejected.csv"))
    if finished_import.status != "done":
        raise typer.Exit(1)


@lists.command("export")
def export_(
    list_id: Annotated[int, typer.Argument(metavar="ID", help="The list's id.")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to write it.")],
) -> None:
    """Write everyone on a mailing list to a CSV file, which can be imported again."""
    with open_core_services() as runtime:
        with runtime.db.system_transaction() as tx:
            try:
                mailing_list = read_list(tx, list_id)
            except NotFound:
                raise NotReady(f"There is no list {list_id}.") from None
        with runtime.db.transaction(Tenant(mailing_list.account_id)) as tx:
            csv_file = list_queries.write_csv_file(tx, list_id)
            audit_service.record_audit_entry(
                tx,
                mailing_list.account_id,
                "list.exported",
                audit_service.COMMAND_LINE_ACTOR,
                about={"name": mailing_list.description, "id": mailing_list.id},
                sub_account_id=mailing_list.sub_account_id,
                now=runtime.clock(),
            )
        _write_file(file, list_queries.read_chunks(csv_file))
    typer.echo(f"{mailing_list.total_recipients:,} recipients: {file}")


@contextmanager
def _open_import_file(file: Path, mapping: list[str], header: bool | None) -> Iterator[InspectedImport]:
    """Errors are reported before anything is stored."""
    field_by_column = _parse_mapping(mapping)
    try:
        source = file.open("rb")
    except OSError as error:
        raise NotReady(f"{file} cannot be read: {error.strerror}.") from None
    with source:
        try:
            inspected_file = import_service.inspect_file(
                source, name=file.name, mapping=field_by_column, has_header=header
            )
            require_address_or_email(inspected_file.columns)
        except Invalid as invalid:
            message = "; ".join(f"{name}: {error}" for name, errors in invalid.fields.items() for error in errors)
            raise NotReady(message.removeprefix("file: ").removeprefix("mapping: ")) from None
        with inspected_file.file:
            yield inspected_file


def _parse_mapping(pairs: list[str]) -> dict[str, Any]:
    mapping = {}
    for pair in pairs:
        column, separator, field = pair.rpartition("=")
        if not separator:
            raise NotReady(f'--map needs COLUMN=FIELD, such as --map "Strasse=address"; not {pair}.')
        mapping[column.strip()] = field.strip()
    return mapping


def _create_list(runtime: CoreServices, caller: Caller, name: str, sub_account: int | None) -> int:
    values = {"description": name, "type": "csv", "is_suppression_list": False, "sub_account_id": sub_account}
    with runtime.db.transaction(build_tenant(caller)) as tx:
        return list_service.create_list(tx, caller, runtime.encryptor, values, now=runtime.clock()).id


def _run_import(runtime: CoreServices, import_id: int) -> Import:
    context = import_tasks.ImportContext(runtime.db, runtime.store, runtime.clock)
    console = Console()
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TextColumn("{task.fields[rows]}"))
    with RichProgress(*columns, console=console, disable=not console.is_terminal, transient=True) as bar:
        task = bar.add_task("Importing", total=1.0, rows="")

        def show_progress(running_import: Import) -> None:
            bar.update(task, completed=running_import.progress, rows=f"{running_import.rows_read:,} rows")

        with suppress(import_tasks.ImportTakenOver, StagedRowsLost):  # a worker goes on with it
            import_tasks.run_import(context, import_id, on_progress=show_progress)
    with runtime.db.system_transaction() as tx:
        finished_import = import_queries.read_import(tx, import_id)
    if not finished_import.is_finished:
        raise NotReady(TAKEN_OVER_MESSAGE.format(import_id, import_id))
    return finished_import


def _print_summary(finished_import: Import) -> None:
    if finished_import.error:
        typer.echo(finished_import.error, err=True)
    used_columns = ", ".join(f"{column.name} as {column.field}" for column in finished_import.columns if column.field)
    typer.echo(f"Columns: {used_columns}")
    for warning in build_warnings(finished_import.columns):
        typer.echo(warning, err=True)
    typer.echo(
        f"List {finished_import.mailing_list_id}: {finished_import.rows_read:,} rows read, "
        f"{finished_import.rows_imported:,} imported,"
        f" {finished_import.rows_rejected:,} rejected ({finished_import.duplicates:,} of them duplicates)"
    )


def _write_rejected(runtime: CoreServices, finished_import: Import, path: Path) -> None:
    _write_file(path, import_service.stream_rejected_rows(runtime.db, runtime.store, finished_import))
    typer.echo(f"Rows that were rejected, with the reasons: {path}", err=True)


def _write_file(path: Path, chunks: Iterable[bytes]) -> None:
    with report_unwritable(path), path.open("wb") as file:
        for chunk in chunks:
            file.write(chunk)
