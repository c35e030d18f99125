"""A batch's way through the press. Each step may run again after a crash and then changes nothing twice."""

from collections.abc import Sequence
from datetime import datetime, timedelta

import structlog

from quillpost.core import events, jobs
from quillpost.core.database import Tx
from quillpost.core.encryption import SealBroken
from quillpost.core.errors import Unavailable
from quillpost.core.ports import FileMissing
from quillpost.fulfillment import queries, rules
from quillpost.fulfillment.drawing import Contents, draw, part_from, read_contents, remade
from quillpost.fulfillment.files import BatchStore, secret_among
from quillpost.fulfillment.giftcards import closed, end_waiting, issue_cards, part_closed
from quillpost.fulfillment.models import COMPOSE, FOLLOW, HAND_OVER, NEXT_STEP, Press, book
from quillpost.fulfillment.partners import is_another
from quillpost.fulfillment.ports import PartnerDown, PrintJob
from quillpost.fulfillment.print_room.service import take_progress
from quillpost.fulfillment.tickets import JobTicket, TicketFile, job_ticket, ticket_dict, ticket_files
from quillpost.orders.giftcards.ports import IssuerDown
from quillpost.orders.items import swap_status
from quillpost.orders.rules import OrderStatus

log = structlog.get_logger(__name__)

LONGEST_WAIT = timedelta(minutes=15)
"""A printer that is down is asked again after a while that grows, up to this."""

MOST_NAMED = 10


def compose(press: Press, batch_id: int, *, now: datetime) -> None:
    """Draw the batch's print files. Run again, it writes the same bytes to the same place."""
    contents = _what_is_left(press, batch_id, now=now)
    if contents is None:
        return
    batch = contents.batch
    world = press.worlds[batch.mode]
    if world.gaps:
        _come_again(press, batch, COMPOSE, " ".join(world.gaps), now=now)
        return
    if contents.gifts:
        awaited = _issue_cards(press, contents, now=now)
        if awaited is not None:
            _come_again(press, batch, COMPOSE, awaited, now=now)
            return
        # Some may have been refused, or wait elsewhere; the others have their claims.
        contents = _what_is_left(press, batch_id, now=now)
        if contents is None:
            return
        if unread := closed(press.sealer, contents.claims, contents.gifts):
            awaited = part_closed(press, batch, unread, now=now)
            if awaited is not None:
                _come_again(press, batch, COMPOSE, awaited, now=now)
            else:
                compose(press, batch_id, now=now)
            return
    indicia, qr_base, opt_out = list(world.indicia[batch.mail_class]), press.qr_base, press.opt_out
    try:
        files = draw(press, contents, indicia=indicia, qr_base=qr_base, opt_out=opt_out)
    except Exception as fault:
        if not part_from(press, contents, indicia=indicia, qr_base=qr_base, opt_out=opt_out, now=now):
            raise
        log.warning("batch.parted", batch=batch_id, error=repr(fault))
        compose(press, batch_id, now=now)
        return
    secret = secret_among(files, press.studio.pieces[batch.piece])
    _batch_store(press).put(batch_id, files, secret=secret)
    with press.db.work() as tx:
        left = queries.read_batch(tx, batch_id, locked=True).item_count
        is_outdated = left != len(contents.items) or queries.has_ended(tx, batch_id)
        made_of = {"indicia": indicia, "qr_base": qr_base, "opt_out": opt_out}
        if not is_outdated and queries.swap_batch(
            tx, batch_id, expected="new", to="composed", now=now, **made_of
        ):
            queries.keep_files(tx, batch_id, files, secret=secret)
            book(tx, HAND_OVER, batch_id, is_urgent=batch.rush)
            log.info("batch.composed", batch=batch_id, pieces=len(contents.items))
    if is_outdated:  # someone was erased while the batch was drawn
        compose(press, batch_id, now=now)


