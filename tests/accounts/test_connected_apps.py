"""OAuth clients and the apps that people connect: what an account sees of them, and how they end."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.accounts import service
from quillpost.accounts.audit.labels import describe_entry
from quillpost.accounts.audit.service import Actor, list_audit_entries
from quillpost.accounts.oauth import clients
from quillpost.accounts.oauth import service as oauth_service
from quillpost.accounts.oauth import tokens as app_tokens
from quillpost.accounts.oauth.clients import ClientRegistration, OAuthClient, find_redirect_uri_error
from quillpost.accounts.oauth.service import AppConnection, AppGrant
from quillpost.accounts.oauth.tokens import AuthorizationCode, TokenFamily, TokenPair, TokenReuse
from quillpost.app.container import Container
from quillpost.core.database import Tenant
from quillpost.core.database.tables import accounts
from quillpost.core.database.tables.base import sub_accounts, tokens
from quillpost.core.errors import Invalid, NotFound
from quillpost.core.tokens import hash_token, is_of_kind, mint_secret
from support.factories import Account, Clock, make_sub_account
from support.oauth_app import ACTOR, REDIRECT_URI, connect_app, register_client
from support.rows import execute, run, run_as
from support.sign_in import DANA, is_good, make_user
from support.test_client import TestClient

pytestmark = pytest.mark.usefixtures("clean_database")

GOOD_ADDRESSES = [
    "https://app.example/back", "https://app.example", "https://app.example:8443/back?shop=7",
    "http://localhost:3000/back", "http://127.0.0.1/back", "http://[::1]:8080/back", "com.example.app:/back",
    "com.example.app://back",
]  # fmt: skip
BAD_ADDRESSES = {
    "must begin with https://": [
        "http://app.example/back", "http://localhost.evil.example/", "http://127.0.0.1.evil.example/",
        "ftp://app.example/", "myapp:/back", "javascript:alert(1)", "data:text/html,x", "/back", "app.example/back",
    ],
    "names no host": ["https:///back", "https:back"],
    "fragment": ["https://app.example/back#part", "https://app.example/back#"],
    "wildcard": ["https://*.app.example/", "https://app.example/*"],
    "user name": ["https://dana@app.example/", "https://dana:secret@app.example/"],
    "no spaces": [
        "https://app.example/a b", "https://app.example/\n", "https://app.example\\@evil.example/",
        "https://äpp.example/", "https://app.example/<b>",
    ],
    "no address": ["https://[::1/", "https://app.example:port/", "https://app.example:99999/"],
    "not written plainly": ["HTTPS://app.example/", "https://app.example/?", "com.example.app:///back"],
    "that we add ourselves": ["https://app.example/?code=1", "https://app.example/?state"],
    "2,000": ["https://app.example/" + "x" * 2_000],
}  # fmt: skip


def test_an_app_may_be_led_back_to_addresses_that_lead_no_code_astray(subtests: pytest.Subtests) -> None:
    for address in GOOD_ADDRESSES:
        with subtests.test(address):
            assert find_redirect_uri_error(address) is None
    for why, addresses in BAD_ADDRESSES.items():
        for address in addresses:
            with subtests.test(address[:40]):
                assert why in (find_redirect_uri_error(address) or "")


def test_a_client_gets_a_secret_that_is_readable_once(container: Container, owner: Account) -> None:
    client, secret = register_client(container, owner.id)
    assert secret is not None
    assert is_of_kind(secret, "secret")
    assert client.secret_hint == secret[-4:]
    [row] = execute(container, sa.select(accounts.oauth_clients).where(accounts.oauth_clients.c.id == client.id))
    assert bytes(row.secret_digest) == hash_token(secret)
    assert secret not in str(row)
    with container.db.system_transaction() as tx:
        assert [clients.is_client_secret(tx, client, each) for each in (secret, secret[:-1])] == [True, False]
        assert clients.find_by_client_id(tx, client.client_id) == client
        assert clients.find_by_client_id(tx, "unknown") is None
    # Clients of others are visible where they are connected, so that even the digest is not.
    with container.db.transaction(Tenant(owner.id)) as tx:
        second = clients.rotate_client_secret(tx, owner.id, client.id, ACTOR, now=container.clock())
        with pytest.raises(sa.exc.ProgrammingError, match="permission denied"), tx.begin_nested():
            tx.execute(sa.select(accounts.oauth_clients.c.secret_digest))
    assert [run(container, clients.is_client_secret, client, each) for each in (secret, second)] == [False, True]


def test_each_field_has_its_bounds(container: Container, owner: Account, subtests: pytest.Subtests) -> None:
    cases: list[dict[str, Any]] = [
        {"name": "x" * 101}, {"name": "Letter\u202ehead"}, {"redirect_uris": ()}, {"website": "app.example"},
        {"redirect_uris": tuple(f"https://app.example/{n}" for n in range(21))}, {"website": "https://[::1"},
        {"website": "https://dana@app.example"}, {"website": "https://app.example/" + "x" * 2_000}, {"scopes": []},
        {"name": " ", "redirect_uris": ("http://app.example/",), "website": "javascript:alert(1)", "scopes": ["sudo"]},
    ]  # fmt: skip
    for changes in cases:
        with subtests.test(str(changes)[:60]):
            with pytest.raises(Invalid) as refused:
                register_client(container, owner.id, **changes)
            assert refused.value.fields.keys() == changes.keys(), "all are reported at once"
    with pytest.raises(Invalid) as refused:
        register_client(container, owner.id, name=f"My {mint_secret('secret', bytes(24))}")
    assert "holds a secret" in refused.value.fields["name"][0]


def test_a_change_writes_over_all_that_was_filled_in(container: Container, owner: Account) -> None:
    client, _ = register_client(container, owner.id, website="https://app.example", scopes=["send:write"])
    registration = ClientRegistration("Renamed", [" https://app.example/a ", "https://app.example/a", ""])
    with container.db.transaction(Tenant(owner.id)) as tx:
        changed = clients.update_client(tx, owner.id, client.id, registration, ACTOR, now=container.clock())
        assert clients.find_client(tx, owner.id, client.id) == changed
    assert (changed.name, changed.website, changed.scopes) == ("Renamed", None, None)
    assert changed.redirect_uris == ["https://app.example/a"]


def test_a_stranger_sees_changes_and_deletes_no_client(container: Container, owner: Account, stranger: Account) -> None:
    client, _ = register_client(container, owner.id)
    now, registration = container.clock(), ClientRegistration("Mine", [REDIRECT_URI])
    with container.db.transaction(Tenant(stranger.id)) as tx:
        assert (clients.list_clients(tx, stranger.id), clients.list_clients(tx, owner.id)) == ([], [])
        for account_id in (stranger.id, owner.id):
            with pytest.raises(NotFound):
                clients.find_client(tx, account_id, client.id)
            with pytest.raises(NotFound):
                clients.update_client(tx, account_id, client.id, registration, ACTOR, now=now)
            for do in (clients.rotate_client_secret, clients.delete_client):
                with pytest.raises(NotFound):
                    do(tx, account_id, client.id, ACTOR, now=now)
    assert run_as(container, Tenant(owner.id), clients.list_clients, owner.id) == [client]


def test_a_deleted_client_takes_its_tokens_along_in_every_account_which_has_it_in_its_log(
    container: Container, http: TestClient, owner: Account, stranger: Account
) -> None:
    app = connect_app(container, http, owner)
    own = app.client
    app.tokens()
    app.code()  # which is never exchanged: nothing ends with that
    app.client, app.secret = register_client(container, stranger.id, name="Of a stranger")
    pair = app.tokens()
    with container.db.transaction(Tenant(owner.id)) as tx:
        assert [each.name for each in clients.list_clients(tx, owner.id)] == ["Letterhead"]
        with pytest.raises(NotFound):  # a connected client is still not one's own
            clients.delete_client(tx, owner.id, app.client.id, ACTOR, now=container.clock())
    with container.db.system_transaction() as tx:
        assert clients.count_connections(tx, app.client.id, now=container.clock()) == 1
        clients.delete_client(tx, stranger.id, app.client.id, Actor("mallory@example.com"), now=container.clock())
        clients.delete_client(tx, owner.id, own.id, ACTOR, now=container.clock())
        ended = [entry for entry in list_audit_entries(tx, owner.id) if entry.act == "app.disconnected"]
        assert [entry.act for entry in list_audit_entries(tx, stranger.id)] == ["client.deleted", "client.created"]
    assert [describe_entry(entry) for entry in ended] == [
        "owner@example.com disconnected an app: Letterhead (because: its client was deleted)",
        "app “Of a stranger” disconnected an app (because: its client was deleted)",
    ]
    assert app.ping(pair["access_token"]).status_code == 401
    assert app.refresh(pair["refresh_token"]).json()["error"] == "invalid_client"


SOME = frozenset({"orders:read", "lists:read"})


class Apps:
    """Dana of the owner's account connects an app that a stranger has registered."""

    def __init__(self, container: Container, owner: Account, stranger: Account) -> None:
        self.container, self.db, self.id = container, container.db, owner.id
        self.client = register_client(container, stranger.id)[0]
        self.dana = make_user(container, owner.id, DANA)
        self.leave = AppGrant(owner.id, None, "test", self.dana, SOME)

    def issue_code(self, leave: AppGrant) -> str:
        with self.db.system_transaction() as tx:
            return app_tokens.issue_code(
                tx, self.client, leave, ACTOR, redirect_uri=REDIRECT_URI, challenge=None, requested_scopes=None,
                now=self.container.clock(),
            )  # fmt: skip

    def read(self, code: str) -> AuthorizationCode | TokenReuse | None:
        return run(self.container, app_tokens.read_code, code, self.client, now=self.container.clock())

    def good_code(self, leave: AppGrant | None = None) -> AuthorizationCode:
        code = self.read(self.issue_code(leave or self.leave))
        assert isinstance(code, AuthorizationCode)
        return code

    def exchange(self, code: AuthorizationCode) -> TokenPair:
        pair = run(self.container, app_tokens.exchange_code, code, self.client, now=self.container.clock())
        assert isinstance(pair, TokenPair)
        return pair

    def connect(self, leave: AppGrant | None = None, **changes: object) -> TokenPair:
        return self.exchange(self.good_code(replace(leave or self.leave, **changes)))  # type: ignore[arg-type]

    def refresh(self, pair: TokenPair, family: TokenFamily) -> TokenPair | TokenReuse | None:
        now, token = self.container.clock(), pair.refresh_token
        return run(self.container, app_tokens.exchange_refresh_token, token, family, self.client, scopes=SOME, now=now)

    def is_over(self, pair: TokenPair) -> bool:
        return self._read_refresh_token(pair, self.client) is None

    def family(self, pair: TokenPair, client: OAuthClient | None = None) -> TokenFamily:
        family = self._read_refresh_token(pair, client or self.client)
        assert isinstance(family, TokenFamily)
        return family

    def listed(self, account_id: int | None = None, branch: int | None = None) -> Sequence[AppConnection]:
        """As the account sees them, or another account or a branch."""
        with self.db.transaction(Tenant(account_id or self.id, branch)) as tx:
            return oauth_service.list_connections(tx, self.id, now=self.container.clock())

    def disconnect(self, grant_id: int, account_id: int | None = None, *, seen_by: int | None = None) -> None:
        with self.db.transaction(Tenant(seen_by or self.id)) as tx:
            oauth_service.disconnect_app(tx, account_id or self.id, grant_id, ACTOR, now=self.container.clock())

    def _read_refresh_token(self, pair: TokenPair, client: OAuthClient) -> TokenFamily | TokenReuse | None:
        token, now = pair.refresh_token, self.container.clock()
        return run(self.container, app_tokens.read_refresh_token, token, client, now=now)


