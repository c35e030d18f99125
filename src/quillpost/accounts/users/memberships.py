"""Where somebody may be in an account: in which role, and for which sub account. Whoever changes who is in an
account takes its row first, so that they come one after the other."""

from dataclasses import dataclass
from typing import get_args

import sqlalchemy as sa

from quillpost.accounts.models import Role
from quillpost.accounts.sub_accounts import share_lock_sub_account
from quillpost.core.database import Tx
from quillpost.core.database.tables.base import accounts
from quillpost.core.errors import Invalid, NotFound


@dataclass(frozen=True, slots=True)
class LockedAccount:
    """An account whose people are about to change."""

    account_id: int
    name: str
    is_operator_account: bool


def lock_account(tx: Tx, account_id: int) -> LockedAccount:
    """The account; nobody else changes its people before this transaction ends."""
    row = tx.execute(
        sa.select(accounts.c.id, accounts.c.name, accounts.c.is_operator)
        .where(accounts.c.id == account_id)
        .with_for_update(key_share=True)
    ).first()
    if row is None:
        raise NotFound
    return LockedAccount(*row)


def validate_membership(tx: Tx, account: LockedAccount, *, role: Role, sub_account_id: int | None) -> None:
    """`Invalid` unless this account has such a place. The sub account stays until this transaction ends."""
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
