"""Sessions: browsers that users signed in with."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import sqlalchemy as sa

from quillpost.accounts.audit.service import Actor
from quillpost.accounts.models import Caller, Role, get_network
from quillpost.accounts.queries import insert_token
from quillpost.accounts.sub_accounts.queries import share_lock_sub_account
from quillpost.accounts.tokens.rules import get_role_scopes
from quillpost.core import tokens as token_format
from quillpost.core.database import Database, Tenant, Tx
from quillpost.core.database.tables.accounts import memberships, sessions
from quillpost.core.database.tables.base import tokens
from quillpost.core.errors import NotFound

SESSION_LIFETIME = timedelta(days=30)
IDLE_TIMEOUT = timedelta(days=7)
CODE_TIMEOUT = timedelta(minutes=10)
CONFIRMATION_LIFETIME = timedelta(minutes=30)
"""How long after a password was given sensitive actions do not require it again."""
PAGE_TOKEN_LIFETIME = timedelta(minutes=15)
SEEN_UPDATE_INTERVAL = timedelta(minutes=1)
MAX_BROWSER_LENGTH = 300
OPERATOR_ROLES: Final = ("owner", "operator")

# Who they are, and all that they belong to, by one statement; whether they were seen lately is noted with it.
FIND_SESSION = sa.text(
    """
    with found as (
        select * from sessions
         where digest = :digest and not awaits_code and expires_at > :now and seen_at > :idle_since),
    seen as (
        update sessions s set seen_at = :now, network = coalesce(:network, s.network)
          from found where s.id = found.id and found.seen_at <= :seen_before)
    select s.id as session_id, s.person_id, s.membership_id as looked_at, s.mode, s.confirmed_at,
           p.email, p.name, p.totp_since is not null as has_second_factor,
           m.id as membership_id, m.account_id, a.name as account_name, m.role, m.sub_account_id,
           b.title as sub_account_title, a.is_operator, a.test_mode
      from found s
      join people p on p.id = s.person_id
      join memberships m on m.person_id = s.person_id
      join accounts a on a.id = m.account_id
      left join sub_accounts b on b.id = m.sub_account_id
     order by m.id
    """
)
# The session cannot end, nor its user's rights change, before the token is there to be ended too.
LOCK_SESSION_MEMBERSHIP = sa.text(
    """
    select from sessions s join memberships m on m.person_id = s.person_id
     where s.id = :session_id and m.id = :membership_id and m.role = :role
       and m.sub_account_id is not distinct from cast(:sub_account_id as bigint)
       for share of m for key share of s
    """
)

# Where the sessions that are still in force are by now. This does not count as being seen.
READ_SESSION_STATES = sa.text(
    """
    select s.id as session_id, m.id as membership_id, m.role, m.sub_account_id,
           case when a.test_mode then 'test' else s.mode end as mode, a.is_operator
      from sessions s
      join lateral (
          select * from memberships m where m.person_id = s.person_id
           order by m.id is not distinct from s.membership_id desc, m.id limit 1) m on true
      join accounts a on a.id = m.account_id
     where s.id = any(cast(:ids as bigint[])) and not s.awaits_code and s.expires_at > :now
       and s.seen_at > :idle_since
    """
)


@dataclass(frozen=True, slots=True)
class UserMembership:
    membership_id: int
    account_id: int
    account_name: str
    role: Role
    sub_account_id: int | None
    sub_account_title: str | None
    is_operator_account: bool
    is_test_account: bool


@dataclass(frozen=True, slots=True)
class SignedInUser:
    """A person, in one of their accounts."""

    session_id: int
    person_id: int
    email: str
    name: str
    here: UserMembership
    elsewhere: Sequence[UserMembership]
    mode: str
    has_second_factor: bool
    confirmed_at: datetime
    address: str | None = None

    @property
    def is_owner(self) -> bool:
        return self.here.role == "owner"

    @property
    def tenant(self) -> Tenant:
        """Pages see both modes."""
        return Tenant(self.here.account_id, self.here.sub_account_id)

    @property
    def is_operator(self) -> bool:
        """Whether they run the service, and not only an account of it."""
        membership = self.here
        return (
            membership.is_operator_account and membership.role in OPERATOR_ROLES and membership.sub_account_id is None
        )

    @property
    def caller(self) -> Caller:
        """The same person as a caller of the API, with what their role allows."""
        return Caller(
            account_id=self.here.account_id,
            mode=self.mode,
            sub_account_id=self.here.sub_account_id,
            scopes=get_role_scopes(self.here.role),
            person_id=self.person_id,
            is_operator=self.is_operator,
        )

    @property
    def actor(self) -> Actor:
        return Actor(self.email, person_id=self.person_id, address=self.address)


@dataclass(frozen=True, slots=True)
class Session:
    id: int
    network: str | None
    browser: str | None
    created_at: datetime
    seen_at: datetime


def create_session(
    tx: Tx, person_id: int, *, awaits_code: bool, address: str | None, browser: str | None, now: datetime
) -> str:
    """The cookie of a new session. Takes the system transaction."""
    cookie = token_format.mint_secret("session", secrets.token_bytes(32))
    tx.execute(
        sa.insert(sessions).values(
            digest=token_format.hash_token(cookie),
            person_id=person_id,
            mode="test",
            awaits_code=awaits_code,
            network=None if address is None else get_network(address),
            browser=None if browser is None else browser[:MAX_BROWSER_LENGTH],
            created_at=now,
            confirmed_at=now,
            seen_at=now,
            expires_at=now + (CODE_TIMEOUT if awaits_code else SESSION_LIFETIME),
        )
    )
    return cookie


def renew_session(tx: Tx, session_id: int) -> str:
    """Another cookie for the same session, whose page tokens end. Takes the system transaction."""
    cookie = token_format.mint_secret("session", secrets.token_bytes(32))
    tx.execute(sa.update(sessions).where(sessions.c.id == session_id).values(digest=token_format.hash_token(cookie)))
    tx.execute(sa.delete(tokens).where(tokens.c.session_id == session_id))
    return cookie


def find_session(db: Database, cookie: str, *, address: str | None, now: datetime) -> SignedInUser | None:
    """The user of this cookie; None if the session has ended, awaits a code, or has no account left. Noted as seen at
    most once a minute."""
    if not token_format.is_of_kind(cookie, "session"):
        return None
    params = {
        "digest": token_format.hash_token(cookie),
        "now": now,
        "idle_since": now - IDLE_TIMEOUT,
        "seen_before": now - SEEN_UPDATE_INTERVAL,
        "network": None if address is None else get_network(address),
    }
    with db.system_transaction() as tx:
        rows = tx.execute(FIND_SESSION, params).all()
    if not rows:
        return None
    current = next((row for row in rows if row.membership_id == row.looked_at), rows[0])
    return SignedInUser(
        session_id=current.session_id,
        person_id=current.person_id,
        email=current.email,
        name=current.name,
        here=_build_membership(current),
        elsewhere=[_build_membership(row) for row in rows if row is not current],
        mode="test" if current.test_mode else current.mode,
        has_second_factor=current.has_second_factor,
        confirmed_at=current.confirmed_at,
        address=address,
    )


def check_still_signed_in(tx: Tx, users: Sequence[SignedInUser], *, now: datetime) -> list[bool]:
    """For each user whether their session, account, mode and rights are unchanged. Takes the system transaction."""
    params = {"ids": [user.session_id for user in users], "now": now, "idle_since": now - IDLE_TIMEOUT}
    states = {row.session_id: tuple(row)[1:] for row in tx.execute(READ_SESSION_STATES, params)}
    return [states.get(user.session_id) == _get_session_state(user) for user in users]


def _get_session_state(user: SignedInUser) -> tuple[Any, ...]:
    here = user.here
    return here.membership_id, here.role, here.sub_account_id, user.mode, here.is_operator_account


def find_person_awaiting_code(db: Database, cookie: str, *, now: datetime) -> int | None:
    if not token_format.is_of_kind(cookie, "session"):
        return None
    with db.system_transaction() as tx:
        return tx.scalar(
            sa.select(sessions.c.person_id).where(
                sessions.c.digest == token_format.hash_token(cookie),
                sessions.c.awaits_code,
                sessions.c.expires_at > now,
            )
        )


def end_session(tx: Tx, cookie: str) -> None:
    """With the tokens of its pages."""
    tx.execute(sa.delete(sessions).where(sessions.c.digest == token_format.hash_token(cookie)))


def end_sessions(tx: Tx, person_id: int, *, except_id: int | None = None, only_id: int | None = None) -> int:
    """End all of a person's sessions, all but one, or only one; how many there were."""
    conditions = [sessions.c.person_id == person_id]
    if except_id is not None:
        conditions.append(sessions.c.id != except_id)
    if only_id is not None:
        conditions.append(sessions.c.id == only_id)
    return tx.execute(sa.delete(sessions).where(*conditions)).rowcount


