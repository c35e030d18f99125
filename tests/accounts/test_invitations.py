"""Invitations: how somebody comes into an account, once, and as what."""

from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.accounts.audit.service import COMMAND_LINE_NAME, Actor
from quillpost.accounts.sub_accounts.service import remove_sub_account
from quillpost.accounts.users import invitations
from quillpost.app.container import Container
from quillpost.core.database import Tenant
from quillpost.core.database.tables.accounts import invitations as table
from quillpost.core.database.tables.accounts import memberships, oauth_grants, people
from quillpost.core.errors import Invalid, NotFound, Refused
from quillpost.core.outbox import encryption_context
from quillpost.core.tokens import mint_secret
from support import sign_in
from support.factories import Account, Clock, make_operator, make_sub_account
from support.notifications import notification_rows
from support.oauth_app import insert_grant
from support.rows import execute, run, run_as
from support.sign_in import DANA, actor_of, audited_acts, run_twice_at_once
from support.test_client import TestClient

pytestmark = pytest.mark.usefixtures("clean_database")

LEE, NEW = "lee@example.com", "seven plums in autumn rain"
BASE = "https://mail.example.com"


class Inviter:
    """An account whose owner, Dana, invites people."""

    def __init__(self, container: Container, account: Account, dana: int) -> None:
        self.container, self.account, self.id, self.dana = container, account, account.id, dana

    def invite(self, account_id: int | None = None, **changes: Any) -> str:
        """The token of the link."""
        values = {"email": LEE, "role": "member", "sub_account_id": None, "actor": actor_of(self.dana)} | changes
        parts, values["now"], whose = self.container, self.container.clock(), account_id or self.id
        link = run(parts, invitations.invite, parts.encryptor, whose, base_url=BASE, **values)
        return link.removeprefix(f"{BASE}/join/")

    def find(self, token: str) -> invitations.Invitation | None:
        return run(self.container, invitations.find_invitation, token, now=self.container.clock())

    def join(self, token: str, **changes: Any) -> int | None:
        values = {"name": "Lee Park", "password": NEW, "address": "192.0.2.7"} | changes
        context, now = self.container.sign_in_context, self.container.clock()
        return invitations.join_as_new_person(context, token, now=now, **values)

    def accept(self, token: str, email: str) -> int | None:
        user = sign_in.sign_in_user(self.container, email)
        return run(self.container, invitations.accept_invitation, token, user, now=self.container.clock())

    def withdraw(self, invitation_id: int, account_id: int) -> None:
        actor, now = actor_of(self.dana), self.container.clock()
        run(self.container, invitations.withdraw_invitation, account_id, invitation_id, actor, now=now)

    def pending(self) -> list[str]:
        found = run(self.container, invitations.list_pending_invitations, self.id, now=self.container.clock())
        return [each.email for each in found]

    def make_branch(self) -> int:
        return make_sub_account(self.container, self.account)

    def remove_branch(self, branch: int, *, has_history: bool) -> None:
        """With history it is retired, else deleted."""
        if has_history:
            move = (
                "insert into ledger_moves (account_id, sub_account_id, mode, kind, source, target, cents, key, at) "
                "values (:account, :branch, 'test', 'refund', 'x', 'y', 1, 'z', now())"
            )
            execute(self.container, move, account=self.id, branch=branch)
        run_as(self.container, Tenant(self.id), remove_sub_account, branch, now=self.container.clock())

    def rows(self, query: sa.Select[Any]) -> list[Any]:
        return execute(self.container, query)


@pytest.fixture
def office(container: Container, owner: Account) -> Inviter:
    return Inviter(container, owner, sign_in.make_user(container, owner.id, DANA))


def test_somebody_new_joins_by_the_link_once(office: Inviter) -> None:
    container, branch = office.container, office.make_branch()
    token = office.invite(email=" Lee@Example.com", sub_account_id=branch)
    invitation = office.find(token)
    assert invitation is not None
    assert (invitation.email, invitation.role, invitation.has_person) == (LEE, "member", False)
    assert invitation.account_name == "Dana Whitfield"
    person = office.join(token, name="  Lee \n Park ")
    assert person is not None
    assert sign_in.sign_in_as(container, LEE, NEW).outcome == "in"
    [row] = office.rows(sa.select(memberships).where(memberships.c.person_id == person))
    assert (row.account_id, row.sub_account_id, row.role) == (office.id, branch, "member")
    assert office.rows(sa.select(people.c.name).where(people.c.id == person)) == [("Lee Park",)]
    assert audited_acts(container, office.id)[:2] == ["person.invited", "person.joined"]
    line = sign_in.audit_log(container, office.id)[0]
    assert (line.actor, line.about["email"], line.about["role"]) == (DANA, LEE, "member")
    assert (office.pending(), office.find(token), office.join(token)) == ([], None, None)


