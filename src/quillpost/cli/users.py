"""People who sign in: invited, listed, helped when they are locked out, and removed."""

from dataclasses import asdict
from typing import Annotated, Literal

import typer
from rich.console import Console
from rich.table import Table

from quillpost.accounts import service
from quillpost.accounts.audit.service import COMMAND_LINE_ACTOR
from quillpost.accounts.users import invitations, members, password_resets, second_factor
from quillpost.accounts.users import queries as user_queries
from quillpost.accounts.users import rules as user_rules
from quillpost.accounts.users.invitations import Invitation
from quillpost.accounts.users.members import Member
from quillpost.accounts.users.queries import record_person_entry
from quillpost.app.runtime import CoreServices, read_base_url
from quillpost.cli.print_files import JsonOption, fit_in_column, format_day, print_json
from quillpost.cli.runtime import open_core_services
from quillpost.core.clock import format_iso
from quillpost.core.errors import Refused

people = typer.Typer(help="People who sign in.", no_args_is_help=True)

AccountOption = Annotated[str, typer.Option(help="The account's e-mail.")]
EmailArgument = Annotated[str, typer.Argument(metavar="EMAIL", help="The e-mail that they sign in with.")]


def add_to(app: typer.Typer) -> None:
    app.add_typer(people, name="people")


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
        member_list = members.list_members(tx, account_id)
        pending_invitations = invitations.list_pending_invitations(tx, account_id, now=runtime.clock())
    if machine:
        print_json(
            {
                "members": [_member_to_json(each) for each in member_list],
                "invited": [_invitation_to_json(each) for each in pending_invitations],
            }
        )
    elif not member_list and not pending_invitations:
        typer.echo("Nobody is in it: `quillpost people invite` brings somebody in.")
    else:
        Console(highlight=False, markup=False).print(_people_table(member_list, pending_invitations))


@people.command("reset")
def reset(email: EmailArgument) -> None:
    """Make a link by which somebody sets another password, and print it alone: for those who get no mail."""
    with open_core_services() as runtime, runtime.db.system_transaction() as tx:
        person, now = user_queries.find_person(tx, email), runtime.clock()
        link = password_resets.create_reset_link(tx, person, base_url=read_base_url(runtime.settings), now=now)
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
        for member in members.list_members(tx, account_id):
            if member.email.lower() == email.strip().lower():
                members.remove_member(tx, account_id, member.membership_id, COMMAND_LINE_ACTOR, now=now)
                return f"{member.email} is no longer in the account."
        for invitation in invitations.list_pending_invitations(tx, account_id, now=now):
            if invitation.email.lower() == email.strip().lower():
                invitations.withdraw_invitation(tx, account_id, invitation.id, COMMAND_LINE_ACTOR, now=now)
                return f"{invitation.email} is no longer invited."
    raise Refused(f"{email} is neither in the account {account} nor invited.")


def _people_table(member_list: list[Member], pending_invitations: list[Invitation]) -> Table:
    """Days alone, and what somebody is limited to under their role: a terminal is 80 letters wide, and
    `--json` has the rest."""
    table = Table(box=None, pad_edge=False)
    emails = [*(each.email for each in member_list), *(each.email for each in pending_invitations)]
    table.add_column("e-mail", overflow="fold", no_wrap=fit_in_column(emails))
    table.add_column("name", overflow="fold")
    table.add_column("role", overflow="fold")
    table.add_column("second factor", overflow="fold")
    table.add_column("last seen", no_wrap=True)
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


def _member_to_json(member: Member) -> dict[str, object]:
    return asdict(member) | {at: format_iso(getattr(member, at)) for at in ("last_seen_at", "created_at")}


def _invitation_to_json(invitation: Invitation) -> dict[str, object]:
    return asdict(invitation) | {at: format_iso(getattr(invitation, at)) for at in ("created_at", "expires_at")}
