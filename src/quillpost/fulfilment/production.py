"""A batch's way through the press. Each step may run again after a crash and then changes nothing twice."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import structlog

from quillpost import events, jobs
from quillpost.composition.art.refusals import BadArt
from quillpost.composition.content import Copy, Design
from quillpost.composition.pages.layout import DoesNotFit
from quillpost.composition.studio import Printed, Studio
from quillpost.creative.images import kept_files
from quillpost.creative.shelf import Shelf
from quillpost.database import Database, Tx
from quillpost.fulfilment import rules, store
from quillpost.fulfilment.steps import COMPOSE, FOLLOW, HAND_OVER, book
from quillpost.kit.errors import Unavailable
from quillpost.orders import look
from quillpost.orders.look import DesignKey
from quillpost.orders.moves import Move, move_items
from quillpost.orders.records import Item, Order
from quillpost.orders.rules import ItemStatus, OrderStatus
from quillpost.orders.store import swap_status
from quillpost.ports import PrintJob, PrintProgress, World

log = structlog.get_logger(__name__)

TRACK = "tracking.poll"
PRINT_FILES = PRINT_FILE, ENVELOPE_FILE = "print.pdf", "envelopes.pdf"
MANIFESTS = "manifest.csv", "manifest.json"
SPOILED = "Spoiled in printing"
NOT_DRAWABLE = "The piece could not be composed"


@dataclass(frozen=True, slots=True)
class Press:
    """What every step needs."""

    db: Database
    studio: Studio
    shelf: Shelf
    worlds: Mapping[str, World]
    qr_base: str


@dataclass(frozen=True, slots=True)
class Contents:
    """All that is printed in one batch."""

    batch: store.Batch
    items: list[Item]
    orders: dict[int, Order]
    designs: list[DesignKey]
    pictures: dict[UUID, str]


def compose(press: Press, batch_id: int, *, now: datetime) -> None:
    """Draw the batch's print file and manifest. Run again, it writes the same bytes to the same place."""
    with press.db.work() as tx:
        batch = store.read_batch(tx, batch_id)
        if batch.status != "new":
            return
        contents = _read(tx, batch)
        if not contents.items:
            store.swap_batch(tx, batch_id, expected="new", to="mailed", now=now)
            return
    # Pictures are read when no transaction is open; orders of one sender often share them.
    designs = look.designs(
        contents.designs,
        contents.orders,
        kept_files(press.shelf.store, contents.pictures),
        indicia=press.worlds[batch.mode].indicia[batch.mail_class],
    )
    copies = [look.copy(i, contents.orders[i.order_id], qr_base=press.qr_base) for i in contents.items]
    try:
        printed = _compose(press, batch, designs, copies)
    except Exception as fault:
        if not (
            _set_aside_misfits(press, designs, copies, now=now)
            or _set_aside_the_faulty(press, batch, designs, copies, now=now)
        ):
            raise
        log.warning("batch.parted", batch=batch_id, error=repr(fault))
        compose(press, batch_id, now=now)
        return
    files = _print_files(printed)
    for name, data in (files | _manifests(contents, printed)).items():
        press.shelf.store.put(f"batches/{batch_id}/{name}", data)
    with press.db.work() as tx:
        digest = _digest(files)
        if store.swap_batch(tx, batch_id, expected="new", to="composed", now=now, print_sha256=digest):
            book(tx, HAND_OVER, batch_id)
            log.info("batch.composed", batch=batch_id, pieces=len(contents.items))


def _compose(
    press: Press, batch: store.Batch, designs: Mapping[DesignKey, Design], copies: Sequence[Copy]
) -> Printed:
    title = rules.reference(batch.id)
    return press.studio.compose(designs, copies, title=title, made_at=batch.created_at)


def _print_files(printed: Printed) -> dict[str, bytes]:
    files = {PRINT_FILE: printed.sheets}
    return files if printed.envelopes is None else files | {ENVELOPE_FILE: printed.envelopes}


def _digest(files: Mapping[str, bytes]) -> bytes:
    """One digest over all that goes to the press."""
    whole = hashlib.sha256()
    for name in PRINT_FILES:
        whole.update(files.get(name, b""))
    return whole.digest()


