"""Invitations of people to an account."""

import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from quillpost.accounts.audit.service import Actor, record_audit_entry
from quillpost.accounts.models import Role
from quillpost.accounts.rate_limits import service as rate_limits
from quillpost.accounts.rate_limits.service import RateLimitBucket
from quillpost.accounts.service import require_owner
from quillpost.accounts.sub_accounts.queries import share_lock_sub_account
from quillpost.accounts.users import emails as user_emails
from quillpost.accounts.users import rules
from quillpost.accounts.users.passwords import SignInContext
from quillpost.accounts.users.queries import lock_account, validate_membership
from quillpost.accounts.users.rules import check_password
from quillpost.accounts.users.sessions import SignedInUser
from quillpost.core import outbox, tokens
from quillpost.core.database import Tx, read_row
from quillpost.core.database.tables.accounts import invitations, memberships, people
from quillpost.core.database.tables.base import accounts, sub_accounts
from quillpost.core.encryption import Encryptor
from quillpost.core.errors import Invalid, Refused
from quillpost.core.text import to_one_line

INVITATION_LIFETIME = timedelta(days=7)
MAX_PENDING = 100
MAX_EMAILS_PER_DAY = 200


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
    """Whether a person with this e-mail signs in already: they accept with their own password."""


class _InvitationTaken(Exception):
    """Another request was faster, with this link or this e-mail."""


def invite(
    tx: Tx,
    encryptor: Encryptor,
    account_id: int,
    *,
    email: str,
    role: Role,
    sub_account_id: int | None,
    actor: Actor,
    base_url: str,
    now: datetime,
    send_email: bool = True,
) -> str:
    """Invite a person by e-mail; the link, for the command line. An earlier link ends. `Invalid` by field (email,
    role, sub_account_id); `Refused` if too many are pending or were mailed today; `Forbidden` unless an owner. Takes
    the system transaction."""
    normalized_email = rules.normalize_email(email)
    if error := rules.find_email_error(normalized_email):
        raise Invalid({"email": [error]})
    account = lock_account(tx, account_id)
    require_owner(tx, account_id, actor)
    validate_membership(tx, account, role=role, sub_account_id=sub_account_id)
    if _is_member(tx, account_id, normalized_email):
        raise Invalid({"email": [f"{normalized_email} is in this account already."]})
    revoked_invitations = _revoke_earlier(tx, account_id, normalized_email, now)
    _refuse_too_many_pending(tx, account_id, now)
    if send_email:
        _count_email(tx, account_id)
    token = tokens.mint_secret("invitation", secrets.token_bytes(32))
    invitation_id = tx.execute(
        sa.insert(invitations)
        .values(
            account_id=account_id,
            sub_account_id=sub_account_id,
            email=normalized_email,
            role=role,
            digest=tokens.hash_token(token),
            person_id=actor.person_id,
            created_at=now,
            expires_at=now + INVITATION_LIFETIME,
        )
        .returning(invitations.c.id)
    ).scalar_one()
    # Another link for the same invitation, in the hands of the operator, is no event.
    if send_email or (role, sub_account_id) not in revoked_invitations:
        about = {"email": normalized_email, "role": role, "id": invitation_id}
        record_audit_entry(tx, account_id, "person.invited", actor, about=about, sub_account_id=sub_account_id, now=now)
    link = f"{base_url}/join/{token}"
    if send_email:
        title = tx.scalar(sa.select(sub_accounts.c.title).where(sub_accounts.c.id == sub_account_id))
        _queue_email(tx, encryptor, invitation_id, link, (account.name, title), inviter=actor, now=now)
    return link


def list_pending_invitations(tx: Tx, account_id: int, *, now: datetime) -> list[Invitation]:
    """The newest first."""
    rows = tx.execute(
        _select_invitations(now).where(invitations.c.account_id == account_id).order_by(invitations.c.id.desc())
    )
    return [Invitation(*row) for row in rows]