def _what_is_left(press: Press, batch_id: int, *, now: datetime) -> Contents | None:
    """What is to be drawn of a new batch; one of which nothing is left needs nothing more."""
    with press.db.work() as tx:
        # Held from here on: another who composes it would take pieces out in another order.
        batch = queries.read_batch(tx, batch_id, locked=True)
        if batch.status != "new":
            return None
        end_waiting(tx, batch_id)
        queries.take_out_ended(tx, batch_id)
        contents = read_contents(tx, batch)
        if contents.items:
            return contents
        queries.swap_batch(tx, batch_id, expected="new", to="mailed", now=now, settled_at=now)
    _batch_store(press).remove_all(batch_id)
    return None


def _issue_cards(press: Press, contents: Contents, *, now: datetime) -> str | None:
    """Why nothing of the batch can be drawn yet: its cards are waited for, however long."""
    inside = [item.id for item in contents.items.values()]
    try:
        return issue_cards(press, contents.batch, inside, contents.orders, now=now)
    except IssuerDown as down:
        return str(down)


def hand_over(press: Press, batch_id: int, *, now: datetime) -> None:
    """Give the batch to the printer, who knows it by its reference and takes it once.

    To whom it is offered is written down before: whoever was offered it may have it, whatever became of the
    answer, and another printer would mail every piece a second time.
    """
    with press.db.work() as tx:
        batch = queries.read_batch(tx, batch_id)
    if batch.status != "composed":
        return
    world = press.worlds[batch.mode]
    if world.gaps:
        _come_again(press, batch, HAND_OVER, " ".join(world.gaps), now=now)
        return
    with press.db.work() as tx:
        batch = queries.offer_batch(tx, batch_id, to=world.partner)
    if batch.status != "composed":
        return
    if is_another(batch.partner, world.partner):
        _come_again(press, batch, HAND_OVER, _offered_elsewhere(batch, world.partner), now=now)
        return
    try:
        world.printer.submit(_print_job(press, batch), now=now)
    except PartnerDown as down:
        _come_again(press, batch, HAND_OVER, str(down), now=now)
        return
    with press.db.work() as tx:
        with_whom = {"partner": world.partner}
        if not queries.swap_batch(tx, batch_id, expected="composed", to="handed", now=now, **with_whom):
            return
        queries.count_sends(tx, batch_id, now=now)
        inside = [order.id for order in queries.batch_orders(tx, batch_id)]
        taken = swap_status(tx, inside, expected=[OrderStatus.PROCESSING], to=OrderStatus.PRINTING, now=now)
        events.order_status_changed(tx, taken, previous=OrderStatus.PROCESSING.value, now=now)
        book(tx, FOLLOW, batch_id, at=now + world.poll_every)
        log.info("batch.handed", batch=batch_id)


def follow(press: Press, batch_id: int, *, now: datetime) -> None:
    """Ask the printer how far it is, and ask again later until the batch is in the mail."""
    with press.db.work() as tx:
        batch = queries.read_batch(tx, batch_id)
    if batch.status not in ("handed", "printed"):
        return
    world = press.worlds[batch.mode]
    if is_another(batch.partner, world.partner):
        told = f"It is with {batch.partner}, who is no longer the print partner: mark it by hand."
        _come_again(press, batch, FOLLOW, told, now=now)
        return
    try:
        progress = world.printer.progress(rules.reference(batch_id), now=now)
    except PartnerDown as down:
        _come_again(press, batch, FOLLOW, str(down), now=now)
        return
    strangers = take_progress(press.db, batch_id, progress, now=now)
    with press.db.work() as tx:
        queries.note_trouble(tx, batch_id, _not_inside(strangers), now=now)
        if queries.read_batch(tx, batch_id).status != "mailed":
            book(tx, FOLLOW, batch_id, at=now + world.poll_every)


def resume(press: Press) -> None:
    """Book the next step of every unfinished batch that no job is booked for."""
    with press.db.work() as tx:
        for batch in queries.unfinished_batches(tx):
            # A step that was given up waits for a person: `quillpost doctor` shows it.
            if not jobs.is_known(tx, NEXT_STEP[batch.status], batch_id=batch.id):
                book(tx, NEXT_STEP[batch.status], batch.id)


