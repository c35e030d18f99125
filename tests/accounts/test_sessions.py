"""Sessions: who is signed in, where they look, when that is over, and what nobody can use any more is forgotten."""

import secrets
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.accounts import service
from quillpost.accounts.models import Caller
from quillpost.accounts.queries import insert_token
from quillpost.accounts.tokens.rules import SCOPES
from quillpost.accounts.users import service as user_service
from quillpost.accounts.users import sessions as user_sessions
from quillpost.accounts.users import tasks as user_tasks
from quillpost.app.container import Container
from quillpost.app.tasks import build_tasks
from quillpost.core import tokens as token_format
from quillpost.core.database.tables import accounts, base
from quillpost.core.database.tables.accounts import memberships, sessions
from quillpost.core.database.tables.base import tokens
from quillpost.core.errors import NotFound
from support.factories import Clock, make_account, make_operator, make_sub_account
from support.oauth_app import insert_grant
from support.orders import open_account
from support.rows import execute, run, scalar, scalars
from support.sign_in import DANA, ELSEWHERE, find_user, is_good, make_user, sign_in_as, sign_in_user
from support.test_client import TestClient

pytestmark = pytest.mark.usefixtures("clean_database")

LEE = "lee@example.com"


def token_for(container: Container, user: user_sessions.SignedInUser) -> str:
    token, seconds = run(container, user_sessions.create_page_token, user, now=container.clock())
    assert seconds == 900
    return token


def caller_of(container: Container, token: str) -> Caller:
    return service.authenticate(container.db, token, limit=120, now=container.clock())[0]


def visit(container: Container, cookie: str | None) -> user_sessions.SignedInUser:
    user = find_user(container, cookie)
    assert user is not None
    return user


def switch(container: Container, user: user_sessions.SignedInUser, **to: object) -> None:
    run(container, user_sessions.switch_account, user, **to)  # type: ignore[arg-type]


def test_a_session_ends_after_a_week_unused_and_thirty_days(container: Container, clock: Clock, dana: int) -> None:
    cookie = sign_in_as(container).cookie
    for _ in range(4):
        clock.advance(days=6, hours=23)
        visit(container, cookie)
    clock.advance(days=2, hours=3, minutes=59)
    visit(container, cookie)
    clock.advance(minutes=1)
    assert find_user(container, cookie) is None
    cookie = sign_in_as(container).cookie
    clock.advance(days=7)
    assert find_user(container, cookie) is None


def test_a_visit_is_noted_once_a_minute_and_no_cookie_guessed(container: Container, clock: Clock, dana: int) -> None:
    cookie, began = sign_in_as(container).cookie, clock.now()
    seen = sa.select(sessions.c.seen_at, sessions.c.network).where(sessions.c.person_id == dana)
    clock.advance(seconds=59)
    visit(container, cookie)
    assert execute(container, seen) == [(began, "192.0.2.7")]
    clock.advance(seconds=1)
    user_sessions.find_session(container.db, cookie or "", address="203.0.113.5", now=clock.now())
    assert execute(container, seen) == [(clock.now(), "203.0.113.5")]
    assert len(token_format.mint_secret("session", secrets.token_bytes(32))) > 50
    cookie = sign_in_as(container).cookie
    assert cookie is not None
    assert cookie.split("_")[2] not in str(execute(container, sa.select(sessions)))
    assert find_user(container, "qp_session_\x00") is None


def test_sessions_are_listed_and_ended(container: Container, clock: Clock, account: int, dana: int) -> None:
    make_user(container, account, LEE)
    lee, first = sign_in_user(container, LEE), sign_in_user(container)
    clock.advance(minutes=5)
    second = visit(container, sign_in_as(container, visitor=ELSEWHERE).cookie)
    with container.db.system_transaction() as tx:
        shown = user_sessions.list_sessions(tx, dana, now=clock.now())
        assert [(each.id, each.network, each.browser) for each in shown] == [
            (second.session_id, "198.51.100.9", "Chrome"),
            (first.session_id, "192.0.2.7", "Firefox"),
        ]
        assert user_sessions.end_sessions(tx, dana, only_id=lee.session_id) == 0, "another's is not theirs to end"
        assert user_sessions.end_sessions(tx, dana, except_id=second.session_id) == 1
        assert [each.id for each in user_sessions.list_sessions(tx, dana, now=clock.now())] == [second.session_id]
        assert user_sessions.end_sessions(tx, dana) == 1
        assert [each.id for each in user_sessions.list_sessions(tx, lee.person_id, now=clock.now())] == [lee.session_id]


