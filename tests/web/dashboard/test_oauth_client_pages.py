"""The pages of OAuth clients: a secret is shown once, and whoever is no owner sees and changes nothing."""

import re
from html import unescape
from typing import Any

import pytest
import sqlalchemy as sa
from httpx2 import Response

from quillpost.accounts.audit.service import list_audit_entries
from quillpost.accounts.oauth import clients
from quillpost.accounts.oauth.service import AppGrant
from quillpost.accounts.tokens.rules import SCOPE_LABELS
from quillpost.app.container import Container
from quillpost.core.database import Tenant
from quillpost.core.database.tables.accounts import oauth_grants
from support.account_pages import AccountPages
from support.factories import Clock

SECRET = re.compile(r"qp_secret_[0-9A-Za-z]{20,}")
PAGE = "/settings/clients"
BACK = "https://app.example.com/back"


@pytest.fixture
def house(container: Container, http: Any) -> AccountPages:
    return AccountPages(container, http)


def register(house: AccountPages, **changes: Any) -> Response:
    order_request = {"name": "Zapier", "redirect_uris": BACK, "kind": "confidential", "limits": "all"}
    return house.owner.post(f"{PAGE}/new", **order_request | changes)


def registered(house: AccountPages, **changes: Any) -> tuple[clients.OAuthClient, str | None]:
    answer = register(house, **changes)
    assert answer.status_code == 200
    secret = SECRET.search(answer.text)
    return own(house)[0], secret and secret[0]


def own(house: AccountPages) -> list[clients.OAuthClient]:
    with house.parts.db.transaction(Tenant(house.account.id)) as tx:
        return clients.list_clients(tx, house.account.id)


def is_secret(house: AccountPages, client: clients.OAuthClient, secret: str) -> bool:
    with house.parts.db.system_transaction() as tx:
        return clients.is_client_secret(tx, client, secret)


def connect(house: AccountPages, client: clients.OAuthClient, account_id: int, person_id: int) -> int:
    now = house.parts.clock()
    leave = AppGrant(account_id, None, "test", person_id, None)
    with house.parts.db.system_transaction() as tx:
        made = sa.insert(oauth_grants).values(
            account_id=leave.account_id, mode=leave.mode, client_id=client.id, person_id=leave.person_id,
            created_at=now, connected_at=now,
        )  # fmt: skip
        return int(tx.execute(made.returning(oauth_grants.c.id)).scalar_one())


def test_a_confidential_client_gets_an_id_and_a_secret_that_is_shown_this_once(house: AccountPages) -> None:
    answer = register(house)
    assert answer.headers["Cache-Control"] == "no-store"
    (client,) = own(house)
    (secret,) = set(SECRET.findall(answer.text))
    assert client.client_id in answer.text
    assert is_secret(house, client, secret)
    assert secret not in f"{answer.url}{answer.headers}"
    for page in (PAGE, f"{PAGE}/{client.id}", f"{PAGE}/{client.id}/change", "/settings/audit.csv"):
        assert secret not in house.owner.get(page).text
    assert secret[-4:] in house.owner.get(f"{PAGE}/{client.id}").text


def test_the_page_of_a_public_client_says_that_it_has_no_secret(house: AccountPages) -> None:
    client, secret = registered(house, kind="public")
    assert (client.is_public, secret) == (True, None)
    page = house.owner.get(f"{PAGE}/{client.id}").text
    assert "public, without a secret" in page
    assert "New secret" not in page
    assert house.owner.get(f"{PAGE}/{client.id}/secret").status_code == 404
    assert house.owner.post(f"{PAGE}/{client.id}/secret").status_code == 400


def test_the_form_is_empty_and_says_of_every_scope_what_it_allows(house: AccountPages) -> None:
    page = unescape(house.owner.get(f"{PAGE}/new").text)
    assert "></textarea>" in page.replace(">\n</textarea>", "></textarea>")
    assert set(re.findall(r'value="([^"]*)" checked', page)) == {"confidential", "all"}
    for words in SCOPE_LABELS.values():
        assert words in page