def remake(press: Press, batch_id: int) -> None:
    """Compose the batch's files again, to the same bytes, and put them back where they belong."""
    with press.db.work() as tx:
        batch, secret = queries.read_batch(tx, batch_id), queries.secret_files(tx, batch_id)
    _batch_store(press).put(batch_id, remade(press, batch), secret=secret)
    log.info("batch.remade", batch=batch_id)


def _batch_store(press: Press) -> BatchStore:
    return BatchStore(press.shelf.store, press.sealer)


def _come_again(press: Press, batch: queries.Batch, step: str, trouble: str, *, now: datetime) -> None:
    """Show what is wrong and try the step later: a printer that is down is waited for, however long.

    Settings may be missing on one machine, or since a restart: nothing unready reaches paper.
    """
    lasting = now - (batch.trouble_at or now)
    wait = min(max(lasting / 2, press.worlds[batch.mode].poll_every), LONGEST_WAIT)
    with press.db.work() as tx:
        queries.note_trouble(tx, batch.id, trouble, now=now)
        book(tx, step, batch.id, at=now + wait)
    log.warning("batch.waits", batch=batch.id, step=step, trouble=trouble)


def _offered_elsewhere(batch: queries.Batch, partner: str) -> str:
    return (
        f"It was offered to {batch.partner}, who may have it. If so, set QUILLPOST_PRINT_PARTNER back until"
        f" it is handed over; if not, `quillpost print retry {rules.reference(batch.id)} --anew` offers it"
        f" to {partner}."
    )


def _not_inside(items: Sequence[int]) -> str | None:
    """A piece that is named wrongly is another one that is not given up, and would be billed."""
    if not items:
        return None
    named = ", ".join(map(str, items[:MOST_NAMED])) + (", ..." if len(items) > MOST_NAMED else "")
    what = f"item {named}, which is" if len(items) == 1 else f"items {named}, which are"
    return f"The printer calls spoiled {what} not in this batch. Ask what is meant, and mark it by hand."


def _print_job(press: Press, batch: queries.Batch) -> PrintJob:
    files = _files(press, batch)
    with press.db.work() as tx:
        secret = queries.secret_files(tx, batch.id)
        ticket = ticket_of(tx, press, batch, [TicketFile.of(name, data) for name, data in files.items()])
    return PrintJob(
        reference=ticket.reference,
        files=files | ticket_files(ticket),
        ticket=ticket_dict(ticket),
        secret=secret,
    )


def ticket_of(tx: Tx, press: Press, batch: queries.Batch, files: Sequence[TicketFile]) -> JobTicket:
    """What the printer is told about the batch with these files."""
    return job_ticket(
        press.studio.pieces[batch.piece],
        reference=rules.reference(batch.id),
        pieces=batch.item_count,
        mail_class=batch.mail_class,
        files=files,
        made_at=batch.created_at,
        stock=batch.stock,
        rush=batch.rush,
        reprint_of=None if batch.reprint_of is None else rules.reference(batch.reprint_of),
        replaces=queries.replaced(tx, batch.id),
    )


def _files(press: Press, batch: queries.Batch) -> dict[str, bytes]:
    """The files as they were composed; those that are lost or damaged are made again."""
    with press.db.work() as tx:
        known, secret = queries.file_digests(tx, batch.id), queries.secret_files(tx, batch.id)
    kept = _batch_store(press)
    try:
        files = {name: kept.get(batch.id, name, is_secret=name in secret) for name in known}
        queries.require_same(files, known)
    except (FileMissing, SealBroken, Unavailable) as fault:
        log.warning("batch.files_damaged", batch=batch.id, error=repr(fault))
        files = remade(press, batch)
        kept.put(batch.id, files, secret=secret)
    return files
