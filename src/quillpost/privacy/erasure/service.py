"""Erases a person: at once where possible, and the rest when their items are mailed. Counts and money stay. An item
that is not printed yet is not printed; one that a printer has keeps its recipient until it is mailed. Files are deleted
afterward, by a job, and so is what concurrent requests wrote. Each step may run again after a crash."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import sqlalchemy as sa
import structlog
from sqlalchemy.dialects.postgresql import insert

from quillpost.core import jobs
from quillpost.core.database import Database, Tenant, Tx
from quillpost.core.database.tables.accounts import erasing_files, erasing_pieces, erasures
from quillpost.core.database.tables.base import recipients
from quillpost.core.encryption import DecryptionFailed, Encryptor
from quillpost.core.ports import FileStore
from quillpost.fulfillment.models import COMPOSE, enqueue_step
from quillpost.orders.items.service import MoveItemsStatement
from quillpost.orders.queries import LOCK_ORDERS_OF_ITEMS
from quillpost.privacy import service
from quillpost.privacy.erasure import queries
from quillpost.privacy.erasure.queries import ErasureSubject
from quillpost.privacy.service import STATUS_FILES, erase_ended_items, erase_items
from quillpost.recipients.lists.queries import lock_lists

log = structlog.get_logger(__name__)
FINISH_ERASURES = "privacy.finish_erasures"
SECOND_PASS_DELAY = timedelta(minutes=10)  # longer than any request or delivery that has read the person
ERASED_REASON = "The recipient was erased."

COUNTED_TABLES = (
    "recipients", "items", "facts", "deliveries", "visits", "carrier_scans", "notices", "automation_due",
    "automation_sent", "stored_sends", "idempotency_keys", "imports", "received_events", "files",
)  # fmt: skip
"""In the order of the response."""

LOCK_BATCHES = sa.text("""
    select id from batches where id in (select batch_id from prints where item_id = any(:items))
     order by id for no key update
""")
# A partner that was offered a batch may have it, even if its response was lost.
READ_PRINT_STATES = sa.text("""
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
""")
STOP_ITEMS = MoveItemsStatement("""
    select item_id, 'Failed' as target, cast(null as date) as day, cast(:why as text) as reason,
           cast(null as timestamptz) as seen_at, cast(null as text) as place, false as inferred
      from unnest(cast(:stopped as bigint[])) item_id
""")
# Drawn, but not offered yet: drawn again without them.
RESET_BATCHES = sa.text("""
    update batches b set status = 'new', composed_at = null
     where b.status = 'composed' and b.partner is null
       and b.id in (select batch_id from prints where item_id = any(:items))
    returning b.id, b.rush
""")
DELETE_BATCH_FILES = sa.text("delete from batch_files where batch_id = any(:batches)")
KEEP_SUPPRESSED = sa.text("""
    insert into barred_digests (account_id, sub_account_id, kind, digest, at)
    select distinct account_id, sub_account_id, kind, bar_digest(account_id, kind, key),
           cast(:now as timestamptz)
      from bars where recipient_id = any(:recipients) and key is not null and mode is distinct from 'test'
    on conflict do nothing
""")
ANONYMIZE_AUTOMATION_SENT = sa.text(f"""
    update automation_sent s set person_key = erased_key(s.automation_id, s.person_key)
     where s.person_key = any(:keys)
       and s.automation_id in (select id from automations where {queries.TENANT_CONDITION} and {queries.MODE_CONDITION})
""")
# Verifications belong to the operator: they are not counted.
DELETE_VERIFICATIONS = sa.text(
    "delete from address_verdicts where address_key = any(:keys) or address_key = any(:emails)"
)
COUNT_AUTOMATION_DUE = sa.text("select count(*) from automation_due where recipient_id = any(:recipients)")
# Previews and imported files do not say whom they show: all of them are deleted.
DELETE_PREVIEWS = sa.text(f"""
    delete from files where purpose = 'preview' and created_at <= :before and {queries.TENANT_CONDITION} returning key
""")
DELETE_IMPORTED_FILES = sa.text(f"""
    with forgotten as (
        select id, file_key from imports
         where file_key is not null and status in ('done', 'failed', 'cancelled')
           and created_at <= :before and {queries.TENANT_CONDITION} for update),
    rejected as (delete from import_rejects where import_id in (select id from forgotten))
    update imports i set file_key = null, columns = '[]' from forgotten f where i.id = f.id
    returning f.file_key
