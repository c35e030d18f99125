"""SQL about users: who they are, their audit entries, their accounts."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, get_args

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

from quillpost.accounts.audit.service import Actor, build_entry_columns
from quillpost.accounts.models import Role
from quillpost.accounts.sub_accounts.queries import share_lock_sub_account
from quillpost.accounts.users import rules
from quillpost.core.database import Tx, read_row
from quillpost.core.database.tables.accounts import people
from quillpost.core.database.tables.base import accounts
from quillpost.core.errors import Invalid, Refused


def find_person(tx: Tx, email: str) -> int:
    """`Refused` if no one signs in with this e-mail. Takes the system transaction."""
    person_id = tx.execute(
        sa.select(people.c.id).where(sa.func.lower(people.c.email) == rules.normalize_email(email))
    ).scalar()
    if person_id is None:
        raise Refused(f"Nobody signs in with the e-mail {email}.")
    return int(person_id)


def has_second_factor(tx: Tx, person_id: int) -> bool:
    since = tx.execute(sa.select(people.c.totp_since).where(people.c.id == person_id)).scalar()
    return since is not None


INSERT_ENTRIES = sa.text(
    """
    insert into audit_log (account_id, sub_account_id, act, actor, person_id, about, network, at)
    select m.account_id, m.sub_account_id, :act, :actor, cast(:person_id as bigint), :about, :network, :at
      from memberships m
     where m.person_id = :whose
    """
).bindparams(sa.bindparam("about", type_=JSONB()))
INSERT_ENTRIES_THROTTLED = sa.text(
    """
    with counted as materialized (select used from count_call(:key, 60))
    insert into audit_log (account_id, sub_account_id, act, actor, person_id, about, network, at)
    select m.account_id, m.sub_account_id, :act, :actor, cast(:person_id as bigint), :about, :network, :at
      from memberships m, counted
     where m.person_id = :whose and counted.used = 1
    """
).bindparams(sa.bindparam("about", type_=JSONB()))


def record_person_entry(
    tx: Tx,
    act: str,
    actor: Actor,
    *,
    person_id: int | None = None,
    about: Mapping[str, Any] | None = None,
    now: datetime,
) -> None:
    """One entry in each account of the actor, or of `person_id`. Takes the system transaction."""
    whose = actor.person_id if person_id is None else person_id
    details = {"whose": whose, "about": dict(about or {})}
    tx.execute(INSERT_ENTRIES, build_entry_columns(act, actor, now=now) | details)


def record_throttled_entry(
    tx: Tx, act: str, actor: Actor, key: str, *, about: Mapping[str, Any] | None = None, now: datetime
) -> None:
    """The same at most once a minute per key, so that nobody fills the log from outside. For an unknown person it does
    as much work, and writes nothing."""
    details = {"whose": actor.person_id, "about": dict(about or {}), "key": key}
    tx.execute(INSERT_ENTRIES_THROTTLED, build_entry_columns(act, actor, now=now) | details)


@dataclass(frozen=True, slots=True)
class LockedAccount:
    account_id: int
    name: str
    is_operator_account: bool


def lock_account(tx: Tx, account_id: int) -> LockedAccount:
    """Nobody else changes its members before this transaction ends."""
    query = sa.select(accounts.c.id, accounts.c.name, accounts.c.is_operator).where(accounts.c.id == account_id)
    return LockedAccount(*read_row(tx, query.with_for_update(key_share=True)))


def validate_membership(tx: Tx, account: LockedAccount, *, role: Role, sub_account_id: int | None) -> None:
    """`Invalid` unless this account can have such a member. The sub account stays until this transaction ends."""
    if role not in get_args(Role):
        raise Invalid({"role": ["A role is owner, member or operator."]})
    if role == "operator" and not account.is_operator_account:
        raise Invalid({"role": ["This account does not run the service: it has no operators."]})
    if sub_account_id is None:
        return
    if role != "member":
        raise Invalid({"sub_account_id": ["Only a member can be limited to one sub account."]})
    if not share_lock_sub_account(tx, sub_account_id, account_id=account.account_id):
        raise Invalid({"sub_account_id": ["There is no such sub account."]})
