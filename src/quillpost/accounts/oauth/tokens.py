"""An app's codes and tokens: all that come of one leave are a family.

A code, and each refresh token, is claimed by one conditional UPDATE: of two that try, one wins. Whoever shows
one again has stolen it, or was stolen from: the whole family ends, whichever of both is at the door.

The row of the leave is locked first, by those who add tokens and by those who end the family: whoever comes
second sees what the first has done. Nobody's account is known yet: all here take the worker's transaction.
"""

import secrets
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Any, Literal

import sqlalchemy as sa

from quillpost.accounts.audit import service as audit_service
from quillpost.accounts.audit.service import Actor
from quillpost.accounts.models import SCOPES, narrowest, scopes_of
from quillpost.accounts.oauth.apps import Leave, Why, end
from quillpost.accounts.oauth.clients import Client
from quillpost.accounts.tokens.queries import insert_token
from quillpost.core import tokens as token_format
from quillpost.core.database import Tx
from quillpost.core.database.tables.base import sub_accounts, tokens
from quillpost.core.database.tables.users import memberships, oauth_codes, oauth_grants, refresh_tokens

OVERLAP = timedelta(minutes=10)
"""How long an access token is still good after it was refreshed: calls that are under way get through."""


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """How long what an app is given is good; each is a setting."""

    code: timedelta = timedelta(seconds=60)
    access: timedelta = timedelta(days=30)
    refresh: timedelta = timedelta(days=365)


USUAL = Lifetimes()


@dataclass(frozen=True, slots=True)
class Code:
    """A code that is good, and not yet claimed."""

    digest: bytes
    grant_id: int
    client_id: str
    redirect_uri: str
    challenge: str | None
    asked: frozenset[str] | None
    leave: Leave


@dataclass(frozen=True, slots=True)
class Family:
    """A connection that is in force, as the token endpoint sees it."""

    grant_id: int
    client_id: str
    leave: Leave


@dataclass(frozen=True, slots=True)
class Ended:
    """A code, or a refresh token, was shown again. `to_tell` is the person whose app it is, unless the family
    had ended before: they are told once."""

    grant_id: int
    why: Why
    to_tell: int | None


@dataclass(frozen=True, slots=True)
class Pair:
    access_token: str
    refresh_token: str
    expires_in: int


ACTS: dict[Why, str] = {"replay": "app.replayed", "reuse": "app.reused", "app": "app.disconnected"}


def give_code(
    tx: Tx,
    client: Client,
    leave: Leave,
    actor: Actor,
    *,
    redirect_uri: str,
    challenge: str | None,
    asked: frozenset[str] | None,
    lasting: Lifetimes = USUAL,
    now: datetime,
) -> str:
    """A code for this client, good once and not for long. `asked` is what the client named itself.
    That the person allowed it is noted here, where they are at hand; connected it is once the code was
    exchanged, if ever."""
    grant_id = tx.execute(
        sa.insert(oauth_grants)
        .values(
            account_id=leave.account_id,
            sub_account_id=leave.sub_account_id,
            mode=leave.mode,
            client_id=client.id,
            person_id=leave.person_id,
            scopes=_listed(leave.scopes),
            created_at=now,
        )
        .returning(oauth_grants.c.id)
    ).scalar_one()
    code = token_format.mint("code", secrets.token_bytes(24))
    tx.execute(
        sa.insert(oauth_codes).values(
            digest=token_format.digest(code),
            grant_id=grant_id,
            redirect_uri=redirect_uri,
            challenge=challenge,
            asked=_listed(asked),
            created_at=now,
            expires_at=now + lasting.code,
        )
    )
    about = {"name": client.name, "mode": leave.mode, "id": grant_id}
    where = leave.sub_account_id
    audit_service.note(tx, leave.account_id, "app.allowed", actor, about=about, sub_account_id=where, now=now)
    return code


