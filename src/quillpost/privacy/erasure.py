"""Erases a person: at once where that can be, and the rest when their mail is out.

Counts and money stay. A piece that is not printed yet is not printed; one that a printer has keeps its
recipient until it is in the mail. Files go afterwards, by a job, and so does whatever a call that ran beside
this wrote.

Each step may run again after a crash: what is done is not there any more.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import sqlalchemy as sa
import structlog
from sqlalchemy.dialects.postgresql import insert

from quillpost.core import jobs
from quillpost.core.database import Database, Tenant, Tx
from quillpost.core.database.tables.base import recipients
from quillpost.core.database.tables.privacy import erasing_files, erasing_pieces, erasures
from quillpost.core.encryption import SealBroken, Sealer
from quillpost.core.ports import FileStore
from quillpost.fulfillment.models import COMPOSE, book
from quillpost.orders.status import Moves
from quillpost.privacy import files, queries
from quillpost.privacy.files import MARKS
from quillpost.privacy.items import HOLD_ORDERS, empty, empty_ended
from quillpost.privacy.models import Whom, seal, unseal
from quillpost.privacy.queries import IN_MODES, OWN, Found, find, scope
from quillpost.recipients.lists.queries import lock_lists
from quillpost.recipients.rejudging import is_under_way

log = structlog.get_logger(__name__)

FINISH = "privacy.finish"
SECOND_PASS = timedelta(minutes=10)
"""Longer than any call, and any webhook's attempt, that has read the person before they were erased."""

ERASED = "The recipient was erased."

TABLES = (
    "recipients", "items", "facts", "deliveries", "visits", "carrier_scans", "notices", "automation_due",
    "automation_sent", "stored_sends", "idempotency_keys", "imports", "received_events", "files",
)  # fmt: skip
"""What an answer counts, in its order."""

HOLD_BATCHES = sa.text(
    """
    select id from batches where id in (select batch_id from prints where item_id = any(:items))
     order by id for no key update
    """
)
# Whoever was offered a batch may have it, whatever became of the answer.
PLACES = sa.text(
    """
    select i.id,
           coalesce(bool_or(b.status in ('handed', 'printed')
                            or b.status = 'composed' and b.partner is not null), false) as is_at_printers,
           i.status = 'Processing' or i.status = 'Printed' and coalesce(
               bool_or(not p.superseded and b.status in ('new', 'composed')), false) as can_be_stopped
      from items i
      left join prints p on p.item_id = i.id
      left join batches b on b.id = p.batch_id
     where i.id = any(:items)
     group by i.id, i.status
    """
)
STOP = Moves(
    """
    select item_id, 'Failed' as target, cast(null as date) as day, cast(:why as text) as reason,
           cast(null as timestamptz) as seen_at, cast(null as text) as place, false as inferred
      from unnest(cast(:stopped as bigint[])) item_id
    """
)
# Drawn, but shown to no printer yet: it is drawn again without them.
TAKE_BACK = sa.text(
    """
    update batches b set status = 'new', composed_at = null
     where b.status = 'composed' and b.partner is null
       and b.id in (select batch_id from prints where item_id = any(:items))
    returning b.id, b.rush
    """
)
FORGET_DRAWN = sa.text("delete from batch_files where batch_id = any(:batches)")
STAY_BARRED = sa.text(
    """
    insert into barred_digests (account_id, sub_account_id, kind, digest, at)
    select distinct account_id, sub_account_id, kind, bar_digest(account_id, kind, key),
           cast(:now as timestamptz)
      from bars where recipient_id = any(:recipients) and key is not null and mode is distinct from 'test'
    on conflict do nothing
    """
)
KEEP_DIGESTS = sa.text(
    f"""
    update automation_sent s set person_key = erased_key(s.automation_id, s.person_key)
     where s.person_key = any(:keys)
       and s.automation_id in (select id from automations where {OWN} and {IN_MODES})
    """
)
# What a verifier said of them is the operator's, whoever asked: it is not counted, and is asked again.
FORGET_VERDICTS = sa.text(
    "delete from address_verdicts where address_key = any(:keys) or address_key = any(:emails)"
)
WAITING_FOR = sa.text("select count(*) from automation_due where recipient_id = any(:recipients)")
# Pictures of drafts, and files that were imported, tell nobody whom they show: all of them go.
FORGET_PREVIEWS = sa.text(
    f"delete from files where purpose = 'preview' and created_at <= :before and {OWN} returning key"
)
FORGET_IMPORTED = sa.text(
    f"""
    with forgotten as (
        select id, file_key from imports
         where file_key is not null and status in ('done', 'failed', 'cancelled')
           and created_at <= :before and {OWN} for update),
    rejected as (delete from import_rejects where import_id in (select id from forgotten))
    update imports i set file_key = null, columns = '[]' from forgotten f where i.id = f.id
    returning f.file_key
    """
)


@dataclass(frozen=True, slots=True)
class Erasure:
    """Rows by table; and how many pieces a printer has: those keep their recipient until they are mailed."""

    erased: Mapping[str, int]
    waiting: int


def foretell(tx: Tx, who: Tenant, whom: Whom, *, now: datetime) -> Mapping[str, int]:
    """How many recipients and pieces an erasure would find."""
    found = find(tx, who, whom, before=now)
    return {"recipients": len(found.recipients), "items": len(found.items)}


