"""Connected apps: what an account sees of them, and how they end."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier

import pytest
import sqlalchemy as sa

from quillpost.accounts import service
from quillpost.accounts.audit.labels import describe_entry
from quillpost.accounts.audit.service import list_audit_entries
from quillpost.accounts.oauth import clients
from quillpost.accounts.oauth import service as oauth_service
from quillpost.accounts.oauth import tokens as app_tokens
from quillpost.accounts.oauth.clients import ClientRegistration, OAuthClient
from quillpost.accounts.oauth.service import AppConnection, AppGrant
from quillpost.accounts.oauth.tokens import AuthorizationCode, TokenFamily, TokenPair, TokenReuse
from quillpost.app.container import Container
from quillpost.core.database import Tenant
from quillpost.core.database.tables.accounts import memberships, oauth_codes, oauth_grants, refresh_tokens
from quillpost.core.database.tables.base import sub_accounts, tokens
from quillpost.core.errors import NotFound
from support.browser_sessions import make_user
from support.factories import Account, Clock, make_sub_account
from support.oauth_app import ACTOR, REDIRECT_URI, register_client
from support.rows import execute
from support.sign_in import DANA, is_good
from support.transactions import run, run_as

pytestmark = pytest.mark.usefixtures("clean_database")

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
        with self.db.system_transaction() as tx:
            return app_tokens.read_refresh_token(tx, pair.refresh_token, client, now=self.container.clock())


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
        kept = "".join(str(tx.execute(sa.select(table)).all()) for table in (oauth_codes, refresh_tokens, tokens))
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
    newest, _, oldest = apps.listed()
    apps.disconnect(oldest.grant_id)
    for pair in gone:
        assert (is_good(apps.container, pair.access_token), apps.is_over(pair)) == (False, True)
    assert is_good(apps.container, kept.access_token)
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


def test_somebody_of_one_sub_account_sees_its_apps_alone(apps: Apps, owner: Account) -> None:
    branch = make_sub_account(apps.container, owner, "North")
    apps.connect()
    apps.connect(sub_account_id=branch)
    # Who is in the whole account is not theirs to see, so that those apps are not either.
    assert {app.sub_account_title for app in apps.listed(branch=branch)} <= {"North"}


def test_removing_a_member_ends_all_of_their_apps(apps: Apps, owner: Account) -> None:
    pair = apps.connect()
    kept = apps.connect(person_id=make_user(apps.container, owner.id, "other@example.com"))
    with apps.db.system_transaction() as tx:
        ended = [oauth_service.end_person_grants(tx, owner.id, apps.dana, now=apps.container.clock()) for _ in "ab"]
    assert ended == [1, 0]
    assert execute(apps.container, sa.select(oauth_grants.c.ended_by).order_by(oauth_grants.c.id)) == [
        ("membership",),
        (None,),
    ]
    assert [is_good(apps.container, each.access_token) for each in (pair, kept)] == [False, True]


def test_a_leave_holds_no_longer_than_what_it_rests_on(apps: Apps, owner: Account) -> None:
    north, south = (make_sub_account(apps.container, owner) for _ in range(2))
    whole, branch = apps.connect(), apps.connect(sub_account_id=north)
    execute(apps.container, sa.update(memberships).values(role="member", sub_account_id=south))
    assert (apps.is_over(whole), apps.is_over(branch)) == (True, True)
    execute(apps.container, sa.update(memberships).values(sub_account_id=north))
    assert apps.is_over(whole)
    apps.family(branch)
    execute(apps.container, sa.update(sub_accounts).values(deleted_at=apps.container.clock()))
    assert apps.is_over(branch)


def test_a_refresh_is_held_to_what_role_and_registration_allow_by_then(apps: Apps, stranger: Account) -> None:
    everything = apps.connect(scopes=None)
    execute(apps.container, sa.update(memberships).values(role="member"))
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


def test_a_family_that_ends_while_it_is_refreshed_gets_no_more_tokens(apps: Apps) -> None:
    pair = apps.connect()
    family = apps.family(pair)
    apps.disconnect(family.grant_id)
    assert apps.refresh(pair, family) is None
    left = sa.select(tokens.c.id).where(tokens.c.grant_id.is_not(None), tokens.c.revoked_at.is_(None))
    assert execute(apps.container, left) == []


def test_an_app_that_let_its_tokens_run_out_is_listed_no_longer(apps: Apps, clock: Clock) -> None:
    pair = apps.connect()
    clock.advance(days=200)
    apps.refresh(pair, apps.family(pair))
    clock.advance(days=364)
    assert len(apps.listed()) == 1
    clock.advance(days=1)
    assert len(apps.listed()) == 0
    assert run(apps.container, clients.count_connections, apps.client.id, now=clock.now()) == 0
