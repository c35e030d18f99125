"""Invitations: how somebody comes into an account."""

import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from quillpost.accounts.audit.service import Actor, note
from quillpost.accounts.models import Role
from quillpost.accounts.service import require_owner
from quillpost.accounts.sub_accounts import lock_place
from quillpost.accounts.users import emails as letters
from quillpost.accounts.users import rate_limits, rules
from quillpost.accounts.users.memberships import lock_account, require_place
from quillpost.accounts.users.passwords import faults_of
from quillpost.accounts.users.rate_limits import Bucket
from quillpost.accounts.users.sessions import SignedIn
from quillpost.accounts.users.sign_in import Means
from quillpost.core import outbox, tokens
from quillpost.core.database import Tx
from quillpost.core.database.tables.base import accounts, sub_accounts
from quillpost.core.database.tables.users import invitations, memberships, people
from quillpost.core.encryption import Sealer
from quillpost.core.errors import Invalid, NotFound, Refused
from quillpost.core.text import one_line

LASTS = timedelta(days=7)
MOST_WAITING = 100
MOST_A_DAY = 200
"""Mails that one account has sent to people who may never have heard of it."""


@dataclass(frozen=True, slots=True)
class Invitation:
    id: int
    account_id: int
    account_name: str
    sub_account_id: int | None
    sub_account_title: str | None
    email: str
    role: Role
    created_at: datetime
    expires_at: datetime
    has_person: bool
    """Whether somebody with this e-mail signs in already: they accept with their own password."""


class _TooLate(Exception):
    """Somebody was faster, with this link or with this e-mail."""


def invite(
    tx: Tx,
    sealer: Sealer,
    account_id: int,
    *,
    email: str,
    role: Role,
    sub_account_id: int | None,
    actor: Actor,
    base_url: str,
    now: datetime,
    is_mailed: bool = True,
) -> str:
    """Invite somebody, by e-mail; the link too, for the command line. Invited again, the earlier link ends.
    `Invalid` by field (email, role, sub_account_id): a bad e-mail, an unknown sub account, one who is in the
    account already, a sub account for another role than member, the role operator in an account that does not
    run the service. `Refused` where too many wait already, or were mailed today; `Forbidden` for a person who
    is no owner. Takes the worker's transaction, and looks at this account's sub accounts alone."""
    given = rules.normalize_email(email)
    if fault := rules.email_error(given):
        raise Invalid({"email": [fault]})
    account = lock_account(tx, account_id)
    require_owner(tx, account_id, actor)
    require_place(tx, account, role=role, sub_account_id=sub_account_id)
    if _is_member(tx, account_id, given):
        raise Invalid({"email": [f"{given} is in this account already."]})
    ended = _end_earlier(tx, account_id, given, now)
    _refuse_too_many(tx, account_id, now)
    if is_mailed:
        _count_mail(tx, account_id)
    token = tokens.mint("invitation", secrets.token_bytes(32))
    made = tx.execute(
        sa.insert(invitations)
        .values(
            account_id=account_id,
            sub_account_id=sub_account_id,
            email=given,
            role=role,
            digest=tokens.digest(token),
            person_id=actor.person_id,
            created_at=now,
            expires_at=now + LASTS,
        )
        .returning(invitations.c.id)
    ).scalar_one()
    # Another link for the same invitation, in the hands of whoever runs the service, is no news.
    if is_mailed or (role, sub_account_id) not in ended:
        about = {"email": given, "role": role, "id": made}
        note(tx, account_id, "person.invited", actor, about=about, sub_account_id=sub_account_id, now=now)
    link = f"{base_url}/join/{token}"
    if is_mailed:
        branch = tx.scalar(sa.select(sub_accounts.c.title).where(sub_accounts.c.id == sub_account_id))
        _mail(tx, sealer, made, link, account_name=account.name, branch=branch, inviter=actor, now=now)
    return link


def waiting(tx: Tx, account_id: int, *, now: datetime) -> list[Invitation]:
    """Those that can still be accepted, the newest first."""
    rows = tx.execute(
        _found(now).where(invitations.c.account_id == account_id).order_by(invitations.c.id.desc())
    )
    return [Invitation(*row) for row in rows]