def list_sessions(tx: Tx, person_id: int, *, now: datetime) -> list[Session]:
    """Those in force, the last seen first. Takes the system transaction."""
    c = sessions.c
    rows = tx.execute(
        sa.select(c.id, c.network, c.browser, c.created_at, c.seen_at)
        .where(c.person_id == person_id, ~c.awaits_code, c.expires_at > now, c.seen_at > now - IDLE_TIMEOUT)
        .order_by(c.seen_at.desc(), c.id.desc())
    )
    return [Session(*row) for row in rows]


def switch_account(tx: Tx, user: SignedInUser, *, membership_id: int | None = None, mode: str | None = None) -> None:
    """Switch to another of one's accounts (else `NotFound`) or to the other mode. Page tokens of another account end.
    Takes the system transaction."""
    changes: dict[str, Any] = {} if mode is None else {"mode": "live" if mode == "live" else "test"}
    if membership_id is not None:
        membership_query = sa.select(memberships.c.id).where(
            memberships.c.id == membership_id, memberships.c.person_id == user.person_id
        )
        if tx.execute(membership_query).first() is None:
            raise NotFound
        changes["membership_id"] = membership_id
    if changes:
        tx.execute(sa.update(sessions).where(sessions.c.id == user.session_id).values(**changes))
    if membership_id not in (None, user.here.membership_id):
        tx.execute(sa.delete(tokens).where(tokens.c.session_id == user.session_id))


