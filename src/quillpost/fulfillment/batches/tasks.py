"""The steps of a batch as jobs. Each may run again after a crash, and then changes nothing twice."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import structlog

from quillpost.core import jobs
from quillpost.core.database import Tx
from quillpost.core.encryption import DecryptionFailed
from quillpost.core.errors import Unavailable
from quillpost.core.ports import FileMissing
from quillpost.fulfillment.batches import files as batch_files
from quillpost.fulfillment.batches import giftcards, queries, rules
from quillpost.fulfillment.batches.queries import ProductionBatch
from quillpost.fulfillment.batches.rules import JobTicket, TicketFile, build_ticket_files, ticket_to_dict
from quillpost.fulfillment.models import COMPOSE, HAND_OVER, NEXT_STEP, POLL_PRINTER, ProductionContext, enqueue_step
from quillpost.fulfillment.ports import PartnerDown, PrintJob
from quillpost.fulfillment.print_room.reports import is_other_partner
from quillpost.fulfillment.print_room.service import record_printer_progress
from quillpost.orders.giftcards.ports import IssuerDown
from quillpost.orders.items import queries as item_queries
from quillpost.orders.queries import change_status
from quillpost.orders.rules import OrderStatus

log = structlog.get_logger(__name__)
MAX_RETRY_WAIT = timedelta(minutes=15)
MAX_LISTED_ITEMS = 10


def compose_batch(production: ProductionContext, batch_id: int, *, now: datetime) -> None:
    """Draw the batch's print files. Run again, it writes the same bytes to the same place."""
    contents = _read_remaining_contents(production, batch_id, now=now)
    if contents is None:
        return
    batch = contents.batch
    environment = production.environments[batch.mode]
    if environment.gaps:
        _retry_later(production, batch, COMPOSE, " ".join(environment.gaps), now=now)
        return
    if contents.giftcard_item_ids:
        wait_reason = _issue_cards(production, contents, now=now)
        if wait_reason is not None:
            _retry_later(production, batch, COMPOSE, wait_reason, now=now)
            return
        # Some may have been refused, or moved to another batch; the others have their claims.
        contents = _read_remaining_contents(production, batch_id, now=now)
        if contents is None:
            return
        if unreadable_ids := giftcards.find_unreadable_claims(
            production.encryptor, contents.claims, contents.giftcard_item_ids
        ):
            wait_reason = giftcards.split_unreadable_items(production, batch, unreadable_ids, now=now)
            if wait_reason is not None:
                _retry_later(production, batch, COMPOSE, wait_reason, now=now)
            else:
                compose_batch(production, batch_id, now=now)
            return
    try:
        files = batch_files.draw_batch_files(production, contents)
    except Exception as error:
        if not batch_files.fail_undrawable_items(production, contents, now=now):
            raise
        log.warning("batches.items_unprintable", batch=batch_id, error=repr(error))
        compose_batch(production, batch_id, now=now)
        return
    secret_names = batch_files.find_secret_names(files, production.renderer.products[batch.piece])
    _batch_storage(production).put_files(batch_id, files, secret_names=secret_names)
    with production.db.system_transaction() as tx:
        item_count = queries.read_batch(tx, batch_id, locked=True).item_count
        is_outdated = item_count != len(contents.items) or queries.has_ended_items(tx, batch_id)
        composed_with = {"indicia": batch.indicia, "qr_base": batch.qr_base, "opt_out": batch.opt_out}
        if not is_outdated and queries.swap_batch_status(
            tx, batch_id, expected="new", new_status="composed", now=now, **composed_with
        ):
            queries.insert_batch_files(tx, batch_id, files, secret_names=secret_names)
            enqueue_step(tx, HAND_OVER, batch_id, is_urgent=batch.rush)
            log.info("batches.composed", batch=batch_id, items=len(contents.items))
    if is_outdated:  # someone was erased while the batch was drawn
        compose_batch(production, batch_id, now=now)