def read_code(
    tx: Tx, code: str, client: Client, *, address: str | None = None, now: datetime
) -> Code | Ended | None:
    """The code, if it is this client's, in time and unused. One of this client's that was used already ends
    its family."""
    if not token_format.is_of_kind(code, "code"):
        return None
    row = _shown(tx, oauth_codes, code, client)
    if row is None:
        return None
    if row.used_at is not None:
        return _end_shown_again(tx, row.grant_id, client, "replay", address=address, now=now)
    if row.expires_at <= now or (leave := _standing(tx, row.grant_id, client)) is None:
        return None
    asked = None if row.asked is None else frozenset(row.asked)
    return Code(row.digest, row.grant_id, client.client_id, row.redirect_uri, row.challenge, asked, leave)


def claim_code(
    tx: Tx,
    code: Code,
    client: Client,
    *,
    lasting: Lifetimes = USUAL,
    address: str | None = None,
    now: datetime,
) -> Pair | Ended | None:
    """The first tokens of the family. Where another was faster, the family has ended; None: it had before."""
    if not _lock(tx, code.grant_id):
        return None
    if not _claimed(tx, oauth_codes, code.digest, now=now):
        return _end_shown_again(tx, code.grant_id, client, "replay", address=address, now=now)
    _touch(tx, code.grant_id, connected_at=now)
    return _issue(tx, code.grant_id, client, code.leave, code.leave.scopes, lasting, now=now)


def read_refresh(
    tx: Tx, refresh_token: str, client: Client, *, address: str | None = None, now: datetime
) -> Family | Ended | None:
    """Its family, if the token is this client's, in time and unused. One that was used already ends the
    family: looked at before anything else."""
    if not token_format.is_of_kind(refresh_token, "refresh"):
        return None
    row = _shown(tx, refresh_tokens, refresh_token, client)
    if row is None:
        return None
    if row.used_at is not None:
        return _end_shown_again(tx, row.grant_id, client, "reuse", address=address, now=now)
    if row.expires_at <= now or (leave := _standing(tx, row.grant_id, client)) is None:
        return None
    return Family(row.grant_id, client.client_id, leave)


def claim_refresh(
    tx: Tx,
    refresh_token: str,
    family: Family,
    client: Client,
    *,
    scopes: frozenset[str] | None,
    lasting: Lifetimes = USUAL,
    address: str | None = None,
    now: datetime,
) -> Pair | Ended | None:
    """The next tokens. Where another was faster, the family has ended; None: it had before. `scopes` may be
    fewer than the leave's."""
    if not _lock(tx, family.grant_id):
        return None
    if not _claimed(tx, refresh_tokens, token_format.digest(refresh_token), now=now):
        return _end_shown_again(tx, family.grant_id, client, "reuse", address=address, now=now)
    soon = now + OVERLAP
    tx.execute(
        sa.update(tokens)
        .where(
            tokens.c.grant_id == family.grant_id, tokens.c.revoked_at.is_(None), tokens.c.expires_at > soon
        )
        .values(expires_at=soon)
    )
    _touch(tx, family.grant_id, refreshed_at=now)
    given = narrowest(family.leave.scopes, scopes)
    return _issue(tx, family.grant_id, client, family.leave, given, lasting, now=now)


def revoke(
    tx: Tx, token: str, client: Client, *, address: str | None = None, now: datetime
) -> Literal["done", "unknown", "another's"]:
    """An access token by itself; a refresh token with its family (RFC 7009)."""
    table = refresh_tokens if token_format.is_of_kind(token, "refresh") else tokens
    row = tx.execute(
        sa.select(oauth_grants.c.id, oauth_grants.c.client_id)
        .join(table, table.c.grant_id == oauth_grants.c.id)
        .where(table.c.digest == token_format.digest(token))
    ).first()
    if row is None:
        return "unknown"
    if row.client_id != client.id:
        return "another's"
    if table is refresh_tokens:
        _end_and_note(tx, row.id, client, "app", address=address, now=now)
    else:
        tx.execute(
            sa.update(tokens)
            .where(tokens.c.digest == token_format.digest(token), tokens.c.revoked_at.is_(None))
            .values(revoked_at=now)
        )
    return "done"


