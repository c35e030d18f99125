"""The print room, for operators: batches, how far they are, what is printed again, and what is held."""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, TypedDict, Unpack

from quillpost.client.requests import Id, Kind, Request, Resource, listing, operation

BatchStatus = Literal["new", "composed", "handed", "printed", "mailed"]


class Batch(TypedDict):
    id: int
    reference: str
    mode: Literal["test", "live"]
    status: BatchStatus
    piece: str
    mail_class: str
    stock: str
    rush: bool
    reprint_of: int | None
    pieces: int
    trouble: str | None
    trouble_at: str | None
    created_at: str
    composed_at: str | None
    handed_at: str | None
    acknowledged_at: str | None
    printed_at: str | None
    mailed_at: str | None
    settled_at: str | None


class BatchFile(TypedDict):
    """`url` opens it without a token, for a day, unless it is `secret`: those are downloaded with `file`."""

    name: str
    size: int
    sha256: str
    secret: bool
    url: str


class Serials(TypedDict):
    first: str
    last: str


class ZipGroup(TypedDict):
    zip3: str
    pieces: int
    first_position: int
    last_position: int


class Statement(TypedDict):
    """The mailing statement, summed up."""

    reference: str
    made_at: str
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
    by_zip3: list[ZipGroup]
    by_country: dict[str, int]


class BatchRead(Batch):
    """One batch, with its files, its statement and where its pieces are."""

    pieces_by_status: dict[str, int]
    void: int
    reprints: list[int]
    files: list[BatchFile]
    statement: Statement | None


class LeftOut(TypedDict):
    """A piece that is not printed again; `position` is its place in the batch of the call."""

    position: int
    item_id: int
    reason: str


class Reprinted(BatchRead):
    """The new batch, and which pieces are not in it."""

    left_out: list[LeftOut]


class HeldOrder(TypedDict):
    """A paused order; `orders.release` and `orders.refuse` decide it."""

    id: int
    account_id: int
    account_email: str
    sub_account_id: int | None
    type: str
    recipient_count: int
    pieces: int
    grand_total: int
    created_at: str
    paused_at: str
    reasons: list[str]


class Rushed(TypedDict):
    message: str
    order_ids: list[int]


class Pooled(TypedDict):
    message: str
    orders: int


class BatchFilter(TypedDict, total=False):
    items_per_page: int
    page: int
    status: BatchStatus
    open: bool


class HeldFilter(TypedDict, total=False):
    items_per_page: int
    page: int


class SpoiledPiece(TypedDict, total=False):
    """By its `position` in the batch, or by its `item_id`."""

    position: int
    item_id: Id
    reason: str


class Progress(TypedDict, total=False):
    at: datetime | str
    spoiled: Sequence[SpoiledPiece]


# One of them has a name that Python keeps for itself: `**{"from": 120, "to": 180}`.
Pieces = TypedDict(
    "Pieces", {"positions": Sequence[int], "from": int, "to": int, "item_ids": Sequence[Id]}, total=False
)


class PrintRoom(Resource[Kind]):
    @listing("/print/batches")
    def batches(self, **only: Unpack[BatchFilter]) -> Request[Batch]:
        """Production batches, newest first; `open`: not in the mail yet."""
        return Request(query=only)

    @operation("GET /print/batches/{batch_id}")
    def batch(self, batch_id: Id) -> Request[BatchRead]:
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
        **progress: Unpack[Progress],
    ) -> Request[BatchRead]:
        """How far the batch is, and which of its pieces are spoiled."""
        return Request(batch_id, body={"status": status, **progress}, idempotency_key=idempotency_key)

    @operation("POST /print/batches/{batch_id}/reprint")
    def reprint(
        self, batch_id: Id, *, reason: str, idempotency_key: str | None = None, **pieces: Unpack[Pieces]
    ) -> Request[Reprinted]:
        """Pieces of the batch once more, in a new batch under new barcodes; those that still can."""
        return Request(batch_id, body={"reason": reason, **pieces}, idempotency_key=idempotency_key)

    @operation("POST /print/batches/{batch_id}/retry")
    def retry(self, batch_id: Id, *, anew: bool = False, idempotency_key: str | None = None) -> Request[BatchRead]:
        """Take the batch's present step again, now; `anew`: whom it was offered to does not have it."""
        return Request(batch_id, body={"anew": anew}, idempotency_key=idempotency_key)

    @listing("/print/held")
    def held(self, **only: Unpack[HeldFilter]) -> Request[HeldOrder]:
        """Every account's paused orders, oldest first."""
        return Request(query=only)

    @operation("POST /print/rush")
    def rush(self, order_ids: Sequence[Id], *, idempotency_key: str | None = None) -> Request[Rushed]:
        """Let these orders go before the others."""
        return Request(body={"order_ids": list(order_ids)}, idempotency_key=idempotency_key)

    @operation("POST /print/pool")
    def pool(self, *, idempotency_key: str | None = None) -> Request[Pooled]:
        """Make batches of what waits, without waiting for the cut-off."""
        return Request(idempotency_key=idempotency_key)
