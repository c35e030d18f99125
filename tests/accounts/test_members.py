"""Who is in an account: changed, removed, and never without an owner."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.accounts import service
from quillpost.accounts.queries import insert_token
from quillpost.accounts.users import invitations
from quillpost.accounts.users import service as user_service
from quillpost.accounts.users.sessions import create_page_token, switch_account
from quillpost.app.container import Container
from quillpost.core.database.tables.accounts import memberships, oauth_clients, oauth_grants, people, sessions
from quillpost.core.errors import Invalid, NotFound, Refused, Unauthenticated
from support.browser_sessions import make_user
from support.factories import Account, Clock, make_account, make_operator, make_sub_account
from support.sign_in import (
    DANA,
    actor_of,
    audit_log,
    audited_acts,
    enroll_second_factor,
    find_user,
    run_twice_at_once,
    sign_in_as,
    sign_in_user,
)
from support.test_client import TestClient

pytestmark = pytest.mark.usefixtures("conninfo")

LEE = "lee@example.com"


@pytest.fixture
def account(container: Container, http: TestClient) -> Account:
    return make_account(container, http, "owner@example.com")


@pytest.fixture
def dana(container: Container, account: Account) -> int:
    return make_user(container, account.id, DANA)


def place_of(container: Container, person_id: int, account_id: int) -> int:
    m = memberships.c
    with container.db.system_transaction() as tx:
        found = sa.select(m.id).where(m.person_id == person_id, m.account_id == account_id)
        return int(tx.execute(found).scalar_one())


def change(container: Container, account_id: int, membership_id: int, *, by: int = 1, **how: Any) -> None:
    values = {"role": "member", "sub_account_id": None} | how
    with container.db.system_transaction() as tx:
        user_service.update_member(tx, account_id, membership_id, actor=actor_of(by), now=container.clock(), **values)


def remove(container: Container, account_id: int, membership_id: int, *, by: int = 1) -> None:
    with container.db.system_transaction() as tx:
        user_service.remove_member(tx, account_id, membership_id, actor_of(by), now=container.clock())


def roles(container: Container, account_id: int) -> dict[str, str]:
    with container.db.system_transaction() as tx:
        return {each.email: each.role for each in user_service.list_members(tx, account_id)}


def is_good(container: Container, token: str) -> bool:
    try:
        service.authenticate(container.db, token, limit=120, now=container.clock())
    except Unauthenticated:
        return False
    return True


def tokens_of(container: Container, account: Account, person_id: int, email: str) -> dict[str, str]:
    """One of each kind that acts for somebody: of a page, their own, and an app's."""
    user = sign_in_user(container, email)
    now = container.clock()
    with container.db.system_transaction() as tx:
        client = tx.execute(
            sa.insert(oauth_clients)
            .values(
                account_id=account.id, client_id=f"c{person_id}", name="App", is_public=True,
                redirect_uris=["https://app.example/"], created_at=now, updated_at=now,
            )
            .returning(oauth_clients.c.id)
        ).scalar_one()  # fmt: skip
        grant = tx.execute(
            sa.insert(oauth_grants)
            .values(
                account_id=account.id, mode="test", client_id=client, person_id=person_id,
                created_at=now, connected_at=now,
            )
            .returning(oauth_grants.c.id)
        ).scalar_one()  # fmt: skip
        common: dict[str, Any] = {"name": "x", "mode": "test", "scopes": None, "person_id": person_id, "now": now}
        return {
            "page": create_page_token(tx, user, now=now)[0],
            "personal": insert_token(tx, account.id, **common)[1],
            "app": insert_token(tx, account.id, **common, grant_id=grant)[1],
        }


def test_an_account_lists_its_people(container: Container, clock: Clock, account: Account, dana: int) -> None:
    branch = make_sub_account(container, account, "Branch")
    lee = make_user(container, account.id, LEE, role="member", sub_account_id=branch, name="Lee Park")
    enroll_second_factor(container, lee, LEE)
    clock.advance(hours=1)
    sign_in_as(container)
    sign_in_as(container, LEE)  # the code is still owed: not seen
    with container.db.system_transaction() as tx:
        owner, member = user_service.list_members(tx, account.id)
    assert (owner.email, owner.role, owner.last_seen_at) == (DANA, "owner", container.clock())
    assert (owner.has_second_factor, owner.sub_account_title) == (False, None)
    assert (member.name, member.sub_account_id, member.sub_account_title) == ("Lee Park", branch, "Branch")
    assert (member.has_second_factor, member.last_seen_at) == (True, None)
    assert container.clock() - member.created_at == timedelta(hours=1)


