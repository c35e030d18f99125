"""Mailing lists: what is known of one, and the queries that read them.

Under a tenant's transaction they see that tenant's lists alone.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from quillpost.core.database import Tx
from quillpost.core.database.search import has_words
from quillpost.core.database.tables.base import mailing_lists
from quillpost.core.errors import NotFound, Refused
from quillpost.core.paging import Page, PageRequest

UNKNOWN_LIST = "Mailing List Does Not Exist"

REQUESTS_ALONE = (
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
    def keeps_requests(self) -> bool:
        """Whether the service keeps here whoever asked for no more mail."""
        return self.is_suppression_list and self.kept_for is not None


_COLUMNS = [mailing_lists.c[field.name] for field in fields(MailingList)]


def read_list(tx: Tx, list_id: int) -> MailingList:
    """The list that a path names."""
    row = tx.execute(sa.select(*_COLUMNS).where(mailing_lists.c.id == list_id)).first()
    if row is None:
        raise NotFound
    return MailingList(*row)


def read_lists(tx: Tx, list_ids: Sequence[int], *, held: bool = False) -> list[MailingList]:
    """The lists that a body or a query names, in that order, each once; one unknown refuses them all.

    `held`, none of them is deleted, or turned into a suppression list, before this transaction ends.
    """
    query = sa.select(*_COLUMNS).where(mailing_lists.c.id.in_(list_ids)).order_by(mailing_lists.c.id)
    known = _by_id(tx, query.with_for_update(read=True, key_share=True) if held else query)
    if not known.keys() >= set(list_ids):
        raise Refused(UNKNOWN_LIST)
    return [known[list_id] for list_id in dict.fromkeys(list_ids)]


def known_lists(tx: Tx, list_ids: Iterable[int]) -> dict[int, MailingList]:
    """Those of the lists that there are."""
    return _by_id(tx, sa.select(*_COLUMNS).where(mailing_lists.c.id.in_(set(list_ids))))


def lock_lists(tx: Tx, list_ids: Iterable[int], *, against_sends: bool = False) -> dict[int, MailingList]:
    """Those of the lists that there are, their recipients in this transaction's hands until it ends.

    Whoever writes recipients comes here first: an address that is not on the list now will not be when it
    is added, nobody's sub account changes in between, and two writers of several lists wait in one order.
    `against_sends`, no send that holds one of them is under way.
    """
    wanted = sa.select(*_COLUMNS).where(mailing_lists.c.id.in_(set(list_ids)))
    return _by_id(tx, wanted.order_by(mailing_lists.c.id).with_for_update(key_share=not against_sends))


def _by_id(tx: Tx, query: sa.Select[Any]) -> dict[int, MailingList]:
    found = (MailingList(*row) for row in tx.execute(query))
    return {mailing_list.id: mailing_list for mailing_list in found}


def list_page(
    tx: Tx,
    asked: PageRequest,
    *,
    sub_account_id: int | None = None,
    description: str | None = None,
    bars: bool | None = None,
    search: str | None = None,
) -> Page[MailingList]:
    """Newest first; `description` is a part of it in any case. Those that `bars` says: suppression lists
    alone, or none of them. `search`, those whose description has these words."""
    wanted: list[sa.ColumnElement[bool]] = []
    if bars is not None:
        wanted.append(mailing_lists.c.is_suppression_list if bars else ~mailing_lists.c.is_suppression_list)
    if sub_account_id is not None:
        wanted.append(mailing_lists.c.sub_account_id == sub_account_id)
    if description:
        wanted.append(mailing_lists.c.description.icontains(description, autoescape=True))
    if search:
        wanted.append(has_words(search, mailing_lists.c.description))
    rows = tx.execute(
        sa.select(*_COLUMNS)
        .where(*wanted)
        .order_by(mailing_lists.c.id.desc())
        .limit(asked.per_page)
        .offset(asked.offset)
    )
    total = tx.execute(sa.select(sa.func.count()).select_from(mailing_lists).where(*wanted)).scalar_one()
    return Page([MailingList(*row) for row in rows], total, asked)


def insert_list(tx: Tx, values: dict[str, Any]) -> int:
    made = tx.execute(sa.insert(mailing_lists).values(**values).returning(mailing_lists.c.id))
    return int(made.scalar_one())


def update_list(tx: Tx, list_id: int, values: dict[str, Any]) -> None:
    tx.execute(sa.update(mailing_lists).where(mailing_lists.c.id == list_id).values(**values))


def delete_list(tx: Tx, list_id: int) -> None:
    """With its recipients and the subscriptions to it."""
    tx.execute(sa.delete(mailing_lists).where(mailing_lists.c.id == list_id))
