"""OAuth clients and their redirect addresses, which are compared exactly."""

import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from hmac import compare_digest
from typing import Any
from urllib.parse import parse_qsl, urlsplit, urlunsplit
from uuid import uuid4

import sqlalchemy as sa

from quillpost.accounts.audit import service as audit_service
from quillpost.accounts.audit.service import Actor
from quillpost.accounts.oauth.service import is_connected
from quillpost.accounts.service import lock_account_row, require_owner
from quillpost.accounts.tokens.rules import find_scope_error, sort_scopes
from quillpost.core import tokens
from quillpost.core.database import Tx, read_row
from quillpost.core.database.tables.accounts import oauth_clients, oauth_grants
from quillpost.core.database.tables.base import accounts
from quillpost.core.errors import Invalid, Refused

MAX_REDIRECT_URI_LENGTH = 2_000

LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "::1")

RESERVED_PARAMETERS = frozenset({"code", "state", "iss", "error", "error_description", "error_uri"})

URI_PATTERN = re.compile(r"[A-Za-z0-9\-._~:/?\[\]@!$&'()+,;=%]+")
PRIVATE_SCHEME_PATTERN = re.compile(r"[a-z][a-z0-9+\-]*(\.[a-z0-9+\-]+)+")


def find_redirect_uri_error(uri: str) -> str | None:
    if len(uri) > MAX_REDIRECT_URI_LENGTH:
        return f"At most {MAX_REDIRECT_URI_LENGTH:,} characters, please."
    if "#" in uri:
        return f"{uri} has a fragment: leave out # and what follows."
    if "*" in uri:
        return f"{uri} has a wildcard: register each address as it is."
    if not URI_PATTERN.fullmatch(uri):
        return f"{uri} is no address: use letters, digits and URL punctuation, and no spaces."
    try:
        parts = urlsplit(uri)
        host, _port = parts.hostname, parts.port
    except ValueError:
        return f"{uri} is no address."
    if parts.scheme in ("https", "http") and not host:
        return f"{uri} names no host."
    if "@" in parts.netloc:
        return f"{uri} has a user name in it: leave that out."
    if urlunsplit(parts) != uri:
        return f"{uri} is not written plainly: {urlunsplit(parts)} would be."
    if RESERVED_PARAMETERS & {name for name, _ in parse_qsl(parts.query, keep_blank_values=True)}:
        return f"{uri} has a query parameter that we add ourselves: {', '.join(sorted(RESERVED_PARAMETERS))}."
    return _find_scheme_error(uri, parts.scheme, host)


def _find_scheme_error(uri: str, scheme: str, host: str | None) -> str | None:
    if scheme == "https" or (scheme == "http" and host in LOOPBACK_HOSTS) or PRIVATE_SCHEME_PATTERN.fullmatch(scheme):
        return None
    return (
        f"{uri} must begin with https:// (http:// on localhost, 127.0.0.1 or [::1]), or with a scheme "
        "of the app's own that has a dot in it, such as com.example.app:/"
    )


MAX_CLIENTS = 100
MAX_REDIRECT_URIS = 20
MAX_NAME_LENGTH = 100
MAX_WEBSITE_LENGTH = 2_000


@dataclass(frozen=True, slots=True)
class OAuthClient:
    id: int
    account_id: int
    client_id: str
    name: str
    website: str | None
    is_public: bool
    secret_hint: str | None
    redirect_uris: Sequence[str]
    scopes: frozenset[str] | None
    created_at: datetime


@dataclass(frozen=True, slots=True)
class ClientRegistration:
    name: str
    redirect_uris: Sequence[str]
    website: str | None = None
    scopes: Sequence[str] | None = None


_COLUMNS = [oauth_clients.c[field.name] for field in fields(OAuthClient)]


def register_client(
    tx: Tx, account_id: int, request: ClientRegistration, *, is_public: bool, actor: Actor, now: datetime
) -> tuple[OAuthClient, str | None]:
    """A new client and its secret, readable here only; a public one has none. `Invalid` by field, `Forbidden` unless
    an owner."""
    lock_account_row(tx, account_id)
    require_owner(tx, account_id, actor)
    columns = _validate_registration(request)
    _require_capacity(tx, account_id)
    secret = None if is_public else _mint_secret()
    row = tx.execute(
        sa.insert(oauth_clients)
        .values(
            account_id=account_id,
            client_id=str(uuid4()),
            is_public=is_public,
            **_secret_columns(secret),
            **columns,
            person_id=actor.person_id,
            created_at=now,
            updated_at=now,
        )
        .returning(*_COLUMNS)
    ).one()
    client = _build_client(row)
    _record_entry(tx, client, "client.created", actor, now=now, kind="public" if is_public else "confidential")
    return client, secret


