"""Accounts and their credit."""

import re
import secrets
from typing import Annotated

import typer

from quillpost.accounts import service
from quillpost.accounts.audit import service as audit_service
from quillpost.accounts.billing import credit
from quillpost.accounts.billing.rules import format_dollars
from quillpost.cli.runtime import open_core_services
from quillpost.core.errors import Refused

AMOUNT_PATTERN = re.compile(r"(\d{1,9})(?:\.(\d{2}))?", re.ASCII)

account = typer.Typer(help="Accounts.", no_args_is_help=True)


def add_to(app: typer.Typer) -> None:
    app.add_typer(account, name="account")


@account.command("create")
def create_account(
    email: Annotated[str, typer.Option(help="Who it belongs to; one account an e-mail.")],
    name: Annotated[str, typer.Option(help="The sender's name.")],
    operator: Annotated[bool, typer.Option("--operator", help="May run the print room.")] = False,
) -> None:
    """Open an account; prints its id."""
    with open_core_services() as runtime, runtime.db.system_transaction() as tx:
        now = runtime.clock()
        account_id = service.create_account(tx, email=email, name=name, is_operator=operator, now=now)
        about = {"name": name, "email": email} | ({"operator": True} if operator else {})
        audit_service.record_audit_entry(
            tx, account_id, "account.created", audit_service.COMMAND_LINE_ACTOR, about=about, now=now
        )
    typer.echo(account_id)


@account.command("credit")
def add_credit(
    email: Annotated[str, typer.Option(help="Whose account it is.")],
    amount: Annotated[str, typer.Option(help="Dollars, such as 100.00.")],
    withdraw: Annotated[bool, typer.Option("--withdraw", help="Take it out instead.")] = False,
    note: Annotated[str | None, typer.Option(help="What it is for; kept in the ledger.")] = None,
    key: Annotated[str | None, typer.Option(help="Names the payment: repeated, it happens once.")] = None,
) -> None:
    """Add to an account's credit for live mail; prints what it has then."""
    cents = _parse_cents(amount)
    change_credit = credit.withdraw if withdraw else credit.deposit
    with open_core_services() as runtime, runtime.db.system_transaction() as tx:
        account_id = service.find_account(tx, email)
        balance = change_credit(
            tx, account_id, cents=cents, key=key or secrets.token_hex(16), note=note, now=runtime.clock()
        )
    typer.echo(format_dollars(balance))


def _parse_cents(amount: str) -> int:
    match = AMOUNT_PATTERN.fullmatch(amount.strip())
    cents = int(match[1]) * 100 + int(match[2] or 0) if match else 0
    if cents == 0:
        raise Refused("The amount must be dollars and cents above zero, such as 100.00.")
    return cents
