"""Tokens, connected apps and OAuth clients on the settings' pages: made, shown once, and ended by owners."""

import re
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.accounts.audit.service import Actor
from quillpost.accounts.oauth import clients
from quillpost.accounts.tokens import service as token_service
from quillpost.accounts.tokens.rules import ALL_SCOPES_LABEL, SCOPE_LABELS
from quillpost.core.database import Tenant
from quillpost.core.database.tables.accounts import oauth_grants
from quillpost.core.database.tables.base import tokens
from support import pages
from support.factories import Clock, make_sub_account
from support.pages import LIMITED, MEMBER, OWNER, STRANGER, AccountPages, WrongForm, assert_hides, assert_shows
from support.rows import run

TOKEN, SECRET = re.compile(r"qp_(?:test|live)_[0-9A-Za-z]{20,}"), re.compile(r"qp_secret_[0-9A-Za-z]{20,}")
TOKENS, APPS, CLIENTS = "/settings/tokens", "/settings/apps", "/settings/clients"
BACK = "https://app.example.com/back"
GOOD_TOKEN: dict[str, Any] = {"name": "Zapier", "mode": "test", "limits": "all", "lasts": "never"}
GOOD_CLIENT: dict[str, Any] = {"name": "Zapier", "redirect_uris": BACK, "kind": "confidential", "limits": "all"}
CHECKED = re.compile(r'value="([^"]*)"[^>]* (?:checked|selected)')


def make_token(house: AccountPages, **changes: Any) -> tuple[int, str]:
    """A new token's id and the token."""
    found = TOKEN.search(house.owner.post(f"{TOKENS}/new", **GOOD_TOKEN | changes).text)
    assert found is not None
    own = sa.select(sa.func.max(tokens.c.id)).where(tokens.c.grant_id.is_(None), tokens.c.session_id.is_(None))
    return int(house.value(own)), found[0]


def test_a_new_token_works_and_is_shown_this_once(house: AccountPages) -> None:
    answer = house.owner.post(f"{TOKENS}/new", **GOOD_TOKEN)
    assert (answer.status_code, answer.headers["Cache-Control"]) == (200, "no-store")
    token = TOKEN.findall(answer.text)[0]
    assert house.account.http.get("/api/v2/ping", headers={"Authorization": f"Bearer {token}"}).json() == {
        "message": "pong", "test_mode": True,
    }  # fmt: skip
    assert_shows(
        unescape(answer.text), f"curl -H 'Authorization: Bearer {token}' \\\n  {house.parts.base_url}/api/v2/ping"
    )
    assert token not in f"{answer.url}{answer.headers}"
    for page in (TOKENS, f"{TOKENS}/new", "/settings/audit", "/settings/audit.csv"):
        assert_hides(house.owner.get(page), token)


def test_a_token_gets_exactly_what_was_ticked_and_its_line_tells_it(house: AccountPages, clock: Clock) -> None:
    number, token = make_token(
        house, mode="live", limits="some", scopes=["orders:read", "lists:read"], sub_account_id=house.branch, lasts="30"
    )
    [kept] = [each for each in list_tokens(house) if each.id == number]
    assert (kept.scopes, kept.sub_account_id, kept.maker) == (["orders:read", "lists:read"], house.branch, OWNER)
    longer, _ = make_token(house, name="Longer", lasts="90")
    [whole] = [each for each in list_tokens(house) if each.id == longer]
    assert (whole.scopes, whole.sub_account_id) == (None, None)
    assert [each.expires_at - clock.now() for each in (kept, whole)] == [timedelta(days=30), timedelta(days=90)]
    clock.advance(hours=2)
    assert_shows(
        house.owner.get(TOKENS), "Zapier", "Live", token[-4:], "orders:read", "for Dallas alone", "2 hours ago",
        f"by {OWNER}", "never", "3 Jun 2026",
    )  # fmt: skip
    house.ping(token)
    assert_shows(house.owner.get(TOKENS), "just now")
    with house.parts.db.transaction(Tenant(house.account.id)) as tx:
        token_service.create_token(
            tx, house.account.id, name="Spring", mode="test", scopes=None, sub_account_id=None,
            expires_at=clock.now() + timedelta(days=1), actor=Actor(OWNER), now=clock.now(),
        )  # fmt: skip
    assert_hides(house.owner.get(TOKENS), "expired")
    clock.advance(days=3)
    assert_shows(house.owner.get(TOKENS), "expired 2 days ago")


