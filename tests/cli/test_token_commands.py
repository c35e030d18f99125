"""`quillpost token`: made, listed and revoked by whoever has the machine in hand."""

import io
import json
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from quillpost.accounts.audit.service import Actor, list_audit_entries
from quillpost.accounts.tokens import service as token_service
from quillpost.app.container import Container
from quillpost.core import tokens as token_format
from quillpost.core.database import Tenant
from quillpost.core.database.tables.accounts import oauth_clients, oauth_grants, refresh_tokens
from quillpost.core.database.tables.base import tokens
from support.browser_sessions import make_user
from support.cli_results import CommandResult, Quillpost
from support.factories import Account, make_sub_account

EMAIL = "owner@example.com"
MAKER = "dana.whitfield@north.example.com"

Token = Callable[..., CommandResult]


@pytest.fixture
def token(
    owner: Account, quillpost: Quillpost, conninfo: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Token:
    def run(*words: object, stdin: str = "", columns: int = 300) -> CommandResult:
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        return quillpost("token", *words, columns=columns, home=tmp_path / "home", database_url=conninfo)

    return run


def acts(container: Container, account_id: int) -> list[tuple[str, str]]:
    with container.db.system_transaction() as tx:
        return [(entry.act, entry.actor) for entry in list_audit_entries(tx, account_id)]


def pings(owner: Account, token: str) -> int:
    return owner.http.get("/api/v2/ping", headers={"Authorization": f"Bearer {token}"}).status_code


def test_a_token_is_printed_alone_and_works(token: Token, owner: Account, container: Container) -> None:
    made = token("create", "--account", EMAIL, "--mode", "live", "--name", "Zapier")
    assert (made.code, made.err, made.out.count("\n")) == (0, "", 1)
    assert token_format.is_of_kind(made.out.strip(), "live")
    assert pings(owner, made.out.strip()) == 200
    assert acts(container, owner.id) == [("token.created", "the command line")]


def test_a_token_may_be_limited_to_a_sub_account_scopes_and_days(
    token: Token, owner: Account, container: Container
) -> None:
    branch = make_sub_account(container, owner)
    made = token(
        "create", "--account", EMAIL, "--mode", "test", "--scopes", "orders:read, lists:write",
        "--sub-account", branch, "--expires-days", 30,
    )  # fmt: skip
    with container.db.system_transaction() as tx:
        row = tx.execute(sa.select(tokens).where(tokens.c.digest == token_format.hash_token(made.out.strip()))).one()
    assert (row.sub_account_id, row.scopes) == (branch, ["orders:read", "lists:write"])
    assert row.expires_at - row.created_at == timedelta(days=30)


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--scopes", "mail:read"], "Unknown scope mail:read"),
        (["--sub-account", "4711"], "There is no such sub account"),
        (["--name", ""], "name"),
    ],
)
def test_a_token_that_cannot_be_made_is_one_sentence(token: Token, words: list[str], error: str) -> None:
    outcome = token("create", "--account", EMAIL, "--mode", "test", *words)
    assert outcome.is_one_sentence()
    assert error in outcome.err


def test_another_accounts_sub_account_is_unknown(token: Token, stranger: Account, container: Container) -> None:
    theirs = make_sub_account(container, stranger)
    outcome = token("create", "--account", EMAIL, "--mode", "test", "--sub-account", theirs)
    assert outcome.is_one_sentence()
    assert "There is no such sub account" in outcome.err


def test_the_list_tells_tokens_apart_and_shows_none(token: Token, owner: Account) -> None:
    made = token(
        "create", "--account", EMAIL, "--mode", "live", "--scopes", "send:write", "--name", "[red]Zapier"
    ).out.strip()
    shown = token("list", "--account", EMAIL)
    assert made not in shown.out
    line = next(line for line in shown.out.splitlines() if "[red]Zapier" in line)
    assert f"qp_live_…{made[-4:]}" in line
    assert "send:write" in line
    [newest, first] = json.loads(token("list", "--account", EMAIL, "--json").out)
    assert (newest["mode"], newest["scopes"], first["name"]) == ("live", ["send:write"], "test")
    assert made not in json.dumps([newest, first])


def test_the_list_breaks_no_word_on_a_terminal_of_eighty_letters(
    token: Token, owner: Account, container: Container
) -> None:
    maker = Actor(MAKER, person_id=make_user(container, owner.id, MAKER))
    now = container.clock()
    with container.db.transaction(Tenant(owner.id)) as tx:
        token_service.create_token(
            tx,
            owner.id,
            name="Newsletter robot",
            mode="live",
            scopes=None,
            sub_account_id=None,
            expires_at=now + timedelta(days=365),
            actor=maker,
            now=now,
        )
    lines = token("list", "--account", EMAIL, columns=80).out.splitlines()
    assert max(map(len, lines)) <= 80
    at = next(n for n, line in enumerate(lines) if "Newsletter robot" in line)
    for words in ("Newsletter robot", "qp_live_…", "everything", "never"):
        assert words in lines[at]
    assert f"by {MAKER}" in lines[at + 1]
    assert f"{now + timedelta(days=365):%Y-%m-%d}" in lines[at + 1]