def test_only_one_of_two_simultaneous_joins_by_one_link_succeeds(office: Inviter) -> None:
    token = office.invite()
    assert sum(each is not None for each in run_twice_at_once(lambda: office.join(token))) == 1
    assert [len(office.rows(sa.select(each.c.id))) for each in (people, memberships)] == [2, 2]


def test_two_accounts_may_invite_the_same_person(office: Inviter, stranger: Account) -> None:
    container = office.container
    boss = sign_in.make_user(container, stranger.id, "boss@example.com")
    first, second = office.invite(), office.invite(stranger.id, actor=actor_of(boss))
    tokens = [first, second]
    assert sum(each is not None for each in run_twice_at_once(lambda: office.join(tokens.pop()))) == 1
    late = first if office.find(first) is not None else second
    invitation = office.find(late)
    assert invitation is not None, "the other one can still be accepted, by whoever has joined"
    assert invitation.has_person
    assert office.join(late) is None, "with their own password"
    execute(container, sa.update(people).values(password_hash=container.sign_in_context.hasher.hash(sign_in.PASSWORD)))
    assert office.accept(late, LEE) is not None
    assert office.find(late) is None


def test_only_whoever_was_invited_accepts(office: Inviter, stranger: Account) -> None:
    container = office.container
    for email in (LEE, "mallory@example.com"):
        sign_in.make_user(container, stranger.id, email)
    token = office.invite()
    assert office.accept(token, "mallory@example.com") is None
    claims_to_be_lee = replace(sign_in.sign_in_user(container), email="lee@example.org")
    assert run(container, invitations.accept_invitation, token, claims_to_be_lee, now=container.clock()) is None
    assert office.find(token) is not None
    assert run_twice_at_once(lambda: office.accept(token, LEE)).count(None) == 1
    # The slower of the two may sign in when the other has joined already: then this account sees that too.
    acts = [act for act in audited_acts(container, office.id) if act != "sign_in"]
    assert acts == ["person.invited", "person.joined"]
    assert office.accept(token, LEE) is None


def test_a_link_is_good_for_a_week_and_no_other_is(office: Inviter, clock: Clock, subtests: pytest.Subtests) -> None:
    token = office.invite()
    made_up = [mint_secret("invitation", b"\x01" * 32), mint_secret("reset", b"\x01" * 32)]
    for other in ("", "x", "\x00", *made_up):
        with subtests.test(other):
            assert (office.find(other), office.join(other)) == (None, None)
    clock.advance(days=6, hours=23)
    assert office.find(token) is not None
    clock.advance(hours=1)
    assert (office.find(token), office.join(token), office.pending()) == (None, None, [])
    assert office.invite(), "an old one does not stand in the way"


def test_invited_again_the_earlier_link_ends(office: Inviter) -> None:
    first, second = office.invite(), office.invite(role="owner", email="LEE@example.com")
    assert office.find(first) is None
    invitation = office.find(second)
    assert invitation is not None
    assert (invitation.role, office.pending()) == ("owner", [LEE])
    links = run_twice_at_once(office.invite)
    assert sorted(office.find(link) is not None for link in links) == [False, True], "also when both are asked at once"


def test_an_invitation_is_withdrawn_by_its_own_account(office: Inviter, stranger: Account) -> None:
    token = office.invite()
    invitation = office.find(token)
    assert invitation is not None
    for viewer, seen in ((office.account, [LEE]), (stranger, [])):
        with office.container.db.transaction(Tenant(viewer.id)) as tx:
            found = invitations.list_pending_invitations(tx, office.id, now=office.container.clock())
        assert [each.email for each in found] == seen
    with pytest.raises(NotFound):
        office.withdraw(invitation.id, stranger.id)
    office.withdraw(invitation.id, office.id)
    assert (office.find(token), office.join(token)) == (None, None)
    with pytest.raises(NotFound):
        office.withdraw(invitation.id, office.id)
    assert audited_acts(office.container, office.id) == ["person.invited", "person.uninvited"]


