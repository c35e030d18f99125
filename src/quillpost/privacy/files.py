"""Deletes images of ended orders, and print files of mailed batches."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from quillpost.core.database import Tx
from quillpost.fulfillment.batches.files import batch_file_key
from quillpost.fulfillment.batches.rules import SECRET_FILES_NOTE, batch_reference
from quillpost.fulfillment.print_room.queries import STATEMENT_FILE

SELECT_ORDER_FILES = sa.text(
    """
    select distinct f from orders o cross join lateral (
        values (o.front_file_id), (o.background_file_id), (o.pages_file_id), (o.logo_file_id)) p (f)
     where o.id = any(:orders) and f is not null
    union
    select f from items i cross join lateral (values (i.front_file_id), (i.background_file_id)) p (f)
     where i.order_id = any(:orders) and f is not null
    """
)
SELECT_ITEM_FILES = sa.text(
    """
    select distinct f from items i cross join lateral (values (i.front_file_id), (i.background_file_id)) p (f)
     where i.id = any(:items) and f is not null
    """
)
CLEAR_ORDER_FILES = sa.text(
    """
    update orders set front_file_id = null, background_file_id = null, pages_file_id = null,
                      logo_file_id = null, pictures_gone_at = :now
     where id = any(:orders)
    """
)
CLEAR_ITEM_FILES = sa.text(
    """
    update items set front_file_id = null, background_file_id = null
     where order_id = any(:orders) and (front_file_id is not null or background_file_id is not null)
    """
)
# A picture that came with a template, or that another order carries, is one file.
DELETE_UNUSED_FILES = sa.text(
    """
    with gone as (
        delete from files f
         where f.id = any(:files)
           and not exists (select from items where front_file_id = f.id)
           and not exists (select from items where background_file_id = f.id)
           and not exists (select from orders where front_file_id = f.id)
           and not exists (select from orders where background_file_id = f.id)
           and not exists (select from orders where pages_file_id = f.id)
           and not exists (select from orders where logo_file_id = f.id)
           and not exists (select from image_templates where image_file_id = f.id)
           and not exists (select from sub_accounts s
                            where s.account_id = f.account_id
                              and strpos(s.branding::text || s.backgrounds::text, f.id::text) > 0)
        returning key)
    insert into erasing_files (key, since) select key, :now from gone on conflict do nothing
    """
)


def list_item_files(tx: Tx, item_ids: Sequence[int]) -> list[Any]:
    """The pictures that pieces have of their own."""
    return list(tx.execute(SELECT_ITEM_FILES, {"items": list(item_ids)}).scalars())


def delete_unused_files(tx: Tx, file_ids: Sequence[Any], *, now: datetime) -> int:
    """How many of the files nobody uses any more: they go."""
    return tx.execute(DELETE_UNUSED_FILES, {"files": list(file_ids), "now": now}).rowcount if file_ids else 0


def delete_images(tx: Tx, order_ids: Sequence[int], *, now: datetime) -> int:
    """The orders' pictures and PDFs. From here on they cannot be sent again as they were."""
    params = {"orders": list(order_ids), "now": now}
    file_ids = list(tx.execute(SELECT_ORDER_FILES, params).scalars())
    tx.execute(CLEAR_ORDER_FILES, params)
    tx.execute(CLEAR_ITEM_FILES, params)
    return delete_unused_files(tx, file_ids, now=now)


PRINT_JOBS_FOLDER = "print-jobs"
"""Where our own printers keep their jobs in the store, a folder for each mode."""

STATUS_FILES = frozenset({"ticket.json", "acknowledged.json", "printed.json", "mailed.json", "leaving.json"})
"""What stays of a print job: that there was one, and how far it came."""

# The mailing statement counts pieces and names nobody; the post may ask for it.
DELETE_BATCH_FILES = sa.text(
    """
    with mailed as (
        select b.id, b.mode from batches b where b.id = any(:batches) and b.status = 'mailed'),
    gone as (
        delete from batch_files f using mailed m where f.batch_id = m.id and f.name <> :statement
        returning f.batch_id, f.name, m.mode)
    select batch_id, mode, array_agg(name) as names from gone group by batch_id, mode
    """
)
DELETE_SECRET_FILES = sa.text(
    """
    delete from batch_files f using batches b
     where b.id = f.batch_id and b.id = any(:batches) and b.status = 'mailed' and f.is_secret
    returning f.batch_id, f.name, b.mode
    """
)
SELECT_ITEM_BATCHES = sa.text("select distinct batch_id from prints where item_id = any(:items)")
QUEUE_FILES = sa.text(
    """
    insert into erasing_files (key, since) select key, :now from unnest(cast(:keys as text[])) key
    on conflict do nothing
    """
)


def delete_item_print_files(tx: Tx, item_ids: Sequence[int], *, now: datetime) -> int:
    """How many files of the batches that these pieces were mailed in are to go."""
    return delete_print_files(tx, list(tx.execute(SELECT_ITEM_BATCHES, {"items": list(item_ids)}).scalars()), now=now)


def delete_print_files(tx: Tx, batch_ids: Sequence[int], *, now: datetime) -> int:
    """How many files of these batches are to go; those that are not in the mail keep theirs."""
    if not batch_ids:
        return 0
    rows = tx.execute(DELETE_BATCH_FILES, {"batches": list(batch_ids), "statement": STATEMENT_FILE}).all()
    keys = [batch_file_key(row.batch_id, name) for row in rows for name in row.names]
    folders = [f"{PRINT_JOBS_FOLDER}/{row.mode}/{batch_reference(row.batch_id)}/" for row in rows]
    queue_file_deletion(tx, [*keys, *folders], now=now)
    return len(keys)


def delete_secret_print_files(tx: Tx, batch_ids: Sequence[int], *, now: datetime) -> int:
    """The same for those alone that hold the claims of gift cards."""
    rows = tx.execute(DELETE_SECRET_FILES, {"batches": list(batch_ids)}).all()
    keys = [batch_file_key(row.batch_id, row.name) for row in rows]
    job_keys = {
        f"{PRINT_JOBS_FOLDER}/{row.mode}/{batch_reference(row.batch_id)}/{name}"
        for row in rows
        for name in (SECRET_FILES_NOTE, row.name)
    }
    queue_file_deletion(tx, [*keys, *sorted(job_keys)], now=now)
    return len(keys)


def queue_file_deletion(tx: Tx, keys: Sequence[str], *, now: datetime) -> None:
    """Have these files removed once this transaction has committed."""
    if keys:
        tx.execute(QUEUE_FILES, {"keys": list(keys), "now": now})
