"""Print room actions: progress, spoiled items, reprints, retries, rush."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import sqlalchemy as sa
import structlog

from quillpost.core import jobs
from quillpost.core.database import Database, Tx
from quillpost.core.database.tables.base import orders
from quillpost.core.database.tables.fulfillment import batches, order_verdicts
from quillpost.core.errors import Conflict, Refused
from quillpost.core.tokens import hide_secrets
from quillpost.fulfillment.batches import queries as fulfillment_queries
from quillpost.fulfillment.batches.files import BatchFileStorage
from quillpost.fulfillment.batches.queries import ProductionBatch
from quillpost.fulfillment.batches.service import lock_serials
from quillpost.fulfillment.models import COMPOSE, HAND_OVER, NEXT_STEP, POOL, Environment, enqueue_step
from quillpost.fulfillment.ports import PrintProgress
from quillpost.fulfillment.print_room.queries import BatchFileInfo, find_printed_items, read_file
from quillpost.orders.items.service import MailItemsStatement, MoveItemsStatement, RetrieveItemsStatement

log = structlog.get_logger(__name__)
POLL_TASK = "tracking.poll_carriers"
SPOILED_REASON = "Spoiled in printing"
AuditCallback = Callable[[Tx], None]  # writes an audit entry in the transaction of an action
CountAuditCallback = Callable[[Tx, int], None]


def write_no_audit(*_: object) -> None:
    """Where no log of it is kept."""


_NO_SIGHTING = "cast(null as date) as day, cast(null as text) as place, false as inferred"

# Printed when the printer says so, however late it is reported.
MARK_PRINTED = MoveItemsStatement(f"""
    select item_id, 'Printed' as target, cast(null as text) as reason,
           cast(:printed_at as timestamptz) as seen_at, {_NO_SIGHTING}
      from prints where batch_id = :batch and not superseded
""")
# What the carrier has seen cannot be spoiled in the print room.
MARK_SPOILED = MoveItemsStatement(f"""
    select p.item_id, 'Failed' as target, s.reason, cast(null as timestamptz) as seen_at, {_NO_SIGHTING}
      from prints p
      join unnest(cast(:spoiled as bigint[]), cast(:reasons as text[])) as s (item_id, reason)
        on s.item_id = p.item_id
      join items i on i.id = p.item_id
     where p.batch_id = :batch and not p.superseded and i.status in ('Processing', 'Printed')
""")
MARK_MAILED = MailItemsStatement("select item_id from prints where batch_id = :batch and not superseded")
RETRIEVE_ITEMS = RetrieveItemsStatement("select item_id from prints where batch_id = :batch")
ADD_VOID_COUNT = sa.text("update batches set void_count = void_count + :pieces where id = :batch")

# A claim that is printed again is not deleted meanwhile: see privacy/tasks.py.
LOCK_GIFTCARDS = sa.text("""
    select item_id from giftcards
     where item_id in (select p.item_id from prints p
                        where p.batch_id = :batch and (p.position = any(cast(:positions as integer[]))
                                                       or p.item_id = any(cast(:items as bigint[]))))
     order by item_id for no key update
