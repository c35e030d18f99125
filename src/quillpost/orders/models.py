"""Orders, items, and what a caller asks for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from typing import Any, Final, Self
from uuid import UUID

import sqlalchemy as sa

from quillpost.core.database.tables.base import orders
from quillpost.core.errors import Message
from quillpost.core.files import StoredFile
from quillpost.orders.handwriting.models import NO_OWN_HANDWRITING, OwnHandwriting
from quillpost.orders.products import Product
from quillpost.orders.rules import ItemStatus, OrderStatus
from quillpost.recipients.leads.rules import LeadSearch
from quillpost.rendering.models import DEFAULT_MANNER, NEAT_MANNER, ReturnAddress, SenderName

FieldErrors = dict[str, list[str]]

FIELD_ATTRIBUTES = {
    "message_template": "message_template_id",
    "image_template": "image_template_id",
    "signature": "signature_id",
    "handwriting_style": "style",
    "custom_background_image": "background_url",
}
"""Fields of a call that have another name here."""

API_METHOD, AUTOMATION_METHOD, CARD_BUILDER_METHOD = "api", "Campaign", "Card Builder"
"""How an order came about: sent by a program, made by an automation, or composed on our pages."""


def name_part(field: str) -> Message:
    """`its qrcode_url`: which part of what a call refers to."""
    return Message("source_part", f"its {field}", field=field)


@dataclass(frozen=True, slots=True)
class ContentSource:
    """The origin of a picture, PDF or QR code: a stored file, or else a URL. `field` is the field of the call to
    change; `part` is which part of it, where it is a reference."""

    field: str
    url: str | None = None
    file: StoredFile | None = None
    part: str = ""

    @property
    def label(self) -> Message:
        text = f"{self.field} ({self.part})" if self.part else self.field
        return Message("source", text, field=self.field, part=self.part)


@dataclass(frozen=True, slots=True)
class OrderBranding:
    """The branding of a sub account on a front without art."""

    accent: str | None = None
    company: str | None = None
    contact: str | None = None
    disclaimer: str | None = None


@dataclass(frozen=True, slots=True)
class GiftcardChoice:
    """The card in every item, as the catalog had it."""

    brand: str
    title: str
    accent: str
    cents: int
    landing_page_url: str | None = None


@dataclass(frozen=True, slots=True)
class Handwriting:
    """How a message is written; the defaults hold where neither the request nor its message template says."""

    style: int = 1
    color: str = "blue"
    manner: str = DEFAULT_MANNER
    size: str = "auto"

    @property
    def is_realistic(self) -> bool:
        """What the API knew before it had manners."""
        return self.manner != NEAT_MANNER

    def column_values(self) -> dict[str, Any]:
        return {"style": self.style, "handwriting_color": self.color, MANNER_FIELD: self.manner, "font_size": self.size}


COVER_FIELDS = (
    "message", "front_image_url", "image_template", "use_custom_background", "additional_pages_url",
    "qrcode_url", "font_size", "signature",
)  # fmt: skip
"""What is seen on a letter's cover, or follows it."""
REALISM_FIELD: Final = "handwriting_realism"
MANNER_FIELD: Final = "handwriting_manner"
HANDWRITING_FIELDS = ("handwriting_style", "handwriting_color", REALISM_FIELD, MANNER_FIELD)


