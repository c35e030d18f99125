"""Who is in an account, and as what. An account always keeps an owner."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from quillpost.accounts.audit.service import Actor, record_audit_entry
from quillpost.accounts.models import Role
from quillpost.accounts.oauth import service as oauth_service
from quillpost.accounts.service import require_owner
from quillpost.accounts.sub_accounts.queries import share_lock_sub_account
from quillpost.accounts.tokens import service as token_service
from quillpost.accounts.tokens.service import revoke_leaked_tokens
from quillpost.accounts.users import emails, invitations
from quillpost.accounts.users.emails import notify_person
from quillpost.accounts.users.queries import lock_account, validate_membership
from quillpost.accounts.users.rules import find_name_error, normalize_name
from quillpost.core.database import Tx, read_row
from quillpost.core.database.tables.accounts import memberships, people, sessions
from quillpost.core.database.tables.base import accounts, sub_accounts, tokens
from quillpost.core.errors import Invalid, NotFound, Refused


@dataclass(frozen=True, slots=True)
class Member:
    membership_id: int
    person_id: int
    email: str
    name: str
    role: Role
    sub_account_id: int | None
    sub_account_title: str | None
    has_second_factor: bool
    last_seen_at: datetime | None
    created_at: datetime


def list_members(tx: Tx, account_id: int) -> list[Member]:
    """Last seen in this account: other accounts are not its business. Takes the system transaction."""
    m, p, s = memberships.c, people.c, sessions.c
    person_memberships = memberships.alias()
    first_membership_id = (
        sa.select(sa.func.min(person_memberships.c.id))
        .where(person_memberships.c.person_id == s.person_id)
        .scalar_subquery()
    )
    last_seen_query = sa.select(sa.func.max(s.seen_at)).where(
        s.person_id == p.id, ~s.awaits_code, sa.func.coalesce(s.membership_id, first_membership_id) == m.id
    )
    columns = (
        m.id, p.id, p.email, p.name, m.role, m.sub_account_id, sub_accounts.c.title, p.totp_since.is_not(None),
        last_seen_query.scalar_subquery(), m.created_at,
    )  # fmt: skip
    rows = tx.execute(
        sa.select(*columns)
        .select_from(
            memberships.join(people, p.id == m.person_id).outerjoin(sub_accounts, sub_accounts.c.id == m.sub_account_id)
        )
        .where(m.account_id == account_id)
        .order_by(m.id)
    )
    return [Member(*row) for row in rows]


def update_member(
    tx: Tx, account_id: int, membership_id: int, *, role: Role, sub_account_id: int | None, actor: Actor, now: datetime
) -> None:
    """Whatever acts for that person in this account ends: apps, tokens and invitations. `NotFound` for another
    account's; `Refused` for the last owner; `Forbidden` unless an owner. Takes the system transaction."""
    account = lock_account(tx, account_id)
    require_owner(tx, account_id, actor)
    validate_membership(tx, account, role=role, sub_account_id=sub_account_id)
    member = _lock_membership(tx, account_id, membership_id)
    if (member.role, member.sub_account_id) == (role, sub_account_id):
        return
    if role != "owner":
        _require_other_owner(tx, account_id, member)
    tx.execute(
        sa.update(memberships).where(memberships.c.id == membership_id).values(role=role, sub_account_id=sub_account_id)
    )
    _end_access(tx, account_id, member.person_id, now)
    about = {"email": member.email, "role": role}
    record_audit_entry(tx, account_id, "person.changed", actor, about=about, sub_account_id=sub_account_id, now=now)


