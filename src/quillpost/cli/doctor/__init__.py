"""`quillpost doctor`."""

from collections.abc import Iterator
from contextlib import closing

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from quillpost.app.runtime import load_settings, now, open_runtime
from quillpost.cli.doctor.installation import DoctorFinding, check_without_database, is_new_installation
from quillpost.cli.doctor.operations import check_with_database
from quillpost.core.errors import NotReady, QuillpostError

STATUS_COLORS = {"ok": "green", "warning": "yellow", "broken": "bold red"}


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
        settings = load_settings()
    except NotReady as error:
        yield DoctorFinding("settings", "broken", error.message, "Correct it in the environment.")
        return
    yield DoctorFinding("settings", "ok", "every QUILLPOST_* setting can be read")
    yield from check_without_database(settings)
    if is_new_installation(settings):
        yield DoctorFinding("database", "warning", "there is none yet", "`quillpost serve` makes it.")
        return
    try:
        with closing(open_runtime(settings)) as service_runtime:
            yield from check_with_database(settings, service_runtime.conninfo, now=now())
    except QuillpostError as error:
        advice = "See that PostgreSQL runs, and that QUILLPOST_DATABASE_URL is right if it is set."
        yield DoctorFinding("database", "broken", error.message, advice)


def _findings_table(findings: list[DoctorFinding]) -> Table:
    table = Table("Check", "Verdict", "Found", "What to do")
    for finding in findings:
        status = Text(finding.status, style=STATUS_COLORS[finding.status])
        table.add_row(Text(finding.subject), status, Text(finding.message), Text(finding.advice))
    return table