def list_tokens(house: AccountPages) -> list[Any]:
    return list(run(house.parts, token_service.list_tokens, house.account.id))


WRONG_TOKENS: list[WrongForm] = [
    ({"name": ""}, "name", "Give the token a name that says what it is for."),
    ({"name": "x" * 101}, "name", "The name has at most 100 characters."),
    ({"name": "x" * 301}, "name", "At most 300 characters, please."),
    ({"mode": "production"}, "mode", "Choose test or live."),
    ({"mode": None}, "mode", "Choose test or live."),
    ({"limits": "some"}, "scopes", "Choose at least one thing that it may do."),
    ({"limits": "some", "scopes": ["everything"]}, "scopes", "Unknown scope everything."),
    ({"limits": "all", "scopes": ["send:read"]}, "scopes", "You chose everything, but had ticked some as well"),
    ({"limits": None}, "scopes", "Choose everything, or some of it."),
    ({"lasts": "7"}, "expires_at", "Choose how long it is good for."),
    ({"lasts": None}, "expires_at", "Choose how long it is good for."),
    ({"sub_account_id": "999999"}, "sub_account_id", "There is no such sub account."),
    ({"sub_account_id": "Austin"}, "sub_account_id", "Choose one that is on the list."),
]


def test_the_form_of_a_token_comes_back_with_its_error(house: AccountPages, subtests: pytest.Subtests) -> None:
    first, second = (make_sub_account(house.parts, house.account, "North Shop") for _ in range(2))
    page = unescape(house.owner.get(f"{TOKENS}/new").text)
    for scope, words in SCOPE_LABELS.items():
        assert_shows(page, words, f'value="{scope}"')
    for number, title in (
        (first, f"North Shop ({first})"), (second, f"North Shop ({second})"), (house.branch, "Dallas"),
    ):  # fmt: skip
        assert_shows(page, f'<option value="{number}">{title}</option>')
    house.refuses_forms(subtests, f"{TOKENS}/new", GOOD_TOKEN, WRONG_TOKENS)
    wrong: dict[str, Any] = {
        "name": "Zapier <3" + "x" * 100, "mode": "live", "limits": "some", "scopes": ["send:write", "lists:read"],
        "lasts": "90", "sub_account_id": house.branch,
    }  # fmt: skip
    shown = house.owner.post(f"{TOKENS}/new", **wrong).text
    assert_shows(shown, 'value="Zapier &lt;3xx', 'role="alert"')
    assert TOKEN.search(shown) is None
    assert set(CHECKED.findall(shown)) == {"live", "some", "send:write", "lists:read", "90", str(house.branch)}
    for mode in ("live", "test"):  # the mode that one looks at
        house.owner.post("/session/switch", mode=mode)
        assert re.findall(r'name="mode" value="(\w+)" checked', house.owner.get(f"{TOKENS}/new").text) == [mode]


def test_revoking_asks_first_and_then_takes_effect_at_once(house: AccountPages, clock: Clock) -> None:
    number, token = make_token(house)
    clock.advance(hours=1)  # to revoke takes no password
    path = f"{TOKENS}/{number}/revoke"
    assert_shows(house.owner.get(path), "Revoke “Zapier”?", token[-4:])
    assert house.ping(token) == 200
    assert_shows(house.owner.post(path), "The token is revoked.")
    assert house.ping(token) == 401
    with house.unchanged():
        for again in (house.owner.get(path), house.owner.post(path)):
            assert_shows(again, "That token is revoked already.", status=200)
    assert (house.stranger.get(path).status_code, house.stranger.post(path).status_code) == (404, 404)


def test_an_app_is_shown_with_everything_it_may_do(house: AccountPages, clock: Clock) -> None:
    house.limited  # noqa: B018 (is somebody by now)
    _, token = house.connect_app(
        house.account, LIMITED, sub_account_id=house.branch, scopes=["orders:read"], mode="live"
    )
    clock.advance(hours=3)
    page = unescape(house.owner.get(APPS).text)
    assert_shows(
        page, "Zapier", "Live", "https://app.example.com/", "3 hours ago", f"by {LIMITED}", "Dallas alone",
        SCOPE_LABELS["orders:read"], "Not used yet",
    )  # fmt: skip
    assert_hides(page, SCOPE_LABELS["send:write"])
    house.ping(token)
    assert_shows(house.owner.get(APPS), "Last used")
    house.connect_app(house.account, OWNER, "Everything")
    assert_shows(house.owner.get(APPS), ALL_SCOPES_LABEL, "the whole account", "by you")