def update_client(
    tx: Tx, account_id: int, client_row_id: int, request: ClientRegistration, actor: Actor, *, now: datetime
) -> OAuthClient:
    """Existing tokens stay as they are; refreshed, they are limited to the client's scopes."""
    require_owner(tx, account_id, actor)
    columns = _validate_registration(request)
    client = _update_row(tx, account_id, client_row_id, columns, now=now)
    _record_entry(tx, client, "client.changed", actor, now=now)
    return client


def rotate_client_secret(tx: Tx, account_id: int, client_row_id: int, actor: Actor, *, now: datetime) -> str:
    """The new secret. `Refused` for a public client."""
    require_owner(tx, account_id, actor)
    if find_client(tx, account_id, client_row_id).is_public:
        raise Refused("A public client has no secret: it proves itself by PKCE.")
    secret = _mint_secret()
    client = _update_row(tx, account_id, client_row_id, _secret_columns(secret), now=now)
    _record_entry(tx, client, "client.secret", actor, now=now)
    return secret


def delete_client(tx: Tx, account_id: int, client_row_id: int, actor: Actor, *, now: datetime) -> None:
    """With its connections in all accounts, each of which gets an audit entry: takes the system transaction."""
    require_owner(tx, account_id, actor)
    client = find_client(tx, account_id, client_row_id)
    _end_connections(tx, client, actor, now=now)
    tx.execute(sa.delete(oauth_clients).where(oauth_clients.c.id == client.id))
    _record_entry(tx, client, "client.deleted", actor, now=now)


def list_clients(tx: Tx, account_id: int) -> list[OAuthClient]:
    """Those that the account registered, the newest first."""
    rows = tx.execute(
        sa.select(*_COLUMNS).where(oauth_clients.c.account_id == account_id).order_by(oauth_clients.c.id.desc())
    )
    return [_build_client(row) for row in rows]


def find_client(tx: Tx, account_id: int, client_row_id: int) -> OAuthClient:
    return _build_client(read_row(tx, sa.select(*_COLUMNS).where(_is_owned(account_id, client_row_id))))


def find_by_client_id(tx: Tx, client_id: str) -> OAuthClient | None:
    """Takes the system transaction."""
    row = tx.execute(sa.select(*_COLUMNS).where(oauth_clients.c.client_id == client_id)).first()
    return None if row is None else _build_client(row)


def is_client_secret(tx: Tx, client: OAuthClient, secret: str) -> bool:
    digest = tx.execute(sa.select(oauth_clients.c.secret_digest).where(oauth_clients.c.id == client.id)).scalar()
    return digest is not None and compare_digest(bytes(digest), tokens.hash_token(secret))


def read_registrant_name(tx: Tx, client: OAuthClient) -> str:
    """The name of the account that registered it. Takes the system transaction."""
    row = tx.execute(sa.select(accounts.c.company, accounts.c.name).where(accounts.c.id == client.account_id)).one()
    return str(row.company or row.name)


def count_connections(tx: Tx, client_row_id: int, *, now: datetime) -> int:
    """In all accounts. Takes the system transaction."""
    return int(
        tx.execute(
            sa.select(sa.func.count()).where(oauth_grants.c.client_id == client_row_id, is_connected(now))
        ).scalar_one()
    )


def _validate_registration(request: ClientRegistration) -> dict[str, Any]:
    """The columns that the request fills in, or all of its errors at once."""
    name, website = request.name.strip(), (request.website or "").strip() or None
    redirect_uris = list(dict.fromkeys(uri.strip() for uri in request.redirect_uris if uri.strip()))
    is_empty = request.scopes is not None and not request.scopes
    scope_error = (
        "Choose at least one thing that the client may ask for." if is_empty else find_scope_error(request.scopes)
    )
    errors = {
        "name": _find_name_errors(name),
        "website": _find_website_errors(website),
        "redirect_uris": _find_redirect_uri_errors(redirect_uris),
        "scopes": [scope_error] if scope_error else [],
    }
    if any(errors.values()):
        raise Invalid({field: messages for field, messages in errors.items() if messages})
    scopes = None if request.scopes is None else sort_scopes(request.scopes)
    return {"name": name, "website": website, "redirect_uris": redirect_uris, "scopes": scopes}