def _read_remaining_contents(
    production: ProductionContext, batch_id: int, *, now: datetime
) -> batch_files.BatchContents | None:
    """What is to be drawn of a new batch; None where it is done, or nothing is left of it."""
    with production.db.system_transaction() as tx:
        # Locked, since two that compose it at once would remove items in different orders.
        batch = queries.read_batch(tx, batch_id, locked=True)
        if batch.status != "new":
            return None
        giftcards.clear_ended_holds(tx, batch_id)
        queries.remove_ended_items(tx, batch_id)
        indicia = list(production.environments[batch.mode].indicia.get(batch.mail_class, ()))
        batch = replace(batch, indicia=indicia, qr_base=production.qr_base, opt_out=production.opt_out)
        contents = batch_files.read_batch_contents(tx, batch)
        if contents.items:
            return contents
        queries.swap_batch_status(tx, batch_id, expected="new", new_status="mailed", now=now, settled_at=now)
    _batch_storage(production).delete_all(batch_id)
    return None


def _issue_cards(production: ProductionContext, contents: batch_files.BatchContents, *, now: datetime) -> str | None:
    """Why nothing of the batch can be drawn yet."""
    item_ids = [item.id for item in contents.items.values()]
    try:
        return giftcards.issue_cards(production, contents.batch, item_ids, contents.orders, now=now)
    except IssuerDown as error:
        return str(error)


def hand_over_batch(production: ProductionContext, batch_id: int, *, now: datetime) -> None:
    """Give the batch to the print partner, which takes each reference once. The partner is stored before: it may have
    the batch even where its response was lost, and another partner would mail every item a second time."""
    with production.db.system_transaction() as tx:
        batch = queries.read_batch(tx, batch_id)
    if batch.status != "composed":
        return
    environment = production.environments[batch.mode]
    if environment.gaps:
        _retry_later(production, batch, HAND_OVER, " ".join(environment.gaps), now=now)
        return
    with production.db.system_transaction() as tx:
        batch = queries.offer_batch(tx, batch_id, partner=environment.partner)
    if batch.status != "composed":
        return
    if is_other_partner(batch.partner, environment.partner):
        _retry_later(production, batch, HAND_OVER, _offered_elsewhere_error(batch, environment.partner), now=now)
        return
    try:
        environment.printer.submit(_build_print_job(production, batch), now=now)
    except PartnerDown as error:
        _retry_later(production, batch, HAND_OVER, str(error), now=now)
        return
    with production.db.system_transaction() as tx:
        partner_values = {"partner": environment.partner}
        if not queries.swap_batch_status(
            tx, batch_id, expected="composed", new_status="handed", now=now, **partner_values
        ):
            return
        tx.execute(queries.ADD_LIST_SENDS, {"batch": batch_id, "now": now})
        order_ids = [order.id for order in queries.read_batch_orders(tx, batch_id)]
        printing_ids = change_status(
            tx, order_ids, expected=[OrderStatus.PROCESSING], new_status=OrderStatus.PRINTING, now=now
        )
        item_queries.record_order_status_change(tx, printing_ids, previous=OrderStatus.PROCESSING.value, now=now)
        enqueue_step(tx, POLL_PRINTER, batch_id, at=now + environment.poll_interval)
        log.info("batches.handed_over", batch=batch_id)


def poll_printer(production: ProductionContext, batch_id: int, *, now: datetime) -> None:
    with production.db.system_transaction() as tx:
        batch = queries.read_batch(tx, batch_id)
    if batch.status not in ("handed", "printed"):
        return
    environment = production.environments[batch.mode]
    if is_other_partner(batch.partner, environment.partner):
        message = f"It is with {batch.partner}, who is no longer the print partner: mark it by hand."
        _retry_later(production, batch, POLL_PRINTER, message, now=now)
        return
    try:
        progress = environment.printer.progress(rules.batch_reference(batch_id), now=now)
    except PartnerDown as error:
        _retry_later(production, batch, POLL_PRINTER, str(error), now=now)
        return
    unknown_item_ids = record_printer_progress(production.db, batch_id, progress, now=now)
    with production.db.system_transaction() as tx:
        queries.record_batch_error(tx, batch_id, _unknown_items_error(unknown_item_ids), now=now)
        if queries.read_batch(tx, batch_id).status != "mailed":
            enqueue_step(tx, POLL_PRINTER, batch_id, at=now + environment.poll_interval)


def resume_batches(production: ProductionContext) -> None:
    """Enqueue the next step of every unfinished batch without a job."""
    with production.db.system_transaction() as tx:
        for batch in queries.list_unfinished_batches(tx):
            # A step that was given up waits for an operator: `quillpost doctor` shows it.
            if not jobs.is_unfinished(tx, NEXT_STEP[batch.status], batch_id=batch.id):
                enqueue_step(tx, NEXT_STEP[batch.status], batch.id)


