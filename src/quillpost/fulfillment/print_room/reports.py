"""What operators and print partners report of a batch."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal
from urllib.parse import urlsplit

import sqlalchemy as sa

from quillpost.core.database import Database, Tx
from quillpost.core.database.tables.fulfillment import prints
from quillpost.core.errors import Conflict, Invalid
from quillpost.fulfillment.batches import queries as fulfillment_queries
from quillpost.fulfillment.batches.queries import ProductionBatch
from quillpost.fulfillment.batches.rules import parse_batch_reference
from quillpost.fulfillment.models import Environment
from quillpost.fulfillment.ports import PrintProgress
from quillpost.fulfillment.print_room import service
from quillpost.fulfillment.print_room.queries import find_batch, find_items_at, find_positions, find_printed_items
from quillpost.fulfillment.print_room.service import AuditCallback, ReprintResult, write_no_audit

PrinterStatus = Literal["acknowledged", "printed", "mailed", "spoiled"]

MAX_REPRINTED_ITEMS = 5_000


@dataclass(frozen=True, slots=True)
class SpoiledItem:
    """By its position, or by its item; in a partner's report also by its barcode."""

    position: int | None = None
    item_id: int | None = None
    reason: str | None = None
    tracking: str | None = None


@dataclass(frozen=True, slots=True)
class MarkResult:
    """How many of the reported items fail, and for how many it changes nothing."""

    spoiled: int
    skipped: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSelection:
    """Items of a batch: by position, as a range, or by item."""

    positions: Sequence[int] = ()
    first: int | None = None
    last: int | None = None
    item_ids: Sequence[int] = ()


def mark_batch(
    db: Database,
    batch_id: int,
    status: PrinterStatus,
    *,
    at: datetime | None = None,
    spoiled: Sequence[SpoiledItem] = (),
    mode: str | None = None,
    by_partner: bool = False,
    write_audit: AuditCallback = write_no_audit,
    now: datetime,
) -> MarkResult:
    """Record how far the batch is; `mode`, only if it is of that mode. Where anything changes, `write_audit` is called
    in the same transaction. An operator gets an error for a spoiled item that is mailed or reprinted; for a partner
    such an item is skipped, or the rest of its report would be lost."""
    marked_at = at or now
    with db.system_transaction() as tx:
        _require_valid_mark(find_batch(tx, batch_id, mode=mode), status, at, spoiled, now=now)
        reasons_by_item = _find_spoiled_items(tx, batch_id, spoiled)
        batch = service.lock_handed_batch(tx, batch_id)
        fulfillment_queries.lock_batch_orders(tx, [batch_id])
        if not by_partner:
            _require_spoilable(tx, batch_id, spoiled, list(reasons_by_item))
        progress = PrintProgress(
            acknowledged_at=marked_at if status == "acknowledged" else None,
            printed_at=marked_at if status == "printed" else None,
            mailed_at=marked_at if status == "mailed" else None,
            spoiled=reasons_by_item,
        )
        failed_count = service.apply_progress(tx, batch, progress, now=now)
        if failed_count or fulfillment_queries.read_batch(tx, batch_id) != batch:
            write_audit(tx)
    return MarkResult(failed_count, len(reasons_by_item) - failed_count)


def _require_valid_mark(
    batch: ProductionBatch, status: PrinterStatus, at: datetime | None, spoiled: Sequence[SpoiledItem], *, now: datetime
) -> None:
    errors = {}
    if status == "spoiled" and not spoiled:
        errors["spoiled"] = ["Name the spoiled pieces, by position or item_id."]
    if at is not None and at > now:
        errors["at"] = ["This must not lie in the future."]
    elif at is not None and at < batch.created_at:
        errors["at"] = ["This is before the batch was made."]
    if errors:
        raise Invalid(errors)


