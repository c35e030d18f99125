"""What fulfillment asks of the outside: a print partner and a carrier."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True, slots=True)
class PrintJob:
    """One production batch as a printer sees it. `secret_names` names those of its files that hold the claims of
    gift cards: whoever prints them needs them in clear, and they lie nowhere else so."""

    reference: str
    files: Mapping[str, bytes] = field(repr=False)
    ticket: Mapping[str, object]
    secret_names: Collection[str] = frozenset()


@dataclass(frozen=True, slots=True)
class PrintProgress:
    """How far the printer is. `spoiled` maps an item's id to the reason its piece is unusable."""

    acknowledged_at: datetime | None = None
    printed_at: datetime | None = None
    mailed_at: datetime | None = None
    spoiled: Mapping[int, str] | None = None


class PrintPartner(Protocol):
    """Keeps nothing between calls. One that cannot be reached says `PartnerDown`, and is asked again."""

    def submit(self, job: PrintJob, *, now: datetime) -> None:
        """Hand the job over, whole or not at all. The same reference twice is one job."""
        ...

    def progress(self, reference: str, *, now: datetime) -> PrintProgress:
        """How far it is with the job. What it was once said to be it stays."""
        ...


class PartnerDown(Exception):
    """Why the printer could not be reached, as a sentence for the print room."""


@dataclass(frozen=True, slots=True)
class CarrierReport:
    """What one poll found: the names of files that are there, in the feed's own words. `expects_more`: there
    are others, or will be soon, so polling again is worth it."""

    file_names: Sequence[str] = ()
    expects_more: bool = False


@dataclass(frozen=True, slots=True)
class RefusedScanFile:
    """A file that nobody could read, and why."""

    name: str
    reason: str


class CarrierFeed(Protocol):
    """Files of scans in a carrier's own words. It keeps nothing between calls: several polls may run at once.

    One that cannot be reached says `CarrierDown`, and is asked again.
    """

    def poll(self, *, now: datetime) -> CarrierReport:
        """What is there to read. Repeats are allowed: a scan seen twice changes nothing."""
        ...

    def fetch(self, name: str) -> bytes:
        """The file, or `ScanFileTooLarge`, or `ScanFileForbidden`, or `FileMissing`: another poll has settled it."""
        ...

    def settle(self, name: str) -> None:
        """Its scans are stored: it need not be told again. Said twice, it changes nothing."""
        ...

    def refuse(self, name: str, reason: str) -> None:
        """Set it aside, with the reason beside it, for a person to look at."""
        ...

    def set_aside(self) -> Sequence[RefusedScanFile]:
        """What was refused and is still there, and what waits and may not be read."""
        ...


class CarrierDown(Exception):
    """Why the feed could not be reached, as a sentence for an operator."""


class ScanFileForbidden(Exception):
    """Why a file that is there may not be read, as a sentence. It is tried again; others are read."""


class ScanFileTooLarge(Exception):
    """Why a file is too large to be taken, as a sentence."""


class CarrierInbox(Protocol):
    """Where a carrier that calls us leaves its files; one of its feeds brings them from there."""

    def store(self, data: bytes) -> None:
        """Store the file for good, before the call is answered. The same bytes twice are one file."""
        ...
