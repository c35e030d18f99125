"""The page of connected apps: owners see and disconnect them all, others what they connected themselves."""

import re
from html import unescape
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.accounts.queries import insert_token
from quillpost.accounts.tokens.rules import ALL_SCOPES_LABEL, SCOPE_LABELS
from quillpost.app.container import Container
from quillpost.core.database.tables.accounts import oauth_clients, oauth_grants
from support.account_pages import LIMITED, MEMBER, OWNER, STRANGER, AccountPages
from support.factories import Account, Clock

PAGE = "/settings/apps"


@pytest.fixture
def house(container: Container, http: Any) -> AccountPages:
    return AccountPages(container, http)


def connect(
    house: AccountPages,
    account: Account,
    email: str,
    name: str = "Zapier",
    *,
    sub_account_id: int | None = None,
    scopes: list[str] | None = None,
    mode: str = "test",
) -> tuple[int, str]:
    """A connected app of somebody's; the connection's number and its token."""
    now = house.parts.clock()
    with house.parts.db.system_transaction() as tx:
        known = sa.select(oauth_clients.c.id).where(oauth_clients.c.name == name)
        client = tx.scalar(known) or tx.execute(
            sa.insert(oauth_clients)
            .values(
                account_id=house.others.id, client_id=f"client of {name}", name=name, is_public=True,
                website="https://app.example.com/", redirect_uris=["https://app.example.com/back"],
                created_at=now, updated_at=now,
            )
            .returning(oauth_clients.c.id)
        ).scalar_one()  # fmt: skip
        person_id = house.person(email)
        grant = tx.execute(
            sa.insert(oauth_grants)
            .values(
                account_id=account.id, sub_account_id=sub_account_id, mode=mode, client_id=client,
                person_id=person_id, scopes=scopes, created_at=now, connected_at=now,
            )
            .returning(oauth_grants.c.id)
        ).scalar_one()  # fmt: skip
        _, token = insert_token(
            tx, account.id, name=name, mode=mode, scopes=scopes, sub_account_id=sub_account_id,
            person_id=person_id, grant_id=grant, now=now,
        )  # fmt: skip
    return int(grant), token


@pytest.mark.usefixtures("clean_database")
def test_an_app_is_shown_with_everything_it_may_do(house: AccountPages, clock: Clock) -> None:
    house.limited  # noqa: B018 (is somebody by now)
    _, token = connect(house, house.account, LIMITED, sub_account_id=house.branch, scopes=["orders:read"], mode="live")
    clock.advance(hours=3)
    page = unescape(house.owner.get(PAGE).text)
    for words in ("Zapier", "Live", "https://app.example.com/", "3 hours ago", f"by {LIMITED}",
                  "Dallas alone", SCOPE_LABELS["orders:read"], "Not used yet"):  # fmt: skip
        assert words in page
    assert SCOPE_LABELS["send:write"] not in page
    house.ping(token)
    assert "Last used" in house.owner.get(PAGE).text


def test_an_app_with_all_scopes_is_shown_as_such(house: AccountPages) -> None:
    connect(house, house.account, OWNER)
    page = house.owner.get(PAGE).text
    assert ALL_SCOPES_LABEL in page
    assert "the whole account" in page
    assert "by you" in page


def test_disconnecting_asks_first_and_takes_effect_at_once(house: AccountPages, clock: Clock) -> None:
    grant, token = connect(house, house.account, OWNER)
    clock.advance(hours=1)  # takes no password
    path = f"{PAGE}/{grant}/disconnect"
    assert "Disconnect “Zapier”?" in house.owner.get(path).text
    assert house.ping(token) == 200
    assert "The app is disconnected." in house.owner.post(path).text
    assert house.ping(token) == 401
    assert "No app is connected" in house.owner.get(PAGE).text
    assert house.owner.get(path).status_code == 404
    assert house.owner.post(path).status_code == 404
    assert f"{OWNER} disconnected an app: Zapier" in house.owner.get("/settings/audit").text


def test_an_app_that_was_let_in_several_times_is_one_thing(house: AccountPages, clock: Clock) -> None:
    connect(house, house.account, OWNER, scopes=["orders:read"])
    clock.advance(hours=5)
    newest, token = connect(house, house.account, OWNER, scopes=["lists:read"])
    clock.advance(hours=1)
    house.ping(token)
    page = unescape(house.owner.get(PAGE).text)
    assert re.findall(rf"{PAGE}/(\d+)/disconnect", page) == [str(newest)]
    for words in ("6 hours ago", "Let in 2 times since, the last time", "1 hour ago", "Last used",
                  SCOPE_LABELS["orders:read"], SCOPE_LABELS["lists:read"]):  # fmt: skip
        assert words in page
    connect(house, house.account, OWNER)
    assert ALL_SCOPES_LABEL in house.owner.get(PAGE).text


