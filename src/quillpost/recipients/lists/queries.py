"""SQL that reads mailing lists, and exports one as CSV."""

import re
from collections.abc import Generator, Iterable, Sequence
from dataclasses import fields
from tempfile import SpooledTemporaryFile
from typing import IO, Any

import sqlalchemy as sa
from psycopg import sql

from quillpost.core.database import Tx, driver_connection, read_row
from quillpost.core.database.search import matches_words
from quillpost.core.database.tables.base import mailing_lists
from quillpost.core.errors import Message, Refused
from quillpost.core.paging import Page, PageRequest
from quillpost.recipients.models import CUSTOM_FIELDS, PERSON_COLUMNS, TEXT_FIELDS, MailingList

UNKNOWN_LIST = Message("list_unknown", "Mailing List Does Not Exist")

OPT_OUT_LIST_REFUSED = Message(
    "opt_out_list",
    "The service keeps on this list whoever asked for no more mail. To bar others, put them on a suppression"
    " list of your own: make one with is_suppression_list.",
)


_COLUMNS = [mailing_lists.c[field.name] for field in fields(MailingList)]


def read_list(tx: Tx, list_id: int) -> MailingList:
    return MailingList(*read_row(tx, sa.select(*_COLUMNS).where(mailing_lists.c.id == list_id)))


def read_lists(tx: Tx, list_ids: Sequence[int], *, lock: bool = False) -> list[MailingList]:
    """The lists in that order, each once; `Refused` if one is unknown. With `lock` none of them is deleted, or turned
    into a suppression list, before this transaction ends."""
    query = sa.select(*_COLUMNS).where(mailing_lists.c.id.in_(list_ids)).order_by(mailing_lists.c.id)
    lists_by_id = _read_by_id(tx, query.with_for_update(read=True, key_share=True) if lock else query)
    if not lists_by_id.keys() >= set(list_ids):
        raise Refused(UNKNOWN_LIST)
    return [lists_by_id[list_id] for list_id in dict.fromkeys(list_ids)]


def find_lists(tx: Tx, list_ids: Iterable[int]) -> dict[int, MailingList]:
    return _read_by_id(tx, sa.select(*_COLUMNS).where(mailing_lists.c.id.in_(set(list_ids))))


def lock_lists(tx: Tx, list_ids: Iterable[int], *, block_sends: bool = False) -> dict[int, MailingList]:
    """The existing lists, locked with their recipients until this transaction ends. Every writer of recipients locks
    here first, so that duplicates are found and writers of several lists do not deadlock. `block_sends` also excludes
    sends that use one of them."""
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
    """Newest first; `description` matches a part of it, `search_text` its words."""
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


EXPORT_COLUMNS = ("id", *PERSON_COLUMNS, *CUSTOM_FIELDS, "created_at", "updated_at")
CHUNK_BYTES = 64 * 1024
MAX_MEMORY_BYTES = 1_000_000
"""Longer files wait on disk for their reader."""

# A spreadsheet must not take a name for a formula. One more quote is put before those that a value begins
# with: a transaction that removes one, as an import does, has what was there.
FORMULA_PATTERN = "'*[-=+@\t\r\n＝＋－＠]"
_FORMULA_START = re.compile(FORMULA_PATTERN)
_TEXT_EXPRESSION = "case when {column} ~ {formula} then '''' || {column} else {column} end as {column}"
_TIMESTAMP_EXPRESSION = "to_char({column} at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"') as {column}"
_EXPORT = sql.SQL(
    "copy (select {columns} from recipients where mailing_list_id = {list_id} order by id)"
    " to stdout with (format csv, header true)"
)


def write_csv_file(tx: Tx, list_id: int) -> IO[bytes]:
    """A header, then everyone in the order in which they were added. Written before it is read, so that a slow reader
    holds no connection."""
    columns = sql.SQL(", ").join(map(_column_expression, EXPORT_COLUMNS))
    query = _EXPORT.format(columns=columns, list_id=sql.Literal(list_id))
    file: IO[bytes] = SpooledTemporaryFile(max_size=MAX_MEMORY_BYTES)  # noqa: SIM115 (its reader closes it)
    with driver_connection(tx).cursor() as cursor, cursor.copy(query) as copy:
        for chunk in copy:
            file.write(chunk)
    file.seek(0)
    return file


def read_chunks(file: IO[bytes]) -> Generator[bytes, None, None]:
    """Closes the file when it is read, or no one wants the rest."""
    with file:
        while chunk := file.read(CHUNK_BYTES):
            yield chunk


def escape_formula(text: str) -> str:
    return f"'{text}" if _FORMULA_START.match(text) else text


def _column_expression(name: str) -> sql.Composable:
    expression = (
        _TEXT_EXPRESSION if name in TEXT_FIELDS else _TIMESTAMP_EXPRESSION if name.endswith("_at") else "{column}"
    )
    return sql.SQL(expression).format(column=sql.Identifier(name), formula=sql.Literal(f"^{FORMULA_PATTERN}"))