def test_a_role_changes_and_whatever_acted_for_them_ends(container: Container, account: Account, dana: int) -> None:
    lee = make_user(container, account.id, LEE)
    theirs, others = tokens_of(container, account, lee, LEE), tokens_of(container, account, dana, DANA)
    branch = make_sub_account(container, account)
    change(container, account.id, place_of(container, lee, account.id), sub_account_id=branch)
    assert roles(container, account.id) == {DANA: "owner", LEE: "member"}
    assert {kind: is_good(container, token) for kind, token in theirs.items()} == dict.fromkeys(theirs, False)
    assert all(is_good(container, token) for token in others.values())
    user = sign_in_user(container, LEE)
    assert (user.is_owner, user.here.sub_account_id) == (False, branch)
    line = next(line for line in audit_log(container, account.id) if line.act == "person.changed")
    assert (line.about, line.sub_account_id) == ({"email": LEE, "role": "member"}, branch)


def invited(container: Container, account_id: int, by: int, email: str) -> str:
    """The token of the link."""
    with container.db.system_transaction() as tx:
        link = invitations.invite(
            tx, container.encryptor, account_id, email=email, role="owner", sub_account_id=None,
            actor=actor_of(by), base_url="", now=container.clock(),
        )  # fmt: skip
    return link.removeprefix("/join/")


@pytest.mark.parametrize("how", [change, remove])
def test_whom_they_have_invited_does_not_get_in_any_more(
    container: Container, http: TestClient, account: Account, dana: int, how: Callable[..., None]
) -> None:
    other = make_account(container, http, "other@example.com")
    lee = make_user(container, account.id, LEE)
    make_user(container, other.id, LEE)
    of_lee = invited(container, account.id, lee, "friend@example.com")
    kept = [
        invited(container, account.id, dana, "kim@example.com"),
        invited(container, other.id, lee, "kim@example.com"),
    ]
    how(container, account.id, place_of(container, lee, account.id))
    with container.db.system_transaction() as tx:
        assert invitations.find_invitation(tx, of_lee, now=container.clock()) is None
        assert all(invitations.find_invitation(tx, token, now=container.clock()) for token in kept)


def test_an_account_sees_when_its_members_were_last_active_in_it_only(
    container: Container, http: TestClient, clock: Clock, account: Account, dana: int
) -> None:
    other = make_account(container, http, "other@example.com")
    make_user(container, other.id, DANA)
    make_user(container, other.id, LEE)
    cookie = sign_in_as(container).cookie

    def last_seen(which: int = 0) -> list[datetime | None]:
        with container.db.system_transaction() as tx:
            return [
                member.last_seen_at
                for each in (account, other)
                for member in user_service.list_members(tx, each.id)[which : which + 1]
            ]

    assert last_seen() == [container.clock(), None]
    assert last_seen(1) == [None]
    sign_in_as(container, LEE)
    assert last_seen(1) == [container.clock()]
    clock.advance(hours=1)
    user = find_user(container, cookie)
    assert user is not None
    assert last_seen() == [container.clock(), None]
    with container.db.system_transaction() as tx:
        switch_account(tx, user, membership_id=user.elsewhere[0].membership_id)
    clock.advance(hours=1)
    find_user(container, cookie)
    assert last_seen() == [None, container.clock()]


def test_what_stays_as_it_is_ends_nothing(container: Container, account: Account, dana: int) -> None:
    theirs = tokens_of(container, account, dana, DANA)
    change(container, account.id, place_of(container, dana, account.id), role="owner")
    assert all(is_good(container, token) for token in theirs.values())
    assert audited_acts(container, account.id) == ["sign_in"]


def test_the_session_goes_on_with_the_new_role(container: Container, account: Account, dana: int) -> None:
    lee = make_user(container, account.id, LEE)
    cookie = sign_in_as(container, LEE).cookie
    change(container, account.id, place_of(container, lee, account.id))
    user = find_user(container, cookie)
    assert user is not None
    assert not user.is_owner


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"role": "boss"}, "role"),
        ({"role": "operator"}, "role"),
        ({"sub_account_id": 10_000}, "sub_account_id"),
        ({"role": "owner", "sub_account_id": 1}, "sub_account_id"),
    ],
)
def test_a_place_that_is_not_there_is_refused(
    container: Container, account: Account, dana: int, values: dict[str, Any], field: str
) -> None:
    make_sub_account(container, account)
    lee = make_user(container, account.id, LEE, role="member")
    with pytest.raises(Invalid) as error:
        change(container, account.id, place_of(container, lee, account.id), **values)
    assert list(error.value.fields) == [field]
    assert roles(container, account.id)[LEE] == "member"


