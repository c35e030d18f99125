"""`quillpost leads`: import, list and remove addresses for radius searches."""

import csv
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, TextIO

import sqlalchemy as sa
import typer
from rich.console import Console
from rich.table import Table

from quillpost.app.runtime import open_core_services
from quillpost.cli.console import ProgressBar, report_unwritable
from quillpost.core.database.tables.recipients import lead_files, lead_sources
from quillpost.core.errors import NotReady
from quillpost.recipients.leads.files import BadLeadRow
from quillpost.recipients.leads.imports import (
    ImportedLeadFile,
    ReadProgressCallback,
    delete_source,
    import_files,
    load_sample,
    vacuum_leads,
)
from quillpost.recipients.lists.queries import escape_formula
from quillpost.rendering.text.addresses import COUNTRY_CODES

REJECTED_FIELDS = ("lon", "lat", "number", "street", "unit", "city", "region", "postcode", "record_types")

leads = typer.Typer(help="Addresses for radius searches.", no_args_is_help=True)


@leads.command("import")
def import_(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="CSV or GeoJSON, packed or not.")],
    source: Annotated[str, typer.Option(help="What to call where they are from.")] = "imported",
    replace: Annotated[bool, typer.Option(help="In place of all that the source has.")] = False,
    country: Annotated[str, typer.Option(help="Where the addresses are.")] = "US",
    rejected: Annotated[Path, typer.Option(help="Where rows that cannot be used are listed.")] = Path(
        "leads-rejected.csv"
    ),
) -> None:
    """Import addresses with their places: OpenAddresses CSV or GeoJSON, packed with gzip or not.

    All files, or none. A file that was imported before changes nothing; of an address that comes again the
    last stands for it. Columns named after record types (yes, true or 1), or one column record_types, say of
    which kinds an address is; docs/leads.md has them all. Rows that cannot be used are passed over, and
    written with the reason to a CSV file.
    """
    if country.upper() not in COUNTRY_CODES:
        raise NotReady("--country must be a two-letter code such as US or CA.")
    for file in files:
        if not file.is_file():
            raise NotReady(f"{file} is not a file.")
    with (
        open_core_services() as runtime,
        _rejected_rows_writer(rejected) as write_rejected,
        ProgressBar("Importing", len(files)) as bar,
        ExitStack() as current_step,
    ):

        def start_file(file: Path) -> ReadProgressCallback:
            current_step.close()
            return current_step.enter_context(bar.step(file.name))

        report = import_files(
            runtime.db,
            files,
            source=source,
            replace=replace,
            country=country.upper(),
            open_progress=start_file,
            report_rejected=write_rejected,
            now=runtime.clock(),
        )
        current_step.close()
        vacuum_leads(runtime.db.conninfo)
    if replace:
        typer.echo(f"{report.replaced_count:,} older records of {source} were removed.")
    for file_result in report.files:
        typer.echo(_import_summary(file_result))
    if any(file_result.rejected for file_result in report.files):
        typer.echo(f"Rows that were refused, with the reasons: {rejected}", err=True)


@leads.command("list")
def list_() -> None:
    """Show where the addresses are from, and how many there are."""
    with open_core_services() as runtime, runtime.db.system_transaction() as tx:
        sources = tx.execute(sa.select(lead_sources).order_by(lead_sources.c.name)).all()
        file_counts = sa.select(lead_files.c.source_id, sa.func.count().label("files")).group_by(lead_files.c.source_id)
        files = {row.source_id: row.files for row in tx.execute(file_counts)}
    table = Table("source", "records", "files", "changed", "mode")
    for source in sources:
        mode = "testing (made up)" if source.is_sample else "live"
        changed = f"{source.updated_at:%Y-%m-%d %H:%M}"
        table.add_row(source.name, f"{source.records:,}", str(files.get(source.id, 0)), changed, mode)
    Console().print(table if sources else "There are no addresses yet: see `quillpost leads import --help`.")


@leads.command()
def forget(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="As `quillpost leads list` shows it.")],
) -> None:
    """Remove all addresses of a source. What was bought of them stays on its lists."""
    with open_core_services() as runtime:
        removed_count = delete_source(runtime.db, source)
        vacuum_leads(runtime.db.conninfo)
    typer.echo(f"{removed_count:,} records of {source} were removed.")


@leads.command()
def sample() -> None:
    """Put the made-up addresses of testing mode in, anew; the first search there does so by itself."""
    with open_core_services() as runtime:
        record_count = load_sample(runtime.db, now=runtime.clock())
        vacuum_leads(runtime.db.conninfo)
    typer.echo(f"{record_count:,} made-up addresses are there for radius searches in testing mode.")


@contextmanager
def _rejected_rows_writer(file: Path) -> Iterator[Callable[[str, Iterable[BadLeadRow]], None]]:
    """The file is created with the first row."""
    with report_unwritable(file), ExitStack() as stack:
        output: TextIO | None = None

        def write_rejected(name: str, rows: Iterable[BadLeadRow]) -> None:
            nonlocal output
            for row in rows:
                if output is None:
                    output = stack.enter_context(file.open("w", newline="", encoding="utf-8"))
                    csv.writer(output).writerow(["file", "row", "reason", *REJECTED_FIELDS])
                values = (row.fields.get(field, "") for field in REJECTED_FIELDS)
                csv.writer(output).writerow([name, row.number, row.reason, *map(_escape_value, values)])

        yield write_rejected


def _escape_value(value: str) -> str:
    """No spreadsheet takes it for a formula; signed numbers stay."""
    is_number = value.lstrip("+-").replace(".", "", 1).isdigit()
    return value if is_number else escape_formula(value)


def _import_summary(file_result: ImportedLeadFile) -> str:
    if file_result.is_already_imported:
        return f"{file_result.file}: imported before, nothing changed"
    duplicates = file_result.rows - file_result.rejected - file_result.records
    counts = f"{file_result.records:,} records, {duplicates:,} doubles, {file_result.rejected:,} refused"
    return f"{file_result.file}: {file_result.rows:,} rows, {counts}"
