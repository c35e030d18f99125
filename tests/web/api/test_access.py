"""A walk over every route: each needs exactly what it should, and whoever lacks it is told so."""

import re
import secrets
from collections.abc import Iterable
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
from quillpost.core.database.tables.accounts import memberships, oauth_clients, oauth_grants, sessions
from quillpost.core.database.tables.base import tokens
from quillpost.core.tokens import mint_secret
from quillpost.web.api.dependencies import NOT_FOR_APPS
from quillpost.web.security import SESSION
from support.factories import Account, make_account, make_live, make_operator, make_sub_account, make_teammate
from support.route_access import API_NEEDS, OPEN_NEEDS, PAGE_NEEDS, Route
from support.rows import execute, run, scalar
from support.sign_in import ACCEPTS, Browser, make_user, sign_in_browser
from support.test_client import TestClient

UNAUTHENTICATED = (401, {"message": "Unauthenticated."})
PARAMETER = re.compile(r"\{[^}]+\}")
# Which of several strangers comes to which route: another one to the next, and in the long run each to all.
in_turns = pytest.mark.parametrize("turn", [0, *(pytest.param(n, marks=pytest.mark.long) for n in range(1, 7))])


def filled(path: str) -> str:
    """With a number and key of nothing everywhere, so that no call has an effect."""
    return PARAMETER.sub("0", path)


@dataclass
class Walk:
    """Everybody who might come; what they hold is made when it is first asked for."""

    container: Container
    http: TestClient
    account: Account
    operator: Account
    people: dict[str, int] = field(default_factory=dict)
    held: dict[str, str] = field(default_factory=dict)

    def call(self, route: Route, token: str | None) -> Response:
        method, pattern = route
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        body: dict[str, Any] | None = None if method in ("GET", "HEAD", "DELETE") else {}
        return self.http.request(method, filled(pattern), headers=headers, json=body)

    def token(self, name: str, account: Account, **how: Any) -> str:
        if name not in self.held:
            mode = "live" if account is self.operator else "test"
            known = {"mode": mode, "scopes": None, "now": self.container.clock(), "name": name}
            self.held[name] = run(self.container, insert_token, account.id, **known | how)[1]
        return self.held[name]

    def holder(self, needs: str) -> tuple[Account, str]:
        """Whose tokens may do it, with which scope."""
        account = self.operator if needs.startswith("operator") else self.account
        return account, needs.removeprefix("operator ")

    def session(self, account: Account, role: Role, **columns: Any) -> str:
        """A new session's cookie."""
        email, now = f"{role}{account.id}@example.com", self.container.clock()
        if email not in self.people:
            self.people[email] = make_user(self.container, account.id, email, role=role)
        with self.container.db.system_transaction() as tx:
            cookie = create_session(tx, self.people[email], awaits_code=False, address=None, browser=None, now=now)
            if columns:
                last = sa.select(sa.func.max(sessions.c.id)).scalar_subquery()
                tx.execute(sa.update(sessions).where(sessions.c.id == last).values(**columns))
        return cookie

    def reader(self, role: Role | None, *, runs_it: bool = False, **columns: Any) -> Browser:
        """A browser of somebody in this role, just signed in; of a stranger, if None. `runs_it`: the account
        is the operator's."""
        browser = sign_in_browser(self.http)
        browser.client.portal = self.http.portal
        if role is not None:
            account = self.operator if runs_it else self.account
            browser.client.cookies.set(SESSION, self.session(account, role, **columns))
        return browser

    def removed(self) -> Browser:
        """Somebody who was a member until just now."""
        browser = self.reader("operator")
        person_id = self.people[f"operator{self.account.id}@example.com"]
        execute(self.container, sa.delete(memberships).where(memberships.c.person_id == person_id))
        return browser

    def app_token(self, account: Account) -> str:
        """Of an app that the account's owner has connected, with everything that it could ask for."""
        self.session(account, "owner")
        now, person_id = self.container.clock(), self.people[f"owner{account.id}@example.com"]
        known = {"account_id": account.id, "person_id": person_id, "created_at": now}
        client = sa.insert(oauth_clients).values(
            **known, client_id=f"app{account.id}", name="App", is_public=True, updated_at=now,
            redirect_uris=["https://app.example.com/back"],
        )  # fmt: skip
        client_id = scalar(self.container, client.returning(oauth_clients.c.id))
        leave = sa.insert(oauth_grants).values(**known, client_id=client_id, mode="test", connected_at=now)
        grant_id = scalar(self.container, leave.returning(oauth_grants.c.id))
        return self.token("an app's", account, mode="test", grant_id=grant_id, person_id=person_id)

    def page_token(self, role: Role) -> str:
        """Of a page that somebody of the operator's account reads."""
        given = self.reader(role, runs_it=True, mode="live").post(
            "/session/token", headers={"Accept": "application/json"}
        )
        assert given.status_code == 200, given.text
        return next(str(value) for value in given.json().values() if str(value).startswith("qp_"))

    def visit(self, route: Route, browser: Browser, **how: Any) -> Response:
        method, pattern = route
        if method == "GET":
            return browser.get(filled(pattern), follow=False, **how)
        return browser.post(filled(pattern), follow=False, nothing="1", **how)

    def visit_all(self, routes: list[Route], role: Role, **how: Any) -> Iterable[tuple[Route, Response]]:
        """By one browser, until a form may have ended its session."""
        browser = self.reader(role, **how)
        for route in routes:
            yield route, self.visit(route, browser)
            if route[0] == "POST" and "{" not in route[1]:
                browser = self.reader(role, **how)


