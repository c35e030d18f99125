"""Codes and tokens of apps. All tokens of one grant are a family. One conditional UPDATE claims a code or a refresh
token. If one is shown again, it was stolen: the whole family ends. The grant's row is locked first, by those who add
tokens and those who end the family. Everything here takes the system transaction, as no account is known yet."""

import secrets
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Any, Literal

import sqlalchemy as sa

from quillpost.accounts.audit import service as audit_service
from quillpost.accounts.audit.service import Actor
from quillpost.accounts.oauth.clients import OAuthClient
from quillpost.accounts.oauth.service import AppGrant, GrantEndReason, end_grants
from quillpost.accounts.queries import insert_token
from quillpost.accounts.tokens.rules import get_role_scopes, intersect_scopes, sort_scopes
from quillpost.core import tokens as token_format
from quillpost.core.database import Tx
from quillpost.core.database.tables.accounts import memberships, oauth_codes, oauth_grants, refresh_tokens
from quillpost.core.database.tables.base import sub_accounts, tokens

REFRESH_OVERLAP = timedelta(minutes=10)
"""How long an access token remains valid after its refresh, for calls under way."""


@dataclass(frozen=True, slots=True)
class TokenLifetimes:
    code: timedelta = timedelta(seconds=60)
    access: timedelta = timedelta(days=30)
    refresh: timedelta = timedelta(days=365)


DEFAULT_LIFETIMES = TokenLifetimes()


@dataclass(frozen=True, slots=True)
class AuthorizationCode:
    """A valid code, not yet claimed."""

    digest: bytes
    grant_id: int
    client_id: str
    redirect_uri: str
    challenge: str | None
    requested_scopes: frozenset[str] | None
    grant: AppGrant


@dataclass(frozen=True, slots=True)
class TokenFamily:
    grant_id: int
    client_id: str
    grant: AppGrant


@dataclass(frozen=True, slots=True)
class TokenReuse:
    """A code or refresh token was shown again. `notify_person_id` is None if the family had ended before."""

    grant_id: int
    reason: GrantEndReason
    notify_person_id: int | None


@dataclass(frozen=True, slots=True)
class TokenPair:
    access_token: str
    refresh_token: str
    expires_in: int


END_ACTIONS: dict[GrantEndReason, str] = {"replay": "app.replayed", "reuse": "app.reused", "app": "app.disconnected"}
SECRETS: dict[str, tuple[sa.Table, GrantEndReason]] = {
    "code": (oauth_codes, "replay"),
    "refresh": (refresh_tokens, "reuse"),
}
"""The table of each kind, and why its family ends where one is shown again."""


def issue_code(
    tx: Tx,
    client: OAuthClient,
    grant: AppGrant,
    actor: Actor,
    *,
    redirect_uri: str,
    challenge: str | None,
    requested_scopes: frozenset[str] | None,
    lifetimes: TokenLifetimes = DEFAULT_LIFETIMES,
    now: datetime,
) -> str:
    """A code for this client. `requested_scopes` are those the client named. The app is connected once the code is
    exchanged."""
    grant_id = tx.execute(
        sa.insert(oauth_grants)
        .values(
            account_id=grant.account_id,
            sub_account_id=grant.sub_account_id,
            mode=grant.mode,
            client_id=client.id,
            person_id=grant.person_id,
            scopes=_sort_scopes(grant.scopes),
            created_at=now,
        )
        .returning(oauth_grants.c.id)
    ).scalar_one()
    code = token_format.mint_secret("code", secrets.token_bytes(24))
    tx.execute(
        sa.insert(oauth_codes).values(
            digest=token_format.hash_token(code),
            grant_id=grant_id,
            redirect_uri=redirect_uri,
            challenge=challenge,
            asked=_sort_scopes(requested_scopes),
            created_at=now,
            expires_at=now + lifetimes.code,
        )
    )
    about = {"name": client.name, "mode": grant.mode, "id": grant_id}
    sub_account_id = grant.sub_account_id
    audit_service.record_audit_entry(
        tx, grant.account_id, "app.allowed", actor, about=about, sub_account_id=sub_account_id, now=now
    )
    return code


