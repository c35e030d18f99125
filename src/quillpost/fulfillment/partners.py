"""How a batch names its print partner, and what that partner reports."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import urlsplit

import sqlalchemy as sa

from quillpost.core.database import Database, Tx
from quillpost.core.database.tables.print_room import prints
from quillpost.core.errors import Conflict, Invalid
from quillpost.fulfillment.environments import Environment
from quillpost.fulfillment.print_room import marks
from quillpost.fulfillment.print_room.marks import PrinterStatus, SpoiledItem
from quillpost.fulfillment.print_room.queries import find_batch
from quillpost.fulfillment.rules import parse_batch_reference

DEFAULT_PORTS = {"sftp": 22, "http": 80, "https": 443}


def partner_name(address: str) -> str:
    """The address without what may be written otherwise, and without a password.

    Capitals of the host, a port that is the usual one and slashes at the end make no other partner. A user is
    told where it is a part of the place, which it is over SFTP; elsewhere it may be a secret.
    """
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
    """Whether a batch is another partner's. One that knows none may be anybody's.

    Those that were handed over long ago know the address as it was written then.
    """
    return batch_partner is not None and partner_name(batch_partner) != partner_name(partner)


MAX_CLOCK_SKEW = timedelta(minutes=5)
"""As far as a signature's own time may be off."""


@dataclass(frozen=True, slots=True)
class ReportedSpoiledItem:
    """A piece that cannot be used, by one of its names."""

    item_id: int | None = None
    tracking: str | None = None
    position: int | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class PartnerReport:
    reference: str
    event: PrinterStatus
    reported_at: datetime
    spoiled: Sequence[ReportedSpoiledItem] = ()


def record_partner_report(db: Database, environment: Environment, report: PartnerReport, *, now: datetime) -> None:
    """Take down what this world's partner says of a batch that it has. Said again, it changes nothing."""
    batch_id = parse_batch_reference(report.reference)
    if batch_id is None:
        raise Invalid({"reference": ["This is not the reference of a batch, such as batch-000007."]})
    with db.system_transaction() as tx:
        batch = find_batch(tx, batch_id, mode=environment.mode)
        if is_other_partner(batch.partner, environment.partner):
            raise Conflict("This batch was handed to another partner.")
        spoiled_items = _resolve_items(tx, batch_id, report.spoiled)
    # A clock that runs a little ahead is no reason to lose the word.
    reported_at = now if now < report.reported_at <= now + MAX_CLOCK_SKEW else report.reported_at
    marks.mark_batch(
        db,
        batch_id,
        report.event,
        at=reported_at,
        spoiled=spoiled_items,
        mode=environment.mode,
        by_partner=True,
        now=now,
    )


def _resolve_items(tx: Tx, batch_id: int, spoiled: Sequence[ReportedSpoiledItem]) -> list[SpoiledItem]:
    """Those that are named by their barcode, by their item; all others as they are."""
    barcodes = [spoiled_item.tracking for spoiled_item in spoiled if spoiled_item.tracking is not None]
    batch_prints = sa.select(prints.c.tracking, prints.c.item_id).where(prints.c.batch_id == batch_id)
    item_ids = {row.tracking: row.item_id for row in tx.execute(batch_prints.where(prints.c.tracking.in_(barcodes)))}
    resolved, errors = [], {}
    for index, spoiled_item in enumerate(spoiled):
        if [spoiled_item.item_id, spoiled_item.tracking, spoiled_item.position].count(None) != 2:
            errors[f"spoiled.{index}"] = ["Name the piece once: by its item_id, tracking or position."]
        elif spoiled_item.tracking is not None and spoiled_item.tracking not in item_ids:
            errors[f"spoiled.{index}.tracking"] = ["No piece of this batch has this barcode."]
        else:
            item_id = spoiled_item.item_id if spoiled_item.tracking is None else item_ids[spoiled_item.tracking]
            resolved.append(SpoiledItem(spoiled_item.position, item_id, spoiled_item.reason))
    if errors:
        raise Invalid(errors)
    return resolved
