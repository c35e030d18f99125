"""What a carrier's scan means."""

import hashlib
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.resources import files
from typing import NamedTuple

from quillpost.orders.rules import ItemStatus


class Scan(NamedTuple):
    """One sighting of a piece. `phase` is one of ours below or, unknown to us, the carrier's own word;
    `location` and `reason` are as a person reads them, `raw` is the carrier's row as JSON."""

    tracking: str
    phase: str
    at: datetime
    raw: str = "{}"
    location: str | None = None
    reason: str | None = None


RETURNED, DESTROYED, FORWARDED = "returned", "destroyed", "pars"

PHASES: Mapping[str, ItemStatus] = {
    **dict.fromkeys(("0", "1", "1a", "1b"), ItemStatus.IN_TRANSIT),
    **dict.fromkeys(("2", "2a", "2b", "2c"), ItemStatus.IN_LOCAL_AREA),
    **dict.fromkeys(("3a", "3b", "3c"), ItemStatus.PROCESSED_FOR_DELIVERY),
    "4c": ItemStatus.DELIVERED,
    FORWARDED: ItemStatus.RE_ROUTED,
    "fpars": ItemStatus.RE_ROUTED,
    RETURNED: ItemStatus.RETURNED_TO_SENDER,
    DESTROYED: ItemStatus.FAILED,
}
"""The mail phase of a scan, and the status it is evidence of. Any other phase keeps the status."""

DEFAULT_REASONS: Mapping[ItemStatus, str] = {
    ItemStatus.RE_ROUTED: "Forwarded by the postal service",
    ItemStatus.RETURNED_TO_SENDER: "Returned by the postal service",
    ItemStatus.FAILED: "Lost in the mail",
}

MAX_PHASE_LENGTH = 60
NUMBERED_PHASE = re.compile(r"(?:phase)?\s*([0-4][abc]?)(?![0-9a-z])")
FORWARDING_CODE = re.compile(r"\b(f?pars)\b")
FORWARDING_PATTERN = re.compile(r"\bforward(?:ed|ing)\b")
RETURN_PATTERN = re.compile(r"\brts\b|\breturn(?:ed|ing)? to (?:the )?(?:sender|mailer)\b|\breturned\b")
LOSS_PATTERN = re.compile(r"\bdestroyed\b|\bdead (?:letter|mail)\b|\bmail recovery\b|\bwaste\b|\bdisposed\b")
DELIVERY_PATTERN = re.compile(r"\bdelivered\b|\blogical delivery\b")


def _load_operations() -> dict[str, str]:
    lines = files("quillpost.fulfillment.tracking").joinpath("operations.csv").read_text().splitlines()
    rows = [line.split(",") for line in lines if not line.startswith("#")]
    return dict(rows[1:])


OPERATION_PHASES = _load_operations()
"""The phase in which a sorting machine's operation is used, by its three digits."""


def parse_phase(mail_phase: str, operation: str = "", description: str = "") -> str:
    """Our name of the phase, from the carrier's own, the operation code and whatever else a row describes.

    A number speaks for itself. Elsewhere, words that tell of a return or a loss outweigh forwarding, which
    is how both begin.
    """
    phase_name = mail_phase.strip().lower()
    if number_match := NUMBERED_PHASE.match(phase_name):
        return number_match[1]
    if phase_name in PHASES:
        known_phase = phase_name
    else:
        code_match = FORWARDING_CODE.search(phase_name)
        known_phase = code_match[1] if code_match else ""
    text = f"{phase_name} {description.lower()}"
    if LOSS_PATTERN.search(text):
        return DESTROYED
    if RETURN_PATTERN.search(text):
        return RETURNED
    if known_phase:
        return known_phase
    if phase_name:
        return phase_name[:MAX_PHASE_LENGTH]
    if operation in OPERATION_PHASES:
        return OPERATION_PHASES[operation]
    if FORWARDING_CODE.search(text) or FORWARDING_PATTERN.search(text):
        return FORWARDED
    if DELIVERY_PATTERN.search(text):
        return "4c"
    return (f"operation {operation}" if operation else "unknown")[:MAX_PHASE_LENGTH]


def find_status(phase: str) -> ItemStatus | None:
    return PHASES.get(phase)


def choose_reason(phase: str, carrier_reason: str | None) -> str | None:
    """Why a piece was forwarded, returned or lost; the carrier's own words come first."""
    default = DEFAULT_REASONS.get(PHASES[phase]) if phase in PHASES else None
    return (carrier_reason or default) if default else None


def scan_digest(scan: Scan) -> bytes:
    """The same for two reports of one sighting."""
    at = scan.at if scan.at.tzinfo is UTC else scan.at.astimezone(UTC)
    timestamp = at.isoformat(timespec="seconds")
    return hashlib.sha256(f"{scan.tracking}|{scan.phase}|{timestamp}".encode()).digest()
