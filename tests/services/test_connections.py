"""Connected apps: what an account sees of them, and how they end."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime
from threading import Barrier

import pytest
import sqlalchemy as sa
from oauth_app import ACTOR, BACK, register_client
from signed_in import make_person

from makers import Account, Clock, make_sub_account
from quillpost.accounts import service
from quillpost.accounts.audit.labels import told
from quillpost.accounts.audit.service import read_log
from quillpost.accounts.oauth import apps, clients
from quillpost.accounts.oauth import tokens as app_tokens
from quillpost.accounts.oauth.apps import Leave
from quillpost.accounts.oauth.clients import Client, Registration
from quillpost.accounts.oauth.tokens import Code, Ended, Family, Pair
from quillpost.app.container import Parts
from quillpost.core.database import Tenant
from quillpost.core.database.tables.base import sub_accounts, tokens
from quillpost.core.database.tables.users import memberships, oauth_codes, oauth_grants, refresh_tokens
from quillpost.core.errors import NotFound, Unauthenticated

SOME = frozenset({"orders:read", "lists:read"})


@pytest.fixture
def client(parts: Parts, stranger: Account) -> Client:
    """Registered by another account than the one that it acts for."""
    return register_client(parts, stranger.id)[0]


@pytest.fixture
def leave(parts: Parts, owner: Account) -> Leave:
    person_id = make_person(parts, owner.id, "dana@example.com")
    return Leave(owner.id, None, "test", person_id, SOME)


def code_of(parts: Parts, client: Client, leave: Leave) -> str:
    with parts.db.work() as tx:
        return app_tokens.give_code(
            tx, client, leave, ACTOR, redirect_uri=BACK, challenge=None, asked=None, now=parts.clock()
        )


def read(parts: Parts, client: Client, code: str) -> Code | Ended | None:
    with parts.db.work() as tx:
        return app_tokens.read_code(tx, code, client, now=parts.clock())


def connected(parts: Parts, client: Client, leave: Leave) -> Pair:
    good = read(parts, client, code_of(parts, client, leave))
    assert isinstance(good, Code)
    with parts.db.work() as tx:
        pair = app_tokens.claim_code(tx, good, client, now=parts.clock())
    assert isinstance(pair, Pair)
    return pair


def family_of(parts: Parts, client: Client, pair: Pair) -> Family | Ended | None:
    with parts.db.work() as tx:
        return app_tokens.read_refresh(tx, pair.refresh_token, client, now=parts.clock())


def is_good(parts: Parts, token: str) -> bool:
    try:
        service.authenticate(parts.db, token, limit=1_000, now=parts.clock())
    except Unauthenticated:
        return False
    return True


def test_a_leave_is_a_connected_app_once_its_code_was_exchanged(
    parts: Parts, owner: Account, client: Client, leave: Leave, clock: Clock
) -> None:
    code = read(parts, client, code_of(parts, client, leave))
    with parts.db.transaction(Tenant(owner.id)) as tx:
        assert apps.list_connected(tx, owner.id, now=parts.clock()) == []
    assert isinstance(code, Code)
    clock.advance(seconds=5)
    with parts.db.work() as tx:
        pair = app_tokens.claim_code(tx, code, client, now=parts.clock())
    assert isinstance(pair, Pair)
    assert is_good(parts, pair.access_token)
    with parts.db.transaction(Tenant(owner.id)) as tx:
        [app] = apps.list_connected(tx, owner.id, now=parts.clock())
    assert (app.client_name, app.person, app.mode, app.sub_account_title) == (
        "Letterhead", "dana@example.com", "test", None,
    )  # fmt: skip
    assert app.scopes == ["orders:read", "lists:read"]
    assert (app.connected_at, app.last_used_at) == (parts.clock(), parts.clock())


def test_the_token_of_an_app_says_whose_it_is(
    parts: Parts, owner: Account, client: Client, leave: Leave
) -> None:
    branch = make_sub_account(parts, owner)
    limited = Leave(owner.id, branch, "live", leave.person_id, SOME)
    pair = connected(parts, client, limited)
    who, _ = service.authenticate(parts.db, pair.access_token, limit=10, now=parts.clock())
    assert (who.account_id, who.sub_account_id, who.mode) == (owner.id, branch, "live")
    assert (who.scopes, who.person_id, who.is_operator) == (SOME, leave.person_id, False)
    assert who.grant_id is not None
    with parts.db.work() as tx:
        row = tx.execute(sa.select(tokens).where(tokens.c.grant_id == who.grant_id)).one()
    assert (row.name, row.hint) == ("Letterhead", pair.access_token[-4:])


def test_nothing_that_opens_a_door_is_kept_in_clear(parts: Parts, client: Client, leave: Leave) -> None:
    code = code_of(parts, client, leave)
    good = read(parts, client, code)
    assert isinstance(good, Code)
    with parts.db.work() as tx:
        pair = app_tokens.claim_code(tx, good, client, now=parts.clock())
        assert isinstance(pair, Pair)
        kept = [str(tx.execute(sa.select(table)).all()) for table in (oauth_codes, refresh_tokens, tokens)]
    assert not any(secret in "".join(kept) for secret in (code, pair.access_token, pair.refresh_token))


def test_an_owner_disconnects_an_app_from_one_moment_to_the_next(
    parts: Parts, owner: Account, client: Client, leave: Leave
) -> None:
    pair, another_device = connected(parts, client, leave), connected(parts, client, leave)
    other = connected(parts, client, replace(leave, mode="live"))
    with parts.db.transaction(Tenant(owner.id)) as tx:
        newest, _, oldest = apps.list_connected(tx, owner.id, now=parts.clock())
        apps.disconnect(tx, owner.id, oldest.grant_id, ACTOR, now=parts.clock())
    for gone in (pair, another_device):
        assert not is_good(parts, gone.access_token)
        assert family_of(parts, client, gone) is None
    assert is_good(parts, other.access_token)
    with parts.db.transaction(Tenant(owner.id)) as tx:
        assert apps.list_connected(tx, owner.id, now=parts.clock())[0].grant_id == newest.grant_id
        noted = read_log(tx, owner.id)[0]
        assert (noted.act, noted.actor, noted.about["name"]) == (
            "app.disconnected", "owner@example.com", "Letterhead",
        )  # fmt: skip
        assert noted.about["connections"] == 2
        with pytest.raises(NotFound):
            apps.disconnect(tx, owner.id, oldest.grant_id, ACTOR, now=parts.clock())


def test_a_stranger_sees_and_ends_no_connection(
    parts: Parts, owner: Account, stranger: Account, client: Client, leave: Leave
) -> None:
    pair = connected(parts, client, leave)
    with parts.db.work() as tx:
        grant_id = tx.execute(sa.select(oauth_grants.c.id)).scalar_one()
    with parts.db.transaction(Tenant(stranger.id)) as tx:
        assert apps.list_connected(tx, stranger.id, now=parts.clock()) == []
        assert apps.list_connected(tx, owner.id, now=parts.clock()) == []
        for account_id in (stranger.id, owner.id):
            with pytest.raises(NotFound):
                apps.disconnect(tx, account_id, grant_id, ACTOR, now=parts.clock())
        assert apps.end(tx, [grant_id], "person", now=parts.clock()) == 0
    assert is_good(parts, pair.access_token)


def test_somebody_of_one_sub_account_sees_its_apps_alone(
    parts: Parts, owner: Account, client: Client, leave: Leave
) -> None:
    branch = make_sub_account(parts, owner, "North")
    connected(parts, client, leave)
    connected(parts, client, Leave(owner.id, branch, "test", leave.person_id, SOME))
    with parts.db.transaction(Tenant(owner.id, branch)) as tx:
        # Who is in the whole account is not theirs to see, so that those apps are not either.
        seen = apps.list_connected(tx, owner.id, now=parts.clock())
        titles = [app.sub_account_title for app in seen]
    assert set(titles) <= {"North"}


def test_all_apps_of_somebody_who_leaves_end(
    parts: Parts, owner: Account, client: Client, leave: Leave
) -> None:
    pair = connected(parts, client, leave)
    other = make_person(parts, owner.id, "other@example.com")
    kept = connected(parts, client, Leave(owner.id, None, "test", other, SOME))
    with parts.db.work() as tx:
        assert apps.end_of_person(tx, owner.id, leave.person_id, now=parts.clock()) == 1
        assert apps.end_of_person(tx, owner.id, leave.person_id, now=parts.clock()) == 0
        why = tx.execute(sa.select(oauth_grants.c.ended_by).order_by(oauth_grants.c.id)).scalars().all()
    assert why == ["membership", None]
    assert not is_good(parts, pair.access_token)
    assert is_good(parts, kept.access_token)


def test_a_leave_holds_no_longer_than_what_it_rests_on(
    parts: Parts, owner: Account, client: Client, leave: Leave
) -> None:
    north, south = make_sub_account(parts, owner), make_sub_account(parts, owner)
    whole = connected(parts, client, leave)
    branch = connected(parts, client, Leave(owner.id, north, "test", leave.person_id, SOME))
    with parts.db.work() as tx:
        tx.execute(sa.update(memberships).values(role="member", sub_account_id=south))
    assert family_of(parts, client, whole) is None
    assert family_of(parts, client, branch) is None
    with parts.db.work() as tx:
        tx.execute(sa.update(memberships).values(sub_account_id=north))
    assert family_of(parts, client, whole) is None
    assert isinstance(family_of(parts, client, branch), Family)
    with parts.db.work() as tx:
        gone: datetime = parts.clock()
        tx.execute(sa.update(sub_accounts).where(sub_accounts.c.id == north).values(deleted_at=gone))
    assert family_of(parts, client, branch) is None


def test_a_refresh_is_held_to_what_role_and_registration_allow_by_then(
    parts: Parts, stranger: Account, owner: Account, client: Client, leave: Leave
) -> None:
    everything = connected(parts, client, Leave(owner.id, None, "test", leave.person_id, None))
    with parts.db.work() as tx:
        tx.execute(sa.update(memberships).values(role="member"))
    family = family_of(parts, client, everything)
    assert isinstance(family, Family)
    assert family.leave.scopes is not None
    assert "account:write" not in family.leave.scopes
    with parts.db.transaction(Tenant(stranger.id)) as tx:
        wish = Registration("Letterhead", [BACK], scopes=["orders:read"])
        narrowed = clients.change(tx, stranger.id, client.id, wish, ACTOR, now=parts.clock())
    family = family_of(parts, narrowed, everything)
    assert isinstance(family, Family)
    assert family.leave.scopes == frozenset({"orders:read"})


@pytest.mark.parametrize("what", ["code", "refresh"])
def test_of_two_who_claim_at_the_very_same_time_one_wins_and_then_both_lose(
    parts: Parts, client: Client, leave: Leave, what: str
) -> None:
    """Both have read it as good before either claims it."""
    pair = connected(parts, client, leave)
    code = read(parts, client, code_of(parts, client, leave))
    family = family_of(parts, client, pair)
    assert isinstance(code, Code)
    assert isinstance(family, Family)
    together = Barrier(2)

    def claim(_: int) -> Pair | Ended | None:
        with parts.db.work() as tx:
            together.wait()
            if what == "code":
                return app_tokens.claim_code(tx, code, client, now=parts.clock())
            return app_tokens.claim_refresh(
                tx, pair.refresh_token, family, client, scopes=SOME, now=parts.clock()
            )

    with ThreadPoolExecutor(2) as both:
        made = list(both.map(claim, range(2)))
    [won] = [each for each in made if isinstance(each, Pair)]
    [lost] = [each for each in made if isinstance(each, Ended)]
    assert (lost.why, lost.to_tell) == ("replay" if what == "code" else "reuse", leave.person_id)
    assert not is_good(parts, won.access_token)
    assert family_of(parts, client, won) is None


def test_a_family_that_ends_while_it_is_refreshed_gets_no_more_tokens(
    parts: Parts, owner: Account, client: Client, leave: Leave
) -> None:
    pair = connected(parts, client, leave)
    family = family_of(parts, client, pair)
    assert isinstance(family, Family)
    with parts.db.transaction(Tenant(owner.id)) as tx:
        apps.disconnect(tx, owner.id, family.grant_id, ACTOR, now=parts.clock())
    with parts.db.work() as tx:
        made = app_tokens.claim_refresh(
            tx, pair.refresh_token, family, client, scopes=SOME, now=parts.clock()
        )
        assert made is None
        live = sa.select(sa.func.count()).select_from(tokens).where(tokens.c.grant_id.is_not(None))
        assert tx.scalar(live.where(tokens.c.revoked_at.is_(None))) == 0


def test_an_app_that_let_its_tokens_run_out_is_listed_no_longer(
    parts: Parts, owner: Account, client: Client, leave: Leave, clock: Clock
) -> None:
    def listed() -> int:
        with parts.db.transaction(Tenant(owner.id)) as tx:
            return len(apps.list_connected(tx, owner.id, now=parts.clock()))

    pair = connected(parts, client, leave)
    clock.advance(days=200)
    family = family_of(parts, client, pair)
    assert isinstance(family, Family)
    with parts.db.work() as tx:
        app_tokens.claim_refresh(tx, pair.refresh_token, family, client, scopes=SOME, now=parts.clock())
    clock.advance(days=364)
    assert listed() == 1
    clock.advance(days=1)
    assert listed() == 0
    with parts.db.work() as tx:
        assert clients.count_connections(tx, client.id, now=parts.clock()) == 0


def test_what_an_app_did_itself_names_it_once(
    parts: Parts, owner: Account, client: Client, leave: Leave
) -> None:
    code = code_of(parts, client, leave)
    good = read(parts, client, code)
    assert isinstance(good, Code)
    with parts.db.work() as tx:
        app_tokens.claim_code(tx, good, client, now=parts.clock())
    assert isinstance(read(parts, client, code), Ended)
    with parts.db.transaction(Tenant(owner.id)) as tx:
        newest = read_log(tx, owner.id)[0]
    assert told(newest) == "app “Letterhead” used a code again, and was disconnected"
    assert newest.about["name"] == "Letterhead"


def test_allowing_an_app_is_noted_with_who_and_where(
    parts: Parts, owner: Account, client: Client, leave: Leave
) -> None:
    connected(parts, client, leave)
    with parts.db.transaction(Tenant(owner.id)) as tx:
        [noted] = [entry for entry in read_log(tx, owner.id) if entry.act == "app.allowed"]
    assert (noted.actor, noted.network, noted.about["name"]) == (
        "owner@example.com",
        "192.0.2.7",
        "Letterhead",
    )
