"""Personal access tokens: what is refused, what is kept of them, and that a revoked one is worth nothing."""

from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.accounts import service
from quillpost.accounts.audit import service as audit_service
from quillpost.accounts.audit.service import Actor
from quillpost.accounts.queries import insert_token
from quillpost.accounts.tokens import service as personal
from quillpost.accounts.tokens.rules import SCOPES
from quillpost.app.container import Container
from quillpost.core import tokens as token_format
from quillpost.core.database import Tenant, Tx
from quillpost.core.database.tables.accounts import sessions
from quillpost.core.database.tables.base import sub_accounts, tokens
from quillpost.core.errors import Invalid, NotFound
from support.browser_sessions import make_user
from support.factories import Account, Clock, make_sub_account
from support.rows import execute, scalar
from support.sign_in import is_good
from support.transactions import run

DANA, FINN = "dana@example.com", "finn@example.com"


def create_in(tx: Tx, container: Container, account: Account, actor: Actor | None = None, **changes: Any) -> str:
    usual = {"name": "Zapier", "mode": "test", "scopes": None, "sub_account_id": None, "expires_at": None}
    how: dict[str, Any] = usual | {"actor": actor or Actor(DANA)} | changes
    return personal.create_token(tx, account.id, **how, now=container.clock())


def create(container: Container, account: Account, actor: Actor | None = None, **changes: Any) -> str:
    with container.db.transaction(Tenant(account.id)) as tx:
        return create_in(tx, container, account, actor, **changes)


def listed(container: Container, account: Account) -> list[personal.PersonalToken]:
    with container.db.transaction(Tenant(account.id)) as tx:
        return [each for each in personal.list_tokens(tx, account.id) if each.name != "test"]


def revoke(container: Container, account: Account, token_id: int) -> None:
    with container.db.transaction(Tenant(account.id)) as tx:
        personal.revoke_token(tx, account.id, token_id, Actor(DANA), now=container.clock())


def log_of(container: Container, account: Account) -> list[audit_service.AuditEntry]:
    return list(run(container, audit_service.list_audit_entries, account.id))


def test_a_token_opens_the_account_in_its_mode_and_only_its_digest_is_kept(
    container: Container, owner: Account
) -> None:
    token = create(container, owner, mode="live")
    assert token_format.token_mode(token) == "live"
    caller, _ = service.authenticate(container.db, token, limit=10, now=container.clock())
    assert (caller.account_id, caller.mode, caller.scopes, caller.sub_account_id) == (owner.id, "live", None, None)
    its = (tokens.c.account_id == owner.id, tokens.c.name == "Zapier")
    [row] = execute(container, sa.select(tokens).where(*its))
    assert row.digest == token_format.hash_token(token)
    assert token not in str(row)


def test_the_list_tells_all_of_a_token_but_the_token(container: Container, owner: Account, clock: Clock) -> None:
    branch = make_sub_account(container, owner, "Austin")
    maker = Actor(DANA, person_id=make_user(container, owner.id, DANA, password=None), address="192.0.2.7")
    scopes, until = ["orders:read", "send:write", "orders:read"], clock.now() + timedelta(days=30)
    token = create(container, owner, maker, scopes=scopes, sub_account_id=branch, expires_at=until)
    clock.advance(minutes=5)
    assert is_good(container, token)
    (seen,) = listed(container, owner)
    assert (seen.name, seen.mode, seen.hint) == ("Zapier", "test", token[-4:])
    assert seen.scopes == ["send:write", "orders:read"]
    assert (seen.sub_account_id, seen.sub_account_title, seen.maker) == (branch, "Austin", DANA)
    assert (seen.expires_at, seen.last_used_at) == (until, clock.now())
    with container.db.transaction(Tenant(owner.id)) as tx:
        (test,) = (each for each in personal.list_tokens(tx, owner.id) if each.name == "test")
    assert (test.hint, test.maker) == (owner.token[-4:], None), "nobody made what the command line made"

    revoke(container, owner, seen.id)
    revoked, created = log_of(container, owner)
    assert (created.act, created.actor, created.network) == ("token.created", DANA, "192.0.2.7")
    assert (revoked.act, revoked.actor) == ("token.revoked", DANA)
    assert created.about == revoked.about == {"id": seen.id, "name": "Zapier", "mode": "test"}
    assert {created.sub_account_id, revoked.sub_account_id} == {branch}
    assert token not in f"{created}{revoked}"


