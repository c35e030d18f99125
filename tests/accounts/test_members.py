"""Who is in an account, never without an owner, and what its owners decide, to the very moment they are none."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.accounts.audit.service import Actor
from quillpost.accounts.models import Role
from quillpost.accounts.oauth import clients
from quillpost.accounts.oauth.clients import ClientRegistration
from quillpost.accounts.queries import insert_token
from quillpost.accounts.sub_accounts.queries import lock_sub_account
from quillpost.accounts.sub_accounts.service import remove_sub_account
from quillpost.accounts.tokens import service as token_service
from quillpost.accounts.users import invitations
from quillpost.accounts.users import service as user_service
from quillpost.accounts.users.sessions import SignedInUser, create_page_token, switch_account
from quillpost.app.container import Container
from quillpost.core.database import Tenant, Tx
from quillpost.core.database.tables import accounts
from quillpost.core.database.tables.accounts import memberships, people
from quillpost.core.errors import Forbidden, Invalid, NotFound, Refused
from support import sign_in
from support.factories import Account, Clock, make_account, make_operator, make_sub_account
from support.oauth_app import REDIRECT_URI, insert_grant, register_client
from support.rows import run, run_as, scalar, scalars
from support.sign_in import DANA, actor_of, sign_in_as
from support.test_client import TestClient
from support.waiting import is_lock_awaited, wait_until

LEE = "lee@example.com"


class Staff:
    """The people of an account, one of whom, Dana, owns it."""

    def __init__(self, container: Container, account: Account) -> None:
        self.container, self.account, self.id = container, account, account.id
        self.dana = self.add(DANA)

    def add(self, email: str = LEE, role: Role = "owner", **how: Any) -> int:
        return sign_in.make_user(self.container, self.id, email, role=role, **how)

    def place_of(self, person_id: int) -> int:
        m = memberships.c
        return int(scalar(self.container, sa.select(m.id).where(m.person_id == person_id, m.account_id == self.id)))

    def change(self, membership_id: int, *, by: int | None = None, **how: Any) -> None:
        how = {"role": "member", "sub_account_id": None, "actor": actor_of(by or self.dana)} | how
        run(self.container, user_service.update_member, self.id, membership_id, now=self.container.clock(), **how)

    def remove(self, membership_id: int, *, by: int | None = None) -> None:
        now = self.container.clock()
        run(self.container, user_service.remove_member, self.id, membership_id, actor_of(by or self.dana), now=now)

    def listed(self) -> list[user_service.Member]:
        return list(run(self.container, user_service.list_members, self.id))

    def roles(self) -> dict[str, str]:
        return {each.email: each.role for each in self.listed()}

    def last_seen(self) -> dict[str, datetime | None]:
        return {each.email: each.last_seen_at for each in self.listed()}

    def tokens_of(self, person_id: int, email: str) -> dict[str, str]:
        """One of each kind that acts for somebody: of a page, their own, and an app's."""
        user, now = sign_in.sign_in_user(self.container, email), self.container.clock()
        grant = insert_grant(self.container, self.id, person_id)
        common: dict[str, Any] = {"name": "x", "mode": "test", "scopes": None, "person_id": person_id, "now": now}
        with self.container.db.system_transaction() as tx:
            return {
                "page": create_page_token(tx, user, now=now)[0],
                "personal": insert_token(tx, self.id, **common)[1],
                "app": insert_token(tx, self.id, **common, grant_id=grant)[1],
            }

    def good(self, tokens: dict[str, str]) -> list[str]:
        """The kinds of those that are still let in."""
        return [kind for kind, token in tokens.items() if sign_in.is_good(self.container, token)]

    def invite(self, by: int, email: str) -> str:
        """The token of the link."""
        how: dict[str, Any] = {"role": "owner", "sub_account_id": None, "actor": actor_of(by), "base_url": ""}
        encryptor, now = self.container.encryptor, self.container.clock()
        link = run(self.container, invitations.invite, encryptor, self.id, email=email, now=now, **how)
        return link.removeprefix("/join/")

    def is_open(self, invitation: str) -> bool:
        return run(self.container, invitations.find_invitation, invitation, now=self.container.clock()) is not None


@pytest.fixture
def staff(container: Container, owner: Account) -> Staff:
    return Staff(container, owner)


@pytest.fixture
def others(container: Container, http: TestClient) -> Staff:
    """Of another account that Dana owns, too."""
    return Staff(container, make_account(container, http, "other@example.com"))


