"""Sessions: who is signed in, where they look, and when that is over."""

import secrets

import pytest
import sqlalchemy as sa

from quillpost.accounts import service
from quillpost.accounts.tokens.rules import SCOPES
from quillpost.accounts.users import service as user_service
from quillpost.accounts.users.sessions import (
    SignedInUser,
    confirm_session,
    create_page_token,
    end_session,
    end_sessions,
    find_session,
    list_sessions,
    switch_account,
)
from quillpost.app.container import Container
from quillpost.core import tokens as token_format
from quillpost.core.database.tables.accounts import memberships, sessions
from quillpost.core.database.tables.base import accounts, tokens
from quillpost.core.errors import NotFound, Unauthenticated
from support.browser_sessions import make_user
from support.factories import Account, Clock, make_account, make_operator, make_sub_account
from support.orders import open_account
from support.sign_in import DANA, ELSEWHERE, find_user, sign_in_as, sign_in_user
from support.test_client import TestClient


def token_for(container: Container, user: SignedInUser) -> str:
    with container.db.system_transaction() as tx:
        token, seconds = create_page_token(tx, user, now=container.clock())
    assert seconds == 900
    return token


def is_good(container: Container, token: str) -> bool:
    try:
        service.authenticate(container.db, token, limit=120, now=container.clock())
    except Unauthenticated:
        return False
    return True


def test_a_session_ends_after_a_week_without_a_visit(container: Container, clock: Clock, dana: int) -> None:
    cookie = sign_in_as(container).cookie
    for _ in range(3):
        clock.advance(days=6, hours=23)
        assert find_user(container, cookie) is not None
    clock.advance(days=7)
    assert find_user(container, cookie) is None


def test_and_after_thirty_days_in_any_case(container: Container, clock: Clock, dana: int) -> None:
    cookie = sign_in_as(container).cookie
    for _ in range(5):
        clock.advance(days=5, hours=23)
        assert find_user(container, cookie) is not None
    clock.advance(hours=5)
    assert find_user(container, cookie) is None


@pytest.mark.parametrize(
    "cookie",
    [
        "",
        "x",
        token_format.mint_secret("session", b"\x00" * 32),
        token_format.mint_secret("test", b"\x00" * 32),
        "qp_session_\x00",
    ],
)
def test_no_other_cookie_is_anybodys(container: Container, dana: int, cookie: str) -> None:
    sign_in_as(container)
    assert find_user(container, cookie) is None


def test_the_cookie_is_not_in_the_database(container: Container, dana: int) -> None:
    cookie = sign_in_as(container).cookie
    with container.db.system_transaction() as tx:
        kept = str(tx.execute(sa.select(sessions)).all())
    assert cookie is not None
    assert cookie not in kept
    assert cookie.split("_")[2] not in kept


@pytest.mark.usefixtures("clean_database")
def test_a_visit_is_noted_at_most_once_a_minute(container: Container, clock: Clock, dana: int) -> None:
    cookie = sign_in_as(container).cookie
    began = container.clock()

    def seen() -> tuple[object, object]:
        with container.db.system_transaction() as tx:
            return tuple(tx.execute(sa.select(sessions.c.seen_at, sessions.c.network)).one())

    clock.advance(seconds=59)
    find_user(container, cookie)
    assert seen() == (began, "192.0.2.7")
    clock.advance(seconds=1)
    find_session(container.db, cookie or "", address="203.0.113.5", now=container.clock())
    assert seen() == (container.clock(), "203.0.113.5")


def test_whoever_is_in_no_account_any_more_is_nobody(container: Container, dana: int) -> None:
    cookie = sign_in_as(container).cookie
    with container.db.system_transaction() as tx:
        tx.execute(sa.delete(memberships))
    assert find_user(container, cookie) is None


def test_signing_out_ends_the_session_and_its_pages_tokens(container: Container, dana: int) -> None:
    cookie, other = sign_in_as(container).cookie, sign_in_as(container).cookie
    user = find_user(container, cookie)
    assert user is not None
    token = token_for(container, user)
    assert is_good(container, token)
    with container.db.system_transaction() as tx:
        end_session(tx, cookie or "")
    assert find_user(container, cookie) is None
    assert not is_good(container, token)
    assert find_user(container, other) is not None


def test_sessions_are_listed_and_ended(container: Container, clock: Clock, account: int, dana: int) -> None:
    make_user(container, account, "lee@example.com")
    lee = sign_in_user(container, "lee@example.com")
    first = sign_in_user(container)
    clock.advance(minutes=5)
    second = find_user(container, sign_in_as(container, visitor=ELSEWHERE).cookie)
    assert second is not None
    with container.db.system_transaction() as tx:
        shown = list_sessions(tx, dana, now=container.clock())
        assert [(each.id, each.network, each.browser) for each in shown] == [
            (second.session_id, "198.51.100.9", "Chrome"),
            (first.session_id, "192.0.2.7", "Firefox"),
        ]
        assert end_sessions(tx, dana, only_id=lee.session_id) == 0, "another's is not theirs to end"
        assert end_sessions(tx, dana, except_id=second.session_id) == 1
        assert [each.id for each in list_sessions(tx, dana, now=container.clock())] == [second.session_id]
        assert end_sessions(tx, dana) == 1
        assert [each.id for each in list_sessions(tx, lee.person_id, now=container.clock())] == [lee.session_id]


