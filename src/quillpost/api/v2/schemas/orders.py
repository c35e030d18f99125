"""Orders and items as the API description shows them."""

from typing import Any, Literal

from pydantic import BaseModel, Field

from quillpost.api.v2.schemas.common import Links, Meta, Moment, Money

ItemStatusName = Literal[
    "Processing", "Printed", "In Transit", "In Local Area", "Processed for Delivery", "Delivered",
    "Re-routed", "Returned to Sender", "Failed",
]  # fmt: skip


class OrderShape(BaseModel):
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
    total_estimated_recipients: int
    total_recipients: int = Field(description="0 until the review has ended.")
    recipient_count: int = Field(description="Pieces, those that were refused included.")
    status: str
    method: str
    cancellable: bool
    total_scans: int
    metadata: dict[str, Any] | None = Field(description="As it was sent; null when none was.")
    created_at: Moment
    updated_at: Moment


class OrderRead(OrderShape):
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
    id: int
    status: ItemStatusName
    delivery_date: str | None
    scans: int
    failure: str | None
    recipient: RecipientShape
    giftcard: GiftcardShape | None
    created_at: Moment


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
    data: TrackData


class CancelResponse(BaseModel):
    order: OrderShape


class OrderPage(BaseModel):
    data: list[OrderShape]
    links: Links
    meta: Meta


class ItemPage(BaseModel):
    data: list[ItemShape]
    links: Links
    meta: Meta
