"""`quillpost token`: create, list and revoke personal access tokens."""

import sys
from collections.abc import Iterator
from datetime import timedelta
from typing import Annotated, Literal

import typer
from rich.console import Console
from rich.table import Table

from quillpost.accounts import service
from quillpost.accounts.audit.service import COMMAND_LINE_ACTOR
from quillpost.accounts.tokens import service as token_service
from quillpost.accounts.tokens.service import PersonalToken
from quillpost.accounts.users.service import revoke_and_report_leaked
from quillpost.app.runtime import open_core_services
from quillpost.cli.console import (
    JsonOption,
    create_table,
    fixed_column,
    format_count,
    format_day,
    print_json,
    wrapped_column,
)
from quillpost.core import tokens as token_format
from quillpost.core.database import Tenant
from quillpost.core.errors import NotFound, Refused

token = typer.Typer(help="Personal access tokens.", no_args_is_help=True)

REVOKE_BATCH_SIZE = 1_000

AccountOption = Annotated[str, typer.Option(help="The account's e-mail.")]


@token.command("create")
def create_token(
    account: AccountOption,
    mode: Annotated[Literal["test", "live"], typer.Option(help="Testing mode, or real mail.")],
    scopes: Annotated[str | None, typer.Option(help="With commas; everything when missing.")] = None,
    name: Annotated[str, typer.Option(help="What it is for.")] = "command line",
    sub_account: Annotated[int | None, typer.Option(help="Limit it to this sub account.")] = None,
    expires_days: Annotated[
        int | None, typer.Option(help="Days after which it ends; never when missing.", min=1, max=3_650)
    ] = None,
) -> None:
    """Make a token; prints it alone, this once."""
    scope_list = [scope.strip() for scope in scopes.split(",")] if scopes else None
    with open_core_services() as runtime:
        now = runtime.clock()
        with runtime.db.system_transaction() as tx:
            account_id = service.find_account(tx, account)
        with runtime.db.transaction(Tenant(account_id)) as tx:
            new_token = token_service.create_token(
                tx,
                account_id,
                name=name,
                mode=mode,
                scopes=scope_list,
                sub_account_id=sub_account,
                expires_at=None if expires_days is None else now + timedelta(days=expires_days),
                actor=COMMAND_LINE_ACTOR,
                now=now,
            )
    typer.echo(new_token)


@token.command("list")
def list_tokens(account: AccountOption, machine: JsonOption = False) -> None:
    """List the tokens of an account that are in force, the newest first: none in full, no app's."""
    with open_core_services() as runtime:
        with runtime.db.system_transaction() as tx:
            account_id = service.find_account(tx, account)
        with runtime.db.transaction(Tenant(account_id)) as tx:
            tokens = token_service.list_tokens(tx, account_id)
    if machine:
        print_json(tokens)
    elif not tokens:
        typer.echo("No token is in force.")
    else:
        Console(highlight=False, markup=False).print(_token_table(tokens))


@token.command("revoke")
def revoke(
    token_id: Annotated[
        int | None, typer.Argument(metavar="ID", min=1, max=2**63 - 1, help="The number that `token list` shows.")
    ] = None,
    account: Annotated[str | None, typer.Option(help="The e-mail of the account whose it is.")] = None,
    leaked: Annotated[
        bool, typer.Option("--leaked", help="Revoke every token in what the standard input says.")
    ] = False,
) -> None:
    """Revoke a token: from the next call on it is unknown.

    With --leaked the tokens themselves are read from the standard input, so that none is left in the history
    of a shell: `quillpost token revoke --leaked < found.txt`. An app's refresh token ends with all that came
    of it.
    """
    if leaked:
        if token_id is not None or account is not None:
            raise Refused("With --leaked give neither an id nor an account: the tokens say whose they are.")
        _revoke_leaked()
    elif token_id is None or account is None:
        raise Refused("Say which token: its id and --account, or --leaked and the token on the standard input.")
    else:
        _revoke(token_id, account)


def _revoke(token_id: int, email: str) -> None:
    with open_core_services() as runtime:
        with runtime.db.system_transaction() as tx:
            account_id = service.find_account(tx, email)
        try:
            with runtime.db.transaction(Tenant(account_id)) as tx:
                token_service.revoke_token(tx, account_id, token_id, COMMAND_LINE_ACTOR, now=runtime.clock())
        except NotFound:
            raise Refused(f"{email} has no token {token_id} that is in force.") from None
    typer.echo(f"Token {token_id} is revoked.")


def _revoke_leaked() -> None:
    tokens = list(dict.fromkeys(_find_tokens(sys.stdin.read())))
    if not tokens:
        raise Refused("There is no token on the standard input: each begins with qp_live_, qp_test_ or qp_refresh_.")
    revoked_count = 0
    with open_core_services() as runtime:
        for first in range(0, len(tokens), REVOKE_BATCH_SIZE):
            with runtime.db.system_transaction() as tx:
                chunk = tokens[first : first + REVOKE_BATCH_SIZE]
                revoked_count += revoke_and_report_leaked(tx, chunk, address=None, now=runtime.clock())
    outcome = "What was in force is revoked, and the owners are told." if revoked_count else "None was in force."
    typer.echo(f"{format_count(len(tokens), 'token')} found. {outcome}")


def _find_tokens(text: str) -> Iterator[str]:
    for match in token_format.SECRET_PATTERN.finditer(text):
        if any(token_format.is_of_kind(match[0], kind) for kind in ("live", "test", "refresh")):
            yield match[0]


def _token_table(tokens: list[PersonalToken]) -> Table:
    """Days only, and the creator under the name: a terminal is 80 columns wide, and `--json` has the rest."""
    names = wrapped_column("name", [text for each in tokens for text in (each.name, _creator_label(each))])
    ids, hints, days = map(fixed_column, ("id", "token", "used\nends"))
    table = create_table(ids, names, hints, wrapped_column("may"), days)
    for each in tokens:
        table.add_row(
            str(each.id),
            f"{each.name}\n{_creator_label(each)}",
            f"qp_{each.mode}_…{each.hint or ''}",
            _permissions_label(each),
            f"{format_day(each.last_used_at) or 'never'}\n{format_day(each.expires_at) or 'never'}",
        )
    return table


def _creator_label(each: PersonalToken) -> str:
    return f"by {each.maker or 'the command line'}"


def _permissions_label(each: PersonalToken) -> str:
    label = "everything" if each.scopes is None else ", ".join(each.scopes)
    return label if each.sub_account_title is None else f"{label}, for {each.sub_account_title}"
