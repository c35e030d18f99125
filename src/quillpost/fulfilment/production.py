"""A batch's way through the press. Each step may run again after a crash and then changes nothing twice."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from uuid import UUID

import structlog

from quillpost import events, jobs
from quillpost.composition.compose import compose_batch, pages_of
from quillpost.composition.content import Copy, Design
from quillpost.creative.shelf import Shelf
from quillpost.database import Database, Tx
from quillpost.fulfilment import rules, store
from quillpost.fulfilment.steps import COMPOSE, FOLLOW, HAND_OVER, book
from quillpost.kit.errors import Unavailable
from quillpost.orders import look
from quillpost.orders.moves import Move, move_items
from quillpost.orders.records import Item, Order
from quillpost.orders.rules import ItemStatus, OrderStatus
from quillpost.orders.store import swap_status
from quillpost.ports import PrintJob, PrintProgress, World

log = structlog.get_logger(__name__)

TRACK = "tracking.poll"
SPOILED = "Spoiled in printing"
NOT_DRAWABLE = "The piece could not be composed"


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
        if not contents.items:
            store.swap_batch(tx, batch_id, expected="new", to="mailed", now=now)
            return
    designs = _with_pictures(press.shelf, contents)
    copies = [look.copy(i, contents.orders[i.order_id], qr_base=press.qr_base) for i in contents.items]
    try:
        printed = compose_batch(designs, copies)
    except Exception as fault:
        if not _set_aside_the_faulty(press, designs, copies, now=now):
            raise
        log.warning("batch.parted", batch=batch_id, error=repr(fault))
        compose(press, batch_id, now=now)
        return
    for name, data in (("print.pdf", printed), *_manifests(contents).items()):
        press.shelf.store.put(f"batches/{batch_id}/{name}", data)
    with press.db.work() as tx:
        digest = hashlib.sha256(printed).digest()
        if store.swap_batch(tx, batch_id, expected="new", to="composed", now=now, print_sha256=digest):
            book(tx, HAND_OVER, batch_id)
            log.info("batch.composed", batch=batch_id, pieces=len(contents.items))


def _set_aside_the_faulty(
    press: Press, designs: Mapping[int, Design], copies: Sequence[Copy], *, now: datetime
) -> bool:
    """Fail the pieces of every order that cannot be drawn by itself, so that the others go on.

    A batch pools many senders: what one of them brought must not hold up the rest. Whether any was found.
    """
    faulty = []
    for number, design in designs.items():
        own = [copy for copy in copies if copy.design == number]
        try:
            compose_batch({number: design}, own)
        except Exception as fault:
            log.warning("order.not_drawable", order=number, error=repr(fault))
            faulty += [copy.item_id for copy in own]
    with press.db.work() as tx:
        move_items(tx, [Move(item, ItemStatus.FAILED, why=NOT_DRAWABLE) for item in faulty], now=now)
    return bool(faulty)


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
        # What is in the mail was printed, whether the printer said so or not.
        if progress.printed_at is not None or progress.mailed_at is not None:
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
            # A step that was given up waits for a person: `quillpost doctor` shows it.
            if not jobs.is_known(tx, steps[batch.status], batch_id=batch.id):
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
            sender=order.sender,
            return_address=order.return_address,
            front=None,
            background=None,
            indicia=world.indicia[batch.mail_class],
        )
        for order in found.values()
    }
    wanted = [f for o in found.values() for f in (o.front_file_id, o.background_file_id) if f]
    pictures = store.file_keys(tx, wanted)
    to_print = [i for i in store.batch_items(tx, batch.id) if i.status is ItemStatus.PROCESSING]
    return Contents(batch, to_print, found, designs, pictures)


def _with_pictures(shelf: Shelf, contents: Contents) -> dict[int, Design]:
    """The designs with their pictures, read when no transaction is open."""

    @cache  # orders of one sender often share a picture
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
    files = {
        name: press.shelf.store.get(f"batches/{batch.id}/{name}")
        for name in ("print.pdf", "manifest.csv", "manifest.json")
    }
    if hashlib.sha256(files["print.pdf"]).digest() != batch.print_sha256:
        raise Unavailable(f"The print file of batch {batch.id} is not the one that was composed.")
    return PrintJob(
        reference=rules.reference(batch.id),
        files=files,
        ticket={
            "reference": rules.reference(batch.id),
            "piece": batch.piece,
            "mail_class": batch.mail_class,
            "pieces": len(json.loads(files["manifest.json"])["pieces"]),
        },
    )
