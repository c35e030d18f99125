"""Mailing lists: what is known of one, and the queries that read them.

Under a tenant's transaction they see that tenant's lists alone.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from quillpost.core.database import Tx
from quillpost.core.database.search import matches_words
from quillpost.core.database.tables.base import mailing_lists
from quillpost.core.errors import NotFound, Refused
from quillpost.core.paging import Page, PageRequest

UNKNOWN_LIST = "Mailing List Does Not Exist"

OPT_OUT_LIST_REFUSED = (
    "The service keeps on this list whoever asked for no more mail. To bar others, put them on a suppression"
    " list of your own: make one with is_suppression_list."
)


@dataclass(frozen=True, slots=True)
class MailingList:
    id: int
    account_id: int
    sub_account_id: int | None
    type: str
    description: str
    qrcode_url: str | None
    total_recipients: int
    processed: bool
    is_suppression_list: bool
    total_scans: int
    unique_scans: int
    total_sends: int
    last_scan: datetime | None
    last_send: datetime | None
    key_sealed: bytes | None
    created_at: datetime
    updated_at: datetime
    kept_for: str | None
    """In which mode the service keeps whoever scanned a code here or, on a suppression list, wants no more
    mail; nothing: it is the sender's own list."""
    suppress_by: str
    """One of `rules.SUPPRESS_BY`; of no meaning where it is no suppression list."""

    @property
    def is_opt_out_list(self) -> bool:
        """Whether the service keeps here whoever asked for no more mail."""
        return self.is_suppression_list and self.kept_for is not None


_COLUMNS = [mailing_lists.c[field.name] for field in fields(MailingList)]


def read_list(tx: Tx, list_id: int) -> MailingList:
    """The list that a path names."""
    row = tx.execute(sa.select(*_COLUMNS).where(mailing_lists.c.id == list_id)).first()
    if row is None:
        raise NotFound
    return MailingList(*row)


def read_lists(tx: Tx, list_ids: Sequence[int], *, lock: bool = False) -> list[MailingList]:
    """The lists that a body or a query names, in that order, each once; one unknown refuses them all.

    `lock`, none of them is deleted, or turned into a suppression list, before this transaction ends.
    """
    query = sa.select(*_COLUMNS).where(mailing_lists.c.id.in_(list_ids)).order_by(mailing_lists.c.id)
    lists_by_id = _read_by_id(tx, query.with_for_update(read=True, key_share=True) if lock else query)
    if not lists_by_id.keys() >= set(list_ids):
        raise Refused(UNKNOWN_LIST)
    return [lists_by_id[list_id] for list_id in dict.fromkeys(list_ids)]


def find_lists(tx: Tx, list_ids: Iterable[int]) -> dict[int, MailingList]:
    """Those of the lists that there are."""
    return _read_by_id(tx, sa.select(*_COLUMNS).where(mailing_lists.c.id.in_(set(list_ids))))


def lock_lists(tx: Tx, list_ids: Iterable[int], *, block_sends: bool = False) -> dict[int, MailingList]:
    """Those of the lists that there are, their recipients in this transaction's hands until it ends.

    Whoever writes recipients comes here first: an address that is not on the list now will not be when it
    is added, nobody's sub account changes in between, and two writers of several lists wait in one order.
    `block_sends`, no send that holds one of them is under way.
    """
    query = sa.select(*_COLUMNS).where(mailing_lists.c.id.in_(set(list_ids)))
    return _read_by_id(tx, query.order_by(mailing_lists.c.id).with_for_update(key_share=not block_sends))


def _read_by_id(tx: Tx, query: sa.Select[Any]) -> dict[int, MailingList]:
    lists = (MailingList(*row) for row in tx.execute(query))
    return {mailing_list.id: mailing_list for mailing_list in lists}


def read_list_page(
    tx: Tx,
    page_request: PageRequest,
    *,
    sub_account_id: int | None = None,
    description: str | None = None,
    is_suppression_list: bool | None = None,
    search_text: str | None = None,
) -> Page[MailingList]:
    """Newest first; `description` is a part of it in any case. Those that `is_suppression_list` says: suppression lists
    alone, or none of them. `search_text`, those whose description has these words."""
    conditions: list[sa.ColumnElement[bool]] = []
    if is_suppression_list is not None:
        conditions.append(
            mailing_lists.c.is_suppression_list if is_suppression_list else ~mailing_lists.c.is_suppression_list
        )
    if sub_account_id is not None:
        conditions.append(mailing_lists.c.sub_account_id == sub_account_id)
    if description:
        conditions.append(mailing_lists.c.description.icontains(description, autoescape=True))
    if search_text:
        conditions.append(matches_words(search_text, mailing_lists.c.description))
    rows = tx.execute(
        sa.select(*_COLUMNS)
        .where(*conditions)
        .order_by(mailing_lists.c.id.desc())
        .limit(page_request.per_page)
        .offset(page_request.offset)
    )
    total = tx.execute(sa.select(sa.func.count()).select_from(mailing_lists).where(*conditions)).scalar_one()
    return Page([MailingList(*row) for row in rows], total, page_request)


def insert_list(tx: Tx, values: dict[str, Any]) -> int:
    inserted = tx.execute(sa.insert(mailing_lists).values(**values).returning(mailing_lists.c.id))
    return int(inserted.scalar_one())


def update_list(tx: Tx, list_id: int, values: dict[str, Any]) -> None:
    tx.execute(sa.update(mailing_lists).where(mailing_lists.c.id == list_id).values(**values))


def delete_list(tx: Tx, list_id: int) -> None:
    """With its recipients and the subscriptions to it."""
    tx.execute(sa.delete(mailing_lists).where(mailing_lists.c.id == list_id))
