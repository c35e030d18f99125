"""The body of a send, and the wish it makes."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field

from quillpost.api.bodies import Flag, Id, Text, Whole
from quillpost.api.v2.inline_recipients import InlineRecipient, unknown_fields
from quillpost.audience.rules import EMAIL, LONGEST
from quillpost.composition.content import ReturnAddress
from quillpost.kit import exact_json
from quillpost.kit.errors import Refused
from quillpost.orders.rules import Wish, postcard_type
from quillpost.parts import Limits

LATEST_SCHEDULE = timedelta(days=366)
TEXT_MESSAGE = re.compile(r"\+[0-9]{8,15}@sms")


def _object(value: object) -> object:
    if value is not None and not isinstance(value, dict):
        raise ValueError("metadata must be a JSON object of key/value pairs.")
    return value


def _addresses(value: object) -> object:
    """An array, or one text with commas."""
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    return value


def _reachable(text: str) -> str:
    """An e-mail address, or a phone that takes text messages."""
    if len(text) > LONGEST or not (EMAIL.fullmatch(text) or TEXT_MESSAGE.fullmatch(text)):
        raise ValueError("This is neither an e-mail address nor of the form +15125550100@sms.")
    return text


def _given(text: str | None) -> str | None:
    """A blank field is as good as none."""
    return (text or "").strip() or None


Notified = Annotated[Text, AfterValidator(_reachable)]


class SendPostcard(BaseModel):
    """A postcard to everyone in the audience."""

    model_config = ConfigDict(strict=True, extra="allow", populate_by_name=True)

    preview: Flag = Field(False, description="Answer with PNG links; no order is made.")
    recipients: list[InlineRecipient] | None = Field(None, description="Whom to mail to, at most 5,000.")
    mailing_list_ids: list[Id] | None = Field(
        None,
        validation_alias=AliasChoices("mailing_list_ids", "mailing_lists"),
        description="Saved lists: not in this release yet, so every id is unknown.",
    )
    radius_search: dict[str, Any] | None = Field(
        None, description="The nearest to an address: not in this release yet."
    )
    size: Literal["4x6", "6x9", "6x11"] = Field("4x6", description="Inches, finished.")
    front_image_url: Text | None = Field(
        None,
        description="PNG or JPEG for the front, which may hold variables, as ~FIRST_NAME~; else it is plain.",
    )
    image_template: Id | None = Field(
        None,
        validation_alias=AliasChoices("image_template", "image_template_id"),
        description="A saved front: not in this release yet, so every id is unknown.",
    )
    message: Text | None = Field(
        None,
        description="The handwritten text; variables such as %FIRST_NAME% or %FIRST_NAME|friend% are filled.",
        examples=["Hi %FIRST_NAME%, thank you for stopping by!"],
    )
    message_template: Id | None = Field(
        None,
        validation_alias=AliasChoices("message_template", "message_template_id"),
        description="A saved message: not in this release yet, so every id is unknown.",
    )
    custom_background_image: Text | None = Field(
        None, description="PNG or JPEG for the back. May hold variables, as ~FIRST_NAME~."
    )
    use_custom_background: Flag = Field(True, description="False: the background is left out.")
    send_standard_mail: Flag = Field(False, description="Standard mail instead of first class; US only.")
    handwriting_style: Whole = Field(
        1,
        validation_alias=AliasChoices("handwriting_style", "handwriting_style_id"),
        description="The hand's id.",
    )
    handwriting_color: Text = Field(
        "blue", description="blue, black, green, purple, red, #rrggbb, rgb() or rgba()."
    )
    handwriting_realism: Flag = Field(True, description="Words drift and lean a little, as a person's do.")
    font_size: Literal["auto", "large", "medium", "small"] = Field(
        "auto", description="auto is the largest that fits."
    )
    qrcode_url: Text | None = Field(
        None, description="Where the printed QR code leads; variables are filled for each recipient."
    )
    metadata: Annotated[dict[str, Any] | None, BeforeValidator(_object)] = Field(
        None, description="Yours: returned to the letter, never printed. At most 8,192 bytes as JSON."
    )
    sub_account_id: Id | None = Field(
        None,
        validation_alias=AliasChoices("sub_account_id", "sub_account"),
        description="The sub account that sends.",
    )
    notification_emails: Annotated[list[Notified] | None, BeforeValidator(_addresses)] = Field(
        None,
        validation_alias=AliasChoices("notification_emails", "email_additional"),
        description="Kept for scans, which a later release tells of; an array, or one text with commas.",
    )
    return_name: Text | None = Field(None, description="Return address; else the account's is used.")
    return_address: Text | None = Field(None, description="Street and number.")
    return_address2: Text | None = Field(None, description="Unit.")
    return_city: Text | None = Field(None, description="City.")
    return_state: Text | None = Field(
        None,
        validation_alias=AliasChoices("return_state", "return_province"),
        description="State or province.",
    )
    return_postal_code: Text | None = Field(None, description="ZIP or postal code.")
    append_or_current_resident: Flag = Field(False, description='Adds "or current resident".')
    allow_duplicates: Flag = Field(
        False, description="Stored; the rule against repeats within 36 hours that it lifts comes later."
    )
    schedule_for: Text | None = Field(
        None,
        description="ISO 8601: the order waits, cancellable, until then.",
        examples=["2026-12-01T09:00:00Z"],
    )
    preview_recipient: Whole | None = Field(
        None, ge=0, description="Whose piece a preview shows, counted from 0."
    )

    def ignored_fields(self, sent: Any) -> list[str]:
        """What the caller sent that changes nothing."""
        rows = sent.get("recipients") if isinstance(sent, Mapping) else None
        return sorted(self.model_extra or ()) + unknown_fields(rows)

    def wish(self, limits: Limits, *, now: datetime) -> tuple[Wish, dict[str, list[str]]]:
        """The same in our own terms, and what is wrong with the call so far."""
        faults: dict[str, list[str]] = {}
        recipients = self._audience(limits, faults)
        message = self._message(limits, faults)
        metadata = self._metadata(limits, faults)
        schedule_for = self._schedule(faults, now=now)
        parts_of_it = (self.return_address2, self.return_city, self.return_state, self.return_postal_code)
        if any(map(_given, parts_of_it)) and not _given(self.return_address):
            faults["return_address"] = ["Give the street as well, or none of it: the account's is used then."]
        if self.preview_recipient is not None and self.preview_recipient >= max(1, len(recipients)):
            faults["preview_recipient"] = ["There is no such recipient; the first one is 0."]
        wish = Wish(
            type=postcard_type(self.size),
            size=self.size,
            recipients=recipients,  # type: ignore[arg-type]
            message=message,
            style=self.handwriting_style,
            handwriting_color=self.handwriting_color,
            handwriting_realism=self.handwriting_realism,
            font_size=self.font_size,
            sub_account_id=self.sub_account_id,
            front_image_url=self.front_image_url or None,
            background_url=(self.custom_background_image or None) if self.use_custom_background else None,
            qrcode_url=self.qrcode_url or None,
            return_address=ReturnAddress(
                name=_given(self.return_name),
                address=_given(self.return_address),
                address2=_given(self.return_address2),
                city=_given(self.return_city),
                province=_given(self.return_state),
                postal_code=_given(self.return_postal_code),
            ),
            mail_class="standard" if self.send_standard_mail else "first",
            append_or_current_resident=self.append_or_current_resident,
            allow_duplicates=self.allow_duplicates,
            notification_emails=self.notification_emails or (),
            metadata=metadata,
            schedule_for=schedule_for,
            preview_recipient=self.preview_recipient,
        )
        return wish, faults

    def _audience(self, limits: Limits, faults: dict[str, list[str]]) -> list[InlineRecipient]:
        if self.mailing_list_ids:
            raise Refused("Mailing List Does Not Exist")
        if self.radius_search is not None:
            faults["radius_search"] = ["This installation has no address data for radius searches."]
            return []
        if not self.recipients:
            faults["recipients"] = ["Give at least one recipient."]
            return []
        if len(self.recipients) > limits.inline_recipients:
            most = limits.inline_recipients
            faults["recipients"] = [f"At most {most:,} recipients in one call; save a mailing list for more."]
        return self.recipients

    def _message(self, limits: Limits, faults: dict[str, list[str]]) -> str:
        if self.message_template is not None:
            raise Refused("Message Template does not exist")
        if self.image_template is not None:
            raise Refused("Image Template does not exist")
        if not self.message or not self.message.strip():
            faults["message"] = ["Give a message, or a message_template."]
            return ""
        if len(self.message) > limits.message_characters:
            faults["message"] = [f"At most {limits.message_characters:,} characters, please."]
        return self.message

    def _metadata(self, limits: Limits, faults: dict[str, list[str]]) -> str | None:
        if self.metadata is None:
            return None
        written = exact_json.write(self.metadata)
        size = len(written.encode())
        if size > limits.metadata_bytes:
            faults["metadata"] = [
                f"metadata takes {size:,} bytes as JSON; at most {limits.metadata_bytes:,} are kept."
            ]
        return written

    def _schedule(self, faults: dict[str, list[str]], *, now: datetime) -> datetime | None:
        if not self.schedule_for:
            return None
        try:
            at = datetime.fromisoformat(self.schedule_for)
        except ValueError:
            faults["schedule_for"] = ["Write an ISO 8601 date and time, such as 2026-12-01T09:00:00Z."]
            return None
        at = at if at.tzinfo else at.replace(tzinfo=UTC)
        if not now <= at <= now + LATEST_SCHEDULE:
            faults["schedule_for"] = ["This must lie in the future, at most a year ahead."]
        return at
