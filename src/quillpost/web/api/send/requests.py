"""The bodies of sends, and the calls they make. A field that a piece does not use is not in its body."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AliasChoices, BeforeValidator, ConfigDict, Field

from quillpost.app.container import Limits
from quillpost.core import exact_json
from quillpost.orders.products import Piece
from quillpost.orders.requests import Call, Faults
from quillpost.orders.templates.rules import LONGEST_URL
from quillpost.recipients.rules import LONGEST, examine_alone
from quillpost.rendering.models import ReturnAddress
from quillpost.web.api.bodies import (
    DIGITS,
    NULL_IS_LEFT_OUT,
    STOPS_EARLY,
    Flag,
    FormText,
    Id,
    Switch,
    Text,
    Whole,
    said,
)
from quillpost.web.api.giftcards.schemas import (
    OLD_AMOUNT,
    Amount,
    OldAmount,
    ignored_old_amount,
    wrong_old_amount,
)
from quillpost.web.api.radius.schemas import AroundCenter, RadiusOfSend, ignored_in_radius
from quillpost.web.api.send import schemas
from quillpost.web.api.send.schemas import InlineRecipient, InlineRecipients, Notified, ignored_in_recipients

LATEST_SCHEDULE = timedelta(days=366)
MOST_LISTS = 100
LONGEST_TEXT = 100_000
"""Whatever an operator's limit for messages is: beyond it nothing is even looked at."""
NO_SUCH_RECIPIENT = (
    "There is no such recipient: only those in recipients are counted, from 0 on; people of lists are not."
)
WHOLE = "write it whole on one line in return_address: 12 Main St, Austin, TX 78701."
PARTS_OF_HOME = {
    "address": ("return_address", "Give the street as well, or none of it: the account's is used then."),
    "city": ("return_city", f"A return address needs a city, or {WHOLE}"),
    "province": ("return_state", f"A return address needs a state, or {WHOLE}"),
    "postal_code": ("return_postal_code", f"A return address needs a ZIP or postal code, or {WHOLE}"),
}
"""What no return address is without, and what its field's absence is told with."""
STANDS_ALONE = "A {} stands alone: leave out recipients and mailing_list_ids."


def _object(value: object) -> object:
    if value is not None and not isinstance(value, dict):
        raise ValueError("metadata must be a JSON object of key/value pairs.")
    return value


def _ids(value: object) -> object:
    """In a form, ids with commas between them."""
    return [part.strip() for part in value.split(",")] if isinstance(value, FormText) else value


Metadata = Annotated[
    dict[str, Any] | None,
    BeforeValidator(_object),
    Field(description="Yours: returned to the letter, never printed. At most 8,192 bytes as JSON."),
]
Schedule = Annotated[
    Text | None,
    Field(
        max_length=64,
        description="ISO 8601: the order waits, cancellable, until then.",
        examples=["2026-12-01T09:00:00Z"],
    ),
]


