"""Addresses for radius searches: importing, listing and forgetting them."""

import csv
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import sqlalchemy as sa
import typer
from rich.console import Console
from rich.table import Table

from quillpost.cli.progress import Progress
from quillpost.cli.runtime import standing
from quillpost.core.database.tables.leads import lead_files, lead_sources
from quillpost.core.errors import NotReady
from quillpost.recipients.leads.imports import Imported, Told, import_files, tidy
from quillpost.recipients.leads.imports import forget as forget_source
from quillpost.recipients.leads.rows import Bad
from quillpost.recipients.leads.sample import load_sample
from quillpost.recipients.lists.export import harmless
from quillpost.rendering.text.countries import COUNTRIES

FIELDS = ("lon", "lat", "number", "street", "unit", "city", "region", "postcode", "record_types")

leads = typer.Typer(help="Addresses for radius searches.", no_args_is_help=True)


def add_to(app: typer.Typer) -> None:
    app.add_typer(leads, name="leads")


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
    if country.upper() not in COUNTRIES:
        raise NotReady("--country must be a two-letter code such as US or CA.")
    for file in files:
        if not file.is_file():
            raise NotReady(f"{file} is not a file.")
    with standing() as ground, _refusals(rejected) as refuse, Progress("Importing", len(files)) as bar:
        steps = _Steps(bar)
        report = import_files(
            ground.db,
            files,
            source=source,
            replace=replace,
            country=country.upper(),
            told=steps.of,
            refuse=refuse,
            now=ground.clock(),
        )
        steps.end()
        tidy(ground.db.conninfo)
    if replace:
        typer.echo(f"{report.replaced:,} older records of {source} were removed.")
    for done in report.files:
        typer.echo(_told(done))
    if any(done.refused for done in report.files):
        typer.echo(f"Rows that were refused, with the reasons: {rejected}", err=True)


@leads.command("list")
def list_() -> None:
    """Show where the addresses are from, and how many there are."""
    with standing() as ground, ground.db.work() as tx:
        sources = tx.execute(sa.select(lead_sources).order_by(lead_sources.c.name)).all()
        counted = sa.select(lead_files.c.source_id, sa.func.count().label("files")).group_by(
            lead_files.c.source_id
        )
        files = {row.source_id: row.files for row in tx.execute(counted)}
    table = Table("source", "records", "files", "changed", "mode")
    for one in sources:
        mode = "testing (made up)" if one.is_sample else "live"
        changed = f"{one.updated_at:%Y-%m-%d %H:%M}"
        table.add_row(one.name, f"{one.records:,}", str(files.get(one.id, 0)), changed, mode)
    Console().print(table if sources else "There are no addresses yet: see `quillpost leads import --help`.")


@leads.command()
def forget(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="As `quillpost leads list` shows it.")],
) -> None:
    """Remove all addresses of a source. What was bought of them stays on its lists."""
    with standing() as ground:
        removed = forget_source(ground.db, source)
        tidy(ground.db.conninfo)
    typer.echo(f"{removed:,} records of {source} were removed.")


@leads.command()
def sample() -> None:
    """Put the made-up addresses of testing mode in, anew; the first search there does so by itself."""
    with standing() as ground:
        made = load_sample(ground.db, now=ground.clock())
        tidy(ground.db.conninfo)
    typer.echo(f"{made:,} made-up addresses are there for radius searches in testing mode.")


class _Steps:
    """Each file is a step of the bar."""

    def __init__(self, bar: Progress) -> None:
        self._bar = bar
        self._open: Iterator[Told] | None = None

    def of(self, file: Path) -> Told:
        self.end()
        self._open = self._stepping(file.name)
        return next(self._open)

    def end(self) -> None:
        for _ in self._open or ():
            pass

    def _stepping(self, name: str) -> Iterator[Told]:
        with self._bar.step(name) as tell:
            yield tell


@contextmanager
def _refusals(file: Path) -> Iterator[Callable[[str, Iterable[Bad]], None]]:
    """Writes refused rows to the file, which is there only if there is one."""
    opened_file = None
    try:

        def refuse(name: str, bad: Iterable[Bad]) -> None:
            nonlocal opened_file
            for one in bad:
                if opened_file is None:
                    opened_file = file.open("w", newline="", encoding="utf-8")
                    csv.writer(opened_file).writerow(["file", "row", "reason", *FIELDS])
                values = (one.fields.get(field, "") for field in FIELDS)
                csv.writer(opened_file).writerow([name, one.number, one.reason, *map(_plain, values)])

        yield refuse
    except OSError as fault:
        raise NotReady(f"{file} cannot be written: {fault.strerror}.") from None
    finally:
        if opened_file is not None:
            opened_file.close()


def _plain(value: str) -> str:
    """A value that no spreadsheet takes for a formula; numbers with a sign stay."""
    is_number = value.lstrip("+-").replace(".", "", 1).isdigit()
    return value if is_number else harmless(value)


def _told(done: Imported) -> str:
    if done.is_known:
        return f"{done.file}: imported before, nothing changed"
    doubles = done.rows - done.refused - done.records
    counts = f"{done.records:,} records, {doubles:,} doubles, {done.refused:,} refused"
    return f"{done.file}: {done.rows:,} rows, {counts}"