def remove_member(tx: Tx, account_id: int, membership_id: int, actor: Actor, *, now: datetime) -> None:
    """Remove a member, with their apps, tokens and invitations, and notify them unless they did it. A person without
    any account is deleted. `Refused` for the last owner. Takes the system transaction."""
    lock_account(tx, account_id)
    require_owner(tx, account_id, actor)
    member = _lock_membership(tx, account_id, membership_id)
    _require_other_owner(tx, account_id, member)
    if actor.person_id != member.person_id:
        emails.notify_removed(tx, membership_id, now=now)
    tx.execute(sa.delete(memberships).where(memberships.c.id == membership_id))
    _end_access(tx, account_id, member.person_id, now)
    record_audit_entry(
        tx,
        account_id,
        "person.removed",
        actor,
        about={"email": member.email, "role": member.role},
        sub_account_id=member.sub_account_id,
        now=now,
    )
    has_membership = sa.exists().where(memberships.c.person_id == people.c.id)
    tx.execute(sa.delete(people).where(people.c.id == member.person_id, ~has_membership))


def _lock_membership(tx: Tx, account_id: int, membership_id: int) -> sa.Row[*tuple[Any, ...]]:
    """The membership with its person. The sub account is locked first, as where one is removed."""
    m = memberships.c
    conditions = m.id == membership_id, m.account_id == account_id
    if not share_lock_sub_account(tx, tx.scalar(sa.select(m.sub_account_id).where(*conditions))):
        raise NotFound
    query = sa.select(m.person_id, m.role, m.sub_account_id, people.c.email)
    query = query.join(people, people.c.id == m.person_id).where(*conditions)
    return read_row(tx, query.with_for_update())


def _require_other_owner(tx: Tx, account_id: int, member: sa.Row[*tuple[Any, ...]]) -> None:
    m = memberships.c
    other_owners = sa.select(m.id).where(m.account_id == account_id, m.role == "owner", m.person_id != member.person_id)
    if member.role == "owner" and tx.execute(other_owners.limit(1)).first() is None:
        raise Refused("An account keeps at least one owner: make somebody else an owner first.")


def _end_access(tx: Tx, account_id: int, person_id: int, now: datetime) -> None:
    oauth_service.end_person_grants(tx, account_id, person_id, now=now)
    token_service.revoke_person_tokens(tx, account_id, person_id, now=now)
    invitations.end_person_invitations(tx, account_id, person_id, now=now)
    is_page_token = tokens.c.session_id.is_not(None)
    tx.execute(
        sa.delete(tokens).where(tokens.c.account_id == account_id, tokens.c.person_id == person_id, is_page_token)
    )


def rename_person(tx: Tx, person_id: int, name: str, *, now: datetime) -> None:
    """`Invalid` (name). Takes the system transaction."""
    normalized_name = normalize_name(name)
    if error := find_name_error(normalized_name):
        raise Invalid({"name": [error]})
    tx.execute(sa.update(people).where(people.c.id == person_id).values(name=normalized_name, updated_at=now))


LEAK_EMAIL_SUBJECT = "A token of {account} was found elsewhere and ended"

LEAK_EMAIL_TEXT = (
    "Somebody reported a token, or a connected app's, of the account {account} as found where others can "
    "read it. It was ended at once: whatever used it is not let in any more.\n\n"
    "The audit log of your account says which one it was. Make another one for the program that needs it, "
    "keep it where nobody else reads it, and look through your latest orders for what you did not send."
)


def revoke_and_report_leaked(tx: Tx, token_texts: Sequence[str], *, address: str | None, now: datetime) -> int:
    """Revoke what is shown, and e-mail each owner, once a minute at most; the number of accounts. Takes the system
    transaction."""
    account_ids = revoke_leaked_tokens(tx, token_texts, address=address, now=now)
    owners = tx.execute(
        sa.select(memberships.c.person_id, accounts.c.id, accounts.c.name)
        .join(accounts, accounts.c.id == memberships.c.account_id)
        .where(accounts.c.id.in_(account_ids), memberships.c.role == "owner")
        .order_by(memberships.c.id)
    ).all()
    for person_id, account_id, name in owners:
        notify_person(
            tx,
            person_id,
            key=f"leaked:{account_id}:{now:%Y-%m-%dT%H:%M}",
            subject=LEAK_EMAIL_SUBJECT.format(account=name),
            text=LEAK_EMAIL_TEXT.format(account=name),
            now=now,
        )
    return len(account_ids)
