"""The page of access tokens: made by owners who give their password, shown once, revoked in two steps."""

import re
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
import sqlalchemy as sa
from httpx2 import Response

from quillpost.accounts.audit.service import Actor
from quillpost.accounts.tokens import service as token_service
from quillpost.accounts.tokens.rules import SCOPE_LABELS
from quillpost.app.container import Container
from quillpost.core.database import Tenant
from quillpost.core.database.tables.base import tokens
from support.account_pages import AccountPages
from support.factories import Clock, make_sub_account

TOKEN = re.compile(r"qp_(?:test|live)_[0-9A-Za-z]{20,}")
NEW = "/settings/tokens/new"


@pytest.fixture
def house(container: Container, http: Any) -> AccountPages:
    return AccountPages(container, http)


def make(house: AccountPages, **changes: Any) -> Response:
    return house.owner.post(NEW, **{"name": "Zapier", "mode": "test", "limits": "all", "lasts": "never"} | changes)


def made(house: AccountPages, **changes: Any) -> tuple[int, str]:
    """A new token's id and the token."""
    found = TOKEN.search(make(house, **changes).text)
    assert found is not None
    with house.parts.db.system_transaction() as tx:
        newest = sa.select(tokens.c.id).where(tokens.c.grant_id.is_(None), tokens.c.session_id.is_(None))
        return int(tx.execute(newest.order_by(tokens.c.id.desc())).scalars().first() or 0), found[0]


def test_a_new_token_works_and_is_shown_this_once(house: AccountPages) -> None:
    answer = make(house)
    assert answer.status_code == 200
    assert answer.headers["Cache-Control"] == "no-store"
    token = TOKEN.findall(answer.text)[0]
    assert house.account.http.get("/api/v2/ping", headers={"Authorization": f"Bearer {token}"}).json() == {
        "message": "pong",
        "test_mode": True,
    }
    line = f"curl -H 'Authorization: Bearer {token}' \\\n  {house.parts.base_url}/api/v2/ping"
    assert line in unescape(answer.text)
    assert token not in str(answer.url)
    assert token not in str(answer.headers)
    for page in ("/settings/tokens", NEW, "/settings/audit", "/settings/audit.csv"):
        assert token not in house.owner.get(page).text


def test_the_list_tells_it_by_name_mode_and_last_letters(house: AccountPages, clock: Clock) -> None:
    branch = make_sub_account(house.parts, house.account, "Austin")
    _, token = made(house, mode="live", limits="some", scopes=["orders:read"], sub_account_id=branch, lasts="30")
    clock.advance(hours=2)
    page = house.owner.get("/settings/tokens").text
    for words in ("Zapier", "Live", token[-4:], "orders:read", "for Austin alone", "2 hours ago",
                  "by dana@example.com", "never", "3 Jun 2026"):  # fmt: skip
        assert words in page
    house.account.http.get("/api/v2/ping", headers={"Authorization": f"Bearer {token}"})
    assert "just now" in house.owner.get("/settings/tokens").text


def test_an_expired_token_is_shown_as_expired(house: AccountPages, clock: Clock) -> None:
    with house.parts.db.transaction(Tenant(house.account.id)) as tx:
        token_service.create_token(
            tx, house.account.id, name="Spring", mode="test", scopes=None, sub_account_id=None,
            expires_at=clock.now() + timedelta(days=1), actor=Actor("dana@example.com"), now=clock.now(),
        )  # fmt: skip
    assert "expired" not in house.owner.get("/settings/tokens").text
    clock.advance(days=3)
    assert "expired 2 days ago" in house.owner.get("/settings/tokens").text


def test_a_token_gets_exactly_what_was_ticked(house: AccountPages) -> None:
    branch = make_sub_account(house.parts, house.account, "Austin")
    made(house, limits="some", scopes=["send:write", "lists:read"], sub_account_id=branch, lasts="90")
    with house.parts.db.system_transaction() as tx:
        kept = token_service.list_tokens(tx, house.account.id)[0]
    assert (kept.scopes, kept.sub_account_id) == (["send:write", "lists:read"], branch)
    assert kept.expires_at == house.parts.clock() + timedelta(days=90)
    assert kept.maker == "dana@example.com"