def take_back(tx: Tx, account_id: int, invitation_id: int, actor: Actor, *, now: datetime) -> None:
    """`NotFound` for one that is not there, or another account's."""
    c = invitations.c
    gone = tx.execute(
        sa.update(invitations)
        .where(c.id == invitation_id, c.account_id == account_id, *_is_good(now))
        .values(revoked_at=now)
        .returning(c.email, c.role, c.sub_account_id)
    ).first()
    if gone is None:
        raise NotFound
    about = {"email": gone.email, "role": gone.role}
    note(tx, account_id, "person.uninvited", actor, about=about, sub_account_id=gone.sub_account_id, now=now)


def end_of_person(tx: Tx, account_id: int, person_id: int, *, now: datetime) -> None:
    """Those that somebody made in an account: whoever is no owner any more invites nobody."""
    c = invitations.c
    theirs = c.account_id == account_id, c.person_id == person_id
    tx.execute(sa.update(invitations).where(*theirs, *_is_good(now)).values(revoked_at=now))


def find(tx: Tx, token: str, *, now: datetime) -> Invitation | None:
    """What a link is for; None: used, taken back, old or unknown. Takes the worker's transaction."""
    if not tokens.is_of_kind(token, "invitation"):
        return None
    row = tx.execute(_found(now).where(invitations.c.digest == tokens.digest(token))).first()
    return None if row is None else Invitation(*row)


def join(means: Means, token: str, *, name: str, password: str, address: str, now: datetime) -> int | None:
    """Somebody new accepts: the person's id. `Invalid` (name, password); None where the link is not good any
    more, or somebody has this e-mail already. The link came by e-mail, so the e-mail is theirs."""
    with means.db.work() as tx:
        invitation = find(tx, token, now=now)
    if invitation is None or invitation.has_person:
        return None
    called = rules.normalize_name(name)
    _require_good(called, password, invitation.email)
    kept = means.hasher.hash(password)
    try:
        with means.db.work() as tx:
            return _admit(tx, token, invitation, called, kept, address=address, now=now)
    except _TooLate:
        return None


def accept(tx: Tx, token: str, who: SignedIn, *, now: datetime) -> int | None:
    """Somebody who is signed in, with the very e-mail that was invited, accepts: the membership's id;
    None: not good any more, or for somebody else. Takes the worker's transaction."""
    invitation = find(tx, token, now=now)
    if invitation is None or rules.normalize_email(who.email) != invitation.email:
        return None
    is_there = sa.select(people.c.id).where(people.c.id == who.person_id)
    if tx.execute(is_there.with_for_update(read=True, key_share=True)).first() is None:
        return None
    if not lock_place(tx, invitation.sub_account_id) or _claim(tx, token, now) is None:
        return None
    return _enter(tx, invitation, who.actor, now)


def _is_good(now: datetime) -> list[sa.ColumnElement[bool]]:
    c = invitations.c
    return [c.accepted_at.is_(None), c.revoked_at.is_(None), c.expires_at > now]


def _found(now: datetime) -> sa.Select[*tuple[Any, ...]]:
    c = invitations.c
    has_person = sa.exists(people.c.id).where(sa.func.lower(people.c.email) == sa.func.lower(c.email))
    return (
        sa.select(
            c.id,
            c.account_id,
            accounts.c.name,
            c.sub_account_id,
            sub_accounts.c.title,
            c.email,
            c.role,
            c.created_at,
            c.expires_at,
            has_person,
        )
        .select_from(invitations)
        .join(accounts, accounts.c.id == c.account_id)
        .outerjoin(sub_accounts, sub_accounts.c.id == c.sub_account_id)
        .where(*_is_good(now))
    )


def _is_member(tx: Tx, account_id: int, email: str) -> bool:
    found = (
        sa.select(memberships.c.id)
        .join(people, people.c.id == memberships.c.person_id)
        .where(memberships.c.account_id == account_id, sa.func.lower(people.c.email) == email)
    )
    return tx.execute(found).first() is not None


