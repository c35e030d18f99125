"""What an owner decides, and somebody who is none any more does not: not even at the very moment."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.accounts.audit.service import Actor
from quillpost.accounts.models import Role
from quillpost.accounts.oauth import clients
from quillpost.accounts.oauth.clients import ClientRegistration
from quillpost.accounts.sub_accounts.queries import lock_sub_account
from quillpost.accounts.sub_accounts.service import remove_sub_account
from quillpost.accounts.tokens import service as token_service
from quillpost.accounts.users import invitations
from quillpost.accounts.users import service as user_service
from quillpost.accounts.users.sessions import create_page_token
from quillpost.app.container import Container
from quillpost.core.database import Tenant, Tx
from quillpost.core.database.tables.accounts import audit_log, memberships
from quillpost.core.errors import Forbidden, Invalid, NotFound
from support.factories import Account, make_sub_account
from support.oauth_app import REDIRECT_URI, register_client
from support.rows import scalar, scalars
from support.sign_in import DANA, actor_of, is_good, make_user, sign_in_user
from support.waiting import is_lock_awaited, wait_until

LEE = "lee@example.com"
REGISTRATION = ClientRegistration("Letterhead", [REDIRECT_URI])


class House:
    """An account with two owners, of whom Lee is about to be none any more."""

    def __init__(self, container: Container, account: Account) -> None:
        self.parts, self.account_id = container, account.id
        self.dana, self.lee = (make_user(container, account.id, email) for email in (DANA, LEE))
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
        return partial(run_in, lambda: self.parts.db.transaction(Tenant(self.account_id)), act)

    def in_service(self, act: Callable[[Tx], object]) -> Callable[[], object]:
        return partial(run_in, self.parts.db.system_transaction, act)


def run_in(begin: Callable[[], AbstractContextManager[Tx]], act: Callable[[Tx], object]) -> object:
    with begin() as tx:
        return act(tx)


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
def test_whoever_is_demoted_at_that_moment_decides_nothing_any_more(
    house: House, where: In, act: Callable[[House, Tx], object]
) -> None:
    deed = where(house, partial(act, house))
    with in_between(house.parts.db.system_transaction(), house.parts, deed) as (tx, begin):
        house.demote(tx)
        begun = begin()
    with pytest.raises(Forbidden, match="Only an owner of this account"):
        begun.result(0)
    assert scalars(house.parts, sa.select(audit_log.c.act).where(audit_log.c.person_id == house.lee)) == []


def test_what_they_made_a_moment_before_ends_with_it(house: House) -> None:
    held = house.parts.db.transaction(Tenant(house.account_id))
    with in_between(held, house.parts, house.in_service(house.demote)) as (tx, begin):
        token = house.make_token(tx)
        assert not begin().done()
    assert not is_good(house.parts, token)


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
def test_nobody_waits_in_a_circle_with_whoever_removes_their_sub_account(
    house: House, owner: Account, deed: str
) -> None:
    container = house.parts
    branch = make_sub_account(container, owner)
    kim = make_user(container, owner.id, "kim@example.com", role="member", sub_account_id=branch)
    user, place, by = sign_in_user(container, "kim@example.com"), house.place_of(kim), actor_of(house.dana)

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
