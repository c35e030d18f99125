"""`quillpost account`, `people` and `audit`."""

import re
import secrets
import sys
from typing import Annotated, Literal

import typer
from rich.console import Console
from rich.table import Table

from quillpost.accounts import service
from quillpost.accounts.audit import labels as audit_labels
from quillpost.accounts.audit import service as audit_service
from quillpost.accounts.audit.service import COMMAND_LINE_ACTOR
from quillpost.accounts.billing import service as billing_service
from quillpost.accounts.billing.rules import format_dollars
from quillpost.accounts.users import invitations, passwords, second_factor
from quillpost.accounts.users import queries as user_queries
from quillpost.accounts.users import rules as user_rules
from quillpost.accounts.users import service as user_service
from quillpost.accounts.users.invitations import Invitation
from quillpost.accounts.users.queries import record_person_entry
from quillpost.accounts.users.service import Member
from quillpost.app.runtime import CoreServices, open_core_services, read_base_url
from quillpost.cli.console import JsonOption, create_table, fixed_column, format_day, print_json, wrapped_column
from quillpost.core.errors import Refused
from quillpost.core.text import format_iso

AMOUNT_PATTERN = re.compile(r"(\d{1,9})(?:\.(\d{2}))?", re.ASCII)

account = typer.Typer(help="Accounts.", no_args_is_help=True)
people = typer.Typer(help="People who sign in.", no_args_is_help=True)


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
    change_credit = billing_service.withdraw if withdraw else billing_service.deposit
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


AccountOption = Annotated[str, typer.Option(help="The account's e-mail.")]
EmailArgument = Annotated[str, typer.Argument(metavar="EMAIL", help="The e-mail that they sign in with.")]


@people.command("invite")
def invite(
    account: AccountOption,
    email: Annotated[str, typer.Option(help="Whom to invite.")],
    role: Annotated[Literal["owner", "member", "operator"], typer.Option(help="What they are in the account.")],
    sub_account: Annotated[int | None, typer.Option(help="Limit a member to this sub account.")] = None,
    mail: Annotated[bool, typer.Option("--mail/--no-mail", help="Send them the link, too.")] = True,
) -> None:
    """Invite somebody into an account; prints the link alone, which is good for a week and once."""
    with open_core_services() as runtime, runtime.db.system_transaction() as tx:
        link = invitations.invite(
            tx,
            runtime.encryptor,
            service.find_account(tx, account),
            email=email,
            role=role,
            sub_account_id=sub_account,
            actor=COMMAND_LINE_ACTOR,
            base_url=read_base_url(runtime.settings),
            now=runtime.clock(),
            send_email=mail,
        )
    typer.echo(link)


@people.command("list")
def list_people(account: AccountOption, machine: JsonOption = False) -> None:
    """List who is in an account and as what, and who is invited."""
    with open_core_services() as runtime, runtime.db.system_transaction() as tx:
        account_id = service.find_account(tx, account)
        member_list = user_service.list_members(tx, account_id)
        pending_invitations = invitations.list_pending_invitations(tx, account_id, now=runtime.clock())
    if machine:
        print_json({"members": member_list, "invited": pending_invitations})
    elif not member_list and not pending_invitations:
        typer.echo("Nobody is in it: `quillpost people invite` brings somebody in.")
    else:
        Console(highlight=False, markup=False).print(_people_table(member_list, pending_invitations))


@people.command("reset")
def reset(email: EmailArgument) -> None:
    """Make a link by which somebody sets another password, and print it alone: for those who get no mail."""
    with open_core_services() as runtime, runtime.db.system_transaction() as tx:
        person, now = user_queries.find_person(tx, email), runtime.clock()
        link = passwords.create_reset_link(tx, person, base_url=read_base_url(runtime.settings), now=now)
        about = {"email": user_rules.normalize_email(email)}
        record_person_entry(tx, "password.reset_asked", COMMAND_LINE_ACTOR, person_id=person, about=about, now=now)
    typer.echo(link)


@people.command("second-factor-off")
def second_factor_off(email: EmailArgument) -> None:
    """Turn somebody's second factor off: for those who have lost their phone and their recovery codes."""
    with open_core_services() as runtime, runtime.db.system_transaction() as tx:
        person = user_queries.find_person(tx, email)
        if not user_queries.has_second_factor(tx, person):
            raise Refused(f"{email} has no second factor.")
        second_factor.disable_second_factor(tx, person, COMMAND_LINE_ACTOR, now=runtime.clock())
    typer.echo(f"{email} signs in with the password alone now.")


@people.command("remove")
def remove(
    account: AccountOption,
    email: Annotated[str, typer.Option(help="Whom to remove, or whose invitation to take back.")],
) -> None:
    """Remove somebody from an account, with their tokens and apps there; or take an invitation back."""
    with open_core_services() as runtime:
        typer.echo(_remove_person(runtime, account, email))


def _remove_person(runtime: CoreServices, account: str, email: str) -> str:
    now = runtime.clock()
    with runtime.db.system_transaction() as tx:
        account_id = service.find_account(tx, account)
        for member in user_service.list_members(tx, account_id):
            if member.email.lower() == email.strip().lower():
                user_service.remove_member(tx, account_id, member.membership_id, COMMAND_LINE_ACTOR, now=now)
                return f"{member.email} is no longer in the account."
        for invitation in invitations.list_pending_invitations(tx, account_id, now=now):
            if invitation.email.lower() == email.strip().lower():
                invitations.withdraw_invitation(tx, account_id, invitation.id, COMMAND_LINE_ACTOR, now=now)
                return f"{invitation.email} is no longer invited."
    raise Refused(f"{email} is neither in the account {account} nor invited.")


def _people_table(member_list: list[Member], pending_invitations: list[Invitation]) -> Table:
    """Days only, and limits under the role: a terminal is 80 columns wide, and `--json` has the rest."""
    emails = [*(each.email for each in member_list), *(each.email for each in pending_invitations)]
    wrapped_columns = map(wrapped_column, ("name", "role", "second factor"))
    table = create_table(wrapped_column("e-mail", emails), *wrapped_columns, fixed_column("last seen"))
    for each in member_list:
        second_factor_label = "on" if each.has_second_factor else "off"
        table.add_row(
            each.email, each.name, _role_label(each), second_factor_label, format_day(each.last_seen_at) or "not lately"
        )
    for invitation in pending_invitations:
        status = f"invited until {format_day(invitation.expires_at)}"
        table.add_row(invitation.email, status, _role_label(invitation), "", "")
    return table


def _role_label(each: Member | Invitation) -> str:
    """With the sub account's number: two may have one title."""
    if each.sub_account_id is None:
        return each.role
    return f"{each.role}\nof {each.sub_account_title} ({each.sub_account_id})"


DEFAULT_ENTRY_COUNT, MAX_ENTRY_COUNT = 100, 100_000


def audit(
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