def erase(tx: Tx, sealer: Sealer, who: Tenant, whom: Whom, *, now: datetime) -> Erasure:
    """Forget whoever this is, in the tenant's mode or, without one, in both. Takes the service's transaction,
    and a tenant who may ask it.

    Nobody being found is no fault: whoever asks learns nothing, and a call under way may write them yet.
    """
    made = tx.execute(
        sa.insert(erasures)
        .values(
            account_id=who.account_id,
            sub_account_id=who.sub_account_id,
            mode=who.mode,
            asked_at=now,
            again_at=now + SECOND_PASS,
            erased={},
        )
        .returning(erasures.c.id)
    )
    erasure_id = int(made.scalar_one())
    counts, waiting = run(tx, erasure_id, who, whom, before=now, now=now)
    told = {table: counts.get(table, 0) for table in TABLES}
    tx.execute(
        sa.update(erasures)
        .where(erasures.c.id == erasure_id)
        .values(erased=told, whom_sealed=seal(sealer, erasure_id, whom))
    )
    jobs.wake(tx, FINISH, at=now)
    jobs.wake(tx, FINISH, at=now + SECOND_PASS)
    log.info("privacy.erased", erasure=erasure_id, account=who.account_id, rows=sum(told.values()))
    return Erasure(told, waiting)


def run(
    tx: Tx, erasure_id: int, who: Tenant, whom: Whom, *, before: datetime, now: datetime
) -> tuple[dict[str, int], int]:
    """One pass over what was written until `before`: how many rows of which table, and how many pieces wait
    for the mail.

    Batches before lists before orders before pieces, each in the order of their ids, as everyone takes them.
    """
    found = find(tx, who, whom, before=before)
    tx.execute(HOLD_BATCHES, {"items": found.items})
    counts = _leave_lists(tx, found, now=now)
    tx.execute(HOLD_ORDERS, {"items": found.items})
    # A batch that was made of them in between is held as well: nobody draws it meanwhile.
    tx.execute(HOLD_BATCHES, {"items": found.items})
    gone, waiting = _stop(tx, found.items, now=now)
    counts |= {table: counts.get(table, 0) + n for table, n in empty(tx, gone, now=now).items()}
    counts["automation_sent"] = tx.execute(KEEP_DIGESTS, {**scope(who), "keys": sorted(found.keys)}).rowcount
    if found.recipients or found.items:
        emails = [f"@{key.removeprefix('email ')}" for key in found.keys if key.startswith("email ")]
        tx.execute(FORGET_VERDICTS, {"keys": sorted(found.keys), "emails": emails})
    counts["stored_sends"] = queries.forget_waiting(tx, who, whom)
    counts["idempotency_keys"] = queries.forget_answers(tx, who, found)
    counts["files"] += _forget_unnamed(tx, who, counts, before=before, now=now)
    if waiting:
        rows = [{"item_id": item_id, "erasure_id": erasure_id} for item_id in waiting]
        tx.execute(insert(erasing_pieces).on_conflict_do_nothing(), rows)
    return counts, len(waiting)


def _leave_lists(tx: Tx, found: Found, *, now: datetime) -> dict[str, int]:
    """Off every list; whom a suppression list barred stays barred."""
    if not found.recipients:
        return {}
    lock_lists(tx, found.lists)
    these = {"recipients": found.recipients, "now": now}
    tx.execute(STAY_BARRED, these)
    due = int(tx.execute(WAITING_FOR, these).scalar_one())
    gone = tx.execute(sa.delete(recipients).where(recipients.c.id.in_(found.recipients)))
    return {"recipients": gone.rowcount, "automation_due": due}


def _stop(tx: Tx, item_ids: Sequence[int], *, now: datetime) -> tuple[list[int], list[int]]:
    """The pieces that lose their recipient now, and those that a printer has. What can be stopped is."""
    places = tx.execute(PLACES, {"items": list(item_ids)}).all()
    gone = [row.id for row in places if not row.is_at_printers]
    stopped = [row.id for row in places if row.can_be_stopped and not row.is_at_printers]
    if stopped:
        STOP.run(tx, {"stopped": stopped, "why": ERASED}, now=now)
    drawn = tx.execute(TAKE_BACK, {"items": gone}).all()
    if drawn:
        tx.execute(FORGET_DRAWN, {"batches": [batch.id for batch in drawn]})
        for batch in drawn:
            book(tx, COMPOSE, batch.id, is_urgent=batch.rush)
    return gone, [row.id for row in places if row.is_at_printers]


def _forget_unnamed(tx: Tx, who: Tenant, counts: dict[str, int], *, before: datetime, now: datetime) -> int:
    """How many files that may show anybody are to go."""
    asked = {**scope(who), "before": before}
    previews = list(tx.execute(FORGET_PREVIEWS, asked).scalars())
    imported = list(tx.execute(FORGET_IMPORTED, asked).scalars())
    counts["imports"] = len(imported)
    files.queue(tx, [*previews, *imported], now=now)
    return len(previews) + len(imported)


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
    counts, _ = run(tx, row.id, who, whom, before=row.before, now=now)
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