def _find_name_errors(name: str) -> list[str]:
    if not name:
        return ["Give the client a name: people see it when it asks for leave."]
    if len(name) > MAX_NAME_LENGTH:
        return [f"At most {MAX_NAME_LENGTH} characters, please."]
    if tokens.hide_secrets(name) != name:  # it is shown to others, and noted for ever
        return ["This name holds a secret: choose another, and revoke it if others may have seen it."]
    return [] if name.isprintable() else ["The name holds a character that cannot be shown."]


def _find_website_errors(website: str | None) -> list[str]:
    if website is None:
        return []
    if len(website) > MAX_WEBSITE_LENGTH:
        return [f"At most {MAX_WEBSITE_LENGTH:,} characters, please."]
    try:
        parts = urlsplit(website)
        is_plain = parts.scheme in ("https", "http") and bool(parts.hostname) and "@" not in parts.netloc
    except ValueError:
        is_plain = False
    if is_plain and website.isprintable() and " " not in website:
        return []
    return ["This must be the address of a website, such as https://example.com."]


def _find_redirect_uri_errors(redirect_uris: Sequence[str]) -> list[str]:
    if not redirect_uris:
        return ["Give at least one address that people are led back to."]
    if len(redirect_uris) > MAX_REDIRECT_URIS:
        return [f"At most {MAX_REDIRECT_URIS} addresses, please."]
    return [error for error in map(find_redirect_uri_error, redirect_uris) if error]


def _require_capacity(tx: Tx, account_id: int) -> None:
    count = sa.select(sa.func.count()).where(oauth_clients.c.account_id == account_id)
    if tx.execute(count).scalar_one() >= MAX_CLIENTS:
        raise Refused(f"An account has at most {MAX_CLIENTS} OAuth clients: delete one first.")


def _mint_secret() -> str:
    return tokens.mint_secret("secret", secrets.token_bytes(24))


def _secret_columns(secret: str | None) -> dict[str, Any]:
    if secret is None:
        return {}
    return {"secret_digest": tokens.hash_token(secret), "secret_hint": tokens.secret_hint(secret)}


def _is_owned(account_id: int, client_row_id: int) -> sa.ColumnElement[bool]:
    return sa.and_(oauth_clients.c.account_id == account_id, oauth_clients.c.id == client_row_id)


def _update_row(
    tx: Tx, account_id: int, client_row_id: int, columns: Mapping[str, Any], *, now: datetime
) -> OAuthClient:
    update = sa.update(oauth_clients).where(_is_owned(account_id, client_row_id))
    return _build_client(read_row(tx, update.values(**columns, updated_at=now).returning(*_COLUMNS)))


def _end_connections(tx: Tx, client: OAuthClient, actor: Actor, *, now: datetime) -> None:
    """Other accounts do not learn who deleted the client."""
    c = oauth_grants.c
    grants = tx.execute(
        sa.delete(oauth_grants)
        .where(c.client_id == client.id)
        .returning(c.id, c.account_id, c.sub_account_id, is_connected(now).label("was_connected"))
    ).all()
    for is_own, entry_actor in ((True, actor), (False, audit_service.build_app_actor(client.name))):
        entries = [
            audit_service.NewAuditEntry(
                row.account_id,
                row.sub_account_id,
                {"name": client.name, "id": row.id, "because": "its client was deleted"},
            )
            for row in grants
            if row.was_connected and (row.account_id == client.account_id) is is_own
        ]
        audit_service.record_audit_entries(tx, "app.disconnected", entry_actor, entries, now=now)


def _build_client(row: sa.Row[Any]) -> OAuthClient:
    values = row._asdict()
    return OAuthClient(**values | {"scopes": None if values["scopes"] is None else frozenset(values["scopes"])})


def _record_entry(tx: Tx, client: OAuthClient, act: str, actor: Actor, *, now: datetime, **details: Any) -> None:
    about = {"name": client.name, "id": client.id, **details}
    audit_service.record_audit_entry(tx, client.account_id, act, actor, about=about, now=now)