class SendBody(AroundCenter):
    """What every send may say."""

    preview: Switch = Field(False, description="Answer with PNG links; no order is made.")
    rows: ClassVar[str | None] = "recipients"

    recipients: InlineRecipients | None = Field(None, description="Whom to mail to, at most 5,000.")
    mailing_list_ids: (
        Annotated[list[Id], Field(max_length=MOST_LISTS), STOPS_EARLY, BeforeValidator(_ids)] | None
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
    front_image_url: Text | None = Field(
        None,
        max_length=LONGEST_URL,
        description="PNG or JPEG for the front of a card, or under the cover of a letter. It may hold"
        " variables, as ~FIRST_NAME~; without a front a card is plain, or shows the sub account's branding.",
        examples=["https://example.com/front.png"],
    )
    image_template: Id | None = Field(
        None,
        validation_alias=AliasChoices("image_template", "image_template_id"),
        description="A saved front.",
    )
    message: Text | None = Field(
        None,
        max_length=LONGEST_TEXT,
        description="The handwritten text; variables such as %FIRST_NAME% or %FIRST_NAME|friend% are filled.",
        examples=["Hi %FIRST_NAME%, thank you for stopping by!"],
    )
    message_template: Id | None = Field(
        None,
        validation_alias=AliasChoices("message_template", "message_template_id"),
        description="A saved message with its settings; what the call says itself wins.",
    )
    use_custom_background: Switch = Field(
        True,
        description="False: neither the template's nor the sub account's background is printed; one of the"
        " call's own is.",
    )
    send_standard_mail: Switch = Field(False, description="Standard mail instead of first class; US only.")
    handwriting_style: Whole | None = Field(
        None,
        validation_alias=AliasChoices("handwriting_style", "handwriting_style_id"),
        description="The hand's id; 1 when neither the call nor its template says.",
    )
    handwriting_color: Text | None = Field(
        None,
        max_length=LONGEST,
        description="blue (when nothing is said), black, green, purple, red, #rrggbb, rgb() or rgba().",
    )
    handwriting_realism: Flag | None = Field(
        None, description="Words drift and lean a little, as a person's do; true when nothing is said."
    )
    font_size: Literal["auto", "large", "medium", "small"] | None = Field(
        None, description="auto, the largest that fits, when nothing is said."
    )
    qrcode_url: Text | None = Field(
        None,
        max_length=LONGEST_URL,
        description="Where the printed QR code leads; variables are filled for each recipient.",
    )
    metadata: Metadata = None
    sub_account_id: Id | None = Field(
        None,
        validation_alias=AliasChoices("sub_account_id", "sub_account"),
        description="The sub account that sends.",
    )
    notification_emails: Notified | None = Field(
        None,
        validation_alias=AliasChoices("notification_emails", "email_additional"),
        description=(
            "Who is told of scans: e-mail addresses, and +15125550100@sms for a text message; an array, or "
            "one text with commas."
        ),
    )
    return_name: Text | None = Field(
        None, max_length=LONGEST, description="Return address; else the sub account's or account's."
    )
    return_address: Text | None = Field(
        None,
        max_length=LONGEST,
        description="Street and number; or the whole on one line, as 12 Main St, Austin, TX 78701.",
    )
    return_address2: Text | None = Field(None, max_length=LONGEST, description="Unit.")
    return_city: Text | None = Field(None, max_length=LONGEST, description="City.")
    return_state: Text | None = Field(
        None,
        max_length=LONGEST,
        validation_alias=AliasChoices("return_state", "return_province"),
        description="State or province.",
    )
    return_postal_code: Text | None = Field(None, max_length=LONGEST, description="ZIP or postal code.")
    append_or_current_resident: Switch = Field(False, description='Adds "or current resident".')
    allow_duplicates: Switch = Field(
        False, description="Mail to addresses too that had the same piece within the last 36 hours."
    )
    schedule_for: Schedule = None
    preview_recipient: Annotated[int, Field(ge=0), DIGITS] | None = Field(
        None,
        description="Whose piece a preview shows: a place among recipients, counted from 0."
        " People of lists are not counted.",
    )

    @classmethod
    def ignored_in(cls, sent: Any) -> set[str]:
        return super().ignored_in(sent) | ignored_in_recipients(sent) | ignored_in_radius(sent)

    def call(self, piece: Piece, limits: Limits, *, now: datetime) -> tuple[Call, Faults]:
        """The same in our own terms, and what is wrong with it so far."""
        faults: Faults = {}
        recipients = self._recipients(limits, faults)
        self._check_message(limits, faults)
        call = Call(
            piece=piece,
            recipients=recipients,  # type: ignore[arg-type]
            mailing_list_ids=self.mailing_list_ids or (),
            radius=self.radius_search.search() if self.radius_search is not None else self.around(faults),
            message=self.message,
            message_template_id=self.message_template,
            image_template_id=self.image_template,
            front_image_url=said(self.front_image_url),
            use_custom_background=self.use_custom_background,
            style=self.handwriting_style,
            handwriting_color=self.handwriting_color,
            handwriting_realism=self.handwriting_realism,
            font_size=self.font_size,
            qrcode_url=said(self.qrcode_url),
            sub_account_id=self.sub_account_id,
            return_address=self._home(faults),
            mail_class="standard" if self.send_standard_mail else "first",
            append_or_current_resident=self.append_or_current_resident,
            allow_duplicates=self.allow_duplicates,
            notification_emails=self.notification_emails or (),
            metadata=metadata_text(self.metadata, limits, faults),
            schedule_for=schedule(self.schedule_for, faults, now=now),
            preview_recipient=self.preview_recipient,
            **self.of_its_own(),
        )
        return call, faults

    def of_its_own(self) -> dict[str, Any]:
        """What this piece's body says beyond the others', by the names of a call."""
        return {}

    def _recipients(self, limits: Limits, faults: Faults) -> list[InlineRecipient]:
        given = self.recipients or []
        around = {"radius_search": self.radius_search, "radius_center": self.radius_center}
        if given or self.mailing_list_ids:
            faults |= {
                name: [STANDS_ALONE.format(name)] for name, value in around.items() if value is not None
            }
        check_recipients(given, limits, faults)
        if self.preview_recipient is not None and self.preview_recipient >= max(1, len(given)):
            faults["preview_recipient"] = [NO_SUCH_RECIPIENT]
        return given

    def _check_message(self, limits: Limits, faults: Faults) -> None:
        if len(self.message or "") > limits.message_characters:
            faults["message"] = [f"At most {limits.message_characters:,} characters, please."]

    def _home(self, faults: Faults) -> ReturnAddress:
        """The call's return address: whole, or none of it but a name."""
        given = {
            "address": said(self.return_address),
            "address2": said(self.return_address2),
            "city": said(self.return_city),
            "province": said(self.return_state),
            "postal_code": said(self.return_postal_code),
        }
        if given["address"] and not (given["city"] or given["postal_code"]):
            # On one line it is read as a recipient's is; else it stays as it came, home or abroad.
            read, unread = examine_alone(given)
            given = given if unread else {name: getattr(read, name) for name in given}
        if any(given.values()):
            faults |= {field: [told] for part, (field, told) in PARTS_OF_HOME.items() if not given[part]}
        return ReturnAddress(name=said(self.return_name), **given)


class SendCard(SendBody):
    """A notecard or a magnacard to everyone in the audience."""

    model_config = ConfigDict(json_schema_extra=schemas.CARD)

    custom_background_image: Text | None = Field(
        None,
        max_length=LONGEST_URL,
        description="PNG or JPEG for the back, or the inside of a folded card. May hold variables.",
        examples=["https://example.com/back.png"],
    )

    def of_its_own(self) -> dict[str, Any]:
        return {"background_url": said(self.custom_background_image)}


class SendPostcard(SendCard):
    """A postcard to everyone in the audience."""

    size: Annotated[Literal["4x6", "6x9", "6x11"], NULL_IS_LEFT_OUT] = Field(
        "4x6", description="Inches, finished."
    )

    def of_its_own(self) -> dict[str, Any]:
        return super().of_its_own() | {"size": self.size}


class SendLetter(SendBody):
    """A letter to everyone in the audience."""

    model_config = ConfigDict(json_schema_extra=schemas.LETTER)

    additional_pages_url: Text | None = Field(
        None,
        max_length=LONGEST_URL,
        validation_alias=AliasChoices("additional_pages_url", "additional_pages"),
        description="A PDF of letter pages that follow the cover.",
        examples=["https://example.com/pages.pdf"],
    )
    pdf_only_url: Text | None = Field(
        None,
        max_length=LONGEST_URL,
        description="A PDF that is the whole letter: it needs no message and no front.",
        examples=["https://example.com/letter.pdf"],
    )

    def of_its_own(self) -> dict[str, Any]:
        return {
            "additional_pages_url": said(self.additional_pages_url),
            "pdf_only_url": said(self.pdf_only_url),
        }


class SendGiftcard(SendBody):
    """A folded card with a gift card inside to everyone in the audience."""

    model_config = ConfigDict(json_schema_extra=schemas.GIFTCARD)

    giftcard_brand: Text | None = Field(
        None,
        max_length=LONGEST,
        validation_alias=AliasChoices("giftcard_brand", "giftcard_brand_code"),
        description="The brand_code of one of GET /giftcard-brands; required unless the message template has"
        " one.",
        examples=["brindlewick"],
    )
    giftcard_amount: Amount | None = Field(
        None,
        description="What each card is worth, in cents, of the brand's available_amounts; required unless the"
        " message template says.",
        examples=[2500],
    )
    giftcard_amount_in_cents: OldAmount = None
    landing_page_url: Text | None = Field(
        None,
        max_length=LONGEST_URL,
        description="A page that recipients must visit before they see their card's code.",
        examples=["https://example.com/welcome"],
    )

    def call(self, piece: Piece, limits: Limits, *, now: datetime) -> tuple[Call, Faults]:
        call, faults = super().call(piece, limits, now=now)
        old = self.giftcard_amount_in_cents
        if wrong := wrong_old_amount(old, is_taken=limits.legacy_fields):
            faults[OLD_AMOUNT] = [wrong]
        return call, faults

    @classmethod
    def ignored_in(cls, sent: Any) -> set[str]:
        return super().ignored_in(sent) | ignored_old_amount(sent)

    def of_its_own(self) -> dict[str, Any]:
        old = self.giftcard_amount_in_cents
        return {
            "giftcard_brand": said(self.giftcard_brand),
            "giftcard_amount": old if self.giftcard_amount is None else self.giftcard_amount,
            "landing_page_url": said(self.landing_page_url),
        }


def check_recipients(given: Sequence[object] | None, limits: Limits, faults: Faults) -> None:
    if len(given or ()) > limits.inline_recipients:
        faults["recipients"] = [SendBody.too_many(limits.inline_recipients)]


def metadata_text(metadata: dict[str, Any] | None, limits: Limits, faults: Faults) -> str | None:
    """Metadata as it is kept: as it came, to the letter."""
    if metadata is None:
        return None
    written = exact_json.write(metadata)
    size = len(written.encode())
    if size > limits.metadata_bytes:
        faults["metadata"] = [
            f"metadata takes {size:,} bytes as JSON; at most {limits.metadata_bytes:,} are kept."
        ]
    return written


def schedule(text: str | None, faults: Faults, *, now: datetime) -> datetime | None:
    """When an order is to be made, if not at once."""
    if not text:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        faults["schedule_for"] = ["Write an ISO 8601 date and time, such as 2026-12-01T09:00:00Z."]
        return None
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    if not now <= at <= now + LATEST_SCHEDULE:
        faults["schedule_for"] = ["This must lie in the future, at most a year ahead."]
    return at
