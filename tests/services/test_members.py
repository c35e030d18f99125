"""Who is in an account: changed, removed, and never without an owner."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from front_door import DANA, actor_of, acts_of, both_at_once, come, enrolled, log_of, reader, reading
from signed_in import make_person

from direct import TestClient
from makers import Account, Clock, make_account, make_operator, make_sub_account
from quillpost.accounts import service
from quillpost.accounts.tokens.queries import insert_token
from quillpost.accounts.users import invitations, members
from quillpost.accounts.users.sessions import page_token, switch
from quillpost.app.container import Parts
from quillpost.core.database.tables.users import memberships, oauth_clients, oauth_grants, people, sessions
from quillpost.core.errors import Invalid, NotFound, Refused, Unauthenticated

LEE = "lee@example.com"


@pytest.fixture
def account(parts: Parts, http: TestClient) -> Account:
    return make_account(parts, http, "owner@example.com")


@pytest.fixture
def dana(parts: Parts, account: Account) -> int:
    return make_person(parts, account.id, DANA)


def place_of(parts: Parts, person_id: int, account_id: int) -> int:
    m = memberships.c
    with parts.db.work() as tx:
        found = sa.select(m.id).where(m.person_id == person_id, m.account_id == account_id)
        return int(tx.execute(found).scalar_one())


def change(parts: Parts, account_id: int, membership_id: int, *, by: int = 1, **how: Any) -> None:
    wish = {"role": "member", "sub_account_id": None} | how
    with parts.db.work() as tx:
        members.change(tx, account_id, membership_id, actor=actor_of(by), now=parts.clock(), **wish)


def remove(parts: Parts, account_id: int, membership_id: int, *, by: int = 1) -> None:
    with parts.db.work() as tx:
        members.remove(tx, account_id, membership_id, actor_of(by), now=parts.clock())


def roles(parts: Parts, account_id: int) -> dict[str, str]:
    with parts.db.work() as tx:
        return {each.email: each.role for each in members.list_members(tx, account_id)}


def is_good(parts: Parts, token: str) -> bool:
    try:
        service.authenticate(parts.db, token, limit=120, now=parts.clock())
    except Unauthenticated:
        return False
    return True


def tokens_of(parts: Parts, account: Account, person_id: int, email: str) -> dict[str, str]:
    """One of each kind that acts for somebody: of a page, their own, and an app's."""
    who = reading(parts, email)
    now = parts.clock()
    with parts.db.work() as tx:
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
        common: dict[str, Any] = {
            "name": "x",
            "mode": "test",
            "scopes": None,
            "person_id": person_id,
            "now": now,
        }
        return {
            "page": page_token(tx, who, now=now)[0],
            "personal": insert_token(tx, account.id, **common)[1],
            "app": insert_token(tx, account.id, **common, grant_id=grant)[1],
        }


def test_an_account_lists_its_people(parts: Parts, clock: Clock, account: Account, dana: int) -> None:
    branch = make_sub_account(parts, account, "Branch")
    lee = make_person(parts, account.id, LEE, role="member", sub_account_id=branch, name="Lee Park")
    enrolled(parts, lee, LEE)
    clock.advance(hours=1)
    come(parts)
    come(parts, LEE)  # the code is still owed: not seen
    with parts.db.work() as tx:
        owner, member = members.list_members(tx, account.id)
    assert (owner.email, owner.role, owner.last_seen_at) == (DANA, "owner", parts.clock())
    assert (owner.has_second_factor, owner.sub_account_title) == (False, None)
    assert (member.name, member.sub_account_id, member.sub_account_title) == ("Lee Park", branch, "Branch")
    assert (member.has_second_factor, member.last_seen_at) == (True, None)
    assert parts.clock() - member.created_at == timedelta(hours=1)


def test_a_role_changes_and_whatever_acted_for_them_ends(parts: Parts, account: Account, dana: int) -> None:
    lee = make_person(parts, account.id, LEE)
    theirs, others = tokens_of(parts, account, lee, LEE), tokens_of(parts, account, dana, DANA)
    branch = make_sub_account(parts, account)
    change(parts, account.id, place_of(parts, lee, account.id), sub_account_id=branch)
    assert roles(parts, account.id) == {DANA: "owner", LEE: "member"}
    assert {kind: is_good(parts, token) for kind, token in theirs.items()} == dict.fromkeys(theirs, False)
    assert all(is_good(parts, token) for token in others.values())
    who = reading(parts, LEE)
    assert (who.is_owner, who.here.sub_account_id) == (False, branch)
    line = next(line for line in log_of(parts, account.id) if line.act == "person.changed")
    assert (line.about, line.sub_account_id) == ({"email": LEE, "role": "member"}, branch)


