"""What fulfillment asks of the outside: a print partner and a carrier."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True, slots=True)
class PrintJob:
    """A production batch as a print partner sees it. `secret_names` are files with gift card claims, in clear only
    here."""

    reference: str
    files: Mapping[str, bytes] = field(repr=False)
    ticket: Mapping[str, object]
    secret_names: Collection[str] = frozenset()


@dataclass(frozen=True, slots=True)
class PrintProgress:
    """`spoiled` maps an item's id to the reason it is unusable."""

    acknowledged_at: datetime | None = None
    printed_at: datetime | None = None
    mailed_at: datetime | None = None
    spoiled: Mapping[int, str] | None = None


class PrintPartner(Protocol):
    """Stateless between calls. Raises `PartnerDown` where it cannot be reached; the caller tries again."""

    def submit(self, job: PrintJob, *, now: datetime) -> None:
        """Hand the job over, whole or not at all. The same reference twice is one job."""

    def progress(self, reference: str, *, now: datetime) -> PrintProgress:
        """How far the job is. What was reported once stays."""


class PartnerDown(Exception):
    """Why the print partner cannot be reached, as a sentence for the print room."""


@dataclass(frozen=True, slots=True)
class CarrierReport:
    """The names of the files that are there. `expects_more`: polling again soon is worth it."""

    file_names: Sequence[str] = ()
    expects_more: bool = False


@dataclass(frozen=True, slots=True)
class RefusedScanFile:
    name: str
    reason: str


class CarrierFeed(Protocol):
    """Files of scans in a carrier's format. Stateless between calls, so polls may overlap. Raises `CarrierDown` where
    it cannot be reached; the caller tries again."""

    def poll(self, *, now: datetime) -> CarrierReport:
        """The files to read. Repeats are allowed: a scan seen twice changes nothing."""

    def fetch(self, name: str) -> bytes:
        """The file, or `ScanFileTooLarge`, `ScanFileForbidden`, or `FileMissing` where another poll has settled it."""

    def settle(self, name: str) -> None:
        """Its scans are stored: do not report it again. Idempotent."""

    def refuse(self, name: str, reason: str) -> None:
        """Set it aside, with the reason beside it, for an operator."""

    def set_aside(self) -> Sequence[RefusedScanFile]:
        """Refused files that are still there, and files that may not be read."""


class CarrierDown(Exception):
    """Why the feed cannot be reached, as a sentence for an operator."""


class ScanFileForbidden(Exception):
    """Why a file may not be read, as a sentence. It is tried again; others are read."""


class ScanFileTooLarge(Exception):
    """Why a file is too large to be taken, as a sentence."""


class CarrierInbox(Protocol):
    """Where a carrier that calls us leaves its files; one of its feeds reads them from there."""

    def store(self, data: bytes) -> None:
        """Store the file durably. The same bytes twice are one file."""
