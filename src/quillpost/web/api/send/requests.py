"""The bodies of sends, and the calls they make. A field that a piece does not use is not in its body."""

from collections.abc import Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from pydantic import AliasChoices, BeforeValidator, ConfigDict, Field

from quillpost.app.container import Limits
from quillpost.client import send as wire
from quillpost.client.orders import ReplayOptions
from quillpost.core import exact_json
from quillpost.orders.models import FIELD_ATTRIBUTES, FieldErrors, OrderRequest, ReplayRequest
from quillpost.orders.products import GIFTCARD, LETTER, MAGNACARD, NOTECARD, POSTCARD, WINDOWLESS_LETTER, Product
from quillpost.orders.requests.rules import check_schedule
from quillpost.recipients.rules import check_recipient
from quillpost.rendering.models import ReturnAddress
from quillpost.web.api.radius.schemas import RadiusCenterFields, RadiusOfSend, find_ignored_in_radius
from quillpost.web.api.schemas import (
    DIGITS,
    NULL_MEANS_DEFAULT,
    STOP_AT_ERROR_LIMIT,
    Body,
    Flag,
    FormText,
    Id,
    OptionalFlag,
    Text,
    WholeNumber,
    accepts,
)
from quillpost.web.api.send import schemas
from quillpost.web.api.send.schemas import (
    LEGACY_AMOUNT_FIELD,
    Amount,
    InlineRecipients,
    LegacyAmount,
    Metadata,
    NotificationAddresses,
    OptionalLine,
    OptionalUrlText,
    Schedule,
    check_legacy_amount,
    find_ignored_in_recipients,
    find_ignored_legacy_amount,
)

MAX_LISTS = 100
MAX_TEXT_LENGTH = 100_000
"""Whatever an operator's limit for messages is: beyond it nothing is even looked at."""
NO_SUCH_RECIPIENT = (
    "There is no such recipient: only those in recipients are counted, from 0 on; people of lists are not."
)
ONE_LINE_HINT = "write it whole on one line in return_address: 12 Main St, Austin, TX 78701."
RETURN_ADDRESS_FIELDS = {
    "address": "return_address",
    "address2": "return_address2",
    "city": "return_city",
    "province": "return_state",
    "postal_code": "return_postal_code",
}
REQUIRED_ADDRESS_PARTS = {
    "address": "Give the street as well, or none of it: the account's is used then.",
    "city": f"A return address needs a city, or {ONE_LINE_HINT}",
    "province": f"A return address needs a state, or {ONE_LINE_HINT}",
    "postal_code": f"A return address needs a ZIP or postal code, or {ONE_LINE_HINT}",
}

PREVIEW = frozenset({"preview"})
"""What a client calls another method for."""

ORDER_ATTRIBUTES = frozenset(field.name for field in fields(OrderRequest))
STRIPPED_ATTRIBUTES = frozenset(name for name in ORDER_ATTRIBUTES if name.endswith("_url")) | {"giftcard_brand"}


def _split_ids(value: object) -> object:
    return [part.strip() for part in value.split(",")] if isinstance(value, FormText) else value


