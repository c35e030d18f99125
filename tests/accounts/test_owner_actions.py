"""What an owner decides, and somebody who is none any more does not: not even at the very moment."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.accounts import service
from quillpost.accounts.audit.service import Actor
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
from quillpost.core.errors import Forbidden, Invalid, NotFound, Unauthenticated
from support.browser_sessions import make_user
from support.factories import Account, make_sub_account
from support.oauth_app import REDIRECT_URI, register_client
from support.sign_in import DANA, actor_of, sign_in_user
from support.waiting import wait_until

LEE = "lee@example.com"
REGISTRATION = ClientRegistration("Letterhead", [REDIRECT_URI])
IS_WAITING = sa.text("select count(*) from pg_locks where not granted")


class House:
    """An account with two owners, of whom Lee is about to be none any more."""

    def __init__(self, container: Container, account: Account) -> None:
        self.parts, self.account_id = container, account.id
        self.dana, self.lee = (make_user(container, account.id, email) for email in (DANA, LEE))
        self.client, _ = register_client(container, account.id)
        self.by_lee = actor_of(self.lee, LEE)

    def place_of(self, person_id: int) -> int:
        with self.parts.db.system_transaction() as tx:
            found = sa.select(memberships.c.id).where(memberships.c.person_id == person_id)
            return int(tx.execute(found).scalar_one())

    def demote(self, tx: Tx) -> None:
        user_service.update_member(
            tx, self.account_id, self.place_of(self.lee), role="member", sub_account_id=None,
            actor=actor_of(self.dana), now=self.parts.clock(),
        )  # fmt: skip

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

    def promote(self, tx: Tx) -> None:
        user_service.update_member(
            tx, self.account_id, self.place_of(self.lee), role="owner", sub_account_id=None,
            actor=self.by_lee, now=self.parts.clock(),
        )  # fmt: skip

    def remove(self, tx: Tx) -> None:
        place = self.place_of(self.dana)
        user_service.remove_member(tx, self.account_id, place, self.by_lee, now=self.parts.clock())

    def register(self, tx: Tx) -> None:
        clients.register_client(
            tx, self.account_id, REGISTRATION, is_public=True, actor=self.by_lee, now=self.parts.clock()
        )

    def change_client(self, tx: Tx) -> None:
        clients.update_client(tx, self.account_id, self.client.id, REGISTRATION, self.by_lee, now=self.parts.clock())

    def new_secret(self, tx: Tx) -> None:
        clients.rotate_client_secret(tx, self.account_id, self.client.id, self.by_lee, now=self.parts.clock())

    def delete_client(self, tx: Tx) -> None:
        clients.delete_client(tx, self.account_id, self.client.id, self.by_lee, now=self.parts.clock())

    def acts_of_lee(self) -> list[str]:
        with self.parts.db.system_transaction() as tx:
            theirs = audit_log.c.person_id == self.lee
            return list(tx.execute(sa.select(audit_log.c.act).where(theirs)).scalars())


@pytest.fixture
def house(container: Container, owner: Account) -> House:
    return House(container, owner)


@dataclass(frozen=True)
class Between:
    container: Container
    tx: Tx
    submit: Callable[[], Future[Any]]

    def begin(self) -> Future[Any]:
        """Until it waits, or has come to its end already."""
        begun = self.submit()
        wait_until(lambda: begun.done() or _is_somebody_waiting(self.container), seconds=10)
        return begun


@contextmanager
def in_between(held: AbstractContextManager[Tx], container: Container, deed: Callable[[], object]) -> Iterator[Between]:
    """A transaction, in the midst of which `begin` has the deed begin, in a connection of its own, and wait.
    The deed has ended when this has."""
    with ThreadPoolExecutor(1) as thread, held as tx:
        yield Between(container, tx, lambda: thread.submit(deed))


def _is_somebody_waiting(container: Container) -> bool:
    with container.db.system_transaction() as tx:
        return bool(tx.execute(IS_WAITING).scalar_one())


def in_account(house: House, act: Callable[[Tx], object]) -> Callable[[], object]:
    def deed() -> object:
        with house.parts.db.transaction(Tenant(house.account_id)) as tx:
            return act(tx)

    return deed


def in_service(house: House, act: Callable[[Tx], object]) -> Callable[[], object]:
    def deed() -> object:
        with house.parts.db.system_transaction() as tx:
            return act(tx)

    return deed


@pytest.mark.parametrize(
    ("where", "act"),
    [
        (in_account, House.make_token),
        (in_service, House.invite),
        (in_service, House.promote),
        (in_service, House.remove),
        (in_account, House.register),
        (in_account, House.change_client),
        (in_account, House.new_secret),
        (in_service, House.delete_client),
    ],
)
def test_whoever_is_demoted_at_that_moment_decides_nothing_any_more(
    house: House,
    where: Callable[[House, Callable[[Tx], object]], Callable[[], object]],
    act: Callable[[House, Tx], object],
) -> None:
    deed = where(house, lambda own: act(house, own))
    with in_between(house.parts.db.system_transaction(), house.parts, deed) as between:
        house.demote(between.tx)
        begun = between.begin()
    with pytest.raises(Forbidden, match="Only an owner of this account"):
        begun.result(0)
    assert house.acts_of_lee() == []


def test_what_they_made_a_moment_before_ends_with_it(house: House) -> None:
    held = house.parts.db.transaction(Tenant(house.account_id))
    with in_between(held, house.parts, in_service(house, house.demote)) as between:
        token = house.make_token(between.tx)
        assert not between.begin().done()
    with pytest.raises(Unauthenticated):
        service.authenticate(house.parts.db, token, limit=10, now=house.parts.clock())


def test_two_that_are_made_at_once_do_not_share_the_last_place(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_service, "MAX_TOKENS", 2)  # the account's own is the first
    by_dana = actor_of(house.dana)
    second = in_account(house, lambda own: house.make_token(own, by_dana))
    held = house.parts.db.transaction(Tenant(house.account_id))
    with in_between(held, house.parts, second) as between:
        house.make_token(between.tx)
        begun = between.begin()
    with pytest.raises(Invalid, match="at most 2 tokens"):
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
    with in_between(held, container, in_service(house, act)) as between:
        lock_sub_account(between.tx, branch, for_removal=True)
        begun = between.begin()
        assert not begun.done()
        remove_sub_account(between.tx, branch, now=container.clock())
    with pytest.raises(NotFound):
        begun.result(0)
