"""Saved fronts and messages, and the handwriting styles."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Unpack

from typing_extensions import TypedDict

from quillpost.client.requests import Kind, Request, Resource, listing, operation
from quillpost.client.send import FontSize, Manner
from quillpost.client.types import Doc, Files, Id, MessageResponse, Money, PageOptions, PlainTimestamp, Timestamp

ImageTemplateType = Literal["postcard", "letter", "notecard", "giftcard", "windowlessletter"]
Image = str | bytes | Path
"""A picture by its URL, by what is in its file, or by the file's path."""


class ImageTemplate(TypedDict):
    id: int
    user_id: int
    sub_account_id: int | None
    type: ImageTemplateType
    name: str
    image: Annotated[str, Doc("The picture; whoever has this URL may look.")]
    design_tool_id: Annotated[str | None, Doc("Its identifier in a design tool of yours.")]
    created_at: PlainTimestamp
    updated_at: PlainTimestamp


class TemplateFilter(PageOptions, total=False):
    search: str
    type: str
    sub_account_id: Id


class ImageTemplateOptions(TypedDict, total=False):
    sub_account_id: Id | None
    design_tool_id: str | None


class ImageTemplateUpdate(ImageTemplateOptions, total=False):
    type: ImageTemplateType
    name: str
    image: Image


class ImageTemplates(Resource[Kind]):
    @listing("/image-templates")
    def list(self, **only: Unpack[TemplateFilter]) -> Request[ImageTemplate]:
        """Templates, newest first."""
        return Request(query=only)

    @operation("POST /image-templates")
    def create(
        self,
        type: ImageTemplateType,  # noqa: A002
        name: str,
        image: Image,
        *,
        idempotency_key: str | None = None,
        **fields: Unpack[ImageTemplateOptions],
    ) -> Request[ImageTemplate]:
        """Save a PNG or JPEG: from a URL (str), from a file (Path), or from memory (bytes)."""
        body, files = _split({"type": type, "name": name, "image": image, **fields})
        return Request(body=body, files=files, idempotency_key=idempotency_key)

    @operation("GET /image-templates/{image_template_id}")
    def read(self, image_template_id: Id) -> Request[ImageTemplate]:
        """One template."""
        return Request(image_template_id)

    @operation("PUT /image-templates/{image_template_id}")
    def update(self, image_template_id: Id, **changes: Unpack[ImageTemplateUpdate]) -> Request[ImageTemplate]:
        """Change what is named; the rest stays."""
        body, files = _split(changes)
        return Request(image_template_id, body=body, files=files)

    @operation("DELETE /image-templates/{image_template_id}")
    def delete(self, image_template_id: Id) -> Request[MessageResponse]:
        """Delete a template that nothing waits for."""
        return Request(image_template_id)


def _split(fields: Mapping[str, Any]) -> tuple[dict[str, Any], Files | None]:
    """The fields and, where the image is not a URL, the file that goes with them."""
    image = fields.get("image")
    others = {name: value for name, value in fields.items() if name != "image"}
    if isinstance(image, Path):
        return others, {"image": (image.name, image.read_bytes())}
    if isinstance(image, bytes):
        return others, {"image": ("image", image)}
    return dict(fields), None


MessageTemplateType = Literal[
    "postcard", "postcard6x11", "letter", "windowlessletter", "notecard", "giftcard", "magnacard"
]


class MessageTemplate(TypedDict):
    """How it is written is always said: what is not set is what a send does then. Elsewhere null is not set.
    `pdf_only_url` is given, and not shown: `skip_creative_generation` tells of it. Nor are `handwriting_manner` and
    `signature_id`."""

    id: int
    user_id: int
    sub_account_id: int | None
    type: MessageTemplateType
    name: str
    content: Annotated[str, Doc("May hold variables such as %FIRST_NAME%; empty where a PDF is all.")]
    handwriting_style_id: int
    font_size: FontSize
    font_color: str
    handwriting_realism: bool
    additional_pages: str | None
    skip_creative_generation: Annotated[Literal[0, 1], Doc("1 where a PDF is the whole mailer.")]
    custom_background_url: str | None
    qrcode_url: str | None
    cc_emails: Annotated[list[str], Doc("Who is told when the QR code is scanned.")]
    giftcard_brand_code: str | None
    giftcard_brand_image: str | None
    giftcard_amount: Money | None
    landing_page_url: str | None
    share_uuid: str
    created_at: Timestamp
    updated_at: Timestamp


class MessageTemplateOptions(TypedDict, total=False):
    sub_account_id: Id | None
    content: str | None
    handwriting_style_id: Id | None
    font_size: FontSize | None
    font_color: str | None
    handwriting_realism: bool
    handwriting_manner: Manner | None
    signature_id: Id | None
    additional_pages: str | None
    pdf_only_url: str | None
    custom_background_url: str | None
    qrcode_url: str | None
    cc_emails: Sequence[str] | None
    giftcard_brand_code: str | None
    giftcard_amount: int | None
    landing_page_url: str | None


class MessageTemplateUpdate(MessageTemplateOptions, total=False):
    name: str
    type: MessageTemplateType


class MessageTemplates(Resource[Kind]):
    @listing("/message-templates")
    def list(self, **only: Unpack[TemplateFilter]) -> Request[MessageTemplate]:
        """Templates, newest first."""
        return Request(query=only)

    @operation("POST /message-templates")
    def create(
        self,
        type: MessageTemplateType,  # noqa: A002
        name: str,
        *,
        idempotency_key: str | None = None,
        **fields: Unpack[MessageTemplateOptions],
    ) -> Request[MessageTemplate]:
        """Save a message with its hand, its QR code and its background."""
        return Request(body={"type": type, "name": name, **fields}, idempotency_key=idempotency_key)

    @operation("GET /message-templates/{message_template_id}")
    def read(self, message_template_id: Id) -> Request[MessageTemplate]:
        """One template."""
        return Request(message_template_id)

    @operation("PUT /message-templates/{message_template_id}")
    def update(self, message_template_id: Id, **changes: Unpack[MessageTemplateUpdate]) -> Request[MessageTemplate]:
        """Change what is named; the rest stays."""
        return Request(message_template_id, body=changes)

    @operation("DELETE /message-templates/{message_template_id}")
    def delete(self, message_template_id: Id) -> Request[MessageResponse]:
        """Delete a template that nothing waits for."""
        return Request(message_template_id)