def invited(parts: Parts, account_id: int, by: int, email: str) -> str:
    """The token of the link."""
    with parts.db.work() as tx:
        link = invitations.invite(
            tx, parts.sealer, account_id, email=email, role="owner", sub_account_id=None,
            actor=actor_of(by), base_url="", now=parts.clock(),
        )  # fmt: skip
    return link.removeprefix("/join/")


@pytest.mark.parametrize("how", [change, remove])
def test_whom_they_have_invited_does_not_get_in_any_more(
    parts: Parts, http: TestClient, account: Account, dana: int, how: Callable[..., None]
) -> None:
    other = make_account(parts, http, "other@example.com")
    lee = make_person(parts, account.id, LEE)
    make_person(parts, other.id, LEE)
    of_lee = invited(parts, account.id, lee, "friend@example.com")
    kept = [
        invited(parts, account.id, dana, "kim@example.com"),
        invited(parts, other.id, lee, "kim@example.com"),
    ]
    how(parts, account.id, place_of(parts, lee, account.id))
    with parts.db.work() as tx:
        assert invitations.find(tx, of_lee, now=parts.clock()) is None
        assert all(invitations.find(tx, token, now=parts.clock()) for token in kept)


def test_an_account_is_told_when_somebody_was_seen_in_it_and_nowhere_else(
    parts: Parts, http: TestClient, clock: Clock, account: Account, dana: int
) -> None:
    other = make_account(parts, http, "other@example.com")
    make_person(parts, other.id, DANA)
    make_person(parts, other.id, LEE)
    cookie = come(parts).cookie

    def last_seen(which: int = 0) -> list[datetime | None]:
        with parts.db.work() as tx:
            return [
                member.last_seen_at
                for each in (account, other)
                for member in members.list_members(tx, each.id)[which : which + 1]
            ]

    assert last_seen() == [parts.clock(), None]
    assert last_seen(1) == [None]
    come(parts, LEE)
    assert last_seen(1) == [parts.clock()]
    clock.advance(hours=1)
    who = reader(parts, cookie)
    assert who is not None
    assert last_seen() == [parts.clock(), None]
    with parts.db.work() as tx:
        switch(tx, who, membership_id=who.elsewhere[0].membership_id)
    clock.advance(hours=1)
    reader(parts, cookie)
    assert last_seen() == [None, parts.clock()]


def test_what_stays_as_it_is_ends_nothing(parts: Parts, account: Account, dana: int) -> None:
    theirs = tokens_of(parts, account, dana, DANA)
    change(parts, account.id, place_of(parts, dana, account.id), role="owner")
    assert all(is_good(parts, token) for token in theirs.values())
    assert acts_of(parts, account.id) == ["sign_in"]


def test_the_session_goes_on_with_the_new_role(parts: Parts, account: Account, dana: int) -> None:
    lee = make_person(parts, account.id, LEE)
    cookie = come(parts, LEE).cookie
    change(parts, account.id, place_of(parts, lee, account.id))
    who = reader(parts, cookie)
    assert who is not None
    assert not who.is_owner


@pytest.mark.parametrize(
    ("wish", "field"),
    [
        ({"role": "boss"}, "role"),
        ({"role": "operator"}, "role"),
        ({"sub_account_id": 10_000}, "sub_account_id"),
        ({"role": "owner", "sub_account_id": 1}, "sub_account_id"),
    ],
)
def test_a_place_that_is_not_there_is_refused(
    parts: Parts, account: Account, dana: int, wish: dict[str, Any], field: str
) -> None:
    make_sub_account(parts, account)
    lee = make_person(parts, account.id, LEE, role="member")
    with pytest.raises(Invalid) as fault:
        change(parts, account.id, place_of(parts, lee, account.id), **wish)
    assert list(fault.value.fields) == [field]
    assert roles(parts, account.id)[LEE] == "member"


def test_an_account_that_runs_the_service_has_operators(parts: Parts, http: TestClient) -> None:
    operator = make_operator(parts, http)
    make_person(parts, operator.id, DANA)
    lee = make_person(parts, operator.id, LEE, role="member")
    change(parts, operator.id, place_of(parts, lee, operator.id), role="operator")
    who = reading(parts, LEE)
    assert (who.here.role, who.is_owner) == ("operator", False)


