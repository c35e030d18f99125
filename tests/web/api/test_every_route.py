"""A walk over every route: each needs exactly what it should, and whoever lacks it is told so."""

import re
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from httpx2 import Response
from starlette.routing import BaseRoute, Host, Mount, Router, WebSocketRoute
from starlette.routing import Route as Served

from quillpost.accounts.models import Role
from quillpost.accounts.queries import insert_token
from quillpost.accounts.tokens.rules import SCOPES
from quillpost.accounts.users.sessions import CONFIRMATION_LIFETIME, create_session
from quillpost.app.container import Container
from quillpost.core.database.embedded.server import EmbeddedPostgres
from quillpost.core.database.tables.accounts import memberships, oauth_clients, oauth_grants, sessions
from quillpost.core.database.tables.base import tokens
from quillpost.core.tokens import mint_secret
from quillpost.web.api.dependencies import NOT_FOR_APPS
from quillpost.web.application import create_app
from quillpost.web.security import SESSION
from support.browser_sessions import ACCEPTS, Browser, make_user, sign_in_browser
from support.factories import Account, make_account, make_operator, make_sub_account, make_teammate
from support.route_access import API_NEEDS, OPEN_NEEDS, PAGE_NEEDS, Route
from support.shared_service import shared_service
from support.test_client import TestClient

UNAUTHENTICATED = (401, {"message": "Unauthenticated."})
PARAMETER = re.compile(r"\{[^}]+\}")
NOBODYS = "0"
"""In place of every id and key of a path: there is nothing under it, so that no call has an effect."""


def filled(path: str) -> str:
    return PARAMETER.sub(NOBODYS, path)


@dataclass
class Walk:
    """One service for the whole walk, with everybody who might come."""

    container: Container
    http: TestClient
    account: Account
    operator: Account
    people: dict[str, int] = field(default_factory=dict)
    held: dict[str, str] = field(default_factory=dict)

    def call(self, route: Route, token: str | None, path: str | None = None) -> Response:
        method, pattern = route
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        body: dict[str, Any] | None = None if method in ("GET", "HEAD", "DELETE") else {}
        return self.http.request(method, path or filled(pattern), headers=headers, json=body)

    def token(self, name: str, account: Account, **how: Any) -> str:
        """Made once, under this name."""
        if name not in self.held:
            with self.container.db.system_transaction() as tx:
                mode = "live" if account is self.operator else "test"
                known = {"mode": mode, "scopes": None, "now": self.container.clock(), "name": name}
                self.held[name] = insert_token(tx, account.id, **known | how)[1]
        return self.held[name]

    def without(self, scope: str, account: Account) -> str:
        others = [other for other in SCOPES if other != scope]
        return self.token(f"{account.id} without {scope}", account, scopes=others)

    def with_only(self, scope: str, account: Account) -> str:
        return self.token(f"{account.id} with {scope}", account, scopes=[scope])

    def person(self, account: Account, role: Role, **how: Any) -> int:
        name = f"{role}{account.id}@example.com"
        if name not in self.people:
            self.people[name] = make_user(self.container, account.id, name, role=role, **how)
        return self.people[name]

    def session(self, account: Account, role: Role, **columns: Any) -> tuple[str, int]:
        """A new session's cookie and id."""
        person_id = self.person(account, role)
        with self.container.db.system_transaction() as tx:
            cookie = create_session(
                tx, person_id, awaits_code=False, address=None, browser=None, now=self.container.clock()
            )
            session_id = tx.execute(sa.select(sa.func.max(sessions.c.id))).scalar_one()
            if columns:
                tx.execute(sa.update(sessions).where(sessions.c.id == session_id).values(**columns))
        return cookie, session_id

    def reader(self, role: Role | None, *, runs_it: bool = False, **columns: Any) -> Browser:
        """A browser of somebody in this role, just signed in; of a stranger, if None. `runs_it`: the account
        is the operator's."""
        browser = sign_in_browser(self.http)
        if role is not None:
            account = self.operator if runs_it else self.account
            browser.client.cookies.set(SESSION, self.session(account, role, **columns)[0])
        return browser

    def app_token(self, account: Account) -> str:
        """Of an app that the account's owner has connected, with everything that it could ask for."""
        if "an app's" not in self.held:
            now, person_id = self.container.clock(), self.person(account, "owner")
            known = {"account_id": account.id, "person_id": person_id, "created_at": now}
            client = sa.insert(oauth_clients).values(
                **known, client_id="app", name="App", is_public=True, updated_at=now,
                redirect_uris=["https://app.example.com/back"],
            )  # fmt: skip
            with self.container.db.system_transaction() as tx:
                client_id = tx.execute(client.returning(oauth_clients.c.id)).scalar_one()
                leave = sa.insert(oauth_grants).values(**known, client_id=client_id, mode="test", connected_at=now)
                grant_id = tx.execute(leave.returning(oauth_grants.c.id)).scalar_one()
            self.token("an app's", account, mode="test", grant_id=grant_id, person_id=person_id)
        return self.held["an app's"]

    def page_token(self, account: Account, role: Role) -> str:
        """Of a page that somebody in this role reads."""
        cookie, _ = self.session(account, role, mode="live" if account is self.operator else "test")
        browser = sign_in_browser(self.http)
        browser.client.cookies.set(SESSION, cookie)
        given = browser.post("/session/token", headers={"Accept": "application/json"})
        assert given.status_code == 200, given.text
        return next(str(value) for value in given.json().values() if str(value).startswith("qp_"))

    def visit(self, route: Route, browser: Browser, **how: Any) -> Response:
        method, pattern = route
        if method == "GET":
            return browser.get(filled(pattern), follow=False, **how)
        return browser.post(filled(pattern), follow=False, nothing="1", **how)