def withdraw_invitation(tx: Tx, account_id: int, invitation_id: int, actor: Actor, *, now: datetime) -> None:
    """`NotFound` if it is not pending in this account."""
    c = invitations.c
    row = read_row(
        tx,
        sa.update(invitations)
        .where(c.id == invitation_id, c.account_id == account_id, *_pending_conditions(now))
        .values(revoked_at=now)
        .returning(c.email, c.role, c.sub_account_id),
    )
    about = {"email": row.email, "role": row.role}
    record_audit_entry(
        tx, account_id, "person.uninvited", actor, about=about, sub_account_id=row.sub_account_id, now=now
    )


def end_person_invitations(tx: Tx, account_id: int, person_id: int, *, now: datetime) -> None:
    c = invitations.c
    conditions = c.account_id == account_id, c.person_id == person_id
    tx.execute(sa.update(invitations).where(*conditions, *_pending_conditions(now)).values(revoked_at=now))


def find_invitation(tx: Tx, token: str, *, now: datetime) -> Invitation | None:
    """None if used, withdrawn, expired or unknown. Takes the system transaction."""
    if not tokens.is_of_kind(token, "invitation"):
        return None
    row = tx.execute(_select_invitations(now).where(invitations.c.digest == tokens.hash_token(token))).first()
    return None if row is None else Invitation(*row)


def join_as_new_person(
    context: SignInContext, token: str, *, name: str, password: str, address: str, now: datetime
) -> int | None:
    """The new person's id. `Invalid` (name, password); None if the link is no longer valid, or a person has this
    e-mail. The link came by e-mail, so the e-mail is theirs."""
    with context.db.system_transaction() as tx:
        invitation = find_invitation(tx, token, now=now)
    if invitation is None or invitation.has_person:
        return None
    normalized_name = rules.normalize_name(name)
    _validate_new_person(normalized_name, password, invitation.email)
    password_hash = context.hasher.hash(password)
    try:
        with context.db.system_transaction() as tx:
            return _create_person(tx, token, invitation, normalized_name, password_hash, address=address, now=now)
    except _InvitationTaken:
        return None


def accept_invitation(tx: Tx, token: str, user: SignedInUser, *, now: datetime) -> int | None:
    """The membership's id, for a user with the invited e-mail; else None. Takes the system transaction."""
    invitation = find_invitation(tx, token, now=now)
    if invitation is None or rules.normalize_email(user.email) != invitation.email:
        return None
    person_query = sa.select(people.c.id).where(people.c.id == user.person_id)
    if tx.execute(person_query.with_for_update(read=True, key_share=True)).first() is None:
        return None
    if not share_lock_sub_account(tx, invitation.sub_account_id) or _claim_invitation(tx, token, now) is None:
        return None
    return _create_membership(tx, invitation, user.actor, now)


def _pending_conditions(now: datetime) -> list[sa.ColumnElement[bool]]:
    c = invitations.c
    return [c.accepted_at.is_(None), c.revoked_at.is_(None), c.expires_at > now]


def _select_invitations(now: datetime) -> sa.Select[*tuple[Any, ...]]:
    c = invitations.c
    has_person = sa.exists(people.c.id).where(sa.func.lower(people.c.email) == sa.func.lower(c.email))
    columns = (
        c.id, c.account_id, accounts.c.name, c.sub_account_id, sub_accounts.c.title, c.email, c.role, c.created_at,
        c.expires_at, has_person,
    )  # fmt: skip
    return (
        sa.select(*columns)
        .select_from(invitations)
        .join(accounts, accounts.c.id == c.account_id)
        .outerjoin(sub_accounts, sub_accounts.c.id == c.sub_account_id)
        .where(*_pending_conditions(now))
    )


def _is_member(tx: Tx, account_id: int, email: str) -> bool:
    query = (
        sa.select(memberships.c.id)
        .join(people, people.c.id == memberships.c.person_id)
        .where(memberships.c.account_id == account_id, sa.func.lower(people.c.email) == email)
    )
    return tx.execute(query).first() is not None


