"""What the print room says and asks: how far a batch is, what is spoiled, what is printed again."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import sqlalchemy as sa
import structlog

from quillpost.core import jobs
from quillpost.core.database import Database, Tx
from quillpost.core.database.tables.base import orders
from quillpost.core.database.tables.print_room import batches, order_verdicts
from quillpost.core.errors import Conflict, Refused
from quillpost.core.tokens import hide_secrets
from quillpost.fulfillment import queries as fulfillment_queries
from quillpost.fulfillment.environments import World
from quillpost.fulfillment.models import COMPOSE, HAND_OVER, NEXT_STEP, POOL, book
from quillpost.fulfillment.ports import PrintProgress
from quillpost.fulfillment.print_room.queries import find_paper
from quillpost.fulfillment.queries import Batch
from quillpost.fulfillment.serials import take_turns
from quillpost.orders.mailed_items import Mailing, Retrieval
from quillpost.orders.status import Moves

log = structlog.get_logger(__name__)

TRACK = "tracking.poll"
SPOILED = "Spoiled in printing"

Deed = Callable[[Tx], None]
"""What is written besides, in the transaction of something that was done."""


Told = Callable[[Tx, int], None]
"""The same where something was done to so many."""


def nothing_more(_tx: Tx) -> None:
    """Where nobody keeps a log of it."""


def nothing_to_tell(_tx: Tx, _how_many: int) -> None:
    """The same."""


_NOWHERE = "cast(null as date) as day, cast(null as text) as place, false as inferred"

# It was printed when the printer says so, whenever that is heard.
MARK_PRINTED = Moves(
    f"""
    select item_id, 'Printed' as target, cast(null as text) as reason,
           cast(:printed_at as timestamptz) as seen_at, {_NOWHERE}
      from prints where batch_id = :batch and not superseded
    """
)
# What the carrier has seen did not stay behind in the print room, whatever is said of it.
MARK_SPOILED = Moves(
    f"""
    select p.item_id, 'Failed' as target, s.reason, cast(null as timestamptz) as seen_at, {_NOWHERE}
      from prints p
      join unnest(cast(:spoiled as bigint[]), cast(:reasons as text[])) as s (item_id, reason)
        on s.item_id = p.item_id
      join items i on i.id = p.item_id
     where p.batch_id = :batch and not p.superseded and i.status in ('Processing', 'Printed')
    """
)
MARK_MAILED = Mailing("select item_id from prints where batch_id = :batch and not superseded")
TAKE_BACK = Retrieval("select item_id from prints where batch_id = :batch")
VOID = sa.text("update batches set void_count = void_count + :pieces where id = :batch")

# A claim that is printed again is not forgotten meanwhile: see privacy/retention.py.
HOLD_CARDS = sa.text(
    """
    select item_id from giftcards
     where item_id in (select p.item_id from prints p
                        where p.batch_id = :batch and (p.position = any(cast(:positions as integer[]))
                                                       or p.item_id = any(cast(:items as bigint[]))))
     order by item_id for no key update
    """
)

# Only what may still be in the print room: once the carrier has seen a piece, it is in the mail.
AGAIN = sa.text(
    """
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
    """
)


POOL_EARLY = sa.text(
    """
    with turn as materialized (
        select id from orders
         where pool_at > :now and pool_at > due_at and mode = :mode order by id for no key update)
    update orders o set pool_at = greatest(o.due_at, :now) from turn where o.id = turn.id
    """
)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A piece that cannot be printed again, and why."""

    position: int
    item_id: int
    reason: str


@dataclass(frozen=True, slots=True)
class Reprinted:
    """The batch in which the pieces are printed again, how many they are, and which are not among them."""

    batch_id: int
    pieces: int
    left_out: Sequence[LeftOut] = ()


def take_progress(db: Database, batch_id: int, progress: PrintProgress, *, now: datetime) -> list[int]:
    """What the printer says of the batch. Said twice or late, it changes nothing.

    Answers with the items that it calls spoiled and that are not in the batch: of those nothing is taken.
    """
    with db.work() as tx:
        batch = hold(tx, batch_id)
        spoiled = progress.spoiled or {}
        inside = {paper.item_id for paper in find_paper(tx, batch_id, item_ids=list(spoiled))}
        known = replace(progress, spoiled={item: why for item, why in spoiled.items() if item in inside})
        if _has_any(known):
            fulfillment_queries.take_turns(tx, [batch_id])
            take(tx, batch, known, now=now)
    return [item for item in spoiled if item not in inside]