@accepts(wire.AnySend, beside=PREVIEW)
class SendBody(RadiusCenterFields):
    """What every send may say."""

    preview: OptionalFlag = Field(False, description="Answer with PNG links; no order is made.")
    rows: ClassVar[str | None] = "recipients"

    recipients: InlineRecipients | None = Field(None, description="Whom to mail to, at most 5,000.")
    mailing_list_ids: (
        Annotated[list[Id], Field(max_length=MAX_LISTS), STOP_AT_ERROR_LIMIT, BeforeValidator(_split_ids)] | None
    ) = Field(
        None,
        validation_alias=AliasChoices("mailing_list_ids", "mailing_lists"),
        description="Saved lists to mail to; may be combined with recipients.",
    )
    radius_search: RadiusOfSend | None = Field(
        None,
        description="The nearest to an address, bought for this send onto a list of their own, 5 cents each;"
        " it stands alone. Other clients' `radius_center` (an address, whole or in parts), with"
        " `radius_distance_miles`, `record_count` and `record_types` beside it, is taken for it.",
    )
    front_image_url: OptionalUrlText = Field(
        None,
        description="PNG or JPEG for the front of a card, or under the cover of a letter. It may hold"
        " variables, as ~FIRST_NAME~; without a front a card is plain, or shows the sub account's branding.",
        examples=["https://example.com/front.png"],
    )
    image_template: Id | None = Field(
        None, validation_alias=AliasChoices("image_template", "image_template_id"), description="A saved front."
    )
    message: Text | None = Field(
        None,
        max_length=MAX_TEXT_LENGTH,
        description="The handwritten text; variables such as %FIRST_NAME% or %FIRST_NAME|friend% are filled.",
        examples=["Hi %FIRST_NAME%, thank you for stopping by!"],
    )
    message_template: Id | None = Field(
        None,
        validation_alias=AliasChoices("message_template", "message_template_id"),
        description="A saved message with its settings; what the call says itself wins.",
    )
    use_custom_background: OptionalFlag = Field(
        True,
        description="False: neither the template's nor the sub account's background is printed; one of the"
        " call's own is.",
    )
    send_standard_mail: OptionalFlag = Field(False, description="Standard mail instead of first class; US only.")
    handwriting_style: WholeNumber | None = Field(
        None,
        validation_alias=AliasChoices("handwriting_style", "handwriting_style_id"),
        description="The hand's id; 1 when neither the call nor its template says.",
    )
    handwriting_color: OptionalLine = Field(
        None, description="blue (when nothing is said), black, green, purple, red, #rrggbb, rgb() or rgba()."
    )
    handwriting_realism: Flag | None = Field(
        None, description="true: natural writing, which is the default; false: neat. Of effect on styles of type AI."
    )
    handwriting_manner: wire.Manner | None = Field(
        None,
        description="neat, natural or lively: how much letters vary and lines wander. It wins over"
        " `handwriting_realism`. Of effect on styles of type AI.",
    )
    font_size: Literal["auto", "large", "medium", "small"] | None = Field(
        None, description="auto, the largest that fits, when nothing is said."
    )
    signature: Id | None = Field(
        None,
        validation_alias=AliasChoices("signature", "signature_id"),
        description="The id of one of `GET /signatures`: it closes the message, in the ink of the note.",
    )
    qrcode_url: OptionalUrlText = Field(
        None, description="Where the printed QR code leads; variables are filled for each recipient."
    )
    metadata: Metadata = None
    sub_account_id: Id | None = Field(
        None, validation_alias=AliasChoices("sub_account_id", "sub_account"), description="The sub account that sends."
    )
    notification_emails: NotificationAddresses | None = Field(
        None,
        validation_alias=AliasChoices("notification_emails", "email_additional"),
        description="Who is told of scans: e-mail addresses, and +15125550100@sms for a text message; an array, or "
        "one text with commas.",
    )
    return_name: OptionalLine = Field(None, description="Return address; else the sub account's or account's.")
    return_address: OptionalLine = Field(
        None, description="Street and number; or the whole on one line, as 12 Main St, Austin, TX 78701."
    )
    return_address2: OptionalLine = Field(None, description="Unit.")
    return_city: OptionalLine = Field(None, description="City.")
    return_state: OptionalLine = Field(
        None, validation_alias=AliasChoices("return_state", "return_province"), description="State or province."
    )
    return_postal_code: OptionalLine = Field(None, description="ZIP or postal code.")
    append_or_current_resident: OptionalFlag = Field(False, description='Adds "or current resident".')
    allow_duplicates: OptionalFlag = Field(
        False, description="Mail to addresses too that had the same piece within the last 36 hours."
    )
    schedule_for: Schedule = None
    preview_recipient: Annotated[int, Field(ge=0), DIGITS] | None = Field(
        None,
        description="Whose piece a preview shows: a place among recipients, counted from 0."
        " People of lists are not counted.",
    )

    @classmethod
    def ignored_in(cls, payload: Any) -> set[str]:
        return super().ignored_in(payload) | find_ignored_in_recipients(payload) | find_ignored_in_radius(payload)

    def to_order_request(self, product: Product, limits: Limits, *, now: datetime) -> tuple[OrderRequest, FieldErrors]:
        """The same in our own terms, and what is wrong with it so far."""
        errors: FieldErrors = {}
        if self.recipients or self.mailing_list_ids:
            for name in ("radius_search", "radius_center"):
                if getattr(self, name) is not None:
                    errors[name] = [f"A {name} stands alone: leave out recipients and mailing_list_ids."]
        check_recipients(self.recipients, limits, errors)
        if self.preview_recipient is not None and self.preview_recipient >= max(1, len(self.recipients or ())):
            errors["preview_recipient"] = [NO_SUCH_RECIPIENT]
        if len(self.message or "") > limits.message_characters:
            errors["message"] = [f"At most {limits.message_characters:,} characters, please."]
        search = None
        if self.radius_search is not None:
            search = self.radius_search.to_search()
        elif self.radius_center is not None or self.radius_distance_miles is not None:
            search = self.center_search(errors)
        # What an order request has as well is copied; what the body leaves open is left open there.
        values: dict[str, Any] = {}
        for name in type(self).model_fields:
            attribute, value = FIELD_ATTRIBUTES.get(name, name), getattr(self, name)
            if attribute in STRIPPED_ATTRIBUTES and value is not None:
                value = value.strip() or None
            if attribute in ORDER_ATTRIBUTES and value is not None:
                values[attribute] = value
        values |= {
            "radius_search": search,
            "return_address": self._return_address(errors),
            "mail_class": "standard" if self.send_standard_mail else "first",
            "metadata": None if self.metadata is None else to_metadata_text(self.metadata, limits, errors),
            "schedule_for": parse_schedule(self.schedule_for, errors, now=now) if self.schedule_for else None,
        }
        return OrderRequest(product=product, **values), errors

    def _return_address(self, errors: FieldErrors) -> ReturnAddress:
        """The call's return address: whole, or none of it but a name."""
        fields = {part: (getattr(self, name) or "").strip() or None for part, name in RETURN_ADDRESS_FIELDS.items()}
        if fields["address"] and not (fields["city"] or fields["postal_code"]):
            # On one line it is read as a recipient's is; else it stays as it came, home or abroad.
            examined, problems = check_recipient(fields)
            fields = fields if problems else {name: getattr(examined, name) for name in fields}
        if any(fields.values()):
            errors |= {
                RETURN_ADDRESS_FIELDS[part]: [hint] for part, hint in REQUIRED_ADDRESS_PARTS.items() if not fields[part]
            }
        return ReturnAddress(name=(self.return_name or "").strip() or None, **fields)