@pytest.fixture(scope="module")
def walk(postgres: EmbeddedPostgres, template: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Walk]:
    home = tmp_path_factory.mktemp("walk")
    with (
        shared_service(postgres, template, home) as parts,
        TestClient(create_app(parts), base_url="http://quillpost.test", raise_server_exceptions=False) as http,
    ):
        account = make_account(parts, http, "walker@example.com")
        yield Walk(parts, http, account, make_operator(parts, http, mode="live"))


def served(routes: Iterable[BaseRoute]) -> set[Route]:
    """Every method and path of these; HEAD of a GET is the same call. Whatever is not a plain route, such as
    another application under a path, or a web socket, would have ways in that the walk does not see."""
    found = set[Route]()
    for route in routes:
        assert isinstance(route, Served), f"the walk cannot go there: {route!r}"
        assert route.methods, f"it takes every method: {route!r}"
        found |= {
            (method, route.path)
            for method in route.methods
            if method != "HEAD" or ("HEAD", route.path) in OPEN_NEEDS | API_NEEDS
        }
    return found


def test_the_table_has_every_route_and_no_other(walk: Walk) -> None:
    known = API_NEEDS | PAGE_NEEDS | OPEN_NEEDS
    assert len(known) == len(API_NEEDS) + len(PAGE_NEEDS) + len(OPEN_NEEDS)
    there = served(walk.http.app.routes)  # type: ignore[attr-defined]
    assert sorted(there - known.keys()) == [], "routes without a row"
    assert sorted(known.keys() - there) == [], "rows without a route"


@pytest.mark.parametrize(
    "hidden",
    [
        Mount("/admin", routes=[Served("/", print)]),
        Host("admin.example.com", Router()),
        WebSocketRoute("/live", print),
        Served("/everything", endpoint=type("Endpoint", (), {})),
    ],
)
def test_no_route_is_hidden_from_the_walk(hidden: BaseRoute) -> None:
    with pytest.raises(AssertionError, match=r"cannot go there|every method"):
        served([hidden])


def status_and_body(answer: Response, route: Route) -> tuple[int, Any]:
    return answer.status_code, answer.json() if route[0] != "HEAD" else UNAUTHENTICATED[1]


