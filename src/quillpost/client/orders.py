"""Orders: reading, following, changing and repeating them."""

from collections.abc import Mapping
from datetime import date, datetime
from typing import Annotated, Any, Literal, Unpack

from typing_extensions import TypedDict

from quillpost.client.recipients import MailedRecipient
from quillpost.client.requests import Kind, Request, Resource, listing, operation
from quillpost.client.send import SendResponse, SendTerms
from quillpost.client.types import Doc, Id, Money, PageOptions, Timestamp

ItemStatus = Literal[
    "Processing", "Printed", "In Transit", "In Local Area", "Processed for Delivery", "Delivered",
    "Re-routed", "Returned to Sender", "Failed",
]  # fmt: skip
GiftcardEvent = Literal[
    "Gift card issued", "Gift card opened", "Gift card landing page visited", "Gift card claimed",
    "Gift card reported", "Gift card voided",
]  # fmt: skip


class Order(TypedDict):
    id: int
    message: str
    size: Annotated[str | None, Doc("Only on postcards.")]
    sub_account_id: int | None
    type: str
    display_type: str
    style: Annotated[int, Doc("The hand's id.")]
    front_image: str
    high_quality_preview: Annotated[str, Doc("A PDF of the first pieces, as they are printed.")]
    authorization_total: Money
    grand_total: Money
    order_total: Money
    total_estimated_recipients: Annotated[int, Doc("Pieces to be mailed, as counted when it was sent.")]
    total_recipients: Annotated[int, Doc("Pieces that were mailed or will be. 0 until the review has ended.")]
    recipient_count: Annotated[int, Doc("Recipients: pieces, and those who are not mailed to.")]
    status: str
    method: str
    cancellable: bool
    total_scans: int
    metadata: Annotated[dict[str, Any] | None, Doc("As it was sent; null when none was.")]
    created_at: Timestamp
    updated_at: Timestamp


class OrderDetails(Order):
    warnings: Annotated[list[str], Doc("What deserves a look, or why the order is held.")]


class IssuedGiftcard(TypedDict):
    brand: str
    amount: int


class OrderItem(TypedDict):
    """One mail piece for one recipient."""

    id: int
    status: ItemStatus
    delivery_date: str | None
    scans: int
    failure: str | None
    recipient: MailedRecipient
    giftcard: IssuedGiftcard | None
    created_at: Timestamp


class ItemHistoryEvent(TypedDict):
    status: ItemStatus | GiftcardEvent
    previous_status: Annotated[
        ItemStatus | None, Doc("Null at first, and of what became of the gift card: the piece is where it was.")
    ]
    at: Annotated[Timestamp, Doc("When it happened, or when the carrier saw the piece.")]
    place: Annotated[str | None, Doc("Where the carrier saw it.")]
    reason: Annotated[
        str | None, Doc("Why it failed, came back or was forwarded; what was reported, or why a card is void.")
    ]
    inferred: Annotated[bool, Doc("A delivery that nobody saw: it is taken for granted after some days.")]


class OrderItemDetails(OrderItem):
    order_id: int
    delivery_inferred: Annotated[bool, Doc("Nobody saw the delivery; see `events`.")]
    events: Annotated[
        list[ItemHistoryEvent], Doc("Where the piece has been, and what became of its gift card, oldest first.")
    ]


class MatchedItem(OrderItem):
    order_id: int


class FailedRecipient(MailedRecipient):
    failure: str | None


class StatusCounts(TypedDict):
    """How many pieces stand where, and how often they were scanned."""

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


class OrderTracking(TypedDict):
    id: int
    order: Order
    stats: StatusCounts
    errors: list[FailedRecipient]
    returned: list[FailedRecipient]


class TrackResponse(TypedDict):
    data: OrderTracking


class CancelResponse(TypedDict):
    order: Order


class OrderStats(StatusCounts):
    total_cost: Annotated[str, Doc("What the orders cost that were not cancelled.", examples=["$1,234.56"])]
    total_requests: Annotated[int, Doc("Orders.")]
    total_sent: Annotated[int, Doc("Pieces that were printed, or came further.")]


class SearchResponse(TypedDict):
    matched_order_items: Annotated[list[MatchedItem], Doc("Newest first, at most 10,000.")]
    orders: Annotated[list[Order], Doc("The orders of these items, each once, newest first.")]
    truncated: Annotated[bool, Doc("Whether more items match than are shown.")]


