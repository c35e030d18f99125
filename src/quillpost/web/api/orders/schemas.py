"""Orders and items as the API's description shows them."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Money = Annotated[int, Field(description="In cents.")]
Timestamp = Annotated[str, Field(description="ISO 8601.", examples=["2026-05-01T09:30:00Z"])]
PlainTimestamp = Annotated[str, Field(description="UTC.", examples=["2026-05-01 09:30:00"])]


class Links(BaseModel):
    first: str | None
    last: str | None
    prev: str | None
    next: str | None


class Meta(BaseModel):
    current_page: int
    from_: int | None = Field(alias="from")
    last_page: int
    path: str
    per_page: int
    to: int | None
    total: int


class Message(BaseModel):
    model_config = ConfigDict(json_schema_extra={"examples": [{"message": "success"}]})

    message: str


def page_example(path: str, row: Mapping[str, Any]) -> dict[str, Any]:
    """The first of one page in the links + meta envelope, as an example shows it."""
    url = f"https://mail.example.com/api/v2{path}"
    return {
        "data": [dict(row)],
        "links": {"first": f"{url}?page=1", "last": f"{url}?page=1", "prev": None, "next": None},
        "meta": {"current_page": 1, "from": 1, "last_page": 1, "path": url, "per_page": 25, "to": 1, "total": 1},
    }


ItemStatusName = Literal[
    "Processing", "Printed", "In Transit", "In Local Area", "Processed for Delivery", "Delivered",
    "Re-routed", "Returned to Sender", "Failed",
]  # fmt: skip
CardEventName = Literal[
    "Gift card issued", "Gift card opened", "Gift card landing page visited", "Gift card claimed",
    "Gift card reported", "Gift card voided",
]  # fmt: skip

ORDER_EXAMPLE: dict[str, Any] = {
    "id": 1001,
    "message": "Hi %FIRST_NAME%, thank you for stopping by!",
    "size": "4x6",
    "sub_account_id": None,
    "type": "postcard",
    "display_type": "Postcard-4x6",
    "style": 1,
    "front_image": "https://mail.example.com/art/postcard-4x6.png",
    "high_quality_preview": "https://mail.example.com/files/5f3c.proof.9b1a",
    "authorization_total": 109,
    "grand_total": 109,
    "order_total": 109,
    "total_estimated_recipients": 1,
    "total_recipients": 1,
    "recipient_count": 1,
    "status": "Fulfilled",
    "method": "api",
    "cancellable": False,
    "total_scans": 0,
    "metadata": {"campaign": "spring", "customer": 42},
    "created_at": "2026-05-01T09:30:00Z",
    "updated_at": "2026-05-06T16:02:11Z",
}
RECIPIENT_EXAMPLE: dict[str, Any] = {
    "name": "Jane Doe",
    "company": None,
    "address": "12 Main St",
    "address2": None,
    "city": "Austin",
    "province": "TX",
    "postal_code": "78701",
    "country": "US",
    "email": "jane@example.com",
    "phone": None,
    **{f"custom{n}": None for n in range(1, 11)},
}
ITEM_EXAMPLE: dict[str, Any] = {
    "id": 5001,
    "status": "Delivered",
    "delivery_date": "2026-05-06",
    "scans": 0,
    "failure": None,
    "recipient": RECIPIENT_EXAMPLE,
    "giftcard": None,
    "created_at": "2026-05-01T09:30:00Z",
}
EVENT_DEFAULTS = {"place": None, "reason": None, "inferred": False}
EVENTS_EXAMPLE: list[dict[str, Any]] = [
    {"status": "Processing", "previous_status": None, "at": "2026-05-01T09:30:00Z"} | EVENT_DEFAULTS,
    {"status": "Printed", "previous_status": "Processing", "at": "2026-05-02T08:00:00Z"} | EVENT_DEFAULTS,
    {"status": "In Transit", "previous_status": "Printed", "at": "2026-05-03T19:40:00Z"}
    | EVENT_DEFAULTS
    | {"place": "Austin P&DC, Austin, TX 78710"},
    {"status": "Delivered", "previous_status": "In Transit", "at": "2026-05-06T16:02:11Z"}
    | EVENT_DEFAULTS
    | {"place": "Austin, TX 78701"},
]
ITEM_DETAILS_EXAMPLE: dict[str, Any] = {"order_id": 1001, "delivery_inferred": False, "events": EVENTS_EXAMPLE}
CARD_EVENTS_EXAMPLE: list[dict[str, Any]] = [
    {"status": "Gift card issued", "previous_status": None, "at": "2026-05-01T11:00:00Z"} | EVENT_DEFAULTS,
    {"status": "Gift card voided", "previous_status": None, "at": "2026-05-09T10:12:00Z"}
    | EVENT_DEFAULTS
    | {"reason": "Lost in the mail"},
]
VOIDED_EXAMPLE: dict[str, Any] = {
    "events": [EVENTS_EXAMPLE[0], CARD_EVENTS_EXAMPLE[0], *EVENTS_EXAMPLE[1:], CARD_EVENTS_EXAMPLE[1]],
    "reissued_as": 1002,
}
STATS_EXAMPLE: dict[str, Any] = {
    "processing": 0,
    "printed": 0,
    "in_transit": 0,
    "in_local_area": 0,
    "processed_for_delivery": 0,
    "delivered": 1,
    "re_routed": 0,
    "returned_to_sender": 0,
    "failed": 0,
    "scans": 0,
    "multi_scans": 0,
}


class OrderShape(BaseModel):
    model_config = ConfigDict(json_schema_extra={"examples": [ORDER_EXAMPLE]})

    id: int
    message: str
    size: str | None = Field(description="Only on postcards.")
    sub_account_id: int | None
    type: str
    display_type: str
    style: int = Field(description="The hand's id.")
    front_image: str
    high_quality_preview: str = Field(description="A PDF of the first pieces, as they are printed.")
    authorization_total: Money
    grand_total: Money
    order_total: Money
    total_estimated_recipients: int = Field(description="Pieces to be mailed, as counted when it was sent.")
    total_recipients: int = Field(description="Pieces that were mailed or will be. 0 until the review has ended.")
    recipient_count: int = Field(description="Recipients: pieces, and those who are not mailed to.")
    status: str
    method: str
    cancellable: bool
    total_scans: int
    metadata: dict[str, Any] | None = Field(description="As it was sent; null when none was.")
    created_at: Timestamp
    updated_at: Timestamp


class OrderRead(OrderShape):
    model_config = ConfigDict(json_schema_extra={"examples": [ORDER_EXAMPLE | {"warnings": []}]})

    warnings: list[str] = Field(description="What deserves a look, or why the order is held.")


class RecipientShape(BaseModel):
    name: str | None
    company: str | None
    address: str | None
    address2: str | None
    city: str | None
    province: str | None
    postal_code: str | None
    country: str | None
    email: str | None
    phone: str | None
    custom1: str | None
    custom2: str | None
    custom3: str | None
    custom4: str | None
    custom5: str | None
    custom6: str | None
    custom7: str | None
    custom8: str | None
    custom9: str | None
    custom10: str | None


class Unreached(RecipientShape):
    failure: str | None


class GiftcardShape(BaseModel):
    brand: str
    amount: int


class ItemShape(BaseModel):
    model_config = ConfigDict(json_schema_extra={"examples": [ITEM_EXAMPLE]})

    id: int
    status: ItemStatusName
    delivery_date: str | None
    scans: int
    failure: str | None
    recipient: RecipientShape
    giftcard: GiftcardShape | None
    created_at: Timestamp


class Stats(BaseModel):
    processing: int
    printed: int
    in_transit: int
    in_local_area: int
    processed_for_delivery: int
    delivered: int
    re_routed: int
    returned_to_sender: int
    failed: int
    scans: int
    multi_scans: int


class TrackData(BaseModel):
    id: int
    order: OrderShape
    stats: Stats
    errors: list[Unreached]
    returned: list[Unreached]


class TrackResponse(BaseModel):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"data": {"id": 1001, "order": ORDER_EXAMPLE, "stats": STATS_EXAMPLE, "errors": [], "returned": []}}
            ]
        }
    )

    data: TrackData


class CancelResponse(BaseModel):
    model_config = ConfigDict(json_schema_extra={"examples": [{"order": ORDER_EXAMPLE | {"status": "Cancelled"}}]})

    order: OrderShape


class OrderPage(BaseModel):
    model_config = ConfigDict(json_schema_extra={"examples": [page_example("/orders/list", ORDER_EXAMPLE)]})

    data: list[OrderShape]
    links: Links
    meta: Meta


class ItemPage(BaseModel):
    model_config = ConfigDict(json_schema_extra={"examples": [page_example("/orders/1001/items", ITEM_EXAMPLE)]})

    data: list[ItemShape]
    links: Links
    meta: Meta


class ItemEvent(BaseModel):
    status: ItemStatusName | CardEventName
    previous_status: ItemStatusName | None = Field(
        description="Null at first, and of what became of the gift card: the piece is where it was."
    )
    at: Timestamp = Field(description="When it happened, or when the carrier saw the piece.")
    place: str | None = Field(description="Where the carrier saw it.")
    reason: str | None = Field(
        description="Why it failed, came back or was forwarded; what was reported, or why a card is void."
    )
    inferred: bool = Field(description="A delivery that nobody saw: it is taken for granted after some days.")


class ItemRead(ItemShape):
    model_config = ConfigDict(json_schema_extra={"examples": [ITEM_EXAMPLE | ITEM_DETAILS_EXAMPLE]})

    order_id: int
    delivery_inferred: bool = Field(description="Nobody saw the delivery; see `events`.")
    events: list[ItemEvent] = Field(
        description="Where the piece has been, and what became of its gift card, oldest first."
    )


class ItemInvalidated(ItemRead):
    model_config = ConfigDict(json_schema_extra={"examples": [ITEM_EXAMPLE | ITEM_DETAILS_EXAMPLE | VOIDED_EXAMPLE]})

    reissued_as: int | None = Field(description="The order that brings another card in its place.")


class FoundItem(ItemShape):
    model_config = ConfigDict(json_schema_extra={"examples": [ITEM_EXAMPLE | {"order_id": 1001}]})

    order_id: int


class SearchResponse(BaseModel):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "matched_order_items": [ITEM_EXAMPLE | {"order_id": 1001}],
                    "orders": [ORDER_EXAMPLE],
                    "truncated": False,
                }
            ]
        }
    )

    matched_order_items: list[FoundItem] = Field(description="Newest first, at most 10,000.")
    orders: list[OrderShape] = Field(description="The orders of these items, each once, newest first.")
    truncated: bool = Field(description="Whether more items match than are shown.")


class OrderStats(Stats):
    model_config = ConfigDict(
        json_schema_extra={"examples": [STATS_EXAMPLE | {"total_cost": "$1.09", "total_requests": 1, "total_sent": 1}]}
    )

    total_cost: str = Field(description="What the orders cost that were not cancelled.", examples=["$1,234.56"])
    total_requests: int = Field(description="Orders.")
    total_sent: int = Field(description="Pieces that were printed, or came further.")
