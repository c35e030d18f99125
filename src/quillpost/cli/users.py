"""People who sign in: invited, listed, helped when they are locked out, and removed."""

from dataclasses import asdict
from typing import Annotated, Literal

import typer
from rich.console import Console
from rich.table import Table

from quillpost.accounts import service
from quillpost.accounts.audit.service import AT_THE_COMMAND_LINE
from quillpost.accounts.users import invitations, members, password_resets, second_factor
from quillpost.accounts.users import queries as user_queries
from quillpost.accounts.users import rules as user_rules
from quillpost.accounts.users.invitations import Invitation
from quillpost.accounts.users.members import Member
from quillpost.accounts.users.queries import note_own
from quillpost.app.runtime import Footing, public_base
from quillpost.cli.print_files import Machine, are_short, on_day, write
from quillpost.cli.runtime import standing
from quillpost.core.clock import iso
from quillpost.core.errors import Refused

people = typer.Typer(help="People who sign in.", no_args_is_help=True)

Account = Annotated[str, typer.Option(help="The account's e-mail.")]
Whom = Annotated[str, typer.Argument(metavar="EMAIL", help="The e-mail that they sign in with.")]


def add_to(app: typer.Typer) -> None:
    app.add_typer(people, name="people")


@people.command("invite")
def invite(
    account: Account,
    email: Annotated[str, typer.Option(help="Whom to invite.")],
    role: Annotated[
        Literal["owner", "member", "operator"], typer.Option(help="What they are in the account.")
    ],
    sub_account: Annotated[int | None, typer.Option(help="Limit a member to this sub account.")] = None,
    mail: Annotated[bool, typer.Option("--mail/--no-mail", help="Send them the link, too.")] = True,
) -> None:
    """Invite somebody into an account; prints the link alone, which is good for a week and once."""
    with standing() as ground, ground.db.work() as tx:
        link = invitations.invite(
            tx,
            ground.sealer,
            service.find_account(tx, account),
            email=email,
            role=role,
            sub_account_id=sub_account,
            actor=AT_THE_COMMAND_LINE,
            base_url=public_base(ground.settings),
            now=ground.clock(),
            is_mailed=mail,
        )
    typer.echo(link)


@people.command("list")
def list_people(account: Account, machine: Machine = False) -> None:
    """List who is in an account and as what, and who is invited."""
    with standing() as ground, ground.db.work() as tx:
        account_id = service.find_account(tx, account)
        inside = members.list_members(tx, account_id)
        waiting = invitations.waiting(tx, account_id, now=ground.clock())
    if machine:
        write(
            {"members": [_member(each) for each in inside], "invited": [_invited(each) for each in waiting]}
        )
    elif not inside and not waiting:
        typer.echo("Nobody is in it: `quillpost people invite` brings somebody in.")
    else:
        Console(highlight=False, markup=False).print(_table(inside, waiting))


@people.command("reset")
def reset(email: Whom) -> None:
    """Make a link by which somebody sets another password, and print it alone: for those who get no mail."""
    with standing() as ground, ground.db.work() as tx:
        person, now = user_queries.find_person(tx, email), ground.clock()
        link = password_resets.link_for(tx, person, base_url=public_base(ground.settings), now=now)
        about = {"email": user_rules.normalize_email(email)}
        note_own(tx, "password.reset_asked", AT_THE_COMMAND_LINE, whose=person, about=about, now=now)
    typer.echo(link)


@people.command("second-factor-off")
def second_factor_off(email: Whom) -> None:
    """Turn somebody's second factor off: for those who have lost their phone and their recovery codes."""
    with standing() as ground, ground.db.work() as tx:
        person = user_queries.find_person(tx, email)
        if not user_queries.has_second_factor(tx, person):
            raise Refused(f"{email} has no second factor.")
        second_factor.turn_off(tx, person, AT_THE_COMMAND_LINE, now=ground.clock())
    typer.echo(f"{email} signs in with the password alone now.")


@people.command("remove")
def remove(
    account: Account,
    email: Annotated[str, typer.Option(help="Whom to remove, or whose invitation to take back.")],
) -> None:
    """Remove somebody from an account, with their tokens and apps there; or take an invitation back."""
    with standing() as ground:
        typer.echo(_removed(ground, account, email))


def _removed(ground: Footing, account: str, email: str) -> str:
    now = ground.clock()
    with ground.db.work() as tx:
        account_id = service.find_account(tx, account)
        for member in members.list_members(tx, account_id):
            if member.email.lower() == email.strip().lower():
                members.remove(tx, account_id, member.membership_id, AT_THE_COMMAND_LINE, now=now)
                return f"{member.email} is no longer in the account."
        for invited in invitations.waiting(tx, account_id, now=now):
            if invited.email.lower() == email.strip().lower():
                invitations.take_back(tx, account_id, invited.id, AT_THE_COMMAND_LINE, now=now)
                return f"{invited.email} is no longer invited."
    raise Refused(f"{email} is neither in the account {account} nor invited.")


def _table(inside: list[Member], waiting: list[Invitation]) -> Table:
    """Days alone, and what somebody is limited to under their role: a terminal is 80 letters wide, and
    `--json` has the rest."""
    table = Table(box=None, pad_edge=False)
    known = [*(each.email for each in inside), *(each.email for each in waiting)]
    table.add_column("e-mail", overflow="fold", no_wrap=are_short(known))
    table.add_column("name", overflow="fold")
    table.add_column("role", overflow="fold")
    table.add_column("second factor", overflow="fold")
    table.add_column("last seen", no_wrap=True)
    for each in inside:
        factor = "on" if each.has_second_factor else "off"
        table.add_row(each.email, each.name, _role(each), factor, on_day(each.last_seen_at) or "not lately")
    for invited in waiting:
        until = f"invited until {on_day(invited.expires_at)}"
        table.add_row(invited.email, until, _role(invited), "", "")
    return table


def _role(each: Member | Invitation) -> str:
    """With the sub account's number: two may have one title."""
    if each.sub_account_id is None:
        return each.role
    return f"{each.role}\nof {each.sub_account_title} ({each.sub_account_id})"


def _member(each: Member) -> dict[str, object]:
    return asdict(each) | {at: iso(getattr(each, at)) for at in ("last_seen_at", "created_at")}


def _invited(each: Invitation) -> dict[str, object]:
    return asdict(each) | {at: iso(getattr(each, at)) for at in ("created_at", "expires_at")}