def _find_spoiled_items(tx: Tx, batch_id: int, spoiled: Sequence[SpoiledItem]) -> dict[int, str]:
    """The reasons by item id; raises `Invalid` for items that are not in the batch."""
    items_by_position = find_items_at(tx, batch_id, [item.position for item in spoiled if item.position is not None])
    positions_by_item = find_positions(tx, batch_id, [item.item_id for item in spoiled if item.item_id is not None])
    errors, reasons = {}, dict[int, str]()
    for index, item in enumerate(spoiled):
        item_id = item.item_id if item.position is None else items_by_position.get(item.position)
        if (item.position is None) == (item.item_id is None):
            errors[f"spoiled.{index}"] = ["Give either the position of the piece or its item_id."]
        elif item_id is None:
            errors[f"spoiled.{index}.position"] = [_no_position_error(batch_id, item.position)]
        elif item.item_id is not None and item.item_id not in positions_by_item:
            errors[f"spoiled.{index}.item_id"] = [f"Item {item.item_id} is not in batch {batch_id}."]
        else:
            reasons[item_id] = item.reason or ""
    if errors:
        raise Invalid(errors)
    return reasons


def _require_spoilable(tx: Tx, batch_id: int, spoiled: Sequence[SpoiledItem], item_ids: Sequence[int]) -> None:
    """The batch is locked, so this still holds when they are marked."""
    printed_items = find_printed_items(tx, batch_id, item_ids=item_ids)
    errors_by_name = {("position", printed_item.position): printed_item.spoil_error for printed_item in printed_items}
    errors_by_name |= {("item_id", printed_item.item_id): printed_item.spoil_error for printed_item in printed_items}
    errors = {}
    for index, item in enumerate(spoiled):
        name, number = ("item_id", item.item_id) if item.position is None else ("position", item.position)
        if number is not None and (message := errors_by_name.get((name, number))) is not None:
            errors[f"spoiled.{index}.{name}"] = [message]
    if errors:
        raise Invalid(errors)


def reprint_selection(
    db: Database,
    environment: Environment,
    batch_id: int,
    selection: BatchSelection,
    *,
    reason: str,
    write_audit: AuditCallback = write_no_audit,
    now: datetime,
) -> ReprintResult:
    """Print these items again; all of them must be in the batch."""
    if not reason.strip():
        raise Invalid({"reason": ["Say why they are printed again."]})
    with db.system_transaction() as tx:
        find_batch(tx, batch_id, mode=environment.mode)
        positions = _selected_positions(tx, batch_id, selection)
    return service.reprint_items(
        db, environment, batch_id, positions=positions, reason=reason, write_audit=write_audit, now=now
    )


def _selected_positions(tx: Tx, batch_id: int, selection: BatchSelection) -> list[int]:
    is_range = selection.first is not None or selection.last is not None
    if sum((bool(selection.positions), is_range, bool(selection.item_ids))) != 1:
        message = "Say which pieces: by positions, or from one to another, or by item_ids."
        raise Invalid({"positions": [message]})
    if selection.item_ids:
        positions_by_item = find_positions(tx, batch_id, selection.item_ids)
        for index, item_id in enumerate(selection.item_ids):
            if item_id not in positions_by_item:
                raise Invalid({f"item_ids.{index}": [f"Item {item_id} is not in batch {batch_id}."]})
        return sorted(positions_by_item.values())
    if is_range:
        return _range_positions(tx, batch_id, selection.first, selection.last)
    items_by_position = find_items_at(tx, batch_id, selection.positions)
    for index, position in enumerate(selection.positions):
        if position not in items_by_position:
            raise Invalid({f"positions.{index}": [_no_position_error(batch_id, position)]})
    return sorted(items_by_position)


def _range_positions(tx: Tx, batch_id: int, first: int | None, last: int | None) -> list[int]:
    if first is None or last is None:
        raise Invalid({"from" if first is None else "to": ["Give both: from and to."]})
    if first > last:
        raise Invalid({"to": ["This must not be before from."]})
    if last - first >= MAX_REPRINTED_ITEMS:
        raise Invalid({"to": [f"At most {MAX_REPRINTED_ITEMS:,} pieces at once, please."]})
    items_by_position = find_items_at(tx, batch_id, range(first, last + 1))
    for name, position in (("from", first), ("to", last)):
        if position not in items_by_position:
            raise Invalid({name: [_no_position_error(batch_id, position)]})
    return sorted(items_by_position)


