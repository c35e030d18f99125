"""Forgetting: a person who asks for it, and what has grown old."""

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from quillpost.accounts import service
from quillpost.cli.runtime import standing
from quillpost.core.database import Tenant
from quillpost.privacy import erasure
from quillpost.privacy.models import whom_of
from quillpost.privacy.retention import MOST_COUNTED, Kept, days_of, show_kept


def add_to(app: typer.Typer) -> None:
    app.command("erase")(erase)
    app.command("retention")(retention)


def erase(
    account: Annotated[str, typer.Option(help="The account's e-mail.")],
    address: Annotated[
        str | None, typer.Option(help="Whole on one line, as '12 Main St, Austin, TX 78701'.")
    ] = None,
    email: Annotated[str | None, typer.Option(help="Whoever has this e-mail is meant, too.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Erase a person from all that an account keeps: everyone at the address, and whoever has the e-mail."""
    whom = whom_of({"address": address, "email": email})
    with standing() as ground:
        with ground.db.work() as tx:
            who = Tenant(service.find_account(tx, account))
            found = erasure.foretell(tx, who, whom, now=ground.clock())
        typer.echo(
            f"On lists: {found['recipients']:,}. Pieces: {found['items']:,}."
            " What was told of them, sends that wait and files go too; counts and money stay."
        )
        if not yes:
            typer.confirm("Erase them for good?", abort=True)
        with ground.db.work() as tx:
            done = erasure.erase(tx, ground.sealer, who, whom, now=ground.clock())
    for table, rows in done.erased.items():
        if rows:
            typer.echo(f"{table}: {rows:,}")
    if done.waiting:
        typer.echo(f"{done.waiting:,} pieces are at the printer's: they follow once they are mailed.")
    typer.echo("Erased. Files are removed by the running service, which looks a second time in ten minutes.")


def retention() -> None:
    """Show what is kept for how long, and how much is overdue."""
    with standing() as ground:
        shown = show_kept(ground.db, days_of(ground.settings), now=ground.clock())
    table = Table(box=None, pad_edge=False)
    for column in ("what", "table", "days", "since", "overdue"):
        table.add_column(column, overflow="fold")
    table.add_column("setting", no_wrap=True)  # to be copied as it stands
    for kept in shown:
        days = "for ever" if kept.days is None else f"{kept.days:,}"
        setting = f"QUILLPOST_{kept.rule.setting.upper()}"
        table.add_row(kept.rule.what, kept.rule.table, days, kept.rule.since, _overdue(kept), setting)
    Console(highlight=False).print(table)


def _overdue(kept: Kept) -> str:
    if kept.days is None:
        return ""
    return f"{kept.overdue:,}" + (" or more" if kept.overdue >= MOST_COUNTED else "")