def test_an_app_let_in_several_times_is_disconnected_everywhere(house: AccountPages, clock: Clock) -> None:
    oldest, first = house.connect_app(house.account, OWNER, scopes=["orders:read"])
    clock.advance(hours=5)
    newest, second = house.connect_app(house.account, OWNER, scopes=["lists:read"])
    clock.advance(hours=1)
    house.ping(second)
    page = unescape(house.owner.get(APPS).text)
    assert re.findall(rf"{APPS}/(\d+)/disconnect", page) == [str(newest)]
    assert_shows(
        page, "6 hours ago", "Let in 2 times since, the last time", "1 hour ago", "Last used",
        SCOPE_LABELS["orders:read"], SCOPE_LABELS["lists:read"],
    )  # fmt: skip
    waiting, _ = house.connect_app(house.account, OWNER)
    assert_shows(house.owner.get(APPS), ALL_SCOPES_LABEL)
    # A code that waits to be exchanged.
    house.execute(sa.update(oauth_grants).where(oauth_grants.c.id == waiting).values(connected_at=None))
    path = f"{APPS}/{oldest}/disconnect"
    assert_shows(house.owner.get(path), "Disconnect “Zapier”?", "on none of the 2 devices or places")
    assert (house.ping(first), house.ping(second)) == (200, 200)
    assert_shows(house.owner.post(path), "The app is disconnected.")  # takes no password
    assert (house.ping(first), house.ping(second)) == (401, 401)
    assert_shows(house.owner.get(APPS), "No app is connected")
    left = sa.select(oauth_grants.c.id).where(oauth_grants.c.account_id == house.account.id)
    assert house.rows(left.where(oauth_grants.c.ended_at.is_(None))) == []
    assert (house.owner.get(path).status_code, house.owner.post(path).status_code) == (404, 404)
    assert house.owner.get("/settings/audit").text.count(f"{OWNER} disconnected an app: Zapier") == 1


def test_what_is_alike_but_for_its_person_mode_place_or_name_stays_connected(house: AccountPages) -> None:
    house.member, house.stranger  # noqa: B018
    house.join(STRANGER, house.account.id, role="member")
    grant, token = house.connect_app(house.account, OWNER)
    others = [
        house.connect_app(house.account, MEMBER)[1],
        house.connect_app(house.account, OWNER, mode="live")[1],
        house.connect_app(house.account, OWNER, sub_account_id=house.branch)[1],
        house.connect_app(house.account, OWNER, "Another")[1],
    ]
    house.owner.post(f"{APPS}/{grant}/disconnect")
    assert [house.ping(each) for each in (token, *others)] == [401, 200, 200, 200, 200]
    # Somebody in two accounts sees those of the one that they look at.
    house.connect_app(house.account, STRANGER, "Here")
    house.connect_app(house.others, STRANGER, "There")
    assert_shows(house.stranger.get(APPS), "There", hides=["Here"])


def test_members_see_and_disconnect_their_own_alone_and_owners_all(house: AccountPages) -> None:
    people = {"Owners": house.owner, "Members": house.member, "Limited": house.limited}
    emails = {"Owners": OWNER, "Members": MEMBER, "Limited": LIMITED}
    apps = {
        name: house.connect_app(
            house.account, emails[name], name, sub_account_id=house.branch if name == "Limited" else None
        )
        for name in people
    }
    seen = {reader: {name for name in people if name in browser.get(APPS).text} for reader, browser in people.items()}
    assert seen == {"Owners": set(people), "Members": {"Members"}, "Limited": {"Limited"}}
    with house.unchanged():
        for reader in ("Members", "Limited"):
            for path in (f"{APPS}/{apps[name][0]}/disconnect" for name in people if name != reader):
                assert people[reader].get(path).status_code == people[reader].post(path).status_code == 404
    assert [house.ping(token) for _, token in apps.values()] == [200] * 3
    house.member.post(f"{APPS}/{apps['Members'][0]}/disconnect")
    assert [house.ping(token) for _, token in apps.values()] == [200, 401, 200]
    path = f"{APPS}/{apps['Limited'][0]}/disconnect"
    assert_shows(house.owner.get(path), LIMITED)
    house.owner.post(path)
    assert [house.ping(token) for _, token in apps.values()] == [200, 401, 401]


