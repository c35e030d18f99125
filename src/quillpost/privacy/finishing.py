"""What is left of erasures when their call is answered: a second look, pieces at the printer's, and files.

Each step may run again after a crash: what is done is not there any more.
"""

from datetime import datetime

import sqlalchemy as sa
import structlog

from quillpost.audience.rejudging import is_under_way
from quillpost.database import Database, Tenant, Tx
from quillpost.database.privacy_tables import erasing_files, erasures
from quillpost.kit.sealing import SealBroken, Sealer
from quillpost.ports.files import FileStore
from quillpost.privacy import erasing
from quillpost.privacy.emptying import empty_ended
from quillpost.privacy.print_files import MARKS
from quillpost.privacy.whom import unseal

log = structlog.get_logger(__name__)

FILES_AT_ONCE = 100
PIECES_AT_ONCE = 1_000
SLOWEST_SECONDS = 60
"""A call that began before the erasure writes until then; whoever is added later was meant to be."""

# A list that is being filled from a file may bring them back: the second look comes after that.
NEXT = sa.text(
    """
    select e.id, e.account_id, e.sub_account_id, e.mode, e.whom_sealed,
           greatest(e.asked_at + make_interval(secs => :slowest),
                    (select max(i.finished_at) from imports i
                      where i.account_id = e.account_id and i.created_at <= e.asked_at)) as before
      from erasures e
     where e.done_at is null and e.again_at <= :now and e.id > :after
       and not exists (select from imports i
                        where i.account_id = e.account_id and i.status in ('waiting', 'running')
                          and i.created_at <= e.asked_at)
     order by e.id limit 1
       for update skip locked
    """
)
MAILED = sa.text(
    """
    delete from erasing_pieces where item_id in (
        select w.item_id from erasing_pieces w
         where not exists (select from prints p join batches b on b.id = p.batch_id
                            where p.item_id = w.item_id and b.status <> 'mailed')
         order by w.item_id limit :most
           for update skip locked)
    returning item_id
    """
)
WAITS = sa.text("select exists (select from erasing_pieces where erasure_id = :erasure)")


def finish(db: Database, sealer: Sealer, store: FileStore, *, now: datetime) -> None:
    """A job: all that can be done by now."""
    while empty_mailed(db, now=now):
        pass
    look_again(db, sealer, now=now)
    while remove_files(db, store):
        pass


def empty_mailed(db: Database, *, now: datetime) -> int:
    """Pieces that are in the mail by now lose their recipients; how many."""
    with db.work() as tx:
        mailed = list(tx.execute(MAILED, {"most": PIECES_AT_ONCE}).scalars())
        if mailed:
            empty_ended(tx, mailed, now=now)
    return len(mailed)


def look_again(db: Database, sealer: Sealer, *, now: datetime) -> None:
    """The second pass of every erasure whose time has come, each in a transaction of its own.

    After an upgrade people are known by older keys for a while, and the first may not have found them: then
    it waits until all are judged.
    """
    after: int | None = None if is_under_way(db) else 0
    while after is not None:
        with db.work() as tx:
            after = _look_again(tx, sealer, after=after, now=now)


def _look_again(tx: Tx, sealer: Sealer, *, after: int, now: datetime) -> int | None:
    row = tx.execute(NEXT, {"now": now, "after": after, "slowest": SLOWEST_SECONDS}).first()
    if row is None:
        return None
    try:
        whom = unseal(sealer, row.id, bytes(row.whom_sealed))
    except SealBroken:
        log.error("privacy.unreadable", erasure=row.id)
        return int(row.id)
    who = Tenant(row.account_id, row.sub_account_id, row.mode)
    counts, _ = erasing.run(tx, row.id, who, whom, before=row.before, now=now)
    if not tx.execute(WAITS, {"erasure": row.id}).scalar_one():
        this = erasures.c.id == row.id
        tx.execute(sa.update(erasures).where(this).values(done_at=now, whom_sealed=None))
        log.info("privacy.done", erasure=row.id, rows=sum(counts.values()))
    return int(row.id)


def remove_files(db: Database, store: FileStore) -> int:
    """Remove some files from the store, then what remembers them; how many. One that is gone is no fault."""
    with db.work() as tx:
        wanted = sa.select(erasing_files.c.key).order_by(erasing_files.c.since, erasing_files.c.key)
        keys = list(tx.execute(wanted.limit(FILES_AT_ONCE)).scalars())
    for key in keys:
        for each in _files_in(store, key) if key.endswith("/") else [key]:
            store.delete(each)
    with db.work() as tx:
        tx.execute(sa.delete(erasing_files).where(erasing_files.c.key.in_(keys)))
    return len(keys)


def _files_in(store: FileStore, folder: str) -> list[str]:
    """Of a print job all that shows anybody."""
    return [key for key in store.keys(folder) if key.removeprefix(folder) not in MARKS]
