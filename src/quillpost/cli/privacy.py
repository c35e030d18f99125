"""Forgetting: a person who asks for it, and what has grown old."""

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from quillpost.accounts import service
from quillpost.app.runtime import open_core_services
from quillpost.core.database import Tenant
from quillpost.privacy import erasure
from quillpost.privacy.queries import parse_subject
from quillpost.privacy.retention import MAX_COUNTED, RetentionStatus, list_retention, read_retention_days


def add_to(app: typer.Typer) -> None:
    app.command("erase")(erase)
    app.command("retention")(retention)


def erase(
    account: Annotated[str, typer.Option(help="The account's e-mail.")],
    address: Annotated[str | None, typer.Option(help="Whole on one line, as '12 Main St, Austin, TX 78701'.")] = None,
    email: Annotated[str | None, typer.Option(help="Whoever has this e-mail is meant, too.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Erase a person from all that an account keeps: everyone at the address, and whoever has the e-mail."""
    person = parse_subject({"address": address, "email": email})
    with open_core_services() as runtime:
        with runtime.db.system_transaction() as tx:
            tenant = Tenant(service.find_account(tx, account))
            preview = erasure.preview_erasure(tx, tenant, person, now=runtime.clock())
        typer.echo(
            f"On lists: {preview['recipients']:,}. Pieces: {preview['items']:,}."
            " What was told of them, sends that wait and files go too; counts and money stay."
        )
        if not yes:
            typer.confirm("Erase them for good?", abort=True)
        with runtime.db.system_transaction() as tx:
            result = erasure.erase_subject(tx, runtime.encryptor, tenant, person, now=runtime.clock())
    for table, rows in result.erased.items():
        if rows:
            typer.echo(f"{table}: {rows:,}")
    if result.waiting:
        typer.echo(f"{result.waiting:,} pieces are at the printer's: they follow once they are mailed.")
    typer.echo("Erased. Files are removed by the running service, which looks a second time in ten minutes.")


def retention() -> None:
    """Show what is kept for how long, and how much is overdue."""
    with open_core_services() as runtime:
        retention_rows = list_retention(runtime.db, read_retention_days(runtime.settings), now=runtime.clock())
    table = Table(box=None, pad_edge=False)
    for column in ("what", "table", "days", "since", "overdue"):
        table.add_column(column, overflow="fold")
    table.add_column("setting", no_wrap=True)  # to be copied as it stands
    for retention_row in retention_rows:
        days = "for ever" if retention_row.days is None else f"{retention_row.days:,}"
        setting = f"QUILLPOST_{retention_row.rule.setting.upper()}"
        table.add_row(
            retention_row.rule.description,
            retention_row.rule.table,
            days,
            retention_row.rule.counted_from,
            _format_overdue(retention_row),
            setting,
        )
    Console(highlight=False).print(table)


def _format_overdue(retention_row: RetentionStatus) -> str:
    if retention_row.days is None:
        return ""
    return f"{retention_row.overdue_count:,}" + (" or more" if retention_row.overdue_count >= MAX_COUNTED else "")