def register(house: AccountPages, **changes: Any) -> tuple[clients.OAuthClient, str | None]:
    answer = house.owner.post(f"{CLIENTS}/new", **GOOD_CLIENT | changes)
    assert answer.status_code == 200
    secret = SECRET.search(answer.text)
    return own_clients(house)[0], secret and secret[0]


def own_clients(house: AccountPages) -> list[clients.OAuthClient]:
    with house.parts.db.transaction(Tenant(house.account.id)) as tx:
        return clients.list_clients(tx, house.account.id)


def is_secret(house: AccountPages, client: clients.OAuthClient, secret: str) -> bool:
    return run(house.parts, clients.is_client_secret, client, secret)


def connect(house: AccountPages, client: clients.OAuthClient, account_id: int, email: str) -> None:
    now, person_id = house.parts.clock(), house.person(email)
    house.execute(
        sa.insert(oauth_grants).values(
            account_id=account_id, mode="test", client_id=client.id, person_id=person_id, created_at=now,
            connected_at=now,
        )
    )  # fmt: skip


def test_the_secret_of_a_confidential_client_is_shown_once_and_replaced_by_a_new_one(house: AccountPages) -> None:
    answer = house.owner.post(f"{CLIENTS}/new", **GOOD_CLIENT)
    assert answer.headers["Cache-Control"] == "no-store"
    (client,), (first,) = own_clients(house), set(SECRET.findall(answer.text))
    page = f"{CLIENTS}/{client.id}"
    assert_shows(answer, client.client_id)
    assert is_secret(house, client, first)
    assert first not in f"{answer.url}{answer.headers}"
    for path in (CLIENTS, page, f"{page}/change", "/settings/audit.csv"):
        assert_hides(house.owner.get(path), first)
    for path in (page, f"{page}/secret"):
        assert_shows(house.owner.get(path), first[-4:])
    assert is_secret(house, client, first)
    (second,) = set(SECRET.findall(house.owner.post(f"{page}/secret").text))
    assert second != first
    assert (is_secret(house, client, first), is_secret(house, client, second)) == (False, True)
    house.owner.post(f"{page}/change", name="Zap", redirect_uris=BACK, limits="all")
    house.owner.post(f"{page}/delete")
    log = house.owner.get("/settings/audit")
    assert_hides(log, first, second)
    for words in ("registered an OAuth client: Zapier", "made a new client secret: Zapier",
                  "changed an OAuth client: Zap", "deleted an OAuth client: Zap"):  # fmt: skip
        assert_shows(log, f"{OWNER} {words}")
    assert house.acts() == ["client.deleted", "client.changed", "client.secret", "client.created"]


def test_a_public_client_has_no_secret(house: AccountPages) -> None:
    client, secret = register(house, kind="public")
    assert (client.is_public, secret) == (True, None)
    assert_shows(house.owner.get(f"{CLIENTS}/{client.id}"), "public, without a secret", hides=["New secret"])
    path = f"{CLIENTS}/{client.id}/secret"
    assert (house.owner.get(path).status_code, house.owner.post(path).status_code) == (404, 400)


WRONG_CLIENTS: list[WrongForm] = [
    ({"name": ""}, "name", "Give the client a name: people see it when it asks for leave."),
    ({"website": "javascript:alert(1)"}, "website", "This must be the address of a website"),
    ({"redirect_uris": ""}, "redirect_uris", "Give at least one address that people are led back to."),
    ({"redirect_uris": f"{BACK}\nhttp://app.example.com/back"}, "redirect_uris", "http://app.example.com/back"),
    ({"redirect_uris": "x" * 42_001}, "redirect_uris", "At most 42,000 characters, please."),
    ({"kind": "secret"}, "kind", "Choose whether the client can keep a secret."),
    ({"kind": None}, "kind", "Choose whether the client can keep a secret."),
    ({"limits": "some"}, "scopes", "Choose at least one thing that the client may ask for."),
    ({"limits": None}, "scopes", "Choose everything, or some of it."),
    ({"scopes": ["send:read"]}, "scopes", "You chose everything, but had ticked some as well"),
]


