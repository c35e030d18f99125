"""The bodies of message templates."""

from collections.abc import Set
from typing import Annotated, Any

from pydantic import AliasChoices, ConfigDict, Field

from quillpost.api.bodies import Body, Flag, Id, Text, Whole
from quillpost.api.requirements import ID, SAYS_SOMETHING, URL, any_of, has
from quillpost.api.v2.giftcard_fields import OLD_AMOUNT, OldAmount, SavedAmount, ignored_old_amount
from quillpost.api.v2.notified import Notified
from quillpost.api.v2.schemas.message_templates import FontSize, MessageType
from quillpost.api.v2.template_fields import NOT_NULL, MaybeText, MaybeUrl, Name
from quillpost.creative.message_rules import CARDS, GIFTCARD, LETTERS

LONGEST_CONTENT = 100_000
"""Far beyond what fits: how much is taken is a setting, and what fits is seen when it is sent."""


class MessageFields(Body):
    """What may be given on creation and changed later."""

    content: Annotated[Text, Field(max_length=LONGEST_CONTENT)] | None = Field(
        None,
        description="The handwritten text, which may hold variables such as %FIRST_NAME%."
        " Required unless there is a pdf_only_url.",
    )
    handwriting_style_id: Whole | None = Field(
        None,
        validation_alias=AliasChoices("handwriting_style_id", "handwriting_style"),
        description="The hand's id.",
    )
    font_size: FontSize | None = Field(None, description="Of effect on hands of type AI.")
    font_color: MaybeText = Field(
        None, description="blue, black, green, purple, red, #rrggbb, rgb() or rgba()."
    )
    handwriting_realism: Flag | None = Field(None, description="Of effect on hands of type AI.")
    additional_pages: MaybeUrl = Field(
        None, description="A PDF whose pages follow the cover letter. Letters only."
    )
    pdf_only_url: MaybeUrl = Field(
        None,
        description="A PDF that is the whole mailer; sets skip_creative_generation. Letters only."
        " Not shown in answers.",
    )
    custom_background_url: MaybeUrl = Field(
        None,
        description="PNG or JPEG for the back of a postcard or magnacard, or inside a notecard or gift card.",
    )
    qrcode_url: MaybeUrl = Field(
        None, description="Where the printed QR code leads. May hold variables, as ~FIRST_NAME~."
    )
    cc_emails: Notified | None = Field(
        None, description="Who is told of scans: e-mail addresses, or phones as +15125550100@sms."
    )
    giftcard_brand_code: MaybeText = Field(
        None,
        description="The brand_code of one of GET /giftcard-brands. Required when the type is giftcard.",
    )
    giftcard_amount: SavedAmount | None = Field(
        None, description="In cents, of the brand's available_amounts. Required when the type is giftcard."
    )
    giftcard_amount_in_cents: OldAmount = None
    landing_page_url: MaybeUrl = Field(
        None, description="A page that recipients must visit before they redeem. Gift cards only."
    )
    sub_account_id: Id | None = Field(
        None,
        validation_alias=AliasChoices("sub_account_id", "sub_account"),
        description="The sub account that it belongs to.",
    )

    @classmethod
    def ignored_in(cls, sent: Any) -> set[str]:
        return super().ignored_in(sent) | ignored_old_amount(sent)

    def told(self) -> dict[str, Any]:
        """The named fields as a draft has them."""
        values = self.given()
        values.pop("sub_account_id", None)
        values.pop(OLD_AMOUNT, None)
        if "content" in values:
            values["content"] = values["content"] or ""
        if "cc_emails" in values:
            values["cc_emails"] = tuple(values["cc_emails"] or ())
        return values


def _types(names: Set[str]) -> dict[str, Any]:
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
                        has(content=SAYS_SOMETHING),
                        has(type=_types(LETTERS), pdf_only_url=URL),
                        has(type=_types(CARDS), custom_background_url=URL),
                    ]
                ),
                any_of(
                    [
                        has(type=_types(LETTERS | CARDS - GIFTCARD)),
                        has(giftcard_brand_code=SAYS_SOMETHING, giftcard_amount=ID),
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