def signed_in(container: Container, cookie: str | None) -> SignedInUser:
    user = sign_in.find_user(container, cookie)
    assert user is not None
    return user


def test_an_account_lists_its_people(container: Container, clock: Clock, staff: Staff) -> None:
    branch = make_sub_account(container, staff.account, "Branch")
    sign_in.enroll_second_factor(container, staff.add(role="member", sub_account_id=branch, name="Lee Park"), LEE)
    clock.advance(hours=1)
    sign_in_as(container)
    sign_in_as(container, LEE)  # the code is still owed: not seen
    owner, member = staff.listed()
    assert (owner.email, owner.role, owner.last_seen_at) == (DANA, "owner", clock.now())
    assert (owner.has_second_factor, owner.sub_account_title) == (False, None)
    assert (member.name, member.sub_account_id, member.sub_account_title) == ("Lee Park", branch, "Branch")
    assert (member.has_second_factor, member.last_seen_at) == (True, None)
    assert clock.now() - member.created_at == timedelta(hours=1)


def test_an_account_sees_activity_in_it_alone(container: Container, clock: Clock, staff: Staff, others: Staff) -> None:
    others.add()
    cookie = sign_in_as(container).cookie
    assert (staff.last_seen(), others.last_seen()) == ({DANA: clock.now()}, {DANA: None, LEE: None})
    sign_in_as(container, LEE)
    assert others.last_seen()[LEE] == clock.now()
    clock.advance(hours=1)
    user = signed_in(container, cookie)
    assert (staff.last_seen()[DANA], others.last_seen()[DANA]) == (clock.now(), None)
    run(container, switch_account, user, membership_id=user.elsewhere[0].membership_id)
    clock.advance(hours=1)
    sign_in.find_user(container, cookie)
    assert (staff.last_seen()[DANA], others.last_seen()[DANA]) == (None, clock.now())


def test_a_role_changes_and_whatever_acted_for_them_ends(container: Container, staff: Staff) -> None:
    lee, branch = staff.add(), make_sub_account(container, staff.account)
    theirs, danas = staff.tokens_of(lee, LEE), staff.tokens_of(staff.dana, DANA)
    cookie = sign_in_as(container, LEE).cookie
    staff.change(staff.place_of(lee), sub_account_id=branch)
    assert staff.roles() == {DANA: "owner", LEE: "member"}
    assert (staff.good(theirs), staff.good(danas)) == ([], [*danas])
    user = signed_in(container, cookie)
    assert (user.is_owner, user.here.sub_account_id) == (False, branch), "the session goes on with the new role"
    line = next(line for line in sign_in.audit_log(container, staff.id) if line.act == "person.changed")
    assert (line.about, line.sub_account_id) == ({"email": LEE, "role": "member"}, branch)

    before = sign_in.audited_acts(container, staff.id)
    staff.change(staff.place_of(staff.dana), role="owner")
    assert (staff.good(danas), sign_in.audited_acts(container, staff.id)) == ([*danas], before), "it ends nothing"


@pytest.mark.parametrize("how", [Staff.change, Staff.remove])
def test_those_they_invited_do_not_get_in_now(staff: Staff, others: Staff, how: Callable[[Staff, int], None]) -> None:
    lee = staff.add()
    others.add()
    of_lee = staff.invite(lee, "friend@example.com")
    kept = [staff.invite(staff.dana, "kim@example.com"), others.invite(lee, "kim@example.com")]
    how(staff, staff.place_of(lee))
    assert [staff.is_open(invitation) for invitation in (of_lee, *kept)] == [False, True, True]


def test_an_impossible_role_or_sub_account_is_refused(
    container: Container, staff: Staff, others: Staff, subtests: pytest.Subtests
) -> None:
    branch = make_sub_account(container, staff.account)
    place = staff.place_of(staff.add(role="member"))
    cases: list[tuple[dict[str, Any], str]] = [
        ({"role": "boss"}, "role"), ({"role": "operator"}, "role"), ({"sub_account_id": 10**9}, "sub_account_id"),
        ({"role": "owner", "sub_account_id": branch}, "sub_account_id"),
    ]  # fmt: skip
    for values, field in cases:
        with subtests.test(str(values)):
            with pytest.raises(Invalid) as error:
                staff.change(place, **values)
            assert (list(error.value.fields), staff.roles()[LEE]) == ([field], "member")
    for membership_id in (place, 10**9):
        for do in (others.change, others.remove):
            with pytest.raises(NotFound):
                do(membership_id)
    assert staff.roles() == {DANA: "owner", LEE: "member"}