def test_anothers_people_are_not_found(parts: Parts, http: TestClient, account: Account, dana: int) -> None:
    stranger = make_account(parts, http, "stranger@example.com")
    mallory = make_person(parts, stranger.id, "mallory@example.com")
    for membership_id in (place_of(parts, dana, account.id), 10_000):
        with pytest.raises(NotFound):
            change(parts, stranger.id, membership_id, by=mallory)
        with pytest.raises(NotFound):
            remove(parts, stranger.id, membership_id, by=mallory)
    assert roles(parts, account.id) == {DANA: "owner"}


def test_whoever_is_removed_is_out_at_once(parts: Parts, account: Account, dana: int) -> None:
    lee = make_person(parts, account.id, LEE)
    theirs, cookie = tokens_of(parts, account, lee, LEE), come(parts, LEE).cookie
    remove(parts, account.id, place_of(parts, lee, account.id))
    assert {kind: is_good(parts, token) for kind, token in theirs.items()} == dict.fromkeys(theirs, False)
    assert reader(parts, cookie) is None
    assert come(parts, LEE).outcome == "wrong"
    with parts.db.work() as tx:
        assert tx.execute(sa.select(people.c.email)).scalars().all() == [DANA], "in no account: forgotten"
        assert tx.execute(sa.select(sessions.c.id).where(sessions.c.person_id == lee)).all() == []
    line = log_of(parts, account.id)[-1]
    assert (line.act, line.actor, line.about) == ("person.removed", DANA, {"email": LEE, "role": "owner"})


def test_whoever_is_in_another_account_stays_there(
    parts: Parts, http: TestClient, account: Account, dana: int
) -> None:
    other = make_account(parts, http, "other@example.com")
    make_person(parts, other.id, "boss@example.com")
    lee = make_person(parts, account.id, LEE)
    make_person(parts, other.id, LEE)
    cookie = come(parts, LEE).cookie
    theirs = tokens_of(parts, other, lee, LEE)
    kept = {"personal": theirs["personal"], "app": theirs["app"]}  # the page looked at the first account
    remove(parts, account.id, place_of(parts, lee, account.id))
    assert all(is_good(parts, token) for token in kept.values())
    assert not is_good(parts, theirs["page"])
    who = reader(parts, cookie)
    assert who is not None
    assert (who.here.account_id, list(who.elsewhere)) == (other.id, [])


def test_an_account_keeps_an_owner(parts: Parts, account: Account, dana: int) -> None:
    make_person(parts, account.id, LEE, role="member")
    mine = place_of(parts, dana, account.id)
    with pytest.raises(Refused, match="keeps at least one owner"):
        remove(parts, account.id, mine)
    with pytest.raises(Refused, match="keeps at least one owner"):
        change(parts, account.id, mine, role="member")
    assert roles(parts, account.id) == {DANA: "owner", LEE: "member"}
    assert acts_of(parts, account.id) == []


@pytest.mark.parametrize("how", ["removed", "changed"])
def test_of_the_last_two_owners_one_stays_though_both_go_at_once(
    parts: Parts, account: Account, dana: int, how: str
) -> None:
    lee = make_person(parts, account.id, LEE)
    places = [(each, place_of(parts, each, account.id)) for each in (dana, lee)]
    go_by = remove if how == "removed" else change

    def go() -> str:
        person, place = places.pop()
        try:
            go_by(parts, account.id, place, by=person)
        except Refused:
            return "stays"
        return "goes"

    assert sorted(both_at_once(go)) == ["goes", "stays"]
    assert list(roles(parts, account.id).values()).count("owner") == 1


def test_removed_from_both_accounts_at_once_nobody_is_left_over(
    parts: Parts, http: TestClient, account: Account, dana: int
) -> None:
    other = make_account(parts, http, "other@example.com")
    boss = make_person(parts, other.id, "boss@example.com")
    lee = make_person(parts, account.id, LEE)
    make_person(parts, other.id, LEE)
    places = [(by, each, place_of(parts, lee, each)) for by, each in ((dana, account.id), (boss, other.id))]

    def go() -> None:
        by, account_id, place = places.pop()
        remove(parts, account_id, place, by=by)

    both_at_once(go)
    with parts.db.work() as tx:
        assert tx.execute(sa.select(people.c.id).where(people.c.id == lee)).all() == []
