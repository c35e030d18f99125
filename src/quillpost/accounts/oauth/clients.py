"""OAuth clients and their redirect addresses.

They are compared to the letter, so that each is written plainly: one that two programs read differently could
lead a code astray.
"""

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
from quillpost.accounts.models import SCOPES, scope_fault
from quillpost.accounts.oauth.apps import is_connected
from quillpost.accounts.service import hold_account, require_owner
from quillpost.core import tokens
from quillpost.core.database import Tx
from quillpost.core.database.tables.base import accounts
from quillpost.core.database.tables.users import oauth_clients, oauth_grants
from quillpost.core.errors import Invalid, NotFound, Refused

LONGEST = 2_000

HOME = ("localhost", "127.0.0.1", "::1")
"""Hosts that are the reader's own machine: nobody listens on the way there, so http will do."""

OURS = frozenset({"code", "state", "iss", "error", "error_description", "error_uri"})
"""What we add to the address: it cannot be there already."""

WRITTEN = re.compile(r"[A-Za-z0-9\-._~:/?\[\]@!$&'()+,;=%]+")
PRIVATE_SCHEME = re.compile(r"[a-z][a-z0-9+\-]*(\.[a-z0-9+\-]+)+")


def fault_of(address: str) -> str | None:
    """What is wrong with it, in a sentence; None: it will do."""
    if len(address) > LONGEST:
        return f"At most {LONGEST:,} characters, please."
    if "#" in address:
        return f"{address} has a fragment: leave out # and what follows."
    if "*" in address:
        return f"{address} has a wildcard: register each address as it is."
    if not WRITTEN.fullmatch(address):
        return f"{address} is no address: use letters, digits and URL punctuation, and no spaces."
    try:
        parts = urlsplit(address)
        host, _port = parts.hostname, parts.port
    except ValueError:
        return f"{address} is no address."
    if parts.scheme in ("https", "http") and not host:
        return f"{address} names no host."
    if "@" in parts.netloc:
        return f"{address} has a user name in it: leave that out."
    if urlunsplit(parts) != address:
        return f"{address} is not written plainly: {urlunsplit(parts)} would be."
    if OURS & {name for name, _ in parse_qsl(parts.query, keep_blank_values=True)}:
        return f"{address} has a query parameter that we add ourselves: {', '.join(sorted(OURS))}."
    return _scheme_fault(address, parts.scheme, host)


def _scheme_fault(address: str, scheme: str, host: str | None) -> str | None:
    if scheme == "https" or (scheme == "http" and host in HOME) or PRIVATE_SCHEME.fullmatch(scheme):
        return None
    return (
        f"{address} must begin with https:// (http:// on localhost, 127.0.0.1 or [::1]), or with a scheme "
        "of the app's own that has a dot in it, such as com.example.app:/"
    )


MOST_CLIENTS = 100
MOST_REDIRECTS = 20
LONGEST_NAME = 100
LONGEST_WEBSITE = 2_000
GONE = "its client was deleted"


@dataclass(frozen=True, slots=True)
class Client:
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
class Registration:
    """What an owner fills in."""

    name: str
    redirect_uris: Sequence[str]
    website: str | None = None
    scopes: Sequence[str] | None = None


_COLUMNS = [oauth_clients.c[field.name] for field in fields(Client)]