def test_an_account_that_runs_the_service_has_operators(container: Container, http: TestClient) -> None:
    operator = make_operator(container, http)
    make_user(container, operator.id, DANA)
    lee = make_user(container, operator.id, LEE, role="member")
    change(container, operator.id, place_of(container, lee, operator.id), role="operator")
    user = sign_in_user(container, LEE)
    assert (user.here.role, user.is_owner) == ("operator", False)


def test_anothers_people_are_not_found(container: Container, http: TestClient, account: Account, dana: int) -> None:
    stranger = make_account(container, http, "stranger@example.com")
    mallory = make_user(container, stranger.id, "mallory@example.com")
    for membership_id in (place_of(container, dana, account.id), 10_000):
        with pytest.raises(NotFound):
            change(container, stranger.id, membership_id, by=mallory)
        with pytest.raises(NotFound):
            remove(container, stranger.id, membership_id, by=mallory)
    assert roles(container, account.id) == {DANA: "owner"}


def test_whoever_is_removed_is_out_at_once(container: Container, account: Account, dana: int) -> None:
    lee = make_user(container, account.id, LEE)
    theirs, cookie = tokens_of(container, account, lee, LEE), sign_in_as(container, LEE).cookie
    remove(container, account.id, place_of(container, lee, account.id))
    assert {kind: is_good(container, token) for kind, token in theirs.items()} == dict.fromkeys(theirs, False)
    assert find_user(container, cookie) is None
    assert sign_in_as(container, LEE).outcome == "wrong"
    with container.db.system_transaction() as tx:
        assert tx.execute(sa.select(people.c.email)).scalars().all() == [DANA], "in no account: forgotten"
        assert tx.execute(sa.select(sessions.c.id).where(sessions.c.person_id == lee)).all() == []
    line = audit_log(container, account.id)[-1]
    assert (line.act, line.actor, line.about) == ("person.removed", DANA, {"email": LEE, "role": "owner"})


def test_whoever_is_in_another_account_stays_there(
    container: Container, http: TestClient, account: Account, dana: int
) -> None:
    other = make_account(container, http, "other@example.com")
    make_user(container, other.id, "boss@example.com")
    lee = make_user(container, account.id, LEE)
    make_user(container, other.id, LEE)
    cookie = sign_in_as(container, LEE).cookie
    theirs = tokens_of(container, other, lee, LEE)
    kept = {"personal": theirs["personal"], "app": theirs["app"]}  # the page looked at the first account
    remove(container, account.id, place_of(container, lee, account.id))
    assert all(is_good(container, token) for token in kept.values())
    assert not is_good(container, theirs["page"])
    user = find_user(container, cookie)
    assert user is not None
    assert (user.here.account_id, list(user.elsewhere)) == (other.id, [])


def test_an_account_keeps_an_owner(container: Container, account: Account, dana: int) -> None:
    make_user(container, account.id, LEE, role="member")
    mine = place_of(container, dana, account.id)
    with pytest.raises(Refused, match="keeps at least one owner"):
        remove(container, account.id, mine)
    with pytest.raises(Refused, match="keeps at least one owner"):
        change(container, account.id, mine, role="member")
    assert roles(container, account.id) == {DANA: "owner", LEE: "member"}
    assert audited_acts(container, account.id) == []


@pytest.mark.parametrize("how", ["removed", "changed"])
def test_of_the_last_two_owners_one_stays_though_both_go_at_once(
    container: Container, account: Account, dana: int, how: str
) -> None:
    lee = make_user(container, account.id, LEE)
    places = [(each, place_of(container, each, account.id)) for each in (dana, lee)]
    go_by = remove if how == "removed" else change

    def go() -> str:
        person, place = places.pop()
        try:
            go_by(container, account.id, place, by=person)
        except Refused:
            return "stays"
        return "goes"

    assert sorted(run_twice_at_once(go)) == ["goes", "stays"]
    assert list(roles(container, account.id).values()).count("owner") == 1


def test_removed_from_both_accounts_at_once_nobody_is_left_over(
    container: Container, http: TestClient, account: Account, dana: int
) -> None:
    other = make_account(container, http, "other@example.com")
    boss = make_user(container, other.id, "boss@example.com")
    lee = make_user(container, account.id, LEE)
    make_user(container, other.id, LEE)
    places = [(by, each, place_of(container, lee, each)) for by, each in ((dana, account.id), (boss, other.id))]

    def go() -> None:
        by, account_id, place = places.pop()
        remove(container, account_id, place, by=by)

    run_twice_at_once(go)
    with container.db.system_transaction() as tx:
        assert tx.execute(sa.select(people.c.id).where(people.c.id == lee)).all() == []