@pytest.fixture
def apps(container: Container, owner: Account, stranger: Account) -> Apps:
    return Apps(container, owner, stranger)


def test_a_leave_is_a_connected_app_once_its_code_was_exchanged(apps: Apps, owner: Account, clock: Clock) -> None:
    code = apps.issue_code(apps.leave)
    good = apps.read(code)
    assert isinstance(good, AuthorizationCode)
    assert apps.listed() == []
    clock.advance(seconds=5)
    pair = apps.exchange(good)
    assert is_good(apps.container, pair.access_token)
    [app] = apps.listed()
    assert (app.client_name, app.person, app.mode, app.sub_account_title) == ("Letterhead", DANA, "test", None)
    assert app.scopes == ["orders:read", "lists:read"]
    assert (app.connected_at, app.last_used_at) == (clock.now(), clock.now())
    with apps.db.system_transaction() as tx:
        tables = (accounts.oauth_codes, accounts.refresh_tokens, tokens)
        kept = "".join(str(tx.execute(sa.select(table)).all()) for table in tables)
        [noted] = [entry for entry in list_audit_entries(tx, owner.id) if entry.act == "app.allowed"]
    assert not any(secret in kept for secret in (code, pair.access_token, pair.refresh_token))
    assert (noted.actor, noted.network, noted.about["name"]) == ("owner@example.com", "192.0.2.7", "Letterhead")

    assert isinstance(apps.read(code), TokenReuse)
    newest = run_as(apps.container, Tenant(owner.id), list_audit_entries, owner.id)[0]
    assert describe_entry(newest) == "app “Letterhead” used a code again, and was disconnected", "it is named once"
    assert newest.about["name"] == "Letterhead"


