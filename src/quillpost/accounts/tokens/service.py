"""Personal access tokens: made by an owner, shown once, and revoked from one moment to the next."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime

import sqlalchemy as sa

from quillpost.accounts.audit import service as audit_service
from quillpost.accounts.audit.service import Actor
from quillpost.accounts.models import scope_fault
from quillpost.accounts.oauth.apps import end
from quillpost.accounts.service import hold_account, require_owner
from quillpost.accounts.sub_accounts import lock_place
from quillpost.accounts.tokens.queries import insert_token
from quillpost.accounts.tokens.rules import in_order
from quillpost.core import tokens as token_format
from quillpost.core.database import Tx
from quillpost.core.database.tables.base import sub_accounts, tokens
from quillpost.core.database.tables.users import oauth_clients, oauth_grants, people, refresh_tokens
from quillpost.core.errors import Invalid, NotFound

LONGEST_NAME = 100
MOST_TOKENS = 200
FINDER = "somebody who found it"


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


_FOUND = {**tokens.c, "sub_account_title": sub_accounts.c.title, "maker": people.c.email}
_COLUMNS = [_FOUND[each.name] for each in fields(PersonalToken)]

# Neither an app's nor a page's.
_IS_PERSONAL = sa.and_(tokens.c.grant_id.is_(None), tokens.c.session_id.is_(None))
_IS_KEPT = tokens.c.revoked_at.is_(None)


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
    """A new token, readable here and never again. `Invalid` by field (name, mode, scopes, sub_account_id,
    expires_at); `Forbidden` for a person who is no owner. Takes the account's transaction."""
    hold_account(tx, account_id)
    require_owner(tx, account_id, actor)
    is_there = lock_place(tx, sub_account_id, account_id=account_id)
    faults = {
        "name": _name_fault(tx, account_id, name),
        "mode": None if mode in ("test", "live") else "Choose test or live.",
        "scopes": "Choose at least one thing that it may do." if scopes == [] else scope_fault(scopes),
        "sub_account_id": None if is_there else "There is no such sub account.",
        "expires_at": _expiry_fault(expires_at, now),
    }
    if any(faults.values()):
        raise Invalid({field: [fault] for field, fault in faults.items() if fault})
    token_id, token = insert_token(
        tx,
        account_id,
        name=name,
        mode=mode,
        scopes=None if scopes is None else in_order(scopes),
        sub_account_id=sub_account_id,
        person_id=actor.person_id,
        expires_at=expires_at,
        now=now,
    )
    about = {"id": token_id, "name": name, "mode": mode}
    audit_service.note(
        tx, account_id, "token.created", actor, about=about, sub_account_id=sub_account_id, now=now
    )
    return token


def _name_fault(tx: Tx, account_id: int, name: str) -> str | None:
    if not name:
        return "Give the token a name that says what it is for."
    if len(name) > LONGEST_NAME:
        return f"The name has at most {LONGEST_NAME} characters."
    if not name.isprintable():
        return "The name is one line of plain text."
    if token_format.hide_secrets(name) != name:  # it is shown to others, and noted for ever
        return "This name holds a token: choose another, and revoke that token if others may have seen it."
    if len(list_tokens(tx, account_id)) >= MOST_TOKENS:
        return f"An account has at most {MOST_TOKENS} tokens: revoke those that nobody uses any more."
    return None


def _expiry_fault(expires_at: datetime | None, now: datetime) -> str | None:
    return "A token ends in the future." if expires_at is not None and expires_at <= now else None


def list_tokens(tx: Tx, account_id: int) -> list[PersonalToken]:
    """Those that are not revoked, the newest first: no app's, no page's. One that has expired is among them
    until it is forgotten, so that its owner sees why a program is not let in any more."""
    found = tx.execute(
        sa.select(*_COLUMNS)
        .select_from(
            tokens.outerjoin(sub_accounts, sub_accounts.c.id == tokens.c.sub_account_id).outerjoin(
                people, people.c.id == tokens.c.person_id
            )
        )
        .where(tokens.c.account_id == account_id, _IS_PERSONAL, _IS_KEPT)
        .order_by(tokens.c.id.desc())
    )
    return [PersonalToken(*row) for row in found]


def find_token(tx: Tx, account_id: int, token_id: int) -> PersonalToken:
    """One of these; `NotFound` for any other."""
    found = next((each for each in list_tokens(tx, account_id) if each.id == token_id), None)
    if found is None:
        raise NotFound
    return found


