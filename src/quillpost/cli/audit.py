"""`quillpost audit`: who did what in an account."""

import sys
from typing import Annotated

import typer
from rich.console import Console

from quillpost.accounts import service
from quillpost.accounts.audit import labels as audit_labels
from quillpost.accounts.audit import service as audit_service
from quillpost.cli.runtime import open_core_services
from quillpost.core.clock import format_iso

DEFAULT_ENTRY_COUNT, MAX_ENTRY_COUNT = 100, 100_000


def add_to(app: typer.Typer) -> None:
    app.command("audit")(show)


def show(
    account: Annotated[str, typer.Option(help="The account's e-mail.")],
    before: Annotated[
        int | None,
        typer.Option(metavar="ID", min=1, max=2**63 - 1, help="Only lines older than the one with this number."),
    ] = None,
    most: Annotated[int, typer.Option(help="So many lines.", min=1, max=MAX_ENTRY_COUNT)] = DEFAULT_ENTRY_COUNT,
    as_csv: Annotated[bool, typer.Option("--csv", help="As a table for a spreadsheet.")] = False,
) -> None:
    """Show the audit log of an account, the newest line first."""
    with open_core_services() as runtime, runtime.db.system_transaction() as tx:
        account_id = service.find_account(tx, account)
        entries = audit_service.list_audit_entries(tx, account_id, before=before, limit=most)
    if as_csv:
        sys.stdout.writelines(audit_labels.generate_csv(entries))
        return
    out = Console(highlight=False, soft_wrap=True)
    for entry in entries:
        origin = f", from {entry.network}" if entry.network else ""
        out.print(f"{entry.id}  {format_iso(entry.at)}  {audit_labels.describe_entry(entry)}{origin}", markup=False)
    if not entries:
        typer.echo("There is nothing in it.")
    elif len(entries) == most:
        typer.echo(f"Older lines: --before {entries[-1].id}", err=True)