def confirm_session(tx: Tx, session_id: int, *, now: datetime) -> None:
    tx.execute(sa.update(sessions).where(sessions.c.id == session_id).values(confirmed_at=now))


def create_page_token(tx: Tx, user: SignedInUser, *, now: datetime) -> tuple[str, int]:
    """A token with which a page calls the API for its reader, and the seconds that it is valid for. It ends with the
    session, and is on no list. Takes the system transaction."""
    # The sub account before the membership, in the order in which it is removed.
    if not share_lock_sub_account(tx, user.here.sub_account_id):
        raise NotFound
    here = user.here
    membership = {"membership_id": here.membership_id, "role": here.role, "sub_account_id": here.sub_account_id}
    if tx.execute(LOCK_SESSION_MEMBERSHIP, {"session_id": user.session_id, **membership}).first() is None:
        raise NotFound
    tx.execute(sa.delete(tokens).where(tokens.c.session_id == user.session_id, tokens.c.expires_at <= now))
    allowed_scopes = get_role_scopes(user.here.role)
    _, token = insert_token(
        tx,
        user.here.account_id,
        name="a page of ours",
        mode=user.mode,
        scopes=None if allowed_scopes is None else sorted(allowed_scopes),
        sub_account_id=user.here.sub_account_id,
        person_id=user.person_id,
        session_id=user.session_id,
        expires_at=now + PAGE_TOKEN_LIFETIME,
        now=now,
    )
    return token, int(PAGE_TOKEN_LIFETIME.total_seconds())


def _build_membership(row: sa.Row[Any]) -> UserMembership:
    return UserMembership(
        row.membership_id, row.account_id, row.account_name, row.role, row.sub_account_id, row.sub_account_title,
        row.is_operator, row.test_mode,
    )  # fmt: skip