def is_revoked(tx: Tx, account_id: int, token_id: int) -> bool:
    """Whether it was one of these, and is revoked: not for long, as it is forgotten then."""
    was = sa.select(tokens.c.id).where(
        tokens.c.id == token_id, tokens.c.account_id == account_id, _IS_PERSONAL, ~_IS_KEPT
    )
    return tx.execute(was).first() is not None


def revoke_token(tx: Tx, account_id: int, token_id: int, actor: Actor, *, now: datetime) -> None:
    """From the next call on it is unknown. `NotFound` for another account's, an app's or one that is revoked
    already."""
    row = tx.execute(
        sa.update(tokens)
        .where(tokens.c.id == token_id, tokens.c.account_id == account_id, _IS_PERSONAL, _IS_KEPT)
        .values(revoked_at=now)
        .returning(tokens.c.name, tokens.c.mode, tokens.c.sub_account_id)
    ).first()
    if row is None:
        raise NotFound
    about = {"id": token_id, "name": row.name, "mode": row.mode}
    audit_service.note(
        tx, account_id, "token.revoked", actor, about=about, sub_account_id=row.sub_account_id, now=now
    )


def revoke_leaked(tx: Tx, shown: Sequence[str], *, address: str | None, now: datetime) -> list[int]:
    """Whoever can show a token may revoke it: tokens, and refresh tokens with their family. The accounts
    whose they were. Takes the worker's transaction; without an address it is the command line that asks.

    A refresh token ends its family even if it was used already: shown at the token endpoint it does so too.
    An app's access token goes alone: the app may refresh. Families before tokens, as everywhere, and each in
    the order of their ids: of two that report the same, one waits, and neither for ever."""
    digests = {
        kind: [token_format.digest(each) for each in shown if token_format.is_of_kind(each, kind)]
        for kind in ("refresh", "test", "live")
    }
    actor = Actor(audit_service.COMMAND_LINE if address is None else FINDER, address=address)
    hit = [
        *_end_families(tx, digests["refresh"], now=now),
        *_revoke_shown(tx, digests["test"] + digests["live"], now=now),
    ]
    audit_service.note_each(tx, "token.leaked", actor, hit, now=now)
    return sorted({line.account_id for line in hit})


def _end_families(tx: Tx, digests: Sequence[bytes], *, now: datetime) -> list[audit_service.Line]:
    if not digests:
        return []
    families = tx.execute(
        sa.select(oauth_grants, oauth_clients.c.name)
        .join(oauth_clients, oauth_clients.c.id == oauth_grants.c.client_id)
        .where(
            oauth_grants.c.ended_at.is_(None),
            oauth_grants.c.id.in_(
                sa.select(refresh_tokens.c.grant_id).where(refresh_tokens.c.digest.in_(digests))
            ),
        )
        .order_by(oauth_grants.c.id)
        .with_for_update(of=oauth_grants)
    ).all()
    end(tx, [family.id for family in families], "leak", now=now)
    return [
        audit_service.Line(each.account_id, each.sub_account_id, {"name": each.name, "mode": each.mode})
        for each in families
    ]


def _revoke_shown(tx: Tx, digests: Sequence[bytes], *, now: datetime) -> list[audit_service.Line]:
    if not digests:
        return []
    shown = (
        sa.select(tokens.c.id)
        .where(tokens.c.digest.in_(digests), _is_in_force(now))
        .order_by(tokens.c.id)
        .with_for_update()
        .cte("shown")
    )
    revoked = tx.execute(
        sa.update(tokens)
        .where(tokens.c.id == shown.c.id)
        .values(revoked_at=now)
        .returning(tokens.c.id, tokens.c.account_id, tokens.c.sub_account_id, tokens.c.name, tokens.c.mode)
    )
    return [
        audit_service.Line(
            each.account_id, each.sub_account_id, {"id": each.id, "name": each.name, "mode": each.mode}
        )
        for each in revoked
    ]


def revoke_of_person(tx: Tx, account_id: int, person_id: int, *, now: datetime) -> int:
    """All that somebody made in an account; how many were in force."""
    ended = tx.execute(
        sa.update(tokens)
        .where(
            tokens.c.account_id == account_id,
            tokens.c.person_id == person_id,
            _IS_PERSONAL,
            _is_in_force(now),
        )
        .values(revoked_at=now)
        .returning(tokens.c.id)
    )
    return len(ended.all())


def _is_in_force(now: datetime) -> sa.ColumnElement[bool]:
    return sa.and_(_IS_KEPT, sa.or_(tokens.c.expires_at.is_(None), tokens.c.expires_at > now))