def test_the_token_of_an_app_says_whose_it_is(apps: Apps, owner: Account) -> None:
    branch = make_sub_account(apps.container, owner)
    pair = apps.connect(sub_account_id=branch, mode="live")
    caller, _ = service.authenticate(apps.db, pair.access_token, limit=10, now=apps.container.clock())
    assert (caller.account_id, caller.sub_account_id, caller.mode) == (owner.id, branch, "live")
    assert (caller.scopes, caller.person_id, caller.is_operator) == (SOME, apps.dana, False)
    assert caller.grant_id is not None
    named = sa.select(tokens.c.name, tokens.c.hint).where(tokens.c.grant_id == caller.grant_id)
    assert execute(apps.container, named) == [("Letterhead", pair.access_token[-4:])]


def test_an_owner_disconnects_an_app_from_one_moment_to_the_next(apps: Apps, owner: Account) -> None:
    gone, kept = [apps.connect(), apps.connect()], apps.connect(mode="live")
    families = [apps.family(pair) for pair in gone]
    newest, _, oldest = apps.listed()
    apps.disconnect(oldest.grant_id)
    for pair, family in zip(gone, families, strict=True):
        assert (is_good(apps.container, pair.access_token), apps.is_over(pair)) == (False, True)
        assert apps.refresh(pair, family) is None, "nor does one that is being refreshed get more tokens"
    left = sa.select(tokens.c.hint).where(tokens.c.grant_id.is_not(None), tokens.c.revoked_at.is_(None))
    assert execute(apps.container, left) == [(kept.access_token[-4:],)]
    assert apps.listed()[0].grant_id == newest.grant_id
    noted = run_as(apps.container, Tenant(owner.id), list_audit_entries, owner.id)[0]
    assert (noted.act, noted.actor) == ("app.disconnected", "owner@example.com")
    assert (noted.about["name"], noted.about["connections"]) == ("Letterhead", 2)
    with pytest.raises(NotFound):
        apps.disconnect(oldest.grant_id)


