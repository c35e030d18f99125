"""Invitations: how somebody comes into an account, once, and as what."""

from collections.abc import Callable
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
from quillpost.core.database.tables.accounts import memberships, oauth_clients, oauth_grants, people
from quillpost.core.errors import Invalid, NotFound, Refused
from quillpost.core.outbox import encryption_context
from quillpost.core.tokens import mint_secret
from support.browser_sessions import PASSWORD, make_user
from support.factories import Account, Clock, make_account, make_operator, make_sub_account
from support.notifications import notification_rows
from support.sign_in import DANA, actor_of, audit_log, audited_acts, run_twice_at_once, sign_in_as, sign_in_user
from support.test_client import TestClient

pytestmark = pytest.mark.usefixtures("conninfo")

LEE, NEW = "lee@example.com", "seven plums in autumn rain"
BASE = "https://mail.example.com"


@pytest.fixture
def account(container: Container, http: TestClient) -> Account:
    return make_account(container, http, "owner@example.com")


@pytest.fixture
def dana(container: Container, account: Account) -> int:
    return make_user(container, account.id, DANA)


def invite(container: Container, account_id: int, person_id: int = 1, **how: Any) -> str:
    """The token of the link."""
    values = {"email": LEE, "role": "member", "sub_account_id": None, "actor": actor_of(person_id)} | how
    with container.db.system_transaction() as tx:
        link = invitations.invite(tx, container.encryptor, account_id, base_url=BASE, now=container.clock(), **values)
    return link.removeprefix(f"{BASE}/join/")


def found(container: Container, token: str) -> invitations.Invitation | None:
    with container.db.system_transaction() as tx:
        return invitations.find_invitation(tx, token, now=container.clock())


def join(container: Container, token: str, **how: Any) -> int | None:
    values = {"name": "Lee Park", "password": NEW, "address": "192.0.2.7"} | how
    return invitations.join_as_new_person(container.sign_in_context, token, now=container.clock(), **values)


def accept(container: Container, token: str, email: str) -> int | None:
    user = sign_in_user(container, email)
    with container.db.system_transaction() as tx:
        return invitations.accept_invitation(tx, token, user, now=container.clock())


def waiting(container: Container, account_id: int) -> list[str]:
    with container.db.system_transaction() as tx:
        return [each.email for each in invitations.list_pending_invitations(tx, account_id, now=container.clock())]


def test_somebody_new_joins_by_the_link(container: Container, account: Account, dana: int) -> None:
    branch = make_sub_account(container, account)
    token = invite(container, account.id, dana, email=" Lee@Example.com", sub_account_id=branch)
    invitation = found(container, token)
    assert invitation is not None
    assert (invitation.email, invitation.role, invitation.has_person) == (LEE, "member", False)
    assert invitation.account_name == "Dana Whitfield"
    person = join(container, token, name="  Lee \n Park ")
    assert person is not None
    assert sign_in_as(container, LEE, NEW).outcome == "in"
    with container.db.system_transaction() as tx:
        row = tx.execute(sa.select(memberships).where(memberships.c.person_id == person)).one()
        assert tx.execute(sa.select(people.c.name).where(people.c.id == person)).scalar_one() == "Lee Park"
    assert (row.account_id, row.sub_account_id, row.role) == (account.id, branch, "member")
    assert audited_acts(container, account.id)[:2] == ["person.invited", "person.joined"]
    line = audit_log(container, account.id)[0]
    assert (line.actor, line.about["email"], line.about["role"]) == (DANA, LEE, "member")
    assert waiting(container, account.id) == []


def test_a_link_is_good_once(container: Container, account: Account, dana: int) -> None:
    token = invite(container, account.id)
    assert join(container, token) is not None
    assert found(container, token) is None
    assert join(container, token) is None


def test_only_one_of_two_simultaneous_joins_by_one_link_succeeds(
    container: Container, account: Account, dana: int
) -> None:
    token = invite(container, account.id)
    joined = run_twice_at_once(lambda: join(container, token))
    assert sum(each is not None for each in joined) == 1
    with container.db.system_transaction() as tx:
        assert tx.execute(sa.select(sa.func.count()).select_from(people)).scalar_one() == 2
        assert tx.execute(sa.select(sa.func.count()).select_from(memberships)).scalar_one() == 2


def test_two_accounts_may_invite_the_same_person(
    container: Container, http: TestClient, account: Account, dana: int
) -> None:
    other = make_account(container, http, "other@example.com")
    boss = make_user(container, other.id, "boss@example.com")
    first, second = invite(container, account.id), invite(container, other.id, boss)
    tokens = [first, second]
    joined = run_twice_at_once(lambda: join(container, tokens.pop()))
    assert sum(each is not None for each in joined) == 1
    late = first if found(container, first) is not None else second
    invitation = found(container, late)
    assert invitation is not None, "the other one can still be accepted, by whoever has joined"
    assert invitation.has_person
    assert join(container, late) is None, "with their own password"
    with container.db.system_transaction() as tx:
        tx.execute(sa.update(people).values(password_hash=container.sign_in_context.hasher.hash(PASSWORD)))
    assert accept(container, late, LEE) is not None
    assert found(container, late) is None