def test_somebody_looks_at_one_of_their_accounts(container: Container, account: int, dana: int) -> None:
    other = open_account(container, "branch@example.com").account_id
    make_user(container, other, DANA, role="member")
    cookie = sign_in_as(container).cookie
    user = visit(container, cookie)
    assert (user.here.account_id, [each.account_id for each in user.elsewhere]) == (account, [other])
    assert (user.is_owner, user.tenant.account_id) == (True, account)
    token = token_for(container, user)
    switch(container, user, mode="live", membership_id=user.here.membership_id)
    assert is_good(container, token)
    switch(container, user, membership_id=user.elsewhere[0].membership_id, mode="live")
    assert not is_good(container, token), "with another account the tokens of pages end"
    there = visit(container, cookie)
    assert (there.here.account_id, there.mode, there.is_owner) == (other, "live", False)


def test_a_testing_account_is_only_seen_in_it_and_nobody_in_none(container: Container, account: int, dana: int) -> None:
    cookie = sign_in_as(container).cookie
    switch(container, visit(container, cookie), mode="live")
    execute(container, sa.update(base.accounts).where(base.accounts.c.id == account).values(test_mode=True))
    there = visit(container, cookie)
    assert (there.mode, there.here.is_test_account) == ("test", True)
    cookie = sign_in_as(container).cookie
    execute(container, sa.delete(memberships).where(memberships.c.person_id == dana))
    assert find_user(container, cookie) is None


def test_a_pages_token_is_its_readers(container: Container, http: TestClient, clock: Clock) -> None:
    owner = make_account(container, http, "owner@example.com")
    make_user(container, owner.id, DANA)
    branch = make_sub_account(container, owner)
    lee = make_user(container, owner.id, LEE, role="member", sub_account_id=branch)
    whole, limited = sign_in_user(container), sign_in_user(container, LEE)
    token = token_for(container, whole)
    caller = caller_of(container, token)
    assert (caller.account_id, caller.mode, caller.scopes, caller.sub_account_id) == (owner.id, "test", None, None)
    caller = caller_of(container, token_for(container, limited))
    assert (caller.sub_account_id, caller.person_id) == (branch, lee)
    assert caller.scopes == frozenset(SCOPES) - {"account:write"}
    clock.advance(minutes=15)
    assert not is_good(container, token)
    token_for(container, whole)
    theirs = sa.select(sa.func.count()).where(tokens.c.session_id == whole.session_id)
    assert scalar(container, theirs) == 1, "those that are over go with the next"


@pytest.mark.parametrize("what", ["session", "membership", "role"])
def test_nobody_gets_a_pages_token_for_what_ended_now(container: Container, account: int, dana: int, what: str) -> None:
    make_user(container, account, LEE)
    user = sign_in_user(container)
    with container.db.system_transaction() as tx:
        if what == "session":
            user_sessions.end_sessions(tx, dana)
        elif what == "membership":
            user_service.remove_member(tx, account, user.here.membership_id, user.actor, now=container.clock())
        else:
            tx.execute(sa.update(memberships).where(memberships.c.person_id == dana).values(role="member"))
    with pytest.raises(NotFound):
        token_for(container, user)


def test_a_token_of_another_account_lends_nobody_an_operators_powers(container: Container, http: TestClient) -> None:
    """A member of the account that runs the service owns another: to look at that one makes no operator."""
    operator, own = make_operator(container, http), make_account(container, http, "own@example.com")
    make_user(container, operator.id, DANA, role="member")
    make_user(container, own.id, DANA, role="owner")
    user = sign_in_user(container)
    token, its = token_for(container, user), sa.update(sessions).where(sessions.c.id == user.session_id)
    # As if the token were made at the very moment of switching.
    execute(container, its.values(membership_id=user.elsewhere[0].membership_id))
    caller = caller_of(container, token)
    assert (caller.account_id, caller.is_operator) == (operator.id, False)
    execute(container, sa.update(memberships).where(memberships.c.account_id == operator.id).values(role="operator"))
    execute(container, its.values(membership_id=user.here.membership_id))
    assert caller_of(container, token).is_operator


