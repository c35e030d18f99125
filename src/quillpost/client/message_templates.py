"""Saved messages."""

from collections.abc import Sequence
from typing import Literal, TypedDict, Unpack

from quillpost.client.requests import Id, Kind, Request, Resource, listing, operation
from quillpost.client.responses import Message
from quillpost.client.send import FontSize

MessageTemplateType = Literal[
    "postcard", "postcard6x11", "letter", "windowlessletter", "notecard", "giftcard", "magnacard"
]


class MessageTemplate(TypedDict):
    id: int
    user_id: int
    sub_account_id: int | None
    type: str
    name: str
    content: str
    handwriting_style_id: int
    font_size: str
    font_color: str
    handwriting_realism: bool
    additional_pages: str | None
    skip_creative_generation: int
    custom_background_url: str | None
    qrcode_url: str | None
    cc_emails: list[str]
    giftcard_brand_code: str | None
    giftcard_brand_image: str | None
    giftcard_amount: int | None
    landing_page_url: str | None
    share_uuid: str
    created_at: str
    updated_at: str


class MessageTemplateFilter(TypedDict, total=False):
    items_per_page: int
    page: int
    search: str
    type: str
    sub_account_id: Id


class MessageTemplateFields(TypedDict, total=False):
    sub_account_id: Id | None
    content: str | None
    handwriting_style_id: Id | None
    font_size: FontSize | None
    font_color: str | None
    handwriting_realism: bool
    additional_pages: str | None
    pdf_only_url: str | None
    custom_background_url: str | None
    qrcode_url: str | None
    cc_emails: Sequence[str] | None
    giftcard_brand_code: str | None
    giftcard_amount: int | None
    landing_page_url: str | None


class MessageTemplateChanges(MessageTemplateFields, total=False):
    name: str
    type: MessageTemplateType


class MessageTemplates(Resource[Kind]):
    @listing("/message-templates")
    def list(self, **only: Unpack[MessageTemplateFilter]) -> Request[MessageTemplate]:
        """Templates, newest first."""
        return Request(query=only)

    @operation("POST /message-templates")
    def create(
        self,
        type: MessageTemplateType,  # noqa: A002
        name: str,
        *,
        idempotency_key: str | None = None,
        **fields: Unpack[MessageTemplateFields],
    ) -> Request[MessageTemplate]:
        """Save a message with its hand, its QR code and its background."""
        return Request(body={"type": type, "name": name, **fields}, idempotency_key=idempotency_key)

    @operation("GET /message-templates/{message_template_id}")
    def read(self, message_template_id: Id) -> Request[MessageTemplate]:
        """One template."""
        return Request(message_template_id)

    @operation("PUT /message-templates/{message_template_id}")
    def update(self, message_template_id: Id, **changes: Unpack[MessageTemplateChanges]) -> Request[MessageTemplate]:
        """Change what is named; the rest stays."""
        return Request(message_template_id, body=changes)

    @operation("DELETE /message-templates/{message_template_id}")
    def delete(self, message_template_id: Id) -> Request[Message]:
        """Delete a template that nothing waits for."""
        return Request(message_template_id)
