"""Sub accounts as the API description shows them."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from quillpost.api.v2.schemas.common import PlainMoment

EXAMPLE: dict[str, Any] = {
    "id": 3,
    "user_id": 1,
    "title": "Austin office",
    "name": "Austin office",
    "return_name": "Dana Whitfield",
    "return_address": "500 Congress Ave",
    "return_address2": None,
    "return_city": "Austin",
    "return_state": "TX",
    "return_postal_code": "78701",
    "message_background_url": None,
    "postcard6x9_background_url": None,
    "notecard_background_url": None,
    "windowedletter_background_url": None,
    "windowlessletter_background_url": None,
    "branding_fields": {
        "accentColor": "#1f4e79",
        "symbol": None,
        "logo": None,
        "disclaimer": None,
        "headshot": None,
        "name": None,
        "email": None,
        "phone": None,
        "company": "Whitfield Homes",
        "domain": None,
        "set": None,
        "first_name": None,
    },
    "created_at": "2026-05-01 09:30:00",
    "updated_at": "2026-05-01 09:30:00",
}


class BrandingShape(BaseModel):
    accentColor: str | None  # noqa: N815
    symbol: str | None
    logo: str | None
    disclaimer: str | None
    headshot: str | None
    name: str | None
    email: str | None
    phone: str | None
    company: str | None
    domain: str | None
    set: bool | int | str | None = Field(description="As it came.")
    first_name: str | None


class SubAccountShape(BaseModel):
    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE]})

    id: int
    user_id: int
    title: str
    name: str = Field(description="The title, as older clients read it.")
    return_name: str | None
    return_address: str | None
    return_address2: str | None
    return_city: str | None
    return_state: str | None
    return_postal_code: str | None
    message_background_url: str | None
    postcard6x9_background_url: str | None
    notecard_background_url: str | None
    windowedletter_background_url: str | None
    windowlessletter_background_url: str | None
    branding_fields: BrandingShape
    created_at: PlainMoment
    updated_at: PlainMoment


class SubAccounts(BaseModel):
    model_config = ConfigDict(json_schema_extra={"examples": [{"data": [EXAMPLE]}]})

    data: list[SubAccountShape]
