"""Message templates as the API description shows them."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from quillpost.api.v2.schemas.common import Links, Meta, Moment, Money, linked_example

MessageType = Literal[
    "postcard", "postcard6x11", "letter", "windowlessletter", "notecard", "giftcard", "magnacard"
]
FontSize = Literal["auto", "large", "medium", "small"]

EXAMPLE: dict[str, Any] = {
    "id": 12,
    "user_id": 1,
    "sub_account_id": None,
    "type": "postcard",
    "name": "Thank you",
    "content": "Hi %FIRST_NAME|friend%, thank you for stopping by!",
    "handwriting_style_id": 1,
    "font_size": "auto",
    "font_color": "blue",
    "handwriting_realism": True,
    "additional_pages": None,
    "skip_creative_generation": 0,
    "custom_background_url": None,
    "qrcode_url": "https://example.com/hello",
    "cc_emails": ["dana@example.com"],
    "giftcard_brand_code": None,
    "giftcard_brand_image": None,
    "giftcard_amount": None,
    "landing_page_url": None,
    "share_uuid": "2f0c1b34-8a56-4c0e-9d1f-6f0f6f9f2b11",
    "created_at": "2026-05-01T09:30:00Z",
    "updated_at": "2026-05-01T09:30:00Z",
}


class MessageTemplateShape(BaseModel):
    """How it is written is always said: what is not set is what a send does then. Elsewhere null is not set.
    `pdf_only_url` is given, and not shown: `skip_creative_generation` tells of it."""

    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE]})

    id: int
    user_id: int
    sub_account_id: int | None
    type: MessageType
    name: str
    content: str = Field(description="May hold variables such as %FIRST_NAME%; empty where a PDF is all.")
    handwriting_style_id: int
    font_size: FontSize
    font_color: str
    handwriting_realism: bool
    additional_pages: str | None
    skip_creative_generation: Literal[0, 1] = Field(description="1 where a PDF is the whole mailer.")
    custom_background_url: str | None
    qrcode_url: str | None
    cc_emails: list[str] = Field(description="Who is told when the QR code is scanned.")
    giftcard_brand_code: str | None
    giftcard_brand_image: str | None
    giftcard_amount: Money | None
    landing_page_url: str | None
    share_uuid: str
    created_at: Moment
    updated_at: Moment


class MessageTemplatePage(BaseModel):
    model_config = ConfigDict(json_schema_extra={"examples": [linked_example("/message-templates", EXAMPLE)]})

    data: list[MessageTemplateShape]
    links: Links
    meta: Meta