def test_a_token_expires_by_the_clock_and_is_still_listed(container: Container, owner: Account, clock: Clock) -> None:
    token = create(container, owner, expires_at=clock.now() + timedelta(days=30))
    clock.advance(days=29, hours=23)
    assert is_good(container, token)
    clock.advance(hours=1)
    assert not is_good(container, token)
    assert [each.name for each in listed(container, owner)] == ["Zapier"]


def test_an_invalid_token_request_is_refused_by_its_fields(
    container: Container, owner: Account, stranger: Account, clock: Clock, subtests: pytest.Subtests
) -> None:
    gone, theirs = make_sub_account(container, owner, "Closed"), make_sub_account(container, stranger, "Theirs")
    execute(container, sa.update(sub_accounts).where(sub_accounts.c.id == gone).values(deleted_at=clock.now()))
    leaked = "This name holds a token: choose another, and revoke that token if others may have seen it."
    cases: list[tuple[str, Any, str]] = [
        ("name", "two\nlines", "The name is one line of plain text."),
        ("name", "qp_live_" + "x" * 39, leaked),
        ("scopes", ["send"], f"Unknown scope send. Known scopes: {', '.join(SCOPES)}."),
        *(("sub_account_id", branch, "There is no such sub account.") for branch in (10**9, gone, theirs)),
    ]
    for field, value, sentence in cases:
        with subtests.test(f"{field} {value}"):
            with pytest.raises(Invalid) as refused:
                create(container, owner, **{field: value})
            assert refused.value.fields == {field: [sentence]}
    with container.db.system_transaction() as tx, pytest.raises(Invalid, match="no such sub account"):
        create_in(tx, container, owner, sub_account_id=theirs)  # at the command line, which sees them all
    everything: dict[str, Any] = {"name": "", "mode": "", "scopes": [], "sub_account_id": 0, "expires_at": clock.now()}
    with pytest.raises(Invalid) as refused:
        create(container, owner, **everything)
    assert refused.value.fields.keys() == everything.keys(), "all errors are reported at once"
    assert (listed(container, owner), log_of(container, owner)) == ([], [])


def test_only_a_token_of_ones_own_that_is_in_force_can_be_revoked(
    container: Container, owner: Account, stranger: Account
) -> None:
    token = create(container, owner)
    (seen,) = listed(container, owner)
    with pytest.raises(NotFound):
        revoke(container, stranger, seen.id)
    with container.db.system_transaction() as tx, pytest.raises(NotFound):  # not for want of sight
        personal.revoke_token(tx, stranger.id, seen.id, Actor(DANA), now=container.clock())
    assert is_good(container, token)
    revoke(container, owner, seen.id)
    for token_id in (seen.id, 10**9):
        with pytest.raises(NotFound):
            revoke(container, owner, token_id)
    assert [entry.act for entry in log_of(container, owner)] == ["token.revoked", "token.created"]
    assert log_of(container, stranger) == []


def test_a_pages_own_token_is_on_no_list_and_not_for_revoking(container: Container, owner: Account) -> None:
    now, person = container.clock(), make_user(container, owner.id, DANA, password=None)
    times = {"created_at": now, "confirmed_at": now, "seen_at": now, "expires_at": now}
    session = sa.insert(sessions).values(digest=b"1" * 32, person_id=person, mode="test", awaits_code=False, **times)
    by: dict[str, Any] = {"person_id": person, "session_id": scalar(container, session.returning(sessions.c.id))}
    made, token = run(container, insert_token, owner.id, name="page", mode="test", scopes=None, **by, now=now)
    assert listed(container, owner) == []
    with pytest.raises(NotFound):
        revoke(container, owner, made)
    assert run(container, personal.revoke_person_tokens, owner.id, person, now=now) == 0
    assert is_good(container, token)


def test_all_tokens_that_a_person_made_in_an_account_go_and_no_others(
    container: Container, owner: Account, stranger: Account, clock: Clock
) -> None:
    dana, finn = (make_user(container, owner.id, email, password=None) for email in (DANA, FINN))
    make_user(container, stranger.id, DANA, password=None)
    of_dana = Actor(DANA, person_id=dana)
    gone = [create(container, owner, of_dana), create(container, owner, of_dana, mode="live")]
    create(container, owner, of_dana, expires_at=clock.now() + timedelta(seconds=1))
    kept = [create(container, owner, Actor(FINN, person_id=finn)), create(container, stranger, of_dana), owner.token]
    clock.advance(seconds=1)
    assert run(container, personal.revoke_person_tokens, owner.id, dana, now=container.clock()) == 2
    assert [is_good(container, token) for token in gone] == [False, False]
    assert [is_good(container, token) for token in kept] == [True, True, True]