""")


@dataclass(frozen=True, slots=True)
class ErasureResult:
    """Rows by table; and how many items a printer has, which keep their recipient until they are mailed."""

    erased: Mapping[str, int]
    waiting: int


def preview_erasure(tx: Tx, tenant: Tenant, subject: ErasureSubject, *, now: datetime) -> Mapping[str, int]:
    matches = queries.find_person_rows(tx, tenant, subject, before=now)
    return {"recipients": len(matches.recipient_ids), "items": len(matches.item_ids)}


def erase_subject(
    tx: Tx, encryptor: Encryptor, tenant: Tenant, subject: ErasureSubject, *, now: datetime
) -> ErasureResult:
    """Erase a person, in the tenant's mode or, without one, in both. Takes the service's transaction. Finding no one is
    no error: the caller learns nothing, and a concurrent request may still write them."""
    result = tx.execute(
        sa.insert(erasures)
        .values(
            account_id=tenant.account_id,
            sub_account_id=tenant.sub_account_id,
            mode=tenant.mode,
            asked_at=now,
            again_at=now + SECOND_PASS_DELAY,
            erased={},
        )
        .returning(erasures.c.id)
    )
    erasure_id = int(result.scalar_one())
    counts, waiting = run_erasure_pass(tx, erasure_id, tenant, subject, before=now, now=now)
    erased_counts = {table: counts.get(table, 0) for table in COUNTED_TABLES}
    tx.execute(
        sa.update(erasures)
        .where(erasures.c.id == erasure_id)
        .values(erased=erased_counts, whom_sealed=queries.encrypt_subject(encryptor, erasure_id, subject))
    )
    jobs.enqueue_unique(tx, FINISH_ERASURES, at=now)
    jobs.enqueue_unique(tx, FINISH_ERASURES, at=now + SECOND_PASS_DELAY)
    log.info("privacy.erased", erasure=erasure_id, account=tenant.account_id, rows=sum(erased_counts.values()))
    return ErasureResult(erased_counts, waiting)


def run_erasure_pass(
    tx: Tx, erasure_id: int, tenant: Tenant, subject: ErasureSubject, *, before: datetime, now: datetime
) -> tuple[dict[str, int], int]:
    """One pass over what was written until `before`: rows by table, and how many items wait for the mail. Locks
    batches, then lists, then orders, each in the order of their ids, as everywhere."""
    matches = queries.find_person_rows(tx, tenant, subject, before=before)
    tx.execute(LOCK_BATCHES, {"items": matches.item_ids})
    counts = _remove_from_lists(tx, matches, now=now)
    tx.execute(LOCK_ORDERS_OF_ITEMS, {"items": matches.item_ids})
    # A batch that was created in between is locked as well, so that it is not drawn.
    tx.execute(LOCK_BATCHES, {"items": matches.item_ids})
    erasable_ids, waiting_ids = _stop_items(tx, matches.item_ids, now=now)
    counts |= {table: counts.get(table, 0) + n for table, n in erase_items(tx, erasable_ids, now=now).items()}
    counts["automation_sent"] = tx.execute(
        ANONYMIZE_AUTOMATION_SENT, {**queries.build_scope_params(tenant), "keys": sorted(matches.person_keys)}
    ).rowcount
    if matches.recipient_ids or matches.item_ids:
        emails = [f"@{key.removeprefix('email ')}" for key in matches.person_keys if key.startswith("email ")]
        tx.execute(DELETE_VERIFICATIONS, {"keys": sorted(matches.person_keys), "emails": emails})
    counts["stored_sends"] = queries.erase_from_stored_sends(tx, tenant, subject)
    counts["idempotency_keys"] = queries.erase_responses(tx, tenant, matches)
    counts["files"] += _delete_untraceable_files(tx, tenant, counts, before=before, now=now)
    if waiting_ids:
        rows = [{"item_id": item_id, "erasure_id": erasure_id} for item_id in waiting_ids]
        tx.execute(insert(erasing_pieces).on_conflict_do_nothing(), rows)
    return counts, len(waiting_ids)


def _remove_from_lists(tx: Tx, matches: queries.ErasureMatches, *, now: datetime) -> dict[str, int]:
    """Suppressed recipients stay suppressed."""
    if not matches.recipient_ids:
        return {}
    lock_lists(tx, matches.list_ids)
    params = {"recipients": matches.recipient_ids, "now": now}
    tx.execute(KEEP_SUPPRESSED, params)
    due_count = int(tx.execute(COUNT_AUTOMATION_DUE, params).scalar_one())
    result = tx.execute(sa.delete(recipients).where(recipients.c.id.in_(matches.recipient_ids)))
    return {"recipients": result.rowcount, "automation_due": due_count}


def _stop_items(tx: Tx, item_ids: Sequence[int], *, now: datetime) -> tuple[list[int], list[int]]:
    """The items that are erased now, and those that a printer has."""
    print_states = tx.execute(READ_PRINT_STATES, {"items": list(item_ids)}).all()
    erasable_ids = [row.id for row in print_states if not row.is_at_printers]
    stopped_ids = [row.id for row in print_states if row.can_be_stopped and not row.is_at_printers]
    if stopped_ids:
        STOP_ITEMS.run(tx, {"stopped": stopped_ids, "why": ERASED_REASON}, now=now)
    reset_batches = tx.execute(RESET_BATCHES, {"items": erasable_ids}).all()
    if reset_batches:
        tx.execute(DELETE_BATCH_FILES, {"batches": [batch.id for batch in reset_batches]})
        for batch in reset_batches:
            enqueue_step(tx, COMPOSE, batch.id, is_urgent=batch.rush)
    return erasable_ids, [row.id for row in print_states if row.is_at_printers]


def _delete_untraceable_files(
    tx: Tx, tenant: Tenant, counts: dict[str, int], *, before: datetime, now: datetime
) -> int:
    params = {**queries.build_scope_params(tenant), "before": before}
    previews = list(tx.execute(DELETE_PREVIEWS, params).scalars())
    imported = list(tx.execute(DELETE_IMPORTED_FILES, params).scalars())
    counts["imports"] = len(imported)
    service.queue_file_deletion(tx, [*previews, *imported], now=now)
    return len(previews) + len(imported)


FILE_BATCH_SIZE = 100
ITEM_BATCH_SIZE = 1_000
MAX_CALL_SECONDS = 60  # a request that began before the erasure writes until then

# An import may bring them back: the second pass comes after it.
LOCK_NEXT_ERASURE = sa.text("""
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
""")
TAKE_MAILED_ITEMS = sa.text("""
    delete from erasing_pieces where item_id in (
        select w.item_id from erasing_pieces w
         where not exists (select from prints p join batches b on b.id = p.batch_id
                            where p.item_id = w.item_id and b.status <> 'mailed')
         order by w.item_id limit :most
           for update skip locked)
    returning item_id