def test_a_stranger_sees_and_ends_no_connection(apps: Apps, owner: Account, stranger: Account) -> None:
    pair = apps.connect()
    [app] = apps.listed()
    assert apps.listed(stranger.id) == []
    for account_id in (stranger.id, owner.id):
        with pytest.raises(NotFound):
            apps.disconnect(app.grant_id, account_id, seen_by=stranger.id)
    with apps.db.transaction(Tenant(stranger.id)) as tx:
        assert oauth_service.list_connections(tx, stranger.id, now=apps.container.clock()) == []
        assert oauth_service.end_grants(tx, [app.grant_id], "person", now=apps.container.clock()) == 0
    assert is_good(apps.container, pair.access_token)


def test_removing_a_member_ends_all_of_their_apps(apps: Apps, owner: Account) -> None:
    pair = apps.connect()
    kept = apps.connect(person_id=make_user(apps.container, owner.id, "other@example.com"))
    with apps.db.system_transaction() as tx:
        ended = [oauth_service.end_person_grants(tx, owner.id, apps.dana, now=apps.container.clock()) for _ in "ab"]
    assert ended == [1, 0]
    grants = accounts.oauth_grants.c
    assert execute(apps.container, sa.select(grants.ended_by).order_by(grants.id)) == [("membership",), (None,)]
    assert [is_good(apps.container, each.access_token) for each in (pair, kept)] == [False, True]