def test_an_invalid_invitation_names_the_field(office: Inviter, stranger: Account, subtests: pytest.Subtests) -> None:
    branch, theirs = office.make_branch(), make_sub_account(office.container, stranger)
    no_branch, only_members = "There is no such sub account.", "Only a member can be limited to one sub account."
    cases: list[tuple[dict[str, Any], str, str]] = [
        ({"email": "+15125550100@sms"}, "email", "This is not an e-mail address."),
        ({"email": DANA.upper()}, "email", "dana@example.com is in this account already."),
        ({"role": "boss"}, "role", "A role is owner, member or operator."),
        ({"role": "operator"}, "role", "This account does not run the service: it has no operators."),
        ({"sub_account_id": 10**9}, "sub_account_id", no_branch),
        ({"sub_account_id": theirs}, "sub_account_id", no_branch),
        ({"sub_account_id": branch, "role": "owner"}, "sub_account_id", only_members),
    ]  # fmt: skip
    for values, name, message in cases:
        with subtests.test(str(values)):
            with pytest.raises(Invalid) as error:
                office.invite(**values)
            assert error.value.fields == {name: [message]}
    traces = (office.pending(), notification_rows(office.container), audited_acts(office.container, office.id))
    assert traces == ([], [], [])


def test_whoever_fills_the_form_badly_may_try_again(office: Inviter, subtests: pytest.Subtests) -> None:
    token = office.invite()
    cases: list[tuple[dict[str, str], set[str]]] = [
        ({"name": "x" * 101}, {"name"}),
        ({"name": "", "password": LEE}, {"name", "password"}),
    ]
    for values, names in cases:
        with subtests.test(str(values)[:40]):
            with pytest.raises(Invalid) as error:
                office.join(token, **values)
            assert set(error.value.fields) == names
    assert office.join(token) is not None


def test_only_so_many_wait_and_are_sent_a_day(office: Inviter, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (invitations.MAX_PENDING, invitations.MAX_EMAILS_PER_DAY) == (100, 200)
    monkeypatch.setattr(invitations, "MAX_PENDING", 3)
    monkeypatch.setattr(invitations, "MAX_EMAILS_PER_DAY", 5)
    for number in range(3):
        office.invite(email=f"{number}@example.com")
    with pytest.raises(Refused, match="At most 3 invitations wait"):
        office.invite()
    for _ in range(2):  # again: no more than before
        office.invite(email="0@example.com")
    assert len(office.pending()) == 3
    with pytest.raises(Refused, match="at most 5 people a day"):
        office.invite(email="0@example.com")


def test_the_mail_names_the_account_and_keeps_the_link_sealed(office: Inviter) -> None:
    token, encryptor = office.invite(), office.container.encryptor
    notice = notification_rows(office.container)[0]
    assert (notice.address, notice.account_id, notice.kind, notice.mode) == (LEE, office.id, "people", "live")
    assert notice.subject == "You are invited to Dana Whitfield"
    assert "dana@example.com invites you to the account Dana Whitfield" in notice.words
    link = encryptor.decrypt(notice.secret_sealed, context=encryption_context(notice.key)).decode()
    assert link == f"{BASE}/join/{token}"
    kept = [office.rows(sa.select(sa.text(f"* from {name}"))) for name in ("notices", "invitations", "audit_log")]
    assert token.split("_")[2] not in str(kept)


def test_the_command_line_may_hand_over_the_link_itself_and_invite_operators(office: Inviter, http: TestClient) -> None:
    container, by_command = office.container, Actor(COMMAND_LINE_NAME)
    token = office.invite(role="owner", actor=by_command, send_email=False)
    assert notification_rows(container) == []
    assert office.join(token) is not None
    assert sign_in.audit_log(container, office.id)[0].actor == "the command line"
    operator = make_operator(container, http)
    token = office.invite(operator.id, role="operator", actor=by_command, email="kim@example.com")
    assert office.join(token) is not None


@pytest.mark.parametrize("has_history", [False, True], ids=["deleted", "retired"])
def test_nobody_joins_a_sub_account_that_is_gone_and_its_apps_end(office: Inviter, has_history: bool) -> None:
    branch = office.make_branch()
    token = office.invite(sub_account_id=branch)
    assert office.join(office.invite(email="kim@example.com", sub_account_id=branch), name="Kim") is not None
    for sub_account_id in (branch, None):
        insert_grant(office.container, office.id, office.dana, sub_account_id=sub_account_id)
    office.remove_branch(branch, has_history=has_history)
    assert (office.find(token), office.join(token)) == (None, None)
    kim = sign_in.sign_in_as(office.container, "kim@example.com", NEW)
    assert kim.outcome == "wrong", "whoever was limited to it is in no account"
    assert office.rows(sa.select(table.c.id).where(table.c.accepted_at.is_(None))) == []
    left = office.rows(sa.select(oauth_grants.c.sub_account_id, oauth_grants.c.ended_by))
    assert sorted(left, key=str) == ([(branch, "membership")] if has_history else []) + [(None, None)]
