"""The files of batches that are in the mail: whoever is on them is on paper now, and needs no file."""

from collections.abc import Sequence
from datetime import datetime

import sqlalchemy as sa

from quillpost.database import Tx
from quillpost.fulfilment.batch_store import place_of
from quillpost.fulfilment.rules import NOTE_FILE, reference
from quillpost.fulfilment.shown import STATEMENT

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
    return forget(tx, list(tx.execute(BATCHES_OF, {"items": list(item_ids)}).scalars()), now=now)


def forget(tx: Tx, batch_ids: Sequence[int], *, now: datetime) -> int:
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