def remake_files(production: ProductionContext, batch_id: int) -> None:
    """Compose the batch's files again, to the same bytes, and store them."""
    with production.db.system_transaction() as tx:
        batch, secret_names = queries.read_batch(tx, batch_id), queries.list_secret_files(tx, batch_id)
    _batch_storage(production).put_files(
        batch_id, batch_files.redraw_batch_files(production, batch), secret_names=secret_names
    )
    log.info("batches.files_restored", batch=batch_id)


def _batch_storage(production: ProductionContext) -> batch_files.BatchFileStorage:
    return batch_files.BatchFileStorage(production.storage.store, production.encryptor)


def _retry_later(
    production: ProductionContext, batch: ProductionBatch, step: str, error: str, *, now: datetime
) -> None:
    """Store the error and retry the step later, without limit: nothing unready is printed."""
    failing_for = now - (batch.trouble_at or now)
    wait = min(max(failing_for / 2, production.environments[batch.mode].poll_interval), MAX_RETRY_WAIT)
    with production.db.system_transaction() as tx:
        queries.record_batch_error(tx, batch.id, error, now=now)
        enqueue_step(tx, step, batch.id, at=now + wait)
    log.warning("batches.step_failed", batch=batch.id, step=step, error=error)


def _offered_elsewhere_error(batch: ProductionBatch, partner: str) -> str:
    return (
        f"It was offered to {batch.partner}, who may have it. If so, set QUILLPOST_PRINT_PARTNER back until"
        f" it is handed over; if not, `quillpost print retry {rules.batch_reference(batch.id)} --anew` offers it"
        f" to {partner}."
    )


def _unknown_items_error(item_ids: Sequence[int]) -> str | None:
    """A wrong id may mean another item, which would be billed although it is spoiled."""
    if not item_ids:
        return None
    listed_ids = ", ".join(map(str, item_ids[:MAX_LISTED_ITEMS])) + (
        ", ..." if len(item_ids) > MAX_LISTED_ITEMS else ""
    )
    subject = f"item {listed_ids}, which is" if len(item_ids) == 1 else f"items {listed_ids}, which are"
    return f"The printer calls spoiled {subject} not in this batch. Ask what is meant, and mark it by hand."


def _build_print_job(production: ProductionContext, batch: ProductionBatch) -> PrintJob:
    files = _read_or_redraw_files(production, batch)
    with production.db.system_transaction() as tx:
        secret_names = queries.list_secret_files(tx, batch.id)
        ticket = build_batch_ticket(tx, production, batch, [TicketFile.of(name, data) for name, data in files.items()])
    return PrintJob(
        reference=ticket.reference,
        files=files | build_ticket_files(ticket),
        ticket=ticket_to_dict(ticket),
        secret_names=secret_names,
    )


def build_batch_ticket(
    tx: Tx, production: ProductionContext, batch: ProductionBatch, files: Sequence[TicketFile]
) -> JobTicket:
    return JobTicket(
        layout=production.renderer.products[batch.piece],
        reference=rules.batch_reference(batch.id),
        stock=batch.stock,
        item_count=batch.item_count,
        mail_class=batch.mail_class,
        files=files,
        created_at=batch.created_at,
        rush=batch.rush,
        reprint_of=None if batch.reprint_of is None else rules.batch_reference(batch.reprint_of),
        replaced_positions=queries.read_replaced_positions(tx, batch.id),
    )


def _read_or_redraw_files(production: ProductionContext, batch: ProductionBatch) -> dict[str, bytes]:
    """The files as composed; those that are lost or damaged are drawn again."""
    with production.db.system_transaction() as tx:
        expected_digests = queries.read_file_digests(tx, batch.id)
        secret_names = queries.list_secret_files(tx, batch.id)
    storage = _batch_storage(production)
    try:
        files = {name: storage.read_file(batch.id, name, is_secret=name in secret_names) for name in expected_digests}
        queries.require_same_files(files, expected_digests)
    except (FileMissing, DecryptionFailed, Unavailable) as error:
        log.warning("batches.files_damaged", batch=batch.id, error=repr(error))
        files = batch_files.redraw_batch_files(production, batch)
        storage.put_files(batch.id, files, secret_names=secret_names)
    return files