def _revoke_earlier(tx: Tx, account_id: int, email: str, now: datetime) -> list[tuple[str, int | None]]:
    """The role and sub account of the one that was pending."""
    c = invitations.c
    rows = tx.execute(
        sa.update(invitations)
        .where(
            c.account_id == account_id, sa.func.lower(c.email) == email, c.accepted_at.is_(None), c.revoked_at.is_(None)
        )
        .values(revoked_at=now)
        .returning(c.role, c.sub_account_id, c.expires_at)
    )
    return [(row.role, row.sub_account_id) for row in rows if row.expires_at > now]


def _refuse_too_many_pending(tx: Tx, account_id: int, now: datetime) -> None:
    c = invitations.c
    query = sa.select(sa.func.count()).where(c.account_id == account_id, *_pending_conditions(now))
    if tx.execute(query).scalar_one() >= MAX_PENDING:
        raise Refused(f"At most {MAX_PENDING} invitations wait at a time: take some back first.")


def _count_email(tx: Tx, account_id: int) -> None:
    bucket = RateLimitBucket(f"day:invitations:{account_id}", MAX_EMAILS_PER_DAY, rate_limits.DAY)
    if rate_limits.count_attempt(tx, [bucket]).wait_seconds:
        raise Refused(f"An account invites at most {MAX_EMAILS_PER_DAY} people a day. Try again tomorrow.")


def _queue_email(
    tx: Tx,
    encryptor: Encryptor,
    invitation_id: int,
    link: str,
    names: tuple[str, str | None],
    *,
    inviter: Actor,
    now: datetime,
) -> None:
    account_name, sub_account_title = names
    key = f"people:invitation:{invitation_id}"
    c = invitations.c
    outbox.enqueue_person_notification(
        tx,
        sa.select(c.account_id, c.email).where(c.id == invitation_id),
        key=key,
        subject=f"You are invited to {to_one_line(account_name, max_length=user_emails.MAX_NAME_LENGTH)}",
        text=user_emails.format_invitation_text(
            account=account_name,
            sub_account_title=sub_account_title,
            inviter=inviter.name if inviter.person_id else None,
            duration="7 days",
        ),
        secret_sealed=encryptor.encrypt(link.encode(), context=outbox.encryption_context(key)),
        ends_at=now + INVITATION_LIFETIME,
        now=now,
    )


def _validate_new_person(name: str, password: str, email: str) -> None:
    errors = {}
    if error := rules.find_name_error(name):
        errors["name"] = [error]
    if password_errors := check_password(password, email=email, name=name):
        errors["password"] = password_errors
    if errors:
        raise Invalid(errors)


def _create_person(
    tx: Tx, token: str, invitation: Invitation, name: str, password_hash: str, *, address: str, now: datetime
) -> int:
    """The link is used and the person is a member, or neither."""
    if not share_lock_sub_account(tx, invitation.sub_account_id) or _claim_invitation(tx, token, now) is None:
        raise _InvitationTaken
    person_id = tx.scalar(
        insert(people)
        .values(
            email=invitation.email,
            name=name,
            password_hash=password_hash,
            password_changed_at=now,
            created_at=now,
            updated_at=now,
        )
        .on_conflict_do_nothing()
        .returning(people.c.id)
    )
    if person_id is None:
        raise _InvitationTaken
    _create_membership(tx, invitation, Actor(invitation.email, person_id=person_id, address=address), now)
    return int(person_id)


def _claim_invitation(tx: Tx, token: str, now: datetime) -> int | None:
    """One of two requests with the same link gets it. The sub account is locked before, as where one is removed."""
    c = invitations.c
    is_invitation = c.digest == tokens.hash_token(token)
    statement = sa.update(invitations).where(is_invitation, *_pending_conditions(now)).values(accepted_at=now)
    return tx.execute(statement.returning(c.id)).scalar()


def _create_membership(tx: Tx, invitation: Invitation, actor: Actor, now: datetime) -> int | None:
    membership_id: int | None = tx.scalar(
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
    if membership_id is not None:
        record_audit_entry(
            tx,
            invitation.account_id,
            "person.joined",
            actor,
            about={"email": invitation.email, "role": invitation.role},
            sub_account_id=invitation.sub_account_id,
            now=now,
        )
    return membership_id
