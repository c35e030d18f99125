"""Accounts and their tokens."""

from typing import Annotated, Literal

import typer

from quillpost.accounts import service
from quillpost.cli.ground import opened

account = typer.Typer(help="Accounts.", no_args_is_help=True)
token = typer.Typer(help="Personal access tokens.", no_args_is_help=True)


def add_to(app: typer.Typer) -> None:
    app.add_typer(account, name="account")
    app.add_typer(token, name="token")


@account.command("create")
def create_account(
    email: Annotated[str, typer.Option(help="Who it belongs to; one account an e-mail.")],
    name: Annotated[str, typer.Option(help="The sender's name.")],
    operator: Annotated[bool, typer.Option("--operator", help="May run the print room.")] = False,
) -> None:
    """Open an account; prints its id."""
    with opened() as (_, parts), parts.db.work() as tx:
        made = service.open_account(tx, email=email, name=name, is_operator=operator, now=parts.clock())
    typer.echo(made)


@token.command("create")
def create_token(
    account: Annotated[str, typer.Option(help="The account's e-mail.")],
    mode: Annotated[Literal["test", "live"], typer.Option(help="Testing mode, or real mail.")],
    scopes: Annotated[str | None, typer.Option(help="With commas; everything when missing.")] = None,
    name: Annotated[str, typer.Option(help="What it is for.")] = "command line",
) -> None:
    """Make a token; prints it alone, this once."""
    wanted = [scope.strip() for scope in scopes.split(",")] if scopes else None
    with opened() as (_, parts), parts.db.work() as tx:
        account_id = service.find_account(tx, account)
        made = service.mint_token(tx, account_id, mode=mode, name=name, scopes=wanted, now=parts.clock())
    typer.echo(made)
