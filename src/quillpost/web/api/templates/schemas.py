"""Bodies and responses of image and message templates."""

from collections.abc import Set
from typing import Annotated, Any

from pydantic import AfterValidator, AliasChoices, BeforeValidator, ConfigDict, Field, PlainValidator

from quillpost.client.send import FontSize, Manner
from quillpost.client.templates import (
    ImageTemplateType,
    ImageTemplateUpdate,
    MessageTemplateOptions,
    MessageTemplateType,
    MessageTemplateUpdate,
)
from quillpost.orders.templates.models import MessageTemplateValues
from quillpost.orders.templates.rules import CARD_TYPES, GIFTCARD_TYPES, LETTER_TYPES, MAX_URL_LENGTH
from quillpost.web.api.schemas import (
    INTEGER,
    MULTIPART,
    NON_BLANK_TEXT,
    NOT_BLANK,
    URL_TEXT,
    Body,
    Flag,
    FormFile,
    Id,
    Text,
    WholeNumber,
    accepts,
    any_of,
    requires_fields,
)
from quillpost.web.api.send.schemas import (
    LEGACY_AMOUNT_FIELD,
    LegacyAmount,
    NotificationAddresses,
    SavedAmount,
    check_legacy_amount,
    find_ignored_legacy_amount,
)


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

MAX_CONTENT_LENGTH = 100_000
"""Far beyond what fits: how much is taken is a setting, and what fits is seen when it is sent."""


@accepts(MessageTemplateOptions)
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
    font_size: FontSize | None = Field(None, description="Of effect on styles of type AI.")
    font_color: OptionalText = Field(None, description="blue, black, green, purple, red, #rrggbb, rgb() or rgba().")
    handwriting_realism: Flag | None = Field(
        None, description="true: natural writing; false: neat. Of effect on styles of type AI."
    )
    handwriting_manner: Manner | None = Field(
        None,
        description="neat, natural or lively; it wins over `handwriting_realism`. Of effect on styles of type AI."
        " Not shown in answers.",
    )
    signature_id: Id | None = Field(
        None,
        validation_alias=AliasChoices("signature_id", "signature"),
        description="The id of one of `GET /signatures`: it closes the message. Not shown in answers.",
    )
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

    def to_values(
        self, before: MessageTemplateValues, *, allows_legacy_fields: bool
    ) -> tuple[MessageTemplateValues, dict[str, str]]:
        """What a template that was like this before is to say, and what is wrong with it so far."""
        values, errors = self.provided_fields(), dict[str, str]()
        values.pop("sub_account_id", None)
        values.pop(LEGACY_AMOUNT_FIELD, None)
        if "handwriting_realism" in values:  # a former manner does not win over what is said now
            values.setdefault("handwriting_manner", None)
        if "content" in values:
            values["content"] = values["content"] or ""
        if "cc_emails" in values:
            values["cc_emails"] = tuple(values["cc_emails"] or ())
        requested, legacy_amount = before.with_values(values), self.giftcard_amount_in_cents
        if requested.type in GIFTCARD_TYPES and legacy_amount is not None:
            if error := check_legacy_amount(legacy_amount, is_allowed=allows_legacy_fields):
                errors[LEGACY_AMOUNT_FIELD] = error
            elif self.giftcard_amount is None:
                requested = requested.with_values({"giftcard_amount": legacy_amount})
        return requested, errors


def _type_schema(names: Set[str]) -> dict[str, Any]:
    return {"type": "string", "enum": sorted(names)}


@accepts(MessageTemplateUpdate)
class NewMessageTemplate(MessageFields):
    model_config = ConfigDict(
        json_schema_extra={
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
            ]
        }
    )

    type: MessageTemplateType = Field(description="The piece that it is written on.")
    name: Name = Field(description="Yours; it is not printed.")


@accepts(MessageTemplateUpdate)
class MessageTemplateChanges(MessageFields):
    """What is not named stays, null clears."""

    type: Annotated[MessageTemplateType, NOT_NULL] = Field(
        default_factory=lambda: "postcard",  # stands for "stays"
        description="The piece that it is written on; what that has no use for is removed.",
    )
    name: Annotated[Name, NOT_NULL] = Field(default_factory=str, description="Yours; not printed.")


def _check_image_value(value: object) -> str | FormFile:
    if isinstance(value, FormFile):
        return value
    if isinstance(value, str) and value.strip():
        return str(value).strip()
    raise ValueError(f"Give the URL of a PNG or JPEG, or upload one as {MULTIPART}.")


ImageUrlText = Annotated[str, Field(max_length=MAX_URL_LENGTH)]
ImageInput = Annotated[str | FormFile, PlainValidator(_check_image_value, json_schema_input_type=ImageUrlText)]
OptionalImageInput = Annotated[
    str | FormFile | None, PlainValidator(_check_image_value, json_schema_input_type=ImageUrlText)
]
IMAGE_DESCRIPTION = "The URL of a PNG or JPEG; or, in a form with files, the file itself."
DESIGN_TOOL_DESCRIPTION = "Its identifier in a design tool of yours."
SUB_ACCOUNT_DESCRIPTION = "The sub account that it belongs to."


@accepts(ImageTemplateUpdate)
class NewImageTemplate(Body):
    type: ImageTemplateType = Field(description="The piece that it is the front of.")
    name: Name = Field(description="Yours; it is not printed.")
    image: ImageInput = Field(validation_alias=AliasChoices("image", "image_url"), description=IMAGE_DESCRIPTION)
    design_tool_id: OptionalText = Field(None, description=DESIGN_TOOL_DESCRIPTION)
    sub_account_id: Id | None = Field(
        None, validation_alias=AliasChoices("sub_account_id", "sub_account"), description=SUB_ACCOUNT_DESCRIPTION
    )

    def column_values(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("type", "name", "design_tool_id", "sub_account_id")}


@accepts(ImageTemplateUpdate)
class ImageTemplateChanges(Body):
    """What is not named stays."""

    type: Annotated[ImageTemplateType, NOT_NULL] = Field(
        default_factory=lambda: "postcard",  # stands for "stays"
        description="The piece that it is the front of.",
    )
    name: Annotated[Name, NOT_NULL] = Field(default_factory=str, description="Yours; not printed.")
    image: OptionalImageInput = Field(
        None, validation_alias=AliasChoices("image", "image_url"), description=IMAGE_DESCRIPTION
    )
    design_tool_id: OptionalText = Field(None, description=DESIGN_TOOL_DESCRIPTION)
    sub_account_id: Id | None = Field(
        None, validation_alias=AliasChoices("sub_account_id", "sub_account"), description=SUB_ACCOUNT_DESCRIPTION
    )

    def column_values(self) -> dict[str, Any]:
        return {name: value for name, value in self.provided_fields().items() if name != "image"}


def to_image_source(image: str | FormFile) -> str | bytes:
    """The URL of an image, or the bytes of its file."""
    return image.body if isinstance(image, FormFile) else image