class OrderFilter(PageOptions, total=False):
    sub_account_id: Id
    type: str
    status: str
    created_after: datetime | date | str
    created_before: datetime | date | str
    search: str
    metadata: Mapping[str, str]


class ItemFilter(PageOptions, total=False):
    status: ItemStatus
    search: str


class OrderUpdate(TypedDict, total=False):
    message: str
    schedule_for: datetime | str | None
    metadata: Mapping[str, Any] | None


class ReplayOptions(SendTerms, total=False):
    """Whom to send it to, when, and with which metadata; all of it may be left out."""


class StatsFilter(TypedDict, total=False):
    start_date: date | str
    end_date: date | str
    sub_account_id: Id


class SearchOptions(TypedDict, total=False):
    street_address: str
    email: str
    name: str
    sub_account_id: Id


class Orders(Resource[Kind]):
    @listing("/orders/list")
    def list(self, **only: Unpack[OrderFilter]) -> Request[Order]:
        """Orders, newest first; `metadata` keeps those whose metadata has these values, `search` those that
        go to someone who has its words."""
        return Request(query=only)

    @operation("GET /orders/{order_id}")
    def read(self, order_id: Id) -> Request[OrderDetails]:
        """One order, with its warnings."""
        return Request(order_id)

    @operation("PUT /orders/{order_id}")
    def update(self, order_id: Id, **changes: Unpack[OrderUpdate]) -> Request[OrderDetails]:
        """Change an order while it is cancellable; it is checked and priced again."""
        return Request(order_id, body=changes)

    @operation("GET /orders/{order_id}/track")
    def track(self, order_id: Id) -> Request[TrackResponse]:
        """How many pieces stand where, and those that failed or came back."""
        return Request(order_id)

    @listing("/orders/{order_id}/items")
    def items(self, order_id: Id, **only: Unpack[ItemFilter]) -> Request[OrderItem]:
        """An order's pieces."""
        return Request(order_id, query=only)

    @operation("GET /order-items/{item_id}")
    def item(self, item_id: Id) -> Request[OrderItemDetails]:
        """One piece, with its history."""
        return Request(item_id)

    # Of the three methods that cancel, POST takes a key: made again, it gives the first answer.
    @operation("POST /orders/{order_id}/cancel")
    def cancel(self, order_id: Id, *, idempotency_key: str | None = None) -> Request[CancelResponse]:
        """Cancel an order while it is cancellable; what was authorised is given back."""
        return Request(order_id, idempotency_key=idempotency_key)

    @operation("POST /orders/{order_id}/replay")
    def replay(
        self, order_id: Id, *, idempotency_key: str | None = None, **changes: Unpack[ReplayOptions]
    ) -> Request[SendResponse]:
        """The same once more, as a new order."""
        return Request(order_id, body=changes, idempotency_key=idempotency_key)

    @operation("POST /orders/{order_id}/release")
    def release(
        self, order_id: Id, *, reason: str | None = None, idempotency_key: str | None = None
    ) -> Request[OrderDetails]:
        """For operators: a paused order goes to the press after all."""
        return Request(order_id, body={"reason": reason}, idempotency_key=idempotency_key)

    @operation("POST /orders/{order_id}/refuse")
    def refuse(self, order_id: Id, *, reason: str, idempotency_key: str | None = None) -> Request[OrderDetails]:
        """For operators: an order that is held or under review ends; the sender reads the reason."""
        return Request(order_id, body={"reason": reason}, idempotency_key=idempotency_key)

    @operation("GET /orders/stats")
    def stats(self, **only: Unpack[StatsFilter]) -> Request[OrderStats]:
        """Counts over all orders of a time."""
        return Request(query=only)

    @operation("GET /orders/search")
    def search(self, **filters: Unpack[SearchOptions]) -> Request[SearchResponse]:
        """The pieces and orders that went to an address, an e-mail or a name."""
        return Request(query=filters)

    @operation("GET /orders/{order_id}/proof", is_file=True)
    def proof(self, order_id: Id) -> Request[bytes]:
        """The print-ready PDF of the order's first pieces."""
        return Request(order_id)