def test_a_client_is_kept_as_it_was_filled_in(house: AccountPages) -> None:
    client, _ = registered(
        house,
        website="https://app.example.com",
        redirect_uris=f"{BACK}\r\n\r\n  com.example.app:/back \r\n",
        limits="some",
        scopes=["orders:read", "send:write"],
    )
    assert (client.name, client.website) == ("Zapier", "https://app.example.com")
    assert client.redirect_uris == [BACK, "com.example.app:/back"]
    assert client.scopes == frozenset({"orders:read", "send:write"})
    page = unescape(house.owner.get(f"{PAGE}/{client.id}").text)
    assert "Send mail, by itself or by automations, and pay for it from your credit <code>send:write</code>" in page
    assert "<code>orders:read</code>" in page
    assert "<code>lists:read</code>" not in page
    assert "com.example.app:/back" in page


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"name": ""}, "Give the client a name: people see it when it asks for leave."),
        ({"website": "javascript:alert(1)"}, "This must be the address of a website"),
        ({"redirect_uris": ""}, "Give at least one address that people are led back to."),
        ({"redirect_uris": f"{BACK}\nhttp://app.example.com/back"}, "http://app.example.com/back"),
        ({"redirect_uris": "x" * 42_001}, "At most 42,000 characters, please."),
        ({"kind": "secret"}, "Choose whether the client can keep a secret."),
        ({"kind": None}, "Choose whether the client can keep a secret."),
        ({"limits": "some"}, "Choose at least one thing that the client may ask for."),
        ({"limits": None}, "Choose everything, or some of it."),
        ({"scopes": ["send:read"]}, "You chose everything, but had ticked some as well"),
    ],
)
def test_an_invalid_form_is_shown_again_and_stores_nothing(
    house: AccountPages, changes: dict[str, Any], sentence: str
) -> None:
    before = house.everything()
    answer = register(house, **changes)
    assert answer.status_code == 422
    assert sentence in unescape(answer.text)
    assert 'role="alert"' in answer.text
    assert SECRET.search(answer.text) is None
    if "redirect_uris" not in changes:
        assert f"{BACK}</textarea>" in answer.text
    assert house.everything() == before


def test_an_account_has_only_so_many_clients(house: AccountPages, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "MAX_CLIENTS", 1)
    register(house)
    answer = register(house)
    assert answer.status_code == 422
    assert "at most 1 OAuth clients: delete one first" in answer.text


def test_a_change_is_kept_and_the_form_shows_what_is(house: AccountPages) -> None:
    client, _ = registered(house, limits="some", scopes=["send:write"], website="https://old.example.com")
    path = f"{PAGE}/{client.id}/change"
    form = house.owner.get(path).text
    for kept in ('value="Zapier"', 'value="https://old.example.com"', f"{BACK}</textarea>"):
        assert kept in form
    assert set(re.findall(r'value="([^"]*)" checked', form)) == {"some", "send:write"}
    answer = house.owner.post(path, name="Zap", redirect_uris="https://new.example.com/", limits="all")
    assert "The client is changed." in answer.text
    (changed,) = own(house)
    assert (changed.name, changed.website, changed.redirect_uris, changed.scopes) == (
        "Zap", None, ["https://new.example.com/"], None,
    )  # fmt: skip
    assert (changed.client_id, changed.secret_hint) == (client.client_id, client.secret_hint)


def test_an_invalid_change_changes_nothing(house: AccountPages) -> None:
    client, _ = registered(house)
    answer = house.owner.post(f"{PAGE}/{client.id}/change", name="Zap", redirect_uris="nowhere", limits="all")
    assert answer.status_code == 422
    assert "nowhere</textarea>" in answer.text
    assert 'value="Zap"' in answer.text
    assert own(house) == [client]


def test_a_new_secret_takes_the_place_of_the_one_before(house: AccountPages) -> None:
    client, first = registered(house)
    assert first is not None
    path = f"{PAGE}/{client.id}/secret"
    response = house.owner.get(path)
    assert first[-4:] in response.text
    assert is_secret(house, client, first)
    answer = house.owner.post(path)
    (second,) = set(SECRET.findall(answer.text))
    assert second != first
    assert not is_secret(house, client, first)
    assert is_secret(house, client, second)


@pytest.mark.usefixtures("clean_database")
def test_deleting_says_how_many_connections_end_and_ends_them(house: AccountPages) -> None:
    client, _ = registered(house)
    path = f"{PAGE}/{client.id}/delete"
    assert "Nobody has connected it" in house.owner.get(path).text
    house.stranger  # noqa: B018 (is somebody by now)
    here, there = house.person("dana@example.com"), house.person("sam@example.org")
    connect(house, client, house.account.id, here)
    assert "One account has connected it" in house.owner.get(path).text
    connect(house, client, house.others.id, there)
    assert "2 connections to accounts end at once" in house.owner.get(path).text
    answer = house.owner.post(path)
    assert "The client is deleted" in answer.text
    assert own(house) == []
    counts = house.everything()
    assert (counts["oauth_clients"], counts["oauth_grants"]) == (0, 0)
    assert house.owner.post(path).status_code == 404


