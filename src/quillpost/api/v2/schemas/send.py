"""The answers to a send as the API description shows them."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from pydantic.config import JsonDict

from quillpost.api.v2.schemas.common import Money, PlainMoment
from quillpost.api.v2.schemas.sub_accounts import SubAccountShape

SENT: JsonDict = {
    "id": 1001,
    "total_estimated_recipients": 1,
    "authorization_total": 129,
    "leads_fee": 0,
    "mailing_list_ids_used": "",
    "handwriting_color": "rgba(31,63,146,1)",
    "front_image": "https://mail.example.com/art/postcard-4x6.png",
    "message": "Hi %FIRST_NAME%, thank you for stopping by!",
    "append_or_current_resident": False,
    "type": "postcard",
    "size": "4x6",
    "return_name": "Dana Whitfield",
    "return_address": "1 Orchard Rd",
    "return_address2": None,
    "return_city": "Austin",
    "return_province": "TX",
    "return_postal_code": "78701",
    "message_template_id": None,
    "image_template_id": None,
    "method": "api",
    "sub_account_id": None,
    "sub_account": None,
    "font_size": "auto",
    "qrcode_url": None,
    "custom_background_url": None,
    "giftcard_brand": None,
    "giftcard_image": None,
    "giftcard_amount": None,
    "giftcard_brand_longname": "",
    "status": "reviewing",
    "display_status": "Reviewing",
    "display_trigger": "API",
    "display_type": "Postcard-4x6",
    "style": 1,
    "user_id": 1,
    "created_at": "2026-05-01 09:30:00",
    "updated_at": "2026-05-01 09:30:00",
    "recipients": [
        {
            "name": "Jane Doe",
            "address": "12 Main St",
            "address2": None,
            "city": "Austin",
            "province": "TX",
            "postal_code": "78701",
            "country": "US",
        }
    ],
}
PREVIEWED: JsonDict = {
    "success": True,
    "code": 200,
    "message": "OK",
    "data": {
        "previews": [
            "https://mail.example.com/files/5f3c.front.9b1a",
            "https://mail.example.com/files/5f3c.back.7e0d",
        ],
        "sides": ["front", "back"],
        "warnings": [],
    },
}


class SendResponse(BaseModel):
    model_config = ConfigDict(json_schema_extra={"examples": [SENT]})

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
    sub_account: SubAccountShape | None
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
    previews: list[str] = Field(description="PNGs, one a side or a page. They need no token and last a week.")
    sides: list[str] = Field(description="What each of them shows.")
    envelope: str | None = Field(None, description="The envelope, where the piece goes in one.")
    warnings: list[str] = Field(description="What deserves a look; X-Warnings says the same.")


class PreviewResponse(BaseModel):
    """What a send with `preview` = true answers: no order is made."""

    model_config = ConfigDict(json_schema_extra={"examples": [PREVIEWED]})

    success: bool
    code: int
    message: str
    data: PreviewData


ESTIMATED: JsonDict = {
    "message": "OK",
    "data": {
        "type": "postcard",
        "total_recipients": 98,
        "suppressed": 1,
        "duplicates": 1,
        "undeliverable": 0,
        "unit_price": 109,
        "leads_fee": 0,
        "giftcard_total": 0,
        "authorization_total": 10682,
        "test_mode": True,
        "warnings": [],
    },
}


class Estimate(BaseModel):
    type: str
    total_recipients: int = Field(description="How many would be mailed to.")
    suppressed: int = Field(description="On a suppression list.")
    duplicates: int = Field(description="Twice in the audience, or mailed the same within 36 hours.")
    undeliverable: int = Field(description="Without an address, or where we do not deliver.")
    unit_price: Money
    leads_fee: Money
    giftcard_total: int = Field(description="What all the gift cards are worth, in cents.")
    authorization_total: Money
    test_mode: bool
    warnings: list[str] = Field(description="What deserves a look; X-Warnings says the same.")


class EstimateResponse(BaseModel):
    model_config = ConfigDict(json_schema_extra={"examples": [ESTIMATED]})

    message: str
    data: Estimate


class StoredSend(BaseModel):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "stored_send_url": "https://mail.example.com/api/v2/stored_send/postcard/"
                    "0e4b5c1e-3c1d-4c8e-9d53-2f8a4c1b7a10"
                }
            ]
        }
    )

    stored_send_url: str = Field(description="GET or POST it with the same account's token to send.")