@accepts(wire.CardSend, beside=PREVIEW)
class SendCard(SendBody):
    """A notecard or a magnacard to everyone in the audience."""

    model_config = ConfigDict(json_schema_extra=schemas.CARD_SCHEMA)

    custom_background_image: OptionalUrlText = Field(
        None,
        description="PNG or JPEG for the back, or the inside of a folded card. May hold variables.",
        examples=["https://example.com/back.png"],
    )


@accepts(wire.PostcardSend, beside=PREVIEW)
class SendPostcard(SendCard):
    """A postcard to everyone in the audience."""

    size: Annotated[Literal["4x6", "6x9", "6x11"], NULL_MEANS_DEFAULT] = Field("4x6", description="Inches, finished.")


@accepts(wire.LetterSend, beside=PREVIEW)
class SendLetter(SendBody):
    """A letter to everyone in the audience."""

    model_config = ConfigDict(json_schema_extra=schemas.LETTER_SCHEMA)

    additional_pages_url: OptionalUrlText = Field(
        None,
        validation_alias=AliasChoices("additional_pages_url", "additional_pages"),
        description="A PDF of letter pages that follow the cover.",
        examples=["https://example.com/pages.pdf"],
    )
    pdf_only_url: OptionalUrlText = Field(
        None,
        description="A PDF that is the whole letter: it needs no message and no front.",
        examples=["https://example.com/letter.pdf"],
    )


