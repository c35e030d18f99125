"""Production batches and held orders as the API description shows them."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from quillpost.web.api.orders.schemas import Links, Meta, Money, Timestamp, page_example

BATCH_EXAMPLE: dict[str, Any] = {
    "id": 7,
    "reference": "batch-000007",
    "mode": "live",
    "status": "printed",
    "piece": "postcard-4x6",
    "mail_class": "first",
    "stock": "120 lb cover",
    "rush": False,
    "reprint_of": None,
    "pieces": 2,
    "trouble": None,
    "trouble_at": None,
    "created_at": "2026-05-04T12:00:00Z",
    "composed_at": "2026-05-04T12:00:05Z",
    "handed_at": "2026-05-04T12:00:07Z",
    "acknowledged_at": "2026-05-04T12:05:00Z",
    "printed_at": "2026-05-05T08:30:00Z",
    "mailed_at": None,
    "settled_at": None,
}
STATEMENT_EXAMPLE: dict[str, Any] = {
    "reference": "batch-000007",
    "made_at": "2026-05-04T12:00:00Z",
    "piece": "postcard-4x6",
    "mail_class": "first",
    "mailer_id": "123456",
    "indicia": ["FIRST-CLASS MAIL", "U.S. POSTAGE PAID", "PERMIT 1"],
    "pieces": 2,
    "with_barcode": 1,
    "without_barcode": 1,
    "domestic": 1,
    "abroad": 1,
    "serials": {"first": "000000017", "last": "000000017"},
    "by_zip3": [{"zip3": "787", "pieces": 1, "first_position": 2, "last_position": 2}],
    "by_country": {"CA": 1},
}
BATCH_DETAILS_EXAMPLE: dict[str, Any] = BATCH_EXAMPLE | {
    "pieces_by_status": {"Printed": 1, "Failed": 1},
    "void": 0,
    "reprints": [],
    "files": [
        {
            "name": "print.pdf",
            "size": 48213,
            "sha256": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
            "secret": False,
            "url": "https://mail.example.com/files/5f3c9b1a",
        }
    ],
    "statement": STATEMENT_EXAMPLE,
}
REPRINT_EXAMPLE: dict[str, Any] = BATCH_DETAILS_EXAMPLE | {
    "id": 8,
    "reference": "batch-000008",
    "status": "new",
    "rush": True,
    "reprint_of": 7,
    "composed_at": None,
    "handed_at": None,
    "acknowledged_at": None,
    "printed_at": None,
    "pieces_by_status": {"Printed": 2},
    "files": [],
    "statement": None,
    "left_out": [{"position": 3, "item_id": 5003, "reason": "In the mail already (In Transit)."}],
}
HELD_ORDER_EXAMPLE: dict[str, Any] = {
    "id": 1001,
    "account_id": 12,
    "account_email": "dana@example.com",
    "sub_account_id": None,
    "type": "postcard",
    "recipient_count": 251,
    "pieces": 250,
    "grand_total": 27250,
    "created_at": "2026-05-04T12:00:00Z",
    "paused_at": "2026-05-04T13:00:00Z",
    "reasons": ["A picture would print at 48 dpi, below the 75 that are asked for, and look blurred."],
}

BatchStatus = Literal["new", "composed", "handed", "printed", "mailed"]


class BatchShape(BaseModel):
    model_config = ConfigDict(json_schema_extra={"examples": [BATCH_EXAMPLE]})

    id: int
    reference: str = Field(description="The name under which the printer knows it.")
    mode: Literal["test", "live"]
    status: BatchStatus
    piece: str
    mail_class: str
    stock: str
    rush: bool
    reprint_of: int | None = Field(description="The batch whose pieces are printed again in this one.")
    pieces: int
    trouble: str | None = Field(description="Why its present step does not succeed, or what its printer says in vain.")
    trouble_at: Timestamp | None
    created_at: Timestamp
    composed_at: Timestamp | None
    handed_at: Timestamp | None = Field(description="When the printer was given it.")
    acknowledged_at: Timestamp | None
    printed_at: Timestamp | None
    mailed_at: Timestamp | None
    settled_at: Timestamp | None = Field(description="Since when no piece of it is on its way.")


class BatchFile(BaseModel):
    name: str
    size: int = Field(description="In bytes.")
    sha256: str
    secret: bool = Field(description="Whether it holds what gift cards are claimed with.")
    url: str = Field(description="A link that opens it without a token, for a day; of a secret file the call for it.")


class Serials(BaseModel):
    first: str
    last: str


class ZipGroup(BaseModel):
    zip3: str
    pieces: int
    first_position: int
    last_position: int


class Statement(BaseModel):
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
    by_zip3: list[ZipGroup] = Field(description="As they lie in the print file.")
    by_country: dict[str, int]


class BatchRead(BatchShape):
    model_config = ConfigDict(json_schema_extra={"examples": [BATCH_DETAILS_EXAMPLE]})

    pieces_by_status: dict[str, int] = Field(description="Where its pieces are, but for the void ones.")
    void: int = Field(description="Pieces that were printed again since: these are not mailed.")
    reprints: list[int] = Field(description="The batches in which they were.")
    files: list[BatchFile] = Field(description="None before it is composed.")
    statement: Statement | None = Field(description="The mailing statement; null before it is composed.")


class LeftOut(BaseModel):
    position: int = Field(description="Its place in the batch of the call.")
    item_id: int
    reason: str


class Reprinted(BatchRead):
    """The new batch."""

    model_config = ConfigDict(json_schema_extra={"examples": [REPRINT_EXAMPLE]})

    left_out: list[LeftOut] = Field(
        description="Pieces that are not printed again: ended, in the mail, or reprinted before."
    )


class BatchMeta(Meta):
    gaps: list[str] = Field([], description="Settings that are missing before anything is printed, if any.")


class BatchPage(BaseModel):
    model_config = ConfigDict(json_schema_extra={"examples": [page_example("/print/batches", BATCH_EXAMPLE)]})

    data: list[BatchShape]
    links: Links
    meta: BatchMeta


class HeldOrder(BaseModel):
    model_config = ConfigDict(json_schema_extra={"examples": [HELD_ORDER_EXAMPLE]})

    id: int
    account_id: int
    account_email: str
    sub_account_id: int | None
    type: str
    recipient_count: int = Field(description="Recipients: pieces, and those who are not mailed to.")
    pieces: int = Field(description="What would be printed.")
    grand_total: Money
    created_at: Timestamp
    paused_at: Timestamp = Field(description="Since when it waits for an operator.")
    reasons: list[str] = Field(description="What it is held for.")


class HeldPage(BaseModel):
    model_config = ConfigDict(json_schema_extra={"examples": [page_example("/print/held", HELD_ORDER_EXAMPLE)]})

    data: list[HeldOrder]
    links: Links
    meta: Meta


class Rushed(BaseModel):
    model_config = ConfigDict(json_schema_extra={"examples": [{"message": "success", "order_ids": [1001]}]})

    message: str
    order_ids: list[int] = Field(description="Those that go before the others from now on.")


class Pooled(BaseModel):
    model_config = ConfigDict(json_schema_extra={"examples": [{"message": "success", "orders": 12}]})

    message: str
    orders: int = Field(description="How many orders need not wait for the cut-off any more.")