""")

# Only what may still be in the print room: an item that the carrier has seen is mailed.
INSERT_REPRINT = sa.text("""
    with wanted as (
        select p.batch_id, p.position, p.item_id, p.edition,
               p.tracking is not null as has_code, row_number() over (order by p.position) as place
          from prints p join items i on i.id = p.item_id
         where p.batch_id = :batch and not p.superseded and i.status in ('Processing', 'Printed')
           and i.person_gone_at is null
           and not exists (select 1 from giftcards g where g.item_id = p.item_id
                              and g.claim_digest is not null and g.claim_sealed is null)
           and (p.position = any(cast(:positions as integer[]))
                or p.item_id = any(cast(:items as bigint[])))),
    batch as (
        insert into batches (mode, piece, mail_class, stock, rush, status, item_count, reprint_of,
                             mailer_id, first_serial, created_at)
        select b.mode, b.piece, b.mail_class, b.stock, true, 'new', w.pieces, b.id, cast(:mailer_id as text),
               case when w.has_codes then :next_serial end, :now
          from batches b, (select count(*) as pieces, bool_or(has_code) as has_codes from wanted) w
         where b.id = :batch and w.pieces > 0
        returning id),
    void as (
        update prints p set superseded = true from wanted w
         where (p.batch_id, p.position) = (w.batch_id, w.position)),
    fewer as (
        update batches set void_count = void_count + (select count(*) from wanted)
         where id = :batch and exists (select 1 from wanted)),
    counted as (
        update mailers set next_serial = next_serial + (select count(*) from wanted)
         where mailer_id = :mailer_id and exists (select 1 from wanted)),
    printed as (
        insert into prints (batch_id, position, item_id, edition, tracking)
        select b.id, w.place, w.item_id, w.edition + 1,
               case when w.has_code then
                   barcode_of(:code, :mailer_id, cast(:next_serial as bigint) + w.place - 1) end
          from wanted w, batch b
        returning batch_id)
    select batch_id, count(*) as pieces from printed group by batch_id
""")

ADVANCE_POOLING = sa.text("""
    with turn as materialized (
        select id from orders
         where pool_at > :now and pool_at > due_at and mode = :mode order by id for no key update)
    update orders o set pool_at = greatest(o.due_at, :now) from turn where o.id = turn.id
