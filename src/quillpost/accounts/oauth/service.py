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
from quillpost.accounts.tokens.rules import sort_scopes
from quillpost.core.database import Tx, read_row
from quillpost.core.database.tables.accounts import oauth_clients, oauth_grants, people
from quillpost.core.database.tables.base import sub_accounts, tokens
from quillpost.core.errors import NotFound

GrantEndReason = Literal["person", "app", "replay", "reuse", "membership", "leak"]


@dataclass(frozen=True, slots=True)
class AppGrant:
    """What a person lets an app do: for which account or sub account, in which mode, with which scopes."""

    account_id: int
    sub_account_id: int | None
    mode: str
    person_id: int
    scopes: frozenset[str] | None


@dataclass(frozen=True, slots=True)
class AppConnection:
    """One connection of an app, which may have several, one for each time that it was allowed."""

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


def list_connections(tx: Tx, account_id: int, *, now: datetime) -> list[AppConnection]:
    """The newest first."""
    last_used = (
        sa.select(sa.func.max(tokens.c.last_used_at)).where(tokens.c.grant_id == oauth_grants.c.id).scalar_subquery()
    )
    g = oauth_grants.c
    columns = [
        g.id, g.client_id, oauth_clients.c.name, oauth_clients.c.website, g.person_id, people.c.email, g.mode,
        g.sub_account_id, sub_accounts.c.title, g.scopes, g.connected_at, last_used,
    ]  # fmt: skip
    rows = tx.execute(
        sa.select(*columns)
        .select_from(
            oauth_grants.join(oauth_clients, oauth_clients.c.id == oauth_grants.c.client_id)
            .join(people, people.c.id == oauth_grants.c.person_id)
            .outerjoin(sub_accounts, sub_accounts.c.id == oauth_grants.c.sub_account_id)
        )
        .where(oauth_grants.c.account_id == account_id, is_connected(now))
        .order_by(oauth_grants.c.id.desc())
    )
    return [AppConnection(*row) for row in rows]


def is_connected(now: datetime) -> sa.ColumnElement[bool]:
    """Whether a grant can still act: not if its refresh token has expired."""
    lapses_at = oauth_grants.c.lapses_at
    return sa.and_(
        oauth_grants.c.connected_at.is_not(None),
        oauth_grants.c.ended_at.is_(None),
        sa.or_(lapses_at.is_(None), lapses_at > now),
    )


def disconnect_app(tx: Tx, account_id: int, grant_id: int, actor: Actor, *, now: datetime) -> None:
    """End all connections that the same person made for the same app, sub account and mode. `NotFound` for another
    account's, or an ended one."""
    c = oauth_grants.c
    grant = read_row(
        tx,
        sa.select(c.client_id, c.person_id, c.sub_account_id, c.mode, oauth_clients.c.name)
        .join(oauth_clients, oauth_clients.c.id == c.client_id)
        .where(c.id == grant_id, c.account_id == account_id, c.ended_at.is_(None)),
    )
    is_similar = sa.and_(
        c.account_id == account_id,
        c.client_id == grant.client_id,
        c.person_id == grant.person_id,
        c.sub_account_id.is_not_distinct_from(grant.sub_account_id),
        c.mode == grant.mode,
    )
    ended_count = _end_matching_grants(tx, is_similar, "person", now=now)
    if not ended_count:  # another request was faster
        raise NotFound
    about = {"name": grant.name, "mode": grant.mode, "id": grant_id} | (
        {"connections": ended_count} if ended_count > 1 else {}
    )
    audit_service.record_audit_entry(
        tx, account_id, "app.disconnected", actor, about=about, sub_account_id=grant.sub_account_id, now=now
    )


def end_grants(tx: Tx, grant_ids: Sequence[int], reason: GrantEndReason, *, now: datetime) -> int:
    """End token families and revoke their tokens; how many were in force."""
    return _end_matching_grants(tx, oauth_grants.c.id.in_(grant_ids), reason, now=now)


def end_person_grants(tx: Tx, account_id: int, person_id: int, *, now: datetime) -> int:
    condition = sa.and_(oauth_grants.c.account_id == account_id, oauth_grants.c.person_id == person_id)
    return _end_matching_grants(tx, condition, "membership", now=now)


def end_sub_account_grants(tx: Tx, sub_account_id: int, *, now: datetime) -> int:
    return _end_matching_grants(tx, oauth_grants.c.sub_account_id == sub_account_id, "membership", now=now)


def _end_matching_grants(tx: Tx, condition: sa.ColumnElement[bool], reason: GrantEndReason, *, now: datetime) -> int:
    # In the order of their ids: two that end the same families do not wait for each other.
    active_grants = sa.select(oauth_grants.c.id).where(condition, oauth_grants.c.ended_at.is_(None))
    locked_ids = list(tx.execute(active_grants.order_by(oauth_grants.c.id).with_for_update()).scalars())
    if locked_ids:
        tx.execute(
            sa.update(oauth_grants).where(oauth_grants.c.id.in_(locked_ids)).values(ended_at=now, ended_by=reason)
        )
        tx.execute(
            sa.update(tokens)
            .where(tokens.c.grant_id.in_(locked_ids), tokens.c.revoked_at.is_(None))
            .values(revoked_at=now)
        )
    return len(locked_ids)


@dataclass(frozen=True, slots=True)
class ConnectedApp:
    """All connections of one client by the same person, sub account and mode, the newest first."""

    connections: Sequence[AppConnection]

    @property
    def newest(self) -> AppConnection:
        return self.connections[0]

    @property
    def since(self) -> datetime:
        return min(connection.connected_at for connection in self.connections)

    @property
    def last_used_at(self) -> datetime | None:
        return max(
            (connection.last_used_at for connection in self.connections if connection.last_used_at), default=None
        )

    @property
    def scopes(self) -> Sequence[str] | None:
        """The union of all connections; None means everything."""
        granted: set[str] = set()
        for connection in self.connections:
            if connection.scopes is None:
                return None
            granted.update(connection.scopes)
        return sort_scopes(granted)


def list_connected_apps(tx: Tx, account_id: int, *, now: datetime) -> list[ConnectedApp]:
    """The last connected first."""
    groups: dict[tuple[object, ...], list[AppConnection]] = {}
    for connection in list_connections(tx, account_id, now=now):
        key = (connection.client_id, connection.person_id, connection.sub_account_id, connection.mode)
        groups.setdefault(key, []).append(connection)
    return [ConnectedApp(group) for group in groups.values()]
