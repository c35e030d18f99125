"""All that we ask of the outside world. Each port has its contract tests; `wiring.py` picks the adapters."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import IO, Protocol


class FileStore(Protocol):
    """Bytes under a key such as `batches/7/print.pdf`. A write is whole or not there at all."""

    def put(self, key: str, data: bytes) -> None: ...

    def get(self, key: str) -> bytes:
        """The bytes, or `FileMissing`."""
        ...

    def put_file(self, key: str, file: IO[bytes]) -> None:
        """The rest of a file, however long, at flat memory."""
        ...

    def open(self, key: str) -> IO[bytes]:
        """The bytes to be read piece by piece, or `FileMissing`. Whoever opens it closes it."""
        ...

    def exists(self, key: str) -> bool: ...

    def delete(self, key: str) -> None:
        """Remove it; a key that is not there is no fault."""
        ...

    def keys(self, prefix: str) -> Iterator[str]:
        """Every key that starts with the prefix, in order."""
        ...

    def forget_drafts(self, *, before: datetime) -> int:
        """Remove what writers that were killed before then had not finished; how many. No key shows them."""
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

    names: Sequence[str] = ()
    expects_more: bool = False


@dataclass(frozen=True, slots=True)
class SetAside:
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
        """The file, or `TooMuch`, or `FileBarred`, or `FileMissing`: another poll has settled it."""
        ...

    def settle(self, name: str) -> None:
        """Its scans are stored: it need not be told again. Said twice, it changes nothing."""
        ...

    def refuse(self, name: str, reason: str) -> None:
        """Set it aside, with the reason beside it, for a person to look at."""
        ...

    def set_aside(self) -> Sequence[SetAside]:
        """What was refused and is still there, and what waits and may not be read."""
        ...


class CarrierDown(Exception):
    """Why the feed could not be reached, as a sentence for an operator."""


class FileBarred(Exception):
    """Why a file that is there may not be read, as a sentence. It is tried again; others are read."""


class TooMuch(Exception):
    """Why a file is too large to be taken, as a sentence."""


class CarrierInbox(Protocol):
    """Where a carrier that calls us leaves its files; one of its feeds brings them from there."""

    def keep(self, data: bytes) -> None:
        """Store the file for good, before the call is answered. The same bytes twice are one file."""
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
class Message:
    """An e-mail, or a text message, to one person. The same key is the same message: one that is sent again
    after a crash carries it, so that the repeat can be told. A text message goes to a number (`+15125550100`)
    and has no use for the subject, the HTML and the link on which its reader says that it is enough."""

    key: str
    to: str
    subject: str
    text: str
    at: datetime
    html: str = ""
    unsubscribe: str | None = None


class Notifier(Protocol):
    """Sends messages, one attempt each and bounded in time; several at once."""

    async def send(self, message: Message) -> None:
        """Done once the other side has taken it; else `NeverTaken`, `NotTakenNow` or `NotifierDown`."""
        ...

    async def close(self) -> None: ...


class NeverTaken(Exception):
    """Why this message will never be taken, as a sentence: trying again is in vain."""


class NotTakenNow(Exception):
    """Why it was not taken this time, as a sentence. `retry_after` seconds, where the other side asks."""

    def __init__(self, reason: str, *, retry_after: int | None = None) -> None:
        super().__init__(reason)
        self.retry_after = retry_after


class NotifierDown(Exception):
    """Why no message at all can be sent at present, as a sentence for an operator."""


PostalParts = tuple[str | None, str | None, str | None, str | None, str | None]
"""Of an address at home: delivery line, second line, city, state and ZIP code, as the post writes them."""


@dataclass(frozen=True, slots=True)
class AskedAddress:
    """An address at home as we have it, and who should be found there: only whole names can have moved."""

    name: str | None
    company: str | None
    parts: PostalParts


@dataclass(frozen=True, slots=True)
class Moved:
    """Where somebody is now; without an address, nobody knows."""

    to: PostalParts | None = None
    on: date | None = None


@dataclass(frozen=True, slots=True)
class AddressAnswer:
    """What is known of an address. `dpv` is the postal service's word: Y it delivers there; D the unit is
    missing; S the unit is not one that it knows; N it does not deliver there. None: there is no answer."""

    dpv: str | None = None
    corrected: PostalParts | None = None
    moved: Moved | None = None
    is_vacant: bool = False


@dataclass(frozen=True, slots=True)
class AskedPerson:
    """Somebody of whom only an e-mail is known."""

    name: str | None
    company: str | None
    email: str


class AddressVerifier(Protocol):
    """A licensed service that knows every address at home, and who has moved. It keeps nothing between calls,
    and the same question may be asked again. One that cannot be reached says `VerifierDown`."""

    @property
    def appends(self) -> bool:
        """Whether it also finds the address of somebody whose e-mail is known."""
        ...

    def verify(self, asked: Sequence[AskedAddress]) -> Sequence[AddressAnswer]:
        """An answer for each, in their order."""
        ...

    def append(self, asked: Sequence[AskedPerson]) -> Sequence[PostalParts | None]:
        """The address of each, in their order; None where there is none."""
        ...


class VerifierDown(Exception):
    """Why no address can be verified at present, as a sentence for an operator."""


@dataclass(frozen=True, slots=True)
class LeadsAsked:
    """The nearest records to a point, of any of the kinds that are named. `address` is the point as whoever
    asks has written it, for a source that knows better where that is."""

    latitude: float
    longitude: float
    count: int
    record_types: Sequence[str] = ("all",)
    include_condos: bool = True
    include_businesses: bool = True
    address: str = ""


@dataclass(frozen=True, slots=True)
class Resident:
    """Someone at an address, by the names of our fields. Where the address was judged before, there is its
    key, and what was found."""

    address: str | None
    name: str | None = None
    company: str | None = None
    address2: str | None = None
    city: str | None = None
    province: str | None = None
    postal_code: str | None = None
    country: str | None = None
    address_key: str | None = None
    standard: Sequence[str | None] | None = None
    deliverability: str | None = None
    reasons: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Lead:
    """A record that can be bought; `owner`, where whoever owns the place lives elsewhere."""

    id: str
    resident: Resident
    owner: Resident | None = None


class LeadsProvider(Protocol):
    """Addresses that can be bought. What they cost our callers is our own business."""

    def search(self, asked: LeadsAsked) -> Sequence[Lead]:
        """The nearest first, at most as many as are asked for; fewer only where there are no more."""
        ...

    def bought(self, reference: str, ids: Sequence[str], *, now: datetime) -> None:
        """These are somebody's now. The same reference twice is one purchase."""
        ...

    @property
    def is_told(self) -> bool:
        """Whether it wants to hear of purchases."""
        ...


