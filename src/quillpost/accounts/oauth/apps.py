"""Apps that people have connected, and their grants.

It has a connection for each time, on two devices say; each has tokens of its own. To disconnect the app is to
end them all.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

import sqlalchemy as sa

from quillpost.accounts.audit import service as audit_service
from quillpost.accounts.audit.service import Actor
from quillpost.accounts.models import SCOPES
from quillpost.core.database import Tx
from quillpost.core.database.tables.base import sub_accounts, tokens
from quillpost.core.database.tables.users import oauth_clients, oauth_grants, people
from quillpost.core.errors import NotFound

Why = Literal["person", "app", "replay", "reuse", "membership", "leak"]


@dataclass(frozen=True, slots=True)
class Leave:
    """What a person lets an app do: for which account or sub account, in which mode, with which scopes."""

    account_id: int
    sub_account_id: int | None
    mode: str
    person_id: int
    scopes: frozenset[str] | None


@dataclass(frozen=True, slots=True)
class Connected:
    """One connection, of an app that may have several."""

    grant_id: int
    client_id: int
    client_name: str
    website: str | None
    person_id: int
    person: str
    mode: str
    sub_account_id: int | None
    sub_account_title: str | None
    scopes: Sequence[str] | None
    connected_at: datetime
    last_used_at: datetime | None


def list_connected(tx: Tx, account_id: int, *, now: datetime) -> list[Connected]:
    """The account's connections, the newest first. Takes the account's transaction."""
    last_used = (
        sa.select(sa.func.max(tokens.c.last_used_at))
        .where(tokens.c.grant_id == oauth_grants.c.id)
        .scalar_subquery()
    )
    columns = [
        oauth_grants.c.id,
        oauth_grants.c.client_id,
        oauth_clients.c.name,
        oauth_clients.c.website,
        oauth_grants.c.person_id,
        people.c.email,
        oauth_grants.c.mode,
        oauth_grants.c.sub_account_id,
        sub_accounts.c.title,
        oauth_grants.c.scopes,
        oauth_grants.c.connected_at,
        last_used,
    ]
    found = tx.execute(
        sa.select(*columns)
        .select_from(
            oauth_grants.join(oauth_clients, oauth_clients.c.id == oauth_grants.c.client_id)
            .join(people, people.c.id == oauth_grants.c.person_id)
            .outerjoin(sub_accounts, sub_accounts.c.id == oauth_grants.c.sub_account_id)
        )
        .where(oauth_grants.c.account_id == account_id, is_connected(now))
        .order_by(oauth_grants.c.id.desc())
    )
    return [Connected(*row) for row in found]


def is_connected(now: datetime) -> sa.ColumnElement[bool]:
    """Whether a leave is an app that can still act: not if it has let its refresh token run out."""
    lapses_at = oauth_grants.c.lapses_at
    return sa.and_(
        oauth_grants.c.connected_at.is_not(None),
        oauth_grants.c.ended_at.is_(None),
        sa.or_(lapses_at.is_(None), lapses_at > now),
    )


def disconnect(tx: Tx, account_id: int, grant_id: int, actor: Actor, *, now: datetime) -> None:
    """The app, by one of its connections: all that the same person made for the same place and mode end,
    and a code that waits to be exchanged is worth nothing. From the next call on its tokens are unknown.
    `NotFound` for another account's, and for one that has ended. Takes the account's transaction."""
    c = oauth_grants.c
    it = tx.execute(
        sa.select(c.client_id, c.person_id, c.sub_account_id, c.mode, oauth_clients.c.name)
        .join(oauth_clients, oauth_clients.c.id == c.client_id)
        .where(c.id == grant_id, c.account_id == account_id, c.ended_at.is_(None))
    ).first()
    if it is None:
        raise NotFound
    alike = sa.select(c.id).where(
        c.account_id == account_id,
        c.client_id == it.client_id,
        c.person_id == it.person_id,
        c.sub_account_id.is_not_distinct_from(it.sub_account_id),
        c.mode == it.mode,
        c.ended_at.is_(None),
    )
    ended = _end(tx, alike, "person", now=now)
    if not ended:  # somebody else was faster
        raise NotFound
    about = {"name": it.name, "mode": it.mode, "id": grant_id} | ({"connections": ended} if ended > 1 else {})
    audit_service.note(
        tx, account_id, "app.disconnected", actor, about=about, sub_account_id=it.sub_account_id, now=now
    )


def end(tx: Tx, grant_ids: Sequence[int], why: Why, *, now: datetime) -> int:
    """End families and revoke all of their tokens; how many were in force."""
    in_force = sa.select(oauth_grants.c.id).where(
        oauth_grants.c.id.in_(grant_ids), oauth_grants.c.ended_at.is_(None)
    )
    return _end(tx, in_force, why, now=now)


def end_of_person(tx: Tx, account_id: int, person_id: int, *, now: datetime) -> int:
    """Every app that somebody connected to this account."""
    in_force = sa.select(oauth_grants.c.id).where(
        oauth_grants.c.account_id == account_id,
        oauth_grants.c.person_id == person_id,
        oauth_grants.c.ended_at.is_(None),
    )
    return _end(tx, in_force, "membership", now=now)


def end_of_sub_account(tx: Tx, sub_account_id: int, *, now: datetime) -> int:
    """Every app that acts for a sub account which goes."""
    in_force = sa.select(oauth_grants.c.id).where(
        oauth_grants.c.sub_account_id == sub_account_id, oauth_grants.c.ended_at.is_(None)
    )
    return _end(tx, in_force, "membership", now=now)


def _end(tx: Tx, in_force: sa.Select[tuple[int]], why: Why, *, now: datetime) -> int:
    # In the order of their ids: two that end the same families do not wait for each other.
    locked = list(tx.execute(in_force.order_by(oauth_grants.c.id).with_for_update()).scalars())
    if locked:
        tx.execute(
            sa.update(oauth_grants).where(oauth_grants.c.id.in_(locked)).values(ended_at=now, ended_by=why)
        )
        tx.execute(
            sa.update(tokens)
            .where(tokens.c.grant_id.in_(locked), tokens.c.revoked_at.is_(None))
            .values(revoked_at=now)
        )
    return len(locked)


@dataclass(frozen=True, slots=True)
class ConnectedApp:
    """All connections of one client that the same person made for the same place, the newest first."""

    connections: Sequence[Connected]

    @property
    def newest(self) -> Connected:
        return self.connections[0]

    @property
    def since(self) -> datetime:
        return min(each.connected_at for each in self.connections)

    @property
    def last_used_at(self) -> datetime | None:
        return max((each.last_used_at for each in self.connections if each.last_used_at), default=None)

    @property
    def scopes(self) -> Sequence[str] | None:
        """What it may do by one connection or another; None: everything."""
        given: set[str] = set()
        for each in self.connections:
            if each.scopes is None:
                return None
            given.update(each.scopes)
        return [scope for scope in SCOPES if scope in given]


def list_apps(tx: Tx, account_id: int, *, now: datetime) -> list[ConnectedApp]:
    """The account's, the one that was connected last first. Takes the account's transaction."""
    alike: dict[tuple[object, ...], list[Connected]] = {}
    for each in list_connected(tx, account_id, now=now):
        key = (each.client_id, each.person_id, each.sub_account_id, each.mode)
        alike.setdefault(key, []).append(each)
    return [ConnectedApp(group) for group in alike.values()]