def test_a_leave_holds_no_longer_than_what_it_rests_on(apps: Apps, owner: Account) -> None:
    north, south = (make_sub_account(apps.container, owner) for _ in range(2))
    whole, branch = apps.connect(), apps.connect(sub_account_id=north)
    execute(apps.container, sa.update(accounts.memberships).values(role="member", sub_account_id=south))
    assert (apps.is_over(whole), apps.is_over(branch)) == (True, True)
    execute(apps.container, sa.update(accounts.memberships).values(sub_account_id=north))
    assert apps.is_over(whole)
    apps.family(branch)
    execute(apps.container, sa.update(sub_accounts).values(deleted_at=apps.container.clock()))
    assert apps.is_over(branch)


def test_a_refresh_is_held_to_what_role_and_registration_allow_by_then(apps: Apps, stranger: Account) -> None:
    everything = apps.connect(scopes=None)
    execute(apps.container, sa.update(accounts.memberships).values(role="member"))
    scopes = apps.family(everything).grant.scopes
    assert scopes is not None
    assert "account:write" not in scopes
    narrow = ClientRegistration("Letterhead", [REDIRECT_URI], scopes=["orders:read"])
    with apps.db.transaction(Tenant(stranger.id)) as tx:
        now = apps.container.clock()
        narrowed = clients.update_client(tx, stranger.id, apps.client.id, narrow, ACTOR, now=now)
    assert apps.family(everything, narrowed).grant.scopes == frozenset({"orders:read"})


@pytest.mark.parametrize("what", ["code", "refresh"])
def test_one_of_two_simultaneous_claims_wins_and_the_reuse_then_ends_both(apps: Apps, what: str) -> None:
    """Both have read it as good before either claims it."""
    pair, code, together = apps.connect(), apps.good_code(), Barrier(2)
    family = apps.family(pair)

    def claim(_: int) -> TokenPair | TokenReuse | None:
        now = apps.container.clock()
        with apps.db.system_transaction() as tx:
            together.wait()
            if what == "code":
                return app_tokens.exchange_code(tx, code, apps.client, now=now)
            token = pair.refresh_token
            return app_tokens.exchange_refresh_token(tx, token, family, apps.client, scopes=SOME, now=now)

    with ThreadPoolExecutor(2) as both:
        made = list(both.map(claim, range(2)))
    [won] = [each for each in made if isinstance(each, TokenPair)]
    [lost] = [each for each in made if isinstance(each, TokenReuse)]
    assert (lost.reason, lost.notify_person_id) == ("replay" if what == "code" else "reuse", apps.dana)
    assert not is_good(apps.container, won.access_token)
    assert apps.is_over(won)


def test_an_app_that_let_its_tokens_run_out_is_listed_no_longer(apps: Apps, clock: Clock) -> None:
    pair = apps.connect()
    clock.advance(days=200)
    apps.refresh(pair, apps.family(pair))
    clock.advance(days=364)
    assert len(apps.listed()) == 1
    clock.advance(days=1)
    assert len(apps.listed()) == 0
    assert run(apps.container, clients.count_connections, apps.client.id, now=clock.now()) == 0
