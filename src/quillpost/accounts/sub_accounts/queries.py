"""SQL that reads and locks sub accounts."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from quillpost.core.database import Tx, read_row
from quillpost.core.database.search import matches_words
from quillpost.core.database.tables.base import sub_accounts
from quillpost.core.errors import NotFound, Refused
from quillpost.core.paging import Page, PageRequest

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


SUB_ACCOUNT_COLUMNS = [sub_accounts.c[field.name] for field in fields(SubAccount)]
_SEARCH_COLUMNS = [each for each in SUB_ACCOUNT_COLUMNS if each.name == "title" or each.name.startswith("return_")]
# One that has gone and kept its history is unknown from then on.
IS_NOT_DELETED = sub_accounts.c.deleted_at.is_(None)


def read_sub_account(tx: Tx, sub_account_id: int) -> SubAccount | None:
    row = tx.execute(sa.select(*SUB_ACCOUNT_COLUMNS).where(sub_accounts.c.id == sub_account_id, IS_NOT_DELETED)).first()
    return None if row is None else SubAccount(*row)


def find_sub_account(tx: Tx, sub_account_id: int) -> SubAccount:
    """`NotFound` if there is no such sub account."""
    sub_account = read_sub_account(tx, sub_account_id)
    if sub_account is None:
        raise NotFound
    return sub_account


def require_sub_account(tx: Tx, sub_account_id: int | None) -> None:
    """`Refused` unless it is the caller's own or None. It stays until this transaction ends."""
    if not share_lock_sub_account(tx, sub_account_id):
        raise Refused("Sub Account ID does not exist")


def share_lock_sub_account(tx: Tx, sub_account_id: int | None, *, account_id: int | None = None) -> bool:
    """Whether the sub account exists, or None was given; it stays until this transaction ends."""
    if sub_account_id is None:
        return True
    query = sa.select(sub_accounts.c.id).where(sub_accounts.c.id == sub_account_id, IS_NOT_DELETED)
    if account_id is not None:
        query = query.where(sub_accounts.c.account_id == account_id)
    return tx.execute(query.with_for_update(read=True, key_share=True)).first() is not None


def list_sub_accounts(tx: Tx, *, search: str | None = None) -> Sequence[SubAccount]:
    """All that the caller may see, the oldest first; `search` matches title, return address and branding."""
    branding = (sub_accounts.c.branding[name].astext for name in ("name", "company", "email"))
    conditions = [matches_words(search, *_SEARCH_COLUMNS, *branding)] if search else []
    rows = tx.execute(sa.select(*SUB_ACCOUNT_COLUMNS).where(IS_NOT_DELETED, *conditions).order_by(sub_accounts.c.id))
    return [SubAccount(*row) for row in rows]


def read_sub_account_page(tx: Tx, page_request: PageRequest, *, title_search: str = "") -> Page[SubAccount]:
    """A page of them by title; `title_search` matches a part of it."""
    conditions: list[sa.ColumnElement[bool]] = [IS_NOT_DELETED]
    if title_search:
        conditions.append(sub_accounts.c.title.icontains(title_search, autoescape=True))
    by_title = sa.func.lower(sub_accounts.c.title), sub_accounts.c.id
    rows = tx.execute(
        sa.select(*SUB_ACCOUNT_COLUMNS)
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


def lock_sub_account(tx: Tx, sub_account_id: int, *, for_removal: bool = False) -> SubAccount:
    """Nobody else changes it before this transaction ends, nor, `for_removal`, uses it."""
    query = sa.select(*SUB_ACCOUNT_COLUMNS).where(sub_accounts.c.id == sub_account_id, IS_NOT_DELETED)
    return SubAccount(*read_row(tx, query.with_for_update(key_share=not for_removal)))
