"""Deletes images of ended orders, and print files of mailed batches."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from quillpost.core.database import Tx
from quillpost.fulfillment.files import place_of
from quillpost.fulfillment.print_room.queries import STATEMENT
from quillpost.fulfillment.rules import NOTE_FILE, reference

OF_ORDERS = sa.text(
    """
    select distinct f from orders o cross join lateral (
        values (o.front_file_id), (o.background_file_id), (o.pages_file_id), (o.logo_file_id)) p (f)
     where o.id = any(:orders) and f is not null
    union
    select f from items i cross join lateral (values (i.front_file_id), (i.background_file_id)) p (f)
     where i.order_id = any(:orders) and f is not null
    """
)
OF_ITEMS = sa.text(
    """
    select distinct f from items i cross join lateral (values (i.front_file_id), (i.background_file_id)) p (f)
     where i.id = any(:items) and f is not null
    """
)
LET_GO = sa.text(
    """
    update orders set front_file_id = null, background_file_id = null, pages_file_id = null,
                      logo_file_id = null, pictures_gone_at = :now
     where id = any(:orders)
    """
)
LET_GO_OF_ITEMS = sa.text(
    """
    update items set front_file_id = null, background_file_id = null
     where order_id = any(:orders) and (front_file_id is not null or background_file_id is not null)
    """
)
# A picture that came with a template, or that another order carries, is one file.
REMOVE = sa.text(
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


def of_items(tx: Tx, item_ids: Sequence[int]) -> list[Any]:
    """The pictures that pieces have of their own."""
    return list(tx.execute(OF_ITEMS, {"items": list(item_ids)}).scalars())


def remove_unused(tx: Tx, file_ids: Sequence[Any], *, now: datetime) -> int:
    """How many of the files nobody uses any more: they go."""
    return tx.execute(REMOVE, {"files": list(file_ids), "now": now}).rowcount if file_ids else 0


def delete_images(tx: Tx, order_ids: Sequence[int], *, now: datetime) -> int:
    """The orders' pictures and PDFs. From here on they cannot be sent again as they were."""
    these = {"orders": list(order_ids), "now": now}
    found = list(tx.execute(OF_ORDERS, these).scalars())
    tx.execute(LET_GO, these)
    tx.execute(LET_GO_OF_ITEMS, these)
    return remove_unused(tx, found, now=now)


JOBS = "print-jobs"
"""Where our own printers keep their jobs in the store, a folder for each mode."""

MARKS = frozenset({"ticket.json", "acknowledged.json", "printed.json", "mailed.json", "leaving.json"})
"""What stays of a print job: that there was one, and how far it came."""

# The mailing statement counts pieces and names nobody; the post may ask for it.
FORGET = sa.text(
    """
    with mailed as (
        select b.id, b.mode from batches b where b.id = any(:batches) and b.status = 'mailed'),
    gone as (
        delete from batch_files f using mailed m where f.batch_id = m.id and f.name <> :statement
        returning f.batch_id, f.name, m.mode)
    select batch_id, mode, array_agg(name) as names from gone group by batch_id, mode
    """
)
FORGET_SECRET = sa.text(
    """
    delete from batch_files f using batches b
     where b.id = f.batch_id and b.id = any(:batches) and b.status = 'mailed' and f.is_secret
    returning f.batch_id, f.name, b.mode
    """
)
BATCHES_OF = sa.text("select distinct batch_id from prints where item_id = any(:items)")
QUEUE = sa.text(
    """
    insert into erasing_files (key, since) select key, :now from unnest(cast(:keys as text[])) key
    on conflict do nothing
    """
)


def forget_of(tx: Tx, item_ids: Sequence[int], *, now: datetime) -> int:
    """How many files of the batches that these pieces were mailed in are to go."""
    return delete_print_files(tx, list(tx.execute(BATCHES_OF, {"items": list(item_ids)}).scalars()), now=now)


def delete_print_files(tx: Tx, batch_ids: Sequence[int], *, now: datetime) -> int:
    """How many files of these batches are to go; those that are not in the mail keep theirs."""
    if not batch_ids:
        return 0
    found = tx.execute(FORGET, {"batches": list(batch_ids), "statement": STATEMENT}).all()
    keys = [place_of(row.batch_id, name) for row in found for name in row.names]
    folders = [f"{JOBS}/{row.mode}/{reference(row.batch_id)}/" for row in found]
    queue(tx, [*keys, *folders], now=now)
    return len(keys)


def forget_secret(tx: Tx, batch_ids: Sequence[int], *, now: datetime) -> int:
    """The same for those alone that hold the claims of gift cards."""
    found = tx.execute(FORGET_SECRET, {"batches": list(batch_ids)}).all()
    keys = [place_of(row.batch_id, row.name) for row in found]
    jobs = {
        f"{JOBS}/{row.mode}/{reference(row.batch_id)}/{name}"
        for row in found
        for name in (NOTE_FILE, row.name)
    }
    queue(tx, [*keys, *sorted(jobs)], now=now)
    return len(keys)


def queue(tx: Tx, keys: Sequence[str], *, now: datetime) -> None:
    """Have these files removed once this transaction has committed."""
    if keys:
        tx.execute(QUEUE, {"keys": list(keys), "now": now})