def test_only_whoever_was_invited_accepts(container: Container, http: TestClient, account: Account, dana: int) -> None:
    other = make_account(container, http, "other@example.com")
    for email in (LEE, "mallory@example.com"):
        make_user(container, other.id, email)
    token = invite(container, account.id)
    assert accept(container, token, "mallory@example.com") is None
    assert found(container, token) is not None
    assert run_twice_at_once(lambda: accept(container, token, LEE)).count(None) == 1
    # The slower of the two may sign in when the other has joined already: then this account sees that too.
    acts = [act for act in audited_acts(container, account.id) if act != "sign_in"]
    assert acts == ["person.invited", "person.joined"]
    assert accept(container, token, LEE) is None


@pytest.mark.parametrize(
    "token", ["", "x", mint_secret("invitation", b"\x01" * 32), mint_secret("reset", b"\x01" * 32), "\x00"]
)
def test_no_other_link_is_good(container: Container, account: Account, dana: int, token: str) -> None:
    invite(container, account.id)
    assert found(container, token) is None
    assert join(container, token) is None


def test_a_link_is_good_for_a_week(container: Container, clock: Clock, account: Account, dana: int) -> None:
    token = invite(container, account.id)
    clock.advance(days=6, hours=23)
    assert found(container, token) is not None
    clock.advance(hours=1)
    assert found(container, token) is None
    assert join(container, token) is None
    assert waiting(container, account.id) == []
    assert invite(container, account.id), "an old one does not stand in the way"


def test_invited_again_the_earlier_link_ends(container: Container, account: Account, dana: int) -> None:
    first = invite(container, account.id)
    second = invite(container, account.id, role="owner", email="LEE@example.com")
    assert found(container, first) is None
    invitation = found(container, second)
    assert invitation is not None
    assert invitation.role == "owner"
    assert waiting(container, account.id) == [LEE]


def test_inviting_the_same_person_twice_at_once_leaves_one_valid_link(
    container: Container, account: Account, dana: int
) -> None:
    links = run_twice_at_once(lambda: invite(container, account.id))
    assert sorted(found(container, link) is not None for link in links) == [False, True]


def test_an_invitation_is_taken_back(container: Container, http: TestClient, account: Account, dana: int) -> None:
    stranger = make_account(container, http, "stranger@example.com")
    token = invite(container, account.id)
    invitation = found(container, token)
    assert invitation is not None

    def take_back(account_id: int) -> None:
        with container.db.system_transaction() as tx:
            invitations.withdraw_invitation(tx, account_id, invitation.id, actor_of(dana), now=container.clock())

    with pytest.raises(NotFound):
        take_back(stranger.id)
    take_back(account.id)
    assert found(container, token) is None
    assert join(container, token) is None
    with pytest.raises(NotFound):
        take_back(account.id)
    assert audited_acts(container, account.id) == ["person.invited", "person.uninvited"]


@pytest.mark.parametrize(
    ("values", "field", "says"),
    [
        ({"email": "lee"}, "email", "This is not an e-mail address."),
        ({"email": ""}, "email", "Give an e-mail address."),
        ({"email": "+15125550100@sms"}, "email", "This is not an e-mail address."),
        ({"email": DANA.upper()}, "email", "dana@example.com is in this account already."),
        ({"role": "boss"}, "role", "A role is owner, member or operator."),
        ({"role": "operator"}, "role", "This account does not run the service: it has no operators."),
        ({"sub_account_id": 10_000}, "sub_account_id", "There is no such sub account."),
        ({"sub_account_id": 1, "role": "owner"}, "sub_account_id", "Only a member can be limited to one sub account."),
    ],
)
def test_an_invalid_invitation_names_the_field(
    container: Container, account: Account, dana: int, values: dict[str, Any], field: str, says: str
) -> None:
    make_sub_account(container, account)
    with pytest.raises(Invalid) as error:
        invite(container, account.id, **values)
    assert error.value.fields == {field: [says]}
    assert (waiting(container, account.id), notification_rows(container), audited_acts(container, account.id)) == (
        [],
        [],
        [],
    )


def test_anothers_sub_account_is_unknown(container: Container, http: TestClient, account: Account, dana: int) -> None:
    theirs = make_sub_account(container, make_account(container, http, "stranger@example.com"))
    with pytest.raises(Invalid) as error:
        invite(container, account.id, sub_account_id=theirs)
    assert error.value.fields == {"sub_account_id": ["There is no such sub account."]}


def test_an_operator_account_may_invite_operators(container: Container, http: TestClient) -> None:
    operator = make_operator(container, http)
    assert join(container, invite(container, operator.id, role="operator", actor=Actor(COMMAND_LINE_NAME))) is not None


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
    container: Container, account: Account, dana: int, how: dict[str, str], fields: set[str]
) -> None:
    token = invite(container, account.id)
    with pytest.raises(Invalid) as error:
        join(container, token, **how)
    assert set(error.value.fields) == fields
    assert join(container, token) is not None


