"""Bodies and responses of the print room."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, AliasChoices, BaseModel, ConfigDict, Field

from quillpost.core.errors import Invalid
from quillpost.fulfillment.print_room.reports import MAX_REPRINTED_ITEMS, BatchSelection, SpoiledItem
from quillpost.fulfillment.review.service import MAX_REASON_LENGTH
from quillpost.web.api.bodies import (
    DIGITS,
    INTEGER,
    NON_EMPTY_ARRAY,
    NOT_BLANK,
    STOP_AT_ERROR_LIMIT,
    Body,
    Id,
    OptionalFlag,
    Text,
    all_of,
    any_of,
    find_ignored_in_rows,
    requires_fields,
    strip_or_none,
)
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


MAX_ORDERS = 1_000

Position = Annotated[int, Field(ge=1, le=1_000_000), DIGITS]


def _require_reason(text: str) -> str:
    if not text.strip():
        raise ValueError("Give a reason: the sender reads it.")
    return text.strip()


Reason = Annotated[Text, Field(json_schema_extra={"pattern": NOT_BLANK}), AfterValidator(_require_reason)]


class Release(Body):
    model_config = ConfigDict(json_schema_extra={"examples": [{"reason": "The sender likes it soft."}]})

    reason: Annotated[Text | None, AfterValidator(strip_or_none)] = Field(
        None, max_length=MAX_REASON_LENGTH, description="Why it may be printed all the same; kept for operators."
    )


class Refusal(Body):
    model_config = ConfigDict(json_schema_extra={"examples": [{"reason": "The picture is not yours to print."}]})

    reason: Reason = Field(max_length=MAX_REASON_LENGTH, description="Why it is not printed; the sender reads it.")


class SpoiledPiece(Body):
    """Either its place in the batch, from 1, or the id of its item."""

    position: Position | None = None
    item_id: Id | None = None
    reason: Annotated[Text | None, AfterValidator(strip_or_none)] = Field(None, max_length=MAX_REASON_LENGTH)


class Mark(Body):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"status": "printed", "at": "2026-05-05T08:30:00Z", "spoiled": [{"position": 17, "reason": "Torn"}]}
            ]
        }
    )

    status: Literal["acknowledged", "printed", "mailed", "spoiled"] = Field(
        description="How far it is; spoiled: nothing but that these pieces are."
    )
    at: Text | None = Field(
        None, max_length=64, description="When, ISO 8601; now if not said.", examples=["2026-05-05T08:30:00Z"]
    )
    spoiled: Annotated[list[SpoiledPiece], Field(max_length=MAX_REPRINTED_ITEMS), STOP_AT_ERROR_LIMIT] | None = Field(
        None, description="Pieces that cannot be used: they fail, and are not billed."
    )

    @classmethod
    def ignored_in(cls, payload: Any) -> set[str]:
        return super().ignored_in(payload) | find_ignored_in_rows(payload, "spoiled", _spoiled_field_names)

    def parse_time(self) -> datetime | None:
        if not self.at:
            return None
        try:
            at = datetime.fromisoformat(self.at)
        except ValueError:
            message = "Write an ISO 8601 date and time, such as 2026-05-05T08:30:00Z."
            raise Invalid({"at": [message]}) from None
        return at if at.tzinfo else at.replace(tzinfo=UTC)

    def spoiled_items(self) -> list[SpoiledItem]:
        return [SpoiledItem(item.position, item.item_id, item.reason) for item in self.spoiled or ()]


def _spoiled_field_names(_: Mapping[str, Any]) -> set[str]:
    return set(SpoiledPiece.model_fields)


class Reprint(Body):
    """Which pieces, in one of three ways, and why."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"from": 120, "to": 180, "reason": "The sheets were cut askew."}],
            **all_of(
                any_of(
                    [
                        requires_fields(positions=NON_EMPTY_ARRAY),
                        requires_fields(item_ids=NON_EMPTY_ARRAY),
                        requires_fields(**{"from": INTEGER, "to": INTEGER}),
                    ]
                )
            ),
        }
    )

    positions: Annotated[list[Position], Field(max_length=MAX_REPRINTED_ITEMS), STOP_AT_ERROR_LIMIT] | None = Field(
        None, description="These, by their places in the batch, from 1."
    )
    from_: Position | None = Field(None, validation_alias=AliasChoices("from"), description="From this place on.")
    to: Position | None = Field(None, description="Up to this place.")
    item_ids: Annotated[list[Id], Field(max_length=MAX_REPRINTED_ITEMS), STOP_AT_ERROR_LIMIT] | None = Field(
        None, description="These, by their items."
    )
    reason: Reason = Field(max_length=MAX_REASON_LENGTH, description="Why; kept in the log.")

    def selected_items(self) -> BatchSelection:
        return BatchSelection(
            positions=self.positions or (), first=self.from_, last=self.to, item_ids=self.item_ids or ()
        )


class Retry(Body):
    model_config = ConfigDict(json_schema_extra={"examples": [{"anew": True}]})

    anew: OptionalFlag = Field(
        False, description="True: the partner to whom it was offered does not have it; it goes to the present one."
    )


class Rush(Body):
    model_config = ConfigDict(json_schema_extra={"examples": [{"order_ids": [1001]}]})

    order_ids: Annotated[list[Id], Field(min_length=1, max_length=MAX_ORDERS), STOP_AT_ERROR_LIMIT] = Field(
        description="Which orders."
    )
