"""Sending mail."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal, NotRequired, Unpack

from typing_extensions import TypedDict

from quillpost.client.accounts import SubAccount
from quillpost.client.mailing_lists import RadiusSearch
from quillpost.client.recipients import InlineRecipient
from quillpost.client.requests import Kind, Request, Resource, operation
from quillpost.client.types import Doc, Id, Money, PlainTimestamp

PieceName = Literal["postcard", "windowed-letter", "windowless-letter", "notecard", "giftcard", "magnacard"]
FontSize = Literal["auto", "large", "medium", "small"]
Manner = Literal["neat", "natural", "lively"]


class SendTerms(TypedDict, total=False):
    """What sends and replays have in common."""

    recipients: Sequence[InlineRecipient]
    schedule_for: datetime | str
    metadata: Mapping[str, Any]
    allow_duplicates: bool


class AnySend(SendTerms, total=False):
    """What every send may say: whom to, what, how, and from whom."""

    mailing_list_ids: Sequence[Id]
    radius_search: RadiusSearch
    front_image_url: str
    image_template: Id
    message: str
    message_template: Id
    use_custom_background: bool
    send_standard_mail: bool
    handwriting_style: Id
    handwriting_color: str
    handwriting_realism: bool
    handwriting_manner: Manner
    font_size: FontSize
    signature: Id
    qrcode_url: str
    sub_account_id: Id
    notification_emails: Sequence[str]
    return_name: str
    return_address: str
    return_address2: str
    return_city: str
    return_state: str
    return_postal_code: str
    append_or_current_resident: bool
    preview_recipient: int


class CardSend(AnySend, total=False):
    """A notecard or a magnacard."""

    custom_background_image: str


class PostcardSend(CardSend, total=False):
    size: Literal["4x6", "6x9", "6x11"]


class LetterSend(AnySend, total=False):
    additional_pages_url: str
    pdf_only_url: str


class GiftcardSend(AnySend, total=False):
    """A card of one of `giftcards.brands()`; the amount is in cents."""

    giftcard_brand: str
    giftcard_amount: int
    landing_page_url: str


class PieceSend(PostcardSend, LetterSend, GiftcardSend, total=False):
    """Any piece: what is not used for it is named in `ignored_fields`."""


class SendResponse(TypedDict):
    id: int
    total_estimated_recipients: int
    authorization_total: Annotated[int, Doc("Held for this order, in cents.")]
    leads_fee: Money
    mailing_list_ids_used: str
    handwriting_color: str
    front_image: str
    message: str
    append_or_current_resident: bool
    type: str
    size: str | None
    return_name: str | None
    return_address: str | None
    return_address2: str | None
    return_city: str | None
    return_province: str | None
    return_postal_code: str | None
    message_template_id: int | None
    image_template_id: int | None
    method: str
    sub_account_id: int | None
    sub_account: SubAccount | None
    font_size: str
    qrcode_url: str | None
    custom_background_url: str | None
    giftcard_brand: str | None
    giftcard_image: str | None
    giftcard_amount: int | None
    giftcard_brand_longname: str
    status: str
    display_status: str
    display_trigger: str
    display_type: str
    style: int
    user_id: int
    created_at: PlainTimestamp
    updated_at: PlainTimestamp
    recipients: list[dict[str, str | None]]


class PreviewData(TypedDict):
    previews: Annotated[list[str], Doc("PNGs, one a side or a page. They need no token and last a week.")]
    sides: Annotated[list[str], Doc("What each of them shows.")]
    envelope: NotRequired[Annotated[str, Doc("The envelope, where the piece goes in one.")]]
    warnings: Annotated[list[str], Doc("What deserves a look; X-Warnings says the same.")]


class PreviewResponse(TypedDict):
    """What a send with `preview` = true answers: no order is made."""

    success: bool
    code: int
    message: str
    data: PreviewData


class EstimateData(TypedDict):
    type: str
    total_recipients: Annotated[int, Doc("How many would be mailed to.")]
    suppressed: Annotated[int, Doc("On a suppression list.")]
    duplicates: Annotated[int, Doc("Twice in the audience, or mailed the same within 36 hours.")]
    undeliverable: Annotated[int, Doc("Without an address, or where we do not deliver.")]
    unit_price: Money
    leads_fee: Money
    giftcard_total: Annotated[int, Doc("What all the gift cards are worth, in cents.")]
    authorization_total: Money
    test_mode: bool
    warnings: Annotated[list[str], Doc("What deserves a look; X-Warnings says the same.")]


class EstimateResponse(TypedDict):
    message: str
    data: EstimateData


class StoredSend(TypedDict):
    stored_send_url: Annotated[str, Doc("GET or POST it with the same account's token to send.")]


class Embed(TypedDict):
    url: Annotated[str, Doc("The address of the frame. Whoever has it can write sends for your account.")]
    expires_at: Annotated[str, Doc("When it is good no more.")]


class EmbedOptions(TypedDict, total=False):
    piece: str
    message: str
    sub_account_id: int
    mailing_list_ids: Sequence[int]
    expires_in: int


class Send(Resource[Kind]):
    """Each makes an order of everyone in the audience and answers with it."""

    @operation("POST /send/{piece}")
    def piece(
        self, piece: PieceName, *, idempotency_key: str | None = None, **body: Unpack[PieceSend]
    ) -> Request[SendResponse]:
        """Send a piece whose kind is known only when the program runs."""
        return Request(piece, body=body, idempotency_key=idempotency_key)

    @operation("POST /send/postcard")
    def postcard(self, *, idempotency_key: str | None = None, **piece: Unpack[PostcardSend]) -> Request[SendResponse]:
        """Send a postcard."""
        return Request(body=piece, idempotency_key=idempotency_key)

    @operation("POST /send/windowed-letter")
    def windowed_letter(
        self, *, idempotency_key: str | None = None, **piece: Unpack[LetterSend]
    ) -> Request[SendResponse]:
        """Send a letter whose envelope has a window."""
        return Request(body=piece, idempotency_key=idempotency_key)

    @operation("POST /send/windowless-letter")
    def windowless_letter(
        self, *, idempotency_key: str | None = None, **piece: Unpack[LetterSend]
    ) -> Request[SendResponse]:
        """Send a letter whose envelope is addressed by hand."""
        return Request(body=piece, idempotency_key=idempotency_key)

    @operation("POST /send/notecard")
    def notecard(self, *, idempotency_key: str | None = None, **piece: Unpack[CardSend]) -> Request[SendResponse]:
        """Send a folded notecard in an envelope."""
        return Request(body=piece, idempotency_key=idempotency_key)

    @operation("POST /send/giftcard")
    def giftcard(self, *, idempotency_key: str | None = None, **piece: Unpack[GiftcardSend]) -> Request[SendResponse]:
        """Send a folded card with a gift card inside."""
        return Request(body=piece, idempotency_key=idempotency_key)

    @operation("POST /send/magnacard")
    def magnacard(self, *, idempotency_key: str | None = None, **piece: Unpack[CardSend]) -> Request[SendResponse]:
        """Send a card with a magnet."""
        return Request(body=piece, idempotency_key=idempotency_key)
