"""All that we ask of the outside world. Each port has its contract tests; `wiring.py` picks the adapters."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol


class FileStore(Protocol):
    """Bytes under a key such as `batches/7/print.pdf`. A write is whole or not there at all."""

    def put(self, key: str, data: bytes) -> None: ...

    def get(self, key: str) -> bytes:
        """The bytes, or `FileMissing`."""
        ...

    def exists(self, key: str) -> bool: ...

    def delete(self, key: str) -> None:
        """Remove it; a key that is not there is no fault."""
        ...

    def keys(self, prefix: str) -> Iterator[str]:
        """Every key that starts with the prefix, in order."""
        ...


class FileMissing(Exception):
    """No file under that key."""


@dataclass(frozen=True, slots=True)
class Fetched:
    content_type: str
    body: bytes


class Fetcher(Protocol):
    """Fetches a caller's URL: guarded, bounded in size and time, without redirects."""

    def fetch(self, url: str, *, most_bytes: int) -> Fetched:
        """The document, or `FetchFailed`."""
        ...


class FetchFailed(Exception):
    """The reason, as a sentence that may be shown to the caller."""


@dataclass(frozen=True, slots=True)
class PrintJob:
    """One production batch as a printer sees it."""

    reference: str
    files: Mapping[str, bytes]
    ticket: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class PrintProgress:
    """How far the printer is. `spoiled` maps an item's id to the reason its piece is unusable."""

    printed_at: datetime | None = None
    mailed_at: datetime | None = None
    spoiled: Mapping[int, str] | None = None


class PrintPartner(Protocol):
    def submit(self, job: PrintJob, *, now: datetime) -> None:
        """Hand the job over. The same reference twice is one job."""
        ...

    def progress(self, reference: str, *, now: datetime) -> PrintProgress: ...


@dataclass(frozen=True, slots=True)
class CarrierScan:
    """One sighting of a piece, as the carrier reports it."""

    tracking: str
    phase: str
    at: datetime
    raw: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class CarrierReport:
    """What one poll brought. `receipt` names, in the feed's own words, what it need not tell again once the
    scans are stored. `expects_more`: a piece is still on its way, so polling again soon is worth it."""

    scans: Sequence[CarrierScan]
    receipt: tuple[str, ...] = ()
    expects_more: bool = False


class CarrierFeed(Protocol):
    """Keeps nothing between calls: several polls may run at once."""

    def poll(self, *, now: datetime) -> CarrierReport:
        """What is new. Repeats are allowed: a scan seen twice changes nothing."""
        ...

    def settled(self, receipt: tuple[str, ...]) -> None:
        """The scans of the report with this receipt have been stored. Said twice, it changes nothing."""
        ...


@dataclass(frozen=True, slots=True)
class PostOutcome:
    """What came of one delivery: a status and the start of the answer, or the error that stopped it."""

    status: int | None
    body: str = ""
    error: str | None = None
    retry_after: int | None = None


class Poster(Protocol):
    """Delivers a signed event to a subscriber: guarded, bounded in time, without redirects."""

    async def post(
        self, url: str, *, method: str, headers: Mapping[str, str], body: bytes
    ) -> PostOutcome: ...

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class World:
    """The outside as one mode sees it: test orders ride a simulated printer and carrier on a fast clock.

    `gaps` names what is missing before anything may reach paper; an order that finds gaps is paused.
    `mailer_id` is the postal service's number for us, `indicia` the postage mark by class of mail.
    """

    mode: str
    printer: PrintPartner
    carrier: CarrierFeed
    review: timedelta
    poll_every: timedelta
    mailer_id: str
    indicia: Mapping[str, tuple[str, ...]]
    gaps: tuple[str, ...] = ()