@pytest.fixture
def walk(container: Container, http: TestClient, unlimited_calls: None) -> Walk:
    account = make_account(container, http, "walker@example.com")
    return Walk(container, http, account, make_operator(container, http, mode="live"))


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


def test_the_table_has_every_route_and_no_other(http: TestClient) -> None:
    known = API_NEEDS | PAGE_NEEDS | OPEN_NEEDS
    assert len(known) == len(API_NEEDS) + len(PAGE_NEEDS) + len(OPEN_NEEDS)
    there = served(http.app.routes)  # type: ignore[attr-defined]
    assert sorted(there - known.keys()) == [], "routes without a row"
    assert sorted(known.keys() - there) == [], "rows without a route"
    for hidden in (
        Mount("/admin", routes=[Served("/", print)]), Host("admin.example.com", Router()),
        WebSocketRoute("/live", print), Served("/everything", endpoint=type("Endpoint", (), {})),
    ):  # fmt: skip
        with pytest.raises(AssertionError, match=r"cannot go there|every method"):
            served([hidden])


@in_turns
def test_nobody_calls_the_api_without_a_good_token(walk: Walk, turn: int) -> None:
    now = walk.container.clock()
    revoked = walk.token("revoked", walk.operator)
    is_it = sa.and_(tokens.c.name == "revoked", tokens.c.account_id == walk.operator.id)
    execute(walk.container, sa.update(tokens).where(is_it).values(revoked_at=now))
    session, good = walk.session(walk.operator, "owner"), walk.operator.token
    bad = {
        "unknown": mint_secret("live", secrets.token_bytes(24)),
        "one letter changed": good[:-1] + ("a" if good[-1] != "a" else "b"),
        "expired": walk.token("expired", walk.operator, expires_at=now), "revoked": revoked,
        "a session's cookie": session, "a refresh token": mint_secret("refresh", secrets.token_bytes(24)),
        "none, beside a cookie": None,
    }  # fmt: skip
    for number, route in enumerate(API_NEEDS, start=turn):
        other = [*bad][number % len(bad)]
        walk.http.cookies.clear()
        if other.endswith("cookie"):
            walk.http.cookies.set(SESSION, session)
        for what, token in (("none", None), (other, bad[other])):
            answer = walk.call(route, token)
            body = UNAUTHENTICATED[1] if route[0] == "HEAD" else answer.json()
            assert (answer.status_code, body) == UNAUTHENTICATED, (route, what)
            assert answer.headers["WWW-Authenticate"] == "Bearer"
            assert int(answer.headers["X-RateLimit-Remaining"]) >= 0


def test_exactly_the_scope_of_a_route_opens_it(walk: Walk) -> None:
    for route, needs in API_NEEDS.items():
        account, scope = walk.holder(needs)
        own = [] if scope == "token" else [scope]
        answer = walk.call(route, walk.token(f"{account.id} with {own}", account, scopes=own))
        assert answer.status_code not in (401, 403), (route, answer.text)
        assert answer.status_code < 500, (route, answer.text)
        if own:
            others = [other for other in SCOPES if other != scope]
            refused = walk.call(route, walk.token(f"{account.id} without {own}", account, scopes=others))
            assert refused.status_code == 403, route
            if route[0] != "HEAD":  # which is answered without words
                assert refused.json() == {"message": f"This token lacks the scope {scope}."}, route


