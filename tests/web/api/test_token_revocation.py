"""What is revoked is unknown from the next call on, at whichever server that arrives: nobody keeps a copy."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.accounts.audit.service import Actor
from quillpost.accounts.oauth import clients
from quillpost.accounts.oauth import service as oauth_service
from quillpost.accounts.tokens import service as token_service
from quillpost.accounts.users import passwords, sessions
from quillpost.accounts.users import service as user_service
from quillpost.app.container import Container
from quillpost.core.database import Tenant, Tx
from quillpost.core.database.tables.accounts import memberships, oauth_grants, people
from quillpost.web.application import create_app
from support.factories import Account, Build, Clock, make_account, make_sub_account
from support.oauth_app import ACTOR, OAuthApp, connect_app
from support.rows import execute, run, scalar
from support.service import RETIREMENT
from support.sign_in import make_user
from support.test_client import TestClient

Token = str


@dataclass(frozen=True)
class House:
    """Two servers over one database. Dana makes a token, connects an app and reads a page at the first."""

    container: Container
    account: Account
    app: OAuthApp
    other: TestClient
    person_id: int
    branch: int
    tokens: list[Token] = field(default_factory=list)
    refresh_tokens: list[Token] = field(default_factory=list)

    @property
    def now(self) -> Any:
        return self.container.clock()

    def personal(self, sub_account_id: int | None = None) -> Token:
        actor = Actor("dana@example.com", person_id=self.person_id)
        with self.container.db.transaction(Tenant(self.account.id)) as tx:
            return token_service.create_token(
                tx, self.account.id, name="mine", mode="test", scopes=None, sub_account_id=sub_account_id,
                expires_at=None, actor=actor, now=self.now,
            )  # fmt: skip

    def pair(self, **how: Any) -> Token:
        """The one that expires; the other is noted."""
        return self._noted(self.app.tokens(**how))

    def next_of_pair(self) -> Token:
        return self._noted(self.app.refresh(self.refresh_tokens[-1]).json())

    def _noted(self, pair: dict[str, str]) -> Token:
        self.refresh_tokens.append(pair["refresh_token"])
        return pair["access_token"]

    def page(self) -> Token:
        given = self.app.browser.post("/session/token", headers={"Accept": "application/json"})
        return next(str(value) for value in given.json().values() if str(value).startswith("qp_"))

    def works(self, token: Token) -> bool:
        """At the other server."""
        answer = self.other.get("/api/v2/ping", headers={"Authorization": f"Bearer {token}"})
        assert answer.status_code in (200, 401)
        if answer.status_code == 401:
            assert answer.json() == {"message": "Unauthenticated."}
        return answer.status_code == 200

    def grant_id(self) -> int:
        return int(scalar(self.container, sa.select(sa.func.max(oauth_grants.c.id))))

    def membership_id(self) -> int:
        mine = memberships.c.person_id == self.person_id
        return int(scalar(self.container, sa.select(memberships.c.id).where(mine)))

    def report(self, token: Token) -> None:
        assert self.app.http.post("/tokens/leaked", json={"tokens": [token]}).status_code == 202

    def revoke(self, token: Token) -> None:
        assert self.app.revoke(token).status_code == 200

    def use_stolen_refresh_token(self) -> None:
        assert self.app.refresh(self.refresh_tokens[0]).status_code == 400

    @contextmanager
    def in_account(self) -> Iterator[Tx]:
        with self.container.db.transaction(Tenant(self.account.id)) as tx:
            yield tx


@pytest.fixture
def other(build: Build) -> Iterator[TestClient]:
    with TestClient(create_app(build()), base_url="http://quillpost.test", raise_server_exceptions=False) as client:
        yield client


def make_house(container: Container, http: TestClient, other: TestClient) -> House:
    execute(container, RETIREMENT)
    account = make_account(container, http, "owner@example.com")
    make_user(container, account.id, "second@example.com")  # an account keeps an owner
    app = connect_app(container, http, account)
    person_id = scalar(container, sa.select(people.c.id).where(people.c.email == "dana@example.com"))
    return House(container, account, app, other, person_id, make_sub_account(container, account))


def revoke_by_owner(h: House) -> None:
    with h.in_account() as tx:
        [newest, *_] = token_service.list_tokens(tx, h.account.id)
        token_service.revoke_token(tx, h.account.id, newest.id, ACTOR, now=h.now)


def disconnect(h: House) -> None:
    with h.in_account() as tx:
        oauth_service.disconnect_app(tx, h.account.id, h.grant_id(), ACTOR, now=h.now)


def delete_client(h: House) -> None:
    run(h.container, clients.delete_client, h.account.id, h.app.client.id, ACTOR, now=h.now)


def remove_person(h: House) -> None:
    run(h.container, user_service.remove_member, h.account.id, h.membership_id(), ACTOR, now=h.now)


def change_role(h: House) -> None:
    new: dict[str, Any] = {"role": "member", "sub_account_id": None, "actor": ACTOR, "now": h.now}
    run(h.container, user_service.update_member, h.account.id, h.membership_id(), **new)


def end_sessions(h: House) -> None:
    run(h.container, sessions.end_sessions, h.person_id)


def change_password(h: House) -> None:
    new = "another good password of hers"
    passwords.change_password(h.container.sign_in_context, h.person_id, new, ACTOR, session_id=0, now=h.now)


def remove_branch(h: House) -> None:
    assert h.account.delete(f"/sub-accounts/{h.branch}").status_code == 200


def remove_branch_with_history(h: House) -> None:
    """Nor does what is left of it give new tokens."""
    order = h.account.send(sub_account_id=h.branch).json()["id"]
    assert h.account.post(f"/orders/{order}/cancel").status_code == 200
    remove_branch(h)
    assert h.app.refresh(h.refresh_tokens[-1]).status_code == 400
    with h.in_account() as tx:
        assert oauth_service.list_connections(tx, h.account.id, now=h.now) == []


def report_all(h: House) -> None:
    for token in h.tokens:
        h.report(token)


def sign_out(h: House) -> None:
    assert h.app.browser.post("/sign-out", follow=False).status_code == 303


def of_branch(h: House) -> list[Token]:
    return [h.personal(h.branch), h.pair(sub_account_id=h.branch)]


WAYS: dict[str, tuple[Callable[[House], list[Token]], Callable[[House], object]]] = {
    "by the owner": (lambda h: [h.personal()], revoke_by_owner),
    "by the app": (lambda h: [h.pair()], lambda h: h.revoke(h.tokens[0])),
    "by the app, with all that came of it": (
        lambda h: [h.pair(), h.next_of_pair()], lambda h: h.revoke(h.refresh_tokens[-1])
    ),
    "by whoever found it": (lambda h: [h.personal(), h.pair(), h.page()], report_all),
    "by whoever found a refresh token": (lambda h: [h.pair()], lambda h: h.report(h.refresh_tokens[0])),
    "by a stolen refresh token": (lambda h: [h.pair(), h.next_of_pair()], lambda h: h.use_stolen_refresh_token()),
    "by disconnecting": (lambda h: [h.pair()], disconnect),
    "by deleting the client": (lambda h: [h.pair()], delete_client),
    "by removing the person": (lambda h: [h.personal(), h.pair(), h.page()], remove_person),
    "by another role": (lambda h: [h.pair(), h.page()], change_role),
    "by signing out": (lambda h: [h.page()], sign_out),
    "by ending the session elsewhere": (lambda h: [h.page()], end_sessions),
    "by another password": (lambda h: [h.page()], change_password),
    "by deleting the sub account": (of_branch, remove_branch),
    "by deleting a sub account with a history": (of_branch, remove_branch_with_history),
}  # fmt: skip


@pytest.mark.usefixtures("unlimited_calls")
def test_the_very_next_call_at_another_server_is_refused(
    subtests: pytest.Subtests, container: Container, http: TestClient, other: TestClient
) -> None:
    for name, (make, end) in WAYS.items():
        with subtests.test(name):
            house = make_house(container, http, other)
            house.tokens.extend(make(house))
            assert [token for token in house.tokens if not house.works(token)] == []
            end(house)
            assert [token for token in house.tokens if house.works(token)] == []
            assert house.works(house.account.token), "and nothing else ends with it"


def test_a_token_ends_to_the_second(container: Container, http: TestClient, other: TestClient, clock: Clock) -> None:
    house = make_house(container, http, other)
    page = house.page()
    clock.advance(minutes=14, seconds=59)
    assert house.works(page)
    clock.advance(seconds=1)
    assert not house.works(page)
