"""The answers to a send as the API description shows them."""

from typing import Annotated, Any

from pydantic import BaseModel, Field

from quillpost.api.v2.schemas.common import Money, PlainMoment


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