@pytest.mark.usefixtures("clean_database")
def test_disconnecting_an_app_ends_it_wherever_it_was_let_in(house: AccountPages) -> None:
    oldest, first = connect(house, house.account, OWNER)
    _, second = connect(house, house.account, OWNER)
    with house.parts.db.system_transaction() as tx:  # a code that waits to be exchanged
        waiting = connect(house, house.account, OWNER)[0]
        tx.execute(sa.update(oauth_grants).where(oauth_grants.c.id == waiting).values(connected_at=None))
    path = f"{PAGE}/{oldest}/disconnect"
    assert "on none of the 2 devices or places" in house.owner.get(path).text
    house.owner.post(path)
    assert (house.ping(first), house.ping(second)) == (401, 401)
    assert "No app is connected" in house.owner.get(PAGE).text
    with house.parts.db.system_transaction() as tx:
        assert tx.scalar(sa.select(sa.func.count()).where(oauth_grants.c.ended_at.is_(None))) == 0
    log = house.owner.get("/settings/audit").text
    assert log.count("disconnected an app: Zapier") == 1


def test_what_is_alike_but_for_its_person_mode_place_or_name_stays_connected(house: AccountPages) -> None:
    house.member  # noqa: B018
    grant, token = connect(house, house.account, OWNER)
    others = [
        connect(house, house.account, MEMBER)[1],
        connect(house, house.account, OWNER, mode="live")[1],
        connect(house, house.account, OWNER, sub_account_id=house.branch)[1],
        connect(house, house.account, OWNER, "Another")[1],
    ]
    house.owner.post(f"{PAGE}/{grant}/disconnect")
    assert [house.ping(each) for each in (token, *others)] == [401, 200, 200, 200, 200]


def test_an_owner_disconnects_what_others_connected(house: AccountPages) -> None:
    house.member  # noqa: B018
    grant, token = connect(house, house.account, MEMBER)
    assert MEMBER in house.owner.get(f"{PAGE}/{grant}/disconnect").text
    house.owner.post(f"{PAGE}/{grant}/disconnect")
    assert house.ping(token) == 401


def test_members_see_and_disconnect_their_own_alone(house: AccountPages) -> None:
    member, limited = house.member, house.limited
    of_owner, owners_token = connect(house, house.account, OWNER, "Owners")
    of_member, members_token = connect(house, house.account, MEMBER, "Members")
    of_limited, limiteds_token = connect(house, house.account, LIMITED, "Limited", sub_account_id=house.branch)
    seen = {
        browser_name: {name for name in ("Owners", "Members", "Limited") if name in browser.get(PAGE).text}
        for browser_name, browser in (("owner", house.owner), ("member", member), ("limited", limited))
    }
    assert seen == {"owner": {"Owners", "Members", "Limited"}, "member": {"Members"}, "limited": {"Limited"}}
    before = house.everything()
    for browser, others in ((member, (of_owner, of_limited)), (limited, (of_owner, of_member))):
        for grant in others:
            assert browser.get(f"{PAGE}/{grant}/disconnect").status_code == 404
            assert browser.post(f"{PAGE}/{grant}/disconnect").status_code == 404
    assert house.everything() == before
    assert [house.ping(token) for token in (owners_token, members_token, limiteds_token)] == [200] * 3
    member.post(f"{PAGE}/{of_member}/disconnect")
    limited.post(f"{PAGE}/{of_limited}/disconnect")
    assert [house.ping(token) for token in (owners_token, members_token, limiteds_token)] == [200, 401, 401]


def test_another_accounts_app_is_unknown_even_to_whoever_registered_its_client(house: AccountPages) -> None:
    grant, token = connect(house, house.account, OWNER)
    assert "Zapier" not in house.stranger.get(PAGE).text
    path = f"{PAGE}/{grant}/disconnect"
    assert house.is_as_if_unknown(house.stranger, path, grant)
    assert house.stranger.post(path).status_code == 404
    assert house.ping(token) == 200


def test_signed_out_visitors_see_and_disconnect_nothing(house: AccountPages) -> None:
    grant, token = connect(house, house.account, OWNER)
    nobody = house.nobody()
    for answer in (
        nobody.get(PAGE, follow=False),
        nobody.get(f"{PAGE}/{grant}/disconnect", follow=False),
        nobody.post(f"{PAGE}/{grant}/disconnect", follow=False),
    ):
        assert answer.status_code == 303
        assert answer.headers["Location"].startswith("/sign-in")
    assert house.ping(token) == 200


def test_a_form_without_its_word_disconnects_nothing(house: AccountPages) -> None:
    grant, token = connect(house, house.account, OWNER)
    assert house.owner.post(f"{PAGE}/{grant}/disconnect", csrf="guessed").status_code == 403
    assert house.ping(token) == 200


def test_somebody_in_two_accounts_sees_those_of_the_one_that_they_look_at(house: AccountPages) -> None:
    house.stranger  # noqa: B018
    house.join(STRANGER, house.account.id, role="member")
    connect(house, house.account, STRANGER, "Here")
    connect(house, house.others, STRANGER, "There")
    page = house.stranger.get(PAGE).text
    assert "There" in page
    assert "Here" not in page
