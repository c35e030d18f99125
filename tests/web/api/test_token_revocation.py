"""What is revoked is unknown from the next call on, at whichever server that arrives: nobody keeps a copy."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
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
from quillpost.core.database import Tenant
from quillpost.core.database.tables.accounts import memberships, oauth_grants, people
from quillpost.web.application import create_app
from support.browser_sessions import make_user
from support.factories import Account, Build, Clock, make_account, make_sub_account
from support.oauth_app import ACTOR, OAuthApp, connect_app
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

    def pair(self, **how: Any) -> tuple[Token, Token]:
        tokens = self.app.tokens(**how)
        return tokens["access_token"], tokens["refresh_token"]

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
        with self.container.db.system_transaction() as tx:
            return int(tx.execute(sa.select(sa.func.max(oauth_grants.c.id))).scalar_one())

    def membership_id(self) -> int:
        with self.container.db.system_transaction() as tx:
            mine = memberships.c.person_id == self.person_id
            return int(tx.execute(sa.select(memberships.c.id).where(mine)).scalar_one())

    def report(self, token: Token) -> None:
        assert self.app.http.post("/tokens/leaked", json={"tokens": [token]}).status_code == 202

    def in_account(self, act: Callable[[Any], object]) -> None:
        with self.container.db.transaction(Tenant(self.account.id)) as tx:
            act(tx)

    def in_service(self, act: Callable[[Any], object]) -> None:
        with self.container.db.system_transaction() as tx:
            act(tx)


@pytest.fixture
def house(build: Build, container: Container, http: TestClient) -> Iterator[House]:
    account = make_account(container, http, "owner@example.com")
    make_user(container, account.id, "second@example.com")  # an account keeps an owner
    app = connect_app(container, http, account)
    with container.db.system_transaction() as tx:
        whose = sa.select(people.c.id).where(people.c.email == "dana@example.com")
        person_id = tx.execute(whose).scalar_one()
    with TestClient(create_app(build()), base_url="http://quillpost.test", raise_server_exceptions=False) as other:
        yield House(container, account, app, other, person_id, make_sub_account(container, account))


def by_the_owner(h: House) -> list[Token]:
    token = h.personal()
    assert h.works(token)
    with h.container.db.transaction(Tenant(h.account.id)) as tx:
        token_id = token_service.list_tokens(tx, h.account.id)[0].id
        token_service.revoke_token(tx, h.account.id, token_id, ACTOR, now=h.now)
    return [token]


def by_the_app(h: House) -> list[Token]:
    access, _ = h.pair()
    assert h.works(access)
    assert h.app.revoke(access).status_code == 200
    return [access]


def by_the_app_with_all_that_came_of_it(h: House) -> list[Token]:
    first, refresh = h.pair()
    second = h.app.refresh(refresh).json()
    assert h.works(first)
    assert h.works(second["access_token"])
    assert h.app.revoke(second["refresh_token"]).status_code == 200
    return [first, second["access_token"]]


def by_whoever_found_it(h: House) -> list[Token]:
    token, (access, _), page = h.personal(), h.pair(), h.page()
    assert h.works(token)
    assert h.works(access)
    assert h.works(page)
    for each in (token, access, page):
        h.report(each)
    return [token, access, page]


def by_whoever_found_a_refresh_token(h: House) -> list[Token]:
    access, refresh = h.pair()
    assert h.works(access)
    h.report(refresh)
    return [access]


def by_a_stolen_refresh_token(h: House) -> list[Token]:
    first, refresh = h.pair()
    second = h.app.refresh(refresh).json()["access_token"]
    assert h.works(second)
    assert h.app.refresh(refresh).status_code == 400
    return [first, second]


def by_disconnecting(h: House) -> list[Token]:
    access, _ = h.pair()
    assert h.works(access)
    h.in_account(lambda tx: oauth_service.disconnect_app(tx, h.account.id, h.grant_id(), ACTOR, now=h.now))
    return [access]


def by_deleting_the_client(h: House) -> list[Token]:
    access, _ = h.pair()
    assert h.works(access)
    h.in_service(lambda tx: clients.delete_client(tx, h.account.id, h.app.client.id, ACTOR, now=h.now))
    return [access]


def by_removing_the_person(h: House) -> list[Token]:
    tokens = [h.personal(), h.pair()[0], h.page()]
    assert all(map(h.works, tokens))
    h.in_service(lambda tx: user_service.remove_member(tx, h.account.id, h.membership_id(), ACTOR, now=h.now))
    return tokens


def by_another_role(h: House) -> list[Token]:
    tokens = [h.pair()[0], h.page()]
    assert all(map(h.works, tokens))
    h.in_service(
        lambda tx: user_service.update_member(
            tx, h.account.id, h.membership_id(), role="member", sub_account_id=None, actor=ACTOR, now=h.now
        )
    )
    return tokens


def by_signing_out(h: House) -> list[Token]:
    page = h.page()
    assert h.works(page)
    assert h.app.browser.post("/sign-out", follow=False).status_code == 303
    return [page]


def by_ending_the_session_elsewhere(h: House) -> list[Token]:
    page = h.page()
    assert h.works(page)
    h.in_service(lambda tx: sessions.end_sessions(tx, h.person_id))
    return [page]


def by_another_password(h: House) -> list[Token]:
    page = h.page()
    assert h.works(page)
    passwords.change_password(
        h.container.sign_in_context, h.person_id, "another good password of hers", ACTOR, session_id=0, now=h.now
    )
    return [page]


def by_deleting_the_sub_account(h: House) -> list[Token]:
    tokens = [h.personal(h.branch), h.pair(sub_account_id=h.branch)[0]]
    assert all(map(h.works, tokens))
    assert h.account.delete(f"/sub-accounts/{h.branch}").status_code == 200
    return tokens


def by_deleting_a_sub_account_with_a_history(h: House) -> list[Token]:
    tokens = [h.personal(h.branch), h.pair(sub_account_id=h.branch)[0]]
    assert all(map(h.works, tokens))
    order = h.account.send(sub_account_id=h.branch).json()["id"]
    assert h.account.post(f"/orders/{order}/cancel").status_code == 200
    assert h.account.delete(f"/sub-accounts/{h.branch}").status_code == 200
    return tokens


WAYS = (
    by_the_owner,
    by_the_app,
    by_the_app_with_all_that_came_of_it,
    by_whoever_found_it,
    by_whoever_found_a_refresh_token,
    by_a_stolen_refresh_token,
    by_disconnecting,
    by_deleting_the_client,
    by_removing_the_person,
    by_another_role,
    by_signing_out,
    by_ending_the_session_elsewhere,
    by_another_password,
    by_deleting_the_sub_account,
    by_deleting_a_sub_account_with_a_history,
)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_the_very_next_call_at_another_server_is_refused(house: House, way: Callable[[House], list[Token]]) -> None:
    ended = way(house)
    assert ended
    assert [token for token in ended if house.works(token)] == []
    assert house.works(house.account.token), "and nothing else ends with it"


def test_the_family_of_a_sub_account_that_is_gone_gives_no_more_tokens(house: House) -> None:
    _, refresh = house.pair(sub_account_id=house.branch)
    order = house.account.send(sub_account_id=house.branch).json()["id"]
    assert house.account.post(f"/orders/{order}/cancel").status_code == 200
    assert house.account.delete(f"/sub-accounts/{house.branch}").status_code == 200
    assert house.app.refresh(refresh).status_code == 400
    with house.container.db.transaction(Tenant(house.account.id)) as tx:
        assert oauth_service.list_connections(tx, house.account.id, now=house.now) == []


def test_a_token_ends_at_the_very_second(house: House, clock: Clock) -> None:
    page = house.page()
    clock.advance(minutes=14, seconds=59)
    assert house.works(page)
    clock.advance(seconds=1)
    assert not house.works(page)