""")


@dataclass(frozen=True, slots=True)
class UnprintableItem:
    position: int
    item_id: int
    reason: str


@dataclass(frozen=True, slots=True)
class ReprintResult:
    """The batch of the reprint, its size, and the items that are not in it."""

    batch_id: int
    item_count: int
    skipped: Sequence[UnprintableItem] = ()


def record_printer_progress(db: Database, batch_id: int, progress: PrintProgress, *, now: datetime) -> list[int]:
    """Record what the printer says of the batch; repeated or late, it changes nothing. Returns the spoiled items that
    are not in the batch, which are ignored."""
    with db.system_transaction() as tx:
        batch = lock_handed_batch(tx, batch_id)
        spoiled = progress.spoiled or {}
        batch_item_ids = {item.item_id for item in find_printed_items(tx, batch_id, item_ids=list(spoiled))}
        known_progress = replace(
            progress, spoiled={item_id: reason for item_id, reason in spoiled.items() if item_id in batch_item_ids}
        )
        if progress.acknowledged_at or progress.printed_at or progress.mailed_at or known_progress.spoiled:
            fulfillment_queries.lock_batch_orders(tx, [batch_id])
            apply_progress(tx, batch, known_progress, now=now)
    return [item_id for item_id in spoiled if item_id not in batch_item_ids]


def lock_handed_batch(tx: Tx, batch_id: int) -> ProductionBatch:
    """Lock the batch for this transaction; `Conflict` unless it was handed over."""
    batch = fulfillment_queries.read_batch(tx, batch_id, locked=True)
    if batch.handed_at is None:
        raise Conflict("The batch has not been handed to the printer yet. Try again shortly.", retry_after=5)
    return batch


def apply_progress(tx: Tx, batch: ProductionBatch, progress: PrintProgress, *, now: datetime) -> int:
    """Record the progress of a locked batch whose orders are locked too; how many items it spoils."""
    handed_at = batch.handed_at or now
    if batch.acknowledged_at is None:
        acknowledged_at = progress.acknowledged_at or progress.printed_at or progress.mailed_at or now
        tx.execute(sa.update(batches).where(batches.c.id == batch.id).values(acknowledged_at=acknowledged_at))
    failed_count = _mark_spoiled(tx, batch.id, progress.spoiled or {}, now=now)
    printed_at, mailed_at = (
        at and min(max(at, handed_at), now) for at in (progress.printed_at or progress.mailed_at, progress.mailed_at)
    )
    # A mailed batch was printed, even if the printer did not say so.
    if printed_at is not None and fulfillment_queries.swap_batch_status(
        tx, batch.id, expected="handed", new_status="printed", now=printed_at
    ):
        item_count = MARK_PRINTED.run(tx, {"batch": batch.id, "printed_at": printed_at}, now=now)
        log.info("batches.printed", batch=batch.id, items=item_count)
    if mailed_at is not None and fulfillment_queries.swap_batch_status(
        tx, batch.id, expected="printed", new_status="mailed", now=mailed_at
    ):
        item_count = MARK_MAILED.run(tx, {"batch": batch.id}, now=now)
        jobs.enqueue_unique(tx, POLL_TASK, at=now)
        log.info("batches.mailed", batch=batch.id, items=item_count)
    return failed_count


def reprint_items(
    db: Database,
    environment: Environment,
    batch_id: int,
    *,
    positions: Sequence[int] = (),
    item_ids: Sequence[int] = (),
    reason: str,
    write_audit: AuditCallback = write_no_audit,
    now: datetime,
) -> ReprintResult:
    """Print items of the batch again, under new barcodes, in a new batch; the old prints are void."""
    with db.system_transaction() as tx:
        batch = fulfillment_queries.read_batch(tx, batch_id, locked=True)
        if batch.handed_at is None:
            raise Conflict("The batch has not been handed to the printer yet: there is nothing to reprint.")
        if environment.gaps:
            raise Conflict(f"Nothing can be printed here. {' '.join(environment.gaps)}")
        fulfillment_queries.lock_batch_orders(tx, [batch_id])
        params = {"batch": batch_id, "positions": list(positions), "items": list(item_ids)}
        tx.execute(LOCK_GIFTCARDS, params)
        items = find_printed_items(tx, batch_id, positions=positions, item_ids=item_ids)
        skipped = [
            UnprintableItem(item.position, item.item_id, skip_reason)
            for item in items
            if (skip_reason := item.reprint_error) is not None
        ]
        item_count = len(items) - len(skipped)
        serials = lock_serials(tx, environment.mailer_id, count=item_count, now=now)
        if serials.free < item_count:
            raise Conflict("The mailer id has too few free barcodes. Wait, or get a second mailer id.")
        new_batch = tx.execute(
            INSERT_REPRINT,
            params
            | {
                "mailer_id": environment.mailer_id,
                "next_serial": serials.next,
                "code": environment.service_types[batch.mail_class],
                "now": now,
            },
        ).first()
        if new_batch is None:
            raise Conflict(
                "None of these pieces can be printed again: each is in the mail, has ended, or was reprinted already."
            )
        RETRIEVE_ITEMS.run(tx, {"batch": new_batch.batch_id}, now=now)
        enqueue_step(tx, COMPOSE, new_batch.batch_id, is_urgent=True)
        write_audit(tx)
    log.info("batches.reprinted", batch=batch_id, new_batch=new_batch.batch_id, items=new_batch.pieces, reason=reason)
    return ReprintResult(new_batch.batch_id, new_batch.pieces, skipped)


def retry_batch(
    db: Database, batch_id: int, *, reoffer: bool = False, write_audit: AuditCallback = write_no_audit
) -> None:
    """Run the batch's current step again, now. `reoffer`: the partner does not have it, as only an operator can know,
    so it is offered to the current partner."""
    with db.system_transaction() as tx:
        batch = fulfillment_queries.read_batch(tx, batch_id, locked=True)
        step = NEXT_STEP.get(batch.status)
        if step is None:
            raise Conflict("The batch is in the mail: there is nothing left to do.")
        if reoffer:
            _withdraw_offer(tx, batch)
        jobs.delete_jobs(tx, step, batch_id=batch_id)
        enqueue_step(tx, step, batch_id, is_urgent=True)
        write_audit(tx)


def rush_orders(
    db: Database,
    mode: str,
    order_ids: Sequence[int],
    *,
    operator_id: int | None,
    write_audit: CountAuditCallback = write_no_audit,
    now: datetime,
) -> list[int]:
    """Process these orders before others, without waiting for the cutoff; the ids of those that still could be."""
    with db.system_transaction() as tx:
        conditions = orders.c.id.in_(order_ids), orders.c.mode == mode
        lock_query = sa.select(orders.c.id).where(*conditions).order_by(orders.c.id).with_for_update(key_share=True)
        existing = set(tx.execute(lock_query).scalars())
        missing = [order_id for order_id in order_ids if order_id not in existing]
        if missing:
            raise Refused(f"There is no order {missing[0]}.")
        is_waiting = sa.or_(
            orders.c.status.in_(("reviewing", "paused")),
            sa.and_(orders.c.status == "processing", orders.c.pool_at.is_not(None)),
        )
        rushed = tx.execute(
            sa.update(orders)
            .where(*conditions, is_waiting, ~orders.c.rush)
            .values(
                rush=True,
                pool_at=sa.case((orders.c.pool_at.is_not(None), sa.func.greatest(orders.c.due_at, now))),
                updated_at=now,
            )
            .returning(orders.c.id, orders.c.account_id)
        ).all()
        if rushed:
            decision_insert = sa.insert(order_verdicts).values(
                verdict="rushed", reasons=[], reason="", operator_id=operator_id, at=now
            )
            tx.execute(decision_insert, [{"account_id": row.account_id, "order_id": row.id} for row in rushed])
            write_audit(tx, len(rushed))
        jobs.enqueue_unique(tx, POOL, at=now)
    return sorted(row.id for row in rushed)


def pool_orders_now(db: Database, mode: str, *, write_audit: CountAuditCallback = write_no_audit, now: datetime) -> int:
    """Do not wait for the cutoff today; how many orders that affects. None is pooled before it is due."""
    with db.system_transaction() as tx:
        order_count = tx.execute(ADVANCE_POOLING, {"mode": mode, "now": now}).rowcount
        if order_count:
            write_audit(tx, order_count)
        jobs.enqueue_unique(tx, POOL, at=now)
    return order_count


def _withdraw_offer(tx: Tx, batch: ProductionBatch) -> None:
    if batch.status == "composed" and jobs.is_running(tx, HAND_OVER, batch_id=batch.id):
        raise Conflict(
            "The batch is being handed over at this moment, or a worker died in it: try again in a minute,"
            " with a worker at work.",
            retry_after=30,
        )
    if not fulfillment_queries.withdraw_offer(tx, batch.id):
        raise Conflict(
            f"The batch is {batch.status}: only one that is composed, and not handed over yet, can be offered anew."
        )
    log.warning("batches.offer_withdrawn", batch=batch.id, partner=batch.partner)


def _mark_spoiled(tx: Tx, batch_id: int, spoiled: Mapping[int, str], *, now: datetime) -> int:
    """How many items fail; mailed and reprinted ones are skipped."""
    if not spoiled:
        return 0
    items = find_printed_items(tx, batch_id, item_ids=list(spoiled))
    if mailed_ids := [item.item_id for item in items if item.is_mailed]:
        log.warning("batches.spoiled_items_already_mailed", batch=batch_id, item_ids=mailed_ids)
    if void_ids := [item.item_id for item in items if item.is_void]:
        log.warning("batches.spoiled_items_already_void", batch=batch_id, item_ids=void_ids)
    params = {
        "batch": batch_id,
        "spoiled": list(spoiled),
        "reasons": [hide_secrets(reason) or SPOILED_REASON for reason in spoiled.values()],
    }
    failed_count = MARK_SPOILED.run(tx, params, now=now)
    tx.execute(ADD_VOID_COUNT, {"batch": batch_id, "pieces": failed_count})
    log.info("batches.items_spoiled", batch=batch_id, items=failed_count)
    return failed_count


def read_files_for_download(
    db: Database,
    storage: BatchFileStorage,
    batch_id: int,
    files: Sequence[BatchFileInfo],
    *,
    write_audit: AuditCallback,
) -> dict[str, bytes]:
    """The files decrypted, by name. If one cannot be read, none is returned and nothing is audited."""
    contents = {file.name: read_file(storage, batch_id, file) for file in files}
    with db.system_transaction() as tx:
        write_audit(tx)
    return contents
