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
    `place` and `reason` are as a person reads them, `raw` is the carrier's row as JSON."""

    tracking: str
    phase: str
    at: datetime
    raw: str = "{}"
    place: str | None = None
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

REASONS: Mapping[ItemStatus, str] = {
    ItemStatus.RE_ROUTED: "Forwarded by the postal service",
    ItemStatus.RETURNED_TO_SENDER: "Returned by the postal service",
    ItemStatus.FAILED: "Lost in the mail",
}

LONGEST_PHASE = 60
NUMBERED = re.compile(r"(?:phase)?\s*([0-4][abc]?)(?![0-9a-z])")
FORWARDING = re.compile(r"\b(f?pars)\b")
FORWARDING_WORDS = re.compile(r"\bforward(?:ed|ing)\b")
RETURN_WORDS = re.compile(r"\brts\b|\breturn(?:ed|ing)? to (?:the )?(?:sender|mailer)\b|\breturned\b")
LOSS_WORDS = re.compile(r"\bdestroyed\b|\bdead (?:letter|mail)\b|\bmail recovery\b|\bwaste\b|\bdisposed\b")
DELIVERY_WORDS = re.compile(r"\bdelivered\b|\blogical delivery\b")


def _operations() -> dict[str, str]:
    lines = files("quillpost.fulfillment.tracking").joinpath("operations.csv").read_text().splitlines()
    rows = [line.split(",") for line in lines if not line.startswith("#")]
    return dict(rows[1:])


OPERATIONS = _operations()
"""The phase in which a sorting machine's operation is used, by its three digits."""


def phase_of(mail_phase: str, operation: str = "", words: str = "") -> str:
    """Our name of the phase, from the carrier's own, the operation code and whatever else a row describes.

    A number speaks for itself. Elsewhere, words that tell of a return or a loss outweigh forwarding, which
    is how both begin.
    """
    named = mail_phase.strip().lower()
    if numbered := NUMBERED.match(named):
        return numbered[1]
    if named in PHASES:
        named_by = named
    else:
        forwarding = FORWARDING.search(named)
        named_by = forwarding[1] if forwarding else ""
    told = f"{named} {words.lower()}"
    if LOSS_WORDS.search(told):
        return DESTROYED
    if RETURN_WORDS.search(told):
        return RETURNED
    if named_by:
        return named_by
    if named:
        return named[:LONGEST_PHASE]
    if operation in OPERATIONS:
        return OPERATIONS[operation]
    if FORWARDING.search(told) or FORWARDING_WORDS.search(told):
        return FORWARDED
    if DELIVERY_WORDS.search(told):
        return "4c"
    return (f"operation {operation}" if operation else "unknown")[:LONGEST_PHASE]


def status_of(phase: str) -> ItemStatus | None:
    return PHASES.get(phase)


def reason_of(phase: str, given: str | None) -> str | None:
    """Why a piece was forwarded, returned or lost; the carrier's own words come first."""
    default = REASONS.get(PHASES[phase]) if phase in PHASES else None
    return (given or default) if default else None


def digest(scan: Scan) -> bytes:
    """The same for two reports of one sighting."""
    at = scan.at if scan.at.tzinfo is UTC else scan.at.astimezone(UTC)
    moment = at.isoformat(timespec="seconds")
    return hashlib.sha256(f"{scan.tracking}|{scan.phase}|{moment}".encode()).digest()
