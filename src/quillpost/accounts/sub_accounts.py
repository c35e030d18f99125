"""Sub accounts: read, create, change and remove them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from quillpost.accounts.models import Caller
from quillpost.accounts.oauth.service import end_sub_account_grants
from quillpost.accounts.queries import refuse_if_used_by_automation
from quillpost.core.database import Tx
from quillpost.core.database.search import matches_words
from quillpost.core.database.tables.accounts import invitations, memberships
from quillpost.core.database.tables.base import (
    CHANGEABLE_ORDER_STATUSES,
    files,
    image_templates,
    ledger_moves,
    mailing_lists,
    message_templates,
    orders,
    stored_sends,
    sub_accounts,
    tokens,
)
from quillpost.core.database.tables.notifications import automations, webhooks
from quillpost.core.errors import Forbidden, NotFound, Refused
from quillpost.core.paging import Page, PageRequest

MAX_SUB_ACCOUNTS = 10_000

BACKGROUND_FIELDS = (
    "message_background_url",
    "postcard6x9_background_url",
    "notecard_background_url",
    "windowedletter_background_url",
    "windowlessletter_background_url",
)


@dataclass(frozen=True, slots=True)
class SubAccount:
    """`branding` and `backgrounds` hold what is set, by the API's names."""

    id: int
    account_id: int
    title: str
    return_name: str | None
    return_address: str | None
    return_address2: str | None
    return_city: str | None
    return_state: str | None
    return_postal_code: str | None
    branding: Mapping[str, Any]
    backgrounds: Mapping[str, str]
    created_at: datetime
    updated_at: datetime


_COLUMNS = [sub_accounts.c[field.name] for field in fields(SubAccount)]

_SEARCH_COLUMNS = [each for each in _COLUMNS if each.name == "title" or each.name.startswith("return_")]

# One that has gone and kept its history is unknown from then on.
_IS_NOT_DELETED = sub_accounts.c.deleted_at.is_(None)


def read_sub_account(tx: Tx, sub_account_id: int | None) -> SubAccount | None:
    if sub_account_id is None:
        return None
    row = tx.execute(sa.select(*_COLUMNS).where(sub_accounts.c.id == sub_account_id, _IS_NOT_DELETED)).first()
    return None if row is None else SubAccount(*row)


def find_sub_account(tx: Tx, sub_account_id: int) -> SubAccount:
    """`NotFound` if there is no such sub account."""
    sub_account = read_sub_account(tx, sub_account_id)
    if sub_account is None:
        raise NotFound
    return sub_account


def require_sub_account(tx: Tx, sub_account_id: int) -> None:
    """`Refused` unless it is the caller's own. It stays until this transaction ends."""
    if not share_lock_sub_account(tx, sub_account_id):
        raise Refused("Sub Account ID does not exist")


def share_lock_sub_account(tx: Tx, sub_account_id: int | None, *, account_id: int | None = None) -> bool:
    """Whether the sub account exists, or None was given; it stays until this transaction ends."""
    if sub_account_id is None:
        return True
    query = sa.select(sub_accounts.c.id).where(sub_accounts.c.id == sub_account_id, _IS_NOT_DELETED)
    if account_id is not None:
        query = query.where(sub_accounts.c.account_id == account_id)
    return tx.execute(query.with_for_update(read=True, key_share=True)).first() is not None


def list_sub_accounts(tx: Tx, *, search: str | None = None) -> Sequence[SubAccount]:
    """All that the caller may see, the oldest first; `search` matches title, return address and branding."""
    branding = (sub_accounts.c.branding[name].astext for name in ("name", "company", "email"))
    conditions = [matches_words(search, *_SEARCH_COLUMNS, *branding)] if search else []
    rows = tx.execute(sa.select(*_COLUMNS).where(_IS_NOT_DELETED, *conditions).order_by(sub_accounts.c.id))
    return [SubAccount(*row) for row in rows]


def read_sub_account_page(tx: Tx, page_request: PageRequest, *, title_search: str = "") -> Page[SubAccount]:
    """A page of them by title; `title_search` matches a part of it."""
    conditions: list[sa.ColumnElement[bool]] = [_IS_NOT_DELETED]
    if title_search:
        conditions.append(sub_accounts.c.title.icontains(title_search, autoescape=True))
    by_title = sa.func.lower(sub_accounts.c.title), sub_accounts.c.id
    rows = tx.execute(
        sa.select(*_COLUMNS)
        .where(*conditions)
        .order_by(*by_title)
        .limit(page_request.per_page)
        .offset(page_request.offset)
    )
    total = tx.execute(sa.select(sa.func.count()).select_from(sub_accounts).where(*conditions)).scalar_one()
    return Page([SubAccount(*row) for row in rows], total, page_request)


def label_sub_accounts(sub_account_list: Sequence[SubAccount]) -> Mapping[int, str]:
    """The title of each, with its number if others have the same."""
    title_counts = Counter(each.title for each in sub_account_list)
    return {
        each.id: each.title if title_counts[each.title] == 1 else f"{each.title} ({each.id})"
        for each in sub_account_list
    }


def create_sub_account(tx: Tx, caller: Caller, columns: Mapping[str, Any], *, now: datetime) -> SubAccount:
    if caller.sub_account_id is not None:
        raise Forbidden("This token is limited to one sub account: it cannot make others.")
    count = sa.select(sa.func.count()).select_from(sub_accounts).where(_IS_NOT_DELETED)
    if tx.execute(count).scalar_one() >= MAX_SUB_ACCOUNTS:
        raise Refused(f"An account has at most {MAX_SUB_ACCOUNTS:,} sub accounts.")
    row = tx.execute(
        sa.insert(sub_accounts)
        .values({"branding": {}, "backgrounds": {}, **columns, "account_id": caller.account_id})
        .values(created_at=now, updated_at=now)
        .returning(*_COLUMNS)
    ).one()
    return SubAccount(*row)


def lock_sub_account(tx: Tx, sub_account_id: int, *, for_removal: bool = False) -> SubAccount:
    """Nobody else changes it before this transaction ends, nor, `for_removal`, uses it."""
    row = tx.execute(
        sa.select(*_COLUMNS)
        .where(sub_accounts.c.id == sub_account_id, _IS_NOT_DELETED)
        .with_for_update(key_share=not for_removal)
    ).first()
    if row is None:
        raise NotFound
    return SubAccount(*row)


def update_sub_account(tx: Tx, sub_account_id: int, columns: Mapping[str, Any], *, now: datetime) -> SubAccount:
    row = tx.execute(
        sa.update(sub_accounts)
        .where(sub_accounts.c.id == sub_account_id)
        .values(**columns, updated_at=now)
        .returning(*_COLUMNS)
    ).one()
    return SubAccount(*row)


MAX_LISTED_ORDERS = 5

OWNED_TABLES: dict[str, tuple[sa.Table, Sequence[sa.ColumnElement[bool]]]] = {
    # What the service itself keeps there goes with the sub account.
    "mailing list": (mailing_lists, [mailing_lists.c.kept_for.is_(None)]),
    "image template": (image_templates, []),
    "message template": (message_templates, []),
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
