"""What a carrier's scan means."""

import hashlib
from datetime import UTC

from quillpost.orders.rules import ItemStatus
from quillpost.ports import CarrierScan

PHASES = {
    **dict.fromkeys(("0", "1", "1a", "1b"), ItemStatus.IN_TRANSIT),
    **dict.fromkeys(("2", "2a", "2b", "2c"), ItemStatus.IN_LOCAL_AREA),
    **dict.fromkeys(("3a", "3b", "3c"), ItemStatus.PROCESSED_FOR_DELIVERY),
    "4c": ItemStatus.DELIVERED,
    "pars": ItemStatus.RE_ROUTED,
    "fpars": ItemStatus.RE_ROUTED,
    "returned": ItemStatus.RETURNED_TO_SENDER,
    "destroyed": ItemStatus.FAILED,
}
"""The mail phase of a scan, and the status it is evidence of. Any other phase keeps the status."""

REASONS = {
    ItemStatus.RETURNED_TO_SENDER: "Returned by the postal service",
    ItemStatus.FAILED: "Lost in the mail",
}


def status_of(scan: CarrierScan) -> ItemStatus | None:
    return PHASES.get(scan.phase.strip().lower().removeprefix("phase").strip())


def reason_of(status: ItemStatus, scan: CarrierScan) -> str | None:
    given = scan.raw.get("reason")
    return str(given) if given else REASONS.get(status)


def digest(scan: CarrierScan) -> bytes:
    """The same for two reports of one sighting."""
    moment = scan.at.astimezone(UTC).isoformat(timespec="seconds")
    return hashlib.sha256(f"{scan.tracking}|{scan.phase}|{moment}".encode()).digest()
