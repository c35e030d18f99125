"""Keeping it well: the schema up to date, and a look at everything that can go wrong."""

from collections.abc import Iterator

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from quillpost.app import runtime
from quillpost.app.runtime import read_schema, upgrade_database
from quillpost.cli.doctor.installation import DoctorFinding, check_without_database, is_new_installation
from quillpost.cli.doctor.operations import check_with_database
from quillpost.core.errors import NotReady, QuillpostError
from quillpost.core.settings import Settings

STATUS_COLORS = {"ok": "green", "warning": "yellow", "broken": "bold red"}


def add_to(app: typer.Typer) -> None:
    app.command()(migrate)
    app.command()(doctor)


def migrate() -> None:
    """Bring the database to this release's schema.

    Run it once after an upgrade, with the service stopped and a backup taken. It fills an empty database,
    leaves a current one as it is, and refuses one that a newer release has written.
    """
    settings = runtime.load_settings()
    service_runtime = runtime.open_runtime(settings)
    try:
        before = upgrade_database(service_runtime.conninfo)
        revision = read_schema(service_runtime.conninfo).revision
    finally:
        service_runtime.close()
    match before.status:
        case "current":
            typer.echo(f"The database schema is {revision} already: nothing to do.")
        case "empty":
            typer.echo(f"The database was empty, and is at schema {revision} now.")
        case _:
            typer.echo(f"The database schema was {before.revision}, and is {revision} now.")


def doctor() -> None:
    """Look at everything that can go wrong, and say what to do about it.

    Works beside a running service and without one. Exit code 0 when nothing is broken, warnings or not,
    and 1 otherwise. No secret is shown, so the table can be sent to whoever helps.
    """
    findings = list(_run_checks())
    Console().print(_findings_table(findings))
    if any(finding.status == "broken" for finding in findings):
        raise typer.Exit(1)


def _run_checks() -> Iterator[DoctorFinding]:
    try:
        settings = runtime.load_settings()
    except NotReady as error:
        yield DoctorFinding("settings", "broken", error.message, "Correct it in the environment.")
        return
    yield DoctorFinding("settings", "ok", "every QUILLPOST_* setting can be read")
    yield from check_without_database(settings)
    if is_new_installation(settings):
        yield DoctorFinding("database", "warning", "there is none yet", "`quillpost serve` makes it.")
        return
    try:
        yield from _run_database_checks(settings)
    except QuillpostError as error:
        advice = "See that PostgreSQL runs, and that QUILLPOST_DATABASE_URL is right if it is set."
        yield DoctorFinding("database", "broken", error.message, advice)


def _run_database_checks(settings: Settings) -> Iterator[DoctorFinding]:
    service_runtime = runtime.open_runtime(settings)
    try:
        yield from check_with_database(settings, service_runtime.conninfo, now=runtime.now())
    finally:
        service_runtime.close()


def _findings_table(findings: list[DoctorFinding]) -> Table:
    table = Table("Check", "Verdict", "Found", "What to do")
    for finding in findings:
        status = Text(finding.status, style=STATUS_COLORS[finding.status])
        table.add_row(Text(finding.subject), status, Text(finding.message), Text(finding.advice))
    return table