def test_what_is_an_operator_s_is_nobody_else_s(walk: Walk) -> None:
    branch = make_sub_account(walk.container, walk.operator)
    strangers = {
        "another account": walk.account.token,
        "an app of the operator": walk.app_token(walk.operator),
        "a sub account of the operator": make_teammate(walk.container, walk.operator, branch).token,
        "a page of a member": walk.page_token("member"),
    }
    roles: list[Role] = ["owner", "operator"]
    pages = [walk.page_token(role) for role in roles]
    for route in [route for route, needs in API_NEEDS.items() if needs.startswith("operator")]:
        for what, token in strangers.items():
            answer = walk.call(route, token)
            assert answer.status_code == 403, (route, what)
            refused = NOT_FOR_APPS if what.startswith("an app") else "Only an operator may do this"
            if route[0] != "HEAD":
                assert answer.json()["message"].startswith(refused), (route, what)
        for token in pages:
            assert walk.call(route, token).status_code not in (401, 403), route
    metrics = ("GET", "/metrics")
    for stranger in (None, strangers["another account"], strangers["an app of the operator"]):
        assert walk.call(metrics, stranger).status_code == 401
    assert walk.call(metrics, strangers["a page of a member"]).status_code == 401
    assert walk.call(metrics, walk.operator.token).status_code == 200


def test_a_token_tells_its_mode_and_its_scheme_is_read_in_any_case(owner: Account, container: Container) -> None:
    assert owner.get("/ping", headers={"Authorization": f"bearer {owner.token}"}).json()["test_mode"] is True
    assert owner.get("/ping").json() == {"message": "pong", "test_mode": True}
    live = make_live(container, owner)
    assert live.get("/ping").json() == {"message": "pong", "test_mode": False}
    assert live.get(f"/orders/{owner.send().json()['id']}").status_code == 404


def test_another_accounts_order_looks_like_one_that_does_not_exist(owner: Account, stranger: Account) -> None:
    order_id = owner.send().json()["id"]
    odd = (order_id + 1_000, 0, -1, "x", "1.0", 2**63, "9" * 5_000, "%00", "\uff11")
    for (method, path), needs in API_NEEDS.items():
        if "{order_id}" not in path or "operator" in needs or method == "HEAD":
            continue
        urls = [path.removeprefix("/api/v2").format(order_id=each) for each in (order_id, *odd)]
        answers = [stranger.call(method, url, json=None if method == "GET" else {}) for url in urls]
        assert {(answer.status_code, answer.text) for answer in answers} == {(404, '{"message":"Not Found"}')}, path
    assert stranger.get("/orders/list").json()["meta"]["total"] == 0
    assert owner.get(f"/orders/{order_id}").json()["cancellable"] is True


def pages(*needs: str) -> list[Route]:
    return [route for route, need in PAGE_NEEDS.items() if not needs or need in needs]


def leads_to_sign_in(answer: Response) -> bool:
    location = answer.headers.get("Location", "")
    return answer.status_code == 303 and (location == "/sign-in" or location.startswith("/sign-in?"))


@in_turns
def test_a_page_leads_whoever_is_not_signed_in_to_the_sign_in(walk: Walk, turn: int) -> None:
    """A program gets 401: a token is no session, whatever it may do."""
    ended = walk.container.clock() - timedelta(seconds=1)
    others = {
        "ended": walk.reader("owner", expires_at=ended),
        "without the second factor": walk.reader("owner", awaits_code=True),
        "removed": walk.removed(),
    }
    stranger = walk.reader(None)
    for number, route in enumerate(pages(), start=turn):
        assert leads_to_sign_in(walk.visit(route, stranger)), route
        other = [*others][number % 3]
        if other != "removed" or route[1] != "/sign-in/confirm":
            assert leads_to_sign_in(walk.visit(route, others[other])), (route, other)
        token = {"Authorization": f"Bearer {walk.operator.token}"} if number % 2 else {}
        refused = walk.visit(route, stranger, headers={"Accept": "application/json"} | token)
        assert (refused.status_code, refused.json()) == (401, {"message": "Sign in first."}), (route, token)