def insert(container: Container, table: sa.Table, **values: Any) -> None:
    execute(container, sa.insert(table).values(created_at=container.clock(), **values))


def count(container: Container, *tables: sa.Table) -> list[int]:
    return [scalar(container, sa.select(sa.func.count()).select_from(table)) for table in tables]


def delete_expired(container: Container) -> None:
    user_tasks.delete_expired_access(container.db, now=container.clock())


def test_sessions_go_when_they_have_ended_bit_by_bit_and_every_hour(
    container: Container, clock: Clock, dana: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(user_tasks, "BATCH_SIZE", 3)
    sign_in_as(container)
    clock.advance(days=6)
    for _ in range(8):
        sign_in_as(container)
    clock.advance(days=1, minutes=1)
    delete_expired(container)
    assert count(container, sessions) == [8]
    clock.advance(days=30)
    sign_in_as(container)
    delete_expired(container)
    assert count(container, sessions) == [1]
    clock.advance(days=40)
    (task,) = (task for task in build_tasks(container) if task.name == "users.delete_expired_access")
    assert task.cron == "19 * * * *"
    task.run()
    assert count(container, sessions) == [0]


def test_links_codes_and_tokens_go_after_a_month(container: Container, clock: Clock, account: int, dana: int) -> None:
    now, connected = container.clock(), insert_grant(container, account, dana)
    end = {"expires_at": now + timedelta(hours=1)}
    insert(container, accounts.password_resets, digest=b"r", person_id=dana, **end)
    insert(
        container, accounts.invitations, digest=b"i", account_id=account, email="x@example.com", role="member", **end
    )
    insert(container, accounts.oauth_codes, digest=b"c", grant_id=connected, redirect_uri="x", **end)
    insert(container, accounts.refresh_tokens, digest=b"f", grant_id=connected, **end)
    with container.db.system_transaction() as tx:
        for expires_at in (end["expires_at"], None):
            insert_token(tx, account, name="x", mode="test", scopes=None, expires_at=expires_at, now=now)
    tables = (accounts.password_resets, accounts.invitations, accounts.oauth_codes, accounts.refresh_tokens, tokens)
    clock.advance(days=30, hours=1)
    delete_expired(container)
    assert count(container, *tables) == [1, 1, 1, 1, 2]
    clock.advance(seconds=1)
    delete_expired(container)
    assert count(container, *tables) == [0, 0, 0, 0, 1], "a token without an end stays"
    assert count(container, accounts.oauth_grants) == [1]


def test_an_accepted_invitation_goes_a_month_after_that_and_a_leave_that_was_never_used_after_a_day(
    container: Container, clock: Clock, account: int, dana: int
) -> None:
    usual = {"account_id": account, "role": "member", "expires_at": clock.now() + timedelta(days=7)}
    for number, how in enumerate(({"accepted_at": clock.now()}, {"revoked_at": clock.now()}, {})):
        insert(container, accounts.invitations, digest=bytes([number]), email=f"{number}@example.com", **usual, **how)
    insert_grant(container, account, dana, is_connected=False)
    clock.advance(hours=12)
    insert_grant(container, account, dana)
    delete_expired(container)
    assert count(container, accounts.invitations, accounts.oauth_grants) == [3, 2]
    clock.advance(hours=13)
    delete_expired(container)
    assert count(container, accounts.invitations, accounts.oauth_grants) == [3, 1]
    clock.advance(days=30)
    delete_expired(container)
    assert count(container, accounts.invitations, accounts.oauth_grants) == [1, 1]


def test_whoever_is_in_no_account_is_forgotten(container: Container, account: int, dana: int) -> None:
    lee = make_user(container, account, "lee@example.com")
    execute(container, sa.delete(memberships).where(memberships.c.person_id == lee))
    delete_expired(container)
    assert scalars(container, sa.select(accounts.people.c.id)) == [dana]
