"""`quillpost token`: made, listed and revoked by whoever has the machine in hand."""

import json
from datetime import timedelta

import pytest
import sqlalchemy as sa

from quillpost.accounts.audit.service import Actor, list_audit_entries
from quillpost.accounts.tokens import service as token_service
from quillpost.app.container import Container
from quillpost.core import tokens as token_format
from quillpost.core.database import Tenant
from quillpost.core.database.tables.accounts import oauth_grants
from quillpost.core.database.tables.base import tokens
from support.cli_results import Quillpost
from support.factories import Account, make_sub_account
from support.sign_in import make_user
from support.tenant_rows import insert_least, metadata

OF_OWNER = ("--account", "owner@example.com")
CREATE = ("token", "create", *OF_OWNER, "--mode")


def acts(container: Container, account_id: int) -> list[tuple[str, str]]:
    with container.db.system_transaction() as tx:
        return [(entry.act, entry.actor) for entry in list_audit_entries(tx, account_id)]


def ping(owner: Account, token: str) -> int:
    return owner.http.get("/api/v2/ping", headers={"Authorization": f"Bearer {token}"}).status_code


REFUSED: tuple[tuple[tuple[object, ...], bytes, str], ...] = (
    ((*CREATE, "test", "--scopes", "mail:read"), b"", "Unknown scope mail:read"),
    ((*CREATE, "test", "--sub-account", 2**40), b"", "There is no such sub account"),
    ((*CREATE, "test", "--name", ""), b"", "name"),
    (("token", "revoke"), b"", "Say which token"),
    (("token", "revoke", "5"), b"", "Say which token"),
    (("token", "revoke", *OF_OWNER), b"", "Say which token"),
    (("token", "revoke", "5", "--leaked"), b"", "give neither an id nor an account"),
    (("token", "revoke", "--leaked", *OF_OWNER), b"", "give neither an id nor an account"),
    (("token", "revoke", "--leaked"), b"qp_live_nothing of ours", "There is no token on the standard input"),
    (("token", "revoke", "5", "--account", "who@example.com"), b"", "There is no account with the e-mail"),
)


def test_what_cannot_be_made_or_revoked_is_one_sentence(
    beside: Quillpost, owner: Account, stranger: Account, container: Container, subtests: pytest.Subtests
) -> None:
    for words, stdin, error in REFUSED:
        with subtests.test(" ".join(map(str, words))):
            outcome = beside(*words, stdin=stdin)
            assert outcome.is_one_sentence(), outcome
            assert error in outcome.err
    theirs = beside(*CREATE, "test", "--sub-account", make_sub_account(container, stranger))
    assert theirs.is_one_sentence()
    assert "There is no such sub account" in theirs.err
    with container.db.system_transaction() as tx:
        token_id = tx.execute(sa.select(tokens.c.id).where(tokens.c.account_id == stranger.id)).scalar_one()
    assert beside("token", "revoke", token_id, *OF_OWNER).is_one_sentence()
    assert (ping(stranger, stranger.token), acts(container, owner.id)) == (200, [])


def test_a_token_is_printed_works_and_may_be_limited(beside: Quillpost, owner: Account, container: Container) -> None:
    made = beside(*CREATE, "live", "--name", "Zapier")
    assert (made.code, made.err, made.out.count("\n")) == (0, "", 1)
    assert token_format.is_of_kind(made.out.strip(), "live")
    assert ping(owner, made.out.strip()) == 200
    assert acts(container, owner.id) == [("token.created", "the command line")]
    branch = make_sub_account(container, owner)
    limits = ("--scopes", "orders:read, lists:write", "--sub-account", branch, "--expires-days", 30)
    limited = beside(*CREATE, "test", *limits).out.strip()
    with container.db.system_transaction() as tx:
        row = tx.execute(sa.select(tokens).where(tokens.c.digest == token_format.hash_token(limited))).one()
    assert (row.sub_account_id, row.scopes) == (branch, ["orders:read", "lists:write"])
    assert row.expires_at - row.created_at == timedelta(days=30)