def _set_aside_misfits(
    press: Press, designs: Mapping[DesignKey, Design], copies: Sequence[Copy], *, now: datetime
) -> bool:
    """Fail every piece whose own words are too long, with the reason; the rest of its order is printed.

    Whether any was found. People of saved lists get here: nobody laid out each one's words before.
    """
    moves = []
    for design, own in _by_order(designs, copies):
        has_qr = any(copy.qr_url is not None for copy in own)
        found = press.studio.misfits(design, [copy.addressee for copy in own], qr=has_qr, every=True)
        for place, copy in enumerate(own):
            too_long = found.sender or found.messages.get(place) or found.addresses.get(place)
            if too_long:
                moves.append(Move(copy.item_id, ItemStatus.FAILED, why=too_long.message))
    with press.db.work() as tx:
        move_items(tx, moves, now=now)
    return bool(moves)


def _by_order(
    designs: Mapping[DesignKey, Design], copies: Sequence[Copy]
) -> Iterable[tuple[Design, list[Copy]]]:
    """Each order's copies with one of its designs: pictures, in which they differ, change no fit."""
    by_order: dict[int, tuple[Design, list[Copy]]] = {}
    for copy in copies:
        key = copy.design
        assert isinstance(key, DesignKey)
        by_order.setdefault(key.order_id, (designs[key], []))[1].append(copy)
    return by_order.values()


def _set_aside_the_faulty(
    press: Press,
    batch: store.Batch,
    designs: Mapping[DesignKey, Design],
    copies: Sequence[Copy],
    *,
    now: datetime,
) -> bool:
    """Fail the pieces of every order that cannot be drawn by itself, so that the others go on.

    A batch pools many senders: what one of them brought must not hold up the rest. Whether any was found.
    """
    faulty, is_theirs = [], False
    for number in dict.fromkeys(key.order_id for key in designs):
        its = {key: design for key, design in designs.items() if key.order_id == number}
        own = [copy for copy in copies if copy.design in its]
        try:
            _compose(press, batch, its, own)
        except Exception as fault:
            log.warning("order.not_drawable", order=number, error=repr(fault))
            faulty += [copy.item_id for copy in own]
            is_theirs = is_theirs or isinstance(fault, DoesNotFit | BadArt)
    if len(faulty) == len(copies) and not is_theirs:
        # Not one can be drawn: that is our trouble, a font that is missing, say. The job is tried again.
        return False
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
        store.count_sends(tx, batch_id, now=now)
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


def _read(tx: Tx, batch: store.Batch) -> Contents:
    found = {order.id: order for order in store.batch_orders(tx, batch.id)}
    to_print = [i for i in store.batch_items(tx, batch.id) if i.status is ItemStatus.PROCESSING]
    designs = [DesignKey.of(item, found[item.order_id]) for item in to_print]
    return Contents(batch, to_print, found, designs, store.file_keys(tx, designs))


def _manifests(contents: Contents, printed: Printed) -> dict[str, bytes]:
    rows = []
    for place, (item, (first, last)) in enumerate(zip(contents.items, printed.pages, strict=True), start=1):
        pages = {
            "first_page": first,
            "last_page": last,
            "envelope_page": None if printed.envelopes is None else place,
        }
        rows.append(
            {"item_id": item.id, "order_id": item.order_id}
            | pages
            | {name: getattr(item, name) for name in rules.MANIFEST_COLUMNS[5:]}
        )
    return {
        "manifest.csv": rules.manifest_csv(rows),
        "manifest.json": rules.manifest_json(rows),
    }


def _print_job(press: Press, batch: store.Batch) -> PrintJob:
    piece = press.studio.pieces[batch.piece]
    names = (*PRINT_FILES[: 2 if piece.envelope else 1], *MANIFESTS)
    files = {name: press.shelf.store.get(f"batches/{batch.id}/{name}") for name in names}
    if _digest(files) != batch.print_sha256:
        raise Unavailable(f"The print file of batch {batch.id} is not the one that was composed.")
    return PrintJob(
        reference=rules.reference(batch.id),
        files=files,
        ticket={
            "reference": rules.reference(batch.id),
            "piece": batch.piece,
            "stock": piece.stock,
            "mail_class": batch.mail_class,
            "pieces": len(json.loads(files["manifest.json"])["pieces"]),
        },
    )