class TestTokens:
    def test_nobody_comes_in_without_a_good_one(self, walk: Walk) -> None:
        now = walk.container.clock()
        expired = walk.token("expired", walk.operator, expires_at=now)
        revoked = walk.token("revoked", walk.operator)
        with walk.container.db.system_transaction() as tx:
            tx.execute(sa.update(tokens).where(tokens.c.name == "revoked").values(revoked_at=now))
        cookie, _ = walk.session(walk.operator, "owner")
        bad = {
            "none": None,
            "unknown": mint_secret("live", secrets.token_bytes(24)),
            "expired": expired,
            "revoked": revoked,
            "a session's cookie": cookie,
            "a refresh token": mint_secret("refresh", secrets.token_bytes(24)),
        }
        for route in API_NEEDS:
            for what, token in bad.items():
                answer = walk.call(route, token)
                assert status_and_body(answer, route) == UNAUTHENTICATED, (route, what)
                assert answer.headers["WWW-Authenticate"] == "Bearer"

    def test_a_cookie_is_no_credential_here(self, walk: Walk) -> None:
        browser = walk.reader("owner")
        for method, path in API_NEEDS:
            answer = browser.client.request(method, filled(path))
            assert answer.status_code == 401, (method, path)

    def test_without_the_scope_the_error_names_it(self, walk: Walk) -> None:
        for route, needs in API_NEEDS.items():
            scope = needs.removeprefix("operator ")
            if scope == "token":
                continue
            holder = walk.operator if needs.startswith("operator") else walk.account
            answer = walk.call(route, walk.without(scope, holder))
            assert answer.status_code == 403, route
            if route[0] != "HEAD":
                assert answer.json() == {"message": f"This token lacks the scope {scope}."}, route

    def test_with_that_scope_alone_it_comes_in(self, walk: Walk) -> None:
        for route, needs in API_NEEDS.items():
            scope = needs.removeprefix("operator ")
            holder = walk.operator if needs.startswith("operator") else walk.account
            token = walk.token("none at all", holder, scopes=[]) if scope == "token" else None
            answer = walk.call(route, token or walk.with_only(scope, holder))
            assert answer.status_code not in (401, 403), (route, answer.text)
            assert answer.status_code < 500, (route, answer.text)

    def test_what_is_an_operator_s_is_nobody_else_s(self, walk: Walk) -> None:
        strangers = {
            "another account": walk.account.token,
            "an app of the operator": walk.app_token(walk.operator),
            "a sub account of the operator": make_teammate(
                walk.container, walk.operator, make_sub_account(walk.container, walk.operator)
            ).token,
            "a page of a member": walk.page_token(walk.operator, "member"),
        }
        for route, needs in API_NEEDS.items():
            if needs.startswith("operator"):
                for what, token in strangers.items():
                    answer = walk.call(route, token)
                    assert answer.status_code == 403, (route, what)
                    refused = NOT_FOR_APPS if what.startswith("an app") else "Only an operator may do this"
                    if route[0] != "HEAD":  # which is answered without words
                        assert answer.json()["message"].startswith(refused), (route, what)

    @pytest.mark.parametrize("role", ["owner", "operator"])
    def test_a_page_of_an_operator_does_what_they_may(self, walk: Walk, role: Role) -> None:
        token = walk.page_token(walk.operator, role)
        for route, needs in API_NEEDS.items():
            if needs.startswith("operator"):
                assert walk.call(route, token).status_code not in (401, 403), route

    def test_the_metrics_are_an_operator_s(self, walk: Walk) -> None:
        route = ("GET", "/metrics")
        for token in (None, walk.account.token, walk.app_token(walk.operator)):
            assert walk.call(route, token).status_code == 401
        assert walk.call(route, walk.page_token(walk.operator, "member")).status_code == 401
        assert walk.call(route, walk.operator.token).status_code == 200


def pages(*needs: str) -> list[Route]:
    return [route for route, need in PAGE_NEEDS.items() if not needs or need in needs]


def leads_to_sign_in(answer: Response) -> bool:
    location = answer.headers.get("Location", "")
    return answer.status_code == 303 and (location == "/sign-in" or location.startswith("/sign-in?"))


