"""The print room, for operators: batches, how far they are, what is printed again, and what is held."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Literal, NotRequired, Unpack

from typing_extensions import TypedDict

from quillpost.client.requests import Kind, Request, Resource, listing, operation
from quillpost.client.types import Doc, Id, Meta, Mode, Money, PageOptions, Timestamp

BatchStatus = Literal["new", "composed", "handed", "printed", "mailed"]


class Batch(TypedDict):
    id: int
    reference: Annotated[str, Doc("The name under which the printer knows it.")]
    mode: Mode
    status: BatchStatus
    piece: str
    mail_class: str
    stock: str
    rush: bool
    reprint_of: Annotated[int | None, Doc("The batch whose pieces are printed again in this one.")]
    pieces: int
    trouble: Annotated[str | None, Doc("Why its present step does not succeed, or what its printer says in vain.")]
    trouble_at: Timestamp | None
    created_at: Timestamp
    composed_at: Timestamp | None
    handed_at: Annotated[Timestamp | None, Doc("When the printer was given it.")]
    acknowledged_at: Timestamp | None
    printed_at: Timestamp | None
    mailed_at: Timestamp | None
    settled_at: Annotated[Timestamp | None, Doc("Since when no piece of it is on its way.")]


class BatchFile(TypedDict):
    name: str
    size: Annotated[int, Doc("In bytes.")]
    sha256: str
    secret: Annotated[bool, Doc("Whether it holds what gift cards are claimed with.")]
    url: Annotated[str, Doc("A link that opens it without a token, for a day; of a secret file the call for it.")]


class Serials(TypedDict):
    first: str
    last: str


class ZipGroup(TypedDict):
    zip3: str
    pieces: int
    first_position: int
    last_position: int


class Statement(TypedDict):
    """What the postal service's form asks for, summed up."""

    reference: str
    made_at: Timestamp
    piece: str
    mail_class: str
    mailer_id: str | None
    indicia: list[str]
    pieces: int
    with_barcode: int
    without_barcode: int
    domestic: int
    abroad: int
    serials: Serials | None
    by_zip3: Annotated[list[ZipGroup], Doc("As they lie in the print file.")]
    by_country: dict[str, int]


class BatchWithFiles(Batch):
    pieces_by_status: Annotated[dict[str, int], Doc("Where its pieces are, but for the void ones.")]
    void: Annotated[int, Doc("Pieces that were printed again since: these are not mailed.")]
    reprints: Annotated[list[int], Doc("The batches in which they were.")]
    files: Annotated[list[BatchFile], Doc("None before it is composed.")]
    statement: Annotated[Statement | None, Doc("The mailing statement; null before it is composed.")]


class OmittedPiece(TypedDict):
    position: Annotated[int, Doc("Its place in the batch of the call.")]
    item_id: int
    reason: str


class ReprintedBatch(BatchWithFiles):
    """The new batch."""

    left_out: Annotated[
        list[OmittedPiece], Doc("Pieces that are not printed again: ended, in the mail, or reprinted before.")
    ]


class BatchPageMeta(Meta):
    gaps: NotRequired[Annotated[list[str], Doc("Settings that are missing before anything is printed, if any.")]]


class HeldOrder(TypedDict):
    id: int
    account_id: int
    account_email: str
    sub_account_id: int | None
    type: str
    recipient_count: Annotated[int, Doc("Recipients: pieces, and those who are not mailed to.")]
    pieces: Annotated[int, Doc("What would be printed.")]
    grand_total: Money
    created_at: Timestamp
    paused_at: Annotated[Timestamp, Doc("Since when it waits for an operator.")]
    reasons: Annotated[list[str], Doc("What it is held for.")]


class RushResponse(TypedDict):
    message: str
    order_ids: Annotated[list[int], Doc("Those that go before the others from now on.")]


class PoolResponse(TypedDict):
    message: str
    orders: Annotated[int, Doc("How many orders need not wait for the cut-off any more.")]


class BatchFilter(PageOptions, total=False):
    status: BatchStatus
    open: bool


class SpoiledPieceOptions(TypedDict, total=False):
    """By its `position` in the batch, or by its `item_id`."""

    position: int
    item_id: Id
    reason: str


class MarkOptions(TypedDict, total=False):
    at: datetime | str
    spoiled: Sequence[SpoiledPieceOptions]


# One of them has a name that Python keeps for itself: `**{"from": 120, "to": 180}`.
ReprintOptions = TypedDict(
    "ReprintOptions", {"positions": Sequence[int], "from": int, "to": int, "item_ids": Sequence[Id]}, total=False
)


class PrintRoom(Resource[Kind]):
    @listing("/print/batches")
    def batches(self, **only: Unpack[BatchFilter]) -> Request[Batch]:
        """Production batches, newest first; `open`: not in the mail yet."""
        return Request(query=only)

    @operation("GET /print/batches/{batch_id}")
    def batch(self, batch_id: Id) -> Request[BatchWithFiles]:
        """One batch, with links to its files."""
        return Request(batch_id)

    @operation("GET /print/batches/{batch_id}/files/{name}", is_file=True)
    def file(self, batch_id: Id, name: str) -> Request[bytes]:
        """One of the batch's files, also a secret one. It is noted in the audit log."""
        return Request(batch_id, name)

    @operation("POST /print/batches/{batch_id}/mark")
    def mark(
        self,
        batch_id: Id,
        status: Literal["acknowledged", "printed", "mailed", "spoiled"],
        *,
        idempotency_key: str | None = None,
        **progress: Unpack[MarkOptions],
    ) -> Request[BatchWithFiles]:
        """How far the batch is, and which of its pieces are spoiled."""
        return Request(batch_id, body={"status": status, **progress}, idempotency_key=idempotency_key)

    @operation("POST /print/batches/{batch_id}/reprint")
    def reprint(
        self, batch_id: Id, *, reason: str, idempotency_key: str | None = None, **pieces: Unpack[ReprintOptions]
    ) -> Request[ReprintedBatch]:
        """Pieces of the batch once more, in a new batch under new barcodes; those that still can."""
        return Request(batch_id, body={"reason": reason, **pieces}, idempotency_key=idempotency_key)

    @operation("POST /print/batches/{batch_id}/retry")
    def retry(self, batch_id: Id, *, anew: bool = False, idempotency_key: str | None = None) -> Request[BatchWithFiles]:
        """Repeat the batch's current step now; `anew`: the partner that was offered it does not have it."""
        return Request(batch_id, body={"anew": anew}, idempotency_key=idempotency_key)

    @listing("/print/held")
    def held(self, **only: Unpack[PageOptions]) -> Request[HeldOrder]:
        """Every account's paused orders, oldest first."""
        return Request(query=only)

    @operation("POST /print/rush")
    def rush(self, order_ids: Sequence[Id], *, idempotency_key: str | None = None) -> Request[RushResponse]:
        """Let these orders go before the others."""
        return Request(body={"order_ids": list(order_ids)}, idempotency_key=idempotency_key)

    @operation("POST /print/pool")
    def pool(self, *, idempotency_key: str | None = None) -> Request[PoolResponse]:
        """Make batches of what waits, without waiting for the cut-off."""
        return Request(idempotency_key=idempotency_key)