@dataclass(frozen=True, slots=True, kw_only=True)
class HandwritingOptions:
    """What requests and message templates call alike. None: not set. The manner wins over the realism."""

    font_size: str | None = None
    handwriting_realism: bool | None = None
    handwriting_manner: str | None = None
    signature_id: int | None = None

    @property
    def stated_manner(self) -> str | None:
        if self.handwriting_manner is not None or self.handwriting_realism is None:
            return self.handwriting_manner
        return DEFAULT_MANNER if self.handwriting_realism else NEAT_MANNER

    def _state_handwriting(self, style: int | None, color: str | None) -> dict[str, Any]:
        """Those values of a `Handwriting` that are set."""
        values = {"style": style, "color": color, "manner": self.stated_manner, "size": self.font_size}
        return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderRequest(HandwritingOptions):
    """An order as its sender asks for it; None: not said. A field named like a column of `orders` is stored there.
    `mailing_list_id` is the list from which an automation chose its people."""

    product: Product
    size: str | None = None
    recipients: Sequence[Mapping[str, str | None]] = ()
    mailing_list_ids: Sequence[int] = ()
    radius_search: LeadSearch | None = None
    sub_account_id: int | None = None
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
    qrcode_url: str | None = None
    return_address: ReturnAddress = field(default_factory=ReturnAddress)
    mail_class: str = "first"
    append_or_current_resident: bool = False
    allow_duplicates: bool = False
    notification_emails: Sequence[str] = ()
    metadata: str | None = None
    schedule_for: datetime | None = None
    preview_recipient: int | None = None
    method: str = API_METHOD
    mailing_list_id: int | None = None

    @property
    def type(self) -> str:
        """The largest postcards are a type of their own."""
        return "postcard6x11" if self.product.name == "postcard" and self.size == "6x11" else self.product.name

    @property
    def piece(self) -> str:
        """The name of its layout."""
        return f"postcard-{self.size}" if self.product.name == "postcard" else self.product.name

    @property
    def own_message(self) -> str | None:
        return self.message if self.message and self.message.strip() else None

    @property
    def stated_handwriting(self) -> dict[str, Any]:
        return self._state_handwriting(self.style, self.handwriting_color)

    @property
    def unused_beside_pdf(self) -> tuple[str, ...]:
        """The fields of the call that change nothing where a PDF is the whole letter."""
        return COVER_FIELDS if self.product.has_handwritten_envelope else COVER_FIELDS + HANDWRITING_FIELDS

    def without(self, field_names: Sequence[str]) -> tuple[Self, list[str]]:
        """The request without these fields of the call, and which of them were set."""
        empty_request = OrderRequest(product=self.product)
        attributes = {name: FIELD_ATTRIBUTES.get(name, name) for name in field_names}
        normalized = replace(self, message=self.own_message)
        used_fields = [
            name
            for name, attribute in attributes.items()
            if getattr(normalized, attribute) != getattr(empty_request, attribute)
        ]
        empty_values = {attributes[name]: getattr(empty_request, attributes[name]) for name in used_fields}
        return replace(self, **empty_values), used_fields


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedRequest(OrderRequest):
    """A request with its templates, lists and sub account applied. `message_field` is the field of the call that the
    message comes from; `unused_fields` are those that the product has no use for; `template_pdf_ignored`: the call's
    own message replaces the PDF of its template."""

    message: str
    style: int
    handwriting_color: str
    handwriting_manner: str
    font_size: str
    own_handwriting: OwnHandwriting = NO_OWN_HANDWRITING
    message_field: str = "message"
    front: ContentSource | None = None
    background: ContentSource | None = None
    pages: ContentSource | None = None
    pdf_only: bool = False
    template_pdf_ignored: bool = False
    unused_fields: Sequence[str] = ()
    brand: OrderBranding | None = None
    logo: ContentSource | None = None
    qr_source: ContentSource = ContentSource("qrcode_url")
    gift: GiftcardChoice | None = None
    landing_source: ContentSource | None = None
    """Where the URL of the gift's landing page comes from."""

    @classmethod
    def of(cls, source: "OrderRequest | Order", **values: Any) -> Self:
        """Copies what the source has by the same names."""
        names = {f.name for f in fields(cls)} & {f.name for f in fields(source)}
        return cls(**{name: getattr(source, name) for name in names} | values)

    @property
    def handwriting(self) -> Handwriting:
        return Handwriting(self.style, self.handwriting_color, self.handwriting_manner, self.font_size)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayRequest:
    """An order sent again: to these recipients, or else to the same."""

    order_id: int
    recipients: Sequence[Mapping[str, str | None]] | None = None
    schedule_for: datetime | None = None
    metadata: str | None = None
    copy_metadata: bool = False
    allows_repeats: bool = False

    @classmethod
    def for_one(cls, order_id: int, recipient: Mapping[str, str | None]) -> Self:
        return cls(order_id=order_id, recipients=[recipient], copy_metadata=True, allows_repeats=True)

    def options_for(self, order: "Order") -> dict[str, Any]:
        """What it changes, by the names of a request."""
        return {
            "schedule_for": self.schedule_for,
            "metadata": order.metadata if self.copy_metadata else self.metadata,
            "allow_duplicates": self.allows_repeats,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    id: int
    account_id: int
    sub_account_id: int | None
    mode: str
    type: str
    size: str | None
    piece: str
    mail_class: str
    status: OrderStatus
    method: str
    message: str
    message_template_id: int | None
    image_template_id: int | None
    style: int
    handwriting_color: str
    handwriting_manner: str
    font_size: str
    signature_id: int | None
    front_image_url: str | None
    front_file_id: UUID | None
    background_url: str | None
    background_file_id: UUID | None
    pages_url: str | None
    pages_file_id: UUID | None
    pdf_only: bool
    brand: OrderBranding | None
    logo_file_id: UUID | None
    qrcode_url: str | None
    return_address: ReturnAddress
    sender: SenderName
    append_or_current_resident: bool
    allow_duplicates: bool
    mailing_list_ids: list[int]
    notification_emails: list[str]
    metadata: str | None
    creative_key: UUID | None
    audience_pending: bool
    total_estimated_recipients: int
    recipient_count: int
    authorization_total: int
    order_total: int
    leads_fee: int
    gift: GiftcardChoice | None
    gift_total: int
    status_counts: dict[ItemStatus, int]
    n_lost: int
    """Failed after the carrier had them."""
    n_mailed: int
    """Handed to the carrier, or seen by it."""
    total_scans: int
    multi_scans: int
    warnings: list[Message]
    hold_reasons: list[Message]
    lowest_dpi: int | None
    lowest_contrast: float | None
    schedule_for: datetime | None
    due_at: datetime
    created_at: datetime
    updated_at: datetime

    @classmethod
    def of(cls, row: sa.Row[Any]) -> Self:
        columns = row._mapping  # built again by each access
        return cls(
            **{name: columns[name] for name in _PLAIN_COLUMNS}
            | {
                "status": OrderStatus(row.status),
                "status_counts": {status: columns[name] for status, name in _COUNT_COLUMNS.items()},
                "brand": OrderBranding(**row.branding) if row.branding is not None else None,
                "gift": None
                if row.giftcard_brand is None
                else GiftcardChoice(**{name: columns[column] for name, column in GIFT_COLUMNS.items()}),
                "sender": SenderName(row.sender_name, row.sender_company),
                "return_address": ReturnAddress(**{name: columns[column] for name, column in RETURN_COLUMNS.items()}),
            }
        )

    @property
    def handwriting(self) -> Handwriting:
        return Handwriting(self.style, self.handwriting_color, self.handwriting_manner, self.font_size)

    @property
    def is_cancellable(self) -> bool:
        return self.status.is_held_back

    @property
    def has_background(self) -> bool:
        """Whether a picture lies under the message, of the order or of its items."""
        return self.background_file_id is not None or self.background_url is not None

    @property
    def grand_total(self) -> int:
        return self.order_total + self.leads_fee + self.gift_total

    @property
    def not_mailed(self) -> int:
        """Recipients without an item that is mailed; while lists are pending, as counted when it was sent."""
        if self.status.is_stopped:
            return self.recipient_count
        if self.audience_pending:
            return self.recipient_count - self.total_estimated_recipients
        return self.status_counts[ItemStatus.FAILED] - self.n_lost

    @property
    def pieces(self) -> int:
        """Items that were or will be mailed."""
        return self.recipient_count - self.not_mailed

    @property
    def total_recipients(self) -> int:
        """Zero until the review has ended."""
        return 0 if self.status.is_held_back else self.pieces


def can_repeat(source: ResolvedRequest | Order | sa.Row[Any]) -> bool:
    """Whether one creative may reach an address again at once; a gift card always may."""
    return bool(source.allow_duplicates) or source.type == "giftcard"


GIFT_COLUMNS = {
    "brand": "giftcard_brand", "title": "giftcard_title", "accent": "giftcard_accent", "cents": "giftcard_amount",
    "landing_page_url": "landing_page_url",
}  # fmt: skip
RETURN_COLUMNS = {f.name: f"return_{f.name}" for f in fields(ReturnAddress)}
"""The columns of a `GiftcardChoice`, and of a `ReturnAddress`, by their fields."""
_PLAIN_COLUMNS = [f.name for f in fields(Order) if f.name in orders.c]
_COUNT_COLUMNS = {status: f"n_{status.count_name}" for status in ItemStatus}