def test_an_account_that_runs_the_service_has_operators(container: Container, http: TestClient) -> None:
    staff = Staff(container, make_operator(container, http))
    staff.change(staff.place_of(staff.add(role="member")), role="operator")
    user = sign_in.sign_in_user(container, LEE)
    assert (user.here.role, user.is_owner) == ("operator", False)


def test_whoever_is_removed_is_out_at_once(container: Container, staff: Staff, others: Staff) -> None:
    lee = staff.add()
    theirs, cookie = staff.tokens_of(lee, LEE), sign_in_as(container, LEE).cookie
    staff.remove(staff.place_of(lee))
    assert staff.good(theirs) == []
    assert sign_in.find_user(container, cookie) is None
    assert sign_in_as(container, LEE).outcome == "wrong"
    line = sign_in.audit_log(container, staff.id)[-1]
    assert (line.act, line.actor, line.about) == ("person.removed", DANA, {"email": LEE, "role": "owner"})
    # Whoever is in another account stays there.
    for each in (staff, others):
        lee = each.add()
    cookie, theirs = sign_in_as(container, LEE).cookie, others.tokens_of(lee, LEE)
    staff.remove(staff.place_of(lee))
    assert others.good(theirs) == ["personal", "app"]  # the page looked at the first account
    user = signed_in(container, cookie)
    assert (user.here.account_id, list(user.elsewhere)) == (others.id, [])


@pytest.mark.parametrize("how", [Staff.change, Staff.remove])
def test_of_the_last_two_owners_one_stays_though_both_go_at_once(staff: Staff, how: Callable[..., None]) -> None:
    places = [(each, staff.place_of(each)) for each in (staff.dana, staff.add())]

    def go() -> str:
        person, place = places.pop()
        try:
            how(staff, place, by=person)
        except Refused:
            return "stays"
        return "goes"

    assert sorted(sign_in.run_twice_at_once(go)) == ["goes", "stays"]
    assert list(staff.roles().values()).count("owner") == 1


def test_removed_from_both_accounts_at_once_nobody_is_left(container: Container, staff: Staff, others: Staff) -> None:
    lee = staff.add()
    others.add()
    places = [(each, each.place_of(lee)) for each in (staff, others)]

    def go() -> None:
        each, place = places.pop()
        each.remove(place)

    sign_in.run_twice_at_once(go)
    assert scalars(container, sa.select(people.c.id).where(people.c.id == lee)) == []


REGISTRATION = ClientRegistration("Letterhead", [REDIRECT_URI])


class House:
    """An account with two owners, of whom Lee is about to be none any more."""

    def __init__(self, container: Container, account: Account) -> None:
        self.parts, self.account_id = container, account.id
        self.dana, self.lee = (sign_in.make_user(container, account.id, email) for email in (DANA, LEE))
        self.client, _ = register_client(container, account.id)
        self.by_lee = actor_of(self.lee, LEE)

    def place_of(self, person_id: int) -> int:
        return int(scalar(self.parts, sa.select(memberships.c.id).where(memberships.c.person_id == person_id)))

    def set_role(self, tx: Tx, role: Role, actor: Actor) -> None:
        place, now = self.place_of(self.lee), self.parts.clock()
        user_service.update_member(tx, self.account_id, place, role=role, sub_account_id=None, actor=actor, now=now)

    def demote(self, tx: Tx) -> None:
        self.set_role(tx, "member", actor_of(self.dana))

    def promote(self, tx: Tx) -> None:
        self.set_role(tx, "owner", self.by_lee)

    def make_token(self, tx: Tx, actor: Actor | None = None) -> str:
        return token_service.create_token(
            tx, self.account_id, name="All", mode="live", scopes=None, sub_account_id=None, expires_at=None,
            actor=actor or self.by_lee, now=self.parts.clock(),
        )  # fmt: skip

    def invite(self, tx: Tx) -> None:
        invitations.invite(
            tx, self.parts.encryptor, self.account_id, email="friend@example.com", role="owner",
            sub_account_id=None, actor=self.by_lee, base_url="", now=self.parts.clock(),
        )  # fmt: skip

    def remove(self, tx: Tx) -> None:
        place = self.place_of(self.dana)
        user_service.remove_member(tx, self.account_id, place, self.by_lee, now=self.parts.clock())

    def register(self, tx: Tx) -> None:
        how = {"is_public": True, "actor": self.by_lee, "now": self.parts.clock()}
        clients.register_client(tx, self.account_id, REGISTRATION, **how)  # type: ignore[arg-type]

    def change_client(self, tx: Tx) -> None:
        clients.update_client(tx, self.account_id, self.client.id, REGISTRATION, self.by_lee, now=self.parts.clock())

    def new_secret(self, tx: Tx) -> None:
        clients.rotate_client_secret(tx, self.account_id, self.client.id, self.by_lee, now=self.parts.clock())

    def delete_client(self, tx: Tx) -> None:
        clients.delete_client(tx, self.account_id, self.client.id, self.by_lee, now=self.parts.clock())

    def in_account(self, act: Callable[[Tx], object]) -> Callable[[], object]:
        return partial(run_as, self.parts, Tenant(self.account_id), act)

    def in_service(self, act: Callable[[Tx], object]) -> Callable[[], object]:
        return partial(run, self.parts, act)


