"""A batch's way through the press. Each step may run again after a crash and then changes nothing twice."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

import structlog

from quillpost import events, jobs
from quillpost.accounts.rules import Caller
from quillpost.accounts.service import sender_of
from quillpost.composition.compose import compose_batch, pages_of
from quillpost.composition.content import Design
from quillpost.creative.shelf import Shelf
from quillpost.database import Database, Tx
from quillpost.fulfilment import rules, store
from quillpost.fulfilment.steps import COMPOSE, FOLLOW, HAND_OVER, book
from quillpost.orders import look
from quillpost.orders.moves import Move, move_items
from quillpost.orders.records import Item, Order
from quillpost.orders.rules import ItemStatus, OrderStatus
from quillpost.orders.store import swap_status
from quillpost.ports import PrintJob, PrintProgress, World

log = structlog.get_logger(__name__)

TRACK = "tracking.poll"
SPOILED = "Spoiled in printing"


@dataclass(frozen=True, slots=True)
class Press:
    """What every step needs."""

    db: Database
    shelf: Shelf
    worlds: Mapping[str, World]
    qr_base: str


@dataclass(frozen=True, slots=True)
class Contents:
    """All that is printed in one batch."""

    batch: store.Batch
    items: list[Item]
    orders: dict[int, Order]
    designs: dict[int, Design]
    pictures: dict[UUID, str]


def compose(press: Press, batch_id: int, *, now: datetime) -> None:
    """Draw the batch's print file and manifest. Run again, it writes the same bytes to the same place."""
    with press.db.work() as tx:
        batch = store.read_batch(tx, batch_id)
        if batch.status != "new":
            return
        contents = _read(tx, batch, press.worlds[batch.mode])
    copies = [look.copy(i, contents.orders[i.order_id], qr_base=press.qr_base) for i in contents.items]
    printed = compose_batch(_with_pictures(press.shelf, contents), copies)
    for name, data in (("print.pdf", printed), *_manifests(contents).items()):
        press.shelf.store.put(f"batches/{batch_id}/{name}", data)
    with press.db.work() as tx:
        digest = hashlib.sha256(printed).digest()
        if store.swap_batch(tx, batch_id, expected="new", to="composed", now=now, print_sha256=digest):
            book(tx, HAND_OVER, batch_id)
            log.info("batch.composed", batch=batch_id, pieces=batch.item_count)


def hand_over(press: Press, batch_id: int, *, now: datetime) -> None:
    """Give the batch to the printer, who knows it by its reference and takes it once."""
    with press.db.work() as tx:
        batch = store.read_batch(tx, batch_id)
    if batch.status != "composed":
        return
    world = press.worlds[batch.mode]
    world.printer.submit(_print_job(press, batch), now=now)
    with press.db.work() as tx:
        if not store.swap_batch(tx, batch_id, expected="composed", to="handed", now=now):
            return
        inside = [order.id for order in store.batch_orders(tx, batch_id)]
        taken = swap_status(tx, inside, expected=[OrderStatus.PROCESSING], to=OrderStatus.PRINTING, now=now)
        events.order_status_changed(tx, taken, previous=OrderStatus.PROCESSING.value, now=now)
        book(tx, FOLLOW, batch_id, at=now + world.poll_every)
        log.info("batch.handed", batch=batch_id)


def follow(press: Press, batch_id: int, *, now: datetime) -> None:
    """Ask the printer how far it is, and ask again later until the batch is in the mail."""
    with press.db.work() as tx:
        batch = store.read_batch(tx, batch_id)
    if batch.status not in ("handed", "printed"):
        return
    world = press.worlds[batch.mode]
    progress = world.printer.progress(rules.reference(batch_id), now=now)
    with press.db.work() as tx:
        if progress.printed_at is not None:
            _mark_printed(tx, batch_id, progress, now=now)
        if progress.mailed_at is not None:
            if store.swap_batch(tx, batch_id, expected="printed", to="mailed", now=now):
                jobs.wake(tx, TRACK, at=now)
                log.info("batch.mailed", batch=batch_id)
        else:
            book(tx, FOLLOW, batch_id, at=now + world.poll_every)


def resume(press: Press) -> None:
    """Book the next step of every unfinished batch that no job is booked for."""
    steps = {
        "new": COMPOSE,
        "composed": HAND_OVER,
        "handed": FOLLOW,
        "printed": FOLLOW,
    }
    with press.db.work() as tx:
        for batch in store.unfinished_batches(tx):
            if not jobs.is_booked(tx, steps[batch.status], batch_id=batch.id):
                book(tx, steps[batch.status], batch.id)


def _mark_printed(tx: Tx, batch_id: int, progress: PrintProgress, *, now: datetime) -> None:
    if not store.swap_batch(tx, batch_id, expected="handed", to="printed", now=now):
        return
    spoiled = progress.spoiled or {}
    moves = [
        Move(item.id, ItemStatus.FAILED, why=spoiled[item.id] or SPOILED)
        if item.id in spoiled
        else Move(item.id, ItemStatus.PRINTED)
        for item in store.batch_items(tx, batch_id)
    ]
    move_items(tx, moves, now=now)
    log.info("batch.printed", batch=batch_id, spoiled=len(spoiled))


def _read(tx: Tx, batch: store.Batch, world: World) -> Contents:
    found = {order.id: order for order in store.batch_orders(tx, batch.id)}
    designs = {
        order.id: look.design(
            order,
            sender=sender_of(tx, Caller(order.account_id, order.mode), order.sub_account_id),
            return_address=order.return_address,
            front=None,
            background=None,
            indicia=world.indicia[batch.mail_class],
        )
        for order in found.values()
    }
    wanted = [f for o in found.values() for f in (o.front_file_id, o.background_file_id) if f]
    pictures = store.file_keys(tx, wanted)
    return Contents(batch, store.batch_items(tx, batch.id), found, designs, pictures)


def _with_pictures(shelf: Shelf, contents: Contents) -> dict[int, Design]:
    """The designs with their pictures, read when no transaction is open."""

    def picture(file_id: UUID | None) -> bytes | None:
        return None if file_id is None else shelf.store.get(contents.pictures[file_id])

    return {
        number: replace(
            design,
            front=picture(contents.orders[number].front_file_id),
            background=picture(contents.orders[number].background_file_id),
        )
        for number, design in contents.designs.items()
    }


def _manifests(contents: Contents) -> dict[str, bytes]:
    rows = []
    for index, item in enumerate(contents.items):
        first, last = pages_of(index)
        rows.append(
            {"item_id": item.id, "order_id": item.order_id, "first_page": first, "last_page": last}
            | {name: getattr(item, name) for name in rules.MANIFEST_COLUMNS[4:]}
        )
    return {
        "manifest.csv": rules.manifest_csv(rows),
        "manifest.json": rules.manifest_json(rows),
    }


def _print_job(press: Press, batch: store.Batch) -> PrintJob:
    folder = f"batches/{batch.id}"
    return PrintJob(
        reference=rules.reference(batch.id),
        files={
            name: press.shelf.store.get(f"{folder}/{name}")
            for name in ("print.pdf", "manifest.csv", "manifest.json")
        },
        ticket={
            "reference": rules.reference(batch.id),
            "piece": batch.piece,
            "mail_class": batch.mail_class,
            "pieces": batch.item_count,
            "sides": 2,
        },
    )