def test_teammates_may_what_everybody_may_and_owners_and_operators_everything_within_our_pages(walk: Walk) -> None:
    """No page is kept by a browser, or shown within another site."""
    for route, answer in walk.visit_all(pages("reader", "confirmed reader"), "member"):
        assert answer.status_code not in (401, 403), route
        assert not leads_to_sign_in(answer), route
        assert answer.status_code < 500, route
    member = walk.reader("member")
    for route in pages("owner", "confirmed owner"):
        assert walk.visit(route, member).status_code == 403, route
    for browser in (walk.reader("owner"), walk.reader("member", runs_it=True)):
        for route in pages("operator", "confirmed operator"):
            assert walk.visit(route, browser).status_code == 404, route
    for route, answer in walk.visit_all(pages(), "owner", runs_it=True, mode="live"):
        assert answer.status_code not in (401, 403), route
        assert not answer.headers.get("Location", "").startswith("/sign-in"), route
        assert answer.status_code < 500, route
        if route[0] == "GET":
            assert "no-store" in answer.headers["Cache-Control"], route
            assert answer.headers["X-Frame-Options"] == "DENY", route
            is_page = answer.headers["Content-Type"].startswith("text/html")
            assert not is_page or "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"], route


def test_whoever_gave_the_password_long_ago_gives_it_again(walk: Walk) -> None:
    long_ago = walk.container.clock() - CONFIRMATION_LIFETIME - timedelta(seconds=1)
    browser = walk.reader("owner", runs_it=True, confirmed_at=long_ago)
    for route in pages("confirmed reader", "confirmed owner", "confirmed operator"):
        answer = walk.visit(route, browser)
        assert answer.status_code == 303, route
        assert answer.headers["Location"].startswith("/sign-in/confirm"), route
    for route in pages("owner", "operator"):
        answer = walk.visit(route, browser)
        assert "/sign-in" not in answer.headers.get("Location", ""), route


@in_turns
def test_no_form_is_taken_that_is_not_ours(walk: Walk, turn: int) -> None:
    browser, other = walk.reader("owner", runs_it=True), walk.reader("owner", runs_it=True)
    wrong: list[dict[str, Any]] = [
        *({"csrf": csrf} for csrf in (None, "", "0" * 64, other.csrf())),
        *({"headers": each} for each in ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"})),
    ]
    posts = [route for route in pages() if route[0] == "POST"]
    for number, route in enumerate(posts, start=turn):
        for how in (wrong[number % 4], wrong[4 + number % 2]):
            assert walk.visit(route, browser, **how).status_code == 403, (route, how)


def test_the_code_page_opens_only_after_the_password(walk: Walk) -> None:
    for route in [route for route, needs in OPEN_NEEDS.items() if needs == "password given"]:
        assert leads_to_sign_in(walk.visit(route, walk.reader(None))), route
        half = walk.reader("owner", awaits_code=True)
        assert walk.visit(route, half).status_code in (200, 422), route
        if route[0] == "POST":
            assert walk.visit(route, half, csrf="").status_code == 403


def test_what_is_open_asks_for_its_own_credentials_and_for_nothing_else(walk: Walk) -> None:
    stranger, other, form = walk.reader(None), walk.reader(None), {"client_id": "nobody"}
    form |= {"grant_type": "refresh_token", "refresh_token": "x", "token": "x"}
    for route, needs in OPEN_NEEDS.items():
        method, path = route
        if needs == "nothing":
            answer = walk.http.request(method, filled(path), headers={"Accept": ACCEPTS}, follow_redirects=False)
            assert answer.status_code not in (401, 403), route
            assert not leads_to_sign_in(answer), route
        elif needs == "form":  # before anyone is signed in it has its word too
            for csrf in (None, "", other.csrf()):
                assert walk.visit(route, stranger, csrf=csrf).status_code == 403, (route, csrf)
            assert walk.visit(route, walk.reader(None)).status_code not in (401, 403), route
        elif needs in ("key", "signature"):
            for token in (None, walk.operator.token):
                assert walk.call(route, token).status_code in (400, 401, 403, 404, 410, 422), route
        elif needs == "client":
            for headers in ({}, {"Authorization": f"Bearer {walk.operator.token}"}):
                answer = walk.http.request(method, path, data=form, headers=headers)
                assert answer.status_code in (400, 401), (path, answer.text)
                assert answer.json()["error"] in ("invalid_client", "invalid_request"), path
        else:
            assert needs in ("metrics", "password given"), route
