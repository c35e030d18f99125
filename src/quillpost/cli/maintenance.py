"""Keeping it well: the schema up to date, and a look at everything that can go wrong."""

from collections.abc import Iterator

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from quillpost.app import runtime
from quillpost.cli.doctor.installation import is_new, with_database, without_database
from quillpost.cli.doctor.models import Finding
from quillpost.cli.runtime import schema_of, upgrade
from quillpost.core.errors import NotReady, QuillpostError
from quillpost.core.settings import Settings

COLOURS = {"ok": "green", "warning": "yellow", "broken": "bold red"}


def add_to(app: typer.Typer) -> None:
    app.command()(migrate)
    app.command()(doctor)


def migrate() -> None:
    """Bring the database to this release's schema.

    Run it once after an upgrade, with the service stopped and a backup taken. It fills an empty database,
    leaves a current one as it is, and refuses one that a newer release has written.
    """
    settings = runtime.load_settings()
    ground = runtime.open_ground(settings)
    try:
        before = upgrade(ground.conninfo)
        now = schema_of(ground.conninfo).found
    finally:
        ground.close()
    match before.verdict:
        case "current":
            typer.echo(f"The database schema is {now} already: nothing to do.")
        case "empty":
            typer.echo(f"The database was empty, and is at schema {now} now.")
        case _:
            typer.echo(f"The database schema was {before.found}, and is {now} now.")


def doctor() -> None:
    """Look at everything that can go wrong, and say what to do about it.

    Works beside a running service and without one. Exit code 0 when nothing is broken, warnings or not,
    and 1 otherwise. No secret is shown, so the table can be sent to whoever helps.
    """
    findings = list(_findings())
    Console().print(_table(findings))
    if any(finding.verdict == "broken" for finding in findings):
        raise typer.Exit(1)


def _findings() -> Iterator[Finding]:
    try:
        settings = runtime.load_settings()
    except NotReady as fault:
        yield Finding("settings", "broken", fault.message, "Correct it in the environment.")
        return
    yield Finding("settings", "ok", "every QUILLPOST_* setting can be read")
    yield from without_database(settings)
    if is_new(settings):
        yield Finding("database", "warning", "there is none yet", "`quillpost serve` makes it.")
        return
    try:
        yield from _findings_in_database(settings)
    except QuillpostError as fault:
        advice = "See that PostgreSQL runs, and that QUILLPOST_DATABASE_URL is right if it is set."
        yield Finding("database", "broken", fault.message, advice)


def _findings_in_database(settings: Settings) -> Iterator[Finding]:
    ground = runtime.open_ground(settings)
    try:
        yield from with_database(settings, ground.conninfo, now=runtime.now())
    finally:
        ground.close()


def _table(findings: list[Finding]) -> Table:
    table = Table("Check", "Verdict", "Found", "What to do")
    for finding in findings:
        verdict = Text(finding.verdict, style=COLOURS[finding.verdict])
        table.add_row(Text(finding.subject), verdict, Text(finding.what), Text(finding.advice))
    return table
