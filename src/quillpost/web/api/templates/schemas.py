"""Bodies and responses of image and message templates."""

from collections.abc import Set
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field

from quillpost.orders.templates.rules import CARD_TYPES, GIFTCARD_TYPES, LETTER_TYPES, MAX_URL_LENGTH
from quillpost.web.api.bodies import (
    INTEGER,
    NON_BLANK_TEXT,
    NOT_BLANK,
    URL_TEXT,
    Body,
    Flag,
    Id,
    Text,
    WholeNumber,
    any_of,
    requires_fields,
)
from quillpost.web.api.giftcards.schemas import (
    LEGACY_AMOUNT_FIELD,
    LegacyAmount,
    SavedAmount,
    find_ignored_legacy_amount,
)
from quillpost.web.api.orders.schemas import Links, Meta, Money, PlainTimestamp, Timestamp, page_example
from quillpost.web.api.send.schemas import NotificationAddresses

ImageType = Literal["postcard", "letter", "notecard", "giftcard", "windowlessletter"]

IMAGE_EXAMPLE: dict[str, Any] = {
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
    model_config = ConfigDict(json_schema_extra={"examples": [IMAGE_EXAMPLE]})

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
    model_config = ConfigDict(json_schema_extra={"examples": [page_example("/image-templates", IMAGE_EXAMPLE)]})

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


MessageType = Literal["postcard", "postcard6x11", "letter", "windowlessletter", "notecard", "giftcard", "magnacard"]
FontSize = Literal["auto", "large", "medium", "small"]

MESSAGE_EXAMPLE: dict[str, Any] = {
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

    model_config = ConfigDict(json_schema_extra={"examples": [MESSAGE_EXAMPLE]})

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
    created_at: Timestamp
    updated_at: Timestamp


class MessageTemplatePage(BaseModel):
    model_config = ConfigDict(json_schema_extra={"examples": [page_example("/message-templates", MESSAGE_EXAMPLE)]})

    data: list[MessageTemplateShape]
    links: Links
    meta: Meta


MAX_CONTENT_LENGTH = 100_000
"""Far beyond what fits: how much is taken is a setting, and what fits is seen when it is sent."""


class MessageFields(Body):
    """What may be given on creation and changed later."""

    content: Annotated[Text, Field(max_length=MAX_CONTENT_LENGTH)] | None = Field(
        None,
        description="The handwritten text, which may hold variables such as %FIRST_NAME%."
        " Required unless there is a pdf_only_url.",
    )
    handwriting_style_id: WholeNumber | None = Field(
        None, validation_alias=AliasChoices("handwriting_style_id", "handwriting_style"), description="The hand's id."
    )
    font_size: FontSize | None = Field(None, description="Of effect on hands of type AI.")
    font_color: OptionalText = Field(None, description="blue, black, green, purple, red, #rrggbb, rgb() or rgba().")
    handwriting_realism: Flag | None = Field(None, description="Of effect on hands of type AI.")
    additional_pages: OptionalUrl = Field(None, description="A PDF whose pages follow the cover letter. Letters only.")
    pdf_only_url: OptionalUrl = Field(
        None,
        description="A PDF that is the whole mailer; sets skip_creative_generation. Letters only."
        " Not shown in answers.",
    )
    custom_background_url: OptionalUrl = Field(
        None, description="PNG or JPEG for the back of a postcard or magnacard, or inside a notecard or gift card."
    )
    qrcode_url: OptionalUrl = Field(
        None, description="Where the printed QR code leads. May hold variables, as ~FIRST_NAME~."
    )
    cc_emails: NotificationAddresses | None = Field(
        None, description="Who is told of scans: e-mail addresses, or phones as +15125550100@sms."
    )
    giftcard_brand_code: OptionalText = Field(
        None, description="The brand_code of one of GET /giftcard-brands. Required when the type is giftcard."
    )
    giftcard_amount: SavedAmount | None = Field(
        None, description="In cents, of the brand's available_amounts. Required when the type is giftcard."
    )
    giftcard_amount_in_cents: LegacyAmount = None
    landing_page_url: OptionalUrl = Field(
        None, description="A page that recipients must visit before they redeem. Gift cards only."
    )
    sub_account_id: Id | None = Field(
        None,
        validation_alias=AliasChoices("sub_account_id", "sub_account"),
        description="The sub account that it belongs to.",
    )

    @classmethod
    def ignored_in(cls, payload: Any) -> set[str]:
        return super().ignored_in(payload) | find_ignored_legacy_amount(payload)

    def draft_values(self) -> dict[str, Any]:
        """The named fields as a draft has them."""
        values = self.provided_fields()
        values.pop("sub_account_id", None)
        values.pop(LEGACY_AMOUNT_FIELD, None)
        if "content" in values:
            values["content"] = values["content"] or ""
        if "cc_emails" in values:
            values["cc_emails"] = tuple(values["cc_emails"] or ())
        return values


def _type_schema(names: Set[str]) -> dict[str, Any]:
    return {"type": "string", "enum": sorted(names)}


class NewMessageTemplate(MessageFields):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "type": "postcard",
                    "name": "Thank you",
                    "content": "Hi %FIRST_NAME|friend%, thank you for stopping by!",
                    "handwriting_style_id": 1,
                    "qrcode_url": "https://example.com/hello",
                    "cc_emails": ["dana@example.com"],
                }
            ],
            "allOf": [
                any_of(
                    [
                        requires_fields(content=NON_BLANK_TEXT),
                        requires_fields(type=_type_schema(LETTER_TYPES), pdf_only_url=URL_TEXT),
                        requires_fields(type=_type_schema(CARD_TYPES), custom_background_url=URL_TEXT),
                    ]
                ),
                any_of(
                    [
                        requires_fields(type=_type_schema(LETTER_TYPES | CARD_TYPES - GIFTCARD_TYPES)),
                        requires_fields(giftcard_brand_code=NON_BLANK_TEXT, giftcard_amount=INTEGER),
                    ]
                ),
            ],
        }
    )

    type: MessageType = Field(description="The piece that it is written on.")
    name: Name = Field(description="Yours; it is not printed.")


class MessageTemplateChanges(MessageFields):
    """What is not named stays, null clears."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"content": "Hi %FIRST_NAME%, see you soon!"}]})

    type: Annotated[MessageType, NOT_NULL] = Field(
        default_factory=lambda: "postcard",  # stands for "stays"
        description="The piece that it is written on; what that has no use for is removed.",
    )
    name: Annotated[Name, NOT_NULL] = Field(default_factory=str, description="Yours; not printed.")
