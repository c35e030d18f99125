"""The answers as the API description shows them. A test holds them against what is really sent."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

Money = Annotated[int, Field(description="In cents.")]
Moment = Annotated[str, Field(description="ISO 8601.", examples=["2026-05-01T09:30:00Z"])]
PlainMoment = Annotated[str, Field(description="UTC.", examples=["2026-05-01 09:30:00"])]
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


class SendResponse(BaseModel):
    id: int
    total_estimated_recipients: int
    authorization_total: Annotated[int, Field(description="Held for this order, in cents.")]
    leads_fee: Money
    mailing_list_ids_used: str
    handwriting_color: str
    front_image: str
    message: str
    append_or_current_resident: bool
    type: str
    size: str | None
    return_name: str | None
    return_address: str | None
    return_address2: str | None
    return_city: str | None
    return_province: str | None
    return_postal_code: str | None
    message_template_id: int | None
    image_template_id: int | None
    method: str
    sub_account_id: int | None
    sub_account: dict[str, Any] | None
    font_size: str
    qrcode_url: str | None
    custom_background_url: str | None
    giftcard_brand: str | None
    giftcard_image: str | None
    giftcard_amount: int | None
    giftcard_brand_longname: str
    status: str
    display_status: str
    display_trigger: str
    display_type: str
    style: int
    user_id: int
    created_at: PlainMoment
    updated_at: PlainMoment
    recipients: list[dict[str, str | None]]


class PreviewData(BaseModel):
    previews: list[str]
    sides: list[str]


class PreviewResponse(BaseModel):
    """What a send with `preview` = true answers: no order is made."""

    success: bool
    code: int
    message: str
    data: PreviewData


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


class OrderPage(BaseModel):
    data: list[OrderShape]
    links: Links
    meta: Meta


class ItemPage(BaseModel):
    data: list[ItemShape]
    links: Links
    meta: Meta


class WebhookShape(BaseModel):
    id: int
    user_id: int
    sub_account_id: int | None
    mailing_list_id: int | None
    url: str
    type: str
    verb: str
    mode: str
    description: str | None
    status: str
    invoke_count: int
    created_at: Moment
    updated_at: Moment


class WebhookCreated(WebhookShape):
    secret: str = Field(description="Shown this once.")


class WebhookPage(BaseModel):
    data: list[WebhookShape]
    links: Links
    meta: Meta


class HandwritingStyle(BaseModel):
    handwriting_style_id: int = Field(examples=[1])
    name: str = Field(examples=["Zeyada"])
    sample: str = Field(
        description="A PNG of one line in this hand.",
        examples=["https://mail.example.com/hands/1.png?v=0f3c5d7e9b1a"],
    )
    type: Literal["Realistic", "Bold", "International", "AI"] = Field(
        description="Those of type AI never write a letter twice alike.", examples=["AI"]
    )


class HandwritingStyles(BaseModel):
    data: list[HandwritingStyle]


class Message(BaseModel):
    message: str
