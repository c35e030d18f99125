"""A call as it was given, in our own terms: None where the caller said nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from quillpost.orders.products import Product
from quillpost.recipients.leads.rules import LeadSearch
from quillpost.rendering.models import ReturnAddress

FieldErrors = dict[str, list[str]]
"""What is wrong with a call so far, by field."""

FIELD_ATTRIBUTES = {"image_template": "image_template_id", "handwriting_style": "style"}
"""Of the fields that are called otherwise here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SendRequest:
    product: Product
    size: str | None = None
    recipients: Sequence[Mapping[str, str | None]] = ()
    mailing_list_ids: Sequence[int] = ()
    radius_search: LeadSearch | None = None
    message: str | None = None
    message_template_id: int | None = None
    image_template_id: int | None = None
    front_image_url: str | None = None
    background_url: str | None = None
    use_custom_background: bool = True
    additional_pages_url: str | None = None
    pdf_only_url: str | None = None
    giftcard_brand: str | None = None
    giftcard_amount: int | None = None
    landing_page_url: str | None = None
    style: int | None = None
    handwriting_color: str | None = None
    handwriting_realism: bool | None = None
    font_size: str | None = None
    qrcode_url: str | None = None
    sub_account_id: int | None = None
    return_address: ReturnAddress = field(default_factory=ReturnAddress)
    mail_class: str = "first"
    append_or_current_resident: bool = False
    allow_duplicates: bool = False
    notification_emails: Sequence[str] = ()
    metadata: str | None = None
    schedule_for: datetime | None = None
    preview_recipient: int | None = None

    @property
    def own_message(self) -> str | None:
        return self.message if self.message and self.message.strip() else None

    def without(self, field_names: Sequence[str]) -> tuple["SendRequest", list[str]]:
        """The call as if it said nothing of these fields, and those of which it said something."""
        empty_request = SendRequest(product=self.product)
        attributes = {name: FIELD_ATTRIBUTES.get(name, name) for name in field_names}
        normalized = replace(self, message=self.own_message)
        used_fields = [
            name
            for name, attribute in attributes.items()
            if getattr(normalized, attribute) != getattr(empty_request, attribute)
        ]
        return replace(
            self, **{attributes[name]: getattr(empty_request, attributes[name]) for name in used_fields}
        ), used_fields