class LeadsDown(Exception):
    """Why the source of addresses could not be reached, as a sentence for an operator."""


@dataclass(frozen=True, slots=True)
class World:
    """The outside as one mode sees it: test orders ride a simulated printer and carrier on a fast clock.

    `gaps` names what is missing before anything may reach paper; an order that finds gaps is paused.
    `mailer_id` is the postal service's number for us, `indicia` the postage mark by class of mail,
    `service_types` the code that a barcode begins with, by class too, `partner` who the printer is. Pieces
    are pooled at the time of day that `cutoff` is in `zone`; without one, at once. A delivery is inferred so
    long after a piece was processed for it, or last seen at all; without a time, never. A re-routed piece
    that is not seen again for `reroute_ends` stays so. Where it `needs_credit`, an account's credit must
    cover its orders.
    """

    mode: str
    printer: PrintPartner
    carrier: CarrierFeed
    review: timedelta
    poll_every: timedelta
    mailer_id: str
    indicia: Mapping[str, tuple[str, ...]]
    service_types: Mapping[str, str]
    partner: str = ""
    gaps: tuple[str, ...] = ()
    cutoff: time | None = None
    zone: tzinfo = UTC
    infer_after: timedelta | None = None
    infer_unseen_after: timedelta | None = None
    reroute_ends: timedelta = timedelta(days=30)
    needs_credit: bool = False