def register(
    tx: Tx, account_id: int, wish: Registration, *, is_public: bool, actor: Actor, now: datetime
) -> tuple[Client, str | None]:
    """A new client and its secret, readable here and never again; a public one has none. `Invalid` by field,
    `Forbidden`, here and below, for a person who is no owner.
    Redirect addresses: https; http on loopback or localhost; a private-use scheme with a dot in it. No
    fragment, no credentials, no wildcard, at most 2,000 characters. Takes the account's transaction."""
    hold_account(tx, account_id)
    require_owner(tx, account_id, actor)
    columns = _checked(wish)
    _require_room(tx, account_id)
    secret = None if is_public else _mint_secret()
    made = tx.execute(
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
    client = _client(made)
    _note(tx, client, "client.created", actor, now=now, kind="public" if is_public else "confidential")
    return client, secret


def change(
    tx: Tx, account_id: int, client: int, wish: Registration, actor: Actor, *, now: datetime
) -> Client:
    """Write over all that an owner fills in. Tokens that are out stay as they are; refreshed, they are held
    to the scopes that the client has by then."""
    require_owner(tx, account_id, actor)
    columns = _checked(wish)
    changed = _changed(tx, account_id, client, columns, now=now)
    _note(tx, changed, "client.changed", actor, now=now)
    return changed


def new_secret(tx: Tx, account_id: int, client: int, actor: Actor, *, now: datetime) -> str:
    """Another secret; the one before is worth nothing from now on. `Refused` for a public client."""
    require_owner(tx, account_id, actor)
    if find(tx, account_id, client).is_public:
        raise Refused("A public client has no secret: it proves itself by PKCE.")
    secret = _mint_secret()
    changed = _changed(tx, account_id, client, _secret_columns(secret), now=now)
    _note(tx, changed, "client.secret", actor, now=now)
    return secret


def delete(tx: Tx, account_id: int, client: int, actor: Actor, *, now: datetime) -> None:
    """With every connection that it has, in whichever account: its tokens are unknown from now on. Takes the
    worker's transaction, as each of those accounts finds it in its own log."""
    require_owner(tx, account_id, actor)
    gone = find(tx, account_id, client)
    _end_connections(tx, gone, actor, now=now)
    tx.execute(sa.delete(oauth_clients).where(oauth_clients.c.id == gone.id))
    _note(tx, gone, "client.deleted", actor, now=now)


def list_clients(tx: Tx, account_id: int) -> list[Client]:
    """Those that the account registered, the newest first (not those that are merely connected to it)."""
    found = tx.execute(
        sa.select(*_COLUMNS)
        .where(oauth_clients.c.account_id == account_id)
        .order_by(oauth_clients.c.id.desc())
    )
    return [_client(row) for row in found]


def find(tx: Tx, account_id: int, client: int) -> Client:
    """One of the account's own; `NotFound` for any other."""
    row = tx.execute(sa.select(*_COLUMNS).where(_is_own(account_id, client))).first()
    if row is None:
        raise NotFound
    return _client(row)


def by_client_id(tx: Tx, client_id: str) -> Client | None:
    """Takes the worker's transaction: at the authorization endpoint nobody's account is known."""
    row = tx.execute(sa.select(*_COLUMNS).where(oauth_clients.c.client_id == client_id)).first()
    return None if row is None else _client(row)


def is_secret(tx: Tx, client: Client, secret: str) -> bool:
    """Whether it is this client's, compared in constant time."""
    kept = tx.execute(
        sa.select(oauth_clients.c.secret_digest).where(oauth_clients.c.id == client.id)
    ).scalar()
    return kept is not None and compare_digest(bytes(kept), tokens.digest(secret))


def registered_by(tx: Tx, client: Client) -> str:
    """The name of the account that registered it. Takes the worker's transaction."""
    row = tx.execute(
        sa.select(accounts.c.company, accounts.c.name).where(accounts.c.id == client.account_id)
    ).one()
    return str(row.company or row.name)


def count_connections(tx: Tx, client: int, *, now: datetime) -> int:
    """How many connections end with it, in all accounts. Takes the worker's transaction."""
    return int(
        tx.execute(
            sa.select(sa.func.count()).where(oauth_grants.c.client_id == client, is_connected(now))
        ).scalar_one()
    )


def _checked(wish: Registration) -> dict[str, Any]:
    """The columns that the wish fills in, or all of its faults at once."""
    name, website = wish.name.strip(), (wish.website or "").strip() or None
    redirects = list(dict.fromkeys(each.strip() for each in wish.redirect_uris if each.strip()))
    faults = {
        "name": _name_faults(name),
        "website": _website_faults(website),
        "redirect_uris": _redirect_faults(redirects),
        "scopes": _scope_faults(wish.scopes),
    }
    if any(faults.values()):
        raise Invalid({field: told for field, told in faults.items() if told})
    scopes = None if wish.scopes is None else [scope for scope in SCOPES if scope in wish.scopes]
    return {"name": name, "website": website, "redirect_uris": redirects, "scopes": scopes}


def _name_faults(name: str) -> list[str]:
    if not name:
        return ["Give the client a name: people see it when it asks for leave."]
    if len(name) > LONGEST_NAME:
        return [f"At most {LONGEST_NAME} characters, please."]
    if tokens.hide_secrets(name) != name:  # it is shown to others, and noted for ever
        return ["This name holds a secret: choose another, and revoke it if others may have seen it."]
    return [] if name.isprintable() else ["The name holds a character that cannot be shown."]


def _website_faults(website: str | None) -> list[str]:
    if website is None:
        return []
    if len(website) > LONGEST_WEBSITE:
        return [f"At most {LONGEST_WEBSITE:,} characters, please."]
    try:
        parts = urlsplit(website)
        is_plain = parts.scheme in ("https", "http") and bool(parts.hostname) and "@" not in parts.netloc
    except ValueError:
        is_plain = False
    if is_plain and website.isprintable() and " " not in website:
        return []
    return ["This must be the address of a website, such as https://example.com."]


def _redirect_faults(redirects: Sequence[str]) -> list[str]:
    if not redirects:
        return ["Give at least one address that people are led back to."]
    if len(redirects) > MOST_REDIRECTS:
        return [f"At most {MOST_REDIRECTS} addresses, please."]
    return [fault for fault in map(fault_of, redirects) if fault]


def _scope_faults(scopes: Sequence[str] | None) -> list[str]:
    if scopes is not None and not scopes:
        return ["Choose at least one thing that the client may ask for."]
    fault = scope_fault(scopes)
    return [] if fault is None else [fault]


def _require_room(tx: Tx, account_id: int) -> None:
    count = sa.select(sa.func.count()).where(oauth_clients.c.account_id == account_id)
    if tx.execute(count).scalar_one() >= MOST_CLIENTS:
        raise Refused(f"An account has at most {MOST_CLIENTS} OAuth clients: delete one first.")


def _mint_secret() -> str:
    return tokens.mint("secret", secrets.token_bytes(24))


def _secret_columns(secret: str | None) -> dict[str, Any]:
    if secret is None:
        return {}
    return {"secret_digest": tokens.digest(secret), "secret_hint": tokens.hint_of(secret)}


def _is_own(account_id: int, client: int) -> sa.ColumnElement[bool]:
    return sa.and_(oauth_clients.c.account_id == account_id, oauth_clients.c.id == client)


def _changed(tx: Tx, account_id: int, client: int, columns: Mapping[str, Any], *, now: datetime) -> Client:
    row = tx.execute(
        sa.update(oauth_clients)
        .where(_is_own(account_id, client))
        .values(**columns, updated_at=now)
        .returning(*_COLUMNS)
    ).first()
    if row is None:
        raise NotFound
    return _client(row)


def _end_connections(tx: Tx, client: Client, actor: Actor, *, now: datetime) -> None:
    """Who deleted the client is nobody's business in other accounts."""
    c = oauth_grants.c
    gone = tx.execute(
        sa.delete(oauth_grants)
        .where(c.client_id == client.id)
        .returning(c.id, c.account_id, c.sub_account_id, is_connected(now).label("was_connected"))
    ).all()
    for is_own, who in ((True, actor), (False, audit_service.app_actor(client.name))):
        lines = [
            audit_service.Line(
                row.account_id, row.sub_account_id, {"name": client.name, "id": row.id, "because": GONE}
            )
            for row in gone
            if row.was_connected and (row.account_id == client.account_id) is is_own
        ]
        audit_service.note_each(tx, "app.disconnected", who, lines, now=now)


def _client(row: sa.Row[Any]) -> Client:
    known = row._asdict()
    return Client(**known | {"scopes": None if known["scopes"] is None else frozenset(known["scopes"])})


def _note(tx: Tx, client: Client, act: str, actor: Actor, *, now: datetime, **more: Any) -> None:
    about = {"name": client.name, "id": client.id, **more}
    audit_service.note(tx, client.account_id, act, actor, about=about, now=now)