def _end_earlier(tx: Tx, account_id: int, email: str, now: datetime) -> list[tuple[str, int | None]]:
    """The role and sub account of the one that still waited."""
    c = invitations.c
    ended = tx.execute(
        sa.update(invitations)
        .where(
            c.account_id == account_id,
            sa.func.lower(c.email) == email,
            c.accepted_at.is_(None),
            c.revoked_at.is_(None),
        )
        .values(revoked_at=now)
        .returning(c.role, c.sub_account_id, c.expires_at)
    )
    return [(each.role, each.sub_account_id) for each in ended if each.expires_at > now]


def _refuse_too_many(tx: Tx, account_id: int, now: datetime) -> None:
    c = invitations.c
    wait = sa.select(sa.func.count()).where(c.account_id == account_id, *_is_good(now))
    if tx.execute(wait).scalar_one() >= MOST_WAITING:
        raise Refused(f"At most {MOST_WAITING} invitations wait at a time: take some back first.")


def _count_mail(tx: Tx, account_id: int) -> None:
    sent = Bucket(f"day:invitations:{account_id}", MOST_A_DAY, rate_limits.DAY)
    if rate_limits.count(tx, [sent]).wait:
        raise Refused(f"An account invites at most {MOST_A_DAY} people a day. Try again tomorrow.")


def _mail(
    tx: Tx,
    sealer: Sealer,
    invitation_id: int,
    link: str,
    *,
    account_name: str,
    branch: str | None,
    inviter: Actor,
    now: datetime,
) -> None:
    key = f"people:invitation:{invitation_id}"
    c = invitations.c
    outbox.post_to_person(
        tx,
        sa.select(c.account_id, c.email).where(c.id == invitation_id),
        key=key,
        subject=f"You are invited to {one_line(account_name, most=letters.LONGEST_NAME)}",
        words=letters.invitation_words(
            account=account_name,
            branch=branch,
            inviter=inviter.name if inviter.person_id else None,
            lasts="7 days",
        ),
        secret_sealed=sealer.seal(link.encode(), context=outbox.context_of(key)),
        ends_at=now + LASTS,
        now=now,
    )


def _require_good(name: str, password: str, email: str) -> None:
    faults = {}
    if fault := rules.name_error(name):
        faults["name"] = [fault]
    if bad := faults_of(password, email=email, name=name):
        faults["password"] = bad
    if faults:
        raise Invalid(faults)


def _admit(
    tx: Tx, token: str, invitation: Invitation, name: str, kept: str, *, address: str, now: datetime
) -> int:
    """The link is used, and somebody new is in the account, or neither."""
    if not lock_place(tx, invitation.sub_account_id) or _claim(tx, token, now) is None:
        raise _TooLate
    person_id = tx.scalar(
        insert(people)
        .values(
            email=invitation.email,
            name=name,
            password_hash=kept,
            password_changed_at=now,
            created_at=now,
            updated_at=now,
        )
        .on_conflict_do_nothing()
        .returning(people.c.id)
    )
    if person_id is None:
        raise _TooLate
    _enter(tx, invitation, Actor(invitation.email, person_id=person_id, address=address), now)
    return int(person_id)


def _claim(tx: Tx, token: str, now: datetime) -> int | None:
    """Of two that come with the same link, one gets it. The sub account's row is taken before:
    whoever removes it ends its invitations in that order too."""
    c = invitations.c
    this = c.digest == tokens.digest(token)
    claim = sa.update(invitations).where(this, *_is_good(now)).values(accepted_at=now)
    return tx.execute(claim.returning(c.id)).scalar()


def _enter(tx: Tx, invitation: Invitation, actor: Actor, now: datetime) -> int | None:
    made: int | None = tx.scalar(
        insert(memberships)
        .values(
            account_id=invitation.account_id,
            sub_account_id=invitation.sub_account_id,
            person_id=actor.person_id,
            role=invitation.role,
            created_at=now,
        )
        .on_conflict_do_nothing()
        .returning(memberships.c.id)
    )
    if made is not None:
        note(
            tx,
            invitation.account_id,
            "person.joined",
            actor,
            about={"email": invitation.email, "role": invitation.role},
            sub_account_id=invitation.sub_account_id,
            now=now,
        )
    return made