def test_somebody_looks_at_one_of_their_accounts(container: Container, account: int, dana: int) -> None:
    other = open_account(container, "branch@example.com").account_id
    make_user(container, other, DANA, role="member")
    cookie = sign_in_as(container).cookie
    user = find_user(container, cookie)
    assert user is not None
    assert (user.here.account_id, [each.account_id for each in user.elsewhere]) == (account, [other])
    assert (user.is_owner, user.tenant.account_id) == (True, account)
    with container.db.system_transaction() as tx:
        switch_account(tx, user, membership_id=user.elsewhere[0].membership_id, mode="live")
    there = find_user(container, cookie)
    assert there is not None
    assert (there.here.account_id, there.mode, there.is_owner) == (other, "live", False)


def test_nobody_looks_at_an_account_that_is_not_theirs(container: Container, account: int, dana: int) -> None:
    strange = make_user(container, open_account(container, "x@example.com").account_id, "lee@example.com")
    user = sign_in_user(container)
    with container.db.system_transaction() as tx:
        theirs = tx.execute(sa.select(memberships.c.id).where(memberships.c.person_id == strange)).scalar_one()
    for membership_id in (theirs, 10_000):
        with container.db.system_transaction() as tx, pytest.raises(NotFound):
            switch_account(tx, user, membership_id=membership_id)


def test_an_account_in_testing_mode_is_only_seen_in_it(container: Container, account: int, dana: int) -> None:
    cookie = sign_in_as(container).cookie
    user = find_user(container, cookie)
    assert user is not None
    with container.db.system_transaction() as tx:
        switch_account(tx, user, mode="live")
        tx.execute(sa.update(accounts).values(test_mode=True))
    there = find_user(container, cookie)
    assert there is not None
    assert (there.mode, there.here.is_test_account) == ("test", True)


def test_giving_the_password_again_is_noted(container: Container, clock: Clock, dana: int) -> None:
    cookie = sign_in_as(container).cookie
    signed_in_at = container.clock()
    clock.advance(hours=1)
    user = find_user(container, cookie)
    assert user is not None
    assert user.confirmed_at == signed_in_at
    with container.db.system_transaction() as tx:
        confirm_session(tx, user.session_id, now=container.clock())
    again = find_user(container, cookie)
    assert again is not None
    assert again.confirmed_at == container.clock()


def test_a_pages_token_is_its_readers(container: Container, http: TestClient, clock: Clock) -> None:
    owner = make_account(container, http, "owner@example.com")
    make_user(container, owner.id, DANA)
    branch = make_sub_account(container, owner)
    lee = make_user(container, owner.id, "lee@example.com", role="member", sub_account_id=branch)
    whole, limited = sign_in_user(container), sign_in_user(container, "lee@example.com")
    token, lees = token_for(container, whole), token_for(container, limited)
    caller, _ = service.authenticate(container.db, token, limit=120, now=container.clock())
    assert (caller.account_id, caller.mode, caller.scopes, caller.sub_account_id) == (owner.id, "test", None, None)
    caller, _ = service.authenticate(container.db, lees, limit=120, now=container.clock())
    assert (caller.sub_account_id, caller.person_id) == (branch, lee)
    assert caller.scopes == frozenset(SCOPES) - {"account:write"}
    clock.advance(minutes=15)
    assert not is_good(container, token)
    token_for(container, whole)
    with container.db.system_transaction() as tx:
        theirs = sa.select(sa.func.count()).where(tokens.c.session_id == whole.session_id)
        assert tx.execute(theirs).scalar_one() == 1, "those that are over go with the next"


@pytest.mark.parametrize("what", ["session", "membership", "role"])
def test_nobody_gets_a_pages_token_for_what_has_just_ended(
    container: Container, account: int, dana: int, what: str
) -> None:
    make_user(container, account, "lee@example.com")
    user = sign_in_user(container)
    with container.db.system_transaction() as tx:
        if what == "session":
            end_sessions(tx, dana)
        elif what == "membership":
            user_service.remove_member(tx, account, user.here.membership_id, user.actor, now=container.clock())
        else:
            tx.execute(sa.update(memberships).values(role="member"))
    with container.db.system_transaction() as tx, pytest.raises(NotFound):
        create_page_token(tx, user, now=container.clock())


def test_a_token_of_another_account_lends_nobody_an_operators_powers(container: Container, http: TestClient) -> None:
    """A member of the account that runs the service owns another: to look at that one makes no operator."""
    operator = make_operator(container, http)
    own: Account = make_account(container, http, "own@example.com")
    make_user(container, operator.id, DANA, role="member")
    make_user(container, own.id, DANA, role="owner")
    user = sign_in_user(container)
    token = token_for(container, user)
    with container.db.system_transaction() as tx:
        tx.execute(
            sa.update(sessions).values(membership_id=user.elsewhere[0].membership_id)
        )  # as if the token were made at the very moment of switching
    caller, _ = service.authenticate(container.db, token, limit=120, now=container.clock())
    assert (caller.account_id, caller.is_operator) == (operator.id, False)
    with container.db.system_transaction() as tx:
        tx.execute(sa.update(memberships).where(memberships.c.account_id == operator.id).values(role="operator"))
        tx.execute(sa.update(sessions).values(membership_id=user.here.membership_id))
    caller, _ = service.authenticate(container.db, token, limit=120, now=container.clock())
    assert caller.is_operator


def test_with_another_account_the_tokens_of_pages_end(container: Container, account: int, dana: int) -> None:
    make_user(container, open_account(container, "branch@example.com").account_id, DANA)
    user = sign_in_user(container)
    token = token_for(container, user)
    with container.db.system_transaction() as tx:
        switch_account(tx, user, mode="live", membership_id=user.here.membership_id)
    assert is_good(container, token)
    with container.db.system_transaction() as tx:
        switch_account(tx, user, membership_id=user.elsewhere[0].membership_id)
    assert not is_good(container, token)


def test_cookies_are_too_many_to_guess() -> None:
    assert len(token_format.mint_secret("session", secrets.token_bytes(32))) > 50