@accepts(wire.GiftcardSend, beside=PREVIEW)
class SendGiftcard(SendBody):
    """A folded card with a gift card inside to everyone in the audience."""

    model_config = ConfigDict(json_schema_extra=schemas.GIFTCARD_SCHEMA)

    giftcard_brand: OptionalLine = Field(
        None,
        validation_alias=AliasChoices("giftcard_brand", "giftcard_brand_code"),
        description="The brand_code of one of GET /giftcard-brands; required unless the message template has one.",
        examples=["brindlewick"],
    )
    giftcard_amount: Amount | None = Field(
        None,
        description="What each card is worth, in cents, of the brand's available_amounts; required unless the"
        " message template says.",
        examples=[2500],
    )
    giftcard_amount_in_cents: LegacyAmount = None
    landing_page_url: OptionalUrlText = Field(
        None,
        description="A page that recipients must visit before they see their card's code.",
        examples=["https://example.com/welcome"],
    )

    def to_order_request(self, product: Product, limits: Limits, *, now: datetime) -> tuple[OrderRequest, FieldErrors]:
        send_request, errors = super().to_order_request(product, limits, now=now)
        if error := check_legacy_amount(self.giftcard_amount_in_cents, is_allowed=limits.legacy_fields):
            errors[LEGACY_AMOUNT_FIELD] = [error]
        if self.giftcard_amount is None:
            send_request = replace(send_request, giftcard_amount=self.giftcard_amount_in_cents)
        return send_request, errors

    @classmethod
    def ignored_in(cls, payload: Any) -> set[str]:
        return super().ignored_in(payload) | find_ignored_legacy_amount(payload)


class SendableProduct(NamedTuple):
    product: Product
    title: str
    body: type[SendBody]


SENDABLE_PRODUCTS = (
    SendableProduct(POSTCARD, "a postcard", SendPostcard),
    SendableProduct(LETTER, "a letter in a windowed envelope", SendLetter),
    SendableProduct(WINDOWLESS_LETTER, "a letter in a closed envelope", SendLetter),
    SendableProduct(NOTECARD, "a folded notecard in an envelope", SendCard),
    SendableProduct(GIFTCARD, "a gift card in a folded card", SendGiftcard),
    SendableProduct(MAGNACARD, "a magnet card", SendCard),
)


def check_recipients(recipients: Sequence[object] | None, limits: Limits, errors: FieldErrors) -> None:
    if len(recipients or ()) > limits.inline_recipients:
        errors["recipients"] = [SendBody.too_many_message(limits.inline_recipients)]


def to_metadata_text(metadata: dict[str, Any], limits: Limits, errors: FieldErrors) -> str:
    """Metadata as it is kept: as it came, to the letter."""
    text = exact_json.dump_json(metadata)
    size = len(text.encode())
    if size > limits.metadata_bytes:
        errors["metadata"] = [f"metadata takes {size:,} bytes as JSON; at most {limits.metadata_bytes:,} are kept."]
    return text


def parse_schedule(text: str, errors: FieldErrors, *, now: datetime) -> datetime | None:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        errors["schedule_for"] = ["Write an ISO 8601 date and time, such as 2026-12-01T09:00:00Z."]
        return None
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    check_schedule(at, errors, now=now)
    return at


@accepts(ReplayOptions)
class Replay(Body):
    """Whom to send it to, when, and with which metadata; all of it may be left out."""

    rows: ClassVar[str | None] = "recipients"

    recipients: InlineRecipients | None = Field(
        None, description="Instead of those whom the order went to, its lists included."
    )
    schedule_for: Schedule = None
    metadata: Metadata = None
    allow_duplicates: OptionalFlag = Field(
        True, description="False: addresses that had the same piece within 36 hours are left out."
    )

    @classmethod
    def ignored_in(cls, payload: Any) -> set[str]:
        return super().ignored_in(payload) | find_ignored_in_recipients(payload)

    def to_replay_request(self, order_id: int, limits: Limits, *, now: datetime) -> tuple[ReplayRequest, FieldErrors]:
        """The same in our own terms, and what is wrong with it so far."""
        errors: FieldErrors = {}
        check_recipients(self.recipients, limits, errors)
        if self.recipients is not None and not self.recipients:
            errors["recipients"] = ["Give at least one recipient, or leave the field out."]
        replay = ReplayRequest(
            order_id=order_id,
            recipients=self.recipients,  # type: ignore[arg-type]
            schedule_for=parse_schedule(self.schedule_for, errors, now=now) if self.schedule_for else None,
            metadata=None if self.metadata is None else to_metadata_text(self.metadata, limits, errors),
            copy_metadata="metadata" not in self.provided_fields(),
            allows_repeats=self.allow_duplicates,
        )
        return replay, errors