@pytest.fixture
def house(container: Container, owner: Account) -> House:
    return House(container, owner)


@contextmanager
def in_between(
    held: AbstractContextManager[Tx], container: Container, deed: Callable[[], object]
) -> Iterator[tuple[Tx, Callable[[], Future[Any]]]]:
    """A transaction, and what begins the deed in its midst, in a connection of its own, until it waits or has come
    to its end already. The deed has ended when this has."""

    def begin() -> Future[Any]:
        begun = thread.submit(deed)
        wait_until(lambda: begun.done() or is_lock_awaited(container), seconds=10)
        return begun

    with ThreadPoolExecutor(1) as thread, held as tx:
        yield tx, begin


In = Callable[[House, Callable[[Tx], object]], Callable[[], object]]


@pytest.mark.parametrize(
    ("where", "act"),
    [
        (House.in_account, House.make_token), (House.in_service, House.invite), (House.in_service, House.promote),
        (House.in_service, House.remove), (House.in_account, House.register),
        (House.in_account, House.change_client), (House.in_account, House.new_secret),
        (House.in_service, House.delete_client),
    ],
)  # fmt: skip
def test_owners_demoted_meanwhile_decide_nothing(house: House, where: In, act: Callable[[House, Tx], object]) -> None:
    deed = where(house, partial(act, house))
    with in_between(house.parts.db.system_transaction(), house.parts, deed) as (tx, begin):
        house.demote(tx)
        begun = begin()
    with pytest.raises(Forbidden, match="Only an owner of this account"):
        begun.result(0)
    assert (
        scalars(house.parts, sa.select(accounts.audit_log.c.act).where(accounts.audit_log.c.person_id == house.lee))
        == []
    )


def test_what_they_made_a_moment_before_ends_with_it(house: House) -> None:
    held = house.parts.db.transaction(Tenant(house.account_id))
    with in_between(held, house.parts, house.in_service(house.demote)) as (tx, begin):
        token = house.make_token(tx)
        assert not begin().done()
    assert not sign_in.is_good(house.parts, token)


def test_two_that_are_made_at_once_do_not_share_the_last_place(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_service, "MAX_TOKENS", 2)  # the account's own is the first
    second = house.in_account(partial(house.make_token, actor=actor_of(house.dana)))
    held = house.parts.db.transaction(Tenant(house.account_id))
    with in_between(held, house.parts, second) as (tx, begin):
        house.make_token(tx)
        begun = begin()
    with pytest.raises(Invalid, match="at most 2 tokens: revoke those that nobody uses"):
        begun.result(0)


@pytest.mark.parametrize("deed", ["page", "change", "remove"])
def test_nobody_waits_in_a_circle_with_a_removal_of_their_branch(house: House, owner: Account, deed: str) -> None:
    container = house.parts
    branch = make_sub_account(container, owner)
    kim = sign_in.make_user(container, owner.id, "kim@example.com", role="member", sub_account_id=branch)
    user, place, by = sign_in.sign_in_user(container, "kim@example.com"), house.place_of(kim), actor_of(house.dana)

    def act(own: Tx) -> None:
        now = container.clock()
        if deed == "page":
            create_page_token(own, user, now=now)
        elif deed == "change":
            user_service.update_member(own, owner.id, place, role="member", sub_account_id=None, actor=by, now=now)
        else:
            user_service.remove_member(own, owner.id, place, by, now=now)

    held = container.db.transaction(Tenant(owner.id))
    with in_between(held, container, house.in_service(act)) as (tx, begin):
        lock_sub_account(tx, branch, for_removal=True)
        begun = begin()
        assert not begun.done()
        remove_sub_account(tx, branch, now=container.clock())
    with pytest.raises(NotFound):
        begun.result(0)
