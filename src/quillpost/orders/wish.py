"""What a caller wants mailed, with templates and sub accounts looked up and nothing stored yet."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from quillpost.composition.content import ReturnAddress
from quillpost.creative.shelf import ShelfFile
from quillpost.leads.rules import Search

API = "api"
"""The method of an order that a program has sent."""

CAMPAIGN = "Campaign"
"""The method of an order that an automation has made."""

CARD_BUILDER = "Card Builder"
"""The method of one that somebody has composed on our pages."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where a picture, a PDF or a QR code comes from: a file on the shelf, or else its address.

    `field` is what the caller would have to change; `part` says which part of it, where it is a reference.
    """

    field: str
    url: str | None = None
    file: ShelfFile | None = None
    part: str = ""


@dataclass(frozen=True, slots=True)
class Brand:
    """A sub account's branding, as a front without art shows it."""

    accent: str | None = None
    company: str | None = None
    contact: str | None = None
    disclaimer: str | None = None


@dataclass(frozen=True, slots=True)
class Gift:
    """The card that every piece brings: of a brand as the catalogue had it, and where it first leads."""

    brand: str
    title: str
    accent: str
    cents: int
    landing_page_url: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """`unused` are the fields of the call that this piece has no use for; `pdf_left_out` says that its
    template is made of a PDF alone, and that the call's own message stands for it. `on_list` is where its
    people are, where an automation has chosen them from a list."""

    type: str
    size: str | None
    piece: str
    message: str
    style: int
    handwriting_color: str
    handwriting_realism: bool
    font_size: str
    message_field: str = "message"
    recipients: Sequence[Mapping[str, str | None]] = ()
    mailing_list_ids: Sequence[int] = ()
    radius: Search | None = None
    sub_account_id: int | None = None
    message_template_id: int | None = None
    image_template_id: int | None = None
    front: Source | None = None
    background: Source | None = None
    pages: Source | None = None
    pdf_only: bool = False
    pdf_left_out: bool = False
    unused: Sequence[str] = ()
    brand: Brand | None = None
    logo: Source | None = None
    qrcode_url: str | None = None
    qrcode_field: str = "qrcode_url"
    qrcode_part: str = ""
    return_address: ReturnAddress = field(default_factory=ReturnAddress)
    mail_class: str = "first"
    append_or_current_resident: bool = False
    allow_duplicates: bool = False
    notification_emails: Sequence[str] = ()
    metadata: str | None = None
    schedule_for: datetime | None = None
    preview_recipient: int | None = None
    method: str = API
    on_list: int | None = None
    gift: Gift | None = None
    landing: Source | None = None
    """Where the address of the gift's landing page comes from."""

    @property
    def code(self) -> Source:
        """Where the QR code's address comes from."""
        return Source(self.qrcode_field, self.qrcode_url, part=self.qrcode_part)
