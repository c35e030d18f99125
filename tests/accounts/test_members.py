"""Who is in an account: changed, removed, and never without an owner."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.accounts.models import Role
from quillpost.accounts.queries import insert_token
from quillpost.accounts.users import invitations
from quillpost.accounts.users import service as user_service
from quillpost.accounts.users.sessions import SignedInUser, create_page_token, switch_account
from quillpost.app.container import Container
from quillpost.core.database.tables.accounts import memberships, people
from quillpost.core.errors import Invalid, NotFound, Refused
from support.factories import Account, Clock, make_account, make_operator, make_sub_account
from support.oauth_app import insert_grant
from support.rows import run, scalar, scalars
from support.sign_in import (
    DANA,
    actor_of,
    audit_log,
    audited_acts,
    enroll_second_factor,
    find_user,
    is_good,
    make_user,
    run_twice_at_once,
    sign_in_as,
    sign_in_user,
)
from support.test_client import TestClient

LEE = "lee@example.com"


class Staff:
    """The people of an account, one of whom, Dana, owns it."""

    def __init__(self, container: Container, account: Account) -> None:
        self.container, self.account, self.id = container, account, account.id
        self.dana = self.add(DANA)

    def add(self, email: str = LEE, role: Role = "owner", **how: Any) -> int:
        return make_user(self.container, self.id, email, role=role, **how)

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
        user, now = sign_in_user(self.container, email), self.container.clock()
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
        return [kind for kind, token in tokens.items() if is_good(self.container, token)]

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
    user = find_user(container, cookie)
    assert user is not None
    return user


def test_an_account_lists_its_people(container: Container, clock: Clock, staff: Staff) -> None:
    branch = make_sub_account(container, staff.account, "Branch")
    lee = staff.add(role="member", sub_account_id=branch, name="Lee Park")
    enroll_second_factor(container, lee, LEE)
    clock.advance(hours=1)
    sign_in_as(container)
    sign_in_as(container, LEE)  # the code is still owed: not seen
    owner, member = staff.listed()
    assert (owner.email, owner.role, owner.last_seen_at) == (DANA, "owner", clock.now())
    assert (owner.has_second_factor, owner.sub_account_title) == (False, None)
    assert (member.name, member.sub_account_id, member.sub_account_title) == ("Lee Park", branch, "Branch")
    assert (member.has_second_factor, member.last_seen_at) == (True, None)
    assert clock.now() - member.created_at == timedelta(hours=1)


def test_an_account_sees_when_its_members_were_last_active_in_it_only(
    container: Container, clock: Clock, staff: Staff, others: Staff
) -> None:
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
    find_user(container, cookie)
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
    line = next(line for line in audit_log(container, staff.id) if line.act == "person.changed")
    assert (line.about, line.sub_account_id) == ({"email": LEE, "role": "member"}, branch)

    before = audited_acts(container, staff.id)
    staff.change(staff.place_of(staff.dana), role="owner")
    assert (staff.good(danas), audited_acts(container, staff.id)) == ([*danas], before), "what stays ends nothing"


@pytest.mark.parametrize("how", [Staff.change, Staff.remove])
def test_whom_they_have_invited_does_not_get_in_any_more(
    staff: Staff, others: Staff, how: Callable[[Staff, int], None]
) -> None:
    lee = staff.add()
    others.add()
    of_lee = staff.invite(lee, "friend@example.com")
    kept = [staff.invite(staff.dana, "kim@example.com"), others.invite(lee, "kim@example.com")]
    how(staff, staff.place_of(lee))
    assert [staff.is_open(invitation) for invitation in (of_lee, *kept)] == [False, True, True]


def test_a_place_that_is_not_there_is_refused(container: Container, staff: Staff, subtests: pytest.Subtests) -> None:
    branch = make_sub_account(container, staff.account)
    place = staff.place_of(staff.add(role="member"))
    cases: list[tuple[dict[str, Any], str]] = [
        ({"role": "boss"}, "role"),
        ({"role": "operator"}, "role"),
        ({"sub_account_id": 10**9}, "sub_account_id"),
        ({"role": "owner", "sub_account_id": branch}, "sub_account_id"),
    ]
    for values, field in cases:
        with subtests.test(str(values)):
            with pytest.raises(Invalid) as error:
                staff.change(place, **values)
            assert list(error.value.fields) == [field]
            assert staff.roles()[LEE] == "member"


def test_an_account_that_runs_the_service_has_operators(container: Container, http: TestClient) -> None:
    staff = Staff(container, make_operator(container, http))
    staff.change(staff.place_of(staff.add(role="member")), role="operator")
    user = sign_in_user(container, LEE)
    assert (user.here.role, user.is_owner) == ("operator", False)


def test_anothers_people_are_not_found(staff: Staff, others: Staff) -> None:
    for membership_id in (staff.place_of(staff.dana), 10**9):
        for do in (others.change, others.remove):
            with pytest.raises(NotFound):
                do(membership_id)
    assert staff.roles() == {DANA: "owner"}


def test_whoever_is_removed_is_out_at_once(container: Container, staff: Staff) -> None:
    lee = staff.add()
    theirs, cookie = staff.tokens_of(lee, LEE), sign_in_as(container, LEE).cookie
    staff.remove(staff.place_of(lee))
    assert staff.good(theirs) == []
    assert find_user(container, cookie) is None
    assert sign_in_as(container, LEE).outcome == "wrong"
    line = audit_log(container, staff.id)[-1]
    assert (line.act, line.actor, line.about) == ("person.removed", DANA, {"email": LEE, "role": "owner"})


def test_whoever_is_in_another_account_stays_there(container: Container, staff: Staff, others: Staff) -> None:
    lee = staff.add()
    others.add()
    cookie = sign_in_as(container, LEE).cookie
    theirs = others.tokens_of(lee, LEE)
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

    assert sorted(run_twice_at_once(go)) == ["goes", "stays"]
    assert list(staff.roles().values()).count("owner") == 1


def test_removed_from_both_accounts_at_once_nobody_is_left_over(
    container: Container, staff: Staff, others: Staff
) -> None:
    lee = staff.add()
    others.add()
    places = [(each, each.place_of(lee)) for each in (staff, others)]

    def go() -> None:
        each, place = places.pop()
        each.remove(place)

    run_twice_at_once(go)
    assert scalars(container, sa.select(people.c.id).where(people.c.id == lee)) == []