""")
HAS_WAITING_ITEMS = sa.text("select exists (select from erasing_pieces where erasure_id = :erasure)")


def finish_erasures(db: Database, encryptor: Encryptor, store: FileStore, *, now: datetime) -> None:
    """A job."""
    while erase_mailed_items(db, now=now):
        pass
    run_second_passes(db, encryptor, now=now)
    while delete_queued_files(db, store):
        pass


def erase_mailed_items(db: Database, *, now: datetime) -> int:
    with db.system_transaction() as tx:
        item_ids = list(tx.execute(TAKE_MAILED_ITEMS, {"most": ITEM_BATCH_SIZE}).scalars())
        if item_ids:
            erase_ended_items(tx, item_ids, now=now)
    return len(item_ids)


def run_second_passes(db: Database, encryptor: Encryptor, *, now: datetime) -> None:
    """The second pass of every due erasure, each in a transaction of its own."""
    after: int | None = 0
    while after is not None:
        with db.system_transaction() as tx:
            after = _run_second_pass(tx, encryptor, after=after, now=now)


def _run_second_pass(tx: Tx, encryptor: Encryptor, *, after: int, now: datetime) -> int | None:
    row = tx.execute(LOCK_NEXT_ERASURE, {"now": now, "after": after, "slowest": MAX_CALL_SECONDS}).first()
    if row is None:
        return None
    try:
        subject = queries.decrypt_subject(encryptor, row.id, bytes(row.whom_sealed))
    except DecryptionFailed:
        log.error("privacy.erasure_unreadable", erasure=row.id)
        return int(row.id)
    tenant = Tenant(row.account_id, row.sub_account_id, row.mode)
    counts, _ = run_erasure_pass(tx, row.id, tenant, subject, before=row.before, now=now)
    if not tx.execute(HAS_WAITING_ITEMS, {"erasure": row.id}).scalar_one():
        is_erasure = erasures.c.id == row.id
        tx.execute(sa.update(erasures).where(is_erasure).values(done_at=now, whom_sealed=None))
        log.info("privacy.erasure_finished", erasure=row.id, rows=sum(counts.values()))
    return int(row.id)


def delete_queued_files(db: Database, store: FileStore) -> int:
    """Delete some files from the store, then their rows; how many."""
    with db.system_transaction() as tx:
        query = sa.select(erasing_files.c.key).order_by(erasing_files.c.since, erasing_files.c.key)
        keys = list(tx.execute(query.limit(FILE_BATCH_SIZE)).scalars())
    for key in keys:
        # Of a print job's folder only the status files stay.
        is_folder = key.endswith("/")
        for file_key in list(store.keys(key)) if is_folder else [key]:
            if not is_folder or file_key.removeprefix(key) not in STATUS_FILES:
                store.delete(file_key)
    with db.system_transaction() as tx:
        tx.execute(sa.delete(erasing_files).where(erasing_files.c.key.in_(keys)))
    return len(keys)
