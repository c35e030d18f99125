"""Responses of image templates, and fields that all templates share."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from quillpost.orders.templates.rules import MAX_URL_LENGTH
from quillpost.web.api.bodies import NOT_BLANK, Text
from quillpost.web.api.orders.schemas import Links, Meta, PlainTimestamp, page_example

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
    created_at: PlainTimestamp
    updated_at: PlainTimestamp


class ImageTemplatePage(BaseModel):
    model_config = ConfigDict(json_schema_extra={"examples": [page_example("/image-templates", EXAMPLE)]})

    data: list[ImageTemplateShape]
    links: Links
    meta: Meta


def _require_not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("This cannot be blank.")
    return text


def _require_not_null(value: object) -> object:
    if value is None:
        raise ValueError("This cannot be null.")
    return value


def blank_to_none(text: str | None) -> str | None:
    return text if text and text.strip() else None


NOT_NULL = BeforeValidator(_require_not_null)
"""For a field of an update that may be left out, and not be emptied."""
Name = Annotated[
    Text, Field(max_length=255, json_schema_extra={"pattern": NOT_BLANK}), AfterValidator(_require_not_blank)
]
OptionalText = Annotated[Annotated[Text, Field(max_length=255)] | None, AfterValidator(blank_to_none)]
OptionalUrl = Annotated[Annotated[Text, Field(max_length=MAX_URL_LENGTH)] | None, AfterValidator(blank_to_none)]