def read_code(
    tx: Tx, code: str, client: OAuthClient, *, address: str | None = None, now: datetime
) -> AuthorizationCode | TokenReuse | None:
    """The code, if it is this client's, in time and unused. A used one ends its family."""
    found = _read_secret(tx, "code", code, client, address=address, now=now)
    if found is None or isinstance(found, TokenReuse):
        return found
    row, grant = found
    requested_scopes = None if row.asked is None else frozenset(row.asked)
    return AuthorizationCode(
        row.digest, row.grant_id, client.client_id, row.redirect_uri, row.challenge, requested_scopes, grant
    )


def exchange_code(
    tx: Tx,
    code: AuthorizationCode,
    client: OAuthClient,
    *,
    lifetimes: TokenLifetimes = DEFAULT_LIFETIMES,
    address: str | None = None,
    now: datetime,
) -> TokenPair | TokenReuse | None:
    """The first tokens of the family. `TokenReuse` if another call was faster; None if the family had ended."""
    if not _lock_grant(tx, code.grant_id):
        return None
    if not _mark_used(tx, oauth_codes, code.digest, now=now):
        return _end_family(tx, code.grant_id, client, "replay", address=address, now=now)
    _update_grant(tx, code.grant_id, connected_at=now)
    return _issue_tokens(tx, code.grant_id, client, code.grant, code.grant.scopes, lifetimes, now=now)


def read_refresh_token(
    tx: Tx, refresh_token: str, client: OAuthClient, *, address: str | None = None, now: datetime
) -> TokenFamily | TokenReuse | None:
    """Its family, if the token is this client's, in time and unused. A used one ends the family."""
    found = _read_secret(tx, "refresh", refresh_token, client, address=address, now=now)
    if found is None or isinstance(found, TokenReuse):
        return found
    row, grant = found
    return TokenFamily(row.grant_id, client.client_id, grant)


def exchange_refresh_token(
    tx: Tx,
    refresh_token: str,
    family: TokenFamily,
    client: OAuthClient,
    *,
    scopes: frozenset[str] | None,
    lifetimes: TokenLifetimes = DEFAULT_LIFETIMES,
    address: str | None = None,
    now: datetime,
) -> TokenPair | TokenReuse | None:
    """The next tokens; `scopes` may be fewer than the grant's. Otherwise as `exchange_code`."""
    if not _lock_grant(tx, family.grant_id):
        return None
    if not _mark_used(tx, refresh_tokens, token_format.hash_token(refresh_token), now=now):
        return _end_family(tx, family.grant_id, client, "reuse", address=address, now=now)
    overlap_end = now + REFRESH_OVERLAP
    tx.execute(
        sa.update(tokens)
        .where(tokens.c.grant_id == family.grant_id, tokens.c.revoked_at.is_(None), tokens.c.expires_at > overlap_end)
        .values(expires_at=overlap_end)
    )
    _update_grant(tx, family.grant_id, refreshed_at=now)
    granted_scopes = intersect_scopes(family.grant.scopes, scopes)
    return _issue_tokens(tx, family.grant_id, client, family.grant, granted_scopes, lifetimes, now=now)


def revoke_app_token(
    tx: Tx, token: str, client: OAuthClient, *, address: str | None = None, now: datetime
) -> Literal["done", "unknown", "another's"]:
    """An access token by itself; a refresh token with its family (RFC 7009)."""
    table = refresh_tokens if token_format.is_of_kind(token, "refresh") else tokens
    row = tx.execute(
        sa.select(oauth_grants.c.id, oauth_grants.c.client_id)
        .join(table, table.c.grant_id == oauth_grants.c.id)
        .where(table.c.digest == token_format.hash_token(token))
    ).first()
    if row is None:
        return "unknown"
    if row.client_id != client.id:
        return "another's"
    if table is refresh_tokens:
        _end_family(tx, row.id, client, "app", address=address, now=now)
    else:
        tx.execute(
            sa.update(tokens)
            .where(tokens.c.digest == token_format.hash_token(token), tokens.c.revoked_at.is_(None))
            .values(revoked_at=now)
        )
    return "done"


def _end_family(
    tx: Tx, grant_id: int, client: OAuthClient, reason: GrantEndReason, *, address: str | None, now: datetime
) -> TokenReuse:
    if not end_grants(tx, [grant_id], reason, now=now):
        return TokenReuse(grant_id, reason, None)
    row = tx.execute(sa.select(oauth_grants).where(oauth_grants.c.id == grant_id)).one()
    about = {"name": client.name, "id": grant_id}
    actor = audit_service.build_app_actor(client.name, address=address)
    audit_service.record_audit_entry(
        tx, row.account_id, END_ACTIONS[reason], actor, about=about, sub_account_id=row.sub_account_id, now=now
    )
    return TokenReuse(grant_id, reason, row.person_id)


