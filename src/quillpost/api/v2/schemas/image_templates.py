"""Image templates as the API description shows them."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from quillpost.api.v2.schemas.common import Links, Meta, PlainMoment, linked_example

ImageType = Literal["postcard", "letter", "notecard", "giftcard", "windowlessletter"]

EXAMPLE: dict[str, Any] = {
    "id": 7,
    "user_id": 1,
    "sub_account_id": None,
    "type": "postcard",
    "name": "Spring sale",
    "image": "https://mail.example.com/files/pD0xv2",
    "design_tool_id": None,
    "created_at": "2026-05-01 09:30:00",
    "updated_at": "2026-05-01 09:30:00",
}


class ImageTemplateShape(BaseModel):
    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE]})

    id: int
    user_id: int
    sub_account_id: int | None
    type: ImageType
    name: str
    image: str = Field(description="The picture; whoever has this URL may look.")
    design_tool_id: str | None = Field(description="Its identifier in a design tool of yours.")
    created_at: PlainMoment
    updated_at: PlainMoment


class ImageTemplatePage(BaseModel):
    model_config = ConfigDict(json_schema_extra={"examples": [linked_example("/image-templates", EXAMPLE)]})

    data: list[ImageTemplateShape]
    links: Links
    meta: Meta