def hold(tx: Tx, batch_id: int) -> Batch:
    """The batch, which nobody else moves on or reprints before this transaction ends. A printer has it."""
    batch = fulfillment_queries.read_batch(tx, batch_id, locked=True)
    if batch.handed_at is None:
        raise Conflict("The batch has not been handed to the printer yet. Try again shortly.", retry_after=5)
    return batch


def take(tx: Tx, batch: Batch, progress: PrintProgress, *, now: datetime) -> int:
    """Take down what is said of a batch that is held, and whose orders are; how many pieces it spoils."""
    handed_at = batch.handed_at or now
    if batch.acknowledged_at is None:
        heard = progress.acknowledged_at or progress.printed_at or progress.mailed_at or now
        tx.execute(sa.update(batches).where(batches.c.id == batch.id).values(acknowledged_at=heard))
    failed = _take_spoiled(tx, batch.id, progress.spoiled or {}, now=now)
    printed_at, mailed_at = (
        moment and min(max(moment, handed_at), now)
        for moment in (progress.printed_at or progress.mailed_at, progress.mailed_at)
    )
    # What is in the mail was printed, whether the printer said so or not.
    if printed_at is not None and fulfillment_queries.swap_batch(
        tx, batch.id, expected="handed", to="printed", now=printed_at
    ):
        pieces = MARK_PRINTED.run(tx, {"batch": batch.id, "printed_at": printed_at}, now=now)
        log.info("batch.printed", batch=batch.id, pieces=pieces)
    if mailed_at is not None and fulfillment_queries.swap_batch(
        tx, batch.id, expected="printed", to="mailed", now=mailed_at
    ):
        pieces = MARK_MAILED.run(tx, {"batch": batch.id}, now=now)
        jobs.wake(tx, TRACK, at=now)
        log.info("batch.mailed", batch=batch.id, pieces=pieces)
    return failed


def reprint(
    db: Database,
    world: World,
    batch_id: int,
    *,
    positions: Sequence[int] = (),
    item_ids: Sequence[int] = (),
    reason: str,
    noted: Deed = nothing_more,
    now: datetime,
) -> Reprinted:
    """Print pieces of the batch again, under new barcodes, in a batch of their own; the old ones are void."""
    with db.work() as tx:
        batch = fulfillment_queries.read_batch(tx, batch_id, locked=True)
        if batch.handed_at is None:
            raise Conflict("The batch has not been handed to the printer yet: there is nothing to reprint.")
        if world.gaps:
            raise Conflict(f"Nothing can be printed here. {' '.join(world.gaps)}")
        fulfillment_queries.take_turns(tx, [batch_id])
        pieces = {"batch": batch_id, "positions": list(positions), "items": list(item_ids)}
        tx.execute(HOLD_CARDS, pieces)
        asked = find_paper(tx, batch_id, positions=positions, item_ids=item_ids)
        left_out = [
            LeftOut(paper.position, paper.item_id, why)
            for paper in asked
            if (why := paper.why_not_reprinted) is not None
        ]
        wanted = len(asked) - len(left_out)
        serials = take_turns(tx, world.mailer_id, wanted=wanted, now=now)
        if serials.free < wanted:
            raise Conflict("The mailer id has too few free barcodes. Wait, or get a second mailer id.")
        made = tx.execute(
            AGAIN,
            pieces
            | {
                "mailer_id": world.mailer_id,
                "next_serial": serials.next,
                "code": world.service_types[batch.mail_class],
                "now": now,
            },
        ).first()
        if made is None:
            raise Conflict(
                "None of these pieces can be printed again: each is in the mail, has ended, or was"
                " reprinted already."
            )
        TAKE_BACK.run(tx, {"batch": made.batch_id}, now=now)
        book(tx, COMPOSE, made.batch_id, is_urgent=True)
        noted(tx)
    log.info("batch.reprinted", batch=batch_id, anew=made.batch_id, pieces=made.pieces, reason=reason)
    return Reprinted(made.batch_id, made.pieces, left_out)