def test_every_act_is_noted_without_the_secret(house: AccountPages) -> None:
    client, first = registered(house)
    second = SECRET.findall(house.owner.post(f"{PAGE}/{client.id}/secret").text)[0]
    house.owner.post(f"{PAGE}/{client.id}/change", name="Zap", redirect_uris=BACK, limits="all")
    house.owner.post(f"{PAGE}/{client.id}/delete")
    log = house.owner.get("/settings/audit").text
    for words in ("registered an OAuth client: Zapier", "made a new client secret: Zapier",
                  "changed an OAuth client: Zap", "deleted an OAuth client: Zap"):  # fmt: skip
        assert f"dana@example.com {words}" in log
    assert str(first) not in log
    assert second not in log
    with house.parts.db.system_transaction() as tx:
        acts = [entry.act for entry in list_audit_entries(tx, house.account.id)]
    assert acts == ["client.deleted", "client.changed", "client.secret", "client.created"]


def test_what_gives_power_takes_a_password_of_late(house: AccountPages, clock: Clock) -> None:
    client, secret = registered(house)
    clock.advance(minutes=31)
    before = house.everything()
    for path in (f"{PAGE}/new", f"{PAGE}/{client.id}/change", f"{PAGE}/{client.id}/secret"):
        for answer in (house.owner.get(path, follow=False), house.owner.post(path, follow=False)):
            assert answer.status_code == 303
            assert answer.headers["Location"].startswith("/sign-in/confirm")
    assert house.everything() == before
    assert is_secret(house, client, str(secret))
    assert house.owner.get(f"{PAGE}/{client.id}").status_code == 200
    assert house.owner.post(f"{PAGE}/{client.id}/delete", follow=False).status_code == 303
    assert own(house) == []


def test_a_stranger_a_teammate_and_another_accounts_owner_do_nothing_here(house: AccountPages) -> None:
    client, secret = registered(house)
    one = f"{PAGE}/{client.id}"
    forms = [f"{method} {one}/{act}" for act in ("change", "secret", "delete") for method in ("GET", "POST")]
    house.refuses_others(f"GET {PAGE}", f"GET {PAGE}/new", f"POST {PAGE}/new", f"GET {one}", *forms, another=client.id)
    assert own(house) == [client]
    assert is_secret(house, client, str(secret))


def test_a_client_that_is_merely_connected_here_is_not_ones_own(house: AccountPages) -> None:
    client, secret = registered(house)
    house.stranger  # noqa: B018
    connect(house, client, house.others.id, house.person("sam@example.org"))
    for path in (f"{PAGE}/{client.id}", f"{PAGE}/{client.id}/change", f"{PAGE}/{client.id}/delete"):
        assert house.stranger.get(path).status_code == 404
    order_request: dict[str, Any] = {"name": "Mine", "redirect_uris": "https://evil.example.com/", "limits": "all"}
    assert house.stranger.post(f"{PAGE}/{client.id}/change", **order_request).status_code == 404
    assert house.stranger.post(f"{PAGE}/{client.id}/secret").status_code == 404
    assert house.stranger.post(f"{PAGE}/{client.id}/delete").status_code == 404
    assert client.name not in house.stranger.get(PAGE).text
    assert own(house) == [client]
    assert is_secret(house, client, str(secret))


def test_a_name_is_text_and_nothing_else(house: AccountPages) -> None:
    client, _ = registered(house, name="<script>alert(1)</script>")
    for page in (PAGE, f"{PAGE}/{client.id}", f"{PAGE}/{client.id}/delete", "/settings/audit"):
        text = house.owner.get(page).text
        assert "<script>" not in text
        assert "&lt;script&gt;alert(1)" in text


@pytest.mark.parametrize("number", ["0", "999999", "x", "9" * 40])
def test_what_is_no_client_is_a_missing_page(house: AccountPages, number: str) -> None:
    for path in (f"{PAGE}/{number}", f"{PAGE}/{number}/change", f"{PAGE}/{number}/secret"):
        assert house.owner.get(path).status_code == 404


def test_anothers_client_is_answered_as_an_unknown_one(house: AccountPages) -> None:
    client, _ = registered(house)
    assert house.is_as_if_unknown(house.stranger, f"{PAGE}/{client.id}", client.id)