class TestPages:
    def test_a_stranger_is_led_to_the_sign_in(self, walk: Walk) -> None:
        ended = walk.container.clock() - timedelta(seconds=1)
        for browser in (walk.reader(None), walk.reader("owner", expires_at=ended)):
            for route in pages():
                assert leads_to_sign_in(walk.visit(route, browser)), route

    def test_a_user_without_the_second_factor_must_sign_in(self, walk: Walk) -> None:
        browser = walk.reader("owner", awaits_code=True)
        for route in pages():
            assert leads_to_sign_in(walk.visit(route, browser)), route

    def test_whoever_was_removed_from_the_account_is_a_stranger(self, walk: Walk) -> None:
        person = make_user(walk.container, walk.account.id, "leaver@example.com")
        walk.people[f"operator{walk.account.id}@example.com"] = person
        browser = walk.reader("operator")
        with walk.container.db.system_transaction() as tx:
            tx.execute(sa.delete(memberships).where(memberships.c.person_id == person))
        for route in pages():
            if route[1] != "/sign-in/confirm":
                assert leads_to_sign_in(walk.visit(route, browser)), route

    def test_a_program_without_a_session_gets_401(self, walk: Walk) -> None:
        """A token is no session, whatever it may do."""
        browser = walk.reader(None)
        for token in (None, walk.operator.token):
            headers = {"Accept": "application/json"}
            headers |= {} if token is None else {"Authorization": f"Bearer {token}"}
            for route in pages():
                answer = walk.visit(route, browser, headers=headers)
                assert (answer.status_code, answer.json()) == (401, {"message": "Sign in first."}), route

    def test_a_teammate_without_the_role_may_not(self, walk: Walk) -> None:
        browser = walk.reader("member")
        for route in pages("owner", "confirmed owner"):
            assert walk.visit(route, browser).status_code == 403, route

    def test_a_teammate_may_what_everybody_may(self, walk: Walk) -> None:
        for route in pages("reader", "confirmed reader"):
            answer = walk.visit(route, walk.reader("member"))
            assert answer.status_code not in (401, 403), route
            assert not leads_to_sign_in(answer), route
            assert answer.status_code < 500, route

    def test_the_print_room_exists_only_for_operators(self, walk: Walk) -> None:
        for browser in (walk.reader("owner"), walk.reader("member", runs_it=True)):
            for route in pages("operator", "confirmed operator"):
                assert walk.visit(route, browser).status_code == 404, route

    def test_an_owner_may_everything(self, walk: Walk) -> None:
        for route in pages():
            answer = walk.visit(route, walk.reader("owner", runs_it=True, mode="live"))
            assert answer.status_code not in (401, 403), route
            assert not answer.headers.get("Location", "").startswith("/sign-in"), route
            assert answer.status_code < 500, route

    def test_whoever_gave_the_password_long_ago_gives_it_again(self, walk: Walk) -> None:
        long_ago = walk.container.clock() - CONFIRMATION_LIFETIME - timedelta(seconds=1)
        browser = walk.reader("owner", runs_it=True, confirmed_at=long_ago)
        for route in pages("confirmed reader", "confirmed owner", "confirmed operator"):
            answer = walk.visit(route, browser)
            assert answer.status_code == 303, route
            assert answer.headers["Location"].startswith("/sign-in/confirm"), route
        for route in pages("owner", "operator"):
            answer = walk.visit(route, browser)
            assert "/sign-in" not in answer.headers.get("Location", ""), route

    def test_no_form_is_taken_that_is_not_ours(self, walk: Walk) -> None:
        browser, other = walk.reader("owner", runs_it=True), walk.reader("owner", runs_it=True)
        posts = [route for route in pages() if route[0] == "POST"]
        assert posts
        for route in posts:
            for csrf in (None, "", "0" * 64, other.csrf()):
                assert walk.visit(route, browser, csrf=csrf).status_code == 403, (route, csrf)
            for headers in ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
                assert walk.visit(route, browser, headers=headers).status_code == 403, (route, headers)

    def test_no_page_is_kept_by_a_browser_or_shown_within_another_site(self, walk: Walk) -> None:
        browser = walk.reader("owner", runs_it=True)
        for route in pages():
            if route[0] == "GET":
                answer = walk.visit(route, browser)
                assert "no-store" in answer.headers["Cache-Control"], route
                policy = answer.headers.get("Content-Security-Policy", "")
                is_page = answer.headers["Content-Type"].startswith("text/html")
                assert "frame-ancestors 'none'" in policy or not is_page, route
                assert answer.headers["X-Frame-Options"] == "DENY", route


class TestHalfWay:
    """After the password, and before the second factor."""

    def test_the_code_page_opens_only_after_the_password(self, walk: Walk) -> None:
        for route in [route for route, needs in OPEN_NEEDS.items() if needs == "password given"]:
            assert leads_to_sign_in(walk.visit(route, walk.reader(None))), route
            answer = walk.visit(route, walk.reader("owner", awaits_code=True))
            assert answer.status_code in (200, 422), route
            if route[0] == "POST":
                half = walk.reader("owner", awaits_code=True)
                assert walk.visit(route, half, csrf="").status_code == 403


class TestOpen:
    def test_what_needs_nothing_asks_for_nothing(self, walk: Walk) -> None:
        for (method, path), needs in OPEN_NEEDS.items():
            if needs == "nothing":
                answer = walk.http.request(method, filled(path), headers={"Accept": ACCEPTS}, follow_redirects=False)
                assert answer.status_code not in (401, 403), (method, path)
                assert not leads_to_sign_in(answer), (method, path)

    def test_a_form_before_anyone_is_signed_in_has_its_word_too(self, walk: Walk) -> None:
        browser, other = walk.reader(None), walk.reader(None)
        browser.csrf()
        for route, needs in OPEN_NEEDS.items():
            if needs == "form":
                for csrf in (None, "", other.csrf()):
                    assert walk.visit(route, browser, csrf=csrf).status_code == 403, (route, csrf)
                answer = walk.visit(route, walk.reader(None))
                assert answer.status_code not in (401, 403), route

    def test_what_has_its_own_credential_is_closed_without_it(self, walk: Walk) -> None:
        for (method, path), needs in OPEN_NEEDS.items():
            if needs in ("key", "signature"):
                for token in (None, walk.operator.token):
                    answer = walk.call((method, path), token)
                    assert answer.status_code in (400, 401, 403, 404, 410, 422), (method, path)

    def test_an_app_shows_its_own_credentials(self, walk: Walk) -> None:
        form = {"grant_type": "refresh_token", "refresh_token": "x", "token": "x", "client_id": "nobody"}
        for (method, path), needs in OPEN_NEEDS.items():
            if needs == "client":
                for headers in ({}, {"Authorization": f"Bearer {walk.operator.token}"}):
                    answer = walk.http.request(method, path, data=form, headers=headers)
                    assert answer.status_code in (400, 401), (path, answer.text)
                    assert answer.json()["error"] in ("invalid_client", "invalid_request"), path