@pytest.mark.usefixtures("owner")
def test_the_list_tells_tokens_apart_and_shows_none(beside: Quillpost) -> None:
    made = beside(*CREATE, "live", "--scopes", "send:write", "--name", "[red]Zapier").out.strip()
    shown = beside("token", "list", *OF_OWNER)
    assert made not in shown.out
    line = next(line for line in shown.out.splitlines() if "[red]Zapier" in line)
    assert f"qp_live_…{made[-4:]}" in line
    assert "send:write" in line
    [newest, first] = json.loads(beside("token", "list", *OF_OWNER, "--json").out)
    assert (newest["mode"], newest["scopes"], first["name"]) == ("live", ["send:write"], "test")
    assert made not in json.dumps([newest, first])


def test_the_list_breaks_no_word_on_a_terminal_of_eighty_letters(
    beside: Quillpost, owner: Account, container: Container
) -> None:
    email, now = "dana.whitfield@north.example.com", container.clock()
    maker, ends = Actor(email, person_id=make_user(container, owner.id, email)), now + timedelta(days=365)
    with container.db.transaction(Tenant(owner.id)) as tx:
        token_service.create_token(
            tx, owner.id, name="Newsletter robot", mode="live", scopes=None, sub_account_id=None, expires_at=ends,
            actor=maker, now=now,
        )  # fmt: skip
    lines = beside("token", "list", *OF_OWNER, columns=80).out.splitlines()
    assert max(map(len, lines)) <= 80
    at = next(n for n, line in enumerate(lines) if "Newsletter robot" in line)
    for words in ("Newsletter robot", "qp_live_…", "everything", "never"):
        assert words in lines[at]
    assert f"by {email}" in lines[at + 1]
    assert f"{ends:%Y-%m-%d}" in lines[at + 1]


def test_a_revoked_token_is_unknown_from_then_on(beside: Quillpost, owner: Account, container: Container) -> None:
    [mine] = json.loads(beside("token", "list", *OF_OWNER, "--json").out)
    assert ping(owner, owner.token) == 200
    assert beside("token", "revoke", mine["id"], *OF_OWNER).out == f"Token {mine['id']} is revoked.\n"
    assert ping(owner, owner.token) == 401
    assert beside("token", "list", *OF_OWNER).out == "No token is in force.\n"
    assert acts(container, owner.id) == [("token.revoked", "the command line")]
    again = beside("token", "revoke", mine["id"], *OF_OWNER)
    assert again.is_one_sentence()
    assert f"owner@example.com has no token {mine['id']} that is in force." in again.err


def test_leaked_tokens_are_read_from_the_standard_input_wherever_they_stand(
    beside: Quillpost, owner: Account, stranger: Account, container: Container
) -> None:
    log = f'GET /?key={owner.token}&x=1 200\n{owner.token}\n{{"token":"{stranger.token}"}}\n'
    outcome = beside("token", "revoke", "--leaked", stdin=log.encode())
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out == "2 tokens found. What was in force is revoked, and the owners are told.\n"
    assert [ping(each, each.token) for each in (owner, stranger)] == [401, 401]
    assert acts(container, owner.id) == [("token.leaked", "the command line")]
    again = beside("token", "revoke", "--leaked", stdin=owner.token.encode())
    assert again.out == "1 token found. None was in force.\n"

    refresh, whose = token_format.mint_secret("refresh", bytes(range(24))), {"account_id": owner.id, "mode": "test"}
    with container.db.system_transaction() as tx:
        person = insert_least(tx, metadata.tables["people"], {})
        app = {"client_id": insert_least(tx, metadata.tables["oauth_clients"], whose), "person_id": person}
        grant = insert_least(tx, oauth_grants, whose | app)
        later = {"digest": token_format.hash_token(refresh), "expires_at": container.clock() + timedelta(days=365)}
        insert_least(tx, metadata.tables["refresh_tokens"], {"grant_id": grant, **later})
    outcome = beside("token", "revoke", "--leaked", stdin=refresh.encode())
    assert "1 token found. What was in force is revoked" in outcome.out
    with container.db.system_transaction() as tx:
        assert tx.execute(sa.select(oauth_grants.c.ended_by).where(oauth_grants.c.id == grant)).scalar_one() == "leak"
