"""Personal access tokens: create, list and revoke them."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime

import sqlalchemy as sa

from quillpost.accounts.audit import service as audit_service
from quillpost.accounts.audit.service import Actor
from quillpost.accounts.oauth.service import end_grants
from quillpost.accounts.queries import insert_token
from quillpost.accounts.service import lock_account_row, require_owner
from quillpost.accounts.sub_accounts.queries import share_lock_sub_account
from quillpost.accounts.tokens.rules import find_scope_error, sort_scopes
from quillpost.core import tokens as token_format
from quillpost.core.database import Tx, read_row
from quillpost.core.database.tables.accounts import oauth_clients, oauth_grants, people, refresh_tokens
from quillpost.core.database.tables.base import sub_accounts, tokens
from quillpost.core.errors import Invalid, NotFound

MAX_NAME_LENGTH = 100
MAX_TOKENS = 200


@dataclass(frozen=True, slots=True)
class PersonalToken:
    id: int
    name: str
    mode: str
    hint: str | None
    scopes: Sequence[str] | None
    sub_account_id: int | None
    sub_account_title: str | None
    maker: str | None
    created_at: datetime
    last_used_at: datetime | None
    expires_at: datetime | None


_AVAILABLE_COLUMNS = {**tokens.c, "sub_account_title": sub_accounts.c.title, "maker": people.c.email}
_COLUMNS = [_AVAILABLE_COLUMNS[each.name] for each in fields(PersonalToken)]

# Neither an app's nor a page's.
_IS_PERSONAL = sa.and_(tokens.c.grant_id.is_(None), tokens.c.session_id.is_(None))
_IS_NOT_REVOKED = tokens.c.revoked_at.is_(None)


def create_token(
    tx: Tx,
    account_id: int,
    *,
    name: str,
    mode: str,
    scopes: Sequence[str] | None,
    sub_account_id: int | None,
    expires_at: datetime | None,
    actor: Actor,
    now: datetime,
) -> str:
    """A new token, readable here only. `Invalid` by field; `Forbidden` unless an owner."""
    lock_account_row(tx, account_id)
    require_owner(tx, account_id, actor)
    has_sub_account = share_lock_sub_account(tx, sub_account_id, account_id=account_id)
    errors = {
        "name": _find_name_error(tx, account_id, name),
        "mode": None if mode in ("test", "live") else "Choose test or live.",
        "scopes": "Choose at least one thing that it may do." if scopes == [] else find_scope_error(scopes),
        "sub_account_id": None if has_sub_account else "There is no such sub account.",
        "expires_at": "A token ends in the future." if expires_at is not None and expires_at <= now else None,
    }
    if any(errors.values()):
        raise Invalid({field: [error] for field, error in errors.items() if error})
    token_id, token = insert_token(
        tx,
        account_id,
        name=name,
        mode=mode,
        scopes=None if scopes is None else sort_scopes(scopes),
        sub_account_id=sub_account_id,
        person_id=actor.person_id,
        expires_at=expires_at,
        now=now,
    )
    about = {"id": token_id, "name": name, "mode": mode}
    audit_service.record_audit_entry(
        tx, account_id, "token.created", actor, about=about, sub_account_id=sub_account_id, now=now
    )
    return token


def _find_name_error(tx: Tx, account_id: int, name: str) -> str | None:
    if not name:
        return "Give the token a name that says what it is for."
    if len(name) > MAX_NAME_LENGTH:
        return f"The name has at most {MAX_NAME_LENGTH} characters."
    if not name.isprintable():
        return "The name is one line of plain text."
    if token_format.hide_secrets(name) != name:  # it is shown to others, and noted for ever
        return "This name holds a token: choose another, and revoke that token if others may have seen it."
    if len(list_tokens(tx, account_id)) >= MAX_TOKENS:
        return f"An account has at most {MAX_TOKENS} tokens: revoke those that nobody uses any more."
    return None


def list_tokens(tx: Tx, account_id: int) -> list[PersonalToken]:
    """Personal ones that are not revoked, the newest first. Expired ones stay on the list until deleted, so that their
    owner sees why a program is rejected."""
    rows = tx.execute(
        sa.select(*_COLUMNS)
        .select_from(
            tokens.outerjoin(sub_accounts, sub_accounts.c.id == tokens.c.sub_account_id).outerjoin(
                people, people.c.id == tokens.c.person_id
            )
        )
        .where(tokens.c.account_id == account_id, _IS_PERSONAL, _IS_NOT_REVOKED)
        .order_by(tokens.c.id.desc())
    )
    return [PersonalToken(*row) for row in rows]


def find_token(tx: Tx, account_id: int, token_id: int) -> PersonalToken:
    token = next((candidate for candidate in list_tokens(tx, account_id) if candidate.id == token_id), None)
    if token is None:
        raise NotFound
    return token


def is_revoked(tx: Tx, account_id: int, token_id: int) -> bool:
    """Whether it was a personal token and is revoked, until it is deleted."""
    query = sa.select(tokens.c.id).where(
        tokens.c.id == token_id, tokens.c.account_id == account_id, _IS_PERSONAL, ~_IS_NOT_REVOKED
    )
    return tx.execute(query).first() is not None


def revoke_token(tx: Tx, account_id: int, token_id: int, actor: Actor, *, now: datetime) -> None:
    """`NotFound` for another account's, an app's or a revoked one."""
    row = read_row(
        tx,
        sa.update(tokens)
        .where(tokens.c.id == token_id, tokens.c.account_id == account_id, _IS_PERSONAL, _IS_NOT_REVOKED)
        .values(revoked_at=now)
        .returning(tokens.c.name, tokens.c.mode, tokens.c.sub_account_id),
    )
    about = {"id": token_id, "name": row.name, "mode": row.mode}
    audit_service.record_audit_entry(
        tx, account_id, "token.revoked", actor, about=about, sub_account_id=row.sub_account_id, now=now
    )


def revoke_leaked_tokens(tx: Tx, token_texts: Sequence[str], *, address: str | None, now: datetime) -> list[int]:
    """Anyone who can show a token may revoke it; the accounts concerned. A refresh token ends its family, used or not;
    an access token ends only itself. Families before tokens, each by id, so that two reports do not deadlock. Takes
    the system transaction; `address` is None for the command line."""
    digests = {
        kind: [token_format.hash_token(text) for text in token_texts if token_format.is_of_kind(text, kind)]
        for kind in ("refresh", "test", "live")
    }
    actor = Actor(audit_service.COMMAND_LINE_NAME if address is None else "somebody who found it", address=address)
    entries = [
        *_end_leaked_families(tx, digests["refresh"], now=now),
        *_revoke_by_digests(tx, digests["test"] + digests["live"], now=now),
    ]
    audit_service.record_audit_entries(tx, "token.leaked", actor, entries, now=now)
    return sorted({entry.account_id for entry in entries})


def _end_leaked_families(tx: Tx, digests: Sequence[bytes], *, now: datetime) -> list[audit_service.NewAuditEntry]:
    if not digests:
        return []
    families = tx.execute(
        sa.select(oauth_grants, oauth_clients.c.name)
        .join(oauth_clients, oauth_clients.c.id == oauth_grants.c.client_id)
        .where(
            oauth_grants.c.ended_at.is_(None),
            oauth_grants.c.id.in_(sa.select(refresh_tokens.c.grant_id).where(refresh_tokens.c.digest.in_(digests))),
        )
        .order_by(oauth_grants.c.id)
        .with_for_update(of=oauth_grants)
    ).all()
    end_grants(tx, [family.id for family in families], "leak", now=now)
    return [
        audit_service.NewAuditEntry(grant.account_id, grant.sub_account_id, {"name": grant.name, "mode": grant.mode})
        for grant in families
    ]


def _revoke_by_digests(tx: Tx, digests: Sequence[bytes], *, now: datetime) -> list[audit_service.NewAuditEntry]:
    if not digests:
        return []
    matching_tokens = (
        sa.select(tokens.c.id)
        .where(tokens.c.digest.in_(digests), _is_in_force(now))
        .order_by(tokens.c.id)
        .with_for_update()
        .cte("shown")
    )
    rows = tx.execute(
        sa.update(tokens)
        .where(tokens.c.id == matching_tokens.c.id)
        .values(revoked_at=now)
        .returning(tokens.c.id, tokens.c.account_id, tokens.c.sub_account_id, tokens.c.name, tokens.c.mode)
    )
    return [
        audit_service.NewAuditEntry(
            row.account_id, row.sub_account_id, {"id": row.id, "name": row.name, "mode": row.mode}
        )
        for row in rows
    ]


def revoke_person_tokens(tx: Tx, account_id: int, person_id: int, *, now: datetime) -> int:
    """All that a person made in an account; how many were in force."""
    revoked = tx.execute(
        sa.update(tokens)
        .where(tokens.c.account_id == account_id, tokens.c.person_id == person_id, _IS_PERSONAL, _is_in_force(now))
        .values(revoked_at=now)
        .returning(tokens.c.id)
    )
    return len(revoked.all())


def _is_in_force(now: datetime) -> sa.ColumnElement[bool]:
    return sa.and_(_IS_NOT_REVOKED, sa.or_(tokens.c.expires_at.is_(None), tokens.c.expires_at > now))
