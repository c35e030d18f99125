"""OAuth clients: what may be registered, by whom it is seen, and what ends with it."""

from typing import Any

import pytest
import sqlalchemy as sa

from quillpost.accounts.audit.labels import describe_entry
from quillpost.accounts.audit.service import Actor, list_audit_entries
from quillpost.accounts.oauth import clients
from quillpost.accounts.oauth.clients import ClientRegistration, find_redirect_uri_error
from quillpost.app.container import Container
from quillpost.core.database import Tenant
from quillpost.core.database.tables.accounts import oauth_clients
from quillpost.core.errors import Invalid, NotFound
from quillpost.core.tokens import hash_token, is_of_kind, mint_secret
from support.factories import Account
from support.oauth_app import ACTOR, REDIRECT_URI, connect_app, register_client
from support.rows import execute
from support.test_client import TestClient
from support.transactions import run, run_as

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
    [row] = execute(container, sa.select(oauth_clients).where(oauth_clients.c.id == client.id))
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
            tx.execute(sa.select(oauth_clients.c.secret_digest))
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


def test_a_strangers_client_cannot_be_seen_changed_or_deleted(
    container: Container, owner: Account, stranger: Account
) -> None:
    client, _ = register_client(container, owner.id)
    now, registration = container.clock(), ClientRegistration("Mine", [REDIRECT_URI])
    with container.db.transaction(Tenant(stranger.id)) as tx:
        assert clients.list_clients(tx, stranger.id) == []
        assert clients.list_clients(tx, owner.id) == []
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