def _end_shown_again(
    tx: Tx, grant_id: int, client: Client, why: Why, *, address: str | None, now: datetime
) -> Ended:
    person_id = _end_and_note(tx, grant_id, client, why, address=address, now=now)
    return Ended(grant_id, why, person_id)


def _end_and_note(
    tx: Tx, grant_id: int, client: Client, why: Why, *, address: str | None, now: datetime
) -> int | None:
    """Whose app it was; None: nobody's any more."""
    if not end(tx, [grant_id], why, now=now):
        return None
    row = tx.execute(sa.select(oauth_grants).where(oauth_grants.c.id == grant_id)).one()
    about = {"name": client.name, "id": grant_id}
    actor = audit_service.app_actor(client.name, address=address)
    audit_service.note(
        tx, row.account_id, ACTS[why], actor, about=about, sub_account_id=row.sub_account_id, now=now
    )
    return int(row.person_id)


def _shown(tx: Tx, table: sa.Table, secret: str, client: Client) -> sa.Row[Any] | None:
    """What is known of a code, or of a refresh token, of this client."""
    return tx.execute(
        sa.select(table)
        .join(oauth_grants, oauth_grants.c.id == table.c.grant_id)
        .where(table.c.digest == token_format.digest(secret), oauth_grants.c.client_id == client.id)
    ).first()


def _standing(tx: Tx, grant_id: int, client: Client) -> Leave | None:
    """The leave as it holds today: while the person is in the account, and in that sub account, which is
    still there, with what their role and the client's registration still allow."""
    row = tx.execute(
        sa.select(
            *(oauth_grants.c[field.name] for field in fields(Leave)),
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
        .where(
            oauth_grants.c.id == grant_id,
            oauth_grants.c.ended_at.is_(None),
            sub_accounts.c.deleted_at.is_(None),
        )
    ).first()
    if row is None or (row.limited_to is not None and row.limited_to != row.sub_account_id):
        return None
    given = None if row.scopes is None else frozenset(row.scopes)
    scopes = narrowest(given, client.scopes, scopes_of(row.role))
    if scopes == frozenset():
        return None
    return Leave(row.account_id, row.sub_account_id, row.mode, row.person_id, scopes)


def _lock(tx: Tx, grant_id: int) -> bool:
    """Hold the leave until this transaction ends; whether it is in force."""
    row = tx.execute(
        sa.select(oauth_grants.c.ended_by).where(oauth_grants.c.id == grant_id).with_for_update()
    ).first()
    return row is not None and row.ended_by is None


def _claimed(tx: Tx, table: sa.Table, digest: bytes, *, now: datetime) -> bool:
    return bool(
        tx.execute(
            sa.update(table).where(table.c.digest == digest, table.c.used_at.is_(None)).values(used_at=now)
        ).rowcount
    )


def _touch(tx: Tx, grant_id: int, **moments: datetime) -> None:
    tx.execute(sa.update(oauth_grants).where(oauth_grants.c.id == grant_id).values(**moments))


def _issue(
    tx: Tx,
    grant_id: int,
    client: Client,
    leave: Leave,
    scopes: frozenset[str] | None,
    lasting: Lifetimes,
    *,
    now: datetime,
) -> Pair:
    _, access = insert_token(
        tx,
        leave.account_id,
        name=client.name,
        mode=leave.mode,
        scopes=_listed(scopes),
        sub_account_id=leave.sub_account_id,
        person_id=leave.person_id,
        grant_id=grant_id,
        expires_at=now + lasting.access,
        now=now,
    )
    refresh = token_format.mint("refresh", secrets.token_bytes(24))
    tx.execute(
        sa.insert(refresh_tokens).values(
            digest=token_format.digest(refresh),
            grant_id=grant_id,
            created_at=now,
            expires_at=now + lasting.refresh,
        )
    )
    _touch(tx, grant_id, lapses_at=now + max(lasting.access, lasting.refresh))
    return Pair(access, refresh, int(lasting.access.total_seconds()))


def _listed(scopes: frozenset[str] | None) -> list[str] | None:
    return None if scopes is None else [scope for scope in SCOPES if scope in scopes]