def _no_position_error(batch_id: int, position: int | None) -> str:
    return f"There is no piece {position} in batch {batch_id}."


DEFAULT_PORTS = {"sftp": 22, "http": 80, "https": 443}


def partner_name(address: str) -> str:
    """The address in one spelling and without a password. The user is kept for SFTP, where it is part of the location;
    elsewhere it may be a secret."""
    try:
        parsed = urlsplit(address)
        host, port = parsed.hostname or "", parsed.port
    except ValueError:
        return address.rpartition("@")[2]
    if not parsed.scheme:
        return address
    user = f"{parsed.username}@" if parsed.username and parsed.scheme == "sftp" else ""
    host = f"[{host}]" if ":" in host else host
    port_suffix = "" if port in (None, DEFAULT_PORTS.get(parsed.scheme)) else f":{port}"
    return f"{parsed.scheme}://{user}{host}{port_suffix}{parsed.path.rstrip('/')}"


def is_other_partner(batch_partner: str | None, partner: str) -> bool:
    """Whether a batch is another partner's; one without a partner may be anyone's. The spelling may have changed since
    it was handed over."""
    return batch_partner is not None and partner_name(batch_partner) != partner_name(partner)


MAX_CLOCK_SKEW = timedelta(minutes=5)  # of a signature's time


@dataclass(frozen=True, slots=True)
class PartnerReport:
    reference: str
    event: PrinterStatus
    reported_at: datetime
    spoiled: Sequence[SpoiledItem] = ()


def record_partner_report(db: Database, environment: Environment, report: PartnerReport, *, now: datetime) -> None:
    """Record what this environment's partner says of a batch that it has. Idempotent."""
    batch_id = parse_batch_reference(report.reference)
    if batch_id is None:
        raise Invalid({"reference": ["This is not the reference of a batch, such as batch-000007."]})
    with db.system_transaction() as tx:
        batch = find_batch(tx, batch_id, mode=environment.mode)
        if is_other_partner(batch.partner, environment.partner):
            raise Conflict("This batch was handed to another partner.")
        spoiled_items = _resolve_items(tx, batch_id, report.spoiled)
    # A clock that runs a little ahead is no error.
    reported_at = now if now < report.reported_at <= now + MAX_CLOCK_SKEW else report.reported_at
    mark_batch(
        db,
        batch_id,
        report.event,
        at=reported_at,
        spoiled=spoiled_items,
        mode=environment.mode,
        by_partner=True,
        now=now,
    )


def _resolve_items(tx: Tx, batch_id: int, spoiled: Sequence[SpoiledItem]) -> list[SpoiledItem]:
    """Items that are named by their barcode, by their id; all others unchanged."""
    barcodes = [item.tracking for item in spoiled if item.tracking is not None]
    batch_prints = sa.select(prints.c.tracking, prints.c.item_id).where(prints.c.batch_id == batch_id)
    item_ids = {row.tracking: row.item_id for row in tx.execute(batch_prints.where(prints.c.tracking.in_(barcodes)))}
    resolved, errors = [], {}
    for index, item in enumerate(spoiled):
        if [item.item_id, item.tracking, item.position].count(None) != 2:
            errors[f"spoiled.{index}"] = ["Name the piece once: by its item_id, tracking or position."]
        elif item.tracking is not None and item.tracking not in item_ids:
            errors[f"spoiled.{index}.tracking"] = ["No piece of this batch has this barcode."]
        else:
            item_id = item.item_id if item.tracking is None else item_ids[item.tracking]
            resolved.append(SpoiledItem(item.position, item_id, item.reason))
    if errors:
        raise Invalid(errors)
    return resolved