def retry(db: Database, batch_id: int, *, anew: bool = False, noted: Deed = nothing_more) -> None:
    """Take the batch's present step again, now: it was given up, or waits for its time.

    `anew`: the partner to whom it was offered does not have it, as only a person can know. It is offered to
    whoever is the partner now.
    """
    with db.work() as tx:
        batch = fulfillment_queries.read_batch(tx, batch_id, locked=True)
        step = NEXT_STEP.get(batch.status)
        if step is None:
            raise Conflict("The batch is in the mail: there is nothing left to do.")
        if anew:
            _take_back(tx, batch)
        jobs.forget(tx, step, batch_id=batch_id)
        book(tx, step, batch_id, is_urgent=True)
        noted(tx)


def rush(
    db: Database,
    mode: str,
    order_ids: Sequence[int],
    *,
    operator_id: int | None,
    noted: Told = nothing_to_tell,
    now: datetime,
) -> list[int]:
    """Let these orders go before the others, and without waiting for the cut-off; those that still could."""
    with db.work() as tx:
        wanted = orders.c.id.in_(order_ids), orders.c.mode == mode
        in_turn = sa.select(orders.c.id).where(*wanted).order_by(orders.c.id).with_for_update(key_share=True)
        known = set(tx.execute(in_turn).scalars())
        unknown = [number for number in order_ids if number not in known]
        if unknown:
            raise Refused(f"There is no order {unknown[0]}.")
        waits = sa.or_(
            orders.c.status.in_(("reviewing", "paused")),
            sa.and_(orders.c.status == "processing", orders.c.pool_at.is_not(None)),
        )
        rushed = tx.execute(
            sa.update(orders)
            .where(*wanted, waits, ~orders.c.rush)
            .values(
                rush=True,
                pool_at=sa.case((orders.c.pool_at.is_not(None), sa.func.greatest(orders.c.due_at, now))),
                updated_at=now,
            )
            .returning(orders.c.id, orders.c.account_id)
        ).all()
        if rushed:
            said = sa.insert(order_verdicts).values(
                verdict="rushed", reasons=[], reason="", operator_id=operator_id, at=now
            )
            tx.execute(said, [{"account_id": row.account_id, "order_id": row.id} for row in rushed])
            noted(tx, len(rushed))
        jobs.wake(tx, POOL, at=now)
    return sorted(row.id for row in rushed)


def pool_now(db: Database, mode: str, *, noted: Told = nothing_to_tell, now: datetime) -> int:
    """Do not wait for the cut-off today; how many orders that brings forward. None goes before it is due."""
    with db.work() as tx:
        early = tx.execute(POOL_EARLY, {"mode": mode, "now": now}).rowcount
        if early:
            noted(tx, early)
        jobs.wake(tx, POOL, at=now)
    return early


def _take_back(tx: Tx, batch: fulfillment_queries.Batch) -> None:
    if batch.status == "composed" and jobs.is_running(tx, HAND_OVER, batch_id=batch.id):
        raise Conflict(
            "The batch is being handed over at this moment, or a worker died in it: try again in a minute,"
            " with a worker at work.",
            retry_after=30,
        )
    if not fulfillment_queries.take_back(tx, batch.id):
        raise Conflict(
            f"The batch is {batch.status}: only one that is composed, and not handed over yet, can be offered"
            " anew."
        )
    log.warning("batch.taken_back", batch=batch.id, partner=batch.partner)


def _has_any(progress: PrintProgress) -> bool:
    return bool(progress.acknowledged_at or progress.printed_at or progress.mailed_at or progress.spoiled)


def _take_spoiled(tx: Tx, batch_id: int, spoiled: Mapping[int, str], *, now: datetime) -> int:
    """How many fail. What is in the mail, or was printed again since, is passed over."""
    if not spoiled:
        return 0
    named = find_paper(tx, batch_id, item_ids=list(spoiled))
    if gone := [paper.item_id for paper in named if paper.is_in_the_mail]:
        log.warning("batch.spoiled_in_the_mail", batch=batch_id, items=gone)
    if void := [paper.item_id for paper in named if paper.is_void]:
        log.warning("batch.spoiled_when_void", batch=batch_id, items=void)
    values = {
        "batch": batch_id,
        "spoiled": list(spoiled),
        "reasons": [hide_secrets(why) or SPOILED for why in spoiled.values()],
    }
    failed = MARK_SPOILED.run(tx, values, now=now)
    tx.execute(VOID, {"batch": batch_id, "pieces": failed})
    log.info("batch.spoiled", batch=batch_id, pieces=failed)
    return failed
