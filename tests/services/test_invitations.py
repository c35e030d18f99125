"""Invitations: how somebody comes into an account, once, and as what."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa
from front_door import DANA, actor_of, acts_of, both_at_once, come, log_of, reading
from newsroom import told
from signed_in import PASSWORD, make_person

from direct import TestClient
from makers import Account, Clock, make_account, make_operator, make_sub_account
from quillpost.accounts.audit.service import COMMAND_LINE, Actor
from quillpost.accounts.sub_accounts import remove_sub_account
from quillpost.accounts.users import invitations
from quillpost.app.container import Parts
from quillpost.core.database import Tenant
from quillpost.core.database.tables.users import invitations as table
from quillpost.core.database.tables.users import memberships, oauth_clients, oauth_grants, people
from quillpost.core.errors import Invalid, NotFound, Refused
from quillpost.core.outbox import context_of
from quillpost.core.tokens import mint

LEE, NEW = "lee@example.com", "seven plums in autumn rain"
BASE = "https://mail.example.com"


@pytest.fixture
def account(parts: Parts, http: TestClient) -> Account:
    return make_account(parts, http, "owner@example.com")


@pytest.fixture
def dana(parts: Parts, account: Account) -> int:
    return make_person(parts, account.id, DANA)


def invite(parts: Parts, account_id: int, person_id: int = 1, **how: Any) -> str:
    """The token of the link."""
    wish = {"email": LEE, "role": "member", "sub_account_id": None, "actor": actor_of(person_id)} | how
    with parts.db.work() as tx:
        link = invitations.invite(tx, parts.sealer, account_id, base_url=BASE, now=parts.clock(), **wish)
    return link.removeprefix(f"{BASE}/join/")


def found(parts: Parts, token: str) -> invitations.Invitation | None:
    with parts.db.work() as tx:
        return invitations.find(tx, token, now=parts.clock())


def join(parts: Parts, token: str, **how: Any) -> int | None:
    wish = {"name": "Lee Park", "password": NEW, "address": "192.0.2.7"} | how
    return invitations.join(parts.people, token, now=parts.clock(), **wish)


def accept(parts: Parts, token: str, email: str) -> int | None:
    who = reading(parts, email)
    with parts.db.work() as tx:
        return invitations.accept(tx, token, who, now=parts.clock())


def waiting(parts: Parts, account_id: int) -> list[str]:
    with parts.db.work() as tx:
        return [each.email for each in invitations.waiting(tx, account_id, now=parts.clock())]


def test_somebody_new_joins_by_the_link(parts: Parts, account: Account, dana: int) -> None:
    branch = make_sub_account(parts, account)
    token = invite(parts, account.id, dana, email=" Lee@Example.com", sub_account_id=branch)
    invitation = found(parts, token)
    assert invitation is not None
    assert (invitation.email, invitation.role, invitation.has_person) == (LEE, "member", False)
    assert invitation.account_name == "Dana Whitfield"
    person = join(parts, token, name="  Lee \n Park ")
    assert person is not None
    assert come(parts, LEE, NEW).outcome == "in"
    with parts.db.work() as tx:
        row = tx.execute(sa.select(memberships).where(memberships.c.person_id == person)).one()
        assert tx.execute(sa.select(people.c.name).where(people.c.id == person)).scalar_one() == "Lee Park"
    assert (row.account_id, row.sub_account_id, row.role) == (account.id, branch, "member")
    assert acts_of(parts, account.id)[:2] == ["person.invited", "person.joined"]
    line = log_of(parts, account.id)[0]
    assert (line.actor, line.about["email"], line.about["role"]) == (DANA, LEE, "member")
    assert waiting(parts, account.id) == []


def test_a_link_is_good_once(parts: Parts, account: Account, dana: int) -> None:
    token = invite(parts, account.id)
    assert join(parts, token) is not None
    assert found(parts, token) is None
    assert join(parts, token) is None


def test_of_two_who_join_by_one_link_one_wins(parts: Parts, account: Account, dana: int) -> None:
    token = invite(parts, account.id)
    joined = both_at_once(lambda: join(parts, token))
    assert sum(each is not None for each in joined) == 1
    with parts.db.work() as tx:
        assert tx.execute(sa.select(sa.func.count()).select_from(people)).scalar_one() == 2
        assert tx.execute(sa.select(sa.func.count()).select_from(memberships)).scalar_one() == 2


def test_two_accounts_may_invite_the_same_person(
    parts: Parts, http: TestClient, account: Account, dana: int
) -> None:
    other = make_account(parts, http, "other@example.com")
    boss = make_person(parts, other.id, "boss@example.com")
    first, second = invite(parts, account.id), invite(parts, other.id, boss)
    tokens = [first, second]
    joined = both_at_once(lambda: join(parts, tokens.pop()))
    assert sum(each is not None for each in joined) == 1
    late = first if found(parts, first) is not None else second
    invitation = found(parts, late)
    assert invitation is not None, "the other one can still be accepted, by whoever has joined"
    assert invitation.has_person
    assert join(parts, late) is None, "with their own password"
    with parts.db.work() as tx:
        tx.execute(sa.update(people).values(password_hash=parts.people.hasher.hash(PASSWORD)))
    assert accept(parts, late, LEE) is not None
    assert found(parts, late) is None


def test_only_whoever_was_invited_accepts(
    parts: Parts, http: TestClient, account: Account, dana: int
) -> None:
    other = make_account(parts, http, "other@example.com")
    for email in (LEE, "mallory@example.com"):
        make_person(parts, other.id, email)
    token = invite(parts, account.id)
    assert accept(parts, token, "mallory@example.com") is None
    assert found(parts, token) is not None
    assert both_at_once(lambda: accept(parts, token, LEE)).count(None) == 1
    # The slower of the two may sign in when the other has joined already: then this account sees that too.
    acts = [act for act in acts_of(parts, account.id) if act != "sign_in"]
    assert acts == ["person.invited", "person.joined"]
    assert accept(parts, token, LEE) is None


@pytest.mark.parametrize(
    "token", ["", "x", mint("invitation", b"\x01" * 32), mint("reset", b"\x01" * 32), "\x00"]
)
def test_no_other_link_is_good(parts: Parts, account: Account, dana: int, token: str) -> None:
    invite(parts, account.id)
    assert found(parts, token) is None
    assert join(parts, token) is None


def test_a_link_is_good_for_a_week(parts: Parts, clock: Clock, account: Account, dana: int) -> None:
    token = invite(parts, account.id)
    clock.advance(days=6, hours=23)
    assert found(parts, token) is not None
    clock.advance(hours=1)
    assert found(parts, token) is None
    assert join(parts, token) is None
    assert waiting(parts, account.id) == []
    assert invite(parts, account.id), "an old one does not stand in the way"


def test_invited_again_the_earlier_link_ends(parts: Parts, account: Account, dana: int) -> None:
    first = invite(parts, account.id)
    second = invite(parts, account.id, role="owner", email="LEE@example.com")
    assert found(parts, first) is None
    invitation = found(parts, second)
    assert invitation is not None
    assert invitation.role == "owner"
    assert waiting(parts, account.id) == [LEE]


def test_two_who_invite_the_same_person_at_once_get_along(parts: Parts, account: Account, dana: int) -> None:
    links = both_at_once(lambda: invite(parts, account.id))
    assert sorted(found(parts, link) is not None for link in links) == [False, True]


def test_an_invitation_is_taken_back(parts: Parts, http: TestClient, account: Account, dana: int) -> None:
    stranger = make_account(parts, http, "stranger@example.com")
    token = invite(parts, account.id)
    invitation = found(parts, token)
    assert invitation is not None

    def take_back(account_id: int) -> None:
        with parts.db.work() as tx:
            invitations.take_back(tx, account_id, invitation.id, actor_of(dana), now=parts.clock())

    with pytest.raises(NotFound):
        take_back(stranger.id)
    take_back(account.id)
    assert found(parts, token) is None
    assert join(parts, token) is None
    with pytest.raises(NotFound):
        take_back(account.id)
    assert acts_of(parts, account.id) == ["person.invited", "person.uninvited"]


@pytest.mark.parametrize(
    ("wish", "field", "says"),
    [
        ({"email": "lee"}, "email", "This is not an e-mail address."),
        ({"email": ""}, "email", "Give an e-mail address."),
        ({"email": "+15125550100@sms"}, "email", "This is not an e-mail address."),
        ({"email": DANA.upper()}, "email", "dana@example.com is in this account already."),
        ({"role": "boss"}, "role", "A role is owner, member or operator."),
        ({"role": "operator"}, "role", "This account does not run the service: it has no operators."),
        ({"sub_account_id": 10_000}, "sub_account_id", "There is no such sub account."),
        (
            {"sub_account_id": 1, "role": "owner"},
            "sub_account_id",
            "Only a member can be limited to one sub account.",
        ),
    ],
)
def test_a_wish_that_is_wrong_says_where(
    parts: Parts, account: Account, dana: int, wish: dict[str, Any], field: str, says: str
) -> None:
    make_sub_account(parts, account)
    with pytest.raises(Invalid) as fault:
        invite(parts, account.id, **wish)
    assert fault.value.fields == {field: [says]}
    assert (waiting(parts, account.id), told(parts), acts_of(parts, account.id)) == ([], [], [])


def test_anothers_sub_account_is_unknown(parts: Parts, http: TestClient, account: Account, dana: int) -> None:
    theirs = make_sub_account(parts, make_account(parts, http, "stranger@example.com"))
    with pytest.raises(Invalid) as fault:
        invite(parts, account.id, sub_account_id=theirs)
    assert fault.value.fields == {"sub_account_id": ["There is no such sub account."]}


def test_who_runs_the_service_may_have_operators(parts: Parts, http: TestClient) -> None:
    operator = make_operator(parts, http)
    assert join(parts, invite(parts, operator.id, role="operator", actor=Actor(COMMAND_LINE))) is not None


@pytest.mark.parametrize(
    ("how", "fields"),
    [
        ({"name": " \n "}, {"name"}),
        ({"name": "x" * 101}, {"name"}),
        ({"password": "short"}, {"password"}),
        ({"password": "password1234"}, {"password"}),
        ({"name": "", "password": LEE}, {"name", "password"}),
    ],
)
def test_whoever_fills_the_form_badly_may_try_again(
    parts: Parts, account: Account, dana: int, how: dict[str, str], fields: set[str]
) -> None:
    token = invite(parts, account.id)
    with pytest.raises(Invalid) as fault:
        join(parts, token, **how)
    assert set(fault.value.fields) == fields
    assert join(parts, token) is not None


def test_only_so_many_wait(
    parts: Parts, account: Account, dana: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert invitations.MOST_WAITING == 100
    monkeypatch.setattr(invitations, "MOST_WAITING", 3)
    for number in range(3):
        invite(parts, account.id, email=f"{number}@example.com")
    with pytest.raises(Refused, match="At most 3 invitations wait"):
        invite(parts, account.id)
    invite(parts, account.id, email="0@example.com")  # again: no more than before
    assert len(waiting(parts, account.id)) == 3


def test_only_so_many_are_sent_a_day(
    parts: Parts, account: Account, dana: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert invitations.MOST_A_DAY == 200
    monkeypatch.setattr(invitations, "MOST_A_DAY", 5)
    for _ in range(5):
        invite(parts, account.id)
    with pytest.raises(Refused, match="at most 5 people a day"):
        invite(parts, account.id)


def test_the_mail_names_the_account_and_keeps_the_link_sealed(
    parts: Parts, account: Account, dana: int
) -> None:
    token = invite(parts, account.id)
    notice = told(parts)[0]
    assert (notice.address, notice.account_id, notice.kind, notice.mode) == (
        LEE,
        account.id,
        "people",
        "live",
    )
    assert notice.subject == "You are invited to Dana Whitfield"
    assert "dana@example.com invites you to the account Dana Whitfield" in notice.words
    assert (
        parts.sealer.open(notice.secret_sealed, context=context_of(notice.key)).decode()
        == f"{BASE}/join/{token}"
    )
    with parts.db.work() as tx:
        kept = "".join(
            str(tx.execute(sa.text(f"select * from {t}")).all())
            for t in ("notices", "invitations", "audit_log")
        )
    assert token.split("_")[2] not in kept


def test_the_command_line_may_hand_over_the_link_itself(parts: Parts, account: Account) -> None:
    token = invite(parts, account.id, role="owner", actor=Actor(COMMAND_LINE), is_mailed=False)
    assert told(parts) == []
    assert join(parts, token) is not None
    assert log_of(parts, account.id)[0].actor == "the command line"


def test_an_account_sees_its_own_invitations_alone(
    parts: Parts, http: TestClient, account: Account, dana: int
) -> None:
    stranger = make_account(parts, http, "stranger@example.com")
    invite(parts, account.id)
    for who, seen in ((account, [LEE]), (stranger, [])):
        with parts.db.transaction(Tenant(who.id)) as tx:
            found = invitations.waiting(tx, account.id, now=parts.clock())
        assert [each.email for each in found] == seen


def retired(parts: Parts, account: Account, sub_account_id: int) -> None:
    with parts.db.transaction(Tenant(account.id)) as tx:
        remove_sub_account(tx, sub_account_id, now=parts.clock())


def with_history(parts: Parts, account: Account, sub_account_id: int) -> None:
    with parts.db.work() as tx:
        tx.execute(
            sa.text(
                "insert into ledger_moves (account_id, sub_account_id, mode, kind, source, target, cents, "
                "key, at) values (:a, :s, 'test', 'refund', 'x', 'y', 1, 'z', now())"
            ),
            {"a": account.id, "s": sub_account_id},
        )


@pytest.mark.parametrize("keep_history", [lambda *_: None, with_history], ids=["deleted", "retired"])
def test_nobody_joins_a_sub_account_that_is_gone(
    parts: Parts, account: Account, dana: int, keep_history: Callable[..., None]
) -> None:
    branch = make_sub_account(parts, account)
    token = invite(parts, account.id, sub_account_id=branch)
    joined = invite(parts, account.id, email="kim@example.com", sub_account_id=branch)
    assert join(parts, joined, name="Kim") is not None
    keep_history(parts, account, branch)
    retired(parts, account, branch)
    assert found(parts, token) is None
    assert join(parts, token) is None
    assert come(parts, "kim@example.com", NEW).outcome == "wrong", (
        "whoever was limited to it is in no account"
    )
    with parts.db.work() as tx:
        assert tx.execute(sa.select(table.c.id).where(table.c.accepted_at.is_(None))).all() == []


def test_apps_of_a_sub_account_end_with_it(parts: Parts, account: Account, dana: int) -> None:
    branch = make_sub_account(parts, account)
    now = parts.clock()
    with parts.db.work() as tx:
        client = tx.execute(
            sa.insert(oauth_clients)
            .values(
                account_id=account.id, client_id="c", name="App", is_public=True, redirect_uris=["x"],
                created_at=now, updated_at=now,
            )
            .returning(oauth_clients.c.id)
        ).scalar_one()  # fmt: skip
        for sub_account_id in (branch, None):
            tx.execute(
                sa.insert(oauth_grants).values(
                    account_id=account.id, sub_account_id=sub_account_id, mode="test", client_id=client,
                    person_id=dana, created_at=now, connected_at=now,
                )
            )  # fmt: skip
    with_history(parts, account, branch)
    retired(parts, account, branch)
    with parts.db.work() as tx:
        left = tx.execute(sa.select(oauth_grants.c.sub_account_id, oauth_grants.c.ended_by)).all()
    assert sorted(left, key=str) == [(branch, "membership"), (None, None)]


def test_an_invitation_is_worth_nothing_in_other_hands(parts: Parts, account: Account, dana: int) -> None:
    """Whoever has the link and signs in as somebody else does not get in, whatever e-mail they claim."""
    token = invite(parts, account.id)
    who = replace(reading(parts), email="lee@example.org")
    with parts.db.work() as tx:
        assert invitations.accept(tx, token, who, now=parts.clock()) is None