def test_only_so_many_wait(container: Container, account: Account, dana: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert invitations.MAX_PENDING == 100
    monkeypatch.setattr(invitations, "MAX_PENDING", 3)
    for number in range(3):
        invite(container, account.id, email=f"{number}@example.com")
    with pytest.raises(Refused, match="At most 3 invitations wait"):
        invite(container, account.id)
    invite(container, account.id, email="0@example.com")  # again: no more than before
    assert len(waiting(container, account.id)) == 3


def test_only_so_many_are_sent_a_day(
    container: Container, account: Account, dana: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert invitations.MAX_EMAILS_PER_DAY == 200
    monkeypatch.setattr(invitations, "MAX_EMAILS_PER_DAY", 5)
    for _ in range(5):
        invite(container, account.id)
    with pytest.raises(Refused, match="at most 5 people a day"):
        invite(container, account.id)


def test_the_mail_names_the_account_and_keeps_the_link_sealed(
    container: Container, account: Account, dana: int
) -> None:
    token = invite(container, account.id)
    notice = notification_rows(container)[0]
    assert (notice.address, notice.account_id, notice.kind, notice.mode) == (LEE, account.id, "people", "live")
    assert notice.subject == "You are invited to Dana Whitfield"
    assert "dana@example.com invites you to the account Dana Whitfield" in notice.words
    assert (
        container.encryptor.decrypt(notice.secret_sealed, context=encryption_context(notice.key)).decode()
        == f"{BASE}/join/{token}"
    )
    with container.db.system_transaction() as tx:
        kept = "".join(
            str(tx.execute(sa.text(f"select * from {t}")).all()) for t in ("notices", "invitations", "audit_log")
        )
    assert token.split("_")[2] not in kept


def test_the_command_line_may_hand_over_the_link_itself(container: Container, account: Account) -> None:
    token = invite(container, account.id, role="owner", actor=Actor(COMMAND_LINE_NAME), send_email=False)
    assert notification_rows(container) == []
    assert join(container, token) is not None
    assert audit_log(container, account.id)[0].actor == "the command line"


def test_an_account_sees_its_own_invitations_alone(
    container: Container, http: TestClient, account: Account, dana: int
) -> None:
    stranger = make_account(container, http, "stranger@example.com")
    invite(container, account.id)
    for viewer, seen in ((account, [LEE]), (stranger, [])):
        with container.db.transaction(Tenant(viewer.id)) as tx:
            found = invitations.list_pending_invitations(tx, account.id, now=container.clock())
        assert [each.email for each in found] == seen


def retired(container: Container, account: Account, sub_account_id: int) -> None:
    with container.db.transaction(Tenant(account.id)) as tx:
        remove_sub_account(tx, sub_account_id, now=container.clock())


def with_history(container: Container, account: Account, sub_account_id: int) -> None:
    with container.db.system_transaction() as tx:
        tx.execute(
            sa.text(
                "insert into ledger_moves (account_id, sub_account_id, mode, kind, source, target, cents, "
                "key, at) values (:a, :s, 'test', 'refund', 'x', 'y', 1, 'z', now())"
            ),
            {"a": account.id, "s": sub_account_id},
        )


@pytest.mark.parametrize("keep_history", [lambda *_: None, with_history], ids=["deleted", "retired"])
def test_nobody_joins_a_sub_account_that_is_gone(
    container: Container, account: Account, dana: int, keep_history: Callable[..., None]
) -> None:
    branch = make_sub_account(container, account)
    token = invite(container, account.id, sub_account_id=branch)
    joined = invite(container, account.id, email="kim@example.com", sub_account_id=branch)
    assert join(container, joined, name="Kim") is not None
    keep_history(container, account, branch)
    retired(container, account, branch)
    assert found(container, token) is None
    assert join(container, token) is None
    assert sign_in_as(container, "kim@example.com", NEW).outcome == "wrong", (
        "whoever was limited to it is in no account"
    )
    with container.db.system_transaction() as tx:
        assert tx.execute(sa.select(table.c.id).where(table.c.accepted_at.is_(None))).all() == []


def test_apps_of_a_sub_account_end_with_it(container: Container, account: Account, dana: int) -> None:
    branch = make_sub_account(container, account)
    now = container.clock()
    with container.db.system_transaction() as tx:
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
    with_history(container, account, branch)
    retired(container, account, branch)
    with container.db.system_transaction() as tx:
        left = tx.execute(sa.select(oauth_grants.c.sub_account_id, oauth_grants.c.ended_by)).all()
    assert sorted(left, key=str) == [(branch, "membership"), (None, None)]


def test_an_invitation_is_worth_nothing_in_other_hands(container: Container, account: Account, dana: int) -> None:
    """Whoever has the link and signs in as somebody else does not get in, whatever e-mail they claim."""
    token = invite(container, account.id)
    user = replace(sign_in_user(container), email="lee@example.org")
    with container.db.system_transaction() as tx:
        assert invitations.accept_invitation(tx, token, user, now=container.clock()) is None