def test_the_form_says_of_every_scope_what_it_allows(house: AccountPages) -> None:
    page = unescape(house.owner.get(NEW).text)
    for scope, words in SCOPE_LABELS.items():
        assert words in page
        assert f'value="{scope}"' in page


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"name": ""}, "Give the token a name that says what it is for."),
        ({"name": "x" * 101}, "The name has at most 100 characters."),
        ({"name": "x" * 301}, "At most 300 characters, please."),
        ({"mode": "production"}, "Choose test or live."),
        ({"mode": None}, "Choose test or live."),
        ({"limits": "some"}, "Choose at least one thing that it may do."),
        ({"limits": "some", "scopes": ["everything"]}, "Unknown scope everything."),
        ({"limits": "all", "scopes": ["send:read"]}, "You chose everything, but had ticked some as well"),
        ({"limits": None}, "Choose everything, or some of it."),
        ({"lasts": "7"}, "Choose how long it is good for."),
        ({"lasts": None}, "Choose how long it is good for."),
        ({"sub_account_id": "999999"}, "There is no such sub account."),
        ({"sub_account_id": "Austin"}, "Choose one that is on the list."),
    ],
)
def test_an_invalid_form_is_shown_again_with_its_error_and_stores_nothing(
    house: AccountPages, changes: dict[str, Any], sentence: str
) -> None:
    make_sub_account(house.parts, house.account, "Austin")
    before = house.everything()
    answer = make(house, **{"name": "Zapier <3"} | changes)
    assert answer.status_code == 422
    assert sentence in unescape(answer.text)
    assert 'role="alert"' in answer.text
    assert TOKEN.search(answer.text) is None
    if "name" not in changes:
        assert 'value="Zapier &lt;3"' in answer.text
    assert house.everything() == before


def test_what_was_chosen_is_still_chosen_when_the_form_comes_back(house: AccountPages) -> None:
    branch = make_sub_account(house.parts, house.account, "Austin")
    page = make(
        house, name="", mode="live", limits="some", scopes=["send:write", "lists:read"], lasts="90",
        sub_account_id=branch,
    ).text  # fmt: skip
    chosen = set(re.findall(r'value="([^"]*)"[^>]* (?:checked|selected)', page))
    assert chosen == {"live", "some", "send:write", "lists:read", "90", str(branch)}


def test_making_a_token_takes_a_password_that_was_given_a_short_while_ago(house: AccountPages, clock: Clock) -> None:
    clock.advance(minutes=31)
    before = house.everything()
    for answer in (house.owner.get(NEW, follow=False), house.owner.post(NEW, name="Zapier", follow=False)):
        assert answer.status_code == 303
        assert answer.headers["Location"].startswith("/sign-in/confirm")
    assert house.owner.get("/settings/tokens", follow=False).status_code == 200
    assert house.everything() == before


def test_revoking_asks_first_and_then_takes_effect_at_once(house: AccountPages, clock: Clock) -> None:
    token_id, token = made(house)
    clock.advance(hours=1)  # to revoke takes no password
    path = f"/settings/tokens/{token_id}/revoke"
    confirmation = house.owner.get(path)
    assert "Revoke “Zapier”?" in confirmation.text
    assert token[-4:] in confirmation.text
    assert house.ping(token) == 200
    answer = house.owner.post(path)
    assert "The token is revoked." in answer.text
    assert house.ping(token) == 401


def test_a_revoked_token_is_reported_only_in_its_own_account(house: AccountPages) -> None:
    token_id, _ = made(house)
    path = f"/settings/tokens/{token_id}/revoke"
    house.owner.post(path)
    before = house.everything()
    for again in (house.owner.get(path), house.owner.post(path)):
        assert again.status_code == 200
        assert "That token is revoked already." in again.text
    assert house.everything() == before
    assert house.stranger.get(path).status_code == 404
    assert house.stranger.post(path).status_code == 404


@pytest.mark.parametrize("mode", ["live", "test"])
def test_a_new_token_is_offered_in_the_mode_that_one_looks_at(house: AccountPages, mode: str) -> None:
    house.owner.post("/session/switch", mode=mode)
    chosen = re.findall(r'name="mode" value="(\w+)" checked', house.owner.get(NEW).text)
    assert chosen == [mode]


def test_sub_accounts_with_one_title_show_their_numbers(house: AccountPages) -> None:
    first, second = (make_sub_account(house.parts, house.account, "North Shop") for _ in range(2))
    page = house.owner.get(NEW).text
    for number, title in ((first, f"North Shop ({first})"), (second, f"North Shop ({second})"),
                          (house.branch, "Dallas")):  # fmt: skip
        assert f'<option value="{number}">{title}</option>' in page


def test_a_stranger_a_teammate_and_another_accounts_owner_do_nothing_here(house: AccountPages) -> None:
    token_id, token = made(house)
    revoke = f"/settings/tokens/{token_id}/revoke"
    house.refuses_others(
        "GET /settings/tokens", f"GET {NEW}", f"POST {NEW}", f"GET {revoke}", f"POST {revoke}", another=token_id
    )
    assert house.ping(token) == 200


@pytest.mark.parametrize("number", ["0", "999999", "-1", "x", "9" * 40, "1.5"])
def test_what_is_no_token_is_a_missing_page(house: AccountPages, number: str) -> None:
    assert house.owner.get(f"/settings/tokens/{number}/revoke").status_code == 404
    assert house.owner.post(f"/settings/tokens/{number}/revoke").status_code == 404
