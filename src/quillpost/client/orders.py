"""Orders: reading, following, changing and repeating them."""

from collections.abc import Mapping
from datetime import date, datetime
from typing import Any, Literal, TypedDict, Unpack

from quillpost.client.recipients import MailedRecipient
from quillpost.client.requests import Id, Kind, Request, Resource, listing, operation
from quillpost.client.send import SendTerms, Sent

ItemStatus = Literal[
    "Processing", "Printed", "In Transit", "In Local Area", "Processed for Delivery", "Delivered",
    "Re-routed", "Returned to Sender", "Failed",
]  # fmt: skip


class Order(TypedDict):
    id: int
    message: str
    size: str | None
    sub_account_id: int | None
    type: str
    display_type: str
    style: int
    front_image: str
    high_quality_preview: str
    authorization_total: int
    grand_total: int
    order_total: int
    total_estimated_recipients: int
    total_recipients: int
    recipient_count: int
    status: str
    method: str
    cancellable: bool
    total_scans: int
    metadata: dict[str, Any] | None
    created_at: str
    updated_at: str


class OrderRead(Order):
    """One order, with what deserves a look, or why it is held."""

    warnings: list[str]


class GiftCard(TypedDict):
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
    giftcard: GiftCard | None
    created_at: str


class ItemStep(TypedDict):
    status: ItemStatus
    previous_status: ItemStatus | None
    at: str
    place: str | None
    reason: str | None
    inferred: bool


class FoundItem(OrderItem):
    """A piece that does not come with its order."""

    order_id: int


class OrderItemRead(FoundItem):
    """One piece, with its dated history."""

    delivery_inferred: bool
    events: list[ItemStep]


class Unreached(MailedRecipient):
    failure: str | None


class Counts(TypedDict):
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


class Tracked(TypedDict):
    id: int
    order: Order
    stats: Counts
    errors: list[Unreached]
    returned: list[Unreached]


class Track(TypedDict):
    data: Tracked


class Cancelled(TypedDict):
    order: Order


class Stats(Counts):
    total_cost: str
    total_requests: int
    total_sent: int


class Found(TypedDict):
    matched_order_items: list[FoundItem]
    orders: list[Order]
    truncated: bool


class OrderFilter(TypedDict, total=False):
    items_per_page: int
    page: int
    sub_account_id: Id
    type: str
    status: str
    created_after: datetime | date | str
    created_before: datetime | date | str
    search: str
    metadata: Mapping[str, str]


class ItemFilter(TypedDict, total=False):
    items_per_page: int
    page: int
    status: ItemStatus
    search: str


class OrderChanges(TypedDict, total=False):
    message: str
    schedule_for: datetime | str | None
    metadata: Mapping[str, Any] | None


class Replay(SendTerms, total=False):
    """Whom to send it to, when, and with which metadata; all of it may be left out."""


class StatsFilter(TypedDict, total=False):
    start_date: date | str
    end_date: date | str
    sub_account_id: Id


class Search(TypedDict, total=False):
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
    def read(self, order_id: Id) -> Request[OrderRead]:
        """One order, with its warnings."""
        return Request(order_id)

    @operation("PUT /orders/{order_id}")
    def update(self, order_id: Id, **changes: Unpack[OrderChanges]) -> Request[OrderRead]:
        """Change an order while it is cancellable; it is checked and priced again."""
        return Request(order_id, body=changes)

    @operation("GET /orders/{order_id}/track")
    def track(self, order_id: Id) -> Request[Track]:
        """How many pieces stand where, and those that failed or came back."""
        return Request(order_id)

    @listing("/orders/{order_id}/items")
    def items(self, order_id: Id, **only: Unpack[ItemFilter]) -> Request[OrderItem]:
        """An order's pieces."""
        return Request(order_id, query=only)

    @operation("GET /order-items/{item_id}")
    def item(self, item_id: Id) -> Request[OrderItemRead]:
        """One piece, with its history."""
        return Request(item_id)

    # Of the three methods that cancel, POST takes a key: made again, it gives the first answer.
    @operation("POST /orders/{order_id}/cancel")
    def cancel(self, order_id: Id, *, idempotency_key: str | None = None) -> Request[Cancelled]:
        """Cancel an order while it is cancellable; what was authorised is given back."""
        return Request(order_id, idempotency_key=idempotency_key)

    @operation("POST /orders/{order_id}/replay")
    def replay(self, order_id: Id, *, idempotency_key: str | None = None, **changes: Unpack[Replay]) -> Request[Sent]:
        """The same once more, as a new order."""
        return Request(order_id, body=changes, idempotency_key=idempotency_key)

    @operation("POST /orders/{order_id}/release")
    def release(
        self, order_id: Id, *, reason: str | None = None, idempotency_key: str | None = None
    ) -> Request[OrderRead]:
        """For operators: a paused order goes to the press after all."""
        return Request(order_id, body={"reason": reason}, idempotency_key=idempotency_key)

    @operation("POST /orders/{order_id}/refuse")
    def refuse(self, order_id: Id, *, reason: str, idempotency_key: str | None = None) -> Request[OrderRead]:
        """For operators: an order that is held or under review ends; the sender reads the reason."""
        return Request(order_id, body={"reason": reason}, idempotency_key=idempotency_key)

    @operation("GET /orders/stats")
    def stats(self, **only: Unpack[StatsFilter]) -> Request[Stats]:
        """Counts over all orders of a time."""
        return Request(query=only)

    @operation("GET /orders/search")
    def search(self, **filters: Unpack[Search]) -> Request[Found]:
        """The pieces and orders that went to an address, an e-mail or a name."""
        return Request(query=filters)

    @operation("GET /orders/{order_id}/proof", is_file=True)
    def proof(self, order_id: Id) -> Request[bytes]:
        """The print-ready PDF of the order's first pieces."""
        return Request(order_id)
