"""Create, change and remove sub accounts."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from quillpost.accounts.models import Caller
from quillpost.accounts.oauth.service import end_sub_account_grants
from quillpost.accounts.queries import refuse_if_used_by_automation
from quillpost.accounts.sub_accounts.queries import IS_NOT_DELETED, SUB_ACCOUNT_COLUMNS, SubAccount, lock_sub_account
from quillpost.core.database import Tx
from quillpost.core.database.tables.accounts import invitations, memberships
from quillpost.core.database.tables.base import (
    CHANGEABLE_ORDER_STATUSES,
    files,
    image_templates,
    ledger_moves,
    mailing_lists,
    message_templates,
    orders,
    own_hands,
    signatures,
    stored_sends,
    sub_accounts,
    tokens,
)
from quillpost.core.database.tables.notifications import automations, webhooks
from quillpost.core.errors import Forbidden, Refused

MAX_SUB_ACCOUNTS = 10_000


def create_sub_account(tx: Tx, caller: Caller, columns: Mapping[str, Any], *, now: datetime) -> SubAccount:
    if caller.sub_account_id is not None:
        raise Forbidden("This token is limited to one sub account: it cannot make others.")
    count = sa.select(sa.func.count()).select_from(sub_accounts).where(IS_NOT_DELETED)
    if tx.execute(count).scalar_one() >= MAX_SUB_ACCOUNTS:
        raise Refused(f"An account has at most {MAX_SUB_ACCOUNTS:,} sub accounts.")
    row = tx.execute(
        sa.insert(sub_accounts)
        .values({"branding": {}, "backgrounds": {}, **columns, "account_id": caller.account_id})
        .values(created_at=now, updated_at=now)
        .returning(*SUB_ACCOUNT_COLUMNS)
    ).one()
    return SubAccount(*row)


def update_sub_account(tx: Tx, sub_account_id: int, columns: Mapping[str, Any], *, now: datetime) -> SubAccount:
    row = tx.execute(
        sa.update(sub_accounts)
        .where(sub_accounts.c.id == sub_account_id)
        .values(**columns, updated_at=now)
        .returning(*SUB_ACCOUNT_COLUMNS)
    ).one()
    return SubAccount(*row)


MAX_LISTED_ORDERS = 5
OWNED_TABLES: dict[str, tuple[sa.Table, Sequence[sa.ColumnElement[bool]]]] = {
    # What the service itself keeps there goes with the sub account.
    "mailing list": (mailing_lists, [mailing_lists.c.kept_for.is_(None)]),
    "image template": (image_templates, []),
    "message template": (message_templates, []),
    "handwriting style": (own_hands, [own_hands.c.deleted_at.is_(None)]),
    "signature": (signatures, [signatures.c.deleted_at.is_(None)]),
}


def remove_sub_account(tx: Tx, sub_account_id: int, *, now: datetime) -> SubAccount:
    """What it was; it is unknown from now on. The transaction must see both modes. It is locked first, so that anyone
    about to use it is either counted here or finds it gone."""
    sub_account = lock_sub_account(tx, sub_account_id, for_removal=True)
    _refuse_if_orders_held(tx, sub_account_id)
    _refuse_if_not_empty(tx, sub_account_id)
    refuse_if_used_by_automation(tx, automations.c.sub_account_id == sub_account_id, kind="sub account")
    if _has_history(tx, sub_account_id):
        _mark_deleted(tx, sub_account_id, now=now)
    else:
        tx.execute(sa.delete(sub_accounts).where(sub_accounts.c.id == sub_account_id))
    return sub_account


def _refuse_if_orders_held(tx: Tx, sub_account_id: int) -> None:
    order_ids = list(
        tx.execute(
            sa.select(orders.c.id)
            .where(orders.c.sub_account_id == sub_account_id, orders.c.status.in_(CHANGEABLE_ORDER_STATUSES))
            .order_by(orders.c.id)
            .limit(MAX_LISTED_ORDERS + 1)
        ).scalars()
    )
    if order_ids:
        labels = ["others" if index == MAX_LISTED_ORDERS else str(order_id) for index, order_id in enumerate(order_ids)]
        subject = f"Orders {_join_names(labels)} are" if len(labels) > 1 else f"Order {labels[0]} is"
        raise Refused(f"{subject} still held back for this sub account: cancel first, or wait.")


def _refuse_if_not_empty(tx: Tx, sub_account_id: int) -> None:
    counts = tx.execute(
        sa.select(
            *(
                sa.select(sa.func.count())
                .where(table.c.sub_account_id == sub_account_id, *conditions)
                .scalar_subquery()
                for table, conditions in OWNED_TABLES.values()
            )
        )
    ).one()
    owned = [
        f"{count} {kind}{'' if count == 1 else 's'}" for kind, count in zip(OWNED_TABLES, counts, strict=True) if count
    ]
    if owned:
        raise Refused(f"This sub account still has {_join_names(owned)}: delete or move them first.")


def _has_history(tx: Tx, sub_account_id: int) -> bool:
    checks = (sa.exists().where(table.c.sub_account_id == sub_account_id) for table in (orders, files, ledger_moves))
    return bool(tx.execute(sa.select(sa.or_(*checks))).scalar_one())


def _mark_deleted(tx: Tx, sub_account_id: int, *, now: datetime) -> None:
    """Keep the row for its history; end everything that could still act for it."""
    tx.execute(sa.update(sub_accounts).where(sub_accounts.c.id == sub_account_id).values(deleted_at=now))
    end_sub_account_grants(tx, sub_account_id, now=now)  # before tokens, as everywhere
    tx.execute(
        sa.update(tokens)
        .where(tokens.c.sub_account_id == sub_account_id, tokens.c.revoked_at.is_(None))
        .values(revoked_at=now)
    )
    for table in (webhooks, automations, mailing_lists, memberships, invitations):
        tx.execute(sa.delete(table).where(table.c.sub_account_id == sub_account_id))
    tx.execute(
        sa.delete(stored_sends).where(stored_sends.c.sub_account_id == sub_account_id, stored_sends.c.sent_at.is_(None))
    )


def _join_names(names: list[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