def test_a_revoked_token_is_unknown_from_the_next_call_on(token: Token, owner: Account, container: Container) -> None:
    [mine] = json.loads(token("list", "--account", EMAIL, "--json").out)
    assert pings(owner, owner.token) == 200
    assert token("revoke", mine["id"], "--account", EMAIL).out == f"Token {mine['id']} is revoked.\n"
    assert pings(owner, owner.token) == 401
    assert token("list", "--account", EMAIL).out == "No token is in force.\n"
    assert acts(container, owner.id) == [("token.revoked", "the command line")]
    again = token("revoke", mine["id"], "--account", EMAIL)
    assert again.is_one_sentence()
    assert f"{EMAIL} has no token {mine['id']} that is in force." in again.err


def test_another_accounts_token_stays(token: Token, stranger: Account, container: Container) -> None:
    with container.db.system_transaction() as tx:
        theirs = tx.execute(sa.select(tokens.c.id).where(tokens.c.account_id == stranger.id)).scalar_one()
    assert token("revoke", theirs, "--account", EMAIL).is_one_sentence()
    assert pings(stranger, stranger.token) == 200


def test_leaked_tokens_are_read_from_the_standard_input_wherever_they_stand(
    token: Token, owner: Account, stranger: Account, container: Container
) -> None:
    log = f'GET /?key={owner.token}&x=1 200\n{owner.token}\n{{"token":"{stranger.token}"}}\n'
    outcome = token("revoke", "--leaked", stdin=log)
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out == "2 tokens found. What was in force is revoked, and the owners are told.\n"
    assert [pings(each, each.token) for each in (owner, stranger)] == [401, 401]
    assert acts(container, owner.id) == [("token.leaked", "the command line")]
    again = token("revoke", "--leaked", stdin=owner.token)
    assert again.out == "1 token found. None was in force.\n"


def test_a_leaked_refresh_token_ends_the_app(token: Token, owner: Account, container: Container) -> None:
    refresh = connected_app(container, owner.id)
    assert "1 token found. What was in force is revoked" in token("revoke", "--leaked", stdin=refresh).out
    with container.db.system_transaction() as tx:
        assert tx.execute(sa.select(oauth_grants.c.ended_by)).scalar_one() == "leak"


def connected_app(container: Container, account_id: int) -> str:
    """The refresh token of an app that somebody has connected."""
    now = container.clock()
    refresh = token_format.mint_secret("refresh", bytes(range(24)))
    with container.db.system_transaction() as tx:
        person = tx.execute(
            sa.text(
                "insert into people (email, name, created_at, updated_at)"
                " values ('dana@example.com', 'Dana', :now, :now) returning id"
            ),
            {"now": now},
        ).scalar_one()
        client = tx.execute(
            sa.insert(oauth_clients)
            .values(
                account_id=account_id, client_id="app", name="App", is_public=True,
                redirect_uris=["https://example.com/back"], created_at=now, updated_at=now,
            )
            .returning(oauth_clients.c.id)
        ).scalar_one()  # fmt: skip
        grant = tx.execute(
            sa.insert(oauth_grants)
            .values(
                account_id=account_id, mode="test", client_id=client, person_id=person, created_at=now,
                connected_at=now,
            )
            .returning(oauth_grants.c.id)
        ).scalar_one()  # fmt: skip
        tx.execute(
            sa.insert(refresh_tokens).values(
                digest=token_format.hash_token(refresh), grant_id=grant, created_at=now,
                expires_at=now + timedelta(days=365),
            )
        )  # fmt: skip
    return refresh


@pytest.mark.parametrize(
    ("words", "stdin", "error"),
    [
        ([], "", "Say which token"),
        (["5"], "", "Say which token"),
        (["--account", EMAIL], "", "Say which token"),
        (["5", "--leaked"], "", "give neither an id nor an account"),
        (["--leaked", "--account", EMAIL], "", "give neither an id nor an account"),
        (["--leaked"], "qp_live_nothing of ours", "There is no token on the standard input"),
        (["5", "--account", "who@example.com"], "", "There is no account with the e-mail"),
    ],
)
def test_what_cannot_be_revoked_is_one_sentence(token: Token, words: list[str], stdin: str, error: str) -> None:
    outcome = token("revoke", *words, stdin=stdin)
    assert outcome.is_one_sentence()
    assert error in outcome.err