def test_a_refused_client_form_comes_back_as_it_was_filled_in(
    house: AccountPages, subtests: pytest.Subtests, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = unescape(house.owner.get(f"{CLIENTS}/new").text)
    assert_shows(page.replace(">\n</textarea>", "></textarea>"), "></textarea>", *SCOPE_LABELS.values())
    assert set(re.findall(r'value="([^"]*)" checked', page)) == {"confidential", "all"}
    house.refuses_forms(subtests, f"{CLIENTS}/new", GOOD_CLIENT, WRONG_CLIENTS)
    refused = house.owner.post(f"{CLIENTS}/new", **GOOD_CLIENT | {"name": ""})
    assert_shows(refused, f"{BACK}</textarea>", 'role="alert"')
    assert SECRET.search(refused.text) is None
    monkeypatch.setattr(clients, "MAX_CLIENTS", 1)
    register(house)
    refused = house.owner.post(f"{CLIENTS}/new", **GOOD_CLIENT)
    assert_shows(refused, "at most 1 OAuth clients: delete one first", status=422)


def test_a_client_is_kept_as_it_was_filled_in_and_changed(house: AccountPages) -> None:
    client, _ = register(
        house, website="https://app.example.com", limits="some", scopes=["orders:read", "send:write"],
        redirect_uris=f"{BACK}\r\n\r\n  com.example.app:/back \r\n", name="<script>alert(1)</script>",
    )  # fmt: skip
    assert (client.website, client.scopes) == ("https://app.example.com", frozenset({"orders:read", "send:write"}))
    assert client.redirect_uris == [BACK, "com.example.app:/back"]
    at = f"{CLIENTS}/{client.id}"
    page = unescape(house.owner.get(at).text)
    assert_shows(
        page, "Send mail, by itself or by automations, and pay for it from your credit <code>send:write</code>",
        "<code>orders:read</code>", "com.example.app:/back",
    )  # fmt: skip
    assert_hides(page, "<code>lists:read</code>")
    for path in (CLIENTS, at, f"{at}/delete", "/settings/audit"):
        assert_shows(house.owner.get(path), "&lt;script&gt;alert(1)", hides=["<script>"])
    form = house.owner.get(f"{at}/change").text
    assert_shows(form, 'value="https://app.example.com"', f"{BACK}\ncom.example.app:/back</textarea>")
    assert set(re.findall(r'value="([^"]*)" checked', form)) == {"some", "orders:read", "send:write"}
    refused = house.owner.post(f"{at}/change", name="Zap", redirect_uris="nowhere", limits="all")
    assert (refused.status_code, set(pages.form_errors(refused))) == (422, {"redirect_uris"})
    assert_shows(refused, "nowhere</textarea>", 'value="Zap"')
    assert own_clients(house) == [client]
    answer = house.owner.post(f"{at}/change", name="Zap", redirect_uris="https://new.example.com/", limits="all")
    assert_shows(answer, "The client is changed.")
    (now,) = own_clients(house)
    assert (now.name, now.website, now.redirect_uris, now.scopes) == ("Zap", None, ["https://new.example.com/"], None)
    assert (now.client_id, now.secret_hint) == (client.client_id, client.secret_hint)


def test_deleting_a_client_says_how_many_connections_end_and_ends_them(house: AccountPages, clock: Clock) -> None:
    client, secret = register(house)
    page = f"{CLIENTS}/{client.id}"
    assert_shows(house.owner.get(f"{page}/delete"), "Nobody has connected it")
    house.stranger  # noqa: B018 (is somebody by now)
    connect(house, client, house.account.id, OWNER)
    assert_shows(house.owner.get(f"{page}/delete"), "One account has connected it")
    connect(house, client, house.others.id, STRANGER)
    assert_shows(house.owner.get(f"{page}/delete"), "2 connections to accounts end at once")
    # That it is connected there makes it nobody else's.
    for part in ("", "/change", "/secret", "/delete"):
        assert house.stranger.get(page + part).status_code == 404, part
    assert house.stranger.post(f"{page}/delete").status_code == 404
    assert_hides(house.stranger.get(CLIENTS), client.name)
    assert (own_clients(house), is_secret(house, client, str(secret))) == ([client], True)
    clock.advance(minutes=31)  # takes no password
    assert_shows(house.owner.post(f"{page}/delete"), "The client is deleted")
    assert own_clients(house) == []
    assert house.rows(sa.select(oauth_grants).where(oauth_grants.c.client_id == client.id)) == []
    assert house.owner.post(f"{page}/delete").status_code == 404
