"""Connected apps: what an account sees of them, and how they end."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime
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
from quillpost.accounts.oauth.service import AppGrant
from quillpost.accounts.oauth.tokens import AuthorizationCode, TokenFamily, TokenPair, TokenReuse
from quillpost.app.container import Container
from quillpost.core.database import Tenant
from quillpost.core.database.tables.accounts import memberships, oauth_codes, oauth_grants, refresh_tokens
from quillpost.core.database.tables.base import sub_accounts, tokens
from quillpost.core.errors import NotFound, Unauthenticated
from support.browser_sessions import make_user
from support.factories import Account, Clock, make_sub_account
from support.oauth_app import ACTOR, REDIRECT_URI, register_client

pytestmark = pytest.mark.usefixtures("clean_database")

SOME = frozenset({"orders:read", "lists:read"})


@pytest.fixture
def client(container: Container, stranger: Account) -> OAuthClient:
    """Registered by another account than the one that it acts for."""
    return register_client(container, stranger.id)[0]


@pytest.fixture
def leave(container: Container, owner: Account) -> AppGrant:
    person_id = make_user(container, owner.id, "dana@example.com")
    return AppGrant(owner.id, None, "test", person_id, SOME)


def code_of(container: Container, client: OAuthClient, leave: AppGrant) -> str:
    with container.db.system_transaction() as tx:
        return app_tokens.issue_code(
            tx,
            client,
            leave,
            ACTOR,
            redirect_uri=REDIRECT_URI,
            challenge=None,
            requested_scopes=None,
            now=container.clock(),
        )


def read(container: Container, client: OAuthClient, code: str) -> AuthorizationCode | TokenReuse | None:
    with container.db.system_transaction() as tx:
        return app_tokens.read_code(tx, code, client, now=container.clock())


def connected(container: Container, client: OAuthClient, leave: AppGrant) -> TokenPair:
    good = read(container, client, code_of(container, client, leave))
    assert isinstance(good, AuthorizationCode)
    with container.db.system_transaction() as tx:
        pair = app_tokens.exchange_code(tx, good, client, now=container.clock())
    assert isinstance(pair, TokenPair)
    return pair


def family_of(container: Container, client: OAuthClient, pair: TokenPair) -> TokenFamily | TokenReuse | None:
    with container.db.system_transaction() as tx:
        return app_tokens.read_refresh_token(tx, pair.refresh_token, client, now=container.clock())


def is_good(container: Container, token: str) -> bool:
    try:
        service.authenticate(container.db, token, limit=1_000, now=container.clock())
    except Unauthenticated:
        return False
    return True


def test_a_leave_is_a_connected_app_once_its_code_was_exchanged(
    container: Container, owner: Account, client: OAuthClient, leave: AppGrant, clock: Clock
) -> None:
    code = read(container, client, code_of(container, client, leave))
    with container.db.transaction(Tenant(owner.id)) as tx:
        assert oauth_service.list_connections(tx, owner.id, now=container.clock()) == []
    assert isinstance(code, AuthorizationCode)
    clock.advance(seconds=5)
    with container.db.system_transaction() as tx:
        pair = app_tokens.exchange_code(tx, code, client, now=container.clock())
    assert isinstance(pair, TokenPair)
    assert is_good(container, pair.access_token)
    with container.db.transaction(Tenant(owner.id)) as tx:
        [app] = oauth_service.list_connections(tx, owner.id, now=container.clock())
    assert (app.client_name, app.person, app.mode, app.sub_account_title) == (
        "Letterhead", "dana@example.com", "test", None,
    )  # fmt: skip
    assert app.scopes == ["orders:read", "lists:read"]
    assert (app.connected_at, app.last_used_at) == (container.clock(), container.clock())


def test_the_token_of_an_app_says_whose_it_is(
    container: Container, owner: Account, client: OAuthClient, leave: AppGrant
) -> None:
    branch = make_sub_account(container, owner)
    limited = AppGrant(owner.id, branch, "live", leave.person_id, SOME)
    pair = connected(container, client, limited)
    caller, _ = service.authenticate(container.db, pair.access_token, limit=10, now=container.clock())
    assert (caller.account_id, caller.sub_account_id, caller.mode) == (owner.id, branch, "live")
    assert (caller.scopes, caller.person_id, caller.is_operator) == (SOME, leave.person_id, False)
    assert caller.grant_id is not None
    with container.db.system_transaction() as tx:
        row = tx.execute(sa.select(tokens).where(tokens.c.grant_id == caller.grant_id)).one()
    assert (row.name, row.hint) == ("Letterhead", pair.access_token[-4:])


def test_codes_and_tokens_are_never_stored_in_plain_text(
    container: Container, client: OAuthClient, leave: AppGrant
) -> None:
    code = code_of(container, client, leave)
    good = read(container, client, code)
    assert isinstance(good, AuthorizationCode)
    with container.db.system_transaction() as tx:
        pair = app_tokens.exchange_code(tx, good, client, now=container.clock())
        assert isinstance(pair, TokenPair)
        kept = [str(tx.execute(sa.select(table)).all()) for table in (oauth_codes, refresh_tokens, tokens)]
    assert not any(secret in "".join(kept) for secret in (code, pair.access_token, pair.refresh_token))


def test_an_owner_disconnects_an_app_from_one_moment_to_the_next(
    container: Container, owner: Account, client: OAuthClient, leave: AppGrant
) -> None:
    pair, another_device = connected(container, client, leave), connected(container, client, leave)
    other = connected(container, client, replace(leave, mode="live"))
    with container.db.transaction(Tenant(owner.id)) as tx:
        newest, _, oldest = oauth_service.list_connections(tx, owner.id, now=container.clock())
        oauth_service.disconnect_app(tx, owner.id, oldest.grant_id, ACTOR, now=container.clock())
    for gone in (pair, another_device):
        assert not is_good(container, gone.access_token)
        assert family_of(container, client, gone) is None
    assert is_good(container, other.access_token)
    with container.db.transaction(Tenant(owner.id)) as tx:
        assert oauth_service.list_connections(tx, owner.id, now=container.clock())[0].grant_id == newest.grant_id
        noted = list_audit_entries(tx, owner.id)[0]
        assert (noted.act, noted.actor, noted.about["name"]) == (
            "app.disconnected", "owner@example.com", "Letterhead",
        )  # fmt: skip
        assert noted.about["connections"] == 2
        with pytest.raises(NotFound):
            oauth_service.disconnect_app(tx, owner.id, oldest.grant_id, ACTOR, now=container.clock())


def test_a_stranger_sees_and_ends_no_connection(
    container: Container, owner: Account, stranger: Account, client: OAuthClient, leave: AppGrant
) -> None:
    pair = connected(container, client, leave)
    with container.db.system_transaction() as tx:
        grant_id = tx.execute(sa.select(oauth_grants.c.id)).scalar_one()
    with container.db.transaction(Tenant(stranger.id)) as tx:
        assert oauth_service.list_connections(tx, stranger.id, now=container.clock()) == []
        assert oauth_service.list_connections(tx, owner.id, now=container.clock()) == []
        for account_id in (stranger.id, owner.id):
            with pytest.raises(NotFound):
                oauth_service.disconnect_app(tx, account_id, grant_id, ACTOR, now=container.clock())
        assert oauth_service.end_grants(tx, [grant_id], "person", now=container.clock()) == 0
    assert is_good(container, pair.access_token)


def test_somebody_of_one_sub_account_sees_its_apps_alone(
    container: Container, owner: Account, client: OAuthClient, leave: AppGrant
) -> None:
    branch = make_sub_account(container, owner, "North")
    connected(container, client, leave)
    connected(container, client, AppGrant(owner.id, branch, "test", leave.person_id, SOME))
    with container.db.transaction(Tenant(owner.id, branch)) as tx:
        # Who is in the whole account is not theirs to see, so that those apps are not either.
        seen = oauth_service.list_connections(tx, owner.id, now=container.clock())
        titles = [app.sub_account_title for app in seen]
    assert set(titles) <= {"North"}


def test_removing_a_member_ends_all_of_their_apps(
    container: Container, owner: Account, client: OAuthClient, leave: AppGrant
) -> None:
    pair = connected(container, client, leave)
    other = make_user(container, owner.id, "other@example.com")
    kept = connected(container, client, AppGrant(owner.id, None, "test", other, SOME))
    with container.db.system_transaction() as tx:
        assert oauth_service.end_person_grants(tx, owner.id, leave.person_id, now=container.clock()) == 1
        assert oauth_service.end_person_grants(tx, owner.id, leave.person_id, now=container.clock()) == 0
        why = tx.execute(sa.select(oauth_grants.c.ended_by).order_by(oauth_grants.c.id)).scalars().all()
    assert why == ["membership", None]
    assert not is_good(container, pair.access_token)
    assert is_good(container, kept.access_token)


def test_a_leave_holds_no_longer_than_what_it_rests_on(
    container: Container, owner: Account, client: OAuthClient, leave: AppGrant
) -> None:
    north, south = make_sub_account(container, owner), make_sub_account(container, owner)
    whole = connected(container, client, leave)
    branch = connected(container, client, AppGrant(owner.id, north, "test", leave.person_id, SOME))
    with container.db.system_transaction() as tx:
        tx.execute(sa.update(memberships).values(role="member", sub_account_id=south))
    assert family_of(container, client, whole) is None
    assert family_of(container, client, branch) is None
    with container.db.system_transaction() as tx:
        tx.execute(sa.update(memberships).values(sub_account_id=north))
    assert family_of(container, client, whole) is None
    assert isinstance(family_of(container, client, branch), TokenFamily)
    with container.db.system_transaction() as tx:
        gone: datetime = container.clock()
        tx.execute(sa.update(sub_accounts).where(sub_accounts.c.id == north).values(deleted_at=gone))
    assert family_of(container, client, branch) is None


def test_a_refresh_is_held_to_what_role_and_registration_allow_by_then(
    container: Container, stranger: Account, owner: Account, client: OAuthClient, leave: AppGrant
) -> None:
    everything = connected(container, client, AppGrant(owner.id, None, "test", leave.person_id, None))
    with container.db.system_transaction() as tx:
        tx.execute(sa.update(memberships).values(role="member"))
    family = family_of(container, client, everything)
    assert isinstance(family, TokenFamily)
    assert family.grant.scopes is not None
    assert "account:write" not in family.grant.scopes
    with container.db.transaction(Tenant(stranger.id)) as tx:
        order_request = ClientRegistration("Letterhead", [REDIRECT_URI], scopes=["orders:read"])
        narrowed = clients.update_client(tx, stranger.id, client.id, order_request, ACTOR, now=container.clock())
    family = family_of(container, narrowed, everything)
    assert isinstance(family, TokenFamily)
    assert family.grant.scopes == frozenset({"orders:read"})


@pytest.mark.parametrize("what", ["code", "refresh"])
def test_one_of_two_simultaneous_claims_wins_and_the_reuse_then_ends_both(
    container: Container, client: OAuthClient, leave: AppGrant, what: str
) -> None:
    """Both have read it as good before either claims it."""
    pair = connected(container, client, leave)
    code = read(container, client, code_of(container, client, leave))
    family = family_of(container, client, pair)
    assert isinstance(code, AuthorizationCode)
    assert isinstance(family, TokenFamily)
    together = Barrier(2)

    def claim(_: int) -> TokenPair | TokenReuse | None:
        with container.db.system_transaction() as tx:
            together.wait()
            if what == "code":
                return app_tokens.exchange_code(tx, code, client, now=container.clock())
            return app_tokens.exchange_refresh_token(
                tx, pair.refresh_token, family, client, scopes=SOME, now=container.clock()
            )

    with ThreadPoolExecutor(2) as both:
        made = list(both.map(claim, range(2)))
    [won] = [each for each in made if isinstance(each, TokenPair)]
    [lost] = [each for each in made if isinstance(each, TokenReuse)]
    assert (lost.reason, lost.notify_person_id) == ("replay" if what == "code" else "reuse", leave.person_id)
    assert not is_good(container, won.access_token)
    assert family_of(container, client, won) is None


def test_a_family_that_ends_while_it_is_refreshed_gets_no_more_tokens(
    container: Container, owner: Account, client: OAuthClient, leave: AppGrant
) -> None:
    pair = connected(container, client, leave)
    family = family_of(container, client, pair)
    assert isinstance(family, TokenFamily)
    with container.db.transaction(Tenant(owner.id)) as tx:
        oauth_service.disconnect_app(tx, owner.id, family.grant_id, ACTOR, now=container.clock())
    with container.db.system_transaction() as tx:
        made = app_tokens.exchange_refresh_token(
            tx, pair.refresh_token, family, client, scopes=SOME, now=container.clock()
        )
        assert made is None
        live = sa.select(sa.func.count()).select_from(tokens).where(tokens.c.grant_id.is_not(None))
        assert tx.scalar(live.where(tokens.c.revoked_at.is_(None))) == 0


def test_an_app_that_let_its_tokens_run_out_is_listed_no_longer(
    container: Container, owner: Account, client: OAuthClient, leave: AppGrant, clock: Clock
) -> None:
    def listed() -> int:
        with container.db.transaction(Tenant(owner.id)) as tx:
            return len(oauth_service.list_connections(tx, owner.id, now=container.clock()))

    pair = connected(container, client, leave)
    clock.advance(days=200)
    family = family_of(container, client, pair)
    assert isinstance(family, TokenFamily)
    with container.db.system_transaction() as tx:
        app_tokens.exchange_refresh_token(tx, pair.refresh_token, family, client, scopes=SOME, now=container.clock())
    clock.advance(days=364)
    assert listed() == 1
    clock.advance(days=1)
    assert listed() == 0
    with container.db.system_transaction() as tx:
        assert clients.count_connections(tx, client.id, now=container.clock()) == 0


def test_what_an_app_did_itself_names_it_once(
    container: Container, owner: Account, client: OAuthClient, leave: AppGrant
) -> None:
    code = code_of(container, client, leave)
    good = read(container, client, code)
    assert isinstance(good, AuthorizationCode)
    with container.db.system_transaction() as tx:
        app_tokens.exchange_code(tx, good, client, now=container.clock())
    assert isinstance(read(container, client, code), TokenReuse)
    with container.db.transaction(Tenant(owner.id)) as tx:
        newest = list_audit_entries(tx, owner.id)[0]
    assert describe_entry(newest) == "app “Letterhead” used a code again, and was disconnected"
    assert newest.about["name"] == "Letterhead"


def test_allowing_an_app_is_audited_with_actor_and_network(
    container: Container, owner: Account, client: OAuthClient, leave: AppGrant
) -> None:
    connected(container, client, leave)
    with container.db.transaction(Tenant(owner.id)) as tx:
        [noted] = [entry for entry in list_audit_entries(tx, owner.id) if entry.act == "app.allowed"]
    assert (noted.actor, noted.network, noted.about["name"]) == ("owner@example.com", "192.0.2.7", "Letterhead")