def _read_secret(
    tx: Tx, kind: Literal["code", "refresh"], secret: str, client: OAuthClient, *, address: str | None, now: datetime
) -> tuple[sa.Row[Any], AppGrant] | TokenReuse | None:
    """The row and the grant of a code or refresh token, if it is this client's, in time and unused."""
    if not token_format.is_of_kind(secret, kind):
        return None
    table, reuse_reason = SECRETS[kind]
    row = tx.execute(
        sa.select(table)
        .join(oauth_grants, oauth_grants.c.id == table.c.grant_id)
        .where(table.c.digest == token_format.hash_token(secret), oauth_grants.c.client_id == client.id)
    ).first()
    if row is None:
        return None
    if row.used_at is not None:
        return _end_family(tx, row.grant_id, client, reuse_reason, address=address, now=now)
    grant = None if row.expires_at <= now else _read_current_grant(tx, row.grant_id, client)
    return None if grant is None else (row, grant)


def _read_current_grant(tx: Tx, grant_id: int, client: OAuthClient) -> AppGrant | None:
    """The grant as it holds today, limited by membership, role, sub account and registration."""
    row = tx.execute(
        sa.select(
            *(oauth_grants.c[field.name] for field in fields(AppGrant)),
            memberships.c.role,
            memberships.c.sub_account_id.label("limited_to"),
        )
        .join(
            memberships,
            sa.and_(
                memberships.c.account_id == oauth_grants.c.account_id,
                memberships.c.person_id == oauth_grants.c.person_id,
            ),
        )
        .outerjoin(sub_accounts, sub_accounts.c.id == oauth_grants.c.sub_account_id)
        .where(oauth_grants.c.id == grant_id, oauth_grants.c.ended_at.is_(None), sub_accounts.c.deleted_at.is_(None))
    ).first()
    if row is None or (row.limited_to is not None and row.limited_to != row.sub_account_id):
        return None
    granted_scopes = None if row.scopes is None else frozenset(row.scopes)
    scopes = intersect_scopes(granted_scopes, client.scopes, get_role_scopes(row.role))
    if scopes == frozenset():
        return None
    return AppGrant(row.account_id, row.sub_account_id, row.mode, row.person_id, scopes)


def _lock_grant(tx: Tx, grant_id: int) -> bool:
    """Whether it is in force; locked until this transaction ends."""
    row = tx.execute(sa.select(oauth_grants.c.ended_by).where(oauth_grants.c.id == grant_id).with_for_update()).first()
    return row is not None and row.ended_by is None


def _mark_used(tx: Tx, table: sa.Table, digest: bytes, *, now: datetime) -> bool:
    return bool(
        tx.execute(
            sa.update(table).where(table.c.digest == digest, table.c.used_at.is_(None)).values(used_at=now)
        ).rowcount
    )


def _update_grant(tx: Tx, grant_id: int, **timestamps: datetime) -> None:
    tx.execute(sa.update(oauth_grants).where(oauth_grants.c.id == grant_id).values(**timestamps))


def _issue_tokens(
    tx: Tx,
    grant_id: int,
    client: OAuthClient,
    grant: AppGrant,
    scopes: frozenset[str] | None,
    lifetimes: TokenLifetimes,
    *,
    now: datetime,
) -> TokenPair:
    _, access_token = insert_token(
        tx,
        grant.account_id,
        name=client.name,
        mode=grant.mode,
        scopes=_sort_scopes(scopes),
        sub_account_id=grant.sub_account_id,
        person_id=grant.person_id,
        grant_id=grant_id,
        expires_at=now + lifetimes.access,
        now=now,
    )
    refresh_token = token_format.mint_secret("refresh", secrets.token_bytes(24))
    tx.execute(
        sa.insert(refresh_tokens).values(
            digest=token_format.hash_token(refresh_token),
            grant_id=grant_id,
            created_at=now,
            expires_at=now + lifetimes.refresh,
        )
    )
    _update_grant(tx, grant_id, lapses_at=now + max(lifetimes.access, lifetimes.refresh))
    return TokenPair(access_token, refresh_token, int(lifetimes.access.total_seconds()))


def _sort_scopes(scopes: frozenset[str] | None) -> list[str] | None:
    return None if scopes is None else sort_scopes(scopes)
